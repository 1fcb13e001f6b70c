"""Results of learning from data alone: ``python benchmarks/studies/offline.py [SET ...] [--algo NAME ...] [--seeds
3]``.

Every algorithm learns from every set of `benchmarks/studies/datasets.py` that has its kind of actions, BC too, and is
measured over 20 episodes with the likeliest actions. All but BC and the Decision Transformer then play 10,000 env steps
on, on some of the sets, and are measured again; the Decision Transformer also aims at a low return, as a control. Each
run is kept in `benchmarks/results/offline.json` as soon as it is made, so that the work can be done in parts
(``--again`` makes them anew); the page `benchmarks/results/offline.md` is written from there.

Settings were chosen on seeds 0, 1 and 2; reported are seeds 10, 11 and 12.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from datasets import SETS, env_of, episodes_in, path_of

from rookery import Trainer

RESULTS = Path(__file__).parents[1] / "results"
EPISODES = 20
FIRST = 10
"""The first seed."""
ONLINE = 10_000
PLAYED_ON = ("pendulum-mixed", "pendulum-medium", "cartpole-replay", "hopper-medium-replay")
"""Sets after which policies play on."""
DRAWN = ("hopper-medium-replay",)
"""Sets whose policies are measured with drawn actions, too: those who made the data fall of their own noise."""

SMALL: dict[str, Any] = {"algorithm.model.hidden": (64, 64), "algorithm.lr": 1e-3, "algorithm.gamma": 0.95}
"""What all have on Pendulum: whose rewards are felt at once, so that a short horizon is enough."""

READER: dict[str, Any] = {
    "algorithm.context": 5,
    "algorithm.layers": 1,
    "algorithm.width": 64,
    "algorithm.lr": 1e-3,
    "algorithm.warmup_steps": 500,
}
"""What the Decision Transformer has on small tasks; the paper's sizes take ten times as long a step."""

POOR = {"Pendulum-v1": -1_200.0, "CartPole-v1": 20.0}
"""Returns at which the Decision Transformer aims in the control."""

SETTINGS: dict[str, dict[str, tuple[int, Mapping[str, Any]]]] = {
    "Pendulum-v1": {
        "bc": (5_000, {}),
        "iql": (15_000, SMALL),
        "awac": (15_000, SMALL),
        "td3bc": (15_000, {**SMALL, "algorithm.alpha": 20.0}),
        "cql": (
            5_000,
            {
                **SMALL,
                "algorithm.actor_lr": 1e-3,
                "algorithm.conservative_weight": 0.2,
                "algorithm.model.normalize_obs": True,
            },
        ),
        "dt": (2_500, READER),
    },
    "CartPole-v1": {
        "bc": (5_000, {}),
        "discrete_cql": (20_000, {}),
        "iql": (10_000, {"algorithm.model.hidden": (64, 64), "algorithm.lr": 1e-3}),
        "awac": (10_000, {"algorithm.model.hidden": (64, 64), "algorithm.lr": 1e-3}),
        "dt": (2_500, READER),
    },
    "Hopper-v5": {
        "bc": (5_000, {}),
        "iql": (
            10_000,
            {
                "algorithm.model.hidden": (64, 64),
                "algorithm.lr": 1e-3,
                "algorithm.actor_lr": 3e-4,
                "algorithm.tau": 0.05,
                "algorithm.n_step": 10,
                "algorithm.beta": 0.03,
                "algorithm.model.normalize_obs": True,
            },
        ),
        "awac": (50_000, {"algorithm.model.normalize_obs": True}),
        "td3bc": (50_000, {}),
        "cql": (20_000, {"algorithm.model.normalize_obs": True}),
    },
}
"""By environment and algorithm: gradient steps on data, and settings beside the defaults."""

SPEED = (
    "Of these runs, beside which the machine may have done other things; measured alone and beside another library:\n"
    "[Speed of learning from data](offline_speed.md)."
)
"""What is to be known of the rates."""

BESIDE = "beside"
"""First word of the runs of `benchmarks/studies/decision_transformer.py`."""
FORMS = {"rookery": "Rookery", "plain": "plain torch", "total": "Rookery with return_input=total"}
"""Forms of the Decision Transformer that are compared there."""

Found = dict[str, dict[str, Any]]


def run(name: str, algorithm: str, seed: int) -> dict[str, Any]:
    """Trains once; gives what it is measured to earn, on data and after playing on, and its gradient steps a second."""
    env = env_of(name)
    steps, settings = SETTINGS[env][algorithm]
    with Trainer(env, algorithm, replay=path_of(name), seed=seed, config=settings, num_envs=1) as trainer:
        began = time.perf_counter()
        trainer.learn(steps)
        made = steps / (time.perf_counter() - began)
        found: dict[str, Any] = {"offline": trainer.evaluate(EPISODES).return_mean, "steps_per_second": made}
        if name in DRAWN:
            found["drawn"] = trainer.evaluate(EPISODES, deterministic=False).return_mean
        if algorithm == "dt" and env in POOR:
            trainer.policies["main"].memory.target_return.fill_(POOR[env])
            found["poor"] = trainer.evaluate(EPISODES).return_mean
        elif name in PLAYED_ON and algorithm != "bc":
            trainer.train({"env_steps": ONLINE})
            found["online"] = trainer.evaluate(EPISODES).return_mean
    return found


def cell(values: list[float]) -> str:
    """Returns the median of some returns, and all of them."""
    if not values:
        return ""
    return (
        f"{median(values):.0f} ({', '.join(f'{value:.0f}' for value in values)})"
        if len(values) > 1
        else (f"{values[0]:.0f}")
    )


def page(found: Found) -> str:
    """Returns the page."""
    columns = ("bc", "iql", "awac", "td3bc", "cql", "discrete_cql", "dt")
    lines = [
        "# Learning from data alone",
        "",
        "Made by `python benchmarks/studies/offline.py` from sets that `python benchmarks/studies/datasets.py` makes:",
        f"the median of the seeds and, in brackets, each of them; {EPISODES} episodes with the likeliest actions.",
        "Settings are in the script, by environment and algorithm; they were chosen on other seeds. *Data* is the mean",
        "return of the policies that made them.",
        machine(),
        "",
        "| set | data | " + " | ".join(columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for name in SETS:
        cells = {one: [row["offline"] for row in runs(found, name, one)] for one in columns}
        if any(cells.values()):
            mean = fmean(episodes_in(name).returns)
            lines.append(f"| {name} | {mean:.0f} | " + " | ".join(cell(cells[one]) for one in columns) + " |")
    lines += control(found)
    lines += drawn(found)
    players = columns[1:-1]
    lines += [
        "",
        f"## Playing on: {ONLINE:,} env steps later",
        "",
        "| set | " + " | ".join(players) + " |",
        "|---|" + "---|" * len(players),
    ]
    for name in PLAYED_ON:
        cells = {one: [row["online"] for row in runs(found, name, one) if "online" in row] for one in players}
        if any(cells.values()):
            lines.append(f"| {name} | " + " | ".join(cell(values) for values in cells.values()) + " |")
    lines += ["", "## Gradient steps a second, on one core", "", SPEED, ""]
    lines += ["| environment | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for env in SETTINGS:
        rates = {
            one: [row["steps_per_second"] for name in SETS if env_of(name) == env for row in runs(found, name, one)]
            for one in columns
        }
        if any(rates.values()):
            lines.append(f"| {env} | " + " | ".join(f"{median(v):,.0f}" if v else "" for v in rates.values()) + " |")
    return "\n".join(lines + beside(found)) + "\n"


def control(found: Found) -> list[str]:
    """Returns the lines about the returns of the Decision Transformer that aims at a low return."""
    lines = [
        "",
        "## The Decision Transformer with a low target return",
        "",
        "The control: the same policies with another target return.",
        "",
        "| set | return with the data's best as target | low target | return then |",
        "|---|---|---|---|",
    ]
    for name in SETS:
        rows = [row for row in runs(found, name, "dt") if "poor" in row]
        if rows:
            best, poor = ([row[key] for row in rows] for key in ("offline", "poor"))
            lines.append(f"| {name} | {cell(best)} | {POOR[env_of(name)]:.0f} | {cell(poor)} |")
    return lines


def beside(found: Found) -> list[str]:
    """Returns the lines about the Decision Transformer beside a plain form of it."""
    sizes = sorted({row["steps"] for key, row in found.items() if f" {BESIDE}-" in key})
    every = {
        (name, steps): {form: runs(found, name, f"{BESIDE}-{form}-{steps}") for form in FORMS}
        for name in SETS
        for steps in sizes
    }
    every = {at: forms for at, forms in every.items() if any(forms.values())}
    lines = [
        "",
        "## The Decision Transformer beside a plain form of it",
        "",
        "Made by `python benchmarks/studies/decision_transformer.py SET [--steps N]`: the data's best return as",
        "target, sizes as of `READER` in `benchmarks/studies/offline.py`, the same data and the same 20 episodes for",
        "all. Plain torch is `benchmarks/peers/plain_dt.py`, with CORL's settings (weights of 0.02, 1,000 timesteps,",
        "dropout 0.1). The sets were made anew for this section, so their means differ from those of the first table.",
        "",
        "| set | gradient steps | data | target | " + " | ".join(FORMS.values()) + " |",
        "|---|---|---|---|" + "---|" * len(FORMS),
    ]
    for (name, steps), forms in every.items():
        facts = next(row for rows in forms.values() for row in rows)
        cells = " | ".join(cell([row["offline"] for row in rows]) for rows in forms.values())
        lines.append(f"| {name} | {steps:,} | {facts['data']:.0f} | {facts['target']:.0f} | {cells} |")
    rates = [[row["steps_per_second"] for forms in every.values() for row in forms[form]] for form in FORMS]
    medians = " | ".join(f"{median(rate):.0f}" if rate else "" for rate in rates)
    lines += [f"| gradient steps a second, beside other work of the machine | | | | {medians} |"]
    return lines


def drawn(found: Found) -> list[str]:
    """Returns the lines about the returns of policies with drawn actions."""
    lines = [
        "",
        "## With drawn actions",
        "",
        "As the policies acted that made the data: the noise of a Gaussian policy is part of its return.",
        "",
        "| set | data | algorithm | likeliest actions | drawn |",
        "|---|---|---|---|---|",
    ]
    for name in DRAWN:
        mean = fmean(episodes_in(name).returns)
        for algorithm in SETTINGS[env_of(name)]:
            rows = [row for row in runs(found, name, algorithm) if "drawn" in row]
            if rows:
                likeliest, noisy = ([row[key] for row in rows] for key in ("offline", "drawn"))
                lines.append(f"| {name} | {mean:.0f} | {algorithm} | {cell(likeliest)} | {cell(noisy)} |")
    return lines


def machine() -> str:
    """Returns the versions and the machine of the measurements."""
    return f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, one core."


def runs(found: Found, name: str, algorithm: str) -> list[dict[str, Any]]:
    """Returns the runs of an algorithm on a set, by seed."""
    keys = sorted(key for key in found if key.startswith(f"{name} {algorithm} "))
    return [found[key] for key in keys]


def main() -> None:
    """Makes what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    parser.add_argument("--algo", action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    kept = RESULTS / "offline.json"
    torch.set_num_threads(1)
    for name in options.sets or SETS:
        for algorithm in options.algo or SETTINGS[env_of(name)]:
            for seed in range(FIRST, FIRST + (options.seeds if algorithm in SETTINGS[env_of(name)] else 0)):
                found: Found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
                key = f"{name} {algorithm} {seed}"
                if key in found and not options.again:
                    continue
                result = run(name, algorithm, seed)
                found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}  # others may write too
                kept.write_text(json.dumps({**found, key: result}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
                print(key, result, flush=True)
    found = json.loads(kept.read_text(encoding="utf-8"))
    (RESULTS / "offline.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
