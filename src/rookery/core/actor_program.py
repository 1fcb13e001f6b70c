"""Actor on kernels as a program: the sequence of kernel calls that builds it, for a process with kernels but without
torch.

`native/program_recorder.py` records one; `rollout/loops/helper_side.py` runs it in the process that steps the
lanes. The policy's data is in memory that both processes map, so new weights take a copy there and
`ProgramActor.refresh`.
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
class CallResult:
    """Placeholder for the result of an earlier call of the program.

    Attributes:
        call: Index of the call, from 0.
    """

    call: int


@dataclass(frozen=True)
class DataAt:
    """Location of an array in the policy's data.

    Attributes:
        offset: Bytes from the start of the data.
    """

    offset: int


@dataclass(frozen=True)
class ActorProgram:
    """Kernel calls that build the actor of a policy without memory.

    Attributes:
        library: Path of the compiled kernels.
        signatures: Result and argument types of the called functions, by name, in types of ctypes.
        calls: Names and arguments of the functions: a `CallResult` stands for the result of an earlier call, a `DataAt`
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
    network: CallResult
    head: CallResult
    log_std: DataAt | None
    paths: tuple[str, ...]
    masked: bool
    size: int


class ProgramActor:
    """Computes the actions of a policy by an `ActorProgram`.

    Args:
        program: The program.
        numbers: ``[program.size]`` uint8, the policy's data, at a fixed address.
    """

    def __init__(self, program: ActorProgram, numbers: np.ndarray) -> None:
        self._program, self._numbers = program, numbers
        library = ctypes.CDLL(program.library)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, (result, arguments) in program.signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self._made: list[Any] = []
        for name, given in program.calls:
            self._made.append(self._functions[name](*map(self._value, given)))
        self._network, self._head = self._value(program.network), self._value(program.head)
        weakref.finalize(self, self._functions["network_free"], self._network)
        weakref.finalize(self, self._functions["head_free"], self._head)

    def _value(self, given: Any) -> Any:
        """Resolves an argument of a call in this process."""
        if isinstance(given, CallResult):
            return self._made[given.call]
        if isinstance(given, DataAt):
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
        program, step, network, head = self._program, self._functions["policy_step"], self._network, self._head
        leaves = (ctypes.c_void_p * len(program.paths))(*[obs[path].ctypes.data for path in program.paths])
        log_std, mask = self._value(program.log_std), obs[MASK].ctypes.data if program.masked else None
        given = log_std, mask, noise.ctypes.data, action.ctypes.data, logp.ctypes.data
        num_rows = len(logp)

        def call(alive: ProgramActor = self) -> None:  # `alive` keeps the handles as long as the call
            step(network, head, leaves, num_rows, *given)

        return call
