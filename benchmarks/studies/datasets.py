"""Data sets to learn from alone, each from a seed of its own: ``python benchmarks/studies/datasets.py [SET ...]``.

Each is a replay directory below `benchmarks/.data` (or ``ROOKERY_DATA``), with log-probabilities, the end of every
episode, and what was seen last where one was cut off. A set that is there is not made again. Those of Pendulum and
CartPole take a minute together, those of Hopper (package mujoco) some minutes.

pendulum-random        the first 3,000 decisions of a run of SAC: its random start, and a little of what followed
pendulum-medium-replay the first 8,000 of it: bad play, and more and more of good play
pendulum-medium        100 episodes that its policy plays after 3,500 env steps
pendulum-expert        20 episodes that its policy plays at the end, after 20,000
pendulum-expert-50     50 episodes of the same policy
pendulum-mixed         20 episodes of random play and 20 of `pendulum-expert`
cartpole-replay        the first 25,000 decisions of a run of DQN, half of its training, in which it got worse again
cartpole-medium-replay the decisions of the same run until 100 episodes earned 200 on average: bad and half-good play
cartpole-mixed         200 episodes of random play and 10 that DQN plays at the end of its training
hopper-medium-replay   50,000 decisions each of PPO's policies when they earn 300, 1,000 and 2,000
hopper-medium          50,000 decisions of the second of them
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rookery import DQNConfig, PPOConfig, SACConfig, Trainer, record_replay
from rookery.core.io.files import write_directory
from rookery.replay.segments import StoredReplay, find_replay
from rookery.replay.summary import Episodes, summarize
from rookery.replay.transfer import linked, merged

FOLDER = Path(os.environ.get("ROOKERY_DATA", Path(__file__).parents[1] / ".data"))

SEED = 1
"""Seed of the trainings that make the sets; trainings from the sets have others."""

ENVS = {"pendulum": "Pendulum-v1", "cartpole": "CartPole-v1", "hopper": "Hopper-v5"}
"""Environments by the first word of a set's name."""


def env_of(name: str) -> str:
    """Returns the environment that a set was played in."""
    return ENVS[name.partition("-")[0]]


def path_of(name: str) -> Path:
    """Returns the directory of a set; makes it if it does not exist."""
    if not (FOLDER / name).is_dir():
        maker = next(make for make, names in MAKERS.items() if name in names)
        with tempfile.TemporaryDirectory() as folder:
            maker(Path(folder))
    return FOLDER / name


def keep(name: str, *sources: Path | str) -> None:
    """Writes a set of the decisions of replays, one after the other."""
    stored: list[StoredReplay] = [find_replay(source) for source in sources]
    parts = linked(stored) if len(stored) == 1 else merged(stored, stored[0].policy, lambda rows: None)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_directory(FOLDER / name, *parts, replace=True)


def played(env: str, source: Path | Callable[[Any], Any], episodes: int, out: Path, *, drawn: bool = False) -> Path:
    """Records episodes of a run or a function."""
    record_replay(env, source, episodes, out, seed=SEED + 100, deterministic=not drawn)
    return out


def chance(env: str) -> Callable[[Any], Any]:
    """Plays evenly at random."""
    import gymnasium

    space = gymnasium.make(env).action_space
    space.seed(SEED)
    return lambda obs: space.sample()


def pendulum(folder: Path) -> None:
    """Makes all sets of Pendulum."""
    env = ENVS["pendulum"]
    with Trainer(env, SACConfig(), preset="auto", seed=SEED) as trainer:
        for steps in (3_000, 3_500, 8_000, 20_000):
            trainer.train({"env_steps": steps})
            trainer.save(folder / str(steps))
    keep("pendulum-random", folder / "3000")
    keep("pendulum-medium-replay", folder / "8000")
    keep("pendulum-medium", played(env, folder / "3500", 100, folder / "medium", drawn=True))
    expert = played(env, folder / "20000", 20, folder / "expert")
    keep("pendulum-expert", expert)
    keep("pendulum-expert-50", played(env, folder / "20000", 50, folder / "expert-50"))
    keep("pendulum-mixed", played(env, chance(env), 20, folder / "chance"), expert)


def cartpole(folder: Path) -> None:
    """Makes all sets of CartPole."""
    env = ENVS["cartpole"]
    with Trainer(env, DQNConfig(), preset="auto", seed=SEED - 1) as trainer:  # with seed 1 it never reaches 500
        trainer._horizon = 50_000  # that of the whole training, for schedules
        trainer.train({"env_steps": 25_000})
        trainer.save(folder / "25000")
        trainer.train({"return_mean": 200, "env_steps": 50_000})
        trainer.save(folder / "medium")
        trainer.train({"env_steps": 50_000})
        trainer.save(folder / "50000")
    keep("cartpole-replay", folder / "25000")
    keep("cartpole-medium-replay", folder / "medium")
    expert = played(env, folder / "50000", 10, folder / "expert")
    keep("cartpole-mixed", played(env, chance(env), 200, folder / "chance"), expert)


def hopper(folder: Path) -> None:
    """Makes all sets of Hopper."""
    env, names = ENVS["hopper"], []
    with Trainer(env, PPOConfig(), preset="auto", seed=SEED) as trainer:
        trainer._horizon = 1_000_000
        for earned in (300, 1_000, 2_000):
            result = trainer.train({"return_mean": earned, "env_steps": 1_000_000})
            print(f"  Hopper: {result.return_mean:.0f} after {result.env_steps:,} env steps", flush=True)
            trainer.save(folder / f"run-{earned}")
            length = float(np.mean(trainer._windows.lengths))
            names.append(folder / f"played-{earned}")
            played(env, folder / f"run-{earned}", round(50_000 / length), names[-1], drawn=True)
    keep("hopper-medium-replay", *names)
    keep("hopper-medium", names[1])


MAKERS: dict[Callable[[Path], None], tuple[str, ...]] = {
    pendulum: (
        "pendulum-random",
        "pendulum-medium-replay",
        "pendulum-medium",
        "pendulum-expert",
        "pendulum-expert-50",
        "pendulum-mixed",
    ),
    cartpole: ("cartpole-replay", "cartpole-medium-replay", "cartpole-mixed"),
    hopper: ("hopper-medium-replay", "hopper-medium"),
}
"""What makes which sets."""

SETS = tuple(name for names in MAKERS.values() for name in names)


def episodes_in(name: str) -> Episodes:
    """Returns the episodes of a set that are in it from their first decision to their end."""
    return summarize(find_replay(path_of(name))).episodes


def main() -> None:
    """Makes the sets that are named, or all; says what is in them."""
    for name in sys.argv[1:] or SETS:
        began = time.perf_counter()
        episodes, size = episodes_in(name), len(find_replay(path_of(name)))
        returns = np.array(episodes.returns)
        ends = f"{episodes.terminated} terminated, {episodes.truncated} truncated"
        print(
            f"{name:<24}{size:>8,} decisions, {len(returns)} episodes ({ends}), return {returns.mean():.1f} "
            f"(least {returns.min():.1f}, most {returns.max():.1f}), {time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
