"""How much RAM a replay buffer will take, and how much the machine has: checked before it is made.

The operating system hands out pages when they are first written, so that a buffer takes little at the start, and more
than there is only hours later. Then it is too late to say so.
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
"""Bytes of a row's numbers besides observation and action: `replay/buffer.py:ReplayBuffer`."""

_promised: weakref.WeakKeyDictionary[Sized, tuple[int, int]] = weakref.WeakKeyDictionary()
"""Bytes that each buffer will take when it is full, and the rows that it has then."""


def leaf_bytes(leaf: Leaf, capacity: int, *, frame_stacks: bool) -> int:
    """Bytes that `capacity` observations of a leaf take; of a stack of frames, where they are stored one by one."""
    size = int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize
    if frame_stacks and may_be_stack(leaf):
        return frames_for(capacity) * (size // leaf.shape[0]) + capacity * 8 * (leaf.shape[0] + 1)
    return capacity * size


def bytes_needed(
    obs: ObsSpec, action: ActionSpec, capacity: int, *, memory_size: int, memory_every: int, frame_stacks: bool
) -> int:
    """Bytes that a full buffer takes.

    Not counted is what was seen where episodes were cut off, one observation each.
    """
    size = COLUMNS * capacity + int(np.prod(action.shape, dtype=np.int64)) * action.dtype.itemsize * capacity
    if memory_size:
        size += capacity * 16 + -(-capacity // memory_every) * memory_size * 4
    return size + sum(leaf_bytes(leaf, capacity, frame_stacks=frame_stacks) for leaf in obs.leaves)


def bytes_free() -> int | None:
    """Bytes this process may still take: what the machine has, or its control group (version 2) is allowed.

    None if the system does not say.
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
    """Bytes that a control group may still take; None if it has no limit."""
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # files that were read and can be read again count as used until the memory is wanted
        return None if limit == "max" else max(int(limit) - used + int(facts.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None


def reserve(owner: Sized, needed: int, capacity: int) -> None:
    """Makes sure that there is RAM for a replay buffer, besides what others will still take until they are full.

    Args:
        owner: The buffer; when it is gone, so is what it was promised.
        needed: Bytes it takes when it is full.
        capacity: Rows it has then.

    Raises:
        ConfigError: If there is not enough; says how many rows there would be enough for.
    """
    check_room(needed, capacity, promised())
    _promised[owner] = (needed, capacity)


def promised() -> int:
    """Bytes that the memories there are will still take until they are full."""
    return sum(int(whole * (1 - len(memory) / rows)) for memory, (whole, rows) in _promised.items())


def check_room(needed: int, capacity: int, besides: int) -> None:
    """Sees that there are so many bytes besides those that others will take; see `reserve`."""
    free = bytes_free()
    if free is None or needed <= free - besides:
        return
    left = max(free - besides, 0)
    others = f" besides the {gigabytes(besides)} that other memories will take" if besides else ""
    fitting = int(capacity * 0.9 * left / needed)
    raise ConfigError(
        f"replay.capacity = {capacity:,} decisions take {gigabytes(needed)} when the memory is full, and this process "
        f"has {gigabytes(left)} left{others}; use at most replay.capacity = {fitting:,}, or smaller observations"
    )


def check_growth(growth: int, capacity: int) -> None:
    """Sees that there is memory for what was seen where episodes were cut off, which no memory is reckoned with.

    Raises:
        ConfigError: If there is not enough.
    """
    free = bytes_free()
    if free is None or growth <= free - promised():
        return
    left = gigabytes(max(free - promised(), 0))
    raise ConfigError(
        f"replay.capacity = {capacity:,}: so many episodes were truncated that their last observations need "
        f"{gigabytes(growth)} more, and this process has {left} left besides what its memories will take until they "
        "are full; use a smaller replay.capacity, or longer episodes"
    )


def gigabytes(size: float) -> str:
    """A size in words."""
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"
