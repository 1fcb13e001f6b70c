"""Every test runs torch on one thread: with two, small networks are many times slower beside a second test process.

And none measures how many helpers would be worth it, unless it says so: what the machine does besides decides nothing.
"""

import pytest
import torch

from rookery.envs import choice

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    monkeypatch.setattr(choice, "usable_cores", lambda: 1)
