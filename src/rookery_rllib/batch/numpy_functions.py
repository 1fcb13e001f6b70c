"""Functions on NumPy arrays that scripts import: activations, layers, losses, conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete

from rookery_rllib.base import nested
from rookery_rllib.gym.rllib_spaces import flatten_space

SMALL_NUMBER = 1e-6
LARGE_INTEGER = 100_000_000
MIN_LOG_NN_OUTPUT = -5
MAX_LOG_NN_OUTPUT = 2


def aligned_array(size: int, dtype: Any, align: int = 64) -> np.ndarray:
    kind = np.dtype(dtype)
    raw = np.empty(size * kind.itemsize + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size * kind.itemsize].view(kind)


def concat_aligned(items: list[Any], time_major: bool | None = None) -> Any:
    if len(items) < 2:
        return items[0] if items else []
    axis = 1 if time_major else 0
    if isinstance(items[0], torch.Tensor):
        return torch.cat(items, dim=axis)
    if isinstance(items[0], dict | tuple):
        return nested.map_structure(lambda *parts: concat_aligned(list(parts), time_major), *items)
    return np.concatenate(items, axis=axis)


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    size = np.abs(x)
    return np.where(size < delta, 0.5 * np.square(x), delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    return np.sum(np.square(x)) / 2.0


def sigmoid(x: Any, derivative: bool = False) -> Any:
    return x * (1 - x) if derivative else 1 / (1 + np.exp(-x))


def softmax(x: Any, axis: int = -1, epsilon: float = SMALL_NUMBER) -> Any:
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.maximum(powers / powers.sum(axis=axis, keepdims=True), epsilon)


def relu(x: Any, alpha: float = 0.0) -> Any:
    return np.maximum(x, np.asarray(x) * alpha)


def one_hot(x: Any, depth: int = 0, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = np.float32) -> Any:
    array = np.asarray(x.cpu().numpy() if isinstance(x, torch.Tensor) else x)
    if array.dtype == np.bool_:
        array, depth = array.astype(np.int64), 2
    array = array.astype(np.int64)
    depth = int(depth or np.max(array, initial=-1) + 1)
    if array.size and (array.max() >= depth or array.min() < 0):
        raise ValueError(f"one_hot: categories from {array.min()} to {array.max()} where there are {depth}, from 0")
    out = np.full((*array.shape, depth), off_value, dtype)
    np.put_along_axis(out, array[..., None], on_value, axis=-1)
    return out


def one_hot_multidiscrete(x: Any, depths: list[int]) -> Any:
    array = np.atleast_2d(np.asarray(x))
    return np.concatenate([one_hot(array[:, i], depth=depth) for i, depth in enumerate(depths)], axis=-1)


def flatten_inputs_to_1d_tensor(inputs: Any, spaces_struct: Any = None, time_axis: bool = False) -> Any:
    parts = nested.flatten(inputs)
    spaces: list[Any] = [None] * len(parts)
    if spaces_struct is not None:
        spaces = [space for one in nested.flatten(spaces_struct) for space in flatten_space(one)]
    lead = 2 if time_axis else 1
    rows = []
    for part, space in zip(parts, spaces, strict=True):
        array = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part)
        if isinstance(space, Discrete):
            array = one_hot(array - space.start, depth=int(space.n))
        elif isinstance(space, MultiDiscrete):
            columns = (array - space.start).reshape(*array.shape[:lead], -1)
            hots = [one_hot(columns[..., i], depth=int(n)) for i, n in enumerate(space.nvec.ravel())]
            array = np.concatenate(hots, axis=-1)
        rows.append(array.reshape(*array.shape[:lead], -1).astype(np.float32))
    joined = np.concatenate(rows, axis=-1)
    first = parts[0]
    return torch.from_numpy(joined).to(first.device) if isinstance(first, torch.Tensor) else joined


def fc(x: Any, weights: Any, biases: Any = None, framework: str | None = None) -> Any:
    inputs, matrix, bias = (convert_to_numpy(part) for part in (x, weights, biases))
    if framework == "torch" and inputs.shape[1] != matrix.shape[0] and inputs.shape[1] == matrix.shape[1]:
        matrix = matrix.T
    product = inputs @ matrix
    return product if bias is None else product + bias


def lstm(
    x: Any,
    weights: Any,
    biases: Any = None,
    initial_internal_states: Any = None,
    time_major: bool = False,
    forget_bias: float = 1.0,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    steps = np.asarray(x) if time_major else np.swapaxes(np.asarray(x), 0, 1)
    units = weights.shape[1] // 4
    cell = hidden = np.zeros((steps.shape[1], units))
    if initial_internal_states is not None:
        cell, hidden = initial_internal_states
    outputs = []
    for step in steps:
        gates = np.concatenate((step, hidden), axis=1) @ weights + (0.0 if biases is None else biases)
        add, new, forget, out = np.split(gates, 4, axis=1)
        cell = cell * sigmoid(forget + forget_bias) + sigmoid(add) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(cell)
        outputs.append(hidden)
    stacked = np.stack(outputs)
    return (stacked if time_major else np.swapaxes(stacked, 0, 1)), (cell, hidden)


def concat_multi_gpu_td_errors(td_error: Any) -> dict[str, Any]:
    parts = td_error if isinstance(td_error, list | tuple) else [td_error]
    errors = np.concatenate([np.atleast_1d(convert_to_numpy(part)) for part in parts])
    return {"td_error": errors, "mean_td_error": float(np.mean(errors))}


def convert_to_numpy(x: Any, reduce_floats: bool = False) -> Any:
    def converted(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            item = item.detach().cpu()
            item = item.item() if item.ndim == 0 else item.numpy()
        if reduce_floats and isinstance(item, np.ndarray) and item.dtype == np.float64:
            item = item.astype(np.float32)
        return item

    return nested.map_structure(converted, x)


def as_arrays(found: Any) -> Any:
    """Returns tensors as arrays, in dicts, lists and tuples too."""
    if isinstance(found, torch.Tensor):
        return found.detach().cpu().numpy()
    if isinstance(found, Mapping):
        return {name: as_arrays(part) for name, part in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(as_arrays(part) for part in found)
    return found


def make_action_immutable(obj: Any) -> Any:
    for leaf in nested.flatten(obj):
        if isinstance(leaf, np.ndarray):
            leaf.setflags(write=False)
    return obj
