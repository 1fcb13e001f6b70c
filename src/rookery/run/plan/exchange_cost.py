"""Cost of gradient exchange: seconds of a message between two learners of this machine, and messages of an update.

``python -m rookery.run.plan.exchange_cost LINE DRIVER DEATH_SIGNAL`` runs the other learner of `measure_exchange`.
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
"""Mean number of operations on small matrices between two messages of a learner: a busy learner receives later than a
waiting one, sending needs a core too, and both wait for the slower one.
"""

WEIGHTS = torch.ones(64, 64, dtype=torch.float32, device="cpu") / 64

GATHERED_BYTES = 1_000
"""Approximate size of a small object that all learners receive; with its length it takes two messages."""


class CountedRanks(Ranks):
    """Stand-in for all learners that counts messages instead of sending them: a trainer computes as one of them.

    Args:
        size: Number of learners; all have the same values.

    Attributes:
        messages: Number of messages so far for which it would have waited.
        bytes: Bytes that it would have sent to each of the others.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.messages = self.bytes = 0

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum over learners with the same values."""
        self._count(1, values.numel() * values.element_size())
        return values * self.size

    def numbers(self, *mine: float) -> list[list[float]]:
        """Returns the same numbers for each rank."""
        self._count(1, 8 * self.size * len(mine))
        return [[*mine]] * self.size

    def gather(self, value: Any) -> list[Any]:
        """Returns the same value for each rank."""
        self._count(2, GATHERED_BYTES)
        return [value] * self.size

    def broadcast_call(self, call: str, argument: Any = None) -> Any:
        """Returns the argument."""
        self.gather((call, argument))
        return argument

    def stop_requested(self, interrupt: Interrupt) -> bool:
        """Returns whether this learner was requested to stop."""
        self._count(1, 8 * self.size)
        return interrupt.number is not None

    def _count(self, messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size


def exchange_seconds(ranks: Ranks, numbers: int, times: int) -> float:
    """Measures the time that repeated sums add to the computation of two learners.

    Args:
        ranks: The learners; each calls this.
        numbers: Number of summed values.
        times: Number of sums.

    Returns:
        Mean seconds that a sum adds.
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
    """Returns the measurements for gradients of a size: the number of summed values, and of sums."""
    return (1, 50), (1, 400), (max(2, numbers), max(10, min(400, 20_000_000 // max(1, numbers))))


def measure_exchange(numbers: int) -> LinearCost:
    """Measures the cost of a message between two learners by its bytes.

    Args:
        numbers: Number of parameters of the networks, which is the size of the gradient.

    Raises:
        TrainingError: If the other learner does not start.
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
