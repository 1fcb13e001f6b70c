"""How exploration hangs together over time: the standard normal numbers behind the actions of consecutive decisions.

A number is always standard normal, so a spread means the same whichever way is chosen. What a way needs of earlier
decisions is carried by whoever plays, slot by slot, beside what the policy remembers; zeros start an episode.

`BoundedHead.draw` applies it: `models/squashed.py`. Choices explore by themselves:
`EpsilonGreedy`, `Boltzmann` and noisy weights stand in `models/q_head.py`.
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
"""Below it the length of features counts as this: features of zeros give no noise."""


class ExplorationNoise(ABC):
    """Turns fresh numbers of each decision into those that its action is drawn with.

    Attributes:
        noise: Fresh numbers a decision, at least as many as an action has elements.
        size: Numbers carried from one decision of a slot to the next.
    """

    noise: NoiseSpec
    size: int

    @abstractmethod
    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """Standard normal numbers ``[N, k]``.

        Args:
            noise: ``[N, noise.width]`` fresh ones.
            carried: ``[N, size]``, changed in place; None if `size` is 0.
            features: ``[N, F]`` what the decisions stand on.
            spread: ``[k, F]`` how much noise each feature makes, where it depends on them; None = all alike.
        """


class White(ExplorationNoise):
    """Every decision by itself."""

    def __init__(self, num_numbers: int) -> None:
        self.noise = NoiseSpec(normal=num_numbers)
        self.size = 0

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """The fresh ones."""
        return noise


class OrnsteinUhlenbeck(ExplorationNoise):
    """Numbers that drift back to 0 (Uhlenbeck and Ornstein 1930; for exploration, Lillicrap et al. 2015, 1509.02971).

    ``x' = (1 - theta) x + sqrt(1 - (1 - theta)^2) e``: neighbours correlate by 1 - theta, and once an episode is old
    compared with 1 / theta, x is standard normal. It starts at 0. (The paper's sigma, of a step, is a spread of
    ``sigma / sqrt(1 - (1 - theta)^2)`` here: 0.2 at theta 0.15 is a spread of 0.38.)

    Args:
        num_numbers: k, elements of an action.
        theta: How much of a number is gone with each decision, in (0, 1]; 1 = `White`.
    """

    def __init__(self, num_numbers: int, theta: float) -> None:
        self.noise = NoiseSpec(normal=num_numbers)
        self.size = num_numbers
        self._kept = 1.0 - theta
        self._fresh = math.sqrt(1.0 - self._kept**2)

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """What is carried on, changed by the fresh ones."""
        assert carried is not None
        return carried.mul_(self._kept).add_(noise, alpha=self._fresh)


class StateDependent(ExplorationNoise):
    """Noise that is a function of the features for a while (gSDE; Raffin et al. 2021, 2005.05719).

    A slot carries a matrix E of normal numbers, drawn anew when an episode starts and every so many decisions; the
    number behind element i is ``sum_j f_j s_ij E_ij``, divided by its standard deviation ``sqrt(sum_j f_j^2 s_ij^2)``.
    In the same state the same action is taken again, and it changes smoothly with the state.

    Each decision takes as many fresh numbers as E has, so this is for networks of some hundred features at most.

    Args:
        num_numbers: k, elements of an action.
        num_features: F, width of what it depends on.
        every: Decisions with the same E; None = whole episodes.
    """

    def __init__(self, num_numbers: int, num_features: int, every: int | None) -> None:
        self.noise = NoiseSpec(normal=num_numbers * num_features)
        self.size = 1 + num_numbers * num_features  # the first counts decisions since E was drawn
        self.every = every
        self._shape = (num_numbers, num_features)

    def numbers(self, noise: Tensor, carried: Tensor | None, features: Tensor, spread: Tensor | None = None) -> Tensor:
        """The numbers of this state."""
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
    """``white``, ``ou`` (with `theta`) or ``gsde`` (with `every`), for k numbers and F features."""
    if kind == "ou":
        return OrnsteinUhlenbeck(num_numbers, theta)
    return StateDependent(num_numbers, num_features, every) if kind == "gsde" else White(num_numbers)


def uniform(noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions that are uniform in [-1, 1], float32 ``[N, k]``, and their log-densities ``[N]``.

    This is how a replay buffer is filled before learning begins. It takes normal numbers ``[N, k]``, as what comes
    after it does, so that a row's noise stays the same.
    """
    action = torch.erf(noise * math.sqrt(0.5))
    return action, action.new_full(action.shape[:-1], -math.log(2.0) * action.shape[-1])


def bounded_numbers(action: ActionSpec) -> int:
    """How many numbers in [-1, 1] an action is.

    Raises:
        SpaceError: If it is anything else; says what to do.
    """
    if action.kind == "discrete":
        raise SpaceError(
            f"actions of {action.space} are one of several, and SAC, TD3 and DDPG need numbers (a Box): "
            "use DQN or PPO, or SAC with discrete=true"
        )
    if action.kind != "box":
        told = "are choices" if action.sizes and not action.num_numbers else "are not numbers alone"
        raise SpaceError(
            f"actions of {action.space} {told}, and TD3, DDPG and SAC with discrete=false need numbers (a Box): use "
            "PPO, which takes any space, or SAC, which takes choices (discrete=true) and choices beside numbers"
        )
    check_bounds(action.space)
    return action.num_numbers


def check_bounds(space: spaces.Space[Any]) -> None:
    """Raises a SpaceError if a Box has elements without two bounds."""
    assert isinstance(space, spaces.Box)
    endless = ~(np.isfinite(space.low) & np.isfinite(space.high)).ravel()
    if endless.any():
        where = np.flatnonzero(endless).tolist()
        raise SpaceError(
            f"actions of {space} have no finite bounds in {len(where)} of {endless.size} elements (first: "
            f"{where[0]}), and SAC, TD3 and DDPG act between two bounds: give the environment an action "
            "space with bounds (gymnasium.wrappers.TransformAction), or use PPO"
        )
