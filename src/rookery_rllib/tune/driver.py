"""Tasks of Tune's process beside the loop: names and directories of trials, stoppers, callbacks, progress, states.

`Driver` follows Rookery's runner: `WatchedExecutor` passes it every event before the runner gets it, and `Progress`
every result after the scheduler has decided.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rookery.face import (
    FOLDER,
    Action,
    ConfigError,
    Event,
    Executor,
    Failed,
    Gather,
    InProcessExecutor,
    Job,
    Order,
    Runner,
    Start,
    Status,
    Stepped,
    last_good,
    read_manifest,
    unpack_files,
)
from rookery.face import TRIAL_LOG as LOG
from rookery.face import ProgressReporter as Listener
from rookery.face import Trial as OurTrial
from rookery_rllib.base.notices import say, say_once
from rookery_rllib.trainer.trial.checkpoints import MARKER, checkpoint_directory
from rookery_rllib.trainer.trial.loggers import flatten_dict
from rookery_rllib.trainer.trial.result_keys import DATE, DONE, EXPERIMENT_TAG, TRAINING_ITERATION
from rookery_rllib.trainer.trial.tune_errors import TuneError
from rookery_rllib.tune.analysis import read_results
from rookery_rllib.tune.callback import Callback, CallbackList
from rookery_rllib.tune.job import ABOUT, RESULT, RETURNED, TrainableOf2021
from rookery_rllib.tune.reporters import ProgressReporter, Verbosity, has_verbosity
from rookery_rllib.tune.schedulers import RecordingScheduler
from rookery_rllib.tune.search import WHOLE, SearcherAdapter
from rookery_rllib.tune.stopper import Stopper, value_at
from rookery_rllib.tune.trial import Trial, experiment_tag

NOTICE = "rookery: "
"""Prefix of lines that `say_once` printed in the process of a trial."""

STATE_SECONDS = 10.0
"""Minimum interval of writes of the experiment's state, in seconds."""

ENDED = "stop"
"""Reason for the end of a trial that met a criterion."""


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Settings of a `Driver`.

    Attributes:
        folder: Directory of the experiment, with those of its trials.
        job: The work of a trial.
        stopper: Ends trials.
        callbacks: Called at all events.
        reporter: Shows progress.
        metric: Key of the objective in results, if there is one.
        mode: ``max`` or ``min``.
        checkpoint_at_end: Whether a trial's last state is written to its directory.
        keep_checkpoints_num: Number of checkpoints to keep per trial; None = all.
        checkpoint_score_attr: Result by which checkpoints are kept: the largest, or with ``min-`` the smallest.
        fail_fast: Whether the first failure ends everything; ``raise`` = with the exception itself.
        trial_name_creator: Names trials.
        trial_dirname_creator: Names their directories.
        stop: Criteria, for `Trial`.
    """

    folder: Path
    job: TrainableOf2021
    stopper: Stopper
    callbacks: Sequence[Callback]
    reporter: ProgressReporter
    metric: str | None = None
    mode: str | None = None
    checkpoint_at_end: bool = False
    keep_checkpoints_num: int | None = None
    checkpoint_score_attr: str | None = None
    fail_fast: bool | str = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    stop: Mapping[str, Any] = field(default_factory=dict)


class Driver:
    """Manages the trials of a script beside those of the runner.

    Args:
        orders: The settings.
        scheduler: The scheduler, with its last decisions.
        prefix: Prefix of trial identifiers, ``55818``.
        moment: Start time of the experiment, as in names.
        searcher: A script's own searcher.
    """

    def __init__(
        self, orders: Orders, scheduler: RecordingScheduler, prefix: str, moment: str, searcher: SearcherAdapter | None
    ) -> None:
        self.orders, self.scheduler = orders, scheduler
        self.prefix, self.moment, self.searcher = prefix, moment, searcher
        self.callbacks = CallbackList(orders.callbacks)
        self.trials: dict[str, Trial] = {}
        """By the runner's names."""
        self.runner: Runner | None = None
        self.iteration = 0
        self.stopping = ""
        """Reason to end the experiment; empty while it continues."""
        self._ended: set[str] = set()
        self._params: dict[str, Mapping[str, Any]] = {}
        self._read: dict[str, int] = {}
        self._seen: dict[str, set[str]] = {}
        self._state_written = -math.inf
        self._began = time.time()

    @property
    def everyone(self) -> list[Trial]:
        """All trials, in the order they were made."""
        return [self.trials[name] for name in sorted(self.trials, key=lambda name: [*map(int, name.split("-"))])]

    # --- trials begin -------------------------------------------------------------------------------------------------

    def made(self, start: Start) -> Trial:
        """Returns the trial of the runner's `start`; makes it, and its directory, if it is new."""
        known = self.trials.get(start.trial)
        if known is None:
            known = self.trials[start.trial] = self._new(start)
        elif self._params[start.trial] != start.params:  # a clone, or scheduled parameters
            tag = known.experiment_tag.partition("@")[0]
            changed = {key: part for key, part in start.params.items() if part != self._params[start.trial].get(key)}
            known.experiment_tag = f"{tag}@perturbed[{experiment_tag(0, changed).partition('_')[2]}]"
            self._configure(known, start)
            self._write_about(known, start, clone=True)
        self._params[start.trial] = dict(start.params)
        return known

    def recall(self, own_trial: OurTrial) -> None:
        """Restores a trial that was complete before the experiment stopped; callbacks were called at its end."""
        if not (own_trial.folder / ABOUT).exists():
            return
        trial = self.made(Start(own_trial.name, own_trial.params, own_trial.seed, own_trial.folder))
        trial.set_status(own_trial.status.value)
        trial.num_failures = own_trial.failures + own_trial.losses
        if own_trial.status is Status.ERROR:
            trial.error_msg, trial.error_file = own_trial.error, str(Path(trial.logdir, "error.txt"))
        self._ended.add(own_trial.name)
        self._seen[trial.trial_id] = {str(checkpoint.value) for checkpoint in trial.checkpoints()}
        if self.searcher is not None:
            self.searcher.last[own_trial.number] = trial.last_result

    def _configure(self, trial: Trial, start: Start) -> None:
        """Sets the configuration of a trial from its parameters."""
        chosen = {path: value for path, value in start.params.items() if path != WHOLE}
        whole = start.params.get(WHOLE)
        trial.evaluated_params = {**chosen, **(flatten_dict(whole) if isinstance(whole, Mapping) else {})}
        trial.config = self.orders.job.configured(start.params)

    def _new(self, start: Start) -> Trial:
        """Makes a trial and its directory."""
        orders = self.orders
        trial = Trial(orders.job.name, {}, f"{self.prefix}_{start.trial.replace('-', '_')}", str(orders.folder))
        self._configure(trial, start)
        trial.stopping_criterion = dict(orders.stop)
        trial.resources = orders.job.resources
        number = int(start.trial.partition("-")[0])
        trial.experiment_tag = experiment_tag(number, trial.evaluated_params)
        if (start.folder / ABOUT).exists():  # it began before the experiment was stopped
            about = json.loads((start.folder / ABOUT).read_text(encoding="utf-8"))
            trial.trial_id, trial.logdir, trial.experiment_tag = (
                about["trial_id"],
                about["logdir"],
                about[EXPERIMENT_TAG],
            )
            trial.custom_trial_name = about["custom_trial_name"]
            for result in read_results(trial.logdir):
                trial.results_at[int(result.get(TRAINING_ITERATION, 0))] = result
                trial.update_last_result({**result, "config": trial.config})
            return trial
        if orders.trial_name_creator:
            trial.custom_trial_name = named_by(orders.trial_name_creator, trial, "trial_name_creator")
        if orders.trial_dirname_creator:
            trial.custom_dirname = named_by(orders.trial_dirname_creator, trial, "trial_dirname_creator")
        folder = orders.folder / trial._generate_dirname()
        trial.logdir = str(folder)
        if folder.exists():  # of an earlier experiment
            trial.logdir = tempfile.mkdtemp(prefix=f"{folder.name}_", dir=orders.folder)
        else:
            folder.mkdir(parents=True)
        self._write_about(trial, start, clone=False)
        return trial

    def _write_about(self, trial: Trial, start: Start, clone: bool) -> None:
        """Writes a trial's identity for its process."""
        about = {
            "trial_id": trial.trial_id, "trial_name": str(trial), "custom_trial_name": trial.custom_trial_name,
            "logdir": trial.logdir, EXPERIMENT_TAG: trial.experiment_tag, "clone": clone,
        }  # fmt: skip
        (start.folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")

    def notify(self, event: str, trial: Trial, **info: Any) -> None:
        """Calls the callbacks with an event of a trial."""
        self.callbacks.notify(event, iteration=self.iteration, trials=self.everyone, trial=trial, **info)

    # --- results ------------------------------------------------------------------------------------------------------

    def judged(self, event: Stepped) -> Stepped:
        """Returns a result, with the reason if a stopper ends the trial."""
        result = event.row.get(RESULT)
        if result is None or event.reason == RETURNED:
            return event
        trial, stopper = self.trials[event.trial], self.orders.stopper
        whole = {**result, "config": trial.config}
        ends = stopper(trial.trial_id, whole)
        if not self.stopping and stopper.stop_all():
            self.stopping = "the stopper has ended the experiment"
        reason = event.reason or (ENDED if ends else "") or self.stopping
        return replace(event, reason=reason, row={**event.row, RESULT: {**result, DONE: bool(reason) or result[DONE]}})

    def result(self, name: str, row: Mapping[str, Any]) -> None:
        """Calls callbacks with a result, after the scheduler has decided."""
        trial = self.trials[name]
        result = {**row[RESULT], "config": trial.config}
        if self.scheduler.actions.get(name) is Action.STOP:
            result[DONE] = True
        self.notify("on_trial_result", trial, result=dict(result))
        trial.update_last_result(result)
        trial.results_at[int(result.get(TRAINING_ITERATION, 0))] = result
        if self.searcher is not None:
            number = int(name.partition("-")[0])
            self.searcher.last[number] = result
            self.searcher.searcher.on_trial_result(trial.trial_id, result)
        self.look_at_checkpoints(trial)

    def look_at_checkpoints(self, trial: Trial) -> None:
        """Calls callbacks with new checkpoints in a trial's directory, and removes those beyond the limit."""
        found, seen = trial.checkpoints(), self._seen.setdefault(trial.trial_id, set())
        for checkpoint in found:
            if checkpoint.value not in seen:
                seen.add(str(checkpoint.value))
                self.notify("on_trial_save", trial)
                self.notify("on_checkpoint", trial, checkpoint=checkpoint)
        there = {Path(checkpoint_directory(str(checkpoint.value))).name for checkpoint in found}
        for number in [each for each in trial.results_at if f"checkpoint_{each:06d}" not in there]:
            if number != trial.last_result.get(TRAINING_ITERATION):  # whose checkpoint may still come
                del trial.results_at[number]
        keep = self.orders.keep_checkpoints_num
        if keep is None or len(found) <= keep:
            return
        attribute = self.orders.checkpoint_score_attr or TRAINING_ITERATION
        sign = -1.0 if attribute.startswith("min-") else 1.0
        key = attribute.removeprefix("min-")

        def worth(checkpoint: Any) -> float:
            value = value_at(checkpoint.result, key)
            return sign * float(value) if isinstance(value, int | float) else -math.inf

        best = sorted(found, key=worth)[len(found) - keep :]
        newest = found[-1]  # from which the trial resumes
        for checkpoint in found:
            if checkpoint not in best and checkpoint is not newest:
                shutil.rmtree(checkpoint_directory(str(checkpoint.value)), ignore_errors=True)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def saves_at_end(self, name: str, save: bool) -> bool:
        """Returns whether the runner's own checkpoint is needed when a trial releases its worker."""
        assert self.runner is not None
        goes_on_later = self.runner.state.trials[name].status in (Status.PAUSED, Status.PENDING)
        return save and (goes_on_later or self.orders.checkpoint_at_end)

    def failed(self, event: Failed) -> None:
        """Records a failure; raises a TuneError if the first failure ends the experiment at once."""
        trial = self.trials[event.trial]
        trial.num_failures += 1
        trial.error_msg = event.problem
        trial.error_file = str(Path(trial.logdir, "error.txt"))
        with Path(trial.error_file).open("a", encoding="utf-8") as file:
            file.write(f"{event.traceback.rstrip() or event.problem}\n\n")
        if self.orders.fail_fast == "raise":
            raise TuneError(f"{trial} has failed: {event.problem}\n{event.traceback}")

    def sync(self, running: int = 0) -> None:
        """Updates trials from the runner, reports those that ended, and shows and writes the state."""
        assert self.runner is not None
        self.iteration += 1
        everyone = self.everyone
        self.callbacks.notify("on_step_begin", iteration=self.iteration, trials=everyone)
        for own_trial in list(self.runner.state.trials.values()):
            trial = self.trials.get(own_trial.name)
            if trial is None or own_trial.name in self._ended:
                continue
            self._show_prints(own_trial.folder, trial)
            trial.set_status(own_trial.status.value)
            if own_trial.status.is_over:
                self._ended.add(own_trial.name)
                self._end(own_trial.folder, trial, own_trial.status is Status.ERROR)
        self.callbacks.notify("on_step_end", iteration=self.iteration, trials=everyone)
        shows = everyone and has_verbosity(Verbosity.V1_EXPERIMENT)
        if shows and self.orders.reporter.should_report(everyone):
            self.orders.reporter.report(everyone, False)
        self.write_state()

    def _end(self, folder: Path, trial: Trial, failed: bool) -> None:
        """Finishes a trial."""
        if not failed and self.orders.checkpoint_at_end:
            self._keep_last(folder, trial)
        for events in folder.glob("events.out.tfevents.*"):  # it would be a second curve of the trial in TensorBoard
            events.unlink()
        if failed and self.orders.fail_fast and not self.stopping:
            self.stopping = f"{trial} has failed, and fail_fast is set"
        self.notify("on_trial_error" if failed else "on_trial_complete", trial)

    def _keep_last(self, folder: Path, trial: Trial) -> None:
        """Copies the runner's last checkpoint of a trial to the trial's directory."""
        last = last_good(folder / FOLDER) if (folder / FOLDER).is_dir() else None
        if last is None:
            return
        target = Path(trial.logdir, f"checkpoint_{read_manifest(last)['iteration']:06d}")
        if not (target / MARKER).exists():
            made = unpack_files(last, Path(trial.logdir))
            made.chmod(0o755)
            made.rename(target)
        self.look_at_checkpoints(trial)

    def _show_prints(self, folder: Path, trial: Trial) -> None:
        """Prints new output of a trial in another process."""
        path = folder / LOG
        if not path.exists() or path.stat().st_size <= self._read.get(trial.trial_id, 0):
            return
        with path.open("rb") as file:
            file.seek(self._read.get(trial.trial_id, 0))
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read[trial.trial_id] = self._read.get(trial.trial_id, 0) + len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if line.startswith(NOTICE):
                say_once(line.removeprefix(NOTICE))
            else:
                say(f"(pid={trial.location.pid or '?'}) {line}")

    def write_state(self, at_once: bool = False) -> Path:
        """Writes the state of the experiment; returns the file."""
        path = self.orders.folder / f"experiment_state-{self.moment}.json"
        if not at_once and time.monotonic() - self._state_written < STATE_SECONDS:
            return path
        self._state_written = time.monotonic()
        facts = [
            {"trial_id": trial.trial_id, "trainable_name": trial.trainable_name, "status": trial.status,
             "logdir": trial.logdir, "local_dir": trial.local_dir, "experiment_tag": trial.experiment_tag,
             "evaluated_params": {key: str(part) if not isinstance(part, int | float | str | None) else part
                                  for key, part in trial.evaluated_params.items()},
             "custom_trial_name": trial.custom_trial_name, "num_failures": trial.num_failures,
             "error_file": trial.error_file}
            for trial in self.everyone
        ]  # fmt: skip
        state = {
            "checkpoints": facts,
            "runner_data": {"_session_str": self.moment, "_iteration": self.iteration},
            "stats": {"start_time": self._began, "timestamp": time.time()},
        }
        path.write_text(json.dumps(state, indent=1), encoding="utf-8")
        return path


def named_by(creator: Callable[[Trial], str], trial: Trial, which: str) -> str:
    """Returns a script's name of a trial; raises a ConfigError for other values than text."""
    name = creator(trial)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{which}: must return a text, not {name!r}")
    return name


class LocalExecutor(InProcessExecutor):
    """Runs one trial at a time in this process, with its output visible."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, cpus=0.0, gpus=0.0, max_concurrent=None)

    def redirect_output(self, start: Start) -> AbstractContextManager[None]:
        return nullcontext()


class WatchedExecutor(Executor):
    """Passes the events of another executor to a driver."""

    def __init__(self, inner: Executor, driver: Driver) -> None:
        self.inner, self.driver = inner, driver
        self.notes = inner.notes

    @property
    def free(self) -> int:
        """Number of further trials that can begin now."""
        return self.inner.free

    def begin(self, start: Start) -> None:
        """Begins a trial, and calls callbacks."""
        trial = self.driver.made(start)
        trial.set_status(Trial.RUNNING)
        self.driver.notify("on_trial_start", trial)
        self.inner.begin(start)

    def order(self, trial: str, order: Order) -> None:
        self.inner.order(trial, order)

    def wait(self, seconds: float) -> Event | None:
        """Returns the next event, after stoppers have decided."""
        event = self.inner.wait(seconds)
        if isinstance(event, Stepped):
            return self.driver.judged(event)
        if isinstance(event, Failed):
            self.driver.failed(event)
        return event

    def end(self, trial: str, save: bool) -> None:
        """Ends a trial, with the runner's own checkpoint only where it is needed."""
        self.inner.end(trial, self.driver.saves_at_end(trial, save))

    def interrupt(self) -> None:
        self.inner.interrupt()

    def close(self) -> None:
        self.inner.close()


class Progress(Listener):
    """Passes reports of the runner to a driver."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self.driver = driver

    def note(self, line: str) -> None:
        if has_verbosity(Verbosity.V1_EXPERIMENT):
            say(line)

    def result(self, trial: str, row: Mapping[str, Any]) -> None:
        self.driver.result(trial, row)

    def update(self, gather: Gather, running: int) -> None:
        self.driver.sync(running)


def moment() -> str:
    """Returns the current time for names."""
    return datetime.now().strftime(DATE)
