"""How a policy that knows values of actions explores: buffers of its head say it, and travel with the weights."""

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
"""By how much the strength of parameter noise changes at a time (alpha of Plappert et al. 2018)."""

FIRST_SIGMA = 0.01
MEASURED_ON = 64  # decisions on which disturbed and undisturbed values are compared


@dataclass(frozen=True)
class ExplorationConfig(Settings):
    """How actions are tried out. Evaluation is greedy whatever stands here."""

    kind: Structural[Literal["epsilon", "boltzmann", "noisy", "parameters"]] = "epsilon"
    """``epsilon`` = a random action now and then; ``boltzmann`` = by the softmax of the values; ``noisy`` = layers with
    learned noise (Fortunato et al. 2018); ``parameters`` = disturbed weights (Plappert et al. 2018).
    """

    epsilon: Scheduled[Fraction] = field(default_factory=lambda: Linear(1.0, 0.05, 10_000))
    """Probability of a random action. Of ``parameters``: weights are disturbed so far that actions differ about as much
    as with this.
    """

    per_env_epsilon: Annotated[Structural[NonNegative], FormerName("ladder")] = 0.0
    """Of ``epsilon``, how much less later slots explore: slot i of N has ``epsilon ** (1 + per_env_epsilon * i /
    (N - 1))``; 0 = all explore alike. Ape-X (Horgan et al. 2018) uses 7 with 0.4.
    """

    temperature: Scheduled[PositiveFloat] = 1.0
    """Of ``boltzmann``: what values are divided by."""

    noisy_std: PositiveFloat = 0.5
    """Of ``noisy``: first standard deviation of the noise, in units of one over the root of a layer's inputs."""

    perturb_every: Count = 200
    """Of ``parameters``: decisions from one disturbance to the next."""


class Exploration(Stateful):
    """Sets how actions are tried out: at random now and then, by the softmax of values, or by noisy layers alone.

    Args:
        policy: The policy that learns.

    Attributes:
        head: The policy's head, whose buffers say how actions are drawn, and travel with the weights.
        behaviour: The policy that plays.
        metrics: What is in force.
    """

    saved: ClassVar[tuple[str, ...]] = ("metrics",)
    fixed: ClassVar[tuple[str, ...]] = ("head", "behaviour")

    def __init__(self, policy: Policy) -> None:
        assert isinstance(policy.head, QHead)
        self.head = policy.head
        self.behaviour = policy
        self.metrics: Row = {}

    def at_random(self) -> None:
        """Makes every action alike, until there is something to learn from."""
        self.head.epsilon.fill_(1.0)
        self.head.temperature.fill_(torch.inf)

    def advance(self, cfg: ExplorationConfig, decisions: int, observations: Callable[[int], TensorTree]) -> None:
        """Sets what the settings say.

        Args:
            cfg: Settings, schedules resolved.
            decisions: Decisions made so far.
            observations: Gives so many observations that were seen, as the trunk takes them.
        """
        if cfg.kind == "boltzmann":
            self.head.temperature.fill_(cfg.temperature)
            self.metrics = {"temperature": cfg.temperature}
        elif cfg.kind == "epsilon":
            self.head.epsilon.fill_(cfg.epsilon)
            self.metrics = {"epsilon": cfg.epsilon}
        else:  # the layers make all the noise there is
            self.head.epsilon.fill_(0.0)


class ParameterNoise(Exploration):
    """Lets a network with disturbed weights play, disturbed alike for many decisions (Plappert et al. 2018).

    The strength of the noise grows or shrinks, so that the softmax of its values is about as far from that of the
    undisturbed ones as a policy with epsilon is from the greedy one: ``-log(1 - epsilon + epsilon / A)``.

    Args:
        policy: The policy that learns.
        weights: The weights of its head, then its trunk, as one vector.
        rng: Generator that draws the noise.

    Attributes:
        sigma: Standard deviation of the noise.
        noise: What is added to the weights, in standard deviations.
        drawn_at: Decisions made when it was drawn.
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
        """Makes every action alike."""
        for policy in (self.policy, self.behaviour):
            _head(policy).epsilon.fill_(1.0)

    def advance(self, cfg: ExplorationConfig, decisions: int, observations: Callable[[int], TensorTree]) -> None:
        """Disturbs the weights as they are by now; from time to time by other noise, of a strength that fits better."""
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
        """Makes the noise stronger if it changes too little, weaker if too much.

        Args:
            obs: Observations ``[N, ...]`` on which to compare, as the trunk takes them.
            epsilon: Of the policy that strays as far as is wanted.
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
