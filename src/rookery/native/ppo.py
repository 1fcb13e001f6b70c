"""PPO's gradient in one call: networks forward, `ppo_loss` in closed form, networks backward, on kernels; in three for
networks with a memory.

It is faster because the minibatches of PPO are small: on 256 rows of a small network the closed form in torch, and the
calls in between, take about as long as the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Minibatch, PenaltyMinibatch
from rookery.core.metrics import Metrics
from rookery.core.native import ADDRESS, FLOAT, INT, PPOBatch, PPOSettings, address, is_plain, num_threads, places
from rookery.core.optim import KernelStep
from rookery.core.spaces.arrays import MASK, ActionSpec
from rookery.models.heads import ActionHead, ValueHead
from rookery.native.forward import NetworkKernels
from rookery.native.networks import NativeTrunk

STATISTICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "full_kl")
"""In the order of `losses.h`; the last one is that of the penalty."""

OF_ROWS = {"entropy", "kl", "clip_fraction", "full_kl"}
"""Statistics whose mean over an update is one over its rows; that of losses is one over its gradient steps."""


class PPOCall:
    """Prepared call of the kernel; the minibatches of an update differ only in the indices of their rows.

    Args:
        kernels: The networks.
        whole: The batch of the update.
        cfg: Settings of PPO.
        huber: Size from which on errors of values count linearly; None = all are squared.
    """

    def __init__(self, kernels: NetworkKernels, whole: Minibatch, cfg: Any, huber: float | None = None) -> None:
        self._for = ref(whole), cfg
        limits = (-1.0 if one is None else one for one in (cfg.value_clip, cfg.value_loss_clip, huber))
        coefficients = cfg.clip, *limits, cfg.value_coef, cfg.entropy_coef
        self._settings = PPOSettings(*coefficients, cfg.normalize_advantage is True, whole.least_deviation)
        penalty = (whole.old, whole.kl_coef) if isinstance(whole, PenaltyMinibatch) else ()
        numbers = (whole.logp, whole.advantage, whole.value_target, whole.value, whole.importance, *penalty)
        self._rows = PPOBatch(address(whole.action), address(whole.obs.get(MASK)), *map(address, numbers))
        self._statistics = (FLOAT * (6 if penalty else 5))()
        assert kernels.head is not None
        self._call, self._head = kernels.build.call, kernels.head.handle
        if kernels.remembers:  # its networks run before and after the loss
            return
        actor, critic = _trunks(kernels)
        handles = actor.network.handle, None if critic is actor else critic.network.handle
        leaves = actor.addresses(whole.obs), None if critic is actor else critic.addresses(whole.obs)
        self._before = (*handles, self._head, *leaves, byref(self._rows), byref(self._settings))
        head = kernels.structure.towers[0].heads[0]
        assert isinstance(head, ActionHead)
        log_std = (None, None) if head.log_std is None else places(head.log_std)
        self._log_std, self._threads = log_std, num_threads()

    def is_for(self, whole: Minibatch, cfg: Any) -> bool:
        """Returns whether the call was prepared for this update."""
        return self._for[0]() is whole and self._for[1] is cfg

    def __call__(self, order: Tensor | None, count: int, kernels: NetworkKernels, batch: Minibatch) -> Metrics:
        """Writes the gradients of all weights for the rows with these indices; returns metrics, means over the rows."""
        self._rows.order = address(order)
        self._call["ppo_gradients"](*self._before, count, *self._log_std, self._statistics, self._threads)
        return dict(zip(STATISTICS, self._statistics, strict=False))

    def steps(self, orders: Sequence[Tensor], step: KernelStep) -> list[Metrics]:
        """Makes a gradient step for the rows of each order; returns metrics, means over the rows, and ``grad_norm``."""
        count, width = len(orders), len(self._statistics)
        places, sizes = (ADDRESS * count)(*map(address, orders)), (INT * count)(*map(len, orders))
        statistics, norms = (FLOAT * (count * width))(), (FLOAT * count)()
        given = places, sizes, count, *self._log_std, statistics, self._threads
        self._call["ppo_steps"](*self._before, *given, *step, norms)
        rows = (statistics[at : at + width] for at in range(0, count * width, width))
        return [
            {**dict(zip(STATISTICS, row, strict=False)), "grad_norm": norm}
            for row, norm in zip(rows, norms, strict=True)
        ]


class SequencesCall(PPOCall):
    """Prepared call of the loss for networks with a memory, which run before and after it."""

    def __call__(self, order: Tensor | None, count: int, kernels: NetworkKernels, batch: Minibatch) -> Metrics:
        """Writes the gradients of all weights for a minibatch, whose rows have these indices; returns metrics."""
        with torch.no_grad():
            parts = [part.contiguous() for part in kernels.forward(batch)]
        gradients = [torch.empty_like(part) for part in parts]
        addresses = [address(each[part]) for part in (0, -1) for each in (parts, gradients)]
        self._rows.order = address(order)
        log_std = (None, None) if len(parts) == 2 else (address(parts[1]), address(gradients[1]))
        given = byref(self._rows), byref(self._settings), count, *addresses, parts[-1].shape[1], *log_std
        self._call["ppo_output_gradients"](self._head, *given, self._statistics)
        kernels.write_gradients(gradients)
        metrics: Metrics = dict(zip(STATISTICS, self._statistics, strict=False))
        for name in OF_ROWS & metrics.keys():  # sequences make minibatches uneven
            metrics[name] = torch.tensor(metrics[name], dtype=torch.float32, device="cpu").expand(count)
        return metrics


def ppo_kernel(kernels: NetworkKernels, batch: Minibatch, cfg: Any, huber: float | None = None) -> Metrics | None:
    """Writes the gradients of `ppo_loss` with respect to all weights.

    Args:
        kernels: The networks.
        batch: The rows.
        cfg: Settings of PPO.
        huber: As of `PPOCall`.

    Returns:
        The metrics of the loss, means over the rows; None for batches with more than a `PenaltyMinibatch` has or with
        an unsupported memory layout, and for networks with heads other than a policy's and values.
    """
    whole, order = batch.source or (batch, None)
    call = _call_for(kernels, whole, cfg, huber)
    if call is None or not is_plain(order, torch.int64):
        return None
    return call(order, len(whole) if order is None else len(order), kernels, batch)


def ppo_steps(
    kernels: NetworkKernels, batches: Sequence[Minibatch], step: KernelStep, cfg: Any, huber: float | None = None
) -> list[Metrics] | None:
    """Makes a gradient step of `ppo_loss` for each minibatch, in one call.

    Args:
        kernels: The networks.
        batches: The rows of each step.
        step: Updates the weights.
        cfg: Settings of PPO.
        huber: As of `PPOCall`.

    Returns:
        The metrics of each step, as `gradient_step` returns them; None if nothing was done, because kernels cannot read
        the rows (see `ppo_kernel`), or the rows belong to several batches.
    """
    sources = [source for batch in batches if (source := batch.source) is not None]
    if not sources or len(sources) < len(batches) or any(whole is not sources[0][0] for whole, _ in sources):
        return None
    orders = [order for _, order in sources]
    call = _call_for(kernels, sources[0][0], cfg, huber)
    if call is None or kernels.remembers or not all(is_plain(order, torch.int64) for order in orders):
        return None
    return call.steps(orders, step)


def _call_for(kernels: NetworkKernels, whole: Minibatch, cfg: Any, huber: float | None) -> PPOCall | None:
    """Returns the prepared call for minibatches of a batch; None if the kernel cannot read them."""
    call = kernels.call
    if isinstance(call, PPOCall) and call.is_for(whole, cfg):
        return call
    if type(whole) not in (Minibatch, PenaltyMinibatch) or not _is_known(kernels) or not _can_read(kernels, whole):
        return None
    kernels.call = call = (SequencesCall if kernels.remembers else PPOCall)(kernels, whole, cfg, huber)
    return call


def _is_known(kernels: NetworkKernels) -> bool:
    """Whether networks are a policy and values, on one trunk or two."""
    heads = [head for tower in kernels.structure.towers for head in tower.heads]
    return len(heads) == 2 and isinstance(heads[0], ActionHead) and isinstance(heads[1], ValueHead)


def _trunks(kernels: NetworkKernels) -> tuple[NativeTrunk, NativeTrunk]:
    """Returns the trunks of policy and values, which may be the same."""
    actor, critic = kernels.towers[0], kernels.towers[-1]
    assert isinstance(actor, NativeTrunk)
    assert isinstance(critic, NativeTrunk)
    return actor, critic


def _can_read(kernels: NetworkKernels, whole: Minibatch) -> bool:
    """Whether rows have the memory layout of kernels."""
    rows, obs, action = len(whole.action), whole.obs, whole.action
    head, values = kernels.structure.towers[0].heads[0], kernels.structure.towers[-1].heads[-1]
    assert isinstance(head, ActionHead)
    assert isinstance(values, ValueHead)
    spec, columns = head.action_spec, values.linear.out_features
    choices = action.reshape(rows, -1)[:, : len(spec.sizes)]
    single, wide = (whole.logp, whole.advantage, whole.importance), (whole.value_target, whole.value)
    return (
        (kernels.remembers or all(trunk.can_read(obs) for trunk in _trunks(kernels)))
        and action.shape[1:] == spec.shape
        and all(len(leaf) == rows for leaf in obs.values())
        and bool(((choices >= 0) & (choices < kernels.options)).all())
        and is_plain(action, torch.int64 if spec.dtype == np.int64 else torch.float32)
        and is_plain(obs.get(MASK), torch.bool)
        and all(map(is_plain, (*single, *wide)))
        and all(each is None or each.shape == (rows,) for each in single)
        and all(each.shape == (rows, columns) for each in wide)
        and (not isinstance(whole, PenaltyMinibatch) or _can_read_penalty(whole, spec))
    )


def _can_read_penalty(whole: PenaltyMinibatch, spec: ActionSpec) -> bool:
    """Whether the distributions before the update have the memory layout of kernels."""
    width = len(spec.sizes) * max(spec.sizes, default=0) + spec.num_flags + 2 * spec.num_numbers
    shapes = whole.old.shape == (len(whole.action), width) and whole.kl_coef.shape == (len(whole.action),)
    return shapes and is_plain(whole.old) and is_plain(whole.kl_coef)
