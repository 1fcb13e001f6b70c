"""Joint observations and actions of a team: the layouts of its members in one observation and one action.

A member is called by its number in the team, ``"0"``, ``"1"`` and so on, so that teams whose members are alike have
equal spaces, and one policy can play them. The observation of a team is a Dict with an entry for each member, flags
``alive`` (who acts in this decision: who does not shows zeros, and what is decided for it does nothing), the action
mask of all members' choices if any member has one, and what is for critics alone, ``central``, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import CENTRAL, MASK, ActionSpec, Leaf, ObsSpec, action_spec, mask_width, obs_spec

ALIVE = "alive"
"""Key of a team's observation for flags of the members that act."""


def member_keys(number: int) -> list[str]:
    """Returns the keys of a number of members, of equal length because a Dict space sorts its keys."""
    width = len(str(number - 1))
    return [f"{member:0{width}d}" for member in range(number)]


def team_specs(members: Sequence[tuple[ObsSpec, ActionSpec]]) -> tuple[ObsSpec, ActionSpec]:
    """Returns the layouts of a team's observations and actions.

    Args:
        members: What each member observes and does.

    Raises:
        SpaceError: If a member's actions cannot be part of a team's.
    """
    keys = member_keys(len(members))
    action = spaces.Dict(dict(zip(keys, (act.space for _, act in members), strict=True)))
    seen: dict[str, Any] = {key: _own(obs.space) for key, (obs, _) in zip(keys, members, strict=True)}
    seen[ALIVE] = spaces.MultiBinary(len(members))
    for obs, _ in members:
        if isinstance(obs.space, spaces.Dict) and CENTRAL in obs.space.spaces:
            seen.setdefault(CENTRAL, obs.space.spaces[CENTRAL])
    if any(obs.has_mask for obs, _ in members):
        seen[MASK] = spaces.MultiBinary(mask_width(action))
    return obs_spec(spaces.Dict(seen), action), action_spec(action)


def _own(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns the space of an observation without its mask and without the parts for critics."""
    if not isinstance(space, spaces.Dict):
        return space
    return spaces.Dict({key: part for key, part in space.spaces.items() if key not in (MASK, CENTRAL)})


@dataclass(frozen=True)
class TeamMember:
    """Location of one member's part in a team's arrays.

    Attributes:
        key: Key of the member in the team's spaces.
        obs: Layout of its observation, with its own paths.
        paths: Path in the team's observation of each of these leaves.
        action: Layout of its actions.
        choices: Which flags of the team's mask are its own.
        columns: Which elements of the team's stored actions are its own, part by part of its action.
    """

    key: str
    obs: ObsSpec
    paths: tuple[str, ...]
    action: ActionSpec
    choices: slice
    columns: tuple[int, ...]


def is_team(obs: ObsSpec, action: ActionSpec) -> bool:
    """Returns whether these are the layouts of a team."""
    own, acts = obs.space, action.space
    if not isinstance(own, spaces.Dict) or not isinstance(acts, spaces.Dict) or ALIVE not in own.spaces:
        return False
    return list(acts.spaces) == member_keys(len(acts.spaces)) and all(key in own.spaces for key in acts.spaces)


def members_of(obs: ObsSpec, action: ActionSpec) -> tuple[TeamMember, ...]:
    """Returns the members of a team, in their order.

    Args:
        obs: Layout of the team's observation, as returned by the environment or as network input.
        action: Layout of its actions.

    Raises:
        SpaceError: If these are not the layouts of a team.
    """
    if not is_team(obs, action):
        raise SpaceError(
            f"{obs.space} with actions {action.space} is not what a team sees and does: name the agents that act as "
            "one, as in teams: {blue: [a, b]} (docs/how-to/teams.md)"
        )
    assert isinstance(action.space, spaces.Dict)
    assert isinstance(obs.space, spaces.Dict)
    found, flag, part = [], 0, 0
    for key, space in action.space.spaces.items():
        own, plain = action_spec(space), not isinstance(obs.space.spaces[key], spaces.Dict | spaces.Tuple)
        leaves: list[Leaf] = []
        paths = []
        for leaf in obs.leaves:
            if leaf.path == key or leaf.path.startswith(f"{key}/"):
                leaves.append(replace(leaf, path="obs" if plain else leaf.path[len(key) + 1 :]))
                paths.append(leaf.path)
        count = len(own.parts) or 1
        columns = np.concatenate([np.arange(mine.start, mine.stop) for _, mine in action.parts[part : part + count]])
        ends = flag + sum(own.sizes)
        spec = ObsSpec(obs.space.spaces[key], tuple(leaves))
        found.append(TeamMember(key, spec, tuple(paths), own, slice(flag, ends), tuple(columns.tolist())))
        flag, part = ends, part + count
    return tuple(found)


def alike(members: Sequence[TeamMember]) -> list[list[int]]:
    """Groups the indices of members with equal observations and actions."""
    sorts: list[list[int]] = []
    for number, member in enumerate(members):
        for same in sorts:
            other = members[same[0]]
            if other.obs == member.obs and other.action == member.action:
                same.append(number)
                break
        else:
            sorts.append([number])
    return sorts
