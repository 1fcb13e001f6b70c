"""Which agents of an environment belong to which behaviour of a file.

In ML-Agents an agent says itself which behaviour it belongs to. Environments of ours name agents and groups, so a
behaviour is found by name: that of the agent, that of its group, or what is left of one of them without the number at
its end (``striker_0``). Where there is one behaviour and one kind of agents, they belong together whatever they are
called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rookery.compat.mlagents.options import RunOptions
from rookery.compat.mlagents.run_files import RESERVED, folder_name
from rookery.compat.mlagents.translate import BehaviorSpaces
from rookery.core.errors import ConfigError
from rookery.envs.base import Kind, VectorEnv
from rookery.envs.groups import groups_of

NUMBER = re.compile(r"[\s_-]*\d+$")
"""What follows the name of a behaviour in that of one of several agents."""


def behaviors_of(options: RunOptions, env: VectorEnv, called: str) -> dict[str, BehaviorSpaces]:
    """Gives what each behaviour of an environment sees and does.

    Args:
        options: Options of the run, with the names that the file knows.
        env: Copies of the environment.
        called: What the user calls it.

    Raises:
        ConfigError: If agents of two kinds belong to one behaviour, or a behaviour cannot be a folder's name.
    """
    named, kinds = list(options.behaviors), env.kinds
    if len(kinds) == 1 and len(named) <= 1:
        (kind,) = kinds
        name = named[0] if named else behavior_name(called)
        return {checked(name): BehaviorSpaces(kind.obs, kind.action)}
    groups = {agent: group for group, members in groups_of(env).items() for agent in members}
    found: dict[str, tuple[Kind, list[str]]] = {}
    for kind in kinds:
        for agent in kind.agents:
            name = matching(candidates(agent, groups.get(agent)), named)
            if name in found and found[name][0] is not kind:
                raise ConfigError(
                    f"behaviour {name!r}: {found[name][1][0]} observes {found[name][0].obs.space} and acts in "
                    f"{found[name][0].action.space}, {agent} observes {kind.obs.space} and acts in "
                    f"{kind.action.space}; name a behaviour for each"
                )
            found.setdefault(checked(name), (kind, []))[1].append(agent)
    return {name: BehaviorSpaces(kind.obs, kind.action, tuple(agents)) for name, (kind, agents) in found.items()}


def behavior_name(env: str) -> str:
    """Gives the name of the behaviour in an environment that says none: ``my.module:Basic`` has ``Basic``."""
    return folder_name(env.rpartition(":")[2])


def candidates(agent: str, group: str | None) -> Iterator[str]:
    """Gives the names that an agent's behaviour may have, the likeliest first."""
    for name in (agent, group):
        if name is not None:
            yield name
            if shorter := NUMBER.sub("", name):
                yield shorter


def matching(names: Iterator[str], known: Sequence[str]) -> str:
    """Gives the first of some names that a file knows, whatever the case; without one, the first without a number."""
    tried = list(names)
    lower = {name.lower(): name for name in reversed(known)}
    for name in tried:
        if name.lower() in lower:
            return lower[name.lower()]
    return tried[1] if len(tried) > 1 else tried[0]


def checked(name: str) -> str:
    """A name of a behaviour; raises a ConfigError if its folder would be one of the run's own."""
    if folder_name(name) in (*RESERVED, "", ".", ".."):
        raise ConfigError(f"behaviour {name!r}: a run has a folder of that name already; call it otherwise")
    return name


def agents_of(behaviors: Mapping[str, BehaviorSpaces]) -> dict[str, str]:
    """Gives the behaviour of each agent that is known by name."""
    return {agent: name for name, spaces in behaviors.items() for agent in spaces.agents}
