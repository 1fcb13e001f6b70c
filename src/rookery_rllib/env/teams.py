"""Teams of scripts of 2021: groups of QMIX and agents of MADDPG, as Rookery's setting `teams`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rookery.face import CENTRAL, ConfigError
from rookery_rllib.env.envs import ENV_STATE, GroupAgentsWrapper, MultiAgentEnv
from rookery_rllib.gym import old_api

TEAM = "team"
"""Name of the only team of MADDPG."""

TEAM_KIND = ("QMIX", "MADDPG")


class UngroupedEnv(MultiAgentEnv):
    """The environment inside a group wrapper, with observations per member.

    The key ``state`` of an observation is for the mixer alone.
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
    """Passes discrete actions as MADDPG's policies did in 2021: as probabilities, here one-hot."""

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
    """Returns the spaces of members, in their order; raises a ConfigError for another form."""
    if not isinstance(given, spaces.Tuple) or len(given.spaces) != len(members):
        raise ConfigError(
            f"with_agent_groups: {name} is {given}, and must be a Tuple of {len(members)} spaces, one for each of "
            f"{', '.join(map(str, members))}"
        )
    return given.spaces


def _with_central(space: Space[Any]) -> Space[Any]:
    return spaces.Dict(_renamed(space.spaces)) if isinstance(space, spaces.Dict) else space


def _renamed(parts: Any) -> Any:
    """Renames the state in a Dict to the part for critics; other observations are unchanged."""
    if not isinstance(parts, Mapping):
        return parts
    return {CENTRAL if key == ENV_STATE else key: part for key, part in parts.items()}


def as_members(algorithm: str, env: Any, agents_spaces: Mapping[Any, Any]) -> Any:
    """Wraps a script's environment for members of teams; raises a ConfigError for QMIX without groups."""
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
    """Returns the teams of an algorithm: the groups of an environment, or all its agents."""
    if algorithm == "MADDPG":
        return {TEAM: [str(agent) for agent in agents]}
    groups = env.groups if isinstance(env, GroupAgentsWrapper) else {}
    return {str(group): [str(agent) for agent in members] for group, members in groups.items()}


def action_spaces_of(multiagent: Mapping[str, Any]) -> dict[Any, Any]:
    """Returns the action spaces of the policies in a configuration, by agent index."""
    found: dict[Any, Any] = {}
    policies = multiagent.get("policies") or {}
    for entry in policies.values() if isinstance(policies, Mapping) else ():
        if isinstance(entry, list | tuple) and len(entry) == 4 and isinstance(entry[3], Mapping):
            found[entry[3].get("agent_id")] = entry[2]
    return found
