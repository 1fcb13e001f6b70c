"""`EnvPlay`: short plays of an environment, without a policy, and the findings that they show.

Random play shows observations, rewards and ends; environments that play equal episodes show what actions change; and
episodes that are played again show state that survives a reset, or that environments share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.core.seeding import Streams
from rookery.doctor.effects import Effects, all_effects
from rookery.doctor.play_rules import (
    actions_alike,
    actions_weak,
    actions_without_effect,
    agents_idle,
    endings_mixed_up,
    rewards_swapped,
    state_survives_reset,
)
from rookery.doctor.probe import MakeCopies, PlayMeasurements, watch_random
from rookery.doctor.repeats import differences_after_others, differences_beside_another, differences_of_new
from rookery.envs.make import has_single_envs, lane_maker
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

RANDOM, PAIRED = 0.4, 0.6
"""Shares of the time for random play, and of the rest for equal episodes."""


@dataclass
class EnvPlay:
    """Short plays of an environment.

    Attributes:
        random: Random play.
        effects: Effects of the actions of each agent, of the first few.
        survives: Parts of an episode that differ after other episodes; None if it is unknown.
        varies: Parts of an episode that differ between new environments with equal seeds and actions.
        is_shared: Whether environments of one process change each other.
    """

    random: PlayMeasurements
    effects: list[Effects]
    survives: tuple[str, ...] | None = None
    varies: tuple[str, ...] = ()
    is_shared: bool = False

    def findings(self) -> list[Finding]:
        """Returns the findings that need no policy."""
        found = [*actions_without_effect(self.effects), *actions_alike(self.effects), *actions_weak(self.effects)]
        found += [
            *rewards_swapped(self.effects),
            *agents_idle(self.random),
            *endings_mixed_up(self.random),
            *state_survives_reset(self.survives),
        ]
        if self.is_shared:
            found.append(finding("state-shared", "several environments of one process change each other"))
        if self.varies:
            line = "two new environments play different episodes, from equal seeds and with equal actions"
            more = f"{' and '.join(self.varies)} differ first; what actions change was not examined"
            found.append(finding("not-deterministic", line, more, severity="note"))
        return found


def play_env(make: MakeCopies, seconds: float, steps: int | None = None) -> EnvPlay:
    """Plays an environment for a short time.

    Args:
        make: Makes a number of throwaway environments.
        seconds: Approximate time.
        steps: Vector steps of random play; None = as many as the time allows.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    began = time.monotonic()
    seen = EnvPlay(watch_random(make, RANDOM * seconds, Streams(0), steps), [])
    until = began + seconds
    seen.effects = all_effects(make, seen.random, time.monotonic() + PAIRED * (until - time.monotonic()))
    if time.monotonic() > until:
        return seen
    repeats = all(one.repeats for one in seen.effects)
    survives = differences_after_others(lambda: make(1), until)
    if survives or not repeats:
        seen.varies = differences_of_new(lambda: make(1))
    if not seen.varies:
        seen.survives = survives
        seen.is_shared = not repeats and not survives and bool(differences_beside_another(make, until))
    return seen


def single_env(
    env: Any, config: Mapping[str, Any] | None, wrappers: Sequence[Any], implementation: str
) -> Callable[[], Any] | None:
    """Returns a maker of a single throwaway environment, wrapped; None if there are no single ones.

    Args:
        env: Name or maker of the environment, as for `make_env`.
        config: Keyword arguments of its constructor.
        wrappers: Its wrappers.
        implementation: Implementation of the run.
    """
    if not has_single_envs(env, config, wrappers, 1, implementation):
        return None
    lane = lane_maker(env, config, wrappers)
    return lambda: lane().env
