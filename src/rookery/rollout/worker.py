"""Sampling: environments are stepped in one call, `RolloutWorker.sample`, which returns all experience.

It uses one of four loops (`loops/loop.py`): in Python, in environment processes, in C and on a device. One contract
test compares what they store, bit for bit. Their state is in `worker_state.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from rookery.core.batch import COST, Demand, Rollout
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.flat import copy_all
from rookery.core.process.activity import RESET, note_activity
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import users_modes
from rookery.core.seeding import Streams
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, SeedPlan, VectorBase, VectorEnv
from rookery.envs.parameters import EpisodePlan, parameters_of
from rookery.models.candidates import CandidateHead
from rookery.models.search_head import SearchHead
from rookery.policies.policy import Policy
from rookery.rollout.candidates import CandidatePolicy
from rookery.rollout.costs import CostPolicy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.loops.helper_process import fast_loop_of
from rookery.rollout.loops.loop import Loop
from rookery.rollout.loops.python import PythonLoop, stepping
from rookery.rollout.mapping import NOW, SNAPSHOT, EpisodeInfo, OpponentMapping, PolicyMapping
from rookery.rollout.noise import ActionNoise
from rookery.rollout.per_env_epsilon import PerEnvEpsilonPolicy
from rookery.rollout.searching import SearchingPolicy
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.stack import SnapshotStack
from rookery.rollout.tables import RowTable
from rookery.rollout.worker_state import WorkerState


@dataclass(slots=True)
class Sample:
    """Result of one `sample` call: rollouts, finished episodes, counters.

    Attributes:
        rollouts: Experience of each policy whose demand is met. Its tensors lie in the worker's memory until it plays
            on.
        newcomers: Policies that agents are mapped to and that are not added yet, with the kind of these agents. Nothing
            more is played until they are added.
        finished: Episodes that ended, in that order.
        env_steps: Environment steps so far.
        lane_steps: These, and steps in which lanes rested.
        resting: Whether all environments rest, so that no agent can act for now.
        running_length: Mean length of the running episodes.
        counters: Counters of data that could not be learned from, so far.
    """

    rollouts: dict[str, Rollout]
    newcomers: dict[str, Kind]
    finished: list[EpisodeResult]
    env_steps: int
    lane_steps: int
    resting: bool
    running_length: float
    counters: dict[str, int]


class RolloutWorker(WorkerState, Stateful):
    """Runs policies in vectorized environments and records their experience.

    Args:
        env: The environments.
        mapping: Policy of each agent.
        streams: Random streams of the run.
        seeds: Seed of each episode.
        timers: Timers to add to.
        deterministic: Take the most probable action instead of a drawn one.
        interrupt: Sampling ends early, between two vector steps, after a signal.
    """

    state_version = 2
    saved = ("policies", "tables", "layout", "env_steps", "vector_steps", "standstills", "lengths", "finished", "asked",
             "version", "group_returns", "finals_stale", "rewards_unclaimed", "actions_not_learned")  # fmt: skip
    # `now` is the present step of the environment: it follows from the environment's own state, and so do `listeners`
    fixed = ("env", "mapping", "streams", "seeds", "lanes_in_run", "timers", "deterministic", "interrupt",
             "listeners", "missing_listeners", "now", "groups", "own_episodes", "is_watched", "draws",
             "first_of_groups", "python_loop", "fast_loop", "make_store", "_lost")  # fmt: skip

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
        super().__init__(env, mapping, streams, seeds, timers, deterministic)
        self.interrupt = interrupt
        self.lanes_in_run: int | None = None
        """Lanes of the whole run; None = those of this worker."""
        self.missing_listeners: dict[str, Any] | None = None
        """State of listeners that are missing, until more is played."""
        self.python_loop = PythonLoop()
        """Makes one vector step per call, in all cases."""
        self.fast_loop: Loop | None = None
        """Makes many vector steps per call, where environment and policy allow it; None if no policy does."""
        self.make_store: Callable[..., SlotStore] = SlotStore
        """Creates the storage of a policy's decisions."""
        self.version = 0
        self._lost = np.zeros(env.num_lanes, dtype=bool)

    # --- state --------------------------------------------------------------------------------------------------------

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 that no environment parameters or opponents were drawn."""
        return {"plan": None, "mapping": None, **state}

    def state_dict(self) -> dict[str, Any]:
        """Returns everything, the environments in the middle of their episodes included."""
        state = super().state_dict()
        state["finished"] = [asdict(episode) for episode in self.finished]
        state["env"] = None if self.now is None else self._env_state()
        state["plan"] = self.seeds.state_dict() if isinstance(self.seeds, EpisodePlan) else None
        state["mapping"] = self.mapping.state_dict() if isinstance(self.mapping, OpponentMapping) else None
        state["listeners"] = self.missing_listeners if self.listeners is None else self.listeners.state_dict()
        return state

    def _env_state(self) -> dict[str, Any]:
        """Returns the environments in the middle of their episodes."""
        with users_modes():
            return self.env.state_dict()

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Restores the environments alone, before `load_state_dict`.

        Args:
            state: Result of `state_dict`.

        Returns:
            The policies in `state` that are not added yet, with the kind of their agents; they must be added before
            `load_state_dict`.

        Raises:
            EnvError: If the state belongs to another environment.
        """
        state = self._upgraded(state)
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
        """Restores the result of `state_dict`, after `load_env`.

        Raises:
            KeyError: If the state lacks policies, or the saved fields of one differ.
        """
        state = dict(self._upgraded(state))
        env_state, listeners, drawn = state.pop("env"), state.pop("listeners"), state.pop("mapping")
        del state["plan"]
        if isinstance(self.mapping, OpponentMapping):
            self.mapping.load_state_dict(drawn)
        self.missing_listeners = listeners if self.listeners is None else None
        if set(state["policies"]) != set(self.policies):
            there, here = sorted(state["policies"]), sorted(self.policies)
            raise KeyError(f"RolloutWorker: state has policies {there}, expected {here}")
        self.tables = [RowTable(len(table["slot_of"])) for table in state["tables"]]
        finished = [EpisodeResult(**episode) for episode in state.pop("finished")]
        if env_state is None:  # nothing was played yet, perhaps without an environment: lanes are those of this one
            state |= {"lengths": self.lengths, "group_returns": self.group_returns}
        super().load_state_dict({**state, "finished": []})
        self.finished = finished
        self.layout = self.env.layout if self.tables else -1
        self._place_groups()
        self.policies = {one.name: one for one in sorted(self.policies.values(), key=lambda one: one.number)}
        if self.listeners is not None and self.now is not None:
            for lane in range(self.env.num_lanes):  # lanes without listeners, or with lost episodes, restart
                if listeners is None or self._lost[lane] or listeners["episodes"][lane] is None:
                    self.listeners.begin(lane, self.now)
            if listeners is not None:
                self.listeners.load_lanes(listeners, ~self._lost)
        for lane in np.flatnonzero(self._lost).tolist():
            self.abandon(lane, [rows["obs"] for rows in env_state["rows"]])

    # --- lessons ------------------------------------------------------------------------------------------------------

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Changes the lessons of the next episode of each lane.

        Args:
            lessons: Number of the lesson of each parameter that has lessons, from 0.
            restart: Whether running episodes are abandoned: their open decisions are cut off, and the next episodes
                begin at once.
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
            self.abandon(lane, [rows.obs for rows in self.now.rows])
        with users_modes():
            self.now = self.env.restart(self.seeds)
        if self.listeners is not None:
            for lane in range(self.env.num_lanes):
                self.listeners.begin(lane, self.now)

    @contextmanager
    def lent(self) -> Iterator[VectorEnv]:
        """Lends the environments to a caller that resets them and plays independently; nothing is sampled meanwhile.

        Afterwards sampling continues as from a checkpoint: where the environment cannot resume its episodes, their open
        decisions are cut off, and the next ones begin.
        """
        state = None if self.now is None else deepcopy(self._env_state())
        try:
            yield self.env
        finally:
            if state is not None:
                with users_modes():
                    self.now, lost = self.env.load_state_dict(state, self.seeds)
                for lane in np.flatnonzero(lost).tolist():
                    self.abandon(lane, [rows["obs"] for rows in state["rows"]])
                    if self.listeners is not None:
                        self.listeners.begin(lane, self.now)

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(
        self,
        name: str,
        policy: Policy,
        demand: Demand | None,
        first_slot: int = 0,
        inference_batch_envs: int | None = None,
    ) -> None:
        """Adds a copy of a policy.

        Args:
            name: Name in the policy mapping.
            policy: Weights and normalizer to act with until `set_weights`.
            demand: Experience that its learner wants; None for a frozen policy, which is not recorded.
            first_slot: Number of its first slot here among its slots in the whole run.
            inference_batch_envs: Lanes whose agents decide together where torch computes the policy; None = all.
        """
        store = None
        if demand is not None:
            size = policy.memory_size
            every = policy.memory_every(demand.fragment_length) if size else 1
            extras = {**policy.head_spec.extras(policy.action_spec), **({COST: 1} if demand.costs else {})}
            store = self.make_store(policy.obs_spec, policy.action_spec, demand, size, every, first_slot, extras)
        numbers = policy.noise.uniform, policy.noise.normal
        acting = deepcopy(policy)
        acting.requires_grad_(False)
        noise = ActionNoise(self.streams, name, *numbers, device_of(policy), first_slot)
        make = self._maker_of(policy)
        mine = make(name, len(self.policies), acting, store, noise)
        if store is not None and policy.noise.per_env_epsilon:
            slots = (self.lanes_in_run or self.env.num_lanes) * self.agents_of(name)
            mine = PerEnvEpsilonPolicy(name, len(self.policies), acting, store, noise, slots)
        elif store is not None and isinstance(policy.head_spec, CandidateHead):
            agents, lanes = self.agents_of(name), self.env.num_lanes
            own, all_slots = lanes * agents, (self.lanes_in_run or lanes) * agents
            mine = CandidatePolicy(name, len(self.policies), acting, store, noise, policy.head_spec, own, all_slots)
        elif store is not None and demand is not None and demand.costs:
            mine = CostPolicy(self.env, name, len(self.policies), acting, store, noise)
        self.policies[name] = mine
        mine.group = inference_batch_envs and inference_batch_envs * self.agents_of(name)
        if self.fast_loop is None and mine.actor is not None:
            self.fast_loop = fast_loop_of(self.env)

    def agents_of(self, name: str) -> int:
        """Returns the largest number of agents of a lane that a policy plays."""
        agents = [agent for kind in self.env.kinds for agent in kind.agents]
        if not self.mapping.is_static:
            return len(agents)
        info = EpisodeInfo(0, 0, self.streams)
        return sum(self.mapping(agent, info) == name for agent in agents) or len(agents)

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play; its open experience is dropped."""
        self.policies[name].store = None

    def add_opponents(self, of: str, policy: Policy, snapshots: MutableMapping[int, Policy]) -> None:
        """Adds the opponents derived from a policy: its snapshots, and the policy itself without recording.

        Args:
            of: The policy; it also plays with its current weights, without recording, as ``main@now``.
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
                self.policies[name] = self._maker_of(policy)(name, number, acting, None, noise, of)
            else:
                self.policies[name] = SnapshotStack(of, number, acting, noise, snapshots, self._maker_of(policy))

    def _maker_of(self, policy: Policy) -> Callable[..., WorkerPolicy]:
        """Returns the class of the worker's form of a policy, or a function with its arguments."""
        if isinstance(policy.head_spec, SearchHead):
            return partial(SearchingPolicy, self.env)
        return WorkerPolicy

    def change_opponents(self, lineup: dict[str, Any]) -> None:
        """Draws the opponents of the next episode of each lane from another lineup, see `OpponentMapping`."""
        assert isinstance(self.mapping, OpponentMapping), "a run with opponents has a mapping that draws them"
        self.mapping.lineup = lineup
        for mine in self.policies.values():
            if isinstance(mine, SnapshotStack):
                mine.keep(self.mapping.snapshots_in_use(mine.of))

    def set_weights(self, policies: Mapping[str, Policy]) -> None:
        """Loads new weights and normalizers; until then, updates by the learners have no effect."""
        with self.timers["set_weights"]:
            self.version += 1
            for mine in [one for one in self.policies.values() if one.follows and one.of in policies]:
                with torch.no_grad():
                    copy_all(*mine.tensors_from(policies[mine.of]))
                if mine.actor is not None:
                    mine.use_weights()
                if mine.store is not None:
                    mine.store.version = self.version

    # --- sampling -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Starts the first episode of every lane; `sample` also does this on its first call."""
        note_activity(RESET)
        with self.timers["env.reset"], users_modes():
            self.now = self.env.reset(self.seeds)
        if self.listeners is not None:
            for lane in range(self.env.num_lanes):
                self.listeners.begin(lane, self.now)

    def sample(self, max_env_steps: int | None = None, episodes: int | None = None) -> Sample:
        """Plays until a learner's demand is met.

        Args:
            max_env_steps: Stop after this many environment steps (rounded up to whole vector steps) in any case; steps
                in which lanes rest count here.
            episodes: Stop when the episodes ``index * lanes + lane < episodes`` have finished; used for evaluation,
                    which continues through rests.

        Returns:
            The rollouts of the policies whose demand is met: none if the limit came first, if all environments rest, or
            if an agent is mapped to a policy that is not added yet (`Sample.newcomers`).
        """
        if self.now is None:
            self.reset()
        self.missing_listeners = None
        limit = None if max_env_steps is None else self.lane_steps + max_env_steps
        rollouts: dict[str, Rollout] = {}
        with stepping(self.is_watched) as self.python_loop.stepping:
            while not (newcomers := self._find_players()):
                most = math.inf if limit is None else -(-(limit - self.lane_steps) // self.env.num_lanes)
                if episodes is not None or self.fast_loop is None or not self.fast_loop.play(self, most):
                    self.python_loop.play(self, most)
                for name, policy in self.policies.items():
                    if policy.store is not None and 0 < policy.store.wanted <= policy.store.complete:
                        assert self.now is not None
                        rollouts[name] = policy.store.drain(self.now.rows[policy.kind].obs, policy.row_of_slot)
                if (
                    rollouts
                    or (limit is not None and self.lane_steps >= limit)
                    or (self.resting if episodes is None else self._have_finished(episodes))
                    or (self.interrupt is not None and self.interrupt.number is not None)
                ):
                    break
        finished, self.finished = self.finished, []
        running, count = self.running_lengths()
        at = self.env_steps, self.lane_steps, self.resting, running / max(1, count)
        return Sample(rollouts, newcomers, finished, *at, self.counters())

    def _have_finished(self, episodes: int) -> bool:
        """Returns whether every lane is past its share of the first episodes, counted over the lanes in turn."""
        lanes = np.arange(self.env.num_lanes)
        return bool((self.env.episode * self.env.num_lanes + lanes >= episodes).all())

    def _find_players(self) -> dict[str, Kind]:
        """Finds the policies of the rows that wait; returns the missing ones with their kinds."""
        assert self.now is not None
        if self.layout != self.env.layout:
            self.lay_out()
        newcomers: dict[str, Kind] = {}
        for number, (table, rows) in enumerate(zip(self.tables, self.now.rows, strict=True)):
            table.all_acted = False not in rows.waiting.tobytes()
            if table.all_acted and table.routes is not None:
                table.acted = table.routes
            else:
                self._find_routes(number, np.flatnonzero(rows.waiting), newcomers)
        return newcomers

    def _find_routes(self, number: int, waiting: np.ndarray, newcomers: dict[str, Kind]) -> None:
        """Finds the policies of the waiting rows of a kind; adds the missing ones to `newcomers`."""
        table = self.tables[number]
        for row in waiting[~table.joined[waiting]].tolist():
            if (name := self._join(number, row)) is not None:
                newcomers.setdefault(name, self.env.kinds[number])
        if not newcomers:
            table.acted = table.route(waiting, list(self.policies.values()))
            table.routes = table.acted if table.all_acted else None

    def _join(self, number: int, row: int) -> str | None:
        """Asks the mapping for the policy of an agent that acts for the first time in its episode, and opens a slot.

        Args:
            number: Number of the agent's kind.
            row: The agent's row.

        Returns:
            The name of its policy, if it is missing; else None.
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
            mine.assign(int(table.slot_of[row]), name)
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
            (before.release_slot if self.mapping.moves else before.close_slot)(int(table.slot_of[row]))
        mine.kind = number
        table.policy_of[row] = mine.number
        table.slot_of[row] = slot = mine.open_slot(row)
        mine.assign(slot, name)
        return None
