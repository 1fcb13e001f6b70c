"""`starts_alike`: episodes that are the same for all seeds, and what shows that they were not meant to be."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np

from rookery.core.spaces.arrays import MASK
from rookery.doctor.probe import MakeCopies
from rookery.doctor.repeats import Moment, moment_of
from rookery.doctor.wrappers.record import chain_of, seen_of
from rookery.envs.base import Step, VectorEnv, has_own_episodes
from rookery.envs.random_play import chosen_play, random_actions
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

SEEDS, LONGEST, ANEW = 8, 50, 3
"""Seeds that are compared, steps of each episode, and new environments."""

MAKERS = ((np.random, "default_rng"), (np.random, "seed"), (np.random, "RandomState"), (random, "seed"),
          (random, "Random"))  # fmt: skip
"""Functions and classes that make a generator from a seed, or seed one."""


def starts_alike(make: MakeCopies, single: Callable[[], Any] | None, until: float) -> list[Finding]:
    """Finds environments whose episodes are all the same one, although something shows that they should differ.

    Args:
        make: Makes a number of throwaway environments.
        single: Makes a single one, wrapped; None if there are no single ones.
        until: Time of `time.monotonic` at which it ends.
    """
    with closing(make(1)) as env:
        if has_own_episodes(env) or time.monotonic() > until:
            return []
        first = episode_of(env, 0)
        for seed in range(1, SEEDS):
            if episode_of(env, seed) != first or time.monotonic() > until:
                return []
    lines = []
    if single is not None:
        with suppress(Exception):  # environments of another style, and those that fail, have findings of their own
            lines += constant_seeds(single)
    others = []
    for _ in range(ANEW):
        with closing(make(1)) as env:
            others.append(episode_of(env, 0))
    if any(one != first for one in others):
        lines.append("new environments have other episodes: something is drawn when they are made, and never in reset")
    if not lines:
        return []
    steps = f"equal observations, rewards and ends for {SEEDS} seeds, in up to {len(first) - 1} steps"
    return [finding("starts-alike", "all episodes start the same and are the same, whatever the seed", *lines, steps)]


def episode_of(env: VectorEnv, seed: int) -> list[Moment]:
    """Returns the moments of an episode with actions that do not depend on its seed."""
    rng = np.random.default_rng(0)

    def answers(shown: Step) -> list[np.ndarray]:
        found = []
        for kind, rows in zip(env.kinds, shown.rows, strict=True):
            mask = rows.obs[MASK][rows.waiting] if kind.obs.has_mask else None
            drawn = random_actions(kind.action, int(rows.waiting.sum()), mask, rng)
            found.append(kind.action.to_env(drawn))
        return found

    found = []
    for shown in islice(chosen_play(env, lambda lane, episode: seed, answers), 1 + LONGEST):
        found.append(moment_of(shown, 0, env.num_lanes))
        if len(found) > 1 and shown.ended[0]:
            break
    return [(found[0][0], b"", b""), *found[1:]]


def constant_seeds(single: Callable[[], Any]) -> list[str]:
    """Returns in words what shows that resets were meant to differ: generators from constants, seeds that are replaced,
    and episodes without a seed that differ.

    Args:
        single: Makes a single environment.
    """
    made, own = [], set()
    env = single()
    try:
        for seed in range(ANEW):
            with watched_generators() as calls:
                env.reset(seed=seed)
            made.append(calls)
            inner = list(chain_of(env))[-1]
            own.add(vars(inner).get("_np_random_seed"))
        lines = [f"reset calls {name}({value}) for every seed" for name, value in made[0]
                 if all((name, value) in calls for calls in made)]  # fmt: skip
        if not lines and len(own) == 1 and (value := own.pop()) is not None and value >= 0:
            lines.append(f"reset seeds np_random with {value} for every seed")
        if not lines and len({seen_of(env.reset()[0])[0] for _ in range(SEEDS)}) > 1:
            lines.append("episodes without a seed differ")
        return lines
    finally:
        env.close()


@contextmanager
def watched_generators() -> Iterator[list[tuple[str, Any]]]:
    """Context in which calls that make or seed a generator from a number are kept: their names and the number."""
    calls: list[tuple[str, Any]] = []

    def keep(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        value = next(iter((*given, *named.values())), None)
        if isinstance(value, int | np.integer):
            calls.append((name, int(value)))

    def watched(original: Any, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            keep(name, given, named)
            return original(*given, **named)

        def init(self: Any, *given: Any, **named: Any) -> None:
            keep(name, given, named)
            original.__init__(self, *given, **named)

        return type(original.__name__, (original,), {"__init__": init}) if isinstance(original, type) else call

    with ExitStack() as stack:
        for module, name in MAKERS:
            function = getattr(module, name)
            stack.enter_context(patch.object(module, name, watched(function, f"{module.__name__}.{name}")))
        yield calls
