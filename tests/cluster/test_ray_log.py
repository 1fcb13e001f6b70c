"""Ray's own output goes to the log of a run, and is kept until there is one."""

from __future__ import annotations

import ctypes
import time

import pytest

from rookery.cluster import address, ray_log
from rookery.core.io import console_output
from rookery.core.io.console_output import survive_lost_output


@pytest.fixture
def no_run(monkeypatch):
    monkeypatch.setattr(console_output, "_run_logs", [])
    monkeypatch.setattr(ray_log, "_held", [])


def read(path, lines):
    until = time.monotonic() + 10
    while not path.exists() or len(found := path.read_text().splitlines()) < lines:
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


@pytest.mark.regression("unclear error", "a lost worker or node put up to 30 lines of Ray's own log on the terminal")
def test_messages_and_errors_of_ray_are_in_the_log_of_the_run_and_not_at_the_terminal(no_run, tmp_path, capfd):
    libc = ctypes.CDLL(None)
    with ray_log.logged_errors():
        theirs = ctypes.c_void_p.in_dll(libc, "stderr").value  # what Ray finds when it connects, and keeps
    ray_log.log_message({"lines": ["\x1b[33mA worker died\x1b[0m or was killed", ""], "pid": "raylet", "is_err": False})
    survive_lost_output(tmp_path / "log.txt")
    libc.fputs(b"[2026-01-01 E 1 1] rpc_client.h:204: Failed to connect\n", ctypes.c_void_p(theirs))
    libc.fputs(b"of this program\n", ctypes.c_void_p.in_dll(libc, "stderr"))
    libc.fflush(None)
    assert read(tmp_path / "log.txt", 2) == [
        "ray: A worker died or was killed",
        "ray: [2026-01-01 E 1 1] rpc_client.h:204: Failed to connect",
    ]
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "of this program\n")


def test_lines_from_before_a_run_has_a_folder_are_in_its_log_when_it_leaves_ray(no_run, monkeypatch, tmp_path):
    connection = pytest.importorskip("rookery.cluster.connection")
    monkeypatch.setattr(connection.ray, "shutdown", lambda: None)
    ray_log.log(address.STARTS)
    survive_lost_output(tmp_path / "log.txt")
    connection.disconnect()
    assert read(tmp_path / "log.txt", 1) == ["ray: starting Ray on this machine"]
