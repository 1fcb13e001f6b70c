"""Checkpoints of a trainer of 2021: a checkpoint of Rookery, with RLlib's file beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, EnvError, read_checkpoint
from rookery_rllib.base.notices import say_once


def write_checkpoint(trainer: Any, folder: Path, content: Mapping[str, Any]) -> Path:
    """Writes a checkpoint of Rookery into a directory, and RLlib's file; returns that file.

    Args:
        trainer: The trainer, as of 2021.
        folder: The directory.
        content: Content of the file.
    """
    made = trainer.rookery.save(folder.with_name(folder.name + ".new"))
    for part in made.iterdir():
        os.replace(part, folder / part.name)
    made.rmdir()
    path = folder / f"checkpoint-{trainer.iteration}"
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return path


def restore_checkpoint(trainer: Any, path: Path) -> dict[str, Any]:
    """Loads the state of a checkpoint, and returns the file's content; the settings remain those of the trainer."""
    saved = read_checkpoint(path.parent)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    run = trainer.rookery
    trainer.book.forget()
    same = set(saved.state["learners"]) == set(run.learners)
    same = same and len(saved.state["pool"].get("shares", ())) == run.config.sampling.workers
    if same and set(saved.state["policies"]) == set(run.policies):
        try:
            run.load_state_dict(saved.state)
        except EnvError:  # the number or the settings of environments differ
            same = False
    if same:
        run._saved_replays.restore(saved, run.replays, lambda line: say_once(f"{trainer}: {line}"))
    else:
        trainer.book.forget()
        _load_policies(trainer, saved.state)
    run._pool.set_weights({name: each.behaviour for name, each in run.learners.items()})
    return content


def _load_policies(trainer: Any, state: Mapping[str, Any]) -> None:
    """Loads the policies of a checkpoint if environments or learning policies differ; episodes restart.

    Raises a ConfigError if there is no policy of a name that the checkpoint has.
    """
    run = trainer.rookery
    say_once(f"{trainer}: the checkpoint is of other environments, or other policies learn there: weights and "
             "optimizers are loaded, episodes restart")  # fmt: skip
    shared = [name for name in state["policies"] if name in run.policies]
    if not shared:
        raise ConfigError(
            f"restore: the checkpoint has policies {', '.join(state['policies'])}, and there are "
            f"{', '.join(run.policies)}"
        )
    for name in shared:
        if name in run.learners and name in state["learners"]:
            run.learners[name].load_state_dict(state["learners"][name])
        else:
            run.policies[name].load_state_dict(state["policies"][name])
            run._pool.set_weights({name: run.policies[name]})
