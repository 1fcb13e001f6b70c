"""`TensorActions`: converts stored actions to the environment's form by tensor operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.core.spaces.arrays import ActionSpec


class TensorActions:
    """Converts actions as `ActionSpec.to_env` does, bit-identical, on any device and without synchronization.

    Args:
        spec: Layout of the actions; not composite.
        device: Their device.
    """

    def __init__(self, spec: ActionSpec, device: torch.device) -> None:
        self._spec = spec
        self._shape = tuple(spec.space.shape or ())
        self.dtype = torch.int64 if spec.kind == "discrete" else torch_type(spec.space.dtype)
        """Type of the actions that the environment takes."""
        start = np.asarray(getattr(spec.space, "start", 0), dtype=np.int64)
        self._start = torch.from_numpy(start).to(device) if start.any() else None
        self._center: Tensor | None = None
        if isinstance(spec.space, spaces.Box):
            self._bound(spec.space, device)

    def _bound(self, space: spaces.Box, device: torch.device) -> None:
        """Stores the bounds of a box as float64, because `ActionSpec` scales actions in float64, too."""
        low, high = (torch.from_numpy(bound.astype(np.float64)).to(device) for bound in (space.low, space.high))
        self._low, self._high = low, high
        if self._spec.scale is not None:
            self._center, self._half = (torch.from_numpy(part).to(device) for part in self._spec.scale)
        self._scaled = None if self._spec.is_bounded else torch.isfinite(low) & torch.isfinite(high)

    def __call__(self, stored: Tensor) -> Tensor:
        """Returns the environment's own actions ``[N, *space.shape]``, in new memory, for stored ones ``[N,
        *spec.shape]``.
        """
        shaped = stored.reshape(len(stored), *self._shape)
        if self._spec.kind == "box":
            return self._scale(shaped).to(self.dtype)
        if self._start is not None:
            return (shaped + self._start).to(self.dtype)
        return shaped.to(self.dtype, copy=True)

    def _scale(self, shaped: Tensor) -> Tensor:
        """Scales actions to the bounds of a box."""
        in_range = shaped.clamp(-1.0, 1.0)
        if self._center is not None:
            in_range = self._center + self._half * in_range.to(torch.float64)
        if self._scaled is not None:
            clipped = shaped.to(torch.float64).clamp(self._low, self._high)
            in_range = torch.where(self._scaled, in_range.to(torch.float64), clipped)
        return in_range if self.dtype.is_floating_point else in_range.round()


def torch_type(dtype: Any) -> torch.dtype:
    """Returns the tensor type for a NumPy type."""
    return torch.from_numpy(np.zeros(0, dtype=dtype)).dtype
