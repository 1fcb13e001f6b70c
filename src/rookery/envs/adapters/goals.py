"""Environments with goals: rewards and ends for any goal, by the interface of Gymnasium-Robotics.

Such an environment observes a Dict with ``achieved_goal`` and ``desired_goal``, and has ``compute_reward(achieved_goal,
desired_goal, info)``, which takes arrays ``[N, ...]`` of goals and returns N rewards. ``compute_terminated``, with the
same arguments, is optional.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described
from rookery.core.spaces.arrays import ObsSpec
from rookery.core.spaces.goals import ACHIEVED, DESIRED, goal_leaves
from rookery.envs.base import VectorEnv
from rookery.envs.random_play import random_play
from rookery.envs.vector.serial import SerialEnv

REWARD, TERMINATED = "compute_reward", "compute_terminated"
"""Names of the environment's functions."""

TRIAL = 20
"""Number of random decisions whose rewards are compared with those of the environment's function."""


class GoalFunctions:
    """Functions of an environment that judge goals.

    Args:
        env: Vectorized environments of one lane, which are used for this only.
        obs: Layout of the observations of the agents with goals.

    Raises:
        EnvError: If it lacks goals or ``compute_reward``.
    """

    def __init__(self, env: VectorEnv, obs: ObsSpec) -> None:
        leaves = goal_leaves(obs)
        if leaves is None or not isinstance(obs.space, spaces.Dict):
            raise EnvError(
                f"{env.name} observes {obs.space}, and not a Dict with {ACHIEVED!r} and {DESIRED!r} of the same shape"
            )
        self.env = env
        self.obs = obs
        self._goals = ObsSpec(spaces.Dict({path: obs.space[path] for path in (ACHIEVED, DESIRED)}), leaves)
        self._reward = _method(env, REWARD)
        self._terminated = _method(env, TERMINATED)
        self._info: list[dict[str, Any]] = []
        if self._reward is None:
            raise EnvError(f"{env.name} has no function {REWARD}({ACHIEVED}, {DESIRED}, info)")

    def reward(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Returns the rewards ``[N]``, float64, of decisions that achieved goals ``[N, ...]``, for desired goals ``[N,
        ...]``; goals are as stored.

        Raises:
            EnvError: If the function raises, or does not return a finite number for each.
        """
        assert self._reward is not None
        found = self._call(self._reward, REWARD, *self._shown(achieved, desired), self._infos(len(achieved)))
        if found.shape != (len(achieved),) or not np.isfinite(found).all():
            given = f"shape {found.shape}" if found.shape != (len(achieved),) else "numbers that are not finite"
            raise EnvError(
                f"{self.env.name}: {REWARD} returns {given} for {len(achieved):,} goals; it must take arrays [N, ...] "
                "of goals, as with numpy.linalg.norm(..., axis=-1), and return N finite rewards"
            )
        return found.astype(np.float64, copy=False)

    def terminated(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray | None:
        """Returns whether episodes terminate with such decisions, bool ``[N]``; None if the environment has no function
        for it. A function that takes single goals only is called for each.

        Raises:
            EnvError: If the function raises.
        """
        function, shown = self._terminated, self._shown(achieved, desired)
        if function is None:
            return None
        found = self._call(function, TERMINATED, *shown, self._infos(len(achieved)))
        if found.shape != (len(achieved),):
            each = [self._call(function, TERMINATED, *pair, {}) for pair in zip(*shown, strict=True)]
            found = np.array([bool(one) for one in each], bool)
        return found.astype(bool, copy=False)

    def _shown(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[Any, Any]:
        """Returns stored goals in the environment's own form."""
        shown = self._goals.to_env({ACHIEVED: achieved, DESIRED: desired})
        return shown[ACHIEVED], shown[DESIRED]

    def _infos(self, number: int) -> list[dict[str, Any]]:
        """Returns as many empty infos."""
        if len(self._info) < number:
            self._info = [{} for _ in range(number)]
        return self._info[:number]

    def _call(self, function: Callable[..., Any], name: str, *arguments: Any) -> np.ndarray:
        """Returns the result of a function of the environment as an array."""
        try:
            return np.asarray(function(*arguments))
        except Exception as error:  # any error of the user's function
            raise EnvError(
                f"{self.env.name}: {name} raises {described(error)}; it is given N goals each, [N, ...], and a list of "
                "N empty infos"
            ) from error

    def check(self) -> str:
        """Compares the rewards and ends of a few random decisions with those of the functions; returns the first
        difference as text, or an empty string. Environments of several agents are not compared.
        """
        env = self.env
        if [len(kind.agents) for kind in env.kinds] != [1]:
            return ""
        played = random_play(env, lambda lane, episode: episode, np.random.default_rng(0))
        achieved, desired, paid = [], [], []
        before = next(played).rows[0].obs[DESIRED][0].copy()
        for step in islice(played, TRIAL):
            rows = step.rows[0]
            if not rows.terminated[0]:
                seen = rows.final_obs if rows.truncated[0] else rows.obs
                achieved.append(seen[ACHIEVED][0].copy())
                desired.append(before)
                paid.append(float(rows.reward[0]))
            before = rows.obs[DESIRED][0].copy()
        if not achieved:
            return ""
        goals = np.array(achieved), np.array(desired)
        computed, ends = self.reward(*goals), self.terminated(*goals)
        wrong = np.flatnonzero(np.abs(computed - paid) > 1e-4 * np.maximum(np.abs(paid), 1.0))
        if len(wrong):
            at = int(wrong[0])
            return f"{REWARD} returns {computed[at]:g} for a decision of reward {paid[at]:g}"
        if ends is not None and ends.any():
            return f"{TERMINATED} returns True for a decision that did not terminate its episode"
        return ""


def _method(env: VectorEnv, name: str) -> Callable[..., Any] | None:
    """Returns a function of an environment, or of its outermost wrapper that has it; None if there is none."""
    single: Any = env.first if isinstance(env, SerialEnv) else env
    try:
        found = single.get_wrapper_attr(name) if hasattr(single, "get_wrapper_attr") else getattr(single, name, None)
    except AttributeError:
        return None
    return found if callable(found) else None
