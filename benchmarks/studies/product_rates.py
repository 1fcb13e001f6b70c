"""Rate of the products of layers as a part of the FMA peak of a core, beside PyTorch's, for each build of the kernels.

    python benchmarks/studies/product_rates.py           # prints a table for each build that this CPU can run
    python benchmarks/studies/product_rates.py --write   # ... into benchmarks/results/products.md

Three square layers with ReLU go forward and backward over 256 rows on one core, as in a gradient step: weights are
packed for every pass, and the rate counts the products alone. The peak is that of a loop of multiply-adds in registers
(`fma_peak.cpp`), compiled for the same instruction set. Each build is measured in a process of its own, in which
PyTorch's libraries are limited to the same instruction set (MKL by ``MKL_ENABLE_INSTRUCTIONS``, which Intel's CPUs
obey). Times are CPU seconds of the thread, the least of many passes: other programs on the machine slow a pass, and
never speed it up.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine
from products import layers

from rookery.core.native import FLOATS, InputLeaf, Network, best_build
from rookery.core.process.runtime import keep_large_blocks

HERE = Path(__file__).parent
PAGE = HERE.parent / "results" / "products.md"
WIDTHS = (64, 256, 512, 1024)
ROWS, LAYERS, SECONDS = 256, 3, 2.0
BUILDS = {"x86-64-v3": ("avx2", "AVX2"), "x86-64-v4": ("avx512", "AVX512")}
"""Names of the instruction set for ATen and MKL, by build of the kernels."""


def fma_peak(build: str) -> float:
    """Returns the GFLOP/s of multiply-adds in registers of one core, with the instruction set of a build."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak.so"
        flags = ["-O3", f"-march={build}", "-shared", "-fPIC", "-o", str(library)]
        subprocess.run(["g++", *flags, str(HERE / "fma_peak.cpp")], check=True)
        peak = ctypes.CDLL(str(library)).fma_peak
        peak.restype = ctypes.c_double
        return max(peak() for _ in range(200))


def least(run: Callable[[], object]) -> float:
    """Returns the least CPU seconds of a call, of those that fit into `SECONDS`."""
    best, end = float("inf"), time.thread_time() + SECONDS
    while (began := time.thread_time()) < end:
        run()
        best = min(best, time.thread_time() - began)
    return best


def rates(width: int, generator: torch.Generator) -> list[float]:
    """Returns GFLOP/s of the forward and the backward pass: of kernels, then of PyTorch."""
    build = best_build()
    assert build is not None
    made = layers((width,) * (LAYERS + 1), generator)
    network = Network(build, [InputLeaf(FLOATS, width)], [[one] for one in made], "relu", parts=0)
    x, gradient = (torch.randn(ROWS, width, generator=generator) for _ in range(2))
    weights = [(layer.weight.detach(), layer.bias.detach()) for layer in made]
    kept: list[torch.Tensor] = []

    def torch_forward() -> None:
        kept[:] = [x]
        for weight, bias in weights:
            kept.append(torch.relu_(torch.addmm(bias, kept[-1], weight.T)))

    def torch_backward() -> None:
        back = gradient
        for number in reversed(range(LAYERS)):
            torch.mm(back.T, kept[number])
            back = torch.mm(back, weights[number][0]) if number else back

    forward = least(lambda: network.forward([x], keep=True))
    backward = least(lambda: network.write_gradients([gradient]))
    torch_times = least(torch_forward), least(torch_backward)
    product = 2e-9 * ROWS * width * width
    return [
        product * LAYERS / forward,
        product * (2 * LAYERS - 1) / backward,  # the gradient of the inputs is not asked for
        product * LAYERS / torch_times[0],
        product * (2 * LAYERS - 1) / torch_times[1],
    ]


def table() -> str:
    """Measures this process's build; returns its section."""
    keep_large_blocks()
    torch.set_num_threads(1)
    build = best_build()
    assert build is not None
    peak, generator = fma_peak(build.name), torch.Generator().manual_seed(0)
    lines = [f"## {build.name}", "", f"FMA peak of one core: {peak:.1f} GFLOP/s.", ""]
    lines += ["| width | forward | backward | PyTorch forward | PyTorch backward |", "|---|---|---|---|---|"]
    for width in WIDTHS:
        cells = " | ".join(f"{rate:.1f} ({100 * rate / peak:.0f} %)" for rate in rates(width, generator))
        lines.append(f"| {width:,} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Runs one process a build, and prints or writes their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/products.md")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        print(table())
        return
    sections = []
    for build, (aten, mkl) in BUILDS.items():
        limits = {"ROOKERY_NATIVE": build, "ATEN_CPU_CAPABILITY": aten, "MKL_ENABLE_INSTRUCTIONS": mkl}
        environment = {**os.environ, **limits, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run([sys.executable, __file__, "--here"], env=environment, capture_output=True, text=True)
        sections.append(
            ran.stdout.strip() if ran.returncode == 0 else f"## {build}\n\nNot measured: {ran.stderr[-200:]}"
        )
        print(sections[-1], flush=True)
    if args.write:
        _, _, text = __doc__.partition("\n\n    python")
        about = text.partition("\n\n")[2].strip()
        versions = ", ".join(f"{name} {value}" for name, value in machine().items())
        head = f"# Products of layers\n\nMade by `python benchmarks/studies/product_rates.py --write`.\n{versions}."
        parts = [head, about, "GFLOP/s, and the part of the peak.", *sections]
        PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
