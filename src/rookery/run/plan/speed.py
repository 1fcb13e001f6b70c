"""Speed of a training: its pace, the limits of its parts, its bottleneck, and a comparison of settings.

With R the env steps a second that a part allows by itself, a training that samples and learns in turn reaches at most
``1 / (1 / R_env + 1 / R_inference + 1 / R_learner)``. `survey` measures this for a user's environment; trainings here
are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.core.errors import RookeryError
from rookery.core.process.cpu import usable_cores
from rookery.core.seeding import Role
from rookery.core.timers import Timers
from rookery.envs.choice import random_rate
from rookery.envs.make import env_name
from rookery.run.settings import algorithm_name
from rookery.run.trainer import Trainer

PARTS = {"env.step": "environment", "act": "acting", "record": "recording", "training_step": "learning"}
"""Timer labels with their own share of the time, and the names of the shares; the rest is `other`."""

COPIES = (8, 32, 128)
"""Numbers of environments that a survey compares."""

LONGEST_SECONDS = 4.0
"""Seconds that measuring one choice of settings may take, if its share of the time is less."""

WORTH_CHANGING = 1.15
"""Gains below this are within the measurement error."""


@dataclass(frozen=True)
class Pace:
    """Measured pace of a training.

    Attributes:
        steps_per_second: Env steps a second of sampling and learning, without the first iteration.
        iteration_seconds: Mean seconds of an iteration.
        iterations: Number of timed iterations.
        shares: Share of the time of each of `PARTS`, by its name, and ``other``; in [0, 1].
    """

    steps_per_second: float
    iteration_seconds: float
    iterations: int
    shares: dict[str, float]

    def limit(self, part: str) -> float:
        """Returns the env steps a second that a part would allow by itself; infinite if it took no time."""
        return self.steps_per_second / self.shares[part] if self.shares[part] else float("inf")


@dataclass(frozen=True)
class Limits:
    """Env steps a second that each part of a training allows by itself.

    Attributes:
        environment: Stepping with random actions.
        inference: Acting.
        learner: Updates from experience.
    """

    environment: float
    inference: float
    learner: float

    @property
    def together(self) -> float:
        """Env steps a second if the parts ran one after the other and nothing else took time."""
        return 1 / (1 / self.environment + 1 / self.inference + 1 / self.learner)


@dataclass(frozen=True)
class Tried:
    """One choice of settings.

    Attributes:
        implementation: `env.implementation`.
        num_envs: `sampling.num_envs`.
        pace: Its pace, or None.
        reason: The reason why it was not measured; empty if it was.
    """

    implementation: str
    num_envs: int
    pace: Pace | None = None
    reason: str = ""

    @property
    def steps_per_second(self) -> float:
        """Env steps a second of its pace; 0 if it was not measured."""
        return 0.0 if self.pace is None else self.pace.steps_per_second


@dataclass(frozen=True)
class Survey:
    """Result of a survey of a training.

    Attributes:
        tried: Every choice of settings, the user's own first.
        fastest: The one with the most steps a second.
        limits: Limits of the fastest.
        advice: Sentences on the bottleneck and on settings.
    """

    tried: tuple[Tried, ...]
    fastest: Tried
    limits: Limits
    advice: tuple[str, ...]


Make = Callable[[str, int], Trainer]
"""Makes a throwaway trainer from an implementation and a number of environments."""


def describe(trainer: Trainer) -> dict[str, Any]:
    """Returns the training and the machine of a measurement, by name."""
    algorithms = {algorithm_name(entry.algorithm) for entry in trainer.config.policies.values()}
    return {
        "env": env_name(trainer.config.env.name),
        "algorithm": " and ".join(sorted(algorithms)),
        "cores": usable_cores(),
        "path": " and ".join(sorted(set(trainer.paths.values()))),
        "torch_threads": trainer.config.threads or max(trainer._threads.values(), default=1),
    }


# --- measuring one training -----------------------------------------------------------------------------------------


def measure_pace(trainer: Trainer, seconds: float) -> Pace:
    """Measures a training of about `seconds`, at least one iteration, after an iteration that does not count."""
    trainer.train_iteration()
    spent, steps, iterations = _seconds_of_parts(trainer.timers), trainer.env_steps, 0
    began = perf_counter()
    while not iterations or perf_counter() - began < seconds:
        trainer.train_iteration()
        iterations += 1
    total = perf_counter() - began
    after = _seconds_of_parts(trainer.timers)
    parts = {name: after[name] - spent[name] for name in after}
    shares = {name: part / total for name, part in parts.items()}
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    return Pace((trainer.env_steps - steps) / total, total / iterations, iterations, shares)


def measure_limits(trainer: Trainer, pace: Pace, seconds: float) -> Limits:
    """Measures the limit of the environment, and takes the limits of the other parts from the pace.

    Args:
        trainer: A fresh trainer; do not train with it afterwards, because its environments are used.
        pace: The pace of such a trainer.
        seconds: Time to spend on the environment.
    """
    seeds, rng = trainer._streams.episodes(Role.ENV), np.random.default_rng(trainer.seed)
    environment = random_rate(trainer.env, seeds, seconds, rng)
    return Limits(environment, pace.limit("acting"), pace.limit("learning"))


def _seconds_of_parts(timers: Timers) -> dict[str, float]:
    """Returns the seconds of each of `PARTS` so far."""
    seconds = dict.fromkeys(PARTS.values(), 0.0)
    for row in timers.rows():
        if row.label in PARTS:
            seconds[PARTS[row.label]] += row.seconds
    return seconds


# --- comparing settings ---------------------------------------------------------------------------------------------


def survey(
    make: Make, own: tuple[str, int], implementations: Sequence[str], seconds: float, watch: Callable[[Tried], None]
) -> Survey:
    """Compares implementations and numbers of environments, and finds the bottleneck of the fastest.

    Args:
        make: Makes trainers; may raise a `RookeryError` for an implementation that the environment cannot have.
        own: The user's implementation and number of environments, which are tried first.
        implementations: Others to try.
        seconds: Approximate time to spend; more if single iterations take long.
        watch: Called after each choice.

    Raises:
        RookeryError: If the user's own choice does not work.
    """
    counts = sorted({own[1], *COPIES})
    share = 0.8 * seconds / (1 + len(implementations) * len(counts))
    tried: list[Tried] = []

    def note(choice: Tried) -> Tried:
        watch(choice)
        tried.append(choice)
        return choice

    first = note(_try(make, *own, share)).pace
    assert first is not None
    for implementation in implementations:
        copy_seconds = first.iteration_seconds / own[1]
        for count in counts:
            expected = 2 * copy_seconds * count
            if (implementation, count) == own:
                continue
            if expected > max(LONGEST_SECONDS, 2 * share):
                note(Tried(implementation, count, reason=f"two iterations would take {expected:.0f} s"))
                continue
            try:
                pace = note(_try(make, implementation, count, share)).pace
            except RookeryError as error:
                note(Tried(implementation, count, reason=str(error)))
                break
            assert pace is not None
            copy_seconds = pace.iteration_seconds / count
    fastest = max(tried, key=lambda choice: choice.steps_per_second)
    assert fastest.pace is not None
    with make(fastest.implementation, fastest.num_envs) as trainer:
        limits = measure_limits(trainer, fastest.pace, 0.2 * seconds)
        settings = next(iter(trainer.config.policies.values())).algorithm
    return Survey(tuple(tried), fastest, limits, advice(tried[0], fastest, limits, settings))


def _try(make: Make, implementation: str, num_envs: int, seconds: float) -> Tried:
    with make(implementation, num_envs) as trainer:
        return Tried(implementation, num_envs, measure_pace(trainer, seconds))


def advice(own: Tried, fastest: Tried, limits: Limits, settings: AlgorithmConfig) -> tuple[str, ...]:
    """Returns sentences on the bottleneck of a training and on settings."""
    assert fastest.pace is not None
    shares = fastest.pace.shares
    part = max(shares, key=lambda name: shares[name])
    step = 1e6 / limits.environment
    hints = settings.capabilities.speed_hints
    lighter = [f"{what} (algorithm.{name}, now {getattr(settings, name)})" for name, what in hints.items()]
    remedies = {
        "environment": f"a step of one environment costs {step:,.1f} us, independent of the learner: make it cheaper, "
        "or step on more cores",
        "acting": "more environments (sampling.num_envs) share a forward pass; a smaller network "
        "(algorithm.model.hidden) makes it cheaper",
        "learning": ", ".join([*lighter, "a smaller network (algorithm.model.hidden)"]) + ": each costs less a step",
        "recording": "more environments (sampling.num_envs) share the cost of a vector step",
        "other": "more environments (sampling.num_envs) share the cost of a vector step",
    }
    name = "everything else" if part == "other" else part
    sentences = [f"{name.capitalize()} takes {100 * shares[part]:.0f} % of the time: {remedies[part]}."]
    gain = fastest.steps_per_second / own.steps_per_second
    if gain >= WORTH_CHANGING:
        sentences.append(
            f"sampling.num_envs={fastest.num_envs} env.implementation={fastest.implementation} is {gain:.1f} x as fast "
            f"as {own.num_envs} environments, {own.implementation}. More environments make larger batches and fewer "
            "updates per step: compare the returns, too."
        )
    else:
        sentences.append(
            f"{own.num_envs} environments, {own.implementation}, are as fast as the best of these, or nearly."
        )
    return tuple(sentences)
