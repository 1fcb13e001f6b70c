"""`loss_findings`: finds losses whose rows get the targets of other rows, or that ignore a column, and no others."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch.nn import functional

from rookery import PPO, PPOConfig, Trainer
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.doctor.inside.losses import is_own_loss, loss_findings
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


def of_its_own_network(outputs, batch, cfg):
    """The old log-probabilities are those of the network in training."""
    now = replace(batch, logp=outputs.distribution.log_prob(batch.action))
    return right(outputs, now, cfg)


def detached_network(outputs, batch, cfg):
    """The same without their gradient: a policy gradient whose ratio is always 1."""
    now = replace(batch, logp=outputs.distribution.log_prob(batch.action).detach())
    return right(outputs, now, cfg)


def values_detached(outputs, batch, cfg):
    return common(outputs, batch, cfg, functional.mse_loss(outputs.value.detach(), batch.value_target))


def policy_gradient(outputs, batch, cfg):
    """A loss without a ratio, which reports how far the policy has moved."""
    logp = outputs.distribution.log_prob(batch.action)
    loss = -(logp * batch.advantage).mean() + functional.mse_loss(outputs.value, batch.value_target)
    return loss, {"kl": (batch.logp - logp).detach()}


def cloning(outputs, batch, cfg):
    """Behaviour cloning, which looks at advantages in metrics only."""
    logp = outputs.distribution.log_prob(batch.action)
    return -logp.mean(), {"kl": torch.zeros(()), "advantage": batch.advantage.mean()}


class Own(PPO):
    """PPO with the loss of its settings."""

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        self.loss = LOSSES[cfg.which]


LOSSES = {
    one.__name__: one
    for one in (right, weighted, spread_values, spread_by_torch, spread_advantages, ppo_loss)
    + (of_its_own_network, detached_network, values_detached, policy_gradient, cloning)
}


@dataclass(frozen=True)
class OwnConfig(PPOConfig):
    algorithm: ClassVar[str] = f"{__name__}:Own"
    which: str = "right"


def found_by(which, **given):
    cfg = OwnConfig(which=which, fragment_length=32, **given)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, console="quiet") as trainer:
        return loss_findings(trainer, time.monotonic() + 60.0)


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


@pytest.mark.parametrize("which", ["right", "weighted", "ppo_loss", "policy_gradient", "cloning"])
def test_means_over_rows_and_statistics_of_a_batch_are_no_fault(which):
    assert found_by(which) == []


@pytest.mark.parametrize(
    ("which", "columns", "severity"),
    [
        ("of_its_own_network", "batch.advantage and batch.logp", "error"),
        ("detached_network", "batch.logp", "warning"),
        ("values_detached", "batch.value_target", "error"),
    ],
)
def test_a_loss_that_ignores_a_column_is_found_and_named(which, columns, severity):
    (found,) = found_by(which)
    assert (found.rule, found.severity) == ("loss-ignores-column", severity)
    assert found.message == f"the loss {which} does not learn from {columns}"


def test_a_single_pass_needs_no_old_log_probabilities():
    assert found_by("detached_network", epochs=1) == []


def test_losses_of_the_library_are_not_looked_at():
    with Trainer("CartPole-v1", PPOConfig(), num_envs=4, seed=0, console="quiet") as trainer:
        assert loss_findings(trainer, time.monotonic() + 60.0) == []
        assert trainer.iteration == 0
    assert is_own_loss(partial(right)) and not is_own_loss(partial(ppo_loss))


def test_weights_are_those_of_before():
    with Trainer("CartPole-v1", OwnConfig(which="spread_values"), num_envs=4, seed=0, console="quiet") as trainer:
        before = [one.clone() for one in trainer.policies["main"].parameters()]
        assert loss_findings(trainer, time.monotonic() + 60.0)
        assert all(torch.equal(*pair) for pair in zip(before, trainer.policies["main"].parameters(), strict=True))


def test_an_algorithm_that_raises_has_no_finding(monkeypatch):
    monkeypatch.setattr(Own, "training_step", lambda self, rollout: 1 / 0)
    assert found_by("spread_values") == []
