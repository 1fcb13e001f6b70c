"""RLlib's forms of environments: multi-agent dicts, vectorized environments, groups of agents, PettingZoo.

They have the old API, because scripts subclass and step them: `reset` returns observations, `step` four values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from rookery.face import ConfigError, EnvError
from rookery.face import check_env as findings
from rookery_rllib.env.external_env import ExternalEnv as ExternalEnv
from rookery_rllib.env.external_env import ExternalMultiAgentEnv as ExternalMultiAgentEnv
from rookery_rllib.gym import old_api
from rookery_rllib.gym.core import TRUNCATED, ActionWrapper, Env
from rookery_rllib.gym.old_envs import adapted
from rookery_rllib.gym.registry import make

ENV_STATE = "state"
"""Key of a Dict observation for the global state, which all agents observe."""

GROUP_REWARDS = "_group_rewards"
"""Key of a group's info: the reward of each member."""

GROUP_INFO = "_group_info"
"""Key of a group's info: the info of each member."""

TaskType = Any


class EnvContext(dict[str, Any]):
    def __init__(
        self,
        env_config: Mapping[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
    ) -> None:
        super().__init__(env_config)
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.remote = remote
        self.num_workers = num_workers

    def copy_with_overrides(
        self,
        env_config: Mapping[str, Any] | None = None,
        worker_index: int | None = None,
        vector_index: int | None = None,
        remote: bool | None = None,
        num_workers: int | None = None,
    ) -> EnvContext:
        return EnvContext(
            self if env_config is None else env_config,
            self.worker_index if worker_index is None else worker_index,
            self.vector_index if vector_index is None else vector_index,
            self.remote if remote is None else remote,
            self.num_workers if num_workers is None else num_workers,
        )

    def __reduce__(self) -> Any:
        return EnvContext, (dict(self), self.worker_index, self.vector_index, self.remote, self.num_workers)


class MultiAgentEnv:
    def reset(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no reset()")

    def step(self, action_dict: dict[Any, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def render(self, mode: str | None = None) -> Any:
        return None

    def with_agent_groups(
        self,
        groups: Mapping[Any, Sequence[Any]],
        obs_space: Space[Any] | None = None,
        act_space: Space[Any] | None = None,
    ) -> GroupAgentsWrapper:
        return GroupAgentsWrapper(self, groups, obs_space, act_space)


def make_multi_agent(env_name_or_creator: Any) -> Any:
    class MultiEnv(MultiAgentEnv):
        def __init__(self, config: Mapping[str, Any] | None = None) -> None:
            given = {} if config is None else config
            rest = {key: value for key, value in given.items() if key != "num_agents"}
            inner: Any = given.copy_with_overrides(rest) if isinstance(given, EnvContext) else rest
            num = given.get("num_agents", 1)
            self.agents = [old_api.made(env_name_or_creator, inner) for _ in range(num)]
            self.possible_agents = list(range(num))
            self.dones: set[int] = set()
            self.observation_space = self.agents[0].observation_space
            self.action_space = self.agents[0].action_space
            self._seeds: list[int | None] = [None] * num

        def seed(self, seed: int | None = None) -> list[int | None]:
            """Sets the seeds of the environments' next episodes: `seed` and the numbers after it."""
            self._seeds = [None if seed is None else seed + place for place in range(len(self.agents))]
            return self._seeds

        def reset(self) -> dict[int, Any]:
            self.dones = set()
            seeds, self._seeds = self._seeds, [None] * len(self.agents)
            pairs = zip(self.agents, seeds, strict=True)
            return {place: old_api.reset(env, seed) for place, (env, seed) in enumerate(pairs)}

        def step(self, action_dict: dict[int, Any]) -> tuple[dict[Any, Any], ...]:
            shown = {place: old_api.step(self.agents[place], action) for place, action in action_dict.items()}
            obs, rewards, ends, infos = ({place: four[i] for place, four in shown.items()} for i in range(4))
            self.dones |= {place for place, over in ends.items() if over}
            return obs, rewards, {**ends, old_api.ALL: len(self.dones) == len(self.agents)}, infos

        def render(self, mode: str | None = None) -> list[Any]:
            return [env.render() for env in self.agents]

        def close(self) -> None:
            for env in self.agents:
                env.close()

    return MultiEnv


class GroupAgentsWrapper(MultiAgentEnv):
    def __init__(
        self,
        env: Any,
        groups: Mapping[Any, Sequence[Any]],
        obs_space: Space[Any] | None = None,
        act_space: Space[Any] | None = None,
    ) -> None:
        self.env = env
        self.groups = {group: list(members) for group, members in groups.items()}
        self.agent_id_to_group: dict[Any, Any] = {}
        for group, members in self.groups.items():
            for agent in members:
                if agent in self.agent_id_to_group:
                    raise ValueError(f"agent {agent} is in two groups, {self.agent_id_to_group[agent]} and {group}")
                self.agent_id_to_group[agent] = group
        observed = obs_space or self._joint("observation")
        acted = act_space or self._joint("action")
        if observed is not None:
            self.observation_space = observed
        if acted is not None:
            self.action_space = acted

    def _joint(self, what: str) -> Space[Any] | None:
        """Returns the Tuple of a group's member spaces, if all spaces are known and equal for all groups."""
        by_agent: Mapping[Any, Any] = getattr(self.env, f"{what}_spaces", None) or {}
        common = getattr(self.env, f"{what}_space", None)
        found = []
        for members in self.groups.values():
            parts: list[Any] = [by_agent.get(agent, common) for agent in members]
            if not all(isinstance(part, Space) for part in parts):
                return None
            found.append(spaces.Tuple(parts))
        return found[0] if found and all(one == found[0] for one in found) else None

    def seed(self, seed: int | None = None) -> Any:
        return self.env.seed(seed) if callable(getattr(self.env, "seed", None)) else None

    def reset(self) -> dict[Any, Any]:
        return self._grouped(old_api.reset(self.env))

    def step(self, action_dict: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        actions: dict[Any, Any] = {}
        for name, action in action_dict.items():
            if name in self.groups:
                actions |= zip(self.groups[name], action, strict=True)
            else:
                actions[name] = action
        obs, rewards, ends, infos = old_api.step(self.env, actions)
        joint = self._grouped(obs)
        seen = [name for name in joint if name in self.groups]
        alone = [{n: v for n, v in part.items() if n not in self.agent_id_to_group} for part in (rewards, ends, infos)]
        for group in seen:
            members = self.groups[group]
            each = [rewards.get(agent) or 0 for agent in members]
            alone[0][group] = sum(each)
            alone[1][group] = all(ends.get(agent, False) for agent in members)
            alone[2][group] = {GROUP_INFO: [infos.get(agent, {}) for agent in members], GROUP_REWARDS: each}
        return joint, *alone

    def _grouped(self, items: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns observations with a list for each group that is present; all its members must be."""
        joint: dict[Any, Any] = {}
        for agent, item in items.items():
            group = self.agent_id_to_group.get(agent)
            if group is None:
                joint[agent] = item
            elif group not in joint:
                missing = [member for member in self.groups[group] if member not in items]
                if missing:
                    raise ValueError(f"group {group}: {missing[0]} has no observation, but {agent} has")
                joint[group] = [items[member] for member in self.groups[group]]
        return joint

    def render(self, mode: str | None = None) -> Any:
        return self.env.render()

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()


class TaskSettableEnv(Env):
    def sample_tasks(self, n_tasks: int) -> list[TaskType]:
        raise NotImplementedError(f"{type(self).__name__} has no sample_tasks()")

    def set_task(self, task: TaskType) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no set_task()")

    def get_task(self) -> TaskType:
        raise NotImplementedError(f"{type(self).__name__} has no get_task()")


def same_task(one: TaskType, other: TaskType) -> bool:
    """Returns whether two tasks are equal: numbers, texts, arrays, and lists and dicts of these."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_task(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_task, one, other))
    return bool(np.array_equal(one, other))


# --- PettingZoo -------------------------------------------------------------------------------------------------------


class _FromPettingZoo(MultiAgentEnv):
    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents = self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}
        self.observation_space = self.observation_spaces[self.agents[0]]
        self.action_space = self.action_spaces[self.agents[0]]
        self._seed: int | None = None

    def seed(self, seed: int | None = None) -> None:
        self._seed = seed

    def _begin(self) -> Any:
        seed, self._seed = self._seed, None
        return self.env.reset(seed=seed)

    def render(self, mode: str | None = None) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class PettingZooEnv(_FromPettingZoo):
    def reset(self) -> dict[Any, Any]:
        self._begin()
        return {self.env.agent_selection: self.env.observe(self.env.agent_selection)}

    def step(self, action: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        self.env.step(action[self.env.agent_selection])
        obs: dict[Any, Any] = {}
        rewards: dict[Any, Any] = {}
        ends: dict[Any, Any] = {}
        infos: dict[Any, Any] = {}
        while self.env.agents:
            agent = self.env.agent_selection
            obs[agent], rewards[agent], terminated, truncated, infos[agent] = self.env.last()
            ends[agent] = bool(terminated or truncated)
            if not ends[agent]:
                break
            self.env.step(None)
        return obs, rewards, {**ends, old_api.ALL: not self.env.agents}, infos


class ParallelPettingZooEnv(_FromPettingZoo):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.par_env = env

    def reset(self) -> dict[Any, Any]:
        obs: dict[Any, Any] = self._begin()[0]
        return obs

    def step(self, action_dict: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        obs, rewards, ends, infos = old_api.step(self.env, action_dict)
        over = all(ends.get(agent) for agent in self.env.agents)  # some environments keep agents that have ended
        return obs, rewards, {**ends, old_api.ALL: over}, infos


# --- vectorized environments ------------------------------------------------------------------------------------------


class VectorEnv:
    def __init__(self, observation_space: Any = None, action_space: Any = None, num_envs: int = 1) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.num_envs = num_envs

    @staticmethod
    def wrap(
        make_env: Callable[[int], Any] | None = None,
        existing_envs: list[Any] | None = None,
        num_envs: int = 1,
        action_space: Any = None,
        observation_space: Any = None,
        env_config: Any = None,
        policy_config: Any = None,
    ) -> VectorOfOldEnvs:
        return VectorOfOldEnvs(make_env, existing_envs, num_envs, action_space, observation_space)

    vectorize_gym_envs = wrap

    def vector_reset(self) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no vector_reset()")

    def reset_at(self, index: int | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no reset_at()")

    def vector_step(self, actions: list[Any]) -> tuple[list[Any], list[float], list[bool], list[Any]]:
        raise NotImplementedError(f"{type(self).__name__} has no vector_step()")

    def get_unwrapped(self) -> list[Any]:
        return []

    get_sub_environments = get_unwrapped

    def try_render_at(self, index: int | None = None) -> Any:
        return None


class VectorOfOldEnvs(VectorEnv):
    """Vectorizes single environments; see `VectorEnv.wrap`."""

    def __init__(
        self,
        make_env: Callable[[int], Any] | None = None,
        existing_envs: list[Any] | None = None,
        num_envs: int = 1,
        action_space: Any = None,
        observation_space: Any = None,
    ) -> None:
        self.envs = list(existing_envs or [])
        if make_env is None and len(self.envs) < num_envs:
            raise ValueError(f"VectorEnv.wrap: {len(self.envs)} copies, make_env must make the rest of {num_envs}")
        while make_env is not None and len(self.envs) < num_envs:
            self.envs.append(make_env(len(self.envs)))
        first = self.envs[0]
        super().__init__(
            observation_space or first.observation_space, action_space or first.action_space, len(self.envs)
        )

    def vector_reset(self) -> list[Any]:
        return [old_api.reset(env) for env in self.envs]

    def reset_at(self, index: int | None = None) -> Any:
        return old_api.reset(self.envs[index or 0])

    def vector_step(self, actions: list[Any]) -> tuple[list[Any], list[float], list[bool], list[Any]]:
        """Steps every environment; raises a ValueError if a reward is not finite."""
        shown = [old_api.step(env, action) for env, action in zip(self.envs, actions, strict=True)]
        obs, rewards, ends, infos = ([four[i] for four in shown] for i in range(4))
        for place, reward in enumerate(rewards):
            if np.ndim(reward) or not np.isfinite(reward):
                raise ValueError(f"environment {place}: reward {reward!r}, expected a finite number")
        return obs, rewards, ends, infos

    def get_unwrapped(self) -> list[Any]:
        return self.envs

    get_sub_environments = get_unwrapped

    def try_render_at(self, index: int | None = None) -> Any:
        return self.envs[index or 0].render()


class AsGymnasiumVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """RLlib's vector environment in Gymnasium's form, for Rookery; environments are reset on request."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(self, envs: Sequence[VectorEnv]) -> None:
        self.envs = list(envs)
        self.num_envs = sum(env.num_envs for env in self.envs)
        self.single_observation_space: Space[Any] = self.envs[0].observation_space
        self.single_action_space: Space[Any] = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._places = [(env, index) for env in self.envs for index in range(env.num_envs)]
        self._shown: list[Any] = []

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in the environments of ``options["reset_mask"]``, or in all."""
        seeds = seed if isinstance(seed, list | tuple | np.ndarray) else [seed] * self.num_envs
        mask = (options or {}).get("reset_mask")
        for (env, index), one in zip(self._places, seeds, strict=True):
            inner = env.get_unwrapped()
            if one is not None and index < len(inner) and callable(getattr(inner[index], "seed", None)):
                inner[index].seed(int(one))
        if mask is None:
            self._shown = [obs for env in self.envs for obs in env.vector_reset()]
        else:
            for place in np.flatnonzero(mask).tolist():
                env, index = self._places[place]
                self._shown[place] = env.reset_at(index)
        return self._joined(), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        each = list(iterate(self.action_space, actions))
        self._shown, rewards, ends, infos, start = [], [], [], [], 0
        for env in self.envs:
            obs, reward, end, info = env.vector_step(each[start : start + env.num_envs])
            start += env.num_envs
            self._shown += obs
            rewards += reward
            ends += end
            infos += info
        joined_infos: dict[str, Any] = {}
        for place, info in enumerate(infos):
            joined_infos = self._add_info(joined_infos, info or {}, place)
        cut = np.array([bool((info or {}).get(TRUNCATED)) for info in infos])
        over = np.array(ends, dtype=bool)
        return self._joined(), np.array(rewards, np.float64), over & ~cut, over & cut, joined_infos

    def _joined(self) -> Any:
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, self._shown, empty)


def vector_maker(make: Callable[[], VectorEnv]) -> Callable[..., AsGymnasiumVector]:
    """Returns a function of `num_envs` that makes a vector environment for Rookery, from a maker of RLlib's.

    Args:
        make: Maker of a `VectorEnv`; several are made if more environments are asked for than one has.
    """

    def made(num_envs: int) -> AsGymnasiumVector:
        first = make()
        if num_envs % first.num_envs:
            raise EnvError(f"{type(first).__name__} has {first.num_envs} environments; {num_envs} is not a multiple")
        return AsGymnasiumVector([first, *(make() for _ in range(num_envs // first.num_envs - 1))])

    made.__name__ = getattr(make, "__name__", "vector_env")
    return made


# --- single wrappers and functions ------------------------------------------------------------------------------------


class NormalizeActionWrapper(ActionWrapper):
    def action(self, action: Any) -> Any:
        box = self.env.action_space
        if not isinstance(box, spaces.Box):
            return action
        return np.clip(box.low + (np.asarray(action) + 1.0) * (box.high - box.low) / 2.0, box.low, box.high)


def add_reward_uncertainty(
    EnvClass: Any,
    reward_uncertainty_std: float,
    reward_uncertainty_mean: float = 0.0,
) -> Any:
    def step(self: Any, action: Any) -> Any:
        obs, rewards, done, info = EnvClass.step(self, action)
        return obs, self.reward_wrapper(rewards), done, info

    def reward_wrapper(self: Any, reward_dict: Mapping[Any, float]) -> dict[Any, float]:
        drawn = np.random.normal(reward_uncertainty_mean, reward_uncertainty_std, len(reward_dict))
        return {agent: reward + noise for (agent, reward), noise in zip(reward_dict.items(), drawn, strict=True)}

    return type(f"{EnvClass.__name__}WithNoise", (EnvClass,), {"step": step, "reward_wrapper": reward_wrapper})


def gym_env_creator(env_context: Mapping[str, Any], env_descriptor: str) -> Any:
    return make(env_descriptor, **env_context)


def check_env(env: Any, config: Any = None) -> None:
    """Steps an environment with random actions; raises a ConfigError that lists all violations of its contract."""
    found = findings(lambda: adapted(copy.deepcopy(env)), None, (), episodes=2, max_steps=1000, seed=0)
    problems = [": ".join(filter(None, (one.where, one.text))) for one in found if one.severity == "error"]
    if problems:
        raise ConfigError(*problems)
