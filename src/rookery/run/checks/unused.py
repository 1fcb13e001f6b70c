"""Notes on settings of networks that have no effect in a run."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from rookery.core.config import DEFAULT, Resolved
from rookery.core.io.files import checkpoint_number
from rookery.core.settings.layers import flow
from rookery.envs.base import Kind
from rookery.models.build import ModelConfig
from rookery.models.image_encoders import image_layout
from rookery.models.recall import uint8_images
from rookery.run.settings import RunConfig

OF_PICTURES = ("cnn", "cnn_width", "cnn_features")
OF_SETS = ("entities_as", "entity_size", "entity_heads")
OF_MEMORY = ("memory.size", "memory.layers", "memory.sequence_length", "memory.context", "memory.heads")

PRESETS = ("preset ", "space preset ")
"""Prefixes of sources for many environments; their settings may have no effect in one of them."""


def unused_settings(resolved: Resolved[RunConfig], kinds: Mapping[str, Kind]) -> list[str]:
    """Returns a line for each setting of a network that the user changed from its default and that has no effect; one
    of the section `algorithm` only if it has no effect for any policy that inherits it.

    Args:
        resolved: The settings of the run.
        kinds: The kind of agents of each policy, by its name.
    """
    idle = {}
    for name, entry in resolved.config.policies.items():
        model = entry.algorithm.model
        if name in kinds and isinstance(model, ModelConfig):
            idle[name] = reasons(model, kinds[name])
    lines: dict[str, None] = {}
    for name, why in idle.items():
        for setting, reason in why.items():
            path = f"policies.{name}.model.{setting}"
            source, value = resolved.history[path][-1]
            inherited, source = path in resolved.inherited, source.partition(" as ")[0]
            others = [f"policies.{other}.model.{setting}" for other in idle if setting not in idle[other]]
            matters = inherited and any(other in resolved.inherited for other in others)
            if not matters and is_given(source) and value != attrgetter(setting)(ModelConfig()):
                shown = f"algorithm.model.{setting}" if inherited else path
                lines[f"{shown} = {flow(value)} ({source}) changes nothing: {reason}"] = None
    return list(lines)


def is_given(source: str) -> bool:
    """Returns whether the user set a value now: not a preset, nor the checkpoint of a resumed run."""
    return source != DEFAULT and not source.startswith(PRESETS) and checkpoint_number(Path(source).name) is None


def reasons(model: ModelConfig, kind: Kind) -> dict[str, str]:
    """Returns the reasons why settings have no effect, by their paths below ``model``, for such agents."""
    images = {leaf.path for leaf in uint8_images(kind.obs, model.memory.frame_stack)}
    boxes = {leaf.path for leaf in kind.obs.leaves if leaf.kind == "box"}
    idle = {}
    if not boxes - images - set(model.entities):
        idle["normalize_obs"] = "no observation is normalized (boxes are, images of bytes and sets are not)"
    if "normalize_obs" in idle or not model.normalize_obs:
        idle["obs_clip"] = "nothing is normalized (model.normalize_obs)"
    if model.module is not None:
        idle |= dict.fromkeys((*OF_PICTURES, *OF_SETS, "goal_conditioning"), "model.module is the network")
    if not images and not any(image_layout(leaf) for leaf in kind.obs.leaves):
        idle |= dict.fromkeys(OF_PICTURES, "no image is observed")
    if not model.entities and all(leaf.kind != "entities" for leaf in kind.obs.leaves):
        idle |= dict.fromkeys(OF_SETS, "no set of entities is observed (model.entities)")
    if not model.goals:
        idle["goal_conditioning"] = "no part of the observation is a goal (model.goals)"
    if not model.remembers:
        idle |= dict.fromkeys(OF_MEMORY, "nothing is remembered (model.memory.kind)")
    if not kind.action.num_numbers:
        idle["log_std_init"] = "no part of an action is a number"
    return idle
