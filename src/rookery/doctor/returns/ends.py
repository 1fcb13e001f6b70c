"""`early_end_pays`: finds policies that end their episodes early because every step costs a reward.

A task whose steps cost until a goal is reached looks alike, and is meant: its policy, too, ends episodes sooner and
earns more. So the ends are compared by their last reward: the policy has to seek ends with a penalty, or to avoid those
with a bonus, which random play or a constant action reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.doctor.returns.episode_returns import FEWEST, EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

COSTLY = 0.95
"""Share of the steps before the last one that cost a reward."""

NEARLY_ALL, MOST, SOME = 0.9, 0.75, 0.1
"""Shares of episodes: of the policy's that are terminated; of these that end with a penalty; and with a bonus, below
which the policy avoids them, and from which on others reach them.
"""


def last_rewards(episodes: EpisodeReturns) -> np.ndarray:
    """Returns how the last reward of each episode with two steps or more differs from those before.

    Args:
        episodes: The episodes.

    Returns:
        ``[episodes]``: 1 for a bonus, which exceeds the largest earlier reward by more than their range; -1 for a
        penalty, the same below the smallest one; else 0, as for episodes that were truncated.
    """
    found = []
    for rewards, terminated in zip(episodes.rewards, episodes.terminated, strict=True):
        if len(rewards) > 1:
            before, last = rewards[:-1], float(rewards[-1])
            low, high = float(before.min()), float(before.max())
            room = (high - low) + 1e-6 * max(abs(low), abs(high))
            found.append(terminated * (int(last > high + room) - int(last < low - room)))
    return np.array(found, int)


def early_end_pays(plays: Plays, evidence: Sequence[str] = ()) -> list[Finding]:
    """Finds policies whose episodes end early, because an end without success costs less than more steps.

    Args:
        plays: Returns of the policy, of random play and of constant actions.
        evidence: The course of the training in words.
    """
    own, chance = plays.own, plays.chance
    if own is None or chance is None or min(len(own.rewards), len(chance.rewards)) < FEWEST:
        return []
    if np.mean(own.terminated) < NEARLY_ALL or own.is_no_better(chance):
        return []
    costs = [np.concatenate([rewards[:-1] for rewards in one.rewards]) for one in (own, chance)]
    if any(not len(each) or np.mean(each < 0.0) < COSTLY for each in costs):
        return []
    steps = np.concatenate(costs)
    if mean_interval(tuple(map(float, own.lengths)))[1] >= mean_interval(tuple(map(float, chance.lengths)))[0]:
        return []
    mine = last_rewards(own)
    others = {"random play": last_rewards(chance)}
    others |= {f"always {text}": last_rewards(one) for text, one in plays.constants}
    shares = {name: float(np.mean(ends > 0)) for name, ends in others.items() if len(ends) >= FEWEST}
    rival = max(shares, key=shares.__getitem__, default="")
    penalized, bonus = (float(np.mean(mine == sign)) if len(mine) >= FEWEST else 0.0 for sign in (-1, 1))
    avoids = bool(rival) and len(mine) >= FEWEST and bonus < SOME <= shares[rival]
    if penalized < MOST and not avoids:
        return []
    lines = [f"{100 * np.mean(steps < 0.0):.0f} % of the steps cost a reward, of {-float(steps.mean()):.3g} on average"]
    if penalized >= MOST:
        last = np.mean([rewards[-1] for rewards in own.rewards])
        lines.append(f"{100 * penalized:.0f} % of the policy's episodes end with a penalty, {last:.3g} on average")
    if avoids:
        lines.append(f"{100 * shares[rival]:.0f} % of the episodes of {rival} end with a bonus, and "
                     f"{100 * bonus:.0f} % of the policy's")  # fmt: skip
    return [
        finding(
            "early-end-pays",
            f"the policy ends its episodes after {np.mean(own.lengths):,.3g} steps, and random play after "
            f"{np.mean(chance.lengths):,.3g}: steps cost, and an end without success costs less than more steps",
            *lines,
            *plays.texts,
            *evidence,
        )
    ]
