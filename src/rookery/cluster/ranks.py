"""Ranks: learners that each play a share of a run's lanes and make the same gradient steps with the same weights.

`Ranks` is a single learner; `Gathered` communicates through a group of `torch.distributed`.
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
"""Seconds that a rank waits for the next call of rank 0, which may evaluate, or wait for its user."""


class RankLostError(LearnerLostError):
    """Raised if another rank is gone, or does not answer, without a known cause."""


LOOPBACK = "127.0.0.1"

SMALL = 1 << 16
"""Largest number of elements at which up to `FEW` ranks exchange a tensor directly, in one round trip."""

BREAK = 1
"""Tag of a message that is never sent."""

FEW = 8
"""Largest number of ranks that exchange small tensors directly."""

AGREED = ("kl", "full_kl")
"""Metrics that control updates; all others are reports of each rank."""


class Ranks:
    """Ranks of a run with a single learner, and base of those with several.

    Attributes:
        rank: Number of this learner.
        size: Number of ranks.
        description: Description of the other ranks for users; empty for a single one.
    """

    rank = 0
    size = 1
    description = ""

    def __deepcopy__(self, memo: object) -> Self:
        return self  # shared by copies of a policy

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum of a tensor over all ranks, of the same shape; may change its argument."""
        return values

    def numbers(self, *mine: float) -> list[list[float]]:
        """Returns the numbers of all ranks, in the order of ranks; each rank passes equally many."""
        table = torch.zeros(self.size, len(mine), dtype=torch.float64, device="cpu")
        table[self.rank] = torch.tensor(mine, dtype=torch.float64, device="cpu")
        return self.sums(table).tolist()

    def gather(self, value: Any) -> list[Any]:
        """Returns a small object of each rank, in their order."""
        return [value]

    def first(self, value: Any) -> Any:
        """Returns rank 0's value of a small object."""
        return self.gather(value)[0]

    def thread_group(self) -> Ranks:
        """Returns the same ranks for a separate thread, which communicates only with those of the others."""
        return self

    def broadcast_call(self, call: str, argument: Any = None) -> Any:
        """Begins a call that all ranks make, and returns rank 0's argument."""
        return argument

    def receive_call(self) -> str:
        """Waits until rank 0 announces the next call; returns its name."""
        raise TrainingError("rank 0 has no rank to follow")

    def check(self, interrupt: Interrupt) -> None:
        """Raises `Interrupted` on all ranks at the same time, if any of them was asked to stop."""
        self.stop_requested(interrupt)
        interrupt.check()

    def stop_requested(self, interrupt: Interrupt) -> bool:
        """Whether any rank was asked to stop; all ranks return the same."""
        return interrupt.number is not None

    def share(self, lanes: int) -> tuple[int, int]:
        """Returns the number of this rank's first lane, and its number of lanes, out of all lanes of a run."""
        first, end = lanes * self.rank // self.size, lanes * (self.rank + 1) // self.size
        return first, end - first

    def agree(self, gradient: Tensor, rows: int, metrics: Metrics) -> Metrics:
        """Replaces a gradient by the mean over the rows of all ranks, in place.

        Args:
            gradient: ``[W]`` mean over this rank's rows.
            rows: Number of rows; 0 = the gradient does not count.
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
            count: Rows of this rank; with 0 its moments do not matter.
            mean: Their mean, element by element.
            var: Their variance, divided by the count.

        Returns:
            The same for the rows of all ranks.
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
        """Leaves the group."""


SINGLE = Ranks()
"""The ranks of a run with a single learner."""


class Gathered(Ranks):
    """One rank of several learners.

    Args:
        groups: Communication groups, see `groups_of`.
    """

    def __init__(self, groups: Groups) -> None:
        self.rank, self.size = groups.steps.rank(), groups.steps.size()
        self._groups, self._group, self._patient = groups, groups.steps, groups.calls
        self._on_gpus: dict[torch.device, Any] = {}
        """Group that sums tensors on GPUs; None = they are copied."""
        self._announced: list[tuple[str, Any]] = []
        self._heartbeats: RankHeartbeats | None = None

    def watch_others(self) -> None:
        """Makes rank 0 detect from now on when another rank is frozen. All ranks call it together."""
        self._heartbeats = connect_heartbeats(self.rank, self.size, self._groups.host, self.gather, self.break_waits)
        if self.rank == 0:
            Interrupt.breakers.add(self)

    def break_waits(self) -> None:
        """Ends all waits for other ranks with an error; called in another thread."""
        for group in self._groups[:3]:
            with suppress(RuntimeError):  # a timeout breaks all connections of a gloo group
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
            for part in rest:  # in the order of ranks: equal bits on all
                there += part
        else:
            with self._together():
                self._group.allreduce([there]).wait()
        return there.to(values.device)

    def _group_on(self, device: torch.device) -> Any:
        """Returns the group that sums tensors on a GPU, in the same call on all ranks; None = they are copied."""
        if device not in self._on_gpus:
            self._on_gpus[device] = group_on(device, self.rank, self.size, self._groups.host, TIMEOUT, self.gather)
        return self._on_gpus[device]

    def gather(self, value: Any) -> list[Any]:
        """Returns an object of each rank, in their order."""
        body = torch.frombuffer(bytearray(cloudpickle.dumps(value)), dtype=torch.uint8)
        length = torch.tensor([len(body)], dtype=torch.int64, device="cpu")
        lengths = self._exchange(self._patient, length, [length] * self.size)
        bodies = self._exchange(self._patient, body, [body.new_empty(int(one)) for one in lengths])
        # all are ranks of one run, as they proved when they met
        return [value if rank == self.rank else pickle.loads(bytes(one.numpy())) for rank, one in enumerate(bodies)]

    def thread_group(self) -> Ranks:
        """Returns the same ranks for a separate thread, which communicates only with those of the others."""
        return ThreadGroup(self, self._groups._replace(steps=self._groups.thread, calls=self._groups.thread))

    def _exchange(self, group: Any, mine: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
        """Sends a tensor to all other ranks, and returns those of all ranks, of the shapes of `like`."""
        found = [mine if rank == self.rank else torch.empty_like(one) for rank, one in enumerate(like)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        with self._together():
            works = [group.send([mine], rank, 0) for rank in others]
            works += [group.recv([found[rank]], rank, 0) for rank in others]
            for work in works:
                work.wait()
        return found

    def broadcast_call(self, call: str, argument: Any = None) -> Any:
        """Begins a call that all ranks make, and returns rank 0's argument.

        Raises:
            TrainingError: If rank 0 makes another call.
        """
        if self.rank == 0:
            self.gather((call, argument))
            return argument
        if not self._announced:
            self.receive_call()
        other, given = self._announced.pop()
        if other != call:
            raise TrainingError(
                f"rank {self.rank} calls {call}, and rank 0 calls {other}: all ranks have to make the same calls"
            )
        return given

    def receive_call(self) -> str:
        """Waits until rank 0 announces the next call; returns its name."""
        call = self.gather(None)[0]
        self._announced.append(call)
        return str(call[0])

    def stop_requested(self, interrupt: Interrupt) -> bool:
        """Whether any rank was asked to stop; all ranks return the same."""
        if self.rank:
            interrupt.forget_time()  # only rank 0 checks the time; this value is of an earlier training
        highest = max(self.numbers(-1 if interrupt.number is None else interrupt.number))[0]
        interrupt.number = int(highest) if highest >= TIME_UP else None
        return interrupt.number is not None

    def close(self) -> None:
        """Leaves the group."""
        if self._heartbeats is not None:
            self._heartbeats.close()
        Interrupt.breakers.discard(self)
        self._group = self._patient = None
        self._groups = self._groups._replace(steps=None, calls=None, thread=None)
        self._on_gpus.clear()

    def lost(self, error: Exception) -> RookeryError:
        """Returns the error to raise when the others do not answer."""
        if self._heartbeats is not None and self._heartbeats.problem:
            return LearnerLostError(self._heartbeats.problem)
        return RankLostError(f"rank {self.rank} of {self.size}: another rank has gone or hangs ({error})")

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            Interrupt.check_second()
            loss = self.lost(error)
            raise loss from loss.__cause__


class ThreadGroup(Gathered):
    """A rank in a separate thread.

    Args:
        of: The rank, which knows the reason if others do not answer.
        groups: Communication groups with the threads of the others.
    """

    def __init__(self, of: Gathered, groups: Groups) -> None:
        super().__init__(groups)
        self._of = of

    def lost(self, error: Exception) -> RookeryError:
        """Returns the error to raise when the others do not answer."""
        return self._of.lost(error)


def meet(place: Path, rank: int, size: int, timeout: float = TIMEOUT) -> Ranks:
    """Joins the ranks of this machine through a file, by gloo.

    Args:
        place: The file; no other run may have used it.
        rank: Number of this rank.
        size: Number of ranks.
        timeout: Seconds to wait, here and in a gradient step.
    """
    if size == 1:
        return Ranks()
    there: Any = distributed  # not every build of torch has all of it
    ranks = Gathered(groups_of(there.FileStore(str(place), size), rank, size, timeout, LOOPBACK))
    ranks.watch_others()
    return ranks


class Groups(NamedTuple):
    """Communication groups of the ranks of a run.

    Attributes:
        steps: A gloo group for gradient steps.
        calls: One for everything else, in which a rank waits as long as the others are connected.
        thread: One for a separate thread.
        host: Address of this machine that the others can reach.
    """

    steps: Any
    calls: Any
    thread: Any
    host: str


def groups_of(store: Any, rank: int, size: int, timeout: float, host: str | None) -> Groups:
    """Creates three gloo groups: one with this timeout, a patient one, and one like the first.

    Args:
        store: Store where the ranks meet.
        rank: Number of this rank.
        size: Number of ranks.
        timeout: Seconds.
        host: Address of this machine that the others can reach; None = by its name.
    """
    there: Any = distributed
    groups = []
    within = timedelta(seconds=timeout)
    for name, wait in ("steps", within), ("calls", PATIENCE), ("thread", within):
        part = there.PrefixStore(name, store), rank, size
        if hasattr(there.ProcessGroupGloo, "_Options"):
            options = there.ProcessGroupGloo._Options()
            options._timeout = wait
            options._devices = [there.ProcessGroupGloo.create_device(**({} if host is None else {"hostname": host}))]
            groups.append(there.ProcessGroupGloo(*part, options))
        else:  # the name is private; without it, gloo takes the address of the machine's name
            groups.append(there.ProcessGroupGloo(*part, wait))
    steps, calls, thread = groups
    return Groups(steps, calls, thread, host or socket.gethostname())


def parts_of(total: int, parts: int) -> Sequence[int]:
    """Returns the sizes of near-equal parts; some are 0 if there is less than one for each."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
