"""Posteriors of linear rewards, and the head of policies that explore with them (bandits).

The weights of an arm are normal with mean ``A^-1 b`` and covariance ``A^-1``, where A is the prior's precision times
the identity, plus the sum of the outer products of features, and b the sum of rewards times features: ridge regression
(Li et al. 2010, arXiv:1003.0146, section 3.1; Agrawal and Goyal 2013, arXiv:1209.3352, section 2.2). The sums are
buffers in float64, from which the Cholesky factor of A is computed anew after each change, so errors do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from rookery.core.errors import ConfigError, SpaceError, nearest
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.models.build import ModelConfig
from rookery.models.cells.base import Memory
from rookery.models.distributions import NoiseSpec
from rookery.models.heads import Head, HeadSpec
from rookery.models.q_head import EpsilonGreedy

FLOAT = torch.float64


class LinearPosterior(nn.Module):
    """Posterior of the weights of K linear models.

    Args:
        models: K.
        size: d, width of the features.
        prior_precision: Precision of each weight before any data; the variance of the rewards' noise is 1.

    Attributes:
        outer: ``[K, d, d]`` weighted sum of the outer products of features.
        moment: ``[K, d]`` weighted sum of rewards times features.
        mean: ``[K, d]`` of the weights.
        root: ``[K, d, d]`` inverse of the lower Cholesky factor of A, so ``root^T root`` is the covariance.
    """

    outer: Tensor
    moment: Tensor
    mean: Tensor
    root: Tensor

    def __init__(self, models: int, size: int, prior_precision: float) -> None:
        super().__init__()
        self.prior_precision = prior_precision
        identity = torch.eye(size, dtype=FLOAT, device="cpu")
        self.register_buffer("outer", torch.zeros(models, size, size, dtype=FLOAT, device="cpu"))
        self.register_buffer("moment", torch.zeros(models, size, dtype=FLOAT, device="cpu"))
        self.register_buffer("mean", torch.zeros(models, size, dtype=FLOAT, device="cpu"))
        self.register_buffer("root", (identity / prior_precision**0.5).repeat(models, 1, 1))

    def forget(self, keep: float) -> None:
        """Multiplies the weight of all decisions so far; `add` follows."""
        self.outer.mul_(keep)
        self.moment.mul_(keep)

    def add(self, features: Tensor, model: Tensor, reward: Tensor, weight: Tensor) -> None:
        """Adds decisions to the sums; `refresh` follows.

        Args:
            features: ``[N, d]`` float64.
            model: ``[N]`` int64, the model of each decision.
            reward: ``[N]`` float64.
            weight: ``[N]`` float64, weight of each decision.
        """
        for number in model.unique().tolist():
            rows = (model == number).nonzero().squeeze(1)
            own = features[rows]
            weighted = (own * weight[rows].unsqueeze(1)).T
            self.outer[number] += weighted @ own
            self.moment[number] += weighted @ reward[rows]

    def refresh(self, models: Tensor | None = None) -> None:
        """Computes means and factors from the sums.

        Args:
            models: Numbers of the models that have changed, int64; None = all.
        """
        chosen = slice(None) if models is None else models
        outer = self.outer[chosen]
        identity = torch.eye(outer.shape[-1], dtype=FLOAT, device=outer.device)
        factor = torch.linalg.cholesky(outer + self.prior_precision * identity)
        root = torch.linalg.solve_triangular(factor, identity, upper=False)
        self.root[chosen] = root
        self.mean[chosen] = (root.mT @ (root @ self.moment[chosen].unsqueeze(-1))).squeeze(-1)


@dataclass(frozen=True)
class PosteriorScores(HeadSpec):
    """Spec of a head that scores the actions of a Discrete space, the arms, by a posterior of their rewards.

    Attributes:
        explore: Kind of exploration: by upper confidence bounds, or by drawn weights (Thompson sampling).
        prior_precision: See `LinearPosterior`.
        intercept: Whether a constant 1 is added to the features.
        arm_features: Path of an observation leaf ``[arms, d]`` with the features of each arm, for which all arms share
            one model; None = each arm has its own model of the whole observation.
    """

    explore: Literal["ucb", "thompson"]
    prior_precision: float = 1.0
    intercept: bool = True
    arm_features: str | None = None

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Builds the body below the head, which reads `arm_features` alone if they are set; see `HeadSpec.body`."""
        if self.arm_features is not None:
            obs = ObsSpec(obs.space, (self._arms_leaf(obs, action),))
        return super().body(obs, action, model, generator=generator)

    def _arms_leaf(self, obs: ObsSpec, action: ActionSpec) -> Leaf:
        leaves = {leaf.path: leaf for leaf in obs.leaves if leaf.kind != "mask"}
        found = leaves.get(self.arm_features or "")
        if found is None:
            raise ConfigError(
                f"arm_features = {self.arm_features!r}: the observation has no such part"
                f"{nearest(str(self.arm_features), list(leaves))}; it has {', '.join(leaves)}"
            )
        if found.kind != "box" or len(found.shape) != 2 or found.shape[0] != sum(action.sizes):
            raise ConfigError(
                f"arm_features = {self.arm_features!r}: this part is a {found.kind} of shape {found.shape}; it must be "
                f"a box of shape ({sum(action.sizes)}, d), a row for each action; leave arm_features out if actions "
                "have no features"
            )
        return found

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> PosteriorHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        if action.kind != "discrete":
            raise SpaceError(
                f"bandits choose from a Discrete action space, not {action.space}; ppo supports all spaces"
            )
        return PosteriorHead(num_features, action, self)

    @property
    def greedy(self) -> HeadSpec:
        """See `HeadSpec.greedy`."""
        return replace(self, explore="ucb")


class PosteriorHead(Head):
    """Head that scores arms by the mean of their reward, and explores by the posterior.

    Args:
        num_features: Width of its input: the context, or the features of all arms, one arm after the other.
        action: Layout of the actions.
        spec: Its spec.

    Attributes:
        posterior: The posterior, of one model for each arm or one for all.
        exploration_scale: Standard deviations of the posterior by which scores are raised (UCB), or by which the
            standard deviation of drawn weights is multiplied (Thompson sampling); a buffer.
    """

    exploration_scale: Tensor
    epsilon: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: PosteriorScores) -> None:
        super().__init__()
        self.action_spec = action
        self.spec = spec
        self.num_arms = sum(action.sizes)
        self.shared = spec.arm_features is not None
        size = (num_features // self.num_arms if self.shared else num_features) + spec.intercept
        self.posterior = LinearPosterior(1 if self.shared else self.num_arms, size, spec.prior_precision)
        self.register_buffer("exploration_scale", torch.ones((), dtype=FLOAT, device="cpu"))
        self.register_buffer("epsilon", torch.zeros((), dtype=torch.float32, device="cpu"), persistent=False)
        if spec.explore == "ucb":
            self.noise = NoiseSpec(uniform=self.num_arms)
        else:
            self.noise = NoiseSpec(normal=size if self.shared else self.num_arms)

    def inputs(self, features: Tensor) -> Tensor:
        """Returns what models are linear in, float64: ``[N, d]``, or ``[N, arms, d]`` where arms share one model."""
        x = features.to(FLOAT)
        x = x.unflatten(-1, (self.num_arms, -1)) if self.shared else x
        return torch.cat((x, x.new_ones(*x.shape[:-1], 1)), -1) if self.spec.intercept else x

    def chosen(self, inputs: Tensor, arm: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the inputs of the chosen arms ``[N, d]`` and the numbers of their models ``[N]``.

        Args:
            inputs: Result of `inputs`.
            arm: ``[N]`` int64.
        """
        if self.shared:
            return inputs[torch.arange(len(arm), dtype=torch.int64, device=arm.device), arm], torch.zeros_like(arm)
        return inputs, arm

    def means(self, inputs: Tensor) -> Tensor:
        """Returns the mean reward of each arm, ``[N, arms]``."""
        mean = self.posterior.mean
        return inputs @ mean[0] if self.shared else inputs @ mean.T

    def whitened(self, inputs: Tensor) -> Tensor:
        """Returns vectors ``[N, arms, d]`` whose norm is the posterior's standard deviation of the mean reward."""
        root = self.posterior.root
        if self.shared:
            return inputs @ root[0].T
        models, size, _ = root.shape
        return (inputs @ root.flatten(0, 1).T).view(-1, models, size)

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> EpsilonGreedy:
        """Returns the choice of the arm with the highest mean reward; arguments as of `Head.forward`."""
        return EpsilonGreedy(self.means(self.inputs(features)).float(), self.epsilon, mask)

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions ``[N]`` and their log-probabilities, 0: those given the drawn weights.

        Scores are bounds, the best of equal ones at random; or rewards by drawn weights. As models of arms are
        independent, the rewards of a row are drawn directly from their normal distribution.
        """
        inputs = self.inputs(features)
        whitened, scale = self.whitened(inputs), self.exploration_scale
        if self.spec.explore == "ucb":
            raised = whitened.norm(dim=-1)
        elif self.shared:
            raised = (whitened @ noise.to(FLOAT).unsqueeze(-1)).squeeze(-1)
        else:
            raised = whitened.norm(dim=-1) * noise
        scores = self.means(inputs) + scale * raised
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        if self.spec.explore == "ucb":
            scores = torch.where(scores == scores.amax(-1, keepdim=True), noise, -1.0)
        return scores.argmax(-1), torch.zeros(len(scores), dtype=torch.float32, device=scores.device)
