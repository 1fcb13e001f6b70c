"""Scores of random and scripted players in the tasks after ML-Agents' examples: ``worlds.py [--episodes 1024]``.

Also the agent steps a second of 64 environments with random actions, and with ``--pictures`` an image of each task for
docs/images. Equally many episodes of each lane count, so that short ones do not count more often. Writes
benchmarks/results/worlds.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rookery import tasks
from rookery.core.spaces.arrays import MASK, Tree
from rookery.envs.base import VectorEnv
from rookery.envs.random_play import random_actions, random_play
from rookery.tasks import basic, goal_grid, push_block
from rookery.tasks.games import players

FILE = Path(__file__).parents[1] / "results" / "worlds.md"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
LANES = 64

Player = Callable[[Tree, np.random.Generator], np.ndarray]


def exact(value: float) -> str:
    """Returns a best score that was counted out."""
    return f"{value:.3f}"


TASKS: dict[str, tuple[dict[str, Any], Player | None, str, str]] = {
    "Basic": ({}, players.basic_best, exact(basic.LARGE_PRIZE - 7 * basic.STEP_COST), "0.93"),
    "BallPlate": ({}, players.ball_plate_script, "100", "100"),
    "BallPlate, hard": ({"hard": True}, None, "100", "100"),
    "GoalGrid": ({"observation": "one_hot"}, players.goal_grid_best, exact(goal_grid.best_return(5)), "0.8"),
    "PushBlock": ({"observation": "grid"}, players.push_block_best, exact(push_block.best_return(9, 200)), "4.5"),
    "FoodCollector": ({}, players.food_collector_script, "", "10"),
    "Match3, 9 x 8": ({"observation": "visual"}, players.match3_greedy, "", "34.2 by chance, 37.0 greedy"),
    "Match3, 6 to 9 x 6 to 8": (
        {"observation": "visual", "min_rows": 6, "min_columns": 6}, players.match3_greedy, "", "",
    ),
}  # fmt: skip
"""Settings, scripted player, best score if it is known, and what ML-Agents states for its own task."""

MOST_EPISODES = {"Match3": 256, "FoodCollector": 64, "BallPlate": 256}
"""Tasks of long episodes, of which fewer are enough."""


def chance(env: VectorEnv) -> Player:
    """Returns the player that draws evenly among what is allowed."""
    spec = env.kinds[0].action
    return lambda obs, rng: spec.to_env(random_actions(spec, len(next(iter(obs.values()))), obs.get(MASK), rng))


def play(env: VectorEnv, player: Player, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Plays so many episodes; gives the mean return of an agent in each, and its length."""
    agents, rng = len(env.kinds[0].agents), np.random.default_rng(0)
    shown = env.reset(lambda lane, episode: lane * 1_000_003 + episode)
    earned, steps = np.zeros(env.num_lanes), np.zeros(env.num_lanes, dtype=int)
    left = np.full(env.num_lanes, -(-episodes // env.num_lanes))
    found: list[tuple[float, int]] = []
    while left.any():
        shown = env.step([player(shown.rows[0].obs, rng)])
        earned += shown.rows[0].reward.reshape(-1, agents).mean(axis=1)
        steps += 1
        for lane in np.flatnonzero(shown.ended):
            if left[lane]:
                found.append((float(earned[lane]), int(steps[lane])))
                left[lane] -= 1
            earned[lane], steps[lane] = 0.0, 0
    returns, lengths = zip(*found, strict=True)
    return np.array(returns), np.array(lengths)


def speed(env: VectorEnv) -> float:
    """Returns the agent steps a second that are played by chance: the best of some short measurements."""
    played, best = random_play(env, lambda lane, episode: lane + episode, np.random.default_rng(0)), 0.0
    for _ in range(10):
        acted, start = 0, time.perf_counter()
        for shown in islice(played, 50):
            acted += int(np.count_nonzero(shown.rows[0].waiting))
        best = max(best, acted / (time.perf_counter() - start))
    return best


def made(name: str) -> VectorEnv:
    """Returns copies of a task with its settings."""
    settings = TASKS[name][0]
    env: VectorEnv = getattr(tasks, name.split(",")[0])(LANES, **settings)
    return env


def draw_pictures() -> None:
    """Writes a picture of each task, after some steps of a player."""
    for name, (settings, player, *_) in TASKS.items():
        if name not in ("BallPlate, hard", "Match3, 6 to 9 x 6 to 8"):
            short = name.split(",")[0]
            env = getattr(tasks, short)(1, **settings)
            shown, rng = env.reset(lambda lane, episode: 5), np.random.default_rng(0)
            plays = chance(env) if player is None or short == "FoodCollector" else player
            for _ in range(2 if short == "GoalGrid" else 5):
                shown = env.step([plays(shown.rows[0].obs, rng)])
            picture = Image.fromarray(env.render(0)).convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
            picture.save(IMAGES / f"{short.lower()}.png", optimize=True)


def main() -> None:
    """Plays, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--pictures", action="store_true", help="draw, and measure nothing")
    asked = parser.parse_args()
    if asked.pictures:
        draw_pictures()
        return
    lines = [
        "# Tasks after ML-Agents' examples",
        "",
        f"`python benchmarks/studies/worlds.py --episodes {asked.episodes}`",
        "",
    ]
    lines += ["Mean return of an agent, with its standard error. The best was counted out where it is known.", ""]
    lines += [
        "| task | played by | return | steps | best | ML-Agents states for its own |",
        "|---|---|---|---|---|---|",
    ]
    for name, (_, scripted, best, theirs) in TASKS.items():
        episodes = min(asked.episodes, MOST_EPISODES.get(name.split(",")[0], asked.episodes))
        env = made(name)
        for called, player in (("random", chance(env)), ("script", scripted)):
            if player is not None:
                returns, lengths = play(env, player, episodes)
                error = returns.std(ddof=1) / np.sqrt(len(returns))
                told = f"{returns.mean():.3f} ± {error:.3f} | {lengths.mean():.1f}"
                lines.append(f"| {name} | {called} | {told} | {best} | {theirs} |")
                print(lines[-1], flush=True)
    how = "played by chance (drawing the actions included), best of 10 measurements"
    lines += ["", f"Agent steps a second in {LANES} copies, {how}:", ""]
    lines += ["| task | sees | agent steps a second |", "|---|---|---|"]
    for name in TASKS:
        env = made(name)
        sees = ", ".join(f"{leaf.path} {list(leaf.shape)}" for leaf in env.kinds[0].obs.leaves if leaf.kind != "mask")
        lines.append(f"| {name} | {sees} | {speed(env):,.0f} |")
        print(lines[-1], flush=True)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
