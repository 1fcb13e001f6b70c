"""Rules of a policy's network: rows that depend on each other, random outputs, and actions that are always the same."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import DQNConfig, ModelConfig, PPOConfig, SACConfig, Trainer
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
        inner = torch.tanh(self.between(self.first(obs)))
        if self.fault == "unused":
            return inner
        return torch.tanh(self.second(inner.detach() if self.fault == "detached" else inner))


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
    [("", None), ("reshape", "rows-mixed"), ("mean", "rows-mixed"), ("norm", None), ("drop", None),
     ("noise", "model-random")],
)  # fmt: skip
def test_custom_models_that_mix_rows_or_draw_random_numbers_are_found(fault, rule):
    findings = found(PPOConfig(model={"module": Layers, "module_config": {"fault": fault}}))
    batch = [one for one in findings if one.rule in ("rows-mixed", "model-random")]
    assert [one.rule for one in batch] == ([rule] if rule else [])
    assert all(one.severity == "error" for one in batch)


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


class Board(gymnasium.Env):
    """A piece on a board is to reach another one."""

    observation_space = spaces.Box(0.0, 1.0, (2, 7, 7), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, True, {}


class Looks(nn.Module):
    """A convolution, and perhaps an average over the board."""

    num_features = 32

    def __init__(self, obs_space, pool):
        super().__init__()
        self.look = nn.Conv2d(2, 8, 3, padding=1)
        self.end = nn.AdaptiveAvgPool2d(1) if pool else nn.Identity()
        self.layer = nn.Linear(8 if pool else 8 * 49, 32)

    def forward(self, obs):
        return torch.tanh(self.layer(self.end(torch.relu(self.look(obs))).flatten(1)))


@pytest.mark.parametrize("pool", [True, False])
def test_a_network_that_loses_where_things_are_is_found(pool):
    rng = np.random.default_rng(0)
    boards = np.zeros((400, 2, 49), np.float32)
    boards[np.arange(400)[:, None], [0, 1], rng.integers(49, size=(400, 2))] = 1.0
    model = {"module": Looks, "module_config": {"pool": pool}}
    findings = found(PPOConfig(model=model), boards.reshape(400, 2, 7, 7), Board)
    blind = [one for one in findings if one.rule == "network-blind"]
    assert bool(blind) == pool
    assert all("a standard network 0 %" in one.evidence[0] for one in blind)


def test_a_custom_network_that_has_collapsed_is_not_called_blind():
    with Trainer("CartPole-v1", PPOConfig(model={"module": Layers}), num_envs=2, seed=0) as trainer:
        policy = trainer.policies["main"]
        with torch.no_grad():
            for parameter in policy.trunk.parameters():
                parameter.zero_()
        findings = network_findings("main", policy, {"obs": seen(spaces.Box(-1.0, 1.0, (4,), np.float32))})
    assert "network-blind" not in [one.rule for one in findings]


@pytest.mark.parametrize(("fault", "severity"), [("", None), ("detached", "note"), ("unused", "warning")])
def test_weights_that_no_gradient_reaches_are_found(fault, severity):
    model = ModelConfig(module=Layers, module_config={"fault": fault})
    lines = [one for one in found(PPOConfig(model=model)) if one.rule == "weights-without-gradient"]
    assert [one.severity for one in lines] == [severity] * (severity is not None)
    assert all(("first" if fault == "detached" else "second") in one.message for one in lines)
