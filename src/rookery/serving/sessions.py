"""Memory of policies for each session, between requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import torch

from rookery.core.errors import RookeryError


class SessionEvicted(RookeryError):
    """A session was evicted, because the server kept too many."""


class SessionMemory:
    """Memory rows of sessions. If there are too many, the least recently used sessions are evicted.

    It is not thread-safe.

    Args:
        most_rows: Maximum number of rows: one for a session, N for a session that sends N observations at a time.

    Attributes:
        evicted: Number of sessions evicted so far.
        rows: Current number of rows.
    """

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.evicted = 0
        self.rows = 0
        self._kept: OrderedDict[Hashable, torch.Tensor] = OrderedDict()
        self._gone: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of sessions."""
        return len(self._kept)

    def recall(self, session: Hashable) -> torch.Tensor | None:
        """Returns the memory of a session, ``[rows, width]``; None for a new session.

        Raises:
            SessionEvicted: If it was evicted, as far as that is still known.
        """
        if session in self._gone:
            raise SessionEvicted(
                f"this session was evicted, because the server keeps at most {self.most_rows:,} sessions: restart it "
                "with first = true, delete sessions that are over, or start the server with more (--max-sessions)"
            )
        found = self._kept.get(session)
        if found is not None:
            self._kept.move_to_end(session)
        return found

    def keep(self, session: Hashable, memory: torch.Tensor) -> None:
        """Stores the memory of a session, ``[rows, width]``; evicts others if there are too many."""
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
        """Deletes a session that is over or restarts; returns whether it existed."""
        self._gone.pop(session, None)
        memory = self._kept.pop(session, None)
        self.rows -= 0 if memory is None else len(memory)
        return memory is not None
