"""Capabilities of the CPU and the GPU, and transfers between them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import Rollout, TensorTree
from rookery.core.errors import ConfigError

AUTO = "auto"
"""Device of a run that chooses the first of CUDA, MPS (GPUs of Apple) and the CPU."""

DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")


def devices() -> list[str]:
    """Returns the devices on which networks can train here, the preferred ones first."""
    gpus = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    found = ["cuda", *(f"cuda:{number}" for number in gpus)] if gpus else []
    return [*found, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def check_device(device: str) -> None:
    """Raises ConfigError if networks cannot train on a device.

    Raises:
        ConfigError: If there is no such device; names what is missing.
    """
    there = devices()
    if device in there:
        return
    if not DEVICE.fullmatch(device):
        raise ConfigError(f"device = {device!r}: must be auto, cpu, cuda, cuda:N or mps; here are {', '.join(there)}")
    if device == "mps":
        why = f"finds no GPU of Apple; use one of {', '.join(there)}"
    elif "cuda" in there:
        why = f"finds no GPU of this number; use one of {', '.join(there)}"
    elif torch.backends.cuda.is_built():
        why = "finds no GPU; use device: cpu, or check whether nvidia-smi and CUDA_VISIBLE_DEVICES show one"
    else:
        why = "was built without CUDA; use device: cpu, or install a build with it (https://pytorch.org/get-started)"
    raise ConfigError(f"device = {device!r}: torch {torch.__version__} {why}")


def has_bfloat16(device: str) -> bool:
    """Whether a device has bfloat16 instructions, which are faster than float32 instructions."""
    if device == "mps":
        return False
    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # private: without them, float32 is used
    return any(getattr(torch.cpu, name, bool)() for name in asked)


def device_of(module: nn.Module) -> torch.device:
    """Returns the device of a module's weights, or of its buffers if it has no weights; the CPU without both."""
    return next((tensor.device for tensor in chain(module.parameters(), module.buffers())), torch.device("cpu"))


def as_tensor(values: Any) -> Tensor:
    """Returns a tensor unchanged, and converts arrays and numbers to CPU tensors of NumPy's type, independent of
    torch's defaults; the memory of an array is shared.
    """
    return values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))


def check_compiler() -> None:
    """Raises ConfigError if `torch.compile` has no compiler.

    Raises:
        ConfigError: If something is missing; names it.
    """
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    missing = ""
    if shutil.which(compiler) is None:
        missing = f"there is no C++ compiler {compiler!r} on the path; install one, or name yours in the variable CXX"
    elif not header.exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        missing = f"{header} is missing; install the headers of Python {version} (python3-dev or the like)"
    if missing:
        raise ConfigError(f"model.compile = True: {missing}, or set model.compile: false")


def staging_to(device: torch.device) -> Staging | None:
    """Returns the transfers to a device and back; None for the CPU, where arrays need no transfer."""
    return None if device.type == "cpu" else Staging(device)


class Staging:
    """Transfers arrays of this process to another device and back.

    Each array has its own page-locked buffer, which is allocated once and grows: copies from it are asynchronous. Sent
    data must be used before the same array is sent again, because the buffer is reused.

    Args:
        device: Where networks act or learn; not the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self._is_cuda = device, device.type == "cuda"
        self._pinned: dict[str, Tensor] = {}
        self._sent: torch.cuda.Event | None = None

    def send_rollout(self, rollout: Rollout) -> Rollout:
        """Returns the rollout on the device; the same object if it is already there."""
        if rollout.reward.device.type == self.device.type:
            return rollout
        moved = rollout.map(self._move)
        self._depart()
        return moved

    def send(self, tree: TensorTree) -> TensorTree:
        """Returns observations ``[N, ...]`` by leaf path on the device."""
        moved = {path: self._move(path, leaf) for path, leaf in tree.items()}
        self._depart()
        return moved

    def fetch(self, *tensors: Tensor) -> list[np.ndarray]:
        """Copies tensors to arrays; synchronizes with the device once for all of them."""
        if not self._is_cuda:
            return [tensor.cpu().numpy() for tensor in tensors]
        arriving = [
            self._room(f"fetched {number}", tensor).copy_(tensor, non_blocking=True)
            for number, tensor in enumerate(tensors)
        ]
        torch.cuda.current_stream(self.device).synchronize()
        return [tensor.numpy().copy() for tensor in arriving]  # the buffers are reused

    def _move(self, name: str, tensor: Tensor) -> Tensor:
        """Starts to copy an array to the device."""
        if not self._is_cuda:  # page-locked memory and events are CUDA's
            return tensor.to(self.device)
        if self._sent is not None:
            self._sent.synchronize()  # otherwise its buffer might be overwritten before it was read
            self._sent = None
        return self._room(name, tensor).copy_(tensor).to(self.device, non_blocking=True)

    def _depart(self) -> None:
        """Records an event after all copies started so far."""
        if self._is_cuda:
            self._sent = torch.cuda.Event()
            self._sent.record(torch.cuda.current_stream(self.device))

    def _room(self, name: str, tensor: Tensor) -> Tensor:
        """Returns page-locked memory in the shape of `tensor`."""
        pinned = self._pinned.get(name)
        if pinned is None or pinned.dtype != tensor.dtype or pinned.numel() < tensor.numel():
            pinned = self._pinned[name] = torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True, device="cpu")
        return pinned[: tensor.numel()].view(tensor.shape)
