"""Every test runs torch on one thread: with two, small networks are many times slower beside a second test process.

And none measures how many helpers would be worth it, unless it says so: what the machine does besides decides nothing.
"""

import pytest
import torch

from rookery.core.native import FOLDER, SWITCH, best_build, candidates
from rookery.envs import choice

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    monkeypatch.setattr(choice, "usable_cores", lambda: 1)


@pytest.fixture(params=candidates())
def kernels(request, monkeypatch):
    """Each build that this processor can run, in turn, as the one that runs."""
    if not (FOLDER / f"{request.param}.so").exists():
        pytest.skip(f"no kernels for {request.param} here")
    monkeypatch.setenv(SWITCH, request.param)
    best_build.cache_clear()
    yield best_build()
    monkeypatch.undo()
    best_build.cache_clear()
