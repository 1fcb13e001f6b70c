"""Bandits whose hidden weights and contexts are standard normal: `LinearBandit`, `SharedBandit`, `QuadraticBandit`.

With 10 arms, contexts of 8 numbers and ``task_seed=0``, uniform play has a mean regret a pull of 4.18, 2.87 and
21.9 (100,000 contexts).
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, CountFromZero, Few, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.tasks.bandits.bandit_task import BanditTask


class DrawnWeights(BanditTask):
    """Base of bandits with normal weights, which may be drawn anew after a number of pulls.

    Attributes:
        dimensions: d, numbers of a context, or of the features of an arm.
        redraw_every: Pulls between two draws of the weights; None = drawn once.
    """

    def __init__(
        self,
        num_arms: FewFromZero = 10,
        dimensions: Few = 8,
        noise: float = 0.1,
        redraw_every: Count | None = None,
        task_seed: CountFromZero = 0,
        render_mode: str | None = None,
    ) -> None:
        """Creates the task.

        Args:
            num_arms: Number of arms, at least 2.
            dimensions: Numbers of a context, or of the features of an arm.
            noise: Standard deviation of a reward around its mean.
            redraw_every: Pulls of this environment between two draws of the weights; None = drawn once.
            task_seed: Seed of the weights: tasks of one seed are the same, for any seeds of their episodes.
            render_mode: ``"rgb_array"`` or None.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least(type(self).__name__, 1, dimensions=dimensions)
        if redraw_every is not None:
            check_least(type(self).__name__, 1, redraw_every=redraw_every)
        shape = self.context_shape(int(num_arms), int(dimensions))
        space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        super().__init__(space, num_arms, noise, task_seed, render_mode)
        self.dimensions, self.redraw_every = int(dimensions), redraw_every
        self._drawn: tuple[int, np.ndarray] | None = None

    def context_shape(self, num_arms: int, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a context."""
        return (dimensions,)

    def weights_shape(self) -> tuple[int, ...]:
        """Returns the shape of the weights."""
        return (self.num_arms, self.dimensions)

    @property
    def weights(self) -> np.ndarray:
        """The present weights, float64."""
        period = self.pulls // self.redraw_every if self.redraw_every else 0
        if self._drawn is None or self._drawn[0] != period:
            rng = np.random.default_rng((self.task_seed, period))
            self._drawn = period, rng.standard_normal(self.weights_shape())
        return self._drawn[1]

    def draw_context(self, rng: np.random.Generator) -> np.ndarray:
        """Draws a standard normal context."""
        context: np.ndarray = rng.standard_normal(self.observation_space.shape, dtype=np.float32)
        return context


class LinearBandit(DrawnWeights):
    """The mean reward of an arm is its weights ``[d]`` times the context ``[d]``."""

    def mean_rewards(self, context: np.ndarray) -> np.ndarray:
        """Returns the mean reward of each arm."""
        means: np.ndarray = self.weights @ context
        return means


class SharedBandit(DrawnWeights):
    """The context is the features of each arm ``[num_arms, d]``; the mean reward of an arm is weights ``[d]``, the same
    for all arms, times its features.
    """

    def context_shape(self, num_arms: int, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a context."""
        return (num_arms, dimensions)

    def weights_shape(self) -> tuple[int, ...]:
        """Returns the shape of the weights."""
        return (self.dimensions,)

    def mean_rewards(self, context: np.ndarray) -> np.ndarray:
        """Returns the mean reward of each arm."""
        means: np.ndarray = context @ self.weights
        return means


class QuadraticBandit(DrawnWeights):
    """The mean reward of an arm is the square of its weights ``[d]`` times the context ``[d]``: no linear model of the
    context explains it.
    """

    def mean_rewards(self, context: np.ndarray) -> np.ndarray:
        """Returns the mean reward of each arm."""
        means: np.ndarray = (self.weights @ context) ** 2
        return means
