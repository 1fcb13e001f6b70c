"""Settings that algorithms have in common, for settings classes to derive from beside `AlgorithmConfig`.

Those of algorithms with replay are `rookery.replay.replay:ReplaySettings`. A class with another default declares the
field again, with a docstring only where it has more to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from rookery.core.settings.fields import (
    FormerName,
    Fraction,
    NonNegative,
    PositiveFloat,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.settings.reach import CountFromZero, Length, Rows
from rookery.models.build import ModelConfig
from rookery.signals.rewards import SignalsConfig

MEANINGS = (
    "batch_size has two meanings: rollout_size counts the decisions of an update, as batch_size did in earlier "
    "versions; minibatch_size counts those of a gradient step, as batch_size in Stable-Baselines3; write one of them"
)
"""The message for `batch_size` in new settings of algorithms that have minibatches."""


@dataclass(frozen=True)
class OnPolicySettings(Settings):
    """Settings of every algorithm that learns from what was just played.

    A class that gives its settings another order, as values without names need it, names them all in `field_order`.
    """

    field_order = ""

    lr: Scheduled[PositiveFloat] = 3e-4
    """Learning rate of Adam."""
    gamma: Fraction = 0.99
    """Discount of the environment's reward."""
    rollout_size: Annotated[Rows | None, FormerName("batch_size", "minibatch_size", MEANINGS)] = None
    """Decisions of an update; none = fragment_length x the slots of the policy."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Longest gradient; longer ones are scaled down. None = any."""
    signals: SignalsConfig = field(default_factory=SignalsConfig)
    """What rewards the policy beside the environment."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The networks."""


@dataclass(frozen=True)
class ActorCriticSettings(OnPolicySettings):
    """Settings of every algorithm with advantages of a value function."""

    gae_lambda: Fraction = 0.95
    """Decay of later errors in the advantage: 0 = one step, 1 = Monte Carlo."""
    fragment_length: Structural[Length] = 128
    """Decisions in a row of one slot before its advantage is cut off with a value."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss."""
    entropy_coef: Scheduled[NonNegative] = 0.01
    """Weight of the entropy bonus."""
    scale_rewards: Structural[bool] = False
    """Rewards are divided by the running standard deviation of their discounted return."""
    normalize_values: Structural[bool] = True
    """Large values are learned in a unit of about the standard deviation of their targets (as in PopArt)."""


@dataclass(frozen=True)
class DataSettings(Settings):
    """What can be set of every algorithm that learns from data alone and can go on by playing."""

    gradient_steps: CountFromZero = 50_000
    """Gradient steps of a training on data alone; a run that goes on by playing makes `updates_per_step` for each
    decision.
    """
    learning_starts: CountFromZero = 0
    """Decisions in replay, data included, before learning begins."""
