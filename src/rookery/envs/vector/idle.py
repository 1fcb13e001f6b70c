"""What agents at rest are stepped on with: an environment that steps them must be given something, and ignores it."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.envs.base import Kind
from rookery.envs.lane import Agent
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.slab import Slab


def idle_actions(kind: Kind, number: int) -> np.ndarray:
    """The environment's own actions ``[number, ...]`` of agents that rest: the first choice, the middle of a box.

    They are the same whatever an agent did before, so that nothing has to be remembered for a rest.
    """
    spec = kind.action
    return spec.to_env(np.zeros((number, *spec.shape), spec.dtype))


def with_idle(given: np.ndarray, waiting: np.ndarray, kind: Kind, num_lanes: int) -> np.ndarray:
    """An action for each of so many Gymnasium lanes, of which only those in `waiting` are given theirs."""
    if len(given) == num_lanes:
        return given
    actions = idle_actions(kind, num_lanes)
    actions[waiting] = given
    return actions


def add_idle(actions: list[dict[Agent, Any]], agents: Layout, slab: Slab) -> None:
    """Adds those of agents that rest to the actions of each lane."""
    for kind, ids, block in zip(agents.kinds, agents.ids, slab.blocks, strict=True):
        rows = np.flatnonzero(block.rows.resting).tolist()
        for row, action in zip(rows, idle_actions(kind, len(rows)), strict=True):
            lane, column = divmod(row, len(ids))
            actions[lane][ids[column]] = action
