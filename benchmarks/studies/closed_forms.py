"""Cost of updates without the closed forms of gradients: ``closed_forms.py [--rounds 40] [UPDATE ...]``.

A closed form (`core/optim.py:ClosedForm`) saves the graph that autograd makes between the outputs of networks on
kernels and a loss. Here an algorithm's update is measured with it and without it, in turn, on one thread, at the
default settings: CPU time of this thread, so that other processes disturb little. Printed is a line for each
algorithm: the time of an update, and by how much more time an update takes without the closed forms that the line
names: of the fastest round of each, and the median over rounds with the quarter below and above. Closed forms that are
not in the source are left out; ``PYTHONPATH=../other/src`` measures another state of the source.
Figures: `benchmarks/results/closed_forms.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch

from rookery import Trainer
from rookery.core.batch import Rollout

COMMON = {
    "seed": 1,
    "threads": 1,
    "sampling.env_processes": 0,
    "checkpoint.every": 0,
    "logging.console": "quiet",
    "logging.tensorboard": False,
}
DATA = {
    "choices": {"env.name": "CartPole-v1", "algorithm.name": "dqn", "algorithm.learning_starts": 100_000},
    "numbers": {"env.name": "Pendulum-v1", "algorithm.name": "sac", "algorithm.learning_starts": 100_000},
}
"""Runs whose replay is learned from: random play."""

OFFLINE, ON, MULTI = "algorithms.offline", "algorithms.on_policy", "algorithms.multi_agent"
BC_FORM = (f"{OFFLINE}.bc:BC_GRADIENT", f"{OFFLINE}.data_learner:BC_GRADIENT")
"""One closed form under both of its names."""

UPDATES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "bc, choices": ("choices", {"algorithm.name": "bc"}, BC_FORM),
    "bc, numbers": ("numbers", {"algorithm.name": "bc"}, BC_FORM),
    "marwil, policy": ("choices", {"algorithm.name": "marwil"}, BC_FORM),
    "marwil, values": ("choices", {"algorithm.name": "marwil"}, (f"{OFFLINE}.bc:RETURN_GRADIENT",)),
    "iql, values": ("numbers", {"algorithm.name": "iql"}, (f"{OFFLINE}.iql:EXPECTILE_GRADIENT",)),
    "iql, values of choices": ("choices", {"algorithm.name": "iql"}, (f"{OFFLINE}.iql:EXPECTILE_GRADIENT",)),
    "cql": ("numbers", {"algorithm.name": "cql"}, (f"{OFFLINE}.cql:CONSERVATIVE_GRADIENT",)),
    "discrete_cql": ("choices", {"algorithm.name": "discrete_cql"}, (f"{OFFLINE}.cql:ConservativeValue.closed_form",)),
    "sac, quantiles": (
        "numbers",
        {"algorithm.name": "sac", "env.name": "Pendulum-v1", "algorithm.critic.quantiles": 25},
        ("algorithms.off_policy.critics:CRITIC_GRADIENT", "algorithms.off_policy.sac:ACTOR_GRADIENT"),
    ),
    "td3bc": ("numbers", {"algorithm.name": "td3bc"}, (f"{OFFLINE}.td3bc:HELD_ACTOR_GRADIENT",)),
    "mappo": ("", {"algorithm.name": "mappo", "env.name": "CarryTogether"}, (f"{MULTI}.mappo:MAPPO.closed_form",)),
    "reinforce": (
        "",
        {"algorithm.name": "reinforce", "env.name": "CartPole-v1"},
        (f"{ON}.reinforce:Reinforce.closed_form",),
    ),
    "pqn": ("", {"algorithm.name": "pqn", "env.name": "CartPole-v1"}, (f"{ON}.pqn:PQN.closed_form",)),
}
"""By title of a line: data, settings, and the closed forms that are removed, ``module:name`` under ``rookery``."""


def places(names: tuple[str, ...]) -> list[tuple[Any, str]]:
    """Finds closed forms, each as the object that has it and its name there; those that are no more are left out."""
    found = []
    for name in names:
        module, _, path = name.partition(":")
        *inside, last = path.split(".")
        owner: Any = import_module(f"rookery.{module}")
        for part in inside:
            owner = getattr(owner, part, None)
        if getattr(owner, last, None) is not None:
            found.append((owner, last))
    return found


@contextmanager
def without(forms: list[tuple[Any, str]]) -> Iterator[None]:
    """Takes closed forms away."""
    kept = [getattr(owner, name) for owner, name in forms]
    for owner, name in forms:
        setattr(owner, name, None)
    try:
        yield
    finally:
        for (owner, name), form in zip(forms, kept, strict=True):
            setattr(owner, name, form)


def update_of(trainer: Trainer) -> Callable[[], object]:
    """Returns what makes an update: ten gradient steps on data, or a training step on one rollout again and again."""
    ((name, learner),) = trainer.learners.items()
    if learner.replay is not None:
        return lambda: learner.learn(10)
    rollouts: Mapping[str, Rollout] = {}
    while name not in rollouts:
        rollouts = trainer._pool.sample(1_000).rollouts
    rollout = rollouts[name].map(lambda _, tensor: tensor.clone())
    return lambda: learner.training_step(rollout)


def measure(update: Callable[[], object], forms: list[tuple[Any, str]], rounds: int) -> str:
    """Measures an update with closed forms and without them in turn; returns the figures as text."""

    def timed() -> float:
        began = time.thread_time()
        for _ in range(count):
            update()
        return (time.thread_time() - began) / count

    count = 1
    for _ in range(3):
        update()
    with without(forms):
        update()
    count = max(round(0.05 / timed()), 1)
    both: list[tuple[float, float]] = []
    for _ in range(rounds):
        closed = timed()
        with without(forms):
            both.append((closed, timed()))
    fastest = [min(times) for times in zip(*both, strict=True)]
    low, middle, high = quantiles([open_ / closed - 1 for closed, open_ in both], n=4)
    return f"{1e3 * fastest[0]:.2f} ms | {fastest[1] / fastest[0] - 1:+.1%} | {middle:+.1%} ({low:+.1%} to {high:+.1%})"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("updates", nargs="*", help=", ".join(UPDATES))
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, (data, settings, names) in UPDATES.items():
            forms = places(names)
            if not forms or (options.updates and name not in options.updates):
                continue
            place = Path(folder, data)
            if data and not place.exists():
                with Trainer(config={**COMMON, **DATA[data]}, run_dir=place) as trainer:
                    trainer.train({"env_steps": 4_000})
            more: dict[str, Any] = {"replay": str(place)} if data else {}
            with Trainer(config={**COMMON, **settings}, **more) as trainer:
                print(f"{name} | {measure(update_of(trainer), forms, options.rounds)}", flush=True)


if __name__ == "__main__":
    main()
