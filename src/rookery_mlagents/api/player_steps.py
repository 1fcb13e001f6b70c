"""Conversion of player messages to steps of ML-Agents' low-level API, and of a script's actions to answers."""

from __future__ import annotations

import numpy as np

from rookery.face import MASK, Answer, Asking, Ended
from rookery_mlagents.api.exceptions import UnityObservationException
from rookery_mlagents.api.specs import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from rookery_mlagents.api.steps import DecisionSteps, TerminalSteps
from rookery_mlagents.link.image_messages import channels_first
from rookery_mlagents.link.layouts import CHOICES, NUMBERS, BehaviorLayout, SensorLayout

BYTE = 255.0
"""Largest value of a byte image, which scripts receive scaled to [0, 1]."""


def spec_of(layout: BehaviorLayout) -> BehaviorSpec:
    """Returns the specification of a behaviour in the low-level API."""
    sensors = []
    for sensor in layout.sensors:
        properties = sensor.properties or (0,) * len(sensor.shape)
        kind = ObservationType.GOAL_SIGNAL if sensor.is_goal else ObservationType.DEFAULT
        sensors.append(ObservationSpec(sensor.shape, tuple(map(DimensionProperty, properties)), kind, sensor.name))
    branches = tuple(int(size) for size in layout.action.sizes)
    return BehaviorSpec(sensors, ActionSpec(layout.action.num_numbers, branches))


def decision_steps(layout: BehaviorLayout, asking: Asking) -> DecisionSteps:
    """Returns the steps of agents that request an action.

    Raises:
        UnityObservationException: If a number is none; names the sensor.
    """
    masks = None
    if sizes := layout.action.sizes:
        ends = np.cumsum(sizes)[:-1]
        masks = np.split(~asking.obs[MASK], ends, axis=1)
    ids, groups, reward, group_reward = _agent_arrays(layout, asking)
    return DecisionSteps(_seen(layout, asking), reward, ids, masks, groups, group_reward)


def terminal_steps(layout: BehaviorLayout, ended: Ended) -> TerminalSteps:
    """Returns the steps of agents whose episode has ended.

    Raises:
        UnityObservationException: As `decision_steps`.
    """
    ids, groups, reward, group_reward = _agent_arrays(layout, ended)
    cut = np.array(ended.truncated, dtype=bool)
    return TerminalSteps(_seen(layout, ended), reward, cut, ids, groups, group_reward)


def _seen(layout: BehaviorLayout, agents: Asking) -> list[np.ndarray]:
    """Returns the observations of each sensor as sent by the player, ``[N, *shape]`` float32."""
    found = []
    for sensor in layout.sensors:
        values = _sent(sensor, agents.obs[sensor.path])
        if not np.isfinite(values).all():
            raise UnityObservationException(
                f"behaviour {layout.name}, sensor {sensor.name or sensor.path!r}: an agent sees "
                f"{values[~np.isfinite(values)][0]}, expected finite numbers"
            )
        found.append(values)
    return found


def _sent(sensor: SensorLayout, stored: np.ndarray) -> np.ndarray:
    """Converts stored values to those that a sensor sent; uint8 images are scaled to [0, 1]."""
    if sensor.is_constant:
        return np.zeros((len(stored), *sensor.shape), np.float32)
    if sensor.is_set:
        return np.array(stored[..., 1:], np.float32)
    if sensor.is_turned:
        first = channels_first(sensor.shape, sensor.properties)
        stored = np.moveaxis(stored, -1, 1) if first else np.moveaxis(stored, 1, -1)
    values = np.array(stored, np.float32)
    return values / np.float32(BYTE) if sensor.is_packed else values


def _agent_arrays(layout: BehaviorLayout, agents: Asking) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids, groups (0 for none), rewards and group rewards, ``[N]`` each."""
    num = len(agents.ids)
    ids = np.array(agents.ids, np.int32)
    groups = np.array([group or 0 for group in agents.groups] or [0] * num, np.int32)
    reward = np.array(agents.reward, np.float32)
    got = np.zeros(num, np.float32) if agents.group_reward is None else np.array(agents.group_reward, np.float32)
    for what, numbers in (("reward", reward), ("group reward", got)):
        if not np.isfinite(numbers).all():
            bad = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise UnityObservationException(
                f"behaviour {layout.name}: agent {ids[bad]} got the {what} {numbers[bad]}, expected a finite number"
            )
    return ids, groups, reward, got


def answer_of(layout: BehaviorLayout, ids: np.ndarray, actions: ActionTuple) -> Answer:
    """Returns the answer to agents, given their actions in order."""
    spec = layout.action
    both: np.ndarray
    if spec.kind == "composite":
        both = np.empty(len(ids), dtype=object)
        for row, (numbers, choices) in enumerate(zip(actions.continuous, actions.discrete, strict=True)):
            both[row] = {NUMBERS: numbers, CHOICES: choices}
    elif spec.kind == "box":
        both = actions.continuous
    else:
        both = actions.discrete.astype(np.int64).reshape(len(ids), *spec.shape)
    return Answer([int(agent) for agent in ids], both)
