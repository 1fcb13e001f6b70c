"""What came of a decision: windows of n steps over a ring of rows, formed when they are drawn."""

from __future__ import annotations

import numpy as np


def n_step_windows(
    rows: np.ndarray, after: np.ndarray, reward: np.ndarray, *, n_step: int, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of up to n decisions, each beginning at one of `rows` and stopping where its episode does.

    A window is also shorter where nothing newer is known of its slot; it then bootstraps from what was seen there.

    Args:
        rows: ``[N]`` where they begin.
        after: ``[capacity]`` the row of the episode's next decision; or a place at or above `capacity`, where what was
            seen last is kept; or the row itself, where the episode terminated.
        reward: ``[capacity]``.
        n_step: The most decisions in a window.
        gamma: Discount of a step.

    Returns:
        The discounted sum of the rewards, float32 ``[N]``; gamma to the power of the decisions in the window, 0 if the
        episode terminated in it, float32 ``[N]``; and the place of what was seen after it ``[N]``.
    """
    last = rows
    following = after.take(rows)
    if n_step == 1:
        return reward.take(rows), (following != rows) * np.float32(gamma), following
    total = reward.take(rows).astype(np.float64)
    discount = np.full(len(rows), gamma)
    for _ in range(n_step - 1):
        goes_on = (following != last) & (following < len(after))
        last = np.where(goes_on, following, last)
        total += np.where(goes_on, discount * reward.take(last), 0.0)
        discount *= np.where(goes_on, gamma, 1.0)
        following = after.take(last)
    discount[following == last] = 0.0
    return total.astype(np.float32), discount.astype(np.float32), following
