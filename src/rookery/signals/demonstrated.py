"""What everybody who imitates has in common: demonstrations, which must be the same where a run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from rookery.core.batch import Decisions
from rookery.core.errors import ConfigError
from rookery.core.state import Stateful


class Demonstrations(Protocol):
    """Holds decisions to be imitated."""

    def decisions(self, number: int) -> Decisions:
        """Draws so many decisions with replacement."""
        ...


class Demonstrated(Stateful):
    """Keeps a mark of what was imitated, and refuses to go on with anything else; a subclass sets both
    attributes, and says who it is and where they lie.

    Attributes:
        mark: A text that is another one if the demonstrations are others; empty before there are any.
    """

    saved: ClassVar[tuple[str, ...]] = ("mark",)
    fixed: ClassVar[tuple[str, ...]] = ("demonstrations",)
    mark: str

    @property
    def imitator(self) -> str:
        """Who imitates, as messages call it."""
        raise NotImplementedError

    @property
    def sources(self) -> Sequence[str]:
        """Where the demonstrations lie."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave.

        Raises:
            ConfigError: If the demonstrations are others now.
        """
        mark = self.mark
        super().load_state_dict(state)
        if mark and self.mark != mark:
            raise ConfigError(
                f"{self.imitator}: the demonstrations in {', '.join(self.sources)} are not those that the run has "
                "learned from: put these back, or start a new run"
            )
