"""Trials: a Trainable of 2021 as a job of Rookery's runner.

The runner's own files (its journal, and checkpoints to pause, move and resume trials) are in a folder ``.rookery`` of
the experiment; files for scripts are where Tune put them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.face import (
    FOLDER,
    TEMPORARY,
    Job,
    Start,
    Work,
    clean,
    last_good,
    list_checkpoints,
    make_folder,
    pack_files,
    read_manifest,
    remove_directory,
    unpack_files,
    write_directory,
)
from rookery.face import TrialRow as Row
from rookery_rllib.base import notices
from rookery_rllib.base.registrations import register_all, registered
from rookery_rllib.trainer.trial.checkpoints import checkpoints_in
from rookery_rllib.trainer.trial.loggers import NoopLogger, flatten_dict
from rookery_rllib.trainer.trial.result_keys import (
    DONE,
    EXPERIMENT_TAG,
    RESULT_DUPLICATE,
    SHOULD_CHECKPOINT,
    STDERR_FILE,
    STDOUT_FILE,
    TRAINING_ITERATION,
    TRIAL_ID,
    TRIAL_INFO,
)
from rookery_rllib.trainer.trial.trainable import FunctionTrainable, Trainable
from rookery_rllib.tune.search import WHOLE
from rookery_rllib.tune.space import filled
from rookery_rllib.tune.trial import TrialInfo

ABOUT = "trial.json"
"""File in a trial's folder of the runner with its identity for scripts."""

RESULT = "__result__"
"""Key of the complete result in reports to the runner."""

KEEP_LAST = 2
"""Number of the runner's own checkpoints to keep per trial."""

RETURNED = "the function has returned"


@dataclass(frozen=True)
class TrainableOf2021(Job):
    """Job that runs a Trainable.

    Attributes:
        trainable: The class.
        name: Its name.
        config: The nested configuration with domains.
        checkpoint_freq: Iterations between checkpoints in the trial's directory; 0 = none.
        log_to_file: Files for copies of standard output and standard error.
        restore: Checkpoint from which each trial starts.
        export_formats: Formats of the exported model at the end of a trial.
        resources: Cores of a trial.
        known: Names that the script has registered.
    """

    trainable: type[Trainable]
    name: str
    config: Mapping[str, Any]
    checkpoint_freq: int = 0
    log_to_file: tuple[str | None, str | None] = (None, None)
    restore: str | None = None
    export_formats: tuple[str, ...] = ()
    resources: float = 1.0
    known: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.name

    @property
    def cpus(self) -> float:
        return self.resources

    def describe(self) -> dict[str, Any]:
        return {"kind": "rllib", "trainable": self.name}

    def configured(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the configuration of a trial.

        Args:
            params: Values by path; missing places are added to the configuration.
        """
        config: dict[str, Any] = filled(self.config, params)
        whole = params.get(WHOLE)
        if isinstance(whole, Mapping):
            config = merged(config, whole)
        for path, value in params.items():
            if path != WHOLE:
                placed(config, path.split("/"), value)
        return config

    def start(self, start: Start) -> Work:
        register_all(self.known or registered())
        notices.print_own_lines()
        return TrialOf2021(self, start)


def merged(config: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested configuration, overridden by another."""
    made = dict(config)
    for key, value in other.items():
        below = made.get(key)
        made[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return made


def placed(config: Any, keys: list[str], value: Any) -> None:
    """Sets a value in a nested configuration, creating missing levels."""
    node = config
    for place, key in enumerate(keys):
        last = place == len(keys) - 1
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            if last:
                node[int(key)] = value
            node = node[int(key)]
            continue
        if not isinstance(node, dict):
            return  # a tuple, which `filled` has copied
        same = next((known for known in node if str(known) == key), key)
        if last:
            node[same] = value
        node = node.setdefault(same, {})


class TrialOf2021(Work):
    """A running trainable."""

    def __init__(self, job: TrainableOf2021, start: Start) -> None:
        self._job, self._folder = job, start.folder
        about = json.loads((start.folder / ABOUT).read_text(encoding="utf-8"))
        self._about: dict[str, Any] = about
        self._logdir: str = about["logdir"]
        self._checkpoints = start.folder / FOLDER
        self._unpacked: Path | None = None
        clean(start.folder)
        config = job.configured(start.params)
        config[TRIAL_INFO] = TrialInfo(about["trial_name"], about["trial_id"], job.resources)
        config[STDOUT_FILE], config[STDERR_FILE] = job.log_to_file
        self.trainable = job.trainable(config=config, logger_creator=lambda config: NoopLogger(config, self._logdir))
        self._last: Row = {}
        self._saved_at = -1
        try:
            self._restore(about.get("clone", False))
        except BaseException:
            self.trainable.stop()
            raise
        self.iteration = self.trainable.iteration

    def _restore(self, clone: bool) -> None:
        """Resumes from the newest checkpoint: the runner's or one in the trial's directory; else from `job.restore`."""
        own = last_good(self._checkpoints) if self._checkpoints.is_dir() else None
        reached = read_manifest(own)["iteration"] if own is not None else -1
        visible = [] if clone else [(number, path) for number, path in checkpoints_in(self._logdir) if number > reached]
        if visible:
            self.trainable.restore(visible[-1][1])
        elif own is not None:
            self._unpacked = unpack_files(own, self._folder)
            self.trainable.restore(str(self._unpacked))
            self._saved_at = self.trainable.iteration
        elif self._job.restore:
            self.trainable.restore(self._job.restore)

    def step(self) -> tuple[Row, str]:
        """Runs an iteration; writes a checkpoint to the trial's directory at the configured interval."""
        result = self.trainable.train()
        if RESULT_DUPLICATE in result:
            return self._last, RETURNED
        self.iteration = self.trainable.iteration
        result = {**result, TRIAL_ID: self._about["trial_id"], EXPERIMENT_TAG: self._about["experiment_tag"]}
        due = self._job.checkpoint_freq and result.get(TRAINING_ITERATION, 0) % self._job.checkpoint_freq == 0
        if (due or result.get(SHOULD_CHECKPOINT)) and self.can_save:
            self.trainable.save()
        numbers = {name: value for name, value in flatten_dict(without_config(result)).items() if is_plain(value)}
        seconds = float(result.get("time_total_s") or 0.0)
        row = {**numbers, "iteration": self.iteration, "seconds": seconds, RESULT: without_config(result)}
        self._last = row
        return row, "done" if result.get(DONE) else ""

    @property
    def can_save(self) -> bool:
        if isinstance(self.trainable, FunctionTrainable):
            return self.trainable.can_save
        return type(self.trainable).save_checkpoint is not Trainable.save_checkpoint

    def save(self) -> None:
        """Writes a checkpoint of the runner's own."""
        if self._saved_at == self.iteration or not self.can_save:
            return
        make_folder(self._checkpoints)
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self._folder) as folder:
            self.trainable.save(folder)
            (made,) = Path(folder).iterdir()
            facts = {"iteration": self.iteration, "seconds": 0.0, "reason": ""}
            write_directory(self._checkpoints / f"{self.iteration:06d}", pack_files(made), facts, replace=True)
        for old in list_checkpoints(self._checkpoints)[:-KEEP_LAST]:
            remove_directory(old)
        self._saved_at = self.iteration

    def close(self) -> None:
        try:
            if self._job.export_formats:
                self.trainable.export_model(list(self._job.export_formats), self._logdir)
        finally:
            self.trainable.stop()
            if self._unpacked is not None:
                shutil.rmtree(self._unpacked, ignore_errors=True)


def without_config(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a result without its configuration, which the script's process has already."""
    return {key: value for key, value in result.items() if key != "config"}


def is_plain(value: Any) -> bool:
    """Returns whether the runner can compare or show a value."""
    return isinstance(value, int | float) or (hasattr(value, "__float__") and getattr(value, "shape", ()) == ())
