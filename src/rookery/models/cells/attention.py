"""Gated attention over the last decisions.

Relative positions are those of Transformer-XL (Dai et al. 2019, arXiv:1901.02860); a gate replaces each residual
connection, and starts nearly closed, so that the initial policy depends on the present observation only.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences
from rookery.core.errors import ConfigError
from rookery.models.cells.base import CellConfig, Memory
from rookery.models.cells.operators import Operators
from rookery.models.layers import HIDDEN_GAIN, linear, orthogonal

GATE_BIAS = 2.0  # initial closing of a gate (GTrXL, section 3.2)
MLP_WIDTH = 2  # in widths of the layer
HIDDEN = -1e9  # added to masked scores in an ONNX graph: their weight is exactly 0
STRETCH = 4  # in contexts of attention: part of a sequence that is processed at once


class Gate(nn.Module):
    """GRU-type gate: controls how much of the update `y` enters the stream `x`.

    ``r = sigmoid(W_r y + U_r x)``, ``z = sigmoid(W_z y + U_z x - 2)``, ``h = tanh(W_h y + U_h (r * x))``, and the
    output is ``(1 - z) x + z h``.
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
        """Returns the stream ``[N, size]`` after an update ``[N, size]``."""
        news, candidate = functional.linear(y, self.input.weight, self.input.bias).split((2 * self.size, self.size), 1)
        r, z = torch.addmm(news, x, self.gates.t()).sigmoid().chunk(2, 1)
        return torch.lerp(x, torch.addmm(candidate, r * x, self.candidate.t()).tanh(), z)

    def write(self, graph: Operators, x: str, y: str) -> str:
        """Writes `forward` into an ONNX graph."""
        size = self.size
        news, candidate = graph.split(graph.linear(y, self.input.weight, self.input.bias), [2 * size, size])
        both = graph.op("Sigmoid", graph.add(news, graph.linear(x, self.gates)))
        r, z = graph.split(both, [size] * 2)
        h = graph.op("Tanh", graph.add(candidate, graph.linear(graph.mul(r, x), self.candidate)))
        return graph.add(x, graph.mul(z, graph.sub(h, x)))


class RelativeAttention(nn.Module):
    """Attention of each decision to the last `context` ones, itself included, by content and by distance.

    Masked decisions change neither outputs nor gradients, even if they are NaN or infinite: a non-finite decision
    counts as zeros for others, and its own output is NaN.

    Args:
        size: Width of input and output.
        heads: Attention heads; `size` is split among them.
        context: Decisions in the window.
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
        """Returns the attention output of K decisions of each of P episodes.

        Args:
            timeline: ``[P, context - 1 + K, size]`` the decisions before them, then the decisions themselves.
            hidden: ``[P, 1, K, context - 1 + K]`` bool, the masked decisions for each of them.

        Returns:
            ``[P, K, size]``.
        """
        width, size = timeline.shape[1:]
        timeline = self.norm(timeline)
        broken = ~timeline.sum(2, keepdim=True).isfinite()  # normalized rows are either all finite or not at all
        timeline = timeline.masked_fill(broken, 0.0)
        query = self.query(timeline[:, self.context - 1 :])
        key, value = self._split(self.key_value(timeline)).chunk(2, 1)
        distance = self._split((self.distances @ self.position.t()).unsqueeze(0))
        by_distance = self._split(query + self.position_bias) @ distance.transpose(2, 3)
        scores = self._split(query + self.content_bias) @ key.transpose(2, 3) + _along(by_distance, width)
        weights = (scores * (size // self.heads) ** -0.5).masked_fill(hidden, -torch.inf).softmax(3)
        seen: Tensor = self.output((weights @ value).transpose(1, 2).flatten(2))
        return seen.masked_fill(broken[:, self.context - 1 :], torch.nan)

    def write(self, graph: Operators, timeline: str, hidden: str) -> str:
        """Writes the attention of the last decision of a timeline ``[N, context, size]`` into an ONNX graph: ``[N,
        size]``.
        """
        size, length, heads = self.query.in_features, self.context, self.heads
        timeline = graph.layer_norm(timeline, 2, self.norm.weight, self.norm.bias, self.norm.eps)
        now = graph.reshape(graph.slice(timeline, length - 1, length), -1, size)
        query = graph.linear(now, self.query.weight, self.query.bias)
        pairs = graph.linear_inside(timeline, self.key_value.weight, self.key_value.bias)
        both = graph.split(pairs, [size] * 2, 2)
        key, value = (graph.reshape(part, -1, length, heads, size // heads) for part in both)
        scores = []
        distance = (self.distances @ self.position.detach().T).view(1, length, heads, size // heads)
        looked_at = graph.constant(distance.permute(0, 2, 3, 1)), graph.transpose(key, 0, 2, 3, 1)
        for bias, other in zip((self.position_bias, self.content_bias), looked_at, strict=True):
            own = graph.reshape(graph.add(query, graph.constant(bias[None])), -1, heads, 1, size // heads)
            scores.append(graph.op("MatMul", own, other))
        whole = graph.add(graph.scaled(graph.add(*scores), (size // heads) ** -0.5), hidden)
        seen = graph.op("MatMul", graph.softmax(whole, 3), graph.transpose(value, 0, 2, 1, 3))
        return graph.linear(graph.reshape(seen, -1, size), self.output.weight, self.output.bias)

    def _split(self, x: Tensor) -> Tensor:
        """Reshapes ``[P, L, parts * size]`` to ``[P, parts * heads, L, size / heads]``."""
        length, width = x.shape[1], self.query.in_features // self.heads
        return x.view(len(x), length, -1, width).transpose(1, 2)


def _along(by_distance: Tensor, width: int) -> Tensor:
    """Converts scores ``[P, heads, K, context]`` by distance to scores along a timeline ``[P, heads, K, width]``.

    Row k moves k places to the right: in a longer row, each begins one place later than the one above it (Dai et al.
    2019, appendix B). Values outside a row's window have no meaning.
    """
    steps, context = by_distance.shape[2:]
    if steps == 1:
        return by_distance
    longer = functional.pad(by_distance, (0, width + 1 - context)).flatten(2)
    return longer[:, :, : steps * width].view(*by_distance.shape[:2], steps, width)


def sinusoids(context: int, size: int) -> Tensor:
    """Returns sinusoidal encodings of distances context - 1 to 0, wavelengths 2 pi to 10,000 * 2 pi, ``[context,
    size]``.
    """
    distance = torch.arange(context - 1, -1, -1, dtype=torch.float32, device="cpu").unsqueeze(1)
    wave = torch.arange(size, dtype=torch.int64, device="cpu")
    angle = distance * 10_000.0 ** (-(wave // 2 * 2).float() / size)
    return torch.where(wave % 2 == 0, angle.sin(), angle.cos())


class AttentionBlock(nn.Module):
    """Layer of attention, then two linear layers on each decision, each followed by a gate."""

    def __init__(self, size: int, *, heads: int, context: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attention = RelativeAttention(size, heads=heads, context=context, generator=generator)
        self.attention_gate = Gate(size, generator=generator)
        self.norm = nn.LayerNorm(size, dtype=torch.float32, device="cpu")
        self.wide = linear(size, MLP_WIDTH * size, gain=HIDDEN_GAIN, generator=generator)
        self.narrow = linear(MLP_WIDTH * size, size, gain=1.0, generator=generator)
        self.mlp_gate = Gate(size, generator=generator)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """Returns the stream ``[N, size]`` after the output of `attention`, ``[N, size]``."""
        x = self.attention_gate(x, functional.relu(seen))
        thought = self.narrow(functional.relu(self.wide(self.norm(x))))
        news: Tensor = self.mlp_gate(x, functional.relu(thought))
        return news

    def write(self, graph: Operators, x: str, seen: str) -> str:
        """Writes `forward` into an ONNX graph."""
        x = self.attention_gate.write(graph, x, graph.op("Relu", seen))
        thought = graph.layer_norm(x, 1, self.norm.weight, self.norm.bias, self.norm.eps)
        thought = graph.op("Relu", graph.linear(thought, self.wide.weight, self.wide.bias))
        thought = graph.linear(thought, self.narrow.weight, self.narrow.bias)
        return self.mlp_gate.write(graph, x, graph.op("Relu", thought))


class Attention(Memory):
    """Gated attention over the last decisions of the episode (GTrXL, Parisotto et al. 2019, arXiv:1910.06764).

    The memory holds each layer's inputs at the last ``context - 1`` decisions, oldest first, and after all layers their
    number. Present weights read these stored inputs, so they are slightly stale after an update, as in Transformer-XL.

    Args:
        num_inputs: Width of the trunk's features.
        cfg: Width and number of the layers, heads and context of each.
        generator: Draws the weights.

    Raises:
        ConfigError: If the heads do not divide the width.
    """

    def __init__(self, num_inputs: int, cfg: CellConfig, *, generator: torch.Generator) -> None:
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
        """Processes one decision of N slots; see `Memory.advance`."""
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
        """Processes all decisions of B sequences; see `Memory.forward`. Long sequences are processed in parts: the
        window of a decision is bounded, while the cost of one pass grows with the square of its length.
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
        """Processes all decisions at once, layer by layer."""
        past, count = self._parts(memory.masked_fill(sequences.first[0].unsqueeze(1), 0.0))
        steps, device = len(sequences.first), x.device
        now = torch.arange(steps, device=device, dtype=torch.int64).unsqueeze(1)
        # First decision of each one's episode; stored ones have indices -1, -2, ...
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

    def write_decision(self, graph: Operators, x: str, memory: str) -> tuple[str, str]:
        """Writes one decision into an ONNX graph; see `Memory.write_decision`."""
        size, past = self.num_features, self.num_past
        count = graph.slice(memory, self.size - 1, self.size)
        # indices -past to 0 of the timeline; those before the episode are below -count
        before = graph.op("Less", graph.constant(np.arange(-past, 1)[None]), graph.op("Neg", count))
        hidden = graph.reshape(graph.scaled(graph.cast(before, np.float32), HIDDEN), -1, 1, 1, past + 1)
        x = graph.linear(x, self.embedding.weight, self.embedding.bias)
        after = []
        for number, block in enumerate(self._blocks):
            timeline = graph.reshape(x, -1, 1, size)
            if past:
                kept = graph.slice(memory, number * past * size, (number + 1) * past * size)
                timeline = graph.concat([graph.reshape(kept, -1, past, size), timeline])
                after.append(graph.reshape(graph.slice(timeline, 1, past + 1), -1, past * size))
            x = block.write(graph, x, block.attention.write(graph, timeline, hidden))
        later = graph.op("Min", graph.add(count, graph.constant(1.0)), graph.constant(float(past)))
        return x, graph.concat([*after, later])

    def _parts(self, memory: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Returns each layer's memory, ``[N, context - 1, size]``, and its number of decisions, ``[N, 1]``."""
        past = memory[:, :-1].unflatten(1, (len(self._blocks), self.num_past, self.num_features))
        return past.unbind(1), memory[:, -1:]
