"""PPO-Lagrangian (Ray, Achiam & Amodei 2019, "Benchmarking safe exploration in deep reinforcement learning"): PPO with
a limit on the mean cost of an episode.

Costs are a further value column of the critic, with advantages of their own. A multiplier weights them against those of
rewards, and rises while episodes cost more than the limit. The details that decide are in
docs/algorithms/ppo_lagrangian.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from rookery.algorithms.algorithm import Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.ppo import PPO, PPOConfig
from rookery.core.batch import COST, Demand, Minibatch, Rollout
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, NonNegative, Scheduled
from rookery.core.state import Stateful
from rookery.policies.policy import Policy
from rookery.signals.return_scale import ReturnScale
from rookery.signals.signal import ValueColumn


@dataclass(frozen=True)
class PPOLagrangianConfig(PPOConfig):
    """Settings of PPO-Lagrangian: those of PPO, the limit, and how the multiplier follows it."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.ppo_lagrangian:PPOLagrangian"
    capabilities = Capabilities(
        supports_staleness=True, supports_memory=True, speed_hints=PPOConfig.capabilities.speed_hints
    )

    cost_limit: Scheduled[NonNegative] = 25.0
    """Limit on the mean cost of an episode, which is the undiscounted sum of its costs."""
    cost_gamma: Fraction = 0.99
    """Discount of costs in the critic and the advantages."""
    multiplier_init: NonNegative = 0.0
    """Multiplier of costs before the first update."""
    multiplier_lr: Scheduled[NonNegative] = 0.05
    """Step size of the multiplier: it changes by this times the excess of the mean cost over the limit in each update
    (the integral gain of a PID controller, Stooke et al. 2020).
    """
    multiplier_kp: NonNegative = 0.0
    """Proportional gain: this times the present excess is added to the multiplier."""
    multiplier_kd: NonNegative = 0.0
    """Derivative gain: this times the rise of the mean cost since the update before is added to the multiplier."""
    multiplier_max: NonNegative | None = None
    """Largest multiplier; none = no limit."""


class Multiplier(Stateful):
    """Multiplier of a limit, by a PID controller whose integral part alone is gradient ascent on the Lagrangian (Stooke
    et al. 2020, arXiv:2007.03964, algorithm 2).

    Args:
        first: The multiplier before the first update.

    Attributes:
        value: The multiplier, at least 0.
        integral: Its integral part.
        cost: Mean cost of the episodes that ended in the last update in which any did; None before the first.
    """

    saved = ("value", "integral", "cost")

    def __init__(self, first: float) -> None:
        self.value = first
        self.integral = first
        self.cost: float | None = None

    def update(self, cost: float, cfg: PPOLagrangianConfig) -> None:
        """Follows the mean cost of the episodes of an update; `cfg` has its schedules resolved."""
        most = float("inf") if cfg.multiplier_max is None else cfg.multiplier_max
        excess, rise = cost - float(cfg.cost_limit), 0.0 if self.cost is None else max(0.0, cost - self.cost)
        self.integral = min(max(0.0, self.integral + float(cfg.multiplier_lr) * excess), most)
        self.value = min(max(0.0, cfg.multiplier_kp * excess + self.integral + cfg.multiplier_kd * rise), most)
        self.cost = cost


class PPOLagrangian(PPO):
    """The algorithm: PPO on the advantage (A_r - multiplier * A_c) / (1 + multiplier).

    Attributes:
        multiplier: Weight of costs against rewards.
        costs: Sums of costs of running episodes.
    """

    cfg: PPOLagrangianConfig
    saved: ClassVar[tuple[str, ...]] = ("multiplier", "costs")

    def __init__(self, policy: Policy, cfg: PPOLagrangianConfig, streams: Streams, name: str) -> None:
        self.multiplier = Multiplier(cfg.multiplier_init)
        self.costs = ReturnScale(1.0)
        super().__init__(policy, cfg, streams, name)

    @property
    def demand(self) -> Demand:
        """That of PPO, with the costs of decisions."""
        return replace(super().demand, costs=True)

    @property
    def columns(self) -> Sequence[ValueColumn]:
        """The reward signals, the environment's first, and the costs; strengths are those of the present multiplier."""
        share = 1.0 / (1.0 + self.multiplier.value)
        rewards = [replace(one, strength=one.strength * share) for one in self.signals.columns(self.cfg.gamma)]
        return *rewards, ValueColumn(self.cfg.cost_gamma, -self.multiplier.value * share)

    def rewards(self, rollout: Rollout) -> Tensor:
        """Returns the rewards of a rollout as PPO does, and its costs, ``[T, F, S]``."""
        return torch.cat((super().rewards(rollout), rollout.extras[COST]), -1)

    def targets(self, rollout: Rollout) -> Minibatch:
        """Updates the multiplier by the episodes that have ended; then computes targets as PPO does."""
        ended = self.ended_costs(rollout)
        if len(ended):
            self.multiplier.update(float(ended.mean()), cast(PPOLagrangianConfig, self.now()))
        return super().targets(rollout)

    def after_update(self, row: Row) -> Row:
        """Adds the metrics of the limit."""
        cfg = cast(PPOLagrangianConfig, self.now())
        of_limit: Row = {"episode_cost": self.multiplier.cost, "multiplier": self.multiplier.value}
        return {**super().after_update(row), **of_limit, "cost_limit": float(cfg.cost_limit)}

    def ended_costs(self, rollout: Rollout) -> Tensor:
        """Returns the cost of each episode that ended in a rollout, ``[E]``, the part in earlier rollouts included."""
        sums = torch.from_numpy(self.costs.discounted(replace(rollout, reward=rollout.extras[COST][..., 0])))
        ended = (rollout.terminated | rollout.truncated) & rollout.valid
        return sums[ended.cpu()]
