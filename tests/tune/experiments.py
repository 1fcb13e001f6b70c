"""Folders of experiments, written record by record as the runner writes them."""

import json

from rookery.tune.journal import VERSION, Journal


class Experiment:
    """Writes an experiment.

    Args:
        folder: Where.
        space: Descriptions of domains by path.
        spec: How it could be made again: its key ``config`` is what trials have in common.
        tune: Settings of section tune, beside the metric ``score``.
    """

    def __init__(self, folder, space=None, spec=None, **tune):
        self.folder = folder
        self.journal = Journal(folder)
        self.folders = {}
        tune = {"metric": "score", "mode": "max", "scope": "last", "scheduler": {"name": "fifo", "time": "iteration"},
                "repeats": 1, "num_samples": 1, **tune}  # fmt: skip
        self.record("experiment", version=VERSION, space=space or {}, job={"title": "hill"}, tune=tune, seed=0,
                    training_seed=None, time=0.0, spec=spec or {})  # fmt: skip

    def record(self, kind, **about):
        self.journal.append({"kind": kind, **about})

    def trial(self, name, params, number=None, seed=0):
        number = int(name.partition("-")[0]) if number is None else number
        place = f"trials/{name}"
        (self.folder / place).mkdir(parents=True)
        about = {"trial": name, "number": number, "params": params, "seed": seed}
        (self.folder / place / "params.json").write_text(json.dumps(about))
        self.folders[name] = self.folder / place
        self.record("trial", **about, folder=place)
        return self.folders[name]

    def begin(self, *names):
        for name in names:
            self.record("begin", trial=name)

    def row(self, name, iteration, score, reason="", actions=None, **more):
        """An iteration; `more` stands in `metrics.jsonl` only."""
        row = {"iteration": iteration, "seconds": 2.0 * iteration, "env_steps": 100 * iteration, "score": score}
        with (self.folders[name] / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({**row, **more}) + "\n")
        self.record("result", trial=name, iteration=iteration, row=row, actions=actions or {}, reason=reason)

    def fail(self, name, problem, lost=False):
        with (self.folders[name] / "error.txt").open("a") as file:
            file.write(f"Traceback (most recent call last):\n  File <x>\n{problem}\n\n")
        self.record("failure", trial=name, problem=problem, lost=lost)

    def end(self, name, status="TERMINATED", reason="iterations 3 reached 3"):
        self.record("end", trial=name, status=status, reason=reason, score=None, actions={})

    def whole(self, name, params, scores, **about):
        """A trial from beginning to end."""
        self.trial(name, params, **about)
        self.begin(name)
        for iteration, score in enumerate(scores, 1):
            self.row(name, iteration, score, loss=10.0 - iteration)
        self.end(name)

    def checkpoint(self, name, iteration):
        place = self.folders[name] / "checkpoints" / f"{iteration:06d}"
        place.mkdir(parents=True)
        return place
