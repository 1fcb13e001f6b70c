"""All cells by their names in settings (`model.memory.kind`)."""

from __future__ import annotations

from rookery.models.cells.attention import Attention
from rookery.models.cells.base import Memory
from rookery.models.cells.gru import GRU
from rookery.models.cells.lstm import LSTM
from rookery.models.cells.scan import Scan

CELLS: dict[str, type[Memory]] = {"lstm": LSTM, "gru": GRU, "scan": Scan, "attention": Attention}
"""Memory classes by the name of their cell; arguments: width of the input, a `CellConfig`, a generator of weights."""

ON_KERNELS: tuple[type[Memory], ...] = tuple(cell for cell in CELLS.values() if cell.kernel)
"""Memories with kernels."""
