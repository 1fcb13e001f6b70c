"""Cost of a step of asynchronous environments beyond their own work: the environment alone, and a worker.

``python benchmarks/studies/clocked.py`` prints microseconds a step for one environment with 12 and with 64 agents, all
of which ask for an action in each step.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Asking, CopyBehavior, StepMessage

ACTION = spaces.Discrete(3)
OBS = spaces.Box(-np.inf, np.inf, (8,), np.float32)


class Crowd:
    """One copy in which the same agents ask in every step; nothing is simulated."""

    own_episodes, parameters, notes, name = True, {}, (), "crowd"

    def __init__(self, agents: int) -> None:
        self.behaviors = {"A": CopyBehavior(obs_spec(OBS, ACTION), action_spec(ACTION), (-1,) * agents)}
        self.counters: dict[str, int] = {}
        seen = np.random.default_rng(0).standard_normal((agents, 8)).astype(np.float32)
        self.arrival = StepMessage(0, {"A": Asking(list(range(agents)), {"obs": seen}, np.ones(agents))})

    def begin(self, lane, episode, plan):
        """Nothing is to be done."""

    replan = begin

    def step_messages(self, seconds):
        """All ask."""
        return [self.arrival]

    def answer(self, lane, episode, answers):
        """Nothing is to be done."""

    def close(self):
        """Nothing is held."""


class CrowdEnv(AsyncCopiesEnv):
    """The same by name."""

    def __init__(self, num_lanes: int, agents: int = 12) -> None:
        super().__init__(Crowd(agents), num_lanes)


def alone(agents: int, steps: int) -> float:
    """Microseconds of a step of the environment."""
    env, actions = CrowdEnv(1, agents), [np.zeros(agents, dtype=np.int64)]
    env.reset(lambda lane, episode: 0)
    env.step([actions[0][:0]])
    start = perf_counter()
    for _ in range(steps):
        env.step(actions)
    return 1e6 * (perf_counter() - start) / steps


def played(agents: int, steps: int) -> dict[str, float]:
    """Microseconds of a step by timer, with a policy of 2 x 64 that plays and stores."""
    config = {"env.config": {"agents": agents}, "sampling.iteration_steps": steps, "algorithm.model.hidden": [64, 64]}
    with Trainer(CrowdEnv, "ppo", config=config, num_envs=1, seed=0, console="quiet") as trainer:
        trainer._pool.sample(200)
        before = {row.label: row.seconds for row in trainer.timers.rows()}
        count = trainer._pool.worker.vector_steps
        start = perf_counter()
        while trainer._pool.worker.vector_steps < count + steps:
            trainer._pool.sample(steps)
        made = trainer._pool.worker.vector_steps - count
        took = {"all": perf_counter() - start}
        took |= {row.label: row.seconds - before.get(row.label, 0.0) for row in trainer.timers.rows()}
        return {label: 1e6 * seconds / made for label, seconds in took.items()}


def main() -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    for agents in (12, 64):
        best = min(alone(agents, 5000) for _ in range(3))
        parts = min((played(agents, 3000) for _ in range(3)), key=lambda took: took["all"])
        told = ", ".join(f"{label} {each:.1f}" for label, each in parts.items())
        print(f"{agents} agents: environment alone {best:.1f} us a step; played: {told}")


if __name__ == "__main__":
    main()
