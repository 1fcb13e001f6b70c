"""Torch's modes of a thread (recording of gradients, inference mode, autocast) and its number of threads.

A program that calls Rookery may have set any of them. Networks act and learn in torch's defaults (`own_modes`).
Environments, callbacks and other user code outside of learning run in the caller's modes (`users_modes`); modes that
such code sets are kept for its next call. The default data type and device are not changed: our code names both
wherever it makes a tensor.
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
        inference: Whether new tensors are inference tensors, for which gradients are never recorded.
        autocast: The autocast type of each of `DEVICES`; None if autocast is off.
    """

    gradients: bool
    inference: bool
    autocast: tuple[torch.dtype | None, ...]


OWN = TorchModes(gradients=True, inference=False, autocast=(None,) * len(DEVICES))
"""Modes for acting and learning: torch's defaults."""


class _Thread(threading.local):
    user_modes: TorchModes | None = None
    """The user's modes while library code runs; None while user code runs."""


_thread = _Thread()


def modes_now() -> TorchModes:
    """Returns the modes of the current thread."""
    autocast = OWN.autocast
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        autocast = tuple(torch.get_autocast_dtype(d) if torch.is_autocast_enabled(d) else None for d in DEVICES)
    return TorchModes(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast)


@contextmanager
def own_modes() -> Iterator[None]:
    """Sets torch's default modes inside, and restores the caller's at the end. In nested calls only the outermost one
    stores the user's modes.
    """
    before, is_first = modes_now(), _thread.user_modes is None
    if is_first:
        _thread.user_modes = before
    try:
        with _UNCHANGED if before == OWN else _switched(before, OWN):
            yield
    finally:
        if is_first:
            before, _thread.user_modes = _thread.user_modes or before, None
        if before != modes_now():
            _set(before)


@contextmanager
def own_torch(threads: int) -> Iterator[None]:
    """Context of every computing call: torch's default modes, and `threads` threads; acting on a few rows needs only
    one.
    """
    with own_modes(), torch_threads(threads):
        yield


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Sets the number of torch's threads inside."""
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
    """Sets the caller's modes inside, for user code; changes nothing outside of `own_modes`."""
    user_modes, before = _thread.user_modes, modes_now()
    if user_modes is None:
        yield
        return
    _thread.user_modes = None
    try:
        with _switched(before, user_modes):
            try:
                yield
            finally:
                user_modes = modes_now()
    finally:
        _thread.user_modes = user_modes
        _set(before)


def call_in_user_modes(function: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Calls a user's function in `users_modes`, and returns its result."""
    with users_modes():
        return function(*arguments)


def user_modes_differ() -> bool:
    """Whether user code needs other modes than the present ones."""
    return _thread.user_modes is not None and _thread.user_modes != modes_now()


def keep_own() -> None:
    """Sets torch's default modes again after user code ran without `users_modes`, because the modes were equal; modes
    set by the user code are kept for its next call.
    """
    now = modes_now()
    if _thread.user_modes is not None and now != OWN:
        _thread.user_modes = now
        _set(OWN)


def captured_modes() -> Entry:
    """Returns a context for another thread that does part of this thread's work, with the user's modes and default
    device.
    """
    user_modes, device = _thread.user_modes or modes_now(), torch.get_default_device()

    @contextmanager
    def entry() -> Iterator[None]:
        default: AbstractContextManager[object] = nullcontext() if device.type == "cpu" else device
        before = modes_now()
        try:
            with default, _switched(before, user_modes):
                yield
        finally:
            _set(before)

    return entry


register_context(captured_modes)


def _switched(before: TorchModes, modes: TorchModes) -> AbstractContextManager[object]:
    """Sets modes; the returned context only restores inference mode, which can only be set by a context."""
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
    """Sets modes that differ from the present ones, except inference mode."""
    now = modes_now()
    if now.gradients != modes.gradients:
        torch.set_grad_enabled(modes.gradients)
    if now.autocast != modes.autocast:
        for device, dtype in zip(DEVICES, modes.autocast, strict=True):
            torch.set_autocast_enabled(device, dtype is not None)
            if dtype is not None:
                torch.set_autocast_dtype(device, dtype)
