"""Rules about observations that hold whole numbers only, where what they show has fractions.

A wrapper may round the observation below it, or an environment its own attributes: an array or a space of integers cuts
positions between 0 and 1 to 0. Whole numbers that keep many values, as of a grid, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described
from rookery.doctor.wrappers.record import USUAL, LevelCall, Recorder, chain_of, random_choice, seen_of
from rookery.envs.random_play import single_episode
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEWEST, STEPS, EPISODES = 100, 400, 40
"""Fewest observations that are judged, and most steps and episodes of a play."""

FEW, MANY = 4, 20
"""Values of an element after rounding up to which it is coarse, and fewest values before."""

LARGEST = 64
"""Elements of an observation, and of an attribute, up to which they are compared."""

WAYS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "cut": np.trunc,
    "rounded": np.round,
    "rounded down": np.floor,
}


def is_coarse(whole: np.ndarray, exact: np.ndarray) -> str:
    """Returns the way in which numbers become a few whole ones, or an empty string.

    Args:
        whole: ``[N]`` the numbers after it.
        exact: ``[N]`` the numbers before it.
    """
    if len(np.unique(whole)) > FEW or len(np.unique(exact)) < MANY or (exact == np.round(exact)).mean() > 0.5:
        return ""
    return next((word for word, way in WAYS.items() if np.array_equal(way(exact), whole)), "")


def rounded_by_wrapper(name: str, pairs: Sequence[tuple[LevelCall, LevelCall]], policy: str) -> list[Finding]:
    """Finds a wrapper that makes a few whole numbers of the elements of the observation below it.

    Args:
        name: Its name.
        pairs: Its calls, with the last one below within each.
        policy: Name of the policy; empty if unknown.
    """
    rows = [(one.values, other.values) for one, other in pairs if one.values is not None and other.values is not None]
    if len(rows) < FEWEST or len({(len(one), len(other)) for one, other in rows}) > 1:
        return []
    above, below = (np.stack(part) for part in zip(*rows, strict=True))
    if above.shape != below.shape:
        return []
    ways = [is_coarse(one, other) for one, other in zip(above.T, below.T, strict=True)]
    coarse = [place for place, way in enumerate(ways) if way]
    if 2 * len(coarse) < len(ways) or not np.ptp(above[:, coarse], axis=0).any():
        return []  # constants are no whole numbers of what is below
    numbers = sorted({int(one) for one in np.unique(above[:, coarse])})
    return [
        finding(
            "obs-rounded",
            f"{name} makes whole numbers of the observation: elements are {ways[coarse[0]]}, so that "
            f"{len(np.unique(below[:, coarse[0]])):,} values of element {coarse[0]} become "
            f"{len(np.unique(above[:, coarse[0]]))}",
            f"{len(coarse)} of {len(ways)} elements, all of which are {', '.join(map(str, numbers[:10]))} above it",
            f"{len(rows):,} observations of random play",
            policy=policy,
        )
    ]


def rounded_by_env(make: Callable[[], Any], policy: str) -> list[Finding]:
    """Finds an environment whose observation holds attributes of its own as whole numbers, or has fractions in a space
    of integers.

    Args:
        make: Makes a single throwaway environment, wrapped.
        policy: Name of the policy; empty if unknown.

    Raises:
        EnvError: If the environment raises, or is of another style.
    """
    try:
        env = make()
        seen, known = _watch(env)
        space = getattr(env, "observation_space", None)
        env.close()
    except Exception as error:
        raise EnvError(described(error)) from error
    if len(seen) < FEWEST:
        return []
    dtype = np.dtype(getattr(space, "dtype", None) or float)
    is_whole = dtype.kind in "iu"
    if is_whole and (broken := (seen != np.round(seen)).any(axis=0)).any():
        place = int(np.argmax(broken))
        return [
            finding(
                "obs-rounded",
                f"the space of the observation is of integers ({dtype}), and its values are not: fractions are cut off",
                f"{np.count_nonzero(broken)} of {seen.shape[1]} elements, element {place} from "
                f"{seen[:, place].min():.4g} to {seen[:, place].max():.4g}",
                f"{len(seen):,} observations of random play",
                policy=policy,
            )
        ]
    pairs: dict[int, str] = {}
    left = dict(known)
    for place, column in enumerate(seen.T):
        name = next((name for name, exact in left.items() if is_coarse(column, exact)), "")
        if name:
            pairs[place] = name
            left.pop(name)
    varied = any(np.ptp(seen[:, place]) for place in pairs)
    if len(pairs) < max(2, seen.shape[1] / 2) or not varied:
        return []
    place, name = next(iter(pairs.items()))
    declared = f"its space has the type {dtype}" if is_whole else "its space is continuous"
    numbers = [int(one) for one in np.unique(seen[:, [*pairs]])]
    return [
        finding(
            "obs-rounded",
            f"the observation holds attributes of the environment as whole numbers: {len(np.unique(known[name])):,} "
            f"values of {name} become {len(np.unique(seen[:, place]))}",
            f"{len(pairs)} of {seen.shape[1]} elements, such as {', '.join(list(pairs.values())[:4])}, become "
            f"{', '.join(map(str, numbers[:10]))}; {declared}",
            f"{len(seen):,} observations of random play",
            policy=policy,
        )
    ]


def rounded(recorder: Recorder, policy: str) -> list[Finding]:
    """Returns the finding of the outermost wrapper that makes whole numbers of the observation; none without one."""
    for name, calls in zip(recorder.names[:-1], recorder.levels, strict=False):
        pairs = [(call, call.below[-1]) for call in calls if call.below]
        if name not in USUAL and (found := rounded_by_wrapper(name, pairs, policy)):
            return found
    return []


def _watch(env: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Plays at random; returns the observations ``[N, elements]``, and the numbers ``[N]`` with fractions that the
    environment and its wrappers hold, by their name.
    """
    choose, seen, held = random_choice(env), list[np.ndarray](), list[dict[str, float]]()
    for episode in range(EPISODES):
        for obs, *_ in islice(single_episode(env, episode, choose), STEPS - len(seen)):
            values = seen_of(obs)[1]
            if values is None or len(values) > LARGEST:
                return np.zeros((0, 1)), {}
            seen.append(values)
            held.append(dict(_numbers_of(env)))
        if len(seen) >= STEPS:
            break
    names = [name for name in held[0] if all(name in one for one in held)]
    columns = {name: np.array([one[name] for one in held]) for name in names}
    return np.stack(seen), {name: one for name, one in columns.items() if np.isfinite(one).all()}


def _numbers_of(env: Any) -> Iterator[tuple[str, float]]:
    """Yields the real numbers that are attributes of an environment and of its wrappers, with their names."""
    for level in chain_of(env):
        for name, value in vars(level).items() if hasattr(level, "__dict__") else ():
            if isinstance(value, float | np.floating):
                yield name, float(value)
            elif isinstance(value, np.ndarray | list | tuple) and 0 < np.size(value) <= LARGEST:
                array = np.asarray(value)
                if array.dtype.kind == "f":
                    yield from ((f"{name}[{place}]", float(one)) for place, one in enumerate(array.ravel()))
