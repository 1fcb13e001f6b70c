"""Tensors packed into one buffer, which is cheaper to send to another process than single tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

ALIGNMENT = 16
"""Alignment of tensors in a buffer, in bytes."""

PADDING = np.zeros(ALIGNMENT, np.uint8)

Layout = list[tuple[torch.dtype, tuple[int, ...]]]
"""Types and shapes of packed tensors, in their order."""


def pack(tensors: Sequence[Tensor]) -> tuple[np.ndarray, Layout]:
    """Copies tensors into one buffer.

    Args:
        tensors: On any device, of any shapes and types.

    Returns:
        The buffer, uint8, and its layout for `unpack`.
    """
    layout: Layout = []
    parts: list[np.ndarray] = [PADDING[:0]]
    for tensor in tensors:
        plain = tensor.detach().cpu()
        layout.append((plain.dtype, tuple(plain.shape)))
        known = plain.view(torch.int16) if plain.dtype is torch.bfloat16 else plain  # NumPy has no such type
        raw = np.ascontiguousarray(known.numpy()).reshape(-1).view(np.uint8)
        parts += [raw, PADDING[: -len(raw) % ALIGNMENT]]
    return np.concatenate(parts), layout


def unpack(buffer: np.ndarray, layout: Layout) -> list[Tensor]:
    """Returns the tensors of a buffer, as views; of a copy if it is read-only.

    Args:
        buffer: The buffer of `pack`.
        layout: The layout of `pack`.
    """
    whole = torch.from_numpy(buffer if buffer.flags.writeable else buffer.copy())
    tensors, start = [], 0
    for dtype, shape in layout:
        size = prod(shape) * dtype.itemsize
        tensors.append(whole[start : start + size].view(dtype).view(shape))
        start += size + -size % ALIGNMENT
    return tensors
