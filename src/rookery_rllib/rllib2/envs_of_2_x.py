"""Multi-agent environments of RLlib 2.x: `reset` takes a seed and returns infos, `step` returns five dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from rookery_rllib.env import envs
from rookery_rllib.gym import old_api

ALL = old_api.ALL


class MultiAgentEnv(envs.MultiAgentEnv):
    """A multi-agent environment, as of RLlib 2.x."""

    observation_space: Any = None
    action_space: Any = None
    observation_spaces: Any = None
    action_spaces: Any = None
    agents: Any = ()
    render_mode: str | None = None
    metadata: Mapping[str, Any] = {}
    spec: Any = None
    _rng: np.random.Generator | None = None

    @property
    def possible_agents(self) -> list[Any]:
        known = self.__dict__.get("possible_agents") or self.agents or self.__dict__.get("_agent_ids")
        if known:
            return list(known)
        given = self.observation_spaces
        by_agent = given if isinstance(given, Mapping) else getattr(self.observation_space, "spaces", None)
        return list(by_agent) if isinstance(by_agent, Mapping) else []

    @possible_agents.setter
    def possible_agents(self, agents: Any) -> None:
        self.__dict__["possible_agents"] = list(agents)

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        return len(self.possible_agents)

    @property
    def unwrapped(self) -> MultiAgentEnv:
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """A generator, seeded by `reset`."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Seeds `np_random`; subclasses return observations and infos by agent."""
        if type(self).reset is MultiAgentEnv.reset:
            raise NotImplementedError(f"{type(self).__name__} has no reset()")
        if seed is not None:
            self._rng = np.random.default_rng(seed)

    def get_agent_ids(self) -> set[Any]:
        return set(self.possible_agents)

    def get_observation_space(self, agent_id: Any) -> Any:
        return _of_agent(self.observation_spaces, self.observation_space, agent_id)

    def get_action_space(self, agent_id: Any) -> Any:
        return _of_agent(self.action_spaces, self.action_space, agent_id)

    def observation_space_contains(self, x: Mapping[Any, Any]) -> bool:
        return all(self.get_observation_space(agent).contains(value) for agent, value in x.items())

    def action_space_contains(self, x: Mapping[Any, Any]) -> bool:
        return all(self.get_action_space(agent).contains(value) for agent, value in x.items())

    def observation_space_sample(self, agent_ids: Any = None) -> dict[Any, Any]:
        return {agent: self.get_observation_space(agent).sample() for agent in agent_ids or self.possible_agents}

    def action_space_sample(self, agent_ids: Any = None) -> dict[Any, Any]:
        return {agent: self.get_action_space(agent).sample() for agent in agent_ids or self.possible_agents}

    def render(self, mode: str | None = None) -> Any:
        return None

    def close(self) -> None: ...


def _of_agent(by_agent: Any, one: Any, agent: Any) -> Space[Any]:
    """Returns the space of an agent: its own, its part of a Dict, or that of all agents."""
    if isinstance(by_agent, Mapping | spaces.Dict) and agent in by_agent:
        return by_agent[agent]
    inside = one.spaces if isinstance(one, spaces.Dict) else one
    if isinstance(inside, Mapping) and agent in inside:
        return inside[agent]
    return one  # type: ignore[no-any-return]


def make_multi_agent(env_name_or_creator: Any) -> type[MultiAgentEnv]:
    """Returns an environment of ``num_agents`` copies of a single-agent one, each with an agent of its number."""

    class CopiesEnv(MultiAgentEnv):
        def __init__(self, config: Mapping[str, Any] | None = None) -> None:
            given = {} if config is None else config
            rest = {key: value for key, value in given.items() if key != "num_agents"}
            made: Callable[[], Any] = (
                (lambda: gymnasium.make(env_name_or_creator, **rest))
                if isinstance(env_name_or_creator, str)
                else lambda: env_name_or_creator(rest)
            )
            self.envs = [made() for _ in range(given.get("num_agents", 1))]
            self.agents = self.possible_agents = list(range(len(self.envs)))
            self.observation_spaces = {place: env.observation_space for place, env in enumerate(self.envs)}
            self.action_spaces = {place: env.action_space for place, env in enumerate(self.envs)}
            self.over: set[int] = set()

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.over = set()
            shown = [env.reset(seed=None if seed is None else seed + at) for at, env in enumerate(self.envs)]
            return dict(enumerate(obs for obs, _ in shown)), dict(enumerate(info for _, info in shown))

        def step(self, action_dict: dict[Any, Any]) -> Any:
            shown = {at: self.envs[at].step(action) for at, action in action_dict.items()}
            parts: list[dict[Any, Any]] = [{at: five[place] for at, five in shown.items()} for place in range(5)]
            self.over |= {at for at in shown if parts[2][at] or parts[3][at]}
            everyone = len(self.over) == len(self.envs)
            parts[2][ALL], parts[3][ALL] = everyone and not all(parts[3].values()), everyone and all(parts[3].values())
            return tuple(parts)

        def render(self, mode: str | None = None) -> Any:
            return [env.render() for env in self.envs]

        def close(self) -> None:
            for env in self.envs:
                env.close()

    return CopiesEnv


class PettingZooEnv(MultiAgentEnv):
    """An environment of PettingZoo whose agents take turns."""

    def __init__(self, env: Any = None) -> None:
        self.env = env
        env.reset()
        self.agents = self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return {agent: self.env.observe(agent)}, {agent: self.env.infos.get(agent, {})}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        self.env.step(action_dict[self.env.agent_selection])
        parts: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
        while self.env.agents:
            agent = self.env.agent_selection
            for part, value in zip(parts, self.env.last(), strict=True):
                part[agent] = value
            if not (parts[2][agent] or parts[3][agent]):
                break
            self.env.step(None)
        over = not self.env.agents
        cut = over and bool(parts[3]) and all(parts[3].values())
        parts[2][ALL], parts[3][ALL] = over and not cut, cut
        return parts

    def render(self, mode: str | None = None) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class ParallelPettingZooEnv(MultiAgentEnv):
    """An environment of PettingZoo whose agents act at the same time."""

    def __init__(self, env: Any) -> None:
        self.par_env = env
        env.reset()
        self.agents = self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, infos = self.par_env.reset(seed=seed, options=options)
        return obs, infos or {}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        obs, rewards, terminateds, truncateds, infos = self.par_env.step(action_dict)
        ends = {agent: terminateds.get(agent) or truncateds.get(agent) for agent in {**terminateds, **truncateds}}
        over = not self.par_env.agents or (bool(ends) and all(ends.get(agent) for agent in self.par_env.agents))
        cut = over and bool(truncateds) and all(truncateds.values())
        return obs, rewards, {**terminateds, ALL: over and not cut}, {**truncateds, ALL: cut}, infos

    @property
    def get_sub_environments(self) -> Any:
        return self.par_env.unwrapped

    def render(self, mode: str | None = None) -> Any:
        return self.par_env.render()

    def close(self) -> None:
        self.par_env.close()


MultiAgentCartPole = make_multi_agent("CartPole-v1")
MultiAgentPendulum = make_multi_agent("Pendulum-v1")
MultiAgentMountainCar = make_multi_agent("MountainCarContinuous-v0")
