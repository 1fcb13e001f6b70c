"""What the processor or the graphics card can do, and the way of experience to the latter."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import Rollout, TensorTree
from rookery.core.errors import ConfigError


def check_device(device: str) -> None:
    """Sees that networks can learn there.

    Raises:
        ConfigError: If there is no such device; says what is missing.
    """
    if device == "cpu" or torch.cuda.is_available():
        return
    why = "finds no graphics card; use device: cpu, or see whether nvidia-smi and CUDA_VISIBLE_DEVICES show one"
    if not torch.backends.cuda.is_built():
        why = "was built without CUDA; use device: cpu, or install a build with it (https://pytorch.org/get-started)"
    raise ConfigError(f"device = {device!r}: torch {torch.__version__} {why}")


def has_bfloat16(device: str) -> bool:
    """Whether products of bfloat16 numbers are instructions there, and hence faster than those of float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def device_of(module: nn.Module) -> torch.device:
    """Where a module's weights are; the processor if it has none."""
    return next((weight.device for weight in module.parameters()), torch.device("cpu"))


def as_tensor(values: Any) -> Tensor:
    """Returns a tensor as it is, and arrays and numbers in NumPy's type of them on the CPU, whatever torch's defaults
    are; the memory is that of the array.
    """
    return values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))


def check_compiler() -> None:
    """Sees that `torch.compile` finds what it writes programs with.

    Raises:
        ConfigError: If something is missing; says what.
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
    """Returns the way to a device and back; None for the CPU, where arrays are used as they are."""
    return None if device.type == "cpu" else Staging(device)


class Staging:
    """The way from arrays of this process to another device and back.

    Each array goes through page-locked memory of its own, which is made once and grows: from there a copy runs while
    this process goes on. What was sent is used up before the same is sent again, because the same memory takes that.

    Args:
        device: Where networks act or learn; not the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pinned: dict[str, Tensor] = {}
        self._sent: torch.cuda.Event | None = None

    def send_rollout(self, rollout: Rollout) -> Rollout:
        """The rollout on the device: itself where it was played there."""
        if rollout.reward.device.type == self.device.type:
            return rollout
        moved = rollout.map(self._move)
        self._depart()
        return moved

    def send(self, tree: TensorTree) -> TensorTree:
        """Observations ``[N, ...]`` by leaf path on the device."""
        moved = {path: self._move(path, leaf) for path, leaf in tree.items()}
        self._depart()
        return moved

    def fetch(self, *tensors: Tensor) -> list[np.ndarray]:
        """Arrays of what was computed: the device is waited for once, however many there are."""
        arriving = [
            self._room(f"fetched {number}", tensor).copy_(tensor, non_blocking=True)
            for number, tensor in enumerate(tensors)
        ]
        torch.cuda.current_stream(self.device).synchronize()
        return [tensor.numpy().copy() for tensor in arriving]  # whose memory the next ones will take

    def _move(self, name: str, tensor: Tensor) -> Tensor:
        """Begins to copy an array to the device."""
        if self._sent is not None:
            self._sent.synchronize()  # else its room might be written over before it was read
            self._sent = None
        return self._room(name, tensor).copy_(tensor).to(self.device, non_blocking=True)

    def _depart(self) -> None:
        """Notes the moment at which all that was begun will have been copied."""
        self._sent = torch.cuda.Event()
        self._sent.record(torch.cuda.current_stream(self.device))

    def _room(self, name: str, tensor: Tensor) -> Tensor:
        """Page-locked memory in the shape of `tensor`."""
        pinned = self._pinned.get(name)
        if pinned is None or pinned.dtype != tensor.dtype or pinned.numel() < tensor.numel():
            pinned = self._pinned[name] = torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True, device="cpu")
        return pinned[: tensor.numel()].view(tensor.shape)
