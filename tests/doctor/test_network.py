"""Rules of a policy's network: rows that depend on each other, random outputs, and actions that are always the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import DQNConfig, PPOConfig, SACConfig, Trainer
from rookery.doctor.network import network_findings

ROWS = 100


class Layers(nn.Module):
    """A custom model of two layers, with a fault or without."""

    num_features = 16

    def __init__(self, obs_space, fault=""):
        super().__init__()
        size = obs_space.shape[0]
        self.fault = fault
        self.between = {"norm": nn.BatchNorm1d(16), "drop": nn.Dropout(0.5)}.get(fault, nn.Identity())
        self.first, self.second = nn.Linear(size, 16), nn.Linear(16, 16)

    def forward(self, obs):
        if self.fault == "reshape":
            obs = obs.reshape(obs.shape[1], -1).T
        if self.fault == "mean":
            obs = obs - obs.mean(dim=0)
        if self.fault == "noise":
            obs = obs + torch.rand_like(obs)
        return torch.tanh(self.second(torch.tanh(self.between(self.first(obs)))))


def seen(space, rows=ROWS):
    space.seed(0)
    return np.stack([space.sample() for _ in range(rows)])


def found(algorithm, obs=None, env="CartPole-v1"):
    with Trainer(env, algorithm, num_envs=2, seed=0) as trainer:
        policy = trainer.policies["main"]
        space = spaces.Box(-1.0, 1.0, policy.own_spec.leaves[0].shape, np.float32)
        path = policy.own_spec.leaves[0].path
        before = {name: value.clone() for name, value in policy.state_dict().items()}
        findings = network_findings("main", policy, {path: seen(space) if obs is None else obs})
        after = policy.state_dict()
        assert all(torch.equal(value, after[name]) for name, value in before.items())
        return findings


@pytest.mark.parametrize(
    ("fault", "rule"),
    [("", None), ("reshape", "rows-mixed"), ("mean", "rows-mixed"), ("norm", "rows-mixed"), ("drop", "model-random"),
     ("noise", "model-random")],
)  # fmt: skip
def test_custom_models_that_mix_rows_or_draw_random_numbers_are_found(fault, rule):
    findings = found(PPOConfig(model={"module": Layers, "module_config": {"fault": fault}}))
    batch = [one for one in findings if one.rule in ("rows-mixed", "model-random")]
    assert [one.rule for one in batch] == ([rule] if rule else [])
    assert all(one.severity == "error" for one in batch)
    named = {"norm": "BatchNorm1d", "drop": "Dropout"}.get(fault, "")
    assert not named or named in batch[0].evidence[-1]


@pytest.mark.parametrize(
    "algorithm",
    [
        PPOConfig(model={"memory": {"kind": "lstm"}}),
        PPOConfig(model={"memory": {"frame_stack": 4}}),
        PPOConfig(model={"layer_norm": True}),
        DQNConfig(exploration={"kind": "noisy"}),
        DQNConfig(),
        SACConfig(),
    ],
    ids=["lstm", "stack", "layer norm", "noisy", "dqn", "sac"],
)
def test_networks_of_the_library_keep_rows_apart(algorithm):
    assert not {"rows-mixed", "model-random"} & {one.rule for one in found(algorithm)}


def test_an_action_that_is_always_the_same_is_found():
    class Deaf(Layers):
        def forward(self, obs):
            return super().forward(0.0 * obs)

    assert "action-constant" in [one.rule for one in found(PPOConfig(model={"module": Deaf}))]
    varied = PPOConfig(model={"module": Layers})
    space = spaces.Box(-30.0, 30.0, (4,), np.float32)
    assert "action-constant" not in [one.rule for one in found(varied, seen(space))]
