"""RAM of replay buffers: the need of a full buffer is checked against the free RAM before it is created.

The operating system allocates pages at the first write, so that a buffer takes little RAM at the start, and could
exhaust it only hours later.
"""

from __future__ import annotations

import weakref
from collections.abc import Sized
from pathlib import Path

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.replay.frames import frames_for, may_be_stack

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")

COLUMNS = 51
"""Bytes of a row without observation and action: `replay/buffer.py:ReplayBuffer`."""

_promised: weakref.WeakKeyDictionary[Sized, tuple[int, int]] = weakref.WeakKeyDictionary()
"""Bytes and rows of each buffer when it is full."""


def leaf_bytes(leaf: Leaf, capacity: int, *, frame_stacks: bool) -> int:
    """Returns the bytes of `capacity` observations of a leaf; frames of a stack are stored one by one if
    `frame_stacks`.
    """
    size = int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize
    if frame_stacks and may_be_stack(leaf):
        return frames_for(capacity) * (size // leaf.shape[0]) + capacity * 8 * (leaf.shape[0] + 1)
    return capacity * size


def bytes_needed(
    obs: ObsSpec, action: ActionSpec, capacity: int, *, memory_size: int, memory_every: int, frame_stacks: bool
) -> int:
    """Returns the bytes of a full buffer.

    The final observations of truncated episodes, one each, are not counted.
    """
    size = COLUMNS * capacity + int(np.prod(action.shape, dtype=np.int64)) * action.dtype.itemsize * capacity
    if memory_size:
        size += capacity * 16 + -(-capacity // memory_every) * memory_size * 4
    return size + sum(leaf_bytes(leaf, capacity, frame_stacks=frame_stacks) for leaf in obs.leaves)


def bytes_free() -> int | None:
    """Returns the bytes that this process may still allocate, by the machine and its control group (version 2).

    None if the system does not report it.
    """
    free: list[int] = []
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
        own = [line[3:] for line in MEMBERSHIP.read_text(encoding="utf-8").splitlines() if line.startswith("0::")]
    except (OSError, ValueError):
        own = []
    for name in own:
        group = CGROUPS / name.lstrip("/")
        for place in (group, *group.parents):
            if place.is_relative_to(CGROUPS) and (left := _left_in(place)) is not None:
                free.append(left)
    return min(free, default=None)


def _left_in(group: Path) -> int | None:
    """Returns the bytes that a control group may still allocate; None without a limit."""
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # cached files count as used until the memory is needed
        return None if limit == "max" else max(int(limit) - used + int(facts.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None


def reserve(owner: Sized, needed: int, capacity: int) -> None:
    """Checks that there is RAM for a replay buffer, in addition to what others still need until they are full.

    Args:
        owner: The buffer; its reservation ends with it.
        needed: Bytes of the full buffer.
        capacity: Rows of the full buffer.

    Raises:
        ConfigError: If there is not enough; the message has the number of rows that fit.
    """
    check_room(needed, capacity, promised())
    _promised[owner] = (needed, capacity)


def promised() -> int:
    """Returns the bytes that existing buffers still need until they are full."""
    return sum(int(whole * (1 - len(memory) / rows)) for memory, (whole, rows) in _promised.items())


def check_room(needed: int, capacity: int, besides: int) -> None:
    """Checks that `needed` bytes are free besides those of other buffers; see `reserve`."""
    free = bytes_free()
    if free is None or needed <= free - besides:
        return
    left = max(free - besides, 0)
    others = f" besides the {gigabytes(besides)} that other buffers will take" if besides else ""
    fitting = int(capacity * 0.9 * left / needed)
    raise ConfigError(
        f"replay.capacity = {capacity:,} decisions take {gigabytes(needed)} when the buffer is full, and this process "
        f"has {gigabytes(left)} left{others}; use at most replay.capacity = {fitting:,}, or smaller observations"
    )


def check_growth(growth: int, capacity: int) -> None:
    """Checks that there is memory for the final observations of truncated episodes, which `reserve` does not count.

    Raises:
        ConfigError: If there is not enough.
    """
    free = bytes_free()
    if free is None or growth <= free - promised():
        return
    left = gigabytes(max(free - promised(), 0))
    raise ConfigError(
        f"replay.capacity = {capacity:,}: so many episodes were truncated that their last observations need "
        f"{gigabytes(growth)} more, and this process has {left} left besides what its replay buffers will take until "
        "they "
        "are full; use a smaller replay.capacity, or longer episodes"
    )


def gigabytes(size: float) -> str:
    """Returns a size as text."""
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"
