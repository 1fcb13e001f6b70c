"""Cores for this process: those of its affinity, or fewer where the environment says so."""

import os

import pytest

from rookery.core.errors import ConfigError
from rookery.core.processor import usable_cores


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
    with pytest.raises(ConfigError, match=f"ROOKERY_CORES = {wrong}: a whole number from 1 on"):
        usable_cores()
