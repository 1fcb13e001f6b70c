"""State that the loops of a worker advance: policies of the rows, running episodes, and counters.

`RolloutWorker` adds policies, weights and checkpoints; the loops (`loops/loop.py`) make vector steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.core.process.activity import is_noted
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import Tree
from rookery.core.timers import Timer, Timers
from rookery.envs.base import SeedPlan, Step, VectorEnv, has_own_episodes
from rookery.envs.groups import groups_of
from rookery.envs.parameters import EpisodePlan, NotifyingPlan, lessons_of, parameters_of
from rookery.rollout.hooks import EpisodeListeners, EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.tables import RowTable


@dataclass(frozen=True)
class EndedEpisodes:
    """Episodes that have ended in a call, E of them in that order.

    Attributes:
        lane: ``[E]`` lane of each.
        index: ``[E]`` its number there.
        step: ``[E]`` steps of the call until its end, its last one included.
        length: ``[E]`` its steps.
        earned: ``[E, agents]`` return of each agent.
    """

    lane: np.ndarray
    index: np.ndarray
    step: np.ndarray
    length: np.ndarray
    earned: np.ndarray

    def but(self, these: np.ndarray) -> EndedEpisodes:
        """Returns all but those of `these`, ``[E]`` bool."""
        return EndedEpisodes(*(each[~these] for each in (self.lane, self.index, self.step, self.length, self.earned)))


def episodes_of(
    step: np.ndarray, lane: np.ndarray, earned: np.ndarray, made: int, lengths: np.ndarray, episode: np.ndarray
) -> EndedEpisodes:
    """Returns the episodes that have ended in a call.

    Args:
        step: ``[E]`` step of the call, from 0, in which each ended, ascending.
        lane: ``[E]`` its lane.
        earned: ``[E, agents]`` return of each agent.
        made: Steps of the call.
        lengths: ``[lanes]`` steps of the running episodes; changed in place.
        episode: ``[lanes]`` number of each lane's episode before the call.
    """
    if not len(lane):  # usual where a call makes few steps, when each operation would cost time
        lengths += made
        return EndedEpisodes(lane, lane, step, step, earned)
    order, place = np.argsort(lane, kind="stable"), np.arange(len(lane))
    lanes, ends = lane[order], step[order]
    first = np.diff(lanes, prepend=-1) != 0  # of its lane in this call
    before, length = np.empty_like(lane), np.empty_like(step)
    before[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    length[order] = np.where(first, ends + 1 + lengths[lanes], np.diff(ends, prepend=0))
    lengths += made
    lengths[lane] = made - 1 - step  # of several episodes of a lane the last one counts
    return EndedEpisodes(lane, episode[lane] + before, step + 1, length, earned)


class WorkerState:
    """Vectorized environments and the policies in them. `RolloutWorker` extends it, and lists the saved attributes.

    Args:
        env: The environments.
        mapping: Policy of each agent.
        streams: Random streams of the run.
        seeds: Seed of each episode.
        timers: Timers to add to.
        deterministic: Take the most probable action instead of a drawn one.
    """

    def __init__(
        self,
        env: VectorEnv,
        mapping: PolicyMapping,
        streams: Streams,
        seeds: SeedPlan,
        timers: Timers,
        deterministic: bool,
    ) -> None:
        self.env = env
        self.mapping = mapping
        self.streams = streams
        self.seeds = seeds
        self.timers = timers
        self.deterministic = deterministic
        self.is_watched = is_noted()
        """Whether another process monitors the steps of this worker."""
        self.draws = isinstance(seeds, EpisodePlan | NotifyingPlan)
        """Whether episodes may have drawn parameters or lessons."""
        self.listeners: EpisodeListeners | None = None
        self.policies: dict[str, WorkerPolicy] = {}
        self.now: Step | None = None
        self.tables: list[RowTable] = []
        self.layout = -1
        self.lengths = np.zeros(env.num_lanes, dtype=np.int64)
        self.finished: list[EpisodeResult] = []
        self.groups = tuple(groups_of(env))
        """Names of the environment's groups of agents."""
        self.own_episodes = has_own_episodes(env)
        """Whether agents, or their groups, have their own episodes, in lanes that never end."""
        self.first_of_groups: list[list[tuple[int, int]]] = []
        """Per kind, the groups whose first member belongs to it: number of the group, and column of that member."""
        self.group_returns = np.zeros((env.num_lanes, len(self.groups)))
        """``[lanes, groups]`` group rewards summed over the running episode."""
        self.env_steps = 0
        self.vector_steps = 0
        self.standstills = 0
        """Lanes that did not step, summed over vector steps."""
        self.finals_stale = 0
        """Truncated agents that did not have to act: their final observation is an older one."""
        self.asked: dict[tuple[int, int], str] = {}
        """Policy of an agent, by the numbers of its kind and row, as long as that policy is missing."""
        self.rewards_unclaimed = 0
        """Rewards of agents that have never had to act."""
        self.actions_not_learned = 0
        """Actions chosen by agents themselves that their learners cannot learn from."""

    # --- policies of rows ---------------------------------------------------------------------------------------------

    def sole_policy(self) -> WorkerPolicy | None:
        """Returns the policy of all rows, each in the slot of its number, if nothing has to be done between two vector
        steps; else None.
        """
        between = self.listeners is not None or self.deterministic or not self.mapping.is_static
        if between or self.groups or self.own_episodes:
            return None
        (table,) = self.tables
        alone = table.all_acted and len(table.acted) == 1 and table.acted[0].slots is None
        return table.acted[0].policy if alone and not table.acted[0].policy.reads_infos else None

    def lay_out(self) -> None:
        """Creates a table for each kind; rows keep their policies when an agent or a kind was added."""
        lanes = self.env.num_lanes
        for number, kind in enumerate(self.env.kinds):
            width = len(kind.agents)
            if number == len(self.tables):
                self.tables.append(RowTable(lanes * width))
            elif len(self.tables[number].slot_of) != lanes * width:
                old = self.tables[number]
                table = self.tables[number] = old.widened(lanes, len(old.slot_of) // lanes, width)
                for policy in self.policies.values():
                    held = np.flatnonzero(table.policy_of == policy.number)
                    policy.row_of_slot[table.slot_of[held]] = held
        self.layout = self.env.layout
        self._place_groups()

    def _place_groups(self) -> None:
        """Finds the columns from which the reward of each group is read."""
        members = enumerate(groups_of(self.env).values())
        firsts = [(group, agents[0]) for group, agents in members]
        self.groups = tuple(groups_of(self.env))  # may have grown
        more = len(self.groups) - self.group_returns.shape[1]
        self.group_returns = np.pad(self.group_returns, ((0, 0), (0, max(more, 0))))
        self.first_of_groups = [
            [(group, kind.agents.index(agent)) for group, agent in firsts if agent in kind.agents]
            for kind in self.env.kinds
        ]

    # --- episodes -----------------------------------------------------------------------------------------------------

    def standing(self, lane: int, index: int) -> EpisodeResult:
        """Returns the running episode of a lane as if it ended here.

        Args:
            lane: The lane.
            index: Number of the episode in that lane.
        """
        agents: dict[str, float] = {}
        policies: dict[str, str] = {}
        known = list(self.policies.values())
        total = 0.0
        for table, kind in zip(self.tables, self.env.kinds, strict=True):
            width = len(kind.agents)
            mine = slice(lane * width, (lane + 1) * width)
            returns = table.returns[mine].tolist()
            total += sum(returns)
            columns = table.joined[mine].tolist(), table.policy_of[mine].tolist(), table.slot_of[mine].tolist()
            for agent, earned, joined, player, slot in zip(kind.agents, returns, *columns, strict=True):
                if joined:
                    agents[agent], policies[agent] = earned, known[player].display_name(slot)
        groups = dict(zip(self.groups, self.group_returns[lane].tolist(), strict=True))
        total += sum(groups.values())
        drawn = self.drawn(lane, index) if self.draws else {}
        earned = lane, index, int(self.lengths[lane]), total, agents, policies
        return EpisodeResult(*earned, **drawn, groups=groups, vector_step=self.vector_steps)

    def drawn(self, lane: int, index: int) -> dict[str, Any]:
        """Returns parameters and lessons of an episode, by their names in `EpisodeResult`."""
        return {
            "parameters": parameters_of(self.seeds, lane, index),
            "lessons": lessons_of(self.seeds, lane, index),
        }

    def finish(self, lane: int, index: int, step: Step) -> None:
        """Records an ended episode of a lane; for policies that may change with the next one, the mapping is called
        again.
        """
        result = self.standing(lane, index)
        for table, kind, rows in zip(self.tables, self.env.kinds, step.rows, strict=True):
            width = len(kind.agents)
            mine = slice(lane * width, (lane + 1) * width)
            table.begin_anew(mine, keep_players=self.mapping.is_static and all(rows.waiting[mine].tolist()))
        self.lengths[lane] = 0
        self.group_returns[lane] = 0.0
        if self.listeners is not None:
            result = self.listeners.end(result, step, self.tables)
            self.listeners.begin(lane, step)
        self.finished.append(result)

    def count_steps(
        self, mine: WorkerPolicy, made: int, ended: EndedEpisodes, seconds: Mapping[str, float], timer: Timer
    ) -> None:
        """Counts vector steps that a loop has made in one call, and records the episodes that ended in them.

        Args:
            mine: The policy of all rows.
            made: Vector steps.
            ended: The episodes.
            seconds: Time spent, by part.
            timer: The timer of the call, to which the parts are added.
        """
        for part, spent in seconds.items():
            timer.add(part, spent, made)
        agents = self.env.kinds[0].agents
        ends = (ended.lane, ended.index, self.vector_steps + ended.step, ended.length, ended.earned)
        for lane, index, at, length, earned in zip(*(each.tolist() for each in ends), strict=True):
            each, players = dict(zip(agents, earned, strict=True)), dict.fromkeys(agents, mine.of)
            drawn = self.drawn(lane, index) if self.draws else {}
            self.finished.append(
                EpisodeResult(lane, index, length, 0.0 + sum(earned), each, players, **drawn, vector_step=at)
            )
        self.vector_steps, self.env_steps = self.vector_steps + made, self.env_steps + made * self.env.num_lanes

    def forget(self, lane: int) -> None:
        """Drops the episode of a lane; for policies that may change with the next one, the mapping is called again."""
        for table, kind in zip(self.tables, self.env.kinds, strict=True):
            table.begin_anew(slice(lane * len(kind.agents), (lane + 1) * len(kind.agents)))
        self.lengths[lane] = 0
        self.group_returns[lane] = 0.0

    def abandon(self, lane: int, seen: list[Tree]) -> None:
        """Cuts off the open decisions of a lane whose episode cannot be resumed.

        Args:
            lane: The lane.
            seen: Current slabs of observations, one per kind.
        """
        policies = list(self.policies.values())
        for table, kind, slab in zip(self.tables, self.env.kinds, seen, strict=True):
            width = len(kind.agents)
            for row in range(lane * width, (lane + 1) * width):
                if table.policy_of[row] >= 0:
                    policies[table.policy_of[row]].interrupt(int(table.slot_of[row]), slab, row)
        self.forget(lane)

    # --- counters -----------------------------------------------------------------------------------------------------

    @property
    def lane_steps(self) -> int:
        """Steps of all lanes so far: environment steps, and steps in which a lane rested."""
        return self.vector_steps * self.env.num_lanes - self.standstills

    @property
    def resting(self) -> bool:
        """Whether no agent can act, because all environments rest."""
        return self.now is not None and self.now.any_rest and bool(self.now.at_rest().all())

    def running_lengths(self) -> tuple[int, int]:
        """Returns the summed lengths of the running episodes, of lanes, or of agents where these have their own; and
        the number of these episodes.
        """
        lengths = [self.lengths]
        if self.own_episodes:
            lengths = [table.decisions[table.joined] for table in self.tables]
        return sum(int(some.sum()) for some in lengths), sum(map(len, lengths))

    def counters(self) -> dict[str, int]:
        """Returns counters of data that could not be learned from, so far."""
        stores = [policy.store for policy in self.policies.values() if policy.store is not None]
        rested = self.lane_steps - self.env_steps
        return {
            "finals_stale": self.finals_stale,
            "rewards_without_decision": self.rewards_unclaimed
            + sum(store.rewards_without_decision for store in stores),
            **({"resting_steps": rested} if rested else {}),
            **({"actions_not_learned": self.actions_not_learned} if self.actions_not_learned else {}),
            **self.env.counters,
        }
