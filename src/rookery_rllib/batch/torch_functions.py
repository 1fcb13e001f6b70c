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
"""What stands for infinite logits: infinite ones make gradients that are no numbers."""


def atanh(x: Tensor) -> Tensor:
    """Returns the inverse of tanh, finite at -1 and 1."""
    above, below = (1 + x).clamp(min=SMALL_NUMBER), (1 - x).clamp(min=SMALL_NUMBER)
    return 0.5 * (above.log() - below.log())


def clip_gradients(parameters: Iterable[Any], clip_val: float) -> Tensor:
    """Scales the gradients of parameters so that their norm is at most `clip_val`, and returns what it was."""
    return nn.utils.clip_grad_norm_(parameters, clip_val)


def apply_grad_clipping(policy: Any, optimizer: Any, loss: Any) -> dict[str, Any]:
    """Scales an optimizer's gradients so that their norm is at most the policy's ``grad_clip``.

    Args:
        policy: A policy with a `config`.
        optimizer: Optimizer whose parameters have gradients.
        loss: Is not needed.

    Returns:
        The norm before, under ``grad_gnorm``; nothing if ``grad_clip`` is not set.
    """
    info: dict[str, Any] = {}
    if policy.config["grad_clip"]:
        for group in optimizer.param_groups:
            info["grad_gnorm"] = float(clip_gradients(group["params"], policy.config["grad_clip"]))
    return info


def minimize_and_clip(optimizer: Any, clip_val: float = 10) -> None:
    """Scales the gradient of each parameter of an optimizer so that its norm is at most `clip_val`."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            clip_gradients([parameter], clip_val)


def global_norm(tensors: Iterable[Tensor]) -> Tensor:
    """Returns the root of the sum of the squares of all elements."""
    return torch.stack([tensor.square().sum() for tensor in tensors]).sum().sqrt()


def convert_to_non_torch_type(stats: Any) -> Any:
    """Returns a structure with arrays and numbers in the place of tensors."""
    return convert_to_numpy(stats)


def convert_to_torch_tensor(x: Any, device: Any = None) -> Any:
    """Returns a structure with tensors in the place of arrays and numbers, of float32 where they were float64.

    Args:
        x: Any structure; arrays of objects, and None, stay as they are.
        device: Where the tensors go; None = where they are.
    """

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
    """Returns the share of the variance of `y` that `pred` explains, at least -1; 0 where `y` does not vary."""
    variance = torch.var(y, dim=0, unbiased=False)
    left = torch.var(y - pred, dim=0, unbiased=False)
    share = 1.0 - left / variance
    return torch.where(variance > 0, share, torch.zeros_like(share)).clamp(min=-1.0)


def huber_loss(x: Tensor, delta: float = 1.0) -> Tensor:
    """Returns half the square of errors below `delta`, and ``delta * (|x| - delta / 2)`` of larger ones."""
    return torch.where(x.abs() < delta, 0.5 * x.square(), delta * (x.abs() - 0.5 * delta))


def l2_loss(x: Tensor) -> Tensor:
    """Returns half the sum of squares."""
    return 0.5 * x.square().sum()


def one_hot(x: Tensor, space: Any) -> Tensor:
    """Returns one-hots of the values of a discrete space, one after the other.

    Args:
        x: ``[N]`` of a Discrete space, ``[N, elements]`` of a MultiDiscrete one.
        space: The space.

    Raises:
        ValueError: If the space is another one.
    """
    if isinstance(space, Discrete):
        return nn.functional.one_hot(x.long() - int(space.start), int(space.n))
    if isinstance(space, MultiDiscrete):
        sizes, starts = space.nvec.ravel().tolist(), np.ravel(space.start).tolist()
        columns = x.long().reshape(len(x), -1)
        hots = [nn.functional.one_hot(columns[:, i] - starts[i], size) for i, size in enumerate(sizes)]
        return torch.cat(hots, dim=-1)
    raise ValueError(f"one_hot: {space} has no categories, expected Discrete or MultiDiscrete")


def reduce_mean_ignore_inf(x: Tensor, axis: int | None = None) -> Tensor:
    """Returns the mean along an axis of those elements that are not minus infinity."""
    there = x != float("-inf")
    kept = torch.where(there, x, torch.zeros_like(x))
    if axis is None:
        return kept.sum() / there.sum()
    return kept.sum(axis) / there.sum(axis)


def sequence_mask(lengths: Tensor, maxlen: int | None = None, dtype: Any = None, time_major: bool = False) -> Tensor:
    """Returns which places of padded sequences hold something, ``[B, maxlen]``; ``[maxlen, B]`` if time comes first.

    Args:
        lengths: ``[B]`` lengths of the sequences.
        maxlen: Length they are padded to; None = the longest one's.
        dtype: Type of the result; None = bool.
        time_major: Whether time is the first axis.
    """
    longest = int(lengths.max()) if maxlen is None else int(maxlen)
    mask = torch.arange(longest, device=lengths.device, dtype=torch.int64) < lengths.unsqueeze(1)
    mask = mask.t() if time_major else mask
    return mask if dtype is None else mask.to(dtype)


def softmax_cross_entropy_with_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the cross entropy of logits ``[..., C]`` with probabilities ``[..., C]``."""
    return -(labels * logits.log_softmax(-1)).sum(-1)


def make_tf_callable(session_or_none: Any = None, dynamic_shape: bool = False) -> Callable[[Any], Any]:
    """Returns a decorator under which a function is given tensors and gives arrays.

    Args:
        session_or_none: Is not needed: nothing is compiled.
        dynamic_shape: Is not needed.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            with torch.no_grad():
                return convert_to_numpy(function(*convert_to_torch_tensor(args), **convert_to_torch_tensor(kwargs)))

        return called

    return decorated
