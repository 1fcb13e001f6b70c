"""Search algorithms under Tune's names, on Rookery's (`rookery.tune.search`, `rookery.tune.optuna_search`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.face import ConfigError, OptunaConfig, RandomConfig, nearest, show
from rookery.face import space as own_space
from rookery_rllib.trainer.trial.loggers import flatten_dict
from rookery_rllib.tune.space import space_of

WHOLE = "suggestion"
"""Path of the complete suggestion of a script's own searcher."""

SAMPLERS = {"TPESampler": "tpe", "GPSampler": "gp", "CmaEsSampler": "cmaes", "QMCSampler": "qmc",
            "NSGAIISampler": "nsga2", "RandomSampler": "random"}  # fmt: skip
"""Optuna's samplers that Rookery's search supports."""

UNSUPPORTED = {
    "ax": "AxSearch", "bayesopt": "BayesOptSearch", "bohb": "TuneBOHB", "dragonfly": "DragonflySearch",
    "hebo": "HEBOSearch", "hyperopt": "HyperOptSearch", "nevergrad": "NevergradSearch", "sigopt": "SigOptSearch",
    "skopt": "SkOptSearch", "zoopt": "ZOOptSearch", "cfo": "CFO", "blendsearch": "BlendSearch",
}  # fmt: skip
"""Search algorithms of other libraries."""


class SearchAlgorithm:
    """Base of search algorithms.

    Attributes:
        metric: Key of the objective in results; None = that of ``tune.run``.
        mode: ``max`` or ``min``; None = that of ``tune.run``.
        max_concurrent: Limit of concurrent trials; None = no limit.
    """

    metric: str | None = None
    mode: str | None = None
    max_concurrent: int | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any]) -> bool:
        """Sets the metric and mode of ``tune.run``; returns whether they can be used."""
        self.metric, self.mode = self.metric or metric, self.mode or mode
        return True


class BasicVariantGenerator(SearchAlgorithm):
    """Grid search over grids, random search over other domains."""

    def __init__(self, points_to_evaluate: Sequence[Mapping[str, Any]] | None = None, max_concurrent: int = 0) -> None:
        self.points = [flatten_dict(point) for point in points_to_evaluate or ()]
        self.max_concurrent = max_concurrent or None


class Searcher(SearchAlgorithm):
    """Base of a script's own search. Subclasses implement `suggest` and `on_trial_complete`.

    `use_early_stopped_trials` has no meaning here.
    """

    FINISHED = "FINISHED"

    def __init__(
        self,
        metric: str | None = None,
        mode: str | None = None,
        max_concurrent: int | None = None,
        use_early_stopped_trials: bool | None = None,
    ) -> None:
        if mode not in (None, "min", "max"):
            raise ConfigError(f"{type(self).__name__}: mode = {mode!r}: must be min or max")
        self._metric, self._mode, self.max_concurrent = metric, mode, max_concurrent

    @property
    def metric(self) -> str | None:  # type: ignore[override]
        return getattr(self, "_metric", None)

    @property
    def mode(self) -> str | None:  # type: ignore[override]
        return getattr(self, "_mode", None)

    def set_search_properties(self, metric: str | None, mode: str | None, config: Mapping[str, Any]) -> bool:
        """Sets the metric, mode and search space of ``tune.run``; returns whether they were accepted."""
        return False

    def suggest(self, trial_id: str) -> Any:
        """Returns the configuration of a trial; None or `FINISHED` = there will be no more."""
        raise NotImplementedError(f"{type(self).__name__} has no suggest(trial_id)")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called with each result."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Called when a trial is complete."""

    def save(self, checkpoint_path: str) -> None:
        """Writes its state; not called here."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads its state; not called here."""


class OptunaSearch(SearchAlgorithm):
    """Search by Optuna (extra ``tune``).

    Args:
        space: Domains of ``tune``, or distributions of Optuna; None = the domains in ``tune.run(config=)``.
        sampler: A sampler of Optuna; one of the same kind is made for the experiment, with its seed.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | Sequence[Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        sampler: Any = None,
        seed: int | None = None,
    ) -> None:
        if space is not None and not isinstance(space, Mapping):
            raise ConfigError("OptunaSearch: space is a list; give a dict, such as {'lr': tune.loguniform(1e-5, 1e-2)}")
        self.metric, self.mode, self.seed = metric, mode, seed
        self.points = [flatten_dict(point) for point in points_to_evaluate or ()]
        kind = type(sampler).__name__
        if sampler is not None and kind not in SAMPLERS:
            raise ConfigError(f"OptunaSearch: sampler = {kind}: there are {', '.join(SAMPLERS)}")
        self.cfg = OptunaConfig(sampler=SAMPLERS[kind]) if sampler is not None else OptunaConfig()  # type: ignore[arg-type]
        self.space: dict[str, Any] = {}
        for path, node in flatten_dict(space or {}).items():
            found = space_of({path: node})
            self.space[path] = found[path] if found else domain_of_optuna(path, node)


def domain_of_optuna(path: str, node: Any) -> Any:
    """Returns a domain for a distribution of Optuna; raises a ConfigError for other values."""
    kind = type(node).__name__
    if kind == "CategoricalDistribution":
        return own_space.choice(list(node.choices))
    low, high, step = getattr(node, "low", None), getattr(node, "high", None), getattr(node, "step", None)
    log = getattr(node, "log", False) or "LogUniform" in kind
    if low is None or high is None:
        raise ConfigError(f"OptunaSearch: space: {path} = {show(node)}: must be a domain of tune or of Optuna")
    if kind.startswith("Int"):
        step = step or 1
        if log:
            return own_space.lograndint(low, high + 1)
        return own_space.randint(low, high + 1) if step == 1 else own_space.qrandint(low, high, step)
    if log:
        return own_space.loguniform(low, high)
    return own_space.quniform(low, high, step) if step else own_space.uniform(low, high)


class ConcurrencyLimiter(SearchAlgorithm):
    """Limits concurrent trials; `batch` has no meaning here: a new trial starts when one ends."""

    def __init__(self, searcher: SearchAlgorithm, max_concurrent: int, batch: bool = False) -> None:
        self.searcher, self.max_concurrent = searcher, max_concurrent
        self.metric, self.mode = searcher.metric, searcher.mode


class Repeater(SearchAlgorithm):
    """Repeats each suggestion with several seeds; the search gets the mean. `set_index` has no meaning here."""

    def __init__(self, searcher: SearchAlgorithm, repeat: int = 1, set_index: bool = True) -> None:
        self.searcher, self.repeat = searcher, repeat
        self.metric, self.mode = searcher.metric, searcher.mode


@dataclass(frozen=True)
class Plan:
    """Settings of a search algorithm.

    Attributes:
        search: Settings of Rookery's search, or a script's own searcher.
        space: Domains beside those of the configuration, by path.
        points: Values to try first, by path.
        repeats: Trials of each suggestion.
        max_concurrent: Limit of concurrent trials.
        metric: Key of the objective in results.
        mode: ``max`` or ``min``.
        seed: Seed of the search.
    """

    search: Any
    space: Mapping[str, Any]
    points: Sequence[Mapping[str, Any]]
    repeats: int
    max_concurrent: int | None
    metric: str | None
    mode: str | None
    seed: int | None


def plan_of(given: Any) -> Plan:
    """Returns the search of the argument ``search_alg=``.

    Raises:
        ConfigError: If it is not a supported search.
    """
    if given is None:
        given = BasicVariantGenerator()
    if isinstance(given, str):
        given = create_searcher(given)
    limit, repeats = given.max_concurrent if isinstance(given, SearchAlgorithm) else None, 1
    while isinstance(given, ConcurrencyLimiter | Repeater):
        if isinstance(given, Repeater):
            repeats *= given.repeat
        given = given.searcher
        inner = given.max_concurrent
        limit = min(limit or inner or 0, inner or limit or 0) or None
    if isinstance(given, BasicVariantGenerator):
        return Plan(RandomConfig(), {}, given.points, repeats, limit, None, None, None)
    if isinstance(given, OptunaSearch):
        return Plan(given.cfg, given.space, given.points, repeats, limit, given.metric, given.mode, given.seed)
    if isinstance(given, Searcher):
        return Plan(given, {WHOLE: own_space.Computed(no_value)}, (), repeats, limit, given.metric, given.mode, None)
    raise ConfigError(
        f"search_alg = {show(given)}: must be BasicVariantGenerator, OptunaSearch, a class below "
        "ray.tune.suggest.Searcher, or one of these in ConcurrencyLimiter or Repeater"
    )


def no_value(known: Mapping[str, Any]) -> dict[str, Any]:
    """Placeholder of a suggestion that is not made yet."""
    return {}


def create_searcher(search_alg: str, **kwargs: Any) -> SearchAlgorithm:
    """Makes a search by its short name; unknown arguments are ignored, as in Tune.

    Raises:
        ConfigError: If it needs an unsupported library.
    """
    name = search_alg.lower()
    known: dict[str, Any] = {"variant_generator": BasicVariantGenerator, "random": BasicVariantGenerator,
                             "optuna": OptunaSearch}  # fmt: skip
    if name in UNSUPPORTED:
        raise ConfigError(f"{UNSUPPORTED[name]}: is not supported; OptunaSearch is also model-based")
    if name not in known:
        raise ConfigError(f"create_searcher({search_alg!r}): there is no such search{nearest(name, list(known))}")
    made = known[name]
    parameters = inspect.signature(made).parameters
    return made(**{key: value for key, value in kwargs.items() if key in parameters})  # type: ignore[no-any-return]


class SearcherAdapter:
    """Adapts a script's own searcher to Rookery's runner."""

    def __init__(self, searcher: Searcher, total: int, prefix: str) -> None:
        self.searcher, self.total, self.prefix = searcher, total, prefix
        self.last: dict[int, dict[str, Any]] = {}
        """The last result of each suggestion's trials."""

    def trial_id(self, number: int) -> str:
        """Returns the identifier of a trial."""
        return f"{self.prefix}_{number:05d}"

    def ask(self, number: int) -> dict[str, Any] | None:
        """Returns the searcher's suggestion."""
        if number >= self.total:
            return None
        suggested = self.searcher.suggest(self.trial_id(number))
        if suggested is None or suggested == Searcher.FINISHED:
            return None
        return {WHOLE: suggested}

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Passes the last result to the searcher."""
        self.searcher.on_trial_complete(self.trial_id(number), self.last.get(number), error=values is None)
