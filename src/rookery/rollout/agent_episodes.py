"""Episodes of agents in lanes that never end: agents whose episodes end together in a step count as one episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rookery.envs.base import Step, VectorEnv
from rookery.envs.groups import groups_of
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.tables import RowTable
from rookery.rollout.worker_state import WorkerState


@dataclass
class AgentEpisode:
    """Agents whose episode ended in a step: one agent, or the members of one group that ended together.

    Attributes:
        lane: Their lane.
        members: For each, its name, the table of its kind and its row there.
        group: Name of their group, if no member plays on; None without a group, or if a member does.
    """

    lane: int
    members: list[tuple[str, RowTable, int]] = field(default_factory=list)
    group: str | None = None


def finished_agent_episodes(env: VectorEnv, tables: Sequence[RowTable], step: Step) -> list[AgentEpisode]:
    """Returns the agents that took part in an episode and ended in a step, by lane and group.

    Agents of lost lanes are left out.

    Args:
        env: The environments.
        tables: Policies of their rows, one table per kind, with the rows that acted in this step.
        step: Result of the vector step.
    """
    groups = groups_of(env)
    group_of = {agent: group for group, agents in groups.items() for agent in agents}
    episodes: dict[tuple[int, str], AgentEpisode] = {}
    over = [rows.terminated | rows.truncated for rows in step.rows]
    for ended, table, kind in zip(over, tables, env.kinds, strict=True):
        for row in np.flatnonzero(ended & table.joined).tolist():
            lane, column = divmod(row, len(kind.agents))
            agent = kind.agents[column]
            if step.lost is None or not step.lost[lane]:
                episode = episodes.setdefault((lane, group_of.get(agent, agent)), AgentEpisode(lane))
                episode.members.append((agent, table, row))
    place = {agent: (number, at) for number, kind in enumerate(env.kinds) for at, agent in enumerate(kind.agents)}
    for (lane, name), episode in episodes.items():
        places = [place[agent] for agent in groups.get(name, ())]
        rows = [(number, lane * len(env.kinds[number].agents) + at) for number, at in places]
        if rows and all(over[number][row] or not tables[number].joined[row] for number, row in rows):
            episode.group = name
    return list(episodes.values())


def record_agent_episodes(state: WorkerState, step: Step, playing: np.ndarray) -> None:
    """Counts the decisions of agents; records episodes of agents, or of their groups, in lanes that never end."""
    for table in state.tables:
        for route in table.acted:
            table.decisions[route.rows] += 1
    known = list(state.policies.values())
    episodes = finished_agent_episodes(state.env, state.tables, step) if step.any_end else []
    for episode in episodes:
        lane, index = episode.lane, int(playing[episode.lane])
        agents = {agent: float(table.returns[row]) for agent, table, row in episode.members}
        policies = {
            agent: known[table.policy_of[row]].display_name(int(table.slot_of[row]))
            for agent, table, row in episode.members
        }
        groups = {}
        if episode.group is not None:
            number = state.groups.index(episode.group)
            groups = {episode.group: float(state.group_returns[lane, number])}
            state.group_returns[lane, number] = 0.0
        length = max(int(table.decisions[row]) for _, table, row in episode.members)
        total = sum(agents.values()) + sum(groups.values())
        earned = lane, index, length, total, agents, policies
        drawn = state.drawn(lane, index) if state.draws else {}
        result = EpisodeResult(*earned, **drawn, groups=groups, vector_step=state.vector_steps)
        if state.listeners is not None:
            result = state.listeners.end(result, step, state.tables)
            state.listeners.begin(lane, step)
        state.finished.append(result)
        state.lengths[lane] = 0  # steps since an episode last ended in the lane
    for episode in episodes:
        for _, table, row in episode.members:
            waits = bool(step.rows[state.tables.index(table)].waiting[row])
            table.begin_anew(slice(row, row + 1), keep_players=state.mapping.is_static and waits)
