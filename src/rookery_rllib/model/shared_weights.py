"""Weights shared by the models of several policies, such as a layer that a script puts into all of them.

In 2021 the optimizers of all policies changed the same tensor. Here each policy has its own weight vector, with a copy
of the shared weights; after an iteration all copies get the changes of every policy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from weakref import WeakSet

import torch
from torch import Tensor, nn

_PLACED: WeakSet[nn.Module] = WeakSet()
"""Modules that are part of a model."""

_numbers = count()

_GROUP = "shared_weights_group"
"""Attribute of a weight: the number of its group of shared weights."""


def separate(model: nn.Module) -> nn.Module:
    """Replaces modules that are part of another model too by copies, and records their origin.

    Args:
        model: A new model. Modules inside it are replaced.

    Returns:
        The model; a copy if it is another one as a whole.
    """
    mine: dict[int, nn.Module] = {}
    return _separated(model, mine)


def _separated(module: nn.Module, mine: dict[int, nn.Module]) -> nn.Module:
    """Returns the module, or a copy if another model has it; `mine` has this model's copies by original."""
    if id(module) in mine:
        return mine[id(module)]
    if module in _PLACED:
        copied = copy.deepcopy(module)
        for weight, its_copy in zip(module.parameters(), copied.parameters(), strict=True):
            setattr(its_copy, _GROUP, _group(weight))
        mine[id(module)] = copied
        return copied
    _PLACED.add(module)
    mine[id(module)] = module
    for name, child in list(module._modules.items()):
        if child is not None and (given := _separated(child, mine)) is not child:
            module._modules[name] = given
    return module


def _group(weight: nn.Parameter) -> int:
    """Returns the group of a weight, a new one if it has none."""
    if not hasattr(weight, _GROUP):
        setattr(weight, _GROUP, next(_numbers))
    number: int = getattr(weight, _GROUP)
    return number


@dataclass(frozen=True)
class Shared:
    """Weight shared by several policies.

    Attributes:
        copies: The weight of each policy, which are equal.
        before: Their values before learning.
    """

    copies: list[nn.Parameter]
    before: Tensor


def remember(networks: Mapping[str, nn.Module]) -> list[Shared]:
    """Returns the weights that several networks share, before they learn."""
    groups: dict[int, dict[str, nn.Parameter]] = {}
    for policy, network in networks.items():
        for weight in network.parameters():
            if hasattr(weight, _GROUP):
                groups.setdefault(getattr(weight, _GROUP), {})[policy] = weight
    copies = [list(group.values()) for group in groups.values() if len(group) > 1]
    return [Shared(weights, weights[0].detach().clone()) for weights in copies]


def put_together(shared: list[Shared]) -> None:
    """Sets all copies of each weight to its old value plus the changes of all copies."""
    with torch.no_grad():
        for weight in shared:
            total = weight.before.clone()
            for changed in weight.copies:
                total += changed - weight.before
            for changed in weight.copies:
                changed.copy_(total)
