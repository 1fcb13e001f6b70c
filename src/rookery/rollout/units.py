"""Episodes of agents in lanes that never end: who ended together in a step, and what counts as one episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rookery.envs.base import Step, VectorEnv
from rookery.envs.groups import groups_of
from rookery.rollout.tables import RowTable


@dataclass
class Unit:
    """Agents whose episode ended in a step: one, or those of one group that ended together.

    Attributes:
        lane: Where they play.
        members: For each, its name, the table of its kind and its row there.
        group: Name of their group, if nobody of it plays on; None where there is none, or somebody does.
    """

    lane: int
    members: list[tuple[str, RowTable, int]] = field(default_factory=list)
    group: str | None = None


def ended_units(env: VectorEnv, tables: Sequence[RowTable], step: Step) -> list[Unit]:
    """Finds the agents that took part in an episode and ended in a step, by lane and group.

    Agents of lanes that were lost are left out.

    Args:
        env: The copies.
        tables: Who plays their rows, one for each kind, with those that acted in this step.
        step: What the environment showed.
    """
    groups = groups_of(env)
    group_of = {agent: group for group, agents in groups.items() for agent in agents}
    units: dict[tuple[int, str], Unit] = {}
    over = [rows.terminated | rows.truncated for rows in step.rows]
    for ended, table, kind in zip(over, tables, env.kinds, strict=True):
        for row in np.flatnonzero(ended & table.joined).tolist():
            lane, column = divmod(row, len(kind.agents))
            agent = kind.agents[column]
            if step.lost is None or not step.lost[lane]:
                unit = units.setdefault((lane, group_of.get(agent, agent)), Unit(lane))
                unit.members.append((agent, table, row))
    place = {agent: (number, at) for number, kind in enumerate(env.kinds) for at, agent in enumerate(kind.agents)}
    for (lane, name), unit in units.items():
        places = [place[agent] for agent in groups.get(name, ())]
        rows = [(number, lane * len(env.kinds[number].agents) + at) for number, at in places]
        if rows and all(over[number][row] or not tables[number].joined[row] for number, row in rows):
            unit.group = name
    return list(units.values())
