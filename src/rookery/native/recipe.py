"""Writing down how a policy's actor is made, for processes without torch; they follow it by `core/recipe.py`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from rookery.core.native import ADDRESS, FOLDER, INTS, SIGNATURES, Build, HeadSettings
from rookery.core.recipe import ALIGNMENT, Made, NumbersAt, Recipe
from rookery.native.actor import NativeActor
from rookery.policies.policy import Policy

OF_THE_RECIPE = ("policy_step", "network_pack", "network_free", "head_free")
"""Functions that are called beside those that make the actor."""


def recipe_of(policy: Policy, actor: NativeActor) -> tuple[Recipe, list[tuple[int, Tensor]]] | None:
    """Writes down how the actor of a policy is made.

    Args:
        policy: The policy.
        actor: What acts for it, which remembers nothing.

    Returns:
        The recipe, and the tensors whose numbers it needs, each with the bytes that it begins at; None if kernels read
        anything else than these, as the rates of exploration of some heads.
    """
    offsets: dict[int, int] = {}
    numbers, size = [], 0
    for tensor in (*policy.parameters(), *policy.buffers()):
        if tensor.numel():
            offsets[tensor.data_ptr()] = size
            numbers.append((size, tensor.detach()))
            size += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    noting = _Noting(actor.build.name, offsets)
    try:
        noted = NativeActor(policy, noting)  # lives until the calls are read: its end would be among them
        network, head, log_std = noted.handles()
        place = noting.place(log_std) if log_std else None
    except _Elsewhere:
        return None
    calls = tuple(noting.calls)
    assert isinstance(network, Made) and isinstance(head, Made)
    used = {*OF_THE_RECIPE, *(name for name, _ in calls)}
    signatures = {name: (result, tuple(ADDRESS if kind is INTS else kind for kind in arguments))
                  for name, (result, arguments) in SIGNATURES.items() if name in used}  # fmt: skip
    library = str(FOLDER / f"{noting.name}.so")
    return Recipe(library, signatures, calls, network, head, place, actor.paths, actor.masked, max(size, 1)), numbers


class _Elsewhere(Exception):
    """An address is none of the policy's numbers."""


class _Noting(Build):
    """Stands in for a build: notes the calls that it is given, and makes none.

    Args:
        name: Name of the build.
        offsets: By address of the policy's numbers, the bytes that they begin at in the recipe.
    """

    def __init__(self, name: str, offsets: Mapping[int, int]) -> None:
        self.name, self._offsets = name, offsets
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.call = {function: partial(self._note, function) for function in SIGNATURES}

    def _note(self, function: str, *given: Any) -> Made:
        kinds = SIGNATURES[function][1]
        self.calls.append((function, tuple(map(self._plain, given, kinds))))
        return Made(len(self.calls) - 1)

    def _plain(self, given: Any, kind: Any) -> Any:
        """What stands in the recipe for an argument."""
        if kind is INTS:
            return list(given)
        if kind is not ADDRESS or isinstance(given, Made) or not given:
            return given
        if isinstance(given, int):
            return self.place(given)
        settings = given._obj  # what `byref` refers to
        assert isinstance(settings, HeadSettings)
        if settings.rate or settings.spread:
            raise _Elsewhere
        return bytes(ctypes.string_at(ctypes.addressof(settings), ctypes.sizeof(settings)))

    def place(self, address: int) -> NumbersAt:
        """Where the numbers at an address lie in the recipe; raises an `_Elsewhere` if they are not the policy's."""
        if address not in self._offsets:
            raise _Elsewhere
        return NumbersAt(self._offsets[address])
