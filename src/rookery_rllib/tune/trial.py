"""Trial: one configuration of an experiment, for scripts and callbacks."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rookery_rllib.trainer.trial.checkpoints import checkpoints_in
from rookery_rllib.trainer.trial.loggers import flatten_dict
from rookery_rllib.trainer.trial.result_keys import DATE
from rookery_rllib.tune.trainables import get_trainable_cls

LONGEST_NAME = 130
"""Characters of a directory's name before its date."""

MEANS = (5, 10)
"""Windows of last results for running means."""


class Location:
    """Host and process of a trial."""

    def __init__(self, hostname: str | None = None, pid: int | None = None) -> None:
        self.hostname, self.pid = hostname, pid

    def __str__(self) -> str:
        return f"{self.hostname}:{self.pid}" if self.pid else ""


class ExportFormat:
    """Formats of exported models."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in the directory of a trial.

    Attributes:
        value: The path to restore.
        result: The result before it.
        storage: Always ``persistent``.
    """

    PERSISTENT = "persistent"
    MEMORY = "memory"

    value: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage: str = PERSISTENT

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        return cls(os.fspath(path))

    @property
    def path(self) -> str:
        """The directory of the checkpoint."""
        value = os.fspath(self.value or "")
        return os.path.dirname(value) if os.path.isfile(value) else value

    def to_directory(self, path: str | None = None) -> str:
        """Copies the directory to `path`, and returns that; without a path, it returns the directory itself."""
        return self.path if path is None else str(shutil.copytree(self.path, path, dirs_exist_ok=True))

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        yield self.path

    def __fspath__(self) -> str:
        return self.path


@dataclass(frozen=True)
class TrialInfo:
    """Name, id and resources of a trial, for its trainable."""

    trial_name: str
    trial_id: str
    trial_resources: Any = None


class Trial:
    """A trial with its configuration, status and results."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    def __init__(
        self,
        trainable_name: str,
        config: dict[str, Any] | None = None,
        trial_id: str | None = None,
        local_dir: str = "",
        evaluated_params: Mapping[str, Any] | None = None,
        experiment_tag: str = "",
        stopping_criterion: Mapping[str, Any] | None = None,
    ) -> None:
        self.trainable_name = trainable_name
        self.config = config or {}
        self.trial_id = trial_id or Trial.generate_id()
        self.local_dir = local_dir
        self.evaluated_params = dict(evaluated_params or {})
        self.experiment_tag = experiment_tag
        self.stopping_criterion = dict(stopping_criterion or {})
        self.status = Trial.PENDING
        self.location = Location()
        self.last_result: dict[str, Any] = {}
        self.last_update_time = -math.inf
        self.start_time: float | None = None
        self.metric_analysis: dict[str, dict[str, float]] = {}
        self._recent: dict[str, deque[float]] = {}
        self.logdir: str = ""
        self.num_failures = 0
        self.error_file: str | None = None
        self.error_msg: str | None = None
        self.custom_trial_name: str | None = None
        self.custom_dirname: str | None = None
        self.resources: Any = None
        self.results_at: dict[int, dict[str, Any]] = {}
        """The results at checkpoints, by iteration."""

    @classmethod
    def generate_id(cls) -> str:
        return os.urandom(4).hex()

    @property
    def node_ip(self) -> str | None:
        return self.location.hostname

    def get_trainable_cls(self) -> Any:
        return get_trainable_cls(self.trainable_name)

    def is_finished(self) -> bool:
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    def set_status(self, status: str) -> None:
        if status == Trial.RUNNING and self.start_time is None:
            self.start_time = time.time()
        self.status = status

    # --- results ------------------------------------------------------------------------------------------------------

    def update_last_result(self, result: dict[str, Any]) -> None:
        """Updates the last result and the metric statistics."""
        self.last_result = result
        self.last_update_time = time.time()
        self.location = Location(result.get("node_ip"), result.get("pid"))
        for name, value in flatten_dict({key: part for key, part in result.items() if key != "config"}).items():
            if isinstance(value, int | float) or hasattr(value, "__float__"):
                self._analyze(name, value)

    def _analyze(self, name: str, value: Any) -> None:
        """Updates maximum, minimum, mean and last value of a metric."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            return
        recent = self._recent.setdefault(name, deque(maxlen=max(MEANS)))
        recent.append(number)
        known = self.metric_analysis.get(name)
        if known is None:
            known = self.metric_analysis[name] = {"max": number, "min": number, "avg": number, "count": 0}
        known["count"] += 1
        known["avg"] += (number - known["avg"]) / known["count"]
        known.update(max=max(number, known["max"]), min=min(number, known["min"]), last=value)
        for length in MEANS:
            last = list(recent)[-length:]
            known[f"last-{length}-avg"] = math.fsum(last) / len(last)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """Returns the checkpoints in its directory, oldest first."""
        found = checkpoints_in(self.logdir) if self.logdir else []
        return [Checkpoint(path, self.results_at.get(number, {"training_iteration": number})) for number, path in found]

    @property
    def checkpoint(self) -> Checkpoint:
        found = self.checkpoints()
        return found[-1] if found else Checkpoint()

    def has_checkpoint(self) -> bool:
        return self.checkpoint.value is not None

    # --- names --------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self._trainable_name(include_trial_id=True)

    def __str__(self) -> str:
        return self._trainable_name(include_trial_id=True)

    def _trainable_name(self, include_trial_id: bool = False) -> str:
        """Joins trainable, environment and trial id: ``PPO_MultiAgentArena_55818_00000``."""
        if self.custom_trial_name:
            return self.custom_trial_name
        parts = [self.trainable_name]
        if "env" in self.config:
            env = self.config["env"]
            parts.append(env.__name__ if isinstance(env, type) else str(env))
        if include_trial_id:
            parts.append(self.trial_id)
        return "_".join(parts).replace("/", "_")

    def _generate_dirname(self) -> str:
        """Returns the name of its directory."""
        if self.custom_dirname:
            return self.custom_dirname.replace("/", "_")
        longest = int(os.environ.get("TUNE_MAX_LEN_IDENTIFIER", LONGEST_NAME))
        named = f"{self}_{self.experiment_tag}"[:longest]
        return f"{named}_{datetime.now().strftime(DATE)}".replace("/", "_")

    @property
    def error_text(self) -> str:
        """Returns the last error; empty without one."""
        return self.error_msg or ""


def experiment_tag(number: int, params: Mapping[str, Any]) -> str:
    """Returns a trial's number with the values chosen for it: ``1_lr=0.5,model_fcnet_hiddens=64``."""
    parts = []
    for path in sorted(params):
        keys = path.split("/")
        if keys[0] not in ("run", "env", "resources_per_trial"):
            # as in Tune: the last name, and indices of lists around it
            named = next((place for place in range(len(keys) - 1, -1, -1) if not keys[place].isdigit()), 0)
            shown = [key for place, key in enumerate(keys) if place == named or key.isdigit()]
            parts.append(f"{_clean('_'.join(shown))}={_clean(params[path])}")
    return f"{number}_{','.join(parts)}" if parts else str(number)


def format_vars(resolved_vars: Mapping[Any, Any]) -> str:
    """Formats the values of a trial for its name."""
    paths = {
        "/".join(map(str, path)) if isinstance(path, tuple) else path: part for path, part in resolved_vars.items()
    }
    return experiment_tag(0, paths).partition("_")[2]


def _clean(value: Any) -> str:
    """Returns a value in a form for file names."""
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text)
