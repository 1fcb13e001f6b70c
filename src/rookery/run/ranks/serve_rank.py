"""Makes ranks follow the calls of rank 0, where each rank runs the same script."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

from rookery.cluster.ranks import Ranks
from rookery.core.errors import TrainingError
from rookery.core.process.interrupt import Interrupt, Interrupted, TimeUp
from rookery.report.results import IterationResult


def serve_rank(
    ranks: Ranks, interrupt: Interrupt, wanted: str, iterate: Callable[[], IterationResult], save: Callable[[], Path]
) -> Generator[IterationResult, None, None]:
    """Trains as rank 0 does until its training ends; yields each result, and at last that of rank 0.

    Args:
        ranks: All learners; this is not rank 0.
        interrupt: Records signals, on which all ranks act together.
        wanted: Name of rank 0's call of an iteration.
        iterate: Makes an iteration.
        save: Writes this rank's shard of a checkpoint.

    Raises:
        Interrupted: If any rank was asked to stop.
        TrainingError: If rank 0 makes a call that is not part of a training.
    """
    last: IterationResult | None = None
    stopped: Interrupted | None = None
    with interrupt.watching():
        while (call := ranks.receive_call()) != "end":
            if call not in (wanted, "save"):
                raise TrainingError(
                    f"rank {ranks.rank} is at {wanted}, and rank 0 calls {call}: make the same calls on all"
                )
            try:
                if call == "save":
                    save()
                    continue
                if last is not None:
                    yield last
                last = iterate()
            except TimeUp:
                continue  # rank 0 ends the training, as after a criterion
            except Interrupted as error:
                stopped = error  # rank 0 writes a checkpoint first
    final: IterationResult = ranks.broadcast_call("end")
    if stopped is not None:
        raise stopped
    yield final
