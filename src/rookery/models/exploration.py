"""Exploration noise over time: standard normal numbers for the actions of consecutive decisions.

The numbers are always standard normal, so a standard deviation means the same for every kind of noise. The acting
policy carries the state of the noise for each slot, beside the policy's memory; an episode starts with zeros.
`BoundedHead.draw` in `models/squashed.py` applies the noise. Exploration of discrete actions (`EpsilonGreedy`,
`Boltzmann`, noisy weights) is in `models/q_head.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ActionSpec
from rookery.models.distributions import NoiseSpec

TINY = 1e-6
"""Lower bound of the length of features: features of zeros make no noise."""


class ExplorationNoise(ABC):
    """Base of exploration noise: turns each decision's fresh numbers into the noise of its action.

    Attributes:
        noise: Fresh numbers per decision, at least one per element of an action.
        size: Numbers carried from one decision of a slot to the next.
    """

    noise: NoiseSpec
    size: int

    @abstractmethod
    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """Returns standard normal numbers ``[N, k]``.

        Args:
            noise: ``[N, noise.width]`` fresh ones.
            carried: ``[N, size]``, changed in place; None if `size` is 0.
            features: ``[N, F]`` features of the decisions.
            spread: ``[k, F]`` scale of the noise per feature, for state-dependent noise; None = all alike.
        """


class White(ExplorationNoise):
    """Independent noise for every decision."""

    def __init__(self, num_numbers: int) -> None:
        self.noise = NoiseSpec(normal=num_numbers)
        self.size = 0

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """Returns the fresh numbers."""
        return noise


class OrnsteinUhlenbeck(ExplorationNoise):
    """Ornstein-Uhlenbeck noise (Uhlenbeck and Ornstein 1930; for exploration, Lillicrap et al. 2015, 1509.02971).

    ``x' = (1 - theta) x + sqrt(1 - (1 - theta)^2) e``: consecutive numbers correlate by 1 - theta, and well after 1 /
    theta decisions x is standard normal. It starts at 0. (The paper's sigma, of a step, is a spread of ``sigma / sqrt(1
    - (1 - theta)^2)`` here: 0.2 at theta 0.15 is a spread of 0.38.)

    Args:
        num_numbers: k, elements of an action.
        theta: Decay per decision, in (0, 1]; 1 = `White`.
    """

    def __init__(self, num_numbers: int, theta: float) -> None:
        self.noise = NoiseSpec(normal=num_numbers)
        self.size = num_numbers
        self._kept = 1.0 - theta
        self._fresh = math.sqrt(1.0 - self._kept**2)

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """Returns the carried numbers, updated with the fresh ones."""
        assert carried is not None
        return carried.mul_(self._kept).add_(noise, alpha=self._fresh)


class StateDependent(ExplorationNoise):
    """State-dependent exploration: noise as a function of the features (gSDE; Raffin et al. 2021, 2005.05719).

    A slot carries a matrix E of normal numbers, redrawn when an episode starts and every `every` decisions; the noise
    of element i is ``sum_j f_j s_ij E_ij``, divided by its standard deviation ``sqrt(sum_j f_j^2 s_ij^2)``. Equal
    states get equal actions, and actions change smoothly with the state.

    Each decision takes as many fresh numbers as E has, so use it with a few hundred features at most.

    Args:
        num_numbers: k, elements of an action.
        num_features: F, width of the features.
        every: Decisions with the same E; None = whole episodes.
    """

    def __init__(self, num_numbers: int, num_features: int, every: int | None) -> None:
        self.noise = NoiseSpec(normal=num_numbers * num_features)
        self.size = 1 + num_numbers * num_features  # the first number counts decisions since E was drawn
        self.every = every
        self._shape = (num_numbers, num_features)

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """Returns the noise of these states."""
        assert carried is not None
        count, matrix = carried[:, :1], carried[:, 1:]
        matrix.copy_(torch.where(count == 0.0, noise, matrix))
        if self.every is None:
            count.fill_(1.0)
        else:
            count.add_(1.0).remainder_(self.every)
        weighted = features.unsqueeze(-2) if spread is None else features.unsqueeze(-2) * spread
        length = weighted.norm(dim=-1).clamp_min(TINY)
        numbers: Tensor = (weighted * matrix.unflatten(-1, self._shape)).sum(-1) / length
        return numbers


def action_noise_for(
    kind: str, theta: float, every: int | None, num_numbers: int, num_features: int
) -> ExplorationNoise:
    """Makes the noise ``white``, ``ou`` (with `theta`) or ``gsde`` (with `every`), for k numbers and F features."""
    if kind == "ou":
        return OrnsteinUhlenbeck(num_numbers, theta)
    return StateDependent(num_numbers, num_features, every) if kind == "gsde" else White(num_numbers)


def uniform(noise: Tensor) -> tuple[Tensor, Tensor]:
    """Returns actions uniform in [-1, 1], float32 ``[N, k]``, and their log-densities ``[N]``. Random warm-up uses it
    to fill a replay buffer before learning begins. It takes normal numbers ``[N, k]``, as the noise afterwards does, so
    that a row's noise stays the same.
    """
    action = torch.erf(noise * math.sqrt(0.5))
    return action, action.new_full(action.shape[:-1], -math.log(2.0) * action.shape[-1])


def bounded_numbers(action: ActionSpec) -> int:
    """Returns the number of elements of a bounded continuous action.

    Raises:
        SpaceError: If the action space is not a bounded Box; the message names alternatives.
    """
    if action.kind == "discrete":
        raise SpaceError(
            f"actions of {action.space} are discrete, and SAC, TD3 and DDPG need continuous actions (a Box): "
            "use DQN or PPO, or SAC with discrete=true"
        )
    if action.kind != "box":
        kinds = "are discrete" if action.sizes and not action.num_numbers else "are not all continuous"
        raise SpaceError(
            f"actions of {action.space} {kinds}, and TD3, DDPG and SAC with discrete=false need a Box: use "
            "PPO, which takes any space, or SAC, which takes discrete (discrete=true) and mixed actions"
        )
    check_bounds(action.space)
    return action.num_numbers


def check_bounds(space: spaces.Space[Any]) -> None:
    """Raises SpaceError if a Box has elements without two bounds."""
    assert isinstance(space, spaces.Box)
    endless = ~(np.isfinite(space.low) & np.isfinite(space.high)).ravel()
    if endless.any():
        where = np.flatnonzero(endless).tolist()
        raise SpaceError(
            f"actions of {space} have no finite bounds in {len(where)} of {endless.size} elements (first: "
            f"{where[0]}), and SAC, TD3 and DDPG need two bounds: give the environment an action "
            "space with bounds (gymnasium.wrappers.TransformAction), or use PPO"
        )
