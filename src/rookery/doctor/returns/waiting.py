"""`waiting_pays`: finds rewards for each step that make the end of an episode, although it has a bonus, cost return.

Where an end has no bonus, as a fall of CartPole, to last is the task. An end with a bonus is a success.
"""

from __future__ import annotations

import numpy as np

from rookery.doctor.returns.ends import SOME, last_rewards
from rookery.doctor.returns.episode_returns import FEWEST, EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

PAID = 0.25
"""Share of the steps of random play, but those at an end, that pay."""

ENDS, LASTS = 0.9, 0.5
"""Share of the episodes that end with a bonus, of a behaviour that seeks it; and share that is cut off, of one that
waits. A policy with fewer bonuses than the latter share avoids them.
"""


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
    steps = np.concatenate([rewards[:-1] for rewards in chance.rewards])
    is_costly = any((rewards[:-1] < 0.0).any() for _, one in behaviours for rewards in one.rewards)
    if is_costly or not len(steps) or np.mean(steps > 0.0) < PAID:
        return []
    shares = {name: float(np.mean(last_rewards(one) > 0)) for name, one in behaviours if len(last_rewards(one))}
    rival = max(shares, key=shares.__getitem__, default="")
    waiting = {name: one for name, one in behaviours if np.mean(one.terminated) <= 1.0 - LASTS}
    if not waiting or shares.get(rival, 0.0) < SOME:
        return []
    seeking = [(one.mean, name, one.values) for name, one in behaviours if shares.get(name, 0.0) >= ENDS]
    ended = [value for _, one in behaviours for value in _with_bonus(one)]
    if len(ended) >= FEWEST and not seeking:
        seeking = [(float(np.mean(ended)), "the episodes that end with a bonus", tuple(ended))]
    best = max(waiting, key=lambda name: waiting[name].mean)
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
            f"every step pays 0 or more, {float(steps.mean()):.3g} on average in random play",
            f"{100 * share:.0f} % of the policy's episodes end with the bonus, and {100 * shares[rival]:.0f} % of "
            f"those of {rival}",
            *plays.texts,
            severity="warning" if share < LASTS and share < shares[rival] else "note",
        )
    ]


def _with_bonus(one: EpisodeReturns) -> list[float]:
    """Returns the returns of the episodes that end with a bonus."""
    sums = [float(rewards.sum()) for rewards in one.rewards if len(rewards) > 1]
    return [value for value, sign in zip(sums, last_rewards(one).tolist(), strict=True) if sign > 0]
