"""Cost of each feature beside a plain run: ``python benchmarks/cliffs.py [--only NAME ...] [--rounds 3] [--write]``.

A feature has a *cliff* if it costs much more than its arithmetic. The measure is

    CPU seconds a step / (CPU seconds a step of the plain run + extra operations a step / rate of the kernels)

where a step is a decision of an agent that the run learns from, so several agents make several steps at once. Steps of
evaluations count, too, because they are steps of the environment. Steps of opponents that do not learn, of rating
games and of warm-up do not count.

The extra operations are 6 for each learned number that the plain run has not, in each of its rows of gradient steps,
and 2 in its decisions; a row of POCA has four members, and one of GAIL a decision of the policy, a demonstration and a
point between them, whose gradient is differentiated, too. The rate is that of the kernels' products 64 wide on this
machine, the mean of the forward and the backward pass, measured before the runs as in `product_rates.py`; ``--rate``
gives another one. So 1 is a feature that costs what its layers cost on kernels. Every run is a process of its own on
one core, in turn with the plain one; CPU seconds count helper processes, too, and leave out the first quarter of the
run. Environments do next to nothing (`Idle`, `IdleGroup`), which makes the ratios larger than in a real environment.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from rookery import Callback, PPOConfig, Trainer, record_replay

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "examples")]


PAGE = HERE / "results" / "cliffs.md"
GOAL = 1.5
EPISODE = 200
DEMONSTRATIONS = 5
"""Episodes of demonstrations: 1000 decisions, about as many as in an update of PPO."""


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


class IdleWithParameters(Idle):
    """`Idle` with a parameter of its episodes, which changes nothing."""

    parameters: Mapping[str, Any] = {"level": (0.0, 0.0, 1.0)}


class IdleGroup:
    """Several agents; observations and rewards are random and do not depend on the actions.

    Args:
        agents: Number of agents.
        grouped: Whether they form a group, which earns a reward besides those of its members.
    """

    def __init__(self, agents: int = 8, grouped: bool = False) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.observation_spaces = dict.fromkeys(self.possible_agents, spaces.Box(-4.0, 4.0, (8,)))
        self.action_spaces = dict.fromkeys(self.possible_agents, spaces.Discrete(4))
        if grouped:
            self.groups = {"group": self.possible_agents}
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((64, agents, 8)).astype(np.float32).clip(-4, 4)
        rewards = rng.random((64, agents)).round()
        self.rows = [dict(zip(self.possible_agents, row, strict=True)) for row in rows]
        self.rewards = [dict(zip(self.possible_agents, row.tolist(), strict=True)) for row in rewards]
        self.infos: dict[str, Any] = {self.possible_agents[0]: {"group_reward": 1.0}} if grouped else {}
        self.runs, self.ends = {"__all__": False}, {"__all__": True}
        self.time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        self.time = 0
        return self.rows[0], {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Next rows."""
        self.time += 1
        now = self.time % 64
        truncateds = self.ends if self.time == EPISODE else self.runs
        return self.rows[now], self.rewards[now], self.runs, truncateds, self.infos


class EvaluationSteps(Callback):
    """Counts the steps of evaluations."""

    def __init__(self) -> None:
        self.steps = 0

    def on_evaluate(self, trainer: Trainer, evaluation: Any) -> None:
        """Adds those of an evaluation."""
        self.steps += round(evaluation.length_mean * evaluation.episodes)


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


def demonstrated(obs: Any) -> int:
    """Returns the action of demonstrations."""
    return int(obs[0] > 0)


def own_loss() -> PPOConfig:
    """Returns the settings of examples/own_loss.py."""
    import own_loss as example

    return example.SPOConfig()


PPO = {"algorithm.name": "ppo", "sampling.num_envs": 8, "env.implementation": "serial"}
SAC = {**PPO, "algorithm.name": "sac"}
DQN = {**PPO, "algorithm.name": "dqn"}
POCA = {**PPO, "algorithm.name": "poca"}
MAPPO = {**PPO, "algorithm.name": "mappo"}


class Feature(NamedTuple):
    """A run with a feature.

    Attributes:
        settings: Settings over those of its plain run.
        plain: Name of the plain run.
        arguments: Arguments of the environment.
        env: Class of the environment.
        callbacks: Classes of callbacks.
        algorithm: Makes settings of an own algorithm.
        steps: Steps of it and of its plain run; None = those of `STEPS`.
        rows: Rows of gradient steps that its own learned numbers are in, for each step; None = those of `ROWS`.
        demonstrations: Setting that names the demonstrations.
        run_dir: Whether it has a run directory.
    """

    settings: Mapping[str, Any] = {}
    plain: str = "ppo"
    arguments: Mapping[str, Any] = {}
    env: str = "Idle"
    callbacks: tuple[type[Callback], ...] = ()
    algorithm: Callable[[], PPOConfig] | None = None
    steps: int | None = None
    rows: float | None = None
    demonstrations: str = ""
    run_dir: bool = False


SIGNAL = "algorithm.signals"
MEMORY = "algorithm.model.memory.kind"
CONTINUOUS = {"action": "continuous"}
TWO_SIDES = {"agents": 2}
GROUP = {"agents": 4, "grouped": True}
LEVELS = {"widen": {"start": [0.0, 0.1], "end": [0.0, 1.0], "stages": 10}, "threshold": 50, "min_episodes": 20}
FEATURES: dict[str, Feature] = {
    "ppo": Feature(PPO),
    "ppo, continuous actions": Feature(PPO, arguments=CONTINUOUS),
    "sac": Feature(SAC, "sac", CONTINUOUS),
    "dqn": Feature(DQN, "dqn"),
    "own model": Feature({**PPO, "algorithm.model.module": f"{__name__}:OwnModel"}),
    "own loss": Feature(PPO, algorithm=own_loss),
    "callback of episodes": Feature(PPO, callbacks=(EpisodeCallback,)),
    "callback of steps": Feature(PPO, callbacks=(StepCallback,)),
    "Dict observation": Feature(PPO, arguments={"obs": "dict"}),
    "action masks": Feature(PPO, arguments={"action": "masked"}),
    "MultiDiscrete actions": Feature(PPO, arguments={"action": "multi"}),
    "hybrid actions": Feature(PPO, "ppo, continuous actions", {"action": "hybrid"}),
    "curiosity": Feature({**PPO, f"{SIGNAL}.curiosity.strength": 0.1}, rows=4),
    "RND": Feature({**PPO, f"{SIGNAL}.rnd.strength": 0.1}, rows=1),
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
    "GAIL": Feature({**PPO, f"{SIGNAL}.gail.strength": 0.1}, rows=4, demonstrations=f"{SIGNAL}.gail.replay"),
    "behavioral cloning": Feature(PPO, demonstrations="algorithm.imitation.replay"),
    "drawn environment parameters": Feature(
        {**PPO, "env.parameters.level": {"sampler": "uniform", "low": 0.0, "high": 1.0}}, env="IdleWithParameters"
    ),
    "curriculum": Feature({**PPO, "curriculum.level": LEVELS}, env="IdleWithParameters"),
    "run directory": Feature({**PPO, "checkpoint.every": 0}, steps=400_000, run_dir=True),
    "checkpoints every 5 s": Feature({**PPO, "checkpoint.every_seconds": 5.0}, steps=2_000_000, run_dir=True),
    "8 agents in one environment": Feature({**PPO, "sampling.num_envs": 1}, arguments={"agents": 8}, env="IdleGroup"),
    "two sides": Feature(PPO, "two sides", TWO_SIDES, "IdleGroup"),
    "self-play": Feature({**PPO, "self_play.main": {}}, "two sides", TWO_SIDES, "IdleGroup", steps=200_000),
    "self-play without rating games": Feature(
        {**PPO, "self_play.main": {"rating_games": 0}}, "two sides", TWO_SIDES, "IdleGroup", steps=200_000
    ),
    "group": Feature(PPO, "group", GROUP, "IdleGroup"),
    "POCA": Feature(POCA, "group", GROUP, "IdleGroup", rows=40),
    "MAPPO": Feature(MAPPO, "group", GROUP, "IdleGroup"),
    "2 environment processes": Feature({**PPO, "sampling.env_processes": 2, "env.implementation": "processes"}),
    "2 workers": Feature({**PPO, "sampling.workers": 2}),
    "2 learners": Feature({**PPO, "cluster.learners": 2}),
    "sac, hybrid actions": Feature(SAC, "sac", {"action": "hybrid"}),
    "sac, discrete actions": Feature(SAC, "sac", {"action": "discrete"}),
    "sac, LSTM": Feature({**SAC, MEMORY: "lstm"}, "sac", CONTINUOUS),
    "sac, curiosity": Feature({**SAC, f"{SIGNAL}.curiosity.strength": 0.1}, "sac", CONTINUOUS),
    "dqn, masks": Feature(DQN, "dqn", {"action": "masked"}),
    "dqn, C51": Feature({**DQN, "algorithm.values.kind": "categorical"}, "dqn"),
    "dqn, noisy layers": Feature({**DQN, "algorithm.exploration.kind": "noisy"}, "dqn"),
    "dqn, prioritized replay": Feature({**DQN, "algorithm.replay.kind": "prioritized"}, "dqn"),
    "dqn, LSTM": Feature({**DQN, MEMORY: "lstm"}, "dqn"),
}
STEPS = {"ppo": 40_000, "poca": 40_000, "mappo": 40_000, "sac": 4_000, "dqn": 16_000}
ROWS = {"ppo": 10, "poca": 10, "mappo": 10, "sac": 256, "dqn": 64}
"""Rows of gradient steps for each step, with the defaults of the algorithms."""


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of helper processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def steps_of(name: str) -> int:
    """Returns the steps of a feature's runs."""
    feature = FEATURES[name]
    return feature.steps or STEPS[feature.settings["algorithm.name"]]


def run(name: str, steps: int) -> dict[str, Any]:
    """Trains once in this process.

    Args:
        name: Name of the feature.
        steps: Steps of the run.

    Returns:
        CPU seconds and wall seconds a step, learned numbers, and compute path.
    """
    with tempfile.TemporaryDirectory() as folder:
        return run_in(Path(folder), FEATURES[name], steps)


def run_in(folder: Path, feature: Feature, steps: int) -> dict[str, Any]:
    """Does as `run`, with files in a folder."""
    import time

    settings = dict(feature.settings)
    own = [feature.algorithm()] if feature.algorithm else []
    if own:
        del settings["algorithm.name"]
    env = f"{__name__}:{feature.env}"
    if feature.demonstrations:
        record_replay(env, demonstrated, DEMONSTRATIONS, folder / "demonstrations")
        settings[feature.demonstrations] = [str(folder / "demonstrations")]
    arguments = {f"env.config.{key}": value for key, value in feature.arguments.items()}
    counter = EvaluationSteps()
    trainer = Trainer(
        env,
        *own,
        config=[{**settings, **arguments}],
        seed=0,
        callbacks=[counter, *(each() for each in feature.callbacks)],
        run_dir=folder / "run" if feature.run_dir else None,
    )

    def trained(decisions: int) -> int:
        """Trains to a number of decisions; returns the steps so far."""
        result = trainer.train(stop={"decisions": decisions})
        return counter.steps + sum(policy.decisions for policy in result.policies.values())

    with trainer:
        before = trained(steps // 4)
        cpu, wall = cpu_seconds(), time.perf_counter()
        counted = trained(steps) - before
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
        found = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Parameter)]
        learned = sum(each.numel() for each in found if each.requires_grad)
        path = trainer.paths["main"]
    return {"cpu": cpu / counted, "wall": wall / counted, "learned": learned, "path": path}


def kernel_rate() -> float:
    """Returns the GFLOP/s of the kernels' products 64 wide: the mean of the forward and the backward pass."""
    sys.path.append(str(HERE / "studies"))
    from product_rates import rates

    torch.set_num_threads(1)
    forward, backward, *_ = rates(64, torch.Generator().manual_seed(0))
    return (forward + backward) / 2


def measured(name: str, steps: int) -> dict[str, Any]:
    """Runs `run` in a process of its own; returns its result, or the last line of its error."""
    command = [sys.executable, __file__, "--here", name, "--steps", str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode:
        return {"failed": (ran.stderr.strip().splitlines() or ["?"])[-1][:300]}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def row_of(name: str, rounds: int, rate: float) -> str:
    """Measures a feature in turn with its plain run; returns its row."""
    feature = FEATURES[name]
    steps = steps_of(name)
    pairs = [(measured(feature.plain, steps), measured(name, steps)) for _ in range(rounds)]
    if bad := next((one["failed"] for pair in pairs for one in pair if "failed" in one), ""):
        return f"| {name} | {feature.plain} | | | | | | {bad} |"
    plain, mine = (median(pair[side]["cpu"] for pair in pairs) for side in (0, 1))
    extra = max(0, pairs[0][1]["learned"] - pairs[0][0]["learned"])
    trained = ROWS[feature.settings["algorithm.name"]] if feature.rows is None else feature.rows
    arithmetic = extra * (6 * trained + 2) / (rate * 1e9)
    ratio = median(pair[1]["cpu"] / (pair[0]["cpu"] + arithmetic) for pair in pairs)
    shown = f"**{ratio:.2f}**" if ratio > GOAL else f"{ratio:.2f}"
    times = f"{1e6 * plain:.1f} | {1e6 * mine:.1f} | {extra:,} | {1e6 * arithmetic:.1f}"
    return f"| {name} | {feature.plain} | {times} | {shown} | {pairs[0][1]['path']} |"


WHY = {
    "own model": "71 % are gradient steps in torch, operation by operation (34 % the backward pass), and 12 % "
    "decisions",
    "own loss": "82 % are gradient steps: 27 % torch's backward pass of the loss and 24 % the loss itself, while the "
    "network takes 14 % on kernels",
    "curiosity": "63 % are gradient steps of its own models, which torch differentiates (32 %); kernels have no such "
    "loss",
    "LSTM": "half is in kernels, half of that in the cell, which learns sequences step by step in products of 8 rows; "
    "11 % is sampling, the rest are small calls in each gradient step",
    "GRU": "as of the LSTM",
    "attention": "it has no kernels: 69 % are gradient steps in torch (34 % the backward pass), and 21 % decisions",
    "evaluation in every iteration": "39 % are evaluations, each of one episode, so that a call decides for one "
    "environment and not for 8",
    "8 agents in one environment": "sampling takes 40 % (28 % in the plain run): observations, rewards and ends of "
    "agents are read from dictionaries, agent by agent",
    "self-play": "36 % are decisions of two policies in turn, each for a part of 16 agents, 26 % steps of "
    "environments and 12 % rating games; opponents that do not learn cost as much, and their steps do not count",
    "self-play without rating games": "39 % are decisions of two policies in turn, each for a part of 16 agents, and "
    "25 % steps of environments; opponents that do not learn cost as much, and their steps do not count",
    "POCA": "90 % are gradient steps in torch: 53 % the backward pass and 28 % attention among members; kernels have "
    "no attention",
    "MAPPO": "56 % are gradient steps, whose value loss is Huber's: each makes several calls of kernels and torch, "
    "where PPO makes all gradient steps of an update in one call",
    "2 learners": "31 % of the first learner is the exchange of gradients, after each gradient step, of which a small "
    "network makes many; CPU seconds of both are counted, those of waiting included ([learners](learners.md))",
    "dqn, C51": "targets take 39 % and gradient steps 37 %, operation by operation on 51 atoms of each action; the "
    "kernel of a whole gradient step is for mean values alone",
    "dqn, noisy layers": "noisy layers have no kernels: 44 % are gradient steps and 31 % targets, both in torch",
    "dqn, prioritized replay": "17 % are draws from the tree of priorities and 15 % their updates, many small calls "
    "of NumPy in each gradient step",
}
"""Reasons of features that cost more than their arithmetic; percentages are of a profile of 20 s."""


def write(rows: list[str], rounds: int, rate: float, is_measured: bool) -> None:
    """Writes the page; the rate was measured or given."""
    from benchmarks.learning import machine

    assert __doc__ is not None
    about = __doc__.partition("\n\n")[2].strip()
    versions = ", ".join(f"{name} {value}" for name, value in machine().items())
    high = sum("**" in row for row in rows)
    option, source = ("", "measured before the runs") if is_measured else (f" --rate {rate:g}", "as given")
    head = (
        f"# Cliffs\n\nMade by `python benchmarks/cliffs.py --rounds {rounds}{option} --write`.\n"
        f"{versions}.\n\n{about}\n\n"
        f"The rate of the kernels was {rate:.0f} GFLOP/s, {source}. "
        f"{high} of {len(rows)} features are above {GOAL}.\n\n"
        "| feature | plain run | plain, CPU us a step | with it | learned numbers more | their arithmetic, us |"
        " measure | path |\n|---|---|---|---|---|---|---|---|"
    )
    names = [row.split("|")[1].strip() for row in rows if "**" in row]
    why = [f"- {name}: {WHY.get(name, 'not examined')}." for name in names]
    PAGE.write_text(
        "\n".join(
            [
                head,
                *rows,
                "",
                f"Above {GOAL}, with reasons; percentages are of the samples of a profile of 20 s (py-spy):",
                "",
                *why,
                "",
            ]
        ),
        encoding="utf-8",
    )


def main() -> None:
    """Measures features in turn with their plain runs; prints rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=FEATURES, help="names of FEATURES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, help="GFLOP/s of products 64 wide, in place of a measurement")
    parser.add_argument("--write", action="store_true", help="write the rows into benchmarks/results/cliffs.md")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        import cliffs  # under its own name, which settings contain

        print(json.dumps(cliffs.run(args.here, args.steps)))
        return
    rate = args.rate or kernel_rate()
    print(f"{rate:.1f} GFLOP/s", flush=True)
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    for name in args.only or FEATURES:
        if name == FEATURES[name].plain:
            continue
        rows[name] = row_of(name, args.rounds, rate)
        print(rows[name], flush=True)
        if args.write:
            write([rows[one] for one in FEATURES if one in rows], args.rounds, rate, args.rate is None)


if __name__ == "__main__":
    main()
