"""Call paths of a run: from `Trainer.train_iteration` to the update of weights, the environment step, and replay.

They are traced in a small twin of the run, which has the run's settings, one environment, short fragments and small
replay buffers. Nothing of it is kept.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

from rookery.core.optim import Adam, apply_gradients
from rookery.core.packages import is_own
from rookery.core.settings.layers import Layer, yaml_layer
from rookery.core.settings.trust import TrustCode
from rookery.core.source import Place
from rookery.envs.native.c_playing import Playing
from rookery.replay.buffer import ReplayBuffer
from rookery.run.checkpoint.path_folders import folders_in
from rookery.run.checks.trusted_code import check_settings
from rookery.run.trainer import Trainer

FRAGMENT = 8
"""Decisions of an update of the twin."""

CAPACITY = 1000
"""Capacity of its replay buffers in decisions."""

TARGETS = {
    "weights": [apply_gradients.__code__, Adam.kernel_step.__code__],
    "storing": [ReplayBuffer.add.__code__],
    "drawing": [ReplayBuffer.sample.__code__, ReplayBuffer.sample_sequences.__code__],
}
"""Functions that change weights, store in a replay buffer, and draw a batch from one."""


@dataclass(frozen=True)
class Call:
    """A function of a call path, at the line where it calls the next one.

    Attributes:
        place: File and line.
        function: Its name, with the name of its class.
        text: The source line.
    """

    place: Place
    function: str
    text: str


class _SeenEnough(BaseException):
    """Ends the run of the twin."""


def paths_to(run: Path, what: str, trust_code: TrustCode = False) -> dict[str, list[Call]]:
    """Returns, for each algorithm that reaches it, the calls from `Trainer.train_iteration` to a key of `TARGETS`."""
    targets, replaying = TARGETS[what], what != "weights"
    with twin(run, trust_code) as trainer:
        learners = [one for one in trainer.learners.values() if not replaying or one.replay is not None]
        known = {id(learner): type(learner).__name__ for learner in learners}
        wanted = set(known.values())
        found: dict[str, list[Call]] = {}

        def look(frame: FrameType, event: str, _: Any) -> None:
            if event != "call" or frame.f_code not in targets:
                return
            names = (known.get(id(f.f_locals.get("self")), "") for f, _ in walk_stack(frame))
            found.setdefault(next(filter(None, names), ""), _calls(frame))
            if wanted <= found.keys():
                raise _SeenEnough

        if wanted:
            _play(trainer, look)
        return found


def path_to_step(run: Path, trust_code: TrustCode = False) -> list[Call]:
    """Returns the calls from `Trainer.train_iteration` to the environment's own step."""
    with twin(run, trust_code) as trainer:
        methods = ("step", "step_tensors")  # the second one for environments of tensors
        targets: list[CodeType] = [
            getattr(type(trainer.env), name).__code__ for name in methods if hasattr(type(trainer.env), name)
        ]
        found: list[Call] = []

        def look(frame: FrameType, event: str, _: Any) -> None:
            if frame.f_code is Playing.play.__code__:  # many steps in one call
                found[:] = _calls(frame)
                raise _SeenEnough
            if frame.f_code in targets or (found and frame.f_code.co_name == "step"):
                if event == "return":
                    raise _SeenEnough  # the innermost one is the first to return
                if event == "call" and hasattr(frame.f_locals.get("self"), "reset"):
                    found[:] = _calls(frame)

        _play(trainer, look)
        return found


@contextmanager
def twin(run: Path, trust_code: TrustCode = False) -> Iterator[Trainer]:
    """Context with a trainer that has the settings of a run, as small as they allow.

    Raises:
        ConfigError: If the settings name code that is not trusted.
    """
    written = replace(yaml_layer(run / "config.yaml"), stored_folders=folders_in(run / "config.yaml"))
    small: dict[str, Any] = {"sampling.num_envs": 1, "sampling.warmup_steps": 0, "logging.console": "quiet"}
    policies = written.values.get("policies")
    for name, entry in policies.items() if isinstance(policies, Mapping) else ():
        small[f"policies.{name}.init_from"] = None
        if isinstance(entry, Mapping):
            small |= {f"policies.{name}.fragment_length": FRAGMENT for key in entry if key == "fragment_length"}
            small |= {
                f"policies.{name}.{key}": FRAGMENT
                for key in ("rollout_size", "batch_size", "learning_starts")
                if key in entry
            }
            if "replay" in entry:  # other replay buffers are not needed
                small |= {f"policies.{name}.replay.capacity": CAPACITY, f"policies.{name}.replay.start_from": ()}
                entry["replay"].pop("mix", None)
    twin = Layer("twin", small)
    values = check_settings(run / "config.yaml", written.values, trust_code, [twin])
    with Trainer(config=[replace(written, values=values), twin]) as trainer:
        yield trainer


def _play(trainer: Trainer, look: Callable[[FrameType, str, Any], None]) -> None:
    sys.setprofile(look)
    try:
        trainer.train_iteration()
    except _SeenEnough:
        pass
    finally:
        sys.setprofile(None)


def _calls(last: FrameType) -> list[Call]:
    """Returns the stack from `train_iteration` to a frame, without frames of third-party packages."""
    calls = []
    for frame, line in walk_stack(last):
        if frame is last or _is_shown(frame):
            file = frame.f_code.co_filename
            text = linecache.getline(file, line).strip()
            calls.append(Call(Place(Path(file), line), frame.f_code.co_qualname, text))
        if frame.f_code is Trainer.train_iteration.__code__:
            break
    return calls[::-1]


def _is_shown(frame: FrameType) -> bool:
    """Returns whether a frame belongs to Rookery or to the user's code."""
    module = str(frame.f_globals.get("__name__", ""))
    if is_own(module):
        return True
    file = frame.f_code.co_filename
    libraries = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return not file.startswith("<") and not any(Path(file).is_relative_to(library) for library in libraries)
