"""Search by Optuna: tree-structured Parzen estimator, Gaussian process, CMA-ES, quasi-random points, NSGA-II.

Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization (TPE); Hansen 2016, The CMA Evolution Strategy: A
Tutorial; Deb et al. 2002, A Fast and Elitist Multiobjective Genetic Algorithm (NSGA-II). Needs the extra `tune`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rookery.core.errors import ConfigError, refuse
from rookery.core.packages import install_line
from rookery.core.seeding import Role, Streams
from rookery.core.settings.reach import Count, Rows
from rookery.tune.search import Search, SearchConfig
from rookery.tune.space import Choices, Domain, Float, Grid, Integer, Normal

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class OptunaConfig(SearchConfig):
    """Suggestions by a sampler of Optuna, which learns from earlier results."""

    search: ClassVar[str] = "rookery.tune.optuna_search:OptunaSearch"

    sampler: Literal["tpe", "gp", "cmaes", "qmc", "nsga2", "random"] = "tpe"
    """Sampler: ``tpe`` for most experiments; ``gp`` for few numeric parameters and long trials; ``cmaes`` for hundreds
    of trials with numeric parameters only; ``qmc`` spreads points evenly without learning; ``nsga2`` for several
    metrics and hundreds of trials.
    """
    startup: Count | None = None
    """Random suggestions before the sampler (tpe, gp, cmaes) begins; none = a quarter of `num_samples`, 4 to 10."""
    multivariate: bool = True
    """Whether tpe models all parameters jointly, with their dependencies."""
    population: Rows = 20
    """Population size of nsga2."""


class OptunaSearch(Search[OptunaConfig]):
    """Ask-and-tell interface to an Optuna study.

    Several suggestions may be open at the same time: ``tpe`` treats them as bad ones (constant liar), ``gp`` and
    ``cmaes`` use finished ones only.

    Raises:
        ConfigError: If Optuna or a package of the sampler is not installed, a domain is a grid, or the sampler does not
            support several metrics.
    """

    def __init__(
        self, cfg: OptunaConfig, space: Mapping[str, Domain], modes: Sequence[str], num_samples: int, streams: Streams
    ) -> None:
        super().__init__(cfg, space, modes, num_samples, streams)
        refuse(
            f"{path} = {domain}: search optuna does not support grids; write choice, or search: {{name: random}}"
            for path, domain in space.items()
            if isinstance(domain, Grid)
        )
        if cfg.sampler == "cmaes" and len(modes) > 1:
            raise ConfigError(
                f"search.sampler = 'cmaes' supports one metric, not {len(modes)}; use tpe, gp or nsga2, or one metric"
            )
        self.axes = {path: Axis(domain) for path, domain in space.items()}
        self.trials: dict[int, optuna.Trial] = {}
        optuna = _optuna()
        directions = ["maximize" if mode == "max" else "minimize" for mode in modes]
        self.study = optuna.create_study(directions=directions, sampler=self._sampler(optuna))
        self.distributions = {path: axis.distribution(optuna.distributions) for path, axis in self.axes.items()}
        self.failed = optuna.trial.TrialState.FAIL

    def ask(self, number: int) -> dict[str, Any]:
        """Returns Optuna's next suggestion."""
        trial = self.trials[number] = _quietly(lambda: self.study.ask(self.distributions))
        return {path: axis.value(trial.params[path]) for path, axis in self.axes.items()}

    def add(self, number: int, params: Mapping[str, Any]) -> None:
        """Adds a point to the study, as one of its own suggestions."""
        self.study.enqueue_trial({path: axis.coordinate(params[path]) for path, axis in self.axes.items()})
        self.trials[number] = _quietly(lambda: self.study.ask(self.distributions))

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Passes the scores of a suggestion to Optuna; without finite scores it counts as failed, and is ignored."""
        trial = self.trials.pop(number)
        if values is None or not all(map(math.isfinite, values)):
            self.study.tell(trial, state=self.failed)
        else:
            self.study.tell(trial, list(values))

    def _sampler(self, optuna: Any) -> Any:
        """Returns the sampler, seeded by the experiment."""
        cfg, samplers = self.cfg, optuna.samplers
        seed = self.streams.integer(Role.TUNE, "search", "optuna")
        startup = min(max(self.num_samples // 4, 4), 10) if cfg.startup is None else cfg.startup
        made: dict[str, Callable[..., Any]] = {
            "tpe": partial(
                samplers.TPESampler, n_startup_trials=startup, multivariate=cfg.multivariate, constant_liar=True
            ),
            "gp": partial(samplers.GPSampler, n_startup_trials=startup),
            "cmaes": partial(samplers.CmaEsSampler, n_startup_trials=startup, warn_independent_sampling=False),
            "qmc": partial(samplers.QMCSampler, scramble=True, warn_independent_sampling=False),
            "nsga2": partial(samplers.NSGAIISampler, population_size=cfg.population),
            "random": samplers.RandomSampler,
        }
        return _quietly(lambda: made[cfg.sampler](seed=seed))


class Axis:
    """Map between the values of a domain and coordinates of an Optuna distribution.

    Values with a step are multiples of it, also for logarithms. The coordinate of a normal value is its cumulative
    probability, that of a choice its index: an integer if all values are ascending numbers, else categorical.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def distribution(self, kinds: Any) -> Any:
        """Returns the distribution of coordinates, from Optuna's module of distributions."""
        domain = self.domain
        if isinstance(domain, Float) and domain.step is None:
            return kinds.FloatDistribution(domain.low, domain.high, log=domain.log)
        if isinstance(domain, Float | Integer):
            return kinds.IntDistribution(self.coordinate(domain.low), self.coordinate(domain.high), log=domain.log)
        if isinstance(domain, Choices):
            count = len(domain.values)
            ascend = _ascend(domain.values)
            return kinds.IntDistribution(0, count - 1) if ascend else kinds.CategoricalDistribution(range(count))
        return kinds.FloatDistribution(0.0, 1.0)

    def coordinate(self, value: Any) -> Any:
        """Returns the coordinate of a value."""
        domain = self.domain
        if isinstance(domain, Choices):
            return domain.index(value)
        if isinstance(domain, Normal):
            return domain.share(value)
        if isinstance(domain, Integer):
            return value // domain.step
        assert isinstance(domain, Float)
        return round(value / domain.step) if domain.step else value

    def value(self, coordinate: Any) -> Any:
        """Returns the value at a coordinate."""
        domain = self.domain
        if isinstance(domain, Choices):
            return domain.values[coordinate]
        if isinstance(domain, Normal):
            return domain.quantile(coordinate)
        assert isinstance(domain, Float | Integer)
        return domain.clip(coordinate * (domain.step or 1))


def _ascend(values: Sequence[Any]) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and all(low < high for low, high in pairwise(values))


def _optuna() -> Any:
    """Imports Optuna and makes it log errors only.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"search optuna needs {error.name}, which is not installed; {install_line('tune')}, or search: random"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _quietly(call: Callable[[], Any]) -> Any:
    """Returns the result of `call`, without Optuna's warnings about experimental features.

    Raises:
        ConfigError: If a package of the sampler is missing.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"optuna\..*")
        warnings.filterwarnings("ignore", message=".*experimental.*")
        try:
            return call()
        except ImportError as error:
            raise ConfigError(f"this sampler of optuna lacks a package: {error}; {install_line('tune')}") from error
