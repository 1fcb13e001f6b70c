"""A run in a process of its own, to be killed: ``python killable.py FOLDER ITERATIONS``; begun, or gone on with.

Environment variables make it fail in ways of their own:

    CRASH_AT=n      it kills itself before the n-th file operation of the module that writes checkpoints
    SLEEP_AT=n:s    the environment's step after n vector steps takes s seconds more
    REPLAY=1        it learns from a prioritized replay memory
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from rookery import DQNConfig, Linear, PPOConfig, Trainer
from rookery.core.io import files, leftovers, open_files
from rookery.core.process.interrupt import Interrupted

OPERATIONS = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "link")

MEMORY = {"kind": "gru", "size": 16, "sequence_length": 8, "previous_action": True}
TINY = PPOConfig(
    fragment_length=16,
    epochs=2,
    minibatch_size=32,
    scale_rewards=True,
    model={"normalize_obs": True, "memory": MEMORY},
)
REPLAYING = DQNConfig(
    batch_size=16,
    learning_starts=80,
    n_step=3,
    target={"every": 20},
    exploration={"epsilon": Linear(1.0, 0.1, steps=1500)},
    replay={"kind": "prioritized", "capacity": 700, "beta": Linear(0.4, 1.0, steps=2000)},
    model={"hidden": (16,), "normalize_obs": True},
)
"""Whose memory goes round several times in so many iterations as these tests have."""


def make(folder, **arguments):
    """The run that all of these tests kill: one more checkpoint after each iteration."""
    settings = {"seed": 3, "num_envs": 4, "checkpoint_every": 1, "evaluation_every": 5, "evaluation_episodes": 1}
    if "REPLAY" in os.environ:
        settings["iteration_steps"] = 64
    algorithm = REPLAYING if "REPLAY" in os.environ else TINY
    return Trainer("CartPole-v1", algorithm, run_dir=folder, **{**settings, **arguments})


def amount(short, long):
    """Returns a number of repeats: `short` in ``make test``, a third of `long` in ``make test-all``, and `long` in
    ``make test-faults``: where ROOKERY_FAULTS is not set, 10 and 30."""
    return max(short, round(long * int(os.environ.get("ROOKERY_FAULTS", "0")) / 30))


class Deadly:
    """Stands in for the module `os`, and kills the process before one of its file operations."""

    def __init__(self, at):
        self.left = at

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def operation(*arguments):
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return operation


def sleep_in(trainer, at, seconds):
    """Makes a step of the environment take long."""
    step = trainer.env.step

    def slow(actions):
        if trainer._pool.worker.vector_steps == at:
            print("asleep", flush=True)
            time.sleep(seconds)
            print("awake", flush=True)
        return step(actions)

    trainer.env.step = slow


def main(folder, iterations):
    folder = Path(folder)
    if "CRASH_AT" in os.environ:
        files.os = leftovers.os = open_files.os = Deadly(int(os.environ["CRASH_AT"]))
    used = (folder / "checkpoints").is_dir() and files.list_checkpoints(folder / "checkpoints")
    with Trainer.load(folder, resume=True) if used else make(folder, force=True) as trainer:
        if "SLEEP_AT" in os.environ:
            sleep_in(trainer, *map(int, os.environ["SLEEP_AT"].split(":")))
        print("running", flush=True)
        try:
            trainer.train({"iterations": int(iterations)})
        except Interrupted as stopped:
            print(f"interrupted {trainer.iteration} {trainer._pool.worker.vector_steps}", flush=True)
            sys.exit(128 + stopped.signal)
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
