"""Shards of a checkpoint for the other ranks of a run on several learners: ``000012.rank1`` beside ``000012``.

A shard is the whole state of its rank, with its environments and its replay. Shards are written first, so that an
existing checkpoint has all of them; `tidy` removes those whose checkpoint is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.cluster.ranks import Ranks
from rookery.core.io.files import FileError
from rookery.run.checkpoint import checkpoint
from rookery.run.checkpoint.replays import SavedReplays
from rookery.run.run import Run

SHARED = "put the run into a folder that all machines share (--run-dir)"
"""Advice if learners on other machines cannot write to the folder of a checkpoint."""


def write_other_shards(ranks: Ranks, target: Path) -> None:
    """Makes all other ranks write their shards of a checkpoint, and waits for them.

    Args:
        ranks: All learners; this is rank 0.
        target: Path of the checkpoint.

    Raises:
        FileError: If a rank cannot write its shard.
    """
    if ranks.size == 1:
        return
    ranks.broadcast_call("save", str(target.absolute()))
    for problem in ranks.gather(""):
        if problem:
            raise FileError(problem)
    for rank in range(1, ranks.size):
        if not checkpoint.shard_of(target, rank).is_dir():
            shard = checkpoint.shard_of(target, rank)
            raise FileError(f"{shard}: learner {rank} has written it on its own machine: {SHARED}")


def write_shard(run: Run, replays: SavedReplays, state: Mapping[str, Any]) -> Path:
    """Writes this rank's shard of the checkpoint that rank 0 writes; returns the path of the checkpoint.

    Args:
        run: The run of this rank.
        replays: Record of the rows of its replay that are on the disk already.
        state: Its state.
    """
    target = Path(run._ranks.broadcast_call("save"))
    place = checkpoint.shard_of(target, run._ranks.rank)
    problem = ""
    try:
        if not target.parent.is_dir():
            raise FileError(f"its machine has no folder {target.parent}: {SHARED}")
        files, held = replays.files(run.replays)
        config = {"config.json": checkpoint.config_file(run.resolved, run.seed)}
        checkpoint.write_checkpoint(place, dict(state), {**config, **files}, {"iteration": run.iteration, **held})
        replays.note_checkpoint(place)
    except (FileError, OSError) as error:
        problem = f"rank {run._ranks.rank}: {error}"
    run._ranks.gather(problem)
    return target


def own_shard(ranks: Ranks, saved: checkpoint.Saved | None) -> checkpoint.Saved:
    """Returns the checkpoint at rank 0, and the shard of it at other ranks.

    Args:
        ranks: All learners.
        saved: The checkpoint; only rank 0 needs it.

    Raises:
        FileError: If the shard of a rank is missing.
    """
    if ranks.rank:
        return checkpoint.read_checkpoint(checkpoint.shard_of(Path(ranks.broadcast_call("load")), ranks.rank))
    assert saved is not None
    for rank in range(1, ranks.size):
        shard = checkpoint.shard_of(saved.path, rank)
        if not shard.is_dir():
            raise FileError(
                f"{saved.path}: the shard of learner {rank} of {ranks.size} is missing, which was beside it as "
                f"{shard.name}: copy it too, or start anew with its weights, policies.main.init_from={saved.path}"
            )
    ranks.broadcast_call("load", str(saved.path.absolute()))
    return saved


def load_shard(run: Run, replays: SavedReplays) -> None:
    """Loads this rank's shard of the checkpoint that rank 0 loads."""
    mine = own_shard(run._ranks, None)
    run.load_state_dict(mine.state)
    replays.restore(mine, run.replays, run._note)
