"""An algorithm outside the package that learns from replay is an equal: in training, in its halves, in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch

from rookery import Trainer
from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig
from rookery.core.flat import flatten
from rookery.core.optim import Adam, gradient_step
from rookery.models.build import ModelConfig
from rookery.models.q_head import QValues
from rookery.replay.buffer import ReplayConfig
from rookery.replay.replay import Replay, ReplaySettings


@dataclass(frozen=True)
class PlainQConfig(AlgorithmConfig, ReplaySettings):
    """Settings of Q-learning without a target network."""

    algorithm: ClassVar[str] = f"{__name__}:PlainQ"

    lr: float = 1e-3
    gamma: float = 0.9
    batch_size: int = 8
    learning_starts: int = 20
    train_every: int = 4
    updates_per_step: float = 0.5
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=100))
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(8,)))

    @property
    def head(self) -> QValues:
        return QValues()


def td_loss(values, batch, cfg):
    rows, target = batch
    error = values.gather(1, rows.action[:, None]).squeeze(1) - target
    return error.square().mean(), {"td_error": error.detach().abs().mean()}


class PlainQ(Algorithm[PlainQConfig]):
    """Q-learning without a target network."""

    saved = ("optimizer", "replay")
    replay: Replay

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        self.optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=1e-8)
        self.replay = Replay(policy, cfg, streams, name)

    def values(self, obs):
        head: Any = self.policy.head
        return head.values(self.policy.trunk(obs))

    def training_step(self, rollout):
        self.replay.store(rollout)
        self.learn(self.replay.due(rollout.num_decisions))
        self.updates += 1
        return {}

    def learn(self, gradient_steps):
        for _ in range(gradient_steps):
            rows = self.replay.sample(self.cfg.batch_size, n_step=1, gamma=self.cfg.gamma, beta=0.0)
            with torch.no_grad():
                target = rows.reward + rows.discount * self.values(rows.next_obs).amax(1)
            batch = rows, target
            step = gradient_step(lambda batch: self.values(batch[0].obs), td_loss, batch, self.optimizer, self.cfg)
            self.replay.record(step)

    def summary(self):
        return self.replay.summary()


def training(**settings):
    return Trainer("CartPole-v1", PlainQConfig(), num_envs=2, seed=1, iteration_steps=60, console="quiet", **settings)


def weights(trainer):
    return trainer.learners["main"].optimizer.flat.data.clone()


def test_its_pace_is_kept_and_reported():
    with training() as trainer:
        trainer.train({"env_steps": 120})
        replay = trainer.learners["main"].replay
        assert (len(replay.buffer), replay.gradient_steps) == (100, pytest.approx((120 - 20) / 2, abs=2))


def test_it_learns_without_playing_and_plays_without_learning():
    with training() as trainer:
        trainer.collect(40)
        learner, before = trainer.learners["main"], weights(trainer)
        assert (len(learner.replay.buffer), learner.replay.gradient_steps) == (40, 0)
        trainer.learn(10)
        assert (trainer.env_steps, learner.replay.gradient_steps) == (40, 10)
        assert not torch.equal(weights(trainer), before)


def test_its_checkpoints_hold_its_experience(tmp_path):
    with training() as through:
        through.train({"env_steps": 240})
        wanted = weights(through)
    with training(run_dir=tmp_path / "run") as first:
        first.train({"env_steps": 120})
    with Trainer.load(tmp_path / "run", resume=True) as second:
        assert len(second.learners["main"].replay.buffer) == 100
        second.train({"env_steps": 240})
        assert torch.equal(weights(second), wanted)


def test_an_algorithm_without_replay_refuses_to_learn_from_it():
    with Trainer("CartPole-v1", num_envs=1, console="quiet") as trainer:
        with pytest.raises(NotImplementedError, match="PPO"):
            trainer.learners["main"].learn(1)
