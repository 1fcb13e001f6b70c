"""The two halves of training by themselves: learning without playing, and playing without learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from rookery.core.errors import ConfigError, nearest
from rookery.replay.replay import Replay
from rookery.training.compute import threads_for
from rookery.training.pace import CHUNK, ITERATION
from rookery.training.results import IterationResult, Progress

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer


def learn(trainer: Trainer, gradient_steps: int, policies: Sequence[str] | None) -> IterationResult:
    """Gradient steps on replay memories alone; see `Trainer.learn`."""
    replays = with_memory(trainer, "learn", policies)
    if gradient_steps < 1:
        raise ConfigError(f"learn: gradient_steps = {gradient_steps}: must be at least 1")
    for name, replay in replays.items():
        replay.check_not_empty()
        trainer.learners[name].horizon = trainer.horizon
    left = gradient_steps
    with trainer.session({"gradient_steps": max(one.gradient_steps for one in replays.values()) + left}):
        while left:
            began, progress = perf_counter(), trainer.begin_iteration()
            made = _iteration_of_learning(trainer, list(replays), min(ITERATION, left), progress)
            left -= made
            trainer.seconds += perf_counter() - began
            reason = "" if left else f"{gradient_steps:,} gradient steps are made"
            result = replace(trainer.end_iteration(progress), stop_reason=reason)
            trainer.report(result)
            trainer.interrupt.check()
    return result


def _iteration_of_learning(trainer: Trainer, policies: list[str], gradient_steps: int, progress: Progress) -> int:
    """Gradient steps of each learner, in turn; returns how many were made before somebody asked to stop."""
    learners, made = {name: trainer.learners[name] for name in policies}, 0
    with trainer.timers["train_iteration"]:
        while made < gradient_steps and trainer.interrupt.number is None:
            number = min(CHUNK, gradient_steps - made)
            for name, learner in learners.items():
                with trainer.timers["learn"], threads_for(learner, trainer.threads[name]):
                    learner.learn(number)
                progress.learned.setdefault(name, [])
            made += number
        for learner in learners.values():
            learner.explore()
        trainer.hand_out(learners)
    return made


def learn_for(trainer: Trainer, env_steps: int | None, progress: Progress) -> None:
    """Learns from memories in an iteration, where nobody plays for now.

    Args:
        trainer: Whose iteration.
        env_steps: As much as belongs to so many env steps, which the iteration counts as passed; None = one round.
        progress: The iteration.
    """
    replays = trainer.replays
    for name, replay in replays.items():
        learner = trainer.learners[name]
        with trainer.timers["learn"], threads_for(learner, trainer.threads[name]):
            learner.learn(replay.due(replay.cfg.train_every if env_steps is None else env_steps))
            learner.explore()
        progress.learned.setdefault(name, [])
    progress.unplayed += env_steps or 0
    trainer.hand_out(replays)


def collect(trainer: Trainer, env_steps: int) -> IterationResult:
    """Play that is stored and not learned from; see `Trainer.collect`."""
    replays = with_memory(trainer, "collect", None)
    if env_steps < 1:
        raise ConfigError(f"collect: env_steps = {env_steps}: must be at least 1")
    for name in trainer.learners:
        if name not in replays:
            trainer.reporter.note(f"policy {name} has no replay memory: what it plays while collecting is not kept")
    until = trainer.env_steps + env_steps
    with trainer.session({"env_steps": until}):
        while trainer.env_steps < until:
            began, progress = perf_counter(), trainer.begin_iteration()
            try:
                _iteration_of_playing(trainer, replays, min(trainer.env_steps + ITERATION, until), progress)
            finally:
                trainer.seconds += perf_counter() - began
                if trainer.progress is not None:  # an iteration that was stopped has not come further by this
                    played = trainer.env_steps - progress.env_steps
                    trainer.progress.pass_over(played, trainer.pool.lane_steps - progress.lane_steps)
            reason = "" if trainer.env_steps < until else f"{env_steps:,} env steps are played"
            result = replace(trainer.end_iteration(progress), stop_reason=reason)
            trainer.report(result)
            trainer.interrupt.check()
    return result


def _iteration_of_playing(trainer: Trainer, replays: Mapping[str, Replay], until: int, progress: Progress) -> None:
    """Plays until the run has so many env steps or somebody asks to stop; what learners with a memory get is stored."""
    with trainer.timers["train_iteration"]:
        while trainer.env_steps < until and trainer.interrupt.number is None:
            with trainer.timers["sample"]:
                rollouts = trainer.pool.sample(until - trainer.env_steps)
            for name, replay in replays.items():
                if name not in rollouts:
                    continue
                learner = trainer.learners[name]
                rollout = trainer.staging.send_rollout(rollouts[name])
                learner.env_steps, learner.horizon = trainer.env_steps, trainer.horizon
                replay.store(rollout)
                learner.explore()
                trainer.take_note(name, rollout)
                progress.note(name, {}, rollout)
            trainer.hand_out(rollouts)


def with_memory(trainer: Trainer, task: str, policies: Sequence[str] | None) -> dict[str, Replay]:
    """The experience that learners keep, by policy.

    Args:
        trainer: Whose.
        task: What they are asked for, in a word, for messages.
        policies: Which of them; None = all.

    Raises:
        ConfigError: If there is none, or a policy that is named has none.
    """
    replays = trainer.replays
    if not replays:
        told = ", ".join(f"{name} by {type(one).__name__}" for name, one in trainer.learners.items()) or "none"
        raise ConfigError(
            f"{task}: no policy of this run has a replay memory (learning: {told}); choose an algorithm that learns "
            "from one: dqn, sac, td3 or ddpg"
        )
    if policies is None:
        return replays
    names = [policies] if isinstance(policies, str) else list(policies)
    for name in names:
        if name not in replays:
            why = "has no replay memory" if name in trainer.policies else "does not exist"
            raise ConfigError(
                f"{task}: policy {name!r} {why}; there are {', '.join(replays)}{nearest(name, list(replays))}"
            )
    return {name: replays[name] for name in names}


def check_can_pause(trainer: Trainer) -> None:
    """Refuses to stop playing where nothing could be learned then.

    Raises:
        ConfigError: If no policy has a memory, or none has enough in it for learning to begin.
    """
    replays = with_memory(trainer, "pause_sampling", None)
    if all(replay.is_warming_up for replay in replays.values()):
        told = ", ".join(
            f"{name} {replay.buffer.total:,} of {replay.cfg.learning_starts:,}" for name, replay in replays.items()
        )
        raise ConfigError(
            f"pause_sampling: no memory holds enough for learning to begin (decisions: {told}, learning_starts); "
            "play first (trainer.collect)"
        )
