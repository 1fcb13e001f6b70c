"""What algorithms share that learn from data alone, and can go on by playing: IQL, CQL, TD3+BC, AWAC.

Their data are replay (`replay.start_from`). A training on data makes `gradient_steps`; what is played after it is added
to the same replay, and learned from beside the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import Tensor

from rookery.algorithms.algorithm import Algorithm
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import CriticSettings, PolicyNetwork, named
from rookery.algorithms.offline.bc import BC_GRADIENT, Imitated, bc_loss
from rookery.algorithms.settings import DataSettings
from rookery.core.batch import Transitions
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, gradient_step
from rookery.core.settings.fields import (
    Fraction,
    PositiveFloat,
    Scheduled,
    Structural,
)
from rookery.core.settings.reach import Count
from rookery.core.spaces.arrays import ActionSpec
from rookery.models.build import ModelConfig
from rookery.models.heads import DistributionHead, HeadSpec
from rookery.models.squashed import Squashed
from rookery.native.forward import Forward
from rookery.replay.buffer import ReplayBuffer
from rookery.replay.demonstrations import StoredDemonstrations, check_finite
from rookery.replay.mixture import Mixture

OFFLINE_AND_ONLINE = Capabilities(
    offline=True,
    supports_online_finetune=True,
    supports_staleness=True,
    uses_replay=True,
    uses_central_obs=False,
)
"""What critics learned from data can do: they learn from what is played later too, by any weights."""


@dataclass(frozen=True)
class WeightedActorSettings(DataSettings):
    """What can be set where an actor is learned by weighted cloning: IQL, AWAC."""

    actor_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the actor; none = `lr`."""
    actor_cosine_steps: Count | None = None
    """Gradient steps in which the actor's learning rate falls to 0, as half a cosine does; none = it does not fall."""
    max_weight: PositiveFloat = 100.0
    """Most that a decision may count."""
    distribution: Structural[Literal["gaussian", "squashed"]] = "gaussian"
    """What numbers are drawn from: a Gaussian with the same standard deviation everywhere, which the environment cuts
    off at the bounds; or one that tanh brings between them, whose standard deviation depends on what is seen.
    """
    variance_power: Fraction = 0.5
    """Of squashed Gaussians: decisions count by their variance to this power, so that what is certain does not drown
    what is not (Seitzer et al. 2022); 0 = all alike.
    """
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    """The networks."""

    @property
    def head(self) -> HeadSpec:
        """A squashed Gaussian, or a distribution for any action."""
        return Squashed() if self.distribution == "squashed" else DistributionHead()


# --- the data ---------------------------------------------------------------------------------------------------------


NUMBERS, CHOICES = frozenset({"box"}), frozenset({"discrete"})
"""Kinds of actions whose values can be compared."""

WORDS = {"box": "numbers between two bounds (a Box)", "discrete": "one of several (Discrete)"}


def check_actions(action: ActionSpec, name: str, algorithm: str, kinds: frozenset[str], instead: str) -> None:
    """Refuses actions that an algorithm cannot value.

    Args:
        action: The actions of the policy.
        name: The policy's name.
        algorithm: The algorithm's, for the message.
        kinds: Kinds of actions that it takes; of numbers those with two bounds.
        instead: What to use instead.

    Raises:
        ConfigError: If they are of another kind.
    """
    if action.kind in kinds and (action.kind != "box" or action.is_bounded):
        return
    wanted = " or ".join(WORDS[kind] for kind in sorted(kinds))
    if action.kind == "box" and action.kind in kinds:
        again = "--action-bounds=LEAST,LARGEST, --env ENV or --like REPLAY"
        instead = f"import data that do not say their bounds again with {again}; {instead}"
    raise ConfigError(
        f"policies.{name}: {algorithm} takes actions that are {wanted}, and not {action.space}: {instead}"
    )


def look_at_data(learner: Algorithm[Any]) -> None:
    """Looks at what is in replay before the first gradient step: every number must be one, and observations, where they
    are normalized, are so by the statistics of what is there, for the whole life of the policy.

    Args:
        learner: Who learns from it.

    Raises:
        ConfigError: If there is nothing, or a number is not finite; names the row.
    """
    replay = learner.replay
    assert replay is not None
    if replay.gradient_steps:
        return
    replay.check_not_empty()
    normalizer = learner.policy.normalizer
    for buffer in buffers_of(replay.buffer):
        check_finite(buffer)
        if normalizer is not None:
            for part in StoredDemonstrations(buffer, buffer.rng, replay.device).every():
                normalizer.update(part.obs)


def buffers_of(buffer: ReplayBuffer | Mixture) -> tuple[ReplayBuffer, ...]:
    """Gives the buffers that batches are drawn from."""
    return buffer.buffers if isinstance(buffer, Mixture) else (buffer,)


def within_bounds(rows: Transitions) -> Transitions:
    """Gives decisions with their numbers cut off at the bounds, as the environment did: replay holds them as they were
    drawn. Critics value what was done; what a Gaussian is to make likely is what was drawn (`clone_weighted`).
    """
    return replace(rows, action=rows.action.clamp(-1.0, 1.0)) if rows.action.is_floating_point() else rows


# --- actors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActorStep:
    """What `gradient_step` and `bc_loss` read for a step of a cloning actor."""

    lr: float
    max_grad_norm: float | None
    model: ModelConfig
    variance_power: float = 0.0
    entropy_coef: ClassVar[float] = 0.0


def clone_weighted(
    forward: Forward[PolicyNetwork],
    rows: Transitions,
    weight: Tensor,
    optimizer: Adam,
    cfg: WeightedActorSettings,
    gradient_steps: int,
) -> Metrics:
    """Makes one gradient step that makes decisions likely, each by its weight.

    A Gaussian has no bounds, the environment cuts off what is drawn from it. It learns from actions as they were drawn:
    of those cut off, its mean would be drawn inwards, and its standard deviation too small.

    Args:
        forward: The policy.
        rows: Decisions, as replay holds them.
        weight: ``[N]`` how much each counts.
        optimizer: Moves the policy.
        cfg: Settings, schedules resolved.
        gradient_steps: How many were made before.
    """
    settings: Any = cfg
    step = ActorStep(actor_rate(settings, gradient_steps), settings.max_grad_norm, cfg.model, cfg.variance_power)
    made = within_bounds(rows) if cfg.distribution == "squashed" else rows
    batch = Imitated(rows.obs, made.action, weight)
    metrics = named("actor", gradient_step(forward, bc_loss, batch, optimizer, step, BC_GRADIENT))
    return {"actor_loss": metrics.pop("bc_loss"), **metrics, "weight": weight}


def actor_rate(cfg: Any, gradient_steps: int) -> float:
    """Gives the learning rate of an actor after so many gradient steps."""
    rate: float = cfg.lr if cfg.actor_lr is None else cfg.actor_lr
    if cfg.actor_cosine_steps is None:
        return rate
    passed = min(gradient_steps / cfg.actor_cosine_steps, 1.0)
    return rate * 0.5 * (1.0 + math.cos(math.pi * passed))


# --- values -----------------------------------------------------------------------------------------------------------


def of_those_made(q: Tensor, action: Tensor) -> Tensor:
    """Gives the values of actions that were made, ``[K, N]``.

    Args:
        q: ``[K, N]`` of numbers, which critics value by themselves, or ``[K, N, A]`` of all choices.
        action: ``[N, k]`` numbers, or ``[N]`` choices.
    """
    return q if q.dim() == 2 else q.gather(2, action.expand(len(q), -1).unsqueeze(2)).squeeze(2)


def check_critics(cfg: CriticSettings, name: str) -> None:
    """Refuses options of critics that mean nothing where values are compared.

    Raises:
        ConfigError: If critics learn quantiles, or have no target networks.
    """
    if cfg.critic.norm == "batch" or cfg.critic.quantiles is not None:
        raise ConfigError(
            f"policies.{name}.critic: values of actions are compared with each other, and learned towards what target "
            "critics say: leave out quantiles and norm = batch"
        )
