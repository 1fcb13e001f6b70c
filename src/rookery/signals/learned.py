"""Shared base of learned signals: own networks, an optimizer, and the number of gradient steps per update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Decisions
from rookery.core.metrics import Means, Metrics
from rookery.core.optim import Adam, ClosedForm, gradient_step
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, Structural
from rookery.core.settings.reach import Count
from rookery.core.spaces.arrays import ObsSpec
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.signals.signal import Report, RewardSignal, SignalConfig


@dataclass(frozen=True)
class LearnedConfig(SignalConfig):
    """Settings shared by all learned signals."""

    lr: PositiveFloat = 3e-4
    """Learning rate of the signal's Adam optimizer."""
    max_grad_norm: PositiveFloat | None = None
    """Largest norm of the gradient; longer ones are scaled down. None = no limit."""
    epochs: Count = 1
    """Passes over the rollout in an update (on-policy algorithms)."""
    minibatches: Count = 4
    """Number of minibatches, and gradient steps, in a pass."""
    share: Fraction = 1.0
    """Share of the decisions to learn from, sampled anew in each pass."""
    updates_per_step: PositiveFloat = 1.0
    """For algorithms with replay: gradient steps per gradient step of the policy, on the same decisions; 0.25 = one for
    every four.
    """
    model: Structural[ModelConfig] = field(default_factory=ModelConfig)
    """Networks of the signal; memory and action settings have no effect."""


LearnedT = TypeVar("LearnedT", bound=LearnedConfig)


class LearnedSignal(RewardSignal[LearnedT]):
    """Base of signals that learn by gradient steps.

    A subclass sets `optimizer` and defines `fit`.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("means", "optimizer", "due")
    optimizer: Adam

    def __init__(self, policy: Policy, cfg: LearnedT, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.means = Means()
        """Metrics of gradient steps since the last `summary`."""
        self.due = 0.0
        """Fraction of a gradient step on replay samples that is carried over, less than 1 between two draws."""

    def fit(self, seen: Decisions) -> Metrics:
        """Takes one gradient step; returns the metrics of its loss."""
        raise NotImplementedError

    def improve(
        self,
        forward: Callable[[Any], Any],
        loss: Callable[..., tuple[Tensor, Metrics]],
        batch: Any,
        closed_form: ClosedForm | None = None,
    ) -> Metrics:
        """Takes a gradient step on a loss; arguments as in `gradient_step`."""
        return gradient_step(forward, loss, batch, self.optimizer, self.cfg, closed_form)

    def learn(self, seen: Decisions) -> None:
        """Takes the gradient steps of an update."""
        for rows in self.parts(len(seen)):
            self.means.add(self.fit(seen.at(rows)))

    def learn_drawn(self, seen: Decisions) -> None:
        """Takes the gradient steps that belong to one gradient step of the policy."""
        self.due += self.cfg.updates_per_step
        while self.due >= 1.0:
            self.due -= 1.0
            (rows,) = shuffled_minibatches(len(seen), 1, self.rng, self.cfg.share)
            self.means.add(self.fit(seen.at(rows)))

    def parts(self, number: int) -> Iterator[Tensor]:
        """Yields the rows ``[n]`` of each gradient step of an update on `number` decisions."""
        for _ in range(self.cfg.epochs):
            yield from shuffled_minibatches(number, self.cfg.minibatches, self.rng, self.cfg.share)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds `due` = 0 to states of version 1, which precede `updates_per_step`."""
        return {"due": 0.0, **state}

    def summary(self) -> Report:
        """Returns the mean metrics of gradient steps."""
        row, self.means = self.means.result(), Means()
        return dict(row)


def shuffled_minibatches(number: int, parts: int, rng: np.random.Generator, share: float) -> tuple[Tensor, ...]:
    """Splits row indices in random order into near-equal parts that are not empty.

    Args:
        number: Number of rows.
        parts: Number of parts, if there are enough rows.
        rng: Source of the order.
        share: Share of the rows to use; at least one is used.
    """
    count = max(round(share * number), 1)
    return torch.from_numpy(rng.permutation(number)[:count]).tensor_split(min(parts, count))


def normalized_spec(policy: Policy) -> ObsSpec:
    """Returns the layout of observations of `Policy.normalize`, without those for critics only."""
    return policy.own_spec if policy.normalizer is None else policy.normalizer.spec.own
