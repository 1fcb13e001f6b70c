"""What the other ranks of a run on several learners keep of a checkpoint: ``000012.rank1`` beside ``000012``.

A share is the whole state of its rank, with its copies of the environment and its replay. Shares are written first, so
that a checkpoint that is there has all of them; see `tidy` for those whose checkpoint is gone.
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

SHARED = "let the run be in a folder that all machines share (--run-dir)"
"""What to do where learners on other machines cannot write beside a checkpoint."""


def wait_for_shares(ranks: Ranks, target: Path) -> None:
    """Lets all other ranks write their shares of a checkpoint, and waits for these.

    Args:
        ranks: All learners, of which this is the first.
        target: Where the checkpoint is to be.

    Raises:
        FileError: If one cannot write its share.
    """
    if ranks.size == 1:
        return
    ranks.broadcast_call("save", str(target.absolute()))
    for problem in ranks.gather(""):
        if problem:
            raise FileError(problem)
    for rank in range(1, ranks.size):
        if not checkpoint.share_of(target, rank).is_dir():
            share = checkpoint.share_of(target, rank)
            raise FileError(f"{share}: learner {rank} has written it on its own machine: {SHARED}")


def write_share(run: Run, replays: SavedReplays, state: Mapping[str, Any]) -> Path:
    """Writes this rank's share of the checkpoint that rank 0 writes; returns the place of the checkpoint.

    Args:
        run: The run of this rank.
        replays: Which rows of its replay lie on the disk already.
        state: All that changes in it.
    """
    target = Path(run.ranks.broadcast_call("save"))
    place = checkpoint.share_of(target, run.ranks.rank)
    problem = ""
    try:
        if not target.parent.is_dir():
            raise FileError(f"its machine has no folder {target.parent}: {SHARED}")
        files, held = replays.files(run.replays)
        config = {"config.json": checkpoint.config_file(run.resolved, run.seed)}
        checkpoint.write_checkpoint(place, dict(state), {**config, **files}, {"iteration": run.iteration, **held})
        replays.note_checkpoint(place)
    except (FileError, OSError) as error:
        problem = f"rank {run.ranks.rank}: {error}"
    run.ranks.gather(problem)
    return target


def own_share(ranks: Ranks, saved: checkpoint.Saved | None) -> checkpoint.Saved:
    """Returns what this rank goes on with, where rank 0 goes on with a checkpoint.

    Args:
        ranks: All learners.
        saved: The checkpoint; only rank 0 needs it.

    Raises:
        FileError: If the share of a rank is missing.
    """
    if ranks.rank:
        return checkpoint.read_checkpoint(checkpoint.share_of(Path(ranks.broadcast_call("load")), ranks.rank))
    assert saved is not None
    for rank in range(1, ranks.size):
        share = checkpoint.share_of(saved.path, rank)
        if not share.is_dir():
            raise FileError(
                f"{saved.path}: the share of learner {rank} of {ranks.size} is missing, which lay beside it as "
                f"{share.name}: copy it too, or begin anew with its weights, policies.main.init_from={saved.path}"
            )
    ranks.broadcast_call("load", str(saved.path.absolute()))
    return saved


def load_share(run: Run, replays: SavedReplays) -> None:
    """Takes up this rank's share of the checkpoint that rank 0 goes on with."""
    mine = own_share(run.ranks, None)
    run.load_state_dict(mine.state)
    replays.restore(mine, run.replays, run.note)
