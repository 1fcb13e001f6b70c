"""Accuracy of off-policy evaluation: ``python benchmarks/studies/off_policy_evaluation.py [--sets 20]``.

Policies of PPO, kept at several moments of one training, play CartPole and Pendulum for 50 steps with drawn actions.
The return of each is measured in 40,000 episodes. One of them records 20 sets of 200 episodes; the others are
evaluated on each, undiscounted. Two things are counted: whether fitted Q ranks the five policies as their returns do,
by one set (Kendall's tau), and in how many of the sets the 95 % intervals hold the measured return, of a policy near
the one that made the data, and of one farther away. Each number is kept in
`benchmarks/results/off-policy-evaluation.json` as soon as it is known, so that the work can be done in parts
(``--again`` begins anew); the page `benchmarks/results/off-policy-evaluation.md` is written from there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from rookery import PPOConfig, Trainer, evaluate_offline, record_replay

RESULTS = Path(__file__).parents[1] / "results"
KEPT = RESULTS / "off-policy-evaluation.json"
FOLDER = Path(os.environ.get("ROOKERY_DATA", Path(__file__).parents[1] / ".data")) / "off-policy-evaluation"
HORIZON, EPISODES, MEASURED = 50, 200, 40_000
METHODS = ("fqe", "is", "wis", "pdis", "dr")

TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"moments": (0, 500, 1_000, 1_500, 2_500), "behaviour": 1_000, "near": 1_500, "far": 2_500},
    "Pendulum-v1": {
        "moments": (0, 10_000, 20_000, 25_000, 30_000),
        "behaviour": 20_000,
        "near": 25_000,
        "far": 30_000,
    },
}
"""By environment: env steps of the policies; the behavior policy; the policies evaluated on every set."""


def policies(env: str) -> dict[int, Path]:
    """Returns the policies, by the env steps that they have learned from; trains missing ones."""
    places = {steps: FOLDER / env / f"policy-{steps}" for steps in TASKS[env]["moments"]}
    if all(place.is_dir() for place in places.values()):
        return places
    with Trainer(env, PPOConfig(), preset="auto", seed=1, config={"evaluation.max_episode_steps": HORIZON}) as trainer:
        trainer._horizon = max(places)
        for steps, place in places.items():
            if steps:
                trainer.train({"env_steps": steps})
            trainer.save(place)
    return places


def data(env: str, number: int) -> Path:
    """Returns a set of episodes; samples it if it does not exist."""
    place = FOLDER / env / f"set-{number}"
    if not place.is_dir():
        source = policies(env)[TASKS[env]["behaviour"]]
        record_replay(env, source, EPISODES, place, seed=100 + number, deterministic=False, max_episode_steps=HORIZON)
    return place


def measured(env: str, steps: int) -> dict[str, float]:
    """Plays episodes of a policy; gives what they earn in the mean, and its 95 % interval."""
    with Trainer.load(policies(env)[steps], console="quiet", config={"evaluation.num_envs": 256}) as trainer:
        found = trainer.evaluate(MEASURED, deterministic=False)
    low, high = found.return_interval
    return {"mean": found.return_mean, "low": low, "high": high}


def evaluated(env: str, steps: int, number: int) -> dict[str, Any]:
    """Evaluates a policy by a set; returns estimates, intervals and the effective sample size."""
    began = time.perf_counter()
    found = evaluate_offline(policies(env)[steps], data(env, number), deterministic=False, gamma=1.0, methods=METHODS)
    estimates = {one.method: [one.value, *(one.interval or (None, None))] for one in found.estimates}
    seconds = time.perf_counter() - began
    return {"estimates": estimates, "effective": found.effective_size, "ratio": found.mean_ratio, "seconds": seconds}


def known() -> dict[str, Any]:
    """Returns the stored numbers."""
    found: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def kendall(first: list[float], second: list[float]) -> float:
    """Returns Kendall's tau of two rankings without ties."""
    pairs = list(combinations(range(len(first)), 2))
    signs = [(first[a] - first[b]) * (second[a] - second[b]) > 0 for a, b in pairs]
    return (2 * sum(signs) - len(pairs)) / len(pairs)


def machine() -> str:
    """Returns the machine of the measurement."""
    return f"Python {platform.python_version()}, torch {torch.__version__}, one core."


def page(found: dict[str, Any], sets: int) -> str:
    """Returns the page."""
    lines = [
        "# Off-policy evaluation",
        "",
        f"Made by `python benchmarks/studies/off_policy_evaluation.py`: episodes of {HORIZON} steps, undiscounted, "
        f"drawn actions; {EPISODES} episodes a set. *Measured*",
        f"is the mean of {MEASURED:,} episodes that were played. {machine()}",
    ]
    for env, task in TASKS.items():
        truth = {steps: found.get(f"{env} {steps} measured") for steps in task["moments"]}
        ranked = {steps: found.get(f"{env} {steps} set 0") for steps in task["moments"]}
        if not all(truth.values()) or not all(ranked.values()):
            continue
        lines += ["", f"## {env}", "", f"Data: the policy after {task['behaviour']:,} env steps; the first set.", ""]
        lines += ["| policy | measured | " + " | ".join(METHODS) + " | effective episodes |"]
        lines += ["|---|---|" + "---|" * (len(METHODS) + 1)]
        for steps in task["moments"]:
            one, row = truth[steps], ranked[steps]
            assert one is not None and row is not None
            cells = " | ".join(
                "-" if (value := row["estimates"][name][0]) is None else f"{value:.1f}" for name in METHODS
            )
            lines.append(f"| after {steps:,} | {one['mean']:.1f} | {cells} | {row['effective']:.1f} |")
        tau = {
            name: kendall(
                [truth[steps]["mean"] for steps in task["moments"]],  # type: ignore[index]
                [ranked[steps]["estimates"][name][0] or 0.0 for steps in task["moments"]],  # type: ignore[index]
            )
            for name in METHODS
        }
        by_tau = ", ".join(f"{name} {value:.1f}" for name, value in tau.items())
        lines += ["", f"Kendall's tau of the five with the measured returns: {by_tau}.", ""]
        lines += ["| evaluated by every set | sets | " + " | ".join(METHODS) + " | effective episodes, median |"]
        lines += ["|---|---|" + "---|" * (len(METHODS) + 1)]
        for which in ("near", "far"):
            steps = task[which]
            rows = [found[key] for number in range(sets) if (key := f"{env} {steps} set {number}") in found]
            held = {
                name: sum(low is not None and low <= truth[steps]["mean"] <= high for _, low, high in
                          (row["estimates"][name] for row in rows))  # type: ignore[index]
                for name in METHODS
            }  # fmt: skip
            middle = sorted(row["effective"] for row in rows)[len(rows) // 2]
            cells = " | ".join(f"{value} of {len(rows)}" for value in held.values())
            lines.append(f"| {which}: after {steps:,} | {len(rows)} | {cells} | {middle:.1f} |")
        seconds = sorted(row["seconds"] for key, row in found.items() if key.startswith(env) and "seconds" in row)
        lines += ["", f"An evaluation took {seconds[len(seconds) // 2]:.0f} s (median)."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Makes the missing measurements and evaluations, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--env", choices=TASKS)
    options = parser.parse_args()
    if options.again:
        KEPT.unlink(missing_ok=True)
    found = known()
    for env, task in TASKS.items():
        if options.env not in (None, env):
            continue
        plan = [(steps, None) for steps in task["moments"]] + [(steps, 0) for steps in task["moments"]]
        plan += [(task[which], number) for number in range(options.sets) for which in ("near", "far")]
        for steps, number in plan:
            key = f"{env} {steps} measured" if number is None else f"{env} {steps} set {number}"
            if key not in found:
                found[key] = measured(env, steps) if number is None else evaluated(env, steps, number)
                print(key, json.dumps(found[key]), flush=True)
                KEPT.write_text(json.dumps(known() | {key: found[key]}, indent=1) + "\n")
    (RESULTS / "off-policy-evaluation.md").write_text(page(known(), options.sets))


if __name__ == "__main__":
    main()
