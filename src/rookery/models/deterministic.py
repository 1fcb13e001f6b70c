"""The deterministic head, for policies that are learned through a critic (Silver et al. 2014; DDPG, TD3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from rookery.core.spaces import ActionSpec
from rookery.models.distributions import Behavior, NoiseSpec
from rookery.models.exploration import action_noise_for, bounded_numbers, uniform
from rookery.models.heads import ACTION_GAIN, Head, HeadSpec
from rookery.models.layers import linear


class Disturbed(Behavior):
    """An action with normal noise on it, cut off at the bounds: float32 ``[..., k]`` in [-1, 1].

    The noise only tries things out, so probabilities mean nothing here: `log_prob` is 0.

    Args:
        mean: The action, ``[..., k]``.
        std: Standard deviation of the noise, a tensor without dimensions.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean = mean
        self.std = std

    @property
    def noise(self) -> NoiseSpec:
        """A normal number for each element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def sample(self, noise: Tensor) -> Tensor:
        """The action plus standard deviation times `noise`, at most the bounds."""
        return torch.addcmul(self.mean, self.std, noise).clamp_(-1.0, 1.0)

    def mode(self) -> Tensor:
        """The action itself."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Zeros ``[...]``."""
        return torch.zeros_like(action[..., 0])


@dataclass(frozen=True)
class Deterministic(HeadSpec):
    """One action for each state, for a Box with bounds.

    Attributes:
        noise: What the noise of consecutive decisions has to do with each other: nothing (``white``), it drifts
            (``ou``), or it is a function of the state for a while (``gsde``); see `models/exploration.py`.
        theta: Of ``ou``.
        every: Of ``gsde``: decisions with the same function; None = whole episodes.
    """

    noise: Literal["white", "ou", "gsde"] = "white"
    theta: float = 0.15
    every: int | None = None

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> DeterministicHead:
        """The head; arguments as of `HeadSpec.build`."""
        return DeterministicHead(num_features, action, self, generator=generator)

    @property
    def greedy(self) -> Deterministic:
        """See `HeadSpec.greedy`."""
        return Deterministic()


class DeterministicHead(Head):
    """tanh of a linear layer.

    Args:
        num_features: Width of the features.
        action: Layout of the actions, numbers with bounds.
        spec: What noise is like.
        generator: Draws the weights.

    Attributes:
        spec: As given.
        linear: Puts out the k elements.
        std: Standard deviation of the noise; a buffer, 0 until somebody sets it.
        random: 1 = whoever explores acts evenly at random; a buffer, 0 until somebody sets it.

    Raises:
        SpaceError: If an action is anything but numbers with bounds.
    """

    std: Tensor
    random: Tensor

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Deterministic, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        numbers = bounded_numbers(action)
        self.spec = spec
        self.action_spec = action
        self._numbers = numbers
        self.exploration = action_noise_for(spec.noise, spec.theta, spec.every, numbers, num_features)
        self.noise, self.exploration_size = self.exploration.noise, self.exploration.size
        self.linear = linear(num_features, numbers, gain=ACTION_GAIN, generator=generator)
        self.register_buffer("std", torch.tensor(0.0))
        self.register_buffer("random", torch.tensor(0.0))
        self._own = (self.linear.weight, self.linear.bias)  # at hand: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Disturbed:
        """Each row's action, and its noise, whether or not it is `random`; arguments as of `Head.forward`."""
        weight, bias = self._own
        return self.behavior(functional.linear(features, weight, bias))

    def behavior(self, output: Tensor) -> Disturbed:
        """What actions are drawn from, given what `linear` puts out, ``[N, k]``."""
        return Disturbed(torch.tanh(output), self.std)

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions as whoever explores takes them; see `Head.draw`."""
        if self.random:
            return uniform(noise[:, : self._numbers])
        behavior: Disturbed = self(features)
        return behavior.sample_logp(self.exploration.numbers(noise, carried, features))
