"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477): DDPG with three changes against overestimated values.

The lower of two critics counts (`critic.number`); targets are smoothed with noise; actor and targets move less often.
The details that decide are in docs/algorithms/td3.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import CriticConfig
from rookery.algorithms.off_policy.ddpg import DDPG, DDPGConfig
from rookery.core.batch import TensorTree, Transitions
from rookery.core.metrics import Metrics
from rookery.core.settings.fields import NonNegative
from rookery.core.settings.reach import Count
from rookery.models.structure import Inputs


@dataclass(frozen=True)
class TD3Config(DDPGConfig):
    """Settings of TD3. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.off_policy.td3:TD3"
    capabilities = Capabilities(supports_staleness=True, supports_multi_learner=True, uses_replay=True)

    critic: CriticConfig = field(default_factory=CriticConfig)
    policy_delay: Count = 2
    """Gradient steps of the critics per step of the actor; target networks follow with the actor."""
    target_noise: NonNegative = 0.2
    """Standard deviation of the noise on target actions, for actions in [-1, 1]."""
    target_noise_clip: NonNegative = 0.5
    """Largest absolute value of this noise."""


class TD3(DDPG):
    """Learns critics and an actor from replay: `learn` is the inner loop of Algorithm 1."""

    cfg: TD3Config

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps of critics; actor and target networks follow at every `policy_delay`-th."""
        cfg = self.now()
        for _ in range(gradient_steps):
            rows = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
            rows = self.before_update(rows)
            metrics = self.learn_rows(rows, cfg)
            self.replay.update_priorities(rows.row, metrics.pop("priority"))
            self.replay.record(metrics)
            number = self.replay.gradient_steps
            if number % self.cfg.policy_delay == 0 and number % cfg.target_every == 0:
                self.track_targets(cfg)

    def learn_rows(self, rows: Transitions, cfg: DDPGConfig) -> Metrics:
        """Makes one gradient step of the critics, and one of the actor in every `policy_delay`-th step."""
        rows = self.drq.augmented(rows, self.rng)
        metrics = self.learn_critics(rows, cfg)
        is_due = (self.replay.gradient_steps + 1) % self.cfg.policy_delay == 0
        return metrics | self.learn_actor(rows, cfg) if is_due else metrics

    @torch.no_grad()
    def next_action(self, obs: TensorTree) -> Tensor:
        """Computes the target actor's actions with clipped noise (eq. 14), ``[N, k]``."""
        action: Tensor = self.target_forward.outputs(Inputs(obs)).mode()
        noise = torch.from_numpy(self.rng.standard_normal(action.shape, dtype=np.float32)).to(action.device)
        limit = self.cfg.target_noise_clip
        return (action + (noise * self.cfg.target_noise).clamp_(-limit, limit)).clamp_(-1.0, 1.0)
