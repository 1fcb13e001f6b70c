"""Heads for Q-values: a mean for each action, a distribution over atoms (C51), or quantiles (QR-DQN).

Sources: categorical values, Bellemare et al. 2017, 1707.06887; quantiles, Dabney et al. 2018, 1710.10044; dueling
streams, Wang et al. 2016, 1511.06581; noisy layers, Fortunato et al. 2018, 1706.10295.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ActionSpec
from rookery.models.distributions import Behavior, Categorical, NoiseSpec
from rookery.models.heads import VALUE_GAIN, Columns, Head, HeadSpec
from rookery.models.layers import HIDDEN_GAIN, linear

IMPOSSIBLE = -3e38
"""Q-value at or below which a model that outputs Q-values itself marks an action as impossible."""


class NoisyLinear(nn.Module):
    """Linear layer with learned noise on weights and biases, for exploration (Fortunato et al. 2018).

    The noise is factorised (their equation 10): the noise of a weight is the product of a number of its input and one
    of its output. So each row of a batch can have independent noise at the cost of a second layer: ``(sigma * f(e_out)
    f(e_in)^T) x = f(e_out) * (sigma (f(e_in) * x))``.

    Args:
        num_inputs: Width of the input.
        num_outputs: Width of the output.
        std: Initial scale of the noise, divided by the root of `num_inputs`: sigma_0 in the paper, where it is 0.5.
        generator: Draws the weights.

    Attributes:
        width: Normal numbers per row of noise: one for each input, then one for each output.
        weight: ``[num_outputs, num_inputs]`` means.
        bias: ``[num_outputs]`` means.
        weight_sigma: ``[num_outputs, num_inputs]`` scales of the noise.
        bias_sigma: ``[num_outputs]``.
    """

    def __init__(self, num_inputs: int, num_outputs: int, std: float, *, generator: torch.Generator) -> None:
        super().__init__()
        self.width = num_inputs + num_outputs
        self._split = (num_inputs, num_outputs)
        bound, size = 1.0 / math.sqrt(num_inputs), std / math.sqrt(num_inputs)
        self.weight = nn.Parameter(
            torch.empty(num_outputs, num_inputs, dtype=torch.float32, device="cpu").uniform_(
                -bound, bound, generator=generator
            )
        )
        self.bias = nn.Parameter(
            torch.empty(num_outputs, dtype=torch.float32, device="cpu").uniform_(-bound, bound, generator=generator)
        )
        self.weight_sigma = nn.Parameter(torch.full((num_outputs, num_inputs), size, dtype=torch.float32, device="cpu"))
        self.bias_sigma = nn.Parameter(torch.full((num_outputs,), size, dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns outputs ``[N, num_outputs]`` of inputs ``[N, num_inputs]``.

        Args:
            x: The inputs.
            noise: Normal numbers ``[N, width]``, or ``[1, width]`` for all rows; None = only the means.
        """
        means = functional.linear(x, self.weight, self.bias)
        if noise is None:
            return means
        of_input, of_output = (noise.sign() * noise.abs().sqrt()).split(self._split, -1)
        return torch.addcmul(means, of_output, functional.linear(x * of_input, self.weight_sigma, self.bias_sigma))


class EpsilonGreedy(Behavior):
    """Epsilon-greedy actions: the action of the highest value, or with probability epsilon any: int64 ``[...]``.

    Args:
        q: Q-values ``[..., n]``.
        epsilon: Probability of a uniform draw from all allowed actions, including the greedy one; a tensor without
            dimensions.
        mask: Allowed actions ``[..., n]``, bool; the others are never chosen.
    """

    def __init__(self, q: Tensor, epsilon: Tensor, mask: Tensor | None = None) -> None:
        self.q = q if mask is None else torch.where(mask, q, -torch.inf)
        self.epsilon = epsilon
        self.mask = mask
        self._greedy = self.q.argmax(-1)

    @property
    def noise(self) -> NoiseSpec:
        """Takes two uniform numbers: whether to explore, and the random action."""
        return NoiseSpec(uniform=2)

    def sample(self, noise: Tensor) -> Tensor:
        """Returns the greedy action where the first uniform number is not below epsilon, else the drawn one."""
        whether, which = noise.unbind(-1)
        # the product of a float32 number below 1 and an integer stays below the integer after rounding
        if self.mask is None:
            other = (which * self.q.shape[-1]).long()
        else:  # the k-th of the allowed ones is the first up to which more than k are allowed
            allowed = self.mask.cumsum(-1)
            other = (which.unsqueeze(-1) * allowed[..., -1:]).long()
            other = torch.searchsorted(allowed, other, right=True).squeeze(-1)
        return torch.where(whether < self.epsilon, other, self._greedy)

    def mode(self) -> Tensor:
        """Returns the action of the highest value, the first of equals."""
        return self._greedy

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability of `action`, int64 ``[...]``; -inf for impossible actions."""
        if self.mask is None:
            even = self.epsilon / self.q.shape[-1]
        else:
            allowed = self.mask.gather(-1, action.unsqueeze(-1)).squeeze(-1)
            even = self.epsilon * allowed / self.mask.sum(-1)
        return torch.where(action == self._greedy, even + (1.0 - self.epsilon), even).log()


class Boltzmann(Categorical):
    """Boltzmann exploration: actions drawn from the softmax of their Q-values over a temperature, int64 ``[...]``.

    Args:
        q: Q-values ``[..., n]``.
        temperature: Above 0, a tensor without dimensions; if it is infinite, every action is as probable.
        mask: Allowed actions ``[..., n]``, bool; the others are never chosen.
    """

    def __init__(self, q: Tensor, temperature: Tensor, mask: Tensor | None = None) -> None:
        super().__init__(q / temperature, mask)
        self.q = q if mask is None else torch.where(mask, q, -torch.inf)

    def mode(self) -> Tensor:
        """Returns the action of the highest value, the first of equals, at any temperature."""
        return self.q.argmax(-1)


@dataclass(frozen=True)
class QValues(HeadSpec):
    """Spec of a head for Q-values of a Discrete space.

    Attributes:
        values: Form of an action's value: its ``mean``, a distribution over `atoms` fixed numbers (``categorical``), or
            `atoms` quantiles (``quantile``).
        atoms: Numbers for each action; 1 for a mean.
        low: Smallest atom of ``categorical``.
        high: Largest one.
        dueling: Whether a stream for the state's value and one for the actions' advantages are added.
        dueling_hidden: Widths of the hidden layers of each of these streams, with ReLU.
        noisy: Whether the weights of these layers are noisy, see `NoisyLinear`.
        noisy_std: Initial scale of that noise.
        explore: Exploration: ``epsilon`` = `EpsilonGreedy`, ``boltzmann`` = `Boltzmann`.
        per_env_epsilon: With ``epsilon``, decrease of exploration from one slot to the next; 0 = all slots alike.
        by_model: Whether the model outputs Q-values itself (``model.output=action_params``), so that the head has no
            layers.
    """

    values: Literal["mean", "categorical", "quantile"] = "mean"
    atoms: int = 1
    low: float = 0.0
    high: float = 0.0
    dueling: bool = False
    dueling_hidden: tuple[int, ...] = ()
    noisy: bool = False
    noisy_std: float = 0.5
    explore: Literal["epsilon", "boltzmann"] = "epsilon"
    by_model: bool = False
    per_env_epsilon: float = 0.0

    def given(self, action: ActionSpec) -> int | None:
        """Returns the number of Q-values if the model outputs them, else None."""
        return action.num_parameters * self.atoms if self.by_model else None

    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> QHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return (GivenQHead if self.by_model else QHead)(num_features, action, self, generator=generator)

    @property
    def greedy(self) -> QValues:
        """See `HeadSpec.greedy`."""
        return replace(self, explore="epsilon", per_env_epsilon=0.0)


class QHead(Head):
    """Head for Q-values; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        spec: As given.
        num_actions: A, number of actions.
        atoms: M, numbers for each of them.
        epsilon: Probability of a uniformly random action (not with ``boltzmann``); a buffer, initially 1.
        temperature: Temperature of ``boltzmann``; a buffer, initially infinite (uniform actions).
        support: ``[M]`` the atoms of ``categorical`` values.
        linear: Without dueling, the only layer; it outputs the M numbers of the first action, then those of the
            second...
        value: With dueling, the layers of the state's value, the last with M outputs.
        advantage: With dueling, the layers of the advantages, the last with outputs like those of `linear`.

    Raises:
        SpaceError: If the action space is not Discrete.
    """

    shares_noise = True
    """Whether the rows of a gradient step share the numbers of `layer_noise`."""

    epsilon: Tensor
    temperature: Tensor
    support: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: QValues, *, generator: torch.Generator) -> None:
        super().__init__()
        if action.kind != "discrete":
            numbers = ", or SAC, TD3 or DDPG, which take continuous actions" if action.kind == "box" else ""
            raise SpaceError(
                f"actions of {action.space} have no table of Q-values: DQN and PQN choose one action of a Discrete "
                f"space. Use PPO, which takes any space{numbers}"
            )
        self.spec = spec
        self.action_spec = action
        self.num_actions, self.atoms = action.sizes[0], spec.atoms
        width = self.num_actions * self.atoms
        layers = self._make_layers(num_features, width, generator)
        self._widths = tuple(layer.width for layer in layers if isinstance(layer, NoisyLinear))
        self.layer_noise = sum(self._widths)
        uniform = 1 if spec.explore == "boltzmann" else 2
        self.noise = NoiseSpec(uniform=uniform, normal=self.layer_noise, per_env_epsilon=spec.per_env_epsilon)
        self.register_buffer("epsilon", torch.tensor(1.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("temperature", torch.tensor(torch.inf, dtype=torch.float32, device="cpu"))
        self.register_buffer(
            "support",
            torch.linspace(spec.low, spec.high, self.atoms, dtype=torch.float32, device="cpu"),
            persistent=False,
        )

    def _make_layers(self, num_features: int, width: int, generator: torch.Generator) -> Sequence[nn.Module]:
        """Makes the layers, and returns all of them."""
        if self.spec.dueling:
            self.value = _stream(num_features, self.spec, self.atoms, generator)
            self.advantage = _stream(num_features, self.spec, width, generator)
            return [*self.value, *self.advantage]
        self.linear = _layer(num_features, width, VALUE_GAIN, self.spec, generator)
        self._own = (self.linear.weight, self.linear.bias)  # cached: a look-up on a module is slow
        return [self.linear]

    def value_weights(self) -> list[Tensor]:
        """Returns the weights to which all values are proportional."""
        last = [self.value[-1], self.advantage[-1]] if self.spec.dueling else [self.linear]
        return [weight for layer in last for weight in layer.parameters()]

    def forward(
        self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None
    ) -> EpsilonGreedy | Boltzmann:
        """Returns the distribution of each row's action; arguments as of `Head.forward`."""
        q = self.q_from(self.values(features, noise))
        if self.spec.explore == "boltzmann":
            return Boltzmann(q, self.temperature, mask)
        return EpsilonGreedy(q, self.epsilon, mask)

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions and log-probabilities; see `Head.draw`."""
        of_layers = None
        if self.layer_noise:
            noise, of_layers = noise.split((self.noise.uniform, self.layer_noise), -1)
        behavior: EpsilonGreedy | Boltzmann = self(features, mask, of_layers)
        return behavior.sample_logp(noise)

    def of_slots(self, noise: Tensor, power: Tensor) -> Tensor:
        """Returns noise with which each slot acts by its own epsilon: ``u < epsilon ** power`` is as probable as ``u **
        (1 / power) < epsilon``; see `Head.of_slots`.
        """
        noise = noise.clone()
        noise[:, : self.noise.uniform : 2].pow_(power.reciprocal())  # the first of each pair decides whether to explore
        return noise

    def values(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns the values of all actions: means ``[N, A]``; logits of atoms or quantiles ``[N, A, M]``.

        Args:
            features: ``[N, F]``.
            noise: ``[N, layer_noise]`` normal numbers for noisy layers, or ``[1, layer_noise]`` for all rows; None =
                their means.
        """
        if self.spec.dueling:
            return self._dueling(features, noise)
        weight, bias = self._own
        output = functional.linear(features, weight, bias) if noise is None else self.linear(features, noise)
        return output if self.spec.values == "mean" else output.unflatten(-1, (self.num_actions, self.atoms))

    def _dueling(self, features: Tensor, noise: Tensor | None) -> Tensor:
        parts: Sequence[Tensor | None] = [None] * (len(self.value) + len(self.advantage))
        if noise is not None:
            parts = noise.split(self._widths, -1)
        value = _run(self.value, features, parts[: len(self.value)]).unsqueeze(-2)
        advantage = _run(self.advantage, features, parts[len(self.value) :])
        advantage = advantage.unflatten(-1, (self.num_actions, self.atoms))
        values: Tensor = value + advantage - advantage.mean(-2, keepdim=True)
        return values.squeeze(-1) if self.spec.values == "mean" else values

    def q_from(self, values: Tensor) -> Tensor:
        """Returns mean values ``[..., A]`` of the result of `values`."""
        if self.spec.values == "categorical":
            return torch.softmax(values, -1) @ self.support
        return values.mean(-1) if self.spec.values == "quantile" else values


class GivenQHead(QHead):
    """Head that uses the first columns of the features as Q-values; arguments as of `QHead`."""

    def _make_layers(self, num_features: int, width: int, generator: torch.Generator) -> Sequence[nn.Module]:
        """Makes no layers."""
        self.columns = Columns(0, width)
        return []

    def value_weights(self) -> list[Tensor]:
        """Returns nothing: the model's last layers are unknown."""
        return []

    def forward(
        self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None
    ) -> EpsilonGreedy | Boltzmann:
        """Returns the distribution of each row's action over those that the model has not marked as impossible."""
        return super().forward(features, _possible(self.q_from(self.values(features)), mask))

    def values(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns the Q-values that the model outputs."""
        output: Tensor = self.columns(features)
        return output if self.spec.values == "mean" else output.unflatten(-1, (self.num_actions, self.atoms))


def _layer(
    num_inputs: int, num_outputs: int, gain: float, spec: QValues, generator: torch.Generator
) -> nn.Linear | NoisyLinear:
    if spec.noisy:
        return NoisyLinear(num_inputs, num_outputs, spec.noisy_std, generator=generator)
    return linear(num_inputs, num_outputs, gain=gain, generator=generator)


def _stream(num_features: int, spec: QValues, width: int, generator: torch.Generator) -> nn.ModuleList:
    """Makes the layers of a dueling stream."""
    widths = (num_features, *spec.dueling_hidden)
    hidden = [_layer(before, after, HIDDEN_GAIN, spec, generator) for before, after in pairwise(widths)]
    return nn.ModuleList((*hidden, _layer(widths[-1], width, VALUE_GAIN, spec, generator)))


def _possible(q: Tensor, mask: Tensor | None) -> Tensor:
    """Returns allowed actions, ``[..., n]`` bool: those of the mask that the model has not marked as impossible; all
    where none remains.
    """
    allowed = q > IMPOSSIBLE
    allowed = allowed if mask is None else allowed & mask
    return allowed | ~allowed.any(-1, keepdim=True)


def _run(layers: nn.ModuleList, x: Tensor, noise: Sequence[Tensor | None]) -> Tensor:
    """Returns the output of a stream's layers, with ReLU between them and each layer's own noise."""
    for number, (layer, mine) in enumerate(zip(layers, noise, strict=True)):
        x = functional.relu(x) if number else x
        x = layer(x) if mine is None else layer(x, mine)
    return x
