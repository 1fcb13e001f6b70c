"""`TensorEnv`, the interface of environments whose state is in tensors on one device, and the result of their steps.

An environment steps all its instances by tensor operations, begins the next episode of each instance that has ended in
the same step, and returns the last observations beside. Nothing in a step may wait for the device: no ``.item()``, no
`nonzero`, no indexing by flags, no branch on a value of the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.core.errors import EnvError

Observations = Tensor | Mapping[str, Any] | tuple[Any, ...]
"""Observations of all environments: a tensor ``[N, ...]``, or a dict or tuple of tensors in the structure of the space.
"""


class TensorStep(NamedTuple):
    """Result of a step of N environments, on their device.

    Attributes:
        obs: Current observations: after an end, the first of the next episode.
        reward: ``[N]`` float32 rewards.
        terminated: ``[N]`` bool, whether the episode ended and has no future.
        truncated: ``[N]`` bool, whether the episode was cut off.
        final_obs: Observations before the next episodes began; valid only where `truncated`.
    """

    obs: Observations
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Observations


class TensorEnv(ABC):
    """Base class of environments whose state is in tensors on one device.

    Returned tensors may be the same ones in each step, overwritten: copy them for later use. Boxes are given as float32
    (boxes of uint8 as uint8), Discrete and MultiDiscrete as int64, MultiBinary as uint8, an action mask (the key
    ``action_mask`` of a Dict) as bool.

    Args:
        observation_space: Observation space of one environment.
        action_space: Action space of one environment: Discrete, MultiDiscrete, MultiBinary or Box.
        num_envs: Number of environments, N.
        device: Device of the tensors, ``cpu`` or ``cuda``; None = the CPU.

    Attributes:
        single_observation_space: Observation space of one environment.
        single_action_space: Action space of one environment.
        num_envs: Number of environments, N.
        device: Device of the tensors.
        generator: Source of random numbers on that device, for `reset` to seed.
        saved: Names of the attributes that change during play: tensors, plain values, and dicts, lists and tuples of
            them. Without any, a run that resumes from a checkpoint begins new episodes, unless `state_dict` and
            `load_state_dict` are overridden.
        render_fps: Frames per second for rendering; None if not defined.
    """

    saved: ClassVar[tuple[str, ...]] = ()
    render_fps: float | None = None
    plays_tensors: ClassVar[bool] = True
    """Marks tensor environments, for checks without importing torch."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        device: str | torch.device | None = None,
    ) -> None:
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.num_envs = num_envs
        self.device = torch.empty(0, device=device, dtype=torch.float32).device  # with its number, which tensors have
        self.generator = torch.Generator(self.device)

    @abstractmethod
    def reset(self, seed: int) -> Observations:
        """Begins an episode in every environment and returns the observations.

        Args:
            seed: Seed of all randomness from here on, in [0, 2**31): ``self.generator.manual_seed(seed)``.
        """

    @abstractmethod
    def step(self, actions: Tensor) -> TensorStep | tuple[Any, Any, Any, Any, Any]:
        """Steps every environment once, and begins the next episode of those whose episode ends.

        Args:
            actions: ``[N, *shape]`` as the action space has them (int64 for Discrete and MultiDiscrete, int8 for
                MultiBinary, the type of a Box), on the device. The environment may keep them.
        """

    def numbers(self) -> Mapping[str, Tensor]:
        """Returns scalar tensors by name, such as a distance or a success rate; they are read once per iteration, and
        appear in results under `reported`.
        """
        return {}

    def render(self, lane: int) -> np.ndarray | None:
        """Draws an environment, ``[height, width, 3]`` uint8; None if it cannot render."""
        return None

    def close(self) -> None:  # noqa: B027 - an environment need not have resources
        """Releases the resources of the environment."""

    @property
    def can_be_saved(self) -> bool:
        """Whether `state_dict` has the state of every environment."""
        return bool(self.saved) or type(self).state_dict is not TensorEnv.state_dict

    def state_dict(self) -> dict[str, Any]:
        """Returns copies of the attributes in `saved`, and the state of the generator."""
        return {"generator": self.generator.get_state(), **{name: _copied(getattr(self, name)) for name in self.saved}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state of `state_dict`; its tensors may be on another device.

        Raises:
            EnvError: If it is the state of another environment.
        """
        if {*state} != {"generator", *self.saved}:
            raise EnvError(f"{type(self).__name__}: the saved state has {sorted(state)}, expected {sorted(self.saved)}")
        self.generator.set_state(state["generator"].cpu())
        for name in self.saved:
            setattr(self, name, _placed(getattr(self, name, None), state[name], self.device))


def _copied(value: Any) -> Any:
    """Returns a value with copies of its tensors."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(part) for key, part in value.items()}
    return type(value)(map(_copied, value)) if isinstance(value, list | tuple) else value


def _placed(now: Any, value: Any, device: torch.device) -> Any:
    """Returns a saved value with its tensors on the device, in the memory of the current ones if they match."""
    if isinstance(value, Tensor):
        if isinstance(now, Tensor) and now.shape == value.shape and now.dtype == value.dtype:
            return now.copy_(value)
        return value.to(device, copy=True)
    if isinstance(value, Mapping):
        had = now if isinstance(now, Mapping) else {}
        return {key: _placed(had.get(key), part, device) for key, part in value.items()}
    return type(value)(_placed(None, part, device) for part in value) if isinstance(value, list | tuple) else value
