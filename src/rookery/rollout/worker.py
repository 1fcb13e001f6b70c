"""Playing: the one place where environments are stepped, and where all experience comes from."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import numpy as np

from rookery.core.batch import Demand, Rollout
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.interrupt import Interrupt
from rookery.core.seeding import Streams
from rookery.core.spaces import Tree
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorEnv
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult, EpisodeWatch
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.noise import ActionNoise
from rookery.rollout.seats import Desk, Route, Seat, evenly
from rookery.rollout.slots import SlotStore


class RolloutWorker(Stateful):
    """Plays policies in many copies of an environment and keeps what happened.

    Args:
        env: The copies.
        mapping: Which policy plays which agent.
        streams: Random streams of the run.
        seeds: Seed of each episode.
        introduce: Called with a policy's name and the kind of its agents when the first of them appears and no policy
            of that name has been added; must call `add_policy`.
        timers: Where to count time.
        deterministic: Play the most likely action instead of a drawn one.
        interrupt: Sampling ends early, between two vector steps, when a signal has come.
    """

    saved = ("seats", "desks", "layout", "env_steps", "vector_steps", "lengths", "finished", "version", "finals_stale",
             "rewards_unclaimed")  # fmt: skip
    # `now` is what the environment shows: it comes from the environment's own state, and `watch` goes with that
    fixed = ("env", "mapping", "streams", "seeds", "introduce", "timers", "deterministic", "interrupt", "after_step",
             "watch", "unwatched", "now")  # fmt: skip

    def __init__(
        self,
        env: VectorEnv,
        mapping: PolicyMapping,
        streams: Streams,
        seeds: SeedPlan,
        introduce: Callable[[str, Kind], None],
        timers: Timers,
        deterministic: bool = False,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.env = env
        self.mapping = mapping
        self.streams = streams
        self.seeds = seeds
        self.introduce = introduce
        self.timers = timers
        self.deterministic = deterministic
        self.interrupt = interrupt
        self.after_step: Callable[[RolloutWorker], None] | None = None
        self.watch: EpisodeWatch | None = None
        self.unwatched: dict[str, Any] | None = None
        """The state of a watch that is not here, until playing goes on."""
        self.seats: dict[str, Seat] = {}
        self.now: Step | None = None
        self.desks: list[Desk] = []
        self.layout = -1
        self.lengths = np.zeros(env.num_lanes, dtype=np.int64)
        self.finished: list[EpisodeResult] = []
        self.env_steps = 0
        self.vector_steps = 0
        self.version = 0
        self.finals_stale = 0
        """Truncated agents that were not on turn: their final observation is an older one."""
        self.rewards_unclaimed = 0
        """Rewards of agents that had never had to act yet."""

    def state_dict(self) -> dict[str, Any]:
        """Everything, the environments in the middle of their episodes included."""
        state = super().state_dict()
        state["finished"] = [asdict(episode) for episode in self.finished]
        state["env"] = None if self.now is None else self.env.state_dict()
        state["watch"] = self.unwatched if self.watch is None else self.watch.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; policies that had been met while playing are introduced.

        Raises:
            KeyError: If there are policies that the state does not have, or what is saved of one differs.
            EnvError: If the state is of another environment.
        """
        state = dict(state)
        env_state, watched = state.pop("env"), state.pop("watch")
        self.unwatched = watched if self.watch is None else None
        lost = np.zeros(self.env.num_lanes, dtype=bool)
        if env_state is not None:
            self.now, lost = self.env.load_state_dict(env_state, self.seeds)
        for name, seat in state["seats"].items():
            if name not in self.seats:
                self.introduce(name, self.env.kinds[seat["kind"]])
        if set(state["seats"]) != set(self.seats):
            raise KeyError(f"RolloutWorker: state has policies {sorted(state['seats'])}, expected {sorted(self.seats)}")
        self.desks = [Desk(len(desk["slot_of"])) for desk in state["desks"]]
        finished = [EpisodeResult(**episode) for episode in state.pop("finished")]
        super().load_state_dict({**state, "finished": []})
        self.finished = finished
        self.layout = self.env.layout if self.desks else -1
        self.seats = {seat.name: seat for seat in sorted(self.seats.values(), key=lambda seat: seat.number)}
        if self.watch is not None and self.now is not None:
            for lane in range(self.env.num_lanes):  # lanes that were not watched, or lost their episode, begin anew
                if watched is None or lost[lane]:
                    self.watch.begin(lane, self.now)
            if watched is not None:
                self.watch.load(watched, ~lost)
        for lane in np.flatnonzero(lost).tolist():
            self._abandon(lane, [rows["obs"] for rows in env_state["rows"]])

    def _abandon(self, lane: int, seen: list[Tree]) -> None:
        """The episode of a lane cannot be taken up again: its open decisions are cut off where they stood.

        Args:
            lane: Whose episode.
            seen: The slabs of observations of that moment, one for each kind.
        """
        seats = list(self.seats.values())
        for desk, kind, slab in zip(self.desks, self.env.kinds, seen, strict=True):
            width = len(kind.agents)
            for row in range(lane * width, (lane + 1) * width):
                if desk.seat_of[row] >= 0:
                    seats[desk.seat_of[row]].interrupt(int(desk.slot_of[row]), slab, row)
        self._forget(lane)

    def _forget(self, lane: int) -> None:
        """The episode of a lane counts for nothing; whom another policy may play in the next one is asked for anew."""
        for desk, kind in zip(self.desks, self.env.kinds, strict=True):
            mine = slice(lane * len(kind.agents), (lane + 1) * len(kind.agents))
            desk.returns[mine] = 0.0
            desk.joined[mine] = False
            desk.routes = None
        self.lengths[lane] = 0

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Seats a copy of a policy.

        Args:
            name: What the mapping calls it.
            policy: Weights and normalizer to play with until `set_weights`.
            demand: How much experience its learner wants; None for a frozen policy, of which nothing is kept.
        """
        store = None
        if demand is not None:
            size = policy.memory_size
            every = policy.memory_every(demand.fragment_length) if size else 1
            store = SlotStore(policy.obs_spec, policy.action_spec, demand, size, every)
        noise = ActionNoise(self.streams, name, policy.noise.uniform, policy.noise.normal, device_of(policy))
        acting = deepcopy(policy)
        acting.requires_grad_(False)
        self.seats[name] = Seat(name, len(self.seats), acting, store, noise)

    def set_weights(self, policies: dict[str, Policy]) -> None:
        """Takes over weights and normalizers; nothing the learners do is seen here before."""
        self.version += 1
        for name, policy in policies.items():
            seat = self.seats.get(name)
            if seat is None:
                continue
            seat.take_weights(policy)
            if seat.store is not None:
                seat.store.version = self.version

    # --- sampling -----------------------------------------------------------------------------------------------------

    @property
    def lane_steps(self) -> int:
        """Steps of copies so far: environment steps, and those in which a copy rested."""
        return self.vector_steps * self.env.num_lanes

    @property
    def resting(self) -> bool:
        """Whether nobody acts, because all copies rest."""
        return self.now is not None and self.now.any_rest and bool(self.now.at_rest().all())

    def sample(self, max_env_steps: int | None = None, episodes: int | None = None) -> dict[str, Rollout]:
        """Plays until a learner's demand is met.

        Args:
            max_env_steps: Stop after this many environment steps (rounded up to whole vector steps) in any case; those
                in which copies rest count here.
            episodes: Stop when the episodes ``index * lanes + lane < episodes`` have finished; used for evaluation,
                which goes on through rests.

        Returns:
            The rollouts of the policies whose demand is met, empty if the limit came first, or if nobody acts because
            all copies rest (`resting`). They live in this worker's memory until the next call.
        """
        if self.now is None:
            with self.timers["env.reset"]:
                self.now = self.env.reset(self.seeds)
            if self.watch is not None:
                for lane in range(self.env.num_lanes):
                    self.watch.begin(lane, self.now)
            if self.after_step is not None:
                self.after_step(self)
        self.unwatched = None
        limit = None if max_env_steps is None else self.lane_steps + max_env_steps
        while True:
            self._vector_step()
            ready = [seat for seat in self.seats.values() if seat.store is not None and seat.store.ready]
            if ready:
                return {seat.name: self._take(seat) for seat in ready}
            if limit is not None and self.lane_steps >= limit:
                return {}
            if self.resting and episodes is None:
                return {}
            if self.interrupt is not None and self.interrupt.number is not None:
                return {}
            if episodes is not None and self._have_played(episodes):
                return {}

    def _take(self, seat: Seat) -> Rollout:
        assert self.now is not None
        assert seat.store is not None
        return seat.store.take(self.now.rows[seat.kind].obs, seat.row_of_slot)

    def _have_played(self, episodes: int) -> bool:
        """Whether every lane is past its share of the first episodes, counted over the lanes in turn."""
        lanes = np.arange(self.env.num_lanes)
        return bool((self.env.episode * self.env.num_lanes + lanes >= episodes).all())

    def _vector_step(self) -> None:
        assert self.now is not None
        if self.layout != self.env.layout:
            self._lay_out()
        with self.timers["act"]:
            actions = [self._act(number) for number in range(len(self.desks))]
        if self.watch is not None:
            self.watch.act(self.now, actions)
        playing = self.env.episode.copy()
        resting = self.now.at_rest() if self.now.any_rest else None
        with self.timers["env.step"]:
            self.now = self.env.step(actions)
        self.vector_steps += 1
        self.env_steps += self.env.num_lanes
        self.lengths += 1
        if resting is not None:
            self.env_steps -= int(np.count_nonzero(resting))
            self.lengths -= resting
        if self.layout != self.env.layout:
            self._lay_out()
        with self.timers["record"]:
            self._record(self.now, playing)
        if self.after_step is not None:
            self.after_step(self)

    # --- acting -------------------------------------------------------------------------------------------------------

    def _act(self, number: int) -> np.ndarray:
        """Actions of the waiting rows of one kind, as the environment wants them."""
        assert self.now is not None
        desk, rows, kind = self.desks[number], self.now.rows[number], self.env.kinds[number]
        desk.all_acted = False not in rows.waiting.tobytes()
        if desk.all_acted and desk.routes is not None:
            desk.acted = desk.routes
        else:
            waiting = np.flatnonzero(rows.waiting)
            for row in waiting[~desk.joined[waiting]].tolist():
                self._seat_row(number, row)
            desk.acted = self._route(desk, waiting)
            desk.routes = desk.acted if desk.all_acted else None
        step = None if self.deterministic else self.vector_steps
        if desk.all_acted and len(desk.acted) == 1:
            (route,) = desk.acted
            return kind.action.to_env(route.seat.decide(route.slots, rows.obs, route.rows, step))
        answers: np.ndarray | None = None
        for route in desk.acted:
            answer = kind.action.to_env(route.seat.decide(route.slots, rows.obs, route.rows, step))
            if answers is None:
                answers = np.zeros((len(rows.reward), *answer.shape[1:]), dtype=answer.dtype)
            answers[route.rows] = answer
        if answers is None:
            return kind.action.to_env(np.zeros((0, *kind.action.shape), dtype=kind.action.dtype))
        return answers if desk.all_acted else answers[rows.waiting]

    def _route(self, desk: Desk, rows: np.ndarray) -> list[Route]:
        """Groups rows by policy, policies in the order they were added."""
        players = desk.seat_of[rows]
        routes = []
        for seat in self.seats.values():
            mine = rows[players == seat.number]
            if len(mine):
                slots = desk.slot_of[mine]
                everyone = np.array_equal(slots, np.arange(len(seat.taken)))
                routes.append(Route(seat, evenly(mine), None if everyone else slots))
        return routes

    def _seat_row(self, number: int, row: int) -> None:
        """Asks who plays an agent that must act for the first time in its episode; sees that it has a slot there."""
        desk, kind = self.desks[number], self.env.kinds[number]
        lane, column = divmod(row, len(kind.agents))
        agent = kind.agents[column]
        name = self.mapping(agent, EpisodeInfo(lane, int(self.env.episode[lane]), self.streams))
        if name not in self.seats:
            self.introduce(name, kind)
        seat = self.seats[name]
        desk.joined[row] = True
        if desk.seat_of[row] == seat.number:
            return
        spec = seat.policy
        if spec.obs_spec != kind.obs or spec.action_spec != kind.action:
            raise ConfigError(
                f"policy_mapping: agent {agent!r} observes {kind.obs.space} and acts in {kind.action.space}, but its "
                f"policy {name!r} was made for {spec.obs_spec.space} and {spec.action_spec.space}; map it to a policy "
                "of its own"
            )
        if desk.seat_of[row] >= 0:
            list(self.seats.values())[desk.seat_of[row]].leave(int(desk.slot_of[row]))
        seat.kind = number
        desk.seat_of[row] = seat.number
        desk.slot_of[row] = seat.sit(row)

    # --- recording ----------------------------------------------------------------------------------------------------

    def _record(self, step: Step, playing: np.ndarray) -> None:
        """Rewards, ends and final observations go to the decisions that earned them; ended episodes are noted.

        Args:
            step: What the environment showed.
            playing: ``[lanes]`` number of the episode that each played in that step.
        """
        for desk, rows in zip(self.desks, step.rows, strict=True):
            desk.returns += rows.reward
            if step.any_end and len(rows.final_index):
                self._record_finals(desk, rows)
            if desk.all_acted and False not in rows.waiting.tobytes():
                any_end = step.any_end and (True in rows.terminated.tobytes() or True in rows.truncated.tobytes())
                flags = (rows.terminated, rows.truncated) if any_end else None
                for route in desk.acted:
                    self._record_route(route, rows, flags)
            else:
                self._record_some(desk, rows)
        if self.watch is not None:
            self.watch.after(step)
        if step.any_end:
            for lane in step.ended.nonzero()[0].tolist():
                self._finish(lane, int(playing[lane]), step)
                if self.watch is not None:
                    self.watch.begin(lane, step)
        if step.lost is not None:
            for lane in np.flatnonzero(step.lost).tolist():
                self._forget(lane)
                if self.watch is not None:
                    self.watch.begin(lane, step)

    def _record_route(self, route: Route, rows: Rows, flags: tuple[np.ndarray, np.ndarray] | None) -> None:
        """What became of rows that acted and wait again."""
        seat, mine = route.seat, route.rows
        if route.slots is not None:
            seat.outcome(
                route.slots, rows.reward[mine], rows.terminated[mine], rows.truncated[mine], rows.waiting[mine]
            )
        elif flags is None:
            seat.outcome_all(rows.reward[mine], None, None)
        else:
            seat.outcome_all(rows.reward[mine], flags[0][mine], flags[1][mine])

    def _record_some(self, desk: Desk, rows: Rows) -> None:
        """What became of all rows that hold a slot, whether they acted now, earlier or not yet in this episode."""
        self.rewards_unclaimed += int(np.count_nonzero(rows.reward[desk.seat_of < 0]))
        for seat in self.seats.values():
            mine = np.flatnonzero(desk.seat_of == seat.number)
            if len(mine):
                seat.outcome(
                    desk.slot_of[mine],
                    rows.reward[mine],
                    rows.terminated[mine],
                    rows.truncated[mine],
                    rows.waiting[mine],
                )

    def _record_finals(self, desk: Desk, rows: Rows) -> None:
        self.finals_stale += rows.final_stale
        players = desk.seat_of[rows.final_index]
        for seat in self.seats.values():
            which = np.flatnonzero(players == seat.number)
            if seat.store is not None and len(which):
                seat.store.final(desk.slot_of[rows.final_index[which]], rows.final_obs, which)

    def _finish(self, lane: int, index: int, step: Step) -> None:
        """Notes an ended episode of a lane; whom another policy may play in the next one will be asked for anew."""
        agents: dict[str, float] = {}
        policies: dict[str, str] = {}
        names = list(self.seats)
        total = 0.0
        for desk, kind, rows in zip(self.desks, self.env.kinds, step.rows, strict=True):
            width = len(kind.agents)
            mine = slice(lane * width, (lane + 1) * width)
            returns = desk.returns[mine].tolist()
            total += sum(returns)
            players = zip(kind.agents, returns, desk.joined[mine].tolist(), desk.seat_of[mine].tolist(), strict=True)
            for agent, earned, joined, seat in players:
                if joined:
                    agents[agent], policies[agent] = earned, names[seat]
            desk.returns[mine] = 0.0
            if not (self.mapping.is_static and all(rows.waiting[mine].tolist())):
                desk.joined[mine] = False
                desk.routes = None
        length = int(self.lengths[lane])
        if self.watch is None:
            self.finished.append(EpisodeResult(lane, index, length, total, agents, policies))
        else:
            own = self.watch.episodes[lane].measured()
            self.finished.append(EpisodeResult(lane, index, length, total, agents, policies, *own))
        self.lengths[lane] = 0

    def drain_finished(self) -> list[EpisodeResult]:
        """Episodes finished since the last call."""
        finished, self.finished = self.finished, []
        return finished

    # --- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Makes a desk for each kind; rows keep their players when an agent or a kind has been added."""
        old, self.desks = self.desks, []
        for number, kind in enumerate(self.env.kinds):
            width = len(kind.agents)
            desk = Desk(self.env.num_lanes * width)
            if number < len(old):
                before = old[number]
                lanes, columns = np.divmod(np.arange(len(before.slot_of)), len(before.slot_of) // self.env.num_lanes)
                for name in Desk.saved:
                    getattr(desk, name)[lanes * width + columns] = getattr(before, name)
                for seat in self.seats.values():
                    held = np.flatnonzero(desk.seat_of == seat.number)
                    seat.row_of_slot[desk.slot_of[held]] = held
            self.desks.append(desk)
        self.layout = self.env.layout

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
        stores = [seat.store for seat in self.seats.values() if seat.store is not None]
        rested = self.lane_steps - self.env_steps
        return {
            "finals_stale": self.finals_stale,
            "rewards_without_decision": self.rewards_unclaimed
            + sum(store.rewards_without_decision for store in stores),
            **({"resting_steps": rested} if rested else {}),
            **self.env.counters,
        }
