"""Walks: how much a reader has to open to follow one thing through the code. They must not grow."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

from count_walks import Walk, measure  # noqa: E402

MOST = {
    "PPO, learn side (torch)": Walk(7, 22, 293),
    "PPO, whole iteration (torch)": Walk(12, 44, 625),
    "PPO, whole iteration (kernels)": Walk(15, 44, 828),
    "DQN, whole iteration (torch)": Walk(16, 54, 621),  # with stops between its gradient steps
    "gamma, from the command line to gae": Walk(10, 15, 540),
}
"""The most that each may come to; docs/design.md says what was aimed at."""

WALKS = json.loads((ROOT / "docs" / "walks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MOST)
def test_a_walk_does_not_grow(name):
    found = measure(WALKS[name], ROOT / "src" / "rookery")
    assert found.files <= MOST[name].files
    assert found.functions <= MOST[name].functions
    assert found.lines <= MOST[name].lines


def test_a_function_that_is_gone_is_missed():
    with pytest.raises(KeyError, match=r"core/ops\.py:gone"):
        measure({"core/ops.py": ["gone"]}, ROOT / "src" / "rookery")
