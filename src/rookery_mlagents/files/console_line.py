"""Line that ML-Agents prints for each summary."""

from __future__ import annotations

import math
from collections.abc import Sequence


def console_line(
    behavior: str,
    step: int,
    seconds: float,
    returns: Sequence[float],
    *,
    group_returns: Sequence[float] = (),
    elo: float | None = None,
    is_training: bool = True,
) -> str:
    """Returns the line of a behaviour, such as ``Basic. Step: 4000. Time Elapsed: 17.126 s. Mean Reward: 0.163. ...``.

    Args:
        behavior: Name of the behaviour.
        step: Its agent steps.
        seconds: Seconds of training.
        returns: Return of each agent's episode that has ended since the line before.
        group_returns: Return of each group's episode that has ended since the line before.
        elo: Rating, of a behaviour that plays against itself.
        is_training: Whether the behaviour learns now.
    """
    parts = [behavior, f"Step: {step}", f"Time Elapsed: {seconds:.3f} s"]
    learns = "Training" if is_training else "Not Training"
    if not returns:
        return ". ".join([*parts, "No episode was completed since last summary", learns]) + "."
    mean = math.fsum(returns) / len(returns)
    parts.append(f"Mean Reward: {mean:.3f}")
    if group_returns:
        parts.append(f"Mean Group Reward: {math.fsum(group_returns) / len(group_returns):.3f}")
    else:
        deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in returns) / len(returns))
        parts.append(f"Std of Reward: {deviation:.3f}")
    parts.append(learns)
    if elo is not None:
        parts.append(f"ELO: {elo:.3f}")
    return ". ".join(parts) + "."
