"""Trains the broken runs of `broken/` and their plain twins: ``python tests/doctor/broken_runs.py [NAME ...]``.

A script of `broken/` has one fault, in an environment or a setting, a twin without it, and the rules whose finding
counts as the answer, which were fixed before any rule was written. `train` makes one; rules and `rookery doctor` get
its rows, settings and directory.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rookery import Trainer
from rookery.core.errors import EnvError
from rookery.report.metrics_file import read_rows
from rookery.run.settings import RunConfig
from rookery.signals import reward_unit

FOLDER = Path(__file__).parent / "broken"
if str(FOLDER) not in sys.path:
    sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def evaluated(trainer):
    """The mean return of 20 episodes without exploration."""
    return trainer.evaluate(20).return_mean


def trained(trainer):
    """The mean return of the last episodes of the training."""
    return math.fsum(trainer._windows.totals) / max(1, len(trainer._windows.totals))


def earned(trainer):
    """The same as `evaluated` in an environment of one agent whose own reward is wrong: it adds the correct one to each
    info as ``earned``.
    """
    env = trainer.config.env.name(**trainer.config.env.config)
    total = 0.0
    for episode in range(20):
        obs, _ = env.reset(seed=episode)
        for _ in range(500):
            obs, _, terminated, truncated, info = env.step(trainer.policies["main"].predict(obs))
            total += info["earned"]
            if terminated or truncated or info.get("fell"):
                break
    return total / 20


@dataclass(frozen=True)
class BrokenRun:
    """A training with a fault.

    Attributes:
        fault: The fault, in one sentence.
        counted: Rules whose finding counts as the answer.
        env_steps: Budget of the run and of its twin.
        goal: Score that the twin reaches and the broken run misses.
        broken: Arguments of `Trainer` with the fault.
        twin: Arguments of `Trainer` without the fault.
        score: Score of a trained run.
        settings: Settings of both.
        repaired: Whether `signals/reward_unit.py` would repair the fault; it is off for both.
        raises: Whether the broken run ends with an error of its environment.
    """

    fault: str
    counted: tuple[str, ...]
    env_steps: int
    goal: float
    broken: Mapping[str, Any]
    twin: Mapping[str, Any]
    score: Callable[[Trainer], float] = evaluated
    settings: Mapping[str, Any] = field(default_factory=dict)
    repaired: bool = False
    raises: bool = False


class Trained(NamedTuple):
    """A trained run.

    Attributes:
        rows: Rows of `metrics.jsonl`.
        settings: Settings of the run.
        folder: Directory of the run, with a checkpoint.
        score: Score; -inf if it was ended by an error.
    """

    rows: list[dict[str, Any]]
    settings: RunConfig
    folder: Path
    score: float


def broken_run(name):
    """Returns the description of a broken run."""
    return import_module(name).RUN


def train(name, folder, *, twin=False):
    """Trains a broken run or its twin.

    Args:
        name: Name of a script in `broken/`, without a suffix.
        folder: Directory of the run, which is made.
        twin: Whether to train the twin.
    """
    run = broken_run(name)
    given = dict(run.twin if twin else run.broken)
    settings = {**run.settings, "stop.env_steps": run.env_steps, "sampling.env_processes": 0, **given.pop("config", {})}
    with without_unit(run.repaired), Trainer(seed=0, run_dir=folder, config=settings, **given) as trainer:
        try:
            trainer.train()
            score = run.score(trainer)
        except EnvError:
            if twin or not run.raises:
                raise
            score = -math.inf
        return Trained(read_rows(Path(folder)), trainer.config, Path(folder), score)


@contextmanager
def without_unit(off):
    """Context in which rewards are learned as they are, if `off`."""
    before = reward_unit.LARGE, reward_unit.SMALL
    if off:
        reward_unit.LARGE, reward_unit.SMALL = math.inf, 0.0
    try:
        yield
    finally:
        reward_unit.LARGE, reward_unit.SMALL = before


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        run = import_module("broken_runs") and broken_run(name)
        scores, seconds = [], []
        for twin in (False, True):
            began = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                scores.append(sys.modules["broken_runs"].train(name, Path(folder, name), twin=twin).score)
            seconds.append(time.process_time() - began)
        verdict = "misses" if scores[0] < run.goal <= scores[1] else "DOES NOT MISS"
        taken = ", ".join(f"{each:.1f} s" for each in seconds)
        print(f"{name}: {verdict} {run.goal:g}: broken {scores[0]:.4g}, twin {scores[1]:.4g}; {taken}", flush=True)
