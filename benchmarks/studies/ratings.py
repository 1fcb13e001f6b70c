"""Ratings measured again and again: ``ratings.py [--steps 100000] [--repeats 40] [--games 20]``; writes
benchmarks/results/ratings.md.

A run of tic-tac-toe plays itself and takes snapshots. Then these, a random and a perfect player meet, each with each,
again and again with other seeds, as in `rookery elo --seed`, and each time ratings and their standard errors are
computed. Reported are how far ratings lie apart from one measurement to the next, the standard errors beside it, and
how often the 95 % interval of one measurement holds the rating that all others together give. The control are intervals
of half the length. Last, the same with no fixed player, where ratings are distances to the mean of all.
"""

from __future__ import annotations

import argparse
import os
import platform
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np

from rookery import PPOConfig, Trainer
from rookery.core.seeding import Streams
from rookery.report.statistics import SURE
from rookery.run.opponents.matches import Game, Matches, entrant_of_run, scripted_entrant, standings_of
from rookery.run.prepare import make_copies

FILE = Path(__file__).parents[1] / "results" / "ratings.md"

NOTE = (
    "Errors are those of scores that depend on ratings alone. Here x, who begins, wins more often than o; sides are "
    "exchanged evenly, so results vary less than such scores would, and intervals are longer than they need be."
)

ANCHOR = "random"
PERFECT = "rookery.tasks.games.players:tic_tac_toe_perfect"


def train(steps: int) -> Trainer:
    """A run that has played itself for so many env steps."""
    self_play = {"snapshot_every": steps // 5, "window": None}
    settings = {
        "self_play.main": self_play,
        "sampling.env_processes": 0,
        "logging.console": "quiet",
        "stop.env_steps": steps,
    }
    run = Trainer("rookery.tasks:TicTacToe", PPOConfig(), num_envs=64, seed=0, config=settings)
    run.train()
    return run


def measured(run: Trainer, games: int, seed: int) -> tuple[list[str], list[Game]]:
    """Plays each player against each, once; returns the names of the players, and the games."""
    with closing(make_copies(run.config, 64)) as env:
        names = [*(f"main@{number}" for number in sorted(run._self_play.snapshots["main"])), "main"]
        entrants = [entrant_of_run(run, env, name, name) for name in names]
        streams = Streams(seed)
        entrants += [scripted_entrant(env, ANCHOR, ANCHOR, streams), scripted_entrant(env, PERFECT, "perfect", streams)]
        played = Matches(run, env, entrants, None, games, deterministic=False, seed=seed).play()
        return [entrant.name for entrant in entrants], played


def table(names: list[str], repeats: list[list[Game]], anchors: dict[str, float]) -> list[str]:
    """A line for each player, and one for all."""
    ratings = np.zeros((len(repeats), len(names)))
    errors, others = ratings.copy(), ratings.copy()
    for number, games in enumerate(repeats):
        for column, one in enumerate(standings_of(games, names, anchors)):
            ratings[number, column], errors[number, column] = one.rating, one.error
        rest = [game for other, some in enumerate(repeats) if other != number for game in some]
        others[number] = [one.rating for one in standings_of(rest, names, anchors)]
    lines = [
        "| player | rating, mean | its standard deviation | error that was said | 95 % intervals hold | half as long |",
        "|---|---|---|---|---|---|",
    ]
    free = [column for column, name in enumerate(names) if name not in anchors]
    for columns, label in [*(([column], names[column]) for column in free), (free, "all")]:
        apart = np.abs(ratings - others)[:, columns]
        holds, half = ((apart <= width * errors[:, columns]).mean() for width in (SURE, SURE / 2))
        mean = f"{ratings[:, columns].mean():.0f}" if len(columns) == 1 else ""
        spread = np.sqrt(ratings[:, columns].var(axis=0, ddof=1).mean())
        said = errors[:, columns].mean()
        lines.append(f"| {label} | {mean} | {spread:.0f} | {said:.0f} | {100 * holds:.0f} % | {100 * half:.0f} % |")
    return lines


def machine() -> str:
    """Returns the machine and the versions of the measurements."""
    versions = ", ".join(f"{package} {version(package)}" for package in ("rookery", "torch", "numpy"))
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."


def main() -> None:
    """Trains, measures, writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--games", type=int, default=20)
    asked = parser.parse_args()
    run = train(asked.steps)
    began = perf_counter()
    found = [measured(run, asked.games, seed) for seed in range(asked.repeats)]
    seconds = perf_counter() - began
    names, repeats = found[0][0], [games for _, games in found]
    total = sum(map(len, repeats))
    lines = ["# Ratings", "", "Made by `python benchmarks/studies/ratings.py`.", ""]
    lines += [f"Tic-tac-toe, {asked.steps:,} env steps of self-play (PPO), {asked.repeats} measurements of "
              f"{asked.games} games a pair: {total:,} games, {total / seconds:,.0f} a second.", ""]  # fmt: skip
    lines += [f"## With {ANCHOR} fixed at 1200", "", *table(names, repeats, {ANCHOR: 1200.0}), ""]
    lines += ["## Without a fixed player", "", *table(names, repeats, {}), "", NOTE, "", machine()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
