"""`SerialEnv`: environments stepped one after the other in this process.

It has the step of Gymnasium lanes with as little work per lane as possible, the step of multi-agent lanes, same-step
autoreset, resuming from a saved state, and the checks that turn a broken contract into an `EnvError` with its place.
Rows of agents are in `layout.py`, the memory of the rows in `slab.py`, checking and writing of rows in `writer.py`,
past actions in `history.py`. The other back ends are several of these, each with a share of the lanes (`shares.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.activity import RESET, note_activity
from rookery.core.process.tracebacks import described
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.gym_env import AGENT, GymLane
from rookery.envs.adapters.gym_rules import GymRules
from rookery.envs.adapters.lane import (
    NEW_API,
    RESTING,
    Agent,
    Breach,
    Lane,
    LaneStep,
    cause_of,
    is_true,
    render_fps_of,
    render_modes_of,
    rests,
    shape_of,
)
from rookery.envs.adapters.snapshot import can_capture, capture, restore
from rookery.envs.base import KeepInfos, Kind, SeedPlan, Step, VectorBase
from rookery.envs.parameters import parameters_of
from rookery.envs.vector import faults
from rookery.envs.vector.closing import CloseProblem, close_problem
from rookery.envs.vector.faults import BROKEN_IN_A_ROW, STRICT, Missing, Tolerance
from rookery.envs.vector.history import ActionHistory
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.rendering import keep_last, picture
from rookery.envs.vector.slab import FRESH, Slab
from rookery.envs.vector.writer import LaneBreach, RowWriter

IDLE_LIMIT = 10_000
"""Steps without an acting agent after which the environment is assumed to have missed the end of its episode."""


class SerialEnv(VectorBase):
    """A `VectorEnv` that steps its lanes in a Python loop.

    Attributes:
        single: Whether each lane has one agent, which always acts.
        history: Past actions, if lanes need them; None where another object keeps them.
    """

    def __init__(
        self,
        factory: Callable[[], Lane],
        num_lanes: int,
        name: str,
        tolerance: Tolerance = STRICT,
        first_lane: int = 0,
        agents: Layout | None = None,
    ) -> None:
        """Builds the lanes.

        Args:
            factory: Builds one environment, independent of the others.
            num_lanes: Number of environments.
            name: Name of the environment for messages.
            tolerance: Tolerated exceptions of an environment.
            first_lane: Number of the first lane for seeds and messages, if this is a share.
            agents: Layout of the agents. None: read from lane 0, with one reset if its spaces do not define all. A
                share with a given layout leaves the log of actions to its owner.

        Raises:
            EnvError: If the environment's spaces cannot be used, or its first reset fails.
        """
        super().__init__((), num_lanes, name, exact=True)
        self.agents = Layout(name) if agents is None else agents
        self._tolerance = tolerance
        self._first_lane = first_lane
        self._lanes: list[Any] = [factory() for _ in range(num_lanes)]
        self.render_fps = render_fps_of(self._lanes[0].env)
        self.render_modes = render_modes_of(self._lanes[0].env)
        self.parameters = self._lanes[0].hook.declared
        self.single = isinstance(self._lanes[0], GymLane)
        self._calls = [lane.call for lane in self._lanes] if self.single else []
        self._infos: dict[int, Mapping[str, Any]] = {}
        self.infos = self._infos
        self._plan: SeedPlan | None = None
        self._seeds = [0] * num_lanes
        self._clock = 0
        self._began = [0] * num_lanes
        self._idle = [0] * num_lanes
        self._in_a_row = [0] * num_lanes  # consecutive broken episodes
        self._missing: set[int] = set()  # lanes whose episode is given up in the next step
        self._actions: Any = None  # those of the current step, for messages; None while episodes are resumed
        self.logged = [i for i, lane in enumerate(self._lanes) if not (self.single and can_capture(lane.env))]
        """Lanes whose state is their log of actions."""
        self._everyone = [np.arange(num_lanes)]
        self.history = ActionHistory(self.single, num_lanes) if self.logged and agents is None else None
        self._earned = np.zeros(num_lanes)  # sum of all rewards of the running episode; kept with logs
        self._writer = RowWriter(self._announce)
        self.slab = Slab.allocate((), num_lanes)
        if agents is None:
            try:
                self.agents.survey(self._lanes[0])
            except Exception as error:
                raise self._located(0, error) from cause_of(error)
            self.agents.read_groups(self._lanes[0])
            self.groups = self.agents.groups
        self.attach(Slab.allocate(self.agents.kinds, num_lanes, bool(self.agents.groups)))

    @property
    def first(self) -> Any:
        """The environment of the first lane, as its user made it."""
        return self._lanes[0].env

    def rules(self) -> GymRules | None:
        """Returns rules that step the environments; None unless each has one agent, and a state that can be saved."""
        if not self.single or self.logged:
            return None
        (kind,), (rows,) = self.kinds, self._step.rows
        return GymRules([lane.env for lane in self._lanes], kind.obs, kind.action, rows.obs)

    def attach(self, slab: Slab, agents: Layout | None = None) -> None:
        """Switches to another slab and copies the current content; also switches to its layout, if that is new."""
        had = self.agents
        if agents is not None:
            self.agents = agents
        # the old slab may lack the newest agents
        widths = [len(block.rows.reward) // self.num_lanes for block in self.slab.blocks]
        ids = [names[:width] for names, width in zip(had.ids, widths, strict=False)]
        slab.copy_from(self.slab, ids, self.agents.place)
        self.slab = slab
        self.kinds, self.layout, self.notes = self.agents.kinds, self.agents.version, self.agents.notes
        self.episode = slab.episode
        self._step = Step(tuple(block.rows for block in slab.blocks), slab.ended)
        self._sizes = tuple(len(rows.reward) for rows in self._step.rows)
        self._writer.attach(slab, self.agents)

    def _announce(self, lane: int, agent: Agent) -> None:
        """Adds a new agent to the layout."""
        self._writer.flush()
        self.agents.announce(self._lanes[lane], agent)
        self.attach(Slab.allocate(self.agents.kinds, self.num_lanes, bool(self.agents.groups)))

    # -- playing -----------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._plan = seeds
        self.episode[:] = -1
        self._missing.clear()
        self._in_a_row = [0] * self.num_lanes
        self._earned[:] = 0.0
        self._writer.any_end = True
        self._writer.wipe()
        self._writer.clear_waiting()
        for lane in range(self.num_lanes):
            try:
                self.agents.check_masks(self._begin(lane))
            except Exception as error:
                raise self._located(lane, error) from cause_of(error)
        self.slab.ended[:] = False
        self._settle()
        return self.shown()

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        waiting = self.waiting()
        # an environment may keep the action it is given, so it gets no view of the caller's memory
        given = [np.array(action) for action in actions]
        faults.check_counts(self.name, given, waiting)
        if self.history is not None:
            self.history.add(given, waiting, self._sizes)
        self.play(given, waiting)
        if self.history is not None:
            self.history.tidy(self._began, 1)
        if self._writer.any_end:
            self.counters |= faults.count_lost(self.slab, self._clock, self.name)
        return self.shown()

    def waiting(self) -> list[np.ndarray]:
        """Returns for each kind the rows that must act; where each lane has one agent, all that do not rest."""
        if self.single and not self._writer.any_rest:
            return self._everyone
        return [np.flatnonzero(block.rows.waiting) for block in self.slab.blocks]

    def play(self, given: list[np.ndarray], waiting: Sequence[np.ndarray]) -> None:
        """Steps every lane once, with actions of the waiting rows that the environment may keep, into the slab."""
        self._writer.wipe()
        self._clock += 1
        if self._infos:
            self.infos = self._infos = {}
        if self.single:
            actions = given[0]
            if len(actions) < self.num_lanes:
                actions = idle_actions(self.kinds[0], self.num_lanes)
                actions[waiting[0]] = given[0]
            self._step_gym(actions)
        else:
            self._step_agents(given, waiting)
        self._settle()
        if self.logged:
            self.slab.add_rewards(self._earned)
            if self.any_end:
                self._earned[self.slab.ended | self.slab.lost] = 0.0

    def _step_gym(self, actions: np.ndarray) -> None:
        """Steps Gymnasium lanes: one agent, so each row is a lane with an action."""
        self._actions = actions
        writer, block, spec = self._writer, self.slab.blocks[0], self.kinds[0].obs
        (targets, shape), known = writer.targets[0], writer.known[0]
        views, exact = writer.views[0], writer.exact[0]
        rewards: list[Any] = []
        start, num, all_infos, any_rest = 0, self.num_lanes, self.keep_infos == "all", writer.any_rest
        calls = self._calls if not self._missing else self._calls_or_missing()
        while start < num:
            lane = start
            try:
                rest = zip(range(start, num), calls[start:], actions[start:], views[start:], strict=True)
                for lane, step, action, view in rest:
                    result = step(action)
                    try:
                        obs, reward, terminated, truncated, info = result
                    except (TypeError, ValueError):
                        raise Breach(
                            f"step() returned {shape_of(result)}, expected five: "
                            f"(obs, reward, terminated, truncated, info); {NEW_API}"
                        ) from None
                    rewards.append(reward)
                    if all_infos:
                        self._infos[lane] = {AGENT: info}
                    if any_rest or (info and RESTING in info):
                        writer.let_rest(0, lane, rests(info))
                    if exact:
                        try:
                            view[:] = obs
                        except (TypeError, ValueError, NotImplementedError):  # of another type or shape
                            exact = writer.exact[0] = False
                    if not exact:
                        if type(obs) is np.ndarray and obs.dtype is known and obs.shape == shape:
                            targets[lane][...] = obs
                        else:
                            mask = info.get(MASK) if self.agents.masks_in_info else None
                            writer.write(spec, block.rows.obs, lane, AGENT, obs, mask)
                            if known is not None and isinstance(obs, np.ndarray):
                                writer.known[0] = known = obs.dtype
                    if terminated or truncated:
                        if self.keep_infos == "ended":
                            self._infos[lane] = {AGENT: info}
                        writer.pay(block.rows, lane, reward)
                        terminated = bool(terminated) and is_true(terminated, "terminated")
                        truncated = bool(truncated) and is_true(truncated, "truncated")
                        block.rows.terminated[lane] = terminated
                        block.rows.truncated[lane] = truncated
                        if truncated and not terminated:
                            writer.keep_final(0, lane, FRESH)
                        if self.keep_last_pictures:
                            keep_last(self, lane)
                        self._in_a_row[lane] = 0
                        self._begin(lane)
                start = num
            except Exception as error:
                self._survive(lane, error)
                rewards[lane:] = [0.0]
                start = lane + 1
        try:
            writer.pay_all(0, range(num), rewards)
        except LaneBreach as found:
            raise self._located(found.lane, found.breach) from None

    def _calls_or_missing(self) -> list[Callable[[Any], Any]]:
        def give_up(_: Any) -> Any:
            raise Missing

        return [give_up if lane in self._missing else call for lane, call in enumerate(self._calls)]

    def _step_agents(self, given: list[np.ndarray], waiting: Sequence[np.ndarray]) -> None:
        """Steps multi-agent lanes."""
        actions: list[dict[Agent, Any]] = [{} for _ in range(self.num_lanes)]
        for ids, rows, answers in zip(self.agents.ids, waiting, given, strict=True):
            if len(rows) == self.num_lanes * len(ids):
                answer = iter(answers)
                for own in actions:
                    own.update(zip(ids, answer, strict=False))  # each lane takes one for each of its agents
            else:
                lanes, columns = np.divmod(rows, len(ids))
                for lane, column, action in zip(lanes.tolist(), columns.tolist(), answers, strict=True):
                    actions[lane][ids[column]] = action
        if self._writer.any_rest:
            for kind, ids, block in zip(self.kinds, self.agents.ids, self.slab.blocks, strict=True):
                rows = np.flatnonzero(block.rows.resting)
                for row, action in zip(rows.tolist(), idle_actions(kind, len(rows)), strict=True):
                    lane, column = divmod(row, len(ids))
                    actions[lane][ids[column]] = action
        self._actions = actions
        self._writer.clear_waiting()
        for lane, lane_actions in enumerate(actions):
            try:
                if lane in self._missing:
                    raise Missing
                shown = self._lanes[lane].step(lane_actions)
                self._writer.record(lane, shown)
                if self.keep_infos == "all" or (self.keep_infos == "ended" and shown.ended):
                    self._infos[lane] = {str(agent): info for agent, info in shown.infos.items()}
                self._idle[lane] = 0 if shown.obs or shown.ended else self._idle[lane] + 1
                if self._idle[lane] >= IDLE_LIMIT:
                    raise Breach(f"no agent had to act for {IDLE_LIMIT} steps, expected the episode to end")
                if shown.ended:
                    if self.keep_last_pictures:
                        keep_last(self, lane)
                    self._in_a_row[lane] = 0
                    self._begin(lane)
            except LaneBreach as found:  # among rewards that were written early because an agent appeared
                raise self._located(found.lane, found.breach) from None
            except Exception as error:
                self._survive(lane, error)

    def _begin(self, lane: int) -> LaneStep:
        """Starts the next episode of a lane and shows the agents that must act."""
        assert self._plan is not None
        note_activity(RESET)
        self._writer.any_end = self.slab.ended[lane] = True
        while True:
            self.episode[lane] += 1
            self._seeds[lane] = self._plan(self._first_lane + lane, int(self.episode[lane]))
            self._began[lane], self._idle[lane] = self._clock, 0
            try:
                shown = self._reset(lane)
                break
            except Exception as error:
                if not self._tolerates(lane, error):
                    raise
        self._writer.observe(lane, shown)
        return shown

    def _reset(self, lane: int) -> LaneStep:
        """Resets a lane to the start of its current episode."""
        copied = self._lanes[lane]
        given = parameters_of(self._plan, self._first_lane + lane, int(self.episode[lane]))
        shown: LaneStep = copied.reset(self._seeds[lane], given)
        if given and self.single:
            self._calls[lane] = copied.call  # parameters may have rebuilt the environment
        return shown

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan."""
        self._plan = seeds

    def _settle(self) -> None:
        """Writes delayed values, and checks all lanes together."""
        try:
            self._writer.flush()
            self._writer.check()
        except LaneBreach as found:
            raise self._located(found.lane, found.breach) from None

    @property
    def any_end(self) -> bool:
        """Whether an episode of a lane or an agent ended in the last step."""
        return self._writer.any_end

    @property
    def any_rest(self) -> bool:
        """Whether an agent rests."""
        return self._writer.any_rest

    def shown(self) -> Step:
        """Returns the content of the slab, with the last observations of truncated agents gathered."""
        step = self._step
        step.lost, step.any_end, step.any_rest = None, self._writer.any_end, self._writer.any_rest
        if step.any_end:
            for block in self.slab.blocks:
                block.gather()
            if np.count_nonzero(self.slab.lost):
                step.lost = self.slab.lost
        return step

    # -- episodes that break -----------------------------------------------------------------------

    def _survive(self, lane: int, error: Exception) -> None:
        """Gives up the episode of a lane that raised and begins its next; raises if that is not tolerated."""
        if not self._tolerates(lane, error):
            raise self._located(lane, error) from cause_of(error)
        self._missing.discard(lane)
        self._writer.give_up(lane)
        self.slab.discarded[lane] += self._clock - self._began[lane]
        try:
            self._begin(lane)
        except Exception as another:
            raise self._located(lane, another) from cause_of(another)
        self.slab.ended[lane], self.slab.lost[lane] = False, True

    def _tolerates(self, lane: int, error: Exception) -> bool:
        """Whether a lane may continue after an error; a broken contract is not tolerated, since it would break
        again.
        """
        if isinstance(error, Missing):
            return True
        if self._tolerance.on_error == "stop" or isinstance(error, Breach):
            return False
        if self._in_a_row[lane] >= BROKEN_IN_A_ROW:  # from the extra reset, while it raises
            return False
        self._in_a_row[lane] += 1
        self.slab.broken[lane] += 1
        return self._in_a_row[lane] < BROKEN_IN_A_ROW

    # -- resuming ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every lane: its own saved state if it has one, else the actions since its last reset.

        A share leaves the actions to its owner: they are None.
        """
        lanes: list[dict[str, Any]] = []
        for lane, copied in enumerate(self._lanes):
            if lane in self._missing:
                lanes.append({})
            elif lane not in self.logged:
                lanes.append({"snapshot": capture(copied.env)})
            elif self.history is None:
                lanes.append({"actions": None})
            else:
                log = self.history.log(lane, self._began[lane])
                lanes.append({} if log is None else {"actions": log})  # none if it is too long to replay
        return {
            "agents": [list(ids) for ids in self.agents.ids],
            "rows": self.slab.shown(),
            "episode": self.episode.copy(),
            "seeds": list(self._seeds),
            "clock": self._clock,
            "began": list(self._began),
            "idle": list(self._idle),
            "earned": self._earned.copy(),
            "in_a_row": list(self._in_a_row),
            "broken": self.slab.broken.copy(),
            "discarded": self.slab.discarded.copy(),
            "counters": dict(self.counters),
            "exact": self.exact,
            "lanes": lanes,
        }

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state: restores each lane, and compares its observations; see `VectorEnv.load_state_dict`."""
        self.meet(state)
        lost = self.restore_episodes(state, seeds, leave=True)
        if self.history is not None:
            logs = [None if lost[lane] else where.get("actions") for lane, where in enumerate(state["lanes"])]
            self.history.restore_episodes(self._clock, self._began, logs)
        self.exact = self.exact and state["exact"] and not lost.any()
        self.counters = dict(state.get("counters", {}))
        return self.shown(), lost

    def meet(self, state: dict[str, Any]) -> None:
        """Adds the agents of a saved state; raises an EnvError if the state is of another environment."""
        if "lanes" not in state:
            raise faults.foreign_state(self.name)
        for agent in itertools.chain(*state["agents"]):
            try:
                self._writer.place_of(0, agent)
            except Exception as error:
                raise self._located(0, error) from cause_of(error)
        if [list(ids) for ids in self.agents.ids] != state["agents"]:
            raise EnvError(f"{self.name}: has agents {self.agents.ids}, the saved state {state['agents']}")

    def restore_episodes(self, state: dict[str, Any], seeds: SeedPlan, leave: bool) -> np.ndarray:
        """Restores each lane in the middle of its episode.

        state: State of these lanes, from `state_dict`; in `lanes`, ``snapshot`` and ``actions`` together mean these
        actions after that snapshot.
            state: State of these lanes, as `state_dict` gives it; in `lanes`, ``snapshot`` and ``actions`` together
                mean these actions after that snapshot.
            seeds: Seeds of the episodes to come.
            leave: Whether a lane whose episode cannot be restored begins its next one at once; else in the next step.

        Returns:
            ``[lanes]`` bool, which lanes these are.

        Raises:
            EnvError: If the state is of another environment, or the environment raises.
        """
        if len(state["lanes"]) != self.num_lanes:
            raise faults.foreign_state(self.name)
        self._plan, self._actions = seeds, None
        self._clock, self._seeds = state["clock"], list(state["seeds"])
        self._began, self._idle = list(state["began"]), list(state["idle"])
        self._in_a_row = list(state.get("in_a_row", [0] * self.num_lanes))  # a new helper's lanes have none
        self._writer.any_end = True
        self._writer.wipe()
        self.episode[:], self._earned[:] = state["episode"], state["earned"]
        self.slab.broken[:], self.slab.discarded[:] = state.get("broken", 0), state.get("discarded", 0)
        for block, saved in zip(self.slab.blocks, state["rows"], strict=True):
            block.rows.waiting[:], block.rows.resting[:] = saved["waiting"], saved.get("resting", False)
            self._writer.any_rest |= True in block.rows.resting.tobytes()
            for path, array in block.rows.obs.items():
                array[:] = saved["obs"][path]
        lost = np.zeros(self.num_lanes, dtype=bool)
        for lane, where in enumerate(state["lanes"]):
            try:
                lost[lane] = not self._replay(lane, where)
                if lost[lane] and leave:
                    self._writer.give_up(lane)
                    self._begin(lane)
                    self._earned[lane] = 0.0
            except Exception as error:
                raise self._located(lane, error) from cause_of(error)
        self._missing = set() if leave else set(np.flatnonzero(lost).tolist())
        self._settle()
        self.slab.wipe_ends()
        return lost

    def _replay(self, lane: int, where: dict[str, Any]) -> bool:
        """Restores a lane in the middle of its episode; returns False if that fails, or its observations differ."""
        copied = self._lanes[lane]
        if not where:
            return False
        shown = self._reset(lane)
        if "snapshot" in where:
            restore(copied.env, where["snapshot"])
            if not where.get("actions"):
                return True
        earned = 0.0
        for action in where["actions"]:
            if self.single:
                acts: dict[Agent, Any] = {AGENT: deepcopy(action)}
                if action is None:
                    acts = {AGENT: idle_actions(self.kinds[0], 1)[0]}
            else:
                acts = {self.agents.ids[k][column]: deepcopy(value) for k, column, value in action}
                for k, column in sorted(self.agents.place[agent] for agent in shown.resting()):
                    acts[self.agents.ids[k][column]] = idle_actions(self.kinds[k], 1)[0]
            shown = copied.step(acts)
            if shown.ended:
                return False
            earned += sum(float(np.asarray(reward).item()) for reward in shown.reward.values())
        # rewards reveal what observations need not show, such as the statistics of a wrapper that scales them
        return bool(np.isclose(earned, self._earned[lane], rtol=1e-9)) and self._shows_as_saved(lane, shown)

    def _shows_as_saved(self, lane: int, shown: LaneStep) -> bool:
        """Whether the agents that must act are the waiting rows, with equal observations."""
        lanes = [b.rows for b in self.slab.part(range(lane, lane + 1)).blocks]
        resting = len(shown.resting())
        waits, rests = sum(rows.waiting.sum() for rows in lanes), sum(rows.resting.sum() for rows in lanes)
        if (waits, rests) != (len(shown.obs) - resting, resting):
            return False
        for agent, obs in shown.obs.items():
            k, row = self._writer.place_of(lane, agent)
            spec = self.kinds[k].obs
            tree = spec.allocate(1)
            self._writer.write(spec, tree, 0, agent, obs, shown.masks.get(agent))
            if any(not np.array_equal(tree[path][0], self.slab.blocks[k].rows.obs[path][row]) for path in tree):
                return False
        return True

    def _located(self, lane: int, error: Exception) -> EnvError:
        """Returns the error to raise for `error` in a lane: the event, the agent, the place."""
        step = self._clock - self._began[lane]
        episode = max(int(self.episode[lane]), 0)
        where = f"{self.name}: environment {self._first_lane + lane}, seed {self._seeds[lane]}"
        where += f", episode {episode}, step {step}"
        if step and self._actions is None:
            where += ", when its episode was resumed"
        else:
            taken = {} if not step else {AGENT: self._actions[lane]} if self.single else self._actions[lane]
            taken = {who: a.tolist() if isinstance(a, np.ndarray | np.generic) else a for who, a in taken.items()}
            agent = AGENT if self.single else error.agent if isinstance(error, Breach) else None
            if agent is not None:
                where += f", agent {str(agent)!r}" + (f", action {taken[agent]}" if agent in taken else "")
            elif step:
                where += f", actions {{{', '.join(f'{who}: {action}' for who, action in taken.items())}}}"
        if isinstance(error, Breach):
            return EnvError(f"{where}: {error.problem}")
        often = self._in_a_row[lane]
        so_far = f"; {often} episodes of this environment in a row" if often >= BROKEN_IN_A_ROW else ""
        return EnvError(f"{where}: raised {described(error)}{so_far}")

    def layout_now(self) -> Layout:
        """Returns the layout with all agents that have appeared here."""
        return self.agents

    def ask_for_infos(self, keep: KeepInfos) -> None:
        """Sets `keep_infos`."""
        self.keep_infos = keep

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render.

        Raises:
            EnvError: If its `render` raises, or does not return an image.
        """
        try:
            return picture(self._lanes[lane].env)
        except Breach as breach:
            raise self._located(lane, breach) from cause_of(breach)

    def text(self, lane: int) -> str | None:
        """Renders a lane as text, if the environment was created with ``render_mode="ansi"``; else returns None."""
        env = self._lanes[lane].env
        try:
            shown = env.render() if getattr(env, "render_mode", None) == "ansi" else None
        except Exception as error:
            breach = Breach(f"render() raised {described(error)}")
            raise self._located(lane, breach) from cause_of(error)
        return shown if isinstance(shown, str) else None

    def close_lanes(self) -> list[CloseProblem]:
        """Closes every environment; returns their exceptions."""
        closed = [close_problem(lane.env, self.name) for lane in self._lanes]
        return [problem for problem in closed if problem]

    def close(self) -> None:
        """Closes every environment; an exception becomes a warning."""
        for problem in self.close_lanes():
            problem.warn()


def idle_actions(kind: Kind, number: int) -> np.ndarray:
    """Returns the environment's own actions ``[number, ...]`` of resting agents: the first choice, the middle of a box.

    The environment needs an action, and ignores it. It does not depend on earlier actions of the agent, so no memory is
    needed for a rest.
    """
    spec = kind.action
    return spec.to_env(np.zeros((number, *spec.shape), spec.dtype))
