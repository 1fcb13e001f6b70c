"""Memory: what a policy carries from one decision to the next, behind one interface.

A memory stands between the trunk and the heads. What it remembers of one slot is a vector of `size` numbers, so that
storing, resetting and saving it need not know what it means. It is played one decision at a time (`advance`) and
learned over whole sequences (`forward`), to the same numbers.

What several layers remember lies side by side, layer by layer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences
from rookery.core.errors import ConfigError
from rookery.core.settings.fields import Settings
from rookery.core.settings.reach import Few, Length, Width
from rookery.models.layers import HIDDEN_GAIN, linear, orthogonal
from rookery.models.pieces import Pieces


@dataclass(frozen=True)
class MemoryConfig(Settings):
    """What a policy remembers."""

    kind: Literal["none", "lstm", "gru", "scan", "attention"] = "none"
    """Cell after the trunk: LSTM, GRU, a linear recurrence whose gates look at the input alone (minGRU: learns fast),
    or gated attention over the last decisions.
    """

    size: Width = 64
    """Width of the cell, and of what it gives."""

    layers: Few = 1
    """Cells on top of each other."""

    sequence_length: Length = 32
    """Decisions in a row through which gradients flow, at most; each such sequence starts from what was remembered
    when it was played. The units of GRU and scan start with memories of up to so many decisions.
    """

    context: Length = 32
    """Decisions that a layer of attention looks at, the present one included."""

    heads: Few = 4
    """Heads of attention; `size` is split among them."""

    previous_action: bool = False
    """Whether the policy sees its last action."""

    previous_reward: bool = False
    """Whether the policy sees what its last action earned."""

    frames: Few = 1
    """Observations that the policy sees at once, the present one included; those before an episode's first are copies
    of that one. Each is stored once.
    """


class Memory(nn.Module, ABC):
    """Features that depend on what came before.

    A memory of all zeros is that of an episode's start.

    Attributes:
        size: Numbers remembered of one slot.
        num_features: Width of the output.
        word: What the first lines of a run call it where `model.memory.kind` does not say.
    """

    word: ClassVar[str] = "model.module"
    size: int
    num_features: int

    @abstractmethod
    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots.

        Args:
            x: ``[N, F]`` what the trunk gives.
            memory: ``[N, size]`` what is remembered; zeros where an episode starts.

        Returns:
            Features ``[N, num_features]``, and what is remembered from here on, ``[N, size]``, a new tensor.
        """

    @abstractmethod
    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, with gradients through time.

        Args:
            x: ``[N, F]`` what the trunk gives for each row.
            memory: ``[B, size]`` what is remembered before each sequence; of no meaning where an episode starts there.
            sequences: How the rows lie in time.

        Returns:
            Features ``[N, num_features]``, and what is remembered after the last row of each sequence, ``[B, size]``.
        """


class RecurrentLayer(nn.Module):
    """A layer of a recurrent memory.

    Args:
        num_inputs: Width of its input.
        size: Width of the layer.
        num_gates: How many vectors of that width it computes, gates and candidates.
        looks_back: Whether the gates look at the layer's last output too.
        generator: Draws the weights, those of inputs and of outputs each orthogonal as a whole.
    """

    def __init__(
        self, num_inputs: int, size: int, *, num_gates: int, looks_back: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.input = linear(num_inputs, num_gates * size, gain=1.0, generator=generator)
        self.recurrent: nn.Parameter | None = None
        if looks_back:
            self.recurrent = nn.Parameter(orthogonal(num_gates * size, size, gain=1.0, generator=generator))


LayerWeights = tuple[Tensor, Any, Tensor]
"""Weights of a layer on its input and on its own last output (None where it does not look back), and biases."""


class Recurrent(Memory):
    """Cells on top of each other, each of which looks at what the one below gives and at its own past.

    Args:
        num_inputs: Width of what the trunk gives.
        cfg: Width and number of the layers, and the horizon of first biases.
        generator: Draws the weights.

    Attributes:
        num_gates: Vectors that a layer computes, gates and candidates.
        num_states: Vectors that a layer remembers.
        looks_back: Whether the gates look at the last output too.
        fused: Torch's own pass of all layers over all decisions, if it has one: ``torch.lstm``, ``torch.gru``.
    """

    num_gates: ClassVar[int]
    num_states: ClassVar[int] = 1
    looks_back: ClassVar[bool] = True
    fused: ClassVar[Callable[..., tuple[Tensor, ...]]]

    def __init__(self, num_inputs: int, cfg: MemoryConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        self.num_features = cfg.size
        self.size = cfg.layers * self.num_states * cfg.size
        widths = [num_inputs] + [cfg.size] * (cfg.layers - 1)
        gates, looks_back = self.num_gates, self.looks_back
        made = [
            RecurrentLayer(width, cfg.size, num_gates=gates, looks_back=looks_back, generator=generator)
            for width in widths
        ]
        self.layers = nn.ModuleList(made)
        # at hand: to look weights up in modules takes as long as a small product
        self._weights: tuple[LayerWeights, ...] = tuple(
            (layer.input.weight, layer.recurrent, layer.input.bias) for layer in made
        )
        with torch.no_grad():
            for layer in made:
                self._start(layer.input.bias, cfg.sequence_length)

    @abstractmethod
    def _start(self, bias: Tensor, horizon: int) -> None:
        """Sets the first biases ``[num_gates * num_features]`` of a layer, zeros until then, for such a horizon."""

    @abstractmethod
    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        """What a layer gives for N slots, and what it remembers from here on, of its input and of what it remembers.

        All are ``[N, num_features]`` but the input of the first layer; of what is remembered there are `num_states`.
        """

    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots; see `Memory.advance`."""
        after: list[Tensor] = []
        states, num = memory.split(self.num_features, 1), self.num_states
        for layer, weights in enumerate(self._weights):
            x, *remembered = self._cell(x, states[num * layer : num * (layer + 1)], weights)
            after += remembered
        return x, torch.cat(after, 1)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, in one call of `fused`; see `Memory.forward`."""
        pieces, layers = Pieces.of(sequences), len(self._weights)
        shape = (layers, self.num_states, -1)
        states = pieces.before(memory).unflatten(1, shape).permute(2, 1, 0, 3).contiguous()
        before = states[0] if self.num_states == 1 else states.unbind(0)
        flat: list[Tensor] = []
        for weight, recurrent, bias in self._weights:
            flat += [weight, recurrent, bias, torch.zeros_like(bias)]
        has_biases, dropout, bidirectional, batch_first = True, 0.0, False, False
        options: tuple[Any, ...] = (flat, has_biases, layers, dropout, torch.is_grad_enabled(), bidirectional)
        if pieces.in_order:
            out, *after = self.fused(sequences.grid(x), before, *options, batch_first)
            out = out.flatten(0, 1)
        else:
            out, *after = self.fused(
                pieces.pack(x), torch.tensor(pieces.counts, dtype=torch.int64, device="cpu"), before, *options
            )
        remembered = torch.stack(after, 2).index_select(1, pieces.last)  # [layers, B, num_states, size]
        return pieces.unpack(out), remembered.transpose(0, 1).flatten(1)


def spread_memories(size: int, horizon: int) -> Tensor:
    """Biases ``[size]`` of gates that keep: at first unit by unit forgets later, within 2 to ``1 + horizon`` decisions.

    Such a gate keeps ``sigmoid(log(t)) = 1 - 1 / (1 + t)``, with t from 1 to `horizon` in geometric steps (as Tallec &
    Ollivier 2018, arXiv:1804.11188, draw it). Were all gates alike, none would see an early decision much later, and
    there would be no gradient to learn it by.
    """
    return math.log(horizon) * torch.linspace(0.0, 1.0, size, dtype=torch.float32, device="cpu")


def biases(bias: Tensor) -> tuple[Tensor, ...]:
    """The bias of a layer as torch's cells take it: alone on the processor, elsewhere with a second one of zeros."""
    return (bias,) if bias.is_cpu else (bias, torch.zeros_like(bias))


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; forget gates by Gers et al. 2000).

    With gates i, f, g, o = ``W x + b + U h``, in the order of ``torch.nn.LSTM``:
    ``c = sigmoid(f) c + sigmoid(i) tanh(g)``, ``h = sigmoid(o) tanh(c)``. A layer remembers h, then c, and gives h. The
    bias of f starts at 1, so that it remembers before it has learned what to forget.
    """

    num_gates = 4
    num_states = 2
    fused = staticmethod(torch.lstm)

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[self.num_features : 2 * self.num_features] = 1.0

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, recurrent, bias = weights
        h, c = torch.lstm_cell(x, states, weight, recurrent, *biases(bias))
        return h, h, c


class GRU(Recurrent):
    """Gated recurrent units (Cho et al. 2014), in the form of ``torch.nn.GRU``.

    With r, z, n = ``W x + b`` and, of the last output, ``U h``: ``r = sigmoid(r + U_r h)``,
    ``z = sigmoid(z + U_z h)``, ``n = tanh(n + r * U_n h)``, ``h = (1 - z) n + z h``. A layer remembers h, and gives it.
    At first the units of a layer forget within 2 to about `sequence_length` decisions.
    """

    num_gates = 3
    fused = staticmethod(torch.gru)

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[self.num_features : 2 * self.num_features] = spread_memories(self.num_features, horizon)

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, recurrent, bias = weights
        h = torch.gru_cell(x, states[0], weight, recurrent, *biases(bias))
        return h, h


class Scan(Recurrent):
    """Minimal gated recurrent units (minGRU, Feng et al. 2024, arXiv:2410.01201), which learn fast.

    With z, n = ``W x + b``: ``h = (1 - sigmoid(z)) h + sigmoid(z) n``. A layer remembers h, and gives ``tanh(h)``.
    Gates and candidates do not look back, so that one product computes those of all decisions. What is left to do one
    after the other is a blend of two vectors, which on a CPU is faster so than in a scan of log2(S) rounds over all
    rows. Nothing is divided and no weight of the past is above 1, so it needs no logarithms as the paper's form does,
    and candidates of either sign are fine.

    The tanh is not the paper's. Without it what one layer gives is linear in its candidates, and heads that are linear
    too learn to tell a decision from those around it much later. At first units forget as those of a `GRU`.
    """

    num_gates = 2
    looks_back = False

    def _start(self, bias: Tensor, horizon: int) -> None:
        bias[: self.num_features] = -spread_memories(self.num_features, horizon)

    def _cell(self, x: Tensor, states: tuple[Tensor, ...], weights: LayerWeights) -> tuple[Tensor, ...]:
        weight, _, bias = weights
        gate, candidate = functional.linear(x, weight, bias).chunk(2, 1)
        h = torch.lerp(states[0], candidate, gate.sigmoid())
        return h.tanh(), h

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences, one time step of all of them after the other; see `Memory.forward`."""
        pieces = Pieces.of(sequences)
        after: list[Tensor] = []
        x = pieces.pack(x)
        states = pieces.before(memory).split(self.num_features, 1)
        for before, (weight, _, bias) in zip(states, self._weights, strict=True):
            gate, candidate = functional.linear(x, weight, bias).chunk(2, 1)
            h = blend(candidate, gate.sigmoid(), before, pieces.counts)
            after.append(h.index_select(0, pieces.last_packed))
            x = h.tanh()
        return pieces.unpack(x), torch.cat(after, 1)


def blend(candidate: Tensor, gate: Tensor, before: Tensor, counts: list[int]) -> Tensor:
    """The blends ``h[t] = (1 - gate[t]) h[t - 1] + gate[t] candidate[t]`` of each piece, in packed order, ``[N, H]``.

    Args:
        candidate: ``[N, H]``.
        gate: ``[N, H]`` from 0 to 1.
        before: ``[P, H]`` what stands before the first step of each piece.
        counts: How many pieces have a first row, a second one, ...
    """
    blended: Tensor = _Blend.apply(candidate, gate, before, counts)  # type: ignore[no-untyped-call]
    return blended


class _Blend(torch.autograd.Function):
    """One operation a time step in each direction; autograd's own tape would hold and visit four."""

    @staticmethod
    def forward(ctx: Any, candidate: Tensor, gate: Tensor, before: Tensor, counts: list[int]) -> Tensor:
        out = torch.empty_like(candidate)
        h = before
        for now, news, z in zip(out.split(counts), candidate.split(counts), gate.split(counts), strict=True):
            h = torch.lerp(h[: len(now)], news, z, out=now)
        ctx.save_for_backward(candidate, gate, before, out)
        ctx.counts = counts
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        candidate, gate, before, out = ctx.saved_tensors
        counts: list[int] = ctx.counts
        keep = 1.0 - gate
        grad = grads[0].clone()
        grad_of, keep_of = grad.split(counts), keep.split(counts)
        for step in range(len(counts) - 1, 0, -1):
            grad_of[step - 1][: counts[step]].addcmul_(grad_of[step], keep_of[step])
        going_on = [h[:count] for h, count in zip(out.split(counts), counts[1:], strict=False)]
        previous = torch.cat((before, *going_on))
        return grad * gate, grad * (candidate - previous), grad_of[0] * keep_of[0], None


# --- attention --------------------------------------------------------------------------------------------------------
# Relative positions are those of Transformer-XL (Dai et al. 2019, arXiv:1901.02860); a gate takes the place of each
# residual connection, and starts nearly closed, so that the first policy acts on the present alone.

GATE_BIAS = 2.0  # how far a gate is closed at first (GTrXL, section 3.2)
MLP_WIDTH = 2  # times the width of the layer
STRETCH = 4  # times the context of attention: so much of a sequence goes through it at once


class Gate(nn.Module):
    """A GRU-type gate: how much of the news `y` comes into the stream `x`.

    ``r = sigmoid(W_r y + U_r x)``, ``z = sigmoid(W_z y + U_z x - 2)``, ``h = tanh(W_h y + U_h (r * x))``, and what
    comes out is ``(1 - z) x + z h``.
    """

    def __init__(self, size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.size = size
        self.input = linear(size, 3 * size, gain=1.0, generator=generator)
        self.gates = nn.Parameter(orthogonal(2 * size, size, gain=1.0, generator=generator))
        self.candidate = nn.Parameter(orthogonal(size, size, gain=1.0, generator=generator))
        with torch.no_grad():
            self.input.bias[size : 2 * size] = -GATE_BIAS

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The stream ``[N, size]`` after news ``[N, size]``."""
        news, candidate = functional.linear(y, self.input.weight, self.input.bias).split((2 * self.size, self.size), 1)
        r, z = torch.addmm(news, x, self.gates.t()).sigmoid().chunk(2, 1)
        return torch.lerp(x, torch.addmm(candidate, r * x, self.candidate.t()).tanh(), z)


class RelativeAttention(nn.Module):
    """Each decision looks at the last `context` ones, itself included, by what they hold and by how long ago they were.

    What is hidden from a decision changes nothing for it, not even if it is NaN or infinite, nor its gradients: such
    a decision is looked at as zeros, and sees NaN itself.

    Args:
        size: Width of what is looked at, and of the output.
        heads: Parts of that width which look on their own.
        context: Decisions looked at.
        generator: Draws the weights.
    """

    distances: Tensor

    def __init__(self, size: int, *, heads: int, context: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, self.context = heads, context
        self.norm = nn.LayerNorm(size, dtype=torch.float32, device="cpu")
        self.query = linear(size, size, gain=1.0, generator=generator)
        self.key_value = linear(size, 2 * size, gain=1.0, generator=generator)
        self.output = linear(size, size, gain=1.0, generator=generator)
        self.position = nn.Parameter(orthogonal(size, size, gain=1.0, generator=generator))
        self.content_bias = nn.Parameter(torch.zeros(size, dtype=torch.float32, device="cpu"))
        self.position_bias = nn.Parameter(torch.zeros(size, dtype=torch.float32, device="cpu"))
        self.register_buffer("distances", sinusoids(context, size), persistent=False)

    def forward(self, timeline: Tensor, hidden: Tensor) -> Tensor:
        """What K decisions of each of P episodes see.

        Args:
            timeline: ``[P, context - 1 + K, size]`` the decisions before them, then they themselves.
            hidden: ``[P, 1, K, context - 1 + K]`` bool, what each of them must not look at.

        Returns:
            ``[P, K, size]``.
        """
        width, size = timeline.shape[1:]
        timeline = self.norm(timeline)
        broken = ~timeline.sum(2, keepdim=True).isfinite()  # a norm is all finite or not at all
        timeline = timeline.masked_fill(broken, 0.0)
        query = self.query(timeline[:, self.context - 1 :])
        key, value = self._split(self.key_value(timeline)).chunk(2, 1)
        distance = self._split((self.distances @ self.position.t()).unsqueeze(0))
        by_distance = self._split(query + self.position_bias) @ distance.transpose(2, 3)
        scores = self._split(query + self.content_bias) @ key.transpose(2, 3) + _along(by_distance, width)
        weights = (scores * (size // self.heads) ** -0.5).masked_fill(hidden, -torch.inf).softmax(3)
        seen: Tensor = self.output((weights @ value).transpose(1, 2).flatten(2))
        return seen.masked_fill(broken[:, self.context - 1 :], torch.nan)

    def _split(self, x: Tensor) -> Tensor:
        """``[P, L, parts * size]`` as ``[P, parts * heads, L, size / heads]``."""
        length, width = x.shape[1], self.query.in_features // self.heads
        return x.view(len(x), length, -1, width).transpose(1, 2)


def _along(by_distance: Tensor, width: int) -> Tensor:
    """Scores ``[P, heads, K, context]`` by distance as scores along a timeline ``[P, heads, K, width]``.

    Row k moves k places to the right: in a longer row, each begins one place later than the one above it (Dai et al.
    2019, appendix B). What stands outside its window means nothing.
    """
    steps, context = by_distance.shape[2:]
    if steps == 1:
        return by_distance
    longer = functional.pad(by_distance, (0, width + 1 - context)).flatten(2)
    return longer[:, :, : steps * width].view(*by_distance.shape[:2], steps, width)


def sinusoids(context: int, size: int) -> Tensor:
    """Distances context - 1 to 0 as waves of lengths from 2 pi to 10,000 * 2 pi, ``[context, size]``."""
    distance = torch.arange(context - 1, -1, -1, dtype=torch.float32, device="cpu").unsqueeze(1)
    wave = torch.arange(size, dtype=torch.int64, device="cpu")
    angle = distance * 10_000.0 ** (-(wave // 2 * 2).float() / size)
    return torch.where(wave % 2 == 0, angle.sin(), angle.cos())


class AttentionBlock(nn.Module):
    """One layer: attention, then two linear layers on each decision, each through a gate."""

    def __init__(self, size: int, *, heads: int, context: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attention = RelativeAttention(size, heads=heads, context=context, generator=generator)
        self.attention_gate = Gate(size, generator=generator)
        self.norm = nn.LayerNorm(size, dtype=torch.float32, device="cpu")
        self.wide = linear(size, MLP_WIDTH * size, gain=HIDDEN_GAIN, generator=generator)
        self.narrow = linear(MLP_WIDTH * size, size, gain=1.0, generator=generator)
        self.mlp_gate = Gate(size, generator=generator)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """The stream ``[N, size]`` after what `attention` saw, ``[N, size]``."""
        x = self.attention_gate(x, functional.relu(seen))
        thought = self.narrow(functional.relu(self.wide(self.norm(x))))
        news: Tensor = self.mlp_gate(x, functional.relu(thought))
        return news


class Attention(Memory):
    """Gated attention over the last decisions of the episode (GTrXL, Parisotto et al. 2019, arXiv:1910.06764).

    A layer remembers what came into it at the last ``context - 1`` decisions, oldest first; after all layers stands how
    many of these there are. What it was at the time is looked at with the weights of today, so that after an update
    what stands in a memory is a little old, as in Transformer-XL.

    Args:
        num_inputs: Width of what the trunk gives.
        cfg: Width and number of the layers, heads of each, and decisions that a layer looks at.
        generator: Draws the weights.

    Raises:
        ConfigError: If the width cannot be split among the heads.
    """

    def __init__(self, num_inputs: int, cfg: MemoryConfig, *, generator: torch.Generator) -> None:
        size, heads, context = cfg.size, cfg.heads, cfg.context
        if size % heads:
            raise ConfigError(
                f"model.memory.heads: {heads} heads cannot share model.memory.size {size} evenly; take a size such as "
                f"{-(-size // heads) * heads}, or a number of heads that divides {size}"
            )
        super().__init__()
        self.num_features = size
        self.num_past = context - 1
        self.size = cfg.layers * self.num_past * size + 1
        self.embedding = linear(num_inputs, size, gain=1.0, generator=generator)
        made = [AttentionBlock(size, heads=heads, context=context, generator=generator) for _ in range(cfg.layers)]
        self.blocks = nn.ModuleList(made)
        self._blocks = tuple(made)

    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One decision of N slots; see `Memory.advance`."""
        past, count = self._parts(memory)
        hidden = torch.arange(-self.num_past, 1, device=x.device, dtype=torch.int64) < -count
        x = self.embedding(x)
        after: list[Tensor] = []
        for block, remembered in zip(self._blocks, past, strict=True):
            timeline = torch.cat((remembered, x.unsqueeze(1)), 1)
            after.append(timeline[:, 1:].flatten(1))
            x = block(x, block.attention(timeline, hidden[:, None, None]).squeeze(1))
        after.append((count + 1).clamp_(max=self.num_past))
        return x, torch.cat(after, 1)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions of B sequences; see `Memory.forward`. Long ones go through in stretches: what a decision looks
        at is bounded, and what all of one pass might look at grows with the square of its length.
        """
        steps, stretch = len(sequences.first), STRETCH * (self.num_past + 1)
        if steps <= stretch:
            return self._forward(x, memory, sequences)
        features = x.new_zeros(len(x), self.num_features)
        for start in range(0, steps, stretch):
            which, rows, part = sequences.between(start, start + stretch)
            seen, after = self._forward(x.index_select(0, rows), memory.index_select(0, which), part)
            features = features.index_copy(0, rows, seen)
            memory = memory.index_copy(0, which, after)
        return features, memory

    def _forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """All decisions, each layer's at once."""
        past, count = self._parts(memory.masked_fill(sequences.first[0].unsqueeze(1), 0.0))
        steps, device = len(sequences.first), x.device
        now = torch.arange(steps, device=device, dtype=torch.int64).unsqueeze(1)
        # The earliest decision of the episode that each one is of; those remembered stand at -1, -2, ...
        begin = torch.where(sequences.first, now, -count.squeeze(1).long()).cummax(0).values
        when = torch.arange(-self.num_past, steps, device=device, dtype=torch.int64)
        hidden = (when > now) | (when < torch.maximum(begin, now - self.num_past).t().unsqueeze(2))
        count = sequences.length - begin.gather(0, sequences.length.unsqueeze(0) - 1).squeeze(0)
        count = count.clamp_(max=self.num_past).unsqueeze(1)
        ahead = torch.arange(self.num_past, device=device, dtype=torch.int64)
        kept = (ahead + sequences.length.unsqueeze(1)).unsqueeze(2).expand(-1, -1, self.num_features)
        forgotten = (ahead < self.num_past - count).unsqueeze(2)
        x = self.embedding(x)
        after: list[Tensor] = []
        for block, remembered in zip(self._blocks, past, strict=True):
            timeline = torch.cat((remembered, sequences.grid(x).transpose(0, 1)), 1)
            after.append(timeline.gather(1, kept).masked_fill(forgotten, 0.0).flatten(1))
            seen = block.attention(timeline, hidden.unsqueeze(1))
            x = block(x, sequences.rows(seen.transpose(0, 1)))
        return x, torch.cat((*after, count.to(x.dtype)), 1)

    def _parts(self, memory: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """What each layer remembers, ``[N, context - 1, size]``, and of how many decisions, ``[N, 1]``."""
        past = memory[:, :-1].unflatten(1, (len(self._blocks), self.num_past, self.num_features))
        return past.unbind(1), memory[:, -1:]


CELLS: dict[str, type[LSTM | GRU | Scan | Attention]] = {"lstm": LSTM, "gru": GRU, "scan": Scan, "attention": Attention}


def build_memory(cfg: MemoryConfig, num_features: int, generator: torch.Generator) -> Memory | None:
    """The memory that the settings ask for, or None if nothing that is learned.

    Raises:
        ConfigError: If the width of attention cannot be split among its heads.
    """
    return None if cfg.kind == "none" else CELLS[cfg.kind](num_features, cfg, generator=generator)
