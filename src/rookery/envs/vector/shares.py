"""`SharesEnv`: lanes divided among several `SerialEnv`s that step at the same time. One of them steps in the calling
thread.

A `Helper` steps each of the others: a thread (`threads.py`) or a process (`processes.py`). Each share is a block of
neighbouring lanes and writes into its part of one slab, so that the rows do not depend on the division. A lost helper
is replaced: the data to replay its lanes from their seeds is kept here.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.activity import RESET, note_activity
from rookery.envs.base import KeepInfos, Kind, SeedPlan, Step, VectorBase
from rookery.envs.vector.burst import Burst, ShareLoop
from rookery.envs.vector.faults import (
    GIVEN_UP_IN_A_ROW,
    LOSSES_IN_A_ROW,
    Tolerance,
    check_counts,
    count_lost,
    foreign_state,
    ordinal,
)
from rookery.envs.vector.history import ActionHistory
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.slab import Slab, forget_finals

PER_LANE = ("episode", "seeds", "began", "idle", "earned", "in_a_row", "broken", "discarded", "lanes")
"""Entries of a saved state with an element for each lane."""


NAMED_LANES = 8
"""Number of lanes of a lost helper that a message lists."""


class HelperLost(Exception):
    """Raised if a helper died, or was killed because it hung; names it and the reason."""


class Helper(Protocol):
    """A thread or process that steps a share of the lanes.

    Attributes:
        lanes: Lanes of the share.
        can_be_lost: Whether it can die without this process.
        any_end: Whether an episode of a lane or an agent ended in its last step.
        grown: Whether an agent appeared in it that is not in the layout yet.
        infos: Infos of the last step, by lane of the share, if requested.
    """

    lanes: range
    can_be_lost: bool
    any_end: bool
    grown: bool
    infos: Mapping[int, Mapping[str, Any]]

    def begin(self, task: str, *arguments: Any) -> None:
        """Starts to call a method of the share, usually `SerialEnv.play`."""

    def end(self) -> Any:
        """Waits for the result.

        Raises:
            EnvError: If an environment raised or broke the contract.
            HelperLost: If the helper is gone, or took too long.
        """

    def move(self, slab: Slab, agents: Layout) -> None:
        """Starts the switch to its part of another slab; `end` waits for it."""

    def lend(self, burst: Burst) -> None:
        """Starts to pass memory for bursts to the helper, for ``begin("play_burst", steps)``; `end` waits for it."""

    def replace(self) -> None:
        """Replaces a lost helper by a new one."""

    def close(self) -> None:
        """Closes the environments and ends the helper."""


def deal(num_lanes: int, shares: int) -> list[range]:
    """Divides lanes into neighbouring blocks; the first ones, whose owner also has other work, are smaller."""
    bounds = [num_lanes * i // shares for i in range(shares + 1)]
    return [range(first, last) for first, last in itertools.pairwise(bounds)]


class SharesEnv(VectorBase):
    """A `VectorEnv` that steps shares of its lanes at the same time."""

    def __init__(
        self,
        first: SerialEnv,
        helpers: Sequence[Helper],
        num_lanes: int,
        tolerance: Tolerance,
        make_slab: Callable[[Sequence[Kind], int, bool], Slab],
    ) -> None:
        """Combines the shares.

        Args:
            first: The first share, which is stepped by the caller.
            helpers: Helpers of the others, in the order of their lanes; each has begun to build its environments.
            num_lanes: Number of environments.
            tolerance: Tolerated failures.
            make_slab: Makes memory that the helpers can write to.

        Raises:
            EnvError: If a helper cannot build its environments.
        """
        self._keep_infos: KeepInfos = "none"
        super().__init__(first.kinds, num_lanes, first.name, exact=True)
        self.parameters, self.groups = first.parameters, first.groups
        self._first, self._helpers, self._tolerance, self._make_slab = first, list(helpers), tolerance, make_slab
        self._first_lanes = range(first.num_lanes)
        self._plan: SeedPlan | None = None
        self._playing = False  # whether there are episodes that a new helper would have to resume
        self._stepping = self._bursting = False
        self._clock = 0
        self._began = np.zeros(num_lanes, dtype=np.int64)
        self._number = np.zeros(num_lanes, dtype=np.int64)  # of each lane's episode before the step under way
        self._any_end = True
        self._any_rest = False
        self._snapshots: dict[
            int, tuple[int, Any]
        ] = {}  # of resumed lanes: the step in which their episode began, and its state
        self._losses_in_a_row = 0
        self._given_up_in_a_row = np.zeros(num_lanes, dtype=np.int64)
        self._remembers = any(helper.can_be_lost for helper in helpers)
        self.plays_bursts = self._remembers and first.single
        """Whether shares can make many steps without the caller, see `play_burst`."""
        self.burst: Burst | None = None
        """Memory for bursts that all shares use."""
        self._player: ShareLoop | None = None
        self._earned = np.zeros(num_lanes)  # sum of all rewards of the running episode, if a helper can be lost
        self._everyone = [np.arange(num_lanes)]
        single = self._single = first.single
        self._history = ActionHistory(single, num_lanes) if self._remembers or first.logged else None
        first.history = None
        for helper in self._helpers:
            try:
                helper.end()
            except HelperLost as loss:  # while building its environments, which `_replace` repeats in a new one
                self._replace(helper, loss)
        self.agents = deepcopy(first.agents)
        self._lay_out()

    def _lay_out(self) -> None:
        """Gives all shares memory for the current layout."""
        self.burst = None
        slab = self._slab = self._make_slab(self.agents.kinds, self.num_lanes, bool(self.agents.groups))
        self._first.attach(slab.part(self._first_lanes), deepcopy(self.agents))
        for helper in self._helpers:
            helper.move(slab, self.agents)
        for helper in self._helpers:
            try:
                helper.end()
            except HelperLost as loss:  # only it knew the observations of its lanes
                raise EnvError(
                    f"{self.name}: {loss}, just when an agent appeared there that was not announced"
                ) from loss
        self.kinds, self.notes, self.episode = self.agents.kinds, self.agents.notes, slab.episode
        self.layout = self.agents.version
        shares = [self._first_lanes, *(helper.lanes for helper in self._helpers)]
        self._ends = [np.array([lanes.stop for lanes in shares]) * len(kind.agents) for kind in self.kinds]
        self._all_of_share = [(slice(lanes.start, lanes.stop), [np.arange(len(lanes))]) for lanes in shares]
        self._sizes = tuple(self.num_lanes * len(kind.agents) for kind in self.kinds)
        self._before = slab.shown() if self._remembers else []

    def _grow(self) -> None:
        """Adds the agents that appeared in some shares, in the order of the lanes."""
        self.agents.merge(self._first.agents)
        for helper in self._helpers:
            if helper.grown:
                self.agents.merge(self._ask(helper, "layout_now"))
        self._lay_out()

    # -- playing -----------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._plan, self._playing = seeds, False
        self._everywhere(lambda helper: helper.begin("reset", seeds), lambda: self._first.reset(seeds))
        self._playing = True
        self._began[:] = self._clock
        self._earned[:] = 0.0
        self._snapshots.clear()
        self._any_end = True
        return self._settled()

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`. Also raises an EnvError if helpers are lost too often."""
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        waiting = self._everyone
        if not self._single or self._any_rest:
            waiting = [np.flatnonzero(block.rows.waiting) for block in self._slab.blocks]
        given = [np.array(action) for action in actions]
        check_counts(self.name, given, waiting)
        self._prepare_for_loss()
        if self._history is not None:
            self._history.add(given, waiting, self._sizes)
        (own, own_waiting), *others = self._split(given, waiting)
        tasks = dict(zip(self._helpers, others, strict=True))
        self._stepping = True
        try:
            self._everywhere(
                lambda helper: helper.begin("play", *tasks[helper]), lambda: self._first.play(own, own_waiting)
            )
        finally:
            self._stepping = False
            self._clock += 1
        self._any_end = self._first.any_end or any(helper.any_end for helper in self._helpers)
        self._losses_in_a_row = 0
        if self._any_end:
            self._given_up_in_a_row[self._slab.ended] = 0
        return self._settled()

    def lend(self, burst: Burst) -> None:
        """Gives all shares memory for bursts."""
        self.burst, self._player = burst, burst.plan.player(self._first, burst, self._first_lanes)
        self._everywhere(lambda helper: helper.lend(burst), lambda: None)

    def play_burst(self, steps: int) -> tuple[int, dict[str, float]]:
        """Steps every lane up to `steps` times; each share runs the policy itself, in the burst memory.

        Args:
            steps: Largest number of steps.

        Returns:
            The number of steps made, and seconds by part. It is fewer, or none, if an agent rests in the next step:
            then bursts are no longer used.

        Raises:
            EnvError: As `step` does.
        """
        assert self.burst is not None
        self._prepare_for_loss()
        self.burst.before[1] = self._earned
        self._stepping = self._bursting = True
        try:
            made, seconds = self._burst_of(steps)
            while made < steps:  # some lanes have stepped where another rests
                self.plays_bursts = False
                self._put_back()
                steps = made
                made, seconds = self._burst_of(steps)
        finally:
            self._stepping = self._bursting = False
        if made:
            self._count_played(made)
        return made, seconds

    def _burst_of(self, steps: int) -> tuple[int, dict[str, float]]:
        """Runs these steps in all shares; returns how many are valid in all of them, and the seconds by part."""
        player, began = self._player, perf_counter()
        assert player is not None
        made = self._everywhere(lambda helper: helper.begin("play_burst", steps), lambda: player.play(steps))
        parts = dict(player.seconds)
        return min(made), parts | {"env.step": perf_counter() - began - sum(parts.values())}

    def _put_back(self) -> None:
        """Restores all lanes to their state before the burst, like the lanes of a lost helper."""
        plan = self._plan
        assert plan is not None
        before = {lanes: self._state_before(lanes) for lanes in (self._first_lanes, *(h.lanes for h in self._helpers))}
        all_lost = self._everywhere(
            lambda helper: helper.begin("restore_episodes", before[helper.lanes], plan, False),
            lambda: self._first.restore_episodes(before[self._first_lanes], plan, leave=False),
        )
        self.exact = self.exact and not np.concatenate(all_lost).any()

    def _count_played(self, steps: int) -> None:
        """Records the same data as `step` does after each step."""
        burst, slab, history = self.burst, self._slab, self._history
        assert burst is not None and history is not None
        actions = burst.action[:steps]
        given = self.kinds[0].action.to_env(actions.reshape(-1, *actions.shape[2:]).copy())
        history.add_steps(given.reshape(steps, self.num_lanes, *given.shape[1:]), self._everyone, self._sizes)
        ended, lost = burst.ended[:steps], burst.lost[:steps]
        over = ended | lost
        last = steps - np.argmax(over[::-1], axis=0)  # of each lane, the steps until its last end
        self._began[:] = np.where(over.any(axis=0), self._clock + last, self._began)
        self._clock += steps
        self._earned[:] = burst.after[1]
        self._number[:] = slab.episode
        self._losses_in_a_row = 0
        self._given_up_in_a_row[ended.any(axis=0)] = 0
        for block in slab.blocks:
            block.gather()
        if lost.any():
            self.counters |= count_lost(slab, self._clock, self.name)
        history.tidy(self._began, steps)

    def _split(
        self, given: list[np.ndarray], waiting: list[np.ndarray]
    ) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Returns the actions and waiting rows of each share, rows counted from its first."""
        if waiting is self._everyone:  # each lane has one agent, and all act
            return [([given[0][rows]], every) for rows, every in self._all_of_share]
        cuts = [np.searchsorted(rows, ends).tolist() for rows, ends in zip(waiting, self._ends, strict=True)]
        shares: list[tuple[list[np.ndarray], list[np.ndarray]]] = []
        for share in range(len(self._helpers) + 1):
            own, own_waiting = [], []
            for actions, rows, cut, ends in zip(given, waiting, cuts, self._ends, strict=True):
                mine = slice(cut[share - 1] if share else 0, cut[share])
                own.append(actions[mine])
                own_waiting.append(rows[mine] - ends[share - 1] if share else rows[mine])
            shares.append((own, own_waiting))
        return shares

    def _settled(self) -> Step:
        """Combines the results of the shares: new agents, ends, final observations, infos."""
        if self._first.agents.version != self.layout or any(helper.grown for helper in self._helpers):
            self._grow()
        slab, lost = self._slab, None
        if self._remembers:
            slab.add_rewards(self._earned)
        if self._any_end:
            over = slab.ended | slab.lost
            self._began[over] = self._clock
            self._earned[over] = 0.0
            self._number[:] = slab.episode
            for block in slab.blocks:
                block.gather()
            self.counters |= count_lost(slab, self._clock, self.name)
            if np.count_nonzero(slab.lost):
                lost = slab.lost
        else:
            for block in slab.blocks:
                forget_finals(block.rows)
        if self._history is not None:
            self._history.tidy(self._began, 1)
        if self._keep_infos != "none":
            beside = {h.lanes.start + lane: info for h in self._helpers for lane, info in h.infos.items()}
            self.infos = {**self._first.infos, **beside}
        self._any_rest = any(True in block.rows.resting.tobytes() for block in slab.blocks)
        return Step(tuple(block.rows for block in slab.blocks), slab.ended, lost, self._any_end, self._any_rest)

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan, in all shares."""
        self._plan = seeds
        self._everywhere(lambda helper: helper.begin("replan", seeds), lambda: self._first.replan(seeds))

    # -- helpers -----------------------------------------------------------------------------------

    def _everywhere(self, begin: Callable[[Helper], None], own: Callable[[], Any]) -> list[Any]:
        """Runs a call in all shares at the same time; raises the first error."""
        if self._remembers:
            note_activity(RESET)  # helper processes check both time limits by themselves, also during a replacement
        for helper in self._helpers:
            begin(helper)
        results, problems = [], []
        try:
            results.append(own())
        except EnvError as error:
            problems.append(error)
        for helper in self._helpers:
            try:
                results.append(self._finish(helper, begin))
            except EnvError as error:
                problems.append(error)
        if problems:
            raise problems[0]
        return results

    def _ask(self, helper: Helper, task: str, *arguments: Any) -> Any:
        helper.begin(task, *arguments)
        return self._finish(helper, lambda helper: helper.begin(task, *arguments))

    def _finish(self, helper: Helper, begin: Callable[[Helper], None]) -> Any:
        """Waits for a helper's call; if the helper is lost, repeats the call in a new one."""
        while True:
            try:
                return helper.end()
            except HelperLost as loss:
                self._replace(helper, loss)
                begin(helper)

    def _replace(self, helper: Helper, loss: HelperLost) -> None:
        """Replaces a lost helper, and restores its lanes.

        Raises:
            EnvError: If too many have been lost.
        """
        state = self._state_before(helper.lanes) if self._playing else None  # now: a new helper begins with empty rows
        while True:
            restarts = self.counters.get("helper_restarts", 0) + 1
            self._losses_in_a_row += 1
            about = f"{self.name}: {loss}; {self._whereabouts(helper.lanes)}"
            most = self._tolerance.max_restarts
            if self._losses_in_a_row >= LOSSES_IN_A_ROW:
                raise EnvError(
                    f"{about}; that was the {ordinal(LOSSES_IN_A_ROW)} in a row, so it would happen again"
                ) from loss
            if restarts > most:
                raise EnvError(f"{about}; sampling.max_restarts = {most} helpers have been replaced before") from loss
            self.counters["helper_restarts"] = restarts
            note_activity(RESET)
            warnings.warn(f"{about}; a new one takes over", RuntimeWarning, stacklevel=2)
            try:
                helper.replace()
                helper.end()
                if hasattr(self, "_slab"):
                    helper.move(self._slab, self.agents)
                    helper.end()
                if self.burst is not None:
                    helper.lend(self.burst)
                    helper.end()
                if self._keep_infos != "none":
                    helper.begin("ask_for_infos", self._keep_infos)
                    helper.end()
                if state is not None:
                    helper.begin("restore_episodes", state, self._plan, False)
                    lost = helper.end()
                    self.exact = self.exact and not lost.any()
                    self._count_given_up(helper.lanes, lost, about, loss)
                return
            except HelperLost as another:
                loss = another

    def _count_given_up(self, lanes: range, lost: np.ndarray, about: str, loss: HelperLost) -> None:
        """Counts the episodes of a lost helper that cannot be resumed.

        Args:
            lanes: Lanes of the helper.
            lost: Those that cannot be restored.
            about: Description of the event.
            loss: The same as an error.

        Raises:
            EnvError: If a lane loses its helper again and again.
        """
        mine = self._given_up_in_a_row[lanes.start : lanes.stop]
        mine += lost
        if mine.max() >= GIVEN_UP_IN_A_ROW:
            lane = lanes[int(mine.argmax())]
            place = ordinal(GIVEN_UP_IN_A_ROW)
            raise EnvError(
                f"{about}; that was the {place} episode of environment {lane} in a row that had to be given up"
            ) from loss

    def _whereabouts(self, lanes: range) -> str:
        """Describes the state of some lanes for messages."""
        if not self._playing or self._plan is None:
            return "no episode had begun"
        clock = self._clock + self._stepping
        shown = [
            f"environment {lane} in step {clock - self._began[lane]} of episode {self._number[lane]}, "
            f"seed {self._plan(lane, int(self._number[lane]))}"
            for lane in lanes[:NAMED_LANES]
        ]
        more = len(lanes) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")

    def _prepare_for_loss(self) -> None:
        """Copies the content of all lanes before a step, because a helper that dies in it may have overwritten some."""
        for block, kept in zip(self._slab.blocks, self._before, strict=False):
            for path, array in kept["obs"].items():
                np.copyto(array, block.rows.obs[path])
            np.copyto(kept["waiting"], block.rows.waiting)
            np.copyto(kept["resting"], block.rows.resting)

    def _state_before(self, lanes: range) -> dict[str, Any]:
        """Returns the saved state of some lanes before the step in progress, or now if there is none, for a new
        helper.
        """
        assert self._plan is not None and self._history is not None
        rows = self._rows_of(lanes, self._before if self._stepping else self._slab.shown())
        where: list[dict[str, Any]] = []
        for lane in lanes:
            began = int(self._began[lane])
            log = self._history.log(lane, began, self._stepping and not self._bursting)
            taken_up, snapshot = self._snapshots.get(lane, (-1, None))
            base = {"snapshot": snapshot} if taken_up == began else {}
            where.append({} if log is None else base | {"actions": log})
        mine = slice(lanes.start, lanes.stop)
        return {
            "rows": rows,
            "episode": self._number[mine],
            "seeds": [self._plan(lane, int(self._number[lane])) for lane in lanes],
            "clock": self._clock,
            "began": self._began[mine].tolist(),
            "idle": [0] * len(lanes),
            "earned": self._earned[mine],
            "broken": self._slab.broken[mine].copy(),
            "discarded": self._slab.discarded[mine].copy(),
            "lanes": where,
        }

    # -- resuming ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every lane, in the form of `SerialEnv.state_dict`."""
        shares = self._everywhere(lambda helper: helper.begin("state_dict"), self._first.state_dict)
        state = dict(shares[0])
        for name in PER_LANE:
            parts = [share[name] for share in shares]
            state[name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [x for p in parts for x in p]
        for lane, where in enumerate(state["lanes"]):
            if "actions" in where:
                assert self._history is not None
                log = self._history.log(lane, int(self._began[lane]))
                state["lanes"][lane] = {} if log is None else {"actions": log}
        state["rows"] = self._slab.shown()
        return state | {"counters": dict(self.counters), "exact": self.exact}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`; see `VectorEnv.load_state_dict`."""
        if "lanes" not in state or len(state["lanes"]) != self.num_lanes:
            raise foreign_state(self.name)
        self._playing = False
        self._first.meet(state)
        if self._first.agents.version != self.layout:
            self._grow()
        self._plan, self._clock = seeds, state["clock"]
        parts = {lanes: self._part(state, lanes) for lanes in (self._first_lanes, *(h.lanes for h in self._helpers))}
        all_lost = self._everywhere(
            lambda helper: helper.begin("restore_episodes", parts[helper.lanes], seeds, True),
            lambda: self._first.restore_episodes(parts[self._first_lanes], seeds, leave=True),
        )
        lost = np.concatenate(all_lost)
        self._began[:] = np.where(lost, self._clock, state["began"])
        snapshots = {lane: where["snapshot"] for lane, where in enumerate(state["lanes"]) if "snapshot" in where}
        self._snapshots = {lane: (int(self._began[lane]), snapshot) for lane, snapshot in snapshots.items()}
        self._earned[:] = np.where(lost, 0.0, state["earned"])
        self._earned[list(snapshots)] = 0.0
        if self._history is not None:
            found = zip(state["lanes"], lost.tolist(), strict=True)
            logs = [None if gone or not where else where.get("actions", []) for where, gone in found]
            self._history.restore_episodes(self._clock, self._began.tolist(), logs)
        self.exact = self.exact and state["exact"] and not lost.any()
        self.counters = dict(state.get("counters", {}))
        self._playing = self._any_end = True
        return self._settled(), lost

    def _part(self, state: dict[str, Any], lanes: range) -> dict[str, Any]:
        """Returns the part of a saved state for some lanes."""
        mine = slice(lanes.start, lanes.stop)
        own = {name: state[name][mine] for name in PER_LANE if name in state}
        return {**state, **own, "rows": self._rows_of(lanes, state["rows"])}

    def _rows_of(self, lanes: range, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Returns the rows of some lanes, for a saved state."""
        rows = []
        for saved, kind in zip(shown, self.kinds, strict=True):
            mine = slice(lanes.start * len(kind.agents), lanes.stop * len(kind.agents))
            flags = {name: saved[name][mine] for name in ("waiting", "resting") if name in saved}
            rows.append({"obs": {path: array[mine] for path, array in saved["obs"].items()}, **flags})
        return rows

    @property
    def keep_infos(self) -> KeepInfos:
        """Lanes of which to keep `infos`."""
        return self._keep_infos

    @keep_infos.setter
    def keep_infos(self, keep: KeepInfos) -> None:
        """Sets the attribute in all shares if it changes."""
        if keep != self._keep_infos:
            self._keep_infos = self._first.keep_infos = keep
            for helper in self._helpers:
                self._ask(helper, "ask_for_infos", keep)

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render."""
        for helper in self._helpers:
            if lane in helper.lanes:
                picture: np.ndarray | None = self._ask(helper, "render", lane - helper.lanes.start)
                return picture
        return self._first.render(lane)

    def close(self) -> None:
        """Closes every environment and ends the helpers, and only then raises an exception of a `close`."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._first.close)
            for helper in self._helpers:
                stack.callback(helper.close)
            self._helpers.clear()
