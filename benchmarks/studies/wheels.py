"""Builds of the kernels by different compilers and linkers beside each other: ``python benchmarks/studies/wheels.py
NAME=FILE.so ...`` prints rows of benchmarks/results/wheels.md.

All are compared with the first. A network has two hidden layers of 64 with tanh, as policies of PPO for small
environments. Microseconds are medians of calls in turn, on one thread.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

import torch
from products import layers
from torch import Tensor

from rookery.core import native
from rookery.core.native import FLOATS, Build, InputLeaf, Network

WIDTHS, ROWS, SECONDS = (8, 64, 64, 4), (8, 64, 1024), 4.0


class Case:
    """A network on a build, with the same numbers on each; the times of its calls, by number of rows."""

    def __init__(self, path: Path) -> None:
        native.FOLDER = path.parent
        generator = torch.Generator().manual_seed(0)
        self.layers = [(layer,) for layer in layers(WIDTHS, generator)]
        self.network = Network(Build(path.stem), [InputLeaf(FLOATS, WIDTHS[0])], self.layers, "tanh")
        self.given = {rows: torch.randn(rows, WIDTHS[0], generator=generator) for rows in ROWS}
        self.taken: dict[int, list[float]] = {rows: [] for rows in ROWS}

    def run(self, rows: int) -> Tensor:
        """Makes a pass forward and one back; returns the outputs and all gradients as one vector."""
        begun = time.perf_counter()
        (outputs,) = self.network.forward([self.given[rows]], keep=True)
        self.network.write_gradients([outputs])
        self.taken[rows].append(time.perf_counter() - begun)
        found = [part.grad for ((weight, bias),) in self.layers for part in (weight, bias) if part.grad is not None]
        return torch.cat([outputs.flatten(), *(gradient.flatten() for gradient in found)])


def main() -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    cases = {name: Case(Path(path).resolve()) for name, _, path in (word.partition("=") for word in sys.argv[1:])}
    print(f"| build | {' | '.join(f'{rows:,} rows, us' for rows in ROWS)} | largest difference |")
    print(f"|---{'|---' * (len(ROWS) + 1)}|")
    numbers = {name: torch.cat([case.run(rows) for rows in ROWS]) for name, case in cases.items()}
    for rows in ROWS:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            for case in cases.values():
                case.run(rows)
    first = next(iter(numbers.values()))
    for name, case in cases.items():
        difference = (
            "0" if numbers[name].equal(first) else f"{(numbers[name] - first).abs().max() / first.abs().max():.0e}"
        )
        cells = [f"{1e6 * median(case.taken[rows]):,.1f}" for rows in ROWS]
        print(f"| {name} | {' | '.join(cells)} | {difference} |")


if __name__ == "__main__":
    main()
