"""The Decision Transformer beside a plain form of it: ``decision_transformer.py [SET ...] [--form NAME ...] [--steps
2500] [--seeds 3]``.

Both learn from the same data with the same sizes, and play the same episodes, with the data's best return as target.
The plain form is `benchmarks/peers/plain_dt.py`, with CORL's settings (a learned embedding of 1,000 timesteps, dropout
of 0.1, returns divided by 1,000). A third form is Rookery's with returns-to-go as inputs, in place of averages. Each
run is kept in `benchmarks/results/offline.json`, and the last section of `benchmarks/results/offline.md` is written
from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import torch
from datasets import SETS, env_of, path_of
from offline import BESIDE, EPISODES, FIRST, FORMS, READER, RESULTS, Found, beside

from rookery import Trainer

sys.path.append(str(Path(__file__).parents[1] / "peers"))
from plain_dt import Episode, PlainDT, Settings

STARTS = 1_000
"""Seed of the first of the episodes that are played."""
PLAIN = Settings(**{name.removeprefix("algorithm."): value for name, value in READER.items()})

Act = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""Returns actions ``[N, ...]`` for observations ``[N, F]`` after rewards ``[N]``."""


def play(env: str, act: Act) -> float:
    """Returns the mean return of episodes, which are played in step."""
    envs = [gymnasium.make(env) for _ in range(EPISODES)]
    obs = np.stack([one.reset(seed=STARTS + row)[0] for row, one in enumerate(envs)]).astype(np.float32)
    plays, earned, reward = np.ones(EPISODES, bool), np.zeros(EPISODES), None
    while plays.any():
        action = act(obs, reward)
        reward = np.zeros(EPISODES, np.float32)
        for row in np.flatnonzero(plays):
            obs[row], paid, terminated, truncated, _ = envs[row].step(action[row])
            reward[row] = paid
            earned[row] += paid
            plays[row] = not (terminated or truncated)
    return float(earned.mean())


def of_the_environment(env: str, action: np.ndarray) -> np.ndarray:
    """Returns actions in [-1, 1] in the units of an environment; discrete ones unchanged."""
    space = gymnasium.make(env).action_space
    if not isinstance(space, gymnasium.spaces.Box):
        return action
    inside: np.ndarray = np.clip(action, -1.0, 1.0)
    return space.low + (inside + 1.0) * (space.high - space.low) / 2


def episodes_of(trainer: Trainer) -> list[Episode]:
    """Returns the data as `PlainDT` takes them."""
    learner: Any = trainer.learners["main"]
    data, windows = learner.read()
    found = []
    for rows in np.split(windows.order, np.flatnonzero(windows.timestep == 0)[1:]):
        action = data.actions(rows)
        action = action.clamp(-1.0, 1.0) if action.is_floating_point() else action.flatten().long()
        to_go = data.returns(1.0).total[rows].astype(np.float64)
        reward = (to_go - np.append(to_go[1:], 0.0)).astype(np.float32)
        found.append(Episode(data.obs(rows)["obs"].float().numpy(), action.numpy(), reward))
    return found


def run(name: str, form: str, steps: int, seed: int) -> dict[str, float]:
    """Trains one form and measures its return."""
    env = env_of(name)
    config = {**READER, **({"algorithm.return_input": "total"} if form == "total" else {})}
    with Trainer(env, "dt", replay=path_of(name), seed=seed, config=config, num_envs=1) as trainer:
        episodes = episodes_of(trainer)
        returns = [float(one.reward.sum()) for one in episodes]
        facts = {"data": fmean(returns), "target": max(returns), "steps": steps}
        if form != "plain":
            began = time.perf_counter()
            trainer.learn(steps)
            seconds = time.perf_counter() - began
            policy, memory = trainer.policies["main"], None

            def act(obs: np.ndarray, reward: np.ndarray | None) -> np.ndarray:
                nonlocal memory
                action, memory = policy.predict(obs, memory, reward=reward)
                return np.asarray(action)

            return {**facts, "offline": play(env, act), "steps_per_second": steps / seconds}
        space = gymnasium.make(env).action_space
        actions = int(space.n) if isinstance(space, gymnasium.spaces.Discrete) else episodes[0].action.shape[1]
    peer = PlainDT(episodes, actions, seed, PLAIN)
    began = time.perf_counter()
    peer.learn(steps)
    seconds = time.perf_counter() - began
    player = peer.player(EPISODES, max(returns))
    earned = play(env, lambda obs, reward: of_the_environment(env, player.act(obs, reward)))
    return {**facts, "offline": earned, "steps_per_second": steps / seconds}


def main() -> None:
    """Makes what is missing, and writes the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--steps", type=int, default=2_500, help="gradient steps of a training")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept, page = RESULTS / "offline.json", RESULTS / "offline.md"
    for name in options.sets:
        for form in options.form or FORMS:
            for seed in range(FIRST, FIRST + options.seeds):
                found: Found = json.loads(kept.read_text(encoding="utf-8"))
                key = f"{name} {BESIDE}-{form}-{options.steps} {seed}"
                if key in found:
                    continue
                found[key] = run(name, form, options.steps, seed)
                kept.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
                print(key, found[key], flush=True)
    found = json.loads(kept.read_text(encoding="utf-8"))
    section = beside(found)
    before = page.read_text(encoding="utf-8").partition(section[1])[0]
    page.write_text(before.rstrip("\n") + "\n" + "\n".join(section) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
