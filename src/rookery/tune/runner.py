"""The loop of an experiment: ask for trials, let each do an iteration, write it down, decide who goes on.

`Runner.run` is all of it. What it decides goes through the journal first (`journal.py`), so that it can be killed at
any moment; `Runner.go_on` is what happens when it is started again.
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

from rookery.core.errors import ConfigError
from rookery.core.files import FOLDER, FileError, last_good
from rookery.core.interrupt import Interrupt, Interrupted
from rookery.core.seeding import Role, Streams
from rookery.tune.job import Start
from rookery.tune.jobs.rows import number_of
from rookery.tune.journal import History, Journal, following, write_actions
from rookery.tune.names import called_here
from rookery.tune.places.workplace import is_full
from rookery.tune.scheduler import Action, Actions, Exploit, Scheduler
from rookery.tune.search import AskTell
from rookery.tune.seeing.hparams import write_session
from rookery.tune.seeing.table import View
from rookery.tune.seeing.words import short_names, told, told_params
from rookery.tune.settings import TuneConfig
from rookery.tune.space import Domain, written
from rookery.tune.trial import Row, Status, Trial, is_number, score_of
from rookery.tune.workers import Event, Failed, Order, Stepped, Workers

GLANCE = 0.25
"""Seconds between two looks at the clock and the table while nobody reports."""

GROUPS = ("evaluation", "metrics", "agents", "policies")
"""Columns of trainings that begin so may come later, or never."""

STOPPING = "stopping after the iterations under way; Ctrl-C again stops at once"

PATIENCE = 10.0
"""Seconds that trials get to save and stop after Ctrl-C."""

TRIALS = "trials"
"""Where in the folder of an experiment those of its trials are."""

ERRORS = "error.txt"
"""Where in a trial's folder the tracebacks of its failures are."""

ABOUT = "params.json"
"""Where in a trial's folder it stands what was chosen for it."""

MAKE_ROOM = "make room, and go on with the experiment: rookery tune resume"


@dataclass(frozen=True)
class Experiment:
    """What is tried.

    Attributes:
        folder: Where everything is written.
        cfg: How trials are chosen, judged and run.
        space: Domains of parameters by path.
        streams: All random streams.
        seed: Of all trials with the first repeat's number, if the user gave one; else it is drawn from `streams`.
    """

    folder: Path
    cfg: TuneConfig
    space: Mapping[str, Domain]
    streams: Streams
    seed: int | None

    @property
    def metrics(self) -> tuple[str, ...]:
        """What trials are judged by."""
        return (self.cfg.metric,) if isinstance(self.cfg.metric, str) else self.cfg.metric

    @property
    def modes(self) -> tuple[str, ...]:
        """Whether more is better or less, for each metric."""
        given = (self.cfg.mode,) if isinstance(self.cfg.mode, str) else self.cfg.mode
        return given * len(self.metrics) if len(given) == 1 else given

    def seed_of(self, repeat: int) -> int:
        """The seed of a repeat: the same for all suggestions, so that they are compared on equal terms."""
        if repeat == 0 and self.seed is not None:
            return self.seed
        return self.streams.integer(Role.TUNE, "trial", repeat)


class Runner:
    """Runs an experiment to its end.

    Args:
        experiment: What is tried.
        search: Suggests parameters.
        scheduler: Decides after each result.
        workers: Where trials run.
        journal: What happened so far, and from now on.
        view: Who shows it.
    """

    def __init__(
        self,
        experiment: Experiment,
        search: AskTell,
        scheduler: Scheduler[Any],
        workers: Workers,
        journal: Journal,
        view: View,
    ) -> None:
        self.experiment = experiment
        self.cfg = experiment.cfg
        self.search = search
        self.scheduler = scheduler
        self.workers = workers
        self.journal = journal
        self.view = view
        self.history = History(experiment.folder, experiment.space)
        self.interrupt = Interrupt()
        self.at_work: set[str] = set()
        """Trials with an open order."""
        self.reported: set[str] = set()
        """Metrics of which some trial has reported a column, with a number or without."""
        self.columns: list[str] = []
        """Those of the last row."""

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs trials until all are over; goes on where the journal ends.

        Raises:
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C or SIGTERM; trials have saved what they could.
            FileError: If a disk is full: trials keep what they had, and go on when there is room.
        """
        deadline = math.inf if self.cfg.seconds is None else time.monotonic() + self.cfg.seconds
        with self.interrupt.watching(STOPPING), closing(self.workers):  # trainings here watch too: they end first
            try:
                if self.journal.records:
                    self.go_on()
                while True:
                    self.interrupt.check()
                    if time.monotonic() > deadline:
                        self.put_away()
                        self.view.note(f"tune.seconds = {self.cfg.seconds:g} are over; {self.told_how_to_go_on}")
                        return
                    self.begin_trials()
                    while self.workers.notes:
                        self.view.note(self.workers.notes.pop(0))
                    if not self.at_work:
                        if not self.let_paused_go_on():
                            return
                        continue
                    event = self.workers.wait(GLANCE)
                    if event is not None:
                        self.handle(event)
                    self.view.update(list(self.history.trials.values()), len(self.at_work))
            except Interrupted:
                self.put_away()
                self.view.note(f"stopped; {self.told_how_to_go_on}")
                raise
            except OSError as error:
                if is_full(error):
                    raise FileError(f"{self.experiment.folder}: {error}; {MAKE_ROOM}") from error
                raise

    @property
    def told_how_to_go_on(self) -> str:
        """What a user can do to finish the experiment."""
        return f"go on with: rookery tune resume {self.experiment.folder}, or tune.run(..., resume=True)"

    def begin_trials(self) -> None:
        """Gives free places to trials that wait, and then to new ones."""
        limit = self.cfg.max_concurrent or math.inf
        while self.workers.free and len(self.at_work) < limit and (self.history.queue or self.suggest()):
            trial = self.history.trials[self.history.queue[0]]
            if not (trial.folder / ABOUT).exists():  # somebody removed it
                write_about(trial.folder, about(trial.name, trial.number, trial.params, trial.seed))
            self.record("begin", trial=trial.name)
            self.workers.begin(Start(trial.name, trial.params, trial.seed, trial.folder))
            self.view.event(f"{trial.name} {'goes on' if trial.known else 'begins'}")
            self.order(trial)

    def suggest(self) -> bool:
        """Makes the trials of a new suggestion; says whether there is one."""
        number = len(self.history.suggestions)
        params = None if self.history.is_exhausted else self.search.ask(number)
        if params is None:
            if not self.history.is_exhausted:
                self.record("exhausted")
            return False
        self.make_trials(number, params, 0)
        return True

    def make_trials(self, number: int, params: Mapping[str, Any], begin: int) -> None:
        """Makes the trials of a suggestion, one for each seed from repeat `begin` on."""
        records = []
        for repeat in range(begin, self.cfg.repeats):
            name = f"{number:05d}" if self.cfg.repeats == 1 else f"{number:05d}-{repeat}"
            folder = f"{TRIALS}/{folder_name(name, params)}"
            facts = about(name, number, params, self.experiment.seed_of(repeat))
            write_about(self.experiment.folder / folder, facts)
            records.append({"kind": "trial", **facts, "folder": folder})
        self.journal.append(*records)
        for record in records:
            self.history.apply(record)
            self.scheduler.add(str(record["trial"]), params)

    def order(self, trial: Trial) -> None:
        """Lets a trial do an iteration."""
        milestone = self.scheduler.milestone(trial.name)
        save_at = None if milestone is None else (self.scheduler.cfg.time, milestone)
        self.at_work.add(trial.name)
        self.workers.order(trial.name, Order(trial.known, save_at))

    def let_paused_go_on(self) -> bool:
        """Nobody runs and nobody waits: asks the scheduler about paused trials; says whether there are any."""
        paused = [trial.name for trial in self.history.with_status(Status.PAUSED)]
        if not paused:
            return False
        actions = self.scheduler.drained(paused)
        if not actions.keys() & set(paused):
            raise RuntimeError(f"{type(self.scheduler).__name__}.drained names none of the paused trials {paused}")
        self.record("drained", actions=write_actions(actions))
        self.act(actions)
        return True

    # --- what is reported ---------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """What follows from one report of a worker."""
        trial = self.history.trials[event.trial]
        self.at_work.discard(trial.name)
        if isinstance(event, Stepped):
            self.take_result(trial, event.row, event.reason)
        elif isinstance(event, Failed):
            self.take_failure(trial, event)
        else:
            self.workers.end(trial.name, save=False)
            self.interrupt.number = self.interrupt.number or signal.SIGINT

    def take_result(self, trial: Trial, row: Row, reason: str) -> None:
        """A trial has finished an iteration: who goes on?"""
        if int(row["iteration"]) <= trial.known:  # told before: it repeats what a kill undid, or has come to its end
            if reason:
                self.workers.end(trial.name, save=True)
                self.record("over", trial=trial.name, reason=reason)
                self.finish(trial, Status.TERMINATED)
            else:
                self.order(trial)
            return
        kept = self.kept(row)
        actions = self.checked(self.scheduler.on_result(trial.name, *self.age_and_score(kept)), trial)
        if reason:
            actions = {name: action for name, action in actions.items() if name != trial.name}
        self.record(
            "result", trial=trial.name, iteration=int(row["iteration"]), row=kept, actions=write_actions(actions),
            reason=reason,
        )  # fmt: skip
        self.view.result(trial, row)
        own = actions.get(trial.name, Action.CONTINUE)
        goes_on = own is Action.CONTINUE and not reason
        if not goes_on:
            self.workers.end(trial.name, save=not isinstance(own, Exploit))
        self.act(actions)  # first: clones take over their donors' checkpoints, of which this may be one
        if reason:
            self.finish(trial, Status.TERMINATED)
        elif goes_on:
            self.order(trial)

    def take_failure(self, trial: Trial, event: Failed) -> None:
        """A trial raised or was lost: it goes on from its last checkpoint, as often as is allowed."""
        self.workers.end(trial.name, save=False)
        if event.full:
            raise FileError(f"trial {trial.name}: {event.problem}; {MAKE_ROOM}")
        with (trial.folder / ERRORS).open("a", encoding="utf-8") as file:
            file.write(f"{event.traceback.rstrip() or event.problem}\n\n")
        self.record("failure", trial=trial.name, problem=event.problem, lost=event.lost)
        count, limit = (trial.losses, self.cfg.max_losses) if event.lost else (trial.failures, self.cfg.max_failures)
        if count <= limit:
            self.view.event(f"{trial.name} {'was lost' if event.lost else 'failed'} and goes on: {event.problem}")
        else:
            self.finish(trial, Status.ERROR, event.problem)

    def checked(self, actions: Actions, trial: Trial) -> Actions:
        """Actions after a result or the end of a trial: about it, or paused ones.

        Raises:
            RuntimeError: If the scheduler names others.
        """
        trials = self.history.trials
        others = [name for name in actions if name not in trials or trials[name].status is not Status.PAUSED]
        if wrong := [name for name in others if name != trial.name]:
            said = f"{type(self.scheduler).__name__} decides about {', '.join(wrong)} after {trial.name}"
            raise RuntimeError(f"{said}: neither the trial that has reported nor a paused one")
        return actions

    def act(self, actions: Actions) -> None:
        """Does what the scheduler said; pausing and going on are a matter of the history alone."""
        for name, action in actions.items():
            trial = self.history.trials[name]
            if isinstance(action, Exploit):
                self.adopt(trial)
                params = told_params(trial.params, trial.params, short_names(trial.params))
                self.view.event(f"{name} goes on as a copy of {action.donor}, with {params}")
            elif action is Action.STOP:
                self.finish(trial, Status.TERMINATED)

    def adopt(self, trial: Trial) -> None:
        """Gives a clone its donor's last checkpoint, in place of its own."""
        donor = self.history.trials[self.history.adoptions[trial.name]]
        source = last_good(donor.folder / FOLDER)
        if source is None:
            raise FileError(
                f"{donor.folder}: there is no checkpoint that {trial.name} could go on from; a function gives them "
                "with tune.report(..., checkpoint=folder), a class has save_checkpoint and load_checkpoint"
            )
        copied = trial.folder / f"{FOLDER}.new"
        shutil.rmtree(copied, ignore_errors=True)
        try:
            shutil.copytree(source, copied / source.name, copy_function=link_or_copy)
        except (shutil.Error, FileNotFoundError):  # a donor that runs on has made room for a newer one meanwhile
            if last_good(donor.folder / FOLDER) == source:
                raise
            self.adopt(trial)
            return
        shutil.rmtree(trial.folder / FOLDER, ignore_errors=True)
        copied.rename(trial.folder / FOLDER)
        self.record("adopted", trial=trial.name, iteration=int(source.name.partition("-")[0]))
        self.journal.sync()

    def finish(self, trial: Trial, status: Status, problem: str = "") -> None:
        """A trial is over: says so to the scheduler and, if it was the last of its suggestion, to the search."""
        actions = self.checked(self.scheduler.on_end(trial.name), trial)
        reason = problem or self.history.stops.get(trial.name, "")
        self.record(
            "end", trial=trial.name, status=status.value, reason=reason, score=self.scores(trial),
            actions=write_actions(actions),
        )  # fmt: skip
        self.view.event(f"{trial.name} {status.value}: {reason}")
        write_session(trial, {path: domain.describe() for path, domain in self.experiment.space.items()})
        self.act(actions)
        self.tell(trial.number)
        if status is Status.TERMINATED:
            self.refuse_unreported(trial)

    def tell(self, number: int) -> None:
        """Tells the search what came of a suggestion, once all of its trials are over."""
        trials = self.history.suggestions[number]
        if number not in self.history.told and all(trial.status.is_over for trial in trials):
            values = self.values(trials)
            self.search.tell(number, values)
            self.record("told", number=number, values=values)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def kept(self, row: Row) -> dict[str, Any]:
        """What the journal keeps of a row."""
        names = dict.fromkeys(("iteration", "seconds", "env_steps", *self.experiment.metrics, self.scheduler.cfg.time))
        found = {name: column(row, name) for name in names}
        for name in self.experiment.metrics:
            if found[name] is not None or name.replace(".", "/") in row:
                self.reported.add(name)
            elif name.replace(".", "/").partition("/")[0] not in GROUPS:
                self.view.missing(name, row)
        self.columns = list(row)
        return found

    def refuse_unreported(self, trial: Trial) -> None:
        """Stops an experiment whose trials do not report what they are judged by.

        Raises:
            ConfigError: If a trial is over and nobody has reported a metric.
        """
        wrong = [
            f"tune.metric = {name}: {trial.name} is over and has never reported it{called_here(name, self.columns)}; "
            f"it reports {', '.join(self.columns)}; begin again with one of these (with force, or in another folder)"
            for name in self.experiment.metrics
            if self.columns
            and name not in self.reported
            and name.replace(".", "/").partition("/")[0] not in GROUPS
            and all(row.get(name) is None for row in trial.rows)
        ]
        if wrong:
            raise ConfigError(*wrong)

    def age_and_score(self, row: Mapping[str, Any]) -> tuple[float, float]:
        """What a scheduler is told of a row."""
        metric, mode, clock = self.experiment.metrics[0], self.experiment.modes[0], self.scheduler.cfg.time
        age, value = row[clock], row[metric]
        if not is_number(age):
            raise ConfigError(f"tune.scheduler.time = {clock}: the trials report no such number; iteration is one")
        if not is_number(value):
            return float(age), -math.inf
        return float(age), float(value) if mode == "max" else -float(value)

    def scores(self, trial: Trial) -> list[float | None]:
        """What a trial came to, for each metric."""
        judged = zip(self.experiment.metrics, self.experiment.modes, strict=True)
        return [score_of(trial.rows, metric, mode, self.cfg.scope) for metric, mode in judged]

    def values(self, trials: Sequence[Trial]) -> list[float] | None:
        """The mean over seeds of what the trials of a suggestion came to; None if one of the metrics has no number."""
        found = []
        for scores in zip(*map(self.scores, trials), strict=True):
            known = [score for score in scores if score is not None]
            if not known:
                return None
            found.append(math.fsum(known) / len(known))
        return found

    # --- stopping and going on ----------------------------------------------------------------------------------------

    def put_away(self) -> None:
        """Lets trials at work save and stop."""
        self.workers.interrupt()
        deadline = time.monotonic() + PATIENCE
        while self.at_work and time.monotonic() < deadline:
            event = self.workers.wait(GLANCE)
            if event is None:
                continue
            trial = self.history.trials[event.trial]
            self.at_work.discard(trial.name)
            if isinstance(event, Failed):
                self.take_failure(trial, event)
            else:  # what it had just finished is told again when it goes on
                self.workers.end(trial.name, save=isinstance(event, Stepped))
        self.journal.sync()

    def go_on(self) -> None:
        """Takes up where the journal ends: search and scheduler are asked and told the same again.

        What the journal says stands, also where they say something else now.
        """
        differs = False
        for number, record in enumerate(self.journal.records, 1):
            with following(self.experiment.folder, number):
                said = self.repeat(record)
                differs = differs or (said is not None and said != record.get("actions", record.get("params")))
                self.history.apply(record)
        if differs:
            self.view.note("search or scheduler do not repeat themselves: from here on they may choose otherwise")
        self.record("resume", time=time.time(), num_samples=self.cfg.num_samples)
        for name in list(self.history.adoptions):
            self.adopt(self.history.trials[name])
        for name in list(self.history.stops):
            self.finish(self.history.trials[name], Status.TERMINATED)
        for trial in list(self.history.trials.values()):
            if not trial.status.is_over and self.fails_for_good(trial):
                self.finish(trial, Status.ERROR, trial.error)
        for number, made in list(self.history.suggestions.items()):
            if len(made) < self.cfg.repeats:  # killed between two of its trials
                self.make_trials(number, made[0].params, len(made))
            self.tell(number)

    def fails_for_good(self, trial: Trial) -> bool:
        """Whether a trial has failed as often as it may."""
        return trial.failures > self.cfg.max_failures or trial.losses > self.cfg.max_losses

    def repeat(self, record: Mapping[str, Any]) -> Any:
        """Asks and tells what led to a record; gives what was said now, in the record's form, if there is any."""
        kind = record["kind"]
        if kind == "trial":
            said = None
            if record["number"] not in self.history.suggestions:
                asked = self.search.ask(record["number"])
                said = None if asked is None else written(asked)
            self.scheduler.add(record["trial"], self.history.params(record["params"]))
            return said
        if kind == "told":
            self.search.tell(record["number"], record["values"])
        elif kind == "result":
            said = write_actions(self.scheduler.on_result(record["trial"], *self.age_and_score(record["row"])))
            return {name: action for name, action in said.items() if name != record["trial"] or not record["reason"]}
        elif kind == "end":
            return write_actions(self.scheduler.on_end(record["trial"]))
        elif kind == "drained":
            return write_actions(self.scheduler.drained([t.name for t in self.history.with_status(Status.PAUSED)]))
        return None

    def record(self, kind: str, **facts: Any) -> None:
        """Writes a record, and lets the history follow."""
        made = {"kind": kind, **facts}
        self.journal.append(made)
        self.history.apply(made)


def about(name: str, number: int, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What a trial is."""
    return {"trial": name, "number": number, "params": written(params), "seed": seed}


def write_about(folder: Path, facts: Mapping[str, Any]) -> None:
    """Makes the folder of a trial, and writes there what was chosen for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def folder_name(name: str, params: Mapping[str, Any]) -> str:
    """A trial's name and what was chosen for it, as far as a file's name may be: ``00003_lr=0.0005_hidden=64,64``."""
    words = [f"{short}={told(params[path])}" for path, short in short_names(params).items()]
    return re.sub(r"[^\w.,=+-]+", "-", "_".join([name, *words]))[:100]


def column(row: Row, name: str) -> Any:
    """A metric of a row, whose path may have dots or slashes; None if there is no number."""
    value = number_of(row, name)
    return value if is_number(value) else None


def link_or_copy(source: str, target: str) -> None:
    """Gives a file that never changes a second name, or copies it where that cannot be."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
