"""The Decision Transformer's network (Chen et al. 2021, arXiv:2106.01345): what was still to be earned, what was seen
and what was done at the last decisions are read as one sequence, and the next action is told from it.

A step of a window is three tokens, in this order: its return-to-go, its observation, its action. Each looks at itself
and those before it. All three have the embedding of their place in the episode added, and nothing else says where they
stand: so what is left out on the left of a window changes nothing.

The network acts decision by decision as a `Memory`, and is learned over whole windows (`DecisionTransformer.read`), to
the same numbers. What it remembers are the inputs of the last steps, not what it made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
"""Times the width of a layer."""

INIT_STD = 0.02
"""Standard deviation of first weights (GPT-2)."""


@dataclass(frozen=True)
class ReturnConditioned(HeadSpec):
    """A transformer over the last decisions that acts for a return which it is told; for numbers with bounds, which
    tanh brings between them, or choices.

    Attributes:
        context: Decisions that are looked at, the present one included.
        layers: Blocks of attention and two linear layers.
        heads: Parts of the width which look on their own.
        width: Width of a token.
        timesteps: Places of an episode that are told apart; later decisions count as the last of these.
    """

    context: int
    layers: int
    heads: int
    width: int
    timesteps: int

    def build(self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator) -> Head:
        """The head; arguments as of `HeadSpec.build`."""
        spec = DistributionHead() if action.sizes else Deterministic()
        return spec.build(num_features, action, log_std_init=log_std_init, generator=generator)

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """What such a head stands on; arguments as of `HeadSpec.body`."""
        trunk = StepInputs(obs, model, generator=generator)
        memory = DecisionTransformer(trunk.num_seen, action, self, generator=generator)
        return trunk, memory, memory.num_features

    def recalled(self, memory: MemoryConfig) -> MemoryConfig:
        """Recalls the last action and what it earned, by which returns-to-go fall."""
        return replace(memory, previous_action=True, previous_reward=True)


class StepInputs(nn.Module):
    """Puts what is seen of one decision into one vector: features of the observation, the last action, its reward.

    Args:
        obs: Layout of what is seen, the last action and its reward included.
        model: Settings of the network for observations.
        generator: Draws its weights.

    Attributes:
        observed: The network for observations.
        num_seen: Features that it makes of them.
        num_features: Width of the whole.
    """

    obstacle = "a transformer"
    """Why there are no kernels for it."""

    def __init__(self, obs: ObsSpec, model: ModelConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        own = tuple(leaf for leaf in obs.leaves if leaf.path not in PREVIOUS)
        widths = [math.prod(leaf.shape) for leaf in obs.leaves if leaf.path in PREVIOUS]
        self.observed = build_trunk(ObsSpec(obs.space, own, obs.dropped), model, generator=generator)
        self.num_seen = int(self.observed.num_features)  # type: ignore[arg-type]
        self.num_features = self.num_seen + sum(widths)

    def forward(self, obs: TensorTree) -> Tensor:
        """The vectors ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        past = [obs[path].to(torch.float32) for path in (CHOICES, NUMBERS, REWARD) if path in obs]
        return torch.cat((self.observed({path: leaf for path, leaf in obs.items() if path not in PREVIOUS}), *past), 1)


@dataclass(frozen=True)
class Dropout:
    """Sets numbers to 0 at random while a network learns, and scales the others up.

    Attributes:
        rate: Part that is set to 0.
        generator: Draws which, on the device of the network.
    """

    rate: float
    generator: torch.Generator

    def __call__(self, x: Tensor) -> Tensor:
        """Gives what is left of a tensor."""
        kept = torch.rand(x.shape, generator=self.generator, device=x.device, dtype=torch.float32) >= self.rate
        return x * kept / (1.0 - self.rate)


def dropped(x: Tensor, dropout: Dropout | None) -> Tensor:
    """Gives what dropout leaves of a tensor; the same one where there is none."""
    return x if dropout is None else dropout(x)


class CausalAttention(nn.Module):
    """Each token looks at those that are not hidden from it (Vaswani et al. 2017, eq. 1).

    Args:
        width: Width of a token.
        heads: Parts of it which look on their own.
        generator: Draws the weights.
    """

    def __init__(self, width: int, heads: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.looks = small_linear(width, 3 * width, generator=generator)
        self.output = small_linear(width, width, generator=generator)

    def forward(self, x: Tensor, hidden: Tensor, dropout: Dropout | None) -> Tensor:
        """What tokens ``[N, L, width]`` see of each other; `hidden` is ``[N, 1, L, L]``, by who looks, then at what."""
        query, key, value = self.looks(x).unflatten(2, (3 * self.heads, -1)).transpose(1, 2).chunk(3, 1)
        scores = (query @ key.transpose(2, 3)) * query.shape[3] ** -0.5
        weights = dropped(scores.masked_fill(hidden, -torch.inf).softmax(3), dropout)
        return dropped(self.output((weights @ value).transpose(1, 2).flatten(2)), dropout)


class TransformerBlock(nn.Module):
    """One layer as GPT-2 has it: attention, then two linear layers on each token, both on normalized input and added
    to it; ReLU between the two, as in the paper.

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
        """The tokens ``[N, L, width]`` after this layer; arguments as of `CausalAttention.forward`."""
        x = x + self.attention(self.first_norm(x), hidden, dropout)
        return x + dropped(self.narrow(functional.relu(self.wide(self.second_norm(x)))), dropout)


@dataclass(frozen=True)
class Steps:
    """Windows of K steps, ``[B, K, ...]``; those that are not there stand on the left, and may hold anything finite.

    Attributes:
        seen: ``[B, K, F]`` features of observations.
        action: ``[B, K, c]`` what was done, float32: numbers, or choices counted from 1 (0 = not known).
        return_to_go: ``[B, K]`` what was still to be earned, in the unit of the network.
        timestep: ``[B, K]`` decisions before it in its episode; of any value where there is none.
        is_there: ``[B, K]`` bool.
    """

    seen: Tensor
    action: Tensor
    return_to_go: Tensor
    timestep: Tensor
    is_there: Tensor


class DecisionTransformer(Memory):
    """Makes features of the last `context` returns-to-go, observations and actions.

    What is remembered of a slot: decisions so far in its episode, the last return-to-go, then `context` - 1 steps,
    oldest first, each with features of its observation, its action and its return-to-go. The last action and what it
    earned come with the next decision. At an episode's start the return-to-go is `target_return`.

    Args:
        num_seen: Features of an observation.
        action: Layout of the actions.
        spec: Sizes.
        generator: Draws the weights.

    Attributes:
        target_return: What an episode is to earn; a buffer, so that it travels with the weights.
        return_scale: What returns are divided by; a buffer.

    Raises:
        ConfigError: If the width cannot be split among the heads.
    """

    word = "decision transformer"
    target_return: Tensor
    return_scale: Tensor

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

    def read(self, steps: Steps, dropout: Dropout | None = None) -> Tensor:
        """Gives features ``[B, K, width]`` of each step, which its action is told from: of all before it, its
        return-to-go and its observation; of no meaning where there is no step.
        """
        when = self.time_embedding[steps.timestep.clamp(0, self.spec.timesteps - 1)]
        parts = (
            self.return_embedding(steps.return_to_go.unsqueeze(2)),
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
        """One decision of N slots, `x` as `StepInputs` gives it; see `Memory.advance`."""
        seen, last_action, reward = x.split((self.num_seen, self.num_acted, 1), 1)
        count, before = memory[:, :1], memory[:, 1:2]
        ahead = torch.where(count > 0, before - reward / self.return_scale, self.target_return / self.return_scale)
        past = memory[:, 2:].unflatten(1, (self.spec.context - 1, self._step_width))
        now = torch.cat((seen, torch.zeros_like(last_action), ahead), 1)
        window = torch.cat((past, now.unsqueeze(1)), 1)
        told, action, returns = window.split((self.num_seen, self.num_acted, 1), 2)
        if self.spec.context > 1:
            action = torch.cat((action[:, :-2], last_action.unsqueeze(1), action[:, -1:]), 1)
        timestep = count + torch.arange(1 - self.spec.context, 1, device=x.device, dtype=torch.int64)
        steps = Steps(told, action, returns.squeeze(2), timestep.long(), timestep >= 0)
        kept = torch.cat((told, action, returns), 2)[:, 1:].flatten(1)
        return self.read(steps)[:, -1], torch.cat((count + 1, ahead, kept), 1)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Refuses: windows of data are learned by `read`."""
        raise RookeryError("a decision transformer learns windows of data, not what it has just played")


def hidden_tokens(is_there: Tensor) -> Tensor:
    """Tells which tokens must not be looked at: those that come later, and those of steps that are not there. A token
    always sees itself, so that none sees nothing.

    Args:
        is_there: ``[B, K]`` bool.

    Returns:
        ``[B, 1, 3K, 3K]`` bool, by who looks, then at what.
    """
    there = is_there.repeat_interleave(TOKENS, 1)
    length = there.shape[1]
    place = torch.arange(length, device=there.device, dtype=torch.int64)
    later = place.unsqueeze(0) > place.unsqueeze(1)
    itself = place.unsqueeze(0) == place.unsqueeze(1)
    return ((later | ~there.unsqueeze(1)) & ~itself).unsqueeze(1)


def embedding(num_inputs: int, width: int, *, generator: torch.Generator) -> nn.Linear:
    """A linear layer from numbers to a token. Its biases start as large as what it makes of the numbers: the LayerNorm
    that follows would keep the direction of the numbers alone, and of a single one, such as a return, the sign.
    """
    layer = linear(num_inputs, width, gain=1.0, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(normal(width, num_inputs, std=num_inputs**-0.5, generator=generator))
        layer.bias.copy_(normal(width, std=1.0, generator=generator))
    return layer


def small_linear(num_inputs: int, num_outputs: int, *, generator: torch.Generator) -> nn.Linear:
    """A linear layer that starts with small normal weights and zero biases (GPT-2)."""
    layer = linear(num_inputs, num_outputs, gain=1.0, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(normal(num_outputs, num_inputs, std=INIT_STD, generator=generator))
    return layer
