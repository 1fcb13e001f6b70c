"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

The details that decide are in docs/algorithms/ddpg.md. The file reads from the settings down to the update. TD3 adds
three changes (`td3.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.experience import Experience
from rookery.algorithms.off_policy.action_noise import SizedNoiseConfig
from rookery.algorithms.off_policy.critics import (
    CriticConfig,
    CriticLearner,
    Critics,
    PolicyNetwork,
    StateAction,
    actor_structure,
    at_rate,
    behavior_of,
    rename_grad_norm,
    target_copy,
)
from rookery.algorithms.off_policy.drq import DrQ, DrQSettings
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree, Transitions
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, Optimizer, gradient_step, track
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count
from rookery.models.distributions import Behavior
from rookery.models.heads import HeadSpec
from rookery.models.squashed import Deterministic
from rookery.models.structure import Inputs, Structure
from rookery.native.critics import action_values
from rookery.native.forward import Forward, attach
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class DDPGConfig(AlgorithmConfig, DrQSettings):
    """Settings of DDPG. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.off_policy.ddpg:DDPG"
    capabilities = Capabilities(supports_staleness=True, supports_multi_learner=True, uses_replay=True)

    exploration: SizedNoiseConfig = field(default_factory=SizedNoiseConfig)
    """Noise on actions while playing."""
    critic: Structural[CriticConfig] = field(default_factory=lambda: CriticConfig(number=1))
    actor_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the actor; none = `lr`."""
    target_every: Count = 1
    """Gradient steps between updates of target networks."""

    @property
    def head(self) -> HeadSpec:
        """Head with one deterministic action per state."""
        exploration = self.exploration
        return Deterministic(exploration.kind, exploration.theta, exploration.every, exploration.per_env_epsilon)


class DDPGActor:
    """Computes the critics' values of a policy's actions.

    Args:
        policy: The policy that acts.
        critics: The critics, whose weights take no gradients here.
    """

    def __init__(self, policy: Policy, critics: Forward[Critics]) -> None:
        self.policy = policy
        self.critics = critics

    def __call__(self, rows: Transitions) -> Tensor:
        """Computes values of the policy's actions, ``[K, N]`` or ``[K, N, M]``; gradients flow through the actions."""
        return self.outputs(behavior_of(self.policy, rows.obs), rows)

    def structure(self) -> Structure:
        """Declares what a call computes: the policy, and `outputs` of its distribution."""
        return actor_structure(self.policy, self.outputs)

    def outputs(self, behavior: Behavior, rows: Transitions) -> Tensor:
        """Computes the values, given the action distribution."""
        return action_values(self.critics, StateAction(rows.obs, behavior.mode()))


def actor_loss(q: Tensor, rows: Transitions, cfg: DDPGConfig) -> tuple[Tensor, Metrics]:
    """Negated value of the actor's actions (eq. 6), by the first critic; with quantiles the mean of all."""
    loss = -(q[0] if q.dim() == 2 else q).mean()
    return loss, {"actor_loss": loss.detach()}


class DDPG(Algorithm[DDPGConfig]):
    """Learns critics and an actor from replay: `learn` is the inner loop of Algorithm 1."""

    saved = ("critics", "actor_target", "actor_optimizer", "rng", "replay", "signals")
    fixed = ("actor", "target_forward", "drq", "_actor_target_data")
    replay: Replay

    def __init__(self, policy: Policy, cfg: DDPGConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        shared: dict[str, Any] = {"adam_eps": cfg.adam_eps, "shares_images": cfg.shared_encoder}
        self.critics = CriticLearner(policy, cfg.critic, cfg.model, generator=generator, **shared)
        self.drq = DrQ(policy, self.critics, cfg)
        self.actor_target, self._actor_target_data = target_copy(policy)
        self.actor_optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.actor: Forward[Any] = attach(DDPGActor(policy, self.critics.detached_forward))
        self.target_forward = attach(PolicyNetwork(self.actor_target), learns=False)
        self.rng = streams.generator(Role.LEARNER, name)
        self.explore()

    def value_weights(self) -> list[Tensor]:
        """Returns the weights of the critics' last layers."""
        return self.critics.value_weights()

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of critics and actor; target networks follow."""
        cfg = self.now()
        for _ in range(gradient_steps):
            rows = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
            rows = self.before_update(rows)
            metrics = self.learn_rows(rows, cfg)
            self.replay.update_priorities(rows.row, metrics.pop("priority"))
            self.replay.record(metrics)
            if self.replay.gradient_steps % cfg.target_every == 0:
                self.track_targets(cfg)

    def learn_rows(self, rows: Transitions, cfg: DDPGConfig) -> Metrics:
        """Makes one gradient step each of critics and actor."""
        rows = self.drq.augmented(rows, self.rng)
        return self.learn_critics(rows, cfg) | self.learn_actor(rows, cfg)

    def explore(self) -> None:
        """Makes actions random while replay fills, then adds noise to them."""
        self.policy.head.random.fill_(float(self.replay.is_warming_up))
        self.policy.head.std.fill_(self.now().exploration.std)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        skipped = self.check_finite(self.actor_optimizer) + self.check_finite(self.critics.optimizer)
        return {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates, **self.signals.summary()}

    def learn_critics(self, rows: Transitions, cfg: DDPGConfig) -> Metrics:
        """Makes a gradient step towards the value of the target actor's next actions."""
        rows = self.drq.with_next_maps(rows)
        return self.critics.learn(Experience.of(rows), self.next_action(rows.next_obs), None, cfg)

    @torch.no_grad()
    def next_action(self, obs: TensorTree) -> Tensor:
        """Computes the target actor's actions, ``[N, k]``."""
        action: Tensor = self.target_forward.outputs(Inputs(obs)).mode()
        return action

    def learn_actor(self, rows: Transitions, cfg: DDPGConfig) -> Metrics:
        """Makes a gradient step towards higher values of the actor's actions."""
        rows, step = self.drq.with_maps(rows), at_rate(cfg, cfg.actor_lr)
        return rename_grad_norm("actor", gradient_step(self.actor, actor_loss, rows, self.actor_optimizer, step))

    def track_targets(self, cfg: DDPGConfig) -> None:
        """Moves all target networks by the Polyak factor."""
        self.critics.track(cfg.tau)
        track(self._actor_target_data, self.actor_optimizer.flat.data, cfg.tau)

    def step_optimizers(self, cfg: DDPGConfig) -> list[tuple[Optimizer, float]]:
        """Returns the optimizers of critics and actor."""
        actor_lr = cfg.lr if cfg.actor_lr is None else cfg.actor_lr
        return [(self.critics.optimizer, cfg.lr), (self.actor_optimizer, actor_lr)]
