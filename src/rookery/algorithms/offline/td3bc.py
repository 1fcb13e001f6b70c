"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 with behavioural cloning in the actor's loss, and observations
normalized by the data.

The details that decide are in docs/algorithms/td3bc.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from rookery.algorithms.off_policy.critics import (
    Critics,
    StateAction,
    actor_structure,
    at_rate,
    behavior_of,
    rename_grad_norm,
)
from rookery.algorithms.off_policy.td3 import TD3, TD3Config
from rookery.algorithms.offline.data_learner import (
    CONTINUOUS,
    OFFLINE_AND_ONLINE,
    check_actions,
    check_critics,
    check_data,
    clip_actions,
)
from rookery.algorithms.settings import DataSettings
from rookery.core.batch import Transitions
from rookery.core.metrics import Metrics
from rookery.core.optim import gradient_step
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, Scheduled, Structural
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig
from rookery.models.distributions import Behavior
from rookery.models.structure import Structure
from rookery.native.critics import action_values
from rookery.native.forward import Forward, attach
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class TD3BCConfig(DataSettings, TD3Config):
    """Settings of TD3+BC. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.td3bc:TD3BC"
    capabilities = OFFLINE_AND_ONLINE

    alpha: NonNegative = 2.5
    """Weight of the critics' normalized values relative to behavioural cloning; 0 = cloning alone."""
    cloning: Scheduled[NonNegative] = 1.0
    """Weight of behavioural cloning; it may fall while the policy continues by playing."""
    model: Structural[ModelConfig] = field(
        default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu", normalize_obs=True)
    )
    """The networks; observations are normalized by the statistics of the data."""

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for bounded continuous actions; see `AlgorithmConfig.build_policy`."""
        check_actions(action, name, "TD3+BC", CONTINUOUS, "IQL and AWAC take Discrete, too, and BC any")
        return super().build_policy(obs, action, name, generator)


@dataclass(frozen=True)
class ProposedActions:
    """Inputs of the actor's loss.

    Attributes:
        action: ``[N, k]`` the actor's actions.
        q: ``[K, N]`` the critics' values of them.
    """

    action: Tensor
    q: Tensor


# --- losses -----------------------------------------------------------------------------------------------------------


def td3bc_actor_loss(outputs: ProposedActions, rows: Transitions, cfg: TD3BCConfig) -> tuple[Tensor, Metrics]:
    """Eq. 5 with eq. 6: the mean squared distance from the data's actions, minus `alpha` times the first critic's value
    of the actor's actions, divided by the mean absolute value.
    """
    q = outputs.q[0]
    distance = (outputs.action - rows.action).square().mean()
    scale = cfg.alpha / q.detach().abs().mean().clamp(min=1e-8)
    loss = cfg.cloning * distance - scale * q.mean()
    return loss, {"actor_loss": loss.detach(), "cloning_loss": distance.detach(), "q_scale": scale}


# --- networks ---------------------------------------------------------------------------------------------------------


class TD3BCActor:
    """Computes a policy's actions with the critics' values.

    Args:
        policy: The policy that acts.
        critics: The critics, whose weights take no gradients here.
    """

    def __init__(self, policy: Policy, critics: Forward[Critics]) -> None:
        self.policy = policy
        self.critics = critics

    def __call__(self, rows: Transitions) -> ProposedActions:
        """Computes the values of the policy's actions; gradients flow through them."""
        return self.outputs(behavior_of(self.policy, rows.obs), rows)

    def structure(self) -> Structure:
        """Declares what a call computes: the policy, and `outputs` of its distribution."""
        return actor_structure(self.policy, self.outputs)

    def outputs(self, behavior: Behavior, rows: Transitions) -> ProposedActions:
        """Computes the outputs, given the action distribution."""
        action = behavior.mode()
        return ProposedActions(action, action_values(self.critics, StateAction(rows.obs, action)))


# --- the algorithm ----------------------------------------------------------------------------------------------------


class TD3BC(TD3):
    """Learns critics and an actor from data, as TD3 does, with behavioural cloning of the actor."""

    cfg: TD3BCConfig

    def __init__(self, policy: Policy, cfg: TD3BCConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        check_critics(cfg, name)
        self.actor = attach(TD3BCActor(policy, self.critics.detached_forward))

    @property
    def planned_steps(self) -> int:
        """Gradient steps of offline training."""
        return self.cfg.gradient_steps

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps of critics; actor and target networks follow at every `policy_delay`-th."""
        if gradient_steps:
            check_data(self)
            super().learn(gradient_steps)

    def before_update(self, batch: Transitions) -> Transitions:  # type: ignore[override]
        """Calls `hooks` with the rows of an update, and clips their actions to the bounds."""
        return clip_actions(super().before_update(batch))

    def learn_actor(self, rows: Transitions, cfg: TD3BCConfig) -> Metrics:  # type: ignore[override]
        """Makes a gradient step towards higher values and the data's actions."""
        step = at_rate(cfg, cfg.actor_lr)
        return rename_grad_norm("actor", gradient_step(self.actor, td3bc_actor_loss, rows, self.actor_optimizer, step))
