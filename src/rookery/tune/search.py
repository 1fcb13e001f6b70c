"""What every search is: it is asked for parameters and told what came of them. And the one that needs nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from rookery.core.seeding import Streams
from rookery.core.settings import Settings


@dataclass(frozen=True)
class SearchConfig(Settings):
    """What all searches have: nothing."""

    search: ClassVar[str] = "rookery.tune.search:RandomSearch"
    """Import path of the class that these settings steer."""


C = TypeVar("C", bound=SearchConfig)


class Search(ABC, Generic[C]):
    """Suggests parameters. Any object with these two methods will do in its place.

    A search depends on nothing but its arguments and the calls made so far: after a kill it is asked and told again
    what the journal holds, in that order, and goes on as if nothing had happened.

    Args:
        cfg: Its settings.
        space: The domains of all parameters by path (`tune/space.py:Domain`).
        modes: ``max`` or ``min``, for each metric.
        num_samples: How many suggestions are wanted (each of the whole grid, where there is one).
        streams: Random streams of the experiment.
    """

    def __init__(
        self, cfg: C, space: Mapping[str, Any], modes: Sequence[str], num_samples: int, streams: Streams
    ) -> None:
        self.cfg = cfg
        self.space = space
        self.modes = modes
        self.num_samples = num_samples
        self.streams = streams

    @abstractmethod
    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Parameters by path for suggestion `number`, which counts from 0; None if there will be no more."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """What came of suggestion `number`: a value for each metric; None if its trials failed or gave no number."""
