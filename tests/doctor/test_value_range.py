"""`values_bounded`: networks whose action values cannot be the returns of a task are found, and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import DQNConfig, ModelConfig, PPOConfig, Trainer
from rookery.doctor.inside.value_range import values_bounded
from rookery.doctor.returns.episode_returns import EpisodeReturns
from rookery.doctor.returns.plays import Plays

ENDS = {
    "linear": nn.Identity,
    "softmax": lambda: nn.Softmax(dim=-1),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}


class Values(nn.Module):
    """Two layers, a saturating one between them, and an activation at the end."""

    num_values = 0

    def __init__(self, obs_space, action_space, num_outputs, end="linear"):
        super().__init__()
        self.inner, self.outer, self.end = nn.Linear(4, 16), nn.Linear(16, num_outputs), ENDS.get(end, nn.Identity)()
        self.centred = end == "centred"

    def forward(self, obs):
        values = self.end(self.outer(torch.tanh(self.inner(obs))))
        return values - values.mean(dim=-1, keepdim=True) if self.centred else values


def returns(value):
    values = tuple(value + 0.01 * abs(value) * np.linspace(-1.0, 1.0, 16))
    return EpisodeReturns(values, values)


def found(cfg, own, chance, rows=100):
    space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    space.seed(0)
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=0, console="quiet") as trainer:
        policy = trainer.policies["main"]
        before = [one.clone() for one in policy.parameters()]
        seen = {policy.own_spec.leaves[0].path: np.stack([space.sample() for _ in range(rows)])}
        findings = values_bounded("main", policy, seen, Plays(returns(own), returns(chance)))
        assert all(torch.equal(*pair) for pair in zip(before, policy.parameters(), strict=True))
        return findings


def ending(end):
    return DQNConfig(model=ModelConfig(module=Values, module_config={"end": end}, output="action_params"))


@pytest.mark.parametrize(
    ("end", "own", "chance", "severity"),
    [
        ("softmax", 9.5, 19.0, "error"),
        ("softmax", 0.4, 0.2, "warning"),  # returns are in the range, and the sum of values is no return
        ("centred", 9.5, 19.0, "warning"),
        ("sigmoid", 9.5, 19.0, "error"),
        ("sigmoid", 0.4, 19.0, "error"),  # the best policy earns no less than random play
        ("sigmoid", 0.4, 0.2, None),
        ("sigmoid", 0.4, -5.0, None),
        ("tanh", -9.5, -19.0, "error"),
        ("tanh", -0.5, 0.9, None),
        ("relu", -9.5, -19.0, "error"),
        ("relu", 9.5, 19.0, None),
        ("linear", 9.5, 1e6, None),
        ("linear", -9.5, -1e6, None),
    ],
)
def test_values_that_cannot_be_returns_are_found(end, own, chance, severity):
    findings = found(ending(end), own, chance)
    assert [one.rule for one in findings] == ["values-bounded"] * (severity is not None)
    assert [one.severity for one in findings] == [severity] * (severity is not None)


@pytest.mark.parametrize("cfg", [DQNConfig(), PPOConfig()])
def test_heads_of_the_library_are_not_looked_at(cfg):
    assert found(cfg, 1e6, 1e6) == []
