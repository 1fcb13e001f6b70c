"""Time of the parts of CartPole's training: ``python benchmarks/studies/parts.py`` prints the table of
docs/performance.md and, at its end, that of memory in docs/kernels.md.

In microseconds, on one core. By the run's own timers: a vector step of 8 copies in Python, and one of 64 copies in the
batched twin. Medians: Gymnasium's 8 copies in a bare loop, which no vector step of them can undercut; a gradient step
on 256 rows by parts; acting on 8 rows by the policy's modules and as it is done; a memory of 64 units on 64 features
in either path, a step and a pass over sequences of 32 decisions.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch

from rookery import PPOConfig, Trainer
from rookery.algorithms.on_policy.ppo import ppo_gradient, ppo_loss
from rookery.core.batch import Sequences
from rookery.core.flat import flatten
from rookery.core.native import ADDRESS, FLOATS, DrawingHead, HeadLayout, InputLeaf, LinearLayer, Network, best_build
from rookery.core.native_memory import NativeCell, Recurrence
from rookery.core.optim import ClosedForm, apply_gradients, compute_gradients
from rookery.core.process.runtime import keep_large_blocks
from rookery.models.cells.table import ON_KERNELS
from rookery.models.memory import MemoryConfig, build_memory
from rookery.rollout.storage import DecisionSlab

sys.path.append(str(Path(__file__).parents[1]))
from workloads import MATCHED

REPEATS = 300
EPISODE = 50
"""DecisionSlab of one, on average, where a memory is measured."""


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


def memory_layer(kind: str, steps: int, rows: int, slots: int) -> dict[str, float]:
    """A layer of a memory with its input weight, on kernels and by its module; episodes start anywhere.

    In a step the choice among two actions stands on it; drawing is part of it on kernels alone, which never do without.
    """
    size, build, generator = 64, best_build(), torch.Generator().manual_seed(0)
    module, head = build_memory(MemoryConfig(kind=kind, size=size), size, generator), torch.nn.Linear(size, 2)
    assert build is not None
    assert module is not None
    flatten([module, head])
    layer: Any = module.layers[0]
    network, top = (
        Network(build, [InputLeaf(FLOATS, size)], [[LinearLayer(linear.weight, linear.bias)]], "none")
        for linear in (layer.input, head)
    )
    cell = NativeCell(build, kind, size, getattr(layer, "recurrent", None))
    recurrence, choice = (
        Recurrence(build, [network, top], [cell], [0]),
        DrawingHead(build, HeadLayout((2,), 0, 0, True)),
    )
    recurrence.pack()
    seen, played, noise, logp = (torch.rand(slots, width) for width in (size, module.size, 1, 1))
    actions = torch.empty(slots, 1, dtype=torch.int64)
    leaves = (ADDRESS * 1)(seen.data_ptr())
    drawn = None, None, noise.data_ptr(), actions.data_ptr(), logp.data_ptr()

    first, length = torch.rand(steps, rows, generator=generator) < 1 / EPISODE, torch.full((rows,), steps)
    sequences, before, after = Sequences(first, length, None), *torch.zeros(2, rows, module.size)
    x, gradient = torch.randn(2, steps * rows, size)

    def step_in_torch() -> None:
        with torch.no_grad():
            head(module.advance(seen, played)[0])

    def learn() -> None:
        (pre,) = network.forward([x], keep=True)
        cell.forward(sequences.grid(pre), first, length, before, after, keep=True)
        network.write_gradients([cell.write_gradients(sequences.grid(gradient)).flatten(0, 1)], inputs=True)

    def learn_in_torch() -> None:
        module(x.requires_grad_(), before, sequences)[0].backward(gradient)

    step, learning = f"{kind}: a step of {slots} rows", f"{kind}: {steps} steps of {rows} rows, forward and backward"
    return {
        f"{step}, kernels": microseconds(
            lambda: recurrence.policy_step(choice, leaves, slots, played.data_ptr(), module.size, *drawn)
        ),
        f"{step}, torch": microseconds(step_in_torch),
        f"{learning}, kernels": microseconds(learn),
        f"{learning}, torch": microseconds(learn_in_torch),
    }


def main() -> None:
    """Measures and prints."""
    keep_large_blocks()
    torch.set_num_threads(1)
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
        rollout = trainer._pool.sample(10_000).rollouts["main"]
        batch = next(learner.targets(rollout).shuffled(ppo.minibatch_size, learner.rng))
        forward, optimizer = learner.forward, learner.optimizer
        found["targets"] = microseconds(lambda: learner.targets(rollout))
        ways = {"own kernel": learner.closed_form, "closed form": ClosedForm(ppo_loss, ppo_gradient), "autograd": None}
        for way, form in ways.items():
            found[f"gradients on kernels, loss by {way}"] = microseconds(
                lambda form=form: compute_gradients(forward, ppo_loss, batch, optimizer, now, form)
            )
        for optimizer.on_kernels, path in ((True, "on kernels"), (False, "in torch")):
            found[f"clip and Adam {path}"] = microseconds(
                lambda: apply_gradients(optimizer, lr=1e-12, max_grad_norm=now.max_grad_norm)
            )
        player = trainer._pool.worker.policies["main"]
        seen = {path: leaf[0] for path, leaf in rollout.obs.items()}
        decisions = DecisionSlab.on(
            {path: leaf.numpy() for path, leaf in seen.items()}, player.policy.obs_spec, player.policy.action_spec
        )
        noise = torch.full((ppo.num_envs, 1), 0.5)
        found["acting on 8 rows, kernels"] = microseconds(lambda: player.act(decisions, noise, None))
        found["acting on 8 rows, torch"] = microseconds(lambda: player.policy.act(seen, noise))
        found["gradients in torch"] = microseconds(
            lambda: compute_gradients(learner.net, ppo_loss, batch, optimizer, now)
        )
    for kind in (cell.kernel for cell in ON_KERNELS):
        found |= memory_layer(kind, steps=32, rows=8, slots=8) | memory_layer(kind, steps=32, rows=32, slots=64)
    print("| part | us |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:,.0f} |")


if __name__ == "__main__":
    main()
