"""State as files: a tree of plain values and arrays is written as JSON beside one file of arrays; reading returns an
equal tree.

No pickle: nothing that is read can run. Supported types: None, bool, int of any size, float, str, list, tuple,
deque, dict (any keys of these), NumPy arrays and numbers, torch tensors. Arrays of equal content are stored once.
"""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from rookery.core.errors import RookeryError

TAG = "~"
"""Key of a JSON object that represents a value without a JSON type."""

LONG = 1 << 1000
"""Integers from this size on are written in base 16, because Python limits the digits of decimal numbers."""

DTYPES = {"?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d"}
"""Type characters of arrays that can be saved: bool, integers and floats of up to 64 bits."""


class EncodingError(RookeryError):
    """Part of a state cannot be written without pickle; the message has its path."""


def encode(tree: Any) -> tuple[Any, bytes]:
    """Returns the tree as a value for JSON, and its arrays as a safetensors file.

    Raises:
        EncodingError: If something in it is neither plain nor an array; says where.
    """
    arrays: dict[str, np.ndarray] = {}

    def put(array: np.ndarray) -> str:
        solid = array if array.flags.c_contiguous else array.copy(order="C")
        digest = hashlib.sha256(solid.tobytes() + repr((solid.dtype.str, solid.shape)).encode()).hexdigest()[:24]
        arrays[digest] = solid
        return digest

    def put_tensor(value: Tensor, where: str) -> Any:
        plain = value.detach().cpu()
        if plain.dtype == torch.bfloat16:
            return {TAG: "bfloat16", "key": put(plain.contiguous().view(torch.int16).numpy())}
        try:
            array = plain.numpy()
        except (TypeError, RuntimeError):  # sparse, quantized
            array = None
        if array is None or array.dtype.char not in DTYPES:
            raise EncodingError(f"{where}: a tensor of {str(value.dtype).removeprefix('torch.')} cannot be saved")
        return {TAG: "tensor", "key": put(array)}

    def walk(value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, float, str):
            return value
        if type(value) is int:
            return {TAG: "int", "hex": hex(value)} if abs(value) >= LONG else value
        if isinstance(value, Tensor):
            return put_tensor(value, where)
        if isinstance(value, np.ndarray):
            if value.dtype.char not in DTYPES or not value.dtype.isnative:
                raise EncodingError(f"{where}: an array of {value.dtype} cannot be saved")
            return {TAG: "array", "key": put(value)}
        if isinstance(value, np.generic):
            if value.dtype.char not in DTYPES:
                raise EncodingError(f"{where}: a number of type {value.dtype} cannot be saved")
            raw = base64.b64encode(value.tobytes()).decode()
            return {TAG: "number", "dtype": value.dtype.str, "bytes": raw}
        if isinstance(value, list):
            return [walk(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return {TAG: "tuple", "items": [walk(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if isinstance(value, deque):
            items = [walk(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return {TAG: "deque", "items": items, "maxlen": value.maxlen}
        if isinstance(value, dict):
            if all(type(key) is str for key in value) and TAG not in value:
                return {key: walk(item, f"{where}.{key}") for key, item in value.items()}
            pairs = [[walk(key, where), walk(item, f"{where}[{key!r}]")] for key, item in value.items()]
            return {TAG: "dict", "items": pairs}
        raise EncodingError(f"{where}: a {type(value).__name__} cannot be saved")

    structure = walk(tree, "state")
    return structure, save(arrays)


def decode(structure: Any, arrays: bytes) -> Any:
    """Restores the tree passed to `encode`; raises an EncodingError if the arguments are not results of `encode`."""
    try:
        return _decode(structure, load(arrays))
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise EncodingError(f"this is no saved state: {type(error).__name__}: {error}") from error


def _decode(value: Any, stored: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(item, stored) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TAG)
    if kind is None:
        return {key: _decode(item, stored) for key, item in value.items()}
    if kind == "int":
        return int(value["hex"], 16)
    if kind in ("array", "tensor", "bfloat16"):
        if value["key"] not in stored:
            raise EncodingError(f"the state names array {value['key']}, which is not in the file of arrays")
        array = stored[value["key"]].copy()
        if kind == "array":
            return array
        return torch.from_numpy(array) if kind == "tensor" else torch.from_numpy(array).view(torch.bfloat16)
    if kind == "number":
        dtype = np.dtype(value["dtype"])
        if dtype.char not in DTYPES:
            raise EncodingError(f"the state has a number of type {dtype}")
        return np.frombuffer(base64.b64decode(value["bytes"]), dtype=dtype)[0]
    if kind in ("tuple", "deque", "dict"):
        items = _decode(value["items"], stored)
        if kind == "dict":
            return dict(items)
        return tuple(items) if kind == "tuple" else deque(items, maxlen=value["maxlen"])
    raise EncodingError(f"the state has something of unknown kind {kind!r}")
