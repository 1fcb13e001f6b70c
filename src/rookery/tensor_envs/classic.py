"""Cart-pole and pendulum in tensors: Gymnasium's equations in float32, on any device."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.core.settings.reach import Count, Label
from rookery.envs import drawing
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.classic import (
    ANGLE_LIMIT,
    FORCE,
    GRAVITY,
    HALF_POLE,
    POLE_MASS,
    POLE_MASS_LENGTH,
    POSITION_LIMIT,
    STEP_SECONDS,
    TOTAL_MASS,
)
from rookery.tensor_envs.env import TensorEnv, TensorStep

START = 0.05
"""Bound of each state variable of a cart-pole at the start of an episode."""

TORQUE = 2.0  # N m, the largest torque of a pendulum
FASTEST = 8.0  # rad / s
SWING_SECONDS = 0.05
SWING_GRAVITY = 10.0  # m / s^2, at a rod of 1 m and 1 kg


class TensorCartPole(TensorEnv):
    """Vectorized cart-poles with the rules of CartPole-v1: 0 pushes left, 1 right, a reward of 1 for every step.

    Attributes:
        state: ``[4, N]`` float32: position, velocity, angle and angular velocity of each environment.
        steps: ``[N]`` int64, steps of the running episodes.
    """

    saved: ClassVar[tuple[str, ...]] = ("state", "steps")
    render_fps = 50

    def __init__(self, num_envs: int, device: Label | None = None, max_episode_steps: Count = 500) -> None:
        """Creates `num_envs` cart-poles.

        Args:
            num_envs: Number of environments.
            device: Device, ``cpu`` or ``cuda``; None = the CPU.
            max_episode_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("TensorCartPole", 1, max_episode_steps=max_episode_steps)
        bound = np.array([POSITION_LIMIT * 2, np.inf, ANGLE_LIMIT * 2, np.inf], dtype=np.float32)
        super().__init__(spaces.Box(-bound, bound), spaces.Discrete(2), num_envs, device)
        self.max_episode_steps = int(max_episode_steps)
        self.state = torch.zeros(4, num_envs, device=self.device, dtype=torch.float32)
        self.steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    def reset(self, seed: int) -> Tensor:
        """Begins an episode in every environment; see `TensorEnv.reset`."""
        self.generator.manual_seed(seed)
        self.state = self._starts()
        self.steps.zero_()
        return self.state.T

    def _starts(self) -> Tensor:
        """Draws an initial state for every environment."""
        drawn = torch.rand(4, self.num_envs, generator=self.generator, device=self.device, dtype=torch.float32)
        return drawn.mul_(2 * START).sub_(START)

    def step(self, actions: Tensor) -> TensorStep:
        """Steps every environment once; see `TensorEnv.step`."""
        _, velocity, angle, turning = self.state
        force = actions.to(torch.float32).mul_(2 * FORCE).sub_(FORCE)
        sin, cos = angle.sin(), angle.cos()
        thrust = (force + POLE_MASS_LENGTH * turning.square() * sin) / TOTAL_MASS
        inertia = HALF_POLE * (4.0 / 3.0 - POLE_MASS * cos.square() / TOTAL_MASS)
        turn = (GRAVITY * sin - cos * thrust) / inertia
        push = thrust - POLE_MASS_LENGTH * turn * cos / TOTAL_MASS
        moved = self.state.add(torch.stack((velocity, push, turning, turn)), alpha=STEP_SECONDS)
        terminated = (moved[0].abs() > POSITION_LIMIT) | (moved[2].abs() > ANGLE_LIMIT)
        truncated = self.steps.add_(1) >= self.max_episode_steps
        ended = terminated | truncated
        self.state = torch.where(ended, self._starts(), moved)
        self.steps.masked_fill_(ended, 0)
        return TensorStep(self.state.T, torch.ones_like(force), terminated, truncated, moved.T)

    def render(self, lane: int) -> np.ndarray:
        """Draws an environment, ``[400, 600, 3]`` uint8."""
        position, _, angle, _ = self.state[:, lane].tolist()
        return drawing.draw_cart_pole(position, angle, int(self.steps[lane]), self.max_episode_steps)


class TensorPendulum(TensorEnv):
    """Vectorized pendulums with the rules of Pendulum-v1: a torque swings each up; the reward is the negative cost.

    Attributes:
        angle: ``[N]`` float32, from -pi to pi, 0 upright.
        turning: ``[N]`` float32, the angular velocities.
        steps: ``[N]`` int64, steps of the running episodes.
    """

    saved: ClassVar[tuple[str, ...]] = ("angle", "turning", "steps")
    render_fps = 30

    def __init__(self, num_envs: int, device: Label | None = None, max_episode_steps: Count = 200) -> None:
        """Creates `num_envs` pendulums.

        Args:
            num_envs: Number of environments.
            device: Device, ``cpu`` or ``cuda``; None = the CPU.
            max_episode_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("TensorPendulum", 1, max_episode_steps=max_episode_steps)
        bound = np.array([1.0, 1.0, FASTEST], dtype=np.float32)
        torque = spaces.Box(-TORQUE, TORQUE, (1,), np.float32)
        super().__init__(spaces.Box(-bound, bound), torque, num_envs, device)
        self.max_episode_steps = int(max_episode_steps)
        self.angle, self.turning = torch.zeros(2, num_envs, device=self.device, dtype=torch.float32)
        self.steps = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    def reset(self, seed: int) -> Tensor:
        """Begins an episode in every environment; see `TensorEnv.reset`."""
        self.generator.manual_seed(seed)
        self.angle, self.turning = self._starts()
        self.steps.zero_()
        return self._seen(self.angle, self.turning)

    def _starts(self) -> tuple[Tensor, Tensor]:
        """Draws an initial state for every environment: any angle, and a small angular velocity."""
        drawn = (
            torch.rand(2, self.num_envs, generator=self.generator, device=self.device, dtype=torch.float32)
            .mul_(2.0)
            .sub_(1.0)
        )
        return drawn[0] * math.pi, drawn[1]

    @staticmethod
    def _seen(angle: Tensor, turning: Tensor) -> Tensor:
        return torch.stack((angle.cos(), angle.sin(), turning), 1)

    def step(self, actions: Tensor) -> TensorStep:
        """Steps every environment once; see `TensorEnv.step`."""
        torque = actions.squeeze(1).clamp(-TORQUE, TORQUE)
        cost = self.angle.square() + 0.1 * self.turning.square() + 0.001 * torque.square()
        push = 1.5 * SWING_GRAVITY * self.angle.sin() + 3.0 * torque
        turning = (self.turning + push * SWING_SECONDS).clamp(-FASTEST, FASTEST)
        angle = (self.angle + turning * SWING_SECONDS + math.pi).remainder(2 * math.pi) - math.pi
        truncated = self.steps.add_(1) >= self.max_episode_steps
        final_obs = self._seen(angle, turning)
        first_angle, first_turning = self._starts()
        self.angle = torch.where(truncated, first_angle, angle)
        self.turning = torch.where(truncated, first_turning, turning)
        self.steps.masked_fill_(truncated, 0)
        obs = self._seen(self.angle, self.turning)
        return TensorStep(obs, -cost, torch.zeros_like(truncated), truncated, final_obs)
