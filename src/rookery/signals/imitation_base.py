"""Shared base of imitation: demonstrations, which must be the same when a run resumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from rookery.core.batch import Decisions
from rookery.core.errors import ConfigError
from rookery.core.state import Stateful


class Demonstrations(Protocol):
    """Source of demonstrated decisions."""

    def decisions(self, number: int) -> Decisions:
        """Draws `number` decisions with replacement."""
        ...


class ImitationBase(Stateful):
    """Stores a mark of the demonstrations, and refuses to resume with others. A subclass sets both attributes, and
    defines `imitator_name` and `sources`.

    Attributes:
        mark: A text that differs for different demonstrations; empty before there are any.
    """

    saved: ClassVar[tuple[str, ...]] = ("mark",)
    fixed: ClassVar[tuple[str, ...]] = ("demonstrations",)
    mark: str

    @property
    def imitator_name(self) -> str:
        """Name of the signal or algorithm in messages."""
        raise NotImplementedError

    @property
    def sources(self) -> Sequence[str]:
        """Places of the demonstrations."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of `state_dict`.

        Raises:
            ConfigError: If the demonstrations differ now.
        """
        mark = self.mark
        super().load_state_dict(state)
        if mark and self.mark != mark:
            raise ConfigError(
                f"{self.imitator_name}: the demonstrations in {', '.join(self.sources)} are not those that the run has "
                "learned from: put these back, or start a new run"
            )
