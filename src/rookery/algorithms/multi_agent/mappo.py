"""MAPPO (Yu et al. 2022, arXiv:2103.01955): PPO whose critic observes the whole group, or the state of the game.

The critic's observations lie under ``central``: the environment's own, or those of all members of a group, which
`envs/groups.py:GroupEnv` adds. Policies act on their own observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.ppo import PPO, PPOConfig, clipped_error, normalize_advantages, ppo_gradient, ppo_loss
from rookery.core.batch import Minibatch, PenaltyMinibatch, Rollout
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.optim import ClosedForm, KernelStep, OutputGradients
from rookery.core.schedules import Linear
from rookery.core.settings.fields import PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count
from rookery.core.spaces.arrays import CENTRAL, ObsSpec
from rookery.envs.groups import ACTED, GROUP_PATHS, MOMENT, paths_of_groups
from rookery.models.heads import Outputs
from rookery.native.ppo import ppo_kernel, ppo_steps


@dataclass(frozen=True)
class MAPPOConfig(PPOConfig):
    """Settings of MAPPO: those of PPO, some with the defaults of the paper, and the critic's observations."""

    algorithm: ClassVar[str] = "rookery.algorithms.multi_agent.mappo:MAPPO"
    # rows of members that have ended hold actions that no policy has chosen, which no ratio can weigh
    capabilities = Capabilities(
        supports_memory=True, needs_group_obs=True, speed_hints=PPOConfig.capabilities.speed_hints
    )

    lr: Scheduled[PositiveFloat] = field(default_factory=lambda: Linear(7e-4, 1e-4))
    minibatch_size: Count = 2048
    """Largest number of decisions per gradient step. Few large minibatches: the paper has one or two per update."""
    normalize_advantage: bool | Literal["batch"] = "batch"
    huber_delta: PositiveFloat | None = 10.0
    """Size of a value error, in the unit of `normalize_values`, above which the loss is linear (Huber); none = squared
    error everywhere.
    """
    critic_sees: Structural[Literal["auto", "state", "members", "both"]] = "auto"
    """Observations of the critic in addition to the policy's: ``state`` = those under ``central`` of the environment,
    ``members`` = those of all members of the group, ``both``; ``auto`` = the state if there is one, else the members.
    """

    member_id: Structural[bool] = False
    """Whether policies observe the member number of a row within its group, as ``member_id``; `predict` then needs it
    too. For members that share a policy and have to act differently.
    """

    @property
    def adds_member_id(self) -> bool:
        """Whether policies observe the member number of a row within its group."""
        return self.member_id

    def stored(self, obs: ObsSpec) -> ObsSpec:
        """Returns the part of the observations that is stored and learned from.

        Raises:
            ConfigError: If the critic needs a state, and the environment shows none.
        """
        added = paths_of_groups(obs)
        state = [leaf for leaf in obs.without(*added, *GROUP_PATHS).leaves if leaf.is_central]
        if self.critic_sees in ("state", "both") and not state:
            raise ConfigError(
                f"algorithm.critic_sees = {self.critic_sees!r}: the environment shows no state for critics, under the "
                f"key {CENTRAL!r} of a Dict observation: add it (docs/how-to/central-critics.md), or set 'members'"
            )
        if self.critic_sees == "members":
            return obs.without(*(leaf.path for leaf in state), f"{CENTRAL}/{MOMENT}")
        if self.critic_sees == "both" or not state:
            return obs.without(f"{CENTRAL}/{MOMENT}")
        return obs.without(*added)


def acting_rows(batch: Minibatch) -> Tensor | None:
    """Returns the numbers of the rows that acted, ``[n]``; None if all did. The others belong to members that ended
    before the group: only values are learned there, so that later rewards are credited to earlier actions.
    """
    acted = batch.obs.get(f"{CENTRAL}/{ACTED}")
    if acted is None or bool(acted.all()):
        return None
    return acted.squeeze(1).nonzero().squeeze(1)


def value_loss(value: Tensor, batch: Minibatch, cfg: MAPPOConfig) -> Tensor:
    """Computes the mean error of values ``[N, S]``, summed over columns: squared, and linear above `huber_delta`."""
    if cfg.value_clip is not None:
        value = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
    if cfg.huber_delta is None:
        return clipped_error(value, batch.value_target, cfg.value_loss_clip) * value.shape[1]
    if cfg.value_loss_clip is None:
        return 2 * functional.huber_loss(value, batch.value_target, delta=cfg.huber_delta) * value.shape[1]
    losses = 2 * functional.huber_loss(value, batch.value_target, delta=cfg.huber_delta, reduction="none")
    return losses.clamp(max=cfg.value_loss_clip).mean() * value.shape[1]


def mappo_loss(outputs: Outputs, batch: Minibatch, cfg: MAPPOConfig) -> tuple[Tensor, Metrics]:
    """`ppo_loss` with a Huber value loss; rows that did not act only count in the value loss."""
    rows, seen, distribution = acting_rows(batch), batch, outputs.distribution
    if rows is not None:
        seen, distribution = _select_rows(batch, rows), distribution.like(distribution.parameters.index_select(0, rows))
    loss, metrics = outputs.value.new_zeros(()), Metrics()
    if rows is None or len(rows):  # with values that are not the networks': they are learned below
        loss, metrics = ppo_loss(Outputs(distribution, seen.value), seen, cfg)
    error = value_loss(outputs.value, batch, cfg)
    metrics["value_loss"] = error.detach()
    return loss + cfg.value_coef * error, metrics


def _select_rows(batch: Minibatch, rows: Tensor) -> Minibatch:
    """Selects rows of the fields that `ppo_loss` reads."""
    names = ["action", "logp", "advantage", "value_target", "value", "importance"]
    names += ["old", "kl_coef"] if isinstance(batch, PenaltyMinibatch) else []
    parts: dict[str, Any] = {name: getattr(batch, name) for name in names}
    parts = {name: part if part is None else part.index_select(0, rows) for name, part in parts.items()}
    return replace(batch, **parts)


def mappo_gradient(outputs: Outputs, batch: Minibatch, cfg: MAPPOConfig) -> OutputGradients | None:
    """Computes the gradient of `mappo_loss` in closed form, as `ppo_gradient`; None if some rows did not act, or
    the errors of values are bounded twice.
    """
    has_two_bounds = cfg.huber_delta is not None and cfg.value_loss_clip is not None
    found = None if acting_rows(batch) is not None or has_two_bounds else ppo_gradient(outputs, batch, cfg)
    if found is None or cfg.huber_delta is None:
        return found
    gradients, metrics = found
    steepest = 2 * cfg.value_coef * cfg.huber_delta / len(batch)
    gradients[-1].clamp_(-steepest, steepest)
    metrics["value_loss"] = value_loss(outputs.value, batch, cfg)
    return gradients, metrics


def mappo_kernel(kernels: Any, batch: Minibatch, cfg: MAPPOConfig) -> Metrics | None:
    """Writes the gradients of `mappo_loss` in one kernel call; returns None if some rows did not act."""
    return ppo_kernel(kernels, batch, cfg, cfg.huber_delta) if acting_rows(batch) is None else None


def mappo_steps(kernels: Any, batches: Sequence[Minibatch], step: KernelStep, cfg: MAPPOConfig) -> list[Metrics] | None:
    """Makes a gradient step for each minibatch, in one call; returns None if some rows did not act."""
    whole, _ = batches[0].source or (batches[0], None)
    return ppo_steps(kernels, batches, step, cfg, cfg.huber_delta) if acting_rows(whole) is None else None


class MAPPO(PPO):
    """The algorithm: PPO on the rollouts of a group's members, with group observations for the critic."""

    loss = staticmethod(mappo_loss)  # type: ignore[assignment]
    closed_form = ClosedForm(mappo_loss, mappo_gradient, mappo_kernel, mappo_steps)

    def rewards(self, rollout: Rollout) -> Tensor:
        """Returns the rewards of a rollout as PPO does; members that have ended only get the environment's reward."""
        reward, acted = super().rewards(rollout), rollout.obs.get(f"{CENTRAL}/{ACTED}")
        if acted is None or reward.shape[-1] == 1:
            return reward
        return torch.cat((reward[..., :1], reward[..., 1:] * acted), -1)

    def targets(self, rollout: Rollout) -> Minibatch:
        """Computes advantages and value targets as PPO does; advantages are normalized over the rows that acted."""
        data = super().targets(rollout)
        rows = acting_rows(data)
        if rows is None or self.cfg.normalize_advantage != "batch":
            return data
        return normalize_advantages(data, rows)
