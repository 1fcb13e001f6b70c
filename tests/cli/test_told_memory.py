"""Memory from the command line: it is set like any setting, shown, and refused where it must be."""

from __future__ import annotations

import pytest
from commands import TINY

from rookery import load_policy
from selection import slow


def train(rookery, *words):
    return rookery(
        "train", "StatelessCartPole", "--seed", 3, "--stop", "env_steps=64", *TINY, "--evaluate", 0, "--run-id", "x",
        *words,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [slow("lstm"), slow("gru"), "scan", "attention"])
def test_a_memory_is_asked_for_in_words(rookery, kind, tmp_path):
    words = [f"algorithm.model.memory.{word}" for word in (f"kind={kind}", "size=8", "previous_reward=true")]
    code, _, error = train(rookery, *words)
    assert code == 0, error
    memory = load_policy(tmp_path / "runs" / "x").model.memory
    assert (memory.kind, memory.size, memory.previous_reward) == (kind, 8, True)
    code, out, _ = rookery("explain", "runs/x", "algorithm.model.memory.kind")
    assert code == 0
    assert kind in out
    assert "command line" in out
    code, _, error = rookery("evaluate", "runs/x", "--episodes", 2)
    assert code == 0, error
