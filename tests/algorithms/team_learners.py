"""Learners of teams without a trainer, and what they are fed with."""

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.batch import Transitions
from rookery.core.seeding import Streams
from rookery.core.settings.layers import import_object
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.core.spaces.team_spaces import ALIVE, team_specs

NUMBERS, TWO, THREE = spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(2), spaces.Discrete(3)
MASKED = spaces.Dict({"number": NUMBERS, MASK: spaces.MultiBinary(3)})
REACH = spaces.Box(-1.0, 1.0, (2,), np.float32)


def team(*members):
    """Layouts of a team of such (observation, action) spaces."""
    return team_specs([(obs_spec(obs, action), action_spec(action)) for obs, action in members])


def learner(cfg, specs, seed=0):
    """An algorithm on a policy of its own."""
    generator = torch.Generator().manual_seed(seed)
    policy = cfg.build_policy(*specs, "hero", generator)
    return import_object(cfg.algorithm)(policy, cfg, Streams(seed), "hero")


def drawn(specs, rows=40, seed=0, alive=0.7):
    """Decisions as replay gives them, of random numbers; at least one member acts in each."""
    obs, action = specs
    rng = np.random.default_rng(seed)

    def seen():
        tree = {}
        for leaf in obs.leaves:
            if leaf.path == MASK:
                flags = rng.random((rows, *leaf.shape)) < 0.6
                flags[:, np.cumsum((0, *leaf.sizes[:-1]))] = True
                tree[MASK] = torch.from_numpy(flags)
            elif leaf.kind == "box":
                tree[leaf.path] = torch.from_numpy(rng.normal(size=(rows, *leaf.shape)).astype(np.float32))
        there = rng.random((rows, len(action.space.spaces))) < alive
        there[:, 0] |= ~there.any(1)
        tree[ALIVE] = torch.from_numpy(there.astype(np.uint8))
        return tree

    choices = [rng.integers(size, size=rows) for size in action.sizes]
    numbers = rng.uniform(-1, 1, (rows, action.num_numbers))
    stored = np.concatenate([np.stack(choices, 1) if choices else np.zeros((rows, 0)), numbers], 1)
    return Transitions(
        seen(),
        torch.from_numpy(stored.astype(np.float32)),
        torch.from_numpy(rng.normal(size=rows).astype(np.float32)),
        seen(),
        torch.from_numpy(np.where(rng.random(rows) < 0.2, 0.0, 0.9).astype(np.float32)),
        None,
        torch.arange(rows),
    )
