"""Environment classes of `gym.envs` that scripts inherit from: Gymnasium's classes with the methods of 2021.

Each is made on first use, so that MuJoCo and Box2D are needed only for their own classes. They have no step limit.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rookery_rllib.gym.core import OldForm

MODULES = {
    "AcrobotEnv": "classic_control.acrobot",
    "AntEnv": "mujoco.ant_v5",
    "BipedalWalker": "box2d.bipedal_walker",
    "CarRacing": "box2d.car_racing",
    "CartPoleEnv": "classic_control.cartpole",
    "CliffWalkingEnv": "toy_text.cliffwalking",
    "Continuous_MountainCarEnv": "classic_control.continuous_mountain_car",
    "FrozenLakeEnv": "toy_text.frozen_lake",
    "HalfCheetahEnv": "mujoco.half_cheetah_v5",
    "HopperEnv": "mujoco.hopper_v5",
    "HumanoidEnv": "mujoco.humanoid_v5",
    "HumanoidStandupEnv": "mujoco.humanoidstandup_v5",
    "InvertedDoublePendulumEnv": "mujoco.inverted_double_pendulum_v5",
    "InvertedPendulumEnv": "mujoco.inverted_pendulum_v5",
    "LunarLander": "box2d.lunar_lander",
    "MountainCarEnv": "classic_control.mountain_car",
    "PendulumEnv": "classic_control.pendulum",
    "PusherEnv": "mujoco.pusher_v5",
    "ReacherEnv": "mujoco.reacher_v5",
    "SwimmerEnv": "mujoco.swimmer_v5",
    "TaxiEnv": "toy_text.taxi",
    "Walker2dEnv": "mujoco.walker2d_v5",
}
"""Modules below `gymnasium.envs` of the classes."""

__all__ = list(MODULES)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = getattr(import_module(f"gymnasium.envs.{MODULES[name]}"), name)
    modes = ["human", *now.metadata.get("render_modes", ())]
    own = {
        "__doc__": now.__doc__,
        "__module__": __name__,
        "metadata": {**now.metadata, "render.modes": modes},
    }
    made = type(name, (OldForm, now), own)
    globals()[name] = made
    return made
