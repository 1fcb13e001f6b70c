"""Heads as ONNX operators: actions from features, most probable and sampled (`models/heads.py`, ...)."""

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
from rookery.models.implicit_head import ImplicitQHead, fractions
from rookery.models.q_head import IMPOSSIBLE, Boltzmann, EpsilonGreedy, GivenQHead, NoisyLinear, QHead
from rookery.models.search_head import PriorHead
from rookery.models.squashed import (
    CLAMPED,
    SCALED,
    DeterministicHead,
    Hybrid,
    HybridHead,
    NoisyAction,
    Squashed,
    SquashedGaussian,
    SquashedHead,
)
from rookery.onnx.graph import Graph

LOWEST = -3.0e38
"""Value of masked actions: Unity's runtimes need not support infinities."""


@dataclass(frozen=True)
class Draw:
    """A part of an action.

    Attributes:
        best: The most probable action.
        drawn: A sampled action.
    """

    best: str
    drawn: str


@dataclass(frozen=True)
class GraphAction:
    """Action of a policy, in a graph.

    Attributes:
        choices: Discrete branches, int64 ``[N, 1]`` each.
        flags: Binary flags, int64 ``[N, 1]`` each.
        numbers: Continuous values as stored, float32 ``[N, k]``; None for actions without them.
        parameters: Parameters of the action distribution, by the names of `parameters_of`.
    """

    choices: list[Draw] = field(default_factory=list)
    flags: list[Draw] = field(default_factory=list)
    numbers: Draw | None = None
    parameters: dict[str, str] = field(default_factory=dict)

    def stored(self, graph: Graph, *, drawn: bool) -> str:
        """Returns the action ``[N, elements]`` as stored, float32."""
        parts = [graph.cast(part.drawn if drawn else part.best, np.float32) for part in (*self.choices, *self.flags)]
        if self.numbers is not None:
            parts.append(self.numbers.drawn if drawn else self.numbers.best)
        return graph.concat(parts)


@dataclass(frozen=True)
class Allowed:
    """Action masks in a graph: bool ``[N, n]`` each; empty if everything is allowed.

    Attributes:
        choices: Mask of all discrete branches, concatenated.
        flags: Mask of no and yes of each flag.
    """

    choices: str = ""
    flags: tuple[str, ...] = ()


def add_head(graph: Graph, head: Head, features: str, allowed: Allowed) -> GraphAction:
    """Adds the operators of a head.

    Args:
        graph: Receives the operators.
        head: The policy's head, of a class in `HEADS`.
        features: ``[N, F]``.
        allowed: Masks.
    """
    return HEADS[type(head)](graph, head, features, allowed)


# --- distributions ----------------------------------------------------------------------------------------------------


def _action_head(graph: Graph, head: ActionHead, features: str, allowed: Allowed) -> GraphAction:
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    log_std = "" if head.log_std is None else graph.constant(head.log_std[None])
    return _distribution(graph, head.action_spec, output, log_std, allowed)


def _given_head(graph: Graph, head: GivenActionHead, features: str, allowed: Allowed) -> GraphAction:
    action, width = head.action_spec, head.action_spec.num_parameters
    output = graph.slice(features, 0, width - action.num_numbers)
    log_std = graph.slice(features, width - action.num_numbers, width) if action.num_numbers else ""
    return _distribution(graph, action, output, log_std, allowed)


def _distribution(graph: Graph, action: ActionSpec, output: str, log_std: str, allowed: Allowed) -> GraphAction:
    """Adds the distribution of `models/heads.py:distribution_for`."""
    widths = [width for width in (sum(action.sizes), action.num_flags, action.num_numbers) if width]
    parts = iter(graph.split(output, widths))
    made = GraphAction()
    if action.sizes:
        _add_choices(graph, made, next(parts), action.sizes, allowed)
    if action.num_flags:
        logits = next(parts)
        made.parameters["flag_logits"] = logits
        for number, flag in enumerate(graph.split(logits, [1] * action.num_flags)):
            pair = graph.mul(flag, graph.constant([[0.0, 1.0]]))  # log-probabilities of no and yes, up to a constant
            if allowed.flags:
                pair = graph.where(allowed.flags[number], pair, graph.constant(MASKED_LOGIT))
            made.flags.append(Draw(graph.best(pair), graph.drawn(pair)))
    if not action.num_numbers:
        return made
    mean = next(parts)
    numbers = Draw(mean, graph.add(mean, graph.mul(graph.op("Exp", log_std), graph.normal_like(mean))))
    own = {"mean": mean, "log_std": graph.add(log_std, graph.scaled(mean, 0.0))}
    return GraphAction(made.choices, made.flags, numbers, {**made.parameters, **own})


def _add_choices(graph: Graph, made: GraphAction, logits: str, sizes: Sequence[int], allowed: Allowed) -> None:
    """Adds a categorical branch for each size, from concatenated logits."""
    if allowed.choices:
        logits = graph.where(allowed.choices, logits, graph.constant(MASKED_LOGIT))
    logs = []
    for branch in graph.split(logits, sizes):
        logs.append(graph.softmax(branch, 1, log=True))
        made.choices.append(Draw(graph.best(logs[-1]), graph.drawn(logs[-1])))
    made.parameters["log_probs"] = graph.concat(logs)


# --- values of actions ------------------------------------------------------------------------------------------------


def _q_head(graph: Graph, head: QHead, features: str, allowed: Allowed) -> GraphAction:
    atoms, actions = head.atoms, head.num_actions
    if head.spec.dueling:
        value = graph.reshape(_stream(graph, head.value, features), -1, 1, atoms)
        advantage = graph.reshape(_stream(graph, head.advantage, features), -1, actions, atoms)
        mean = graph.op("ReduceMean", advantage, axes=[1], keepdims=1)
        values = graph.sub(graph.add(value, advantage), mean)
    else:
        values = graph.reshape(_layer(graph, head.linear, features), -1, actions, atoms)
    return _greedy(graph, head, values, allowed)


def _implicit_q_head(graph: Graph, head: ImplicitQHead, features: str, allowed: Allowed) -> GraphAction:
    """Adds a head at the midpoints of the fractions: as its last layer is linear, the mean over quantiles is that of
    the mean hidden units.
    """
    with torch.no_grad():
        factors = head.embedded(fractions(None, head.atoms, head.linear.weight))
    product = graph.mul(graph.reshape(features, -1, 1, factors.shape[2]), graph.constant(factors))
    hidden = graph.op("Relu", graph.linear_inside(product, head.hidden.weight, head.hidden.bias))
    mean = graph.op("ReduceMean", hidden, axes=[1], keepdims=0)
    values = graph.reshape(_layer(graph, head.linear, mean), -1, head.num_actions, 1)
    return _greedy(graph, head, values, allowed)


def _given_q_head(graph: Graph, head: GivenQHead, features: str, allowed: Allowed) -> GraphAction:
    """Adds a head whose model marks impossible actions by very low values; if none is possible, all are."""
    values = graph.slice(features, 0, head.num_actions * head.atoms)
    return _greedy(graph, head, graph.reshape(values, -1, head.num_actions, head.atoms), allowed, impossible=True)


def _greedy(graph: Graph, head: QHead, values: str, allowed: Allowed, *, impossible: bool = False) -> GraphAction:
    """Adds the greedy action by mean values of ``[N, A, M]`` atoms or quantiles."""
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
    return GraphAction([Draw(best, best)], parameters={"values": q})


def _possible(graph: Graph, q: str, mask: str) -> str:
    """Returns a mask of actions that a model has not marked impossible; all if no allowed one is left."""
    able = graph.cast(graph.above(q, IMPOSSIBLE), np.float32)
    able = graph.mul(able, graph.cast(mask, np.float32)) if mask else able
    none = graph.sub(graph.constant(1.0), graph.op("ReduceMax", able, axes=[1], keepdims=1))
    return graph.above(graph.add(able, none), 0.5)


def _stream(graph: Graph, layers: nn.ModuleList, x: str) -> str:
    """Returns the output of a dueling stream."""
    for number, layer in enumerate(layers):
        x = _layer(graph, layer, graph.op("Relu", x) if number else x)
    return x


def _layer(graph: Graph, layer: nn.Module, x: str) -> str:
    """Returns the output of a linear layer; of a noisy one, with its mean weights."""
    assert isinstance(layer, nn.Linear | NoisyLinear)
    return graph.linear(x, layer.weight, layer.bias)


# --- bounded continuous actions ---------------------------------------------------------------------------------------


def _squashed_head(graph: Graph, head: SquashedHead, features: str, allowed: Allowed) -> GraphAction:
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    if head.log_spread is not None:
        spread = torch.exp(2.0 * head.log_spread.detach())
        variance = graph.linear(graph.mul(features, features), spread)
        mean, log_std = output, graph.scaled(graph.op("Log", graph.add(variance, graph.constant(1e-6))), 0.5)
    else:
        mean, raw = graph.split(output, [head.num_numbers] * 2)
        log_std = _in_range(graph, head.spec, raw)
    return _squashed(graph, mean, log_std, GraphAction())


def _hybrid_head(graph: Graph, head: HybridHead, features: str, allowed: Allowed) -> GraphAction:
    action = head.action_spec
    output = graph.linear(features, head.linear.weight, head.linear.bias)
    logits, mean, raw = graph.split(output, [sum(action.sizes), action.num_numbers, action.num_numbers])
    made = GraphAction()
    _add_choices(graph, made, logits, action.sizes, allowed)
    return _squashed(graph, mean, _in_range(graph, head.spec, raw), made)


def _in_range(graph: Graph, spec: Squashed, raw: str) -> str:
    """Returns the log standard deviation from the layer's raw output."""
    if spec.log_std == "clamp":
        return graph.clip(raw, *CLAMPED)
    low, high = SCALED
    share = graph.add(graph.op("Tanh", raw), graph.constant(1.0))
    return graph.add(graph.scaled(share, 0.5 * (high - low)), graph.constant(low))


def _squashed(graph: Graph, mean: str, log_std: str, made: GraphAction) -> GraphAction:
    """Adds tanh of normal values to an action with discrete branches."""
    noise = graph.mul(graph.op("Exp", log_std), graph.normal_like(mean))
    numbers = Draw(graph.op("Tanh", mean), graph.op("Tanh", graph.add(mean, noise)))
    return GraphAction(made.choices, made.flags, numbers, {**made.parameters, "mean": mean, "log_std": log_std})


def _deterministic_head(graph: Graph, head: DeterministicHead, features: str, allowed: Allowed) -> GraphAction:
    mean = graph.op("Tanh", graph.linear(features, head.linear.weight, head.linear.bias))
    noise = graph.scaled(graph.normal_like(mean), float(head.std))
    return GraphAction(numbers=Draw(mean, graph.clip(graph.add(mean, noise), -1.0, 1.0)), parameters={"mean": mean})


HEADS: dict[type, Callable[[Graph, Any, str, Allowed], GraphAction]] = {
    ActionHead: _action_head,
    PriorHead: _action_head,
    GivenActionHead: _given_head,
    QHead: _q_head,
    GivenQHead: _given_q_head,
    ImplicitQHead: _implicit_q_head,
    SquashedHead: _squashed_head,
    HybridHead: _hybrid_head,
    DeterministicHead: _deterministic_head,
}
"""Heads with graph operators; a subclass may compute something else."""


# --- torch's distributions --------------------------------------------------------------------------------------------


def parameters_of(behavior: Behavior) -> dict[str, Tensor]:
    """Returns the parameters of an action distribution by name, as in `GraphAction.parameters`.

    ``log_probs`` ``[N, choices]``, ``flag_logits`` ``[N, flags]``, ``mean`` and ``log_std`` ``[N, k]``, ``values``
    ``[N, actions]``: those that exist.
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
    return {"mean": behavior.mean} if isinstance(behavior, NoisyAction) else {}


def width_of(action: ActionSpec, name: str) -> int:
    """Returns the number of columns of a parameter by its name in `parameters_of`."""
    if name == "flag_logits":
        return action.num_flags
    return sum(action.sizes) if name in ("log_probs", "values") else action.num_numbers


def number_bounds(action: ActionSpec) -> tuple[np.ndarray, ...]:
    """Returns the mapping of stored continuous actions to the environment's, ``[k]`` each, float32.

    Returns:
        The lowest and highest stored value; factor and offset to the environment's value; and whether the
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
    """Clips values ``[N, k]`` to bounds ``[k]``."""
    if (low == low[0]).all() and (high == high[0]).all():
        return graph.clip(numbers, float(low[0]), float(high[0]))
    return graph.op("Max", graph.op("Min", numbers, graph.constant(high[None])), graph.constant(low[None]))
