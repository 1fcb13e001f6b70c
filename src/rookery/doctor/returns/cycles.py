"""`reward_cycle`: finds rewards that a policy collects again and again by going back and forth.

A cycle of positive reward that returns to the same state lets a policy earn without end; rewards for progress have none
if they are differences of a potential (Ng, Harada, Russell 1999: Policy invariance under reward transformations).
Cycles of two steps are found by observations that repeat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rookery.doctor.returns.ends import last_rewards
from rookery.doctor.returns.episode_returns import FEWEST, AgentPath, EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

CLOSE = 1e-3
"""Difference between observations, in units of the range of each element, below which they are the same."""

UNEQUAL = 0.01
"""Difference between the rewards of a cycle's steps, in units of the range of rewards, from which on one of them pays:
a reward for staying alive is the same in all steps.
"""

OFTEN = 0.5
"""Share of the policy's steps in paid cycles, and of its episodes that are truncated, from which on it farms."""


class PaidCycles(NamedTuple):
    """Cycles of two steps that return to the same observation and have paid.

    Attributes:
        share: Share of the steps that belong to one.
        gain: Mean reward of a cycle.
        begun: Number of steps at which one begins.
    """

    share: float
    gain: float
    begun: int


def paid_cycles(paths: tuple[AgentPath, ...], usual: float) -> PaidCycles:
    """Returns the paid cycles of some episodes.

    Args:
        paths: The episodes.
        usual: Usual reward of a step, which a cycle has to exceed.
    """
    obs, rewards = np.concatenate([one.obs for one in paths]), np.concatenate([one.rewards for one in paths])
    close = CLOSE * (obs.max(axis=0) - obs.min(axis=0)) + 1e-9
    unequal = UNEQUAL * float(rewards.max() - rewards.min())
    inside, gains = 0, []
    for path in paths:
        if len(path.obs) < 3:
            continue
        is_same = (np.abs(path.obs[2:] - path.obs[:-2]) <= close).all(axis=1)
        has_moved = (np.abs(path.obs[1:-1] - path.obs[:-2]) > close).any(axis=1)
        first, second = path.rewards[:-2], path.rewards[1:-1]
        pays = (first + second > max(2.0 * usual, 0.0) + unequal) & (np.abs(first - second) > unequal)
        starts = np.flatnonzero(is_same & has_moved & pays)
        inside += len(np.union1d(starts, starts + 1))
        gains += (first + second)[starts].tolist()
    return PaidCycles(inside / len(rewards), float(np.mean(gains)) if gains else 0.0, len(gains))


def reward_cycle(plays: Plays) -> list[Finding]:
    """Finds policies that go back and forth between two observations for a reward, up to the time limit.

    It is a warning where random play, a constant action or the policy itself now and then reaches an end with a bonus,
    which the policy gives up for the cycle; else a note: the cycle may be the task.

    Args:
        plays: Returns of the policy, of random play and of constant actions.
    """
    chance = plays.chance
    if chance is None or len(chance.paths) < FEWEST:
        return []
    usual = float(np.median(np.concatenate([one.rewards for one in chance.paths])))
    for name, one in (("an evaluation", plays.own), ("play with drawn actions", plays.drawn)):
        if one is None or min(len(one.paths), len(one.terminated)) < FEWEST or np.mean(one.terminated) > 1.0 - OFTEN:
            continue
        cycles = paid_cycles(one.paths, usual)
        if cycles.share < OFTEN or not cycles.gain > 0.0:
            continue
        return [
            finding(
                "reward-cycle",
                f"the policy goes back and forth between two observations for a reward: {100 * cycles.share:.0f} % of "
                f"its steps, {cycles.gain:.3g} for there and back",
                f"{100 * (1.0 - np.mean(one.terminated)):.0f} % of the episodes of {name} last until they are cut off",
                *plays.texts,
                severity=None if _has_bonus(plays) else "note",
            )
        ]
    return []


def _has_bonus(plays: Plays) -> bool:
    """Returns whether any behaviour has ended an episode with a bonus."""
    each: list[EpisodeReturns | None] = [plays.own, plays.chance, plays.drawn, *(one for _, one in plays.constants)]
    return any(bool((last_rewards(one) > 0).any()) for one in each if one is not None)
