"""APPO: PPO's clipped surrogate on rollouts of older weights, around a target network (Luo et al. 2019, IMPACT,
arXiv:1912.00167).

The target network lies between the policy that played and the one that learns: V-trace (Espeholt et al. 2018,
arXiv:1802.01561) corrects from the former to the target, the clipped ratio from the target to the latter. Because
rollouts need not come from the latest weights, batches are kept and reused. The details that decide are in
docs/algorithms/appo.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from rookery.algorithms.algorithm import Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.actor_critic import Correction
from rookery.algorithms.on_policy.ppo import PPO, PPOConfig
from rookery.core.batch import Minibatch, Rollout, joined
from rookery.core.flat import flatten
from rookery.core.optim import track
from rookery.core.schedules import Linear
from rookery.core.seeding import Streams
from rookery.core.settings.fields import PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Few, Length, Rows
from rookery.core.state import Stateful
from rookery.native.forward import attach
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class APPOConfig(PPOConfig):
    """Settings of APPO. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.appo:APPO"
    capabilities = Capabilities(
        supports_staleness=True,
        supports_memory=True,
        supports_multi_learner=True,
        speed_hints={"minibatch_size": "larger minibatches", "batch_uses": "fewer uses of a batch"},
    )

    lr: Scheduled[PositiveFloat] = field(default_factory=lambda: Linear(5e-4, 1e-4))
    clip: Scheduled[PositiveFloat] = 0.4
    """Clip range of the probability ratio to the target network."""
    epochs: Count = 1
    """Passes over the rows of an update."""
    fragment_length: Structural[Length] = 50
    """Consecutive decisions of one slot before its targets are bootstrapped from a value."""
    rollout_size: Rows | None = 500
    rho_bar: PositiveFloat = 2.0
    """Largest importance weight of a decision, from the policy that played to the target network."""
    c_bar: PositiveFloat = 1.0
    """Largest weight of a later error for an earlier decision."""
    target_every: Count = 2
    """Updates between copies of the weights to the target network."""
    buffered_batches: Few = 8
    """Number of batches that are kept for reuse."""
    batch_uses: Count = 2
    """Average number of uses of a batch: an update takes the new batch, and this number minus one of the kept ones,
    drawn at random. 1 = nothing is kept.
    """


@dataclass(frozen=True, kw_only=True)
class RewardedRollout(Rollout):
    """A rollout with its rewards at the time of playing, because signals and scales that learn may change later.

    Attributes:
        rewards: ``[T, F, S]`` a column for each reward signal.
    """

    rewards: Tensor


class BatchRing(Stateful):
    """Keeps the latest batches of a policy for reuse.

    Attributes:
        batches: The oldest first.
    """

    saved = ("batches",)

    def __init__(self) -> None:
        self.batches: list[RewardedRollout] = []

    def add_and_draw(
        self, batch: RewardedRollout, again: int, size: int, rng: np.random.Generator
    ) -> list[RewardedRollout]:
        """Adds a batch; returns it, followed by some older ones.

        Args:
            batch: The newest batch.
            again: Number of older batches drawn, without replacement; all if there are no more.
            size: Number of batches kept.
            rng: Generator for the draw; unused if `again` is 0.
        """
        older = self.batches
        drawn = rng.permutation(len(older))[:again].tolist() if again else []
        kept = [*older, batch.map(lambda _, tensor: tensor.clone())]  # its memory may be overwritten by the worker
        self.batches = kept[-size:] if again else []
        return [batch, *(older[at] for at in drawn)]

    def state_dict(self) -> dict[str, Any]:
        """Returns a copy of all batches."""
        return {"batches": [dict(vars(batch.map(lambda _, tensor: tensor.clone()))) for batch in self.batches]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        batches = [RewardedRollout(**batch) for batch in state["batches"]]
        self.batches = [batch.map(lambda _, tensor: tensor.clone()) for batch in batches]


class APPO(PPO):
    """The algorithm: PPO's update of new and kept batches, clipped around a target network."""

    cfg: APPOConfig
    saved = ("target_net", "ring")
    fixed = ("target_data", "target_forward")

    def __init__(self, policy: Policy, cfg: APPOConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.target_net = copy.deepcopy(self.net)
        self.target_data = flatten(self.target_net.parts).data
        self.target_net.requires_grad_(False)
        self.target_forward = attach(self.target_net, learns=False)
        self.ring = BatchRing()

    @cached_property
    def correction(self) -> Correction:
        """Off-policy correction, with ratios to the target network."""
        return Correction(self.cfg.rho_bar, self.cfg.c_bar, self.target_forward)

    def rewards(self, rollout: Rollout) -> Tensor:
        """Returns the rewards of a rollout, ``[T, F, S]``, as PPO does; those of kept batches are already known."""
        return rollout.rewards if isinstance(rollout, RewardedRollout) else super().rewards(rollout)

    def targets(self, rollout: Rollout) -> Minibatch:
        """Computes advantages and value targets, ``[N]`` and ``[N, S]``, of the new batch and of some kept ones. Before
        that, the target network is updated every `target_every` updates.
        """
        cfg = self.cfg
        if self.updates % cfg.target_every == 0:
            track(self.target_data, self.optimizer.flat.data, 1.0)
        batch = RewardedRollout(**{**vars(rollout), "rewards": self.rewards(rollout)})
        return super().targets(
            joined(self.ring.add_and_draw(batch, cfg.batch_uses - 1, cfg.buffered_batches, self.rng))
        )

    def summary(self) -> Row:
        """Reports PPO's metrics, and the number of kept batches."""
        return {**super().summary(), "kept_batches": len(self.ring.batches)}
