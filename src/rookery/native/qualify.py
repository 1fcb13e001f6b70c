"""Decides which networks run on kernels, and names the reason for others.

A network qualifies by its declared structure: our own encoder on vectors and categories, or a subclass that overrides
nothing, with linear heads, in float32 on the CPU. Images, sets of entities, goal conditioning, custom models, and
networks compiled by `torch.compile` run in torch, as everything does without a build (`core/native.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isfunction

import numpy as np
from torch import nn

from rookery.core.native import MAX_LAYERS, MAX_LEAVES, best_build, is_plain, why_none
from rookery.models.build import Encoder, GoalTrunk, ModelConfig
from rookery.models.cells.base import Memory
from rookery.models.cells.table import CELLS, ON_KERNELS
from rookery.models.heads import ActionHead, Head, ValueHead
from rookery.models.q_head import QHead
from rookery.models.squashed import DeterministicHead, SquashedHead

MOST_WEIGHTS, MOST_WEIGHTS_IN_TILES = 2**18, 2**20
"""Weights per layer, without and with a matrix unit: torch runs wider layers, because its products of large matrices
are faster (`python benchmarks/studies/wide_layers.py`).
"""

HEADS = (nn.Linear, ActionHead, ValueHead, QHead, SquashedHead, DeterministicHead)


def obstacle(
    model: ModelConfig, trunks: Sequence[nn.Module], heads: Sequence[nn.Module], memory: Memory | None = None
) -> str:
    """Returns the reason why networks cannot run on kernels, in a few words, or an empty string.

    Args:
        model: Settings of the networks.
        trunks: Modules from observations to features.
        heads: Modules on the features.
        memory: Memory between trunk and heads, or None.
    """
    if not model.native:
        return "model.native=false"
    if model.compile:
        return "model.compile"
    for trunk in trunks:
        if why := _obstacle_in(trunk):
            return why
    parts = (*trunks, *heads, *(() if memory is None else (memory,)))
    if memory is not None and not isinstance(memory, ON_KERNELS):
        return next((name for name, cell in CELLS.items() if isinstance(memory, cell)), "a custom memory")
    modules = [module for part in parts for module in part.modules()]
    if has_hooks(modules):
        return "forward hooks"
    for head in heads:
        if why := _obstacle_in_head(head):
            return why
    if why := next(filter(None, map(overridden, parts)), ""):
        return why
    weights = [weight for part in parts for weight in part.parameters()]
    if not all(map(is_plain, weights)):
        return "not float32 on the CPU"
    build = best_build()
    for part in parts:
        tiles = build is not None and build.has_matrix_unit and part is not memory  # cells use float32
        most = MOST_WEIGHTS_IN_TILES if tiles else MOST_WEIGHTS
        if max((weight.numel() for weight in part.parameters()), default=0) > most:
            return f"a layer of more than {most:,} weights"
    return "" if build else why_none()


def overridden(network: object) -> str:
    """Returns the name of a method that kernels would ignore: a method of a supported class, or of a class with a
    declared structure, that the network's class or object overrides without declaring a new structure. Returns an empty
    string if there is none.

    Args:
        network: A module, or another object with a method `structure`.
    """
    kind, below = type(network), []
    known = (*HEADS, Encoder, *ON_KERNELS)
    for base in kind.__mro__:
        if "structure" in vars(base) or base in known:
            break
        below.append(base)
    else:
        return f"{kind.__name__} declares no structure"
    methods = {name: member for owner in base.__mro__[::-1] for name, member in vars(owner).items()}
    for owner, members in ((kind.__name__, vars(network)), *((each.__name__, vars(each)) for each in below)):
        for name, member in members.items():
            hidden = methods.get(name)
            special = name.startswith("__") and name != "__call__"
            if isfunction(member) and isfunction(hidden) and not special and hidden is not vars(nn.Module).get(name):
                return f"{owner}.{name} declares no structure"
    return ""


def has_hooks(modules: Sequence[nn.Module]) -> bool:
    """Whether a module has forward hooks."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def _obstacle_in(trunk: nn.Module) -> str:
    if isinstance(trunk, GoalTrunk):
        return "goal conditioning"
    if not isinstance(trunk, Encoder):
        return str(getattr(trunk, "obstacle", "model.module"))
    if trunk.sets is not None:
        return "entities"
    if trunk.image_paths:
        return "pictures"
    leaves = [*trunk.vectors, *trunk.categories]
    readable = all(
        (leaf.dtype == np.float32 and leaf.scale == 1.0) or leaf.dtype in (np.uint8, np.bool_) for leaf in trunk.vectors
    )
    if not readable or not all(np.prod(leaf.shape, dtype=int) > 0 for leaf in leaves):
        return "observations of an unusual type"
    if not 0 < len(leaves) <= MAX_LEAVES or len(trunk.layers) + 2 > MAX_LAYERS:
        return "too many parts or layers"
    return "one-hot features" if trunk.first is None and trunk.categories else ""


def _obstacle_in_head(head: nn.Module) -> str:
    if not isinstance(head, HEADS):
        return "a custom head"
    if isinstance(head, QHead) and head.spec.noisy:
        return "noisy layers"
    if isinstance(head, QHead) and head.spec.dueling and head.spec.dueling_hidden:
        return "dueling streams with hidden layers"
    if isinstance(head, SquashedHead) and head.log_spread is not None:
        return "state-dependent noise"
    return ""


def drawing_obstacle(head: Head) -> str:
    """Returns the reason why kernels cannot draw actions from this head's outputs, or an empty string."""
    if head.exploration_size:
        return "noise that is correlated over time"
    if isinstance(head, QHead) and head.spec.values != "mean":
        return "distributions over returns"
    return ""
