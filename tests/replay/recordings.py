"""Made-up recordings of any spaces, and how two are compared number by number."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.recording import RecordedEpisode, Recording
from rookery.replay.segments import Spaces

POINT = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PARTS = spaces.Dict(OrderedDict(near=POINT, camera=spaces.Box(0, 255, (8, 9, 3), np.uint8)))
CHOICE = spaces.Discrete(4, start=2)
CHOICES = spaces.MultiDiscrete([3, 2])
THROTTLE = spaces.Box(np.float32([-2.0, -0.5]), np.float32([2.0, 0.5]), (2,), np.float32)
UNIT = spaces.Box(-1, 1, (2,), np.float32)
HYBRID = spaces.Dict(OrderedDict(continuous=UNIT, discrete=CHOICES))


def recording(obs=POINT, action=CHOICE, *, lengths=(3, 1, 4), logp=False, reward=True, seed=0, mask=False):
    """Episodes of these lengths: the first terminates, the others are cut off in turn and by nothing at all."""
    rng = np.random.default_rng(seed)
    made_of = Spaces(obs_spec(obs, action, info_mask=mask), action_spec(action), 0)
    episodes = []
    for number, length in enumerate(lengths):
        tree = made_of.obs.allocate(length + 1)
        for leaf in made_of.obs.leaves:
            if leaf.kind == "mask":
                tree[leaf.path][:] = rng.random(tree[leaf.path].shape) < 0.7
                tree[leaf.path][:, np.cumsum((0, *leaf.sizes[:-1]))] = True
            elif leaf.dtype == np.uint8:
                tree[leaf.path][:] = rng.integers(0, 256, tree[leaf.path].shape)
            elif leaf.sizes:
                tree[leaf.path][:] = rng.integers(0, leaf.sizes, tree[leaf.path].shape)
            else:
                tree[leaf.path][:] = rng.normal(size=tree[leaf.path].shape)
        action_space = made_of.action.space
        action_space.seed(seed + number)
        acted = [action_space.sample() for _ in range(length)]
        stored = made_of.action.from_env(acted if made_of.action.kind == "composite" else np.array(acted))
        last = {path: leaf[-1:] for path, leaf in tree.items()}
        episodes.append(
            RecordedEpisode(
                {path: leaf[:-1] for path, leaf in tree.items()},
                stored,
                rng.normal(size=length).astype(np.float32) if reward else None,
                rng.normal(size=length).astype(np.float32) if logp else None,
                number == 0,
                number % 2 == 1,
                None if number == 0 else last,
            )
        )
    return Recording(made_of, tuple(episodes))


def assert_same(one, other, *, ends=True):
    """All numbers are equal; with `ends` also whether an episode that did not terminate was cut off or just ends."""
    assert len(one.episodes) == len(other.episodes)
    for a, b in zip(one.episodes, other.episodes, strict=True):
        assert a.obs.keys() == b.obs.keys()
        for path in a.obs:
            np.testing.assert_array_equal(a.obs[path], b.obs[path])
            assert a.obs[path].dtype == b.obs[path].dtype
            if a.last_obs is not None:
                np.testing.assert_array_equal(a.last_obs[path], b.last_obs[path])
        assert (a.last_obs is None) == (b.last_obs is None)
        for name in ("action", "reward", "logp"):
            x, y = getattr(a, name), getattr(b, name)
            assert (x is None) == (y is None), name
            if x is not None:
                np.testing.assert_array_equal(x, y)
                assert x.dtype == y.dtype
        assert a.terminated == b.terminated
        assert not ends or a.truncated == b.truncated
