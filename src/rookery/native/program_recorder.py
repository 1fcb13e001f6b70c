"""Records the kernel calls that build a policy's actor, for processes without torch, which replay them by
`core/actor_program.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from rookery.core.actor_program import ALIGNMENT, ActorProgram, CallResult, DataAt
from rookery.core.native import ADDRESS, FOLDER, INTS, SIGNATURES, Build, HeadSettings
from rookery.native.actor import NativeActor
from rookery.policies.policy import Policy

PROGRAM_FUNCTIONS = ("policy_step", "network_pack", "network_free", "head_free")
"""Functions that are called in addition to those that build the actor."""


def record_program(policy: Policy, actor: NativeActor) -> tuple[ActorProgram, list[tuple[int, Tensor]]] | None:
    """Records the kernel calls that build the actor of a policy.

    Args:
        policy: The policy.
        actor: Its actor, which has no memory.

    Returns:
        The program, and the tensors whose data it needs, each with its byte offset; None if kernels read other data,
        such as the exploration rates of some heads.
    """
    offsets: dict[int, int] = {}
    numbers, size = [], 0
    for tensor in (*policy.parameters(), *policy.buffers()):
        if tensor.numel():
            offsets[tensor.data_ptr()] = size
            numbers.append((size, tensor.detach()))
            size += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    noting = _RecordingBuild(actor.build.name, offsets)
    try:
        noted = NativeActor(policy, noting)  # kept until the calls are read: its deletion would be recorded too
        network, head, log_std = noted.handles()
        place = noting.place(log_std) if log_std else None
    except _UnknownAddress:
        return None
    calls = tuple(noting.calls)
    assert isinstance(network, CallResult) and isinstance(head, CallResult)
    used = {*PROGRAM_FUNCTIONS, *(name for name, _ in calls)}
    signatures = {name: (result, tuple(ADDRESS if kind is INTS else kind for kind in arguments))
                  for name, (result, arguments) in SIGNATURES.items() if name in used}  # fmt: skip
    library = str(FOLDER / f"{noting.name}.so")
    return ActorProgram(
        library, signatures, calls, network, head, place, actor.paths, actor.masked, max(size, 1)
    ), numbers


class _UnknownAddress(Exception):
    """Signals an address outside the policy's data."""


class _RecordingBuild(Build):
    """Build that records calls without making them.

    Args:
        name: Name of the build.
        offsets: Byte offset in the program's data, by address of the policy's tensors.
    """

    def __init__(self, name: str, offsets: Mapping[int, int]) -> None:
        self.name, self._offsets = name, offsets
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.call = {function: partial(self._note, function) for function in SIGNATURES}

    def _note(self, function: str, *given: Any) -> CallResult:
        kinds = SIGNATURES[function][1]
        self.calls.append((function, tuple(map(self._plain, given, kinds))))
        return CallResult(len(self.calls) - 1)

    def _plain(self, given: Any, kind: Any) -> Any:
        """Returns the program's representation of an argument."""
        if kind is INTS:
            return list(given)
        if kind is not ADDRESS or isinstance(given, CallResult) or not given:
            return given
        if isinstance(given, int):
            return self.place(given)
        settings = given._obj  # the object of `byref`
        assert isinstance(settings, HeadSettings)
        if settings.rate or settings.spread:
            raise _UnknownAddress
        return bytes(ctypes.string_at(ctypes.addressof(settings), ctypes.sizeof(settings)))

    def place(self, address: int) -> DataAt:
        """Returns the location of an address in the program's data; raises `_UnknownAddress` for others."""
        if address not in self._offsets:
            raise _UnknownAddress
        return DataAt(self._offsets[address])
