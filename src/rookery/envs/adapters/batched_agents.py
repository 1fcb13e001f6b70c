"""`BatchedAgents`: vectorized games whose agents take turns, end one by one, or win and lose as groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError, SpaceError
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.batched import BatchedEnv
from rookery.envs.base import Step


class BatchedAgents(BatchedEnv):
    """A `BatchedEnv` whose agents need not act in every step, nor end together; a subclass adds the rules.

    An agent waits while it is alive and its flag of `_on_turn` is set. A subclass writes rewards and ends of a step
    into `_reward`, `_group_reward` and `_ends`, arrays ``[lanes, agents]`` that are cleared before each step. Where an
    observation has a mask, actions that it does not allow are refused. Actions of a Dict or Tuple space are passed to a
    subclass as they are stored: first all discrete parts, then all continuous ones (`ActionSpec`).
    """

    saved: ClassVar[tuple[str, ...]] = ("_alive", "_steps")

    def __init__(
        self,
        num_lanes: int,
        obs_space: spaces.Space[Any],
        actions: int | spaces.Space[Any],
        name: str,
        agents: tuple[str, ...],
        groups: Mapping[str, tuple[str, ...]] | None = None,
        group_rewards: bool = False,
    ) -> None:
        """Allocates the slab of a vectorized environment.

        Args:
            num_lanes: Number of environments.
            obs_space: Observation space of each agent.
            actions: Number of actions of each agent, or the space of their actions.
            name: Name of the environment in messages.
            agents: Agents of an environment; agent i has row ``lane * len(agents) + i``.
            groups: Agents that win and lose together, by the name of their group.
            group_rewards: Whether groups have rewards, beside those of their agents.

        Raises:
            ValueError: If `num_lanes` is not an integer of at least 1.
        """
        super().__init__(num_lanes, obs_space, actions, name, agents)
        self.groups = dict(groups or {})
        shape, rows = (num_lanes, len(agents)), self._rows
        self._lanes = np.arange(num_lanes)
        self._reward, self._waiting = rows.reward.reshape(shape), rows.waiting.reshape(shape)
        self._group_reward = np.zeros(shape)
        if group_rewards:
            rows.group_reward = self._group_reward.reshape(-1)
        self._ends, self._alive = np.zeros((2, *shape), dtype=bool)
        self._steps = np.zeros(num_lanes, dtype=np.int64)
        action = self.kinds[0].action
        self._is_composite = action.kind == "composite"
        self._shape = action.shape if self._is_composite else action.space.shape or ()
        self._actions = np.zeros((*shape, *self._shape), action.dtype)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with one array of the actions of all rows that wait; see `VectorEnv.step`."""
        action = self._checked(actions)
        rows, shape = self._rows, self._alive.shape
        if self._step.any_end:
            self._clear_ends()
        self._reward.fill(0.0)
        self._group_reward.fill(0.0)
        self._ends.fill(False)
        self._steps += 1
        over, cut = self._play(action)
        ended = over | cut
        any_over = True in ended.tobytes()
        if any_over or True in self._ends.tobytes():
            self._ends |= over[:, None]
            terminated, truncated = rows.terminated.reshape(shape), rows.truncated.reshape(shape)
            np.logical_and(self._ends, self._alive, out=terminated)
            np.logical_and(self._alive & ~terminated, cut[:, None], out=truncated)
            self._alive &= ~terminated
            self._step.any_end = True
        if any_over:
            if True in cut.tobytes():
                self._observe()  # last observations of truncated agents
            np.copyto(self._step.ended, ended)
            self._begin_after_end()
        else:
            self._show()
        return self._step

    @abstractmethod
    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Plays a step by the rules.

        Args:
            actions: Actions ``[lanes, agents, ...]``; zeros for agents that did not have to act.

        Returns:
            Lanes whose episode is over, and lanes whose episode was cut off, ``[lanes]`` bool each; a lane with both is
                terminated.
        """

    @abstractmethod
    def _observe(self) -> None:
        """Writes the observations of the current state."""

    @abstractmethod
    def _start(self, lanes: np.ndarray) -> None:
        """Resets the state of some lanes to the beginning of their current episodes."""

    def _on_turn(self) -> np.ndarray | None:
        """Returns which agents must act if alive, ``[lanes, agents]`` bool, or None for all."""
        return None

    def _begin(self, lanes: np.ndarray) -> None:
        self._alive[lanes], self._steps[lanes] = True, 0
        self._start(lanes)

    def _show(self) -> None:
        self._observe()
        turn = self._on_turn()
        np.copyto(self._waiting, self._alive if turn is None else self._alive & turn)

    def _show_start(self) -> Step:
        self._group_reward.fill(0.0)
        return super()._show_start()

    def _timestep(self, lane: int) -> int:
        return int(self._steps[lane])

    def _rng(self, lane: int) -> np.random.Generator:
        """Returns the random generator of a lane's current episode."""
        return np.random.default_rng(self._seed(lane))

    def _checked(self, actions: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the actions ``[lanes, agents, ...]``, if they are valid."""
        if self._seeds is None:
            raise EnvError(f"{self.name}: step() before reset()")
        if len(actions) != 1:
            raise EnvError(f"{self.name}: {len(actions)} arrays of actions where there is one kind of agents")
        given, waiting = actions[0], self._rows.waiting
        if self._is_composite:
            self._actions.fill(0)
            self._actions[self._waiting] = self._stored(given)
            return self._actions
        expected = (int(np.count_nonzero(waiting)), *self._shape)
        sorts = "iu" if self._num_actions else "fiu"
        if given.shape != expected or given.dtype.kind not in sorts:
            numbers = "integers" if self._num_actions else "numbers"
            raise EnvError(
                f"{self.name}: actions of shape {given.shape} and type {given.dtype}; "
                f"expected {expected} {numbers}, for the agents that must act"
            )
        self._actions.fill(0)
        if not self._num_actions:
            self._check_finite(given)
            space = self.kinds[0].action.space
            assert isinstance(space, spaces.Box)
            self._actions[self._waiting] = np.clip(given, space.low, space.high)
            return self._actions
        wrong = (given < 0) | (given >= self._num_actions)
        if wrong.any():
            where, agent = self._who(wrong)
            raise EnvError(f"{where}: action {given[wrong][0]} of {agent} is not from 0 to {self._num_actions - 1}")
        if MASK in self._rows.obs:
            mask = self._rows.obs[MASK][waiting]
            refused = ~mask[np.arange(len(given)), given]
            if refused.any():
                where, agent = self._who(refused)
                allowed = mask[refused][0]
                named = ", ".join(map(str, np.flatnonzero(allowed)))
                flags = "".join(map(str, allowed.astype(int)))
                raise EnvError(
                    f"{where}: action {given[refused][0]} of {agent} is not allowed; allowed are {named} "
                    f"({MASK} {flags})"
                )
        self._actions[self._waiting] = given
        return self._actions

    def _stored(self, given: np.ndarray) -> np.ndarray:
        """Converts actions of a Dict or Tuple space, a dict or tuple for each agent that must act, to stored form."""
        waiting, action = int(np.count_nonzero(self._rows.waiting)), self.kinds[0].action
        if given.shape != (waiting,):
            raise EnvError(
                f"{self.name}: actions of shape {given.shape}; expected ({waiting},) of {action.space}, for the agents "
                "that must act"
            )
        try:
            stored = action.from_env(given)
        except (SpaceError, KeyError, IndexError, TypeError, ValueError) as error:
            raise EnvError(f"{self.name}: an action is not of {action.space}: {error}") from error
        return stored

    def _check_finite(self, given: np.ndarray) -> None:
        """Raises an EnvError for the first action that is not finite."""
        finite = np.isfinite(given)
        if not finite.all():
            wrong = ~finite.reshape(len(given), -1).all(axis=1)
            where, agent = self._who(wrong)
            raise EnvError(f"{where}: action {given[wrong][0].tolist()} of {agent} is not finite")

    def _who(self, wrong: np.ndarray) -> tuple[str, str]:
        """Returns place and agent of the first wrong action among the waiting rows."""
        row = int(np.flatnonzero(self._rows.waiting)[wrong][0])
        lane, agent = divmod(row, len(self.kinds[0].agents))
        return self._where(lane), self.kinds[0].agents[agent]
