"""Names the environment, lane and step if C code kills the process, through ``sources/guard.c``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from rookery.envs.native.library import ADDRESS, INT64, TableEntry

LIBRARY = Path(__file__).parent / "sources" / "twins.so"

FUNCTIONS = {
    "step": "rookery_noted_step",
    "reset": "rookery_noted_reset",
    "checked_step": "rookery_guarded_step",
    "checked_reset": "rookery_guarded_reset",
}
"""Functions of a table that note each call, and their symbols in the library."""

LOGGED = 64
"""Steps that are logged beside a copy of the state before them."""

ENTRY_BYTES = 16


class GuardedEntry(ctypes.Structure):
    """``Guarded`` of ``sources/guard.c``, where each field is explained."""

    _fields_ = [
        ("table", TableEntry), ("own", ADDRESS), ("name", ctypes.c_char_p),
        *((name, ADDRESS) for name in ("share", "made", "began", "block", "copy", "log")),
        *((name, INT64) for name in ("block_bytes", "action_bytes", "log_bytes", "used")),
    ]  # fmt: skip


@cache
def functions() -> dict[str, int | None]:
    """Installs the signal handler; returns the addresses of the functions for steps and resets, by their name in a
    table; an empty dict if the library is missing or older.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        guard, found = library.rookery_guard, {name: library[symbol] for name, symbol in FUNCTIONS.items()}
    except (OSError, AttributeError):
        return {}
    guard.restype = INT64
    guard()
    return {name: ctypes.cast(function, ADDRESS).value for name, function in found.items()}


class Guard:
    """The table of an environment, with functions that note each call.

    Args:
        table: The environment's own table.
        name: Name of the environment for messages.
        block: The state of all lanes.
        actions: The array of actions, ``[rows, ...]``.
        lanes: Number of environments.
        is_noted: Whether calls are noted.

    Attributes:
        table: The table to call; the environment's own if calls cannot be noted.
    """

    def __init__(
        self, table: TableEntry, name: str, block: np.ndarray, actions: np.ndarray, lanes: int, is_noted: bool
    ) -> None:
        self.table, self._own = table, table
        self._share = np.zeros(lanes, dtype=np.int64)
        self._made, self._began = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
        self._entry = GuardedEntry()
        found = functions() if is_noted else {}
        if not found:
            return
        step, reset = ENTRY_BYTES + actions.nbytes, ENTRY_BYTES + 8 * lanes * (2 + table.num_parameters)
        self._copy, self._log = np.empty_like(block), np.empty(LOGGED * step + reset, dtype=np.uint8)
        self._name = name.encode(errors="replace")[:800]
        arrays = self._share, self._made, self._began, block, self._copy, self._log
        places = (array.ctypes.data for array in arrays)
        sizes = block.nbytes, actions.nbytes, self._log.nbytes, self._log.nbytes
        self._entry = GuardedEntry(table, ctypes.addressof(table), self._name, *places, *sizes)
        for function, address in found.items():
            setattr(self._entry.table, function, address)
        self.table = self._entry.table

    def split(self, firsts: Sequence[int], ends: Sequence[int]) -> None:
        """Notes which lanes are stepped in one call: from each of `firsts` up to, and without, its end."""
        steps = self._made[self._share] - self._began
        for first, end in zip(firsts, ends, strict=True):
            self._share[first:end] = first
        self.begin_from(steps)
        if len(firsts) > 1:
            self._entry.log = None

    def begin_from(self, steps: np.ndarray) -> None:
        """Notes a new state and the steps of the running episode of each lane, ``[lanes]``."""
        self._began[:] = self._made[self._share] - steps
        self._entry.used = self._entry.log_bytes  # which begins a new log
