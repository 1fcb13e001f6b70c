"""A policy with memory solves tasks that the same policy without memory, trained as long, does not."""

import pytest

from rookery import Trainer
from rookery.models.cells.table import CELLS
from selection import slow

LR = {"algorithm.lr": 1e-3}  # as steep to the end as in runs that are longer
FORGETFUL = {"algorithm.model.memory.kind": "none"}


@pytest.mark.parametrize(
    ("kind", "solved"),
    [*((kind, True) if cell.kernel else slow(kind, True) for kind, cell in CELLS.items()), ("none", False)],
)
def test_a_cue_is_remembered_over_five_steps_after_10000_steps_of_learning(kind, solved):
    model = {"algorithm.model.hidden": (32,), "algorithm.model.memory": {"kind": kind, "size": 32, "context": 8}}
    with Trainer("CueCorridor", config={**LR, **model}, env_config={"length": 5}, preset="auto", seed=0) as trainer:
        trainer.train(stop={"env_steps": 10_000})
        score = trainer.evaluate(100).return_mean
    assert (score >= 0.9) == solved
    assert (score < 0.5) != solved


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "solved"), [({}, True), (FORGETFUL, False)], ids=["memory", "none"])
def test_a_pole_is_kept_up_without_seeing_velocities_after_60000_steps(settings, solved):
    with Trainer("StatelessCartPole", config={**LR, **settings}, preset="auto", seed=0) as trainer:
        score = trainer.train(stop={"env_steps": 60_000}).return_mean
    assert (score >= 150) == solved
    assert (score < 80) != solved


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "solved"), [({}, True), (FORGETFUL, False)], ids=["memory", "none"])
def test_what_was_shown_two_steps_ago_is_repeated_after_30000_steps(settings, solved):
    with Trainer("RepeatAfterMe", config={**LR, **settings}, env_config={"delay": 2}, preset="auto", seed=0) as trainer:
        trainer.train(stop={"env_steps": 30_000})
        score = trainer.evaluate(20).return_mean
    assert (score >= 50) == solved
    assert (score < 15) != solved
