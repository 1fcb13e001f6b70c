"""`BatchedEnv`: base class of bundled environments that step many instances by a few array operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase
from rookery.envs.parameters import parameters_of
from rookery.envs.samplers import Value
from rookery.envs.vector.rendering import keep_last


class BatchedEnv(VectorBase, ABC):
    """An exact `VectorEnv` of one kind, without infos, whose agents all act in every step; a subclass adds the rules.

    Where agents take turns or end one by one, see `batched_agents.BatchedAgents`.

    Attributes:
        saved: Names of the attributes that change, beside `episode`: arrays, which are updated in place, and numbers.
    """

    saved: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        num_lanes: int,
        obs_space: spaces.Space[Any],
        actions: int | spaces.Space[Any],
        name: str,
        agents: tuple[str, ...] = (AGENT,),
    ) -> None:
        """Allocates the slab of a vectorized environment.

        Args:
            num_lanes: Number of environments.
            obs_space: Observation space of each agent.
            actions: Number of actions of each agent, or the space of their actions.
            name: Name of the environment in messages.
            agents: Agents of an environment; agent i has row ``lane * len(agents) + i``.

        Raises:
            ValueError: If `num_lanes` is not an integer of at least 1.
        """
        check_least(type(self).__name__, 1, num_lanes=num_lanes)
        action_space = actions if isinstance(actions, spaces.Space) else spaces.Discrete(actions)
        kind = Kind(agents, obs_spec(obs_space, action_space), action_spec(action_space))
        super().__init__((kind,), num_lanes, name, exact=True)
        self._num_actions = int(action_space.n) if isinstance(action_space, spaces.Discrete) else 0
        self._seeds: SeedPlan | None = None
        self._rows = Rows.allocate(kind, num_lanes)
        self._step = Step((self._rows,), np.zeros(num_lanes, dtype=bool))
        self._no_obs = kind.obs.allocate(0)
        self._no_rows = np.zeros(0, dtype=np.int64)

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._seeds = seeds
        self.episode[:] = 0
        self._begin(np.arange(self.num_lanes))
        return self._show_start()

    @abstractmethod
    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with one array ``[rows]`` of integers; see `VectorEnv.step`."""

    @abstractmethod
    def _begin(self, lanes: np.ndarray) -> None:
        """Starts the episodes of some lanes, with the numbers in `episode`."""

    @abstractmethod
    def _show(self) -> None:
        """Writes the observations of the current state."""

    @abstractmethod
    def _timestep(self, lane: int) -> int:
        """Returns the steps of a lane's episode so far."""

    @abstractmethod
    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""

    def state_dict(self) -> dict[str, Any]:
        """Returns a copy of the state of every lane."""
        return {name: np.copy(value) if np.ndim(value) else value for name, value in self._changing().items()}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`, with no episode lost; see `VectorEnv.load_state_dict`."""
        mine = self._changing()
        if {name: np.shape(value) for name, value in state.items()} != {name: np.shape(mine[name]) for name in mine}:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        self._seeds = seeds
        for name in ("episode", *self.saved):
            value = state[name.lstrip("_")]
            if np.ndim(value):
                getattr(self, name)[...] = value
            else:
                setattr(self, name, value)
        return self._show_start(), np.zeros(self.num_lanes, dtype=bool)

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan."""
        self._seeds = seeds

    def restart(self, seeds: SeedPlan) -> Step:
        """Begins the next episode in every lane; see `VectorBase.restart`."""
        self._seeds = seeds
        self.episode += 1
        self._begin(np.arange(self.num_lanes))
        return self._show_start()

    def close(self) -> None:
        """Does nothing; a subclass with resources releases them here."""

    def _changing(self) -> dict[str, Any]:
        return {name.lstrip("_"): getattr(self, name) for name in ("episode", *self.saved)}

    def _seed(self, lane: int) -> int:
        """Returns the seed of the current episode of a lane."""
        assert self._seeds is not None, "set by reset() or load_state_dict()"
        return self._seeds(lane, int(self.episode[lane]))

    def _drawn(self, lane: int) -> dict[str, Value]:
        """Returns the parameters of a lane's current episode; empty if the plan has none."""
        return parameters_of(self._seeds, lane, int(self.episode[lane]))

    def _show_start(self) -> Step:
        """Returns a step without rewards and ends."""
        self._rows.waiting[:], self._rows.reward[:] = True, 0.0
        self._clear_ends()
        self._show()
        return self._step

    def _clear_ends(self) -> None:
        """Clears all ends of the slab."""
        rows = self._rows
        for flags in (rows.terminated, rows.truncated, self._step.ended):
            flags.fill(False)
        rows.final_index, rows.final_obs = self._no_rows, self._no_obs
        self._step.any_end = False

    def _begin_next(self) -> None:
        """Starts the next episodes where the agents of a lane, who all end together, were terminated or truncated.

        The slab holds the last observations first, and then those of the new episodes.
        """
        rows, agents = self._rows, len(self.kinds[0].agents)
        np.logical_or(rows.terminated[::agents], rows.truncated[::agents], out=self._step.ended)
        self._begin_after_end()

    def _begin_after_end(self) -> None:
        """Starts the next episodes in the lanes that have `Step.ended`, as `_begin_next`."""
        rows, ended = self._rows, self._step.ended
        self._step.any_end = True
        if True in rows.truncated.tobytes():
            rows.final_index = np.flatnonzero(rows.truncated > rows.terminated)
            rows.final_obs = {path: array[rows.final_index] for path, array in rows.obs.items()}
        if self.keep_last_pictures:
            for lane in ended.nonzero()[0].tolist():
                keep_last(self, lane)
        self.episode += ended
        self._begin_and_show(ended.nonzero()[0])

    def _begin_and_show(self, lanes: np.ndarray) -> None:
        """Starts the next episodes of some lanes, and writes the observations of all."""
        self._begin(lanes)
        self._show()

    def _checked(self, actions: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the actions of the one kind, if they are valid."""
        if self._seeds is None:
            raise EnvError(f"{self.name}: step() before reset()")
        if len(actions) != 1:
            raise EnvError(f"{self.name}: {len(actions)} arrays of actions where there is one kind of agents")
        action = actions[0]
        if action.shape != self._rows.reward.shape or action.dtype.kind not in "iu":
            raise EnvError(
                f"{self.name}: actions of shape {action.shape} and type {action.dtype}; "
                f"expected {self._rows.reward.shape} integers, one for each agent of each environment"
            )
        if action.item(action.argmin()) < 0 or action.item(action.argmax()) >= self._num_actions:  # faster than min
            row = int(np.flatnonzero((action < 0) | (action >= self._num_actions))[0])
            lane, agent = divmod(row, len(self.kinds[0].agents))
            raise EnvError(
                f"{self._where(lane)}: action {action[row]} of {self.kinds[0].agents[agent]} is not from 0 to "
                f"{self._num_actions - 1}"
            )
        return action

    def _where(self, lane: int) -> str:
        """Returns the first part of a message about a lane: its episode and step."""
        episode, step = int(self.episode[lane]), self._timestep(lane)
        return f"{self.name}: environment {lane}, seed {self._seed(lane)}, episode {episode}, step {step}"


def check_least(owner: str, least: int, **settings: Any) -> None:
    """Raises a ValueError for the first of some settings of `owner` that is not an integer of at least `least`."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{owner}: {name} is {value!r}, it must be an integer of at least {least}")


def check_render_mode(owner: str, render_mode: str | None) -> None:
    """Raises a ValueError for a render mode of `owner` other than None and ``"rgb_array"``."""
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"{owner}: render_mode is {render_mode!r}, it must be 'rgb_array' or None")
