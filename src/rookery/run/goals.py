"""Goals in a run: connects replay with other goals (`replay/hindsight/`) to the environment that judges them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from rookery.algorithms.algorithm import Algorithm
from rookery.algorithms.capabilities import algorithms_with, one_of
from rookery.core.errors import ConfigError, EnvError
from rookery.core.process.torch_modes import call_in_user_modes
from rookery.core.spaces.goals import ACHIEVED, DESIRED
from rookery.envs.adapters.goals import REWARD, GoalFunctions
from rookery.envs.base import VectorEnv, has_throwaways
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.envs.vector.closing import close_env
from rookery.replay.buffer import ReplayConfig
from rookery.replay.hindsight.relabeling import Hindsight
from rookery.replay.mixture import Mixture

NEEDED = f"it needs an environment with {ACHIEVED}, {DESIRED} and {REWARD}({ACHIEVED}, {DESIRED}, info)"


def replay_goals(learner: Algorithm[Any], env: VectorEnv, make_copies: Callable[[int], VectorEnv]) -> None:
    """Makes the replay of a learner draw decisions with other goals, if its settings demand it.

    Rewards are computed by an environment in this process, which is made for that: those of the run may be in other
    processes.

    Args:
        learner: The learner.
        env: The environments of the run.
        make_copies: Makes a number of further environments.

    Raises:
        ConfigError: If the learner or the environment does not support it.
        EnvError: If the environment cannot be made.
    """
    replay: Any = getattr(learner.cfg, "replay", None)
    if not isinstance(replay, ReplayConfig) or replay.hindsight.strategy is None:
        return
    where = f"policies.{learner.name}.replay.hindsight.strategy = {replay.hindsight.strategy}"
    if why := obstacle(learner):
        raise ConfigError(f"{where}: {why}, or leave it at null")
    is_placeholder = isinstance(env, PlaceholderEnv)
    if not is_placeholder and not has_throwaways(env):
        raise ConfigError(
            f"{where}: no further environment of {env.name} can be made to compute rewards: leave it at null"
        )

    def make_goals() -> GoalFunctions:
        judge = make_copies(1)
        try:
            goals = GoalFunctions(judge, learner.policy.obs_spec)
            wrong = call_in_user_modes(goals.check)
        except EnvError as error:
            close_env(judge, judge.name)
            raise ConfigError(f"{where}: {error}; {NEEDED}, or null") from error
        if wrong:
            close_env(judge, judge.name)
            raise ConfigError(
                f"{where}: {judge.name}: {wrong}: rewards of other goals would not be those of the environment; a "
                f"wrapper that changes rewards, goals or ends has to define these functions too, or leave it at null"
            )
        weakref.finalize(goals, close_env, judge, judge.name)
        return goals

    goals = cache(make_goals)  # the same for all buffers
    if not is_placeholder:
        goals()
    assert learner.replay is not None
    drawn = learner.replay.buffer
    for buffer in drawn.buffers if isinstance(drawn, Mixture) else (drawn,):
        buffer.relabeling = Hindsight(buffer, goals)


def obstacle(learner: Algorithm[Any]) -> str:
    """Returns the reason why a learner cannot learn from decisions with other goals, and advice, or an empty string."""
    known, algorithm = learner.capabilities, type(learner).__name__
    if known.offline or known.needs_team:
        others = one_of(algorithms_with(uses_replay=True, offline=False, needs_team=False))
        why = "recorded data, with the goals of these" if known.offline else "decisions of whole teams"
        return f"{algorithm} learns from {why}; use {others}"
    if learner.policy.memory_size:
        return (
            f"policy {learner.name!r} has a memory, and learns from sequences that were played for one goal; leave "
            "model.memory out"
        )
    signals = getattr(learner, "signals", None)
    if signals is not None and signals.others:
        names = ", ".join(f"signals.{name}" for name in signals.others)
        return f"{names} reward decisions as they were played; leave them out"
    return ""
