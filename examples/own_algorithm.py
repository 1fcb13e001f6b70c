"""Advantage-weighted regression (Peng et al. 2019, arXiv:1910.00177), without its replay buffer.

The policy imitates its own actions, weighted by their advantages.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from rookery.extend import (
    ActorCritic,
    Adam,
    Algorithm,
    AlgorithmConfig,
    Capabilities,
    Demand,
    Fraction,
    Means,
    Metrics,
    Minibatch,
    ModelConfig,
    Outputs,
    Policy,
    PositiveFloat,
    PositiveInt,
    Role,
    Rollout,
    Row,
    Scheduled,
    Streams,
    Structural,
    ValueColumn,
    advantage_targets,
    attach,
    explained_variance,
    flatten,
    gradient_step,
)


@dataclass(frozen=True)
class AWRConfig(AlgorithmConfig):
    """Settings of AWR."""

    algorithm: ClassVar[str] = "own_algorithm:AWR"
    capabilities = Capabilities(supports_memory=True)  # `advantage_targets` then returns rows in sequences

    lr: Scheduled[PositiveFloat] = 2e-3
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    temperature: PositiveFloat = 0.3  # advantages are divided by it; low = only the best actions count
    max_weight: PositiveFloat = 20.0
    epochs: PositiveInt = 5
    minibatch_size: PositiveInt = 128
    fragment_length: Structural[PositiveInt] = 64
    max_grad_norm: PositiveFloat | None = 0.5
    model: ModelConfig = field(default_factory=ModelConfig)


def awr_loss(outputs: Outputs, batch: Minibatch, cfg: AWRConfig) -> tuple[torch.Tensor, Metrics]:
    """Negated eq. 10 of the paper, and the error of the values (eq. 9)."""
    weight = (batch.advantage / cfg.temperature).exp().clamp(max=cfg.max_weight)
    policy_loss = -(weight * outputs.distribution.log_prob(batch.action)).mean()
    value_loss = (outputs.value - batch.value_target).square().mean()
    entropy = outputs.distribution.entropy().mean()
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "weight": weight.mean()}
    return policy_loss + 0.5 * value_loss, {name: metric.detach() for name, metric in metrics.items()}


class AWR(Algorithm[AWRConfig]):
    """Advantage-weighted regression."""

    saved = ("net", "optimizer", "rng")
    fixed = ("forward",)

    def __init__(self, policy: Policy, cfg: AWRConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.net = ActorCritic(policy, cfg.model, generator)
        self.optimizer = Adam(flatten(self.net.parts), betas=(0.9, 0.999), eps=1e-5)
        self.forward = attach(self.net)
        self.rng = streams.generator(Role.LEARNER, name)

    @property
    def demand(self) -> Demand:
        """Fragments of `fragment_length` consecutive decisions of every slot."""
        return Demand(self.cfg.fragment_length)

    @property
    def rows_per_step(self) -> int:
        """Decisions in a gradient step; the number of threads depends on it."""
        return self.cfg.minibatch_size

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: normalizes advantages, then runs epochs of weighted imitation."""
        cfg, means = self.now(), Means()
        data = advantage_targets(
            self.forward, rollout, rollout.reward, [ValueColumn(cfg.gamma)], gae_lambda=cfg.gae_lambda
        )
        data.advantage.sub_(data.advantage.mean()).div_(data.advantage.std() + 1e-8)
        for _ in range(cfg.epochs):
            for batch in data.shuffled(cfg.minibatch_size, self.rng):
                means.add(gradient_step(self.forward, awr_loss, batch, self.optimizer, cfg))
        self.updates += 1
        return {
            **means.result(),
            "explained_variance": explained_variance(data.value, data.value_target),
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }
