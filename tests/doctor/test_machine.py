"""`machine_report`: it says what is used and why nothing better is, and shows no secrets."""

import json
import tomllib
from pathlib import Path

import pytest

from rookery.core import native
from rookery.doctor import machine
from rookery.doctor.machine import EXTRAS, machine_report


def test_every_extra_is_in_the_report():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert EXTRAS.keys() == project["project"]["optional-dependencies"].keys()


def test_a_report_has_all_sections_as_text_and_as_json(tmp_path):
    report = machine_report(tmp_path)
    facts = json.loads(report.to_json())
    assert {"versions", "torch", "kernels", "compilers", "cpu", "memory", "disk", "extras", "keys", "ports"} <= set(
        facts
    )
    assert facts["disk"]["written, MB/s"] > 0 and facts["disk"]["a flush, ms"] >= 0
    assert any(line.startswith("kernels ") for line in report.lines())
    assert list(tmp_path.iterdir()) == []


def test_a_report_has_no_environment_variables_and_the_home_folder_as_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("API_TOKEN", "s3cret-token")
    monkeypatch.setenv("CXX", "/opt/s3cret-place/c++")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    key = tmp_path / ".config" / "rookery" / "signing-key"
    key.parent.mkdir(parents=True)
    key.write_text("s3cret-key")
    text = machine_report(tmp_path / "runs").to_json()
    assert "s3cret" not in text
    assert str(tmp_path) not in text
    assert json.loads(text)["disk"]["folder"] == "~"


def test_the_report_says_why_there_are_no_better_kernels(tmp_path, monkeypatch):
    native.best_build.cache_clear()
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    try:
        report = machine_report(tmp_path)
    finally:
        native.best_build.cache_clear()
    assert report.facts["kernels"]["build"] == "none"
    (found,) = [one for one in report.findings if one.rule == "kernels-missing"]
    assert "not built" in found.evidence[0] and "setup.py build_ext" in found.remedies[0]


def test_kernels_that_a_variable_turns_off_are_not_missing(tmp_path, monkeypatch):
    native.best_build.cache_clear()
    monkeypatch.setenv(native.SWITCH, "0")
    try:
        facts = machine._kernels()
    finally:
        native.best_build.cache_clear()
    assert facts == {"build": "none", "reason": f"the variable {native.SWITCH} chooses it"}


@pytest.mark.parametrize(("free", "severity"), [(1, "warning"), (0.01, "error"), (100, None)])
def test_a_disk_that_is_near_full_is_a_finding(free, severity, tmp_path, monkeypatch):
    usage = type("Usage", (), {"total": 200 * 2**30, "free": int(free * 2**30)})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda folder: usage)
    found = [one.severity for one in machine_report(tmp_path).findings if one.rule == "disk-full"]
    assert found == [severity] * (severity is not None)
