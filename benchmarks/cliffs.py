"""Cost of each feature beside a plain run: ``python benchmarks/cliffs.py [--only NAME ...] [--rounds 3] [--write]``.

A feature has a *cliff* if it costs much more than its arithmetic. The measure is

    CPU seconds a step / (CPU seconds a step of the plain run + extra operations a step / rate of the kernels)

where the extra operations are 6 for each learned number that the plain run has not, in each of its rows of gradient
steps, and 2 in its decisions; the rate is that of the kernels' products 64 wide on this machine (`product_rates.py`).
So 1 is a feature that costs what its layers cost on kernels. Every run is a process of its own on one core, in turn
with the plain one; CPU seconds count helper processes, too, and leave out the first quarter of the run. Environments do
next to nothing (`Idle`), which makes the ratios larger than in a real environment.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from rookery import Callback, PPOConfig, Trainer

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]


PAGE = HERE / "results" / "cliffs.md"
GOAL = 1.5
EPISODE = 200


class Idle(gymnasium.Env[Any, Any]):
    """One agent; observations and rewards are random and do not depend on the action.

    Args:
        obs: "vector", or "dict" of two halves of it.
        action: "discrete", "masked", "multi", "continuous" or "hybrid".
    """

    ACTIONS: Mapping[str, spaces.Space[Any]] = {
        "discrete": spaces.Discrete(4),
        "masked": spaces.Discrete(4),
        "multi": spaces.MultiDiscrete([2, 2]),
        "continuous": spaces.Box(-1.0, 1.0, (2,)),
        "hybrid": spaces.Dict({"choice": spaces.Discrete(4), "force": spaces.Box(-1.0, 1.0, (2,))}),
    }

    def __init__(self, obs: str = "vector", action: str = "discrete") -> None:
        half = spaces.Box(-4.0, 4.0, (4,))
        whole = spaces.Box(-4.0, 4.0, (8,))
        self.observation_space = spaces.Dict({"a": half, "b": half}) if obs == "dict" else whole
        self.action_space = self.ACTIONS[action]
        rows = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32).clip(-4, 4)
        self.rows: list[Any] = [{"a": row[:4], "b": row[4:]} if obs == "dict" else row for row in rows]
        self.info = {"action_mask": np.array([1, 1, 1, 0], np.int8)} if action == "masked" else {}
        self.time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.time = 0
        return self.rows[0], self.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Next row."""
        self.time += 1
        return self.rows[self.time % 64], float(self.time % 3 == 0), False, self.time == EPISODE, self.info


class EpisodeCallback(Callback):
    """Looks at each episode that has ended."""

    def on_episode_end(self, episode: Any) -> None:
        """Keeps a number."""
        episode.metrics["length"] = episode.length


class StepCallback(Callback):
    """Looks at every step."""

    def on_episode_step(self, episode: Any) -> None:
        """Looks at it."""


class OwnModel(torch.nn.Module):
    """Two layers of 64, as the built-in network has."""

    def __init__(self, obs_space: spaces.Box) -> None:
        super().__init__()
        self.num_features = 64
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(obs_space.shape[0], 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Returns features [N, 64]."""
        features: torch.Tensor = self.layers(obs)
        return features


def own_loss() -> PPOConfig:
    """Returns the settings of examples/own_loss.py."""
    import own_loss as example

    return example.SPOConfig()


PPO = {"algorithm.name": "ppo", "sampling.num_envs": 8, "env.implementation": "serial"}
SAC = {**PPO, "algorithm.name": "sac"}
DQN = {**PPO, "algorithm.name": "dqn"}


class Feature(NamedTuple):
    """A run with a feature.

    Attributes:
        settings: Settings over those of its plain run.
        plain: Name of the plain run.
        idle: Arguments of `Idle`.
        env: An environment in its place.
        callbacks: Classes of callbacks.
        algorithm: Makes settings of an own algorithm.
    """

    settings: Mapping[str, Any] = {}
    plain: str = "ppo"
    idle: Mapping[str, str] = {}
    env: str | None = None
    callbacks: tuple[type[Callback], ...] = ()
    algorithm: Callable[[], PPOConfig] | None = None


SIGNAL = "algorithm.signals"
MEMORY = "algorithm.model.memory.kind"
CONTINUOUS = {"action": "continuous"}
FEATURES: dict[str, Feature] = {
    "ppo": Feature(PPO),
    "ppo, continuous actions": Feature(PPO, idle=CONTINUOUS),
    "sac": Feature(SAC, "sac", CONTINUOUS),
    "dqn": Feature(DQN, "dqn"),
    "own model": Feature({**PPO, "algorithm.model.module": f"{__name__}:OwnModel"}),
    "own loss": Feature(PPO, algorithm=own_loss),
    "callback of episodes": Feature(PPO, callbacks=(EpisodeCallback,)),
    "callback of steps": Feature(PPO, callbacks=(StepCallback,)),
    "Dict observation": Feature(PPO, idle={"obs": "dict"}),
    "action masks": Feature(PPO, idle={"action": "masked"}),
    "MultiDiscrete actions": Feature(PPO, idle={"action": "multi"}),
    "hybrid actions": Feature(PPO, "ppo, continuous actions", {"action": "hybrid"}),
    "curiosity": Feature({**PPO, f"{SIGNAL}.curiosity.strength": 0.1}),
    "RND": Feature({**PPO, f"{SIGNAL}.rnd.strength": 0.1}),
    "counts": Feature({**PPO, f"{SIGNAL}.count.strength": 0.1}),
    "LSTM": Feature({**PPO, MEMORY: "lstm"}),
    "GRU": Feature({**PPO, MEMORY: "gru"}),
    "attention": Feature({**PPO, MEMORY: "attention"}),
    "frame stack of 4": Feature({**PPO, "algorithm.model.memory.frame_stack": 4}),
    "KL penalty": Feature({**PPO, "algorithm.kl_coef": 0.2}),
    "normalized observations": Feature({**PPO, "algorithm.model.normalize_obs": True}),
    "evaluation in every iteration": Feature({**PPO, "evaluation.every": 1, "evaluation.episodes": 1}),
    "no doctor": Feature({**PPO, "doctor.enabled": False}),
    "staleness 1": Feature({**PPO, "sampling.staleness": 1}),
    "2 environment processes": Feature({**PPO, "sampling.env_processes": 2, "env.implementation": "processes"}),
    "2 workers": Feature({**PPO, "sampling.workers": 2}),
    "2 learners": Feature({**PPO, "cluster.learners": 2}),
    "sac, hybrid actions": Feature(SAC, "sac", {"action": "hybrid"}),
    "sac, discrete actions": Feature(SAC, "sac", {"action": "discrete"}),
    "sac, LSTM": Feature({**SAC, MEMORY: "lstm"}, "sac", CONTINUOUS),
    "sac, curiosity": Feature({**SAC, f"{SIGNAL}.curiosity.strength": 0.1}, "sac", CONTINUOUS),
    "dqn, masks": Feature(DQN, "dqn", {"action": "masked"}),
    "dqn, C51": Feature({**DQN, "algorithm.model.values.kind": "categorical"}, "dqn"),
    "dqn, noisy layers": Feature({**DQN, "algorithm.exploration.kind": "noisy"}, "dqn"),
    "dqn, prioritized replay": Feature({**DQN, "algorithm.replay.kind": "prioritized"}, "dqn"),
    "dqn, LSTM": Feature({**DQN, MEMORY: "lstm"}, "dqn"),
}
STEPS = {"ppo": 40_000, "sac": 4_000, "dqn": 16_000}
ROWS = {"ppo": 10, "sac": 256, "dqn": 64}
"""Rows of gradient steps for each step of the environment, with the defaults of the algorithms."""


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of helper processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def run(name: str) -> dict[str, float]:
    """Trains once in this process; returns CPU seconds and wall seconds a step, and learned numbers."""
    import time

    feature = FEATURES[name]
    algorithm = feature.settings["algorithm.name"]
    settings = dict(feature.settings)
    own = [feature.algorithm()] if feature.algorithm else []
    if own:
        del settings["algorithm.name"]
    arguments = {f"env.config.{key}": value for key, value in feature.idle.items()}
    config = {**settings, **arguments}
    trainer = Trainer(
        feature.env or f"{__name__}:Idle",
        *own,
        config=[config],
        seed=0,
        callbacks=[each() for each in feature.callbacks],
    )
    steps = STEPS[algorithm]
    with trainer:
        trainer.train(stop={"env_steps": steps // 4})
        cpu, wall, before = cpu_seconds(), time.perf_counter(), trainer.env_steps
        trainer.train(stop={"env_steps": steps})
        cpu, wall, counted = cpu_seconds() - cpu, time.perf_counter() - wall, trainer.env_steps - before
        learned = sum(each.numel() for each in gc.get_objects() if isinstance(each, torch.nn.Parameter))
    return {"cpu": cpu / counted, "wall": wall / counted, "learned": learned, "path": str(trainer.paths["main"])}


def measured(name: str) -> dict[str, Any]:
    """Runs `run` in a process of its own; returns its result, or the last line of its error."""
    command = [sys.executable, __file__, "--here", name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode:
        return {"failed": (ran.stderr.strip().splitlines() or ["?"])[-1][:300]}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def row_of(name: str, rounds: int, rate: float) -> str:
    """Measures a feature in turn with its plain run; returns its row."""
    feature = FEATURES[name]
    algorithm = feature.settings["algorithm.name"]
    pairs = [(measured(feature.plain), measured(name)) for _ in range(rounds)]
    if bad := next((one["failed"] for pair in pairs for one in pair if "failed" in one), ""):
        return f"| {name} | {feature.plain} | | | | | | {bad} |"
    plain, mine = (median(pair[side]["cpu"] for pair in pairs) for side in (0, 1))
    extra = max(0, pairs[0][1]["learned"] - pairs[0][0]["learned"])
    arithmetic = extra * (6 * ROWS[algorithm] + 2) / (rate * 1e9)
    ratio = median(pair[1]["cpu"] / (pair[0]["cpu"] + arithmetic) for pair in pairs)
    shown = f"**{ratio:.2f}**" if ratio > GOAL else f"{ratio:.2f}"
    times = f"{1e6 * plain:.1f} | {1e6 * mine:.1f} | {extra:,} | {1e6 * arithmetic:.1f}"
    return f"| {name} | {feature.plain} | {times} | {shown} | {pairs[0][1]['path']} |"


WHY = {
    "own model": "its layers run in torch, as in any library, where the call of an operation costs most",
    "own loss": "the network runs on kernels, the loss is differentiated by torch, operation by operation",
    "LSTM": "cells 64 wide learn sequences step by step, in products of few rows",
    "GRU": "as for the LSTM",
    "attention": "it runs in torch; kernels have no attention",
    "frame stack of 4": "four times as many numbers of observations are stored, shuffled and read for each decision",
    "evaluation in every iteration": "steps of evaluation do not count: the row shows how much is evaluated",
    "2 learners": "processes exchange gradients after each gradient step, of which a small network makes many; "
    "CPU seconds of both are counted, those of waiting included ([learners](learners.md))",
}
"""Reasons of features that cost more than their arithmetic, from reading the code."""


def write(rows: list[str], rounds: int, rate: float) -> None:
    """Writes the page."""
    from benchmarks.learning import machine

    assert __doc__ is not None
    about = __doc__.partition("\n\n")[2].strip()
    versions = ", ".join(f"{name} {value}" for name, value in machine().items())
    high = sum("**" in row for row in rows)
    head = (
        f"# Cliffs\n\nMade by `python benchmarks/cliffs.py --rounds {rounds} --rate {rate:g} --write`.\n"
        f"{versions}.\n\n{about}\n\n"
        f"{high} of {len(rows)} features are above {GOAL}.\n\n"
        "| feature | plain run | plain, CPU us a step | with it | learned numbers more | their arithmetic, us |"
        " measure | path |\n|---|---|---|---|---|---|---|---|"
    )
    names = [row.split("|")[1].strip() for row in rows if "**" in row]
    why = [f"- {name}: {WHY.get(name, 'not examined')}." for name in names]
    PAGE.write_text(
        "\n".join([head, *rows, "", f"Above {GOAL}, with reasons from the code, not from a profile:", "", *why, ""]),
        encoding="utf-8",
    )


def main() -> None:
    """Measures features in turn with their plain runs; prints rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of FEATURES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=45.0, help="GFLOP/s of products 64 wide (product_rates.py)")
    parser.add_argument("--write", action="store_true", help="write the rows into benchmarks/results/cliffs.md")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        import cliffs  # under its own name, which settings contain

        print(json.dumps(cliffs.run(args.here)))
        return
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    for name in args.only or FEATURES:
        if name == FEATURES[name].plain:
            continue
        rows[name] = row_of(name, args.rounds, args.rate)
        print(rows[name], flush=True)
        if args.write:
            write([rows[one] for one in FEATURES if one in rows], args.rounds, args.rate)


if __name__ == "__main__":
    main()
