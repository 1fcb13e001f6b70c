"""`TensorEnv`, the interface of environments whose copies live in tensors on one device, and what they give in a step.

An environment steps all its copies by operations on tensors, begins the next episode of each copy that has ended in the
same step, and shows with it what that copy saw last. Nothing in a step may wait for the device: no ``.item()``, no
`nonzero`, no indexing by flags, no branch on a number that lies there.
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
"""Observations of all copies: a tensor ``[N, ...]``, or a dict or tuple of such in the structure of the space."""


class TensorStep(NamedTuple):
    """What a step of N copies gives, all of it on the environment's device.

    Attributes:
        obs: What each copy shows now: of one whose episode has ended, the first of its next episode.
        reward: ``[N]`` float32, what was earned.
        terminated: ``[N]`` bool, whose episode ended and has no future.
        truncated: ``[N]`` bool, whose episode was cut off.
        final_obs: What each copy showed before the next episode began; only that of truncated copies means anything.
    """

    obs: Observations
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Observations


class TensorEnv(ABC):
    """Base of environments whose copies live in tensors on one device.

    Tensors that are given may be the same in each step, written over: whoever needs them longer copies them. Boxes are
    given as float32 (boxes of uint8 as uint8), Discrete and MultiDiscrete as int64, MultiBinary as uint8, an action
    mask (the key ``action_mask`` of a Dict) as bool.

    Args:
        observation_space: Space of one copy's observations.
        action_space: Space of one copy's actions: Discrete, MultiDiscrete, MultiBinary or Box.
        num_envs: Number of copies, N.
        device: Where the tensors are, ``cpu`` or ``cuda``; None = the processor.

    Attributes:
        single_observation_space: Space of one copy's observations.
        single_action_space: Space of one copy's actions.
        num_envs: Number of copies, N.
        device: Where the tensors are.
        generator: Source of random numbers on that device, for `reset` to seed.
        saved: Names of the attributes that change while it is played: tensors, plain values, and dicts, lists and
            tuples of them. None of them: a run that goes on from a checkpoint begins new episodes, unless `state_dict`
            and `load_state_dict` are overridden.
        render_fps: Pictures a second at which it is meant to be seen; None where it does not say.
    """

    saved: ClassVar[tuple[str, ...]] = ()
    render_fps: float | None = None
    plays_tensors: ClassVar[bool] = True
    """What environments are known by where torch is not loaded."""

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
        """Begins an episode in every copy and returns what they show.

        Args:
            seed: What all randomness from here on comes from, in [0, 2**31): ``self.generator.manual_seed(seed)``.
        """

    @abstractmethod
    def step(self, actions: Tensor) -> TensorStep | tuple[Any, Any, Any, Any, Any]:
        """Steps every copy once, and begins the next episode of those whose episode ends.

        Args:
            actions: ``[N, *shape]`` as the action space has them (int64 for Discrete and MultiDiscrete, int8 for
                MultiBinary, the type of a Box), on the device. The environment may keep them.
        """

    def numbers(self) -> Mapping[str, Tensor]:
        """Gives tensors of one number each by name, as a distance or a success rate; they are read once an iteration,
        and stand in results under `reported`.
        """
        return {}

    def render(self, lane: int) -> np.ndarray | None:
        """Draws a copy, ``[height, width, 3]`` uint8; None if it draws nothing."""
        return None

    def close(self) -> None:  # noqa: B027 - an environment need not hold anything
        """Frees what the environment holds."""

    @property
    def can_be_saved(self) -> bool:
        """Whether `state_dict` says where every copy is."""
        return bool(self.saved) or type(self).state_dict is not TensorEnv.state_dict

    def state_dict(self) -> dict[str, Any]:
        """Gives copies of what `saved` names, and the state of the generator."""
        return {"generator": self.generator.get_state(), **{name: _copied(getattr(self, name)) for name in self.saved}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` gave; tensors may lie on another device there.

        Raises:
            EnvError: If it is the state of another environment.
        """
        if {*state} != {"generator", *self.saved}:
            raise EnvError(f"{type(self).__name__}: the saved state has {sorted(state)}, expected {sorted(self.saved)}")
        self.generator.set_state(state["generator"].cpu())
        for name in self.saved:
            setattr(self, name, _placed(getattr(self, name, None), state[name], self.device))


def _copied(value: Any) -> Any:
    """A value with tensors of its own."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(part) for key, part in value.items()}
    return type(value)(map(_copied, value)) if isinstance(value, list | tuple) else value


def _placed(now: Any, value: Any, device: torch.device) -> Any:
    """A saved value with its tensors on the device, in the memory of those that are there where these are alike."""
    if isinstance(value, Tensor):
        if isinstance(now, Tensor) and now.shape == value.shape and now.dtype == value.dtype:
            return now.copy_(value)
        return value.to(device, copy=True)
    if isinstance(value, Mapping):
        had = now if isinstance(now, Mapping) else {}
        return {key: _placed(had.get(key), part, device) for key, part in value.items()}
    return type(value)(_placed(None, part, device) for part in value) if isinstance(value, list | tuple) else value
