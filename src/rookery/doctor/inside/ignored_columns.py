"""`ignored_columns`: finds own losses that do not learn from a column which the loss that they replace learns from.

A loss may leave out a column on purpose: behaviour cloning has no advantages, and a policy gradient has no old
log-probabilities. A fault is a column that the loss uses and whose values change no gradient, and old log-probabilities
on which not even the reported ``kl`` depends, where a batch is learned from several times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rookery.algorithms.on_policy.ppo import PPO
from rookery.core.packages import is_own
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

COLUMNS = ("advantage", "value_target", "logp")
"""Fields of a batch that may be ignored."""

CHANGED, STILL = 1e-3, 1e-6
"""Change of a gradient, in units of its largest element: of the replaced loss, at least; of a loss that ignores the
column, at most.
"""

Gradients = Callable[[Callable[..., Any], Any], dict[str, Tensor]]
"""Returns the gradients ``[N, ...]`` of outputs, of a loss and a batch."""


def replaced_loss(learner: type) -> Callable[..., Any] | None:
    """Returns the loss of the library that an own subclass of PPO has replaced; None for other classes."""
    if not issubclass(learner, PPO):
        return None
    classes = (one for one in learner.__mro__ if is_own(one.__module__) and "loss" in vars(one))
    return getattr(next(classes), "loss", None)


def ignored_columns(
    loss: Callable[..., Any],
    usual: Callable[..., Any],
    gradients: Gradients,
    values: Callable[[Callable[..., Any], Any], tuple[Tensor, Any]],
    batch: Any,
    cfg: Any,
    policy: str,
) -> list[Finding]:
    """Returns the finding of a loss that ignores a column.

    Args:
        loss: The own loss.
        usual: The loss that it replaces.
        gradients: Returns the gradients of a loss for a batch.
        values: Returns the value of a loss for a batch, and its metrics.
        batch: The rows.
        cfg: Settings.
        policy: Name of the policy; empty if unknown.
    """
    names: list[str] = []
    lines: list[str] = []
    learned, is_certain, reported = set(), False, values(loss, batch)[1].get("kl")
    for name in COLUMNS:
        column = getattr(batch, name, None)
        if not isinstance(column, Tensor) or not column.is_floating_point():
            continue
        chance = torch.Generator("cpu").manual_seed(0)
        noise = torch.randn(column.shape, dtype=torch.float32, device="cpu", generator=chance)
        other = replace(batch, **{name: column + (0.1 + column.std()) * noise.to(column)})
        if change(gradients(loss, batch), gradients(loss, other)) > STILL:
            learned.add(name)
        elif (share := change(gradients(usual, batch), gradients(usual, other))) >= CHANGED:
            line = f"other values of batch.{name} {list(column.shape)} change no gradient of the loss, and those of " \
                   f"{usual.__name__} by {100 * share:.2g} %"  # fmt: skip
            missing = replace(batch, **{name: torch.nan * column})
            if is_used := bool(values(loss, missing)[0].isnan().any()):
                lines.append(f"{line}, although the loss depends on batch.{name}")
            elif (
                name == "logp"
                and "advantage" in {*learned, *names}
                and _is_without_ratio(reported, values(loss, other)[1].get("kl"), cfg)
            ):
                lines += [line, f"nor does it change the kl that the loss reports; epochs = {cfg.epochs}"]
            else:
                continue
            names.append(name)
            is_certain |= is_used
    if not names:
        return []
    called = getattr(loss, "__qualname__", type(loss).__name__)
    return [
        finding(
            "loss-ignores-column",
            f"the loss {called} does not learn from {' and '.join(f'batch.{one}' for one in names)}",
            *lines,
            policy=policy,
            severity=None if is_certain else "warning",
        )
    ]


def change(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """Returns the largest change of gradients, in units of the largest element of each; 0 where all are 0."""
    shares = [0.0]
    for path in before.keys() & after.keys():
        size = torch.maximum(before[path].abs().max(), after[path].abs().max()).clamp_min(1e-30)
        shares.append(float((after[path] - before[path]).abs().max() / size))
    return max(shares)


def _is_without_ratio(reported: Any, changed: Any, cfg: Any) -> bool:
    """Returns whether the reported ``kl`` is the same for other log-probabilities, and a batch is used repeatedly."""
    if not isinstance(reported, Tensor) or not isinstance(changed, Tensor) or getattr(cfg, "epochs", 1) < 2:
        return False
    return torch.allclose(reported, changed)
