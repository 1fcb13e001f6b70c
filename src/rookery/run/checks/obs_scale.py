"""Scale of observations: values far from 1 are normalized, because networks learn slowly from them, or not at all.

Bounds of the space decide it if they are finite; otherwise, or if they are far from 1, a short random play does. The
answer is written into the settings (`model.normalize_obs`): checkpoints hold it, and `rookery explain` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stdout
from io import StringIO
from itertools import islice
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Settings
from rookery.core.settings.layers import Layer
from rookery.core.spaces.arrays import ObsSpec
from rookery.envs.base import VectorEnv
from rookery.envs.random_play import random_play
from rookery.models.build import ModelConfig
from rookery.run.checks.categorical_images import SOURCE, decided_layers
from rookery.run.settings import RunConfig, settings_of

FAR = 10.0
"""Factor between values and 1 from which on they are normalized."""


class LeafSize(NamedTuple):
    """A leaf of an observation, and the largest root mean square of its elements."""

    path: str
    size: float

    @property
    def is_far(self) -> bool:
        """Whether its values are far from 1; a leaf of zeros is not."""
        return self.size > FAR or 0.0 < self.size < 1.0 / FAR


def scale_layers(
    config: RunConfig, observed: Mapping[str, ObsSpec], copies: Callable[[], VectorEnv]
) -> tuple[list[Layer], list[str]]:
    """Detects observations far from 1, for policies whose settings leave their normalization open.

    Args:
        config: The settings of the run so far.
        observed: Layout of each policy's observations, by name.
        copies: Makes throwaway environments; called if anything is open.

    Returns:
        The settings, and a line for each policy whose observations are normalized because of it.
    """
    open_paths = {name: undecided(obs, settings_of(config, name).model) for name, obs in observed.items()}
    open_paths = {name: paths for name, paths in open_paths.items() if paths}
    if not open_paths:
        return [], []
    try:
        sizes = random_sizes(copies(), {observed[name]: paths for name, paths in open_paths.items()}, config)
    except Exception:  # the run meets the same error when it samples, and reports or survives it there
        return [], []
    far = {name: [one for one in sizes[observed[name]] if one.is_far] for name in open_paths}
    far = {name: found for name, found in far.items() if found}
    notes = [scale_note(name, found) for name, found in far.items()]
    return decided_layers(config, observed, "normalize_obs", dict.fromkeys(far, True)), notes


def undecided(obs: ObsSpec, model: Settings) -> list[str]:
    """Returns the paths of float boxes whose space leaves their scale open, where no setting decides it."""
    if not isinstance(model, ModelConfig) or model.module is not None or model.normalize_obs is not None:
        return []
    boxes = [leaf.path for leaf in obs.leaves if leaf.kind == "box" and leaf.dtype == np.float32]
    return [path for path in boxes if path not in model.entities and not _is_near(_space_at(obs.space, path))]


def _space_at(space: spaces.Space[object], path: str) -> spaces.Space[object] | None:
    """Returns the space of a leaf; None if the leaf is not a part of the space of the same name."""
    if isinstance(space, spaces.Dict):
        key, _, rest = path.partition("/")
        return _space_at(space[key], rest) if key in space.spaces else None
    return space if isinstance(space, spaces.Box) else None


def _is_near(space: spaces.Space[object] | None) -> bool:
    """Whether a box has finite bounds that are not far from 1."""
    if not isinstance(space, spaces.Box):
        return False
    largest = float(np.maximum(np.abs(space.low), np.abs(space.high)).max(initial=1.0))
    return 1.0 / FAR <= largest <= FAR


def random_sizes(
    env: VectorEnv, watched: Mapping[ObsSpec, Sequence[str]], config: RunConfig
) -> dict[ObsSpec, list[LeafSize]]:
    """Plays at random and returns the size of each leaf. Every run of an environment plays the same, whatever its seed.

    Args:
        env: Throwaway environments; closed afterwards.
        watched: Paths of the leaves, by the layout of their observations.
        config: The settings of the run so far.
    """
    places = {obs: place for place, obs in enumerate(watched)}
    squares = [{path: np.zeros(()) for path in paths} for paths in watched.values()]
    rows = [0] * len(watched)
    streams = Streams(0)
    seeds, rng = streams.episodes(Role.ENV), streams.generator(Role.WARMUP, "scale")
    of_kinds: list[int | None] = []  # place of each kind in `watched`; kinds may appear during play
    with closing(env), redirect_stdout(StringIO()):  # what environments print belongs to the run itself
        for shown in islice(random_play(env, seeds, rng), -(-config.sampling.warmup_steps // env.num_lanes)):
            of_kinds += [places.get(kind.obs.own) for kind in env.kinds[len(of_kinds) :]]
            for place, seen in zip(of_kinds, shown.rows, strict=True):
                if place is None:
                    continue
                for path, total in squares[place].items():
                    numbers = seen.obs[path][seen.waiting].astype(np.float64)
                    squares[place][path] = total + np.square(numbers).sum(0)
                rows[place] += int(np.sum(seen.waiting))
    return {
        obs: [LeafSize(path, float(np.sqrt(total / max(num, 1)).max(initial=0.0))) for path, total in found.items()]
        for obs, found, num in zip(watched, squares, rows, strict=True)
    }


def scale_note(policy: str, far: Sequence[LeafSize]) -> str:
    """Returns a note on the observations that are normalized, and on the setting to leave them unchanged."""
    seen = ", ".join(f"{one.path} (about {one.size:.2g} in the {SOURCE})" for one in far)
    return (
        f"policy {policy} normalizes its observations, because values are far from 1 in {seen}; "
        "model.normalize_obs=false leaves them unchanged"
    )
