"""Cores for this process: those of its affinity, or fewer where the environment says so."""

import os
import sys
import time

import pytest
import torch

from rookery.core.errors import ConfigError
from rookery.core.process.cpu import _openmp, end_busy_waits, usable_cores
from rookery.core.process.torch_modes import torch_threads


def test_the_environment_can_only_lower_the_number_of_cores(monkeypatch):
    monkeypatch.delenv("ROOKERY_CORES", raising=False)
    there = usable_cores()
    assert 1 <= there <= (os.cpu_count() or 1)
    monkeypatch.setenv("ROOKERY_CORES", "1")
    assert usable_cores() == 1
    monkeypatch.setenv("ROOKERY_CORES", str(there + 5))
    assert usable_cores() == there


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5"])
def test_no_number_of_cores_is_refused(wrong, monkeypatch):
    monkeypatch.setenv("ROOKERY_CORES", wrong)
    with pytest.raises(ConfigError, match=f"ROOKERY_CORES = {wrong}: it must be a whole number from 1 on"):
        usable_cores()


def test_threads_that_wait_are_ended_and_begin_anew():
    with torch_threads(2):
        numbers = torch.arange(2_000_000.0)
        expected = numbers + 1  # large enough for two threads
        for _ in range(3):
            end_busy_waits()
            assert torch.equal(numbers + 1, expected)
            assert torch.get_num_threads() == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_a_thread_of_an_operation_is_gone_after_its_wait_was_ended():
    def ends_some() -> bool:
        numbers + 1
        before = len(os.listdir("/proc/self/task"))
        end_busy_waits()
        for _ in range(100):
            if len(os.listdir("/proc/self/task")) < before:
                return True
            time.sleep(0.01)
        return False

    numbers = torch.arange(2_000_000.0)
    with torch_threads(2):
        assert ends_some() == (_openmp() is not None)
    with torch_threads(1):
        assert not ends_some()
