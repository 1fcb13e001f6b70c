"""Trials that are trainings: `TrainingJob` has the settings that all trials share, `TrainingWork` is a running trial.

A trial's folder is an ordinary run directory; its parameters are the strongest layer of settings of the trainer.
"""

from __future__ import annotations

import copy
import signal
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import Resolved, current_path, resolve
from rookery.core.errors import ConfigError, EnvError, SpaceError, refuse
from rookery.core.io.files import FOLDER, FileError, last_good, list_checkpoints, read_manifest
from rookery.core.settings.layers import Layer, nested
from rookery.core.settings.starting_folder import started_in, starting_folder
from rookery.core.settings.thresholds import AtMost, directed
from rookery.core.settings.trust import texts_in
from rookery.envs.make import env_name, has_single_envs
from rookery.report.metrics_file import row_at
from rookery.rollout.hooks import EpisodeListener
from rookery.run.checks.foreign_settings import objections_in
from rookery.run.prepare import callbacks_of
from rookery.run.results import result_of
from rookery.run.settings import RunConfig, algorithm_name
from rookery.run.stopping import StopFunction, stop_rule
from rookery.run.trainer import Trainer
from rookery.tune.identity import training_spec
from rookery.tune.job import Job, Start, Work, reset_folder
from rookery.tune.jobs.rows import BEGINNINGS, is_grouped, not_reported, reached_criterion
from rookery.tune.space import Choices, Domain, Drawn, Float, Grid, Integer, to_json
from rookery.tune.spec import domains_in, fill, merged_values
from rookery.tune.trial import Row
from rookery.tune.trust import variant

Callbacks = Sequence[EpisodeListener] | Callable[[], Sequence[EpisodeListener]]

COLUMNS = ("iteration", "env_steps", "episodes", "return_mean", "return_min", "return_max", "length_mean",
           "running_length", "seconds")  # fmt: skip
"""Columns that every training reports."""

INNER_PROBABILITY = 0.382
"""Probability of a value inside of a distribution, which is not a round number."""


class TrainingJob(Job):
    """Job of trainings.

    Args:
        layers: Settings of all trials, weakest first, without domains.
        undecided: Domains, lists and schedules by path, which parameters are filled into (`spec.split_layers`).
        preset: ``none``, ``auto`` or the name of a preset.
        callbacks: Callbacks, copied for each trial, or a function that makes them.
        stop: Function that returns True for a result to stop, in addition to the criteria in the settings.
        falling: Metrics with mode ``min``: a criterion on one of them is reached from above.
    """

    columns = COLUMNS
    repeats_exactly = True
    metrics = ("env_steps", "return_mean")

    def __init__(
        self,
        layers: Sequence[Layer],
        undecided: Mapping[str, Any],
        preset: str,
        callbacks: Callbacks = (),
        stop: StopFunction | None = None,
        minimized: Collection[str] = (),
    ) -> None:
        self.layers = list(layers)
        self.undecided = dict(undecided)
        self.stored = any(layer.stored for layer in self.layers)
        self.preset = preset
        self.callbacks: Callbacks = callbacks if callable(callbacks) else callbacks_of(callbacks)
        self.stop = stop
        self.minimized = minimized
        self.folder = starting_folder()

    def start(self, start: Start) -> TrainingWork:
        """Makes a trainer in the trial's folder; relative paths are resolved in the experiment's starting folder."""
        with started_in(self.folder):
            return self._start(start)

    def _start(self, start: Start) -> TrainingWork:
        params = Layer(f"trial {start.trial}", self._filled(start.params), stored=self.stored)
        callbacks = self._own_callbacks()
        place = last_good(start.folder / FOLDER)
        if place is None:
            reset_folder(start.folder)
            always = Layer("tune", {"seed": start.seed, "logging.console": "quiet"})
            layers = [*self.layers, always, params]
            trainer = Trainer(config=layers, preset=self.preset, callbacks=callbacks, run_dir=start.folder)
        else:
            # Classes that cannot be imported must be passed again; other settings need no second history entry.
            spec = training_spec(self.layers, self.preset, {})
            layers = [*(self.layers if spec["in_code"] else [protected_settings(spec["config"], self.layers)]), params]
            known = frozenset(texts_in([layer.values for layer in [*self.layers, params]]))  # in any file
            trainer = Trainer.load(place, resume=True, config=layers, callbacks=callbacks, trust_code=known)
        try:
            return TrainingWork(trainer, start, self.stop, self.minimized)
        except BaseException:
            trainer.close()  # unlocks the folder for the next start
            raise

    def _filled(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns parameters as values of a layer, with complete lists; a list with a missing parameter is left out."""
        whole = {at: node for at, node in self.undecided.items() if domains_in(node, at).keys() <= params.keys()}
        return {at: fill(node, params, at) for at, node in whole.items()}

    def _own_callbacks(self) -> list[EpisodeListener]:
        """Returns new callbacks for a trial."""
        if callable(self.callbacks):
            return callbacks_of(self.callbacks())
        try:
            return copy.deepcopy(list(self.callbacks))
        except Exception as error:  # copying runs code of any object
            raise ConfigError(
                f"callbacks: the objects cannot be copied for each trial ({type(error).__name__}: {error}); give a "
                "function that makes them, callbacks=lambda: [MyCallback()]"
            ) from error

    # --- before any trial starts --------------------------------------------------------------------------------------

    def check(self, space: Mapping[str, Domain]) -> None:
        """Resolves the settings with every value of grids and choices, and with the ends and one value inside of other
        domains; then makes a trainer with the first value of each, which checks the rest: for example an action space
        that the algorithm does not support. Errors of environments and values of `sample_from` are left to trials.
        """
        tried = {path: values for path, domain in space.items() if (values := _probe_values(path, domain))}
        first = {path: values[0] for path, values in tried.items()}
        problems = dict.fromkeys(self._problems(first))
        for path, values in tried.items():
            for source, value in values:
                found = self._problems({**first, path: (source, value)})
                problems |= dict.fromkeys(found)
                own = [line for line in found if line.startswith(f"{source}: ")]
                listed = isinstance(space[path], Grid | Choices)
                if own and (not listed or "there is no such setting" in own[0]):  # the others would repeat it
                    break
        refuse(problems)
        if first.keys() == space.keys():
            self._check_trainer(first)

    def fixed(self, space: Mapping[str, Domain]) -> frozenset[str]:
        """Returns the paths of settings that are marked as fixed, in any of the classes in the space."""
        settled = self._settled(space)
        return frozenset(
            path for path in space if any(one.why_fixed(current_path(one.config, path)) for one in settled)
        )

    def names(self, space: Mapping[str, Domain], stored: Collection[str]) -> Callable[[str], str]:
        """Returns a function from the path of a setting to the path that the experiment has for it: that of its journal
        if it is resumed, else the present one.

        Args:
            space: Domains by path.
            stored: Paths of the space of the journal.
        """
        try:
            settled = self._settled(space)
        except ConfigError:  # `check` reports it
            return str

        def current(path: str) -> str:
            found = {current_path(one.config, path) for one in settled}
            return path if len(found) > 1 else found.pop()

        journal = {current(path): path for path in stored}
        return lambda path: journal.get(current(path), current(path))

    def _settled(self, space: Mapping[str, Domain]) -> list[Resolved[RunConfig]]:
        """Returns the settings of a trial with each of the classes in the space."""
        tried = {path: values for path, domain in space.items() if (values := _probe_values(path, domain))}
        first = {path: values[0] for path, values in tried.items()}
        others = [
            {**first, path: value} for path, values in tried.items() if path.endswith(".name") for value in values[1:]
        ]
        return [resolve(RunConfig, self._layers(chosen), ALGORITHMS) for chosen in (first, *others)]

    def _problems(self, chosen: Mapping[str, tuple[str, Any]]) -> tuple[str, ...]:
        """Returns the problems of the settings of a trial."""
        try:
            cfg = resolve(RunConfig, self._layers(chosen), ALGORITHMS).config
        except ConfigError as error:
            return error.problems
        known = ("iterations", "minutes", *COLUMNS)
        named = (name for name in cfg.stop if name not in known and not is_grouped(name))
        wrong = [f"{not_reported(f'stop.{name}', name, known)}, and {BEGINNINGS}" for name in named]
        if cfg.env.name is not None:
            try:
                has_single_envs(cfg.env.name, None, (), 1, "serial")  # finds the environment without making one
            except EnvError as error:
                wrong.append(f"{chosen['env.name'][0]}: {error}" if "env.name" in chosen else str(error))
        return tuple(wrong)

    def _layers(self, chosen: Mapping[str, tuple[str, Any]]) -> list[Layer]:
        """Returns all settings of a trial.

        Args:
            chosen: For each path, the name of the source of its value, and the value.
        """
        params = {path: value for path, (_, value) in chosen.items()}
        sources = {path: source for path, (source, _) in chosen.items()}
        layers = []
        for at, value in self._filled(params).items():
            source = next((sources[path] for path in sources if f"{path}.".startswith(f"{at}.")), "")
            layers.append(Layer(source, {at: value}, stored=self.stored))
        return [*self.layers, *layers]

    def _check_trainer(self, chosen: Mapping[str, tuple[str, Any]]) -> None:
        layers = self._layers(chosen)
        cfg = resolve(RunConfig, layers, ALGORITHMS).config
        small = {"sampling.warmup_steps": 0, "device": "cpu", "logging.console": "quiet"}
        if cfg.sampling.env_processes is None and cfg.env.implementation == "auto":
            small["sampling.env_processes"] = 0  # avoids measurements
        try:
            trainer = Trainer(
                config=[*layers, Layer("tune", small)], preset=self.preset, callbacks=self._own_callbacks()
            )
        except EnvError:
            return
        except SpaceError as error:
            raise ConfigError(str(error)) from error
        trainer.close()
        stop_rule(self.stop, trainer._current_criteria, None, trainer.config.evaluation.every)

    def describe(self) -> dict[str, Any]:
        """Returns the settings as JSON, with names of classes and functions."""
        called = self.callbacks if callable(self.callbacks) else [type(callback) for callback in self.callbacks]
        return {
            "kind": "training",
            "settings": training_spec(self.layers, self.preset, {})["config"],
            "preset": self.preset,
            "callbacks": to_json(called),
            "stop": to_json(self.stop),
        }

    @property
    def title(self) -> str:
        """Environment and algorithm, if they are fixed."""
        settings = self.describe()["settings"]
        usual = "" if "algorithm.name" in self.undecided else algorithm_name(RunConfig().algorithm)
        name, algorithm = settings.get("env", {}).get("name"), settings.get("algorithm", {}).get("name", usual)
        return "-".join(filter(None, [name and env_name(name), algorithm])) or "training"

    @property
    def cpus(self) -> float:
        """Number of processes that step environments, or of learner threads if there are more."""
        config = merged_values(layer.values for layer in self.layers)
        sampling, threads = config.get("sampling", {}), config.get("threads")
        processes = sampling.get("env_processes", sampling.get("helpers"))  # the second is the former name
        return float(max((processes or 0) + 1, threads or 1))

    @property
    def working_directory(self) -> str | None:
        """Folder of `cluster.working_directory`."""
        found: str | None = (
            merged_values(layer.values for layer in self.layers).get("cluster", {}).get("working_directory")
        )
        return found


def _probe_values(path: str, domain: Domain) -> list[tuple[str, Any]]:
    """Returns values of a domain to check a setting with, each with its name; none of a computed one."""
    if isinstance(domain, Grid | Choices):
        (kind,) = domain.describe()
        return [(f"{kind} value {number} of {path}", value) for number, value in enumerate(domain.values, 1)]
    if isinstance(domain, Float | Integer):
        ends = [(f"lower end of {path}", domain.low), (f"upper end of {path}", domain.high)]
        return [*ends, (f"{domain} of {path}", domain.quantile(INNER_PROBABILITY))]
    if isinstance(domain, Drawn):
        return [(f"{domain} of {path}", domain.quantile(u)) for u in (INNER_PROBABILITY, 0.05, 0.95)]
    return []


def protected_settings(config: Mapping[str, Any], layers: Sequence[Layer]) -> Layer:
    """Returns the settings of an experiment that a foreign checkpoint may not set; paths are relative to its layers."""
    tree, values = nested(variant(config, 0)), dict[str, Any]()
    for one in objections_in(tree):
        node: Any = tree
        known: list[str] = []
        for key in one.path.split("."):
            if isinstance(node, Mapping) and key in node:
                node = node[key]
                known.append(key)
        values[".".join(known)] = node
    folders = dict(ChainMap(*(dict(layer.stored_folders) for layer in layers)))
    return Layer("tune", values, stored_folders=folders, stored=any(layer.stored for layer in layers))


class TrainingWork(Work):
    """Trial that is a training.

    Args:
        trainer: Trainer of the trial, new or loaded from a checkpoint.
        start: Arguments of the trial.
        stop: Function that returns True for a result to stop.
        falling: Metrics whose criteria are reached from above.
    """

    def __init__(
        self, trainer: Trainer, start: Start, stop: StopFunction | None, minimized: Collection[str] = ()
    ) -> None:
        self.trainer = trainer
        self.iteration = trainer.iteration
        criteria = directed(trainer._current_criteria, minimized)
        if self.iteration and trainer._progress is None:
            row = row_at(start.folder, self.iteration) or {}
            self.reason = reached_criterion(criteria, row)
            if stop is not None and stop(result_of(trainer, trainer._begin_iteration())):
                self.reason = self.reason or "the stop function said so"
        if any(isinstance(threshold, AtMost) for threshold in criteria.values()):
            trainer._stop_function = stop  # holds in addition to the criteria
            self._results = trainer.results(criteria)
        else:
            self._results = trainer.results(stop)
        self._checkpoints = start.folder / FOLDER

    def step(self) -> tuple[Row, str]:
        """Runs an iteration of `Trainer.results`."""
        result = next(self._results)
        self.iteration, self.reason = result.iteration, result.stop_reason
        if self.reason:
            for _ in self._results:  # empty: it notifies callbacks that training has ended
                pass
        return result.row(), self.reason

    def save(self) -> None:
        """Writes a checkpoint unless the last one is current."""
        found = list_checkpoints(self._checkpoints)
        now = {"iteration": self.trainer.iteration, "env_steps": self.trainer.env_steps}
        try:
            last = read_manifest(found[-1]) if found else {}
        except FileError:
            last = {}
        if {name: last.get(name) for name in now} != now:
            self.trainer.save()

    def interrupt(self) -> None:
        """Makes the trainer stop after the current vector step."""
        self.trainer._interrupt.number = signal.SIGTERM

    def close(self) -> None:
        """Ends the training."""
        self._results.close()
        self.trainer.close()
