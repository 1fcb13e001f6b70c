"""Heads for bounded continuous actions, which go through tanh.

The squashed Gaussian is that of Haarnoja et al. 2018 (1812.05905, app. C; SAC); with discrete actions beside it, as in
Delalleau et al. 2019 (1912.11077, section 4). The deterministic head is for policies that learn through a critic
(Silver et al. 2014; DDPG, TD3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ActionSpec
from rookery.models.distributions import LOG_2PI, Behavior, MultiCategorical, NoiseSpec
from rookery.models.exploration import action_noise_for, bounded_numbers, check_bounds, uniform
from rookery.models.heads import ACTION_GAIN, Head, HeadSpec
from rookery.models.layers import linear

CLAMPED = (-20.0, 2.0)
"""Range to which ``clamp`` clips the log standard deviation."""

SCALED = (-5.0, 2.0)
"""Range to which ``tanh`` maps the log standard deviation."""

INSIDE = 1.0 - 1e-6
"""Largest action size with a defined probability: tanh never reaches 1, but its float32 value does."""


class SquashedGaussian(Behavior):
    """Squashed Gaussian: tanh of independent normal numbers, float32 ``[..., k]`` in [-1, 1].

    There is no closed form for its entropy or divergence; learners estimate the entropy by -log p of samples.

    Args:
        mean: Mean of the normal numbers, ``[..., k]``.
        log_std: Log of their standard deviation, ``[..., k]`` or ``[k]``.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    @property
    def noise(self) -> NoiseSpec:
        """Takes one normal number per element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def raw(self, noise: Tensor) -> Tensor:
        """Returns the normal numbers before tanh: the mean plus standard deviation times `noise`."""
        return torch.addcmul(self.mean, self.log_std.exp(), noise)

    def sample(self, noise: Tensor) -> Tensor:
        """Returns tanh of the mean plus standard deviation times `noise`; differentiable."""
        return torch.tanh(self.raw(noise))

    def mode(self) -> Tensor:
        """Returns tanh of the mean, the median, which acts best (the density may be highest at a bound)."""
        return torch.tanh(self.mean)

    def log_prob(self, action: Tensor, raw: Tensor | None = None) -> Tensor:
        """Returns the log-density of actions.

        Args:
            action: ``[..., k]``. Near a bound float32 does not determine the number before tanh: elements are clipped
                to `INSIDE`.
            raw: ``[..., k]`` the numbers before tanh, which makes the density exact; NaN for unknown elements, None if
                all are unknown.
        """
        inverse = torch.atanh(action.clamp(-INSIDE, INSIDE))
        if raw is not None:
            inverse = torch.where(raw.isnan(), inverse, raw)
        return self._log_density(inverse, (inverse - self.mean) * torch.exp(-self.log_std))

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample`, and its log-density computed from the noise: exact even close to a bound, and
        differentiable.
        """
        raw = self.raw(noise)
        return torch.tanh(raw), self._log_density(raw, noise)

    def _log_density(self, raw: Tensor, standard: Tensor) -> Tensor:
        """Returns the log-density of ``tanh(raw)``, where `raw` lies `standard` standard deviations from the mean."""
        # The normal log-density less log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), a form that does not vanish in
        # float32 for large u. Halves without the constants are summed first: that takes the fewest operations.
        halves = torch.sub(raw + functional.softplus(-2.0 * raw), self.log_std, alpha=0.5)
        halves = torch.addcmul(halves, standard, standard, value=-0.25)
        return 2.0 * halves.sum(-1) - raw.shape[-1] * (0.5 * LOG_2PI + math.log(4.0))


@dataclass(frozen=True)
class BoundedSpec(HeadSpec):
    """Base of specs of heads for a bounded Box, with their exploration noise.

    Attributes:
        noise: Relation of the noise of consecutive decisions: independent (``white``), Ornstein-Uhlenbeck (``ou``), or
            a function of the state (``gsde``); see `models/exploration.py`.
        theta: Decay of ``ou``.
        every: Decisions with the same function of ``gsde``; None = whole episodes.
    """

    noise: Literal["white", "ou", "gsde"] = "white"
    theta: float = 0.15
    every: int | None = None


class BoundedHead(Head):
    """Base of heads for bounded continuous actions, whose exploration noise may be correlated over time.

    Attributes:
        spec: Spec with the exploration noise.
        random: 1 = exploration acts uniformly at random; a buffer, initially 0.

    Raises:
        SpaceError: If the action space is not a bounded Box.
    """

    random: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: BoundedSpec) -> None:
        super().__init__()
        self.num_numbers = bounded_numbers(action)
        self.spec = spec
        self.action_spec = action
        self.exploration = action_noise_for(spec.noise, spec.theta, spec.every, self.num_numbers, num_features)
        self.noise, self.exploration_size = self.exploration.noise, self.exploration.size
        self.register_buffer("random", torch.tensor(0.0, dtype=torch.float32, device="cpu"))

    @property
    def spread(self) -> Tensor | None:
        """Returns the learned scale ``[k, F]`` of state-dependent noise; None without it."""
        return None

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions and log-probabilities; see `Head.draw`."""
        if self.random:
            return uniform(noise[:, : self.num_numbers])
        behavior: Behavior = self(features)
        return behavior.sample_logp(self.exploration.numbers(noise, carried, features, self.spread))


@dataclass(frozen=True)
class Squashed(BoundedSpec):
    """Spec of a squashed Gaussian for a bounded Box, alone or beside discrete actions. Log-probabilities are those of
    independent decisions.

    With ``gsde`` the standard deviation is learned for each feature: it is ``sqrt(sum_j f_j^2 s_ij^2)``, see
    `StateDependent`.

    Attributes:
        log_std: How the log standard deviation is bounded: ``clamp`` clips it to -20 and 2, ``tanh`` maps it smoothly
            between -5 and 2.
    """

    log_std: Literal["clamp", "tanh"] = "clamp"

    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """Builds the head; arguments as of `HeadSpec.build`."""
        if action.sizes and action.num_numbers:
            return HybridHead(num_features, action, self, log_std_init=log_std_init, generator=generator)
        return SquashedHead(num_features, action, self, log_std_init=log_std_init, generator=generator)

    @property
    def greedy(self) -> Squashed:
        """See `HeadSpec.greedy`."""
        return Squashed("gsde" if self.noise == "gsde" else "white", log_std=self.log_std)


class SquashedHead(BoundedHead):
    """Head with a linear layer to means and log standard deviations; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        linear: Its outputs are all k means, then all k log standard deviations (not with ``gsde``).
        log_spread: With ``gsde``, ``[k, F]`` log of s; else None.

    Raises:
        SpaceError: If the action space is not a bounded Box.
    """

    spec: Squashed
    log_spread: nn.Parameter | None

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Squashed, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, spec)
        numbers = self.num_numbers
        self.log_spread = None
        if spec.noise == "gsde":  # features of size 1 make the initial standard deviation
            start = log_std_init - 0.5 * math.log(num_features)
            self.linear = linear(num_features, numbers, gain=ACTION_GAIN, generator=generator)
            self.log_spread = nn.Parameter(
                torch.full((numbers, num_features), start, dtype=torch.float32, device="cpu")
            )
        else:
            self.linear = linear(num_features, 2 * numbers, gain=ACTION_GAIN, generator=generator)
            self.linear.bias.data[numbers:] = unbounded_log_std(spec, log_std_init)
        self._own = (self.linear.weight, self.linear.bias)  # cached: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> SquashedGaussian:
        """Returns the distribution of each row's action, regardless of `random`; arguments as of `Head.forward`."""
        weight, bias = self._own
        output = functional.linear(features, weight, bias)
        if self.log_spread is not None:
            # as in Raffin et al., the noise scale sends no gradients to the features
            variance = features.detach().square() @ torch.exp(2.0 * self.log_spread).T
            return SquashedGaussian(output, 0.5 * torch.log(variance + 1e-6))
        return self.behavior(output)

    def behavior(self, output: Tensor) -> SquashedGaussian:
        """Returns the distribution of actions for outputs of `linear` (not with ``gsde``), ``[N, 2 * k]``."""
        mean, log_std = output.chunk(2, -1)
        return SquashedGaussian(mean, bounded_log_std(self.spec, log_std))

    @property
    def spread(self) -> Tensor | None:
        """Returns the learned scale of noise; see `BoundedHead.spread`."""
        return None if self.log_spread is None else self.log_spread.exp()


def bounded_log_std(spec: Squashed, output: Tensor) -> Tensor:
    """Maps the layer's output to the log standard deviation."""
    if spec.log_std == "clamp":
        return output.clamp(*CLAMPED)
    low, high = SCALED
    return low + 0.5 * (high - low) * (torch.tanh(output) + 1.0)


def unbounded_log_std(spec: Squashed, log_std: float) -> float:
    """Returns the layer's output for a given log standard deviation."""
    if spec.log_std == "clamp":
        return log_std
    low, high = SCALED
    place = 2.0 * (log_std - low) / (high - low) - 1.0
    return math.atanh(min(max(place, -0.999), 0.999))


class Hybrid(Behavior):
    """Mixed actions, discrete and continuous ones independent of each other: float32 ``[..., c + k]``, discrete first.

    Args:
        choices: Distribution of the c discrete actions.
        numbers: Distribution of the k continuous actions.
    """

    def __init__(self, choices: MultiCategorical, numbers: SquashedGaussian) -> None:
        self.choices = choices
        self.numbers = numbers
        self._widths = (len(choices.sizes), numbers.mean.shape[-1])

    @property
    def noise(self) -> NoiseSpec:
        """Takes a uniform number per discrete action and a normal one per continuous action."""
        return NoiseSpec(*self._widths)

    def raw(self, noise: Tensor) -> Tensor:
        """Returns the normal numbers ``[..., k]`` before tanh."""
        return self.numbers.raw(noise[..., self._widths[0] :])

    def sample(self, noise: Tensor) -> Tensor:
        """Draws each part with its own noise."""
        return self.sample_logp(noise)[0]

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sample`, and the sum of both parts' log-probabilities."""
        even, normal = noise.split(self._widths, -1)
        (choice, choice_logp), (number, number_logp) = self.choices.sample_logp(even), self.numbers.sample_logp(normal)
        return torch.cat((choice.float(), number), -1), choice_logp + number_logp

    def mode(self) -> Tensor:
        """Returns the most probable discrete actions, and tanh of the means."""
        return torch.cat((self.choices.mode().float(), self.numbers.mode()), -1)

    def log_prob(self, action: Tensor, raw: Tensor | None = None) -> Tensor:
        """Returns the sum of both parts' log-probabilities of `action` ``[..., c + k]``; `raw` as of
        `SquashedGaussian`.
        """
        choice, number = action.split(self._widths, -1)
        return self.choices.log_prob(choice.long()) + self.numbers.log_prob(number, raw)


class HybridHead(Head):
    """Head for mixed actions with a linear layer to logits, means and log standard deviations; arguments as of
    `HeadSpec.build`, and the spec.

    Attributes:
        linear: Its outputs are all logits, then all k means, then all k log standard deviations.
        random: 1 = exploration draws continuous actions uniformly; a buffer, initially 0.

    Raises:
        SpaceError: If an action has flags or unbounded elements, or the noise is not ``white``.
    """

    random: Tensor

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Squashed, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        if action.num_flags:
            raise SpaceError(
                f"actions of {action.space} have flags (MultiBinary), and SAC takes discrete and continuous "
                "actions: make each flag Discrete(2), or use PPO, which takes any space"
            )
        for part, _ in action.parts:
            if part.kind == "box":
                check_bounds(part.space)
        if spec.noise != "white":
            raise SpaceError(
                f"exploration.kind = {spec.noise} is for continuous actions only, not for {action.space}: leave it out"
            )
        self.spec = spec
        self.action_spec = action
        numbers = action.num_numbers
        self.noise = NoiseSpec(uniform=len(action.sizes), normal=numbers)
        self._widths = (sum(action.sizes), numbers, numbers)
        self.linear = linear(num_features, sum(self._widths), gain=ACTION_GAIN, generator=generator)
        self.linear.bias.data[-numbers:] = unbounded_log_std(spec, log_std_init)
        self.register_buffer("random", torch.tensor(0.0, dtype=torch.float32, device="cpu"))

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Hybrid:
        """Returns the distribution of each row's action, regardless of `random`; arguments as of `Head.forward`."""
        output = functional.linear(features, self.linear.weight, self.linear.bias)
        logits, mean, log_std = output.split(self._widths, -1)
        choices = MultiCategorical(logits, self.action_spec.sizes, mask)
        return Hybrid(choices, SquashedGaussian(mean, bounded_log_std(self.spec, log_std)))

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions and log-probabilities; see `Head.draw`."""
        behavior = self(features, mask)
        if not self.random:
            drawn: tuple[Tensor, Tensor] = behavior.sample_logp(noise)
            return drawn
        even, normal = noise.split((self.noise.uniform, self.noise.normal), -1)
        (choice, choice_logp), (number, number_logp) = behavior.choices.sample_logp(even), uniform(normal)
        return torch.cat((choice.float(), number), -1), choice_logp + number_logp


class NoisyAction(Behavior):
    """Deterministic action with normal noise, clipped to the bounds: float32 ``[..., k]`` in [-1, 1].

    The noise serves exploration only, and probabilities have no meaning here: `log_prob` is 0.

    Args:
        mean: The action, ``[..., k]``.
        std: Standard deviation of the noise, a tensor without dimensions.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean = mean
        self.std = std

    @property
    def noise(self) -> NoiseSpec:
        """Takes one normal number per element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def sample(self, noise: Tensor) -> Tensor:
        """Returns the action plus standard deviation times `noise`, clipped to the bounds."""
        return torch.addcmul(self.mean, self.std, noise).clamp_(-1.0, 1.0)

    def mode(self) -> Tensor:
        """Returns the action without noise."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns zeros ``[...]``."""
        return torch.zeros_like(action[..., 0])


@dataclass(frozen=True)
class Deterministic(BoundedSpec):
    """Spec of a deterministic policy for a bounded Box.

    Attributes:
        per_env_epsilon: Decrease of exploration from one slot to the next; 0 = all slots alike.
    """

    per_env_epsilon: float = 0.0

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> DeterministicHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return DeterministicHead(num_features, action, self, generator=generator)

    @property
    def greedy(self) -> Deterministic:
        """See `HeadSpec.greedy`."""
        return Deterministic()


class DeterministicHead(BoundedHead):
    """Head that returns tanh of a linear layer; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        linear: Outputs the k elements.
        std: Standard deviation of the noise; a buffer, initially 0.

    Raises:
        SpaceError: If the action space is not a bounded Box.
    """

    std: Tensor

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Deterministic, *, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, spec)
        self.noise = replace(self.noise, per_env_epsilon=spec.per_env_epsilon)
        self.linear = linear(num_features, self.num_numbers, gain=ACTION_GAIN, generator=generator)
        self.register_buffer("std", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self._own = (self.linear.weight, self.linear.bias)  # cached: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> NoisyAction:
        """Returns each row's action with its noise, regardless of `random`; arguments as of `Head.forward`."""
        weight, bias = self._own
        return self.behavior(functional.linear(features, weight, bias))

    def of_slots(self, noise: Tensor, power: Tensor) -> Tensor:
        """Returns noise with which each slot acts at its own standard deviation ``std ** power``, unless actions are
        uniformly random; see `Head.of_slots`.
        """
        return noise if self.random else noise * self.std.pow(power - 1.0)

    def behavior(self, output: Tensor) -> NoisyAction:
        """Returns the distribution of actions for outputs of `linear`, ``[N, k]``."""
        return NoisyAction(torch.tanh(output), self.std)
