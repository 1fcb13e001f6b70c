"""Weights of a behaviour that ML-Agents itself has trained: its ``checkpoint.pt``, a pickle of PyTorch.

Read are policies that see numbers and have no memory; pictures, entities, goals and LSTMs are refused by name. Theirs
divide what a Gaussian draws by 3 and cut it off at 1, so means and spreads become ours by the same factor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.core.errors import ConfigError
from rookery.policies.normalize import VARIANCE_FLOOR
from rookery.policies.policy import Policy

POLICY = "Policy"
"""The module of a checkpoint that acts."""

LAYERS = re.compile(r"network_body\._body_end?oder\.seq_layers\.(\d+)\.(weight|bias)")
"""Hidden layers; ML-Agents spells the word in two ways."""

NORMALIZER = re.compile(r"network_body\.observation_encoder\.processors\.(\d+)\.normalizer\.(\w+)")
MEAN = "action_model._continuous_distribution.mu"
SPREAD = "action_model._continuous_distribution.log_sigma"
BRANCH = re.compile(r"action_model\._discrete_distribution\.branches\.(\d+)\.(weight|bias)")

FOREIGN_PARTS = {
    "network_body.lstm": "an LSTM",
    ".conv_layers.": "pictures",
    ".sequential.": "pictures",
    ".dense.": "pictures",
    "_goal_encoder": "goals",
    "hypernetwork": "goals",
    "entity": "entities",
    "rsa.": "entities",
}
"""What cannot be taken over, by a part of the names of weights."""

OWN = ("head.random",)
"""What a policy of ours has beside weights: whether it acts at random for now."""

UNIT = 3.0
"""What ML-Agents divides Gaussian actions by."""


def check_kind(path: Path, trust_pickle: bool) -> None:
    """Refuses files that hold no weights that can be read, and pickles that nobody trusts.

    Raises:
        ConfigError: Says what the file is, and what to do.
    """
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file")
    if path.suffix in (".nn", ".onnx", ".bytes", ".sentis"):
        raise ConfigError(
            f"{path}: a model exported for Unity, from which no training can go on; name a run of Rookery, or the "
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
    """Reads the weights of the policy in a ``checkpoint.pt``, by the names that ML-Agents gives them.

    Raises:
        ConfigError: If the file cannot be read, is none of ML-Agents, or is a pickle that nobody trusts.
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


def take_over(policy: Policy, theirs: Mapping[str, Tensor], source: Path) -> None:
    """Gives a policy the weights and the normalizer of one of ML-Agents.

    Raises:
        ConfigError: If it is of another size, or of a kind that cannot be taken over.
    """
    for part, told in FOREIGN_PARTS.items():
        if any(part in name for name in theirs):
            raise ConfigError(
                f"{source}: that policy has {told}; only policies of numbers without memory can be taken over"
            )
    state = policy.state_dict()
    found = {**_layers(theirs), **_normalizers(policy, theirs), **_head(policy, theirs, source)}
    found |= {name: state[name] for name in OWN if name in state}
    for name, value in found.items():
        if name not in state or state[name].shape != value.shape:
            mine = tuple(state[name].shape) if name in state else "none"
            raise ConfigError(
                f"{source}: that policy has {name} of {tuple(value.shape)}, behaviour {policy.name!r} has {mine}; give "
                "it the same observations, actions, hidden_units, num_layers and normalize"
            )
    missing = [name for name in state if name not in found]
    if missing:
        raise ConfigError(f"{source}: that policy has no {', '.join(missing)}, which behaviour {policy.name!r} has")
    policy.load_state_dict(found)


def _layers(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The hidden layers, under our names."""
    numbers = sorted({int(match[1]) for name in theirs if (match := LAYERS.fullmatch(name))})
    found = {}
    for name, value in theirs.items():
        if match := LAYERS.fullmatch(name):
            place = numbers.index(int(match[1]))
            ours = "trunk.first" if place == 0 else f"trunk.layers.{place - 1}"
            found[f"{ours}.{match[2]}"] = value
    return found


def _normalizers(policy: Policy, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The statistics of observations: theirs keep a sum of squares and a count that begins at 1."""
    if policy.normalizer is None:
        return {}
    kept: dict[int, dict[str, Tensor]] = {}
    for name, value in theirs.items():
        if match := NORMALIZER.fullmatch(name):
            kept.setdefault(int(match[1]), {})[match[2]] = value
    found: dict[str, Tensor] = {}
    for place, (_, one) in enumerate(sorted(kept.items())):
        count = one["normalization_steps"].double()
        mean, var = one["running_mean"].double(), one["running_variance"].double() / count
        own: dict[str, Any] = {
            "mean": mean,
            "var": var,
            "count": count,
            "mean32": mean.float(),
            "inverse_std32": (var + VARIANCE_FLOOR).rsqrt().float(),
        }
        found |= {f"normalizer.statistics.{place}.{name}": value for name, value in own.items()}
    return found


def _head(policy: Policy, theirs: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """The last layer: logits of each branch, then means of all numbers, and their spread."""
    branches: dict[int, dict[str, Tensor]] = {}
    for name, value in theirs.items():
        if match := BRANCH.fullmatch(name):
            branches.setdefault(int(match[1]), {})[match[2]] = value
    parts = [part for _, part in sorted(branches.items())]
    found: dict[str, Tensor] = {}
    if f"{MEAN}.weight" in theirs:
        is_drawn_freely = SPREAD in theirs  # of PPO and POCA; that of SAC depends on the state
        unit = UNIT if is_drawn_freely else 1.0
        parts.append({what: theirs[f"{MEAN}.{what}"] / unit for what in ("weight", "bias")})
        if is_drawn_freely:
            found["head.log_std"] = theirs[SPREAD].flatten() - math.log(UNIT)
        else:
            parts.append({what: theirs[f"{SPREAD}.{what}"] for what in ("weight", "bias")})
    if not parts:
        raise ConfigError(f"{source}: is no checkpoint of ML-Agents 0.28 to 1.1: its policy has no actions")
    return found | {f"head.linear.{what}": torch.cat([part[what] for part in parts]) for what in ("weight", "bias")}
