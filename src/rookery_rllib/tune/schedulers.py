"""Schedulers under Tune's names, each implemented by one of Rookery's (`rookery.tune.schedulers`).

Docstrings state the differences from Tune's schedulers.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rookery.core.packages import is_own
from rookery.face import (
    ASHA,
    FIFO,
    Action,
    Actions,
    ASHAConfig,
    ConfigError,
    Exploit,
    FIFOConfig,
    HyperBand,
    HyperBandConfig,
    Median,
    MedianConfig,
    PB2Config,
    Population,
    PopulationConfig,
    Scheduler,
    Streams,
    nearest,
    show,
)
from rookery.face import PB2 as OurPB2
from rookery.face import space as own_space
from rookery_rllib.tune.space import Domain, Function, is_grid, parts_of, written_path

Space = Mapping[str, Any]


class TrialScheduler:
    """Base of schedulers. A script's own cannot derive from it, because another class decides here.

    Attributes:
        metric: Key of the objective in results; None = that of ``tune.run``.
        mode: ``max`` or ``min``; None = that of ``tune.run``.
        time_attr: Key of a trial's age in results.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"

    metric: str | None = None
    mode: str | None = None
    time_attr: str = "training_iteration"

    clones: bool = False
    """Whether trials copy checkpoints of others, or resume their own with other parameters."""

    makes: ClassVar[Callable[..., Scheduler[Any]]] = FIFO
    """Scheduler of Rookery."""

    cfg: Any = FIFOConfig(time=time_attr)
    """Settings of that scheduler."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not is_own(cls.__module__):
            raise ConfigError(
                f"{cls.__name__}: a script's own scheduler cannot derive from it: derive one from "
                "rookery.tune.Scheduler, whose on_result stops trials, and pass it to rookery.tune.run(scheduler=)"
            )

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Sets the metric and mode of ``tune.run``; returns whether it had none."""
        if (self.metric and metric) or (self.mode and mode):
            return False
        self.metric, self.mode = metric or self.metric, mode or self.mode
        return True

    def parameters(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns domains by path of parameters that it changes and the configuration fixes."""
        return {}

    def make(self, space: Space, streams: Streams) -> Scheduler[Any]:
        """Makes Rookery's scheduler.

        Args:
            space: Domains by path.
            streams: Random streams of the experiment.
        """
        return self.makes(self.cfg, space, streams)

    def finish(self, folder: str, ids: Mapping[str, str]) -> None:
        """Writes its files at the end.

        Args:
            folder: Directory of the experiment.
            ids: Identifiers of trials by their names in the journal.
        """


class FIFOScheduler(TrialScheduler):
    """Runs every trial to its end."""


def setting(name: str, default: Any, read: Callable[[Any], Any] | None = None) -> Any:
    """Returns a field for an argument of Tune that is a setting of Rookery's scheduler.

    Args:
        name: The setting.
        default: Default of the argument.
        read: Converts the argument to the setting; None = unchanged.
    """
    return field(default=default, metadata={"setting": name, "read": read or (lambda value: value)})


@dataclass(eq=False, repr=False)
class ComparingScheduler(TrialScheduler):
    """Base of schedulers that compare trials: the first four arguments; `reward_attr` is a metric of mode ``max``."""

    config: ClassVar[Callable[..., Any]]
    """Class of the settings."""

    time_attr: str = setting("time", "training_iteration")
    reward_attr: str | None = None
    metric: str | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max"):
            raise ConfigError(f"{type(self).__name__}: mode = {self.mode!r}: must be min or max")
        if self.reward_attr:
            self.metric, self.mode = self.reward_attr, "max"
        self.cfg = self.config(**self.settings())

    def settings(self) -> dict[str, Any]:
        """Returns the settings of Rookery's scheduler; raises a ConfigError for invalid arguments."""
        taken = {part.name: part.metadata for part in fields(self) if "setting" in part.metadata}
        return {about["setting"]: about["read"](getattr(self, name)) for name, about in taken.items()}


@dataclass(eq=False, repr=False)
class AsyncHyperBandScheduler(ComparingScheduler):
    """Stops trials that are not among the best at a rung; trials do not wait for each other.

    Equal scores do not stop a trial here; Tune compares with a percentile, and stops the first of two.
    """

    makes, config = ASHA, ASHAConfig

    max_t: float = setting("max_time", 100, float)
    grace_period: float = setting("grace", 1, float)
    reduction_factor: float = 4
    brackets: int = setting("brackets", 1)

    def settings(self) -> dict[str, Any]:
        if self.max_t < self.grace_period:
            raise ConfigError(
                f"{type(self).__name__}: grace_period = {self.grace_period:g} must not be above max_t = {self.max_t:g}"
            )
        found = {**super().settings(), "reduction": whole_factor(self, self.reduction_factor)}
        if self.max_t == self.grace_period:  # no comparison; trials end at max_t
            found["grace"] = self.max_t / found["reduction"]
        return found


ASHAScheduler = AsyncHyperBandScheduler


@dataclass(eq=False, repr=False)
class HyperBandScheduler(ComparingScheduler):
    """Synchronizes the trials of a bracket, and continues the best of them.

    `stop_last_trials` must be True: trials end at `max_t`.
    """

    makes, config = HyperBand, HyperBandConfig

    max_t: float = setting("max_time", 81, float)
    reduction_factor: float = 3
    stop_last_trials: bool = True

    def settings(self) -> dict[str, Any]:
        if not self.stop_last_trials:
            raise ConfigError(
                "HyperBandScheduler: stop_last_trials=False: trials end at max_t here; set a larger max_t"
            )
        return {**super().settings(), "reduction": whole_factor(self, self.reduction_factor)}


@dataclass(eq=False, repr=False)
class MedianStoppingRule(ComparingScheduler):
    """Stops trials whose best result is below the median of the others' running means.

    `min_time_slice` has no meaning here: each result is compared.
    """

    makes, config = Median, MedianConfig

    time_attr: str = setting("time", "time_total_s")
    grace_period: float = setting("grace", 60.0, lambda seconds: max(float(seconds), 1e-9))
    min_samples_required: int = setting("min_samples", 3)
    min_time_slice: int = 0
    hard_stop: bool = setting("hard_stop", True)


# --- populations ------------------------------------------------------------------------------------------------------


class Mutations(Population[PopulationConfig]):
    """Perturbs a donor's parameters as Tune does: numbers by 1.2 or 0.8, list values by one step.

    Args:
        cfg: Interval, quantile and so on.
        space: Domains by path.
        streams: Random streams of the experiment.
        mutations: Lists, domains and functions by path.
        resample: Probability of drawing a parameter anew.
        custom: Changes the nested configuration last.
        fill: Sets values by path in the configuration.
    """

    def __init__(
        self,
        cfg: PopulationConfig,
        space: Space,
        streams: Streams,
        mutations: Mapping[str, Any],
        resample: float,
        custom: Callable[..., Any] | None,
        fill: Callable[..., Any] | None,
    ) -> None:
        super().__init__(cfg, space, streams)
        self.mutations, self.resample, self.custom, self.fill = mutations, resample, custom, fill
        self.history: dict[str, list[tuple[Any, ...]]] = {}
        """History of each trial: (clone, donor, clone's age, donor's age, donor's values, new ones)."""

    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the new parameters of a clone."""
        before = self.members[donor].params
        params = {**before, **{path: self._changed(path, before[path], rng) for path in self.mutations}}
        if self.custom is None or self.fill is None:
            return params
        explored = self.custom(copy.deepcopy(self.fill(params)))
        if not isinstance(explored, Mapping):
            raise ConfigError("custom_explore_fn: must return the configuration that it was given, changed or not")
        return {path: value_of(explored, path, value) for path, value in params.items()}

    def _changed(self, path: str, value: Any, rng: np.random.Generator) -> Any:
        """Resamples a value, or perturbs it."""
        choices, again = self.mutations[path], rng.random() < self.resample
        up = rng.random() > 0.5
        if isinstance(choices, list | tuple):
            if again or value not in choices:
                return choices[int(rng.integers(len(choices)))]
            place = list(choices).index(value) + (-1 if up else 1)
            return choices[min(max(place, 0), len(choices) - 1)]
        if again or not isinstance(value, int | float) or isinstance(value, bool):
            new = choices.domain.quantile(rng.random()) if isinstance(choices, Domain) else choices()
        else:
            new = value * (1.2 if up else 0.8)
        return int(new) if isinstance(value, int) and not isinstance(value, bool) else new

    def compare(self, trials: Sequence[str]) -> Actions:
        """Records clones and donors."""
        members, history = dict(self.members), dict(self.history)
        ages = {name: member.since for name, member in members.items()}
        before = {name: dict(member.params) for name, member in members.items()}
        actions = super().compare(trials)
        for name, action in actions.items():
            if isinstance(action, Exploit):
                donor = action.donor
                row = (name, donor, ages[name], ages[donor], before[donor], dict(action.params))
                self.history[name] = [*history.get(donor, []), row]
        return actions


def value_of(config: Mapping[str, Any], path: str, otherwise: Any) -> Any:
    """Returns the value in a nested configuration at a path."""
    node: Any = config
    for key in path.split("/"):
        found = [part for name, part in parts_of(node) if str(name) == key]
        if not found:
            return otherwise
        node = found[0]
    return node


@dataclass(eq=False, repr=False)
class CloningScheduler(ComparingScheduler):
    """Base of `PopulationBasedTraining` and `PB2`: bad trials continue as copies of good ones, with other values."""

    clones = True

    time_attr: str = setting("time", "time_total_s")
    perturbation_interval: float = setting("interval", 60.0, float)

    def domains(self, space: Space) -> dict[str, Any]:
        """Returns a domain by path for each parameter that changes.

        Args:
            space: The initial domains by path.
        """
        raise NotImplementedError

    def parameters(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a domain for each parameter that the configuration fixes."""
        found: dict[str, Any] = {}
        for path, domain in self.domains({}).items():
            fixed = value_of(config, path, self)
            if fixed is self:
                found[path] = domain
            elif not is_open(fixed):
                found[path] = own_space.choice([fixed])
        return found


@dataclass(eq=False, repr=False)
class PopulationBasedTraining(CloningScheduler):
    """Population based training: periodically replaces the worst trials by perturbed copies of the best.

    `require_attrs` has no meaning here. Files ``pbt_global.txt`` and ``pbt_policy_<trial>.txt`` hold the history.
    """

    config = PopulationConfig

    burn_in_period: float = setting("burn_in", 0.0, float)
    hyperparam_mutations: Mapping[str, Any] | None = None
    quantile_fraction: float = setting("quantile", 0.25, float)
    resample_probability: float = 0.25
    custom_explore_fn: Callable[..., Any] | None = None
    log_config: bool = True
    require_attrs: bool = True
    synch: bool = setting("synchronous", False, bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hyperparam_mutations and not self.custom_explore_fn:
            raise ConfigError("PopulationBasedTraining: takes hyperparam_mutations, custom_explore_fn, or both")
        self.mutations = flat_mutations(self.hyperparam_mutations or {})
        self.fill: Callable[..., Any] | None = None
        self.made: Mutations | None = None

    def domains(self, space: Space) -> dict[str, Any]:
        """Returns a domain for each mutation."""
        return {path: domain_of_mutation(choices) for path, choices in self.mutations.items()}

    def make(self, space: Space, streams: Streams) -> Scheduler[Any]:
        """Makes a population that mutates as Tune's."""
        resample, explore = self.resample_probability, self.custom_explore_fn
        self.made = Mutations(self.cfg, space, streams, self.mutations, resample, explore, self.fill)
        return self.made

    def finish(self, folder: str, ids: Mapping[str, str]) -> None:
        if not self.log_config or self.made is None:
            return
        for trial, rows in self.made.history.items():
            lines = [json.dumps([ids[row[0]], ids[row[1]], *row[2:]], default=str) for row in rows]
            Path(folder, f"pbt_policy_{ids[trial]}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        steps = {json.dumps(row, default=str): row for rows in self.made.history.values() for row in rows}
        if steps:
            rows = sorted(steps.values(), key=lambda row: row[3])
            lines = [json.dumps([ids[row[0]], ids[row[1]], *row[2:]], default=str) for row in rows]
            Path(folder, "pbt_global.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Drawing:
    """A function that samples a value, as a function of the values chosen so far."""

    function: Callable[[], Any]

    def __call__(self, known: Mapping[str, Any]) -> Any:
        return self.function()


def is_open(value: Any) -> bool:
    """Returns whether a value is not chosen yet."""
    return isinstance(value, Domain) or is_grid(value)


def domain_of_mutation(choices: Any) -> Any:
    """Returns the domain of a list, a domain or a sampling function."""
    if isinstance(choices, Domain):
        return choices.domain
    return (
        own_space.choice(list(choices)) if isinstance(choices, list | tuple) else own_space.Computed(Drawing(choices))
    )


def leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yields path and value of all leaves in nested dicts."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, key))
        else:
            yield written_path((*above, key)), value


def flat_mutations(mutations: Mapping[str, Any]) -> dict[str, Any]:
    """Returns mutations by path; raises a ConfigError for other values than lists, domains or functions."""
    found = dict(leaves(mutations))
    for path, value in found.items():
        if isinstance(value, Function) or not (isinstance(value, list | tuple | Domain) or callable(value)):
            raise ConfigError(
                f"hyperparam_mutations: {path} = {show(value)}: must be a list, a function without "
                "arguments that draws a value, or a domain such as tune.uniform(0, 1)"
            )
    return found


@dataclass(eq=False, repr=False)
class PB2(CloningScheduler):
    """Population based bandits: replaces the worst trials by copies of the best, with values chosen by a model.

    `log_config` and `require_attrs` have no meaning here.
    """

    config = PB2Config

    hyperparam_bounds: Mapping[str, Any] | None = None
    quantile_fraction: float = setting("quantile", 0.25, float)
    log_config: bool = True
    require_attrs: bool = True
    synch: bool = setting("synchronous", False, bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hyperparam_bounds:
            raise ConfigError("PB2: takes hyperparam_bounds, such as {'lr': [1e-5, 1e-2]}")
        self.bounds = flat_bounds(self.hyperparam_bounds)

    def domains(self, space: Space) -> dict[str, Any]:
        """Returns a domain for each pair of bounds; of integers if the bounds and the initial values are.

        Args:
            space: The initial domains by path.
        """
        return {
            path: own_space.randint(low, high + 1)
            if isinstance(low, int) and isinstance(high, int) and not has_fractions(space.get(path))
            else own_space.uniform(low, high)
            for path, (low, high) in self.bounds.items()
        }

    def make(self, space: Space, streams: Streams) -> Scheduler[Any]:
        return OurPB2(self.cfg, {**space, **self.domains(space)}, streams)


def has_fractions(domain: Any) -> bool:
    """Returns whether a domain has fractions; bounds such as [0, 1] are then not integers."""
    if isinstance(domain, own_space.Listed):
        return any(isinstance(value, float) for value in domain.values)
    return isinstance(domain, own_space.Numeric) and not isinstance(domain, own_space.Integer)


def flat_bounds(bounds: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Returns bounds by path; raises a ConfigError for other values than ascending pairs."""
    found = dict(leaves(bounds))
    for path, value in found.items():
        if not isinstance(value, list | tuple) or len(value) != 2 or not value[0] < value[1]:
            raise ConfigError(f"hyperparam_bounds: {path} = {show(value)}: must be [smallest, largest]")
    return {path: (low, high) for path, (low, high) in found.items()}


# --- replay -----------------------------------------------------------------------------------------------------------


class ReplayedSchedule(Scheduler[FIFOConfig]):
    """Changes the parameters of the one trial at the recorded ages; it resumes from its own checkpoint."""

    def __init__(self, cfg: FIFOConfig, space: Space, streams: Streams, steps: Sequence[tuple[float, Any]]) -> None:
        super().__init__(cfg, space, streams)
        self.steps = steps
        self.done: dict[str, int] = {}
        self.params: dict[str, dict[str, Any]] = {}

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        self.done[trial], self.params[trial] = 0, dict(params)

    def milestone(self, trial: str) -> float | None:
        at = self.done[trial]
        return float(self.steps[at][0]) if at < len(self.steps) else None

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        at = self.done[trial]
        due = [step for step in self.steps[at:] if step[0] <= time]
        if not due:
            return {}
        self.done[trial] = at + len(due)
        self.params[trial] |= {path: value for path, value in due[-1][1].items() if path in self.params[trial]}
        return {trial: Exploit(trial, dict(self.params[trial]))}


class PopulationBasedTrainingReplay(TrialScheduler):
    """Replays the parameter schedule of the best trial of a population with one trial.

    Args:
        policy_file: A file ``pbt_policy_<trial>.txt`` that `PopulationBasedTraining` has written here.
    """

    clones = True

    def __init__(self, policy_file: str) -> None:
        path = Path(policy_file).expanduser()
        try:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            self.steps = tuple((age, new) for _, _, age, _, _, new in rows)
            self.initial: dict[str, Any] = dict(rows[0][4]) if rows else {}
        except (OSError, ValueError, TypeError, IndexError) as error:
            raise ConfigError(f"PopulationBasedTrainingReplay: {policy_file}: cannot be read: {error}") from None
        if not rows:
            raise ConfigError(f"PopulationBasedTrainingReplay: {policy_file}: is empty: the trial was never replaced")

    def parameters(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {path: own_space.choice([value]) for path, value in self.initial.items()}

    def make(self, space: Space, streams: Streams) -> Scheduler[Any]:
        return ReplayedSchedule(self.cfg, space, streams, self.steps)


# --- by name ----------------------------------------------------------------------------------------------------------


def whole_factor(scheduler: TrialScheduler, factor: float) -> int:
    """Returns a reduction factor as an integer; raises a ConfigError for fractions."""
    if factor != int(factor) or factor < 2:
        raise ConfigError(
            f"{type(scheduler).__name__}: reduction_factor = {factor:g}: must be a whole number, 2 or more; "
            f"{max(2, round(factor))} is the nearest"
        )
    return int(factor)


SCHEDULERS: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": ASHAScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "hyperband": HyperBandScheduler,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "pb2": PB2,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """Makes a scheduler by its short name; unknown arguments are ignored, as in Tune."""
    name = scheduler.lower()
    if name == "hb_bohb":
        raise ConfigError("hb_bohb (HyperBandForBOHB): BOHB is not supported; use hyperband with OptunaSearch")
    if name not in SCHEDULERS:
        raise ConfigError(
            f"create_scheduler({scheduler!r}): there is no such scheduler{nearest(name, list(SCHEDULERS))}"
        )
    known = inspect.signature(SCHEDULERS[name]).parameters
    return SCHEDULERS[name](**{key: value for key, value in kwargs.items() if key in known})


def scheduler_of(given: Any) -> TrialScheduler:
    """Returns the scheduler of the argument ``scheduler=``; raises a ConfigError for other values."""
    if given is None:
        return FIFOScheduler()
    if isinstance(given, str):
        return create_scheduler(given)
    if isinstance(given, TrialScheduler):
        return given
    raise ConfigError(f"scheduler = {show(given)}: must be one of ray.tune.schedulers, such as ASHAScheduler()")


class RecordingScheduler(Scheduler[Any]):
    """Forwards calls to another scheduler, and records its last decision for each reporting trial.

    As in Tune, where comparisons with NaN are false, ASHA and median stopping do not stop a trial before its first
    number, which exists once an episode has ended.
    """

    def __init__(self, inner: Scheduler[Any]) -> None:
        super().__init__(inner.cfg, inner.space, inner.streams)
        self.inner = inner
        self.actions: dict[str, Action | Exploit] = {}
        self.scored: set[str] = set()

    @property
    def yields(self) -> bool:
        return self.inner.yields

    def add(self, trial: str, params: Mapping[str, Any]) -> None:
        self.inner.add(trial, params)

    def milestone(self, trial: str) -> float | None:
        return self.inner.milestone(trial)

    def on_result(self, trial: str, time: float, score: float) -> Actions:
        """Forwards a result, and records the decision."""
        if score > -math.inf:
            self.scored.add(trial)
        judged = trial in self.scored or not isinstance(self.inner, ASHA | Median)
        is_over = time >= getattr(self.cfg, "max_time", math.inf)
        actions = self.inner.on_result(trial, time, score) if judged or is_over else {}
        self.actions[trial] = actions.get(trial, Action.CONTINUE)
        return actions

    def on_end(self, trial: str) -> Actions:
        return self.inner.on_end(trial)

    def drained(self, paused: Sequence[str]) -> Actions:
        return self.inner.drained(paused)
