"""What every search is: it is asked for parameters and told what came of them. And the one that needs nothing else.

Search          suggests parameters; here RandomSearch, random draws times the whole grid; any object with `ask` and
`tell` is as good
Suggestions     what the runner asks: the user's points first, then a search whose answers it checks and completes
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from rookery.core.errors import ConfigError, nearest, refuse
from rookery.core.process.tracebacks import described
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Settings, show
from rookery.core.settings.layers import nested
from rookery.core.settings.trust import CodeKind
from rookery.tune.space import Computed, Domain, cell, drawn, grid_size, stream, takes
from rookery.tune.spec import known


class AskTell(Protocol):
    """What a runner needs of a search."""

    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Returns parameters by path for suggestion `number`, from 0 on; None if there will be no more."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Hears what came of it: a value for each metric; None if its trials failed or gave no number."""


@dataclass(frozen=True)
class SearchConfig(Settings):
    """What all searches have: nothing."""

    search: ClassVar[str]
    """Import path of the class that these settings steer."""


C = TypeVar("C", bound=SearchConfig)


class Search(ABC, Generic[C]):
    """Suggests parameters.

    A search depends on nothing but its arguments and the calls made so far: after a kill it is asked and told again
    what the journal holds, in that order, and goes on as if nothing had happened.

    Args:
        cfg: Settings of the search.
        space: The domains of the parameters it suggests, by path.
        modes: ``max`` or ``min``, for each metric.
        num_samples: How many suggestions were wanted at the beginning (each of the whole grid, where there is one); an
            experiment that goes on may want more.
        streams: Random streams of the experiment.
    """

    def __init__(
        self, cfg: C, space: Mapping[str, Domain], modes: Sequence[str], num_samples: int, streams: Streams
    ) -> None:
        self.cfg = cfg
        self.space = space
        self.modes = modes
        self.num_samples = num_samples
        self.streams = streams

    @property
    def per_sample(self) -> int:
        """Suggestions a sample: the size of the grid, for a search that tries grids."""
        return 1

    @abstractmethod
    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Returns parameters by path for suggestion `number`, from 0 on; None if there will be no more."""

    def add(self, number: int, params: Mapping[str, Any]) -> None:
        """Hears of suggestion `number` of somebody else; `tell` follows as for its own."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Hears what came of suggestion `number`: a value for each metric; None if it gave no number."""


SEARCH = CodeKind("a search (a class of rookery.tune.search.Search)", lambda found: issubclass(found, Search))


@dataclass(frozen=True)
class RandomConfig(SearchConfig):
    """Every combination of the grids, `num_samples` times, everything else drawn anew for each."""

    search: ClassVar[str] = "rookery.tune.search:RandomSearch"


class RandomSearch(Search[RandomConfig]):
    """Grid search, random search, and one times the other."""

    @property
    def per_sample(self) -> int:
        """The size of the grid."""
        return grid_size(self.space)

    def ask(self, number: int) -> dict[str, Any]:
        """Returns the next cell of the grid, and random values, which depend on the seed and `number` only."""
        return cell(self.space, number) | drawn(self.space, self.streams, number)


class Suggestions:
    """What the runner asks. It numbers suggestions from 0, points and others alike.

    A point takes the place of a sample: it is one of `num_samples`, unless there are more points. What it leaves out is
    drawn, and of grids it leaves out every combination is tried with it. So points change nothing for later samples.

    Args:
        search: Settings of a search, or an object with ``ask(number)`` and ``tell(number, values)`` (see `AskTell`);
            asked when the points are used up, and told of points if it has a method `add`.
        space: The domains of all parameters by path.
        modes: ``max`` or ``min``, for each metric.
        num_samples: How many samples are wanted now.
        points: Parameters by path, to try first.
        streams: Random streams of the experiment.
        config: All settings as one nested dict, with the domains in their places: what functions of `sample_from` see
            of, with the values chosen so far; None for these alone.
        began_with: Samples that were wanted at the beginning: a search that goes by their number has to say the same
            again when others are wanted now.

    Raises:
        ConfigError: If the object is no search, the search cannot use a domain, a point names an unknown parameter or
            lies outside of a domain, or a function of `sample_from` raises on a first try.
    """

    def __init__(
        self,
        search: Any,
        space: Mapping[str, Domain],
        modes: Sequence[str],
        num_samples: int,
        points: Sequence[Mapping[str, Any]],
        streams: Streams,
        config: Mapping[str, Any] | None = None,
        began_with: int | None = None,
    ) -> None:
        if isinstance(search, SearchConfig):
            wanted = max(began_with or num_samples, len(points))
            search = SEARCH.find(search.search)(search, searched(space), modes, wanted, streams)
        elif isinstance(search, type) or not (
            takes(getattr(search, "ask", None), 0) and takes(getattr(search, "tell", None), 0, (0.0,))
        ):
            raise ConfigError(
                f"search = {show(search)}: is no search, an object with ask(number) -> parameters by path or None, and "
                "tell(number, values)"
            )
        self.search: AskTell = search
        self.space = space
        self.streams = streams
        self.config = nested(space) if config is None else config
        size = search.per_sample if isinstance(search, Search) else 1
        self.total = max(num_samples, len(points)) * size
        self.points = [
            (number, point)
            for i, point in enumerate(_adopted(point, space, f"points[{i}]") for i, point in enumerate(points))
            for number in range(i * size, (i + 1) * size)
            if size == 1 or all(point.get(path, value) is value for path, value in cell(space, number).items())
        ]
        self.skipped = len(points) * size - len(self.points)  # cells of the grid that points leave out
        self._completed(drawn(space, streams, 0) | cell(space, 0), 0)

    def ask(self, number: int) -> dict[str, Any] | None:
        """Returns parameters by path for suggestion `number`, in the order of the space; None if there are no more.

        Raises:
            ConfigError: If the search suggests something outside of the space, or a function of `sample_from` raises.
        """
        if number < len(self.points):
            at, point = self.points[number]
            params = drawn(self.space, self.streams, at) | cell(self.space, at) | point
            if hasattr(self.search, "add"):
                self.search.add(at, {path: params[path] for path in searched(self.space)})
            return self._completed(params, at)
        at = number + self.skipped
        suggested = self.search.ask(at) if at < self.total else None
        return None if suggested is None else self._completed(self._checked(suggested, number), at)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Hears what came of suggestion `number`: a value for each metric; None if it gave no number."""
        if number >= len(self.points):
            self.search.tell(number + self.skipped, values)
        elif hasattr(self.search, "add"):
            self.search.tell(self.points[number][0], values)

    def _checked(self, suggested: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The values as the domains have them."""
        where = f"search = {type(self.search).__name__}: suggestion {number}"
        if not isinstance(suggested, Mapping):
            raise ConfigError(f"{where} is {show(suggested)}; ask must give parameters by path, or None")
        refuse(f"{where}: {path} is missing" for path in searched(self.space) if path not in suggested)
        return _adopted(suggested, searched(self.space), where)

    def _completed(self, params: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The parameters with those that functions compute, in the order of the space."""
        chosen = dict(params)
        for path, domain in self.space.items():
            if isinstance(domain, Computed) and path not in params:
                try:
                    chosen[path] = domain.compute(known(self.config, chosen), stream(self.streams, number, path))
                except Exception as error:
                    raise ConfigError(
                        f"{path} = {domain}: the function raised {described(error)}; "
                        f"it was given {show(known(self.config, chosen))}"
                    ) from error
        return {path: chosen[path] for path in self.space}


def searched(space: Mapping[str, Domain]) -> dict[str, Domain]:
    """Returns the domains whose values a search suggests: all but those of functions."""
    return {path: domain for path, domain in space.items() if not isinstance(domain, Computed)}


def _adopted(values: Mapping[str, Any], space: Mapping[str, Domain], where: str) -> dict[str, Any]:
    """Values as the domains have them.

    Raises:
        ConfigError: With a line for each value that is in no domain.
    """
    params: dict[str, Any] = {}
    problems: list[str] = []
    for path, value in values.items():
        if path not in space:
            same = [known for known in space if known.rpartition(".")[2] == str(path).rpartition(".")[2]]
            hint = f"; did you mean {same[0]!r}?" if same else nearest(str(path), list(space))
            problems.append(f"{where}: {path} = {show(value)}: there is no such parameter{hint}")
            continue
        try:
            params[path] = space[path].adopt(value)
        except ConfigError as error:
            problems.append(f"{where}: {path} = {show(value)}: {error}")
    refuse(problems)
    return params
