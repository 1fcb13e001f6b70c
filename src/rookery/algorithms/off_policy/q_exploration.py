"""Exploration of policies with action values: buffers of the head control it, and are copied with the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Row
from rookery.core.batch import TensorTree
from rookery.core.flat import flatten
from rookery.core.schedules import Linear
from rookery.core.settings.fields import (
    FormerName,
    Fraction,
    NonNegative,
    PositiveFloat,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.settings.reach import Count
from rookery.core.spaces.arrays import MASK
from rookery.core.state import Stateful
from rookery.models.distributions import Categorical
from rookery.models.q_head import QHead
from rookery.policies.policy import Policy

SIGMA_FACTOR = 1.01
"""Factor by which the strength of parameter noise changes per adaptation (alpha of Plappert et al. 2018)."""

FIRST_SIGMA = 0.01
MEASURED_ON = 64  # decisions on which perturbed and unperturbed values are compared


@dataclass(frozen=True)
class ExplorationConfig(Settings):
    """Exploration while playing. Evaluation is greedy in any case."""

    kind: Structural[Literal["epsilon", "boltzmann", "noisy", "parameters"]] = "epsilon"
    """``epsilon`` = random actions with some probability; ``boltzmann`` = softmax of the values; ``noisy`` = layers
    with learned noise (Fortunato et al. 2018); ``parameters`` = perturbed weights (Plappert et al. 2018).
    """

    epsilon: Scheduled[Fraction] = field(default_factory=lambda: Linear(1.0, 0.05, 10_000))
    """Probability of a random action. Of ``parameters``: weights are perturbed so far that actions differ about as much
    as with this probability.
    """

    per_env_epsilon: Annotated[Structural[NonNegative], FormerName("ladder")] = 0.0
    """Of ``epsilon``: lower exploration of later slots: slot i of N uses ``epsilon ** (1 + per_env_epsilon * i /
    (N - 1))``; 0 = all alike. Ape-X (Horgan et al. 2018) takes 7 with 0.4.
    """

    temperature: Scheduled[PositiveFloat] = 1.0
    """Of ``boltzmann``: divisor of the values."""

    noisy_std: PositiveFloat = 0.5
    """Of ``noisy``: initial standard deviation of the noise, in units of one over the root of a layer's inputs."""

    perturb_every: Count = 200
    """Of ``parameters``: decisions between perturbations."""


class Exploration(Stateful):
    """Controls exploration: random actions, the softmax of values, or noisy layers alone.

    Args:
        policy: The policy that learns.

    Attributes:
        head: The policy's head, whose buffers control how actions are drawn.
        behaviour: The policy that acts.
        metrics: Present values.
    """

    saved: ClassVar[tuple[str, ...]] = ("metrics",)
    fixed: ClassVar[tuple[str, ...]] = ("head", "behaviour")

    def __init__(self, policy: Policy) -> None:
        assert isinstance(policy.head, QHead)
        self.head = policy.head
        self.behaviour = policy
        self.metrics: Row = {}

    def at_random(self) -> None:
        """Makes all actions equally likely until learning starts."""
        self.head.epsilon.fill_(1.0)
        self.head.temperature.fill_(torch.inf)

    def advance(self, cfg: ExplorationConfig, decisions: int, observations: Callable[[int], TensorTree]) -> None:
        """Sets exploration by the settings.

        Args:
            cfg: Settings, schedules resolved.
            decisions: Decisions made so far.
            observations: Function that draws stored observations, as the trunk takes them.
        """
        if cfg.kind == "boltzmann":
            self.head.temperature.fill_(cfg.temperature)
            self.metrics = {"temperature": cfg.temperature}
        elif cfg.kind == "epsilon":
            self.head.epsilon.fill_(cfg.epsilon)
            self.metrics = {"epsilon": cfg.epsilon}
        else:  # noisy layers explore alone
            self.head.epsilon.fill_(0.0)


class ParameterNoise(Exploration):
    """Makes a network with perturbed weights act, with the same noise for many decisions (Plappert et al. 2018).

    The strength of the noise adapts, so that the softmax of its values is about as far from that of the unperturbed
    ones as an epsilon-greedy policy is from the greedy one: ``-log(1 - epsilon + epsilon / A)``.

    Args:
        policy: The policy that learns.
        weights: The weights of its head, then its trunk, as one vector.
        rng: Generator that draws the noise.

    Attributes:
        sigma: Standard deviation of the noise.
        noise: Noise on the weights, in standard deviations.
        drawn_at: Decisions made when the noise was drawn.
    """

    saved = ("sigma", "noise", "drawn_at", "behaviour")
    fixed = ("policy", "weights", "disturbed", "rng")

    def __init__(self, policy: Policy, weights: Tensor, rng: np.random.Generator) -> None:
        super().__init__(policy)
        self.policy = policy
        self.behaviour = copy.deepcopy(policy, {id(policy.normalizer): policy.normalizer})  # statistics are shared
        self.weights = weights
        self.disturbed = flatten([self.behaviour.head, self.behaviour.trunk]).data
        self.rng = rng
        self.sigma = FIRST_SIGMA
        self.noise = torch.zeros_like(self.weights)
        self.drawn_at: int | None = None

    def at_random(self) -> None:
        """Makes all actions equally likely."""
        for policy in (self.policy, self.behaviour):
            _head(policy).epsilon.fill_(1.0)

    def advance(self, cfg: ExplorationConfig, decisions: int, observations: Callable[[int], TensorTree]) -> None:
        """Perturbs the present weights; draws new noise from time to time and adapts its strength."""
        if self.drawn_at is None or decisions - self.drawn_at >= cfg.perturb_every:
            if self.drawn_at is not None:
                self.adapt(observations(MEASURED_ON), cfg.epsilon)
            noise = self.rng.standard_normal(len(self.weights), dtype=np.float32)
            self.noise.copy_(torch.from_numpy(noise))
            self.drawn_at = decisions
        torch.add(self.weights, self.noise, alpha=self.sigma, out=self.disturbed)
        for policy in (self.policy, self.behaviour):
            _head(policy).epsilon.fill_(0.0)
        self.metrics = {**self.metrics, "sigma": self.sigma}

    @torch.no_grad()
    def adapt(self, obs: TensorTree, epsilon: float) -> None:
        """Makes the noise stronger if it changes actions too little, weaker if too much.

        Args:
            obs: Observations ``[N, ...]`` for the comparison, as the trunk takes them.
            epsilon: Epsilon of the policy that differs by the wanted amount.
        """
        mask = obs.get(MASK)
        mine, its = (Categorical(_q(policy, obs), mask) for policy in (self.policy, self.behaviour))
        distance = float(mine.kl(its).mean())
        wanted = -math.log(1 - epsilon + epsilon / mine.log_probs.shape[1])
        self.sigma *= SIGMA_FACTOR if distance <= wanted else 1 / SIGMA_FACTOR
        self.metrics = {"noise_kl": distance}


def _head(policy: Policy) -> QHead:
    assert isinstance(policy.head, QHead)
    return policy.head


def _q(policy: Policy, obs: TensorTree) -> Tensor:
    head = _head(policy)
    return head.q_from(head.values(policy.trunk(obs)))
