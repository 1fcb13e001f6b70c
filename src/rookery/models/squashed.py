"""Heads for numbers between two bounds, into which tanh brings what they put out.

The squashed Gaussian is that of Haarnoja et al. 2018 (1812.05905, app. C; SAC); beside choices it stands as in
Delalleau et al. 2019 (1912.11077, section 4). The deterministic head is for policies that are learned through a critic
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
"""Range of the log standard deviation that is cut off there."""

SCALED = (-5.0, 2.0)
"""Range of the one that tanh brings into it."""

INSIDE = 1.0 - 1e-6
"""Largest size of an action whose probability can be told: tanh never reaches 1, what is stored in float32 does."""


class SquashedGaussian(Behavior):
    """Tanh of independent normal numbers, float32 ``[..., k]`` in [-1, 1].

    There is no closed form for its entropy or divergence; learners estimate the entropy by -log p of what they draw.

    Args:
        mean: Of the normal numbers, ``[..., k]``.
        log_std: Log of their standard deviation, ``[..., k]`` or ``[k]``.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    @property
    def noise(self) -> NoiseSpec:
        """A normal number for each element."""
        return NoiseSpec(normal=self.mean.shape[-1])

    def raw(self, noise: Tensor) -> Tensor:
        """Returns the normal numbers that tanh is taken of: the mean plus standard deviation times `noise`."""
        return torch.addcmul(self.mean, self.log_std.exp(), noise)

    def sample(self, noise: Tensor) -> Tensor:
        """Tanh of the mean plus standard deviation times `noise`; gradients pass through."""
        return torch.tanh(self.raw(noise))

    def mode(self) -> Tensor:
        """Tanh of the mean: the median, which is what acts best (the density may be highest at a bound)."""
        return torch.tanh(self.mean)

    def log_prob(self, action: Tensor, raw: Tensor | None = None) -> Tensor:
        """Returns the log-density of actions.

        Args:
            action: ``[..., k]``. Near a bound float32 does not say which number tanh was taken of: elements count as if
                they were no larger than `INSIDE`.
            raw: ``[..., k]`` the numbers that tanh was taken of, which makes the density exact; NaN where an element is
                not known, None where none is.
        """
        inverse = torch.atanh(action.clamp(-INSIDE, INSIDE))
        if raw is not None:
            inverse = torch.where(raw.isnan(), inverse, raw)
        return self._log_density(inverse, (inverse - self.mean) * torch.exp(-self.log_std))

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`sample`, and its log-density straight from the noise: exact however close to a bound, and differentiable."""
        raw = self.raw(noise)
        return torch.tanh(raw), self._log_density(raw, noise)

    def _log_density(self, raw: Tensor, standard: Tensor) -> Tensor:
        """Log-density of ``tanh(raw)``, where `raw` lies `standard` standard deviations from the mean."""
        # The normal log-density less log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), a form that does not vanish in
        # float32 for large u. Halves without the constants are summed first: that takes the fewest operations.
        halves = torch.sub(raw + functional.softplus(-2.0 * raw), self.log_std, alpha=0.5)
        halves = torch.addcmul(halves, standard, standard, value=-0.25)
        return 2.0 * halves.sum(-1) - raw.shape[-1] * (0.5 * LOG_2PI + math.log(4.0))


@dataclass(frozen=True)
class BoundedSpec(HeadSpec):
    """A head for a Box with bounds, and how it explores.

    Attributes:
        noise: What the noise of consecutive decisions has to do with each other: nothing (``white``), it drifts
            (``ou``), or it is a function of the state for a while (``gsde``); see `models/exploration.py`.
        theta: Of ``ou``.
        every: Of ``gsde``: decisions with the same function; None = whole episodes.
    """

    noise: Literal["white", "ou", "gsde"] = "white"
    theta: float = 0.15
    every: int | None = None


class BoundedHead(Head):
    """Base of heads whose actions are numbers with bounds, which explore by noise that hangs together over time.

    Attributes:
        spec: How actions explore.
        random: 1 = whoever explores acts evenly at random; a buffer, 0 until somebody sets it.

    Raises:
        SpaceError: If an action is anything but numbers with bounds.
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
        """The learned spread ``[k, F]`` of noise that is a function of the features; None if there is none."""
        return None

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions as whoever explores takes them; see `Head.draw`."""
        if self.random:
            return uniform(noise[:, : self.num_numbers])
        behavior: Behavior = self(features)
        return behavior.sample_logp(self.exploration.numbers(noise, carried, features, self.spread))


@dataclass(frozen=True)
class Squashed(BoundedSpec):
    """A squashed Gaussian for a Box with bounds, and for numbers with bounds beside choices. Log-probabilities are
    those of a decision by itself.

    With ``gsde`` the standard deviation is learned for each feature: it is ``sqrt(sum_j f_j^2 s_ij^2)``, see
    `StateDependent`.

    Attributes:
        log_std: How its log standard deviation is kept in range: ``clamp`` cuts it off at -20 and 2, ``tanh`` brings it
            between -5 and 2 smoothly.
    """

    log_std: Literal["clamp", "tanh"] = "clamp"

    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """The head; arguments as of `HeadSpec.build`."""
        if action.sizes and action.num_numbers:
            return HybridHead(num_features, action, self, log_std_init=log_std_init, generator=generator)
        return SquashedHead(num_features, action, self, log_std_init=log_std_init, generator=generator)

    @property
    def greedy(self) -> Squashed:
        """See `HeadSpec.greedy`."""
        return Squashed("gsde" if self.noise == "gsde" else "white", log_std=self.log_std)


class SquashedHead(BoundedHead):
    """A linear layer to means and log standard deviations; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        linear: Its outputs are all k means, then all k log standard deviations (not with ``gsde``).
        log_spread: With ``gsde``, ``[k, F]`` log of s; else None.

    Raises:
        SpaceError: If an action is anything but numbers with bounds.
    """

    spec: Squashed
    log_spread: nn.Parameter | None

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Squashed, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, spec)
        numbers = self.num_numbers
        self.log_spread = None
        if spec.noise == "gsde":  # features of size 1 give the first standard deviation
            start = log_std_init - 0.5 * math.log(num_features)
            self.linear = linear(num_features, numbers, gain=ACTION_GAIN, generator=generator)
            self.log_spread = nn.Parameter(
                torch.full((numbers, num_features), start, dtype=torch.float32, device="cpu")
            )
        else:
            self.linear = linear(num_features, 2 * numbers, gain=ACTION_GAIN, generator=generator)
            self.linear.bias.data[numbers:] = before_range(spec, log_std_init)
        self._own = (self.linear.weight, self.linear.bias)  # at hand: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> SquashedGaussian:
        """What each row's action is drawn from, whether or not it is `random`; arguments as of `Head.forward`."""
        weight, bias = self._own
        output = functional.linear(features, weight, bias)
        if self.log_spread is not None:
            # as in Raffin et al., the spread does not shape the features
            variance = features.detach().square() @ torch.exp(2.0 * self.log_spread).T
            return SquashedGaussian(output, 0.5 * torch.log(variance + 1e-6))
        return self.behavior(output)

    def behavior(self, output: Tensor) -> SquashedGaussian:
        """What actions are drawn from, given what `linear` puts out (not with ``gsde``), ``[N, 2 * k]``."""
        mean, log_std = output.chunk(2, -1)
        return SquashedGaussian(mean, in_range(self.spec, log_std))

    @property
    def spread(self) -> Tensor | None:
        """The learned spread; see `BoundedHead.spread`."""
        return None if self.log_spread is None else self.log_spread.exp()


def in_range(spec: Squashed, output: Tensor) -> Tensor:
    """The log standard deviation of what the layer puts out for it."""
    if spec.log_std == "clamp":
        return output.clamp(*CLAMPED)
    low, high = SCALED
    return low + 0.5 * (high - low) * (torch.tanh(output) + 1.0)


def before_range(spec: Squashed, log_std: float) -> float:
    """What the layer must put out for a log standard deviation."""
    if spec.log_std == "clamp":
        return log_std
    low, high = SCALED
    place = 2.0 * (log_std - low) / (high - low) - 1.0
    return math.atanh(min(max(place, -0.999), 0.999))


class Hybrid(Behavior):
    """Choices, and numbers that do not depend on them: float32 ``[..., c + k]``, choices first.

    Args:
        choices: What the c choices are drawn from.
        numbers: What the k numbers are drawn from.
    """

    def __init__(self, choices: MultiCategorical, numbers: SquashedGaussian) -> None:
        self.choices = choices
        self.numbers = numbers
        self._widths = (len(choices.sizes), numbers.mean.shape[-1])

    @property
    def noise(self) -> NoiseSpec:
        """A uniform number for each choice and a normal one for each number."""
        return NoiseSpec(*self._widths)

    def raw(self, noise: Tensor) -> Tensor:
        """Returns the normal numbers ``[..., k]`` that tanh is taken of."""
        return self.numbers.raw(noise[..., self._widths[0] :])

    def sample(self, noise: Tensor) -> Tensor:
        """Each part by its own noise."""
        return self.sample_logp(noise)[0]

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`sample`, and the sum of both parts' log-probabilities."""
        even, normal = noise.split(self._widths, -1)
        (choice, choice_logp), (number, number_logp) = self.choices.sample_logp(even), self.numbers.sample_logp(normal)
        return torch.cat((choice.float(), number), -1), choice_logp + number_logp

    def mode(self) -> Tensor:
        """The most probable choices, and tanh of the means."""
        return torch.cat((self.choices.mode().float(), self.numbers.mode()), -1)

    def log_prob(self, action: Tensor, raw: Tensor | None = None) -> Tensor:
        """Sum of both parts' log-probabilities of `action` ``[..., c + k]``, by `raw` as in `SquashedGaussian`."""
        choice, number = action.split(self._widths, -1)
        return self.choices.log_prob(choice.long()) + self.numbers.log_prob(number, raw)


class HybridHead(Head):
    """A linear layer to logits, means and log standard deviations; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        linear: Its outputs are the logits of all choices, then all k means, then all k log standard deviations.
        random: 1 = whoever explores draws numbers evenly; a buffer, 0 until somebody sets it.

    Raises:
        SpaceError: If an action has flags, or numbers without bounds, or its noise is to hang together over time.
    """

    random: Tensor

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Squashed, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        if action.num_flags:
            raise SpaceError(
                f"actions of {action.space} have flags (MultiBinary), and SAC takes choices and numbers: make each "
                "flag a choice of two, or use PPO, which takes any space"
            )
        for part, _ in action.parts:
            if part.kind == "box":
                check_bounds(part.space)
        if spec.noise != "white":
            raise SpaceError(
                f"exploration.kind = {spec.noise} is for actions that are numbers alone, not for {action.space}: leave "
                "it out"
            )
        self.spec = spec
        self.action_spec = action
        numbers = action.num_numbers
        self.noise = NoiseSpec(uniform=len(action.sizes), normal=numbers)
        self._widths = (sum(action.sizes), numbers, numbers)
        self.linear = linear(num_features, sum(self._widths), gain=ACTION_GAIN, generator=generator)
        self.linear.bias.data[-numbers:] = before_range(spec, log_std_init)
        self.register_buffer("random", torch.tensor(0.0, dtype=torch.float32, device="cpu"))

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Hybrid:
        """What each row's action is drawn from, whether or not it is `random`; arguments as of `Head.forward`."""
        output = functional.linear(features, self.linear.weight, self.linear.bias)
        logits, mean, log_std = output.split(self._widths, -1)
        choices = MultiCategorical(logits, self.action_spec.sizes, mask)
        return Hybrid(choices, SquashedGaussian(mean, in_range(self.spec, log_std)))

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions as whoever explores takes them; see `Head.draw`."""
        behavior = self(features, mask)
        if not self.random:
            drawn: tuple[Tensor, Tensor] = behavior.sample_logp(noise)
            return drawn
        even, normal = noise.split((self.noise.uniform, self.noise.normal), -1)
        (choice, choice_logp), (number, number_logp) = behavior.choices.sample_logp(even), uniform(normal)
        return torch.cat((choice.float(), number), -1), choice_logp + number_logp


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
class Deterministic(BoundedSpec):
    """One action for each state, for a Box with bounds.

    Attributes:
        ladder: How much less each slot explores than the one before; 0 = all alike.
    """

    ladder: float = 0.0

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> DeterministicHead:
        """The head; arguments as of `HeadSpec.build`."""
        return DeterministicHead(num_features, action, self, generator=generator)

    @property
    def greedy(self) -> Deterministic:
        """See `HeadSpec.greedy`."""
        return Deterministic()


class DeterministicHead(BoundedHead):
    """tanh of a linear layer; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        linear: Puts out the k elements.
        std: Standard deviation of the noise; a buffer, 0 until somebody sets it.

    Raises:
        SpaceError: If an action is anything but numbers with bounds.
    """

    std: Tensor

    def __init__(
        self, num_features: int, action: ActionSpec, spec: Deterministic, *, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, spec)
        self.noise = replace(self.noise, ladder=spec.ladder)
        self.linear = linear(num_features, self.num_numbers, gain=ACTION_GAIN, generator=generator)
        self.register_buffer("std", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self._own = (self.linear.weight, self.linear.bias)  # at hand: a look-up on a module is slow

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> Disturbed:
        """Each row's action, and its noise, whether or not it is `random`; arguments as of `Head.forward`."""
        weight, bias = self._own
        return self.behavior(functional.linear(features, weight, bias))

    def of_slots(self, noise: Tensor, power: Tensor) -> Tensor:
        """Returns noise by which slots act with a spread of their own, ``std ** power``, unless they act evenly at
        random; see `Head.of_slots`.
        """
        return noise if self.random else noise * self.std.pow(power - 1.0)

    def behavior(self, output: Tensor) -> Disturbed:
        """What actions are drawn from, given what `linear` puts out, ``[N, k]``."""
        return Disturbed(torch.tanh(output), self.std)
