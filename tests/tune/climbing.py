"""Small experiments for tests: trials that climb at the speed their parameter allows, and can be saved."""

from __future__ import annotations

from rookery import tune
from rookery.tune.journal import ExperimentState, read


class Climb(tune.Trainable):
    """Its height grows by 1 - (x - 0.3)^2 a step."""

    def setup(self, config):
        self.x, self.height = config["x"], 0.0

    def step(self):
        self.height += 1 - (self.x - 0.3) ** 2
        return {"height": self.height}

    def save_checkpoint(self, folder):
        (folder / "height.txt").write_text(repr(self.height))

    def load_checkpoint(self, folder):
        self.height = float((folder / "height.txt").read_text())


class Careless(Climb):
    """Cannot be saved."""

    save_checkpoint = load_checkpoint = None


def climb(folder, trainable=Climb, **settings):
    """Four trials of five steps in this process, unless `settings` say otherwise."""
    given = {
        "config": {"x": tune.uniform(0.0, 1.0)},
        "metric": "height",
        "stop": {"iteration": 5},
        "num_samples": 4,
        "seed": 3,
        "place": "here",
        "console": "quiet",
    }
    return tune.run(trainable=trainable, folder=folder, **(given | settings))


def history_of(folder):
    return ExperimentState.of(folder, read(folder))


def outcome(folder):
    """Returns the results of an experiment, without columns that depend on the clock."""
    return {
        trial.name: (
            trial.params,
            trial.status.value,
            trial.reason,
            trial.parents,
            [row["height"] for row in trial.rows],
        )
        for trial in history_of(folder).trials.values()
    }
