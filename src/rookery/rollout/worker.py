"""Playing: environments are stepped from one call, `RolloutWorker.sample`, whose result is all experience.

It makes one vector step at a time, or leaves many to one of three other loops, each a `loops/native.py:ManySteps`:
`envs/vector/burst.py` (helper processes that decide by themselves), `envs/native/sources/playing.c` (environments in C)
and `loops/device.py` (environments of tensors). Tests hold their rows against those of this loop, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch

from rookery.core.batch import Demand, Rollout
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.process.activity import RESET, STEP, note_activity
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import users_modes
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import Tree
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase, VectorEnv, has_own_episodes
from rookery.envs.groups import groups_of
from rookery.envs.parameters import EpisodePlan, lessons_of, parameters_of
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeListeners, EpisodeResult
from rookery.rollout.ladder import LadderPolicy
from rookery.rollout.loops.helper_process import fragment_player
from rookery.rollout.loops.native import EndedEpisodes, ManySteps
from rookery.rollout.loops.stepping import Stepping, stepping
from rookery.rollout.mapping import NOW, SNAPSHOT, EpisodeInfo, OpponentMapping, PolicyMapping
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.stack import SnapshotStack
from rookery.rollout.storage import Outcome
from rookery.rollout.tables import Route, RowTable
from rookery.rollout.units import ended_units


@dataclass(slots=True)
class Sample:
    """What came of playing, and where it stands.

    Attributes:
        rollouts: Experience of each policy whose demand is met. Its tensors live in the worker's memory until it plays
            on.
        newcomers: Policies that agents are mapped to and that nobody has added yet, with the kind of these agents.
            Nothing more is played until they are added.
        finished: Episodes that ended, in the order they ended.
        env_steps: Environment steps so far.
        lane_steps: These, and those in which copies rested.
        resting: Whether all copies rest, so that nothing comes of playing for now.
        running_length: Mean length of the episodes that are running.
        counters: What could not be learned from as it should, so far.
    """

    rollouts: dict[str, Rollout]
    newcomers: dict[str, Kind]
    finished: list[EpisodeResult]
    env_steps: int
    lane_steps: int
    resting: bool
    running_length: float
    counters: dict[str, int]


class RolloutWorker(Stateful):
    """Plays policies in many copies of an environment and keeps what happened.

    Args:
        env: The copies.
        mapping: Which policy plays which agent.
        streams: Random streams of the run.
        seeds: Seed of each episode.
        timers: Where to count time.
        deterministic: Play the most likely action instead of a drawn one.
        interrupt: Sampling ends early, between two vector steps, when a signal has come.
    """

    state_version = 2
    saved = ("policies", "tables", "layout", "env_steps", "vector_steps", "standstills", "lengths", "finished", "asked",
             "version", "group_returns", "finals_stale", "rewards_unclaimed", "actions_not_learned")  # fmt: skip
    # `now` is what the environment shows: it comes from the environment's own state, and `listeners` go with that
    fixed = ("env", "mapping", "streams", "seeds", "lanes_in_run", "timers", "deterministic", "interrupt",
             "listeners", "unheard", "stepping", "now", "groups", "own_episodes", "fragments", "make_store",
             "_firsts", "_lost")  # fmt: skip

    def __init__(
        self,
        env: VectorEnv,
        mapping: PolicyMapping,
        streams: Streams,
        seeds: SeedPlan,
        timers: Timers,
        deterministic: bool = False,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.env = env
        self.mapping = mapping
        self.streams = streams
        self.seeds = seeds
        self.timers = timers
        self.deterministic = deterministic
        self.interrupt = interrupt
        self.lanes_in_run: int | None = None
        """Lanes of the whole run; None = those that are here."""
        self.listeners: EpisodeListeners | None = None
        self.unheard: dict[str, Any] | None = None
        """The state of listeners that are not here, until playing goes on."""
        self.policies: dict[str, WorkerPolicy] = {}
        self.now: Step | None = None
        self.tables: list[RowTable] = []
        self.layout = -1
        self.lengths = np.zeros(env.num_lanes, dtype=np.int64)
        self.finished: list[EpisodeResult] = []
        self.groups = tuple(groups_of(env))
        """Names of the groups of agents that the environment names."""
        self.own_episodes = has_own_episodes(env)
        """Whether episodes are those of agents, or of their groups, in lanes that never end."""
        self.fragments: ManySteps | None = fragment_player(env)
        """Plays many steps in one call, where environment and policy can; None where they cannot."""
        self.make_store: Callable[..., SlotStore] = SlotStore
        """Makes what keeps the decisions of a policy."""
        self._firsts: list[list[tuple[int, int]]] = []  # of each kind, the groups whose first member it has: its column
        self.group_returns = np.zeros((env.num_lanes, len(self.groups)))
        """``[lanes, groups]`` what each group got in the running episode."""
        self.env_steps = 0
        self.vector_steps = 0
        self.standstills = 0
        """Lanes that did not step, added up over vector steps."""
        self.version = 0
        self.finals_stale = 0
        """Truncated agents that were not on turn: their final observation is an older one."""
        self.asked: dict[tuple[int, int], str] = {}
        """Who plays an agent, by the numbers of its kind and row, as long as that policy is not here yet."""
        self.stepping: Stepping | None = None
        """How environments are stepped; None: by a plain call."""
        self.rewards_unclaimed = 0
        """Rewards of agents that had never had to act yet."""
        self.actions_not_learned = 0
        """Actions of agents by themselves that their learners cannot learn from."""
        self._lost = np.zeros(env.num_lanes, dtype=bool)

    # --- state --------------------------------------------------------------------------------------------------------

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 that there were neither environment parameters nor opponents to draw."""
        return {"plan": None, "mapping": None, **state}

    def state_dict(self) -> dict[str, Any]:
        """Everything, the environments in the middle of their episodes included."""
        state = super().state_dict()
        state["finished"] = [asdict(episode) for episode in self.finished]
        state["env"] = None if self.now is None else self._env_state()
        state["plan"] = self.seeds.state_dict() if isinstance(self.seeds, EpisodePlan) else None
        state["mapping"] = self.mapping.state_dict() if isinstance(self.mapping, OpponentMapping) else None
        state["listeners"] = self.unheard if self.listeners is None else self.listeners.state_dict()
        return state

    def _env_state(self) -> dict[str, Any]:
        """The environments in the middle of their episodes."""
        with users_modes():
            return self.env.state_dict()

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Takes up the environments alone, which comes before `load_state_dict`.

        Args:
            state: What `state_dict` gave.

        Returns:
            The policies in `state` that have not been added yet, with the kind of agents that they play; they must be
            added before `load_state_dict`.

        Raises:
            EnvError: If the state is of another environment.
        """
        state = self.upgraded(state)
        if isinstance(self.seeds, EpisodePlan) and state["plan"] is not None:
            self.seeds.load_state_dict(state["plan"])
        if state["env"] is not None:
            with users_modes():
                self.now, self._lost = self.env.load_state_dict(state["env"], self.seeds)
        return {
            name: self.env.kinds[saved["kind"]]
            for name, saved in state["policies"].items()
            if name not in self.policies and SNAPSHOT not in name
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, after `load_env`.

        Raises:
            KeyError: If there are policies that the state does not have, or what is saved of one differs.
        """
        state = dict(self.upgraded(state))
        env_state, heard, drawn = state.pop("env"), state.pop("listeners"), state.pop("mapping")
        del state["plan"]
        if isinstance(self.mapping, OpponentMapping):
            self.mapping.load_state_dict(drawn)
        self.unheard = heard if self.listeners is None else None
        if set(state["policies"]) != set(self.policies):
            there, here = sorted(state["policies"]), sorted(self.policies)
            raise KeyError(f"RolloutWorker: state has policies {there}, expected {here}")
        self.tables = [RowTable(len(table["slot_of"])) for table in state["tables"]]
        finished = [EpisodeResult(**episode) for episode in state.pop("finished")]
        if env_state is None:  # nothing was played yet, perhaps because there was no environment: lanes are those here
            state |= {"lengths": self.lengths, "group_returns": self.group_returns}
        super().load_state_dict({**state, "finished": []})
        self.finished = finished
        self.layout = self.env.layout if self.tables else -1
        self._place_groups()
        self.policies = {one.name: one for one in sorted(self.policies.values(), key=lambda one: one.number)}
        if self.listeners is not None and self.now is not None:
            for lane in range(self.env.num_lanes):  # lanes that nobody listened to, or lost their episode, begin anew
                if heard is None or self._lost[lane] or heard["episodes"][lane] is None:
                    self.listeners.begin(lane, self.now)
            if heard is not None:
                self.listeners.load_lanes(heard, ~self._lost)
        for lane in np.flatnonzero(self._lost).tolist():
            self._abandon(lane, [rows["obs"] for rows in env_state["rows"]])

    def _abandon(self, lane: int, seen: list[Tree]) -> None:
        """The episode of a lane cannot be taken up again: its open decisions are cut off where they stood.

        Args:
            lane: Whose episode.
            seen: The slabs of observations of that moment, one for each kind.
        """
        policies = list(self.policies.values())
        for table, kind, slab in zip(self.tables, self.env.kinds, seen, strict=True):
            width = len(kind.agents)
            for row in range(lane * width, (lane + 1) * width):
                if table.policy_of[row] >= 0:
                    policies[table.policy_of[row]].interrupt(int(table.slot_of[row]), slab, row)
        self._forget(lane)

    def _forget(self, lane: int) -> None:
        """The episode of a lane counts for nothing; whom another policy may play in the next one is asked for anew."""
        for table, kind in zip(self.tables, self.env.kinds, strict=True):
            table.begin_anew(slice(lane * len(kind.agents), (lane + 1) * len(kind.agents)))
        self.lengths[lane] = 0
        self.group_returns[lane] = 0.0

    # --- lessons ------------------------------------------------------------------------------------------------------

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Lets the next episode of each lane have other lessons.

        Args:
            lessons: Number of the lesson of each parameter that has lessons, from 0.
            restart: Whether episodes that run are given up: their open decisions are cut off where they stand, and the
                next episodes begin at once.
        """
        assert isinstance(self.seeds, EpisodePlan), "a run with lessons has a plan that knows them"
        self.seeds.change(lessons, None if self.now is None else self.env.episode)
        if not isinstance(self.env, VectorBase) or self.now is None:
            return
        if not restart:
            with users_modes():
                self.env.replan(self.seeds)
            return
        for lane in range(self.env.num_lanes):
            self._abandon(lane, [rows.obs for rows in self.now.rows])
        with users_modes():
            self.now = self.env.restart(self.seeds)
        if self.listeners is not None:
            for lane in range(self.env.num_lanes):
                self.listeners.begin(lane, self.now)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Lends the copies to somebody who resets them and plays on their own; nothing is sampled meanwhile.

        Afterwards playing goes on as from a checkpoint: where the environment cannot take up its episodes again, their
        open decisions are cut off where they stood, and the next ones begin.
        """
        state = None if self.now is None else deepcopy(self._env_state())
        try:
            yield self.env
        finally:
            if state is not None:
                with users_modes():
                    self.now, lost = self.env.load_state_dict(state, self.seeds)
                for lane in np.flatnonzero(lost).tolist():
                    self._abandon(lane, [rows["obs"] for rows in state["rows"]])
                    if self.listeners is not None:
                        self.listeners.begin(lane, self.now)

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(
        self, name: str, policy: Policy, demand: Demand | None, first_slot: int = 0, lane_group: int | None = None
    ) -> None:
        """Adds a copy of a policy.

        Args:
            name: What the mapping calls it.
            policy: Weights and normalizer to play with until `set_weights`.
            demand: How much experience its learner wants; None for a frozen policy, of which nothing is kept.
            first_slot: Number of its first slot here among those that it has in the whole run.
            lane_group: Lanes whose agents decide together where torch computes the policy; None = all.
        """
        store = None
        if demand is not None:
            size = policy.memory_size
            every = policy.memory_every(demand.fragment_length) if size else 1
            store = self.make_store(policy.obs_spec, policy.action_spec, demand, size, every, first_slot)
        numbers = policy.noise.uniform, policy.noise.normal
        acting = deepcopy(policy)
        acting.requires_grad_(False)
        noise = ActionNoise(self.streams, name, *numbers, device_of(policy), first_slot)
        mine = WorkerPolicy(name, len(self.policies), acting, store, noise)
        if store is not None and policy.noise.ladder:
            slots = (self.lanes_in_run or self.env.num_lanes) * self.played_by(name)
            mine = LadderPolicy(name, len(self.policies), acting, store, noise, slots)
        self.policies[name] = mine
        mine.group = lane_group and lane_group * self.played_by(name)

    def played_by(self, name: str) -> int:
        """Counts the agents of a lane that a policy plays, at most."""
        agents = [agent for kind in self.env.kinds for agent in kind.agents]
        if not self.mapping.is_static:
            return len(agents)
        info = EpisodeInfo(0, 0, self.streams)
        return sum(self.mapping(agent, info) == name for agent in agents) or len(agents)

    def retire(self, name: str) -> None:
        """Lets a policy play on without anything being kept of it; what is kept now is forgotten."""
        self.policies[name].store = None

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds what agents are mapped to that meet a policy of the worker as opponents.

        Args:
            of: The policy, which also plays as it is with nothing kept, as ``main@now``.
            policy: Its weights.
            snapshots: Its snapshots by number, to which others may be added: ``main@3`` is snapshot 3.
        """
        numbers = policy.noise.uniform, policy.noise.normal
        for name in (of + NOW, of + SNAPSHOT):
            noise = ActionNoise(self.streams, name, *numbers, device_of(policy))
            acting = deepcopy(policy)
            acting.requires_grad_(False)
            number = len(self.policies)
            if name == of + NOW:
                self.policies[name] = WorkerPolicy(name, number, acting, None, noise, of)
            else:
                self.policies[name] = SnapshotStack(of, number, acting, noise, snapshots)

    def change_opponents(self, lineup: dict[str, Any]) -> None:
        """Lets the next episode of each lane be drawn from another lineup, see `OpponentMapping`."""
        assert isinstance(self.mapping, OpponentMapping), "a run with opponents has a mapping that draws them"
        self.mapping.lineup = lineup
        for mine in self.policies.values():
            if isinstance(mine, SnapshotStack):
                mine.keep(self.mapping.snapshots_in_use(mine.of))

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Takes over weights and normalizers; nothing the learners do is seen here before."""
        with self.timers["set_weights"]:
            self.version += 1
            for mine in [one for one in self.policies.values() if one.follows and one.of in policies]:
                with torch.no_grad():
                    torch._foreach_copy_(*mine.tensors_from(policies[mine.of]))
                mine.use_weights()
                if mine.store is not None:
                    mine.store.version = self.version

    # --- sampling -----------------------------------------------------------------------------------------------------

    @property
    def lane_steps(self) -> int:
        """Steps of copies so far: environment steps, and those in which a copy rested."""
        return self.vector_steps * self.env.num_lanes - self.standstills

    @property
    def resting(self) -> bool:
        """Whether nobody acts, because all copies rest."""
        return self.now is not None and self.now.any_rest and bool(self.now.at_rest().all())

    def reset(self) -> None:
        """Starts the first episode of every lane, as the first `sample` does by itself."""
        note_activity(RESET)
        with self.timers["env.reset"], users_modes():
            self.now = self.env.reset(self.seeds)
        if self.listeners is not None:
            for lane in range(self.env.num_lanes):
                self.listeners.begin(lane, self.now)

    def sample(self, max_env_steps: int | None = None, episodes: int | None = None) -> Sample:
        """Plays until a learner's demand is met.

        Args:
            max_env_steps: Stop after this many environment steps (rounded up to whole vector steps) in any case; those
                in which copies rest count here.
            episodes: Stop when the episodes ``index * lanes + lane < episodes`` have finished; used for evaluation,
                which goes on through rests.

        Returns:
            The rollouts of the policies whose demand is met: none if the limit came first, if nobody acts because all
            copies rest, or if a policy is not here yet that an agent is mapped to (`Sample.newcomers`).
        """
        if self.now is None:
            self.reset()
        self.unheard = None
        limit = None if max_env_steps is None else self.lane_steps + max_env_steps
        rollouts: dict[str, Rollout] = {}
        with stepping() as self.stepping:
            while not (newcomers := self._find_players()):
                if episodes is not None or self.fragments is None or not self._many_steps(self.fragments, limit):
                    self._vector_step()
                for name, policy in self.policies.items():
                    if policy.store is not None and 0 < policy.store.wanted <= policy.store.complete:
                        assert self.now is not None
                        rollouts[name] = policy.store.take(self.now.rows[policy.kind].obs, policy.row_of_slot)
                if (
                    rollouts
                    or (limit is not None and self.lane_steps >= limit)
                    or (self.resting if episodes is None else self._have_played(episodes))
                    or (self.interrupt is not None and self.interrupt.number is not None)
                ):
                    break
        finished, self.finished = self.finished, []
        running, count = self.running_lengths()
        at = self.env_steps, self.lane_steps, self.resting, running / max(1, count)
        return Sample(rollouts, newcomers, finished, *at, self.counters())

    def running_lengths(self) -> tuple[int, int]:
        """Sum of the lengths of the episodes that are running, of lanes, or of agents where these have their own; and
        how many they are.
        """
        lengths = [self.lengths]
        if self.own_episodes:
            lengths = [table.decisions[table.joined] for table in self.tables]
        return sum(int(some.sum()) for some in lengths), sum(map(len, lengths))

    def _have_played(self, episodes: int) -> bool:
        """Whether every lane is past its share of the first episodes, counted over the lanes in turn."""
        lanes = np.arange(self.env.num_lanes)
        return bool((self.env.episode * self.env.num_lanes + lanes >= episodes).all())

    def _find_players(self) -> dict[str, Kind]:
        """Finds out who plays the rows that wait; returns policies that are needed and not here, with their kinds."""
        assert self.now is not None
        if self.layout != self.env.layout:
            self._lay_out()
        newcomers: dict[str, Kind] = {}
        for number, (table, rows) in enumerate(zip(self.tables, self.now.rows, strict=True)):
            table.all_acted = False not in rows.waiting.tobytes()
            if table.all_acted and table.routes is not None:
                table.acted = table.routes
                continue
            waiting = np.flatnonzero(rows.waiting)
            for row in waiting[~table.joined[waiting]].tolist():
                if (name := self._join(number, row)) is not None:
                    newcomers.setdefault(name, self.env.kinds[number])
            if not newcomers:
                table.acted = table.route(waiting, list(self.policies.values()))
                table.routes = table.acted if table.all_acted else None
        return newcomers

    def _join(self, number: int, row: int) -> str | None:
        """Asks who plays an agent that must act for the first time in its episode, and sees that it has a slot there.

        Args:
            number: Of the agent's kind.
            row: The agent's row.

        Returns:
            The name of its policy, if that is not here yet; else None.
        """
        table, kind = self.tables[number], self.env.kinds[number]
        lane, column = divmod(row, len(kind.agents))
        agent = kind.agents[column]
        name = self.asked.pop((number, row), None)
        if name is None:
            index = int(self.env.episode[lane])
            drawn = {} if self.mapping.is_static else parameters_of(self.seeds, lane, index)
            name = self.mapping(agent, EpisodeInfo(lane, index, self.streams, drawn))
        mine = self.policies.get(name) or self.policies.get(name[: name.find(SNAPSHOT) + 1])
        if mine is None:
            self.asked[number, row] = name
            return name
        table.joined[row] = True
        if table.policy_of[row] == mine.number:
            mine.seat(int(table.slot_of[row]), name)
            return None
        spec = mine.policy
        if not spec.obs_spec.is_within(kind.obs) or spec.action_spec != kind.action:
            raise ConfigError(
                f"policy_mapping: agent {agent!r} observes {kind.obs.space} and acts in {kind.action.space}, but its "
                f"policy {name!r} was made for {spec.obs_spec.space} and {spec.action_spec.space}; map it to a policy "
                "of its own"
            )
        if table.policy_of[row] >= 0:
            before = list(self.policies.values())[table.policy_of[row]]
            (before.leave_slot if self.mapping.moves else before.close_slot)(int(table.slot_of[row]))
        mine.kind = number
        table.policy_of[row] = mine.number
        table.slot_of[row] = slot = mine.open_slot(row)
        mine.seat(slot, name)
        return None

    def _vector_step(self) -> None:
        """Those who must act decide, all copies are stepped, and what came of it is recorded."""
        assert self.now is not None
        timer, began = self.timers.current, perf_counter()
        actions = [self._act(number) for number in range(len(self.tables))]
        playing = self.env.episode.copy()
        resting = self.now.at_rest() if self.now.any_rest else None
        acted = perf_counter()
        self.now = self.env.step(actions) if self.stepping is None else self.stepping(self.env.step, actions)
        stepped = perf_counter()
        timer.add("act", acted - began)
        timer.add("env.step", stepped - acted)
        self.vector_steps, self.env_steps = self.vector_steps + 1, self.env_steps + self.env.num_lanes
        self.lengths += 1
        if resting is not None or self.now.stepped is not None:
            self._uncount(self.now, resting)
        if self.layout != self.env.layout:
            self._lay_out()
        self._record(self.now, playing)
        timer.add("record", perf_counter() - stepped)

    def _many_steps(self, fragments: ManySteps, limit: int | None) -> bool:
        """Makes as many vector steps in one call as nothing is to be done between; says whether it made any."""
        assert self.now is not None
        (table,), start = self.tables, self.vector_steps
        listened = self.listeners is not None or self.deterministic or not self.mapping.is_static
        by_one = table.all_acted and len(table.acted) == 1 and table.acted[0].slots is None
        if listened or self.groups or self.own_episodes or not by_one:
            return False
        mine, lanes = table.acted[0].policy, self.env.num_lanes
        steps = fragments.steps(mine, self.now.rows[0], start)
        steps = steps if limit is None else min(steps, -(-(limit - self.lane_steps) // lanes))
        if steps < fragments.least:
            return False
        note_activity(STEP)
        with self.timers["fragments"] as timer:
            made, ended, seconds = fragments.play(mine, steps, start, table.returns, self.lengths)
        for part, spent in seconds.items():
            timer.add(part, spent, made)
        self._note_ended(mine, ended, start)
        self.vector_steps, self.env_steps = start + made, self.env_steps + made * lanes
        return True

    def _note_ended(self, mine: WorkerPolicy, ended: EndedEpisodes, start: int) -> None:
        """Notes episodes that have ended in a call that began after so many vector steps; one policy played them."""
        agents, seeds = self.env.kinds[0].agents, self.seeds
        ends = (ended.lane, ended.index, start + ended.step, ended.length, ended.earned)
        for lane, index, at, length, earned in zip(*(each.tolist() for each in ends), strict=True):
            drawn, lessons = parameters_of(seeds, lane, index), lessons_of(seeds, lane, index)
            each, players = dict(zip(agents, earned, strict=True)), dict.fromkeys(agents, mine.of)
            total = 0.0 + sum(earned)
            result = EpisodeResult(lane, index, length, total, each, players, {}, {}, drawn, lessons, {}, at)
            self.finished.append(result)

    def _uncount(self, step: Step, resting: np.ndarray | None) -> None:
        """Takes back what was counted of lanes that did not go on in a vector step, or were at rest before it."""
        still = np.zeros(self.env.num_lanes, dtype=bool) if step.stepped is None else ~step.stepped
        self.standstills += int(np.count_nonzero(still))
        still = still if resting is None else still | resting
        self.env_steps -= int(np.count_nonzero(still))
        self.lengths -= still
        if step.waited:
            self.timers["env.step"].add("wait", step.waited)

    def _act(self, number: int) -> np.ndarray:
        """Actions of the waiting rows of one kind, as the environment wants them."""
        assert self.now is not None
        table, rows, kind = self.tables[number], self.now.rows[number], self.env.kinds[number]
        step = None if self.deterministic else self.vector_steps
        if self.now.unlearned is not None:
            return kind.action.to_env(self._act_unlearned(table, rows, kind, step)[rows.waiting])
        if rows.own_action is not None:
            return kind.action.to_env(self._act_beside(table, rows, kind, step)[rows.waiting])
        if table.all_acted and len(table.acted) == 1:
            (route,) = table.acted
            return kind.action.to_env(route.policy.decide(route.slots, rows.obs, route.rows, step))
        chosen = np.zeros((len(rows.reward), *kind.action.shape), dtype=kind.action.dtype)
        for route in table.acted:
            chosen[route.rows] = route.policy.decide(route.slots, rows.obs, route.rows, step)
        return kind.action.to_env(chosen if table.all_acted else chosen[rows.waiting])

    def _act_beside(self, table: RowTable, rows: Rows, kind: Kind, step: int | None) -> np.ndarray:
        """The same where some rows have acted by themselves: their policies keep what they did, if they learn from any
        action; for others what such a slot did before is cut off, and it begins anew when its policy decides again.
        """
        chosen = np.zeros((len(rows.reward), *kind.action.shape), dtype=kind.action.dtype)
        numbers, acted = np.arange(len(rows.reward)), []
        for route in table.acted:
            mine, policy = numbers[route.rows], route.policy
            own = np.isin(mine, rows.own_index)
            if policy.store is not None and not policy.store.demand.any_actions and own.any():
                self.actions_not_learned += int(np.count_nonzero(own))
                for row in mine[own].tolist():
                    policy.interrupt(int(table.slot_of[row]), rows.obs, row)
                mine, own = mine[~own], own[:0]
                if not len(mine):
                    continue
                route = Route(policy, mine, table.slot_of[mine])
            chosen[mine] = policy.decide(route.slots, rows.obs, route.rows, step)
            if own.any():
                assert rows.own_action is not None
                did = rows.own_action[np.searchsorted(rows.own_index, mine[own])]
                policy.correct(route.slots, np.flatnonzero(own), did)
            acted.append(route)
        table.acted, table.all_acted = acted, False
        return chosen

    def _act_unlearned(self, table: RowTable, rows: Rows, kind: Kind, step: int | None) -> np.ndarray:
        """The same where nobody is to learn from some rows: their policies decide, and keep nothing of it."""
        assert self.now is not None and self.now.unlearned is not None
        beyond = np.repeat(self.now.unlearned, len(kind.agents))
        numbers = np.arange(len(rows.reward))
        acted: list[Route] = []
        apart: list[Route] = []
        for route in table.acted:
            for some, into in ((~beyond, acted), (beyond, apart)):
                mine = numbers[route.rows]
                if len(mine := mine[some[mine]]):
                    into.append(Route(route.policy, mine, table.slot_of[mine]))
        chosen = np.zeros((len(rows.reward), *kind.action.shape), dtype=kind.action.dtype)
        for route in apart:
            mine, policy = numbers[route.rows], route.policy
            chosen[mine] = policy.decide_unlearned(table.slot_of[mine], rows.obs, mine, step)
            if rows.own_action is not None and (own := np.isin(mine, rows.own_index)).any():
                theirs = rows.own_action[np.searchsorted(rows.own_index, mine[own])]
                policy.correct(table.slot_of[mine], np.flatnonzero(own), theirs)
        table.acted, table.all_acted = acted, False
        kept = self._act_beside(table, rows, kind, step)
        chosen[~beyond] = kept[~beyond]
        return chosen

    # --- recording ----------------------------------------------------------------------------------------------------

    def _record(self, step: Step, playing: np.ndarray) -> None:
        """Rewards, ends and final observations go to the decisions that earned them; ended episodes are noted.

        Args:
            step: What the environment showed.
            playing: ``[lanes]`` number of the episode that each played in that step.
        """
        for table, rows in zip(self.tables, step.rows, strict=True):
            table.returns += rows.reward
            reward = self._earned(table, rows) if self.groups else rows.reward
            if step.any_end and len(rows.final_index):
                self._record_finals(table, rows)
            if not table.all_acted or False in rows.waiting.tobytes():
                self._record_some(table, rows, reward)
                continue
            any_end = step.any_end and (True in rows.terminated.tobytes() or True in rows.truncated.tobytes())
            for route in table.acted:
                ends = (rows.terminated[route.rows], rows.truncated[route.rows]) if any_end else (None, None)
                route.policy.record(route.slots, Outcome(reward[route.rows], ends[0], ends[1], None))
        if self.listeners is not None and self.listeners.every_step:
            self.listeners.stepped(step, self.tables, self.lengths)
        if self.own_episodes:
            self._follow_agents(step, playing)
        if step.any_end:
            for lane in step.ended.nonzero()[0].tolist():
                self._finish(lane, int(playing[lane]), step)
        if step.lost is not None:
            for lane in np.flatnonzero(step.lost).tolist():
                self._forget(lane)
                if self.listeners is not None:
                    self.listeners.begin(lane, step)

    def _earned(self, table: RowTable, rows: Rows) -> np.ndarray:
        """``[R]`` what the rows of a kind are to learn from; adds up what groups got (members are told the same)."""
        if rows.group_reward is not None:
            each = rows.group_reward.reshape(self.env.num_lanes, -1)
            for group, column in self._firsts[self.tables.index(table)]:
                self.group_returns[:, group] += each[:, column]
        return table.earned(rows)

    def _record_some(self, table: RowTable, rows: Rows, reward: np.ndarray) -> None:
        """What became of all rows that hold a slot, whether they acted now, earlier or not yet in this episode."""
        self.rewards_unclaimed += int(np.count_nonzero(rows.reward[table.policy_of < 0]))
        for policy in self.policies.values():
            mine = np.flatnonzero(table.policy_of == policy.number)
            if len(mine):
                outcome = Outcome(reward[mine], rows.terminated[mine], rows.truncated[mine], rows.waiting[mine])
                policy.record(table.slot_of[mine], outcome)

    def _record_finals(self, table: RowTable, rows: Rows) -> None:
        self.finals_stale += rows.final_stale
        players = table.policy_of[rows.final_index]
        for policy in self.policies.values():
            which = np.flatnonzero(players == policy.number)
            if policy.store is not None and len(which):
                policy.store.final(table.slot_of[rows.final_index[which]], rows.final_obs, which)

    def standing(self, lane: int, index: int) -> EpisodeResult:
        """The running episode of a lane as it stands: what it would be if it ended here.

        Args:
            lane: Whose episode.
            index: Its number in that lane.
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
                    agents[agent], policies[agent] = earned, known[player].player(slot)
        drawn, lessons = parameters_of(self.seeds, lane, index), lessons_of(self.seeds, lane, index)
        length = int(self.lengths[lane])
        groups = dict(zip(self.groups, self.group_returns[lane].tolist(), strict=True))
        total += sum(groups.values())
        earned, at = (lane, index, length, total, agents, policies), self.vector_steps
        return EpisodeResult(*earned, parameters=drawn, lessons=lessons, groups=groups, vector_step=at)

    def _finish(self, lane: int, index: int, step: Step) -> None:
        """Notes an ended episode of a lane; whom another policy may play in the next one will be asked for anew."""
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

    def _follow_agents(self, step: Step, playing: np.ndarray) -> None:
        """Counts the decisions of agents; notes episodes of theirs, or of their groups, in lanes that never end."""
        for table in self.tables:
            for route in table.acted:
                table.decisions[route.rows] += 1
        known = list(self.policies.values())
        units = ended_units(self.env, self.tables, step) if step.any_end else []
        for unit in units:
            lane, index = unit.lane, int(playing[unit.lane])
            agents = {agent: float(table.returns[row]) for agent, table, row in unit.members}
            policies = {
                agent: known[table.policy_of[row]].player(int(table.slot_of[row])) for agent, table, row in unit.members
            }
            groups = {}
            if unit.group is not None:
                number = self.groups.index(unit.group)
                groups = {unit.group: float(self.group_returns[lane, number])}
                self.group_returns[lane, number] = 0.0
            length = max(int(table.decisions[row]) for _, table, row in unit.members)
            drawn, lessons = parameters_of(self.seeds, lane, index), lessons_of(self.seeds, lane, index)
            total = sum(agents.values()) + sum(groups.values())
            earned, at = (lane, index, length, total, agents, policies), self.vector_steps
            result = EpisodeResult(*earned, parameters=drawn, lessons=lessons, groups=groups, vector_step=at)
            if self.listeners is not None:
                result = self.listeners.end(result, step, self.tables)
                self.listeners.begin(lane, step)
            self.finished.append(result)
            self.lengths[lane] = 0  # steps since an episode last ended in the lane
        for unit in units:
            for _, table, row in unit.members:
                waits = bool(step.rows[self.tables.index(table)].waiting[row])
                table.begin_anew(slice(row, row + 1), keep_players=self.mapping.is_static and waits)

    # --- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Makes a table for each kind; rows keep their players when an agent or a kind has been added."""
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
        """Finds out where what each group got is to be read."""
        members = enumerate(groups_of(self.env).values())
        firsts = [(group, agents[0]) for group, agents in members]
        self.groups = tuple(groups_of(self.env))  # may have grown
        more = len(self.groups) - self.group_returns.shape[1]
        self.group_returns = np.pad(self.group_returns, ((0, 0), (0, max(more, 0))))
        self._firsts = [
            [(group, kind.agents.index(agent)) for group, agent in firsts if agent in kind.agents]
            for kind in self.env.kinds
        ]

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
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
