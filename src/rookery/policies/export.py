"""Writes policies to files and reads them, without their environment or trainer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from rookery.core.errors import ConfigError, RookeryError, nearest
from rookery.core.io.encoding import decode, encode
from rookery.core.io.files import FileError, is_own, read_checkpoint_files, split_name
from rookery.core.io.json_text import parse_json
from rookery.core.process.torch_modes import own_modes
from rookery.core.settings.fields import from_stored, object_name
from rookery.core.settings.foreign_arguments import objections_to_arguments
from rookery.core.settings.layers import import_object
from rookery.core.settings.reach import MOST_WEIGHTS, Objection, largest_number, of_settings, weights_in
from rookery.core.settings.trust import WAY_OUT, Named, Trust, TrustCode, refuse_reach
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.core.spaces.space_files import numbers_in, space_from_json, space_to_json
from rookery.models.build import NETWORK, ModelConfig
from rookery.models.heads import HEAD, head_from_json, head_to_json
from rookery.policies.policy import Policy

MEMORY_SETTINGS = ("kind", "layers", "context", "heads", "previous_action", "previous_reward", "frame_stack")
"""Settings that determine how a memory computes, besides its size and weights."""

FILE = "policies.json"
ARRAYS = "policies.safetensors"

DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, AssertionError, RuntimeError,
          RecursionError)  # fmt: skip
"""Errors that a damaged description of a policy can raise."""

LARGEST_OF_HEAD = 100_000
"""Largest number allowed in the description of an untrusted policy's head."""


def policy_files(policies: Mapping[str, Policy], models: Mapping[str, ModelConfig]) -> dict[str, bytes]:
    """Returns the files that `read_policy` reads: spaces, network settings, weights and normalizer of each policy."""
    described = {}
    for name, policy in policies.items():
        described[name] = {**_description(policy, models[name]), "state": dict(policy.state_dict())}
    structure, arrays = encode(described)
    return {FILE: json.dumps(structure).encode(), ARRAYS: arrays}


def _description(policy: Policy, model: ModelConfig) -> dict[str, Any]:
    """Describes a policy without its weights."""
    return {
        "obs_space": space_to_json(policy.obs_spec.space),
        "action_space": space_to_json(policy.action_spec.space),
        "info_mask": _masks_in_info(policy),
        "model": _model_to_json(model),
        "head": head_to_json(policy.head_spec),
    }


@own_modes()
def read_policy(
    path: str | Path, name: str | None = None, trust_code: TrustCode = False, way_out: str = WAY_OUT
) -> Policy:
    """Reads a policy from a checkpoint; `native/actor.py:load_policy` also attaches kernels.

    Args:
        path: A run (its last checkpoint) or a checkpoint; ``runs/x:pol1`` also names the policy.
        name: Name of the policy; not needed if there is only one.
        trust_code: Whether code of any package that an untrusted policy names may run; or the names that may.
        way_out: For the message: how to allow other code.

    Raises:
        FileError: If there is no checkpoint, or it is broken; names the last good one.
        ConfigError: If there is no policy of that name, or its code is not trusted.
    """
    place, given = split_name(path)
    name = name or given
    checkpoint, described, manifest = _described(place)
    if name is None and len(described) == 1:
        name = next(iter(described))
    return _chosen(checkpoint, described, manifest, [name], place, trust_code, way_out, {})[str(name)]


@own_modes()
def read_policies(
    path: Path,
    names: Collection[str] = (),
    trust_code: TrustCode = False,
    way_out: str = WAY_OUT,
    like: Mapping[str, Policy] | None = None,
) -> tuple[dict[str, Policy], dict[str, Any]]:
    """Reads several policies of one checkpoint; arguments and errors as of `read_policy`.

    Args:
        path: A run (its last checkpoint) or a checkpoint.
        names: Names of the policies; none = all.
        trust_code: As of `read_policy`.
        way_out: As of `read_policy`.
        like: Policies of the same names, which are copied where only weights differ: this is much faster, because no
            initial weights are drawn.

    Returns:
        The policies by name, in the order of `names`, and the manifest of the checkpoint.
    """
    checkpoint, described, manifest = _described(path)
    chosen = _chosen(checkpoint, described, manifest, names or list(described), path, trust_code, way_out, like or {})
    return chosen, manifest


def _described(place: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Returns a checkpoint, its description of each policy, and its manifest."""
    checkpoint, files, manifest = read_checkpoint_files(place)
    if FILE not in files or ARRAYS not in files:
        raise FileError(f"{checkpoint}: has no policies: it is not a checkpoint of Rookery")
    with _readable(checkpoint):
        described = decode(parse_json(files[FILE]), files[ARRAYS])
        if not described:
            raise ValueError("there is none")
        return checkpoint, {name: dict(one) for name, one in described.items()}, manifest


@contextmanager
def _readable(checkpoint: Path) -> Iterator[None]:
    """Turns errors of damaged descriptions of policies into errors that name the checkpoint."""
    try:
        yield
    except RookeryError as error:
        if str(checkpoint) in str(error):
            raise
        if isinstance(error, ConfigError):
            raise ConfigError(*(f"{checkpoint}: {problem}" for problem in error.problems)) from None
        raise FileError(f"{checkpoint}: {error}") from None
    except DAMAGE as error:
        raise FileError(f"{checkpoint}: its policies cannot be read: {type(error).__name__}: {error}") from error


def _chosen(
    checkpoint: Path,
    described: Mapping[str, Any],
    manifest: Mapping[str, Any],
    names: Collection[str | None],
    place: Path,
    trust_code: TrustCode,
    way_out: str,
    like: Mapping[str, Policy],
) -> dict[str, Policy]:
    """Builds the named policies, if they exist and their code is trusted."""
    chosen: dict[str, Policy] = {}
    for name in names:
        if name is None or name not in described:
            hint = nearest(name, list(described)) if name else f"; name one, as in {place}:{next(iter(described))}"
            raise ConfigError(f"{checkpoint}: policy {name!r} is not one of {', '.join(described)}{hint}")
        with _readable(checkpoint):
            code = list(_named_code(name, described[name]))
        trust = Trust.of(is_own(manifest), trust_code)
        trust.check(checkpoint / FILE, code, way_out)
        # an error of a custom network keeps its traceback
        with nullcontext() if described[name]["model"].get("module") else _readable(checkpoint):
            if not trust.everything:
                refuse_reach(checkpoint / FILE, _objections(name, described[name]), way_out)
            other = like.get(name)
            chosen[name] = _build(name, described[name]) if other is None else _build_like(other, name, described[name])
    return chosen


def policy_names(path: str | Path) -> list[str]:
    """Returns the names of the policies in a run's last checkpoint, or in a checkpoint.

    Raises:
        FileError: If there is no checkpoint, or it is broken; names the last good one.
    """
    checkpoint, files, _ = read_checkpoint_files(Path(path))
    if FILE not in files:
        raise FileError(f"{checkpoint}: has no policies: it is not a checkpoint of Rookery")
    with _readable(checkpoint):
        return list(parse_json(files[FILE]))


def _named_code(name: str, described: dict[str, Any]) -> Iterator[Named]:
    """Yields the code that a policy consists of."""
    places = {"model.module": (described["model"].get("module"), NETWORK)}
    if "head" in described:
        places["head.kind"] = described["head"]["kind"], HEAD
    for path, (code, kind) in places.items():
        if code is not None:
            yield Named(f"{name}.{path}", str(code), kind)


def _objections(name: str, described: dict[str, Any]) -> Iterator[Objection]:
    """Yields the objections to an untrusted policy."""
    model = described["model"]
    yield from of_settings(ModelConfig, model, f"{name}.model")
    module = model.get("module")
    if module is not None and isinstance(model.get("module_config"), dict):
        made = import_object(module) if isinstance(module, str) else module
        yield from objections_to_arguments(made, model["module_config"], f"{name}.model.module_config")
    hidden = model.get("hidden") or [1]
    ends = hidden[0] * numbers_in(described["obs_space"]) + hidden[-1] * numbers_in(described["action_space"])
    if (weights := weights_in(model) + ends) > MOST_WEIGHTS:
        why = f"makes a network of about {weights:,} weights, above {MOST_WEIGHTS:,}, which could fill the memory"
        yield Objection(f"{name}.model.hidden", hidden, why)
    if (largest := largest_number(described.get("head", {}))) > LARGEST_OF_HEAD:
        yield Objection(f"{name}.head", largest, f"is above {LARGEST_OF_HEAD:,} and could fill the memory")


def start_from(policy: Policy, other: Policy, source: str) -> None:
    """Copies weights and normalizer of another policy into a policy.

    Raises:
        ConfigError: If their spaces or networks differ.
    """
    if policy.obs_spec != other.obs_spec or policy.action_spec != other.action_spec:
        raise ConfigError(
            f"init_from = {source!r}: that policy observes {other.obs_spec.space} and acts in "
            f"{other.action_spec.space}, policy {policy.name!r} observes {policy.obs_spec.space} and acts in "
            f"{policy.action_spec.space}"
        )
    if policy.head_spec.greedy != other.head_spec.greedy:
        raise ConfigError(
            f"init_from = {source!r}: that policy ends in {other.head_spec}, {policy.name!r} in {policy.head_spec}; "
            f"use the same algorithm for {policy.name!r}, with the same settings of its values or standard deviation"
        )
    own_state, other_state = policy.state_dict(), other.state_dict()
    if {name: value.shape for name, value in own_state.items()} != {
        name: value.shape for name, value in other_state.items()
    }:
        raise ConfigError(
            f"init_from = {source!r}: that policy has another network; give {policy.name!r} the same model"
        )
    own_model, other_model = _computed(policy.model), _computed(other.model)
    for name, value in own_model.items():
        if value != other_model[name]:
            raise ConfigError(
                f"init_from = {source!r}: that policy has model.{name} = {other_model[name]!r}, {policy.name!r} has "
                f"{value!r}; give {policy.name!r} the same model"
            )
    policy.load_state_dict(other_state)


def _computed(model: ModelConfig) -> dict[str, Any]:
    """Returns the settings of a network that, together with its weights, determine its outputs."""
    names = ("activation", "layer_norm", "obs_clip", "cnn", "entities", "entities_as", "entity_heads", "goals",
             "goal_conditioning")  # fmt: skip
    memory = {f"memory.{name}": getattr(model.memory, name) for name in MEMORY_SETTINGS}
    return {
        **{name: getattr(model, name) for name in names},
        "categorical_images": model.categorical_images or (),
        **memory,
    }


def _build(name: str, described: dict[str, Any]) -> Policy:
    action_space = space_from_json(described["action_space"])
    obs = obs_spec(space_from_json(described["obs_space"]), action_space, info_mask=described["info_mask"])
    model = from_stored(ModelConfig, described["model"])
    head = head_from_json(described["head"]) if "head" in described else None  # older files have only one kind
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs, action_spec(action_space), model, name, generator=generator, head=head)
    policy.load_state_dict(described["state"])
    policy.requires_grad_(False)
    return policy.eval()


def _build_like(other: Policy, name: str, described: dict[str, Any]) -> Policy:
    """Copies a policy that differs only in its weights; builds a new one if more differs."""
    own, _ = encode(_description(other, other.model))
    wanted, _ = encode({key: value for key, value in described.items() if key != "state"})
    if own != wanted or other.model.module is not None:
        return _build(name, described)
    policy = deepcopy(other)
    policy.load_state_dict(described["state"])
    return policy


def _masks_in_info(policy: Policy) -> bool:
    space = policy.obs_spec.space
    return policy.obs_spec.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)


def _model_to_json(model: ModelConfig) -> dict[str, Any]:
    values = {field.name: getattr(model, field.name) for field in fields(model)}
    values["memory"] = {field.name: getattr(model.memory, field.name) for field in fields(model.memory)}
    if values["module"] is not None and not isinstance(values["module"], str):
        values["module"] = object_name(values["module"])
    saved_config = getattr(model.module, "saved_config", None)  # of a network whose settings contain code
    if saved_config is not None:
        values["module_config"] = saved_config(model.module_config)
    return values
