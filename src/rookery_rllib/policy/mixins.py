"""Mixins of policies of 2021: schedules, the weight of the KL penalty, values, target networks.

A policy derives from such a class, and calls its constructor with the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rookery_rllib.base.schedules import PiecewiseSchedule
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.policy.policies import Policy

if TYPE_CHECKING:
    _Base = Policy
else:
    _Base = object


def piecewise(points: Sequence[Any]) -> PiecewiseSchedule:
    """Returns the piecewise linear schedule of pairs of env steps and values, constant outside of them."""
    return PiecewiseSchedule(points, outside_value=points[-1][-1])


class LearningRateSchedule(_Base):
    def __init__(self, lr: float, lr_schedule: Sequence[Any] | None) -> None:
        self._lr_schedule = None if lr_schedule is None else piecewise(lr_schedule)
        self.cur_lr = lr if self._lr_schedule is None else self._lr_schedule.value(0)

    def on_global_var_update(self, global_vars: Mapping[str, Any]) -> None:
        super().on_global_var_update(global_vars)
        if self._lr_schedule is not None:
            self.cur_lr = self._lr_schedule.value(global_vars["timestep"])
            for optimizer in getattr(self, "_optimizers", ()):
                for group in optimizer.param_groups:
                    group["lr"] = self.cur_lr


class EntropyCoeffSchedule(_Base):
    def __init__(self, entropy_coeff: float, entropy_coeff_schedule: Any) -> None:
        self._entropy_coeff_schedule = None
        self.entropy_coeff = entropy_coeff
        if entropy_coeff_schedule is not None:
            given = entropy_coeff_schedule
            points = given if isinstance(given, list | tuple) else [(0, entropy_coeff), (given, 0.0)]
            self._entropy_coeff_schedule = piecewise(points)
            self.entropy_coeff = self._entropy_coeff_schedule.value(0)

    def on_global_var_update(self, global_vars: Mapping[str, Any]) -> None:
        super().on_global_var_update(global_vars)
        if self._entropy_coeff_schedule is not None:
            self.entropy_coeff = self._entropy_coeff_schedule.value(global_vars["timestep"])


class KLCoeffMixin:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.kl_coeff = config["kl_coeff"]
        self.kl_target = config["kl_target"]

    def update_kl(self, sampled_kl: float) -> float:
        if sampled_kl > 2.0 * self.kl_target:
            self.kl_coeff *= 1.5
        elif sampled_kl < 0.5 * self.kl_target:
            self.kl_coeff *= 0.5
        return float(self.kl_coeff)


class ValueNetworkMixin:
    """Adds `_value` to a policy: the bootstrap value after a trajectory, from the columns of one row."""

    def __init__(
        self, obs_space: Any = None, action_space: Any = None, config: Mapping[str, Any] | None = None
    ) -> None:
        has_values = config is None or bool(config.get("use_gae", True))
        self._value = partial(value_of, self) if has_values else _nothing  # of the policy that calls this constructor


def value_of(policy: Any, **input_dict: Any) -> float:
    """Returns the value of one row, from its columns."""
    policy.model(policy._lazy_tensor_dict(SampleBatch(input_dict)))
    return float(policy.model.value_function()[0].detach())


def _nothing(**input_dict: Any) -> float:
    return 0.0


class TargetNetworkMixin(_Base):
    def __init__(
        self, obs_space: Any = None, action_space: Any = None, config: Mapping[str, Any] | None = None
    ) -> None:
        self._tau = float((config or getattr(self, "config", None) or {}).get("tau", 1.0))

    def update_target(self, tau: float | None = None) -> None:
        share = self._tau if tau is None else tau
        target = getattr(self, "target_model", None) or self.target_q_model  # type: ignore[attr-defined]
        source = self.model.state_dict()  # type: ignore[attr-defined]
        mixed = {name: value.lerp(source[name], share) if value.is_floating_point() else source[name]
                 for name, value in target.state_dict().items()}  # fmt: skip
        target.load_state_dict(mixed)

    def set_weights(self, weights: Any) -> None:
        super().set_weights(weights)
        self.update_target(1.0)
