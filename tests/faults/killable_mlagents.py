"""A run with ML-Agents' files in a process of its own, to be killed: ``python killable_mlagents.py FOLDER``; begun, or
gone on with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from killable import TINY

from rookery import Trainer
from rookery.core.io.files import list_checkpoints
from rookery.onnx import write_unity
from rookery_mlagents.files.run_files import RunFiles
from rookery_mlagents.files.sections import BehaviorOptions

PACE = BehaviorOptions(summary_freq=150, checkpoint_interval=400, keep_checkpoints=3)
CONFIGURATION = {"behaviors": {"main": {"trainer_type": "ppo"}}}
STEPS = 1536


def main(folder):
    """Trains to the end."""
    folder = Path(folder)
    files = RunFiles(CONFIGURATION, lambda name: PACE, print, write_unity)
    settings = {"seed": 3, "num_envs": 4, "checkpoint_every": 1, "config": {"logging.tensorboard": False}}
    used = (folder / "checkpoints").is_dir() and list_checkpoints(folder / "checkpoints")
    trainer = (
        Trainer.load(folder, resume=True, callbacks=[files])
        if used
        else Trainer(
            "CartPole-v1",
            TINY.replace(model={"hidden": (16,)}),
            run_dir=folder,
            force=True,
            callbacks=[files],
            **settings,
        )
    )
    with trainer:
        print("running", flush=True)
        trainer.train({"env_steps": STEPS})
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
