"""Kernels for small networks on the CPU: choice of the build, and its Python interface.

The C++ source in `core/kernels/` is compiled once for each instruction set. It has layers, heads and flat vectors, but
no algorithms; the torch modules remain the reference, and run if there is no kernel. `native/qualify.py` decides which
networks qualify; `core/native_memory.py` has recurrent cells.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.core.errors import ConfigError

FOLDER = Path(__file__).parent / "kernels"
SWITCH = "ROOKERY_NATIVE"
"""Environment variable: 0 disables all builds, the name of a build selects it instead of the best."""

BY_CAPABILITY = {"AVX512": ("x86-64-v4", "x86-64-v3", "x86-64"), "AVX2": ("x86-64-v3", "x86-64")}
"""Builds that a CPU can run, best first, by torch's name of its instruction set."""

ACTIVATIONS = ("linear", "tanh", "relu", "elu", "silu", "gelu")
"""Activations in the order of `enum Activation`."""

HEADS = ("distribution", "squashed", "deterministic", "values", "softmax")
"""Kinds of heads in the order of `enum HeadKind`."""

INTERFACE_VERSION = 23
"""Version of `kernels.cpp`; builds of other versions are ignored."""

FLOATS, BYTES, CATEGORIES = range(3)
MAX_LEAVES, MAX_LAYERS, MAX_PARTS = 64, 16, 4

ADDRESS, INTS, INT, LONG, FLOAT = (
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_float,
)


class Counters(ctypes.Structure):
    """Addresses of the counters of skipped steps of an optimizer."""

    _fields_ = [("skipped", ADDRESS), ("skipped_in_a_row", ADDRESS)]


class AdamStep(ctypes.Structure):
    """Arguments of `adam_flat`: settings, then addresses of weights, gradient and moments, and their length."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("lr", "beta1", "beta2", "eps", "max_norm")),
        *((name, ADDRESS) for name in ("steps", "data", "gradient", "mean", "square")),
        ("count", LONG),
    ]


class RMSpropSettings(ctypes.Structure):
    """Settings of `rmsprop_flat`."""

    _fields_ = [(name, ctypes.c_double) for name in ("lr", "alpha", "eps", "max_norm")]


class HeadSettings(ctypes.Structure):
    """Settings of `head_new`."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "choices", "flags", "numbers", "integers", "dueling", "smooth")),
        *((name, FLOAT) for name in ("log_std_min", "log_std_max")),
        *((name, ADDRESS) for name in ("rate", "spread")),
    ]


class PPOBatch(ctypes.Structure):
    """Addresses of the inputs of `ppo_gradients`, and of the indices of its rows; None for missing ones."""

    _fields_ = [
        *((name, ADDRESS) for name in ("action", "mask", "logp", "advantage", "value_target", "value", "importance")),
        *((name, ADDRESS) for name in ("old", "kl_coef", "order")),
    ]


class PPOSettings(ctypes.Structure):
    """Settings of `ppo_gradients`."""

    _fields_ = [
        *((name, FLOAT) for name in ("clip", "value_clip", "value_loss_clip", "value_huber")),
        *((name, FLOAT) for name in ("value_coef", "entropy_coef")),
        ("normalize_advantage", ctypes.c_int32),
        ("least_deviation", FLOAT),
    ]


class TDBatch(ctypes.Structure):
    """Addresses of the inputs of `td_gradients`, and of its output, the rows' errors; None for missing ones."""

    _fields_ = [
        (name, ADDRESS)
        for name in ("action", "reward", "discount", "weight", "next_mask", "error", "order", "next_order")
    ]


class TDSettings(ctypes.Structure):
    """Settings of `td_gradients`."""

    _fields_ = [("is_double", ctypes.c_int32), ("delta", FLOAT)]


class CellKind(ctypes.Structure):
    """First fields of a row of `core/kernels/cells.h`: name, numbers of gates and states per unit, and whether a cell
    has a recurrent weight.
    """

    _fields_ = [("name", ctypes.c_char_p), *((name, ctypes.c_int) for name in ("gates", "states", "looks_back"))]


SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "interface_version": (INT, ()),
    "vector_lanes": (INT, ()),
    "has_matrix_unit": (INT, ()),
    "network_new": (ADDRESS, (INT, INT)),
    "network_leaf": (None, (ADDRESS, INT, INT, FLOAT, ADDRESS, ADDRESS, FLOAT)),
    "network_table": (None, (ADDRESS, ADDRESS, ADDRESS, ADDRESS, INT)),
    "network_layer": (None, (ADDRESS,)),
    "network_part": (None, (ADDRESS, INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS)),
    "network_norm": (None, (*(ADDRESS,) * 5, FLOAT)),
    "network_finish": (INT, (ADDRESS,)),
    "network_free": (None, (ADDRESS,)),
    "network_pack": (None, (ADDRESS,)),
    "network_forward": (INT, (ADDRESS, ADDRESS, INT, INT, ADDRESS, INT)),
    "network_backward": (INT, (ADDRESS, ADDRESS, INT, INT, ADDRESS, INT)),
    "networks_forward": (INT, (ADDRESS, INT, ADDRESS, INT, INT, ADDRESS, INT)),
    "networks_backward": (INT, (ADDRESS, INT, ADDRESS, INT, INT, ADDRESS, INT)),
    "cell_kind": (ctypes.POINTER(CellKind), (ctypes.c_char_p,)),
    "cell_new": (ADDRESS, (ctypes.POINTER(CellKind), INT, ADDRESS, ADDRESS)),
    "cell_free": (None, (ADDRESS,)),
    "cell_pack": (None, (ADDRESS,)),
    "cell_step": (None, (ADDRESS, ADDRESS, INT, ADDRESS, LONG, ADDRESS)),
    "cell_forward": (INT, (*(ADDRESS,) * 4, INT, INT, ADDRESS, LONG, ADDRESS, LONG, ADDRESS, INT)),
    "cell_backward": (None, (ADDRESS, ADDRESS, ADDRESS)),
    "head_new": (ADDRESS, (INTS, ADDRESS)),
    "head_free": (None, (ADDRESS,)),
    "head_draw": (None, (ADDRESS, ADDRESS, INT, ADDRESS, ADDRESS, ADDRESS)),
    "squashed_gradients": (None, (ADDRESS, ADDRESS, INT, *(ADDRESS,) * 4, INT, INT, ADDRESS)),
    "policy_step": (None, (ADDRESS, ADDRESS, ADDRESS, INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)),
    "policies_step": (None, (*(ADDRESS,) * 4, INT, *(ADDRESS,) * 6)),
    "memory_policy_step": (None, (ADDRESS, ADDRESS, INTS, INT, ADDRESS, ADDRESS, INT, ADDRESS, LONG, *(ADDRESS,) * 5)),
    "ppo_gradients": (None, (*(ADDRESS,) * 7, INT, *(ADDRESS,) * 3, INT)),
    "ppo_output_gradients": (None, (*(ADDRESS,) * 3, INT, *(ADDRESS,) * 4, INT, *(ADDRESS,) * 3)),
    "ppo_steps": (None, (*(ADDRESS,) * 9, INT, *(ADDRESS,) * 3, INT, ADDRESS, Counters, ADDRESS)),
    "td_gradients": (None, (*(ADDRESS,) * 7, INT, ADDRESS)),
    "td_step": (FLOAT, (*(ADDRESS,) * 7, INT, ADDRESS, ADDRESS, Counters)),
    "adam_flat": (FLOAT, (ADDRESS, Counters)),
    "rmsprop_flat": (FLOAT, (ADDRESS, ADDRESS, ADDRESS, LONG, ADDRESS, Counters)),
}
"""Result and argument types of each function of `kernels.cpp`."""


class Build:
    """A loaded build of the kernels.

    Args:
        name: Instruction set of the build, such as ``x86-64-v4``.

    Raises:
        OSError: If it is damaged, cannot be loaded, or was made from other sources.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        path = FOLDER / f"{name}.so"
        if not _is_whole(path):
            raise OSError(f"{path.name} is damaged")
        library = ctypes.CDLL(str(path))
        if not hasattr(library, "interface_version") or library.interface_version() != INTERFACE_VERSION:
            raise OSError(f"{path.name} is not of this version of Rookery")
        self.call: dict[str, Callable[..., Any]] = {}
        """Functions of the build by name; they release Python's lock."""
        for function, (result, arguments) in SIGNATURES.items():
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
            self.call[function] = found
        self.has_matrix_unit: bool = bool(self.call["has_matrix_unit"]())
        """Whether the CPU's matrix unit computes large products; results then differ in the last bits."""


def candidates() -> tuple[str, ...]:
    """Returns the names of the builds that this CPU can run, best first, existing or not."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return BY_CAPABILITY.get(torch.backends.cpu.get_cpu_capability(), ("x86-64",))
    return (platform.machine(),)


def _is_whole(path: Path) -> bool:
    """Whether a library is complete, according to its ELF header; a truncated one would crash the process."""
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return len(header) == 64
    sections, size, count = (int.from_bytes(header[a:b], sys.byteorder) for a, b in ((40, 48), (58, 60), (60, 62)))
    return path.stat().st_size >= sections + size * count


@cache
def best_build() -> Build | None:
    """Returns the best existing build that this CPU can run; None if there is none, or `SWITCH` disables it.

    Raises:
        ConfigError: If the value of `SWITCH` is invalid.
    """
    wanted, here = os.environ.get(SWITCH, ""), [name for name in candidates() if (FOLDER / f"{name}.so").exists()]
    if wanted not in ("", "0", "1", *here):
        raise ConfigError(
            f"{SWITCH} = {wanted!r}: must be 0, 1 or an existing build ({', '.join(here) or 'there is none'})"
        )
    for name in here if wanted != "0" else ():
        if wanted in ("", "1", name):
            try:
                return Build(name)
            except OSError as error:
                text = f"kernels: {error}, and is not used; rebuild: python setup.py build_ext --inplace"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
    return None


def why_none() -> str:
    """Returns the reason why there are no kernels."""
    return f"{SWITCH}=0" if os.environ.get(SWITCH) == "0" else "no kernels are built, see docs/how-to/install.md"


_threads = ContextVar("threads of kernels", default=1)


@contextmanager
def kernel_threads(number: int) -> Iterator[None]:
    """Limits the number of threads within kernels, which share networks or rows. Results do not depend on it."""
    before = _threads.set(number)
    try:
        yield
    finally:
        _threads.reset(before)


def num_threads() -> int:
    """Returns the present limit of threads of kernels."""
    return _threads.get()


def path_name(on_kernels: bool) -> str:
    """Returns the implementation's name: ``kernels x86-64-v4``, with ``+amx`` for the matrix unit, or ``torch``."""
    build = best_build() if on_kernels else None
    return "torch" if build is None else f"kernels {build.name}{'+amx' * build.has_matrix_unit}"


class InputLeaf(NamedTuple):
    """One input array of a network, ``[N, width]``.

    Attributes:
        kind: `FLOATS`, `BYTES` or `CATEGORIES` (int64).
        width: Numbers or categories per row.
        scale: Divisor of bytes without a mean.
        mean: ``[width]``; floats and bytes become ``(x - mean) * inverse_std``. None = no normalization.
        inverse_std: ``[width]``.
        clip: Limit of the size of normalized numbers.
    """

    kind: int
    width: int
    scale: float = 1.0
    mean: Tensor | None = None
    inverse_std: Tensor | None = None
    clip: float = 0.0


class LinearLayer(NamedTuple):
    """Weight ``[outputs, inputs]`` and bias ``[outputs]`` of a linear layer; gradients are written if they have any."""

    weight: Tensor
    bias: Tensor


class Norm(NamedTuple):
    """Weight and bias of a layer normalization, ``[outputs]`` both, and its epsilon."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class Table:
    """Table of rows looked up by category, in place of products with one-hots.

    Attributes:
        rows: ``[sum of sizes, outputs of the first layer]``.
        offsets: ``[categories]`` int64, the first row of each.
    """

    rows: Tensor
    offsets: Tensor


class Network:
    """Network of linear layers on kernels, on weights in tensors at fixed addresses.

    Args:
        build: The compiled kernels.
        leaves: Its input arrays; their numbers in this order are the inputs of the first layer.
        layers: From the first to the last, each of one or more parallel linear layers; the activation follows all but
            the last.
        activation: One of `ACTIVATIONS`.
        table: Rows that categories look up, added to the first layer's outputs.
        norms: Layer normalization before the activation, for each layer but the last, in order; empty = none.
        parts: Number of bfloat16 numbers whose sum may represent a factor of a product, if the CPU is faster that way:
            1 rounds factors, 3 are as precise as float32; 0 = float32 factors. Sums and weights are float32.

    Raises:
        MemoryError: If there is not enough memory.
    """

    def __init__(
        self,
        build: Build,
        leaves: Sequence[InputLeaf],
        layers: Sequence[Sequence[LinearLayer]],
        activation: str,
        table: Table | None = None,
        norms: Sequence[Norm] = (),
        parts: int = 0,
    ) -> None:
        self._call = call = build.call
        self._kept_alive = (leaves, layers, table, norms)
        self.widths = [len(part.weight) for part in layers[-1]]
        """Outputs of each part of the last layer."""
        self.numbers = sum(leaf.width for leaf in leaves if leaf.kind != CATEGORIES)
        """Inputs of the first layer."""
        self.handle = call["network_new"](ACTIVATIONS.index(activation), parts)
        if not self.handle:
            raise MemoryError("no memory for a network")
        self._finalizer = weakref.finalize(self, call["network_free"], self.handle)
        for leaf in leaves:
            mean, inverse = address(leaf.mean), address(leaf.inverse_std)
            call["network_leaf"](self.handle, leaf.kind, leaf.width, leaf.scale, mean, inverse, leaf.clip)
        if table is not None:
            call["network_table"](self.handle, *places(table.rows), address(table.offsets), len(table.rows))
        for number, layer in enumerate(layers):
            call["network_layer"](self.handle)
            for weight, bias in layer:
                (w, w_gradient), (b, b_gradient) = places(weight), places(bias)
                call["network_part"](self.handle, len(weight), w, b, w_gradient, b_gradient)
            for norm in norms[number : number + 1]:
                (w, w_gradient), (b, b_gradient) = places(norm.weight), places(norm.bias)
                call["network_norm"](self.handle, w, b, w_gradient, b_gradient, norm.eps)
        if not call["network_finish"](self.handle):
            raise MemoryError("no memory for a network")
        self._leaf_addresses = (ADDRESS * len(leaves))()
        self._part_addresses = (ADDRESS * len(layers[-1]))()

    def forward(self, leaves: Sequence[Tensor], keep: bool) -> list[Tensor]:
        """Computes the outputs ``[N, outputs]`` of each part of the last layer.

        Args:
            leaves: ``[N, ...]`` contiguous, of the declared types and widths.
            keep: Whether to keep the data that `write_gradients` needs.
        """
        rows = leaves[0].shape[0]
        for number, leaf in enumerate(leaves):
            self._leaf_addresses[number] = leaf.data_ptr()
        outputs = [torch.empty(rows, width, dtype=torch.float32, device="cpu") for width in self.widths]
        for number, output in enumerate(outputs):
            self._part_addresses[number] = output.data_ptr()
        given = self._leaf_addresses, rows, keep, self._part_addresses
        if not self._call["network_forward"](self.handle, *given, _threads.get()):
            raise MemoryError(f"no memory for {rows:,} rows of a network")
        return outputs

    def write_gradients(
        self, gradients: Sequence[Tensor], inputs: bool = False, *, weights: bool = True
    ) -> Tensor | None:
        """Writes the gradients of all weights, replacing their values.

        Args:
            gradients: ``[N, outputs]`` contiguous, of each part's outputs for the first N rows of the last kept forward
                pass; the other rows have none.
            inputs: Whether to return the gradient of the inputs too.
            weights: Whether to write the gradients of the weights; otherwise they stay unchanged.

        Returns:
            ``[N, numbers]`` with `inputs`, with respect to the inputs of the first layer.

        Raises:
            RuntimeError: If fewer rows were kept.
        """
        for number, gradient in enumerate(gradients):
            self._part_addresses[number] = gradient.data_ptr()
        rows = gradients[0].shape[0]
        wanted = torch.empty(rows, self.numbers, dtype=torch.float32, device="cpu") if inputs else None
        given = self._part_addresses, rows, weights, address(wanted)
        if not self._call["network_backward"](self.handle, *given, _threads.get()):
            raise RuntimeError(f"a backward pass of {rows:,} rows without a kept forward pass")
        return wanted

    def pack(self) -> None:
        """Updates the copy of changed weights used by `policy_step`; forward passes update their own."""
        self._call["network_pack"](self.handle)


class Networks:
    """Networks of one shape on the same rows, each with one part, such as several critics.

    Args:
        build: The compiled kernels.
        networks: The networks, of one shape.
    """

    def __init__(self, build: Build, networks: Sequence[Network]) -> None:
        self._call, self._networks = build.call, tuple(networks)
        self._handles = (ADDRESS * len(networks))(*[network.handle for network in networks])
        self._outputs, self._inputs = (ADDRESS * len(networks))(), (ADDRESS * len(networks))()
        self._leaves = (ADDRESS * MAX_LEAVES)()
        self.numbers = networks[0].numbers
        """Inputs of each network's first layer."""
        self.width = networks[0].widths[0]
        """Outputs of each network."""

    def forward(self, leaves: Sequence[Tensor], keep: bool) -> Tensor:
        """Computes the outputs ``[K, N, width]`` of K networks, ``[K, N]`` of width 1; arguments as of
        `Network.forward`.
        """
        count, rows = len(self._networks), leaves[0].shape[0]
        for number, leaf in enumerate(leaves):
            self._leaves[number] = leaf.data_ptr()
        shape = (count, rows) if self.width == 1 else (count, rows, self.width)
        outputs = torch.empty(shape, dtype=torch.float32, device="cpu")
        self._place(self._outputs, outputs)
        given = self._leaves, rows, keep, self._outputs
        made = self._call["networks_forward"](self._handles, count, *given, _threads.get())
        if not made:
            raise MemoryError(f"no memory for {rows:,} rows of {count} networks")
        return outputs

    def write_gradients(self, gradients: Tensor, inputs: bool = False, *, weights: bool = True) -> Tensor | None:
        """Writes the gradients of all weights, given those of the outputs of `forward`; other arguments and errors as
        of `Network.write_gradients`. Returns ``[K, N, numbers]``.
        """
        count, rows = len(self._networks), gradients.shape[1]
        gradients = gradients.contiguous()
        self._place(self._outputs, gradients)
        wanted = torch.empty(count, rows, self.numbers, dtype=torch.float32, device="cpu") if inputs else None
        if wanted is not None:
            self._place(self._inputs, wanted)
        made = self._call["networks_backward"](
            self._handles, count, self._outputs, rows, weights, None if wanted is None else self._inputs, _threads.get()
        )
        if not made:
            raise RuntimeError(f"a backward pass of {rows:,} rows without a kept forward pass")
        return wanted

    def _place(self, addresses: Any, parts: Tensor) -> None:
        first, size = parts.data_ptr(), parts.nbytes // len(self._networks)
        for number in range(len(self._networks)):
            addresses[number] = first + number * size


class HeadLayout(NamedTuple):
    """Meaning of a network's last layer: the layout of actions, and their distribution.

    Attributes:
        sizes: Options of each discrete action.
        flags: Number of flags.
        numbers: Number of continuous elements.
        integers: Whether actions are int64; otherwise float32.
        kind: One of `HEADS`.
        log_std: For ``squashed``: bounds of the log standard deviations, which follow the means in the output; actions
            are tanh of the normal numbers (Haarnoja et al. 2018, appendix C).
        smooth: Whether tanh maps them to these bounds; otherwise they are clipped.
        dueling: For ``values`` and ``softmax``: the network outputs the value of a state, then its advantages.
        rate: A tensor of one number, which is read whenever actions are drawn: for ``values``, epsilon; for
            ``softmax``, the temperature; for others, not 0 if actions are uniform in [-1, 1].
        spread: Likewise: for ``deterministic``, the standard deviation of the noise.
    """

    sizes: Sequence[int]
    flags: int
    numbers: int
    integers: bool
    kind: str = "distribution"
    log_std: tuple[float, float] = (0.0, 0.0)
    smooth: bool = False
    dueling: bool = False
    rate: Tensor | None = None
    spread: Tensor | None = None


class DrawingHead:
    """Describes to kernels how to draw actions from a network's outputs.

    Args:
        build: The compiled kernels.
        layout: Meaning of the network's outputs.

    Raises:
        MemoryError: If there is not enough memory.
    """

    def __init__(self, build: Build, layout: HeadLayout) -> None:
        sizes, flags, numbers, integers, kind, log_std, smooth, dueling, rate, spread = layout
        self._kept_alive = rate, spread
        widths = (ctypes.c_int32 * len(sizes))(*sizes)
        shape = len(sizes), flags, numbers, integers, dueling, smooth
        settings = HeadSettings(HEADS.index(kind), *shape, *log_std, address(rate), address(spread))
        self.handle = build.call["head_new"](widths, ctypes.byref(settings))
        if not self.handle:
            raise MemoryError("no memory for a head")
        self._finalizer = weakref.finalize(self, build.call["head_free"], self.handle)


def address(tensor: Tensor | None) -> int | None:
    """Returns the address of a tensor's data; None for None."""
    return None if tensor is None else tensor.data_ptr()


def array_address(array: Any) -> int:
    """Returns the address of an array's data, by the fastest way of NumPy.

    Raises:
        TypeError: If the array is not contiguous or not writable; an empty array raises ValueError.
    """
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


def readable(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Returns the array, or a copy if it has another type or no `array_address`."""
    return array if array.flags.carray and array.dtype == dtype else array.astype(dtype, order="C")


def is_plain(tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> bool:
    """Whether a tensor has the memory layout that kernels need: on the CPU, of this type, contiguous."""
    return tensor is None or (tensor.dtype == dtype and tensor.is_contiguous() and tensor.is_cpu)


def places(weight: Tensor) -> tuple[int, int | None]:
    """Returns the addresses of a weight and its gradient, None for a weight that does not learn."""
    gradient = weight.grad if weight.requires_grad else None
    return weight.data_ptr(), None if gradient is None else gradient.data_ptr()


def write_gradient(weight: Tensor, gradient: Tensor) -> None:
    """Sets the gradient of a weight outside of networks."""
    assert weight.grad is not None
    weight.grad.copy_(gradient)
