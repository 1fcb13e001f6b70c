"""Neural-linear bandits (Riquelme et al. 2018, arXiv:1802.09127, section 4): Thompson sampling with linear models on
the features of a network, which learns to predict rewards.

The details that decide are in docs/algorithms/neural_linear.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.bandits.bandit import Bandit, BanditConfig, Pulls
from rookery.algorithms.bandits.pull_history import PullHistory
from rookery.algorithms.capabilities import Capabilities
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Rows
from rookery.models.build import ModelConfig
from rookery.models.layers import linear
from rookery.models.linear_posterior import FLOAT
from rookery.policies.policy import Policy

NOISE_PRIOR = 6.0
"""Both parameters of the inverse gamma distribution of the noise's variance before any data."""


@dataclass(frozen=True)
class NeuralLinearConfig(BanditConfig):
    """Settings of neural-linear. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.bandits.neural_linear:NeuralLinear"
    capabilities = Capabilities(uses_central_obs=False, learns_single_decisions=True)
    field_order = (
        "lr train_every gradient_steps batch_size history_size exploration_scale prior_precision discount intercept "
        "arm_features fragment_length max_grad_norm adam_eps model"
    )

    prior_precision: Structural[PositiveFloat] = 0.25
    lr: Scheduled[PositiveFloat] = 1e-3
    """Learning rate of Adam."""
    train_every: Count = 50
    """Number of decisions, over all slots, between two trainings of the network."""
    gradient_steps: Count = 100
    """Gradient steps of a training."""
    batch_size: Rows = 256
    """Number of decisions in a gradient step."""
    history_size: Structural[Rows] = 100_000
    """Most decisions that are kept to learn from; the oldest ones are overwritten."""
    max_grad_norm: PositiveFloat | None = 10.0
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(64, 64), activation="relu"))
    """The network; its last layer's outputs are the features."""

    @property
    def explore(self) -> Literal["thompson"]:
        """By drawn weights."""
        return "thompson"


def reward_loss(predicted: Tensor, batch: Pulls, cfg: NeuralLinearConfig) -> tuple[Tensor, Metrics]:
    """Half the mean squared error of the predicted rewards ``[N, arms]`` of the actions taken."""
    error = predicted.gather(1, batch.action.unsqueeze(1)).squeeze(1) - batch.reward
    loss = 0.5 * error.square().mean()
    return loss, {"loss": loss.detach()}


class NeuralLinear(Bandit[NeuralLinearConfig]):
    """The algorithm: posteriors follow each decision, the network is trained from time to time.

    Rewards are learned in units of their standard deviation among the decisions kept, as of the last training. The
    standard deviation of their noise follows from the errors of the linear models (their equation 2, with `NOISE_PRIOR`
    for a and b), for all arms together.

    Attributes:
        output: Layer from the features to the reward of each arm, for training the network.
        history: The decisions to train with.
        fresh: Decisions since the last training.
        reward_std: Unit of rewards.
        noise_std: Standard deviation of the noise in this unit.
    """

    saved = ("output", "optimizer", "history", "rng", "fresh", "reward_std", "noise_std")

    def __init__(self, policy: Policy, cfg: NeuralLinearConfig, streams: Streams, name: str) -> None:
        self.reward_std = self.noise_std = 1.0
        super().__init__(policy, cfg, streams, name)
        if not cfg.model.hidden and cfg.model.module is None:
            raise ConfigError(
                f"policies.{name}.model.hidden = []: neural_linear trains a network; give it layers, or use lints"
            )
        if cfg.arm_features is not None:
            raise ConfigError(
                f"policies.{name}.arm_features = {cfg.arm_features!r}: neural_linear has weights for each action; "
                "leave it out, or use lints, which shares weights among actions with features"
            )
        generator = torch.Generator().manual_seed(streams.integer(Role.LEARNER, name))
        self.output: nn.Module = linear(policy.num_features, self.head.num_arms, gain=1.0, generator=generator)
        self.optimizer = Adam(flatten([policy.trunk, self.output]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.history = PullHistory(cfg.history_size)
        self.rng: np.random.Generator = streams.generator(Role.LEARNER, name)
        self.fresh = 0

    def explore(self) -> None:
        """Sets the scale of exploration by the schedule, in units of the noise."""
        self.head.exploration_scale.fill_(self.now().exploration_scale * self.noise_std)

    def update_posterior(self, pulls: Pulls, steps: int) -> None:
        """Adds decisions to posterior and history; trains the network if it is time, and then computes the posterior
        again with its new features.
        """
        self.history.add(pulls, steps)
        self.fresh += len(pulls.action)
        if self.fresh < self.cfg.train_every:
            super().update_posterior(replace(pulls, reward=pulls.reward / self.reward_std), steps)
            return
        self.fresh = 0
        self.train_network()
        self.refit()

    def train_network(self) -> None:
        """Makes the gradient steps of a training."""
        cfg = self.now()
        deviation = float(self.history.rewards.std(correction=0))
        self.reward_std = deviation or 1.0
        for _ in range(cfg.gradient_steps):
            batch = self.history.draw(cfg.batch_size, self.rng)
            batch = replace(batch, reward=batch.reward / self.reward_std)
            self.means.add(gradient_step(self.predict, reward_loss, batch, self.optimizer, cfg))

    def predict(self, batch: Pulls) -> Tensor:
        """Returns the network's prediction of each arm's reward, ``[N, arms]``."""
        predicted: Tensor = self.output(self.policy.trunk(batch.obs))
        return predicted

    @torch.no_grad()
    def refit(self) -> None:
        """Computes the posterior from all decisions kept."""
        cfg, posterior = self.now(), self.head.posterior
        posterior.forget(0.0)
        squares = count = 0.0
        for pulls in self.history.parts():
            inputs = self.head.inputs(self.policy.trunk(pulls.obs))
            reward = pulls.reward.to(FLOAT) / self.reward_std
            weight = cfg.discount ** pulls.age.to(FLOAT)
            posterior.add(inputs, pulls.action, reward, weight)
            squares, count = squares + float(weight @ reward.square()), count + float(weight.sum())
        posterior.refresh()
        explained = float((posterior.mean * posterior.moment).sum())
        variance = (NOISE_PRIOR + (squares - explained) / 2) / (NOISE_PRIOR - 1 + count / 2)
        self.noise_std = variance**0.5
