"""Functions on tensors that scripts import: losses, masks, norms, conversions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete
from torch import Tensor, nn

from rookery_rllib.base import nested
from rookery_rllib.batch.numpy_functions import SMALL_NUMBER, convert_to_numpy
from rookery_rllib.batch.repeated_values import RepeatedValues

FLOAT_MIN = -3.4e38
FLOAT_MAX = 3.4e38
"""Replacement of infinite logits, whose gradients would be NaN."""


def atanh(x: Tensor) -> Tensor:
    """Returns the inverse of tanh, finite at -1 and 1."""
    above, below = (1 + x).clamp(min=SMALL_NUMBER), (1 - x).clamp(min=SMALL_NUMBER)
    return 0.5 * (above.log() - below.log())


def clip_gradients(parameters: Iterable[Any], clip_val: float) -> Tensor:
    return nn.utils.clip_grad_norm_(parameters, clip_val)


def apply_grad_clipping(policy: Any, optimizer: Any, loss: Any) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if policy.config["grad_clip"]:
        for group in optimizer.param_groups:
            info["grad_gnorm"] = float(clip_gradients(group["params"], policy.config["grad_clip"]))
    return info


def minimize_and_clip(optimizer: Any, clip_val: float = 10) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            clip_gradients([parameter], clip_val)


def global_norm(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack([tensor.square().sum() for tensor in tensors]).sum().sqrt()


def convert_to_non_torch_type(stats: Any) -> Any:
    return convert_to_numpy(stats)


def convert_to_torch_tensor(x: Any, device: Any = None) -> Any:
    def converted(item: Any) -> Any:
        if item is None or isinstance(item, str):
            return item
        if isinstance(item, RepeatedValues):
            values, lengths = (
                convert_to_torch_tensor(item.values, device),
                convert_to_torch_tensor(item.lengths, device),
            )
            return RepeatedValues(values, lengths, item.max_len)
        if not isinstance(item, Tensor):
            array = np.asarray(item)
            if array.dtype.kind not in "biufc":
                return item
            item = torch.from_numpy(array if array.flags.writeable else array.copy())
        if item.dtype == torch.float64:
            item = item.float()
        return item if device is None else item.to(device)

    return nested.map_structure(converted, x)


def explained_variance(y: Tensor, pred: Tensor) -> Tensor:
    variance = torch.var(y, dim=0, unbiased=False)
    left = torch.var(y - pred, dim=0, unbiased=False)
    share = 1.0 - left / variance
    return torch.where(variance > 0, share, torch.zeros_like(share)).clamp(min=-1.0)


def huber_loss(x: Tensor, delta: float = 1.0) -> Tensor:
    return torch.where(x.abs() < delta, 0.5 * x.square(), delta * (x.abs() - 0.5 * delta))


def l2_loss(x: Tensor) -> Tensor:
    return 0.5 * x.square().sum()


def one_hot(x: Tensor, space: Any) -> Tensor:
    if isinstance(space, Discrete):
        return nn.functional.one_hot(x.long() - int(space.start), int(space.n))
    if isinstance(space, MultiDiscrete):
        sizes, starts = space.nvec.ravel().tolist(), np.ravel(space.start).tolist()
        columns = x.long().reshape(len(x), -1)
        hots = [nn.functional.one_hot(columns[:, i] - starts[i], size) for i, size in enumerate(sizes)]
        return torch.cat(hots, dim=-1)
    raise ValueError(f"one_hot: {space} has no categories, expected Discrete or MultiDiscrete")


def reduce_mean_ignore_inf(x: Tensor, axis: int | None = None) -> Tensor:
    there = x != float("-inf")
    kept = torch.where(there, x, torch.zeros_like(x))
    if axis is None:
        return kept.sum() / there.sum()
    return kept.sum(axis) / there.sum(axis)


def sequence_mask(lengths: Tensor, maxlen: int | None = None, dtype: Any = None, time_major: bool = False) -> Tensor:
    """Returns the mask of valid steps of padded sequences, ``[B, maxlen]``; ``[maxlen, B]`` if time comes first."""
    longest = int(lengths.max()) if maxlen is None else int(maxlen)
    mask = torch.arange(longest, device=lengths.device, dtype=torch.int64) < lengths.unsqueeze(1)
    mask = mask.t() if time_major else mask
    return mask if dtype is None else mask.to(dtype)


def softmax_cross_entropy_with_logits(logits: Tensor, labels: Tensor) -> Tensor:
    return -(labels * logits.log_softmax(-1)).sum(-1)


def make_tf_callable(session_or_none: Any = None, dynamic_shape: bool = False) -> Callable[[Any], Any]:
    """Returns a decorator that passes tensors to a function and returns arrays; nothing is compiled."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            with torch.no_grad():
                return convert_to_numpy(function(*convert_to_torch_tensor(args), **convert_to_torch_tensor(kwargs)))

        return called

    return decorated
