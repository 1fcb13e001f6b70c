"""Random network distillation (Burda et al. 2018, arXiv:1810.12894): prediction error as novelty.

A fixed network of random weights maps observations to features; another one learns to predict these. Its error is small
for observations that it has often seen, and large for new ones. The reward is that error on the next observation, over
the running standard deviation of its returns, which continue through the ends of episodes (section 2.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rookery.core.batch import Decisions, TensorTree
from rookery.core.device import device_of
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, Structural
from rookery.core.settings.reach import Count, Width
from rookery.core.spaces.arrays import ObsSpec
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.layers import HIDDEN_GAIN, linear
from rookery.models.structure import Inputs, Structure, Tower
from rookery.policies.normalize import ObsNormalizer
from rookery.policies.policy import Policy
from rookery.signals.learned import LearnedConfig, LearnedSignal

CLIP = 5.0
"""Largest magnitude of a normalized value, in standard deviations (section 2.4)."""


@dataclass(frozen=True)
class RNDConfig(LearnedConfig):
    """Settings of random network distillation."""

    signal: ClassVar[str] = "rookery.signals.rnd:RND"

    lr: PositiveFloat = 1e-3
    epochs: Count = 4
    share: Fraction = 0.25
    scale: bool = True
    """Whether rewards are divided by the running standard deviation of their returns."""
    num_features: Structural[Width] = 64
    """Number of predicted features."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(activation="relu"))


@dataclass(frozen=True)
class FeatureBatch:
    """Training batch of the predictor: observations ``[N, ...]`` as it takes them, and features ``[N, F]``."""

    obs: TensorTree
    target: Tensor


class FeatureNet(nn.Module):
    """Maps observations to features.

    Args:
        obs: Layout of the observations.
        cfg: Settings of the trunk.
        num_features: F.
        generator: Random generator of the weights.
    """

    def __init__(self, obs: ObsSpec, cfg: ModelConfig, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.model = cfg
        self.trunk = build_trunk(obs, cfg, generator=generator)
        width = self.trunk.num_features
        assert isinstance(width, int)
        self.last = linear(width, num_features, gain=HIDDEN_GAIN, generator=generator)

    def forward(self, batch: FeatureBatch) -> Tensor:
        """Returns features ``[N, F]``."""
        return self.features(batch.obs)

    def features(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, F]`` of observations ``[N, ...]``."""
        found: Tensor = self.last(self.trunk(obs))
        return found

    def structure(self) -> Structure:
        """Returns the structure of `forward`."""
        return Structure((Tower(self.trunk, (self.last,)),), self.model, _inputs, _outputs)


def _inputs(batch: FeatureBatch) -> Inputs:
    return Inputs(batch.obs)


def _outputs(parts: list[Tensor], batch: FeatureBatch) -> Tensor:
    return parts[0]


def prediction_loss(features: Tensor, batch: FeatureBatch, cfg: RNDConfig) -> tuple[Tensor, Metrics]:
    """Returns the mean squared error of predicted features."""
    loss = (features - batch.target).square().mean()
    return loss, {"loss": loss.detach()}


def prediction_gradient(features: Tensor, batch: FeatureBatch, cfg: RNDConfig) -> OutputGradients:
    """Returns the gradient of `prediction_loss` with respect to the features ``[N, F]``, and its metrics."""
    error = features - batch.target
    return [error * (2 / error.numel())], {"loss": error.square().mean()}


PREDICTION = ClosedForm(prediction_loss, prediction_gradient)


class RND(LearnedSignal[RNDConfig]):
    """Rewards the next observation by the prediction error of its random features.

    Attributes:
        normalizer: Running mean and standard deviation of observations.
        target: The fixed network of random weights.
        predictor: The network that learns.
    """

    episodic = False
    saved = ("normalizer", "target", "predictor")
    fixed = ("forward",)

    def __init__(self, policy: Policy, cfg: RNDConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator, device = self.generator(streams), device_of(policy)
        self.normalizer = ObsNormalizer(policy.own_spec, CLIP, policy.model.entities).to(device)
        layout = self.normalizer.spec, cfg.model, cfg.num_features, generator
        self.target = FeatureNet(*layout).to(device).requires_grad_(False)
        self.predictor = FeatureNet(*layout).to(device)
        self.optimizer = Adam(flatten([self.predictor]), betas=(0.9, 0.999), eps=1e-8)
        self.forward: Callable[[Any], Any] = self.predictor

    def attach(self, attach: Callable[[Any], Any]) -> None:
        """Runs the predictor on kernels if supported."""
        self.forward = attach(self.predictor)

    def observe(self, played: Decisions) -> None:
        """Updates the running statistics."""
        self.normalizer.update(played.obs)

    @torch.no_grad()
    def reward(self, seen: Decisions) -> Tensor:
        """Returns the mean squared error of predicted features, ``[N]``; 0 where the episode terminated."""
        obs = self.normalizer(seen.next_obs)
        error = self.target.features(obs) - self.predictor.features(obs)
        return error.square().mean(1).masked_fill(seen.terminated, 0.0)

    def learn(self, seen: Decisions) -> None:
        """Takes the gradient steps of an update; the target features are computed once."""
        obs, target = self._known(seen)
        for rows in self.parts(len(seen)):
            part = {path: leaf.index_select(0, rows) for path, leaf in obs.items()}
            self.means.add(self._predict(FeatureBatch(part, target.index_select(0, rows))))

    def fit(self, seen: Decisions) -> Metrics:
        """Takes a gradient step of the predictor on the decisions' observations."""
        return self._predict(FeatureBatch(*self._known(seen)))

    @torch.no_grad()
    def _known(self, seen: Decisions) -> tuple[TensorTree, Tensor]:
        """Returns normalized observations and their features in the fixed network."""
        obs = self.normalizer(seen.obs)
        return obs, self.target.features(obs)

    def _predict(self, batch: FeatureBatch) -> Metrics:
        return self.improve(self.forward, prediction_loss, batch, PREDICTION)
