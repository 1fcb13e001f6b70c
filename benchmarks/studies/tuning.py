"""Cost of an experiment, gain of a search: ``python benchmarks/studies/tuning.py [trials reports search
exercise]``.

Four parts, a few minutes together, written to `benchmarks/results/tuning.md`:

- trials: 200 trials of a function that does nothing, in this process and in local processes: what a trial costs beyond
  its own work.
- reports: 64 trials of 50 reports each, in local processes and on a Ray of this machine (which has to be installed).
- search: random search and Optuna's TPE look for settings of PPO on CartPole-v1, with the same number of trials of the
  same length, three seeds each, in turn.
- exercise: the grid of the tutorial, four trainings in the arena until both players together earn 15 an episode.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rookery import ModelConfig, MultiAgentArena, PPOConfig, tune

PAGE = Path(__file__).parents[1] / "results" / "tuning.md"

TRIALS = 200
SEARCH_TRIALS = 40
SEARCH_STEPS = 10_000
SEEDS = (0, 1, 2)


def nothing(config: dict[str, Any]) -> float:
    """A trial without any work."""
    return float(config["x"])


def trivial(folder: Path, place: str, trials: int) -> float:
    """Seconds of an experiment whose trials do nothing."""
    began = time.perf_counter()
    tune.run(
        trainable=nothing, config={"x": tune.uniform(0, 1)}, metric="score", num_samples=trials, seed=0,
        folder=folder, place=place, console="quiet",
    )  # fmt: skip
    return time.perf_counter() - began


def part_trials(folder: Path) -> list[str]:
    """The cost of a trial: the difference between many and few, so that starting does not count."""
    lines = ["| where | trials | ms a trial, median of 5 | asked |", "|---|---|---|---|"]
    for place in ("here", "processes"):
        trivial(folder / f"{place}-warm", place, 2)
        found = []
        for turn in range(5):
            few = trivial(folder / f"{place}-few-{turn}", place, 2)
            many = trivial(folder / f"{place}-many-{turn}", place, TRIALS + 2)
            found.append(1000 * (many - few) / TRIALS)
        lines.append(f"| {place} | {TRIALS} | {median(found):.1f} | < 20 |")
    return lines


def fifty(config: dict[str, Any]) -> None:
    """A trial that reports fifty times."""
    for step in range(50):
        tune.report({"score": config["x"] + step})


def part_reports(folder: Path) -> list[str]:
    """The cost of a trial that reports often, two at a time: in turn in processes and on Ray, of which one is begun."""
    import ray  # an extra, which other parts do without

    def seconds(place: str, trials: int, name: str) -> float:
        began = time.perf_counter()
        tune.run(
            trainable=fifty, config={"x": tune.uniform(0, 1)}, metric="score", num_samples=trials, seed=0,
            folder=folder / f"{place}-{name}", place=place, max_concurrent=2, console="quiet",
        )  # fmt: skip
        return time.perf_counter() - began

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    found: dict[str, list[float]] = {"processes": [], "ray": []}
    for place in found:
        seconds(place, 2, "warm")
    for turn in range(5):
        for place, each in found.items():
            few = seconds(place, 2, f"few-{turn}")
            each.append(1000 * (seconds(place, 66, f"many-{turn}") - few) / 64)
    ray.shutdown()
    lines = [
        "| where | trials | reports each | ms a trial, median of 5 | from, to | asked |",
        "|---|---|---|---|---|---|",
    ]
    for place, each in found.items():
        asked = "at most 60" if place == "ray" else ""
        span = f"{min(each):.0f}, {max(each):.0f}"
        lines.append(f"| {place} | 64 | 50 | {median(each):.0f} | {span} | {asked} |")
    load = f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    return [*lines, "", f"In turn, with the scheduler `fifo`. The load of the machine at the end was {load}."]


def look(folder: Path, search: str, seed: int) -> list[float]:
    """Returns the score of each trial of a search for settings of PPO, in the order they were suggested."""
    analysis = tune.run(
        "CartPole-v1",
        PPOConfig(
            lr=tune.loguniform(1e-5, 1e-1),
            gamma=tune.uniform(0.8, 0.9999),
            gae_lambda=tune.uniform(0.5, 1.0),
            entropy_coef=tune.loguniform(1e-5, 1e-1),
            clip=tune.uniform(0.05, 0.5),
            epochs=tune.randint(1, 11),
            minibatch_size=tune.choice([32, 64, 128, 256]),
            fragment_length=tune.choice([16, 32, 64, 128, 256]),
            model=ModelConfig(hidden=tune.choice([(16,), (64,), (64, 64)])),
        ),
        num_envs=8, stop={"env_steps": SEARCH_STEPS}, search=search, num_samples=SEARCH_TRIALS, max_concurrent=1,
        place="here", seed=seed, folder=folder, console="quiet",
    )  # fmt: skip
    return [trial.score or 0.0 for trial in sorted(analysis.trials, key=lambda trial: trial.number)]


def part_search(folder: Path) -> list[str]:
    """Random search beside TPE."""
    found: dict[str, list[list[float]]] = {"random": [], "optuna": []}
    for seed in SEEDS:
        for search, scores in found.items():
            scores.append(look(folder / f"{search}-{seed}", search, seed))
            print(f"{search}, seed {seed}: best {max(scores[-1]):.0f}", flush=True)
    half = SEARCH_TRIALS // 2
    lines = [
        f"| search | best of {SEARCH_TRIALS}, each seed | median | mean of the last {half}, each seed | median |",
        "|---|---|---|---|---|",
    ]
    for search, scores in found.items():
        best = [max(each) for each in scores]
        late = [fmean(each[half:]) for each in scores]
        name = search.replace("optuna", "TPE (Optuna)")
        each_best, each_late = (", ".join(f"{x:.0f}" for x in values) for values in (best, late))
        lines.append(f"| {name} | {each_best} | {median(best):.0f} | {each_late} | {median(late):.0f} |")
    return lines


def part_exercise(folder: Path) -> list[str]:
    """The grid of the tutorial's second exercise."""
    began = time.perf_counter()
    analysis = tune.run(
        MultiAgentArena,
        PPOConfig(
            lr=tune.grid_search([1e-4, 5e-4]),
            rollout_size=tune.grid_search([2000, 3000]),
            model=ModelConfig(hidden=(128, 128)),
        ),
        policies=["pol1", "pol2"], policy_mapping={"agent1": "pol1", "agent2": "pol2"}, num_envs=10,
        stop={"return_mean": 15, "iterations": 100}, seed=0, folder=folder / "arena", console="quiet",
    )  # fmt: skip
    seconds = time.perf_counter() - began
    lines = ["| lr | rollout_size | env steps | return |", "|---|---|---|---|"]
    for trial in analysis.trials:
        lr, batch = trial.params["algorithm.lr"], trial.params["algorithm.rollout_size"]
        lines.append(f"| {lr:g} | {batch} | {trial.row['env_steps']:,} | {trial.score:.1f} |")
    return [*lines, "", f"All four together took {seconds:.0f} s; asked were well under 120 s on two cores."]


PARTS = {"trials": part_trials, "reports": part_reports, "search": part_search, "exercise": part_exercise}
TITLES = {
    "trials": "What a trial costs beyond its own work",
    "reports": "What a trial costs that reports fifty times",
    "search": f"PPO on CartPole-v1: {SEARCH_TRIALS} trials of {SEARCH_STEPS:,} steps, scored by `return_mean`",
    "exercise": "The tutorial's grid in the arena",
}


def main() -> None:
    """Measures the chosen parts, and keeps what the page says of the others."""
    chosen = sys.argv[1:] or list(PARTS)
    sections = read_sections()
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            sections[name] = PARTS[name](Path(folder))
    lines = ["# Tuning", "", "Written by `python benchmarks/studies/tuning.py`.", ""]
    for name, title in TITLES.items():
        if name in sections:
            lines += [f"## {title}", "", *sections[name], ""]
    processor = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.processor()
    )  # fmt: skip
    lines.append(
        f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {version('torch')}, "
        f"optuna {version('optuna')}."
    )
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


def read_sections() -> dict[str, list[str]]:
    """Returns the page's lines for each part."""
    if not PAGE.exists():
        return {}
    names = {f"## {title}": name for name, title in TITLES.items()}
    found: dict[str, list[str]] = {}
    here = None
    for line in PAGE.read_text(encoding="utf-8").splitlines()[:-1]:
        if line in names:
            here = found.setdefault(names[line], [])
        elif here is not None:
            here.append(line)
    return {name: "\n".join(lines).strip("\n").split("\n") for name, lines in found.items()}


if __name__ == "__main__":
    main()
