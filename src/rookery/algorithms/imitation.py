"""Imitation in addition to reinforcement learning: the policy also learns the actions of demonstrations.

Gradient steps on demonstrations come before the first environment step (`pretrain_steps`), and with every update, with
their own learning rate that may fall to 0. They change only the policy; values are learned from rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from rookery.algorithms.algorithm import Algorithm, BatchHook, Row
from rookery.algorithms.off_policy.critics import PolicyNetwork
from rookery.algorithms.offline.bc import BC_GRADIENT, ImitationBatch, bc_loss
from rookery.core.batch import Decisions
from rookery.core.errors import ConfigError
from rookery.core.flat import Flat
from rookery.core.metrics import Means
from rookery.core.optim import Adam, gradient_step
from rookery.core.seeding import Role
from rookery.core.settings.fields import AtStart, NonNegative, Scheduled, Settings
from rookery.core.settings.reach import Count, CountFromZero, Reaches, Rows
from rookery.models.build import ModelConfig
from rookery.native.forward import attach
from rookery.replay.demonstrations import StoredDemonstrations
from rookery.signals.imitation_base import ImitationBase


@dataclass(frozen=True)
class ImitationConfig(Settings):
    """Settings of imitation: behavioural cloning of demonstrations in addition to the RL loss."""

    replay: tuple[Annotated[str, Reaches("a path")], ...] = ()
    """The demonstrations: runs, checkpoints or replay directories (``PATH`` or ``PATH:policy``); none = no imitation.
    """
    strength: Scheduled[NonNegative] = 1.0
    """Learning rate of imitation, as a multiple of the algorithm's; 0 = only `pretrain_steps`."""
    steps: CountFromZero = 0
    """Environment steps over which `strength` falls linearly to 0; 0 = it stays constant."""
    batch_size: Rows | None = None
    """Demonstrated decisions per gradient step; none = as many as the algorithm's gradient steps have."""
    epochs: Count = 1
    """Passes over the demonstrations per update; for algorithms with replay, imitation steps per gradient step.
    """
    samples_per_epoch: Count | None = None
    """Largest number of demonstrated decisions per pass, drawn anew for each; none = all. Not for algorithms with
    replay, which make no passes.
    """
    pretrain_steps: AtStart[CountFromZero] = 0
    """Gradient steps of imitation before the first environment step, with the algorithm's learning rate."""


@dataclass(frozen=True)
class ImitationStep:
    """Settings that `gradient_step` reads for a step of imitation."""

    lr: float
    max_grad_norm: float | None
    model: ModelConfig
    entropy_coef: ClassVar[float] = 0.0
    variance_power: ClassVar[float] = 0.5


class Imitation(BatchHook, ImitationBase):
    """Makes gradient steps on demonstrations for a learner.

    Args:
        learner: The learner.
        cfg: Settings.
        weights: The flat vector with the weights of the policy.
    """

    saved = ("optimizer", "rng", "means")
    fixed = ("learner", "cfg", "forward")

    def __init__(self, learner: Algorithm[Any], cfg: ImitationConfig, weights: Flat) -> None:
        policy = learner.policy
        if policy.memory_size:
            raise ConfigError(
                f"policies.{learner.name}.imitation: demonstrations have no memory of the policy, so one with a memory "
                "cannot imitate them row by row; leave model.memory out, or use signals.gail, which rewards "
                "decisions by themselves"
            )
        if learner.replay is not None and cfg.samples_per_epoch is not None:
            raise ConfigError(
                f"policies.{learner.name}.imitation.samples_per_epoch = {cfg.samples_per_epoch}: this algorithm learns "
                "from replay and makes no passes over demonstrations; leave it out: epochs are gradient steps here"
            )
        self.learner = learner
        self.cfg = cfg
        parts = [policy.head, policy.trunk]
        whole = sum(weight.numel() for weight in policy.parameters() if weight.requires_grad)
        own = weights if whole == len(weights.data) else weights.part(parts)
        self.optimizer = Adam(own, betas=(0.9, 0.999), eps=learner.cfg.adam_eps)
        self.forward = attach(PolicyNetwork(policy))
        self.rng = learner.streams.generator(Role.LEARNER, learner.name, "imitation")
        self.demonstrations: StoredDemonstrations | None = None
        self.mark = ""
        """A text that identifies the demonstrations."""
        self.means = Means()
        """Metrics of the gradient steps since the last `summary`."""

    def imitate(self, demonstrations: StoredDemonstrations, mark: str) -> None:
        """Reads the demonstrations and makes the pretraining steps.

        Args:
            demonstrations: The decisions to draw from.
            mark: A text that identifies the demonstrations.
        """
        self.demonstrations, self.mark = demonstrations, mark
        steps, normalizer = self.cfg.pretrain_steps, self.learner.policy.normalizer
        if steps and normalizer is not None:
            for part in demonstrations.every():
                normalizer.update(part.obs)
        for _ in range(steps):
            self.improve(demonstrations.decisions(self.batch_size), 1.0)

    @property
    def imitator_name(self) -> str:
        """Path of the imitation settings."""
        return f"policies.{self.learner.name}.imitation"

    @property
    def sources(self) -> Sequence[str]:
        """The setting `replay`."""
        return self.cfg.replay

    @property
    def batch_size(self) -> int:
        """Decisions in a gradient step."""
        return self.cfg.batch_size or self.learner.rows_per_step or 256

    @property
    def strength(self) -> float:
        """The present factor on the learner's learning rate."""
        learner, cfg = self.learner, self.cfg
        left = 1.0 - learner.env_steps / cfg.steps if cfg.steps else 1.0
        strength: float = cfg.at(learner.env_steps, learner.horizon, learner.decisions).strength
        return strength * max(left, 0.0)

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Makes imitation steps with a gradient step on rows drawn from replay."""
        if learner.replay is not None and self.demonstrations is not None and self.strength:
            for _ in range(self.cfg.epochs):
                self.improve(self.demonstrations.decisions(self.batch_size), self.strength)
        return batch

    def after_update(self, learner: Algorithm[Any], row: Row) -> Row:
        """Makes imitation steps after an update on new experience."""
        if learner.replay is None and self.demonstrations is not None and self.strength:
            for _ in range(self.cfg.epochs):
                for part in self.demonstrations.epoch(self.batch_size, self.cfg.samples_per_epoch):
                    self.improve(part, self.strength)
        return {**row, **self.summary()}

    def improve(self, seen: Decisions, strength: float) -> None:
        """Makes one gradient step."""
        cfg = self.learner.now()
        step = ImitationStep(strength * cfg.lr, cfg.max_grad_norm, cfg.model)
        batch = ImitationBatch(self.learner.policy.normalize(seen.obs), seen.action)
        metrics = gradient_step(self.forward, bc_loss, batch, self.optimizer, step, BC_GRADIENT)
        self.means.add({"loss": metrics["bc_loss"]})

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        row, self.means = self.means.result(), Means()
        return {"imitation_loss": row.get("loss"), "imitation_strength": self.strength}


def add_imitation(learner: Algorithm[Any], cfg: ImitationConfig, weights: Flat) -> Imitation | None:
    """Creates the imitation of a learner, and adds it to the learner's hooks; None without demonstrations.

    Args:
        learner: The learner.
        cfg: Settings.
        weights: The flat vector with the weights of its policy.
    """
    if not cfg.replay:
        return None
    imitation = Imitation(learner, cfg, weights)
    learner.hooks.append(imitation)
    return imitation
