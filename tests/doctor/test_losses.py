"""`loss_mixes_rows`: a loss whose rows get the targets of other rows is found, and no other one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch.nn import functional

from rookery import PPO, PPOConfig, Trainer
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.doctor.inside.losses import is_own_loss, loss_mixes_rows
from rookery.run.findings.catalog import RULES


def common(outputs, batch, cfg, value_loss, advantage=None):
    """The clipped objective, with advantages that are normalized in the loss."""
    if advantage is None:
        advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    gain = log_ratio.exp() * advantage
    loss = -gain.mean() + cfg.value_coef * value_loss
    return loss, {"policy_loss": loss.detach(), "kl": (log_ratio.exp() - 1 - log_ratio).detach()}


def right(outputs, batch, cfg):
    return common(outputs, batch, cfg, functional.mse_loss(outputs.value, batch.value_target))


def weighted(outputs, batch, cfg):
    """Weights by a softmax over the rows, as of advantage-weighted regression."""
    advantage = len(batch) * torch.softmax(batch.advantage / batch.advantage.std(), 0)
    targets = (batch.value_target - batch.value_target.mean()) / batch.value_target.std()
    return common(outputs, batch, cfg, functional.smooth_l1_loss(outputs.value, targets), advantage)


def spread_values(outputs, batch, cfg):
    return common(outputs, batch, cfg, (outputs.value[:, 0] - batch.value_target).square().mean())


def spread_by_torch(outputs, batch, cfg):
    return common(outputs, batch, cfg, functional.mse_loss(outputs.value, batch.value_target[:, 0]))


def spread_advantages(outputs, batch, cfg):
    value_loss = functional.mse_loss(outputs.value, batch.value_target)
    return common(outputs, batch, cfg, value_loss, batch.advantage[:, None])


class Own(PPO):
    """PPO with the loss of its settings."""

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        self.loss = LOSSES[cfg.which]


LOSSES = {one.__name__: one for one in (right, weighted, spread_values, spread_by_torch, spread_advantages, ppo_loss)}


@dataclass(frozen=True)
class OwnConfig(PPOConfig):
    algorithm: ClassVar[str] = f"{__name__}:Own"
    which: str = "right"


def found_by(which, **given):
    cfg = OwnConfig(which=which, fragment_length=32, **given)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, console="quiet") as trainer:
        return loss_mixes_rows(trainer, time.monotonic() + 60.0)


@pytest.mark.parametrize(
    ("which", "field", "other"),
    [
        ("spread_values", "value_target", "advantage"),
        ("spread_by_torch", "value_target", "advantage"),
        ("spread_advantages", "advantage", "value_target"),
    ],
)
def test_a_loss_that_broadcasts_rows_is_found_and_named(which, field, other):
    (found,) = found_by(which)
    assert (found.rule, found.severity) == ("loss-mixes-rows", RULES["loss-mixes-rows"].severity)
    assert which in found.message and field in found.message and other not in found.message
    assert any("target size" in line for line in found.evidence) == (which == "spread_by_torch")


@pytest.mark.parametrize("which", ["right", "weighted", "ppo_loss"])
def test_means_over_rows_and_statistics_of_a_batch_are_no_fault(which):
    assert found_by(which) == []


def test_losses_of_the_library_are_not_looked_at():
    with Trainer("CartPole-v1", PPOConfig(), num_envs=4, seed=0, console="quiet") as trainer:
        assert loss_mixes_rows(trainer, time.monotonic() + 60.0) == []
        assert trainer.iteration == 0
    assert is_own_loss(partial(right)) and not is_own_loss(partial(ppo_loss))


def test_weights_are_those_of_before():
    with Trainer("CartPole-v1", OwnConfig(which="spread_values"), num_envs=4, seed=0, console="quiet") as trainer:
        before = [one.clone() for one in trainer.policies["main"].parameters()]
        assert loss_mixes_rows(trainer, time.monotonic() + 60.0)
        assert all(torch.equal(*pair) for pair in zip(before, trainer.policies["main"].parameters(), strict=True))


def test_an_algorithm_that_raises_has_no_finding(monkeypatch):
    monkeypatch.setattr(Own, "training_step", lambda self, rollout: 1 / 0)
    assert found_by("spread_values") == []
