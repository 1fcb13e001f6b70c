"""What it costs two learners of this machine to send each other gradients, and how often they do so in an update.

``python -m rookery.run.plan.exchange_cost LINE DRIVER DEATH_SIGNAL`` is the other learner of `measure_exchange`.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from rookery.cluster.local_ranks import LocalRanks, joined, send_error
from rookery.cluster.ranks import Ranks
from rookery.core.process.child_process import ConnectionClosed, die_with
from rookery.core.process.interrupt import Interrupt
from rookery.run.plan.cost_model import LinearCost

BETWEEN = 12
"""Operations on small matrices that each learner computes between two messages, on average: one that has been at work
hears later than one that waits, what sends needs a core too, and both wait for the slower one.
"""

WEIGHTS = torch.ones(64, 64, dtype=torch.float32, device="cpu") / 64

GATHERED_BYTES = 1_000
"""About the size of a small object that all learners hear of; with its length it takes two messages."""


class CountedRanks(Ranks):
    """Stands for all learners and sends nothing: whoever trains with it computes what one of them does, and messages
    are counted.

    Args:
        size: How many learners there are; the others have what this one has.

    Attributes:
        messages: Messages that it would have waited for so far.
        bytes: What it would have sent to each of the others.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.messages = self.bytes = 0

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum over learners that all have the same."""
        self._count(1, values.numel() * values.element_size())
        return values * self.size

    def numbers(self, *mine: float) -> list[list[float]]:
        """Returns what each has given: the same."""
        self._count(1, 8 * self.size * len(mine))
        return [[*mine]] * self.size

    def gather(self, value: Any) -> list[Any]:
        """Returns what each has given: the same."""
        self._count(2, GATHERED_BYTES)
        return [value] * self.size

    def broadcast_call(self, call: str, argument: Any = None) -> Any:
        """Returns what this learner says."""
        self.gather((call, argument))
        return argument

    def asked(self, interrupt: Interrupt) -> bool:
        """Whether this learner was asked to stop."""
        self._count(1, 8 * self.size)
        return interrupt.number is not None

    def _count(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size


def exchange_seconds(ranks: Ranks, numbers: int, times: int) -> float:
    """Measures how much longer two learners compute that have to agree on a sum again and again.

    Args:
        ranks: The learners; each calls this.
        numbers: How many numbers are summed.
        times: How often.

    Returns:
        Seconds that each sum adds, on average.
    """
    values, rng = torch.ones(numbers, dtype=torch.float32, device="cpu"), Random(ranks.rank)
    work = [rng.randint(0, 2 * BETWEEN) for _ in range(times)]
    began = perf_counter()
    for operations in work:
        _compute(operations)
    alone = perf_counter() - began
    began = perf_counter()
    for operations in work:
        _compute(operations)
        ranks.sums(values)
    return max(0.0, perf_counter() - began - alone) / times


def _compute(operations: int) -> None:
    """Computes as a gradient step does."""
    matrix = torch.ones(128, 64, dtype=torch.float32, device="cpu")
    for _ in range(operations):
        matrix = torch.tanh(matrix @ WEIGHTS)


def rounds_of(numbers: int) -> Sequence[tuple[int, int]]:
    """Lists what is measured for gradients of so many numbers: how many are summed, and how often."""
    return (1, 50), (1, 400), (max(2, numbers), max(10, min(400, 20_000_000 // max(1, numbers))))


def measure_exchange(numbers: int) -> LinearCost:
    """Measures what a message between two learners costs, by its bytes.

    Args:
        numbers: Parameters of the networks, each of which has a number in the gradient.

    Raises:
        TrainingError: If the other learner does not begin.
    """
    with closing(LocalRanks("rookery.run.plan.exchange_cost", numbers, 2)) as ranks:
        _, *found = [(size, exchange_seconds(ranks, size, times)) for size, times in rounds_of(numbers)]
    return LinearCost.through(*((4.0 * size, seconds) for size, seconds in found))


if __name__ == "__main__":
    line = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[2]), line, bool(int(sys.argv[3])))
    try:
        torch.set_num_threads(1)
        ranks, numbers = joined(line)
        for size, times in rounds_of(numbers):
            exchange_seconds(ranks, size, times)
    except ConnectionClosed:
        pass
    except BaseException as error:
        send_error(line, error, traceback.format_exc())
    os._exit(0)
