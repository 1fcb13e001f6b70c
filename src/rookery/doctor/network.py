"""Rules about a policy's network and actions: rows of a batch that depend on each other, random outputs, units that no
longer change, actions that are always the same, and actions at their limits.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.autograd import grad as gradients_of
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from rookery.core.batch import TensorTree
from rookery.core.spaces.arrays import Tree
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

ROWS = 256
"""Observations that are passed through the network."""

FEWEST = 64

DEAD = 0.8
"""Share of the units of a layer that are dead."""

STILL = 1e-6
"""Standard deviation of a unit over observations, in units of its largest value, below which it is dead."""

AT_LIMIT, OFTEN = 0.999, 0.95
"""Size of an action at its limit, in units of half the range, and share of such actions."""

APART = 0.01
"""Difference between two passes, in units of the largest feature, that is no rounding, also in bfloat16."""

SAME, BLIND, TOLD_APART = 1e-3, 0.5, 0.1
"""Difference between features, in units of the largest one, that does not count; share of observations that share their
features with another one, above which a network is blind; and largest such share of a standard network.
"""

FEW_WEIGHTS, MOST_WEIGHTS = 0.1, 0.5
"""Shares of a network's weights without a gradient for a note, and for a warning."""

ACTIVATIONS = (functional.relu, torch.relu, torch.tanh, functional.elu, functional.silu, functional.gelu, torch.sigmoid)


class LayerOutputs(TorchFunctionMode):
    """Context in which the outputs of activation functions are kept, ``[N, units]`` each."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of torch, and keeps its output if it is an activation."""
        result = func(*args, **(kwargs or {}))
        if func in ACTIVATIONS and isinstance(result, Tensor) and result.dim() == 2:
            self.outputs.append(result.detach())
        return result


def network_findings(name: str, policy: Policy, seen: Tree) -> list[Finding]:
    """Returns the findings of a policy's network.

    Args:
        name: Name of the policy.
        policy: The policy; it is not changed.
        seen: Observations ``[N, ...]`` by path.
    """
    rows = len(next(iter(seen.values()), ()))
    varied = any((leaf != leaf[:1]).any() for leaf in seen.values())
    if rows < FEWEST or not varied or not list(policy.parameters()):
        return []
    picked = np.linspace(0, rows - 1, min(ROWS, rows)).astype(int)
    device = next(policy.parameters()).device
    obs = {path: torch.from_numpy(leaf[picked]).to(device) for path, leaf in seen.items()}
    size = policy.memory_size + policy.exploration_size
    memory = torch.zeros((len(picked), size), dtype=torch.float32, device=device) if size else None
    with torch.no_grad(), LayerOutputs() as layers:
        action, _ = policy.act(obs, deterministic=True, memory=memory)
    found = dead_units(name, layers.outputs)
    found += actions_saturated(name, policy, actions := action.cpu().numpy()) or action_constant(name, policy, actions)
    found += weights_without_gradient(name, policy, obs)
    return [*(batch_findings(name, policy, obs) or network_blind(name, policy, obs)), *found]


def weights_without_gradient(name: str, policy: Policy, obs: TensorTree) -> list[Finding]:
    """Finds custom networks whose features do not depend on their weights in a way that gradients can follow.

    Args:
        name: Name of the policy.
        policy: The policy; it is copied.
        obs: Observations ``[N, ...]`` by path.
    """
    if policy.model.module is None or policy.model.remembers:
        return []
    policy = deepcopy(policy)  # a pass with gradients may change statistics, such as those of batch normalization
    weights = {path: one for path, one in policy.trunk.named_parameters() if one.requires_grad}
    if not weights:
        return []
    with torch.enable_grad():
        features = policy.features(obs)
        chance = torch.Generator("cpu").manual_seed(0)
        scores = torch.randn(features.shape, dtype=torch.float32, device="cpu", generator=chance).to(features.device)
        given: tuple[Tensor | None, ...] = (None,) * len(weights)
        if features.requires_grad:
            given = gradients_of((features * scores).sum(), list(weights.values()), allow_unused=True)
    still = [path for path, one in zip(weights, given, strict=True) if one is None or not bool(one.any())]
    count = sum(weights[path].numel() for path in still)
    share = count / sum(one.numel() for one in weights.values())
    if share < FEW_WEIGHTS:
        return []
    which = ", ".join(still[:4]) + (", ..." if len(still) > 4 else "")
    return [
        finding(
            "weights-without-gradient",
            f"{100 * share:.0f} % of the network's weights get no gradient from its features: {which}",
            f"{count:,} weights, in {len(features)} observations of random play",
            policy=name,
            severity=None if share >= MOST_WEIGHTS else "note",
        )
    ]


def network_blind(name: str, policy: Policy, obs: TensorTree) -> list[Finding]:
    """Finds custom networks that give equal features for observations for which those of a standard network differ.

    The custom network is also made anew, so that a network which has collapsed in training is not blamed.

    Args:
        name: Name of the policy.
        policy: The policy.
        obs: Observations ``[N, ...]`` by path.
    """
    if policy.model.module is None or policy.model.output != "features" or policy.model.remembers:
        return []
    flat = np.concatenate([leaf.cpu().numpy().reshape(len(leaf), -1) for leaf in obs.values()], axis=1)
    places = torch.from_numpy(np.unique(flat, axis=0, return_index=True)[1])
    if len(places) < FEWEST:
        return []
    seen = {path: leaf[places.to(leaf.device)].cpu() for path, leaf in obs.items()}
    anew, standard = (
        Policy(policy.obs_spec, policy.action_spec, model, generator=torch.Generator("cpu").manual_seed(0))
        for model in (policy.model, ModelConfig(normalize_obs=policy.model.normalize_obs))
    )
    with torch.no_grad():
        mine = policy.features({path: leaf[places.to(leaf.device)] for path, leaf in obs.items()})
        trained, own, usual = map(share_alike, (mine, anew.features(seen), standard.features(seen)))
    if min(trained, own) < BLIND or usual > TOLD_APART:
        return []
    return [
        finding(
            "network-blind",
            f"for {100 * trained:.0f} % of {len(places):,} different observations the network gives the same output as "
            "for another one",
            f"the same network before training {100 * own:.0f} %, a standard network {100 * usual:.0f} %",
            policy=name,
        )
    ]


def share_alike(features: Tensor) -> float:
    """Returns the share of rows of features ``[N, F]`` that are equal to another one, but for rounding."""
    scale = features.abs().max().clamp_min(1e-12)
    _, counts = torch.unique((features / (SAME * scale)).round(), dim=0, return_counts=True)
    return float(counts[counts > 1].sum() / len(features))


def batch_findings(name: str, policy: Policy, obs: TensorTree) -> list[Finding]:
    """Finds networks whose output for a row depends on the other rows of the batch, or on chance.

    The network gets the same batch twice, and then half of its rows in the opposite order: others beside each row, in
    other places.

    Args:
        name: Name of the policy.
        policy: The policy.
        obs: Observations ``[N, ...]`` by path.
    """
    rows = torch.arange(len(next(iter(obs.values()))) - 1, -1, -2, dtype=torch.int64, device="cpu")
    with torch.no_grad():
        whole, again = policy.features(obs), policy.features(obs)
        part = policy.features({path: leaf[rows.to(leaf.device)] for path, leaf in obs.items()})
    if whole.shape != again.shape or whole[rows.to(whole.device)].shape != part.shape:
        return []
    if (difference := _difference(whole, again)) > APART:
        line = f"two passes of the same observations differ by {100 * difference:.2g} % of the largest feature"
        return [finding("model-random", line, policy=name)]
    if (difference := _difference(whole[rows.to(whole.device)], part)) > APART:
        line = (
            f"features of an observation change by up to {100 * difference:.2g} % of the largest one with the other "
            "rows of the batch"
        )
        more = f"{len(rows)} of {len(whole)} observations in the opposite order, beside all of them"
        return [finding("rows-mixed", line, more, policy=name)]
    return []


def _difference(one: Tensor, other: Tensor) -> float:
    """Returns the largest difference between features in units of the largest one; 0 where they are not finite."""
    scale = one.abs().max().clamp_min(1e-12)
    return float(((one - other).abs().max() / scale).nan_to_num(0.0, 0.0))


def action_constant(name: str, policy: Policy, actions: np.ndarray) -> list[Finding]:
    """Finds policies whose most likely action is the same for all observations."""
    if policy.action_spec.space == spaces.Discrete(1) or (actions != actions[:1]).any():
        return []
    shown = np.array2string(actions[0], precision=3, threshold=6)
    line = f"the most likely action is {shown} for all of {len(actions)} different observations"
    return [finding("action-constant", line, "observations of random play", policy=name)]


def dead_units(name: str, outputs: list[Tensor]) -> list[Finding]:
    """Finds layers whose units have the same output for all observations."""
    for number, output in enumerate(outputs, 1):
        if len(output) < FEWEST or output.shape[1] < 8:
            continue
        scale = output.abs().max().clamp_min(1e-12)
        share = float((output.std(dim=0) <= STILL * scale).float().mean())
        if share > DEAD:
            units = f"{100 * share:.0f} % of the {output.shape[1]} units of layer {number}"
            line = f"{units} give the same output for all observations"
            return [finding("dead-units", line, f"{len(output)} observations of random play", policy=name)]
    return []


def actions_saturated(name: str, policy: Policy, actions: np.ndarray) -> list[Finding]:
    """Finds bounded continuous actions that are nearly always at their limits."""
    space = policy.action_spec.space
    if not isinstance(space, spaces.Box) or not len(actions):
        return []
    bounded = (np.isfinite(space.low) & np.isfinite(space.high)).ravel()
    flat = np.abs(actions.reshape(len(actions), -1)[:, bounded])
    if not flat.size or float((flat >= AT_LIMIT).mean()) < OFTEN:
        return []
    share = 100 * float((flat >= AT_LIMIT).mean())
    line = f"{share:.0f} % of the actions are at the limits of their space"
    return [finding("actions-saturated", line, f"{len(actions)} observations of random play", policy=name)]
