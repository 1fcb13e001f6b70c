"""MA-POCA (Cohen et al. 2021, arXiv:2111.05992): members that have ended are credited with later group rewards.

The details that decide are in docs/algorithms/poca.md. Rows are members of groups, as `envs/groups.py:GroupEnv` shows
them: a member that ended before its group remains until the group ends. Such rows do not act, but they have a value
and get the group's rewards, so that earlier actions get their share.

A policy with a memory learns from sequences, as with PPO. Its critic receives the policy's features of each member
that it plays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.multi_agent.group_critic import GroupActorCritic, GroupOutputs, with_one
from rookery.algorithms.on_policy.actor_critic import across_episodes, along_timeline, next_values
from rookery.algorithms.on_policy.ppo import PPO, PPOConfig, clipped_error, normalize_advantages, ppo_loss
from rookery.core.batch import Minibatch, Rollout, TensorTree, flat, rows_of
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.ops import following, gae
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import NonNegative, Structural
from rookery.core.settings.reach import Count, Few, Width
from rookery.core.spaces.arrays import CENTRAL
from rookery.envs.groups import ACTED, ME, MEMBERS, MOMENT
from rookery.models.heads import Outputs
from rookery.policies.policy import Policy
from rookery.signals.signal import action_features


@dataclass(frozen=True)
class POCAConfig(PPOConfig):
    """Settings of MA-POCA: those of PPO without `kl_coef`, and the critic's."""

    algorithm: ClassVar[str] = "rookery.algorithms.multi_agent.poca:POCA"
    capabilities = Capabilities(
        supports_memory=True,
        needs_group_obs=True,
        needs_timestep_id=True,
        speed_hints=PPOConfig.capabilities.speed_hints,
    )

    minibatch_size: Count = 512
    attention_size: Structural[Width] = 64
    """Width of the critic's attention over the members of a group."""
    attention_heads: Structural[Few] = 4
    """Heads of that attention; `attention_size` is split among them."""
    baseline_coef: NonNegative = 0.5
    """Weight of the baseline loss relative to the value loss, within `value_coef`."""
    leave_group_at_end: bool = False
    """Whether a member that ends before its group gets no later group rewards, as with PPO."""


@dataclass(frozen=True, kw_only=True)
class POCAMinibatch(Minibatch):
    """Minibatch of members of groups.

    Attributes:
        baseline: ``[N, S]`` baselines before this update.
        acted: ``[N]`` bool, whether the row acted; else its member has ended.
        mates_action: ``[N, G, A]`` action of each member of the group at the same time step, as numbers; zeros if
            unknown.
        mates_acted: ``[N, G]`` bool, whether the action is known.
        mates_features: ``[N, G, F + 1]`` the policy's features of each member before this update, and a 1; zeros if
            unknown. None if the policy has no memory.
    """

    baseline: Tensor
    acted: Tensor
    mates_action: Tensor
    mates_acted: Tensor
    mates_features: Tensor | None = field(default_factory=lambda: None)


@dataclass(frozen=True)
class MemberFeatures:
    """The policy's features of all members of each row's group at the same time step, and a 1; zeros if unknown. None
    for a policy without a memory, where the observations suffice.

    Attributes:
        decided: ``[T * F, G, W + 1]`` at each decision.
        last: ``[F, G, W + 1]`` at the last observations.
        final: ``[K, G, W + 1]`` at the final observations.
    """

    decided: Tensor | None = None
    last: Tensor | None = None
    final: Tensor | None = None


def poca_loss(outputs: GroupOutputs, batch: POCAMinibatch, cfg: POCAConfig) -> tuple[Tensor, Metrics]:
    """Computes `ppo_loss` of the rows that acted, the errors of baselines, and the value errors of all rows (if members
    leave the group at their end, only of the rows that acted).
    """
    rows = batch.acted.nonzero().squeeze(1)
    loss, metrics = outputs.value.new_zeros(()), Metrics()
    if len(rows):
        played = batch if len(rows) == len(batch) else _select_rows(batch, rows)
        distribution = outputs.distribution
        if played is not batch:
            distribution = distribution.like(distribution.parameters.index_select(0, rows))
        loss, metrics = ppo_loss(Outputs(distribution, played.value_target), played, cfg)  # no error, no gradient
    value_loss = baseline_loss = outputs.value.new_zeros(())
    if len(rows):
        parts = outputs.baseline, batch.baseline, batch.value_target
        new, old, target = (part.index_select(0, rows) for part in parts)
        baseline_loss = _error(new, old, target, cfg)
    if not cfg.leave_group_at_end or len(rows) == len(batch):
        value_loss = _error(outputs.value, batch.value, batch.value_target, cfg)
    elif len(rows):
        value_parts = outputs.value, batch.value, batch.value_target
        new, old, target = (part.index_select(0, rows) for part in value_parts)
        value_loss = _error(new, old, target, cfg)
    metrics |= {"value_loss": value_loss.detach(), "baseline_loss": baseline_loss.detach()}
    return loss + cfg.value_coef * (value_loss + cfg.baseline_coef * baseline_loss), metrics


def _select_rows(batch: Minibatch, rows: Tensor) -> Minibatch:
    """Selects rows of the fields that `ppo_loss` reads."""
    names = ("action", "logp", "advantage", "value_target", "value")
    parts = {name: getattr(batch, name).index_select(0, rows) for name in names}
    return Minibatch(obs={}, **parts, least_deviation=batch.least_deviation)


def _error(value: Tensor, old: Tensor, target: Tensor, cfg: POCAConfig) -> Tensor:
    """Computes the mean squared error of values ``[N, S]``, summed over columns; without gradient beyond the clip."""
    if cfg.value_clip is not None:
        value = old + (value - old).clamp(-cfg.value_clip, cfg.value_clip)
    return clipped_error(value, target, cfg.value_loss_clip) * value.shape[1]


class POCA(PPO):
    """The algorithm: PPO's update with a critic of the group and counterfactual advantages."""

    cfg: POCAConfig
    net: GroupActorCritic
    loss = staticmethod(poca_loss)  # type: ignore[assignment]

    def __init__(self, policy: Policy, cfg: POCAConfig, streams: Streams, name: str) -> None:
        if cfg.kl_coef:
            raise ConfigError(
                f"policies.{name}.kl_coef = {cfg.kl_coef}: poca has no penalty on the divergence; set it to 0, and "
                "target_kl to end updates early"
            )
        super().__init__(policy, cfg, streams, name)

    def make_net(self) -> GroupActorCritic:
        """Builds the networks; a subclass may build others."""
        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, self.name, 1))
        cfg = self.cfg
        return GroupActorCritic(
            self.policy, cfg.model, cfg.attention_size, cfg.attention_heads, generator, len(self.columns)
        )

    def seen(self, obs: TensorTree) -> TensorTree:
        """Returns observations ``[N, ...]`` as network inputs; those of members are normalized like the policy's."""
        policy, normalizer = self.policy, self.policy.normalizer
        seen = policy.normalize(obs)
        if normalizer is not None:
            own = dict(zip(normalizer.paths, normalizer.statistics, strict=True))
            for group in self.net.critic_trunk.groups:
                for path in group.paths if group.is_own else ():
                    if path in own:
                        there = f"{group.prefix}/{MEMBERS}/{path}"
                        seen[there] = own[path](obs[there]).clamp(-normalizer.clip, normalizer.clip)
        return seen

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> POCAMinibatch:
        """Computes lambda-returns ``[N, S]`` from the values, and advantages ``[N]`` over the baselines."""
        cfg, net, shape, policy = self.cfg, self.net, rollout.reward.shape, self.policy
        obs, last_obs, final_obs = policy.sights(rollout, self.seen)
        known = self.features(rollout, obs, last_obs, final_obs) if policy.memory_size else MemberFeatures()
        sequences, kept = (None, None) if policy.memory is None else rollout.sequences()
        flags = f"{CENTRAL}/{ACTED}"
        acted = rollout.obs[flags].squeeze(-1) > 0
        if cfg.leave_group_at_end:
            after = following(acted, rollout.last_obs[flags].squeeze(-1) > 0)
            after[rollout.length - 1, torch.arange(shape[1], dtype=torch.int64, device="cpu")] = (
                rollout.last_obs[flags].squeeze(-1) > 0
            )
            left = acted & ~after & ~rollout.terminated & ~rollout.truncated
            rollout = replace(rollout, terminated=rollout.terminated | left)
        rewards = self.rewards(rollout)
        reward = self.value_scale.in_unit(rollout, rewards)
        reward[..., 1:] *= acted.unsqueeze(-1)  # only members that act get the rewards of other signals
        final = net.value(final_obs, known.final) if len(rollout.boot_index) else None
        value = net.value(obs, known.decided).view(*shape, -1)
        next_value = next_values(rollout, value, net.value(last_obs, known.last), final)
        ended = (rollout.terminated | rollout.truncated | rollout.last).unsqueeze(-1)
        columns = self.columns
        if len(columns) > 1:
            next_value, ended = across_episodes(rollout, value, next_value, ended, columns)
        gamma = value.new_tensor([column.gamma for column in columns])
        target = value + gae(reward, value, next_value, ended, gamma=gamma, gae_lambda=cfg.gae_lambda)

        alone = policy.memory is None  # else rows without an action lie in sequences, and `poca_loss` skips them
        valid = rollout.valid & acted if cfg.leave_group_at_end and alone else rollout.valid
        rows = valid.flatten().nonzero().squeeze(1)
        acts = flat(acted, rows)
        played = flat(rollout.action, rows)
        mates_action, mates_acted = self.mates(rows_of(member_ids(rollout.obs), rows), played, acts)
        mates_features = None if known.decided is None else known.decided.index_select(0, rows)
        seen = rows_of({path: leaf for path, leaf in obs.items() if path != f"{CENTRAL}/{MOMENT}"}, rows)
        baseline = net.value_head(net.critic_trunk(seen, mates_action, mates_acted, mates_features)[1])
        data = POCAMinibatch(
            obs=seen,
            action=played,
            logp=flat(rollout.logp, rows),
            advantage=(flat(target, rows) - baseline) @ value.new_tensor([column.strength for column in columns]),
            value_target=flat(target, rows),
            value=flat(value, rows),
            sequences=sequences,
            memory=kept if kept is None else policy.learned(kept),
            baseline=baseline,
            acted=acts,
            mates_action=mates_action,
            mates_acted=mates_acted,
            mates_features=mates_features,
        )
        data = self.with_least_deviation(self.renewed(data), rollout, rewards)
        return normalize_advantages(data, data.acted) if cfg.normalize_advantage == "batch" else data

    def features(self, rollout: Rollout, obs: TensorTree, last: TensorTree, final: TensorTree) -> MemberFeatures:
        """Computes the policy's features of the members of each row's group, along whole fragments."""
        policy, length = self.policy, rollout.length
        own = [leaf.path for leaf in policy.input_spec.leaves]
        whole, last, final = ({path: tree[path] for path in own} for tree in (obs, last, final))
        memory = None if rollout.memory is None else policy.learned(rollout.memory[0])
        sequences = None if policy.memory is None else rollout.timeline()
        decided, of_last, of_final = along_timeline(
            rollout, whole, last, final, lambda together: self.net.features(together, memory, sequences)
        )
        ids, last_ids = member_ids(rollout.obs), member_ids(rollout.last_obs)
        fragment = torch.arange(len(length), device=length.device, dtype=torch.int64)
        continues = ~(rollout.terminated | rollout.truncated)[length - 1, fragment]  # else no observation follows
        which = torch.cat((rollout.valid.flatten(), continues))
        both = {name: torch.cat((ids[name], last_ids[name])) for name in ids}
        sides = member_numbers(both, which, with_one(torch.cat((decided, of_last))), self.net.critic_trunk.number)
        decided, of_last = sides.split((len(decided), len(of_last)))
        # a final observation has the time step of the next episode's first
        ids = member_ids(rollout.final_obs)
        every = torch.ones_like(ids[ME], dtype=torch.bool)
        of_final = member_numbers(ids, every, with_one(of_final), self.net.critic_trunk.number)
        return MemberFeatures(decided, of_last, of_final)

    def mates(self, ids: TensorTree, action: Tensor, acted: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the actions of the members of each row's group at the same time step, ``[N, G, A]``, with a mask.

        Args:
            ids: Of each row, ``[N]``: the group's moment, and which member it is.
            action: ``[N, ...]`` actions of the row's member.
            acted: ``[N]`` whether it did anything.
        """
        moments, moment = torch.unique(ids[MOMENT], return_inverse=True)
        size = len(moments), self.net.critic_trunk.number
        doing = torch.zeros(size, dtype=torch.bool, device=action.device)
        numbers = torch.zeros(*size, self.net.critic_trunk.num_actions, device=action.device, dtype=torch.float32)
        at = moment[acted], ids[ME][acted]
        doing[at] = True
        numbers[at] = action_features(action[acted], self.policy.action_spec)
        return numbers[moment], doing[moment]

    def renewed(self, data: POCAMinibatch) -> POCAMinibatch:
        """Rescales the values as PPO does; baselines are computed by the same layer, and change with them."""
        bias, unit = self.net.value_head.linear.bias, self.value_scale.unit
        before = bias.clone()
        data = self.value_scale.renewed(data, self.net.value_head)  # type: ignore[assignment]
        change = unit / self.value_scale.unit
        return replace(data, baseline=data.baseline * change + (bias - before * change))


def member_ids(obs: TensorTree) -> TensorTree:
    """Returns member and time step of each row of ``[N]`` or ``[T, F]`` observations, flattened."""
    return {name: obs[f"{CENTRAL}/{name}"].flatten() for name in (MOMENT, ME)}


def member_numbers(ids: TensorTree, which: Tensor, numbers: Tensor, members: int) -> Tensor:
    """Returns the numbers of all members of each row's group at the same time step, ``[N, G, W]``; zeros if missing.

    Args:
        ids: Of each row, ``[N]``: the group's moment, and which member it is.
        which: ``[N]`` bool, rows with numbers. If several belong to one member and time step, the first counts.
        numbers: ``[N, W]``.
        members: G, largest number of members.
    """
    moments, moment = torch.unique(ids[MOMENT], return_inverse=True)
    place = moment * members + ids[ME]
    rows = which.nonzero().squeeze(1)
    row_at = torch.full((len(moments) * members,), len(numbers), device=place.device, dtype=torch.int64)
    row_at.scatter_reduce_(0, place[rows], rows, "amin")
    found = torch.cat((numbers, numbers.new_zeros(1, numbers.shape[1])))
    return found[row_at.view(-1, members)[moment]]
