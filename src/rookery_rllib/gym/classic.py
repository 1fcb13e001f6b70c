"""Classes of `gym.envs` whose environments scripts inherit from: today's, with the methods of 2021."""

from __future__ import annotations

from gymnasium.envs.classic_control.acrobot import AcrobotEnv as TodaysAcrobot
from gymnasium.envs.classic_control.cartpole import CartPoleEnv as TodaysCartPole
from gymnasium.envs.classic_control.continuous_mountain_car import (
    Continuous_MountainCarEnv as TodaysContinuousMountainCar,
)
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv as TodaysMountainCar
from gymnasium.envs.classic_control.pendulum import PendulumEnv as TodaysPendulum

from rookery_rllib.gym.core import OldForm


class CartPoleEnv(OldForm, TodaysCartPole):  # type: ignore[misc]
    """The pole on a cart, without a limit of steps."""


class PendulumEnv(OldForm, TodaysPendulum):  # type: ignore[misc]
    """The pendulum that is to be swung up, without a limit of steps."""


class MountainCarEnv(OldForm, TodaysMountainCar):  # type: ignore[misc]
    """The car in a valley, without a limit of steps."""


class Continuous_MountainCarEnv(OldForm, TodaysContinuousMountainCar):  # type: ignore[misc]
    """The car in a valley with a continuous force, without a limit of steps."""


class AcrobotEnv(OldForm, TodaysAcrobot):  # type: ignore[misc]
    """Two links that are to be swung up, without a limit of steps."""
