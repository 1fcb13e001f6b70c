"""Observations and actions of a behaviour, as in ML-Agents' low-level API: `BehaviorSpec` and its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, IntFlag
from typing import Any, NamedTuple

import numpy as np

from rookery_mlagents.api.exceptions import UnityActionException

AgentId = int
GroupId = int
BehaviorName = str


class DimensionProperty(IntFlag):
    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


class ObservationType(Enum):
    DEFAULT = 0
    GOAL_SIGNAL = 1


class ActionTuple:
    """Actions of N agents: `continuous` float32 ``[N, numbers]``, `discrete` int32 ``[N, branches]``, or ``[N, 0]``."""

    def __init__(self, continuous: np.ndarray | None = None, discrete: np.ndarray | None = None) -> None:
        self._continuous: Any = None
        self._discrete: Any = None
        if continuous is not None:
            self.add_continuous(continuous)
        if discrete is not None:
            self.add_discrete(discrete)

    @property
    def continuous(self) -> np.ndarray:
        """``[N, numbers]`` float32; None while no actions were added."""
        numbers: np.ndarray = self._continuous
        return numbers

    @property
    def discrete(self) -> np.ndarray:
        """``[N, branches]`` int32; None while no actions were added."""
        choices: np.ndarray = self._discrete
        return choices

    @property
    def discrete_dtype(self) -> Any:
        return np.int32

    def add_continuous(self, continuous: np.ndarray) -> None:
        """Sets the continuous actions ``[N, numbers]``; discrete ones not set yet become ``[N, 0]``."""
        self._continuous = np.asarray(continuous).astype(np.float32, copy=False)
        if self._discrete is None:
            self._discrete = np.zeros((len(self._continuous), 0), self.discrete_dtype)

    def add_discrete(self, discrete: np.ndarray) -> None:
        """Sets the discrete actions ``[N, branches]``; continuous ones not set yet become ``[N, 0]``."""
        self._discrete = np.asarray(discrete).astype(self.discrete_dtype, copy=False)
        if self._continuous is None:
            self._continuous = np.zeros((len(self._discrete), 0), np.float32)

    def __repr__(self) -> str:
        return f"ActionTuple(continuous={self._continuous!r}, discrete={self._discrete!r})"


class ActionSpec(NamedTuple):
    continuous_size: int
    discrete_branches: tuple[int, ...]

    def __str__(self) -> str:
        return f"Continuous: {self.continuous_size}, Discrete: {self.discrete_branches}"

    @property
    def discrete_size(self) -> int:
        return len(self.discrete_branches)

    def is_discrete(self) -> bool:
        return self.discrete_size > 0 and self.continuous_size == 0

    def is_continuous(self) -> bool:
        return self.continuous_size > 0 and self.discrete_size == 0

    def empty_action(self, n_agents: int) -> ActionTuple:
        numbers = np.zeros((n_agents, self.continuous_size), np.float32)
        return ActionTuple(numbers, np.zeros((n_agents, self.discrete_size), np.int32))

    def random_action(self, n_agents: int) -> ActionTuple:
        """Draws actions uniformly, by NumPy's global generator: continuous ones from [-1, 1], discrete ones regardless
        of masks.
        """
        numbers = np.random.uniform(-1.0, 1.0, (n_agents, self.continuous_size))
        choices = np.zeros((n_agents, self.discrete_size), np.int32)
        for place, size in enumerate(self.discrete_branches):
            choices[:, place] = np.random.randint(0, size, n_agents, np.int32)
        return ActionTuple(numbers, choices)

    def _validate_action(self, actions: ActionTuple, n_agents: int, name: str) -> ActionTuple:
        """Returns the actions if they fit N agents of this behaviour.

        Raises:
            UnityActionException: If they do not; names the expected shape.
        """
        if not (hasattr(actions, "continuous") and hasattr(actions, "discrete")):
            raise UnityActionException(
                f"behaviour {name}: actions are {type(actions).__name__}, expected an ActionTuple (continuous "
                f"[{n_agents}, {self.continuous_size}], discrete [{n_agents}, {self.discrete_size}])"
            )
        numbers = "continuous", actions.continuous, self.continuous_size
        choices = "discrete", actions.discrete, self.discrete_size
        for kind, given, width in (numbers, choices) if self.continuous_size else (choices, numbers):
            shape = np.shape(given) if given is not None else (n_agents, 0)
            if shape != (n_agents, width):
                raise UnityActionException(
                    f"behaviour {name}: {kind} actions have shape {shape}, expected {(n_agents, width)}: agents that "
                    f"asked for an action in the last step, and the size of the behaviour's {kind} actions"
                )
        return actions

    @staticmethod
    def create_continuous(continuous_size: int) -> ActionSpec:
        return ActionSpec(continuous_size, ())

    @staticmethod
    def create_discrete(discrete_branches: tuple[int, ...]) -> ActionSpec:
        return ActionSpec(0, discrete_branches)

    @staticmethod
    def create_hybrid(continuous_size: int, discrete_branches: tuple[int, ...]) -> ActionSpec:
        return ActionSpec(continuous_size, discrete_branches)


class ObservationSpec(NamedTuple):
    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...]
    observation_type: ObservationType
    name: str


class BehaviorSpec(NamedTuple):
    observation_specs: list[ObservationSpec]
    action_spec: ActionSpec


class BehaviorMapping(Mapping[str, BehaviorSpec]):
    """Read-only mapping of behaviours by name; grows as behaviours appear."""

    def __init__(self, specs: dict[str, BehaviorSpec]) -> None:
        self._dict = specs

    def __len__(self) -> int:
        return len(self._dict)

    def __getitem__(self, behavior: str) -> BehaviorSpec:
        return self._dict[behavior]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict)
