"""`loss_findings`: finds own losses in which a row of a batch gets the targets of other rows, or that ignore a column.

``[N]`` minus ``[N, 1]`` is ``[N, N]``: each prediction is then drawn to the mean of all targets. In a loss that is a
mean over rows, another target of a row changes the gradient of that row alone. A statistic of the batch, as of
normalized advantages, changes that of other rows by about a part in N.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.autograd import grad as gradients_of

from rookery.core import optim
from rookery.core.packages import is_own
from rookery.doctor.inside.ignored_columns import ignored_columns, replaced_loss
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding
from rookery.run.trainer import Trainer

FEWEST, TRIED = 16, 5
"""Fewest rows of a batch, and rows whose values are changed, one after the other."""

MIXED = 0.3
"""Change of the gradient of other rows, in units of that of the row itself, from which on rows are mixed."""

ITERATIONS = 3
"""Iterations within which a first update is expected."""

BROADCAST = "target size"
"""Part of torch's warning about losses of two different shapes."""


class _Seen(Exception):
    """Ends an iteration at its first own loss."""


def loss_findings(trainer: Trainer, until: float) -> list[Finding]:
    """Returns the findings of the first loss that is no one of the library, in an iteration of a run.

    The run is used up. It is not played for algorithms of the library, nor with loggers of other packages.

    Args:
        trainer: The run.
        until: Time of `time.monotonic` at which no further iteration begins.
    """
    own = [name for name, learner in trainer.learners.items() if not is_own(type(learner).__module__)]
    if not own or trainer.config.logging.loggers:
        return []
    seen: list[tuple[Any, ...]] = []
    compute = optim.compute_gradients

    def watched(forward: Any, loss: Any, batch: Any, optimizer: Any, cfg: Any, closed_form: Any = None) -> Any:
        if not is_own_loss(loss) or getattr(cfg.model, "compile", False):
            return compute(forward, loss, batch, optimizer, cfg, closed_form)

        def looked_at(outputs: Any, rows: Any, settings: Any) -> Any:
            seen.append((loss, outputs, rows, settings))
            raise _Seen

        return compute(forward, looked_at, batch, optimizer, cfg, None)

    with patch.object(optim, "compute_gradients", watched):
        for _ in range(ITERATIONS):
            if seen or time.monotonic() > until:
                break
            with suppress(Exception):  # an own algorithm may raise anything, also in place of `_Seen`
                trainer.train_iteration()
    if not seen:
        return []
    loss, outputs, batch, cfg = seen[0]
    usual = replaced_loss(type(trainer.learners[own[0]])) if len(own) == 1 else None
    return _findings_of(loss, usual, outputs, batch, cfg, own[0] if len(own) == 1 else "")


def is_own_loss(loss: Callable[..., Any]) -> bool:
    """Returns whether a loss is no one of the library."""
    while isinstance(loss, partial):
        loss = loss.func
    return not is_own(str(getattr(inspect.unwrap(loss), "__module__", "")))


def _findings_of(
    loss: Callable[..., Any], usual: Callable[..., Any] | None, outputs: Any, batch: Any, cfg: Any, policy: str
) -> list[Finding]:
    """Returns the findings of a loss, of outputs with a graph and a batch.

    Args:
        loss: The loss, of outputs, batch and settings.
        usual: The loss of the library that it replaces; None if unknown.
        outputs: Outputs of the networks, with a graph.
        batch: A dataclass of rows.
        cfg: Settings.
        policy: Name of the policy; empty if unknown.
    """
    has_rows = is_dataclass(batch) and hasattr(batch, "__len__")
    count = len(batch) if has_rows else 0
    parts = {path: one for path, one in _tensors(outputs) if one.requires_grad and one.shape[:1] == (count,)}
    if count < FEWEST or not parts:
        return []

    def gradients(one: Callable[..., Any], rows: Any) -> dict[str, Tensor]:
        value = one(outputs, rows, cfg)[0]
        each = gradients_of(value, [*parts.values()], retain_graph=True, allow_unused=True)
        return {path: one.flatten(1) if one.dim() > 1 else one[:, None] for path, one in zip(parts, each, strict=True)
                if one is not None}  # fmt: skip

    found = mixed_rows(loss, partial(gradients, loss), parts, batch, policy)
    if usual is not None:
        with warnings.catch_warnings(), suppress(Exception):  # a loss need not take values that are not finite
            warnings.simplefilter("ignore")
            found += ignored_columns(
                loss, usual, gradients, lambda one, rows: one(outputs, rows, cfg), batch, cfg, policy
            )
    return found


def mixed_rows(
    loss: Callable[..., Any],
    gradients: Callable[[Any], dict[str, Tensor]],
    parts: dict[str, Tensor],
    batch: Any,
    policy: str,
) -> list[Finding]:
    """Returns the finding of a loss whose gradient of a row follows the values of other rows.

    Args:
        loss: The loss.
        gradients: Returns its gradients ``[N, ...]`` of the outputs for a batch.
        parts: The outputs ``[N, ...]``.
        batch: The rows.
        policy: Name of the policy; empty if unknown.
    """
    count = len(batch)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        usual = gradients(batch)
    lines = [str(one.message).partition("\n")[0] for one in warned if BROADCAST in str(one.message)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = {
            field.name: share
            for field in fields(batch)
            if (share := _mixing(gradients, usual, batch, field.name, count)) >= MIXED
        }
    if not shares and not lines:
        return []
    name = getattr(loss, "__qualname__", type(loss).__name__)
    what = ", ".join(shares) or "targets"
    shape = {one: list(getattr(batch, one).shape) for one in shares}
    return [
        finding(
            "loss-mixes-rows",
            f"in the loss {name} a row gets the {what} of other rows",
            *(f"a change of {one} {size} in a row changes the gradient of other rows {shares[one]:.2g} times as much "
              "as its own" for one, size in shape.items()),
            *(f"torch warns: {line}" for line in lines[:1]),
            f"outputs have the shapes {', '.join(f'{path} {list(one.shape)}' for path, one in parts.items())}",
            policy=policy,
            severity=None if shares else "warning",
        )
    ]  # fmt: skip


def _mixing(
    gradients: Callable[[Any], dict[str, Tensor]], usual: dict[str, Tensor], batch: Any, name: str, count: int
) -> float:
    """Returns how much another value of a row changes the gradients of usual other rows, in units of the change of its
    own; 0 where it changes nothing.

    Args:
        gradients: Returns the gradients ``[N, ...]`` of the outputs for a batch.
        usual: Those for the batch as it is.
        batch: The rows.
        name: Name of a field.
        count: Number of rows.
    """
    values = getattr(batch, name)
    if not isinstance(values, Tensor) or not values.is_floating_point() or values.shape[:1] != (count,):
        return 0.0
    scale = float(values.std()) or float(values.abs().max()) or 1.0
    shares = []
    for row in np.linspace(0, count - 1, TRIED).astype(int).tolist():
        other = values.clone()
        other[row] += scale
        changed = gradients(replace(batch, **{name: other}))
        for path, before in usual.items():
            size = (changed[path] - before).abs().amax(dim=1)
            if float(size[row]) > 1e-4 * float(before.abs().max()):
                shares.append(float(torch.cat([size[:row], size[row + 1 :]]).median() / size[row]))
    return sorted(shares)[len(shares) // 2] if shares else 0.0


def _tensors(value: Any, path: str = "", depth: int = 3) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors among the attributes of an object, and of those of its attributes, with their paths."""
    if isinstance(value, Tensor):
        yield path, value
    elif depth and hasattr(value, "__dict__") and not isinstance(value, type):
        for name, one in vars(value).items():
            yield from _tensors(one, f"{path}.{name}".lstrip("."), depth - 1)
