"""Writes the checkpoint of a run: its state, its settings, its policies and its replays."""

from __future__ import annotations

from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError, last_good
from rookery.core.settings.starting_folder import absolute, shown
from rookery.envs.placeholder_env import describe
from rookery.policies.export import policy_files
from rookery.run.checkpoint import checkpoint
from rookery.run.checkpoint.rank_shards import write_other_shards
from rookery.run.checkpoint.replays import SavedReplays
from rookery.run.checkpoint.run_dir import RunDir, versions
from rookery.run.compute import paths_of
from rookery.run.run import Run


def save_run(run: Run, replays: SavedReplays, run_dir: RunDir | None, path: str | Path | None, pin: bool) -> Path:
    """Writes a checkpoint and returns its directory.

    Args:
        run: The run, at rank 0.
        replays: Files of its replays so far.
        run_dir: Its run directory, where `path` is None.
        path: The directory to write; None = the next one in the run directory.
        pin: Never remove it to make room.

    Raises:
        ConfigError: If there is no run directory, or `path` exists.
        FileError: If it cannot be written; names the last good checkpoint.
    """
    folder = None if run_dir is None or path is not None else run_dir.checkpoints
    if folder is None and path is None:
        raise ConfigError("save: this trainer has no run directory; give a path, as in trainer.save('my-checkpoint')")
    target = absolute(str(path)) if folder is None else folder / checkpoint.next_name(folder, run.iteration)
    if target.exists():
        raise ConfigError(f"save: {target} exists; choose another path")
    models = {name: run.config.policies[name].algorithm.model for name in run.policies}
    extra = {"config.json": checkpoint.config_file(run.resolved, run.seed), **policy_files(run.policies, models)}
    facts = {
        "iteration": run.iteration,
        "env_steps": run.env_steps,
        "score": run._score,
        "exact": run.env.exact,
        "env": describe(run.env),
        "pinned": pin,
        "versions": versions(),
        "paths": paths_of(run.policies, run.learners),
    }
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_other_shards(run._ranks, target)
        files, held = replays.files(run.replays)
        checkpoint.write_checkpoint(target, run.state_dict(), {**extra, **files}, {**facts, **held})
        if folder is not None or run_dir is None:
            replays.note_checkpoint(target)
        if folder is not None:
            checkpoint.note_best(folder, target.name, run._score)
            checkpoint.tidy(folder, run.config.checkpoint.keep_last)
    except (FileError, OSError) as error:
        good = None if folder is None else last_good(folder)
        raise FileError(f"{error}; the last good checkpoint is {shown(good)}" if good else str(error)) from None
    return target
