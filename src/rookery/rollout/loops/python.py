"""The loop in Python: one vector step at a time, for any environment, policies and listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from rookery.core.process.activity import STEP, note_activity
from rookery.core.process.torch_modes import call_in_user_modes, keep_own, user_modes_differ
from rookery.envs.base import Rows, Step
from rookery.rollout.agent_episodes import record_agent_episodes
from rookery.rollout.own_actions import act_unlearned, act_with_own_actions
from rookery.rollout.storage import Outcome
from rookery.rollout.tables import RowTable
from rookery.rollout.worker_state import WorkerState

Stepping = Callable[[Callable[[Any], Any], Any], Any]
"""Calls the function that steps environments with the actions of all agents, and returns its result."""


class PythonLoop:
    """Makes one vector step per call: policies act, environments are stepped, and the outcome is recorded.

    Attributes:
        stepping: Wrapper around `VectorEnv.step`; None if none is needed.
    """

    def __init__(self) -> None:
        self.stepping: Stepping | None = None

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes one vector step; see `Loop.play`."""
        assert state.now is not None
        timer, began, env = state.timers.current, perf_counter(), state.env
        actions = [act(state, number) for number in range(len(state.tables))]
        playing = env.episode.copy()
        resting = state.now.at_rest() if state.now.any_rest else None
        acted = perf_counter()
        state.now = env.step(actions) if self.stepping is None else self.stepping(env.step, actions)
        stepped = perf_counter()
        timer.add("act", acted - began)
        timer.add("env.step", stepped - acted)
        state.vector_steps, state.env_steps = state.vector_steps + 1, state.env_steps + env.num_lanes
        state.lengths += 1
        if resting is not None or state.now.stepped is not None:
            uncount(state, state.now, resting)
        if state.layout != env.layout:
            state.lay_out()
        record(state, state.now, playing)
        timer.add("record", perf_counter() - stepped)
        return True


@contextmanager
def stepping(is_watched: bool) -> Iterator[Stepping | None]:
    """Yields the wrapper with which environments are stepped in the block; None if none is needed.

    Args:
        is_watched: Whether another process monitors the steps.
    """
    yield (_in_users_modes if user_modes_differ() else _noted if is_watched else None)
    keep_own()


def _noted(step: Callable[[Any], Any], actions: Any) -> Any:
    note_activity(STEP)
    return step(actions)


def _in_users_modes(step: Callable[[Any], Any], actions: Any) -> Any:
    note_activity(STEP)
    return call_in_user_modes(step, actions)


def uncount(state: WorkerState, step: Step, resting: np.ndarray | None) -> None:
    """Subtracts steps of lanes that did not continue in a vector step, or rested before it."""
    still = np.zeros(state.env.num_lanes, dtype=bool) if step.stepped is None else ~step.stepped
    state.standstills += int(np.count_nonzero(still))
    still = still if resting is None else still | resting
    state.env_steps -= int(np.count_nonzero(still))
    state.lengths -= still
    if step.waited:
        state.timers["env.step"].add("wait", step.waited)


def act(state: WorkerState, number: int) -> np.ndarray:
    """Returns the actions of the waiting rows of one kind in the environment's form."""
    assert state.now is not None
    table, rows, kind = state.tables[number], state.now.rows[number], state.env.kinds[number]
    step = None if state.deterministic else state.vector_steps
    if state.now.unlearned is not None:
        return kind.action.to_env(act_unlearned(state, table, rows, kind, step)[rows.waiting])
    if rows.own_action is not None:
        return kind.action.to_env(act_with_own_actions(state, table, rows, kind, step)[rows.waiting])
    if table.all_acted and len(table.acted) == 1:
        (route,) = table.acted
        return kind.action.to_env(route.policy.decide(route.slots, rows.obs, route.rows, step))
    chosen = np.zeros((len(rows.reward), *kind.action.shape), dtype=kind.action.dtype)
    for route in table.acted:
        chosen[route.rows] = route.policy.decide(route.slots, rows.obs, route.rows, step)
    return kind.action.to_env(chosen if table.all_acted else chosen[rows.waiting])


def record(state: WorkerState, step: Step, playing: np.ndarray) -> None:
    """Assigns rewards, ends and final observations to the decisions; records ended episodes.

    Args:
        step: Result of the vector step.
        playing: ``[lanes]`` number of each lane's episode in that step.
    """
    for table, rows in zip(state.tables, step.rows, strict=True):
        table.returns += rows.reward
        reward = earned(state, table, rows) if state.groups else rows.reward
        if step.any_end and len(rows.final_index):
            record_finals(state, table, rows)
        if not table.all_acted or False in rows.waiting.tobytes():
            record_some(state, table, rows, reward)
            continue
        any_end = step.any_end and (True in rows.terminated.tobytes() or True in rows.truncated.tobytes())
        for route in table.acted:
            ends = (rows.terminated[route.rows], rows.truncated[route.rows]) if any_end else (None, None)
            route.policy.record(route.slots, Outcome(reward[route.rows], ends[0], ends[1], None))
    if state.listeners is not None and state.listeners.every_step:
        state.listeners.stepped(step, state.tables, state.lengths)
    if state.own_episodes:
        record_agent_episodes(state, step, playing)
    if step.any_end:
        for lane in step.ended.nonzero()[0].tolist():
            state.finish(lane, int(playing[lane]), step)
    if step.lost is not None:
        record_lost(state, step)


def earned(state: WorkerState, table: RowTable, rows: Rows) -> np.ndarray:
    """Returns ``[R]`` rewards to learn from for the rows of a kind; sums group rewards, which all members share."""
    if rows.group_reward is not None:
        each = rows.group_reward.reshape(state.env.num_lanes, -1)
        for group, column in state.first_of_groups[state.tables.index(table)]:
            state.group_returns[:, group] += each[:, column]
    return table.earned(rows)


def record_some(state: WorkerState, table: RowTable, rows: Rows, reward: np.ndarray) -> None:
    """Records outcomes for all rows with a slot, whether they acted now, earlier or not yet in this episode."""
    state.rewards_unclaimed += int(np.count_nonzero(rows.reward[table.policy_of < 0]))
    for policy in state.policies.values():
        mine = np.flatnonzero(table.policy_of == policy.number)
        if len(mine):
            outcome = Outcome(reward[mine], rows.terminated[mine], rows.truncated[mine], rows.waiting[mine])
            policy.record(table.slot_of[mine], outcome)


def record_finals(state: WorkerState, table: RowTable, rows: Rows) -> None:
    """Passes final observations to the policies of truncated agents."""
    state.finals_stale += rows.final_stale
    players = table.policy_of[rows.final_index]
    for policy in state.policies.values():
        which = np.flatnonzero(players == policy.number)
        if policy.store is not None and len(which):
            policy.store.write_final_obs(table.slot_of[rows.final_index[which]], rows.final_obs, which)


def record_lost(state: WorkerState, step: Step) -> None:
    """Drops episodes that were lost in a step; the next ones of their lanes have begun."""
    assert step.lost is not None
    for lane in np.flatnonzero(step.lost).tolist():
        state.forget(lane)
        if state.listeners is not None:
            state.listeners.begin(lane, step)
