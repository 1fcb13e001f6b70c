"""Categorical images: in grid worlds, small numbers are objects, colours and states instead of brightness.

The observation space does not distinguish them from images of pixels, so a short random play decides. The answer is
written into the settings (`model.categorical_images`): checkpoints hold it, and `rookery explain` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from itertools import islice
from typing import TypeVar

from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Settings
from rookery.core.settings.layers import Layer
from rookery.core.spaces.arrays import ObsSpec
from rookery.envs.base import VectorEnv
from rookery.envs.random_play import random_play
from rookery.models.build import ModelConfig
from rookery.models.image_encoders import NUM_CODES
from rookery.models.recall import uint8_images
from rookery.run.settings import RunConfig, has_own_class, settings_of

SOURCE = "random warm-up"
"""Source of settings that are decided here."""

Value = TypeVar("Value", tuple[str, ...], bool)


def categorical_paths(model: Settings) -> tuple[str, ...]:
    """Returns the paths of the images that a network reads as categories."""
    return model.categorical_images or () if isinstance(model, ModelConfig) else ()


def categorical_layers(
    config: RunConfig, observed: Mapping[str, ObsSpec], copies: Callable[[], VectorEnv]
) -> tuple[list[Layer], list[str]]:
    """Detects categorical images, for policies whose settings leave it open.

    Args:
        config: The settings of the run so far.
        observed: Layout of each policy's observations, by name.
        copies: Makes throwaway environments; called if anything is open.

    Returns:
        The settings, and a line for each policy with categorical images.
    """
    candidates = {name: candidate_images(obs, settings_of(config, name).model) for name, obs in observed.items()}
    candidates = {name: paths for name, paths in candidates.items() if paths}
    if not candidates:
        return [], []
    watched: dict[ObsSpec, set[str]] = {}
    for name, paths in candidates.items():
        watched.setdefault(observed[name], set()).update(paths)
    largest = largest_numbers(copies(), watched, config.sampling.warmup_steps)
    found = {name: categorical_among(largest[observed[name]], paths) for name, paths in candidates.items()}
    notes = [categorical_note(name, largest[observed[name]], codes) for name, codes in found.items() if codes]
    return decided_layers(config, observed, "categorical_images", found), notes


def decided_layers(
    config: RunConfig, observed: Mapping[str, ObsSpec], setting: str, found: Mapping[str, Value]
) -> list[Layer]:
    """Returns the layer that sets what random play has decided: for all policies at once if it is the same for all.

    Args:
        config: The settings of the run so far.
        observed: Layout of each policy's observations, by name.
        setting: Name of the setting below ``model``.
        found: Its value for each policy that random play decides.
    """
    if found.keys() == observed.keys() and len(set(found.values())) == 1 and not has_own_class(config):
        return [Layer(SOURCE, {f"algorithm.model.{setting}": next(iter(found.values()))})]
    values = {f"policies.{name}.model.{setting}": value for name, value in found.items()}
    return [Layer(SOURCE, values)] if values else []


def candidate_images(obs: ObsSpec, model: Settings) -> set[str]:
    """Returns the paths of images that may be categorical, where no setting decides it.

    An image of flags, whose numbers are 0 and 1 by its space, is read as it is.
    """
    if not isinstance(model, ModelConfig) or model.module is not None or model.categorical_images is not None:
        return set()
    return {leaf.path for leaf in uint8_images(obs, model.memory.frame_stack) if leaf.scale > 1}


def largest_numbers(
    env: VectorEnv, watched: Mapping[ObsSpec, Collection[str]], decisions: int
) -> dict[ObsSpec, dict[str, int]]:
    """Plays at random and returns the largest number of each image.

    Every run of an environment plays the same, whatever its seed, so that all have the same network. The play ends as
    soon as no image can be categorical, which images of pixels show at once.

    Args:
        env: Throwaway environments; closed afterwards.
        watched: Paths of the images, by the layout of their observations.
        decisions: Number of decisions to play, in all environments together.
    """
    largest = {obs: dict.fromkeys(sorted(paths), 0) for obs, paths in watched.items()}
    streams = Streams(0)
    seeds, rng = streams.episodes(Role.ENV), streams.generator(Role.WARMUP, "codes")
    with closing(env):
        for shown in islice(random_play(env, seeds, rng), -(-decisions // env.num_lanes)):
            for kind, rows in zip(env.kinds, shown.rows, strict=True):
                found = largest.get(kind.obs.own, {})
                for path, before in found.items():
                    found[path] = max(before, int(rows.obs[path][rows.waiting].max(initial=0)))
            if all(number >= NUM_CODES for found in largest.values() for number in found.values()):
                break
    return largest


def categorical_among(largest: Mapping[str, int], paths: Collection[str]) -> tuple[str, ...]:
    """Returns the categorical ones among some images: all their numbers are small, and not all are zero."""
    return tuple(path for path in sorted(paths) if 0 < largest[path] < NUM_CODES)


def categorical_note(policy: str, largest: Mapping[str, int], codes: Collection[str]) -> str:
    """Returns a note on the images that a policy reads as categories, and on the setting to read them as pixels."""
    seen = ", ".join(f"{path} (up to {largest[path]} in the {SOURCE})" for path in codes)
    return (
        f"policy {policy} reads numbers as categories, not as brightness, in {seen}; model.categorical_images=[] reads "
        "brightness"
    )
