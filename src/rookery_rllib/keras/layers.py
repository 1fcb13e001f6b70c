"""Layers and operations of Keras with TensorFlow's arguments."""

from __future__ import annotations

from typing import Any

from rookery_rllib.keras.backend import load_keras

keras: Any = load_keras()
_Lstm: Any = keras.layers.LSTM
_Gru: Any = keras.layers.GRU
_SimpleRnn: Any = keras.layers.SimpleRNN
_Operation: Any = keras.Operation


class _TakesInputs:
    """A layer whose input may also be called ``inputs``."""

    def __call__(self, sequences: Any = None, *args: Any, inputs: Any = None, **kwargs: Any) -> Any:
        """Returns the layer's output for sequences ``[batch, time, features]``."""
        return super().__call__(inputs if sequences is None else sequences, *args, **kwargs)  # type: ignore[misc]


class LSTM(_TakesInputs, _Lstm):  # type: ignore[misc]
    """Long short-term memory."""


class GRU(_TakesInputs, _Gru):  # type: ignore[misc]
    """Gated recurrent units."""


class SimpleRNN(_TakesInputs, _SimpleRnn):  # type: ignore[misc]
    """A recurrent layer."""


class LongestMask(_Operation):  # type: ignore[misc]
    """Computes a mask row for each length, as wide as the longest."""

    def __init__(self, dtype: str | None) -> None:
        super().__init__()
        self.mask_dtype = dtype

    def call(self, lengths: Any) -> Any:
        """Returns the mask ``[*lengths.shape, max(lengths)]``."""
        steps = keras.ops.arange(int(keras.ops.max(lengths)), dtype="int32")
        mask = keras.ops.expand_dims(keras.ops.cast(lengths, "int32"), -1) > steps
        return keras.ops.cast(mask, self.mask_dtype)

    def compute_output_spec(self, lengths: Any) -> Any:
        """Returns the mask's form, whose last size is open."""
        return keras.KerasTensor((*lengths.shape, None), dtype=self.mask_dtype)
