"""Where the time of CartPole's training goes: ``python benchmarks/parts.py`` prints the table of docs/performance.md.

Medians, in microseconds, on one core: a vector step of 8 copies by the run's own timers, and a gradient step on 256
rows by parts; acting on 8 rows by the policy's modules and in NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from workloads import MATCHED

from rookery import PPOConfig, Trainer
from rookery.core.optim import apply_gradients, compute_gradients

REPEATS = 300


def microseconds(function: Callable[[], object]) -> float:
    """The median of many calls."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1e6 * median(times)


def main() -> None:
    """Measures and prints."""
    ppo = MATCHED["cartpole-matched"]
    cfg = PPOConfig(lr=ppo.lr, epochs=ppo.epochs, minibatch_size=ppo.minibatch_size, entropy_coef=ppo.entropy_coef)
    with Trainer(ppo.env, cfg, num_envs=ppo.num_envs, seed=0, config={"env.implementation": "serial"}) as trainer:
        for _ in range(60):
            trainer.train_iteration()
        rows = {row.label: row for row in trainer.timers.rows()}
        steps = rows["env.step"].count
        found = {f"vector step: {name}": 1e6 * rows[name].seconds / steps for name in ("env.step", "act", "record")}
        found["vector step: all"] = 1e6 * rows["sample"].seconds / steps
        found["training_step"] = 1e6 * rows["training_step"].seconds / rows["training_step"].count
        learner, now = trainer.learners["main"], trainer.learners["main"].now()
        rollout = trainer.pool.sample(10_000)["main"]
        batch = next(learner.targets(rollout).shuffled(ppo.minibatch_size, learner.rng))
        net, optimizer = learner.net, learner.optimizer
        found["targets"] = microseconds(lambda: learner.targets(rollout))
        found["gradient step: forward"] = microseconds(lambda: net(batch))
        found["gradient step: forward, loss"] = microseconds(lambda: learner.loss(net(batch), batch, now))
        found["gradient step: forward, loss, backward"] = microseconds(
            lambda: compute_gradients(net, learner.loss, batch, optimizer, now)
        )
        found["gradient step: clip, Adam"] = microseconds(
            lambda: apply_gradients(optimizer, lr=1e-12, max_grad_norm=now.max_grad_norm)
        )
        seat = trainer.pool.worker.seats["main"]
        obs = {path: leaf[0].numpy() for path, leaf in rollout.obs.items()}
        seen = {path: torch.from_numpy(array) for path, array in obs.items()}
        noise = torch.full((ppo.num_envs, 1), 0.5)
        found["acting on 8 rows: modules"] = microseconds(lambda: seat.policy.act(seen, noise))
        found["acting on 8 rows: NumPy"] = microseconds(lambda: seat.act(obs, noise))
    print("| part | us |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:,.0f} |")


if __name__ == "__main__":
    main()
