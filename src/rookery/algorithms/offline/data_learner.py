"""Shared parts of offline algorithms that can continue by playing: IQL, CQL, TD3+BC, AWAC.

Their data are replay (`replay.start_from`). Offline training makes `gradient_steps`; later rollouts are added to the
same replay, and learned from together with the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import Tensor

from rookery.algorithms.algorithm import Algorithm
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import CriticSettings, PolicyNetwork, rename_grad_norm
from rookery.algorithms.offline.bc import BC_GRADIENT, ImitationBatch, bc_loss
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
"""Capabilities of algorithms whose critics learn from data and from later rollouts of any weights."""


@dataclass(frozen=True)
class WeightedActorSettings(DataSettings):
    """Settings of algorithms with weighted cloning of an actor: IQL, AWAC."""

    actor_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the actor; none = `lr`."""
    actor_cosine_steps: Count | None = None
    """Gradient steps of a cosine decay of the actor's learning rate to 0; none = no decay."""
    max_weight: PositiveFloat = 100.0
    """Largest weight of a decision."""
    distribution: Structural[Literal["gaussian", "squashed"]] = "gaussian"
    """Distribution of continuous actions: a Gaussian with the same standard deviation everywhere, which the environment
    clips at the bounds; or one squashed by tanh, whose standard deviation depends on the observation.
    """
    variance_power: Fraction = 0.5
    """Of squashed Gaussians: decisions are weighted by their variance to this power, so that certain ones do not
    dominate (Seitzer et al. 2022); 0 = all alike.
    """
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    """The networks."""

    @property
    def head(self) -> HeadSpec:
        """Head with a squashed Gaussian, or with a distribution for any action space."""
        return Squashed() if self.distribution == "squashed" else DistributionHead()


# --- the data ---------------------------------------------------------------------------------------------------------


CONTINUOUS, DISCRETE = frozenset({"box"}), frozenset({"discrete"})
"""Kinds of actions that critics can evaluate."""

DESCRIPTIONS = {"box": "numbers between two bounds (a Box)", "discrete": "one of several (Discrete)"}


def check_actions(action: ActionSpec, name: str, algorithm: str, kinds: frozenset[str], instead: str) -> None:
    """Raises ConfigError for actions that an algorithm does not support.

    Args:
        action: The actions of the policy.
        name: The policy's name.
        algorithm: Name of the algorithm, for the message.
        kinds: Supported kinds of actions; continuous ones must be bounded.
        instead: Advice for the message.

    Raises:
        ConfigError: If the actions are of another kind.
    """
    if action.kind in kinds and (action.kind != "box" or action.is_bounded):
        return
    wanted = " or ".join(DESCRIPTIONS[kind] for kind in sorted(kinds))
    if action.kind == "box" and action.kind in kinds:
        again = "--action-bounds=LEAST,LARGEST, --env ENV or --like REPLAY"
        instead = f"import data that do not say their bounds again with {again}; {instead}"
    raise ConfigError(
        f"policies.{name}: {algorithm} takes actions that are {wanted}, and not {action.space}: {instead}"
    )


def check_data(learner: Algorithm[Any]) -> None:
    """Checks the data in replay before the first gradient step: every number must be finite. Where observations are
    normalized, sets their statistics to those of the data for all later training.

    Args:
        learner: The learner.

    Raises:
        ConfigError: If there are no data, or a number is not finite; names the row.
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
    """Returns the buffers that batches are drawn from."""
    return buffer.buffers if isinstance(buffer, Mixture) else (buffer,)


def clip_actions(rows: Transitions) -> Transitions:
    """Clips continuous actions to the bounds, as the environment did: replay stores them as they were drawn. Critics
    value the clipped actions; a Gaussian learns the drawn ones (`clone_weighted`).
    """
    return replace(rows, action=rows.action.clamp(-1.0, 1.0)) if rows.action.is_floating_point() else rows


# --- actors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActorStep:
    """Settings that `gradient_step` and `bc_loss` read for a step of a cloning actor."""

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
    """Makes one gradient step of weighted behavioural cloning.

    A Gaussian has no bounds; the environment clips its actions. It learns from actions as they were drawn: with
    clipped ones, its mean would move inwards, and its standard deviation would be too small.

    Args:
        forward: The policy.
        rows: Decisions, as replay stores them.
        weight: ``[N]`` weights of the decisions.
        optimizer: Optimizer of the policy.
        cfg: Settings, schedules resolved.
        gradient_steps: Gradient steps made before.
    """
    settings: Any = cfg
    step = ActorStep(actor_rate(settings, gradient_steps), settings.max_grad_norm, cfg.model, cfg.variance_power)
    made = clip_actions(rows) if cfg.distribution == "squashed" else rows
    batch = ImitationBatch(rows.obs, made.action, weight)
    metrics = rename_grad_norm("actor", gradient_step(forward, bc_loss, batch, optimizer, step, BC_GRADIENT))
    return {"actor_loss": metrics.pop("bc_loss"), **metrics, "weight": weight}


def actor_rate(cfg: Any, gradient_steps: int) -> float:
    """Returns the learning rate of an actor after `gradient_steps` steps."""
    rate: float = cfg.lr if cfg.actor_lr is None else cfg.actor_lr
    if cfg.actor_cosine_steps is None:
        return rate
    passed = min(gradient_steps / cfg.actor_cosine_steps, 1.0)
    return rate * 0.5 * (1.0 + math.cos(math.pi * passed))


# --- values -----------------------------------------------------------------------------------------------------------


def values_of_stored(q: Tensor, action: Tensor) -> Tensor:
    """Selects the values of the stored actions, ``[K, N]``.

    Args:
        q: ``[K, N]`` for continuous actions, or ``[K, N, A]`` for all discrete ones.
        action: ``[N, k]`` continuous, or ``[N]`` discrete actions.
    """
    return q if q.dim() == 2 else q.gather(2, action.expand(len(q), -1).unsqueeze(2)).squeeze(2)


def check_critics(cfg: CriticSettings, name: str) -> None:
    """Raises ConfigError for critics whose values cannot be compared.

    Raises:
        ConfigError: If critics learn quantiles, or have no target networks.
    """
    if cfg.critic.norm == "batch" or cfg.critic.quantiles is not None:
        raise ConfigError(
            f"policies.{name}.critic: values of actions are compared, and learned from target networks: "
            "leave out quantiles and norm = batch"
        )
