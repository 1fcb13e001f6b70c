"""Schedules over time steps: constant, linear, polynomial, exponential and piecewise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch


class Schedule(ABC):
    def __init__(self, framework: str | None = None) -> None:
        self.framework = framework

    def value(self, t: Any) -> Any:
        return self._value(t.float() if isinstance(t, torch.Tensor) else t)

    def __call__(self, t: Any) -> Any:
        return self.value(t)

    @abstractmethod
    def _value(self, t: Any) -> Any: ...


class ConstantSchedule(Schedule):
    def __init__(self, value: float, framework: str | None = None) -> None:
        super().__init__(framework)
        self._v = value

    def _value(self, t: Any) -> Any:
        return self._v


class PolynomialSchedule(Schedule):
    def __init__(
        self,
        schedule_timesteps: int,
        final_p: float,
        framework: str | None = None,
        initial_p: float = 1.0,
        power: float = 2.0,
    ) -> None:
        super().__init__(framework)
        if schedule_timesteps <= 0:
            raise ValueError(f"schedule_timesteps is {schedule_timesteps}, expected more than 0")
        self.schedule_timesteps = schedule_timesteps
        self.final_p = final_p
        self.initial_p = initial_p
        self.power = power

    def _value(self, t: Any) -> Any:
        share = t / self.schedule_timesteps
        left = 1.0 - (share.clamp(max=1.0) if isinstance(share, torch.Tensor) else min(share, 1.0))
        return self.final_p + (self.initial_p - self.final_p) * left**self.power


class LinearSchedule(PolynomialSchedule):
    def __init__(
        self, schedule_timesteps: int, final_p: float, framework: str | None = None, initial_p: float = 1.0
    ) -> None:
        super().__init__(schedule_timesteps, final_p, framework, initial_p, power=1.0)


class ExponentialSchedule(Schedule):
    def __init__(
        self,
        schedule_timesteps: int,
        framework: str | None = None,
        initial_p: float = 1.0,
        decay_rate: float = 0.1,
    ) -> None:
        super().__init__(framework)
        if schedule_timesteps <= 0:
            raise ValueError(f"schedule_timesteps is {schedule_timesteps}, expected more than 0")
        self.schedule_timesteps = schedule_timesteps
        self.initial_p = initial_p
        self.decay_rate = decay_rate

    def _value(self, t: Any) -> Any:
        return self.initial_p * self.decay_rate ** (t / self.schedule_timesteps)


def _between(left: float, right: float, alpha: float) -> float:
    return left + alpha * (right - left)


class PiecewiseSchedule(Schedule):
    def __init__(
        self,
        endpoints: Sequence[tuple[float, float]],
        framework: str | None = None,
        interpolation: Callable[[float, float, float], float] = _between,
        outside_value: float | None = None,
    ) -> None:
        super().__init__(framework)
        self.endpoints = [(int(step), float(value)) for step, value in endpoints]
        if self.endpoints != sorted(self.endpoints, key=lambda pair: pair[0]):
            raise ValueError(f"endpoints {endpoints} are not in ascending order of their time steps")
        self.interpolation = interpolation
        self.outside_value = outside_value

    def _value(self, t: Any) -> Any:
        for (left_step, left), (right_step, right) in zip(self.endpoints, self.endpoints[1:], strict=False):
            if left_step <= t < right_step:
                return self.interpolation(left, right, float(t - left_step) / (right_step - left_step))
        if self.outside_value is None:
            raise AssertionError(f"time step {t} is outside the schedule's endpoints, which have no outside_value")
        return self.outside_value
