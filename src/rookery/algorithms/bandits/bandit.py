"""The part that linear bandits share: each update adds the decisions of a vector step to the posterior.

The posterior and the choice of actions are in `models/linear_posterior.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeVar

import torch
from annotated_types import Gt, Le
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.core.batch import Rollout, TensorTree, flat, rows_of
from rookery.core.errors import ConfigError
from rookery.core.metrics import Means, Metrics
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Label, Length
from rookery.models.build import ModelConfig
from rookery.models.linear_posterior import FLOAT, PosteriorHead, PosteriorScores
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class BanditConfig(AlgorithmConfig):
    """Settings of every bandit with linear models of the reward."""

    exploration_scale: Scheduled[NonNegative] = 1.0
    """Factor on the posterior's standard deviation in bounds or drawn weights; 0 = no exploration."""
    prior_precision: Structural[PositiveFloat] = 1.0
    """Precision of each weight before any data (lambda of ridge regression). The unit is that of the noise: its
    variance over the variance that weights are expected to have.
    """
    discount: Annotated[float, Gt(0), Le(1)] = 1.0
    """Factor on the weight of all earlier decisions with each step of an environment, for rewards that change over
    time; about 1 / (1 - discount) steps count. 1 = all decisions count alike.
    """
    intercept: Structural[bool] = True
    """Whether a constant 1 is added to the features."""
    arm_features: Structural[Label | None] = None
    """Path of a part of the observation with a row of features for each action, ``[actions, d]``; all actions then
    share the weights of these features. None = each action has its own weights of the whole observation.
    """
    fragment_length: Structural[Length] = 1
    """Consecutive decisions of one slot between two updates."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(), normalize_obs=False))
    """The network below the linear models: by default none, features are the observation itself."""

    @property
    def explore(self) -> Literal["ucb", "thompson"]:
        """Kind of exploration; see `PosteriorScores`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it explores")

    @property
    def head(self) -> PosteriorScores:
        """Head with a posterior."""
        return PosteriorScores(self.explore, self.prior_precision, self.intercept, self.arm_features)


BanditT = TypeVar("BanditT", bound=BanditConfig)


@dataclass(frozen=True)
class Pulls:
    """Decisions with their rewards; all fields ``[N, ...]``.

    Attributes:
        obs: Observations, as the network takes them.
        action: The actions.
        reward: The rewards.
        age: Steps of the environment between each decision and the newest of the update, int64.
    """

    obs: TensorTree
    action: Tensor
    reward: Tensor
    age: Tensor


class Bandit(Algorithm[BanditT]):
    """Base of bandits whose rewards are linear in features.

    Attributes:
        head: The head of the policy, whose posterior is updated in place.
    """

    saved: ClassVar[tuple[str, ...]] = ("means",)
    fixed = ("head",)

    def __init__(self, policy: Policy, cfg: BanditT, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        assert isinstance(policy.head, PosteriorHead)
        self.head = policy.head
        self.means = Means()
        """Metrics of the updates since the last `summary`."""
        self.explore()

    def explore(self) -> None:
        """Sets the scale of exploration by the schedule."""
        self.head.exploration_scale.fill_(self.now().exploration_scale)

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update from the decisions of a rollout."""
        self.update_posterior(self.before_update(self.pulls_of(rollout)), len(rollout.reward))
        self.updates += 1
        self.explore()
        return {}

    def pulls_of(self, rollout: Rollout) -> Pulls:
        """Returns the valid decisions of a rollout."""
        rows, obs = rollout.valid_rows(), self.policy.sights(rollout)[0]
        time = torch.arange(len(rollout.reward) - 1, -1, -1, dtype=torch.int64, device=rollout.reward.device)
        return Pulls(
            obs if rows is None else rows_of(obs, rows),
            flat(rollout.action, rows),
            flat(rollout.reward, rows),
            flat(time.unsqueeze(1).expand_as(rollout.reward), rows),
        )

    @torch.no_grad()
    def update_posterior(self, pulls: Pulls, steps: int) -> None:
        """Adds decisions to the posterior.

        Args:
            pulls: The decisions.
            steps: Steps of each environment since the last update, by which the weight of earlier decisions falls.
        """
        cfg, posterior = self.now(), self.head.posterior
        inputs, model = self.head.chosen(self.head.inputs(self.policy.trunk(pulls.obs)), pulls.action)
        reward, weight = pulls.reward.to(FLOAT), cfg.discount ** pulls.age.to(FLOAT)
        self.note(inputs, model, reward)
        if cfg.discount < 1.0:
            posterior.forget(cfg.discount**steps)
        posterior.add(inputs, model, reward, weight)
        posterior.refresh(model.unique() if cfg.discount == 1.0 else None)

    def note(self, inputs: Tensor, model: Tensor, reward: Tensor) -> None:
        """Records the metrics of decisions before they are added to the posterior."""
        posterior = self.head.posterior
        predicted = (inputs * posterior.mean[model]).sum(-1)
        deviation = (posterior.root[model] @ inputs.unsqueeze(-1)).squeeze(-1).norm(dim=-1)
        found: Metrics = {
            "reward_mean": reward.mean(),
            "prediction_error": (reward - predicted).abs().mean(),
            "posterior_std": deviation.mean(),
        }
        self.means.add(found)

    def summary(self) -> Row:
        """Returns mean metrics of the updates since the last call."""
        row, self.means = self.means.result(), Means()
        return {**row, "exploration_scale": float(self.head.exploration_scale), "updates": self.updates}


@dataclass(frozen=True)
class LinearModelConfig(BanditConfig):
    """Settings of bandits whose rewards are linear in the observation."""

    capabilities = Capabilities(supports_staleness=True, uses_central_obs=False, learns_single_decisions=True)


class LinearModelBandit(Bandit[BanditT]):
    """Base of bandits whose rewards are linear in the observation, which train no network.

    Raises:
        ConfigError: If there are hidden layers, a module of the user or normalized observations, which change while the
            bandit learns.
    """

    def __init__(self, policy: Policy, cfg: BanditT, streams: Streams, name: str) -> None:
        model, algorithm = policy.model, type(self).__name__
        if model.hidden or model.module is not None:
            what = "model.module" if model.module is not None else f"model.hidden = {list(model.hidden)}"
            raise ConfigError(
                f"policies.{name}.{what}: {algorithm} is linear in the observation and does not train a network; leave "
                "it out, or use neural_linear, which does (--algo neural_linear)"
            )
        if policy.normalizer is not None:
            raise ConfigError(
                f"policies.{name}.model.normalize_obs = true: {algorithm} adds up features, which must not change "
                "their unit while it learns; leave it out, and scale observations in the environment"
            )
        super().__init__(policy, cfg, streams, name)
