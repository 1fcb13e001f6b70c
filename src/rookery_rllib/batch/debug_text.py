"""Short summaries of batches and arrays."""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch

_printed: set[str] = set()


class _Words:
    """Text that is printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def summarize(obj: Any) -> str:
    return pprint.pformat(_summary(obj), indent=2, width=60)


def _summary(obj: Any) -> Any:
    if isinstance(obj, SampleBatch):
        return {"type": "SampleBatch", "data": {key: _summary(column) for key, column in obj.items()}}
    if isinstance(obj, MultiAgentBatch):
        return {"type": "MultiAgentBatch", "count": obj.count, "policy_batches": _summary(obj.policy_batches)}
    if isinstance(obj, Mapping):
        return {key: _summary(value) for key, value in obj.items()}
    if hasattr(obj, "_asdict"):
        return {"type": type(obj).__name__, "data": _summary(obj._asdict())}
    if isinstance(obj, list | tuple):
        return type(obj)(_summary(one) for one in obj)
    if not isinstance(obj, np.ndarray):
        return obj
    words = f"np.ndarray({obj.shape}, dtype={obj.dtype}"
    if obj.size and obj.dtype.kind in "biuf":
        words += f", min={obj.min():.3f}, max={obj.max():.3f}, mean={obj.mean():.3f}"
    elif obj.size:
        words += f", head={_summary(obj.flat[0])}"
    return _Words(words + ")")


def log_once(key: str) -> bool:
    first = key not in _printed
    _printed.add(key)
    return first
