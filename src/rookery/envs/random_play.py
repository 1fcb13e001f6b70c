"""Random play of throwaway environments: observed steps, and uniformly drawn allowed actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.spaces.arrays import MASK, ActionSpec, Tree
from rookery.envs.base import SeedPlan, Step, VectorEnv
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.serial import SerialEnv

FEW_STEPS = 5
"""Number of steps after which an environment counts as playable."""


def random_play(env: VectorEnv, seeds: SeedPlan, rng: np.random.Generator) -> Iterator[Step]:
    """Yields the steps of an environment, without end, while random actions are played.

    Args:
        env: Throwaway environment.
        seeds: Seeds of its episodes.
        rng: Generator of the actions, which are drawn uniformly among those allowed, or from the box.
    """
    return chosen_play(env, seeds, lambda shown: random_answers(env, shown, rng))


def chosen_play(env: VectorEnv, seeds: SeedPlan, choose: Callable[[Step], list[np.ndarray]]) -> Iterator[Step]:
    """Yields the steps of an environment, without end.

    Args:
        env: Throwaway environment.
        seeds: Seeds of its episodes.
        choose: Returns the actions after a step, as `VectorEnv.step` takes them.
    """
    shown = env.reset(seeds)
    while True:
        yield shown
        shown = env.step(choose(shown))


def single_episode(env: Any, seed: int, choose: Callable[[Any, Any], Any]) -> Iterator[tuple[Any, ...]]:
    """Yields an episode of a single environment of Gymnasium, or of one with dicts by agent, without an adapter.

    Args:
        env: Throwaway environment.
        seed: Seed of the episode.
        choose: Returns the action for an observation and an info.

    Yields:
        What `step` returns, first that of the reset: observation, 0, False, False, info.
    """
    obs, info = env.reset(seed=seed)
    yield obs, 0.0, False, False, info
    over = False
    while not over:
        obs, reward, terminated, truncated, info = env.step(choose(obs, info))
        over = is_over(obs, terminated, truncated)
        yield obs, reward, terminated, truncated, info


def beyond_end(env: Any, seed: int, choose: Callable[[Any, Any], Any]) -> Iterator[tuple[Any, ...]]:
    """Yields an episode as `single_episode` does, and what a step after its end returns, for which no environment has
    to be prepared; arguments as of `single_episode`.
    """
    shown: tuple[Any, ...] = ()
    for shown in single_episode(env, seed, choose):
        yield shown
    yield env.step(choose(shown[0], shown[-1]))


def is_over(obs: Any, terminated: Any, truncated: Any) -> bool:
    """Returns whether an episode is over: by its flags, or, where these are dicts, for all agents that observe."""
    if not isinstance(terminated, Mapping):
        return bool(terminated or truncated)
    if terminated.get("__all__") or truncated.get("__all__"):
        return True
    return all(terminated.get(agent) or truncated.get(agent) for agent in obs)


def played_copy(factory: Callable[[], Any], name: str) -> SerialEnv:
    """Returns a throwaway environment after a few random steps.

    Args:
        factory: Builds one environment.
        name: Name of the environment for messages.

    Raises:
        EnvError: If it cannot be built or played.
    """
    env = SerialEnv(factory, 1, name)
    try:
        for _ in islice(random_play(env, lambda lane, episode: episode, np.random.default_rng(0)), 1 + FEW_STEPS):
            pass
    except BaseException:
        env.close()
        raise
    return env


def random_rows(env: VectorEnv, seeds: SeedPlan, steps: int, rng: np.random.Generator) -> list[Tree]:
    """Returns the observations that random play visits, and closes the environment.

    Args:
        env: Throwaway environment.
        seeds: Seeds of its episodes.
        steps: Number of vector steps to play.
        rng: Generator of the actions, which are drawn uniformly among those allowed, or from the box.

    Returns:
        For each kind of `env`, the observations of all rows that waited for an action, ``[N, ...]`` each.
    """
    seen: list[list[Tree]] = []
    play = random_play(env, seeds, rng)
    for shown in islice(play, steps):
        seen += [[] for _ in env.kinds[len(seen) :]]
        for rows, trees in zip(shown.rows, seen, strict=True):
            trees.append({path: array[rows.waiting] for path, array in rows.obs.items()})
    next(play)  # includes kinds that appeared after the last actions
    seen += [[] for _ in env.kinds[len(seen) :]]
    close_env(env, env.name)
    whole = zip((kind.obs.allocate(0) for kind in env.kinds), seen, strict=True)
    return [{path: np.concatenate([tree[path] for tree in (none, *trees)]) for path in none} for none, trees in whole]


def random_answers(env: VectorEnv, shown: Step, rng: np.random.Generator) -> list[np.ndarray]:
    """Draws an allowed action for every row that waits, as `VectorEnv.step` takes them."""
    answers = []
    for kind, rows in zip(env.kinds, shown.rows, strict=True):
        mask = rows.obs[MASK][rows.waiting] if kind.obs.has_mask else None
        answers.append(kind.action.to_env(random_actions(kind.action, int(rows.waiting.sum()), mask, rng)))
    return answers


def random_actions(spec: ActionSpec, num: int, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Draws stored actions ``[num, *spec.shape]`` uniformly: discrete ones among those allowed, flags with probability
    1/2.

    Bounded elements of a box are uniform in [-1, 1], others standard normal.

    Args:
        spec: Layout of the actions.
        num: Number of actions.
        mask: Whether each discrete action is allowed, ``[num, flags]`` bool, or None.
        rng: Generator of the actions.
    """
    if spec.kind == "composite":
        drawn = np.zeros((num, *spec.shape), spec.dtype)
        used = 0
        for part, mine in spec.parts:
            flags = sum(part.sizes)
            allowed = None if mask is None else mask[:, used : used + flags]
            drawn[:, mine] = random_actions(part, num, allowed, rng).reshape(num, -1)
            used += flags
        return drawn
    if isinstance(spec.space, spaces.Box):
        bounded = np.isfinite(spec.space.low).ravel() & np.isfinite(spec.space.high).ravel()
        size = (num, *spec.shape)
        return np.where(bounded, rng.uniform(-1.0, 1.0, size), rng.standard_normal(size)).astype(spec.dtype)
    if spec.num_flags:
        return rng.integers(0, 2, (num, *spec.shape), spec.dtype)
    scores = rng.random((num, sum(spec.sizes)))
    if mask is not None:
        scores = np.where(mask, scores, -1.0)
    if len(spec.sizes) == 1:
        return np.asarray(scores.argmax(axis=1)).reshape(num, *spec.shape)
    ends = np.cumsum(spec.sizes)
    parts = np.split(scores, ends[:-1], axis=1)
    return np.stack([part.argmax(axis=1) for part in parts], axis=1).reshape(num, *spec.shape)
