"""Steps as in ML-Agents' low-level API: the agents that request an action, and those whose episode ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rookery_mlagents.api.specs import BehaviorSpec

OneStep = TypeVar("OneStep")


class DecisionStep(NamedTuple):
    """An agent that requests an action; in each branch of `action_mask`, True marks a forbidden action."""

    obs: list[np.ndarray]
    reward: float
    agent_id: int
    action_mask: list[np.ndarray] | None
    group_id: int
    group_reward: float


class TerminalStep(NamedTuple):
    obs: list[np.ndarray]
    reward: float
    interrupted: bool
    agent_id: int
    group_id: int
    group_reward: float


class _Steps(Mapping[int, OneStep], Generic[OneStep]):
    """N agents of one behaviour, by their ids; order and number change from step to step."""

    obs: list[np.ndarray]
    reward: np.ndarray
    agent_id: np.ndarray
    group_id: np.ndarray
    group_reward: np.ndarray
    _index: dict[int, int] | None = None

    @property
    def agent_id_to_index(self) -> dict[int, int]:
        """Row of each agent."""
        if self._index is None:
            self._index = {int(agent): row for row, agent in enumerate(self.agent_id)}
        return self._index

    def _row(self, agent_id: int) -> int:
        try:
            return self.agent_id_to_index[agent_id]
        except KeyError:
            here = ", ".join(map(str, self.agent_id_to_index)) or "nobody"
            raise KeyError(f"agent {agent_id} is not in these {type(self).__name__}; there are: {here}") from None

    def __len__(self) -> int:
        return len(self.agent_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Steps) or type(other) is not type(self):
            return NotImplemented
        own_arrays, other_arrays = self._arrays(), other._arrays()
        return len(own_arrays) == len(other_arrays) and all(map(np.array_equal, own_arrays, other_arrays))

    __hash__ = None  # type: ignore[assignment]

    def _arrays(self) -> list[np.ndarray]:
        """All arrays, in a fixed order."""
        return [*self.obs, self.reward, self.agent_id, self.group_id, self.group_reward]

    def __iter__(self) -> Iterator[int]:
        return iter(self.agent_id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent_id={np.asarray(self.agent_id).tolist()})"


class DecisionSteps(_Steps[DecisionStep]):
    """The N agents of one behaviour that request an action; a mapping from id to `DecisionStep`.

    Args:
        obs: ``[N, *shape]`` for each sensor.
        reward: ``[N]`` float32.
        agent_id: ``[N]`` int32.
        action_mask: For each branch ``[N, choices]`` bool, True = forbidden; None where there are no choices.
        group_id: ``[N]`` int32, 0 for none.
        group_reward: ``[N]`` float32.
    """

    def __init__(
        self,
        obs: list[np.ndarray],
        reward: np.ndarray,
        agent_id: np.ndarray,
        action_mask: list[np.ndarray] | None,
        group_id: np.ndarray,
        group_reward: np.ndarray,
    ) -> None:
        self.obs, self.reward, self.agent_id, self.action_mask = obs, reward, agent_id, action_mask
        self.group_id, self.group_reward = group_id, group_reward

    def _arrays(self) -> list[np.ndarray]:
        return [*super()._arrays(), *(self.action_mask or ())]

    def __getitem__(self, agent_id: int) -> DecisionStep:
        row = self._row(agent_id)
        mask = None if self.action_mask is None else [branch[row] for branch in self.action_mask]
        seen = [sensor[row] for sensor in self.obs]
        return DecisionStep(seen, self.reward[row], agent_id, mask, self.group_id[row], self.group_reward[row])

    @staticmethod
    def empty(spec: BehaviorSpec) -> DecisionSteps:
        seen, numbers, ids = _no_agents(spec)
        return DecisionSteps(seen, numbers, ids, None, ids.copy(), numbers.copy())


class TerminalSteps(_Steps[TerminalStep]):
    """The N agents of one behaviour whose episode has ended; a mapping from id to `TerminalStep`.

    Args:
        obs: ``[N, *shape]`` for each sensor.
        reward: ``[N]`` float32.
        interrupted: ``[N]`` bool, whose episode was cut off.
        agent_id: ``[N]`` int32.
        group_id: ``[N]`` int32, 0 for none.
        group_reward: ``[N]`` float32.
    """

    def __init__(
        self,
        obs: list[np.ndarray],
        reward: np.ndarray,
        interrupted: np.ndarray,
        agent_id: np.ndarray,
        group_id: np.ndarray,
        group_reward: np.ndarray,
    ) -> None:
        self.obs, self.reward, self.interrupted, self.agent_id = obs, reward, interrupted, agent_id
        self.group_id, self.group_reward = group_id, group_reward

    def _arrays(self) -> list[np.ndarray]:
        return [*super()._arrays(), self.interrupted]

    def __getitem__(self, agent_id: int) -> TerminalStep:
        row = self._row(agent_id)
        seen, cut = [sensor[row] for sensor in self.obs], self.interrupted[row]
        return TerminalStep(seen, self.reward[row], cut, agent_id, self.group_id[row], self.group_reward[row])

    @staticmethod
    def empty(spec: BehaviorSpec) -> TerminalSteps:
        seen, numbers, ids = _no_agents(spec)
        return TerminalSteps(seen, numbers, np.zeros(0, bool), ids, ids.copy(), numbers.copy())


def _no_agents(spec: BehaviorSpec) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    seen = [np.zeros((0, *sensor.shape), np.float32) for sensor in spec.observation_specs]
    return seen, np.zeros(0, np.float32), np.zeros(0, np.int32)
