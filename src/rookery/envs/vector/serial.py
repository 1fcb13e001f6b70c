"""`SerialEnv`: copies of an environment stepped one after the other in this process.

What stands here: the layout of kinds and rows (which grows when unannounced agents appear), the step of Gymnasium lanes
with as little work a lane as possible, the step of multi-agent lanes, same-step autoreset, and the checks that turn a
broken contract into an `EnvError` that says where.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rookery.core.errors import EnvError, SpaceError
from rookery.core.spaces import MASK, ActionSpec, ObsSpec, Tree, action_spec, mask_width, obs_spec
from rookery.envs.base import Kind, Rows, SeedPlan, Step
from rookery.envs.gym_env import AGENT, GymLane
from rookery.envs.lane import NEW_API, Agent, Breach, Lane, LaneStep, cause_of, picture, shape_of
from rookery.envs.snapshot import can_capture, capture, restore

LOG_LIMIT = 10_000
"""Longest unfinished episode, in steps, whose actions are kept so that it can be replayed after a restart."""

IDLE_LIMIT = 10_000
"""Steps without anybody to act after which an episode counts as one that its environment forgot to end."""

NOBODY = np.zeros(0, dtype=np.int64)


@dataclass
class _Final:
    """The last observation of a truncated agent: a tree of one row."""

    kind: int
    lane: int
    column: int
    obs: Tree
    stale: bool


class SerialEnv:
    """A `VectorEnv` that steps its lanes in a Python loop."""

    kinds: tuple[Kind, ...]
    notes: tuple[str, ...]

    def __init__(self, factory: Callable[[], GymLane] | Callable[[], Lane], num_lanes: int, name: str) -> None:
        """Builds the lanes.

        Unless all spaces and masks are plain from the start, lane 0 is reset once to see who appears and whether `info`
        has action masks.

        Args:
            factory: Builds one copy, from the outside independent of the others.
            num_lanes: Copies.
            name: What runs, in words a user knows.

        Raises:
            EnvError: If the environment's spaces cannot be used, or its first reset fails.
        """
        self.num_lanes = num_lanes
        self.name = name
        self.exact = True
        self.layout = 0
        self.kinds = ()
        self.episode = np.zeros(num_lanes, dtype=np.int64)
        self.notes = ()
        self._lanes: list[Any] = [factory() for _ in range(num_lanes)]
        self._gym = isinstance(self._lanes[0], GymLane)
        self._calls = [lane.env.step for lane in self._lanes] if self._gym else []
        self.want_infos = False
        self._infos: list[Mapping[str, Any]] = [{} for _ in range(num_lanes)]
        self.infos: Sequence[Mapping[str, Any]] = self._infos
        self._plan: SeedPlan | None = None
        self._seeds = [0] * num_lanes
        self._clock = 0
        self._began = [0] * num_lanes
        self._idle = [0] * num_lanes
        self._actions: Any = None  # those of the running step, for messages
        self._logs: list[list[Any]] = [[] for _ in range(num_lanes)]  # actions of the running episodes
        self._logged = [i for i, lane in enumerate(self._lanes) if not (self._gym and can_capture(lane.env))]
        self._earned = np.zeros(num_lanes)  # all rewards of the running episode; kept where there are logs
        self._finals: list[_Final] = []
        self._any_end = False
        self._masks_in_info = False
        self._masked_by_info: dict[Agent, np.ndarray] = {}  # those agents, with the mask that allows everything
        self._ids: list[list[Agent]] = []  # the environment's own agent ids, in the order of each kind's names
        self._place: dict[Agent, tuple[int, int]] = {}  # kind and column of an agent
        self._rows: list[Rows] = []
        self._ended = np.zeros(num_lanes, dtype=bool)
        try:
            self._survey(self._lanes[0])
        except Exception as error:
            raise self._located(0, error) from cause_of(error)

    # -- layout ------------------------------------------------------------------------------------

    def _survey(self, lane: Lane) -> None:
        """Finds out which agents there are and what they see, and makes the slabs."""
        agents = list(lane.agents)
        specs = [self._specs(lane, agent) for agent in agents]
        if not agents or any(mask_width(action.space) and not obs.has_mask for obs, action in specs):
            shown = lane.reset(0)
            self._masks_in_info = bool(shown.masks)
            agents += [agent for agent in shown.obs if agent not in agents]
        for agent in agents:
            self._announce(lane, agent)
        self.layout = 0
        # A Gymnasium observation that is one array of numbers is copied at once if its type is that of the last one.
        leaves = self.kinds[0].obs.leaves if self.kinds else ()
        self._plain = len(leaves) == 1 and leaves[0].kind == "box"
        self._known_dtype = leaves[0].dtype if self._plain else None

    def _announce(self, lane: Lane, agent: Agent) -> None:
        """Gives a new agent its place: at the end of the kind with its spaces, or in a new kind at the end."""
        obs, action = self._specs(lane, agent)
        for dropped in obs.dropped:
            note = f"{self.name}: {dropped}; that part is left out"
            if note not in self.notes:
                self.notes = (*self.notes, note)
        fitting = [k for k, kind in enumerate(self.kinds) if kind.obs == obs and kind.action == action]
        if not fitting:
            fitting = [len(self.kinds)]
            self.kinds = (*self.kinds, Kind((), obs, action))
            self._ids.append([])
            self._rows.append(Rows.allocate(self.kinds[-1], self.num_lanes))
        k = fitting[0]
        kind = replace(self.kinds[k], agents=(*self.kinds[k].agents, str(agent)))
        self.kinds = (*self.kinds[:k], kind, *self.kinds[k + 1 :])
        self._place[agent] = (k, len(self._ids[k]))
        self._ids[k].append(agent)
        self._rows[k] = self._rows[k].widened(kind, self.num_lanes)
        self.layout += 1

    def _specs(self, lane: Lane, agent: Agent) -> tuple[ObsSpec, ActionSpec]:
        obs, action = lane.spaces(agent)
        try:
            spec = obs_spec(obs, action)
            if self._masks_in_info and mask_width(action) and not spec.has_mask:
                spec = obs_spec(obs, action, info_mask=True)
                self._masked_by_info[agent] = np.ones(mask_width(action), dtype=bool)
            return spec, action_spec(action)
        except SpaceError as error:
            raise Breach(str(error), agent) from error

    # -- playing -----------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; later episodes take their seeds from `seeds` too.

        Raises:
            EnvError: If the environment raises or breaks the contract.
        """
        self._plan = seeds
        self.episode[:] = -1
        self._wipe()
        for rows in self._rows:
            rows.waiting[:] = False
        for lane in range(self.num_lanes):
            try:
                self._begin(lane)
            except Exception as error:
                raise self._located(lane, error) from cause_of(error)
        self._ended[:] = False
        return self._shown()

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once.

        Args:
            actions: For each kind, the environment's own actions ``[W, ...]`` of its W waiting rows, in row order.

        Raises:
            EnvError: If `reset` was not called or an array has the wrong length; if the environment raises or breaks
                the contract, with lane, seed, episode, step, agent and action.
        """
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        # an environment may keep the action it is given, so it gets no view of the caller's memory
        given = [np.array(action) for action in actions]
        if self._gym:
            self._step_gym(given)
        else:
            self._step_agents(given)
        if self._logged:
            for rows in self._rows:
                self._earned += rows.reward.reshape(self.num_lanes, -1).sum(axis=1, dtype=np.float64)
            self._earned[self._ended] = 0.0
        return self._shown()

    def _step_gym(self, given: list[np.ndarray]) -> None:
        """Steps Gymnasium lanes: one agent, so a row is a lane and all rows wait."""
        rows, spec = self._rows[0], self.kinds[0].obs
        if len(given) != 1 or len(given[0]) != self.num_lanes:
            raise self._miscounted(given, [self.num_lanes])
        self._wipe()
        self._clock += 1
        self._actions = given[0]
        for lane in self._logged:
            if len(self._logs[lane]) < LOG_LIMIT:
                self._logs[lane].append(deepcopy(given[0][lane]))  # the environment may write into what it gets
        leaf = spec.leaves[0]
        slab, shape, known = rows.obs[leaf.path], leaf.shape, self._known_dtype
        rewards: list[Any] = []
        lane = 0
        try:
            for lane, (step, action) in enumerate(zip(self._calls, given[0], strict=True)):
                result = step(action)
                try:
                    obs, reward, terminated, truncated, info = result
                except (TypeError, ValueError):
                    raise Breach(
                        f"step() returned {shape_of(result)}, expected five: "
                        f"(obs, reward, terminated, truncated, info); {NEW_API}"
                    ) from None
                rewards.append(reward)
                if self.want_infos:
                    self._infos[lane] = {AGENT: info}
                if type(obs) is np.ndarray and obs.dtype is known and obs.shape == shape:
                    slab[lane] = obs
                else:
                    self._write(spec, rows.obs, lane, AGENT, obs, info.get(MASK) if self._masks_in_info else None)
                    if self._plain and isinstance(obs, np.ndarray):
                        self._known_dtype = known = obs.dtype
                if terminated or truncated:
                    self._pay(rows, lane, reward)
                    rows.terminated[lane] = bool(terminated)
                    rows.truncated[lane] = bool(truncated)
                    self._any_end = True
                    if truncated and not terminated:
                        self._keep_final(_Final(0, lane, 0, _row(rows.obs, lane), stale=False))
                    self._begin(lane)
        except Exception as error:
            raise self._located(lane, error) from cause_of(error)
        try:
            rows.reward[:] = rewards
            sound = bool(np.isfinite(rows.reward).all())
        except (TypeError, ValueError):
            sound = False
        if not sound:
            for lane, reward in enumerate(rewards):
                try:
                    self._pay(rows, lane, reward)
                except Breach as error:
                    raise self._located(lane, error) from None

    def _step_agents(self, given: list[np.ndarray]) -> None:
        """Steps multi-agent lanes."""
        waiting = [np.flatnonzero(rows.waiting).tolist() for rows in self._rows]
        if len(given) != len(waiting) or any(len(a) != len(w) for a, w in zip(given, waiting, strict=True)):
            raise self._miscounted(given, [len(w) for w in waiting])
        actions: list[dict[Agent, Any]] = [{} for _ in range(self.num_lanes)]
        for ids, waiting_rows, kind_actions in zip(self._ids, waiting, given, strict=True):
            for row, action in zip(waiting_rows, kind_actions, strict=True):
                lane, column = divmod(row, len(ids))
                actions[lane][ids[column]] = action
        self._wipe()
        for rows in self._rows:
            rows.waiting[:] = False
        self._clock += 1
        self._actions = actions
        for lane, lane_actions in enumerate(actions):
            if len(self._logs[lane]) < LOG_LIMIT:
                self._logs[lane].append([(*self._place[agent], deepcopy(act)) for agent, act in lane_actions.items()])
            try:
                shown = self._lanes[lane].step(lane_actions)
                self._record(lane, shown)
                if self.want_infos:
                    self._infos[lane] = {str(agent): info for agent, info in shown.infos.items()}
                self._idle[lane] = 0 if shown.obs or shown.ended else self._idle[lane] + 1
                if self._idle[lane] >= IDLE_LIMIT:
                    raise Breach(f"nobody had to act for {IDLE_LIMIT} steps, expected the episode to end")
                if shown.ended:
                    self._begin(lane)
            except Exception as error:
                raise self._located(lane, error) from cause_of(error)

    def _begin(self, lane: int) -> None:
        """Starts the next episode of a lane and shows whom it waits for."""
        assert self._plan is not None
        self.episode[lane] += 1
        self._seeds[lane] = self._plan(lane, int(self.episode[lane]))
        self._began[lane], self._idle[lane] = self._clock, 0
        self._logs[lane].clear()
        self._ended[lane] = self._any_end = True
        shown = self._lanes[lane].reset(self._seeds[lane])
        self._observe(lane, shown)

    # -- going on after a restart ------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where every lane is: by its own word where it has one, else by the actions since its last reset."""
        lanes: list[dict[str, Any]] = []
        for lane, copied in enumerate(self._lanes):
            if lane not in self._logged:
                lanes.append({"snapshot": capture(copied.env)})
            elif len(self._logs[lane]) == self._clock - self._began[lane]:
                lanes.append({"actions": list(self._logs[lane])})
            else:  # too long to replay
                lanes.append({})
        return {
            "agents": [list(ids) for ids in self._ids],
            "rows": [
                {"obs": {path: array.copy() for path, array in rows.obs.items()}, "waiting": rows.waiting.copy()}
                for rows in self._rows
            ],
            "episode": self.episode.copy(),
            "seeds": list(self._seeds),
            "clock": self._clock,
            "began": list(self._began),
            "idle": list(self._idle),
            "earned": self._earned.copy(),
            "exact": self.exact,
            "lanes": lanes,
        }

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Goes on from a state instead of `reset`: puts each lane where it was, and compares what it shows.

        Returns:
            What every lane shows, and ``[lanes]`` bool, whose episode could not be taken up again.

        Raises:
            EnvError: If the state is of another environment, or the environment raises.
        """
        if "lanes" not in state or len(state["lanes"]) != self.num_lanes:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        for agent in itertools.chain(*state["agents"]):
            if agent not in self._place:
                try:
                    self._announce(self._lanes[0], agent)
                except Exception as error:
                    raise self._located(0, error) from cause_of(error)
        if [list(ids) for ids in self._ids] != state["agents"]:
            raise EnvError(f"{self.name}: has agents {self._ids}, the saved state {state['agents']}")
        self._plan = seeds
        self._clock, self._seeds = state["clock"], list(state["seeds"])
        self._began, self._idle = list(state["began"]), list(state["idle"])
        self.episode[:], self._earned[:] = state["episode"], state["earned"]
        self._any_end = True
        self._wipe()
        for rows, saved in zip(self._rows, state["rows"], strict=True):
            rows.waiting[:] = saved["waiting"]
            for path, array in rows.obs.items():
                array[:] = saved["obs"][path]
        lost = np.zeros(self.num_lanes, dtype=bool)
        for lane, where in enumerate(state["lanes"]):
            try:
                lost[lane] = not self._take_up(lane, where)
                if lost[lane]:
                    self._leave(lane)
            except Exception as error:
                raise self._located(lane, error) from cause_of(error)
        self.exact = self.exact and state["exact"] and not lost.any()
        self._ended[:] = False
        return self._shown(), lost

    def _take_up(self, lane: int, where: dict[str, Any]) -> bool:
        """Puts a lane into the middle of its episode; False if it cannot be done, or shows something else there."""
        copied = self._lanes[lane]
        self._logs[lane] = list(where.get("actions", ()))
        if "snapshot" in where:
            copied.reset(self._seeds[lane])
            restore(copied.env, where["snapshot"])
            return True
        if "actions" not in where:
            return False
        shown: LaneStep = copied.reset(self._seeds[lane])
        earned = 0.0
        for action in where["actions"]:
            if self._gym:
                obs, reward, terminated, truncated, info = copied.env.step(deepcopy(action))
                masks: dict[Agent, Any] = {AGENT: info[MASK]} if MASK in info else {}
                shown = LaneStep({AGENT: obs}, {AGENT: reward}, masks=masks, ended=bool(terminated or truncated))
            else:
                shown = copied.step({self._ids[k][column]: deepcopy(value) for k, column, value in action})
            if shown.ended:
                return False
            earned += sum(float(np.asarray(reward).item()) for reward in shown.reward.values())
        # rewards tell of what observations need not show, such as the statistics of a wrapper that scales them
        return bool(np.isclose(earned, self._earned[lane], rtol=1e-9)) and self._shows_as_saved(lane, shown)

    def _shows_as_saved(self, lane: int, shown: LaneStep) -> bool:
        """Whether those that must act are the rows that wait, and see what these hold."""
        waiting = sum(int(rows.waiting.reshape(self.num_lanes, -1)[lane].sum()) for rows in self._rows)
        if waiting != len(shown.obs):
            return False
        for agent, obs in shown.obs.items():
            k, row, _ = self._row_of(lane, agent)
            spec = self.kinds[k].obs
            tree = spec.allocate(1)
            self._write(spec, tree, 0, agent, obs, shown.masks.get(agent))
            if any(not np.array_equal(tree[path][0], self._rows[k].obs[path][row]) for path in tree):
                return False
        return True

    def _leave(self, lane: int) -> None:
        """Gives up the episode of a lane and begins its next."""
        for rows in self._rows:
            rows.waiting.reshape(self.num_lanes, -1)[lane] = False
        self._begin(lane)

    # -- rows --------------------------------------------------------------------------------------

    def _row_of(self, lane: int, agent: Agent) -> tuple[int, int, int]:
        """Kind, row and column of an agent, who gets a place if it has none."""
        if agent not in self._place:
            self._announce(self._lanes[lane], agent)
        k, column = self._place[agent]
        return k, lane * len(self._ids[k]) + column, column

    def _record(self, lane: int, shown: LaneStep) -> None:
        """Writes what a multi-agent lane showed after a step."""
        for agent, reward in shown.reward.items():
            k, row, _ = self._row_of(lane, agent)
            self._pay(self._rows[k], row, reward, agent)
        for agent in shown.terminated:
            k, row, _ = self._row_of(lane, agent)
            self._rows[k].terminated[row] = self._any_end = True
        for agent in shown.truncated:
            k, row, column = self._row_of(lane, agent)
            rows, spec = self._rows[k], self.kinds[k].obs
            rows.truncated[row] = self._any_end = True
            if rows.terminated[row]:
                continue
            if agent in shown.final:
                tree = spec.allocate(1)
                self._write(spec, tree, 0, agent, shown.final[agent], shown.masks.get(agent))
                self._keep_final(_Final(k, lane, column, tree, stale=False))
            else:  # the row still holds what the agent saw last
                self._keep_final(_Final(k, lane, column, _row(rows.obs, row), stale=True))
        self._observe(lane, shown)

    def _observe(self, lane: int, shown: LaneStep) -> None:
        """Writes the observations of the agents that must act, and lets them wait."""
        for agent, obs in shown.obs.items():
            k, row, _ = self._row_of(lane, agent)
            rows, spec = self._rows[k], self.kinds[k].obs
            self._write(spec, rows.obs, row, agent, obs, shown.masks.get(agent))
            rows.waiting[row] = True

    def _write(self, spec: ObsSpec, tree: Tree, row: int, agent: Agent, obs: Any, info_mask: Any) -> None:
        """Writes one observation; an agent whose info has no mask this time may do anything."""
        mask = None
        if agent in self._masked_by_info:
            mask = self._masked_by_info[agent] if info_mask is None else info_mask
        try:
            spec.write(obs, tree, row, mask)
        except SpaceError as error:
            raise Breach(str(error), agent) from None

    def _pay(self, rows: Rows, row: int, reward: Any, agent: Agent = AGENT) -> None:
        """Writes one reward, checked."""
        value = np.asarray(reward)
        if value.size != 1 or value.dtype.kind not in "fiub":
            raise Breach(f"reward is {reward!r}, expected a finite number", agent)
        if not np.isfinite(value).all():
            raise Breach(f"non-finite reward {value.item()}, expected a finite number", agent)
        rows.reward[row] = value.item()

    def _keep_final(self, final: _Final) -> None:
        spec = self.kinds[final.kind].obs
        if spec.has_mask and (mask := final.obs[spec.leaves[-1].path]).size:
            mask[:] = True  # nobody acts on it, and environments often allow nothing after the end
        if problem := spec.check(final.obs, slice(None)):
            raise Breach(f"{problem}, in the last observation before a truncation", self._ids[final.kind][final.column])
        self._finals.append(final)

    def _wipe(self) -> None:
        """Forgets the rewards and ends of the last step."""
        for rows in self._rows:
            rows.reward[:] = 0.0
        if self._any_end:
            for kind, rows in zip(self.kinds, self._rows, strict=True):
                rows.terminated[:] = rows.truncated[:] = False
                rows.final_index, rows.final_obs, rows.final_stale = NOBODY, kind.obs.allocate(0), 0
            self._ended[:] = self._any_end = False
            self._finals.clear()

    def _shown(self) -> Step:
        """Gathers the last observations of truncated agents and checks all others in one test a leaf."""
        if self._finals:
            self._gather_finals()
        for k, (kind, rows) in enumerate(zip(self.kinds, self._rows, strict=True)):
            if kind.obs.check(rows.obs, slice(None)):
                self._accuse(k)
        return Step(tuple(self._rows), self._ended)

    def _gather_finals(self) -> None:
        for k, rows in enumerate(self._rows):
            finals = [
                (final.lane * len(self._ids[k]) + final.column, final) for final in self._finals if final.kind == k
            ]
            finals.sort(key=lambda pair: pair[0])
            rows.final_index = np.array([row for row, _ in finals], dtype=np.int64)
            rows.final_stale = sum(final.stale for _, final in finals)
            if finals:
                rows.final_obs = {path: np.concatenate([final.obs[path] for _, final in finals]) for path in rows.obs}

    # -- errors ------------------------------------------------------------------------------------

    def _accuse(self, k: int) -> None:
        """Finds the row of a kind that failed the check, and raises."""
        width = len(self._ids[k])
        for row in range(self.num_lanes * width):
            if problem := self.kinds[k].obs.check(self._rows[k].obs, slice(row, row + 1)):
                raise self._located(row // width, Breach(problem, self._ids[k][row % width])) from None

    def _located(self, lane: int, error: Exception) -> EnvError:
        """The error to raise for `error` in a lane: what happened, to whom, where."""
        step = self._clock - self._began[lane]
        episode = max(int(self.episode[lane]), 0)
        where = f"{self.name}: lane {lane}, seed {self._seeds[lane]}, episode {episode}, step {step}"
        agent = error.agent if isinstance(error, Breach) else None
        if self._gym:
            where += f", agent {AGENT!r}" + (f", action {_plain(self._actions[lane])}" if step else "")
        elif agent is not None:
            where += f", agent {str(agent)!r}"
            if step and agent in self._actions[lane]:
                where += f", action {_plain(self._actions[lane][agent])}"
        elif step:
            taken = ", ".join(f"{who}: {_plain(action)}" for who, action in self._actions[lane].items())
            where += f", actions {{{taken}}}"
        if isinstance(error, Breach):
            return EnvError(f"{where}: {error.problem}")
        return EnvError(f"{where}: raised {type(error).__name__}: {error}")

    def _miscounted(self, given: list[np.ndarray], expected: list[int]) -> EnvError:
        return EnvError(f"{self.name}: step() got {[len(a) for a in given]} actions by kind, expected {expected}")

    # -- the rest ----------------------------------------------------------------------------------

    def render(self, lane: int) -> np.ndarray | None:
        """A picture ``[height, width, 3]`` uint8 of a lane, or None if the environment draws none."""
        return picture(self._lanes[lane].env)

    def close(self) -> None:
        """Closes every copy."""
        for lane in self._lanes:
            if callable(close := getattr(lane.env, "close", None)):
                close()


def _row(tree: Tree, row: int) -> Tree:
    return {path: array[row : row + 1].copy() for path, array in tree.items()}


def _plain(action: Any) -> Any:
    return action.tolist() if isinstance(action, np.ndarray | np.generic) else action
