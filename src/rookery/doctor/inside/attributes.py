"""`with_attributes`: names the attributes of an environment that another episode has left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np

from rookery.envs.random_play import single_episode
from rookery.report.finding import Finding

EARLIER, MOST_EARLIER, COMPARED = 1_000, 2_000, 200
"""Steps that an environment has played before, up to the next end; most of them; and steps that are compared."""

MOST_LEVELS, MOST_NAMED = 64, 4
"""Largest number of wrappers that are looked at, and of attributes that are named."""

RULE, SEED = "state-survives-reset", 9_000


def with_attributes(findings: Sequence[Finding], make: Callable[[], Any] | None) -> list[Finding]:
    """Returns findings, of which that of state that survives a reset names attributes that differ after a reset, and
    the step at which something differs.

    Args:
        findings: The findings.
        make: Makes a single throwaway environment, wrapped; None if there are no single ones.
    """
    if make is None or not any(one.rule == RULE for one in findings):
        return [*findings]
    try:
        lines = left_behind(make)
    except Exception:  # environments of another style, and those that fail, have findings of their own
        lines = []
    return [replace(one, evidence=(*one.evidence, *lines)) if one.rule == RULE else one for one in findings]


def left_behind(make: Callable[[], Any]) -> list[str]:
    """Returns in words what differs between a new environment and one that has played before, from equal seeds.

    Args:
        make: Makes an environment of Gymnasium; wrappers have the one below as ``env``.
    """
    used, new = make(), make()
    try:
        _play_before(used)
        used.action_space.seed(SEED)
        actions = [used.action_space.sample() for _ in range(COMPARED)]
        plays = [single_episode(env, SEED, _in_turn(actions)) for env in (used, new)]
        both = zip(*plays, strict=False)
        first, other_first = next(both)
        lines = []
        for mine, other in zip(_levels(used), _levels(new), strict=False):
            for name, value in vars(other).items():
                left = vars(mine).get(name)
                if not name.startswith("_") and _is_plain(value) and _is_plain(left) and not _equal(value, left):
                    text = f"{type(mine).__name__}.{name} is {_text(left)} after reset"
                    lines.append(f"{text}, and {_text(value)} in a new environment")
        differ = (step for step, (one, two) in enumerate(islice(both, COMPARED), 1) if not _equal(one[:4], two[:4]))
        step = next(differ, None) if _equal(first[0], other_first[0]) else 0
        where = [] if step is None else [f"step {step:,} is the first that differs" if step else "the reset differs"]
        return [*lines[:MOST_NAMED], *where]
    finally:
        for env in (used, new):
            env.close()


def _play_before(used: Any) -> None:
    """Plays random episodes, up to the end of one."""
    used.action_space.seed(0)
    steps = seed = 0
    while steps < EARLIER:
        play = single_episode(used, seed, lambda obs, info: used.action_space.sample())
        steps += sum(1 for _ in islice(play, MOST_EARLIER - steps))
        seed += 1


def _in_turn(actions: Sequence[Any]) -> Callable[[Any, Any], Any]:
    """Returns a choice of some actions, one after the other and again."""
    drawn = cycle(actions)
    return lambda obs, info: next(drawn)


def _levels(env: Any) -> Iterator[Any]:
    """Yields an environment and those inside it that have attributes."""

    def each() -> Iterator[Any]:
        inside = env
        while hasattr(inside, "__dict__"):
            yield inside
            inside = vars(inside).get("env")

    return islice(each(), MOST_LEVELS)


def _is_plain(value: Any) -> bool:
    """Returns whether a value is a number, or an array of numbers."""
    return isinstance(value, int | float | np.number | np.bool_) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    )


def _equal(one: Any, other: Any) -> bool:
    """Returns whether two values are equal: numbers, arrays, or dictionaries and sequences of these."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _text(value: Any) -> str:
    """Returns a number, or an array of a few numbers, in words."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=6).replace("\n", " ")
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
