"""Gradient steps on replay between two `sample` calls, in parts between which a run can stop."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from rookery.algorithms.algorithm import Row
from rookery.core.batch import Rollout
from rookery.run.pace import CHUNK
from rookery.run.run import Progress, Round, Run

LOOK_SECONDS = 0.25
"""Maximum seconds between two checks for a stop, unless a single gradient step takes longer."""


def update_in_parts(run: Run, this: Round, name: str, rollout: Rollout) -> Row:
    """Makes one update of a policy that learns from replay, or the rest of an interrupted one.

    Args:
        run: The run.
        this: The round.
        name: The policy; its algorithm learns from replay, and makes its updates in parts.
        rollout: Its rollout, on its device.

    Raises:
        Interrupted: If the run is to stop; the round holds the number of gradient steps that are left.
    """
    learner = run.learners[name]
    if this.left is None:
        this.left = learner.take(learner.before_targets(rollout, this.rollouts))
    make_steps(run, this, name)
    return learner.end_step()


def learn_from_replay(run: Run, this: Round, progress: Progress) -> None:
    """Makes the gradient steps of a round in which policies learn from replay only.

    Raises:
        Interrupted: If the run is to stop; the round contains the remaining steps.
    """
    for name in this.each(run._check_stop):
        learner, replay = run.learners[name], run.replays[name]
        with run.timers["learn"], run._threads_of(name):
            if this.left is None:
                this.left = replay.due(
                    replay.cfg.train_every if this.env_steps is None else this.env_steps / run._ranks.size
                )
            make_steps(run, this, name)
            learner.explore()
        progress.learned.setdefault(name, [])


def make_steps(run: Run, this: Round, name: str) -> None:
    """Makes the gradient steps that a policy has left in a round."""

    def make(number: int) -> None:
        run.learners[name].learn(number)
        this.left = (this.left or 0) - number

    if this.left:
        make_in_parts(run, this.left, make)


def make_in_parts(run: Run, number: int, make: Callable[[int], None]) -> None:
    """Makes gradient steps, and checks between them whether the run is to stop.

    Args:
        run: The run.
        number: Gradient steps, at least 1.
        make: Makes some of them.

    Raises:
        Interrupted: If the run is to stop.
    """
    part = 1
    while True:
        began = perf_counter()
        make(part)
        number -= part
        if not number:
            return
        run._check_stop()
        took = perf_counter() - began
        if run._ranks.size > 1:  # all ranks check after the same steps
            took = max(each for (each,) in run._ranks.numbers(took))
        part = max(1, min(int(part * LOOK_SECONDS / max(took, 1e-9)), CHUNK, number))
