"""Multi-agent environments with dicts by agent id, whose agents may appear, leave and take turns.

This is the form of RLlib's `MultiAgentEnv`. Agents with an observation must act next; an observation of an agent that
ends with the same step is its last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import Space, spaces

from rookery.envs.adapters.lane import (
    Agent,
    Breach,
    Lane,
    LaneStep,
    Spaces,
    agents_with_flag,
    info_masks,
    obs_and_infos,
    step_dicts,
    takes_seed,
)
from rookery.envs.samplers import Value

ALL = "__all__"


class DictLane(Lane):
    """A dict-style environment as a lane."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, _announced(env))
        self._alive: dict[Agent, None] = {}  # a dict, not a set, for its fixed order

    def spaces(self, agent: Agent) -> Spaces:
        """Returns observation and action space of an agent.

        They come from ``observation_spaces[agent]``, from ``get_observation_space(agent)``, or from
        ``observation_space``, by agent or one for all; likewise for actions.

        Raises:
            Breach: If none of these names the agent's spaces.
        """
        return space_of(self.env, "observation", agent), space_of(self.env, "action", agent)

    def reset(self, seed: int, parameters: Mapping[str, Value] | None = None) -> LaneStep:
        """Starts an episode; raises a Breach if `reset` does not return two dicts."""
        try:
            begun = self.begin(seed, parameters)
        except TypeError as error:
            if takes_seed(self.env):
                raise
            raise Breach(
                "reset() takes no seed, expected reset(seed=, options=) -> (obs, infos), and five dicts from step"
            ) from error
        obs, infos = obs_and_infos(begun, self.report)
        self._alive = dict.fromkeys(obs)
        return LaneStep(obs, masks=info_masks(infos), infos=infos)

    def read(self, given: Any) -> LaneStep:
        """Returns the content of a step from the environment's result.

        Raises:
            Breach: If the result is not five dicts, or lacks the flag for the whole episode.
        """
        obs, reward, terminateds, truncateds, infos = step_dicts(given, self.report)
        if ALL not in terminateds:
            everyone = "expected it to hold whether the episode is over for all agents"
            self.report(Breach(f'terminateds has no "{ALL}", {everyone}'))
        if not any(terminateds.values()) and not any(truncateds.values()):  # most steps end nothing
            for agent in obs:
                self._alive[agent] = None
            return LaneStep(obs, reward, masks=info_masks(infos), infos=infos)
        over, cut = (
            bool(agents_with_flag((ALL,), terminateds, "terminateds")),
            bool(agents_with_flag((ALL,), truncateds, "truncateds")),
        )
        terminated = agents_with_flag(self._alive, terminateds, "terminateds")
        truncated = agents_with_flag(self._alive, truncateds, "truncateds")
        if over or cut:
            rest = [agent for agent in self._alive if agent not in terminated and agent not in truncated]
            terminated += rest if over else []
            truncated += rest if cut else []
        left = {*terminated, *truncated}
        final = {agent: obs[agent] for agent in obs if agent in left}
        going_on = [agent for agent in obs if not (terminateds.get(agent) or truncateds.get(agent))]
        acting = {} if over or cut else {agent: obs[agent] for agent in going_on}
        self._alive = dict.fromkeys([*(agent for agent in self._alive if agent not in left), *acting])
        return LaneStep(acting, reward, terminated, truncated, final, info_masks(infos), over or cut, infos)


def space_of(env: Any, what: str, agent: Agent) -> Space[Any]:
    """Returns the ``observation`` or ``action`` space of an agent, from attributes or `get_*_space` of `env`.

    Raises:
        Breach: If none of these names the agent's space.
    """
    by_agent = _by_agent(getattr(env, f"{what}_spaces", None))
    get = getattr(env, f"get_{what}_space", None)
    common = getattr(env, f"{what}_space", None)
    found: Any = None
    if agent in by_agent:
        found = by_agent[agent]
    elif callable(get):
        with contextlib.suppress(KeyError, ValueError, NotImplementedError):  # a base class may have no spaces
            found = get(agent)
    if found is None:
        if agent in _by_agent(common):
            found = _by_agent(common)[agent]
        elif not _keyed_by_agent(env):
            found = common
    if isinstance(found, Space):
        return found
    known = ", ".join(map(str, by_agent or _announced(env))) or "none"
    raise Breach(f"no {what} space is known for this agent (known agents: {known})", agent)


def _by_agent(found: Any) -> Mapping[Any, Any]:
    """Returns the entries of a dict or a Dict space (whose own ``in`` tests values, not keys); none for any other
    object.
    """
    if isinstance(found, spaces.Dict):
        return found.spaces
    return found if isinstance(found, Mapping) else {}


def _keyed_by_agent(env: Any) -> bool:
    """Whether `observation_space` and `action_space` are Dict spaces with an entry for each agent."""
    obs, action = getattr(env, "observation_space", None), getattr(env, "action_space", None)
    return isinstance(obs, spaces.Dict) and isinstance(action, spaces.Dict) and set(obs) == set(action)


def _announced(env: Any) -> tuple[Agent, ...]:
    """Returns the agents that a dict-style environment announces; empty if it announces none."""
    for name in ("possible_agents", "observation_spaces", "agents"):
        known = getattr(env, name, None)
        if isinstance(known, list | tuple | Mapping) and known:
            return tuple(known)
    return tuple(env.observation_space) if _keyed_by_agent(env) else ()


def is_dict_style(env: Any) -> bool:
    """Whether `env` is declared as dict-style: by its base class, its agents or its spaces."""
    if any(base.__name__ == "MultiAgentEnv" for base in type(env).__mro__):
        return True
    by_agent = isinstance(getattr(env, "observation_spaces", None), Mapping)
    if by_agent or callable(getattr(env, "get_observation_space", None)):
        return True
    if isinstance(
        env, gymnasium.Env
    ):  # a single agent's Dict spaces can have equal keys, and `agents` can be any value
        return bool(getattr(env, "possible_agents", None))
    return bool(_announced(env))


def resets_to_agents(env: Any) -> bool:
    """Returns whether an environment without agent names, and not a Gymnasium one, resets to dicts by agent."""
    if isinstance(env, gymnasium.Env) or not callable(getattr(env, "reset", None)):
        return False
    space = getattr(env, "observation_space", None)
    if not isinstance(space, spaces.Space) or isinstance(space, spaces.Dict):
        return isinstance(space, spaces.Dict) and set(space) == set(getattr(env, "action_space", None) or ())
    try:
        result = env.reset(seed=0)
    except Exception:
        return False  # the back end's own first reset reports the error
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Mapping)
