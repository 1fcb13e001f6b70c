"""Actions that agents chose by themselves, and decisions that are not recorded: external environments may send both."""

from __future__ import annotations

import numpy as np

from rookery.envs.base import Kind, Rows
from rookery.rollout.tables import Route, RowTable
from rookery.rollout.worker_state import WorkerState


def act_with_own_actions(state: WorkerState, table: RowTable, rows: Rows, kind: Kind, step: int | None) -> np.ndarray:
    """Returns the actions ``[R, ...]`` of all rows of a kind, where some agents chose their own actions.

    A policy that learns from any action keeps these. For another policy, the fragment of such a slot is cut off before
    them, and a new one begins when the policy decides again.

    Args:
        state: State of the worker.
        table: Policies of the rows.
        rows: Current observations and outcomes of the rows.
        kind: Kind of the agents.
        step: Number of the vector step; None for deterministic actions.
    """
    chosen = np.zeros((len(rows.reward), *kind.action.shape), dtype=kind.action.dtype)
    numbers, acted = np.arange(len(rows.reward)), []
    for route in table.acted:
        mine, policy = numbers[route.rows], route.policy
        own = np.isin(mine, rows.own_index)
        if policy.store is not None and not policy.store.demand.any_actions and own.any():
            state.actions_not_learned += int(np.count_nonzero(own))
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
            policy.override_actions(route.slots, np.flatnonzero(own), did)
        acted.append(route)
    table.acted, table.all_acted = acted, False
    return chosen


def act_unlearned(state: WorkerState, table: RowTable, rows: Rows, kind: Kind, step: int | None) -> np.ndarray:
    """Returns the actions ``[R, ...]`` of all rows of a kind, where some decisions are not recorded; policies remember
    them all the same. Arguments are those of `act_with_own_actions`.
    """
    assert state.now is not None and state.now.unlearned is not None
    beyond = np.repeat(state.now.unlearned, len(kind.agents))
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
        chosen[mine] = policy.act_without_recording(table.slot_of[mine], rows.obs, mine, step)
        if rows.own_action is not None and (own := np.isin(mine, rows.own_index)).any():
            own_actions = rows.own_action[np.searchsorted(rows.own_index, mine[own])]
            policy.override_actions(table.slot_of[mine], np.flatnonzero(own), own_actions)
    table.acted, table.all_acted = acted, False
    kept = act_with_own_actions(state, table, rows, kind, step)
    chosen[~beyond] = kept[~beyond]
    return chosen
