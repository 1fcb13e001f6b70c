"""Common settings of algorithms, for settings classes to derive from in addition to `AlgorithmConfig`.

Those of algorithms with replay are `rookery.replay.replay:ReplaySettings`. A class with another default declares the
field again, with a docstring only if it has more to say.
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
    """Settings of every on-policy algorithm, which learns from the newest rollouts.

    A class that declares its settings in another order lists all of them in `field_order`.
    """

    field_order = ""

    lr: Scheduled[PositiveFloat] = 3e-4
    """Learning rate of Adam."""
    gamma: Fraction = 0.99
    """Discount of the environment's reward."""
    rollout_size: Annotated[Rows | None, FormerName("batch_size", "minibatch_size", MEANINGS)] = None
    """Decisions per update; none = fragment_length x the slots of the policy."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    signals: SignalsConfig = field(default_factory=SignalsConfig)
    """Reward signals in addition to the environment's reward."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The networks."""


@dataclass(frozen=True)
class ActorCriticSettings(OnPolicySettings):
    """Settings of every algorithm that estimates advantages with a value function."""

    gae_lambda: Fraction = 0.95
    """Decay of later errors in the advantage: 0 = one step, 1 = Monte Carlo."""
    fragment_length: Structural[Length] = 128
    """Consecutive decisions of one slot before its advantage is bootstrapped from a value."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss."""
    entropy_coef: Scheduled[NonNegative] = 0.01
    """Weight of the entropy bonus."""
    scale_rewards: Structural[bool] = False
    """Divides rewards by the running standard deviation of their discounted return."""
    normalize_values: Structural[bool] = True
    """Learns large values in units of about the standard deviation of their targets (as in PopArt)."""


@dataclass(frozen=True)
class DataSettings(Settings):
    """Settings of every offline algorithm that can continue by playing."""

    gradient_steps: CountFromZero = 50_000
    """Gradient steps of offline training; a run that continues by playing makes `updates_per_step` per decision.
    """
    learning_starts: CountFromZero = 0
    """Decisions in replay, data included, before learning begins."""
