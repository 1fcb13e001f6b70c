"""RLlib's example scripts of 2021: the page of the study is whole, and some scripts start where they are given."""

import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks" / "studies"))

import rllib_examples as study  # noqa: E402

FOLDER = os.environ.get("RLLIB_EXAMPLES")
"""Folder ``rllib/examples`` of the wheel ``ray==1.4.0``, unpacked."""

SOME = ("coin_game_env", "complex_struct_space", "custom_observation_filters", "multi_agent_custom_policy")


def rows():
    _, _, section = study.PAGE.read_text(encoding="utf-8").partition(study.TITLE)
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0]: row for row in found if row[0] not in ("script", "---")}


def test_the_page_has_all_scripts_and_a_reason_for_each_that_does_not_start():
    found = rows()
    good = [name for name, row in found.items() if row[2] == "yes"]
    assert len(found) == 60 and f"{len(good)} of 60 scripts start" in study.PAGE.read_text(encoding="utf-8")
    assert f"\n{len(good)} unedited" in (ROOT / "docs" / "from-rllib.md").read_text(encoding="utf-8")
    for name in found.keys() - set(good):
        assert found[name][3].startswith(f"{study.REASONS[name]}: "), name
    assert not set(study.REASONS) & set(good)


@pytest.mark.skipif(FOLDER is None, reason="RLLIB_EXAMPLES names no folder with RLlib's scripts")
@pytest.mark.parametrize("name", SOME)
def test_some_scripts_start_unedited(name):
    path = Path(str(FOLDER)) / f"{name}.py"
    fine, how, _ = study.started(path, study.arguments(path), 300)
    assert fine, how
    assert re.search(rf"\| {name} \|.*\| yes \|", study.PAGE.read_text(encoding="utf-8"))
