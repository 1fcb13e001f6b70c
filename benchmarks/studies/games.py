"""Scores of random and scripted players in the games of several agents: ``games.py [--episodes 2000]``.

Also the agent steps a second of 64 environments with random actions. Equally many episodes of each lane count, so that
short ones do not count more often. Writes benchmarks/results/games.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rookery import tasks
from rookery.core.spaces.arrays import MASK, Tree
from rookery.envs.base import VectorEnv
from rookery.envs.random_play import random_actions, random_play
from rookery.tasks.games import players

FILE = Path(__file__).parents[1] / "results" / "games.md"
LANES = 64

Player = Callable[[Tree, np.random.Generator], np.ndarray]

VERSUS: dict[str, tuple[dict[str, Any], str, Player]] = {
    "TicTacToe": ({}, "perfect", players.tic_tac_toe_perfect),
    "ConnectFour": ({}, "one-ply", players.connect_four_one_ply),
    "LineSoccer": ({}, "script", players.line_soccer_script),
    "LineSoccer, 2 strikers, 1 goalie": ({"strikers": 2, "goalies": 1}, "script", players.line_soccer_script),
}
TOGETHER: dict[str, Player] = {
    "CarryTogether": players.carry_together_script,
    "Sacrifice": players.sacrifice_script,
    "MatrixGame": players.matrix_game_best,
}


def chance(env: VectorEnv) -> Player:
    """Returns the player that draws evenly among what is allowed."""
    spec = env.kinds[0].action
    return lambda obs, rng: spec.to_env(random_actions(spec, len(next(iter(obs.values()))), obs.get(MASK), rng))


def play(env: VectorEnv, who: Sequence[Player], episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Plays so many episodes in all; gives what each agent earned, own and group's, ``[2, episodes, agents]``, and the
    length of each episode.
    """
    agents, rng = len(who), np.random.default_rng(0)
    shown = env.reset(lambda lane, episode: lane * 1_000_003 + episode)
    earned, steps = np.zeros((2, env.num_lanes, agents)), np.zeros(env.num_lanes, dtype=int)
    left = np.full(env.num_lanes, -(-episodes // env.num_lanes))
    found: list[np.ndarray] = []
    lengths: list[int] = []
    space = env.kinds[0].action.space
    while left.any():
        rows = shown.rows[0]
        waiting = np.flatnonzero(rows.waiting)
        actions = np.zeros((len(waiting), *(space.shape or ())), space.dtype)
        for number, player in enumerate(who):
            mine = waiting % agents == number
            if mine.any():
                actions[mine] = player({path: array[waiting[mine]] for path, array in rows.obs.items()}, rng)
        shown = env.step([actions])
        rows = shown.rows[0]
        earned[0] += rows.reward.reshape(-1, agents)
        if rows.group_reward is not None:
            earned[1] += rows.group_reward.reshape(-1, agents)
        steps += 1
        for lane in np.flatnonzero(shown.ended):
            if left[lane]:
                found.append(earned[:, lane].copy())
                lengths.append(int(steps[lane]))
                left[lane] -= 1
            earned[:, lane], steps[lane] = 0.0, 0
    return np.stack(found, axis=1), np.array(lengths)


def speed(env: VectorEnv) -> float:
    """Returns the agent steps a second that are played by chance."""
    acted, start = 0, time.perf_counter()
    for shown in islice(random_play(env, lambda lane, episode: lane + episode, np.random.default_rng(0)), 1500):
        acted += int(np.count_nonzero(shown.rows[0].waiting))
    return acted / (time.perf_counter() - start)


def main() -> None:
    """Plays, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    episodes = parser.parse_args().episodes
    lines = ["# Games of several agents", "", f"`python benchmarks/studies/games.py --episodes {episodes}`", ""]
    lines += [
        "| game | first side | second side | won by the first | drawn | lost | steps |",
        "|---|---|---|---|---|---|---|",
    ]
    speeds = []
    for name, (settings, called, scripted) in VERSUS.items():
        env = getattr(tasks, name.split(",")[0])(LANES, **settings)
        first = next(iter(env.teams)) if hasattr(env, "teams") else 1
        rest = len(env.kinds[0].agents) - first
        sides = {"random": chance(env), called: scripted}
        for one, mine in sides.items():
            for other, theirs in sides.items():
                earned, lengths = play(env, [mine] * first + [theirs] * rest, episodes)
                score = earned.sum(axis=0)[:, 0]
                shares = (np.mean(score > 0), np.mean(score == 0), np.mean(score < 0))
                told = " | ".join(f"{share:.3f}" for share in shares)
                lines.append(f"| {name} | {one} | {other} | {told} | {lengths.mean():.1f} |")
                print(lines[-1], flush=True)
        speeds.append((name, speed(env)))
    lines += ["", "| game | played by | group's reward | own rewards, summed | steps |", "|---|---|---|---|---|"]
    for name, scripted in TOGETHER.items():
        env = getattr(tasks, name)(LANES)
        for called, player in (("random", chance(env)), ("script", scripted)):
            earned, lengths = play(env, [player] * len(env.kinds[0].agents), episodes)
            own, group = earned[0].sum(axis=1).mean(), earned[1][:, 0].mean()
            lines.append(f"| {name} | {called} | {group:.3f} | {own:.3f} | {lengths.mean():.1f} |")
            print(lines[-1], flush=True)
        speeds.append((name, speed(env)))
    lines += ["", f"Agent steps a second in {LANES} copies, played by chance (drawing the actions included):", ""]
    lines += ["| game | agent steps a second |", "|---|---|", *(f"| {name} | {value:,.0f} |" for name, value in speeds)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
