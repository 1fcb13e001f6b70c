"""What signals that learn have in common: networks of their own, an optimizer, and how much they learn of an update."""

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
    """What can be set of every signal that learns."""

    lr: PositiveFloat = 3e-4
    """Learning rate of its Adam."""
    max_grad_norm: PositiveFloat | None = None
    """Longest gradient; longer ones are scaled down. None = any."""
    epochs: Count = 1
    """Passes over what was played, in an update that learns from it."""
    minibatches: Count = 4
    """Gradient steps in a pass, each on an equal part of the decisions."""
    share: Fraction = 1.0
    """Part of the decisions that it learns from, drawn anew in each pass."""
    updates_per_step: PositiveFloat = 1.0
    """Of algorithms that learn from replay: gradient steps for each of theirs, on the same decisions; 0.25 = one for
    four.
    """
    model: Structural[ModelConfig] = field(default_factory=ModelConfig)
    """Its networks; memories and what concerns actions have no meaning."""


LearnedT = TypeVar("LearnedT", bound=LearnedConfig)


class LearnedSignal(RewardSignal[LearnedT]):
    """Base of signals that learn by gradient steps, each on some decisions.

    A subclass sets `optimizer` and defines `fit`.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("means", "optimizer", "due")
    optimizer: Adam

    def __init__(self, policy: Policy, cfg: LearnedT, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.means = Means()
        """What gradient steps have measured since the last `summary`."""
        self.due = 0.0
        """Gradient steps on what is drawn from replay that are still to be made, less than 1 between two draws."""

    def fit(self, seen: Decisions) -> Metrics:
        """Makes one gradient step; returns what its loss measured."""
        raise NotImplementedError

    def improve(
        self,
        forward: Callable[[Any], Any],
        loss: Callable[..., tuple[Tensor, Metrics]],
        batch: Any,
        closed_form: ClosedForm | None = None,
    ) -> Metrics:
        """Makes a gradient step on a loss; arguments as of `gradient_step`."""
        return gradient_step(forward, loss, batch, self.optimizer, self.cfg, closed_form)

    def learn(self, seen: Decisions) -> None:
        """Makes the gradient steps of an update."""
        for rows in self.parts(len(seen)):
            self.means.add(self.fit(seen.at(rows)))

    def learn_drawn(self, seen: Decisions) -> None:
        """Makes the gradient steps that go with one of the policy."""
        self.due += self.cfg.updates_per_step
        while self.due >= 1.0:
            self.due -= 1.0
            (rows,) = parts_of(len(seen), 1, self.rng, self.cfg.share)
            self.means.add(self.fit(seen.at(rows)))

    def parts(self, number: int) -> Iterator[Tensor]:
        """Gives the rows ``[n]`` of each gradient step of an update on so many decisions."""
        for _ in range(self.cfg.epochs):
            yield from parts_of(number, self.cfg.minibatches, self.rng, self.cfg.share)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1, which precede `updates_per_step`, that no gradient step is to be made."""
        return {"due": 0.0, **state}

    def summary(self) -> Report:
        """Returns the means of what gradient steps measured."""
        row, self.means = self.means.result(), Means()
        return dict(row)


def parts_of(number: int, parts: int, rng: np.random.Generator, share: float) -> tuple[Tensor, ...]:
    """Deals row numbers out in random order, in near-equal parts that are not empty.

    Args:
        number: Rows.
        parts: Parts, if there are rows enough.
        rng: Decides the order.
        share: Of the rows that are dealt out; one at least is.
    """
    count = max(round(share * number), 1)
    return torch.from_numpy(rng.permutation(number)[:count]).tensor_split(min(parts, count))


def seen_by(policy: Policy) -> ObsSpec:
    """Gives the layout of observations as `Policy.normalize` returns them, without what is for critics alone."""
    return policy.own_spec if policy.normalizer is None else policy.normalizer.spec.own
