"""Tensors that travel as one buffer arrive as they were."""

from __future__ import annotations

import pickle

import numpy as np
import torch

from rookery.core.io.packing import pack, unpack

TENSORS = [
    torch.arange(6, dtype=torch.float32).view(2, 3),
    torch.tensor([True, False, True]),
    torch.zeros(0, 4),
    torch.tensor(7, dtype=torch.int64),
    torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    torch.arange(12, dtype=torch.uint8).view(3, 4).T,  # not contiguous
    torch.tensor([float("nan"), float("inf")], dtype=torch.float64),
]


def equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.dtype == second.dtype and torch.equal(first.nan_to_num(), second.nan_to_num())


def test_every_type_and_shape_arrives_as_it_was():
    found = unpack(*pack(TENSORS))
    assert all(equal(was, is_now) for was, is_now in zip(TENSORS, found, strict=True))
    assert unpack(*pack([])) == []


def test_tensors_from_memory_that_nobody_may_write_can_be_written():
    buffer, layout = pack(TENSORS)
    buffer.flags.writeable = False
    first = unpack(buffer, layout)[0]
    first += 1
    assert first[0, 0] == 1 and buffer[:4].view(np.float32)[0] == 0


def test_one_buffer_is_sent_beside_the_pickle():
    buffers: list[pickle.PickleBuffer] = []
    whole = pickle.dumps(pack([torch.zeros(10_000)] * 3)[0], protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(whole) < 1_000
