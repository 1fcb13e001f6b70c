"""RLlib's single-agent example environments, reimplemented in the API of 2021.

They draw from NumPy's global generator, whose state is kept for each environment (`per_env_rng`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from rookery_rllib.base import nested
from rookery_rllib.env.envs import TaskSettableEnv
from rookery_rllib.gym.core import ActionWrapper, Env, ObservationWrapper
from rookery_rllib.gym.env_classes import CartPoleEnv, PendulumEnv
from rookery_rllib.gym.registry import make
from rookery_rllib.gym.rllib_spaces import Repeated, flatten_space, holds

Shown = tuple[Any, float, bool, dict[str, Any]]
"""Observation, reward, done, info."""


class SimpleCorridor(Env):
    """Corridor; the last step at its end is rewarded with 1.

    Args:
        config: ``corridor_length`` (10).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.end_pos = (config or {}).get("corridor_length", 10)
        self.cur_pos = 0.0
        self.action_space = Discrete(2)
        self.observation_space = Box(0.0, 999.0, (1,), np.float32)

    def set_corridor_length(self, length: int) -> None:
        self.end_pos = length
        print(f"Updated corridor length to {length}")  # noqa: T201

    def reset(self) -> Any:
        self.cur_pos = 0.0
        return np.array([0.0], np.float32)

    def step(self, action: Any) -> Shown:
        """Moves back (0) or forward (1)."""
        self.cur_pos = max(0.0, self.cur_pos + (1.0 if action else -1.0))
        done = self.cur_pos >= self.end_pos
        return np.array([self.cur_pos], np.float32), float(done), done, {}


class GPURequiringEnv(SimpleCorridor):
    """Corridor that raises a RuntimeError on creation without a GPU."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        import torch

        super().__init__(config)
        if not torch.cuda.is_available():
            raise RuntimeError("Not enough GPUs for this env! torch sees none")
        print(f"Env can see these GPUs: {list(range(torch.cuda.device_count()))}")  # noqa: T201


class StatelessCartPole(CartPoleEnv):  # type: ignore[misc]
    """CartPole without velocities in the observation, and without a step limit."""

    observation_space: Any

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        whole: Any = self.observation_space
        self.observation_space = Box(whole.low[::2], whole.high[::2])

    def reset(self) -> Any:
        return super().reset()[::2].copy()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Pushes the cart: 0 to the left, 1 to the right."""
        obs, reward, done, info = super().step(action)
        return obs[::2].copy(), reward, done, info


class CartPoleMassEnv(CartPoleEnv, TaskSettableEnv):  # type: ignore[misc]
    """CartPole in which a task is a pair of masses of cart and pole."""

    def sample_tasks(self, n_tasks: int) -> Any:
        """Draws masses: of the cart from 0.5 to 2, of the pole from 0.05 to 0.2."""
        return np.random.uniform((0.5, 0.05), (2.0, 0.2), (n_tasks, 2))

    def set_task(self, task: Any) -> None:
        self.masscart, self.masspole = task
        self.total_mass = self.masscart + self.masspole
        self.polemass_length = self.masspole * self.length

    def get_task(self) -> Any:
        return np.array([self.masscart, self.masspole])


class PendulumMassEnv(PendulumEnv, TaskSettableEnv):  # type: ignore[misc]
    """Pendulum in which a task is its mass."""

    def sample_tasks(self, n_tasks: int) -> Any:
        """Draws masses from 0.5 to 2."""
        return np.random.uniform(0.5, 2.0, n_tasks)

    def set_task(self, task: Any) -> None:
        self.m = task

    def get_task(self) -> Any:
        return self.m


class TransformedActionPendulum(ActionWrapper):
    """Pendulum whose torque, from -2 to 2, is given as a number of another range.

    Args:
        config: ``low`` (-1) and ``high`` (1), the range of actions.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(make("Pendulum-v0"))
        self.torques: Any = self.env.action_space
        low, high = ((config or {}).get(key, usual) for key, usual in (("low", -1.0), ("high", 1.0)))
        self.action_space = Box(low, high, self.torques.shape, np.float32)

    def action(self, action: Any) -> Any:
        share = (action - self.action_space.low) / (self.action_space.high - self.action_space.low)
        return self.torques.low + share * (self.torques.high - self.torques.low)


class RepeatAfterMeEnv(Env):
    """Repeat the observation from some steps ago: 1 for a correct answer, -1 otherwise.

    Args:
        config: ``repeat_delay`` (1), ``episode_len`` (100).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.observation_space = self.action_space = Discrete(2)
        self.delay = (config or {}).get("repeat_delay", 1)
        self.episode_len = (config or {}).get("episode_len", 100)
        self.history: list[int] = []

    def reset(self) -> int:
        self.history = [0] * self.delay
        return self._shown()

    def step(self, action: Any) -> Shown:
        reward = 1.0 if action == self.history[-1 - self.delay] else -1.0
        done = len(self.history) > self.episode_len
        return self._shown(), reward, done, {}

    def _shown(self) -> int:
        self.history.append(int(np.random.randint(2)))
        return self.history[-1]


class RepeatInitialObsEnv(Env):
    """Repeat the first observation in every step: 1 for a correct answer, -1 otherwise."""

    def __init__(self, episode_len: int = 100) -> None:
        self.observation_space = self.action_space = Discrete(2)
        self.episode_len = episode_len
        self.token = 0
        self.num_steps = 0

    def reset(self) -> int:
        self.token, self.num_steps = int(np.random.randint(2)), 0
        return self.token

    def step(self, action: Any) -> Shown:
        """Takes an answer; the next observation is 0."""
        self.num_steps += 1
        return 0, 1.0 if action == self.token else -1.0, self.num_steps >= self.episode_len, {}


class _HiddenCartPole(Env):
    """CartPole with many actions, of which two are valid; their indices change in every step."""

    def __init__(self, max_avail_actions: int) -> None:
        self.action_space = Discrete(max_avail_actions)
        self.wrapped = make("CartPole-v0")
        self.left_idx = self.right_idx = 0
        self.action_mask = np.zeros(max_avail_actions, np.float32)

    def seed(self, seed: int | None = None) -> Any:
        return self.wrapped.seed(seed)

    def update_avail_actions(self) -> None:
        self.left_idx, self.right_idx = map(int, np.random.choice(int(self.action_space.n), 2, replace=False))
        self.action_mask = np.zeros(int(self.action_space.n), np.float32)
        self.action_mask[[self.left_idx, self.right_idx]] = 1.0

    def _shown(self, cart: Any) -> Any:
        raise NotImplementedError

    def reset(self) -> Any:
        self.update_avail_actions()
        return self._shown(self.wrapped.reset())

    def step(self, action: Any) -> Shown:
        """Pushes the cart in the direction of the action.

        Raises:
            ValueError: If it is not one of the valid actions.
        """
        if action not in (self.left_idx, self.right_idx):
            raise ValueError(f"action {action} is not available, {self.left_idx} and {self.right_idx} are")
        cart, reward, done, info = self.wrapped.step(int(action == self.right_idx))
        self.update_avail_actions()
        return self._shown(cart), reward, done, info


class ParametricActionsCartPole(_HiddenCartPole):
    """CartPole with many actions, of which two are valid; each action has an embedding that identifies it.

    An observation has ``action_mask`` (which actions are available), ``avail_actions`` (an embedding ``[2]`` of each,
    zeros where it is not available) and ``cart``.
    """

    def __init__(self, max_avail_actions: int) -> None:
        super().__init__(max_avail_actions)
        self.left_action_embed, self.right_action_embed = np.random.randn(2, 2)
        self.action_assignments = np.zeros((max_avail_actions, 2), np.float32)
        self.observation_space = Dict(
            {
                "action_mask": Box(0, 1, (max_avail_actions,)),
                "avail_actions": Box(-10, 10, (max_avail_actions, 2)),
                "cart": self.wrapped.observation_space,
            }
        )

    def update_avail_actions(self) -> None:
        super().update_avail_actions()
        self.action_assignments = np.zeros((int(self.action_space.n), 2), np.float32)
        self.action_assignments[self.left_idx] = self.left_action_embed
        self.action_assignments[self.right_idx] = self.right_action_embed

    def _shown(self, cart: Any) -> dict[str, Any]:
        return {"action_mask": self.action_mask, "avail_actions": self.action_assignments, "cart": cart}


class ParametricActionsCartPoleNoEmbeddings(_HiddenCartPole):
    """CartPole with many actions, of which the same two are always valid and the others never.

    An observation has ``valid_avail_actions_mask`` and ``cart``.
    """

    def __init__(self, max_avail_actions: int) -> None:
        super().__init__(max_avail_actions)
        super().update_avail_actions()
        self.observation_space = Dict(
            {"valid_avail_actions_mask": Box(0, 1, (max_avail_actions,)), "cart": self.wrapped.observation_space}
        )

    def update_avail_actions(self) -> None:
        """Keeps the indices of the two valid actions."""

    def _shown(self, cart: Any) -> dict[str, Any]:
        return {"valid_avail_actions_mask": self.action_mask, "cart": cart}


class RandomEnv(Env):
    """Environment with random observations and rewards; episodes end at random or after a number of steps.

    Args:
        config: ``action_space`` and ``observation_space`` (two categories), ``reward_space`` (from -1 to 1), ``p_done``
            (0.1), ``max_episode_len`` (none), ``check_action_bounds`` (false: actions are not looked at).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        config = config or {}
        self.action_space = config.get("action_space", Discrete(2))
        self.observation_space = config.get("observation_space", Discrete(2))
        self.reward_space = config.get("reward_space", Box(-1.0, 1.0, (), np.float32))
        self.p_done = config.get("p_done", 0.1)
        self.max_episode_len = config.get("max_episode_len")
        self.check_action_bounds = config.get("check_action_bounds", False)
        self.steps = 0

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.observation_space.seed(seed)
        self.reward_space.seed(seed)
        return [seed]

    def reset(self) -> Any:
        self.steps = 0
        return self.observation_space.sample()

    def step(self, action: Any) -> Shown:
        """Draws the next observation and reward.

        Raises:
            ValueError: If the action is looked at, and outside of its space.
        """
        if self.check_action_bounds and not holds(self.action_space, action):
            raise ValueError(f"Illegal action for {self.action_space}: {action}")
        self.steps += 1
        late = self.max_episode_len is not None and self.steps >= self.max_episode_len
        done = bool(late or np.random.random() < self.p_done)
        return self.observation_space.sample(), float(self.reward_space.sample()), done, {}


class RandomLargeObsSpaceEnv(RandomEnv):
    """A `RandomEnv` with 5000-dimensional observations."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__({"observation_space": Box(-1.0, 1.0, (5000,)), **(config or {})})


class CorrelatedActionsEnv(Env):
    """Two simultaneous actions: a reward of 5 if the first equals the observation, and of 5 if both are equal; 21
    steps.
    """

    def __init__(self, config: Any = None) -> None:
        self.observation_space = Discrete(2)
        self.action_space = Tuple([Discrete(2), Discrete(2)])
        self.last_observation = 0
        self.t = 0

    def reset(self) -> int:
        self.t, self.last_observation = 0, int(np.random.randint(2))
        return self.last_observation

    def step(self, action: Any) -> Shown:
        first, second = action
        reward = 5.0 * (first == self.last_observation) + 5.0 * (first == second)
        self.t += 1
        self.last_observation = int(np.random.randint(2))
        return self.last_observation, reward, self.t > 20, {}


def _lake(level: int) -> tuple[str, ...]:
    """Returns a frozen lake in which the path around a row of holes, and that to the goal, get longer with the
    level.
    """
    pond = "F" + "H" * (level - 1) + "F" * (7 - level)
    barrier = "H" * (level + 1) + "F" * (6 - level)
    place = {1: (3, 6), 2: (4, 6), 3: (5, 6), 4: (5, 5), 5: (5, 3)}[level]
    rows = ["SFFFFFF", pond, "FFFFFFF", barrier, "FFFFFFF", "FFFFFFF"]
    rows[place[0]] = f"{rows[place[0]][: place[1]]}G{rows[place[0]][place[1] + 1 :]}"
    return tuple(rows)


class CurriculumCapableEnv(TaskSettableEnv):
    """Frozen lake that gets harder with its level; the reward of the goal grows tenfold per level.

    Args:
        config: ``start_level`` (1), ``max_timesteps`` (18).
    """

    MAPS = tuple(_lake(level) for level in range(1, 6))

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.cur_level = (config or {}).get("start_level", 1)
        self.max_timesteps = (config or {}).get("max_timesteps", 18)
        self.switch_env = False
        self._timesteps = 0
        self._make_lake()
        self.observation_space = self.frozen_lake.observation_space
        self.action_space = self.frozen_lake.action_space

    def _make_lake(self) -> None:
        self.frozen_lake = make("FrozenLake-v0", desc=list(self.MAPS[self.cur_level - 1]), is_slippery=False)

    def seed(self, seed: int | None = None) -> Any:
        return self.frozen_lake.seed(seed)

    def reset(self) -> Any:
        if self.switch_env:
            self.switch_env = False
            self._make_lake()
        self._timesteps = 0
        return self.frozen_lake.reset()

    def step(self, action: Any) -> Shown:
        """Moves left (0), down (1), right (2) or up (3)."""
        obs, reward, done, info = self.frozen_lake.step(action)
        self._timesteps += 1
        return obs, reward * 10 ** (self.cur_level - 1), bool(done or self._timesteps >= self.max_timesteps), info

    def sample_tasks(self, n_tasks: int) -> list[int]:
        return [int(level) for level in np.random.randint(1, len(self.MAPS) + 1, n_tasks)]

    def get_task(self) -> int:
        level: int = self.cur_level
        return level

    def set_task(self, task: int) -> None:
        """Sets the level of later episodes."""
        self.cur_level, self.switch_env = task, True


class NestedSpaceRepeatAfterMeEnv(Env):
    """Repeat the observation, which may have any structure: 1 for each correct category, minus the distance for
    continuous parts.

    Args:
        config: ``space`` (of observations and actions), ``episode_len`` (100).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        usual = Tuple([Discrete(2), Dict({"a": Box(-1.0, 1.0, (2,))})])
        self.observation_space = self.action_space = (config or {}).get("space", usual)
        self.flattened_action_space = flatten_space(self.action_space)
        self.episode_len = (config or {}).get("episode_len", 100)
        self.steps = 0

    def reset(self) -> Any:
        self.steps = 0
        return self._shown()

    def step(self, action: Any) -> Shown:
        self.steps += 1
        reward = 0.0
        wanted = nested.flatten(self.current_obs)
        for part, right, space in zip(nested.flatten(action), wanted, self.flattened_action_space, strict=True):
            if isinstance(space, Box):
                reward -= abs(float(np.sum(np.asarray(part) - right)))
            elif isinstance(space, Discrete):
                reward += float(part == right)
        return self._shown(), reward, self.steps >= self.episode_len, {}

    def _shown(self) -> Any:
        self.current_obs = self.observation_space.sample()
        return self.current_obs


class _CountingEnv(Env):
    """Environment that counts steps; actions have no effect.

    Attributes:
        i: Number of the step.
        episode_length: Number of an episode's last step.
    """

    def __init__(self, observation_space: Any, episode_length: int, start: int = 0) -> None:
        self.observation_space, self.action_space = observation_space, Discrete(2)
        self.episode_length = episode_length
        self.i = self._start = start

    def _shown(self) -> Any:
        return self.i

    def _reward(self) -> float:
        return 1.0

    def reset(self) -> Any:
        self.i = self._start
        return self._shown()

    def step(self, action: Any) -> Shown:
        self.i += 1
        return self._shown(), self._reward(), self.i >= self.episode_length, {}


class DebugCounterEnv(_CountingEnv):
    """Observations are the step count, rewards the step count modulo 3; 15 steps.

    Args:
        config: ``start_at_t`` (0), the first number.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.start_at_t = int((config or {}).get("start_at_t", 0))
        super().__init__(Box(0, 100, (1,), np.float32), 15 + self.start_at_t, self.start_at_t)

    def _shown(self) -> Any:
        return np.array([self.i], np.float32)

    def _reward(self) -> float:
        return float(self.i % 3)


class MockEnv(_CountingEnv):
    """Observations are 0, and each of `episode_length` steps is rewarded with 1; `config` is stored."""

    def __init__(self, episode_length: int, config: Any = None) -> None:
        super().__init__(Discrete(1), episode_length)
        self.config = config

    def _shown(self) -> int:
        return 0


class MockEnv2(_CountingEnv):
    """Observations are the step count, and each of `episode_length` steps is rewarded with 100."""

    def __init__(self, episode_length: int) -> None:
        super().__init__(Discrete(100), episode_length)

    def _reward(self) -> float:
        return 100.0


class FastImageEnv(_CountingEnv):
    """Observations are the same black image ``[84, 84, 4]``, and each of 1001 steps is rewarded with 1, at almost no
    cost.
    """

    def __init__(self, config: Any = None) -> None:
        super().__init__(Box(0.0, 1.0, (84, 84, 4), np.float32), 1001)
        self.zeros = np.zeros((84, 84, 4), np.float32)

    def _shown(self) -> Any:
        return self.zeros


class LookAndPush(Env):
    """Memory task: the observation after a first action 0 determines the correct last action.

    The places are 2 (start), 3 and 4. Action 1 moves forward; action 0 at the start shows 0 or 1, drawn per episode,
    from where 1 leads back towards the start. Each step costs 1. At place 4 the episode ends: 10 for action 1 if the
    shown number was 1, else -10.
    """

    def __init__(self, config: Any = None) -> None:
        self.action_space = Discrete(2)
        self.observation_space = Discrete(5)
        self._state = 2
        self._case = 0

    def reset(self) -> int:
        self._state, self._case = 2, int(np.random.choice(2))
        return self._state

    def step(self, action: Any) -> Shown:
        if self._state == 4:
            return self._state, 10.0 if action and self._case else -10.0, True, {}
        if action:
            self._state = 2 if self._state == 0 else self._state + 1
        elif self._state == 2:
            self._state = self._case
        return self._state, -1.0, False, {}


class OneHot(ObservationWrapper):
    """Wrapper that one-hot encodes a category."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = Box(0.0, 1.0, (int(env.observation_space.n),))

    def observation(self, observation: Any) -> Any:
        hot = np.zeros(self.observation_space.shape, np.float32)
        hot[observation] = 1.0
        return hot


MAX_PLAYERS, MAX_ITEMS, MAX_EFFECTS = 4, 7, 2


class SimpleRPG(Env):
    """Observations are random lists of players with lists of items and effects; an episode is one step."""

    def __init__(self, config: Any = None) -> None:
        self.action_space = Discrete(4)
        self.item_space = Discrete(5)
        self.effect_space = Box(9000, 9999, (4,))
        self.player_space = Dict(
            {
                "location": Box(-100, 100, (2,)),
                "status": Box(-1, 1, (10,)),
                "items": Repeated(self.item_space, max_len=MAX_ITEMS),
                "effects": Repeated(self.effect_space, max_len=MAX_EFFECTS),
            }
        )
        self.observation_space = Repeated(self.player_space, max_len=MAX_PLAYERS)

    def reset(self) -> Any:
        return self.observation_space.sample()

    def step(self, action: Any) -> Shown:
        return self.observation_space.sample(), 1.0, True, {}


class WindyMazeEnv(Env):
    """U-shaped corridor; the agent moves with the wind, or waits for another wind. The goal is rewarded with 100."""

    def __init__(self, env_config: Any = None) -> None:
        inner = ["S" + "." * 6, *["#" * 6 + "."] * 4, "F" + "." * 6]  # right, down, and back
        self.map = ["#" * 9, *(f"#{row}#" for row in inner), "#" * 9]
        self.x_dim, self.y_dim = len(self.map), len(self.map[0])
        self.start_pos, self.end_pos = (1, 1), (6, 1)
        self.observation_space = Tuple([Box(0, 100, (2,)), Discrete(4)])
        self.action_space = Discrete(2)
        self.pos = self.start_pos
        self.num_steps = 0
        self.wind_direction = 0

    def _shown(self) -> tuple[Any, int]:
        self.wind_direction = int(np.random.randint(4))  # north, east, south, west
        return np.array(self.pos, np.float32), self.wind_direction

    def reset(self) -> Any:
        self.pos, self.num_steps = self.start_pos, 0
        return self._shown()

    def step(self, action: Any) -> Shown:
        """Waits (0) or moves with the wind (1); at most 200 steps."""
        if action:
            self.pos = self._get_new_pos(self.pos, self.wind_direction)
        self.num_steps += 1
        there = self.pos == self.end_pos
        return self._shown(), 100.0 * there, there or self.num_steps >= 200, {}

    def _get_new_pos(self, pos: Any, direction: int) -> tuple[int, int]:
        """Returns the neighbouring position in a direction, or the same position in front of a wall."""
        row, column = ((-1, 0), (0, 1), (1, 0), (0, -1))[int(direction)]
        new = int(pos[0]) + row, int(pos[1]) + column
        return (int(pos[0]), int(pos[1])) if self.map[new[0]][new[1]] == "#" else new
