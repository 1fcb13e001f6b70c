"""`ExternalSpaces`: observation and action spaces of the agents of an external environment, as written in a file.

One agent:

    obs: {box: [4], low: -1, high: 1}
    action: {discrete: 2}

Several, by name; ``walker#`` is any number of agents ``walker#1``, ``walker#left``:

    agents:
      goalie:   {obs: {box: [8]}, action: {discrete: 3}}
      walker#:  {obs: {box: [6]}, action: {box: [2], low: -1, high: 1}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from rookery.core.errors import EnvError, SpaceError, nearest
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.core.spaces.space_files import written_space
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.async_copies.step_message import CopyBehavior
from rookery.envs.external.wire import MessageError
from rookery.envs.parameters import Parameter, read_declared

ANY = "#"
"""Last character of a name for any number of agents; each agent's name contains it."""


@dataclass(frozen=True)
class ExternalSpaces:
    """Agents with their observation and action spaces.

    Attributes:
        behaviors: By name; named agents with equal spaces share one.
        names: Behaviour by the name of a named agent.
        several: Whether observations, actions and rewards are dicts by agent.
        parameters: Parameters that episodes can be given.
    """

    behaviors: Mapping[str, CopyBehavior]
    names: Mapping[str, str]
    several: bool
    parameters: Mapping[str, Parameter]

    @property
    def only(self) -> str:
        """Returns the agent, if there is only one."""
        return AGENT

    @property
    def described(self) -> dict[str, CopyBehavior]:
        """Returns the behaviours of the agents, by the names under which they were written."""
        own = {agent: self.behaviors[behavior] for agent, behavior in self.names.items()}
        return own | {name + ANY: self.behaviors[name] for name in self.behaviors if not self.behaviors[name].names}

    def behavior_of(self, agent: str) -> tuple[str, CopyBehavior]:
        """Returns the behaviour of an agent, and its name.

        Raises:
            MessageError: If there is no such agent; with the nearest name.
        """
        name = self.names.get(agent)
        if name is None:
            before, mark, own = agent.partition(ANY)
            if not (mark and own and before in self.behaviors and not self.behaviors[before].names) or len(own) > 60:
                known = list(self.described)
                raise MessageError(
                    f"agent {agent[:60]!r} is unknown{nearest(agent[:60], known)}; use {', '.join(known)}"
                )
            name = before
        return name, self.behaviors[name]


def read_spaces(declared: Any) -> ExternalSpaces:
    """Reads the spaces from a file or from the arguments of `ExternalEnv`.

    Args:
        declared: ``obs`` and ``action`` of one agent, or ``agents`` with these two by agent; optionally ``parameters``.
            Spaces are written ones (`written_space`) or Gymnasium's.

    Raises:
        EnvError: If something is missing or cannot be used; the message names the place.
    """
    if not isinstance(declared, Mapping) or not declared:
        raise EnvError(
            "external: the spaces of the agents are missing: --spaces FILE with obs: {box: [4]} and action: "
            "{discrete: 2}"
        )
    several = "agents" in declared
    known = ("agents", "parameters") if several else ("obs", "action", "parameters")
    for key in declared:
        if key not in known:
            both = "; obs and action are given for each agent" if several and key in ("obs", "action") else ""
            raise EnvError(f"spaces.{key}: not known{nearest(str(key), list(known))}; use {', '.join(known)}{both}")
    agents = (
        declared["agents"] if several else {AGENT: {key: declared[key] for key in ("obs", "action") if key in declared}}
    )
    if not isinstance(agents, Mapping) or not agents:
        raise EnvError("spaces.agents: expected obs and action by the names of agents")
    if not isinstance(declared.get("parameters") or {}, Mapping):
        raise EnvError("spaces.parameters: expected a default, or (default, low, high), by the names of parameters")
    behaviors: dict[str, CopyBehavior] = {}
    names: dict[str, str] = {}
    for agent, entry in agents.items():
        place = f"spaces.agents.{agent}" if several else "spaces"
        behavior = _behavior(str(agent), entry, place)
        if {str(agent), f"{agent}{ANY}", str(agent).removesuffix(ANY)} & {*map(str, agents)} != {str(agent)}:
            raise EnvError(f"{place}: {agent} is given with and without #; give one of them another name")
        if str(agent).endswith(ANY):
            behaviors[str(agent)[:-1]] = behavior
            continue
        like = [name for name, one in behaviors.items() if one.names and (one.obs, one.action) == _pair(behavior)]
        name = like[0] if like else str(agent)
        members = (*behaviors[name].names, str(agent)) if like else (str(agent),)
        behaviors[name] = CopyBehavior(behavior.obs, behavior.action, (-1,) * len(members), members)
        names[str(agent)] = name
    return ExternalSpaces(
        behaviors, names, several, read_declared(declared.get("parameters") or {}, "spaces.parameters")
    )


def _pair(behavior: CopyBehavior) -> tuple[Any, Any]:
    return behavior.obs, behavior.action


def _behavior(agent: str, entry: Any, place: str) -> CopyBehavior:
    name = agent.removesuffix(ANY)
    if not name or ANY in name or "?" in name or len(agent) > 60:
        raise EnvError(f"{place}: names of agents have 1 to 60 characters, no ?, and # only at the end")
    if not isinstance(entry, Mapping):
        raise EnvError(f"{place}: expected obs and action")
    for key in ("obs", "action"):
        if key not in entry:
            raise EnvError(f"{place}.{key} is missing, as in {key}: {{discrete: 2}}")
        if not isinstance(entry[key], Mapping | spaces.Space):
            raise EnvError(f"{place}.{key}: {repr(entry[key])[:200]} is not a space, as in {key}: {{discrete: 2}}")
    for key in entry:
        if key not in ("obs", "action"):
            raise EnvError(f"{place}.{key}: not known{nearest(str(key), ['obs', 'action'])}; use obs, action")
    try:
        found = [
            written_space(entry[key], f"{place}.{key}") if isinstance(entry[key], Mapping) else entry[key]
            for key in ("obs", "action")
        ]
        return CopyBehavior(obs_spec(*found), action_spec(found[1]))
    except SpaceError as error:
        raise EnvError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None
