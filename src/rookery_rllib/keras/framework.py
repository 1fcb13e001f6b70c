"""Deep-learning libraries for scripts: torch, and Keras under TensorFlow's names."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.face import ConfigError, install_line
from rookery_rllib.base.imports import module


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Returns torch and torch.nn."""
    return torch, torch.nn


def try_import_tf(error: bool = False) -> tuple[Any, Any, Any]:
    """Returns TensorFlow's names as models use them, twice (as ``tf.compat.v1`` and as ``tf``), and the version 2.

    The names are Keras on torch. Without the package keras all three are None.

    Raises:
        ImportError: If `error` is set and keras is not installed.
    """
    if importlib.util.find_spec("keras") is None:
        if error:
            raise ImportError(f"TensorFlow's names need the package keras ({install_line('keras')})")
        return None, None, None
    tf = module("tensorflow")
    return getattr(getattr(tf, "compat", None), "v1", tf), tf, 2


def try_import_tfp(error: bool = False) -> None:
    """Returns None: TensorFlow Probability is not used here; torch.distributions has the same.

    Raises:
        ImportError: If `error` is set.
    """
    if error:
        raise ImportError("TensorFlow Probability is not used here; use torch.distributions")


def try_import_jax(error: bool = False) -> tuple[None, None]:
    """Returns two Nones, for jax and flax, which are not used here.

    Raises:
        ImportError: If `error` is set.
    """
    if error:
        raise ImportError("JAX is not used here; models are torch modules")
    return None, None


def tf_function(tf_module: Any) -> Callable[[Any], Any]:
    """Returns a decorator without an effect, because all code runs eagerly."""
    return lambda function: function


def get_variable(
    value: Any,
    framework: str = "tf",
    trainable: bool = False,
    tf_name: str = "unnamed-variable",
    torch_tensor: bool = False,
    device: Any = None,
    shape: Any = None,
    dtype: Any = None,
) -> Any:
    """Returns a variable with a value: a tensor for torch if requested, else the value itself.

    Variables of TensorFlow are tensors of torch here; float64 becomes float32 where no type is given.
    """
    if framework == "torch" and not torch_tensor:
        return value
    if framework not in ("torch", "tf", "tf2", "tfe"):
        return value
    array = np.asarray(value)
    wanted = dtype if isinstance(dtype, torch.dtype) else None
    if wanted is None and dtype is not None:
        array = array.astype(dtype)
    elif wanted is None and array.dtype == np.float64:
        array = array.astype(np.float32)
    if shape is not None:
        array = np.broadcast_to(array, tuple(shape))
    tensor = torch.tensor(array, dtype=wanted, device=device)
    return tensor.requires_grad_(trainable) if trainable else tensor


class Swish(nn.Module):
    """The activation ``x * sigmoid(beta * x)``, whose beta is learned."""

    def __init__(self) -> None:
        super().__init__()
        self._beta = nn.Parameter(torch.tensor(1.0, dtype=torch.float32, device="cpu"))

    def forward(self, input_tensor: Tensor) -> Tensor:
        return input_tensor * torch.sigmoid(self._beta * input_tensor)


def get_activation_fn(name: str | None = None, framework: str = "tf") -> Any:
    """Returns the class of an activation function of torch by its name; None for ``"linear"`` and None.

    Raises:
        ConfigError: If the name is unknown.
    """
    if name in (None, "linear"):
        return None
    if name in ("swish", "silu"):
        return Swish
    known = {
        "relu": torch.nn.ReLU,
        "tanh": torch.nn.Tanh,
        "elu": torch.nn.ELU,
        "selu": torch.nn.SELU,
        "sigmoid": torch.nn.Sigmoid,
        "leaky_relu": torch.nn.LeakyReLU,
    }
    if name not in known:
        raise ConfigError(f"activation {name!r} is unknown; use {', '.join(known)}, swish or linear")
    return known[name]
