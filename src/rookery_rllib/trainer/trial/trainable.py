"""Trainable, the base of trainers for Tune, with the methods, result keys and directories of 2021.

    class Counter(Trainable):
        def setup(self, config): self.count = config["start"]
        def step(self): self.count += 1; return {"count": self.count}
        def save_checkpoint(self, folder): return {"count": self.count}
        def load_checkpoint(self, checkpoint): self.count = checkpoint["count"]

`FunctionTrainable` is a function of a configuration that reports; `wrap_function` makes a class of it.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import inspect
import json
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from numbers import Number
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from rookery.face import ConfigError
from rookery_rllib.base.machine import node_ip
from rookery_rllib.trainer.trial import session
from rookery_rllib.trainer.trial.checkpoints import (
    checkpoint_directory,
    finish_checkpoint,
    located,
    make_checkpoint_dir,
    read_metadata,
    unpacked_object,
)
from rookery_rllib.trainer.trial.loggers import Logger, UnifiedLogger
from rookery_rllib.trainer.trial.result_keys import (
    DATE,
    DEFAULT_METRIC,
    DONE,
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    RESULT_DUPLICATE,
    SHOULD_CHECKPOINT,
    STDERR_FILE,
    STDOUT_FILE,
    TIME_THIS_ITER_S,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_INFO,
    new_directory,
)
from rookery_rllib.trainer.trial.tune_errors import TuneError

VERSION = "1.4.0"
"""The emulated version of Ray."""

LEAVE_SECONDS = 10.0
"""Time limit of a stopped function for its cleanup, in seconds."""

RENAMED = {"_setup": "setup", "_train": "step", "_save": "save_checkpoint", "_restore": "load_checkpoint",
           "_stop": "cleanup", "_log_result": "log_result", "_export_model": None}  # fmt: skip
"""Names of methods before 2020, and since."""


class Trainable:
    reaches_when_made = "a folder of results"
    """Reason why untrusted files may not name it (`core/settings/trust.py`)."""

    def __init__(
        self, config: dict[str, Any] | None = None, logger_creator: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        self._experiment_id = uuid.uuid4().hex
        self.config: Any = {} if config is None else config
        self._trial_info = self.config.pop(TRIAL_INFO, None)
        log_files = self.config.pop(STDOUT_FILE, None), self.config.pop(STDERR_FILE, None)
        self._logdir = ""
        self._result_logger: Any = Logger({}, "")
        self._create_logger(self.config, logger_creator)
        self._log_files: contextlib.ExitStack | None = None
        self._open_logfiles(*log_files)
        self._local_ip = node_ip()
        self._begin_counts()
        self.setup(copy.deepcopy(self.config))

    def _begin_counts(self) -> None:
        self._iteration = 0
        self._time_total = 0.0
        self._timesteps_total: int | None = None
        self._episodes_total: int | None = None
        self._restored = False
        self._begin_counts_since_restore()

    def _begin_counts_since_restore(self) -> None:
        self._time_since_restore = 0.0
        self._timesteps_since_restore = 0
        self._iterations_since_restore = 0

    # --- for subclasses -----------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        self._refuse_old_name("_setup")

    def step(self) -> dict[str, Any]:
        self._refuse_old_name("_train")
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def save_checkpoint(self, tmp_checkpoint_dir: str) -> Any:
        """Writes the state. Subclasses implement it to support checkpoints.

        Returns:
            The path written, inside of the directory; or a dict of numbers, texts, arrays and tensors.
        """
        self._refuse_old_name("_save")
        raise NotImplementedError(f"{type(self).__name__} has no save_checkpoint(): it cannot be saved")

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._refuse_old_name("_restore")
        raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint(): it cannot be restored")

    def cleanup(self) -> None:
        self._refuse_old_name("_stop")

    def log_result(self, result: dict[str, Any]) -> None:
        self._refuse_old_name("_log_result")
        self._result_logger.on_result(result)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return False

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return {}

    def _refuse_old_name(self, old: str) -> None:
        """Refuses a subclass with a method under its name of before 2020, which would not be called."""
        if hasattr(type(self), old):
            name = type(self).__name__
            raise ConfigError(f"{name}.{old} is not called since Ray 0.8.7; rename it to {name}.{RENAMED[old]}")

    @classmethod
    def cores_beside(cls, config: Mapping[str, Any]) -> float:
        """Returns the cores of a trial's workers on a cluster."""
        return 0.0

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        return ""

    # --- an iteration -------------------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        began = time.time()
        stepped = self.step()
        if not isinstance(stepped, dict):
            raise ConfigError(f"{type(self).__name__}.step returned {type(stepped).__name__}: must return a dict")
        if RESULT_DUPLICATE in stepped:
            return stepped
        result = dict(stepped)
        self._count(result, began)
        now = datetime.now()
        result.update(
            experiment_id=self._experiment_id,
            date=now.strftime(DATE),
            timestamp=int(now.timestamp()),
            pid=os.getpid(),
            hostname=platform.node(),
            node_ip=self._local_ip,
            config=self.config,
        )
        self.log_result(result)
        return result

    def _count(self, result: dict[str, Any], began: float) -> None:
        """Updates the counters by an iteration, and adds them to its result."""
        given = result.get(TIME_THIS_ITER_S)
        seconds = time.time() - began if given is None else given
        timesteps, episodes = result.get(TIMESTEPS_THIS_ITER), result.get(EPISODES_THIS_ITER)
        self._iteration += 1
        self._iterations_since_restore += 1
        self._time_total += seconds
        self._time_since_restore += seconds
        if timesteps is not None:
            self._timesteps_total = (self._timesteps_total or 0) + timesteps
            self._timesteps_since_restore += timesteps
        if episodes is not None:
            self._episodes_total = (self._episodes_total or 0) + episodes
        result.setdefault(DONE, False)
        result.setdefault(TIMESTEPS_TOTAL, self._timesteps_total)
        result.setdefault(EPISODES_TOTAL, self._episodes_total)
        result.setdefault(TRAINING_ITERATION, self._iteration)
        if result.get("mean_loss"):
            result.setdefault("neg_mean_loss", -result["mean_loss"])
        result.update(
            time_this_iter_s=seconds,
            time_total_s=self._time_total,
            time_since_restore=self._time_since_restore,
            timesteps_since_restore=self._timesteps_since_restore,
            iterations_since_restore=self._iterations_since_restore,
        )

    def train_buffered(self, buffer_time_s: float, max_buffer_length: int = 1000) -> list[dict[str, Any]]:
        until = time.time() + buffer_time_s
        results = [self.train()]
        while time.time() < until and len(results) < max_buffer_length:
            last = results[-1]
            if last.get(DONE) or last.get(SHOULD_CHECKPOINT) or RESULT_DUPLICATE in last:
                break
            results.append(self.train())
        return results

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Returns the counters for a checkpoint's metadata."""
        return {
            "experiment_id": self._experiment_id,
            "iteration": self._iteration,
            "timesteps_total": self._timesteps_total,
            "time_total": self._time_total,
            "episodes_total": self._episodes_total,
            "ray_version": VERSION,
        }

    def save(self, checkpoint_dir: str | None = None) -> str:
        folder = make_checkpoint_dir(checkpoint_dir or self.logdir, self.iteration)
        return finish_checkpoint(self.save_checkpoint(folder), folder, self.get_state())

    def restore(self, checkpoint_path: str) -> None:
        """Raises a FileError if there is no checkpoint, or it was written by Ray itself."""
        path = located(checkpoint_path)
        facts = read_metadata(path)
        if facts["saved_as_dict"]:
            loaded = unpacked_object(Path(path).read_bytes())
            loaded["tune_checkpoint_path"] = path
            self.load_checkpoint(loaded)
        else:
            self.load_checkpoint(path)
        self._experiment_id = facts["experiment_id"]
        self._iteration = facts["iteration"]
        self._timesteps_total = facts["timesteps_total"]
        self._time_total = facts["time_total"]
        self._episodes_total = facts["episodes_total"]
        self._begin_counts_since_restore()
        self._restored = True

    def save_to_object(self) -> bytes:
        """Writes a checkpoint into bytes: all its files, as JSON."""
        with tempfile.TemporaryDirectory(prefix="save_to_object", dir=self.logdir) as folder:
            return packed_directory(self.save(folder))

    def restore_from_object(self, obj: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="restore_from_object", dir=self.logdir) as folder:
            self.restore(unpacked_directory(obj, folder))

    def delete_checkpoint(self, checkpoint_path: str) -> None:
        if os.path.exists(checkpoint_path):
            shutil.rmtree(checkpoint_directory(checkpoint_path))

    def export_model(self, export_formats: list[str] | str, export_dir: str | None = None) -> dict[str, str]:
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        return self._export_model(formats, export_dir or self.logdir)

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def reset(self, new_config: dict[str, Any], logger_creator: Callable[..., Any] | None = None) -> bool:
        self.config = new_config
        self._trial_info = new_config.pop(TRIAL_INFO, None) or self._trial_info
        log_files = new_config.pop(STDOUT_FILE, None), new_config.pop(STDERR_FILE, None)
        self._result_logger.flush()
        if logger_creator:
            self._result_logger.close()
            self._create_logger(dict(new_config), logger_creator)
        self._close_logfiles()
        self._open_logfiles(*log_files)
        if not self.reset_config(new_config):
            return False
        self._begin_counts()
        return True

    def stop(self) -> None:
        try:
            self._result_logger.flush()
            self._result_logger.close()
            self.cleanup()
        finally:
            self._close_logfiles()

    def _create_logger(self, config: dict[str, Any], logger_creator: Callable[..., Any] | None = None) -> None:
        if logger_creator is not None:
            self._result_logger = logger_creator(config)
            self._logdir = str(self._result_logger.logdir)
        else:
            self._logdir = new_directory(self._directory_prefix(config))
            self._result_logger = UnifiedLogger(config, self._logdir)

    def _directory_prefix(self, config: dict[str, Any]) -> str:
        """Returns the prefix of new directories of results; subclasses may override it."""
        return ""

    def _open_logfiles(self, stdout_file: str | None, stderr_file: str | None) -> None:
        """Copies printed output to files of `logdir`."""
        if not (stdout_file or stderr_file):
            return
        self._log_files = contextlib.ExitStack()
        for name, redirect, stream in (
            (stdout_file, contextlib.redirect_stdout, sys.stdout),
            (stderr_file, contextlib.redirect_stderr, sys.stderr),
        ):
            if name:
                place = os.path.expanduser(os.path.join(self._logdir, name))
                file = self._log_files.enter_context(open(place, "a", encoding="utf-8", buffering=1))  # noqa: SIM115
                self._log_files.enter_context(redirect(Tee(stream, file)))

    def _close_logfiles(self) -> None:
        if self._log_files is not None:
            self._log_files.close()
            self._log_files = None

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def logdir(self) -> str:
        """The directory of results and checkpoints, with a trailing slash."""
        return os.path.join(self._logdir, "")

    @property
    def trial_name(self) -> str:
        return str(self._trial_info.trial_name) if self._trial_info else "default"

    @property
    def trial_id(self) -> str:
        return str(self._trial_info.trial_id) if self._trial_info else "default"

    @property
    def trial_resources(self) -> Any:
        return getattr(self._trial_info, "trial_resources", None)

    @property
    def iteration(self) -> int:
        return self._iteration

    @property
    def training_iteration(self) -> int:
        return self._iteration

    def get_config(self) -> Any:
        return self.config

    def get_current_ip(self) -> str:
        self._local_ip = node_ip()
        return self._local_ip

    def _implements_method(self, key: str) -> bool:
        return callable(getattr(self, key, None))


class Tee:
    def __init__(self, first: TextIO, second: TextIO) -> None:
        self.stream1, self.stream2 = first, second

    def write(self, text: str) -> int:
        self.stream1.write(text)
        return self.stream2.write(text)

    def flush(self) -> None:
        self.stream1.flush()
        self.stream2.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream1, name)


def packed_directory(path: str) -> bytes:
    """Returns all files of a checkpoint as JSON."""
    root = Path(checkpoint_directory(path))
    name = os.path.relpath(path, root) + (os.sep if path.endswith(os.sep) else "")
    files = {
        found.relative_to(root).as_posix(): base64.b64encode(found.read_bytes()).decode()
        for found in sorted(root.rglob("*"))
        if found.is_file()
    }
    return json.dumps({"checkpoint_name": name, "data": files}).encode()


def unpacked_directory(content: bytes, folder: str) -> str:
    """Writes the files of `packed_directory` into a directory; returns the path to restore.

    Raises:
        ConfigError: If the bytes are of something else, or name a file outside of the directory.
    """
    try:
        facts = json.loads(content)
        name, files = facts["checkpoint_name"], facts["data"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError("restore_from_object: takes what save_to_object returned here, and nothing else") from None
    for inside, text in files.items():
        target = Path(os.path.realpath(Path(folder) / inside))
        if not target.is_relative_to(os.path.realpath(folder)):
            raise ConfigError(f"restore_from_object: names a file outside of its directory, {inside}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(text))
    return os.path.join(folder, name)


# --- functions --------------------------------------------------------------------------------------------------------


class TrialLeft(BaseException):
    """Raised in a function to end it. Its ``finally`` clauses run."""


class StatusReporter:
    """Reporter of a function trainable: ``reporter(mean_loss=0.1)``. It waits until the next iteration is requested."""

    def __init__(self, trainable: FunctionTrainable) -> None:
        self._trainable = trainable
        self._since = time.time()

    def __call__(self, _metric: Any = None, **kwargs: Any) -> None:
        """Reports an iteration; ``done=True`` ends the trial.

        Raises:
            TrialLeft: A BaseException, so that ``except Exception`` does not catch it: the trial ends.
        """
        result = dict(kwargs)
        if _metric is not None:
            result[DEFAULT_METRIC] = _metric
        now = time.time()
        result.setdefault(TIME_THIS_ITER_S, now - self._since)
        self._trainable.hand_over(result)
        self._since = time.time()

    def make_checkpoint_dir(self, step: int | str) -> str:
        return make_checkpoint_dir(self.logdir, step)

    def set_checkpoint(self, checkpoint: Any, is_new: bool = True) -> None:
        """Sets the directory to which the function has written a checkpoint."""
        self._trainable.checkpoint = checkpoint
        self._trainable.is_checkpoint_new = is_new

    @property
    def checkpoint(self) -> Any:
        """The checkpoint that was set last; None if there is none."""
        return self._trainable.checkpoint

    @property
    def iteration(self) -> int:
        return self._trainable.iteration

    @property
    def logdir(self) -> str:
        return self._trainable.logdir

    @property
    def trial_name(self) -> str:
        return self._trainable.trial_name

    @property
    def trial_id(self) -> str:
        return self._trainable.trial_id

    @property
    def trial_resources(self) -> Any:
        return self._trainable.trial_resources


class FunctionTrainable(Trainable):
    """A function trainable, run in its own thread that waits at each report."""

    _name = "func"

    def setup(self, config: dict[str, Any]) -> None:
        """Prepares the thread, which starts with the first step."""
        self.checkpoint: Any = None
        self.is_checkpoint_new = False
        self._reports: SimpleQueue[dict[str, Any] | BaseException | None] = SimpleQueue()
        self._wanted = threading.Semaphore(0)
        self._left = False
        self._last: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name=f"trial {self.trial_id}", daemon=True)
        self._reporter = StatusReporter(self)
        session.begin(self._reporter)

    def _trainable_func(self, config: Any, reporter: Any, checkpoint_dir: Any) -> Any:
        """Calls the function; implemented by `wrap_function`."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._trainable_func(self.config, self._reporter, self.checkpoint)
            self._reports.put(None)
        except (TrialLeft, StopIteration):
            self._reports.put(None)
        except BaseException as error:  # it is raised again in the waiting thread
            self._reports.put(error)

    def hand_over(self, result: dict[str, Any]) -> None:
        """Passes a result on, in the function's thread, and waits until the next one is requested."""
        if self._left:
            raise TrialLeft
        self._reports.put(result)
        self._wanted.acquire()
        if self._left:
            raise TrialLeft

    def step(self) -> dict[str, Any]:
        """Continues the function until its next report or end; raises a TuneError if it ends without any report."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._wanted.release()
        reported = self._reports.get()
        if isinstance(reported, BaseException):
            raise reported
        if reported is None:
            if not self._last:
                name = type(self)._name
                raise TuneError(
                    f"{name} has ended without a report: call tune.report(metric=...) in it, or return or "
                    "yield a number or a dict"
                )
            return {**self._last, DONE: True, RESULT_DUPLICATE: True}
        self._last = reported
        if self.is_checkpoint_new:
            reported[SHOULD_CHECKPOINT] = True
        return reported

    def save(self, checkpoint_dir: str | None = None) -> str:
        """Returns the checkpoint that the function has written last, with its counters beside it.

        Raises:
            ConfigError: If the function has written none, or a directory is asked for.
        """
        self.is_checkpoint_new = False
        if self.checkpoint is None:
            raise ConfigError(
                f"{type(self)._name} has written no checkpoint: give it the argument checkpoint_dir=None, and write in "
                "it to the directory of `with tune.checkpoint_dir(step) as folder:`"
            )
        if isinstance(self.checkpoint, Mapping):
            folder = make_checkpoint_dir(checkpoint_dir or self.logdir, self.iteration)
            return finish_checkpoint(self.checkpoint, folder, self.get_state())
        folder = checkpoint_directory(self.checkpoint)
        if checkpoint_dir is None:
            return finish_checkpoint(str(self.checkpoint), folder, self.get_state())
        copied = shutil.copytree(folder, make_checkpoint_dir(checkpoint_dir, self.iteration), dirs_exist_ok=True)
        inside = os.path.relpath(str(self.checkpoint), folder)
        return finish_checkpoint(os.path.normpath(os.path.join(copied, inside)), copied, self.get_state())

    @property
    def can_save(self) -> bool:
        """Whether the function has written a checkpoint."""
        return self.checkpoint is not None

    def restore_from_object(self, obj: bytes) -> None:
        """Resumes from the bytes of `save_to_object`; the function reads the files when it starts."""
        self._unpacked = tempfile.mkdtemp(prefix="checkpoint_tmp", dir=self.logdir)
        self.restore(unpacked_directory(obj, self._unpacked))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Passes the directory of its checkpoint to the function."""
        if isinstance(checkpoint, dict):
            checkpoint.pop("tune_checkpoint_path", None)
        self._reporter.set_checkpoint(checkpoint, is_new=False)

    def cleanup(self) -> None:
        """Ends the waiting function; raises a TuneError if it does not end."""
        self._left = True
        self._wanted.release()
        if self._thread.ident is not None:
            self._thread.join(LEAVE_SECONDS)
        session.end(self._reporter)
        if hasattr(self, "_unpacked"):
            shutil.rmtree(self._unpacked, ignore_errors=True)
        if self._thread.is_alive():
            raise TuneError(
                f"{type(self)._name} did not end within {LEAVE_SECONDS:g} s after it was stopped, and continues beside "
                "later trials; do not catch tune's exception, and keep finally clauses short"
            )


def wrap_function(train_func: Callable[..., Any], durable: bool = False, warn: bool = True) -> type[FunctionTrainable]:
    """Makes a trainable class of a function.

    Its forms are ``f(config)``, ``f(config, checkpoint_dir=None)`` and, before 2020, ``f(config, reporter)``.

    Raises a ConfigError if the function takes other arguments, or for `durable`.
    """
    if durable:
        raise ConfigError("durable=True: checkpoints are not sent to cloud storage here; leave it out")
    takes_checkpoint = _takes(train_func, {}, checkpoint_dir=None)
    takes_reporter = not takes_checkpoint and _takes(train_func, {}, None) and "reporter" in _names(train_func)
    if not (takes_checkpoint or takes_reporter or _takes(train_func, {})):
        raise ConfigError(
            f"{_title(train_func)} takes ({', '.join(_names(train_func))}): must take config, or config and "
            "checkpoint_dir=None; tune.with_parameters passes it further arguments"
        )

    def call(self: FunctionTrainable, config: Any, reporter: Any, checkpoint_dir: Any) -> Any:
        if takes_checkpoint:
            function = partial(train_func, config, checkpoint_dir=checkpoint_dir)
        else:
            function = partial(train_func, config, reporter) if takes_reporter else partial(train_func, config)
        output = function()
        if inspect.isgenerator(output):
            with contextlib.closing(output):
                for item in output:
                    _report_output(reporter, item, train_func)
            return None
        _report_output(reporter, output, train_func)
        return output

    members = {"_name": _title(train_func), "_trainable_func": call, "_function": staticmethod(train_func)}
    return type(_title(train_func), (FunctionTrainable,), {**members, "__module__": __name__})


def _report_output(reporter: Any, output: Any, function: Any) -> None:
    if output is None:
        return
    if isinstance(output, Mapping):
        reporter(**output)
    elif isinstance(output, Number):
        reporter(_metric=output)
    else:
        raise ConfigError(
            f"{_title(function)} returned {type(output).__name__}: must return or yield a number or a dict of results"
        )


def _title(function: Any) -> str:
    return str(getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", "func"))


def _names(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _takes(function: Any, *arguments: Any, **keywords: Any) -> bool:
    """Returns whether a function accepts arguments, by its signature."""
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except (TypeError, ValueError):
        return False
    return True


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """Binds further keyword arguments to a function, or to the ``setup`` of a class.

    Each trial gets the same objects, or copies if it runs in its own process.
    """
    if isinstance(trainable, type):

        def setup(self: Any, config: Any) -> None:
            trainable.setup(self, config, **kwargs)  # type: ignore[attr-defined]

        made: Any = type(trainable.__name__, (trainable,), {"setup": setup, "__module__": trainable.__module__})
        return made
    if not callable(trainable):
        raise ConfigError(f"with_parameters: takes a function or a Trainable class, not {type(trainable).__name__}")
    names = [name for name in _names(trainable) if name not in kwargs]
    if "checkpoint_dir" in names:

        def inner(config: Any, checkpoint_dir: Any = None) -> Any:
            return trainable(config, checkpoint_dir=checkpoint_dir, **kwargs)
    else:

        def inner(config: Any) -> Any:  # type: ignore[misc]
            return trainable(config, **kwargs)

    inner.__name__ = _title(trainable)
    return inner
