"""Network of the Decision Transformer (Chen et al. 2021, arXiv:2106.01345), which predicts the next action from one
sequence of the last returns-to-go, observations and actions.

A step of a window is three tokens, in this order: its return-to-go, its observation, its action. Each attends to itself
and earlier tokens. The embedding of the step's index in the episode is added to all three; there is no other position
encoding, so steps left out on the left of a window change nothing.

The network acts decision by decision as a `Memory` and learns over whole windows (`DecisionTransformer.read`), with
equal results. Its memory holds the inputs of the last steps, not their activations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences, TensorTree
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.cells.attention import sinusoids
from rookery.models.cells.base import Memory
from rookery.models.heads import DistributionHead, Head, HeadSpec
from rookery.models.layers import linear, normal
from rookery.models.memory import MemoryConfig
from rookery.models.recall import CHOICES, NUMBERS, PREVIOUS, REWARD
from rookery.models.squashed import Deterministic

TOKENS = 3
"""Tokens of a step: return-to-go, observation, action."""

MLP_WIDTH = 4
"""Width of the two-layer MLP of a block, in widths of a token."""

INIT_STD = 0.02
"""Standard deviation of initial weights (GPT-2)."""


@dataclass(frozen=True)
class ReturnConditioned(HeadSpec):
    """Head spec of a transformer over the last decisions that is conditioned on a target return; for discrete actions,
    or bounded continuous ones, which go through tanh.

    Attributes:
        context: Decisions in the window, the present one included.
        layers: Blocks of attention and two linear layers.
        heads: Attention heads.
        width: Width of a token.
        timesteps: Size of the timestep embedding; later decisions use its last row.
    """

    context: int
    layers: int
    heads: int
    width: int
    timesteps: int

    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """Builds the head; arguments as of `HeadSpec.build`."""
        spec = DistributionHead() if action.sizes else Deterministic()
        return spec.build(num_features, action, log_std_init=log_std_init, generator=generator)

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Builds trunk and memory below the head; arguments as of `HeadSpec.body`."""
        trunk = StepInputs(obs, model, generator=generator)
        memory = DecisionTransformer(trunk.num_seen, action, self, generator=generator)
        return trunk, memory, memory.num_features

    def recalled(self, memory: MemoryConfig) -> MemoryConfig:
        """Recalls the last action and its reward, by which the return-to-go falls."""
        return replace(memory, previous_action=True, previous_reward=True)


class StepInputs(nn.Module):
    """Concatenates the inputs of one decision: features of the observation, the last action, its reward.

    Args:
        obs: Layout of the inputs, the last action and its reward included.
        model: Settings of the network for observations.
        generator: Draws its weights.

    Attributes:
        observed: The network for observations.
        num_seen: Features of an observation.
        num_features: Width of the vector.
    """

    obstacle = "a transformer"
    """Reason why no kernels support it."""

    def __init__(self, obs: ObsSpec, model: ModelConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        own = tuple(leaf for leaf in obs.leaves if leaf.path not in PREVIOUS)
        widths = [math.prod(leaf.shape) for leaf in obs.leaves if leaf.path in PREVIOUS]
        self.observed = build_trunk(ObsSpec(obs.space, own, obs.dropped), model, generator=generator)
        self.num_seen = int(self.observed.num_features)  # type: ignore[arg-type]
        self.num_features = self.num_seen + sum(widths)

    def forward(self, obs: TensorTree) -> Tensor:
        """Returns vectors ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        past = [obs[path].to(torch.float32) for path in (CHOICES, NUMBERS, REWARD) if path in obs]
        return torch.cat((self.observed({path: leaf for path, leaf in obs.items() if path not in PREVIOUS}), *past), 1)


@dataclass(frozen=True)
class Dropout:
    """Dropout with its own generator: sets values to 0 at random during learning, and scales the others up.

    Attributes:
        rate: Probability of being set to 0.
        generator: Draws the values, on the device of the network.
    """

    rate: float
    generator: torch.Generator

    def __call__(self, x: Tensor) -> Tensor:
        """Applies dropout to a tensor."""
        kept = torch.rand(x.shape, generator=self.generator, device=x.device, dtype=torch.float32) >= self.rate
        return x * kept / (1.0 - self.rate)


def dropped(x: Tensor, dropout: Dropout | None) -> Tensor:
    """Applies dropout to a tensor; returns the same tensor if `dropout` is None."""
    return x if dropout is None else dropout(x)


class CausalAttention(nn.Module):
    """Multi-head self-attention with a mask (Vaswani et al. 2017, eq. 1).

    Args:
        width: Width of a token.
        heads: Attention heads.
        generator: Draws the weights.
    """

    def __init__(self, width: int, heads: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.looks = small_linear(width, 3 * width, generator=generator)
        self.output = small_linear(width, width, generator=generator)

    def forward(self, x: Tensor, hidden: Tensor, dropout: Dropout | None) -> Tensor:
        """Applies attention to tokens ``[N, L, width]``; `hidden` ``[N, 1, L, L]`` masks keys (last axis) for each
        query.
        """
        query, key, value = self.looks(x).unflatten(2, (3 * self.heads, -1)).transpose(1, 2).chunk(3, 1)
        scores = (query @ key.transpose(2, 3)) * query.shape[3] ** -0.5
        weights = dropped(scores.masked_fill(hidden, -torch.inf).softmax(3), dropout)
        return dropped(self.output((weights @ value).transpose(1, 2).flatten(2)), dropout)


class TransformerBlock(nn.Module):
    """Transformer layer of GPT-2: attention, then two linear layers on each token, both pre-normalized and residual;
    ReLU between the two, as in the paper.

    Args:
        width: Width of a token.
        heads: Heads of attention.
        generator: Draws the weights.
    """

    def __init__(self, width: int, heads: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.first_norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.attention = CausalAttention(width, heads, generator=generator)
        self.second_norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu")
        self.wide = small_linear(width, MLP_WIDTH * width, generator=generator)
        self.narrow = small_linear(MLP_WIDTH * width, width, generator=generator)

    def forward(self, x: Tensor, hidden: Tensor, dropout: Dropout | None) -> Tensor:
        """Returns the tokens ``[N, L, width]`` after this layer; arguments as of `CausalAttention.forward`."""
        x = x + self.attention(self.first_norm(x), hidden, dropout)
        return x + dropped(self.narrow(functional.relu(self.wide(self.second_norm(x)))), dropout)


@dataclass(frozen=True)
class Steps:
    """Windows of K steps, ``[B, K, ...]``; missing steps are padded on the left with any finite values.

    Attributes:
        seen: ``[B, K, F]`` features of observations.
        action: ``[B, K, c]`` actions, float32: continuous ones, or discrete ones counted from 1 (0 = not known).
        return_to_go: ``[B, K]`` returns-to-go, in the unit of the network.
        timestep: ``[B, K]`` decisions before the step in its episode; any value for missing steps.
        is_there: ``[B, K]`` bool.
    """

    seen: Tensor
    action: Tensor
    return_to_go: Tensor
    timestep: Tensor
    is_there: Tensor


class DecisionTransformer(Memory):
    """Computes features from the last `context` returns-to-go, observations and actions.

    The memory of a slot holds: decisions so far in its episode, the last return-to-go, then `context` - 1 steps, oldest
    first, each with features of its observation, its action and its return-to-go. The last action and its reward arrive
    with the next decision. At an episode's start the return-to-go is `target_return`.

    Args:
        num_seen: Features of an observation.
        action: Layout of the actions.
        spec: Sizes of the network.
        generator: Draws the weights.

    Attributes:
        target_return: Target return of an episode; a buffer, so that it is saved with the weights.
        return_scale: Divisor of returns; a buffer.
        decision_part: Part of an episode that a decision is, by which returns-to-go are divided (`return_input`); 0 =
            returns-to-go are the input themselves. A buffer.
        return_range: ``[2]`` smallest and largest input for a return-to-go; a buffer.

    Raises:
        ConfigError: If the heads do not divide the width.
    """

    word = "decision transformer"
    target_return: Tensor
    return_scale: Tensor
    decision_part: Tensor
    return_range: Tensor

    def __init__(
        self, num_seen: int, action: ActionSpec, spec: ReturnConditioned, *, generator: torch.Generator
    ) -> None:
        if spec.width % spec.heads:
            raise ConfigError(
                f"heads: {spec.heads} heads cannot share a width of {spec.width} evenly; take a width such as "
                f"{-(-spec.width // spec.heads) * spec.heads}, or a number of heads that divides {spec.width}"
            )
        super().__init__()
        self.spec = spec
        self.num_seen, self.num_features = num_seen, spec.width
        self.num_acted = len(action.sizes) or action.num_numbers
        self._step_width = num_seen + self.num_acted + 1
        self.size = 2 + (spec.context - 1) * self._step_width
        self.return_embedding = embedding(1, spec.width, generator=generator)
        self.seen_embedding = embedding(num_seen, spec.width, generator=generator)
        self.number_embedding: nn.Linear | None = None
        self.choice_embedding: nn.Parameter | None = None
        if action.sizes:
            self.choice_embedding = nn.Parameter(
                normal(action.sizes[0] + 1, spec.width, std=INIT_STD, generator=generator)
            )
        else:
            self.number_embedding = embedding(self.num_acted, spec.width, generator=generator)
        self.time_embedding = nn.Parameter(sinusoids(spec.timesteps, spec.width).flip(0))
        self.norm = nn.LayerNorm(spec.width, dtype=torch.float32, device="cpu")
        self.blocks = nn.ModuleList(
            [TransformerBlock(spec.width, spec.heads, generator=generator) for _ in range(spec.layers)]
        )
        self.last_norm = nn.LayerNorm(spec.width, dtype=torch.float32, device="cpu")
        self.register_buffer("target_return", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("return_scale", torch.tensor(1.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("decision_part", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("return_range", torch.tensor([-torch.inf, torch.inf], dtype=torch.float32, device="cpu"))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Loads weights; those of earlier versions have returns-to-go as inputs."""
        for name in ("decision_part", "return_range"):
            state_dict.setdefault(prefix + name, getattr(self, name))
        super()._load_from_state_dict(state_dict, prefix, *others)

    def return_input(self, return_to_go: Tensor, timestep: Tensor) -> Tensor:
        """Returns the input for a return-to-go: what is to be earned in each decision that is left, in units of a whole
        episode, within the range of the data.

        The first decisions of a good episode and the last ones of a bad episode have equal returns-to-go where rewards
        are losses; they differ in this average, which does not reveal the timestep of an episode that goes well.

        Args:
            return_to_go: Returns-to-go, in the unit of the network.
            timestep: Decisions before each in its episode, of the same shape.
        """
        left = (1.0 - timestep.clamp(min=0) * self.decision_part).clamp(min=self.decision_part)
        return torch.minimum(torch.maximum(return_to_go / left, self.return_range[0]), self.return_range[1])

    def read(self, steps: Steps, dropout: Dropout | None = None) -> Tensor:
        """Returns features ``[B, K, width]``, from which each step's action is predicted: they depend on all earlier
        steps, its return-to-go and its observation; missing steps have meaningless values.
        """
        when = self.time_embedding[steps.timestep.clamp(0, self.spec.timesteps - 1)]
        parts = (
            self.return_embedding(self.return_input(steps.return_to_go, steps.timestep).unsqueeze(2)),
            self.seen_embedding(steps.seen),
            self._action_tokens(steps.action),
        )
        tokens = torch.stack([part + when for part in parts], 2).flatten(1, 2)
        x = dropped(self.norm(tokens), dropout)
        hidden = hidden_tokens(steps.is_there)
        for block in self.blocks:
            x = block(x, hidden, dropout)
        features: Tensor = self.last_norm(x[:, 1::TOKENS])
        return features

    def _action_tokens(self, action: Tensor) -> Tensor:
        if self.choice_embedding is not None:
            return self.choice_embedding[action[..., 0].long()]
        assert self.number_embedding is not None
        tokens: Tensor = self.number_embedding(action)
        return tokens

    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Processes one decision of N slots, `x` from `StepInputs`; see `Memory.advance`."""
        seen, last_action, reward = x.split((self.num_seen, self.num_acted, 1), 1)
        count, before = memory[:, :1], memory[:, 1:2]
        ahead = torch.where(count > 0, before - reward / self.return_scale, self.target_return / self.return_scale)
        past = memory[:, 2:].unflatten(1, (self.spec.context - 1, self._step_width))
        now = torch.cat((seen, torch.zeros_like(last_action), ahead), 1)
        window = torch.cat((past, now.unsqueeze(1)), 1)
        observed, action, returns = window.split((self.num_seen, self.num_acted, 1), 2)
        if self.spec.context > 1:
            action = torch.cat((action[:, :-2], last_action.unsqueeze(1), action[:, -1:]), 1)
        timestep = count + torch.arange(1 - self.spec.context, 1, device=x.device, dtype=torch.int64)
        steps = Steps(observed, action, returns.squeeze(2), timestep.long(), timestep >= 0)
        kept = torch.cat((observed, action, returns), 2)[:, 1:].flatten(1)
        return self.read(steps)[:, -1], torch.cat((count + 1, ahead, kept), 1)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Raises RookeryError: learning on windows of data uses `read`."""
        raise RookeryError("a decision transformer learns from windows of data, not from rollouts")


def hidden_tokens(is_there: Tensor) -> Tensor:
    """Returns the attention mask, True for hidden tokens: later ones, and those of missing steps. A token always
    attends to itself, so that no row is empty.

    Args:
        is_there: ``[B, K]`` bool.

    Returns:
        ``[B, 1, 3K, 3K]`` bool, by query, then key.
    """
    there = is_there.repeat_interleave(TOKENS, 1)
    length = there.shape[1]
    place = torch.arange(length, device=there.device, dtype=torch.int64)
    later = place.unsqueeze(0) > place.unsqueeze(1)
    itself = place.unsqueeze(0) == place.unsqueeze(1)
    return ((later | ~there.unsqueeze(1)) & ~itself).unsqueeze(1)


def embedding(num_inputs: int, width: int, *, generator: torch.Generator) -> nn.Linear:
    """Makes a linear layer from numbers to a token. Its biases start as large as its products: without them, the
    LayerNorm that follows would keep only the direction of the numbers, and only the sign of a single one such as a
    return.
    """
    layer = linear(num_inputs, width, gain=1.0, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(normal(width, num_inputs, std=num_inputs**-0.5, generator=generator))
        layer.bias.copy_(normal(width, std=1.0, generator=generator))
    return layer


def small_linear(num_inputs: int, num_outputs: int, *, generator: torch.Generator) -> nn.Linear:
    """Makes a linear layer with small normal initial weights and zero biases (GPT-2)."""
    layer = linear(num_inputs, num_outputs, gain=1.0, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(normal(num_outputs, num_inputs, std=INIT_STD, generator=generator))
    return layer
