"""`RunFiles`: callback that writes ML-Agents' files beside those of a run while it trains.

results/<run-id>/
  configuration.yaml                  every option of the run, at its start
  <Behavior>.onnx                     the present model: written with every checkpoint of the run, and at its end
  <Behavior>/<Behavior>-<step>.onnx   checkpoints of a behaviour, `keep_checkpoints` of them
  <Behavior>/<Behavior>-<step>/       its weights at that moment, for `init_path` and ``rookery export``
  <Behavior>/events.out.tfevents.*    TensorBoard
  run_logs/timers.json, run_logs/training_status.json

Each file is whole or not there, whatever happens to the process. What counts on is state of the callback, in every
checkpoint of the run, so that a resumed run writes what it would have written without the break. What the end of a
run or an interrupt keeps of a behaviour stays then, and counts as one of its checkpoints.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from rookery.face import (
    ActionSpec,
    Algorithm,
    BatchHook,
    Callback,
    Episode,
    IterationResult,
    Policy,
    TensorBoard,
    Trainer,
    WriteError,
    algorithm_family,
    as_file_name,
    clean,
    groups_of,
    make_folder,
    nearest,
    policy_files,
    remove_directory,
    settings_of,
    shown,
    together,
    versions,
    write_directory,
    write_file,
)
from rookery_mlagents.files.console_line import console_line
from rookery_mlagents.files.sections import BehaviorOptions
from rookery_mlagents.files.tensorboard_tags import Seen, distributions_of, histograms_of, mean, tags_of
from rookery_mlagents.files.timers_file import Gauges, timers_text
from rookery_mlagents.files.training_status import CheckpointEntry, status_text

CONFIGURATION = "configuration.yaml"
LOGS = "run_logs"
SCHEDULED = ("lr", "clip", "entropy_coef")
"""Settings whose current values a summary shows."""

LOGS_APART = 2.0
"""Minimum seconds between two writes of the files in `run_logs` that are only due to summaries, because each write
waits for the disk.
"""

RESERVED = ("checkpoints", "demonstrations", LOGS)
"""Folders of a run whose names no behaviour may have."""


@dataclass
class Pace:
    """Intervals of summaries and checkpoints of a behaviour, in its own steps.

    Attributes:
        summary_freq: Steps between two summaries.
        checkpoint_interval: Steps between two checkpoints of the behaviour.
        keep_checkpoints: Number of checkpoints to keep.
    """

    summary_freq: int = 50_000
    checkpoint_interval: int = 500_000
    keep_checkpoints: int = 5

    @classmethod
    def of(cls, options: BehaviorOptions) -> Pace:
        """Returns the intervals set in the options of a behaviour."""
        interval = options.checkpoint_interval
        if options.even_checkpoints:
            interval = max(1, options.max_steps // max(1, options.keep_checkpoints))
        return cls(options.summary_freq, interval, options.keep_checkpoints)


@dataclass
class Ledger:
    """Counters of a behaviour since its latest summary, and its checkpoints.

    Attributes:
        steps: Its steps, those included that it has not learned from yet.
        learned: Steps that it has learned from.
        summary_at: Steps at which the next summary is written.
        checkpoint_at: Steps at which the next checkpoint is written.
        returns, lengths, group_returns: Of episodes that have ended.
        sums: Sum and count of each metric of its algorithm, of values and baselines.
        reported: Reported values by name: their aggregation, and the numbers.
        reward: Mean return of the latest summary that saw an episode end.
        checkpoints: The kept checkpoints, the oldest first.
        final: The latest model.
    """

    steps: int = 0
    learned: int = 0
    summary_at: int = 0
    checkpoint_at: int = 0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    group_returns: list[float] = field(default_factory=list)
    sums: dict[str, list[float]] = field(default_factory=dict)
    reported: dict[str, tuple[str, list[float]]] = field(default_factory=dict)
    reward: float | None = None
    checkpoints: list[CheckpointEntry] = field(default_factory=list)
    final: CheckpointEntry | None = None

    def add(self, name: str, value: float) -> None:
        """Adds a number whose mean a summary shows."""
        total = self.sums.setdefault(name, [0.0, 0.0])
        total[0] += value
        total[1] += 1

    def take_reported(self, reported: Mapping[str, tuple[str, Sequence[float]]]) -> None:
        """Adds the values that the environment reported in an iteration."""
        for name, (how, numbers) in reported.items():
            kept = self.reported.setdefault(name, (how, []))[1]
            if how == "most_recent":
                kept.clear()
            kept.extend(numbers)

    def means(self, before: str) -> dict[str, float]:
        """Returns the means of the numbers whose names begin with a prefix, by name without the prefix."""
        found = {name: total / count for name, (total, count) in self.sums.items() if name.startswith(before)}
        return {name.removeprefix(before): value for name, value in found.items()}

    def latest_reward(self) -> float | None:
        """Returns the mean return since the latest summary, or else that of the latest summary with finished
        episodes.
        """
        return mean(self.returns) if self.returns else self.reward

    def begin(self) -> None:
        """Resets the counters after a summary."""
        self.returns, self.lengths, self.group_returns, self.sums, self.reported = [], [], [], {}, {}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Ledger:
        """Returns a ledger from the result of `dataclasses.asdict`."""
        final = state["final"]
        kept = [entry_of(one) for one in state["checkpoints"]]
        return cls(**{**state, "checkpoints": kept, "final": None if final is None else entry_of(final)})


def entry_of(state: Mapping[str, Any]) -> CheckpointEntry:
    """Returns an entry of a checkpoint from plain values."""
    return CheckpointEntry(**{**state, "auxillary_file_paths": tuple(state["auxillary_file_paths"])})


class ValueWatch(BatchHook):
    """Hook that records the values and baselines of a learner's batches.

    Args:
        ledger: Where their means go.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Records the means, in the unit of rewards; batches without values have none."""
        scale = getattr(learner, "value_scale", None)
        names = ["extrinsic", *getattr(getattr(learner, "signals", None), "others", {})]
        for what in ("value", "baseline"):
            found = getattr(batch, what, None)
            if scale is not None and isinstance(found, Tensor) and found.dim() == 2 and len(found):
                for name, value in zip(names, (found.detach().mean(0) * scale.unit).tolist(), strict=False):
                    self.ledger.add(f"{what}/{name}", value)
        return batch


class SummaryListener(Protocol):
    """Receives the summaries of a run; both methods return notes for the user."""

    def begin(self, behavior: str, settings: Mapping[str, object], plays_itself: bool) -> list[str]:
        """Is called at the start of the training with the options of each behaviour."""

    def summary(self, behavior: str, values: Mapping[str, tuple[str, Sequence[float]]], step: int) -> list[str]:
        """Is called for each summary with the values of each tag, after the name of their aggregation."""


class RunFiles(Callback):
    """Writes the files of an ML-Agents run.

    Args:
        configuration: What ``configuration.yaml`` is to hold.
        options: Options of a behaviour, by its name.
        show: Is called with the console line of each summary; None = not shown.
        export: Writes the ONNX file of a policy; None = none is written.
        listener: Receives the summaries too; None = there is none.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        options: Callable[[str], BehaviorOptions],
        show: Callable[[str], None] | None = None,
        export: Callable[[Policy, Path], object] | None = None,
        listener: SummaryListener | None = None,
    ) -> None:
        self.configuration = configuration
        self.options = options
        self.show = show
        self.export = export
        self.listener = listener
        self.ledgers: dict[str, Ledger] = {}
        self.gauges = Gauges()
        self._ended: list[dict[str, Any]] = []
        self._boards: dict[str, TensorBoard] = {}
        self._watched: dict[str, Ledger] = {}
        self._failed: set[str] = set()
        self._began = time.time()
        self._logged = 0.0
        self._is_over = False

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for checkpoints."""
        ledgers = {name: asdict(ledger) for name, ledger in self.ledgers.items()}
        return {"ledgers": ledgers, "ended": list(self._ended), "gauges": self.gauges.numbers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.ledgers = {name: Ledger.from_dict(one) for name, one in state["ledgers"].items()}
        self._ended, self.gauges.numbers = list(state["ended"]), dict(state["gauges"])

    # --- moments of a training ----------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Trainer) -> None:
        """Writes the configuration, and checks the files of a resumed run."""
        self._is_over = False
        if trainer.run_dir is None:
            return
        folder = trainer.run_dir.path
        make_folder(folder / LOGS)
        for unfinished in (folder / LOGS, *(folder / folder_name(name) for name in self.ledgers)):
            if unfinished.is_dir():
                clean(unfinished)
        write_file(folder / CONFIGURATION, yaml_text(self.configuration).encode())
        for name in trainer.policies:
            self.ledger(trainer, name)
        for name, ledger in self.ledgers.items():
            take_stock(folder / folder_name(name), ledger)
            if ledger.steps and name in trainer.policies:  # the checkpoint refers to the previous model
                self.write_final(trainer, name)
        self.write_logs(trainer)
        if self.listener is not None:
            for name in trainer.policies:
                settings = asdict(self.options(name))
                self._tell(trainer, self.listener.begin(name, settings, settings["self_play"] is not None))

    def on_episode_end(self, episode: Episode) -> None:
        """Records the result of an episode."""
        self._ended.append(
            {
                "length": episode.length,
                "returns": dict(episode.returns),
                "policies": dict(episode.policies),
                "groups": dict(episode.groups),
            }
        )

    def on_iteration(self, trainer: Trainer, result: IterationResult) -> None:
        """Writes the scheduled summaries and checkpoints of behaviours."""
        if trainer.run_dir is None:
            return
        self._deal(trainer)
        is_reported = False
        for name, policy in result.policies.items():
            ledger = self.ledger(trainer, name)
            if policy.decisions > ledger.learned:
                for metric, value in policy.learning.items():
                    if value is not None:
                        ledger.add(f"learning/{metric}", float(value))
            ledger.take_reported(result.reported)
            ledger.learned, pace = policy.decisions, self.pace(name)
            ledger.steps = policy.decisions + trainer._pool.undelivered(name)
            if ledger.steps >= ledger.summary_at:
                self.summary(trainer, name, result, ledger.steps - ledger.steps % pace.summary_freq)
                ledger.summary_at = next_multiple(ledger.steps, pace.summary_freq)
                is_reported = True
            if ledger.steps >= ledger.checkpoint_at:
                self.keep(trainer, name)
                ledger.checkpoint_at = next_multiple(ledger.steps, pace.checkpoint_interval)
                is_reported, self._logged = True, 0.0
        if is_reported and time.monotonic() - self._logged >= LOGS_APART:
            self.write_logs(trainer)

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """Writes the model of each behaviour at a checkpoint of the run."""
        if trainer.run_dir is None or path.parent != trainer.run_dir.checkpoints:
            return
        for name in trainer.policies:
            self.write_final(trainer, name)
        self.write_logs(trainer)

    def on_train_end(self, trainer: Trainer, result: IterationResult) -> None:
        """Writes a checkpoint of each behaviour."""
        self.end(trainer)

    def end(self, trainer: Trainer) -> None:
        """Writes a checkpoint of each behaviour at the end, finished or interrupted; a second call does nothing."""
        if trainer.run_dir is not None and self.ledgers and not self._is_over:
            self._is_over = True
            for name, ledger in self.ledgers.items():
                if name in trainer.policies and not any(one.steps == ledger.steps for one in ledger.checkpoints):
                    self.keep(trainer, name)
                if name in trainer.policies:
                    self.write_final(trainer, name)
            self.write_logs(trainer)
        for board in self._boards.values():
            board.close()
        self._boards.clear()

    # --- one behaviour ------------------------------------------------------------------------------------------------

    def lessons(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Returns the current lesson number of every parameter of the configuration; 0 for one without lessons."""
        return {**dict.fromkeys(self.configuration.get("environment_parameters") or {}, 0), **numbers}

    def waiting_lessons(self, numbers: Mapping[str, int]) -> Iterator[str]:
        """Yields a line for each parameter whose lesson waits for a behaviour that has not appeared."""
        for parameter, found in (self.configuration.get("environment_parameters") or {}).items():
            lesson = found["curriculum"][numbers.get(parameter, 0)]
            awaited = (lesson["completion_criteria"] or {}).get("behavior")
            if awaited is not None and not (awaited in self.ledgers and self.ledgers[awaited].steps):
                there = [name for name, ledger in self.ledgers.items() if ledger.steps]
                near = "" if awaited in self.configuration["behaviors"] else nearest(awaited, there)
                yield (
                    f"{parameter}: lesson {lesson['name']} waits for behavior {awaited}, which has not appeared"
                    f"{near}. There are {', '.join(there)}."
                )

    def pace(self, name: str) -> Pace:
        """Returns the intervals of a behaviour."""
        return Pace.of(self.options(name))

    def ledger(self, trainer: Trainer, name: str) -> Ledger:
        """Returns the ledger of a behaviour, and adds a hook to its learner; creates a ledger for a new behaviour."""
        ledger, pace = self.ledgers.get(name), self.pace(name)
        if ledger is None:
            ledger = self.ledgers[name] = Ledger(summary_at=pace.summary_freq, checkpoint_at=pace.checkpoint_interval)
        if self._watched.get(name) is not ledger and name in trainer.learners:
            trainer.learners[name].hooks.append(ValueWatch(ledger))
            self._watched[name] = ledger
        return ledger

    def _deal(self, trainer: Trainer) -> None:
        """Assigns finished episodes to behaviours."""
        ended, self._ended = self._ended, []
        members = groups_of(trainer.env)
        for episode in ended:
            played = {name: [a for a, by in episode["policies"].items() if by == name] for name in trainer.policies}
            for name, agents in played.items():
                ledger = self.ledger(trainer, name)
                earned = [episode["returns"][agent] for agent in agents if agent in episode["returns"]]
                ledger.returns += earned
                ledger.lengths += [episode["length"]] * len(earned)
                ledger.group_returns += [
                    value for group, value in episode["groups"].items() if set(members.get(group, ())) & set(agents)
                ]

    def seen(self, trainer: Trainer, name: str, result: IterationResult) -> Seen:
        """Returns the measurements of a behaviour since the previous summary."""
        ledger, learner = self.ledgers[name], trainer.learners.get(name)
        now = None if learner is None else learner.now()
        settings = {key: getattr(now, key, None) for key in SCHEDULED}
        signals = getattr(getattr(now, "signals", None), "others", {})
        extrinsic = getattr(getattr(now, "signals", None), "extrinsic", None)
        strengths = {"extrinsic": extrinsic.strength if extrinsic is not None else 1.0}
        strengths |= {signal: cfg.strength for signal, cfg in signals.items()}
        rating = result.self_play.get(name)
        return Seen(
            returns=ledger.returns,
            lengths=ledger.lengths,
            group_returns=ledger.group_returns,
            learning=ledger.means("learning/"),
            values=ledger.means("value/"),
            baselines=ledger.means("baseline/"),
            strengths=strengths,
            settings={key: float(value) for key, value in settings.items() if isinstance(value, int | float)},
            lessons=self.lessons({parameter: lesson.lesson - 1 for parameter, lesson in result.lessons.items()}),
            elo=None if rating is None else rating.rating,
            coefficients=coefficients_of(ledger.means("learning/"), learner, trainer.policies[name].action_spec),
            beside={key: value for key, (_, value, _) in result.metrics.items()}
            | {key: together(how, values) for key, (how, values) in ledger.reported.items()},
        )

    def summary(self, trainer: Trainer, name: str, result: IterationResult, step: int) -> None:
        """Writes a summary of a behaviour: to TensorBoard, to the gauges, and as a line."""
        ledger, seen = self.ledgers[name], self.seen(trainer, name, result)
        trainer_type = algorithm_family(settings_of(trainer.config, name)) if name in trainer.learners else ""
        shown = tags_of(seen, trainer_type)
        learns = name in trainer.learners and trainer._is_learning(name)
        sums = {"Environment/Cumulative Reward": sum(seen.returns), "Environment/Episode Length": sum(seen.lengths)}
        for tag, value in shown.items():
            self.gauges.note(name, tag, value, sums.get(tag))
        self.gauges.note(name, "Is Training", float(learns))
        self.gauges.note(name, "Step", float(step))
        try:
            board = self._board(trainer, name)
            board.add_row(shown, step)
            histograms = {
                f"{key}_hist": numbers for key, (how, numbers) in ledger.reported.items() if how == "histogram"
            }
            board.add_histogram({**histograms_of(seen), **histograms}, step)
            board.flush()
        except OSError as error:
            raise WriteError(f"{name}: TensorBoard's file cannot be written: {error.strerror}") from None
        if self.show is not None:
            line = console_line(
                name,
                step,
                result.seconds,
                seen.returns,
                group_returns=seen.group_returns,
                elo=seen.elo,
                is_training=learns,
            )
            self.show(line)
            for waiting in self.waiting_lessons(trainer._curriculum.lessons):
                self.show(waiting)
        if self.listener is not None:
            whole = {**dict.fromkeys(shown), "Is Training": [float(learns)], "Step": [float(step)]}
            whole |= {tag: seen_values for tag, seen_values in distributions_of(seen).items() if tag in shown}
            values = {tag: ("average", [shown[tag]] if found is None else found) for tag, found in whole.items()}
            self._tell(trainer, self.listener.summary(name, values | ledger.reported, step))
        ledger.reward = ledger.latest_reward()
        ledger.begin()

    def _tell(self, trainer: Trainer, notes: Sequence[str]) -> None:
        for note in notes:
            trainer._note(note)

    def _board(self, trainer: Trainer, name: str) -> TensorBoard:
        """Returns the event file of a behaviour; a new one hides later steps in earlier files."""
        if name not in self._boards:
            assert trainer.run_dir is not None
            folder, ledger = trainer.run_dir.path / folder_name(name), self.ledgers[name]
            make_folder(folder)
            goes_on = any(folder.glob("events.out.tfevents.*"))
            board = self._boards[name] = TensorBoard(folder)
            pace = self.pace(name)
            if goes_on:
                board.resume(ledger.summary_at - pace.summary_freq)
            else:
                board.add_text("Hyperparameters/text_summary", markdown(self.configuration, name), 0)
        return self._boards[name]

    def keep(self, trainer: Trainer, name: str) -> None:
        """Writes a checkpoint of a behaviour, consisting of its weights and its ONNX file, and removes the oldest one
        beyond the limit.
        """
        assert trainer.run_dir is not None
        ledger, pace, base = self.ledgers[name], self.pace(name), trainer.run_dir.path / folder_name(name)
        make_folder(base)
        stem = f"{folder_name(name)}-{ledger.steps}"
        model = settings_of(trainer.config, name).model
        facts = {"env_steps": trainer.env_steps, "steps": ledger.steps, "versions": versions()}
        write_directory(base / stem, policy_files({name: trainer.policies[name]}, {name: model}), facts, replace=True)
        self._write_onnx(trainer, name, base / f"{stem}.onnx")
        entry = self._entry(ledger, base / f"{stem}.onnx", base / stem)
        ledger.checkpoints = [*(one for one in ledger.checkpoints if one.steps != ledger.steps), entry]
        while len(ledger.checkpoints) > pace.keep_checkpoints:
            oldest = ledger.checkpoints.pop(0)
            remove_model(base / f"{folder_name(name)}-{oldest.steps}")

    def write_final(self, trainer: Trainer, name: str) -> None:
        """Replaces the final model of a behaviour in the folder of the run."""
        assert trainer.run_dir is not None
        ledger, path = self.ledger(trainer, name), trainer.run_dir.path / f"{folder_name(name)}.onnx"
        self._write_onnx(trainer, name, path)
        kept = path.parent / folder_name(name) / f"{folder_name(name)}-{ledger.steps}"
        ledger.final = self._entry(ledger, path, kept)

    def _entry(self, ledger: Ledger, path: Path, *others: Path) -> CheckpointEntry:
        there = [str(shown(one)) for one in (path, *others) if one.exists()]
        return CheckpointEntry(
            steps=ledger.steps,
            file_path=there[0] if there else "",
            reward=ledger.latest_reward(),
            creation_time=time.time(),
            auxillary_file_paths=tuple(there[1:]),
        )

    def _write_onnx(self, trainer: Trainer, name: str, path: Path) -> None:
        """Writes the ONNX file of a behaviour; a failure is noted once and does not stop the run."""
        if self.export is None:
            return
        temporary = path.with_name(f".tmp-{path.name}")
        try:
            self.export(trainer.policies[name], temporary)
            os.replace(temporary, path)
        except Exception as error:
            temporary.unlink(missing_ok=True)
            if name not in self._failed:
                self._failed.add(name)
                trainer._note(f"{path}: no ONNX file of {name}: {error}; training continues without it")

    # --- the whole run ------------------------------------------------------------------------------------------------

    def write_logs(self, trainer: Trainer) -> None:
        """Replaces ``training_status.json`` and ``timers.json``."""
        assert trainer.run_dir is not None
        folder = trainer.run_dir.path / LOGS
        standing = trainer._self_play.standing()
        status = status_text(
            self.lessons(trainer._curriculum.lessons),
            {name: ledger.checkpoints for name, ledger in self.ledgers.items()},
            {name: ledger.final for name, ledger in self.ledgers.items() if ledger.final is not None},
            {name: one.rating for name, one in standing.items()},
        )
        write_file(folder / "training_status.json", status.encode())
        timers = timers_text(trainer.timers.state_dict(), self.gauges, self._began, time.time())
        write_file(folder / "timers.json", timers.encode())
        self._logged = time.monotonic()


def coefficients_of(
    learning: Mapping[str, float], learner: Algorithm[Any] | None, action: ActionSpec
) -> dict[str, float]:
    """Returns the temperatures of an algorithm that has some: of continuous actions, and the mean of those of discrete
    actions.
    """
    log_alpha = getattr(getattr(learner, "temperature", None), "log_alpha", None)
    several = log_alpha.detach().exp().flatten().tolist() if isinstance(log_alpha, Tensor) else []
    if len(several) < 2:
        kind = "continuous_alpha" if action.num_numbers else "discrete_alpha"
        return {kind: learning["alpha"]} if "alpha" in learning else {}
    choices = several[: len(action.sizes)]  # those of continuous actions follow them
    found = {"discrete_alpha": sum(choices) / len(choices)} if choices else {}
    return found | ({"continuous_alpha": several[-1]} if action.num_numbers else {})


def next_multiple(steps: int, every: int) -> int:
    """Returns the next multiple of a number after some steps."""
    return (steps // every + 1) * every


def folder_name(behavior: str) -> str:
    """Returns the file name of a behaviour."""
    return as_file_name(behavior)


def take_stock(folder: Path, ledger: Ledger) -> None:
    """Reconciles a ledger with the checkpoints in the folder of a behaviour when a run resumes: removes checkpoints
    from later steps, drops missing ones from the ledger, and adds earlier ones that are not listed, which are written
    at the end of a run or an interrupt after the last checkpoint of the run.
    """
    known, there = {one.steps: one for one in ledger.checkpoints}, []
    for path in list(folder.iterdir()) if folder.is_dir() else ():
        stem = path.with_name(path.name.removesuffix(".onnx"))
        found = re.fullmatch(rf"{re.escape(folder.name)}-(\d+)", stem.name)
        if found is None:
            continue
        steps = int(found[1])
        if steps > ledger.steps or not stem.is_dir():
            remove_model(stem)
        elif path == stem:
            there.append(known.get(steps) or entry_of_files(stem, steps, ledger))
    ledger.checkpoints = sorted(there, key=lambda one: one.steps)


def entry_of_files(stem: Path, steps: int, ledger: Ledger) -> CheckpointEntry:
    """Returns an entry for the files of an unlisted checkpoint; its reward is known if the ledger is at the same
    step.
    """
    paths = [str(one) for one in (stem.with_name(f"{stem.name}.onnx"), stem) if one.exists()]
    reward = ledger.latest_reward() if steps == ledger.steps else None
    return CheckpointEntry(steps, paths[0], reward, stem.stat().st_mtime, tuple(paths[1:]))


def remove_model(stem: Path) -> None:
    """Removes the weights and the ONNX file of a checkpoint."""
    if stem.is_dir():
        remove_directory(stem)
    stem.with_name(f"{stem.name}.onnx").unlink(missing_ok=True)


def yaml_text(values: Mapping[str, Any]) -> str:
    """Returns a mapping as YAML."""
    from ruamel.yaml import YAML

    writer, text = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(dict(values), text)
    return text.getvalue()


def markdown(configuration: Mapping[str, Any], behavior: str) -> str:
    """Returns the options of a behaviour as a text for TensorBoard."""
    behaviors = configuration.get("behaviors") or {}
    own = behaviors.get(behavior, configuration.get("default_settings")) or {}
    return "".join(f"    {line}\n" for line in yaml_text(own).splitlines())
