"""Learners of values without a trainer, and what they are fed with."""

import math

import numpy as np
import torch
from gymnasium import spaces

from rookery.algorithms.off_policy.dqn import DQN, DQNConfig
from rookery.core.batch import Rollout
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.policies.policy import Policy

NUMBERS, THREE = spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(3)
MASKED = spaces.Dict({"number": NUMBERS, MASK: spaces.MultiBinary(3)})


def learner(obs=NUMBERS, action=THREE, seed=0, **settings):
    """A DQN of its own."""
    settings.setdefault("model", {"hidden": (16,)})
    cfg = DQNConfig(**settings)
    generator = torch.Generator().manual_seed(seed)
    specs = obs_spec(obs, action), action_spec(action)
    policy = Policy(*specs, cfg.model, name="hero", generator=generator, head=cfg.head)
    return DQN(policy, cfg, Streams(seed), "hero")


def fresh(length, **columns):
    """A rollout of slots that all begin an episode in its first row.

    Args:
        length: Decisions of each slot.
        columns: The rest of the rollout.
    """
    slots = len(length)
    return Rollout(
        **columns,
        length=length,
        slot=torch.arange(slots),
        clock=torch.zeros(slots, dtype=torch.int64),
        first=torch.ones(slots, dtype=torch.bool),
        version=torch.zeros(slots, dtype=torch.int64),
    )


def fragments(T, F, seed=0, masked=False, ends=0.1, cuts=0.1, memory=None, length=None):
    """A rollout of random numbers, with ends of both sorts."""
    rng = np.random.default_rng(seed)

    def seen(*shape):
        tree = {"number" if masked else "obs": torch.from_numpy(rng.normal(size=(*shape, 2)).astype(np.float32))}
        if masked:
            mask = rng.random((*shape, 3)) < 0.6
            mask[..., 0] |= ~mask.any(-1)
            tree[MASK] = torch.from_numpy(mask)
        return tree

    chance = torch.from_numpy(rng.random((T, F)))
    terminated, truncated = chance < ends, (chance >= ends) & (chance < ends + cuts)
    length = torch.full((F,), T) if length is None else torch.tensor(length)
    valid = torch.arange(T).unsqueeze(1) < length
    boot = (truncated & valid).nonzero()
    return fresh(
        length,
        obs=seen(T, F),
        action=torch.from_numpy(rng.integers(3, size=(T, F))),
        logp=torch.full((T, F), -math.log(3)),
        reward=torch.from_numpy(rng.normal(size=(T, F)).astype(np.float32)),
        terminated=terminated,
        truncated=truncated,
        last_obs=seen(F),
        final_obs=seen(len(boot)),
        boot_index=boot,
        memory=memory,
        memory_every=T if memory is not None else 1,
    )
