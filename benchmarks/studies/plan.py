"""The model of cost beside real runs: steps a second with 1 to 8 workers, and with 1 and 2 learners.

``python benchmarks/studies/plan.py`` writes benchmarks/results/plan.md, and what it has measured to plan.json beside
it. It needs the extra ray and about ten minutes. ``--scaling`` measures nothing: it writes the tables of
docs/scaling.md anew, from the costs in plan.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from rookery import IMPALAConfig, PPOConfig, Trainer
from rookery.cluster.ranks import SINGLE, Ranks
from rookery.core.process.cpu import usable_cores
from rookery.run.plan.cost_model import Costs, LinearCost, Machines, Workload, predict
from rookery.run.plan.measured_costs import MeasuredCosts, measure_costs

sys.path.append(str(Path(__file__).parents[1]))
from sleeper import BATCH, FRAGMENT, HIDDEN, IN_FLIGHT, STEP_SECONDS, Sleeper

RESULTS = Path(__file__).parents[1] / "results"
PAGE, COSTS = RESULTS / "plan.md", RESULTS / "plan.json"
SCALING = Path(__file__).parents[2] / "docs" / "scaling.md"

COMPUTING_SECONDS = 0.001
GOAL = 0.25
"""How far a prediction may be from what was measured, as a part of that."""


class Computer(gymnasium.Env[np.ndarray, int]):
    """Takes a fixed CPU time for each step, however long it has to wait for it."""

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
    exchanging: int = 1
    """Learners whose messages are measured."""

    def rows(self) -> list[tuple[int, int, int]]:
        """Workers, learners and environments of each run."""
        shared = int(self.settings.get("sampling.num_envs", 8))
        return [
            (workers, learners, shared if self.copies is None else self.copies * max(workers, learners))
            for workers in self.workers or (0,)
            for learners in self.learners
        ]

    def make(self, chosen: Mapping[str, Any], ranks: Ranks = SINGLE) -> Trainer:
        """Makes a trainer with some settings changed."""
        return Trainer(self.env, self.algorithm, seed=0, config={**self.settings, **chosen}, ranks=ranks)

    def measure(self, seconds: float) -> MeasuredCosts:
        """Measures the costs that predictions are made of."""
        shares = [-(-copies // workers) for workers, _, copies in self.rows() if workers]
        return measure_costs(self.make, shares, self.exchanging, seconds)

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
        IMPALAConfig(fragment_length=FRAGMENT, rollout_size=BATCH, model={"hidden": HIDDEN}),
        {"sampling.num_envs": 1, "sampling.asynchronous": True, "sampling.max_requests_in_flight": IN_FLIGHT,
         "sampling.warmup_steps": 0},
        copies=1,
        workers=(1, 2, 4, 8),
    ),
    "computing": Case(
        f"An environment that computes {1e3 * COMPUTING_SECONDS:g} ms a step, 8 environments shared by all, PPO, "
        "synchronous",
        Computer,
        PPOConfig(fragment_length=32, epochs=4, minibatch_size=128),
        {"sampling.num_envs": 8, "sampling.warmup_steps": 0},
        copies=None,
        workers=(1, 2, 4, 8),
        exchanging=2,
    ),
    "learners": Case(
        "CartPole-v1, 8 environments shared by all, PPO, learners that play by themselves",
        "CartPole-v1",
        PPOConfig(fragment_length=128, epochs=10, minibatch_size=128),
        {"sampling.num_envs": 8},
        copies=None,
        learners=(1, 2),
        exchanging=2,
    ),
}  # fmt: skip


def cores_there(seconds: float = 1.0) -> float:
    """Returns how many cores as many busy processes as there are cores get together: fewer if others are at work."""
    code = f"import time; end = time.time() + {seconds}\nwhile time.time() < end: pass\nprint(time.process_time())"
    busy = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(usable_cores())
    ]  # fmt: skip
    return sum(float(one.communicate()[0]) for one in busy) / seconds


# --- predicted and measured -------------------------------------------------------------------------------------------


def table(case: Case, costs: MeasuredCosts, cores: int, measured: Mapping[str, list[float]]) -> list[str]:
    """Returns the rows of a case: predicted, measured, and how far apart."""
    lines = [
        "| workers | learners | envs | predicted, steps/s | measured | least to most | off by | bottleneck |",
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
    there = []
    for number in range(rounds):
        for name in names:
            case = CASES[name]
            there.append(cores_there())
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
        f"Written by `python benchmarks/studies/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`.", "",
        "What `rookery bench --plan` predicts ([scaling](../../docs/scaling.md)) beside what real runs reach, workers "
        f"on a Ray of this machine. Costs and runs in turn, {rounds} rounds; predictions by the medians of the costs, "
        f"which are measured without any of these runs; medians of runs of {running:g} s, starting not counted. "
        f"The goal is {100 * GOAL:.0f} %; what misses it is marked (!).", "",
        f"Before each case of a round as many busy processes as there are cores got {min(there):.2f} to "
        f"{max(there):.2f} of {usable_cores()} cores together: much less says that the machine did something else.", "",
    ]  # fmt: skip
    for name in names:
        lines += [f"## {CASES[name].title}", "", *table(CASES[name], costs[name], usable_cores(), rates[name]), ""]
    lines += ["## Costs", "", *cost_table(costs), "", f"{machine}."]
    PAGE.write_text("\n".join(lines) + "\n")


def cost_table(costs: Mapping[str, MeasuredCosts]) -> list[str]:
    """Returns a table of the costs of all cases."""
    lines = [f"| microseconds, if not said otherwise | {' | '.join(costs)} |", "|---" * (1 + len(costs)) + "|"]
    plain = {"crowded": 1.0, "rows": 1.0, "row_bytes": 1.0, "weight_bytes": 1.0, "learn_cores": 1.0, "exchanges": 1.0,
             "exchange_rows": 1.0,
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

CORES, MACHINES = 16, (1, 10, 100, 1000)
"""Cores of each machine and numbers of machines in the tables of docs/scaling.md."""

IMAGES = Costs(
    vector_step=LinearCost(2e-4, 5e-4), vector_step_cpu=LinearCost(2e-4, 5e-4), own_step=LinearCost(2e-4, 5e-4),
    learn=LinearCost(2e-3, 2e-5), call=5e-4, call_elsewhere=7e-4, round_trip=1.2e-3, row=1e-5, row_elsewhere=1e-5,
    row_bytes=7_100, weights=5e-3, weights_elsewhere=1e-2, weight_bytes=6.7e6,
)  # fmt: skip
"""Stated, not measured: images of 84x84 bytes, a network of 1.7 million parameters, a learner on a GPU."""

REMEDIES = {
    "playing": "more workers",
    "cores": "more cores, or a cheaper step",
    "transfer": "fewer calls: longer fragments, more environments a worker; several learners",
    "learning": "several learners, larger minibatches, fewer epochs, a GPU",
    "exchange": "larger minibatches or fewer epochs: fewer messages; fewer learners",
}
"""What moves each bottleneck."""


@dataclass(frozen=True)
class Way:
    """A way to run a workload on several machines.

    Attributes:
        says: What it changes, for people.
        workers: Of each machine; 0 = learners play by themselves.
        copies: Of each worker, or learner.
        learners: Of each machine; 0 = one in all.
        changed: What it changes of the workload.
    """

    says: str
    workers: int
    copies: int
    learners: int = 0
    changed: Mapping[str, Any] = field(default_factory=dict)


WAYS = {
    "sleeping": [
        Way("a worker a core, one copy each", CORES, 1),
        Way("fragments of 200 instead of 50, batches of 8,000 instead of 500", CORES, 1,
            changed={"fragment_length": 200, "batch": 8_000}),
        Way("the same, 4 workers a core", 4 * CORES, 1, changed={"fragment_length": 200, "batch": 8_000}),
    ],
    "computing": [
        Way("a worker a core, 8 environments each, one learner", CORES, 8),
        Way("fragments of 128 instead of 32", CORES, 8, changed={"fragment_length": 128}),
        Way("the same, a learner a machine with workers (*)", CORES, 8, 1, {"fragment_length": 128}),
        Way("the same, a learner a machine that plays 8 environments alone", 0, 8, 1, {"fragment_length": 128}),
    ],
    "images": [
        Way("a worker a core, 4 environments each, batches of 2,000", CORES, 4),
        Way("batches of 16,000, fragments of 80 instead of 20", CORES, 4,
            changed={"fragment_length": 80, "batch": 16_000}),
    ],
}  # fmt: skip


def scaling() -> None:
    """Writes the tables of docs/scaling.md, each between its two marks."""
    kept = json.loads(COSTS.read_text())
    linear = {one.name for one in fields(Costs) if isinstance(getattr(IMAGES, one.name), LinearCost)}
    known = {"images": (IMAGES, Workload(20, 2_000, asynchronous=True))}
    for name, case in kept["cases"].items():
        costs = {key: LinearCost(**value) if key in linear else value for key, value in case["costs"].items()}
        known[name] = Costs(**costs), Workload(**case["workload"])
    page = SCALING.read_text()
    for name, ways in WAYS.items():
        lines = scaling_table(*known[name], ways)
        begin, end = f"<!-- {name}: benchmarks/studies/plan.py --scaling -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}{rest.partition(end)[2]}"
    SCALING.write_text(page)


def scaling_table(costs: Costs, workload: Workload, ways: list[Way]) -> list[str]:
    """Returns a table of what ways reach on more and more machines."""
    lines = [
        "| | machines | workers | learners | steps/s | of the workers' | bottleneck | what moves it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way in ways:
        wanted = replace(workload, **way.changed)
        for count in MACHINES:
            learners, workers = max(1, way.learners * count), way.workers * count
            copies = way.copies * max(workers, learners)
            found = predict(costs, wanted, Machines(CORES, count), workers, learners, copies)
            alone = 1 / (costs.vector_step(way.copies) / way.copies) * max(workers, learners)
            lines.append(
                f"| {way.says if count == MACHINES[0] else ''} | {count:,} | {workers or 'none'} | {learners:,} | "
                f"{found.steps_per_second:,.0f} | {100 * found.steps_per_second / alone:.3g} % | {found.bottleneck} | "
                f"{REMEDIES[found.bottleneck]} |"
            )
    return lines


def main() -> None:
    """Measures and writes the page, or writes the tables of docs/scaling.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measuring", type=float, default=12.0, help="seconds for the costs of a case")
    parser.add_argument("--running", type=float, default=6.0, help="seconds of each run")
    parser.add_argument("--scaling", action="store_true", help="only write the tables of docs/scaling.md")
    options = parser.parse_args()
    if options.scaling:
        scaling()
        return
    torch.set_num_threads(1)
    compare(options.cases, options.rounds, options.measuring, options.running)


if __name__ == "__main__":
    main()
