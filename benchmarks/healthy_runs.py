"""Trains runs that learn and keeps their metrics: ``python benchmarks/healthy_runs.py``, about 15 minutes on one core.

The rules of `rookery doctor` must say little about these runs. Algorithms have the preset of the environment or their
defaults; all runs have seed 0, and are stored whether they reach their goal or not. Each is one file in
`tests/doctor/healthy/`, JSON lines in gzip: first its name, goal and settings as in `config.yaml`, then one row of
`metrics.jsonl` for each iteration. A run with more updates than `MOST_ROWS` has longer iterations
(`sampling.iteration_steps`), so that its rows are all there is. Of the names in alphabetical order every third is kept
in `aside/`, for a test of the rules on runs that played no part in writing them.

A run that is stored is not trained again: ``--again`` does so, ``--only NAME ...`` trains some.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery import Trainer
from rookery.core.io.yaml_reader import load_yaml
from rookery.report.metrics_file import read_rows

FOLDER = Path(__file__).parents[1] / "tests" / "doctor" / "healthy"
MOST_ROWS = 200
DIGITS = 5
"""Significant digits of stored numbers."""
TWO_POLICIES = {"policies": {"pol1": "ppo", "pol2": "ppo"}, "policy_mapping": {"agent1": "pol1", "agent2": "pol2"}}
BESIDE = {"policies": {"pol1": "ppo", "pol2": "dqn"}, "policy_mapping": {"agent1": "pol1", "agent2": "pol2"}}
TWO_STEP = {"sampling.num_envs": 16}
ONE_TEAM = {"teams": {"blue": ["a", "b"]}}


@dataclass(frozen=True)
class HealthyRun:
    """One run.

    Attributes:
        env: Name of the environment.
        algorithm: Short name of the algorithm; empty where `more` names policies.
        env_steps: Budget.
        goal: Mean return over the last training episodes that counts as learned.
        settings: Settings over the preset.
        preset: ``auto`` or ``none``.
        more: Further arguments of `Trainer`.
        longer: Whether iterations are longer than one update, because there would be more than `MOST_ROWS`.
    """

    env: str
    algorithm: str
    env_steps: int
    goal: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "auto"
    more: Mapping[str, Any] = field(default_factory=dict)
    longer: bool = False


RUNS = {
    "cartpole-ppo": HealthyRun("CartPole-v1", "ppo", 50_000, 400),
    "cartpole-ppo-defaults": HealthyRun("CartPole-v1", "ppo", 100_000, 300, preset="none"),
    "cartpole-a2c": HealthyRun("CartPole-v1", "a2c", 200_000, 300),
    "cartpole-impala": HealthyRun("CartPole-v1", "impala", 600_000, 300, longer=True),
    "cartpole-appo": HealthyRun("CartPole-v1", "appo", 200_000, 300, longer=True),
    "cartpole-reinforce": HealthyRun("CartPole-v1", "reinforce", 200_000, 200, longer=True),
    "cartpole-pqn": HealthyRun("CartPole-v1", "pqn", 150_000, 200, longer=True),
    "cartpole-dqn": HealthyRun("CartPole-v1", "dqn", 50_000, 150, longer=True),
    "cartpole-dqn-defaults": HealthyRun("CartPole-v1", "dqn", 40_000, 80, preset="none", longer=True),
    "cartpole-sac": HealthyRun("CartPole-v1", "sac", 15_000, 80, longer=True),
    "acrobot-ppo": HealthyRun("Acrobot-v1", "ppo", 400_000, -150),
    "mountain-car-ppo": HealthyRun("MountainCar-v0", "ppo", 800_000, -150, longer=True),
    "pendulum-ppo": HealthyRun("Pendulum-v1", "ppo", 100_000, -300),
    "pendulum-ppo-defaults": HealthyRun("Pendulum-v1", "ppo", 150_000, -400, preset="none"),
    "pendulum-appo": HealthyRun("Pendulum-v1", "appo", 400_000, -400, longer=True),
    "pendulum-sac": HealthyRun("Pendulum-v1", "sac", 20_000, -400, longer=True),
    "pendulum-td3": HealthyRun("Pendulum-v1", "td3", 20_000, -500, longer=True),
    "pendulum-ddpg": HealthyRun("Pendulum-v1", "ddpg", 20_000, -400, longer=True),
    "mountain-car-sac": HealthyRun("MountainCarContinuous-v0", "sac", 20_000, 50, longer=True),
    "lunar-lander-ppo": HealthyRun("LunarLander-v3", "ppo", 400_000, 0),
    "inverted-pendulum-ppo": HealthyRun("InvertedPendulum-v5", "ppo", 200_000, 500),
    "half-cheetah-ppo": HealthyRun("HalfCheetah-v5", "ppo", 200_000, 500),
    "hopper-ppo": HealthyRun("Hopper-v5", "ppo", 150_000, 500),
    "stateless-cartpole-ppo": HealthyRun("StatelessCartPole", "ppo", 200_000, 150),
    "cue-corridor-ppo": HealthyRun("CueCorridor", "ppo", 100_000, 0.8),
    "key-door-ppo": HealthyRun("KeyDoor", "ppo", 150_000, 0.5),
    "frozen-lake-dqn": HealthyRun("FrozenLake-v1", "dqn", 30_000, 0.3, longer=True),
    "cliff-walking-dqn": HealthyRun("CliffWalking-v1", "dqn", 30_000, -100, longer=True),
    "arena-two-policies": HealthyRun("MultiAgentArena", "", 80_000, 18, {"sampling.num_envs": 16}, more=TWO_POLICIES),
    "arena-ppo-beside-dqn": HealthyRun("MultiAgentArena", "", 60_000, 5, {"sampling.num_envs": 16}, more=BESIDE),
    "matrix-game-mappo": HealthyRun("MatrixGame", "mappo", 20_000, 7, TWO_STEP),
    "matrix-game-qmix": HealthyRun(
        "MatrixGame", "qmix", 20_000, 6, {**TWO_STEP, "teams": {"blue": ["a", "b"]}}, longer=True
    ),
}


def is_aside(name: str) -> bool:
    """Whether a run is kept aside: every third in alphabetical order."""
    return sorted(RUNS).index(name) % 3 == 2


def path_of(name: str) -> Path:
    """Returns the file of a run."""
    return FOLDER / ("aside" if is_aside(name) else "") / f"{name}.jsonl.gz"


def train(run: HealthyRun, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Trains a run; returns facts about it, and its rows.

    Args:
        run: The run.
        folder: Directory for its files.
    """
    settings: dict[str, Any] = {
        **run.settings,
        "stop.env_steps": run.env_steps,
        "evaluation.every": 20,
        "evaluation.episodes": 10,
        "checkpoint.every": 0,
        "logging.tensorboard": False,
    }
    if run.algorithm:
        settings["algorithm.name"] = run.algorithm
    if run.longer:
        settings["sampling.iteration_steps"] = -(-run.env_steps // (MOST_ROWS - 10))
    began = time.process_time()
    with Trainer(run.env, config=settings, preset=run.preset, seed=0, run_dir=folder, **run.more) as trainer:
        result = trainer.train()
        steps = result.env_steps / result.iteration
    rows = read_rows(folder)
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{len(rows)} rows: set `longer`")
    return {"seconds": round(time.process_time() - began, 1), "steps_of_iteration": steps}, rows


def short(value: Any) -> Any:
    """Returns a value with `DIGITS` significant digits in its numbers."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: short(inner) for key, inner in value.items()}
    return [short(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    """Trains the runs that are not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=sorted(RUNS), default=sorted(RUNS))
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    for name in options.only:
        if path_of(name).exists() and not options.again:
            continue
        with tempfile.TemporaryDirectory() as folder:
            about, rows = train(RUNS[name], Path(folder, name))
            settings = load_yaml(Path(folder, name, "config.yaml").read_text(encoding="utf-8"), "config.yaml")
        head = {"name": name, "goal": RUNS[name].goal, "return_mean": rows[-1]["return_mean"], **about}
        lines = [{**head, "settings": settings}, *rows]
        text = "".join(json.dumps(short(line), separators=(",", ":")) + "\n" for line in lines)
        path_of(name).parent.mkdir(parents=True, exist_ok=True)
        path_of(name).write_bytes(gzip.compress(text.encode(), mtime=0))
        reached = "reached" if rows[-1]["return_mean"] >= RUNS[name].goal else "MISSED"
        print(
            f"{name}: {reached}, {len(rows)} rows, {path_of(name).stat().st_size:,} bytes, {json.dumps(head)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
