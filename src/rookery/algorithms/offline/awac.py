"""Advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359): critics of the policy itself, and a policy that
imitates actions of the data, weighted by their advantage over its own.

The details that decide are in docs/algorithms/awac.md. The file reads from the settings down to the gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    CriticLearner,
    CriticSettings,
    PolicyNetwork,
    StateAction,
    critic_loss,
)
from rookery.algorithms.off_policy.sac import discrete_critic_loss
from rookery.algorithms.offline.data_learner import (
    CONTINUOUS,
    DISCRETE,
    OFFLINE_AND_ONLINE,
    WeightedActorSettings,
    check_actions,
    check_critics,
    check_data,
    clip_actions,
    clone_weighted,
    values_of_stored,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree
from rookery.core.flat import flatten
from rookery.core.optim import Adam
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import PositiveFloat
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.distributions import Categorical
from rookery.models.structure import Inputs
from rookery.native.critics import action_values
from rookery.native.forward import Forward, attach
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class AWACConfig(WeightedActorSettings, AlgorithmConfig, CriticSettings):
    """Settings of AWAC. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.awac:AWAC"
    capabilities = OFFLINE_AND_ONLINE

    advantage_lambda: PositiveFloat = 1.0
    """Temperature of the weights (lambda of the paper): an action's weight is exp(advantage / lambda), at most
    `max_weight`; a larger one weights good actions less.
    """

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for bounded continuous or for discrete actions; see `AlgorithmConfig.build_policy`."""
        check_actions(action, name, "AWAC", CONTINUOUS | DISCRETE, "BC and MARWIL take any (--algo marwil)")
        return super().build_policy(obs, action, name, generator)


# --- losses -----------------------------------------------------------------------------------------------------------


def awac_weights(advantage: Tensor, *, advantage_lambda: float, max_weight: float) -> Tensor:
    """Returns the weights of decisions (eq. 9), ``exp(A / lambda)``, at most `max_weight`, ``[N]``."""
    return torch.exp(advantage / advantage_lambda).clamp_(max=max_weight)


# --- the algorithm ----------------------------------------------------------------------------------------------------


class AWAC(Algorithm[AWACConfig]):
    """Learns critics and an actor from data: `learn` is the inner loop of Algorithm 1.

    Attributes:
        critics: Values of actions.
        actor: The policy, for weighted cloning.
    """

    saved = ("critics", "actor_optimizer", "rng", "replay", "signals")
    fixed = ("actor",)
    replay: Replay

    def __init__(self, policy: Policy, cfg: AWACConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        check_critics(cfg, name)
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.critics = CriticLearner(policy, cfg.critic, cfg.model, adam_eps=cfg.adam_eps, generator=generator)
        self.actor = attach(PolicyNetwork(policy))
        self.actor_optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.rng = streams.generator(Role.LEARNER, name)

    @property
    def planned_steps(self) -> int:
        """Gradient steps of offline training."""
        return self.cfg.gradient_steps

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of critics and actor; target critics follow."""
        if not gradient_steps:
            return
        check_data(self)
        cfg = self.now()
        loss: Any = discrete_critic_loss if self.policy.action_spec.sizes else critic_loss
        for _ in range(gradient_steps):
            rows = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
            drawn = self.before_update(rows)
            rows = clip_actions(drawn)
            assert self.critics.target_forward is not None
            after = self.value_of(rows.next_obs, self.critics.target_forward)
            target = torch.addcmul(rows.reward, rows.discount, after)
            metrics = self.critics.improve(loss, CriticBatch(rows.obs, rows.action, target, rows.weight), cfg)
            advantage = self.advantage(rows.obs, rows.action)
            weight = awac_weights(advantage, advantage_lambda=cfg.advantage_lambda, max_weight=cfg.max_weight)
            made = self.replay.gradient_steps
            metrics |= clone_weighted(self.actor, drawn, weight, self.actor_optimizer, cfg, made)
            self.replay.update_priorities(rows.row, metrics.pop("priority"))
            self.critics.track(cfg.tau)
            self.replay.record(metrics | {"advantage": advantage})

    @torch.no_grad()
    def value_of(self, obs: TensorTree, critics: Forward[Any]) -> Tensor:
        """Computes values of observations, ``[N]``: the critics' value of a drawn action, or for discrete actions the
        expected value.
        """
        behavior = self.actor.outputs(Inputs(obs))
        if isinstance(behavior, Categorical):
            q = action_values(critics, StateAction(obs, behavior.mode())).amin(0)
            return (behavior.log_probs.exp() * q).sum(1)
        shape = (len(next(iter(obs.values()))), behavior.noise.normal)
        noise = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32)).to(self.replay.device)
        return action_values(critics, StateAction(obs, behavior.sample(noise).clamp(-1.0, 1.0))).amin(0)

    @torch.no_grad()
    def advantage(self, obs: TensorTree, action: Tensor) -> Tensor:
        """Computes the advantages of actions over the policy's own, ``[N]``."""
        q = values_of_stored(action_values(self.critics.forward, StateAction(obs, action)), action).amin(0)
        return q - self.value_of(obs, self.critics.forward)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        skipped = self.check_finite(self.actor_optimizer) + self.check_finite(self.critics.optimizer)
        return {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates, **self.signals.summary()}
