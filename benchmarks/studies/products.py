"""Cost and precision of matrix products of layers on kernels: ``python benchmarks/studies/products.py`` prints a
table of docs/kernels.md.

A network goes forward and back over 256 rows on one core, with numbers as floats, as three bfloat16 numbers each, and
as one. Microseconds are the least and the median of many passes in turn, since a rented core is not always alone.
Errors are those of the first layer's gradient, against float64: the root of the mean square over that of the gradient.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor, nn

from rookery.core.native import FLOATS, InputLeaf, LinearLayer, Network, best_build
from rookery.core.process.runtime import keep_large_blocks

ROWS, REPEATS = 256, 400

SHAPES = ((23, 256, 256, 1), (128, 128, 128, 128), (256, 256, 256, 256), (400, 300, 6))
"""Widths; the first is that of a critic of HalfCheetah."""

WAYS = {0: "floats", 3: "three numbers", 1: "bfloat16"}
"""Name of each way, by `parts` of a network."""


def layers(widths: tuple[int, ...], generator: torch.Generator) -> list[LinearLayer]:
    """Layers with places for gradients."""
    made = []
    for inputs, outputs in pairwise(widths):
        weight = nn.Parameter(torch.randn(outputs, inputs, generator=generator) * inputs**-0.5)
        bias = nn.Parameter(torch.zeros(outputs))
        weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
        made.append(LinearLayer(weight, bias))
    return made


def exact(made: list[LinearLayer], x: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of the first weight in float64."""
    weights = [layer.weight.detach().double().requires_grad_() for layer in made]
    features = x.double()
    for number, weight in enumerate(weights):
        features = features @ weight.T
        features = features if number + 1 == len(weights) else torch.tanh(features)
    (features * gradient.double()).sum().backward()
    assert weights[0].grad is not None
    return weights[0].grad


def main() -> None:
    """Measures and prints."""
    keep_large_blocks()
    torch.set_num_threads(1)
    build, generator = best_build(), torch.Generator().manual_seed(0)
    assert build is not None
    print(f"kernels {build.name}, {'a' if build.has_matrix_unit else 'no'} matrix unit\n")
    print("| widths | numbers | forward, us | back, us | error |\n|---|---|---|---|---|")
    for widths in SHAPES:
        made = layers(widths, generator)
        networks = {parts: Network(build, [InputLeaf(FLOATS, widths[0])], [[one] for one in made], "tanh", parts=parts)
                    for parts in WAYS}  # fmt: skip
        x, gradient = (torch.randn(ROWS, width, generator=generator) for width in (widths[0], widths[-1]))
        wanted, errors = exact(made, x, gradient), {}
        times: dict[int, tuple[list[float], list[float]]] = {parts: ([], []) for parts in WAYS}
        for _ in range(REPEATS):
            for parts, network in networks.items():
                began = time.perf_counter()
                network.forward([x], keep=True)
                between = time.perf_counter()
                network.write_gradients([gradient])
                times[parts][0].append(between - began)
                times[parts][1].append(time.perf_counter() - between)
                assert made[0].weight.grad is not None
                errors[parts] = float((made[0].weight.grad.double() - wanted).norm() / wanted.norm())
        for parts, name in WAYS.items():
            passes = " | ".join(f"{1e6 * min(way):,.0f}, {1e6 * median(way):,.0f}" for way in times[parts])
            print(f"| {'-'.join(map(str, widths))} | {name} | {passes} | {errors[parts]:.1e} |")


if __name__ == "__main__":
    main()
