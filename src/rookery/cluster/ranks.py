"""Ranks: learners that each play a share of a run's lanes and make the same steps with the same weights.

`Ranks` is one learner alone, which agrees with itself; `Gathered` speaks through a group of `torch.distributed`.
"""

from __future__ import annotations

import math
import pickle
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

import cloudpickle
import torch
from torch import Tensor, distributed

from rookery.cluster.gpu_ranks import group_on
from rookery.cluster.rank_heartbeats import RankHeartbeats, connect_heartbeats
from rookery.core.errors import LearnerLostError, RookeryError, TrainingError
from rookery.core.metrics import Means, Metrics
from rookery.core.process.interrupt import TIME_UP, Interrupt

TIMEOUT = 600.0
"""Seconds that a rank waits for the others in a gradient step before the run counts as broken."""

PATIENCE = timedelta(days=30)
"""How long a rank waits for what rank 0 does next: it may evaluate, or its user may think."""


class RankLostError(LearnerLostError):
    """Another rank is gone, or does not answer, and this one does not know more."""


LOOPBACK = "127.0.0.1"

SMALL = 1 << 16
"""Numbers up to which each of few ranks sends all of them to each other: one way there and back is what costs then."""

BREAK = 1
"""Tag of a message that is never sent."""

FEW = 8
"""Ranks that do so."""

AGREED = ("kl", "full_kl")
"""Metrics by which updates go on or change; all others are reports of each rank."""


class Ranks:
    """One learner alone.

    Attributes:
        rank: Number of this learner.
        size: How many there are.
        told: Where the others are, for people; empty of one alone.
    """

    rank = 0
    size = 1
    told = ""

    def __deepcopy__(self, memo: object) -> Self:
        return self  # copies of a policy play for the same learner

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum of a tensor over all ranks, of the same shape; the given one may change."""
        return values

    def numbers(self, *mine: float) -> list[list[float]]:
        """Returns the numbers that each rank gave, as many from all, in the order of ranks."""
        table = torch.zeros(self.size, len(mine), dtype=torch.float64, device="cpu")
        table[self.rank] = torch.tensor(mine, dtype=torch.float64, device="cpu")
        return self.sums(table).tolist()

    def gather(self, value: Any) -> list[Any]:
        """Returns what each rank gave, a small object, in their order."""
        return [value]

    def first(self, value: Any) -> Any:
        """Returns what rank 0 gave, a small object."""
        return self.gather(value)[0]

    def beside(self) -> Ranks:
        """Returns the same ranks for a thread of their own, which speaks to those of the others only."""
        return self

    def announce(self, call: str, argument: Any = None) -> Any:
        """Begins a call that all ranks make, with what rank 0 gives it; returns that."""
        return argument

    def heard(self) -> str:
        """Waits until rank 0 announces a call, which this rank has to make next; returns its name."""
        raise TrainingError("rank 0 has nobody to follow")

    def check(self, interrupt: Interrupt) -> None:
        """Raises `Interrupted` on all ranks in the same moment, if any of them was asked to stop."""
        self.asked(interrupt)
        interrupt.check()

    def asked(self, interrupt: Interrupt) -> bool:
        """Whether any rank was asked to stop; then all of them are."""
        return interrupt.number is not None

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
        groups: How they speak to each other, see `groups_of`.
    """

    def __init__(self, groups: Groups) -> None:
        self.rank, self.size = groups.steps.rank(), groups.steps.size()
        self._groups, self._group, self._patient = groups, groups.steps, groups.calls
        self._on_gpus: dict[torch.device, Any] = {}
        """What sums tensors that lie there; None = they are copied."""
        self._announced: list[tuple[str, Any]] = []
        self._heartbeats: RankHeartbeats | None = None

    def watch_others(self) -> None:
        """Lets rank 0 notice from now on when another rank is frozen. All ranks call it together."""
        self._heartbeats = connect_heartbeats(self.rank, self.size, self._groups.host, self.gather, self.break_waits)
        if self.rank == 0:
            Interrupt.breakers.add(self)

    def break_waits(self) -> None:
        """Ends all waits for other ranks with an error; called in another thread."""
        for group in self._groups[:3]:
            with suppress(RuntimeError):  # what times out breaks all connections of a group of gloo
                nothing = torch.zeros(1, dtype=torch.float32, device="cpu")
                group.recv([nothing], (self.rank + 1) % self.size, BREAK).wait(timedelta(milliseconds=1))

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum over all ranks."""
        if values.is_cuda and (group := self._group_on(values.device)) is not None:
            there = values.contiguous()
            with self._together():
                group.allreduce([there]).wait()
            return there
        there = values.cpu().contiguous()
        if there.numel() <= SMALL and self.size <= FEW:
            total, *rest = self._exchange(self._group, there, [there] * self.size)
            there = total.clone() if total is there else total
            for part in rest:  # in the order of ranks: all come to the same bits
                there += part
        else:
            with self._together():
                self._group.allreduce([there]).wait()
        return there.to(values.device)

    def _group_on(self, device: torch.device) -> Any:
        """What sums tensors on a GPU, in the same call on all ranks; None = they are copied."""
        if device not in self._on_gpus:
            self._on_gpus[device] = group_on(device, self.rank, self.size, self._groups.host, TIMEOUT, self.gather)
        return self._on_gpus[device]

    def gather(self, value: Any) -> list[Any]:
        """Returns what each rank gave, in their order."""
        body = torch.frombuffer(bytearray(cloudpickle.dumps(value)), dtype=torch.uint8)
        length = torch.tensor([len(body)], dtype=torch.int64, device="cpu")
        lengths = self._exchange(self._patient, length, [length] * self.size)
        bodies = self._exchange(self._patient, body, [body.new_empty(int(one)) for one in lengths])
        # all are ranks of one run, which have shown that they belong to it by meeting here
        return [value if rank == self.rank else pickle.loads(bytes(one.numpy())) for rank, one in enumerate(bodies)]

    def beside(self) -> Ranks:
        """Returns the same ranks for a thread of their own, which speaks to those of the others only."""
        return Beside(self, self._groups._replace(steps=self._groups.beside, calls=self._groups.beside))

    def _exchange(self, group: Any, mine: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
        """Sends a tensor to all other ranks, and returns theirs, of the shapes of `like`, with its own among them."""
        found = [mine if rank == self.rank else torch.empty_like(one) for rank, one in enumerate(like)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        with self._together():
            works = [group.send([mine], rank, 0) for rank in others]
            works += [group.recv([found[rank]], rank, 0) for rank in others]
            for work in works:
                work.wait()
        return found

    def announce(self, call: str, argument: Any = None) -> Any:
        """Begins a call that all ranks make, with what rank 0 gives it; returns that.

        Raises:
            TrainingError: If rank 0 makes another call.
        """
        if self.rank == 0:
            self.gather((call, argument))
            return argument
        if not self._announced:
            self.heard()
        theirs, given = self._announced.pop()
        if theirs != call:
            raise TrainingError(
                f"rank {self.rank} calls {call}, and rank 0 calls {theirs}: all ranks have to make the same calls"
            )
        return given

    def heard(self) -> str:
        """Waits until rank 0 announces a call, which this rank has to make next; returns its name."""
        call = self.gather(None)[0]
        self._announced.append(call)
        return str(call[0])

    def asked(self, interrupt: Interrupt) -> bool:
        """Whether any rank was asked to stop; then all of them are."""
        if self.rank:
            interrupt.forget_time()  # rank 0 alone looks at the time; what is here is of an earlier training
        asked = max(self.numbers(-1 if interrupt.number is None else interrupt.number))[0]
        interrupt.number = int(asked) if asked >= TIME_UP else None
        return interrupt.number is not None

    def close(self) -> None:
        """Leaves the others."""
        if self._heartbeats is not None:
            self._heartbeats.close()
        Interrupt.breakers.discard(self)
        self._group = self._patient = None
        self._groups = self._groups._replace(steps=None, calls=None, beside=None)
        self._on_gpus.clear()

    def lost(self, error: Exception) -> RookeryError:
        """Returns what to raise when the others do not answer."""
        if self._heartbeats is not None and self._heartbeats.problem:
            return LearnerLostError(self._heartbeats.problem)
        return RankLostError(f"rank {self.rank} of {self.size}: another rank has gone or hangs ({error})")

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            Interrupt.check_second()
            told = self.lost(error)
            raise told from told.__cause__


class Beside(Gathered):
    """A rank in a thread of its own.

    Args:
        of: The rank, which knows what has become of others that do not answer.
        groups: How it speaks to those in such threads.
    """

    def __init__(self, of: Gathered, groups: Groups) -> None:
        super().__init__(groups)
        self._of = of

    def lost(self, error: Exception) -> RookeryError:
        """Returns what to raise when the others do not answer."""
        return self._of.lost(error)


def meet(place: Path, rank: int, size: int, timeout: float = TIMEOUT) -> Ranks:
    """Meets the other ranks of this machine through a file, by gloo.

    Args:
        place: The file; no other run may have used it.
        rank: Number of this one.
        size: How many there are.
        timeout: Seconds to wait, here and in a gradient step.
    """
    if size == 1:
        return Ranks()
    there: Any = distributed  # not every build of torch has all of it
    ranks = Gathered(groups_of(there.FileStore(str(place), size), rank, size, timeout, LOOPBACK))
    ranks.watch_others()
    return ranks


class Groups(NamedTuple):
    """How the ranks of a run speak to each other.

    Attributes:
        steps: A group of gloo for gradient steps.
        calls: One for all else, in which a rank waits as long as the others are there.
        beside: One for a thread beside them.
        host: Address of this machine that the others reach.
    """

    steps: Any
    calls: Any
    beside: Any
    host: str


def groups_of(store: Any, rank: int, size: int, timeout: float, host: str | None) -> Groups:
    """Makes three groups of gloo: one that waits so many seconds, a patient one, and one like the first.

    Args:
        store: Where the ranks meet.
        rank: Number of this one.
        size: How many there are.
        timeout: Seconds.
        host: Address of this machine that the others reach; None = by its name.
    """
    there: Any = distributed
    groups = []
    within = timedelta(seconds=timeout)
    for name, wait in ("steps", within), ("calls", PATIENCE), ("beside", within):
        options = there.ProcessGroupGloo._Options()
        options._timeout = wait
        options._devices = [there.ProcessGroupGloo.create_device(**({} if host is None else {"hostname": host}))]
        groups.append(there.ProcessGroupGloo(there.PrefixStore(name, store), rank, size, options))
    steps, calls, beside = groups
    return Groups(steps, calls, beside, host or socket.gethostname())


def parts_of(total: int, parts: int) -> Sequence[int]:
    """Returns the sizes of so many near-equal parts; some are 0 where there is less than one for each."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
