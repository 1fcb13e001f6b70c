"""Threads that share a pass: results do not depend on their number or on which thread takes a part."""

import threading

import pytest
import torch
from torch import nn

from rookery.core.native import CATEGORIES, FLOATS, InputLeaf, LinearLayer, Network, Norm, Table, kernel_threads

ROWS = 1000
"""Enough for a part of these networks' passes for each of three threads, and no whole number of blocks."""


def parameter(*shape, generator, scale=1.0):
    made = nn.Parameter(scale * torch.randn(*shape, generator=generator))
    made.grad = torch.full_like(made, torch.nan)
    return made


class Net:
    """A network with all that has gradients; the same numbers whenever it is made.

    Args:
        build: What runs it.
        widths: Of inputs and hidden layers.
        outputs: Of each part of the last layer.
        sizes: Of the tables of categories beside the inputs; empty = none.
        norm: Hidden layers are normalized.
        parts: As of `Network`.
    """

    def __init__(self, build, widths, outputs=(3, 1), sizes=(), norm=False, parts=0):
        generator = torch.Generator().manual_seed(0)
        make = lambda *shape, **more: parameter(*shape, generator=generator, **more)  # noqa: E731
        self.weights = [
            [LinearLayer(make(width, inputs, scale=inputs**-0.5), make(width)) for width in of]
            for inputs, of in zip(widths, [*((width,) for width in widths[1:]), outputs], strict=True)
        ]
        self.norms = [Norm(make(width), make(width), 1e-5) for width in widths[1:] if norm]
        leaves, self.table = [InputLeaf(FLOATS, widths[0])], None
        self.read = [torch.randn(ROWS, widths[0], generator=generator)]
        if sizes:
            leaves.append(InputLeaf(CATEGORIES, len(sizes)))
            self.read.append(torch.stack([torch.randint(size, (ROWS,), generator=generator) for size in sizes], 1))
            self.table = Table(make(sum(sizes), widths[1]), torch.tensor([0, *sizes]).cumsum(0)[:-1])
        self.network = Network(build, leaves, self.weights, "tanh", self.table, self.norms, parts)
        self.gradients = [torch.randn(ROWS, width, generator=generator) for width in outputs]

    def passes(self, threads):
        """Everything that comes of a pass forward and back, of one without what a way back needs in between."""
        with kernel_threads(threads):
            outputs = self.network.forward(self.read, keep=True)
            others = self.network.forward([leaf.flip(0) for leaf in self.read], keep=False)
            inputs = self.network.write_gradients(self.gradients, inputs=True)
        learned = [each for layer in self.weights for part in layer for each in part]
        learned += [each for norm in self.norms for each in (norm.weight, norm.bias)]
        learned += [] if self.table is None else [self.table.rows]
        return [*outputs, *others, inputs, *[each.grad.clone() for each in learned]]


NETS = {
    "inputs that fill no vector": {"widths": (23, 128, 96)},
    "whole vectors": {"widths": (64, 128, 128)},
    "wide heads": {"widths": (48, 160), "outputs": (70, 40)},
    "categories": {"widths": (40, 200, 64), "sizes": (5, 30)},
    "normalized": {"widths": (40, 144, 130), "norm": True},
    "three numbers": {"widths": (129, 160, 256), "parts": 3},
    "bfloat16": {"widths": (60, 150, 131), "parts": 1},
}


@pytest.mark.parametrize("net", NETS)
def test_no_bit_depends_on_the_number_of_threads(kernels, net):
    alone = Net(kernels, **NETS[net]).passes(1)
    assert all(each.isfinite().all() for each in alone)
    for threads in (2, 3, 5):
        shared = Net(kernels, **NETS[net]).passes(threads)
        assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True)), threads


def test_threads_that_come_and_go_leave_what_was_kept(kernels):
    """A pass that keeps nothing, by more threads than the one that kept, has no more room than was left to it."""
    net, same = Net(kernels, **NETS["whole vectors"]), Net(kernels, **NETS["whole vectors"])
    net.network.forward(net.read, keep=True)
    with kernel_threads(4):
        net.network.forward([leaf.flip(0) for leaf in net.read], keep=False)
        inputs = net.network.write_gradients(net.gradients, inputs=True)
    same.network.forward(same.read, keep=True)
    assert torch.equal(inputs, same.network.write_gradients(same.gradients, inputs=True))


def test_learners_that_ask_for_helpers_at_the_same_time_get_their_own_numbers(kernels):
    """A caller that finds all helpers busy does all parts alone."""
    nets, found = [Net(kernels, **NETS["whole vectors"]) for _ in range(3)], {}

    def learn(number):
        found[number] = [nets[number].passes(3) for _ in range(5)][-1]

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Net(kernels, **NETS["whole vectors"]).passes(1)
    for number in range(3):
        assert all(torch.equal(one, other) for one, other in zip(alone, found[number], strict=True))
