"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495): decisions are drawn with goals that their
episode reached, and rewards that the environment would have paid for these.

Goals are exchanged in the drawn copies; the replay buffer keeps the goals that were played for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Transitions
from rookery.core.process.torch_modes import users_modes
from rookery.core.spaces.goals import ACHIEVED, DESIRED
from rookery.core.state import Stateful
from rookery.envs.adapters.goals import GoalFunctions
from rookery.replay.buffer import ReplayBuffer, n_step_windows, tensors
from rookery.replay.hindsight.order import EpisodeOrder


class Hindsight(Stateful):
    """Draws the goals of decisions that were drawn from a replay buffer, and computes their rewards.

    A goal is the achieved goal of an observation that followed a decision of the same episode. Only decisions of ended
    episodes get one. The observation after a terminated episode is not stored: an episode's terminating decision keeps
    its goal, and windows of other goals end before it.

    Args:
        buffer: The replay buffer; its generator draws the goals, and its state is all that resuming needs.
        make_goals: Returns the functions of the environment; called before the first goals are drawn.
    """

    fixed = ("buffer", "order", "_make_goals", "goals")

    def __init__(self, buffer: ReplayBuffer, make_goals: Callable[[], GoalFunctions]) -> None:
        self.buffer = buffer
        self.order = EpisodeOrder(buffer)
        self._make_goals = make_goals

    @cached_property
    def goals(self) -> GoalFunctions:
        """Rewards and ends of the environment, for any goal."""
        return self._make_goals()

    def forget(self) -> None:
        """Called when all rows are removed from the buffer."""
        self.order.forget()

    def transitions(self, serial: np.ndarray, weight: Tensor | None, *, n_step: int, gamma: float) -> Transitions:
        """Returns drawn decisions, some of them with another goal.

        Args:
            serial: ``[N]`` serial numbers of their rows.
            weight: ``[N]`` their importance weights, or None.
            n_step: Largest number of decisions in a window.
            gamma: Discount of a step.
        """
        buffer = self.buffer
        rows = serial % buffer.capacity
        reward, discount, following = n_step_windows(rows, buffer.after, buffer.reward, n_step=n_step, gamma=gamma)
        chosen, places = self.draw(rows)
        goal = buffer.observations.leaf_at(ACHIEVED, places)
        if len(chosen):
            reward[chosen], discount[chosen], following[chosen] = self.windows(rows[chosen], goal, n_step, gamma)
        obs, next_obs = buffer.observations.gather_rows(rows), buffer.observations.gather(following)
        obs[DESIRED][chosen] = next_obs[DESIRED][chosen] = goal
        return Transitions(
            tensors(obs),
            torch.from_numpy(buffer.action.take(rows, axis=0)),
            torch.from_numpy(reward),
            tensors(next_obs),
            torch.from_numpy(discount),
            weight,
            torch.from_numpy(serial),
        )

    def draw(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws goals.

        Args:
            rows: ``[N]`` drawn rows.

        Returns:
            Indices ``[M]`` of those that get another goal, and the place of each goal's observation ``[M]``.
        """
        buffer, order, cfg = self.buffer, self.order, self.buffer.cfg.hindsight
        order.follow()
        chance, position = buffer.rng.random((2, len(rows)))
        chosen = np.flatnonzero((chance < cfg.relabeled) & order.is_placed(rows))
        span = order.span(rows[chosen])
        # decisions whose next observation is stored: all but a terminating one
        later = span.later + (buffer.after[span.last_row] != span.last_row)
        if cfg.strategy == "future":
            start, low, high = span.at, 0, later
        elif cfg.strategy == "final":
            start, low, high = span.at, later - 1, later
        else:
            start, low, high = span.first, 0, span.earlier + later
        distance = low + (position[chosen] * (high - low)).astype(np.int32)
        goal_row = order.rows_at(start, distance)
        known = later > 0
        return chosen[known], buffer.after[goal_row[known]]

    def windows(
        self, rows: np.ndarray, goal: np.ndarray, n_step: int, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes n-step windows for other goals, which end where the environment would have terminated.

        Args:
            rows: ``[M]`` first rows, none of them terminating.
            goal: ``[M, ...]`` the goals, as stored.
            n_step: Largest number of decisions in a window.
            gamma: Discount of a step.

        Returns:
            As `n_step_windows`: discounted sums of rewards, discounts, and places of the observations after the
            windows, ``[M]`` each.
        """
        buffer, after = self.buffer, self.buffer.after
        following = after[rows]
        window, place = np.arange(len(rows)), following
        windows, places = [window], [place]
        for _ in range(n_step - 1):
            # a decision follows that is not the terminating one
            follows = (place < buffer.capacity) & (after.take(place, mode="clip") != place)
            window, place = window[follows], after[place[follows]]
            windows.append(window)
            places.append(place)
        window, place = np.concatenate(windows), np.concatenate(places)
        achieved, desired = buffer.observations.leaf_at(ACHIEVED, place), goal[window]
        with users_modes():
            paid, over = self.goals.reward(achieved, desired), self.goals.terminated(achieved, desired)
        total, discount = np.zeros(len(rows)), np.ones(len(rows))
        ended, start = np.zeros(len(rows), bool), 0
        for step in windows:  # of each, the windows that have a decision there
            part = slice(start, start + len(step))
            runs = ~ended[step]
            mine = step[runs]
            total[mine] += discount[mine] * paid[part][runs]
            discount[mine] *= gamma
            following[mine] = place[part][runs]
            if over is not None:
                ended[mine] = over[part][runs]
            start = part.stop
        return total.astype(np.float32), np.where(ended, 0.0, discount).astype(np.float32), following
