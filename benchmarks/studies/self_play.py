"""Results of self-play: ``self_play.py [--seeds 3] [--only tic-tac-toe] [--scale 1]``.

Tic-tac-toe by PPO against itself: after 50,000 and 300,000 moves the share of games without loss against a player that
draws its moves, and the games lost of 50 against a perfect player that moves first and draws among its best moves; as
the control the same with opponents that never change (the policy as it began). Connect four: rating against frozen
anchors, and games against a player that looks one move ahead. Line soccer: games against its script. The policy plays
its most likely actions, on both sides in turn where nothing else is said. Medians of the seeds, with all of them.
Writes benchmarks/results/self_play.md; a run that is not measured keeps its rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import numpy as np

from rookery import Linear, PPOConfig, Trainer
from rookery.core.seeding import Streams
from rookery.rollout.mapping import PolicyMapping
from rookery.run.checkpoint.run_dir import versions
from rookery.run.evaluate.episode_limit import BoundedEpisodes
from rookery.run.opponents.self_play import returns_of, scripted, sides_of
from rookery.run.prepare import make_copies

FILE = Path(__file__).parents[1] / "results" / "self_play.md"

BOARDS: dict[str, Any] = {
    "fragment_length": 16,
    "rollout_size": 2048,
    "minibatch_size": 256,
    "epochs": 6,
    "gamma": 1.0,
    "lr": Linear(2e-3, 2e-5, steps=300_000),
    "entropy_coef": Linear(0.12, 0.03, steps=300_000),
    "model": {"hidden": (256, 256), "activation": "relu"},
}
AGAINST_ITSELF = {"snapshot_every": 5000, "window": 30, "swap_every": 0, "rating_games": 0}
NEVER_SWAPPED = {"snapshot_every": 10**9, "window": 1, "latest_ratio": 0.0, "rating_games": 0}
SOCCER: dict[str, Any] = {
    "lr": 1e-3,
    "gamma": 0.98,
    "fragment_length": 32,
    "minibatch_size": 2048,
    "epochs": 8,
    "entropy_coef": 0.003,
}
SOCCER_RULES = {"snapshot_every": 50_000, "window": 10, "latest_ratio": 0.8, "swap_every": 0, "rating_games": 0}
PERFECT = "rookery.tasks.games.players:tic_tac_toe_perfect"
ONE_PLY = "rookery.tasks.games.players:connect_four_one_ply"
SCRIPT = "rookery.tasks.games.players:line_soccer_script"


def games(trainer: Trainer, side: str, player: str, number: int, deterministic: bool = True) -> np.ndarray:
    """Returns the score of the policy in each of some games in which a player has all sides but one."""
    env = make_copies(trainer.config, min(number, 50))
    sides, policy = sides_of(env), trainer.policies["main"]
    rule = {agent: "main" if name == side else "rival" for name, agents in sides.items() for agent in agents}
    players = {"main": policy, "rival": scripted(policy, "rival", player)}
    mapping, limit = PolicyMapping(rule, list(players)), trainer.config.evaluation.max_episode_steps
    played = BoundedEpisodes(
        env,
        players,
        mapping,
        Streams(1),
        deterministic=deterministic,
        episodes=number,
        limit=limit,
        draws=trainer._draws,
    )
    played.play()
    env.close()
    earned = [dict(returns_of(sides, episode)) for episode in played.finished]
    return np.array([0.5 * (1.0 + np.sign(one["main"] - one["rival"])) for one in earned])


def on_both_sides(trainer: Trainer, player: str, number: int, deterministic: bool = True) -> np.ndarray:
    """Returns the scores of games of which the policy plays each side in as many."""
    sides = list(sides_of(trainer.env))
    return np.concatenate([games(trainer, side, player, number // len(sides), deterministic) for side in sides])


def boards(env: str, seed: int, steps: int, settings: Mapping[str, Any]) -> Trainer:
    """Makes a run of a board game."""
    stop = {"env_steps": steps}
    return Trainer(env, PPOConfig(**BOARDS), num_envs=32, seed=seed, self_play={"main": dict(settings)}, stop=stop)


def tic_tac_toe(seed: int, scale: float, settings: Mapping[str, Any]) -> dict[str, float]:
    """Trains once; returns what it measured."""
    found = {}
    with boards("rookery.tasks:TicTacToe", seed, int(300_000 * scale), settings) as trainer:
        for moves in (50_000, 300_000):
            trainer.train({"env_steps": int(moves * scale)})
            even = 100 * (on_both_sides(trainer, "random", 400) > 0).mean()
            found[f"% without loss against random after {moves:,} moves"] = even
            found[f"of 50 lost to the perfect player after {moves:,}"] = (games(trainer, "o", PERFECT, 50) == 0).sum()
    return found


def connect_four(seed: int, scale: float, settings: Mapping[str, Any]) -> dict[str, float]:
    """Trains once; returns what it measured."""
    own = {"anchors": {"random": "random", "one ply": ONE_PLY}, "rating_games": 20, "snapshot_every": 20_000}
    found = {}
    with boards("rookery.tasks:ConnectFour", seed, int(400_000 * scale), {**settings, **own}) as trainer:
        for moves in (50_000, 200_000, 400_000):
            trainer.train({"env_steps": int(moves * scale)})
            rating = trainer._self_play.standing()["main"].rating
            found[f"rating after {moves:,} moves (random: 1200)"] = rating
        found["% score against one ply"] = 100 * on_both_sides(trainer, ONE_PLY, 200).mean()
    return found


def line_soccer(seed: int, scale: float, settings: Mapping[str, Any]) -> dict[str, float]:
    """Trains once; returns what it measured."""
    config = {"num_envs": 64, "seed": seed, "self_play": {"main": dict(settings)}}
    with Trainer("rookery.tasks:LineSoccer", PPOConfig(**SOCCER), **config) as trainer:
        found = {}
        for millions in (0.5, 2):
            trainer.train({"env_steps": int(millions * 1_000_000 * scale)})
            for how, likeliest in (("likeliest", True), ("drawn", False)):
                won = on_both_sides(trainer, SCRIPT, 200, likeliest) == 1
                found[f"% won against the script after {millions:g}M env steps, {how} actions"] = 100 * won.mean()
        return found


RUNS = {
    "tic-tac-toe": (tic_tac_toe, AGAINST_ITSELF),
    "tic-tac-toe, opponents never swapped (control)": (tic_tac_toe, NEVER_SWAPPED),
    "connect four": (connect_four, AGAINST_ITSELF),
    "line soccer": (line_soccer, SOCCER_RULES),
}


def main() -> None:
    """Measures and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the steps, to try it out")
    args = parser.parse_args()
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| run |")]
    found: dict[str, list[str]] = {name: [one for one in rows if one.startswith(f"| {name} |")] for name in RUNS}
    for name, (train, settings) in RUNS.items():
        if not name.startswith(args.only):
            continue
        measured = [train(seed, args.scale, settings) for seed in range(1, args.seeds + 1)]
        found[name] = []
        for what in measured[0]:
            values = [float(one[what]) for one in measured]
            each = ", ".join(f"{value:.4g}" for value in values)
            found[name].append(f"| {name} | {what} | {median(values):.4g} | {each} |")
            print(found[name][-1], flush=True)
    lines = ["# What self-play learns", "", fill((__doc__ or "").split("\n\n", 1)[1].replace("``", "`"), 120), ""]
    lines += [
        "| run | measured | median | seeds |",
        "|---|---|---|---|",
        *(row for each in found.values() for row in each),
    ]
    boards = f"Boards: self_play {AGAINST_ITSELF}, control {NEVER_SWAPPED}; 32 copies; PPO: {BOARDS}"
    lines += ["", fill(boards, 120), "", fill(f"Soccer: self_play {SOCCER_RULES}; 64 copies; PPO: {SOCCER}", 120)]
    command = f"python benchmarks/studies/self_play.py --seeds {args.seeds} --scale {args.scale:g}"
    lines += ["", f"`{command}`; " + ", ".join(f"{name} {value}" for name, value in versions().items())]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
