"""Where the time of CartPole's training goes: ``python benchmarks/parts.py`` prints the table of docs/performance.md.

In microseconds, on one core. By the run's own timers: a vector step of 8 copies in Python, and one of 64 copies in the
batched twin. Medians: Gymnasium's 8 copies in a bare loop, which no vector step of them can undercut; a gradient step
on 256 rows by parts; acting on 8 rows by the policy's modules and as it is done.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median

import gymnasium
import numpy as np
import torch
from torch import Tensor
from workloads import MATCHED

from rookery import PPOConfig, Trainer
from rookery.algorithms.actor_critic import Outputs
from rookery.algorithms.ppo import ppo_gradient, ppo_loss
from rookery.core.batch import Minibatch
from rookery.core.metrics import Metrics
from rookery.core.optim import apply_gradients, compute_gradients, with_gradient
from rookery.rollout.slots import Decisions

REPEATS = 300


def microseconds(function: Callable[[], object]) -> float:
    """The median of many calls."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1e6 * median(times)


def copies_alone(name: str, num_envs: int) -> float:
    """A step of every copy by a bare loop."""
    envs = [gymnasium.make(name, disable_env_checker=True) for _ in range(num_envs)]
    for env in envs:
        env.reset(seed=0)
    actions = itertools.cycle(np.arange(2))

    def step() -> None:
        for env, action in zip(envs, actions, strict=False):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return microseconds(step)


def vector_step(trainer: Trainer) -> dict[str, float]:
    """The parts of a vector step, once the policy plays long episodes."""
    for _ in range(60):
        trainer.train_iteration()
    rows = {row.label: row for row in trainer.timers.rows()}
    parts = {name: rows[name].seconds for name in ("env.step", "act", "record")} | {"all": rows["sample"].seconds}
    return {f"vector step of {trainer.env.num_lanes}: {name}": 1e6 * seconds / rows["env.step"].count
            for name, seconds in parts.items()}  # fmt: skip


def plain(outputs: Outputs, batch: Minibatch, cfg: PPOConfig) -> tuple[Tensor, Metrics]:
    """PPO's loss as a user would copy it."""
    return ppo_loss(outputs, batch, cfg)


@with_gradient(ppo_gradient)
def with_closed_form(outputs: Outputs, batch: Minibatch, cfg: PPOConfig) -> tuple[Tensor, Metrics]:
    """The same with the closed form of its gradient."""
    return ppo_loss(outputs, batch, cfg)


def main() -> None:
    """Measures and prints."""
    ppo = MATCHED["cartpole-matched"]
    cfg = PPOConfig(lr=ppo.lr, epochs=ppo.epochs, minibatch_size=ppo.minibatch_size, entropy_coef=ppo.entropy_coef)
    found = {f"{ppo.num_envs} copies alone": copies_alone(ppo.env, ppo.num_envs)}
    with Trainer(ppo.env, cfg, num_envs=64, seed=0, config={"env.implementation": "batched"}) as trainer:
        found |= vector_step(trainer)
    with Trainer(ppo.env, cfg, num_envs=ppo.num_envs, seed=0, config={"env.implementation": "serial"}) as trainer:
        found |= vector_step(trainer)
        rows = {row.label: row for row in trainer.timers.rows()}
        found["training_step"] = 1e6 * rows["training_step"].seconds / rows["training_step"].count
        learner, now = trainer.learners["main"], trainer.learners["main"].now()
        rollout = trainer.pool.sample(10_000)["main"]
        batch = next(learner.targets(rollout).shuffled(ppo.minibatch_size, learner.rng))
        net, optimizer = learner.net, learner.optimizer
        found["targets"] = microseconds(lambda: learner.targets(rollout))
        for way, loss in {"own kernel": learner.loss, "closed form": with_closed_form, "autograd": plain}.items():
            found[f"gradients on kernels, loss by {way}"] = microseconds(
                lambda loss=loss: compute_gradients(net, loss, batch, optimizer, now)
            )
        for optimizer.on_kernels, path in ((True, "on kernels"), (False, "in torch")):
            found[f"clip and Adam {path}"] = microseconds(
                lambda: apply_gradients(optimizer, lr=1e-12, max_grad_norm=now.max_grad_norm)
            )
        seat = trainer.pool.worker.seats["main"]
        seen = {path: leaf[0] for path, leaf in rollout.obs.items()}
        decisions = Decisions.on(
            {path: leaf.numpy() for path, leaf in seen.items()}, seat.policy.obs_spec, seat.policy.action_spec
        )
        noise = torch.full((ppo.num_envs, 1), 0.5)
        found["acting on 8 rows, kernels"] = microseconds(lambda: seat.act(decisions, noise))
        found["acting on 8 rows, torch"] = microseconds(lambda: seat.policy.act(seen, noise))
        net.model = net.model.replace(native=False)
        net._last_place = None, None
        found["gradients in torch"] = microseconds(lambda: compute_gradients(net, learner.loss, batch, optimizer, now))
    print("| part | us |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:,.0f} |")


if __name__ == "__main__":
    main()
