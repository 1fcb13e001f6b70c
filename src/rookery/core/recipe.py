"""Actor on kernels as a program: the calls that make it, for a process with kernels but without torch.

`native/recipe.py` records one; `rollout/loops/helper_side.py` runs it in the process that steps the lanes. The policy's
data is in memory that both processes map, so new weights take a copy there and `Decider.refresh`.
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
"""Alignment of arrays in bytes: a cache line."""


@dataclass(frozen=True)
class Made:
    """Stands for the result of an earlier call of the program.

    Attributes:
        call: Index of the call, from 0.
    """

    call: int


@dataclass(frozen=True)
class NumbersAt:
    """Location of an array in the policy's data.

    Attributes:
        offset: Bytes from the start of the data.
    """

    offset: int


@dataclass(frozen=True)
class Recipe:
    """Calls that make the actor of a policy without memory.

    Attributes:
        library: Path of the compiled kernels.
        signatures: Result and argument types of the called functions, by name, in types of ctypes.
        calls: Names and arguments of the functions: a `Made` stands for the result of an earlier call, a `NumbersAt`
            for an address, bytes for a structure and a list for an array of int32.
        network: Result of the call that made the network; `head` that of the head.
        log_std: Location of its standard deviations; None without them.
        paths: Paths of observation leaves in the order in which kernels read them.
        masked: Whether the policy receives masks.
        size: Size of the data in bytes.
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
    """Acts for a policy by its program.

    Args:
        recipe: The program.
        numbers: ``[recipe.size]`` uint8, the policy's data, at a fixed address.
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
        """Returns an argument of a call in this process."""
        if isinstance(given, Made):
            return self._made[given.call]
        if isinstance(given, NumbersAt):
            return self._numbers.ctypes.data + given.offset
        if isinstance(given, bytes):
            return ctypes.create_string_buffer(given, len(given))
        return (ctypes.c_int32 * len(given))(*given) if isinstance(given, list) else given

    def refresh(self) -> None:
        """Updates the weights from the data."""
        self._functions["network_pack"](self._network)

    def prepare(self, obs: Tree, noise: np.ndarray, action: np.ndarray, logp: np.ndarray) -> Callable[[], None]:
        """Prepares a decision on arrays at fixed addresses, as `NativeActor.prepare` does.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored; all arrays are contiguous.
            noise: ``[N, width]`` float32.
            action: ``[N, ...]``, written by the call, as is `logp`.
            logp: ``[N]``.
        """
        recipe, step, network, head = self._recipe, self._functions["policy_step"], self._network, self._head
        leaves = (ctypes.c_void_p * len(recipe.paths))(*[obs[path].ctypes.data for path in recipe.paths])
        log_std, mask = self._value(recipe.log_std), obs[MASK].ctypes.data if recipe.masked else None
        given = log_std, mask, noise.ctypes.data, action.ctypes.data, logp.ctypes.data
        num_rows = len(logp)

        def call(alive: Decider = self) -> None:  # `alive` keeps the handles as long as the call
            step(network, head, leaves, num_rows, *given)

        return call
