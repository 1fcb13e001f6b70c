"""`waiting_pays`: finds rewards for each step that make the end of an episode, although it has a bonus, cost return.

Where an end has no bonus, as a fall of CartPole, to last is the task. An end with a bonus is a success.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.doctor.returns.ends import SOME, last_rewards
from rookery.doctor.returns.episode_returns import FEWEST, EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

PAID, COSTLY = 0.25, 0.1
"""Share of the steps of random play, but those at an end, that pay; and share of the steps of a behaviour that waits,
from which on waiting costs.
"""

ENDS, LASTS = 0.9, 0.5
"""Share of the episodes that end with a bonus, of a behaviour that seeks it; and share that is cut off, of one that
waits. A policy with fewer bonuses than the latter share avoids them.
"""

FEW_ENDS, APART = 5, 0.05
"""Fewest episodes with a bonus, and room between it and other rewards, in units of the range of these."""


def waiting_pays(plays: Plays) -> list[Finding]:
    """Finds episodes that earn less if they end with a bonus than if they last until their limit.

    Args:
        plays: Returns of the policy, of random play and of constant actions.
    """
    own, chance = plays.own, plays.chance
    if own is None or chance is None or min(len(own.rewards), len(chance.rewards)) < FEWEST:
        return []
    behaviours = [("the policy", own), ("random play", chance)]
    behaviours += [(f"always {text}", one) for text, one in plays.constants if len(one.rewards) >= FEWEST]
    steps = steps_of(chance)
    if not len(steps) or np.mean(steps > 0.0) < PAID or steps.mean() <= 0.0:
        return []
    bonuses = {name: _bonuses(one, [each for _, each in behaviours]) for name, one in behaviours}
    shares = {name: float(np.mean(one)) for name, one in bonuses.items() if len(one)}
    rival = max(shares, key=shares.__getitem__, default="")
    waiting = {
        name: one
        for name, one in behaviours
        if np.mean(one.terminated) <= 1.0 - LASTS and np.mean(steps_of(one) < 0.0) <= COSTLY
    }
    if not waiting or shares.get(rival, 0.0) < SOME:
        return []
    best = max(waiting, key=lambda name: waiting[name].mean)
    seeking = [(one.mean, name, one.values) for name, one in behaviours if shares.get(name, 0.0) >= ENDS]
    ended = [value for name, one in behaviours for value in _returns_of(one, bonuses[name])]
    if len(ended) >= FEW_ENDS and not seeking:
        seeking = [(float(np.mean(ended)), "the episodes that end with a bonus", tuple(ended))]
    if not seeking or mean_interval(max(seeking)[2])[1] >= waiting[best].interval[0]:
        return []
    mean, name, _ = max(seeking)
    share = shares.get("the policy", 0.0)
    cut = 100 * (1.0 - float(np.mean(waiting[best].terminated)))
    return [
        finding(
            "waiting-pays",
            f"to end an episode costs return, although the end has a bonus: {name} earned {mean:.4g}, and {best} "
            f"{waiting[best].mean:.4g}, of whose episodes {cut:.0f} % last until their limit",
            f"a step pays {float(steps_of(waiting[best]).mean()):.3g} on average while {best} waits, and "
            f"{float(steps.mean()):.3g} in random play",
            f"{100 * share:.0f} % of the policy's episodes end with the bonus, and {100 * shares[rival]:.0f} % of "
            f"those of {rival}",
            *plays.texts,
            severity="warning" if share < LASTS and share < shares[rival] else "note",
        )
    ]


def steps_of(one: EpisodeReturns) -> np.ndarray:
    """Returns the rewards ``[steps]`` of all episodes of a behaviour, but those of the last steps."""
    return np.concatenate([rewards[:-1] for rewards in one.rewards])


def _bonuses(one: EpisodeReturns, all_plays: Sequence[EpisodeReturns]) -> np.ndarray:
    """Returns whether each episode with two steps or more ends with a bonus: it is terminated with a reward above those
    before it, by more than their range, or above all others that were seen.

    Returns:
        ``[episodes]`` bool.
    """
    others = np.concatenate([steps_of(each) for each in all_plays])
    least = float(others.max()) + APART * float(np.ptp(others))
    long = [
        (float(rewards[-1]), end) for rewards, end in zip(one.rewards, one.terminated, strict=True) if len(rewards) > 1
    ]
    largest = np.array([end and last > least for last, end in long], bool)
    return np.asarray((last_rewards(one) > 0) | largest, bool)


def _returns_of(one: EpisodeReturns, chosen: np.ndarray) -> list[float]:
    """Returns the returns of chosen ones of the episodes with two steps or more."""
    sums = [float(rewards.sum()) for rewards in one.rewards if len(rewards) > 1]
    return [value for value, is_chosen in zip(sums, chosen.tolist(), strict=True) if is_chosen]
