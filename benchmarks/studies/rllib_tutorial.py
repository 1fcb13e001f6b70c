"""RLlib's tutorial here and there: seconds an iteration at its settings, ours beside RLlib 2.60 in turn, and learning.

``python benchmarks/studies/rllib_tutorial.py`` measures one policy, two policies and the tutorial's Keras model (ours
alone: RLlib has no Keras models any more); each measurement is a fresh process, and the order of a round is that of the
round before in reverse. RLlib needs the environment that ``benchmarks/peers/install.sh rllib`` makes, or ``--peer
PYTHON``. ``--learning`` counts the iterations until both agents together earn 15. ``--write`` puts the tables into
`benchmarks/results/rllib-tutorial.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
PEER = BENCHMARKS / "peers" / ".venv-rllib" / "bin" / "python"
PAGE = BENCHMARKS / "results" / "rllib-tutorial.md"

WORKLOADS = {"one": "one policy for both agents", "two": "a policy each", "keras": "a policy each, the Keras model"}
GOAL = 15.0
"""Mean return of both agents together, over the last 100 episodes at least."""

LIMITS = {"one": 31, "two": 25}
"""Iterations within which the median of the seeds is to reach `GOAL`."""

WANTED = 8.0
"""How many times as fast as RLlib an iteration is to be."""


# --- one training, in a process of its own ----------------------------------------------------------------------------


def keras_model() -> Any:
    """The kind of model that the tutorial writes: two layers, logits and values of one trunk."""
    from rookery_rllib.base import imports

    tf = imports.module("tensorflow")

    class Model(tf.keras.Model):  # type: ignore[misc]
        """Returns logits, no state, and the values."""

        def __init__(self, input_space: Any, action_space: Any, num_outputs: int, name: str = "") -> None:
            super().__init__(name=name)
            self.trunk = [tf.keras.layers.Dense(128, activation=tf.nn.relu, name=f"layer{i}") for i in range(2)]
            self.logits = tf.keras.layers.Dense(num_outputs, name="logits")
            self.values = tf.keras.layers.Dense(1, name="values")

        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            """Computes them of a batch."""
            out = inputs["obs"]
            for layer in self.trunk:
                out = layer(out)
            return self.logits(out), [], {"vf_preds": tf.reshape(self.values(out), [-1])}

    return Model


def trainer_of(workload: str, seed: int, **keys: Any) -> Any:
    """The tutorial's trainer. The environment steps Rookery's arena in the style of 2021, one copy a worker."""
    from rookery import MultiAgentArena
    from rookery_rllib.env.envs import MultiAgentEnv
    from rookery_rllib.trainer.trainers import PPOTrainer

    class Arena(MultiAgentEnv):
        """The arena, in the style of RLlib 2021."""

        def __init__(self, config: Any = None) -> None:
            self.arena = MultiAgentArena()
            self.observation_space = self.arena.observation_spaces["agent1"]
            self.action_space = self.arena.action_spaces["agent1"]

        def reset(self) -> Any:
            """Begins an episode."""
            return self.arena.reset()[0]

        def step(self, action_dict: Any) -> Any:
            """Moves both agents."""
            obs, rewards, terminated, truncated, infos = self.arena.step(action_dict)
            return obs, rewards, {name: terminated[name] or truncated[name] for name in terminated}, infos

    config: dict[str, Any] = {"env": Arena, "seed": seed}
    if workload != "one":
        arena = Arena()
        spaces = arena.observation_space, arena.action_space
        config["multiagent"] = {
            "policies": {"pol1": (None, *spaces, {"lr": 3e-4}), "pol2": (None, *spaces, {"lr": 4e-4})},
            "policy_mapping_fn": lambda agent: "pol1" if agent == "agent1" else "pol2",
        }
    if workload == "keras":
        config["model"] = {"custom_model": keras_model()}
    return PPOTrainer(config=config | keys)


def measured(workload: str, iterations: int, seed: int) -> dict[str, Any]:
    """Seconds of each iteration after the first, of 4,000 env steps as in RLlib 2.60.

    RLlib of 2021 counted those of one policy as 8,000, a row of each agent.
    """
    import rookery

    trainer, seconds = trainer_of(workload, seed, train_batch_size=8000 if workload == "one" else 4000), []
    for _ in range(iterations + 1):
        began = time.perf_counter()
        trainer.train()
        seconds.append(time.perf_counter() - began)
    steps = trainer.rookery.env_steps / len(seconds)
    return {"seconds": seconds[1:], "env_steps": steps, "version": f"Rookery {rookery.__version__}"}


def learned(workload: str, seed: int) -> dict[str, Any]:
    """Iterations until the goal is reached, None if that is not within twice the limit."""
    trainer, best, began = trainer_of(workload, seed), -float("inf"), time.perf_counter()
    for iteration in range(1, 2 * LIMITS[workload] + 1):
        best = max(best, trainer.train()["episode_reward_mean"])
        if best >= GOAL:
            return {"iterations": iteration, "best": best, "seconds": time.perf_counter() - began}
    return {"iterations": None, "best": best, "seconds": time.perf_counter() - began}


# --- all of them ------------------------------------------------------------------------------------------------------


def started(command: list[str], threads: int) -> dict[str, Any]:
    """Runs a measurement; gives its line of JSON, or why there is none."""
    paths = os.pathsep.join([str(BENCHMARKS.parent / "src"), str(BENCHMARKS)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": str(threads), "RAY_DEDUP_LOGS": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def commands(args: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    """Returns the measurements of a round: workload, library, command."""
    own = [sys.executable, __file__, "--play"]
    peer = [str(args.peer), str(BENCHMARKS / "peers" / "rllib_tutorial.py")]
    options = ["--iterations", str(args.iterations), "--threads", str(args.threads)]
    found = []
    for workload in args.only:
        found.append((workload, "Rookery", [*own, workload, *options]))
        if workload != "keras" and args.peer.exists():
            found.append((workload, "RLlib", [*peer, workload, *options]))
    return found


def speed(args: argparse.Namespace) -> list[str]:
    """Measures in turn; returns the table."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    plan = commands(args)
    for number in range(args.rounds):
        for workload, library, command in plan if number % 2 == 0 else reversed(plan):
            found = started([*command, "--seed", str(number)], args.threads)
            rows.setdefault((workload, library), []).append(found)
            print(f"round {number}: {workload}, {library}: {found}", flush=True)
    lines = [
        "| workload | library | seconds an iteration | env steps an iteration | RLlib / Rookery |",
        "|---|---|---|---|---|",
    ]
    for (workload, library), found in rows.items():
        good = [each for each in found if "seconds" in each]
        if not good:
            lines.append(f"| {WORKLOADS[workload]} | {library} | failed: {found[0]['failed']} | | |")
            continue
        own = [second for each in rows[workload, "Rookery"] for second in each.get("seconds", [])]
        seconds = [second for each in good for second in each["seconds"]]
        ratio = f"{median(seconds) / median(own):.1f}" if library != "Rookery" and own else ""
        lines.append(
            f"| {WORKLOADS[workload]} | {good[0]['version']} | {median(seconds):.2f} ({min(seconds):.2f} to "
            f"{max(seconds):.2f}) | {good[0]['env_steps']:,.0f} | {ratio} |"
        )
    if not args.peer.exists():
        lines += ["", f"RLlib was not measured: there is no {args.peer}; `sh benchmarks/peers/install.sh rllib`"]
    return lines


def learning(args: argparse.Namespace) -> list[str]:
    """Trains with each seed; returns the table."""
    lines = ["| workload | iterations to 15, by seed | median | within |", "|---|---|---|---|"]
    for workload, limit in LIMITS.items():
        if workload not in args.only:
            continue
        found = []
        for seed in range(args.seeds):
            command = [sys.executable, __file__, "--learn", workload, "--seed", str(seed)]
            found.append(started(command, args.threads))
            print(f"{workload}, seed {seed}: {found[-1]}", flush=True)
        needed = [each.get("iterations") or float("inf") for each in found]
        told = ", ".join(str(each.get("iterations") or each.get("failed") or "not reached") for each in found)
        lines.append(f"| {WORKLOADS[workload]} | {told} | {median(needed):.0f} | {limit} |")
    return lines


def main() -> None:
    """Measures, prints, and writes if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--play", choices=WORKLOADS, help=argparse.SUPPRESS)
    parser.add_argument("--learn", choices=LIMITS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--iterations", type=int, default=3, help="timed iterations of a process, after a first one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3, help="of --learning")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", type=Path, default=PEER, help="Python with RLlib 2.60")
    parser.add_argument("--learning", action="store_true", help="count iterations to 15 instead of seconds")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    args = parser.parse_args()
    if args.play or args.learn:
        found = measured(args.play, args.iterations, args.seed) if args.play else learned(args.learn, args.seed)
        print(json.dumps(found), flush=True)
        return
    title = "Learning" if args.learning else "Speed"
    goal = (
        f"Iterations of 4,000 timesteps until both agents earn {GOAL:.0f} together, from nothing."
        if args.learning
        else f"Settings of the tutorial, KL penalty on, threads: {args.threads}. Wanted: {WANTED:.0f} times as fast."
    )
    lines = [f"## {title}", "", goal, "", *(learning(args) if args.learning else speed(args)), ""]
    print("\n".join(lines))
    if args.write:
        before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# RLlib's tutorial\n"
        head, *sections = before.split("\n## ")
        kept = [f"## {section.rstrip()}\n" for section in sections if not section.startswith(title)]
        mine = [*lines, f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}.", ""]
        PAGE.write_text("\n".join([head.rstrip(), "", *kept, *mine]), encoding="utf-8")


if __name__ == "__main__":
    main()
