"""Classes of `gym.envs.box2d` that scripts inherit from: today's, with the methods of 2021."""

from __future__ import annotations

from gymnasium.envs.box2d.bipedal_walker import BipedalWalker as TodaysBipedalWalker
from gymnasium.envs.box2d.car_racing import CarRacing as TodaysCarRacing
from gymnasium.envs.box2d.lunar_lander import LunarLander as TodaysLunarLander

from rookery_rllib.gym.core import OldForm


class LunarLander(OldForm, TodaysLunarLander):  # type: ignore[misc]
    """A lander between two flags, without a limit of steps."""


class BipedalWalker(OldForm, TodaysBipedalWalker):  # type: ignore[misc]
    """A walker on two legs, without a limit of steps."""


class CarRacing(OldForm, TodaysCarRacing):  # type: ignore[misc]
    """A car on a track, seen from above, without a limit of steps."""
