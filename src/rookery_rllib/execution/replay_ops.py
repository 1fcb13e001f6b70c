"""Operations of execution plans that store batches and draw them again."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rookery_rllib.base import ray_core
from rookery_rllib.execution.counters import STEPS_SAMPLED_COUNTER, _get_shared_metrics
from rookery_rllib.execution.iterators import LocalIterator, _NextValueNotReady
from rookery_rllib.execution.replay_buffers import LocalReplayBuffer, SimpleReplayBuffer

ReplayActor = ray_core.remote(LocalReplayBuffer)


class StoreToReplayBuffer:
    """Adds batches to a replay buffer, `local_buffer`, or to one of several actors at random, and returns them."""

    def __init__(self, *, local_buffer: Any = None, actors: Sequence[Any] | None = None) -> None:
        _check_one(local_buffer, actors)
        self.local_buffer, self.actors = local_buffer, list(actors or ())

    def __call__(self, batch: Any) -> Any:
        if self.local_buffer is not None:
            self.local_buffer.add_batch(batch)
        else:
            ray_core.get(random.choice(self.actors).add_batch.remote(batch))
        return batch


def Replay(*, local_buffer: Any = None, actors: Sequence[Any] | None = None, num_async: int = 4) -> LocalIterator:
    """Returns a stream of batches that are drawn from a replay buffer, or from several actors in turn; while there are
    none, it yields `_NextValueNotReady`. `num_async` has no effect.
    """
    _check_one(local_buffer, actors)

    def drawn() -> Iterator[Any]:
        while True:
            for actor in [None] if local_buffer is not None else actors or ():
                batch = local_buffer.replay() if actor is None else ray_core.get(actor.replay.remote())
                yield _NextValueNotReady() if batch is None else batch

    return LocalIterator(drawn, name="Replay")


def _check_one(local_buffer: Any, actors: Sequence[Any] | None) -> None:
    """Raises a ValueError unless exactly one of both is given."""
    if (local_buffer is None) == (not actors):
        raise ValueError("give local_buffer, or actors, and not both")


class WaitUntilTimestepsElapsed:
    """Is True once a number of sampled steps is reached, for `filter`."""

    def __init__(self, target_num_timesteps: int) -> None:
        self.target_num_timesteps = target_num_timesteps

    def __call__(self, item: Any) -> bool:
        return _get_shared_metrics().counters[STEPS_SAMPLED_COUNTER] > self.target_num_timesteps


class MixInReplay:
    """Returns each batch with stored ones, for `combine`.

    Args:
        num_slots: Number of stored batches.
        replay_proportion: Stored batches per new one.
    """

    def __init__(self, num_slots: int, replay_proportion: float) -> None:
        if replay_proportion > 0 and num_slots == 0:
            raise ValueError("MixInReplay: num_slots = 0: there is nothing to draw from; make it at least 1")
        self.replay_buffer, self.replay_proportion = SimpleReplayBuffer(num_slots), replay_proportion

    def __call__(self, sample_batch: Any) -> list[Any]:
        self.replay_buffer.add_batch(sample_batch)
        whole, part = divmod(self.replay_proportion, 1)
        drawn = [self.replay_buffer.replay() for _ in range(int(whole) + (random.random() < part))]
        return [sample_batch, *(batch for batch in drawn if batch is not None)]


# --- several streams --------------------------------------------------------------------------------------------------


def Concurrently(
    ops: Sequence[LocalIterator],
    *,
    mode: str = "round_robin",
    output_indexes: Sequence[int] | None = None,
    round_robin_weights: Sequence[Any] | None = None,
) -> LocalIterator:
    """Returns one stream of the items of several; see `LocalIterator.union`.

    Args:
        ops: Two streams or more.
        mode: ``round_robin`` or ``async``; both ask the streams in turn.
        output_indexes: Streams whose items are yielded, by index; None = all.
        round_robin_weights: Items of each stream in a row.
    """
    if len(ops) < 2:
        raise ValueError(f"Concurrently: {len(ops)} streams; give two or more")
    if mode not in ("round_robin", "async"):
        raise ValueError(f"Concurrently: mode = {mode!r}: must be 'round_robin' or 'async'")
    if round_robin_weights and (mode == "async" or all(weight == "*" for weight in round_robin_weights)):
        raise ValueError("round_robin_weights are for mode = 'round_robin', and one of them at least is a number")
    wanted = list(range(len(ops))) if output_indexes is None else list(output_indexes)
    if not set(wanted) <= set(range(len(ops))):
        raise ValueError(f"Concurrently: output_indexes = {wanted}, and there are {len(ops)} streams, from 0 on")

    def marked(op: LocalIterator, number: int) -> LocalIterator:
        return op.for_each(lambda item: (number, item))

    streams = [marked(op, number) for number, op in enumerate(ops)]
    joined = streams[0].union(
        *streams[1:], deterministic=mode == "round_robin", round_robin_weights=round_robin_weights
    )
    return joined.filter(lambda pair: pair[0] in wanted).for_each(lambda pair: pair[1])


class Enqueue:
    """Puts items into a queue and returns them; a full queue is not waited for."""

    def __init__(self, output_queue: queue.Queue[Any]) -> None:
        _check_queue(output_queue)
        self.queue = output_queue

    def __call__(self, x: Any) -> Any:
        try:
            self.queue.put_nowait(x)
        except queue.Full:
            return _NextValueNotReady()
        return x


def Dequeue(input_queue: queue.Queue[Any], check: Callable[[], bool] = lambda: True) -> LocalIterator:
    """Returns a stream of the items of a queue, which is not waited for; a RuntimeError is raised when `check` is
    False.
    """
    _check_queue(input_queue)

    def items() -> Iterator[Any]:
        while check():
            try:
                yield input_queue.get_nowait()
            except queue.Empty:
                yield _NextValueNotReady()
        raise RuntimeError("Dequeue: the check of the queue has failed")

    return LocalIterator(items, name="Dequeue")


def _check_queue(given: Any) -> None:
    """Raises a ValueError for an object that is no queue."""
    if not isinstance(given, queue.Queue):
        raise ValueError(f"{type(given).__name__}: must be a queue.Queue")
