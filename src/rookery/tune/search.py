"""Base class of searches, which suggest parameters and receive their scores; grid and random search.

Search          suggests parameters; here RandomSearch, random draws times the whole grid; any object with `ask` and
                `tell` can replace it
Suggestions     called by the runner: first the user's points, then a search whose suggestions are checked and completed
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
from rookery.tune.space import Computed, Domain, accepts, cell, drawn, grid_size, stream
from rookery.tune.spec import chosen_values


class AskTell(Protocol):
    """Interface of a search."""

    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Returns parameters by path for suggestion `number`, from 0 on; None if there are no more."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Receives the score for each metric; None if the trials failed or reported no number."""


@dataclass(frozen=True)
class SearchConfig(Settings):
    """Base class of the settings of searches."""

    search: ClassVar[str]
    """Import path of the class with these settings."""


C = TypeVar("C", bound=SearchConfig)


class Search(ABC, Generic[C]):
    """Base class of searches: suggests parameters.

    A search depends on its arguments and the calls made so far only: after a kill the calls recorded in the journal are
    made again, in the same order, and the search continues in the same state.

    Args:
        cfg: Settings of the search.
        space: The domains of the parameters it suggests, by path.
        modes: ``max`` or ``min``, for each metric.
        num_samples: Number of suggestions at the beginning (each of the whole grid, if there is one); it may grow when
            an experiment is resumed.
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
        """Suggestions for each sample: the size of the grid, for a search that supports grids."""
        return 1

    @abstractmethod
    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Returns parameters by path for suggestion `number`, from 0 on; None if there are no more."""

    def add(self, number: int, params: Mapping[str, Any]) -> None:
        """Adds suggestion `number` from another source; `tell` follows as for its own."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Receives the scores of suggestion `number`, one for each metric; None if there are none."""


SEARCH = CodeKind("a search (a class of rookery.tune.search.Search)", lambda found: issubclass(found, Search))


@dataclass(frozen=True)
class RandomConfig(SearchConfig):
    """All combinations of the grids, `num_samples` times, with other parameters drawn anew for each."""

    search: ClassVar[str] = "rookery.tune.search:RandomSearch"


class RandomSearch(Search[RandomConfig]):
    """Grid search, random search, and their product."""

    @property
    def per_sample(self) -> int:
        """The size of the grid."""
        return grid_size(self.space)

    def ask(self, number: int) -> dict[str, Any]:
        """Returns the next cell of the grid, and random values that depend on the seed and `number` only."""
        return cell(self.space, number) | drawn(self.space, self.streams, number)


class Suggestions:
    """Sequence of all suggestions, numbered from 0: the user's points, then those of a search.

    A point takes the place of a sample: it counts toward `num_samples`, unless there are more points. Parameters that
    it leaves out are drawn, and all combinations of grids that it leaves out are tried with it. So points do not change
    later samples.

    Args:
        search: Settings of a search, or an object with ``ask(number)`` and ``tell(number, values)`` (see `AskTell`);
            called after the points, which it receives too if it has a method `add`.
        space: The domains of all parameters by path.
        modes: ``max`` or ``min``, for each metric.
        num_samples: Number of samples now.
        points: Parameters by path, to try first.
        streams: Random streams of the experiment.
        config: All settings as one nested dict, with domains in it: functions of `sample_from` receive it with the
            values chosen so far; None = they receive these values alone.
        began_with: Number of samples at the beginning: a search that depends on it must repeat its suggestions when the
            number has grown.

    Raises:
        ConfigError: If the object is not a search, the search cannot use a domain, a point names an unknown parameter
            or lies outside of a domain, or a function of `sample_from` raises on a first try.
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
        initial_samples: int | None = None,
    ) -> None:
        if isinstance(search, SearchConfig):
            wanted = max(initial_samples or num_samples, len(points))
            search = SEARCH.find(search.search)(search, searched_domains(space), modes, wanted, streams)
        elif isinstance(search, type) or not (
            accepts(getattr(search, "ask", None), 0) and accepts(getattr(search, "tell", None), 0, (0.0,))
        ):
            raise ConfigError(
                f"search = {show(search)}: this is not a search, an object with ask(number) -> parameters by path or "
                "None, and tell(number, values)"
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
                self.search.add(at, {path: params[path] for path in searched_domains(self.space)})
            return self._completed(params, at)
        at = number + self.skipped
        suggested = self.search.ask(at) if at < self.total else None
        return None if suggested is None else self._completed(self._checked(suggested, number), at)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Receives the scores of suggestion `number`, one for each metric; None if there are none."""
        if number >= len(self.points):
            self.search.tell(number + self.skipped, values)
        elif hasattr(self.search, "add"):
            self.search.tell(self.points[number][0], values)

    def _checked(self, suggested: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Returns suggested values as values of their domains."""
        where = f"search = {type(self.search).__name__}: suggestion {number}"
        if not isinstance(suggested, Mapping):
            raise ConfigError(f"{where} is {show(suggested)}; ask must return parameters by path, or None")
        refuse(f"{where}: {path} is missing" for path in searched_domains(self.space) if path not in suggested)
        return _adopted(suggested, searched_domains(self.space), where)

    def _completed(self, params: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Returns the parameters with those computed by functions, in the order of the space."""
        chosen = dict(params)
        for path, domain in self.space.items():
            if isinstance(domain, Computed) and path not in params:
                try:
                    chosen[path] = domain.compute(
                        chosen_values(self.config, chosen), stream(self.streams, number, path)
                    )
                except Exception as error:
                    raise ConfigError(
                        f"{path} = {domain}: the function raised {described(error)}; "
                        f"its argument was {show(chosen_values(self.config, chosen))}"
                    ) from error
        return {path: chosen[path] for path in self.space}


def searched_domains(space: Mapping[str, Domain]) -> dict[str, Domain]:
    """Returns the domains whose values a search suggests: all but computed ones."""
    return {path: domain for path, domain in space.items() if not isinstance(domain, Computed)}


def _adopted(values: Mapping[str, Any], space: Mapping[str, Domain], where: str) -> dict[str, Any]:
    """Returns values as values of their domains.

    Raises:
        ConfigError: With a line for each value outside of its domain.
    """
    params: dict[str, Any] = {}
    problems: list[str] = []
    for path, value in values.items():
        if path not in space:
            same = [other for other in space if other.rpartition(".")[2] == str(path).rpartition(".")[2]]
            hint = f"; did you mean {same[0]!r}?" if same else nearest(str(path), list(space))
            problems.append(f"{where}: {path} = {show(value)}: there is no such parameter{hint}")
            continue
        try:
            params[path] = space[path].adopt(value)
        except ConfigError as error:
            problems.append(f"{where}: {path} = {show(value)}: {error}")
    refuse(problems)
    return params
