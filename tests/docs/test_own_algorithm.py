"""The algorithm of examples/own_algorithm.py is an equal of those inside the package."""

import json
import sys

import pytest
import torch
from pages import ROOT

from rookery import MultiAgentArena, Trainer

sys.path.append(str(ROOT / "examples"))

from own_algorithm import AWRConfig

from selection import slow

SMALL = AWRConfig(fragment_length=32, epochs=2)


def test_it_learns():
    trainer = Trainer("CartPole-v1", AWRConfig(), num_envs=8, seed=0)
    assert trainer.train(stop={"env_steps": 15_000}).return_mean > 90


def test_a_copy_that_may_not_learn_stays_where_it_was():
    trainer = Trainer("CartPole-v1", AWRConfig(lr=1e-12), num_envs=8, seed=0)
    assert trainer.train(stop={"env_steps": 15_000}).return_mean < 40


@pytest.mark.parametrize("agents", [slow(1), 2])
def test_stopped_and_resumed_it_equals_a_run_that_was_not(tmp_path, agents):
    env, policies = ("CartPole-v1", None) if agents == 1 else (MultiAgentArena, ["agent1", "agent2"])

    def train(run, *until):
        with Trainer(env, SMALL, policies=policies, num_envs=4, seed=5, run_dir=tmp_path / run) as trainer:
            trainer.train(stop={"iterations": until[0]})
        for iterations in until[1:]:
            with Trainer.load(tmp_path / run, resume=True) as trainer:
                trainer.train(stop={"iterations": iterations})
        flats = [learner.optimizer.flat.data for learner in trainer.learners.values()]
        lines = (tmp_path / run / "metrics.jsonl").read_text().splitlines()
        rows = [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]
        return torch.cat(flats), rows

    weights, rows = train("whole", 6)
    other_weights, other_rows = train("halved", 3, 6)
    assert torch.equal(weights, other_weights)
    assert rows == other_rows
    assert len(rows) == 6


def test_every_attribute_is_either_saved_or_fixed():
    trainer = Trainer("CartPole-v1", SMALL, num_envs=2, seed=0)
    trainer.train_iteration()
    learner = trainer.learners["main"]
    assert vars(learner).keys() == {*learner._saved_names(), *learner._fixed_names()}
