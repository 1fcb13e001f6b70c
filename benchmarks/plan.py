"""The model of cost beside real runs: steps a second with 1 to 8 workers, and with 1 and 2 learners.

``python benchmarks/plan.py`` writes benchmarks/results/plan.md, and what it has measured to plan.json beside it. It
needs the extra ray and about ten minutes. ``--scaling`` measures nothing: it writes the tables of docs/scaling.md anew,
from the costs in plan.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from sleeper import BATCH, FRAGMENT, HIDDEN, IN_FLIGHT, STEP_SECONDS, Sleeper

from rookery import IMPALAConfig, PPOConfig, Trainer
from rookery.cluster.ranks import ALONE, Ranks
from rookery.core.processor import usable_cores
from rookery.training.cost_model import Costs, LinearCost, Machines, Workload, predict
from rookery.training.measured_costs import MeasuredCosts, measure_costs

RESULTS = Path(__file__).parent / "results"
PAGE, COSTS = RESULTS / "plan.md", RESULTS / "plan.json"
SCALING = Path(__file__).parents[1] / "docs" / "scaling.md"

COMPUTING_SECONDS = 0.001
GOAL = 0.25
"""How far a prediction may be from what was measured, as a part of that."""


class Computer(gymnasium.Env[np.ndarray, int]):
    """Takes so much of a processor for each step, however long it has to wait for it."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Computes."""
        until = time.thread_time() + COMPUTING_SECONDS
        while time.thread_time() < until:
            pass
        self.time += 1
        return np.zeros(4, np.float32), 1.0, False, self.time == 200, {}


@dataclass(frozen=True)
class Case:
    """A training that is predicted and run.

    Attributes:
        title: What it is, for people.
        env: Its environment.
        algorithm: Its algorithm.
        settings: Other settings by path.
        copies: Of each worker; None = `num_envs` of the settings, shared by all.
        workers: Numbers of workers; empty = none, but learners.
        learners: Numbers of learners.
    """

    title: str
    env: Any
    algorithm: Any
    settings: Mapping[str, Any]
    copies: int | None
    workers: tuple[int, ...] = ()
    learners: tuple[int, ...] = (1,)

    def rows(self) -> list[tuple[int, int, int]]:
        """Workers, learners and copies of each run."""
        shared = int(self.settings.get("sampling.num_envs", 8))
        return [
            (workers, learners, shared if self.copies is None else self.copies * max(workers, learners))
            for workers in self.workers or (0,)
            for learners in self.learners
        ]

    def make(self, chosen: Mapping[str, Any], ranks: Ranks = ALONE) -> Trainer:
        """Makes a trainer with some settings changed."""
        return Trainer(self.env, self.algorithm, seed=0, config={**self.settings, **chosen}, ranks=ranks)

    def measure(self, seconds: float) -> MeasuredCosts:
        """Measures the costs that predictions are made of."""
        shares = [-(-copies // workers) for workers, _, copies in self.rows() if workers]
        return measure_costs(self.make, shares, max(self.learners), seconds)

    def run(self, workers: int, learners: int, copies: int, seconds: float) -> float:
        """Trains for real, and returns env steps a second without the first two iterations."""
        chosen = {"sampling.num_envs": copies, "cluster.learners": learners}
        if workers:
            chosen |= {"sampling.workers": workers, "cluster.ray": "local"}
        with self.make(chosen) as trainer:
            for _ in range(2):
                trainer.train_iteration()
            steps, began = trainer.env_steps, time.perf_counter()
            while time.perf_counter() - began < seconds:
                trainer.train_iteration()
            return (trainer.env_steps - steps) / (time.perf_counter() - began)


CASES = {
    "sleeping": Case(
        f"An environment that sleeps {1e3 * STEP_SECONDS:g} ms a step, one copy a worker, IMPALA, asynchronous",
        Sleeper,
        IMPALAConfig(fragment_length=FRAGMENT, batch_size=BATCH, model={"hidden": HIDDEN}),
        {"sampling.num_envs": 1, "sampling.asynchronous": True, "sampling.in_flight": IN_FLIGHT,
         "sampling.warmup_steps": 0},
        copies=1,
        workers=(1, 2, 4, 8),
    ),
    "computing": Case(
        f"An environment that computes {1e3 * COMPUTING_SECONDS:g} ms a step, 8 copies shared by all, PPO, synchronous",
        Computer,
        PPOConfig(fragment_length=32, epochs=4, minibatch_size=128),
        {"sampling.num_envs": 8, "sampling.warmup_steps": 0},
        copies=None,
        workers=(1, 2, 4, 8),
    ),
    "learners": Case(
        "CartPole-v1, 8 copies shared by all, PPO, learners that play by themselves",
        "CartPole-v1",
        PPOConfig(fragment_length=128, epochs=10, minibatch_size=128),
        {"sampling.num_envs": 8},
        copies=None,
        learners=(1, 2),
    ),
}  # fmt: skip


# --- predicted and measured -------------------------------------------------------------------------------------------


def table(case: Case, costs: MeasuredCosts, cores: int, measured: Mapping[str, list[float]]) -> list[str]:
    """Returns the rows of a case: predicted, measured, and how far apart."""
    lines = [
        "| workers | learners | copies | predicted, steps/s | measured, steps/s | least to most | off by | bottleneck |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in case.rows():
        found = predict(costs.costs, costs.workload, Machines(cores), *row)
        rates = measured[_key(*row)]
        off = found.steps_per_second / median(rates) - 1
        mark = "" if abs(off) <= GOAL else " (!)"
        lines.append(
            f"| {row[0] or 'none'} | {row[1]} | {row[2]} | {found.steps_per_second:,.0f} | {median(rates):,.0f} | "
            f"{min(rates):,.0f} to {max(rates):,.0f} | {100 * off:+.0f} %{mark} | {found.bottleneck} |"
        )
    return lines


def middle(found: list[MeasuredCosts]) -> MeasuredCosts:
    """Returns the medians of costs that were measured several times."""

    def of(values: list[Any]) -> Any:
        if isinstance(values[0], LinearCost):
            return LinearCost(median(one.fixed for one in values), median(one.each for one in values))
        return median(values)

    costs = {one.name: of([getattr(each.costs, one.name) for each in found]) for one in fields(Costs)}
    return replace(
        found[0], costs=Costs(**costs), steps_per_second=median(one.steps_per_second for one in found)
    )  # fmt: skip


def _key(workers: int, learners: int, copies: int) -> str:
    return f"{workers} {learners} {copies}"


def compare(names: list[str], rounds: int, measuring: float, running: float) -> None:
    """Measures costs and runs in turn, and writes the page and the costs."""
    found: dict[str, list[MeasuredCosts]] = {name: [] for name in names}
    rates: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for number in range(rounds):
        for name in names:
            case = CASES[name]
            found[name].append(case.measure(measuring))
            for row in case.rows():
                rates[name].setdefault(_key(*row), []).append(case.run(*row, running))
            print(f"round {number + 1}: {name}", *table(case, found[name][-1], usable_cores(), rates[name]), sep="\n")
    costs = {name: middle(each) for name, each in found.items()}
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown processor")  # fmt: skip
    import ray

    machine = (
        f"{cpu}, {usable_cores()} cores, Python {platform.python_version()}, torch {torch.__version__}, "
        f"Ray {ray.__version__}"
    )
    kept = {
        "machine": machine,
        "cores": usable_cores(),
        "cases": {name: {"costs": asdict(one.costs), "workload": asdict(one.workload)} for name, one in costs.items()},
    }
    COSTS.write_text(json.dumps(kept, indent=1) + "\n")
    lines = [
        "# Predicted and measured", "",
        f"Written by `python benchmarks/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`.", "",
        "What `rookery bench --plan` predicts ([scaling](../../docs/scaling.md)) beside what real runs reach, workers on "
        f"a Ray of this machine. Costs and runs in turn, {rounds} rounds; predictions by the medians of the costs, which "
        f"are measured without any of these runs; medians of runs of {running:g} s, starting not counted. "
        f"The goal is {100 * GOAL:.0f} %; what misses it is marked (!).", "",
    ]  # fmt: skip
    for name in names:
        lines += [f"## {CASES[name].title}", "", *table(CASES[name], costs[name], usable_cores(), rates[name]), ""]
    lines += ["## Costs", "", *cost_table(costs), "", f"{machine}."]
    PAGE.write_text("\n".join(lines) + "\n")


def cost_table(costs: Mapping[str, MeasuredCosts]) -> list[str]:
    """Returns a table of the costs of all cases."""
    lines = [f"| microseconds, if not said otherwise | {' | '.join(costs)} |", "|---" * (1 + len(costs)) + "|"]
    plain = {"rows": 1.0, "row_bytes": 1.0, "weight_bytes": 1.0, "learn_cores": 1.0, "exchanges": 1.0,
             "exchange_bytes": 1.0, "few": 1.0}  # fmt: skip
    for one in fields(Costs):
        cells = []
        for each in costs.values():
            value = getattr(each.costs, one.name)
            if isinstance(value, LinearCost):
                cells.append(f"{1e6 * value.fixed:,.1f} + {1e6 * value.each:,.2f} each")
            else:
                cells.append(f"{value * plain.get(one.name, 1e6):,.4g}")
        lines.append(f"| `{one.name}`{' (a number)' if one.name in plain else ''} | {' | '.join(cells)} |")
    return lines


# --- tables of docs/scaling.md ----------------------------------------------------------------------------------------


def main() -> None:
    """Measures and writes the page, or writes the tables of docs/scaling.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measuring", type=float, default=12.0, help="seconds for the costs of a case")
    parser.add_argument("--running", type=float, default=6.0, help="seconds of each run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    compare(options.cases, options.rounds, options.measuring, options.running)


if __name__ == "__main__":
    main()
