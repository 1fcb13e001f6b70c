"""Heads as ONNX operators: what a policy does by its features, most probable and drawn (`models/heads.py`, ...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.spaces.arrays import ActionSpec
from rookery.models.distributions import (
    MASKED_LOGIT,
    Behavior,
    Bernoulli,
    Categorical,
    Composite,
    DiagonalGaussian,
    MultiCategorical,
)
from rookery.models.heads import ActionHead, GivenActionHead, Head
from rookery.models.q_head import IMPOSSIBLE, Boltzmann, EpsilonGreedy, GivenQHead, NoisyLinear, QHead
from rookery.models.squashed import (
    CLAMPED,
    SCALED,
    DeterministicHead,
    Disturbed,
    Hybrid,
    HybridHead,
    Squashed,
    SquashedGaussian,
    SquashedHead,
)
from rookery.onnx.graph import Graph

LOWEST = -3.0e38
"""Stands for the value of an action that is not allowed: no runtime of Unity need know infinities."""


@dataclass(frozen=True)
class Draw:
    """A part of an action.

    Attributes:
        best: The most probable one.
        drawn: One that is drawn.
    """

    best: str
    drawn: str


@dataclass(frozen=True)
class Acts:
    """What a policy does, in a graph.

    Attributes:
        choices: One of several each, int64 ``[N, 1]``.
        flags: Yes or no each, int64 ``[N, 1]``.
        numbers: All numbers as they are stored, float32 ``[N, k]``; None of actions without numbers.
        told: What the action is drawn from, by the names of `parameters_of`.
    """

    choices: list[Draw] = field(default_factory=list)
    flags: list[Draw] = field(default_factory=list)
    numbers: Draw | None = None
    told: dict[str, str] = field(default_factory=dict)

    def stored(self, graph: Graph, *, drawn: bool) -> str:
        """Returns the action ``[N, elements]`` as it is stored, float32."""
        parts = [graph.cast(part.drawn if drawn else part.best, np.float32) for part in (*self.choices, *self.flags)]
        if self.numbers is not None:
            parts.append(self.numbers.drawn if drawn else self.numbers.best)
        return graph.concat(parts)


@dataclass(frozen=True)
class Allowed:
    """Which choices are allowed, in a graph: bool ``[N, n]`` each; empty where everything is.

    Attributes:
        choices: Of all choices side by side.
        flags: Of no and yes of each flag.
    """

    choices: str = ""
    flags: tuple[str, ...] = ()


def acts(graph: Graph, head: Head, features: str, allowed: Allowed) -> Acts:
    """Adds a head.

    Args:
        graph: Takes the operators.
        head: What the policy ends in, one of `HEADS`.
        features: ``[N, F]``.
        allowed: Masks.
    """
    return HEADS[type(head)](graph, head, features, allowed)


# --- distributions ----------------------------------------------------------------------------------------------------


def _action_head(graph: Graph, head: ActionHead, features: str, allowed: Allowed) -> Acts:
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    log_std = "" if head.log_std is None else graph.constant(head.log_std[None])
    return _distribution(graph, head.action_spec, output, log_std, allowed)


def _given_head(graph: Graph, head: GivenActionHead, features: str, allowed: Allowed) -> Acts:
    action, width = head.action_spec, head.action_spec.num_parameters
    output = graph.slice(features, 0, width - action.num_numbers)
    log_std = graph.slice(features, width - action.num_numbers, width) if action.num_numbers else ""
    return _distribution(graph, action, output, log_std, allowed)


def _distribution(graph: Graph, action: ActionSpec, output: str, log_std: str, allowed: Allowed) -> Acts:
    """What `models/heads.py:distribution_for` makes."""
    widths = [width for width in (sum(action.sizes), action.num_flags, action.num_numbers) if width]
    parts = iter(graph.split(output, widths))
    made = Acts()
    if action.sizes:
        _add_choices(graph, made, next(parts), action.sizes, allowed)
    if action.num_flags:
        logits = next(parts)
        made.told["flag_logits"] = logits
        for number, flag in enumerate(graph.split(logits, [1] * action.num_flags)):
            pair = graph.mul(flag, graph.constant([[0.0, 1.0]]))  # log-probabilities of no and yes, up to a constant
            if allowed.flags:
                pair = graph.where(allowed.flags[number], pair, graph.constant(MASKED_LOGIT))
            made.flags.append(Draw(graph.best(pair), graph.drawn(pair)))
    if not action.num_numbers:
        return made
    mean = next(parts)
    numbers = Draw(mean, graph.add(mean, graph.mul(graph.op("Exp", log_std), graph.normal_like(mean))))
    told = {"mean": mean, "log_std": graph.add(log_std, graph.scaled(mean, 0.0))}
    return Acts(made.choices, made.flags, numbers, {**made.told, **told})


def _add_choices(graph: Graph, made: Acts, logits: str, sizes: Sequence[int], allowed: Allowed) -> None:
    """One of several for each of these sizes, by logits side by side."""
    if allowed.choices:
        logits = graph.where(allowed.choices, logits, graph.constant(MASKED_LOGIT))
    logs = []
    for branch in graph.split(logits, sizes):
        logs.append(graph.softmax(branch, 1, log=True))
        made.choices.append(Draw(graph.best(logs[-1]), graph.drawn(logs[-1])))
    made.told["log_probs"] = graph.concat(logs)


# --- values of actions ------------------------------------------------------------------------------------------------


def _q_head(graph: Graph, head: QHead, features: str, allowed: Allowed) -> Acts:
    atoms, actions = head.atoms, head.num_actions
    if head.spec.dueling:
        value = graph.reshape(_stream(graph, head.value, features), -1, 1, atoms)
        advantage = graph.reshape(_stream(graph, head.advantage, features), -1, actions, atoms)
        mean = graph.op("ReduceMean", advantage, axes=[1], keepdims=1)
        values = graph.sub(graph.add(value, advantage), mean)
    else:
        values = graph.reshape(_layer(graph, head.linear, features), -1, actions, atoms)
    return _greedy(graph, head, values, allowed)


def _given_q_head(graph: Graph, head: GivenQHead, features: str, allowed: Allowed) -> Acts:
    """A head whose model says by very low values which actions are impossible; where none is possible, all are."""
    values = graph.slice(features, 0, head.num_actions * head.atoms)
    return _greedy(graph, head, graph.reshape(values, -1, head.num_actions, head.atoms), allowed, impossible=True)


def _greedy(graph: Graph, head: QHead, values: str, allowed: Allowed, *, impossible: bool = False) -> Acts:
    """The action of the highest mean value, of what is learned of each, ``[N, A, M]``."""
    if head.spec.values == "categorical":
        support = graph.constant(head.support[None, None])
        q = graph.sum(graph.mul(graph.softmax(values, 2), support), 2, keep=False)
    elif head.spec.values == "quantile":
        q = graph.op("ReduceMean", values, axes=[2], keepdims=0)
    else:
        q = graph.reshape(values, -1, head.num_actions)
    mask = allowed.choices
    if impossible:
        mask = _possible(graph, q, mask)
    best = graph.best(graph.where(mask, q, graph.constant(LOWEST)) if mask else q)
    return Acts([Draw(best, best)], told={"values": q})


def _possible(graph: Graph, q: str, mask: str) -> str:
    """Actions that a model has not called impossible; where none of those allowed is left, all."""
    able = graph.cast(graph.above(q, IMPOSSIBLE), np.float32)
    able = graph.mul(able, graph.cast(mask, np.float32)) if mask else able
    none = graph.sub(graph.constant(1.0), graph.op("ReduceMax", able, axes=[1], keepdims=1))
    return graph.above(graph.add(able, none), 0.5)


def _stream(graph: Graph, layers: nn.ModuleList, x: str) -> str:
    """What the layers of a dueling stream put out."""
    for number, layer in enumerate(layers):
        x = _layer(graph, layer, graph.op("Relu", x) if number else x)
    return x


def _layer(graph: Graph, layer: nn.Module, x: str) -> str:
    """A linear layer; of a noisy one the means."""
    assert isinstance(layer, nn.Linear | NoisyLinear)
    return graph.linear(x, layer.weight, layer.bias)


# --- numbers between two bounds ---------------------------------------------------------------------------------------


def _squashed_head(graph: Graph, head: SquashedHead, features: str, allowed: Allowed) -> Acts:
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    if head.log_spread is not None:
        spread = torch.exp(2.0 * head.log_spread.detach())
        variance = graph.linear(graph.mul(features, features), spread)
        mean, log_std = output, graph.scaled(graph.op("Log", graph.add(variance, graph.constant(1e-6))), 0.5)
    else:
        mean, raw = graph.split(output, [head.num_numbers] * 2)
        log_std = _in_range(graph, head.spec, raw)
    return _squashed(graph, mean, log_std, Acts())


def _hybrid_head(graph: Graph, head: HybridHead, features: str, allowed: Allowed) -> Acts:
    action = head.action_spec
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    logits, mean, raw = graph.split(output, [sum(action.sizes), action.num_numbers, action.num_numbers])
    made = Acts()
    _add_choices(graph, made, logits, action.sizes, allowed)
    return _squashed(graph, mean, _in_range(graph, head.spec, raw), made)


def _in_range(graph: Graph, spec: Squashed, raw: str) -> str:
    """The log standard deviation of what the layer puts out for it."""
    if spec.log_std == "clamp":
        return graph.clip(raw, *CLAMPED)
    low, high = SCALED
    share = graph.add(graph.op("Tanh", raw), graph.constant(1.0))
    return graph.add(graph.scaled(share, 0.5 * (high - low)), graph.constant(low))


def _squashed(graph: Graph, mean: str, log_std: str, made: Acts) -> Acts:
    """Tanh of normal numbers, beside the choices that are made already."""
    noise = graph.mul(graph.op("Exp", log_std), graph.normal_like(mean))
    numbers = Draw(graph.op("Tanh", mean), graph.op("Tanh", graph.add(mean, noise)))
    return Acts(made.choices, made.flags, numbers, {**made.told, "mean": mean, "log_std": log_std})


def _deterministic_head(graph: Graph, head: DeterministicHead, features: str, allowed: Allowed) -> Acts:
    mean = graph.op("Tanh", graph.linear(features, head.linear.weight, head.linear.bias))
    noise = graph.scaled(graph.normal_like(mean), float(head.std))
    return Acts(numbers=Draw(mean, graph.clip(graph.add(mean, noise), -1.0, 1.0)), told={"mean": mean})


HEADS: dict[type, Callable[[Graph, Any, str, Allowed], Acts]] = {
    ActionHead: _action_head,
    GivenActionHead: _given_head,
    QHead: _q_head,
    GivenQHead: _given_q_head,
    SquashedHead: _squashed_head,
    HybridHead: _hybrid_head,
    DeterministicHead: _deterministic_head,
}
"""The heads there are graphs of; a subclass may compute something else."""


# --- what torch puts out ----------------------------------------------------------------------------------------------


def parameters_of(behavior: Behavior) -> dict[str, Tensor]:
    """Returns what actions are drawn from, by name, as `Acts.told` has it.

    ``log_probs`` ``[N, choices]``, ``flag_logits`` ``[N, flags]``, ``mean`` and ``log_std`` ``[N, k]``, ``values``
    ``[N, actions]``: those that there are.
    """
    if isinstance(behavior, Composite):
        return {name: value for part in behavior.parts for name, value in parameters_of(part).items()}
    if isinstance(behavior, Hybrid):
        return {**parameters_of(behavior.choices), **parameters_of(behavior.numbers)}
    if isinstance(behavior, EpsilonGreedy | Boltzmann):
        return {"values": behavior.q}
    if isinstance(behavior, MultiCategorical):
        table = behavior.choices.log_probs
        return {"log_probs": torch.cat([table[:, i, :size] for i, size in enumerate(behavior.sizes)], 1)}
    if isinstance(behavior, Categorical):
        return {"log_probs": behavior.log_probs}
    if isinstance(behavior, Bernoulli):
        return {"flag_logits": behavior.logits}
    if isinstance(behavior, DiagonalGaussian | SquashedGaussian):
        return {"mean": behavior.mean, "log_std": behavior.log_std.expand_as(behavior.mean)}
    return {"mean": behavior.mean} if isinstance(behavior, Disturbed) else {}


def width_of(action: ActionSpec, name: str) -> int:
    """Counts the columns of a parameter by its name, as `parameters_of` has it."""
    if name == "flag_logits":
        return action.num_flags
    return sum(action.sizes) if name in ("log_probs", "values") else action.num_numbers


def number_bounds(action: ActionSpec) -> tuple[np.ndarray, ...]:
    """Returns how the numbers of stored actions become the environment's, ``[k]`` each, float32.

    Returns:
        The lowest and highest stored number; what each is multiplied by and what is added then; and whether the
        environment's are whole.
    """
    columns: Sequence[Any] = [part for part, _ in action.parts if part.num_numbers] if action.parts else [action]
    low = np.concatenate([np.ravel(part.space.low).astype(np.float64) for part in columns])
    high = np.concatenate([np.ravel(part.space.high).astype(np.float64) for part in columns])
    whole = np.concatenate([np.full(part.num_numbers, np.issubdtype(part.space.dtype, np.integer)) for part in columns])
    scaled = np.isfinite(low) & np.isfinite(high)
    top, bottom = np.where(scaled, high, 0.0) / 2, np.where(scaled, low, 0.0) / 2
    half, center = np.where(scaled, top - bottom, 1.0), top + bottom
    lowest = np.where(scaled, -1.0, np.maximum(low, LOWEST))
    highest = np.where(scaled, 1.0, np.minimum(high, -LOWEST))
    return tuple(part.astype(np.float32) for part in (lowest, highest, half, center)) + (whole,)


def within(graph: Graph, numbers: str, low: np.ndarray, high: np.ndarray) -> str:
    """Brings numbers ``[N, k]`` between bounds ``[k]``."""
    if (low == low[0]).all() and (high == high[0]).all():
        return graph.clip(numbers, float(low[0]), float(high[0]))
    return graph.op("Max", graph.op("Min", numbers, graph.constant(high[None])), graph.constant(low[None]))
