"""Hooks that see what a learner is about to learn from, and change it."""

from dataclasses import replace

import pytest
import torch

from rookery import (
    A2CConfig,
    APPOConfig,
    DDPGConfig,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    PQNConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
    Trainer,
)
from rookery.extend import BatchHook

ON_POLICY = [
    PPOConfig(fragment_length=32, epochs=1),
    A2CConfig(),
    IMPALAConfig(),
    APPOConfig(fragment_length=32),
    ReinforceConfig(),
    PQNConfig(fragment_length=32),
]
FROM_REPLAY = [DQNConfig(), SACConfig(), DDPGConfig(), TD3Config()]


class Counts(BatchHook):
    def __init__(self):
        self.seen = {"before_targets": 0, "before_update": 0}

    def before_targets(self, learner, rollout, rollouts):
        self.seen["before_targets"] += rollout.num_decisions
        assert rollouts[learner.name].num_decisions == rollout.num_decisions
        return rollout

    def before_update(self, learner, batch):
        self.seen["before_update"] += 1
        assert learner.cfg is not None
        return batch


class Unpaid(BatchHook):
    """Takes all rewards away."""

    def before_targets(self, learner, rollout, rollouts):
        return replace(rollout, reward=torch.zeros_like(rollout.reward))


@pytest.mark.parametrize("cfg", [*ON_POLICY, *FROM_REPLAY], ids=lambda cfg: type(cfg).__name__)
def test_every_algorithm_asks(cfg):
    env = "CartPole-v1" if isinstance(cfg, (*map(type, ON_POLICY), DQNConfig)) else "Pendulum-v1"
    settings = {"sampling.iteration_steps": 1024}
    if cfg in FROM_REPLAY:
        settings |= {"algorithm.learning_starts": 64, "algorithm.batch_size": 16, "sampling.iteration_steps": 128}
    with Trainer(env, cfg, num_envs=4, seed=0, config=settings) as trainer:
        counts = Counts()
        trainer.learners["main"].hooks.append(counts)
        trainer.train_iteration()
        assert counts.seen["before_targets"] == trainer._decisions["main"]
        assert counts.seen["before_update"] >= 1


def weights(hooks, cfg=ON_POLICY[0]):
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
        trainer.learners["main"].hooks += hooks
        row = trainer.train_iteration().policies["main"].learning
        return torch.cat([weight.flatten() for weight in trainer.policies["main"].parameters()]).detach(), row


def test_to_look_changes_nothing_and_to_change_does():
    (plain, row), (watched, _), (unpaid, other) = weights([]), weights([Counts()]), weights([Unpaid()])
    assert torch.equal(plain, watched)
    assert not torch.equal(plain, unpaid)
    assert other["value_loss"] < 0.1 * row["value_loss"]
