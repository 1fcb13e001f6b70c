"""ML-Agents' example environments, by ML-Agents' settings: ``mlagents_examples.py [--only Basic] [--seeds 3]
[--configs DIR]``; writes benchmarks/results/mlagents_examples.md.

Each row is ``rookery mlagents learn FILE --env rookery.tasks:...`` with the settings of ML-Agents' own file for that
environment; ``--configs`` takes the files themselves from a folder. Reported is the mean return of an agent over the
latest 100 episodes, in which actions are still drawn, after so many decisions, and when training ended. A row with one
value was made with ``--seeds 1``. A task that is not measured keeps its rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mlagents_head_to_head import on_policy

from rookery.core.settings.layers import Layer
from rookery.run.checkpoint.run_dir import versions
from rookery_mlagents.learn.learn import Request, learning

FILE = Path(__file__).parents[1] / "results" / "mlagents_examples.md"


def behavior(*rules: Any, steps: int, normalize: bool = False, threaded: bool = False, **more: Any) -> dict[str, Any]:
    """Returns the section of a behaviour that learns by PPO; `rules` and `more` are arguments of `on_policy`."""
    network = {"normalize": normalize}
    return on_policy(*rules, network=network, max_steps=steps, threaded=threaded, **more)


@dataclass(frozen=True)
class Example:
    """An example environment of ML-Agents.

    Attributes:
        name: Its name in ML-Agents, and that of its file.
        env: The environment in Rookery.
        copies: Number of environments, as in ML-Agents' scene.
        section: Settings of its behaviour.
        until: Decisions after which training ends here, if fewer than `max_steps`.
        marks: Decisions at which the return is reported, too.
        wanted: Return that must be reached; empty where the return is only recorded.
        arguments: Arguments of the environment, as words of ``--env-args``.
    """

    name: str
    env: str
    copies: int
    section: dict[str, Any]
    until: int
    marks: tuple[int, ...] = ()
    wanted: str = ""
    arguments: str = ""

    @property
    def title(self) -> str:
        """Returns the name in the table."""
        return f"{self.name} ({self.arguments})" if self.arguments else self.name


BALL = {"lambd": 0.99, "normalize": True, "threaded": True}
EXAMPLES = [
    Example("Basic", "Basic", 1, behavior(32, 256, 5e-3, (20, 1), 0.9, 3, steps=500_000), 40_000, (20_000,),
            ">= 0.93"),
    Example("3DBall", "BallPlate", 12, behavior(64, 12_000, 1e-3, (128, 2), 0.99, 1000, steps=500_000, **BALL), 500_000,
            (250_000,), ">= 95"),
    Example("GridWorld", "GoalGrid", 9, behavior(32, 256, 5e-3, (128, 1), 0.9, 5, steps=500_000), 500_000,
            (200_000, 350_000), ">= 0.8"),
    Example("GridWorld", "GoalGrid", 9, behavior(32, 256, 5e-3, (128, 1), 0.9, 5, steps=500_000), 200_000,
            (100_000,), ">= 0.8", "observation=one_hot"),
    Example("FoodCollector", "FoodCollector", 4,
            behavior(1024, 10_240, 5e-3, (128, 2), 0.99, 64, steps=2_000_000, threaded=True), 300_000, (100_000,)),
    Example("PushBlock", "PushBlock", 32, behavior(128, 2048, 0.01, (256, 2), 0.99, 64, steps=2_000_000, threaded=True),
            1_000_000, (300_000,)),
    Example("Match3VectorObs", "Match3", 24,
            behavior(64, 12_000, 1e-3, (128, 2), 0.99, 1000, steps=5_000_000, schedule="constant", **BALL), 300_000,
            (100_000,)),
]  # fmt: skip


def no_changes(folder: Path, layers: Sequence[Layer], request: Request) -> Layer:
    """Raises: no run resumes here, so none has changed settings."""
    raise AssertionError(f"{folder}: the run resumes")


def learned(example: Example, seed: int, configs: Path | None) -> dict[str, float]:
    """Trains once; returns what was measured, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / f"{example.name}.yaml"
        own.write_text(json.dumps({"behaviors": {example.name: example.section}}), encoding="utf-8")  # JSON is YAML
        flags = {"env": f"rookery.tasks:{example.env}", "num_envs": example.copies, "seed": seed,
                 "results_dir": folder, "run_id": "run"} | (
            {"env_args": [example.arguments]} if example.arguments else {})  # fmt: skip
        file = own if configs is None else configs / f"{example.name}.yaml"
        request = Request(str(file), flags, "quiet", None, False, False)
        found = {}
        with learning(request, no_changes) as session:
            key = f"policies/{example.name}/decisions"
            for mark in (*example.marks, example.until):
                session.trainer.train({key: mark})
            lines = (session.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for mark in (*example.marks, example.until):
        row = next((row for row in rows if row.get(key, 0) >= mark), rows[-1])
        found[f"return at {mark:,} decisions"] = row[f"policies/{example.name}/return_mean"]
    return {**found, "seconds": rows[-1]["time/seconds"]}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[one.title for one in EXAMPLES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--configs", type=Path)
    args = parser.parse_args()
    made: dict[str, list[str]] = {}
    for one in EXAMPLES:
        if args.only and one.title not in args.only:
            continue
        runs = [list(learned(one, seed, args.configs).items()) for seed in range(args.seeds)]
        made[one.title] = []
        for each in zip(*runs, strict=True):
            values = [value for _, value in each]
            shown = ", ".join(f"{value:.4g}" for value in values)
            wanted = one.wanted if each[0][0] != "seconds" else ""
            made[one.title].append(
                f"| {one.title} | {one.env}, {one.copies} | {each[0][0]} | {wanted} | {shown} | {median(values):.4g} |"
            )
            print(made[one.title][-1], flush=True)
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    kept = [line for line in text.splitlines() if line.startswith("| ")]
    rows = {one.title: [line for line in kept if line.startswith(f"| {one.title} |")] for one in EXAMPLES} | made
    lines = ["# ML-Agents' example environments by ML-Agents' settings", "", *(__doc__ or "").splitlines()[3:], ""]
    lines += [
        "| file | environment here, copies | measured | wanted | each seed | median |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row for one in EXAMPLES for row in rows[one.title]]
    lines += [
        "",
        "`python benchmarks/studies/mlagents_examples.py`; " + ", ".join(f"{k} {v}" for k, v in versions().items()),
    ]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
