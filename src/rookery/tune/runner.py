"""The loop of an experiment: ask the search for trials, run iterations, record results, apply the scheduler's actions.

`Runner.run` is the loop. Decisions are written to the journal first (`journal.py`), so that the runner can be killed at
any moment; `Runner.resume` restores its state.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, refuse
from rookery.core.io.files import FOLDER, FileError, last_good
from rookery.core.process.interrupt import Interrupt, Interrupted
from rookery.core.seeding import Role, Streams
from rookery.report.experiment import TrialSummary, format_params, format_value, is_number, short_names
from rookery.report.experiment_table import ProgressReporter
from rookery.report.tensorboard import write_session
from rookery.tune.executor import Event, Executor, Failed, Order, Stepped
from rookery.tune.executors.trial_worker import is_disk_full
from rookery.tune.job import PARAMS, Start
from rookery.tune.jobs.rows import is_grouped, not_reported, number_of
from rookery.tune.journal import ExperimentState, Journal, naming_line, write_actions
from rookery.tune.names import hint_for
from rookery.tune.scheduler import FIFO, Action, Actions, Exploit, Scheduler
from rookery.tune.search import AskTell
from rookery.tune.settings import TuneConfig
from rookery.tune.space import Domain, to_json
from rookery.tune.trial import Row, Status, Trial, per_metric, score_of

POLL_SECONDS = 0.25
"""Longest time between two updates of the clock and the table while no trial reports."""

STOP_SECONDS = 10.0
"""Time that trials get to save and stop after Ctrl-C."""

STOPPING = "stopping after the iterations under way; Ctrl-C again stops at once"

TRIALS = "trials"
"""Folder of the trials, in that of the experiment."""

ERRORS = "error.txt"
"""File in a trial's folder with the tracebacks of its failures."""

MAKE_ROOM = "free some disk space, then resume the experiment: rookery tune resume"


@dataclass(frozen=True)
class Experiment:
    """Static description of an experiment.

    Attributes:
        folder: Folder of the experiment.
        cfg: Settings of the experiment.
        space: Domains of parameters by path.
        streams: All random streams.
        seed: Seed of the first repeat of all suggestions, if the user gave one; else it is drawn from `streams`.
    """

    folder: Path
    cfg: TuneConfig
    space: Mapping[str, Domain]
    streams: Streams
    seed: int | None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that trials are scored by."""
        return per_metric(self.cfg.metric, self.cfg.mode)[0]

    @property
    def modes(self) -> tuple[str, ...]:
        """``max`` or ``min``, for each metric."""
        return per_metric(self.cfg.metric, self.cfg.mode)[1]

    def seed_of(self, repeat: int) -> int:
        """Returns the seed of a repeat: the same for all suggestions, so that they are compared on equal terms."""
        if repeat == 0 and self.seed is not None:
            return self.seed
        return self.streams.integer(Role.TUNE, "trial", repeat)


class Runner:
    """Runs an experiment to its end.

    Args:
        experiment: Description of the experiment.
        search: Suggests parameters.
        scheduler: Decides after each result.
        executor: Runs trials.
        journal: Records all events.
        reporter: Shows progress.
    """

    def __init__(
        self,
        experiment: Experiment,
        search: AskTell,
        scheduler: Scheduler[Any],
        executor: Executor,
        journal: Journal,
        reporter: ProgressReporter,
    ) -> None:
        self.experiment = experiment
        self.cfg = experiment.cfg
        self.search = search
        self.scheduler = scheduler
        self.executor = executor
        self.journal = journal
        self.reporter = reporter
        self.state = ExperimentState(experiment.folder, experiment.space)
        self.interrupt = Interrupt()
        self.at_work: set[str] = set()
        """Trials with an open order."""
        self.reported: set[str] = set()
        """Metrics whose column is in a row of some trial, with a number or without."""
        self.missing: set[str] = set()
        """Metrics for which a note about a row without the column was shown."""
        self.columns: list[str] = []
        """Columns of the last row."""

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs trials until all are over; continues at the end of the journal.

        Raises:
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C or SIGTERM; trials have saved checkpoints.
            FileError: If a disk is full; trials keep their files, and can be resumed later.
        """
        deadline = math.inf if self.cfg.seconds is None else time.monotonic() + self.cfg.seconds
        hint = f"resume with: rookery tune resume {self.experiment.folder}, or tune.run(..., resume=True)"
        with self.interrupt.watching(STOPPING), closing(self.executor):  # trainings in this process stop first
            try:
                if self.journal.records:
                    self.resume()
                while True:
                    self.interrupt.check()
                    if time.monotonic() > deadline:
                        self.stop_trials()
                        self.reporter.note(f"tune.seconds = {self.cfg.seconds:g} are over; {hint}")
                        return
                    self.begin_trials()
                    while self.executor.notes:
                        self.reporter.note(self.executor.notes.pop(0))
                    if not self.at_work:
                        if not self.resume_paused():
                            return
                        continue
                    event = self.executor.wait(POLL_SECONDS)
                    if event is not None:
                        self.handle(event)
                    self.reporter.update(self.summaries, len(self.at_work))
            except Interrupted as stopped:
                self.stop_trials()
                self.reporter.note(f"stopped; {hint}")
                raise stopped.as_error(hint) from None
            except OSError as error:
                if is_disk_full(error):
                    raise FileError(f"{self.experiment.folder}: {error}; {MAKE_ROOM}") from error
                raise

    def summaries(self) -> list[TrialSummary]:
        """Returns the current state of all trials, for tables."""
        return [
            TrialSummary(**trial.facts, status=trial.status, scores=tuple(self.scores(trial)), history=trial.rows)
            for trial in self.state.trials.values()
        ]

    def begin_trials(self) -> None:
        """Assigns free workers to waiting trials, then to new ones."""
        limit = self.cfg.max_concurrent or math.inf
        while self.executor.free and len(self.at_work) < limit and (trial := self.next_trial()) is not None:
            if not (trial.folder / PARAMS).exists():  # removed by the user
                write_params(trial.folder, params_record(trial.name, trial.number, trial.params, trial.seed))
            self.record("begin", trial=trial.name)
            self.executor.begin(Start(trial.name, trial.params, trial.seed, trial.folder))
            self.reporter.event(f"{trial.name} {'resumes' if trial.known else 'begins'}")
            self.order(trial)

    def next_trial(self) -> Trial | None:
        """Returns the trial that begins next, if any; new trials go before those that yielded their worker."""
        waiting = list(self.state.queue)
        first = [name for name in waiting if not (self.scheduler.yields and name in self.state.yielded)]
        if not first and self.suggest():
            first = self.state.queue[len(waiting) :]
        return next((self.state.trials[name] for name in first or waiting), None)

    def is_awaited(self, trial: Trial, age: float) -> bool:
        """Returns whether this trial has reached its milestone and another trial waits for its worker."""
        milestone = self.scheduler.milestone(trial.name) if self.scheduler.yields else None
        return milestone is not None and age >= milestone and (bool(self.state.queue) or self.suggest())

    def suggest(self) -> bool:
        """Makes the trials of a new suggestion; returns whether there is one."""
        if self.state.is_exhausted:
            return False
        number = len(self.state.suggestions)
        params = self.search.ask(number)
        if params is None:
            self.record("exhausted")
            return False
        self.make_trials(number, params, 0)
        return True

    def make_trials(self, number: int, params: Mapping[str, Any], begin: int) -> None:
        """Makes the trials of a suggestion, one for each repeat from `begin` on."""
        records = []
        for repeat in range(begin, self.cfg.repeats):
            name = f"{number:05d}" if self.cfg.repeats == 1 else f"{number:05d}-{repeat}"
            folder = f"{TRIALS}/{folder_name(name, params)}"
            facts = params_record(name, number, params, self.experiment.seed_of(repeat))
            write_params(self.experiment.folder / folder, facts)
            records.append({"kind": "trial", **facts, "folder": folder})
        self.journal.append(*records)
        for record in records:
            self.state.apply(record)
            self.scheduler.add(str(record["trial"]), params)

    def order(self, trial: Trial) -> None:
        """Orders an iteration of a trial."""
        milestone = self.scheduler.milestone(trial.name)
        save_at = None if milestone is None else (self.scheduler.cfg.time, milestone)
        self.at_work.add(trial.name)
        decides = type(self.scheduler).on_result is not FIFO.on_result
        self.executor.order(trial.name, Order(trial.known, save_at, ahead=not decides))

    def resume_paused(self) -> bool:
        """Asks the scheduler about paused trials when no trial runs or waits; returns whether any trial is paused."""
        paused = [trial.name for trial in self.state.with_status(Status.PAUSED)]
        if not paused:
            return False
        actions = self.scheduler.drained(paused)
        if not actions.keys() & set(paused):
            raise RuntimeError(f"{type(self.scheduler).__name__}.drained: must name one of the paused trials {paused}")
        self.record("drained", actions=write_actions(actions))
        self.act(actions)
        return True

    # --- events -------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Handles one event of a worker."""
        trial = self.state.trials[event.trial]
        self.at_work.discard(trial.name)
        if isinstance(event, Stepped):
            self.take_result(trial, event.row, event.reason)
        elif isinstance(event, Failed):
            self.take_failure(trial, event)
        else:
            self.executor.end(trial.name, save=False)
            self.interrupt.number = self.interrupt.number or signal.SIGINT

    def take_result(self, trial: Trial, row: Row, reason: str) -> None:
        """Records an iteration of a trial, and applies the scheduler's actions."""
        if int(row["iteration"]) <= trial.known:  # reported before: repeated after a kill, or the trial is over
            if reason:
                self.executor.end(trial.name, save=True)
                self.record("over", trial=trial.name, reason=reason)
                self.finish(trial, Status.TERMINATED)
            else:
                self.order(trial)
            return
        kept = self.kept(row)
        age, score = self.age_and_score(kept)
        awaited = self.is_awaited(trial, age)  # may add a trial, so it is called before `on_result`
        actions = self.checked(self.scheduler.on_result(trial.name, age, score), trial)
        if reason:
            actions = {name: action for name, action in actions.items() if name != trial.name}
        own = actions.get(trial.name, Action.CONTINUE)
        goes_on = own is Action.CONTINUE and not reason
        yields = {"yields": True} if goes_on and awaited else {}
        self.record("result", trial=trial.name, iteration=int(row["iteration"]), row=kept,
                    actions=write_actions(actions), reason=reason, **yields)  # fmt: skip
        self.reporter.result(trial.name, row)
        goes_on = goes_on and not yields
        if not goes_on:
            self.executor.end(trial.name, save=not isinstance(own, Exploit))
        self.act(actions)  # first: clones take over their donors' checkpoints, of which this may be one
        if reason:
            self.finish(trial, Status.TERMINATED)
        elif goes_on:
            self.order(trial)

    def take_failure(self, trial: Trial, event: Failed) -> None:
        """Records a failure or loss of a trial, which resumes from its last checkpoint as often as allowed."""
        self.executor.end(trial.name, save=False)
        if event.full:
            raise FileError(f"trial {trial.name}: {event.problem}; {MAKE_ROOM}")
        with (trial.folder / ERRORS).open("a", encoding="utf-8") as file:
            file.write(f"{event.traceback.rstrip() or event.problem}\n\n")
        self.record("failure", trial=trial.name, problem=event.problem, lost=event.lost)
        if self.fails_for_good(trial):
            self.finish(trial, Status.ERROR, event.problem)
        else:
            self.reporter.event(f"{trial.name} {'was lost' if event.lost else 'failed'} and resumes: {event.problem}")

    def fails_for_good(self, trial: Trial) -> bool:
        """Returns whether a trial has failed more often than allowed."""
        return trial.failures > self.cfg.max_failures or trial.losses > self.cfg.max_losses

    def checked(self, actions: Actions, trial: Trial) -> Actions:
        """Returns actions after a result or the end of a trial.

        Raises:
            RuntimeError: If they name other trials than this one and paused ones.
        """
        allowed = {trial.name, *(paused.name for paused in self.state.with_status(Status.PAUSED))}
        if wrong := [name for name in actions if name not in allowed]:
            scheduler = type(self.scheduler).__name__
            raise RuntimeError(
                f"{scheduler} decides about {', '.join(wrong)} after {trial.name}: this is neither the trial that has "
                "reported nor a paused one"
            )
        return actions

    def act(self, actions: Actions) -> None:
        """Carries out actions of the scheduler; pausing and resuming change the state alone."""
        for name, action in actions.items():
            trial = self.state.trials[name]
            if isinstance(action, Exploit):
                self.adopt(trial)
                params = format_params(trial.params, short_names(trial.params))
                self.reporter.event(f"{name} continues as a clone of {action.donor}, with {params}")
            elif action is Action.STOP:
                self.finish(trial, Status.TERMINATED)

    def adopt(self, trial: Trial) -> None:
        """Replaces the checkpoints of a clone by its donor's last one."""
        donor = self.state.trials[self.state.adoptions[trial.name]]
        source = last_good(donor.folder / FOLDER)
        if source is None:
            raise FileError(
                f"{donor.folder}: there is no checkpoint for {trial.name} to resume from; a function writes them with "
                "tune.report(..., checkpoint=folder), a class with save_checkpoint and load_checkpoint"
            )
        copied = trial.folder / f"{FOLDER}.new"
        shutil.rmtree(copied, ignore_errors=True)
        try:
            shutil.copytree(source, copied / source.name, copy_function=link_or_copy)
        except (shutil.Error, FileNotFoundError):  # a running donor has deleted it for a newer one
            if last_good(donor.folder / FOLDER) == source:
                raise
            self.adopt(trial)
            return
        shutil.rmtree(trial.folder / FOLDER, ignore_errors=True)
        copied.rename(trial.folder / FOLDER)
        self.record("adopted", trial=trial.name, iteration=int(source.name.partition("-")[0]))
        self.journal.sync()

    def finish(self, trial: Trial, status: Status, problem: str = "") -> None:
        """Ends a trial: informs the scheduler and, after the last trial of a suggestion, the search."""
        actions = self.checked(self.scheduler.on_end(trial.name), trial)
        reason = problem or self.state.stops.get(trial.name, "")
        self.record("end", trial=trial.name, status=status.value, reason=reason, score=self.scores(trial),
                    actions=write_actions(actions))  # fmt: skip
        self.reporter.event(f"{trial.name} {status}: {reason}")
        space = {path: domain.describe() for path, domain in self.experiment.space.items()}
        write_session(trial.folder, trial.number, trial.params, status is Status.ERROR, space)
        self.act(actions)
        self.tell(trial.number)
        if status is Status.TERMINATED:
            self.refuse_unreported(trial)

    def tell(self, number: int) -> None:
        """Passes the scores of a suggestion to the search, once all of its trials are over."""
        trials = self.state.suggestions[number]
        if number not in self.state.completed and all(trial.status.is_over for trial in trials):
            values = self.values(trials)
            self.search.tell(number, values)
            self.record("told", number=number, values=values)

    # --- scores -------------------------------------------------------------------------------------------------------

    def kept(self, row: Row) -> dict[str, Any]:
        """Returns the columns of a row that the journal keeps."""
        names = dict.fromkeys(("iteration", "seconds", "env_steps", *self.experiment.metrics, self.scheduler.cfg.time))
        found = {name: value if is_number(value := number_of(row, name)) else None for name in names}
        self.columns = list(row)
        for name in self.experiment.metrics:
            if found[name] is not None or name.replace(".", "/") in row:
                self.reported.add(name)
            elif not is_grouped(name) and name not in self.missing:
                self.missing.add(name)
                self.reporter.note(not_reported(f"tune.metric = {name}", name, row))
        return found

    def refuse_unreported(self, trial: Trial) -> None:
        """Stops an experiment whose trials do not report the metric.

        Raises:
            ConfigError: If a trial is over and no trial has reported a metric.
        """
        refuse(
            f"tune.metric = {name}: {trial.name} is over and has never reported it{hint_for(name, self.columns)}; "
            f"it reports {', '.join(self.columns)}; start again with one of these (with force, or in another folder)"
            for name in self.experiment.metrics
            if self.columns and not (name in self.reported or is_grouped(name))
            if all(row.get(name) is None for row in trial.rows)
        )

    def age_and_score(self, row: Mapping[str, Any]) -> tuple[float, float]:
        """Returns age and score of a row, for the scheduler."""
        metric, mode, clock = self.experiment.metrics[0], self.experiment.modes[0], self.scheduler.cfg.time
        age, value = row[clock], row[metric]
        if not is_number(age):
            raise ConfigError(f"tune.scheduler.time = {clock}: the trials report no such number; use iteration")
        if not is_number(value):
            return float(age), -math.inf
        return float(age), float(value) if mode == "max" else -float(value)

    def scores(self, trial: Trial) -> list[float | None]:
        """Returns the score of a trial for each metric."""
        judged = zip(self.experiment.metrics, self.experiment.modes, strict=True)
        return [score_of(trial.rows, metric, mode, self.cfg.scope) for metric, mode in judged]

    def values(self, trials: Sequence[Trial]) -> list[float] | None:
        """Returns the mean score over seeds for each metric; None if one of the metrics has no number."""
        columns = zip(*map(self.scores, trials), strict=True)
        known = [[score for score in column if score is not None] for column in columns]
        return [math.fsum(scores) / len(scores) for scores in known] if all(known) else None

    # --- stopping and resuming ----------------------------------------------------------------------------------------

    def stop_trials(self) -> None:
        """Makes running trials save and stop."""
        self.executor.interrupt()
        deadline = time.monotonic() + STOP_SECONDS
        while self.at_work and time.monotonic() < deadline:
            event = self.executor.wait(POLL_SECONDS)
            if event is None:
                continue
            trial = self.state.trials[event.trial]
            self.at_work.discard(trial.name)
            if isinstance(event, Failed):
                self.take_failure(trial, event)
            else:  # an iteration just finished is reported again on resume
                self.executor.end(trial.name, save=isinstance(event, Stepped))
        self.journal.sync()

    def resume(self) -> None:
        """Replays the journal: makes the same calls of search and scheduler again.

        The journal decides, also if their answers differ now.
        """
        differs = False
        for number, record in enumerate(self.journal.records, 1):
            with naming_line(self.experiment.folder, number):
                repeated = self.repeat(record)
                differs = differs or (repeated is not None and repeated != record.get("actions", record.get("params")))
                self.state.apply(record)
        if differs:
            self.reporter.note("search or scheduler are not deterministic: from now on they may decide otherwise")
        self.record("resume", time=time.time(), num_samples=self.cfg.num_samples)
        for name in list(self.state.adoptions):
            self.adopt(self.state.trials[name])
        for name in list(self.state.stops):
            self.finish(self.state.trials[name], Status.TERMINATED)
        for trial in list(self.state.trials.values()):
            if not trial.status.is_over and self.fails_for_good(trial):
                self.finish(trial, Status.ERROR, trial.error)
        for number, made in list(self.state.suggestions.items()):
            if len(made) < self.cfg.repeats:  # killed between two of its trials
                self.make_trials(number, made[0].params, len(made))
            self.tell(number)

    def repeat(self, record: Mapping[str, Any]) -> Any:
        """Repeats the call of search or scheduler behind a record; returns its answer in JSON form, or None."""
        kind = record["kind"]
        if kind == "trial":
            actions = None
            if record["number"] not in self.state.suggestions:
                suggestion = self.search.ask(record["number"])
                actions = None if suggestion is None else to_json(suggestion)
            self.scheduler.add(record["trial"], self.state.params(record["params"]))
            return actions
        if kind == "told":
            self.search.tell(record["number"], record["values"])
        elif kind == "result":
            actions = write_actions(self.scheduler.on_result(record["trial"], *self.age_and_score(record["row"])))
            return {name: action for name, action in actions.items() if name != record["trial"] or not record["reason"]}
        elif kind == "end":
            return write_actions(self.scheduler.on_end(record["trial"]))
        elif kind == "drained":
            return write_actions(self.scheduler.drained([t.name for t in self.state.with_status(Status.PAUSED)]))
        return None

    def record(self, kind: str, **facts: Any) -> None:
        """Writes a record, and updates the state by it."""
        made = {"kind": kind, **facts}
        self.journal.append(made)
        self.state.apply(made)


def params_record(name: str, number: int, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the parameters of a trial in JSON form."""
    return {"trial": name, "number": number, "params": to_json(params), "seed": seed}


def write_params(folder: Path, facts: Mapping[str, Any]) -> None:
    """Makes the folder of a trial, and writes its parameters there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PARAMS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def folder_name(name: str, params: Mapping[str, Any]) -> str:
    """Returns the folder name of a trial, with its parameters: ``00003_lr=0.0005_hidden=64,64``."""
    words = [f"{short}={format_value(params[path])}" for path, short in short_names(params).items()]
    return re.sub(r"[^\w.,=+-]+", "-", "_".join([name, *words]))[:100]


def link_or_copy(source: str, target: str) -> None:
    """Makes a hard link to a file that never changes, or copies it if links are not possible."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
