"""Keras on PyTorch, which implements the names of TensorFlow; loaded when it is first needed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

from rookery.face import install_line


def needs_keras() -> None:
    """Raises an ImportError if Keras is missing, or has another backend than PyTorch."""
    if importlib.util.find_spec("keras") is None:
        missing = "tensorflow stands for Keras 3 on PyTorch here, and keras is not installed"
        raise ModuleNotFoundError(f"{missing}: {install_line('keras')}", name="tensorflow")
    load_keras()


def load_keras() -> Any:
    """Returns the module keras, on PyTorch; raises an ImportError if it runs on another backend."""
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "torch"
    keras = importlib.import_module("keras")
    if (backend := keras.config.backend()) != "torch":
        problem = f"keras runs on {backend} here, and models of Rookery need it on torch"
        raise ImportError(f"{problem}: set KERAS_BACKEND=torch before keras is imported", name="tensorflow")
    return keras
