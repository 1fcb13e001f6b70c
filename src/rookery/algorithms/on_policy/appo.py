"""APPO: PPO's clipped surrogate on what older weights have played, around a target network (Luo et al. 2019, IMPACT,
arXiv:1912.00167).

The target network stands between who played and who learns: V-trace (Espeholt et al. 2018, arXiv:1802.01561) leads from
the one to the target, the clipped ratio from the target to the other. Because nothing has to be of the newest weights,
batches are kept and learned from again. The details that decide are in docs/algorithms/appo.md.
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
    """How far the ratio to the target network's probability may leave 1 before its gradient stops."""
    epochs: Count = 1
    """Passes over the rows of an update."""
    fragment_length: Structural[Length] = 50
    """Decisions in a row of one slot before its targets are cut off with a value."""
    rollout_size: Rows | None = 500
    rho_bar: PositiveFloat = 2.0
    """Largest importance weight of a decision: how much likelier the target network may take it for than who played."""
    c_bar: PositiveFloat = 1.0
    """Largest factor by which a later error counts for an earlier decision."""
    target_every: Count = 2
    """Updates from one copy of the weights to the target network to the next."""
    buffered_batches: Few = 8
    """Batches that are kept, to be learned from again."""
    batch_uses: Count = 2
    """How often a batch is learned from, on average: an update takes the new one, and one less than this of those kept,
    drawn at random. 1 = nothing is kept.
    """


@dataclass(frozen=True, kw_only=True)
class RewardedRollout(Rollout):
    """A rollout with its rewards as they were when it was played: signals and scales that learn may say others later.

    Attributes:
        rewards: ``[T, F, S]`` a column for each reward signal.
    """

    rewards: Tensor


class BatchRing(Stateful):
    """Keeps the latest batches of a policy, to be learned from again.

    Attributes:
        batches: The oldest first.
    """

    saved = ("batches",)

    def __init__(self) -> None:
        self.batches: list[RewardedRollout] = []

    def turn(self, batch: RewardedRollout, again: int, size: int, rng: np.random.Generator) -> list[RewardedRollout]:
        """Takes in a batch; returns it, and some older ones after it.

        Args:
            batch: What was played last.
            again: How many of the older ones are drawn, none twice; all if there are no more.
            size: How many batches are kept.
            rng: Draws them; nothing is drawn if `again` is 0.
        """
        older = self.batches
        drawn = rng.permutation(len(older))[:again].tolist() if again else []
        kept = [*older, batch.map(lambda _, tensor: tensor.clone())]  # it may lie where playing goes on
        self.batches = kept[-size:] if again else []
        return [batch, *(older[at] for at in drawn)]

    def state_dict(self) -> dict[str, Any]:
        """A copy of all batches."""
        return {"batches": [dict(vars(batch.map(lambda _, tensor: tensor.clone()))) for batch in self.batches]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
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
        """How far what other weights played counts, and from where ratios are taken."""
        return Correction(self.cfg.rho_bar, self.cfg.c_bar, self.target_forward)

    def rewards(self, rollout: Rollout) -> Tensor:
        """Gives the rewards of a rollout, ``[T, F, S]``, as PPO does; those that are known already as they are."""
        return rollout.rewards if isinstance(rollout, RewardedRollout) else super().rewards(rollout)

    def targets(self, rollout: Rollout) -> Minibatch:
        """Computes advantages and value targets, ``[N]`` and ``[N, S]``, of the new batch and of some of those kept.
        Before that the target network follows, where it is due.
        """
        cfg = self.cfg
        if self.updates % cfg.target_every == 0:
            track(self.target_data, self.optimizer.flat.data, 1.0)
        batch = RewardedRollout(**{**vars(rollout), "rewards": self.rewards(rollout)})
        return super().targets(joined(self.ring.turn(batch, cfg.batch_uses - 1, cfg.buffered_batches, self.rng)))

    def summary(self) -> Row:
        """Reports what PPO does, and how many batches are kept."""
        return {**super().summary(), "kept_batches": len(self.ring.batches)}
