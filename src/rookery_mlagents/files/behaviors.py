"""Maps the agents of an environment to behaviours: `match_behaviors`.

In Unity an agent says its behaviour and team, ``Striker?team=0``. Environments of ours name agents, and some of them
groups. An agent belongs to the behaviour that is called like it, or like its group; team, digits and separators at the
end and the difference of small and capital letters do not count, so that ``striker_1`` is of behaviour ``Striker``.
Where the file has one behaviour and all agents are of one kind, they are all of that; unless it has default_settings
too, and a name fits. Where it has several, and no agent or group is called like one, agents of one kind are of the
behaviour that is called like the environment, or else of the first whose name begins so.

Unity players say the behaviour of each agent themselves: `behaviors_of_players`. What a file has entries for beside may
appear later (`entries_to_come`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from gymnasium import spaces

from rookery.face import ActionSpec, ConfigError, EntitySet, Kind, ObsSpec, action_spec, behaviors_of, nearest, obs_spec
from rookery_mlagents.files.reading_behaviors import demonstrations_of
from rookery_mlagents.files.run_options import RunOptions

TEAM = re.compile(r"\?team=\d+$")
"""Separator between a behaviour's name and the team in an agent's name."""

NUMBERED = re.compile(r"[\s_.\-#:]*\d*$")
"""Separator between the name and the number of several agents of one kind."""


@dataclass(frozen=True)
class BehaviorSpaces:
    """Spaces of the agents of a behaviour.

    Attributes:
        obs: Observations.
        actions: Actions.
        agents: Names of the agents that belong to the behaviour; empty = all.
        goals: Paths of the leaves that are goals, as a Unity player states them; None = not stated.
    """

    obs: ObsSpec
    actions: ActionSpec
    agents: tuple[str, ...] = ()
    goals: tuple[str, ...] | None = None


def match_behaviors(
    options: RunOptions, kinds: Sequence[Kind], groups: Mapping[str, Sequence[str]] | None = None, env: str = ""
) -> dict[str, BehaviorSpaces]:
    """Finds the behaviour of every agent.

    Args:
        options: Options of the run.
        kinds: The agents of one copy of the environment, by their spaces.
        groups: The agents of each group that the environment names.
        env: Name of the environment, for agents of one kind whose name is no behaviour.

    Returns:
        By the names of behaviours, those of the file in its order.

    Raises:
        ConfigError: If an agent is of no behaviour of the file, agents of one behaviour see or do different things, or
            the name of a behaviour cannot be that of a policy; names both.
    """
    agents = {agent: kind for kind in kinds for agent in kind.agents}
    group_of = {agent: group for group, members in (groups or {}).items() for agent in members}
    named = {agent: _named_for(agent, group_of.get(agent), list(options.behaviors)) for agent in agents}
    by_name = options.default_settings is not None and any(named.values())
    if len(options.behaviors) == 1 and len(kinds) == 1 and not by_name:
        named = dict.fromkeys(agents, next(iter(options.behaviors)))
    elif len(kinds) == 1 and not any(named.values()):
        named = dict.fromkeys(agents, _called_after(env, list(options.behaviors)))
    if options.default_settings is not None:
        named = {agent: name or _base(group_of.get(agent, agent)) for agent, name in named.items()}
    lost = [agent for agent, name in named.items() if name is None]
    if lost and not options.behaviors:
        raise ConfigError(f"{options.file}: names no behaviour: add a section behaviors with an entry for each")
    if lost:
        there = ", ".join(options.behaviors)
        raise ConfigError(
            f"{options.file}: behaviors: the environment has an agent {lost[0]!r}, and no behaviour of the file is "
            f"called like it, its group or the environment{nearest(lost[0], list(options.behaviors))}; there are "
            f"{there}. Rename the behaviour, or add default_settings for all that have no entry"
        )
    found: dict[str, BehaviorSpaces] = {}
    for name in [*options.behaviors, *dict.fromkeys(str(name) for name in named.values())]:
        mine = tuple(agent for agent, other in named.items() if other == name)
        if not mine or name in found:
            continue
        _check_name(options, name)
        first = agents[mine[0]]
        for agent in mine:
            if agents[agent] is not first:
                raise ConfigError(
                    f"{options.file}: behaviors.{name}: agents {mine[0]!r} (sees {first.obs.space}, does "
                    f"{first.action.space}) and {agent!r} (sees {agents[agent].obs.space}, does "
                    f"{agents[agent].action.space}) cannot be of one behaviour: give each kind an entry"
                )
        found[name] = BehaviorSpaces(first.obs, first.action, mine)
    return found


def behaviors_of_players(
    options: RunOptions, kinds: Sequence[Kind], goals: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> dict[str, BehaviorSpaces]:
    """Finds the behaviours of Unity players, which name the behaviour of each agent.

    Args:
        options: Options of the run.
        kinds: The agents that players have shown.
        goals: Paths of the sensors that are goals, by behaviours with their teams; a behaviour that is not among
            them has not stated any.

    Returns:
        By the names of behaviours without their teams, those of the file in its order.

    Raises:
        ConfigError: If one has no entry in the file, and there are no default_settings; if two teams of one see or do
            different things, or its name cannot be that of a policy.
    """
    agents: dict[str, dict[str, Kind]] = {}
    for kind in kinds:
        for agent in kind.agents:
            agents.setdefault(behaviors_of(agent)[-1], {})[agent] = kind
    found = {}
    for name in [*(name for name in options.behaviors if name in agents), *agents]:
        options.of(name)  # refuses one that has no entry
        _check_name(options, name)
        (first, *others), mine = agents[name].values(), tuple(agents[name])
        if any(other.obs != first.obs or other.action != first.action for other in others):
            raise ConfigError(
                f"{options.file}: behaviors.{name}: agents of its teams see or do different things: give each team a "
                "behaviour of its own in the scene"
            )
        goal_paths = next((paths for behavior, paths in goals.items() if _without_team(behavior) == name), None)
        found[name] = BehaviorSpaces(first.obs, first.action, mine, goal_paths)
    return found


def entries_to_come(options: RunOptions, there: Mapping[str, BehaviorSpaces]) -> dict[str, BehaviorSpaces]:
    """Returns the behaviours of a file that have not appeared in a player yet, with placeholder spaces.

    Their settings are chosen so that they fit whatever the spaces will be. Only demonstrations are read for spaces,
    taken to be those of the first behaviour that is there: in scenes in which agents switch between behaviours, all
    have the same (`import_demonstrations` has those of the file as a second choice).
    """
    if not options.plays_unity or not there:
        return {}
    numbers = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    picture = spaces.Box(0, 255, (84, 84, 3), np.uint8)
    anything = spaces.Dict({"picture": picture, "numbers": numbers, "entities": EntitySet(numbers, 1)})
    first = next(iter(there.values()))
    found = {}
    for name, own in options.behaviors.items():
        if name not in there:
            found[name] = BehaviorSpaces(obs_spec(anything, numbers), action_spec(numbers))
            if any(demonstrations_of(own)):
                found[name] = BehaviorSpaces(first.obs, first.actions, (), first.goals)
    return found


def _check_name(options: RunOptions, name: str) -> None:
    """Raises an error for the name of a behaviour that is not a valid name of a policy."""
    if not name:
        raise ConfigError(f"{options.places.get('behaviors.', options.file)}: behaviors: a behaviour has no name")
    if "." in name or "@" in name:
        place = options.places.get(f"behaviors.{name}", options.file)
        raise ConfigError(
            f"{place}: behaviors.{name}: the name of a behaviour has to do without dots and @: it names files and "
            "paths of settings"
        )


def _named_for(agent: str, group: str | None, behaviors: Sequence[str]) -> str | None:
    """Returns the behaviour with the name of an agent, or of its group; None if there is none."""
    for label in (agent, group):
        if label is None:
            continue
        for known in (str, _without_team, _base):
            meant = known(label).casefold()
            exact = [name for name in behaviors if name.casefold() == meant]
            if exact:
                return exact[0]
    return None


def _called_after(env: str, behaviors: Sequence[str]) -> str | None:
    """Returns the behaviour with the name of an environment, else the first whose name begins with it; None if there is
    none.
    """
    wanted = env.casefold()
    same = [name for name in behaviors if _base(name).casefold() == wanted]
    alike = [name for name in behaviors if wanted and name.casefold().startswith(wanted)]
    return next(iter((*same, *alike)), None)


def _without_team(label: str) -> str:
    return TEAM.sub("", label)


def _base(label: str) -> str:
    """Returns a name without its team and its number; the name itself if nothing else is left."""
    without = _without_team(label)
    return NUMBERED.sub("", without) or without
