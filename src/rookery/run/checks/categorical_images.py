"""Pictures of codes: grid worlds show things, colours and states as small numbers, which are no brightness.

No space tells such a picture from one of pixels, so what a short random play shows decides. The answer is written into
the settings (`model.categorical_images`): checkpoints hold it, and `rookery explain` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from itertools import islice

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
"""What settings are said to come from that were decided here."""


def codes_of(model: Settings) -> tuple[str, ...]:
    """Returns the paths of the pictures that a network reads as codes."""
    return model.categorical_images or () if isinstance(model, ModelConfig) else ()


def code_layers(
    config: RunConfig, observed: Mapping[str, ObsSpec], copies: Callable[[], VectorEnv]
) -> tuple[list[Layer], list[str]]:
    """Decides which pictures are of codes, for policies whose settings leave it open.

    Args:
        config: The settings of the run so far.
        observed: What each policy observes, by name.
        copies: Makes throwaway copies of the environment; called if anything is open.

    Returns:
        Settings that say so, and a line for each policy that sees codes.
    """
    pictures = {name: undecided(obs, settings_of(config, name).model) for name, obs in observed.items()}
    pictures = {name: paths for name, paths in pictures.items() if paths}
    if not pictures:
        return [], []
    watched: dict[ObsSpec, set[str]] = {}
    for name, paths in pictures.items():
        watched.setdefault(observed[name], set()).update(paths)
    largest = largest_numbers(copies(), watched, config.sampling.warmup_steps)
    found = {name: codes_among(largest[observed[name]], paths) for name, paths in pictures.items()}
    notes = [codes_note(name, largest[observed[name]], codes) for name, codes in found.items() if codes]
    if found.keys() == observed.keys() and len(set(found.values())) == 1 and not has_own_class(config):
        return [Layer(SOURCE, {"algorithm.model.categorical_images": next(iter(found.values()))})], notes
    return [Layer(SOURCE, {f"policies.{name}.model.categorical_images": codes for name, codes in found.items()})], notes


def undecided(obs: ObsSpec, model: Settings) -> set[str]:
    """Returns the paths of pictures that may be of codes, where no setting says which are.

    A picture of flags, whose numbers are 0 and 1 by its space, is read as it is.
    """
    if not isinstance(model, ModelConfig) or model.module is not None or model.categorical_images is not None:
        return set()
    return {leaf.path for leaf in uint8_images(obs, model.memory.frame_stack) if leaf.scale > 1}


def largest_numbers(
    env: VectorEnv, watched: Mapping[ObsSpec, Collection[str]], decisions: int
) -> dict[ObsSpec, dict[str, int]]:
    """Plays at random and returns the largest number that each picture shows.

    Every run of an environment plays the same, whatever its seed, so that all have one network. The play ends as soon
    as no picture can be of codes any more, which pixels show at once.

    Args:
        env: Throwaway copies; closed afterwards.
        watched: Paths of the pictures, by the layout of the observations that they are part of.
        decisions: How many decisions to play, of all copies together.
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


def codes_among(largest: Mapping[str, int], paths: Collection[str]) -> tuple[str, ...]:
    """Returns those of some pictures that are of codes: no number was seen that is no code, and not only zeros."""
    return tuple(path for path in sorted(paths) if 0 < largest[path] < NUM_CODES)


def codes_note(policy: str, largest: Mapping[str, int], codes: Collection[str]) -> str:
    """Returns the line that tells which pictures a policy reads as codes, and how to have them read as pixels."""
    seen = ", ".join(f"{path} (up to {largest[path]} in the {SOURCE})" for path in codes)
    return (
        f"policy {policy} reads numbers as codes, not as brightness, in {seen}; model.categorical_images=[] reads "
        "brightness"
    )
