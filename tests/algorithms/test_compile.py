"""`model.compile`: network and loss as one compiled function change the same weights in the same way."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import A2CConfig, ModelConfig, PPOConfig
from rookery.core import optim
from rookery.core.batch import Minibatch
from rookery.core.optim import gradient_step
from rookery.core.schedules import Linear
from rookery.core.seeding import Streams
from rookery.core.settings.layers import import_object
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.policy import Policy
from selection import slow

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
PICTURE = spaces.Box(0, 255, (8, 8, 1), np.uint8)
CHOICE, FORCE = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)


def learner(cfg, obs, action):
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs_spec(obs, action), action_spec(action), cfg.model, generator=generator)
    return import_object(cfg.algorithm)(policy, cfg, Streams(0), "main")


def batch(obs, action, rows):
    generator = torch.Generator().manual_seed(rows)
    picture = obs.dtype == np.uint8
    return Minibatch(
        obs={
            "obs": torch.randint(0, 256, (rows, *obs.shape), dtype=torch.uint8, generator=generator)
            if picture
            else torch.randn(rows, *obs.shape, generator=generator)
        },
        action=torch.randint(0, 3, (rows,), generator=generator)
        if action is CHOICE
        else torch.randn(rows, 2, generator=generator),
        logp=torch.full((rows,), -1.0),
        advantage=torch.randn(rows, generator=generator),
        value_target=torch.randn(rows, 1, generator=generator),
        value=torch.zeros(rows, 1),
    )


@pytest.mark.parametrize(
    ("make", "obs", "action", "precision"),
    [slow(PPOConfig, PICTURE, CHOICE, "bfloat16"), (A2CConfig, VECTOR, FORCE, "float32")],
)
def test_compiled_steps_give_the_weights_of_plain_ones(make, obs, action, precision, monkeypatch):
    # This back end writes no programs, so it needs no compiler; it takes the same graphs of forward and backward pass,
    # and refuses what does not fit into a single one.
    compiled = torch.compile(
        lambda forward, loss, batch, cfg: loss(forward(batch), batch, cfg), backend="aot_eager", fullgraph=True
    )
    monkeypatch.setattr(optim, "_compiled", lambda: compiled)
    plain, fast = (
        learner(make(model=ModelConfig(hidden=(8,), precision=precision, compile=flag)), obs, action)
        for flag in (False, True)
    )
    for rows in (6, 6):
        for one in (plain, fast):
            metrics = gradient_step(one.forward, one.loss, batch(obs, action, rows), one.optimizer, one.now())
            assert math.isfinite(metrics["grad_norm"])
    assert torch.allclose(plain.optimizer.flat.data, fast.optimizer.flat.data, atol=1e-5)


def test_a_schedule_compiles_a_few_times_and_no_more(monkeypatch):
    compilations = []

    def count(graph, inputs):
        compilations.append(graph)
        return graph.forward

    compiled = torch.compile(
        lambda forward, loss, batch, cfg: loss(forward(batch), batch, cfg), backend=count, fullgraph=True
    )
    monkeypatch.setattr(optim, "_compiled", lambda: compiled)
    cfg = PPOConfig(clip=Linear(0.2, 0.0), model=ModelConfig(hidden=(8,), compile=True))
    one = learner(cfg, VECTOR, CHOICE)
    one.horizon = 1000
    for step in range(0, 1000, 100):
        one.env_steps = step
        gradient_step(one.forward, one.loss, batch(VECTOR, CHOICE, 6), one.optimizer, one.now())
    assert 1 <= len(compilations) <= 4  # constant, then two guesses at what changes, for ten values
