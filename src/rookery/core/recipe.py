"""An actor on kernels as a recipe: the calls that make it, for a process that knows kernels and no torch.

`native/recipe.py` writes one down; `rollout/loops/helper_side.py` follows it where lanes are stepped. Numbers of the
policy lie in memory that both processes map, so new weights are a copy there and `Decider.refresh`.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import MASK, Tree

ALIGNMENT = 64
"""Arrays of numbers begin at multiples of a cache line."""


@dataclass(frozen=True)
class Made:
    """What an earlier call of the recipe gave.

    Attributes:
        call: Which one, from 0.
    """

    call: int


@dataclass(frozen=True)
class NumbersAt:
    """Where numbers of the policy lie.

    Attributes:
        offset: Bytes from the beginning of all of them.
    """

    offset: int


@dataclass(frozen=True)
class Recipe:
    """How to make what acts for a policy that remembers nothing.

    Attributes:
        library: Path of the compiled kernels.
        signatures: Result and arguments of the functions that are called, by name, in types of ctypes.
        calls: Functions by name with what they are given, where a `Made` stands for what a call before gave, a
            `NumbersAt` for an address, bytes for a structure and a list for an array of int32.
        network: What the call that made the network gave; `head` that of the head.
        log_std: Where its standard deviations lie; None if it has none of its own.
        paths: Leaves of an observation, in the order in which kernels read them.
        masked: Whether the policy is given masks.
        size: Bytes of its numbers.
    """

    library: str
    signatures: Mapping[str, tuple[Any, tuple[Any, ...]]]
    calls: tuple[tuple[str, tuple[Any, ...]], ...]
    network: Made
    head: Made
    log_std: NumbersAt | None
    paths: tuple[str, ...]
    masked: bool
    size: int


class Decider:
    """Acts for a policy by its recipe.

    Args:
        recipe: How it is made.
        numbers: ``[recipe.size]`` uint8, what the policy's numbers are; they stay where they lie.
    """

    def __init__(self, recipe: Recipe, numbers: np.ndarray) -> None:
        self._recipe, self._numbers = recipe, numbers
        library = ctypes.CDLL(recipe.library)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, (result, arguments) in recipe.signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self._made: list[Any] = []
        for name, given in recipe.calls:
            self._made.append(self._functions[name](*map(self._value, given)))
        self._network, self._head = self._value(recipe.network), self._value(recipe.head)
        weakref.finalize(self, self._functions["network_free"], self._network)
        weakref.finalize(self, self._functions["head_free"], self._head)

    def _value(self, given: Any) -> Any:
        """What a call is given in this process."""
        if isinstance(given, Made):
            return self._made[given.call]
        if isinstance(given, NumbersAt):
            return self._numbers.ctypes.data + given.offset
        if isinstance(given, bytes):
            return ctypes.create_string_buffer(given, len(given))
        return (ctypes.c_int32 * len(given))(*given) if isinstance(given, list) else given

    def refresh(self) -> None:
        """Takes over the weights as they are now."""
        self._functions["network_pack"](self._network)

    def prepare(self, obs: Tree, noise: np.ndarray, action: np.ndarray, logp: np.ndarray) -> Callable[[], None]:
        """Prepares a decision on arrays that stay where they are, as `NativeActor.prepare` does.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored; all arrays are contiguous.
            noise: ``[N, width]`` float32.
            action: ``[N, ...]`` written by the call; so is `logp`.
            logp: ``[N]``.
        """
        recipe, step, network, head = self._recipe, self._functions["policy_step"], self._network, self._head
        leaves = (ctypes.c_void_p * len(recipe.paths))(*[obs[path].ctypes.data for path in recipe.paths])
        log_std, mask = self._value(recipe.log_std), obs[MASK].ctypes.data if recipe.masked else None
        given = log_std, mask, noise.ctypes.data, action.ctypes.data, logp.ctypes.data
        num_rows = len(logp)

        def call(alive: Decider = self) -> None:  # `alive`: as long as a call is, so are its handles
            step(network, head, leaves, num_rows, *given)

        return call
