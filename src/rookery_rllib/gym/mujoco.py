"""Classes of `gym.envs.mujoco` that scripts inherit from: today's (v5), with the methods of 2021."""

from __future__ import annotations

from gymnasium.envs.mujoco.ant_v5 import AntEnv as TodaysAnt
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv as TodaysHalfCheetah
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv as TodaysHopper
from gymnasium.envs.mujoco.humanoid_v5 import HumanoidEnv as TodaysHumanoid
from gymnasium.envs.mujoco.humanoidstandup_v5 import HumanoidStandupEnv as TodaysHumanoidStandup
from gymnasium.envs.mujoco.inverted_double_pendulum_v5 import InvertedDoublePendulumEnv as TodaysInvertedDoublePendulum
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv as TodaysInvertedPendulum
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv as TodaysPusher
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv as TodaysReacher
from gymnasium.envs.mujoco.swimmer_v5 import SwimmerEnv as TodaysSwimmer
from gymnasium.envs.mujoco.walker2d_v5 import Walker2dEnv as TodaysWalker2d

from rookery_rllib.gym.core import OldForm


class AntEnv(OldForm, TodaysAnt):  # type: ignore[misc]
    """An ant of four legs, without a limit of steps."""


class HalfCheetahEnv(OldForm, TodaysHalfCheetah):  # type: ignore[misc]
    """A cheetah in the plane, without a limit of steps."""


class HopperEnv(OldForm, TodaysHopper):  # type: ignore[misc]
    """One leg that hops, without a limit of steps."""


class HumanoidEnv(OldForm, TodaysHumanoid):  # type: ignore[misc]
    """A humanoid that walks, without a limit of steps."""


class HumanoidStandupEnv(OldForm, TodaysHumanoidStandup):  # type: ignore[misc]
    """A humanoid that stands up, without a limit of steps."""


class InvertedPendulumEnv(OldForm, TodaysInvertedPendulum):  # type: ignore[misc]
    """A pole on a cart, without a limit of steps."""


class InvertedDoublePendulumEnv(OldForm, TodaysInvertedDoublePendulum):  # type: ignore[misc]
    """Two poles on a cart, without a limit of steps."""


class PusherEnv(OldForm, TodaysPusher):  # type: ignore[misc]
    """An arm that pushes, without a limit of steps."""


class ReacherEnv(OldForm, TodaysReacher):  # type: ignore[misc]
    """An arm that reaches, without a limit of steps."""


class SwimmerEnv(OldForm, TodaysSwimmer):  # type: ignore[misc]
    """A swimmer of three links, without a limit of steps."""


class Walker2dEnv(OldForm, TodaysWalker2d):  # type: ignore[misc]
    """Two legs in the plane, without a limit of steps."""
