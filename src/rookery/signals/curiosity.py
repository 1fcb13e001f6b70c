"""Curiosity (Pathak et al. 2017, arXiv:1705.05363): rewards consequences of actions that a forward model did not
predict.

Features of observations are learned by an inverse model, which predicts the action from two successive observations: so
they represent what the agent can influence. A forward model predicts the features of the next observation from those of
the present one and the action; half its squared error is the reward (eq. 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from rookery.core.batch import Decisions, TensorTree
from rookery.core.device import device_of
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, Structural
from rookery.core.settings.reach import Count, Width
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.distributions import Distribution
from rookery.models.heads import distribution_for, output_width
from rookery.models.layers import HIDDEN_GAIN, linear
from rookery.policies.policy import Policy
from rookery.signals.learned import LearnedConfig, LearnedSignal, normalized_spec
from rookery.signals.signal import action_features, action_width


@dataclass(frozen=True)
class CuriosityConfig(LearnedConfig):
    """Settings of curiosity."""

    signal: ClassVar[str] = "rookery.signals.curiosity:Curiosity"

    lr: PositiveFloat = 1e-3
    epochs: Count = 4
    forward_share: Fraction = 0.2
    """Weight of the forward model's loss beside that of the inverse model (beta of eq. 7)."""
    scale: bool = True
    """Whether rewards are divided by the running standard deviation of their returns."""
    largest: PositiveFloat | None = None
    """Largest reward before scaling; none = no limit. ML-Agents has 1 / strength."""
    num_features: Structural[Width] = 64
    """Number of features of an observation."""
    hidden: Structural[Width] = 64
    """Width of the hidden layer of both models."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(activation="relu"))


@dataclass(frozen=True)
class StepBatch:
    """Training batch of curiosity, ``[N, ...]``: successive observations as networks take them, and the action between
    them.
    """

    obs: TensorTree
    next_obs: TensorTree
    action: Tensor
    known: Tensor


@dataclass(frozen=True)
class DynamicsOutput:
    """Outputs of the models: next features and their predictions ``[N, F]``, and the distribution of the action."""

    next_features: Tensor
    expected: Tensor
    between: Distribution


class Dynamics(nn.Module):
    """Features of observations, with a forward and an inverse model on them.

    Args:
        obs: Layout of observations as the trunk takes them.
        action: Layout of actions.
        cfg: Settings.
        generator: Random generator of the weights.
    """

    log_std: Tensor | None

    def __init__(self, obs: ObsSpec, action: ActionSpec, cfg: CuriosityConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.action_spec = action
        self.trunk = build_trunk(obs, cfg.model, generator=generator)
        width, size = self.trunk.num_features, cfg.num_features
        assert isinstance(width, int)

        def layer(inputs: int, outputs: int) -> nn.Linear:
            return linear(inputs, outputs, gain=HIDDEN_GAIN, generator=generator)

        self.last = layer(width, size)
        self.ahead = nn.Sequential(layer(size + action_width(action), cfg.hidden), nn.ReLU(), layer(cfg.hidden, size))
        self.between = nn.Sequential(layer(2 * size, cfg.hidden), nn.ReLU(), layer(cfg.hidden, output_width(action)))
        self.register_buffer(
            "log_std",
            torch.zeros(action.num_numbers, dtype=torch.float32, device="cpu") if action.num_numbers else None,
        )

    def features(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, F]`` of observations ``[N, ...]``."""
        found: Tensor = self.last(self.trunk(obs))
        return found

    def expected(self, features: Tensor, action: Tensor) -> Tensor:
        """Returns the next features ``[N, F]`` that the forward model predicts."""
        found: Tensor = self.ahead(torch.cat((features, action_features(action, self.action_spec)), 1))
        return found

    def forward(self, batch: StepBatch) -> DynamicsOutput:
        """Returns the outputs of both models for each row."""
        features, after = self.features(batch.obs), self.features(batch.next_obs)
        between = distribution_for(self.action_spec, self.between(torch.cat((features, after), 1)), self.log_std, None)
        return DynamicsOutput(after, self.expected(features, batch.action), between)


def dynamics_loss(outputs: DynamicsOutput, batch: StepBatch, cfg: CuriosityConfig) -> tuple[Tensor, Metrics]:
    """Eq. 7 without the policy's part: the forward model's squared error and the inverse model's negative
    log-likelihood (half the squared error for continuous actions), over the rows whose next observation is known.
    """
    known = batch.known.float()
    count = known.sum().clamp(min=1.0)
    forward = (0.5 * (outputs.expected - outputs.next_features).square().sum(1) * known).sum() / count
    inverse = (-outputs.between.log_prob(batch.action) * known).sum() / count
    loss = cfg.forward_share * forward + (1 - cfg.forward_share) * inverse
    return loss, {"forward_loss": forward.detach(), "inverse_loss": inverse.detach()}


class Curiosity(LearnedSignal[CuriosityConfig]):
    """Rewards decisions whose consequences were not predicted; the reward is 0 before the first gradient step.

    Attributes:
        net: The networks.
        has_learned: Whether there was a gradient step.
    """

    episodic = False
    saved = ("net", "has_learned")

    def __init__(self, policy: Policy, cfg: CuriosityConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.net = Dynamics(normalized_spec(policy), policy.action_spec, cfg, self.generator(streams)).to(
            device_of(policy)
        )
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=1e-8)
        self.has_learned = False

    @torch.no_grad()
    def reward(self, seen: Decisions) -> Tensor:
        """Returns half the squared error of the forward model, ``[N]``; 0 where the episode terminated."""
        if not self.has_learned:
            return torch.zeros(len(seen), device=seen.terminated.device, dtype=torch.float32)
        normalize, net = self.policy.normalize, self.net
        expected = net.expected(net.features(normalize(seen.obs)), seen.action)
        error = expected - net.features(normalize(seen.next_obs))
        reward = (0.5 * error.square().sum(1)).masked_fill(seen.terminated, 0.0)
        return reward if self.cfg.largest is None else reward.clamp(max=self.cfg.largest)

    def fit(self, seen: Decisions) -> Metrics:
        """Takes a gradient step of the features and both models."""
        self.has_learned = True
        normalize = self.policy.normalize
        batch = StepBatch(normalize(seen.obs), normalize(seen.next_obs), seen.action, ~seen.terminated)
        return self.improve(self.net, dynamics_loss, batch)
