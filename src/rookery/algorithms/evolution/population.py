"""The part that evolution strategies share: candidates play whole episodes, and their returns make one step.

An update sees one number for each candidate, the mean return of its episodes. How candidates act is in
`models/candidates.py` and `rollout/candidates.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.core.batch import Demand, Rollout
from rookery.core.flat import Flat, flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Optimizer, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Few
from rookery.models.build import ModelConfig
from rookery.models.candidates import CandidateHead, direction, perturbed_modules, weight_vector
from rookery.policies.policy import Policy

FRAGMENT = 128
"""Decisions of a fragment in the rollout. It only affects memory."""


@dataclass(frozen=True)
class EvolutionConfig(AlgorithmConfig):
    """Settings of every evolution strategy."""

    lr: Scheduled[PositiveFloat] = 0.01
    """Step size."""
    num_directions: Structural[Few] = 16
    """Directions of a generation; a candidate is evaluated on both sides of the weights along each."""
    episodes_per_candidate: Structural[Few] = 1
    """Episodes that each candidate plays; their mean return counts."""
    noise_std: Scheduled[PositiveFloat] = 0.05
    """Standard deviation of a candidate's weights around the learned ones."""
    weight_decay: NonNegative = 0.0
    """Weight of half the squared norm of the weights, which is subtracted from what is maximized."""
    max_grad_norm: PositiveFloat | None = None
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""

    @property
    def head(self) -> CandidateHead:
        """Head with the seed of the candidates."""
        return CandidateHead(self.num_directions, self.episodes_per_candidate)


EvolutionT = TypeVar("EvolutionT", bound=EvolutionConfig)


@dataclass(frozen=True)
class CandidateReturns:
    """Results of a generation.

    Attributes:
        returns: ``[2 * num_directions]`` mean undiscounted return of each candidate.
    """

    returns: Tensor


@dataclass(frozen=True)
class Ascent:
    """Data of a step.

    Attributes:
        estimate: ``[W]`` estimated gradient of the return.
    """

    estimate: Tensor


def ascent_loss(weights: Tensor, batch: Ascent, cfg: EvolutionConfig) -> tuple[Tensor, Metrics]:
    """A function of the weights ``[W]`` whose gradient is the negated estimate, plus the decay of the weights."""
    decay = 0.5 * cfg.weight_decay * weights.square().sum()
    return decay - weights @ batch.estimate, {"weight_norm": weights.detach().norm()}


def returns_of(rollout: Rollout, candidates: int, episodes: int) -> Tensor:
    """Returns the mean return of each candidate's episodes, ``[candidates]``.

    Args:
        rollout: A generation, as `CandidatePolicy` records it: `logp` is the number of the candidate.
        candidates: Candidates.
        episodes: Episodes of each.
    """
    counts = rollout.valid & ~rollout.logp.isnan()
    returns = torch.zeros(candidates, device=rollout.reward.device, dtype=torch.float64)
    returns.index_add_(0, rollout.logp[counts].long(), rollout.reward[counts].double())
    return (returns / episodes).float()


class Evolution(Algorithm[EvolutionT]):
    """Base of evolution strategies; a subclass defines `make_optimizer` and `estimate`."""

    saved = ("optimizer",)
    fixed: ClassVar[tuple[str, ...]] = ("spec", "_modules")

    def __init__(self, policy: Policy, cfg: EvolutionT, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.spec = cfg.head
        self._modules = perturbed_modules(policy.trunk, policy.head)
        self.optimizer = self.make_optimizer(flatten(self._modules))
        policy.head.seed.fill_(streams.integer(Role.LEARNER, name))
        self.explore()

    @abstractmethod
    def make_optimizer(self, flat: Flat) -> Optimizer:
        """Makes the optimizer of the weights."""

    @abstractmethod
    def direction_weights(self, returns: Tensor, cfg: EvolutionT) -> Tensor:
        """Returns the weight of each direction in the estimated gradient, ``[num_directions]``.

        Args:
            returns: ``[num_directions, 2]`` of the candidates on both sides of each direction.
            cfg: The settings, schedules resolved.
        """

    @property
    def demand(self) -> Demand:
        """A generation: the worker hands it over once each candidate has played its episodes."""
        return Demand(FRAGMENT)

    def explore(self) -> None:
        """Begins the next generation of candidates."""
        self.policy.head.generation.fill_(self.updates)
        self.policy.head.noise_std.fill_(self.now().noise_std)

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update from the returns of a generation."""
        cfg = self.now()
        found = CandidateReturns(returns_of(rollout, self.spec.candidates, self.spec.episodes))
        returns = self.before_update(found).returns
        ascent = Ascent(self.estimate(self.direction_weights(returns.view(-1, 2), cfg)))
        made = gradient_step(self.current_weights, ascent_loss, ascent, self.optimizer, cfg)
        self.updates += 1
        noise_std = float(self.policy.head.noise_std)
        self.explore()
        return {
            "candidate_return_mean": float(returns.mean()),
            "candidate_return_std": float(returns.std(correction=0)),
            "candidate_return_max": float(returns.max()),
            **{name: float(value) for name, value in made.items()},
            "noise_std": noise_std,
            "lr": cfg.lr,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    def current_weights(self, batch: Ascent) -> Tensor:
        """Returns the learned weights ``[W]``, with their gradient."""
        return weight_vector(self._modules)

    def estimate(self, weights: Tensor) -> Tensor:
        """Returns the sum of the generation's directions ``[W]``, each times its weight ``[num_directions]``."""
        head, summed = self.policy.head, torch.zeros_like(self.optimizer.flat.data)
        for number, weight in enumerate(weights.tolist()):
            if weight:
                summed.add_(direction(int(head.seed), int(head.generation), number, summed), alpha=weight)
        return summed
