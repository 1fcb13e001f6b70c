"""The wheel (Riquelme et al. 2018, arXiv:1802.09127, section 5.4): an arm pays much, but only in a rare context."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import CountFromZero
from rookery.tasks.bandits.bandit_task import BanditTask

SAFE, OTHER, HIGH = 1.2, 1.0, 50.0
"""Mean rewards: of arm 0, of the others, and of the others in their quarter of the rim."""


class WheelBandit(BanditTask):
    """Contexts are points in the unit disc, uniformly. Arm 0 pays 1.2, arms 1 to 4 pay 1; but outside of the radius
    `delta` one of these, that of the quarter, pays 50. Uniform play has a mean regret a pull of 29.4 with
    ``delta=0.5``, and of 0.93 with ``delta=0.99`` (100,000 contexts).
    """

    def __init__(
        self,
        delta: float = 0.5,
        noise: float = 0.01,
        task_seed: CountFromZero = 0,
        render_mode: str | None = None,
    ) -> None:
        """Creates the task.

        Args:
            delta: Radius inside which arm 0 is the best, from 0 to 1.
            noise: Standard deviation of a reward around its mean.
            task_seed: Seed of the order of arms 1 to 4 around the disc.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        if not 0.0 <= delta <= 1.0:
            raise ValueError(f"WheelBandit: delta is {delta!r}, it must be from 0 to 1")
        super().__init__(spaces.Box(-1.0, 1.0, (2,), np.float32), 5, noise, task_seed, render_mode)
        self.delta = float(delta)
        self.arm_of_quarter = 1 + np.random.default_rng(self.task_seed).permutation(4)

    def draw_context(self, rng: np.random.Generator) -> np.ndarray:
        """Draws a point in the disc."""
        radius, angle = np.sqrt(rng.random()), 2.0 * np.pi * rng.random()
        return np.array([radius * np.cos(angle), radius * np.sin(angle)], np.float32)

    def mean_rewards(self, context: np.ndarray) -> np.ndarray:
        """Returns the mean reward of each arm."""
        means = np.full(5, OTHER)
        means[0] = SAFE
        if np.linalg.norm(context) > self.delta:
            means[self.arm_of_quarter[2 * (context[0] <= 0.0) + (context[1] <= 0.0)]] = HIGH
        return means
