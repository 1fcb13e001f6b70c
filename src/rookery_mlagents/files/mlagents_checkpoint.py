"""Weights of a behaviour trained by ML-Agents itself: its ``checkpoint.pt``, a pickle of PyTorch.

Policies with vectors, one-hots and images as observations are read, with or without an LSTM; entities and goals, for
which our networks differ, are refused by name. ML-Agents divides samples of a Gaussian by 3 and clips them to 1, so
means and standard deviations are scaled by the same factor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from rookery.face import VARIANCE_FLOOR, ConfigError, Leaf, Policy, image_layout

POLICY = "Policy"
"""Module of a checkpoint with the acting network."""

LAYERS = re.compile(r"network_body\._body_end?oder\.seq_layers\.(\d+)\.(weight|bias)")
"""Patterns of hidden layers; ML-Agents uses two spellings."""

SENSOR = "network_body.observation_encoder.processors."
"""Prefix of the names of a sensor's weights, before its number; each of these weights is stored under a second name,
too.
"""

NORMALIZER = re.compile(rf"{re.escape(SENSOR)}(\d+)\.normalizer\.(\w+)")
IMAGE_LAYER = re.compile(rf"{re.escape(SENSOR)}(\d+)\.((?:conv_layers|sequential|dense)\..+)")
PLAIN = re.compile(r"conv_layers\.(\d+)\.(weight|bias)")
SECTION = re.compile(r"sequential\.(\d+)\.(weight|bias)")
BLOCK = re.compile(r"sequential\.(\d+)\.layers\.([13])\.(weight|bias)")
LSTM = "network_body.lstm.lstm."
MEAN = "action_model._continuous_distribution.mu"
SPREAD = "action_model._continuous_distribution.log_sigma"
BRANCH = re.compile(r"action_model\._discrete_distribution\.branches\.(\d+)\.(weight|bias)")

FOREIGN_PARTS = {
    "_goal_encoder": "goals",
    "hypernet.": "goals",
    "entity": "entities",
    "rsa.": "entities",
}
"""Unsupported features, by a part of the names of their weights."""

OWN = ("head.random",)
"""State of a Rookery policy without a counterpart among the weights: whether it currently acts at random."""

CONTINUOUS, IMAGE, DISCRETE = range(3)
"""Kinds of sensors, in their order among the inputs of Rookery's first layer."""

IMAGES_AT = "image of sensor "
"""Prefix of the name of an image that the behaviour does not have, before the number of its sensor."""

UNIT = 3.0
"""Divisor of Gaussian actions in ML-Agents."""


def check_kind(path: Path, trust_pickle: bool) -> None:
    """Raises an error for files without readable weights, and for pickles that are not trusted.

    Raises:
        ConfigError: Names the kind of the file, and a remedy.
    """
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file")
    if path.suffix in (".nn", ".onnx", ".bytes", ".sentis"):
        raise ConfigError(
            f"{path}: a model exported for Unity, from which no training can resume; name a run of Rookery, or the "
            "checkpoint.pt that lies in the folder of its behaviour"
        )
    if path.suffix in (".ckpt", ".index", ".meta") or path.name == "checkpoint":
        raise ConfigError(f"{path}: a checkpoint of TensorFlow, as ML-Agents wrote before 0.24: it cannot be read here")
    if path.suffix != ".pt":
        raise ConfigError(f"{path}: neither a run of Rookery nor a checkpoint.pt of ML-Agents")
    if not trust_pickle:
        raise ConfigError(
            f"{path}: a checkpoint.pt of ML-Agents is a pickle, and reading one can run whatever its writer wants; if "
            "you trust who wrote it, say --trust-pickle"
        )


def read_weights(path: Path, trust_pickle: bool) -> dict[str, Tensor]:
    """Reads the weights of the policy in a ``checkpoint.pt``, by ML-Agents' names.

    Raises:
        ConfigError: If the file cannot be read, is not one of ML-Agents, or is a pickle that is not trusted.
    """
    check_kind(path, trust_pickle)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # more than tensors is needed by none of them
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"{path}: cannot be read as a checkpoint of ML-Agents: {reason}") from None
    weights = found.get(POLICY) if isinstance(found, Mapping) else None
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{path}: is no checkpoint of ML-Agents: there is no module {POLICY!r} in it")
    return {str(name): value for name, value in weights.items() if isinstance(value, Tensor)}


def take_over(policy: Policy, mlagents_state: Mapping[str, Tensor], source: Path) -> None:
    """Loads the weights and the normalizer of an ML-Agents policy into a policy.

    Sensors are matched by order: those of ML-Agents are numbered, and the parts of the observation are ordered.

    Raises:
        ConfigError: If it is of another size, or of a kind that cannot be taken over.
    """
    for part, kind in FOREIGN_PARTS.items():
        if any(part in name for name in mlagents_state):
            raise ConfigError(
                f"{source}: that policy has {kind}; only policies of numbers and images, with or without an LSTM, "
                "can be taken over"
            )
    state = policy.state_dict()
    found = {
        **_layers(policy, mlagents_state),
        **_images(policy, mlagents_state),
        **_memory(mlagents_state),
        **_normalizers(policy, mlagents_state),
        **_head(mlagents_state, source),
    }
    found |= {name: state[name] for name in OWN if name in state}
    for name, value in found.items():
        if name not in state or state[name].shape != value.shape:
            mine = tuple(state[name].shape) if name in state else "none"
            raise ConfigError(
                f"{source}: that policy has {name} of {tuple(value.shape)}, behaviour {policy.name!r} has {mine}; give "
                "it the same observations, actions and network_settings"
            )
    missing = [name for name in state if name not in found]
    if missing:
        raise ConfigError(f"{source}: that policy has no {', '.join(missing)}, which behaviour {policy.name!r} has")
    policy.load_state_dict(found)


def _sensors(policy: Policy) -> list[Leaf]:
    """Returns the leaves that the policy observes, in the order of the observation."""
    return [leaf for leaf in policy.own_spec.leaves if leaf.kind != "mask"]


def _layers(policy: Policy, mlagents_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts the hidden layers to Rookery's names, and the inputs of the first one to Rookery's order: vectors,
    images, categories.
    """
    numbers = sorted({int(match[1]) for name in mlagents_state if (match := LAYERS.fullmatch(name))})
    found = {}
    for name, value in mlagents_state.items():
        if match := LAYERS.fullmatch(name):
            place = numbers.index(int(match[1]))
            own_name = "trunk.first" if place == 0 else f"trunk.layers.{place - 1}"
            found[f"{own_name}.{match[2]}"] = value
    weight, sensors = found.get("trunk.first.weight"), _sensors(policy)
    if weight is None:
        return found
    widths = [_width(leaf, place, mlagents_state) for place, leaf in enumerate(sensors)]
    if sum(widths) != weight.shape[1]:  # a later error names both sizes
        return found
    columns = weight.split(widths, 1)
    order = sorted(range(len(sensors)), key=lambda place: _rank(sensors[place]))
    kept = [columns[place] for place in order if _rank(sensors[place]) < DISCRETE]
    looked_up = [columns[place].T for place in order if _rank(sensors[place]) == DISCRETE]
    del found["trunk.first.weight"]
    if kept:
        found["trunk.first.weight"] = torch.cat(kept, 1)
    if looked_up:
        found["trunk.first.table"] = torch.cat(looked_up)
    return found


def _rank(leaf: Leaf) -> int:
    """Returns the rank of a sensor among the inputs of Rookery's first layer."""
    if leaf.kind in ("discrete", "multi_discrete"):
        return DISCRETE
    return IMAGE if image_layout(leaf) else CONTINUOUS


def _width(leaf: Leaf, place: int, mlagents_state: Mapping[str, Tensor]) -> int:
    """Returns the number of inputs of ML-Agents' first layer from a sensor; categories are one-hot there."""
    for name in (f"{SENSOR}{place}.dense.0.bias", f"{SENSOR}{place}.dense.bias"):
        if name in mlagents_state:
            return len(mlagents_state[name])
    return sum(leaf.sizes) if _rank(leaf) == DISCRETE else math.prod(leaf.shape)


def _images(policy: Policy, mlagents_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts the image networks: consecutive convolutions, then a linear layer."""
    found: dict[str, Tensor] = {}
    images = [place for place, leaf in enumerate(_sensors(policy)) if _rank(leaf) == IMAGE]
    places = {int(match[1]) for name in mlagents_state if (match := IMAGE_LAYER.fullmatch(name))}
    for place in sorted(places | set(images)):
        own_name = f"trunk.images.{images.index(place)}" if place in images else f"{IMAGES_AT}{place}"
        for name, value in mlagents_state.items():
            match = IMAGE_LAYER.fullmatch(name)
            if match is not None and int(match[1]) == place:
                found[f"{own_name}.{_in_picture(match[2])}"] = value
    return found


def _in_picture(name: str) -> str:
    """Returns Rookery's name of a weight of an image network: ML-Agents counts activations and max pools as layers,
    too.
    """
    if match := PLAIN.fullmatch(name):
        return f"convolutions.{int(match[1]) // 2}.{match[2]}"
    if match := SECTION.fullmatch(name):
        return f"convolutions.{int(match[1]) // 4}.convolution.{match[2]}"
    if match := BLOCK.fullmatch(name):
        section, block = divmod(int(match[1]), 4)
        return f"convolutions.{section}.blocks.{block - 2}.{'first' if match[2] == '1' else 'second'}.{match[3]}"
    return f"linear.{name.rpartition('.')[2]}"


def _memory(mlagents_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts the LSTM, whose gates have the same order; ML-Agents has two biases, which are summed."""
    if not any(name.startswith(LSTM) for name in mlagents_state):
        return {}
    return {
        "memory.layers.0.input.weight": mlagents_state[f"{LSTM}weight_ih_l0"],
        "memory.layers.0.input.bias": mlagents_state[f"{LSTM}bias_ih_l0"] + mlagents_state[f"{LSTM}bias_hh_l0"],
        "memory.layers.0.recurrent": mlagents_state[f"{LSTM}weight_hh_l0"],
    }


def _normalizers(policy: Policy, mlagents_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts the statistics of observations. ML-Agents stores a sum of squares and a count that starts at 1. It has
    no statistics of images, which keep their initial values.
    """
    if policy.normalizer is None:
        return {}
    kept: dict[int, dict[str, Tensor]] = {}
    for name, value in mlagents_state.items():
        if match := NORMALIZER.fullmatch(name):
            kept.setdefault(int(match[1]), {})[match[2]] = value
    places = {leaf.path: place for place, leaf in enumerate(_sensors(policy))}
    images = {leaf.path for leaf in _sensors(policy) if _rank(leaf) == IMAGE}
    own, found = policy.state_dict(), dict[str, Tensor]()
    for number, path in enumerate(policy.normalizer.paths):
        here = f"normalizer.statistics.{number}."
        if path in images:
            found |= {name: value for name, value in own.items() if name.startswith(here)}
        elif places.get(path) in kept:
            found |= {f"{here}{name}": value for name, value in _statistics(kept[places[path]]).items()}
    return found


def _statistics(one: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Converts the statistics of a sensor."""
    count = one["normalization_steps"].double()
    mean, var = one["running_mean"].double(), one["running_variance"].double() / count
    inverse_std32 = (var + VARIANCE_FLOOR).rsqrt().float()
    return {"mean": mean, "var": var, "count": count, "mean32": mean.float(), "inverse_std32": inverse_std32}


def _head(mlagents_state: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """Converts the last layer: logits of each branch, then the means of all continuous actions, and their spread."""
    branches: dict[int, dict[str, Tensor]] = {}
    for name, value in mlagents_state.items():
        if match := BRANCH.fullmatch(name):
            branches.setdefault(int(match[1]), {})[match[2]] = value
    parts = [part for _, part in sorted(branches.items())]
    found: dict[str, Tensor] = {}
    if f"{MEAN}.weight" in mlagents_state:
        is_drawn_freely = SPREAD in mlagents_state  # of PPO and POCA; that of SAC depends on the state
        unit = UNIT if is_drawn_freely else 1.0
        parts.append({what: mlagents_state[f"{MEAN}.{what}"] / unit for what in ("weight", "bias")})
        if is_drawn_freely:
            found["head.log_std"] = mlagents_state[SPREAD].flatten() - math.log(UNIT)
        else:
            parts.append({what: mlagents_state[f"{SPREAD}.{what}"] for what in ("weight", "bias")})
    if not parts:
        raise ConfigError(f"{source}: is no checkpoint of ML-Agents 0.28 to 1.1: its policy has no actions")
    return found | {f"head.linear.{what}": torch.cat([part[what] for part in parts]) for what in ("weight", "bias")}
