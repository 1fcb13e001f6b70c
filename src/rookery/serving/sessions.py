"""What policies remember of those who ask them, from one decision to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import torch

from rookery.core.errors import RookeryError


class SessionGone(RookeryError):
    """A session was forgotten, because others needed its place."""


class SessionMemory:
    """Memory rows of sessions. Where there are too many, those that were asked for longest ago are forgotten.

    One thread may use it.

    Args:
        most_rows: Rows that are kept: one of a session, N of a session that shows N observations at a time.

    Attributes:
        evicted: How many sessions were forgotten so far, for want of room.
        rows: How many rows are kept.
    """

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.evicted = 0
        self.rows = 0
        self._kept: OrderedDict[Hashable, torch.Tensor] = OrderedDict()
        self._gone: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        """How many sessions there are."""
        return len(self._kept)

    def recall(self, session: Hashable) -> torch.Tensor | None:
        """Gives what is remembered of a session, ``[rows, width]``; None of one that begins.

        Raises:
            SessionGone: If it was forgotten for want of room, as far as that is still known.
        """
        if session in self._gone:
            raise SessionGone(
                f"this session was forgotten, because more than {self.most_rows:,} were remembered at a time: begin it "
                "anew with first = true, end sessions that are over, or let the server keep more (--max-sessions)"
            )
        found = self._kept.get(session)
        if found is not None:
            self._kept.move_to_end(session)
        return found

    def keep(self, session: Hashable, memory: torch.Tensor) -> None:
        """Keeps what is remembered of a session, ``[rows, width]``; makes room for it."""
        self.forget(session)
        self._kept[session] = memory
        self.rows += len(memory)
        while self.rows > self.most_rows and len(self._kept) > 1:
            oldest, dropped = self._kept.popitem(last=False)
            self.rows -= len(dropped)
            self.evicted += 1
            self._gone[oldest] = None
            if len(self._gone) > self.most_rows:
                self._gone.popitem(last=False)

    def forget(self, session: Hashable) -> bool:
        """Forgets a session that is over, or begins anew; says whether there was one."""
        self._gone.pop(session, None)
        memory = self._kept.pop(session, None)
        self.rows -= 0 if memory is None else len(memory)
        return memory is not None
