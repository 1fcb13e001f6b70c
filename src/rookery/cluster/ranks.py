"""Ranks: learners that each play a share of a run's lanes and make the same steps with the same weights.

`Ranks` is one learner alone, which agrees with itself; `Gathered` speaks through a group of `torch.distributed`.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, distributed

from rookery.core.errors import TrainingError
from rookery.core.metrics import Means, Metrics

TIMEOUT = 600.0
"""Seconds that a rank waits for the others before the run counts as broken."""

AGREED = ("kl", "full_kl")
"""Metrics by which updates go on or change; all others are reports of each rank."""


class Ranks:
    """One learner alone.

    Attributes:
        rank: Number of this learner.
        size: How many there are.
    """

    rank = 0
    size = 1

    def __deepcopy__(self, memo: object) -> Self:
        return self  # copies of a policy play for the same learner

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum of a tensor over all ranks, of the same shape; the given one may change."""
        return values

    def gather(self, value: Any) -> list[Any]:
        """Returns what each rank gave, a small object, in their order."""
        return [value]

    def share(self, lanes: int) -> tuple[int, int]:
        """Returns the number of this rank's first lane, and how many it plays, of all lanes of a run."""
        first, end = lanes * self.rank // self.size, lanes * (self.rank + 1) // self.size
        return first, end - first

    def agree(self, gradient: Tensor, rows: int, metrics: Metrics) -> Metrics:
        """Replaces a gradient by the mean over the rows of all ranks, in place.

        Args:
            gradient: ``[W]`` mean over this rank's rows.
            rows: How many these were; 0 = they do not count, whatever the gradient says.
            metrics: Means over these rows, or numbers of each; the same names on all ranks.

        Returns:
            The metrics; those in `AGREED` as means over the rows of all ranks, where they were finite.
        """
        own = Means()
        own.add({name: metrics[name] for name in AGREED if name in metrics})
        found = own.result()
        numbers = [float(rows)]
        for mean in found.values():
            numbers += [0.0, 0.0] if mean is None or not rows else [mean * rows, float(rows)]
        weighted = gradient * rows if rows else torch.zeros_like(gradient)
        total = self.sums(torch.cat((weighted, gradient.new_tensor(numbers))))
        size = len(gradient)
        gradient.copy_(total[:size]).div_(total[size].clamp(min=1.0))
        if not found:
            return metrics
        pairs = total[size + 1 :].view(-1, 2).tolist()
        means = {name: value / count if count else math.nan for name, (value, count) in zip(found, pairs, strict=True)}
        return {**metrics, **means}

    def moments(self, count: int, mean: Tensor, var: Tensor) -> tuple[int, Tensor, Tensor]:
        """Merges the moments of each rank's rows (Chan et al. 1979).

        Args:
            count: Rows of this rank; of 0 the moments do not matter.
            mean: Their mean, element by element.
            var: Their variance, divided by the count.

        Returns:
            The same of the rows of all ranks.
        """
        own = mean.double().flatten() if count else torch.zeros(mean.numel(), dtype=torch.float64, device=mean.device)
        sums = self.sums(torch.cat((own * count, own.new_tensor([float(count)]))))
        total = int(sums[-1].item())
        if not total:
            return 0, mean, var
        center = sums[:-1] / total
        spread = (var.double().flatten() + (own - center).square()) * count if count else torch.zeros_like(own)
        spread = self.sums(spread) / total
        return total, center.view_as(mean).to(mean.dtype), spread.view_as(var).to(var.dtype)

    def close(self) -> None:
        """Leaves the others."""


ALONE = Ranks()
"""The learner of a run that has one."""


class Gathered(Ranks):
    """One of several learners.

    Args:
        group: The process group, of gloo or NCCL.
        device: Where its collectives take tensors from.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self.rank, self.size = group.rank(), group.size()
        self._group, self._device = group, device

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum over all ranks."""
        there = values.to(self._device).contiguous()
        self._wait(lambda: self._group.allreduce([there]))
        return there.to(values.device)

    def gather(self, value: Any) -> list[Any]:
        """Returns what each rank gave, in their order."""
        body = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(self._device)
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(body)
        lengths = self.sums(sizes).tolist()
        room = torch.zeros(self.size, max(lengths), dtype=torch.uint8, device=self._device)
        room[self.rank, : len(body)] = body
        self._wait(lambda: self._group.allreduce([room]))
        every = room.cpu()
        # all are ranks of one run, which have shown that they belong to it by meeting here
        return [pickle.loads(bytes(row[:length].numpy())) for row, length in zip(every, lengths, strict=True)]

    def close(self) -> None:
        """Leaves the others."""
        self._group = None

    def _wait(self, begin: Any) -> None:
        try:
            begin().wait()
        except RuntimeError as error:
            raise TrainingError(f"rank {self.rank} of {self.size}: another rank has gone or hangs ({error})") from None


def meet(place: Path, rank: int, size: int, timeout: float = TIMEOUT) -> Ranks:
    """Meets the other ranks of this machine through a file, by gloo.

    Args:
        place: The file; no other run may have used it.
        rank: Number of this one.
        size: How many there are.
        timeout: Seconds to wait, here and later.
    """
    if size == 1:
        return Ranks()
    there: Any = distributed  # not every build of torch has all of it
    group = there.ProcessGroupGloo(there.FileStore(str(place), size), rank, size, timedelta(seconds=timeout))
    return Gathered(group, torch.device("cpu"))


def parts_of(total: int, parts: int) -> Sequence[int]:
    """Returns the sizes of so many near-equal parts; some are 0 where there is less than one for each."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
