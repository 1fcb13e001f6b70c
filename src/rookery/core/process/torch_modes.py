"""Torch's modes of a thread: whether gradients are recorded, inference mode, and autocast; and how many threads it has.

A program around ours may have any of them on. Networks act and learn in none of them (`own_modes`). Environments,
callbacks and whatever else of the user's has no part in learning run in the modes in which we were called
(`users_modes`); each mode that such code sets is kept for its next call. The default data type and device are left as
they are: our code names both wherever it makes a tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch

from rookery.core.process.thread_context import Entry, register_context

ResultT = TypeVar("ResultT")

DEVICES = ("cpu", "cuda")


class TorchModes(NamedTuple):
    """Modes of a thread.

    Attributes:
        gradients: Whether operations are recorded for a backward pass.
        inference: Whether tensors are made of which no gradient can ever be recorded.
        autocast: The type in which each of `DEVICES` computes; None where autocast is off.
    """

    gradients: bool
    inference: bool
    autocast: tuple[torch.dtype | None, ...]


OWN = TorchModes(gradients=True, inference=False, autocast=(None,) * len(DEVICES))
"""Modes in which networks act and learn: torch's defaults."""


class _Thread(threading.local):
    theirs: TorchModes | None = None
    """The user's modes while our code runs; None while the user's does."""


_thread = _Thread()


def modes_now() -> TorchModes:
    """Returns the modes of this thread."""
    autocast = OWN.autocast
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        autocast = tuple(torch.get_autocast_dtype(d) if torch.is_autocast_enabled(d) else None for d in DEVICES)
    return TorchModes(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast)


@contextmanager
def own_modes() -> Iterator[None]:
    """Computes in modes of our own inside, whatever the caller's are; gives these back at the end.

    Within each other, only the outermost one remembers the user's modes.
    """
    before, is_first = modes_now(), _thread.theirs is None
    if is_first:
        _thread.theirs = before
    try:
        with _UNCHANGED if before == OWN else _switched(before, OWN):
            yield
    finally:
        if is_first:
            before, _thread.theirs = _thread.theirs or before, None
        if before != modes_now():
            _set(before)


@contextmanager
def own_torch(threads: int) -> Iterator[None]:
    """What every call of ours that computes runs in: our own modes of torch, whatever the caller's are, and so many
    threads, of which acting on a few rows needs one.
    """
    with own_modes(), torch_threads(threads):
        yield


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Lets torch use `number` threads inside."""
    before = torch.get_num_threads()
    if number != before:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if number != before:
            torch.set_num_threads(before)


@contextmanager
def users_modes() -> Iterator[None]:
    """Calls code of the user's inside, in the modes in which the user called us; within `own_modes` only, else none
    are changed.
    """
    theirs, before = _thread.theirs, modes_now()
    if theirs is None:
        yield
        return
    _thread.theirs = None
    try:
        with _switched(before, theirs):
            try:
                yield
            finally:
                theirs = modes_now()
    finally:
        _thread.theirs = theirs
        _set(before)


def in_users_modes(function: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Returns what a function of the user's returns, called in `users_modes`."""
    with users_modes():
        return function(*arguments)


def users_differ() -> bool:
    """Whether code of the user's has to be called in other modes than those that are set now."""
    return _thread.theirs is not None and _thread.theirs != modes_now()


def keep_own() -> None:
    """Sets our own modes again after code of the user's was called without `users_modes`, because they did not differ;
    what that code has set is kept for its next call.
    """
    now = modes_now()
    if _thread.theirs is not None and now != OWN:
        _thread.theirs = now
        _set(OWN)


def captured_modes() -> Entry:
    """Returns what makes another thread a part of this one's work: its modes and default device are the user's here."""
    theirs, device = _thread.theirs or modes_now(), torch.get_default_device()

    @contextmanager
    def entry() -> Iterator[None]:
        default: AbstractContextManager[object] = nullcontext() if device.type == "cpu" else device
        before = modes_now()
        try:
            with default, _switched(before, theirs):
                yield
        finally:
            _set(before)

    return entry


register_context(captured_modes)


def _switched(before: TorchModes, modes: TorchModes) -> AbstractContextManager[object]:
    """Sets modes; at the end only inference mode is given back, which can be set in no other way."""
    if before == modes:
        return _UNCHANGED
    if before.inference == modes.inference:
        _set(modes)
        return _UNCHANGED
    return _inference(modes)


_UNCHANGED = nullcontext()


@contextmanager
def _inference(modes: TorchModes) -> Iterator[None]:
    with torch.inference_mode(modes.inference):
        _set(modes)
        yield


def _set(modes: TorchModes) -> None:
    """Sets what differs of the modes, except inference mode."""
    now = modes_now()
    if now.gradients != modes.gradients:
        torch.set_grad_enabled(modes.gradients)
    if now.autocast != modes.autocast:
        for device, dtype in zip(DEVICES, modes.autocast, strict=True):
            torch.set_autocast_enabled(device, dtype is not None)
            if dtype is not None:
                torch.set_autocast_dtype(device, dtype)
