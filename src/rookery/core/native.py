"""Kernels for small networks on the processor: which build runs, and how Python calls it.

The C++ stands in `core/kernels/`, one source compiled once for each instruction set. It knows layers, heads and flat
vectors, and nothing of algorithms; the torch modules stay the definition of what is computed, and what runs where there
is no kernel. `native/qualify.py` says which networks qualify; `core/native_memory.py` has what remembers.
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
"""Environment variable: 0 hides all builds, the name of one takes it instead of the best."""

BY_CAPABILITY = {"AVX512": ("x86-64-v4", "x86-64-v3", "x86-64"), "AVX2": ("x86-64-v3", "x86-64")}
"""Builds that a processor can run, best first, by what torch calls its instruction set."""

ACTIVATIONS = ("none", "tanh", "relu", "elu", "silu", "gelu")
"""In the order of `enum Activation`."""

HEADS = ("distribution", "squashed", "deterministic", "values", "softmax")
"""What actions are drawn from, in the order of `enum HeadKind`."""

INTERFACE_VERSION = 19
"""Of `kernels.cpp`; a build of another one was made from other sources and is passed over."""

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
    """Addresses of an optimizer's counts of skipped steps."""

    _fields_ = [("skipped", ADDRESS), ("skipped_in_a_row", ADDRESS)]


class AdamStep(ctypes.Structure):
    """What `adam_flat` reads: settings, then addresses of what it moves, its gradient and moments, and how many numbers
    each has.
    """

    _fields_ = [
        *((name, ctypes.c_double) for name in ("lr", "beta1", "beta2", "eps", "max_norm")),
        *((name, ADDRESS) for name in ("steps", "data", "gradient", "mean", "square")),
        ("count", LONG),
    ]


class RMSpropSettings(ctypes.Structure):
    """What `rmsprop_flat` reads."""

    _fields_ = [(name, ctypes.c_double) for name in ("lr", "alpha", "eps", "max_norm")]


class HeadSettings(ctypes.Structure):
    """What `head_new` reads."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "choices", "flags", "numbers", "integers", "dueling", "smooth")),
        *((name, FLOAT) for name in ("log_std_min", "log_std_max")),
        *((name, ADDRESS) for name in ("rate", "spread")),
    ]


class PPOBatch(ctypes.Structure):
    """Addresses of what `ppo_gradients` reads, and of the numbers of its rows there; None where there are none."""

    _fields_ = [
        *((name, ADDRESS) for name in ("action", "mask", "logp", "advantage", "value_target", "value", "importance")),
        *((name, ADDRESS) for name in ("old", "kl_coef", "order")),
    ]


class PPOSettings(ctypes.Structure):
    """What `ppo_gradients` reads."""

    _fields_ = [
        *((name, FLOAT) for name in ("clip", "value_clip", "value_coef", "entropy_coef")),
        ("normalize_advantage", ctypes.c_int32),
    ]


class TDBatch(ctypes.Structure):
    """Addresses of what `td_gradients` reads, and of where it writes the rows' errors; None where there are none."""

    _fields_ = [
        (name, ADDRESS)
        for name in ("action", "reward", "discount", "weight", "next_mask", "error", "order", "next_order")
    ]


class TDSettings(ctypes.Structure):
    """What `td_gradients` reads."""

    _fields_ = [("is_double", ctypes.c_int32), ("delta", FLOAT)]


class CellKind(ctypes.Structure):
    """First fields of a row of `core/kernels/cells.h`: name, numbers of gates and states of a unit, and whether a cell
    has a weight for its own last output.
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
    "ppo_steps": (None, (*(ADDRESS,) * 9, INT, *(ADDRESS,) * 3, INT, ADDRESS, Counters, ADDRESS)),
    "td_gradients": (None, (*(ADDRESS,) * 7, INT, ADDRESS)),
    "td_step": (FLOAT, (*(ADDRESS,) * 7, INT, ADDRESS, ADDRESS, Counters)),
    "adam_flat": (FLOAT, (ADDRESS, Counters)),
    "rmsprop_flat": (FLOAT, (ADDRESS, ADDRESS, ADDRESS, LONG, ADDRESS, Counters)),
}
"""Result and arguments of each function of `kernels.cpp`."""


class Build:
    """Loads a compiled set of kernels.

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
        """Its functions by name; each lets other threads run meanwhile."""
        for function, (result, arguments) in SIGNATURES.items():
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
            self.call[function] = found
        self.has_matrix_unit: bool = bool(self.call["has_matrix_unit"]())
        """Whether the processor's matrix unit multiplies what is large; last bits are then others."""


def candidates() -> tuple[str, ...]:
    """Names of the builds that this processor can run, best first, whether they are there or not."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return BY_CAPABILITY.get(torch.backends.cpu.get_cpu_capability(), ("x86-64",))
    return (platform.machine(),)


def _is_whole(path: Path) -> bool:
    """Whether a library has all its bytes, so far as its header tells (of Linux); half of one would end the process."""
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return len(header) == 64
    sections, size, count = (int.from_bytes(header[a:b], sys.byteorder) for a, b in ((40, 48), (58, 60), (60, 62)))
    return path.stat().st_size >= sections + size * count


@cache
def best_build() -> Build | None:
    """The best build that is there and that this processor can run; None if there is none, or `SWITCH` hides it.

    Raises:
        ConfigError: If `SWITCH` says what cannot be.
    """
    wanted, here = os.environ.get(SWITCH, ""), [name for name in candidates() if (FOLDER / f"{name}.so").exists()]
    if wanted not in ("", "0", "1", *here):
        raise ConfigError(
            f"{SWITCH} = {wanted!r}: must be 0, 1 or a build that is here ({', '.join(here) or 'none is'})"
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
    """Why there are no kernels."""
    return f"{SWITCH}=0" if os.environ.get(SWITCH) == "0" else "no kernels are built, see docs/how-to/install.md"


_threads = ContextVar("threads of kernels", default=1)


@contextmanager
def kernel_threads(number: int) -> Iterator[None]:
    """Lets kernels use at most `number` threads inside, which share networks or rows. It changes no bit."""
    before = _threads.set(number)
    try:
        yield
    finally:
        _threads.reset(before)


def num_threads() -> int:
    """Threads that kernels may use now."""
    return _threads.get()


def path_name(on_kernels: bool) -> str:
    """What computes, in a word or two: ``kernels x86-64-v4``, with ``+amx`` for the matrix unit, or ``torch``."""
    build = best_build() if on_kernels else None
    return "torch" if build is None else f"kernels {build.name}{'+amx' * build.has_matrix_unit}"


class InputLeaf(NamedTuple):
    """One array of what a network reads, ``[N, width]``.

    Attributes:
        kind: `FLOATS`, `BYTES` or `CATEGORIES` (int64).
        width: Numbers or categories of a row.
        scale: Bytes without a mean are divided by it.
        mean: ``[width]``; floats and bytes become ``(x - mean) * inverse_std``. None = they do not.
        inverse_std: ``[width]``.
        clip: Largest size of a number after that.
    """

    kind: int
    width: int
    scale: float = 1.0
    mean: Tensor | None = None
    inverse_std: Tensor | None = None
    clip: float = 0.0


class LinearLayer(NamedTuple):
    """Weights of a linear layer, ``[outputs, inputs]`` and ``[outputs]``; gradients are written where they have any."""

    weight: Tensor
    bias: Tensor


class Norm(NamedTuple):
    """Weights of a layer normalization, ``[outputs]`` both, and what is added to the variance."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class Table:
    """What categories look up, in the place of products with one-hots.

    Attributes:
        rows: ``[sum of sizes, outputs of the first layer]``.
        offsets: ``[categories]`` int64, the first row of each.
    """

    rows: Tensor
    offsets: Tensor


class Network:
    """Runs layers on weights that lie in tensors, which must stay where they are.

    Args:
        build: The compiled kernels.
        leaves: What it reads; numbers in this order are the inputs of the first layer.
        layers: From the first to the last, each of one or more linear layers side by side; all but the last are
            followed by the activation.
        activation: One of `ACTIVATIONS`.
        table: What categories look up, added to the first layer's outputs.
        norms: Of each layer but the last, in order, what normalizes its outputs before the activation; empty = nothing.
        parts: Numbers may become sums of so many bfloat16 numbers before they are multiplied, which is done where the
            processor is faster at that: 1 rounds them, 3 are as precise as float32; 0 = they stay what they are. Sums
            and weights are float32.

    Raises:
        MemoryError: If there is not enough.
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
            leaves: ``[N, ...]`` contiguous, of the types and widths that were told.
            keep: Hold what `write_gradients` needs.
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
        """Writes the gradients of all weights, over what they were.

        Args:
            gradients: ``[N, outputs]`` contiguous, of each part's outputs of the first N rows of the last forward pass
                that kept; the other rows have none.
            inputs: Give the gradient of the numbers that were read, too.
            weights: Write those of the weights; without, they stay as they are.

        Returns:
            ``[N, numbers]``, if asked for; with respect to numbers as the first layer gets them.

        Raises:
            RuntimeError: If not so many rows were kept.
        """
        for number, gradient in enumerate(gradients):
            self._part_addresses[number] = gradient.data_ptr()
        rows = gradients[0].shape[0]
        wanted = torch.empty(rows, self.numbers, dtype=torch.float32, device="cpu") if inputs else None
        given = self._part_addresses, rows, weights, address(wanted)
        if not self._call["network_backward"](self.handle, *given, _threads.get()):
            raise RuntimeError(f"a backward pass of {rows:,} rows without a forward pass that kept what it needs")
        return wanted

    def pack(self) -> None:
        """Takes over changed weights for `policy_step`; a forward pass does so by itself."""
        self._call["network_pack"](self.handle)


class Networks:
    """Runs networks of one shape that read the same rows, each with one part: several critics.

    Args:
        build: What runs them.
        networks: The networks, of one shape.
    """

    def __init__(self, build: Build, networks: Sequence[Network]) -> None:
        self._call, self._networks = build.call, tuple(networks)
        self._handles = (ADDRESS * len(networks))(*[network.handle for network in networks])
        self._outputs, self._inputs = (ADDRESS * len(networks))(), (ADDRESS * len(networks))()
        self._leaves = (ADDRESS * MAX_LEAVES)()
        self.numbers = networks[0].numbers
        """Inputs of each one's first layer."""
        self.width = networks[0].widths[0]
        """Outputs of each."""

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
        """Writes the gradients of all weights, given those of the outputs, as `forward` gives them; other arguments and
        errors as of `Network.write_gradients`, which gives ``[K, N, numbers]`` here.
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
            raise RuntimeError(f"a backward pass of {rows:,} rows without a forward pass that kept what it needs")
        return wanted

    def _place(self, addresses: Any, parts: Tensor) -> None:
        first, size = parts.data_ptr(), parts.nbytes // len(self._networks)
        for number in range(len(self._networks)):
            addresses[number] = first + number * size


class HeadLayout(NamedTuple):
    """What a network's last layer means: the layout of actions, and what they are drawn from.

    Attributes:
        sizes: Options of each choice.
        flags: How many flags.
        numbers: How many numbers.
        integers: Actions are int64; else float32.
        kind: One of `HEADS`.
        log_std: Of ``squashed``: bounds of the log standard deviations that the network puts out behind the means of
            numbers, of which the tanh is taken (Haarnoja et al. 2018, appendix C).
        smooth: Tanh brings them into these bounds; else they are cut off there.
        dueling: Of ``values`` and ``softmax``: the network puts out the value of a state, then its advantages.
        rate: A tensor of one number, which is read whenever actions are drawn: of ``values``, the probability of any
            option; of ``softmax``, what values are divided by; of others, not 0 if numbers are to be even in [-1, 1].
        spread: Likewise: of ``deterministic``, the standard deviation of the noise.
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
    """Describes to kernels how actions are drawn from what a network puts out.

    Args:
        build: The compiled kernels.
        layout: What the network's outputs mean.

    Raises:
        MemoryError: If there is not enough.
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
    """Gives the address of a tensor's numbers; None of no tensor."""
    return None if tensor is None else tensor.data_ptr()


def array_address(array: Any) -> int:
    """Where an array's numbers lie, by the fastest way that NumPy allows.

    Raises:
        TypeError: If they do not lie in a row, or may not be written on; an array of none raises a ValueError.
    """
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


def readable(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array, or a copy of one that has no `array_address` or is of another type."""
    return array if array.flags.carray and array.dtype == dtype else array.astype(dtype, order="C")


def is_plain(tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> bool:
    """Whether a tensor lies in memory as kernels read it: on the processor, of this type, number after number."""
    return tensor is None or (tensor.dtype == dtype and tensor.is_contiguous() and tensor.is_cpu)


def places(weight: Tensor) -> tuple[int, int | None]:
    """Gives the addresses of a weight and its gradient; no gradient for a weight that does not learn."""
    gradient = weight.grad if weight.requires_grad else None
    return weight.data_ptr(), None if gradient is None else gradient.data_ptr()


def write_gradient(weight: Tensor, gradient: Tensor) -> None:
    """Gives a weight that no network holds its gradient."""
    assert weight.grad is not None
    weight.grad.copy_(gradient)
