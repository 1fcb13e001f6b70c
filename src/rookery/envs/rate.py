"""How fast an environment is by itself: random play on throwaway copies, with nobody watching or learning."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rookery.envs.base import SeedPlan, VectorEnv
from rookery.envs.make import random_answers

WARM_UP = 0.1
"""Part of the time that is played first and not counted."""


def random_rate(env: VectorEnv, seeds: SeedPlan, seconds: float, rng: np.random.Generator) -> float:
    """Env steps a second of random play; only time in `env.step` counts, drawing actions does not.

    Args:
        env: Throwaway copies; they are reset first.
        seeds: Seeds of their episodes.
        seconds: How long to play, about.
        rng: Draws the actions.
    """
    shown = env.reset(seeds)
    began = perf_counter()
    stepping, vector_steps = 0.0, 0
    while not vector_steps or perf_counter() - began < seconds:
        actions = random_answers(env, shown, rng)
        start = perf_counter()
        shown = env.step(actions)
        now = perf_counter()
        if now - began >= WARM_UP * seconds:
            stepping += now - start
            vector_steps += 1
    return vector_steps * env.num_lanes / stepping
