"""Deterministic environments with finitely many states: a table has the next state and the reward for each state and
action.

One class plays an episode at a time (`TabularTask`, a Gymnasium environment), another many at once with the same
numbers, bit for bit (`BatchedTabular`). The tasks themselves are in `deep_sea.py` and `key_door.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.adapters.batched import BatchedEnv, check_render_mode
from rookery.envs.base import Step


@dataclass(frozen=True)
class Rules:
    """Rules of an environment with S states and A actions.

    Attributes:
        next: State that an action leads to, ``[S, A]`` int64.
        reward: Reward of the action, ``[S, A]`` float64.
        ends: Whether the episode terminates with it, ``[S, A]`` bool.
        obs: Observation of a state, ``[S, ...]`` int64.
        start: State in which all episodes start.
        max_steps: Number of steps after which an episode is truncated; None = never.
    """

    next: np.ndarray
    reward: np.ndarray
    ends: np.ndarray
    obs: np.ndarray
    start: int
    max_steps: int | None

    def returns(self, policy: np.ndarray, steps: int) -> float:
        """Returns the mean undiscounted return of a policy in episodes of at most `steps` steps.

        Args:
            policy: Probability of each action in each state, ``[S, A]``.
            steps: Number of steps, at most.
        """
        at: np.ndarray = np.zeros(len(self.next))
        at[self.start] = 1.0
        total = 0.0
        for _ in range(steps):
            taken = at[:, None] * policy
            total += float((taken * self.reward).sum())
            at = np.bincount(self.next.ravel(), (taken * ~self.ends).ravel(), len(at))
        return total


class TabularTask(gymnasium.Env[Any, Any], ABC):
    """Deterministic environment defined by `Rules`; episodes only differ in the actions.

    Attributes:
        rules: The rules.
        batched: Vectorized environment with the same numbers, or None.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # as gymnasium.Env
    batched: ClassVar[type[BatchedTabular] | None] = None

    def __init__(
        self, rules: Rules, observation_space: spaces.Discrete | spaces.MultiDiscrete, render_mode: str | None
    ) -> None:
        """Creates the environment; subclasses call this constructor.

        Raises:
            ValueError: If the render mode is not ``"rgb_array"`` or None.
        """
        check_render_mode(type(self).__name__, render_mode)
        self.rules, self.render_mode = rules, render_mode
        self.observation_space: Any = observation_space
        self.action_space: Any = spaces.Discrete(rules.next.shape[1])
        self._visited = np.zeros(len(rules.next), dtype=bool)
        self._state = self._steps = 0
        self._total = 0.0
        self._over = True

    @abstractmethod
    def picture(self, state: int, visited: np.ndarray, total: float, steps: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8.

        Args:
            state: The present state.
            visited: States that were visited in this episode, ``[S]`` bool.
            total: Return so far.
            steps: Steps of this episode so far.
        """

    @abstractmethod
    def letters(self, state: int) -> str:
        """Returns a state as text, for a terminal."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; a seed has no effect, because the environment is deterministic."""
        super().reset(seed=seed)
        self._state, self._steps, self._total, self._over = self.rules.start, 0, 0.0, False
        self._visited[:] = False
        self._visited[self._state] = True
        return self.rules.obs[self._state].copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action; raises an EnvError if there is no such action, or no episode is running."""
        if self._over:
            raise EnvError(f"{type(self).__name__}: no episode is under way; call reset() first")
        if not self.action_space.contains(action):
            where = f"step {self._steps}: action {action!r} is not in {self.action_space}"
            raise EnvError(f"{type(self).__name__}: {where}")
        rules, taken = self.rules, (self._state, int(action))
        self._state, reward = int(rules.next[taken]), float(rules.reward[taken])
        self._steps += 1
        self._total += reward
        self._visited[self._state] = True
        terminated = bool(rules.ends[taken])
        truncated = rules.max_steps is not None and self._steps >= rules.max_steps
        self._over = terminated or truncated
        return rules.obs[self._state].copy(), reward, terminated, truncated, {}

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the episode."""
        return {
            "state": self._state,
            "steps": self._steps,
            "total": self._total,
            "over": self._over,
            "visited": self._visited.copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`, of this environment or another."""
        self._state, self._steps, self._total = state["state"], state["steps"], state["total"]
        self._over, self._visited = state["over"], state["visited"].copy()

    def render(self) -> Any:
        """Returns an image of the episode so far, or None before the first episode."""
        return self.picture(self._state, self._visited, self._total, self._steps) if self._visited.any() else None


class BatchedTabular(BatchedEnv):
    """Vectorized `TabularTask`: a `VectorEnv` of one agent, one row per lane."""

    render_fps = TabularTask.metadata["render_fps"]
    saved = ("_place", "_steps", "_total", "_visited")

    def __init__(self, num_lanes: int, one: TabularTask) -> None:
        """Creates `num_lanes` environments like `one`; subclasses call this constructor."""
        rules = one.rules
        self._num_choices = rules.next.shape[1]
        super().__init__(num_lanes, one.observation_space, self._num_choices, f"{type(one).__name__}, batched")
        self._one, self._start, self._limit = one, rules.start, rules.max_steps
        self._next, self._reward, self._ends = rules.next.ravel(), rules.reward.ravel(), rules.ends.ravel()
        self._obs = rules.obs
        self._lanes = np.arange(num_lanes)
        self._place, self._steps = np.zeros((2, num_lanes), dtype=np.int64)  # the state of each lane
        self._total = np.zeros(num_lanes)
        self._visited = np.zeros((num_lanes, len(rules.next)), dtype=bool)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        rows = self._rows
        taken = self._place * self._num_choices + action
        self._next.take(taken, out=self._place)
        self._reward.take(taken, out=rows.reward)
        self._ends.take(taken, out=rows.terminated)
        self._steps += 1
        self._total += rows.reward
        self._visited[self._lanes, self._place] = True
        if self._limit is not None:
            np.greater_equal(self._steps, self._limit, out=rows.truncated)
        self._show()
        if rows.terminated.any() or rows.truncated.any():
            self._begin_next()
        return self._step

    def _begin(self, lanes: np.ndarray) -> None:
        self._place[lanes], self._steps[lanes], self._total[lanes] = self._start, 0, 0.0
        self._visited[lanes] = False
        self._visited[lanes, self._start] = True

    def _show(self) -> None:
        self._rows.obs["obs"][:] = self._obs[self._place]

    def _timestep(self, lane: int) -> int:
        return int(self._steps[lane])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        state, total = int(self._place[lane]), float(self._total[lane])
        return self._one.picture(state, self._visited[lane], total, self._timestep(lane))

    def text(self, lane: int) -> str:
        """Returns a lane as text; see `TabularTask.letters`."""
        return self._one.letters(int(self._place[lane]))
