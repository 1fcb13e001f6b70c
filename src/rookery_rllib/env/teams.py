"""Teams of scripts of 2021: groups that QMIX learns, and agents of MADDPG, as the setting `teams` of Rookery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rookery.face import CENTRAL, ConfigError
from rookery_rllib.env.envs import ENV_STATE, GroupAgentsWrapper, MultiAgentEnv
from rookery_rllib.gym import old_api

TEAM = "team"
"""What the only team of MADDPG is called."""

TEAM_KIND = ("QMIX", "MADDPG")


class UngroupedEnv(MultiAgentEnv):
    """The environment inside a wrapper of groups, whose members say what they see by themselves.

    What an observation has under ``state`` is for the mixer alone.
    """

    def __init__(self, grouped: GroupAgentsWrapper) -> None:
        self.env = grouped.env
        self.groups = grouped.groups
        self.observation_spaces: dict[Any, Any] = {}
        self.action_spaces: dict[Any, Any] = {}
        for members in grouped.groups.values():
            seen_by, done_by = grouped.observation_space, grouped.action_space
            pairs = zip(_spaces("obs_space", seen_by, members), _spaces("act_space", done_by, members), strict=True)
            for agent, (seen, done) in zip(members, pairs, strict=True):
                self.observation_spaces[agent], self.action_spaces[agent] = _with_central(seen), done

    def reset(self) -> Any:
        return self._seen(old_api.reset(self.env))

    def step(self, action_dict: dict[Any, Any]) -> Any:
        obs, *rest = old_api.step(self.env, action_dict)
        return self._seen(obs), *rest

    def _seen(self, obs: Mapping[Any, Any]) -> dict[Any, Any]:
        grouped = self.observation_spaces
        return {agent: _renamed(one) if agent in grouped else one for agent, one in obs.items()}

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()


class SharesEnv(MultiAgentEnv):
    """An environment that gets choices as policies of MADDPG gave them in 2021: a share for each, 1 and zeros here."""

    def __init__(self, env: Any, action_spaces: Mapping[Any, Any]) -> None:
        self.env = env
        self._given = dict(action_spaces)
        for name in ("observation_space", "observation_spaces", "action_space", "action_spaces"):
            if getattr(env, name, None) is not None:
                setattr(self, name, getattr(env, name))

    def reset(self) -> Any:
        return old_api.reset(self.env)

    def step(self, action_dict: dict[Any, Any]) -> Any:
        return old_api.step(self.env, {agent: self._shares(agent, action) for agent, action in action_dict.items()})

    def _shares(self, agent: Any, action: Any) -> Any:
        by_agent: Mapping[Any, Any] = getattr(self.env, "action_spaces", None) or {}
        space = by_agent.get(agent, getattr(self.env, "action_space", None) or self._given.get(agent))
        return np.eye(int(space.n))[int(action) - int(space.start)] if isinstance(space, spaces.Discrete) else action

    def close(self) -> None:
        if hasattr(self.env, "close"):
            self.env.close()


def _spaces(name: str, given: Any, members: Sequence[Any]) -> Sequence[Space[Any]]:
    """The spaces of members, in their order; raises a ConfigError if they were not given so."""
    if not isinstance(given, spaces.Tuple) or len(given.spaces) != len(members):
        raise ConfigError(
            f"with_agent_groups: {name} is {given}, and must be a Tuple of {len(members)} spaces, one for each of "
            f"{', '.join(map(str, members))}"
        )
    return given.spaces


def _with_central(space: Space[Any]) -> Space[Any]:
    return spaces.Dict(_renamed(space.spaces)) if isinstance(space, spaces.Dict) else space


def _renamed(parts: Any) -> Any:
    """A Dict's parts, the state as what is for critics alone; anything else as it is."""
    if not isinstance(parts, Mapping):
        return parts
    return {CENTRAL if key == ENV_STATE else key: part for key, part in parts.items()}


def as_members(algorithm: str, env: Any, agents_spaces: Mapping[Any, Any]) -> Any:
    """Gives an environment of a script as members of teams act in it; raises a ConfigError for QMIX without groups."""
    if algorithm == "MADDPG":
        return SharesEnv(env, agents_spaces)
    if not isinstance(env, GroupAgentsWrapper):
        raise ConfigError(
            f"{algorithm}: {type(env).__name__} has no groups: give it env.with_agent_groups({{'group_1': [agents]}})"
        )
    if not hasattr(env, "observation_space") or not hasattr(env, "action_space"):
        raise ConfigError(f"{algorithm}: with_agent_groups: give it obs_space and act_space, Tuples of the members'")
    return UngroupedEnv(env)


def teams_of(algorithm: str, env: Any, agents: Sequence[Any]) -> dict[str, list[str]]:
    """Gives the teams that an algorithm learns: the groups of an environment, or all its agents."""
    if algorithm == "MADDPG":
        return {TEAM: [str(agent) for agent in agents]}
    groups = env.groups if isinstance(env, GroupAgentsWrapper) else {}
    return {str(group): [str(agent) for agent in members] for group, members in groups.items()}


def action_spaces_of(multiagent: Mapping[str, Any]) -> dict[Any, Any]:
    """Gives the action spaces of agents that the policies of a configuration have, by the number of the agent."""
    found: dict[Any, Any] = {}
    policies = multiagent.get("policies") or {}
    for entry in policies.values() if isinstance(policies, Mapping) else ():
        if isinstance(entry, list | tuple) and len(entry) == 4 and isinstance(entry[3], Mapping):
            found[entry[3].get("agent_id")] = entry[2]
    return found
