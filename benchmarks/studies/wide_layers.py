"""Cost of a pass forward and back on kernels and in torch, by threads: ``python benchmarks/studies/wide_layers.py``
prints a table of docs/kernels.md; ``--floats`` leaves the matrix unit out.

Networks have two hidden layers with tanh, observations of 64 numbers, and eight outputs. Milliseconds are medians of
passes in turn. Torch computes in float32 as it does without settings; kernels as policies use them, so large layers by
three bfloat16 numbers each where the CPU has a matrix unit.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from products import layers
from torch import Tensor, nn

from rookery.core.native import FLOATS, InputLeaf, LinearLayer, Network, best_build, kernel_threads
from rookery.core.process.runtime import keep_large_blocks

SHAPES = ((64, 64), (128, 128), (256, 256), (512, 512), (512, 1024), (1024, 1024), (2048, 2048))
"""Widths of hidden layers."""

ROWS = (256, 2048)

INPUTS, OUTPUTS, SECONDS = 64, 8, 1.5


def torch_twin(made: list[LinearLayer]) -> nn.Sequential:
    """Modules with the same weights."""
    parts: list[nn.Module] = []
    for number, layer in enumerate(made):
        linear = nn.Linear(layer.weight.shape[1], len(layer.weight))
        linear.weight.data, linear.bias.data = layer.weight.detach().clone(), layer.bias.detach().clone()
        parts += [nn.Tanh()] * (number > 0) + [linear]
    return nn.Sequential(*parts)


def by_kernels(network: Network, x: Tensor, gradient: Tensor, threads: int) -> None:
    """A pass there and back."""
    with kernel_threads(threads):
        network.forward([x], keep=True)
        network.write_gradients([gradient])


def by_torch(net: nn.Sequential, x: Tensor, gradient: Tensor, threads: int) -> None:
    """The same in torch."""
    torch.set_num_threads(threads)
    net.zero_grad(set_to_none=False)
    net(x).backward(gradient)


def times(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median milliseconds of each, in turn."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(next(iter(taken.values()))) < 5:
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - began)
    return {name: 1e3 * median(each) for name, each in taken.items()}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floats", action="store_true")
    numbers_of_one = 0 if parser.parse_args().floats else 3
    keep_large_blocks()
    build, generator, cores = best_build(), torch.Generator().manual_seed(0), os.cpu_count() or 1
    assert build is not None
    numbers = sorted({1, cores})
    names = [f"{way}, {count} thread{'s' * (count > 1)}" for way in ("kernels", "torch") for count in numbers]
    print(f"kernels {build.name}, {'a' if build.has_matrix_unit else 'no'} matrix unit; milliseconds\n")
    print(f"| hidden | rows | {' | '.join(names)} |\n|---|---{'|---' * len(names)}|")
    for hidden in SHAPES:
        widths = (INPUTS, *hidden, OUTPUTS)
        made = layers(widths, generator)
        network = Network(build, [InputLeaf(FLOATS, INPUTS)], [[one] for one in made], "tanh", parts=numbers_of_one)
        twin = torch_twin(made)
        for rows in ROWS:
            x, gradient = (torch.randn(rows, width, generator=generator) for width in (INPUTS, OUTPUTS))
            ways = [partial(by_kernels, network, x, gradient, count) for count in numbers]
            ways += [partial(by_torch, twin, x, gradient, count) for count in numbers]
            found = times(dict(zip(names, ways, strict=True)))
            columns = (" x ".join(map(str, hidden)), str(rows), *(f"{each:.2f}" for each in found.values()))
            print(f"| {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
