"""An experiment that can be killed at any moment: ``python tunable.py FOLDER KIND WORKERS``."""

from __future__ import annotations

import os
import sys
import time

from rookery import tune


class Climb(tune.Trainable):
    """Climbs at the speed that its parameter allows; writes down each step that it does."""

    def setup(self, config):
        self.x, self.height, self.steps = config["x"], 0.0, 0

    def step(self):
        time.sleep(0.01)
        self.steps += 1
        self.height += 1 - (self.x - 0.3) ** 2
        with open("steps.txt", "a") as file:
            file.write(f"{os.getpid()} {self.x!r} {self.steps}\n")
        return {"score": self.height, "steps": self.steps}

    def save_checkpoint(self, folder):
        (folder / "state.txt").write_text(f"{self.height!r} {self.steps}")

    def load_checkpoint(self, folder):
        height, steps = (folder / "state.txt").read_text().split()
        self.height, self.steps = float(height), int(steps)


KINDS = {
    "random": {"num_samples": 8},
    "optuna": {"num_samples": 8, "search": tune.OptunaConfig(startup=3), "max_concurrent": 1},
    "asha": {"num_samples": 8, "scheduler": tune.ASHAConfig(grace=2, max_time=12, reduction=2), "max_concurrent": 1},
    "hyperband": {"num_samples": 8, "scheduler": tune.HyperBandConfig(max_time=9, reduction=3)},
    "pbt": {"num_samples": 4, "scheduler": tune.PBTConfig(interval=3, quantile=0.25)},
}
"""Experiments whose suggestions and decisions do not depend on who is quicker."""


def experiment(folder, kind, workers):
    return tune.run(
        trainable=Climb,
        config={"x": tune.uniform(0.0, 1.0)},
        metric="score",
        stop={"iteration": 12},
        save_every=4,
        seed=3,
        folder=folder,
        resume=True,
        workers=workers,
        console="quiet",
        **KINDS[kind],
    )


if __name__ == "__main__":
    experiment(*sys.argv[1:])
