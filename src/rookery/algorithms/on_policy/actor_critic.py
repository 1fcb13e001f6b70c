"""Shared parts of actor-critics: a policy with a value function, and the targets of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Row
from rookery.core.batch import Minibatch, Rollout, Sequences, TensorTree, flat, rows_of
from rookery.core.device import device_of
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.ops import following, gae, vtrace
from rookery.core.spaces.arrays import MASK
from rookery.models.build import CustomMemory, ModelConfig, build_trunk
from rookery.models.distributions import Behavior
from rookery.models.heads import GivenActionHead, GivenValueHead, Outputs, ValueHead, distribution_for
from rookery.models.squashed import BoundedHead, HybridHead
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import Forward
from rookery.policies.policy import Policy
from rookery.signals.signal import ValueColumn


@dataclass(frozen=True)
class Correction:
    """Off-policy correction of rollouts of older weights (V-trace, Espeholt et al. 2018, arXiv:1802.01561).

    Attributes:
        rho_bar: Largest importance weight of a decision; it determines the policy that values belong to.
        c_bar: Largest weight of a later error for an earlier decision. It only determines how fast values are learned,
            and 1 keeps products of many ratios from growing, as in the paper.
        proximal: Networks between the policy that played and the one that learns, such as a target network; None =
            those that learn.
    """

    rho_bar: float
    c_bar: float
    proximal: Forward[ActorCritic] | None = None

    def targets(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        ended: Tensor,
        log_ratio: Tensor,
        gamma: float | Tensor,
        gae_lambda: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes advantages and value targets, ``[T, F, S]``, and the importance weights of decisions, ``[T, F]``.

        Args:
            reward: ``[T, F, S]``, as the next three.
            value: Values of the observations.
            next_value: Values of the next observations.
            ended: Where sums stop.
            log_ratio: ``[T, F]`` log-probability of each decision now, minus that when it was played.
            gamma: Discount; ``[S]`` of several signals.
            gae_lambda: Decay of later errors.
        """
        ratio = log_ratio.exp()
        played = reward, value, next_value, ended, ratio.unsqueeze(-1)
        rho_bar, c_bar = self.rho_bar, self.c_bar
        found = vtrace(*played, gamma=gamma, gae_lambda=gae_lambda, rho_bar=rho_bar, c_bar=c_bar)
        return *found, ratio.clamp(max=rho_bar)


ONE_UPDATE_LATE = Correction(rho_bar=2.0, c_bar=1.0)
"""Correction for `sampling.staleness` 1: importance weights are rarely clipped, because probabilities rarely double
between two updates.
"""


class ActorCritic(nn.Module):
    """Policy and value function on one trunk or on two; if the policy has a memory, both can use it.

    If observations have parts for critics alone, values always have a trunk of their own, which sees these too and has
    no memory: the observations of a central critic are meant to be complete.

    Takes observations as the trunk takes them, normalized and widened (once per update, not per gradient step).

    Args:
        policy: The policy that learns.
        model: Settings of the networks.
        generator: Draws the weights of the value function.
        columns: S, reward signals whose values are learned.
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator, columns: int = 1) -> None:
        super().__init__()
        self.policy = policy
        self._remembers = policy.memory is not None
        if isinstance(policy.head, BoundedHead | HybridHead):
            raise ConfigError(
                f"policy {policy.name!r}: its head ({type(policy.head).__name__}) is for algorithms that learn from "
                "replay: actions near a bound do not say with which probability they were played, and there is no "
                "entropy; leave `head` of the algorithm's configuration as it is"
            )
        given, central = isinstance(policy.head, GivenActionHead), policy.has_central
        if given and central:
            raise ConfigError(
                f"policy {policy.name!r}: model.output = action_params: its model gives the values too, and cannot see "
                "what the environment shows for critics alone (central): let it give features, or leave that out"
            )
        shared = given or (not central and (model.shared_trunk or self._remembers))
        own = isinstance(policy.memory, CustomMemory)  # a module with a memory cannot process rows by themselves
        alone = model.replace(module=None, module_config={}) if own and central else model
        self.critic_trunk = None if shared else build_trunk(policy.critic_spec, alone, generator=generator)
        self.remembers = self._remembers and self.critic_trunk is None
        """Whether values use the policy's memory."""
        self.value_head: ValueHead | GivenValueHead
        if given:
            if (found := policy.num_features - policy.action_spec.num_parameters) != columns:
                raise ConfigError(f"policy {policy.name!r}: its model gives {found} values (num_values), not {columns}")
            self.value_head = GivenValueHead(policy.num_features - columns, columns=columns)
        else:
            width = policy.num_features if self.critic_trunk is None else self.critic_trunk.num_features
            assert isinstance(width, int)
            self.value_head = ValueHead(width, generator=generator, columns=columns)
        self.model = model
        self.to(device_of(policy))

    @property
    def parts(self) -> list[nn.Module]:
        """All modules that learn, in the order of their weights in flat memory: actor head, trunk, critic."""
        parts = [self.policy.head, self.policy.trunk, self.policy.memory, self.critic_trunk, self.value_head]
        return [part for part in parts if part is not None]

    def forward(self, batch: Minibatch) -> Outputs:
        """Computes the distribution and the values of each row."""
        obs = batch.obs
        features = self.features(obs, batch.memory, batch.sequences) if self._remembers else self.policy.trunk(obs)
        distribution, critic = self.policy.head(features, obs.get(MASK)), self.critic_trunk
        seen = features if critic is None else critic(obs)
        return Outputs(distribution, self.value_head(seen))

    def features(self, obs: TensorTree, memory: Tensor | None, sequences: Sequences | None) -> Tensor:
        """Computes the features on which the policy's actions are based, ``[N, F]``.

        Args:
            obs: ``[N, ...]`` as the trunk takes them.
            memory: ``[B, M]`` memory before each sequence; None, as the next, without a memory.
            sequences: Positions of the rows in time.
        """
        features: Tensor = self.policy.trunk(obs)
        if self._remembers:
            assert self.policy.memory is not None and memory is not None and sequences is not None
            features, _ = self.policy.memory(features, memory, sequences)
        return features

    def value(self, obs: TensorTree, memory: Tensor | None = None, sequences: Sequences | None = None) -> Tensor:
        """Computes values ``[N, S]`` alone; arguments as of `features`.

        Raises:
            RookeryError: If values use the policy's memory, and no memory is given.
        """
        if self.remembers and memory is None:
            raise RookeryError(f"policy {self.policy.name!r} has a memory: its values need memory and sequences")
        critic = self.critic_trunk
        value: Tensor = self.value_head(self.features(obs, memory, sequences) if critic is None else critic(obs))
        return value

    def behavior(self, obs: TensorTree, memory: Tensor | None = None, sequences: Sequences | None = None) -> Behavior:
        """Computes the action distribution alone; arguments as of `features`."""
        behavior: Behavior = self.policy.head(self.features(obs, memory, sequences), obs.get(MASK))
        return behavior

    def structure(self) -> Structure:
        """Declares what `forward`, `value` and `behavior` compute."""
        policy, model = self.policy, self.model
        if self.critic_trunk is None:
            towers: tuple[Tower, ...] = (Tower(policy.trunk, (policy.head, self.value_head), policy.memory),)
        else:
            towers = Tower(policy.trunk, (policy.head,), policy.memory), Tower(self.critic_trunk, (self.value_head,))
        return Structure(towers, model, _inputs, self._outputs)

    def _outputs(self, parts: list[Tensor], batch: Minibatch) -> Outputs:
        """Computes the outputs for a loss from those of the heads' layers."""
        log_std = None if self.policy.head.log_std is None else parts[1]
        return Outputs(distribution_for(self.policy.action_spec, parts[0], log_std, batch.obs.get(MASK)), parts[-1])


def _inputs(batch: Minibatch) -> Inputs:
    return Inputs(batch.obs, batch.memory, batch.sequences)


@dataclass(frozen=True)
class RolloutValues:
    """Values of a rollout before an update.

    Attributes:
        obs: ``[T * F, ...]`` its observations as the trunk takes them.
        value: ``[T, F, S]``.
        next_value: ``[T, F, S]`` values of the next observations: 0 after a terminal decision, the value of the final
            observation after a truncated one, that of the last observation at the end of a fragment, and else that of
            the next row.
    """

    obs: TensorTree
    value: Tensor
    next_value: Tensor


def values_of(forward: Forward[ActorCritic], rollout: Rollout) -> RolloutValues:
    """Computes the values of a rollout: row by row, or, for a policy with a memory, along the time line. Call it
    under ``torch.no_grad()``.
    """
    shape, (obs, last, final) = rollout.reward.shape, forward.net.policy.sights(rollout)
    if not forward.net.remembers:
        value, last_value = forward.values(Inputs(obs)).view(*shape, -1), forward.values(Inputs(last))
        final_value = forward.values(Inputs(final)) if len(rollout.boot_index) else None
    else:
        value, last_value, final_value = _values_along(forward, rollout, obs, last, final)
    return RolloutValues(obs, value, next_values(rollout, value, last_value, final_value))


def next_values(rollout: Rollout, value: Tensor, last_value: Tensor, final_value: Tensor | None) -> Tensor:
    """Returns the values of the next observations, ``[T, F, S]``; see `RolloutValues.next_value`.

    Args:
        rollout: The experience.
        value: ``[T, F, S]`` values of the observations.
        last_value: ``[F, S]`` values of the last observations.
        final_value: ``[K, S]`` values of the final observations; None if there are none.
    """
    next_value = following(value, last_value)
    next_value[rollout.length - 1, torch.arange(len(last_value), device=value.device, dtype=torch.int64)] = last_value
    if final_value is not None:
        next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = final_value
    return next_value.masked_fill_(rollout.terminated.unsqueeze(-1), 0.0)


def across_episodes(
    rollout: Rollout, value: Tensor, next_value: Tensor, ended: Tensor, columns: Sequence[ValueColumn]
) -> tuple[Tensor, Tensor]:
    """Returns next values, and the places where sums stop, both ``[T, F, S]``, for signals whose returns continue
    across episode ends: the next value is that of the next episode's first observation. If a fragment ends with an
    episode, that observation is unknown, and the value of the decision itself replaces its value.

    Args:
        rollout: The experience.
        value: ``[T, F, S]`` values of the observations.
        next_value: ``[T, F, S]`` within episodes.
        ended: ``[T, F, 1]`` where episodes or fragments end.
        columns: The S signals.
    """
    continues = torch.tensor([not column.episodic for column in columns], device=value.device, dtype=torch.bool)
    over = (rollout.terminated | rollout.truncated).unsqueeze(-1)
    last = rollout.last.unsqueeze(-1)
    onward = torch.where(last, value, following(value, value[-1]))
    next_value = torch.where(continues & over, onward, next_value)
    return next_value, torch.where(continues, last, ended)


def _values_along(
    forward: Forward[ActorCritic], rollout: Rollout, whole: TensorTree, last: TensorTree, final: TensorTree
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes values of all rows ``[T, F, S]``, last ``[F, S]`` and final observations ``[K, S]`` with the memory."""
    assert rollout.memory is not None
    memory, timeline = forward.net.policy.learned(rollout.memory[0]), rollout.timeline()
    values, last_value, final_value = along_timeline(
        rollout, whole, last, final, lambda obs: forward.values(Inputs(obs, memory, timeline))
    )
    return values.view(*rollout.reward.shape, -1), last_value, final_value


def along_timeline(
    rollout: Rollout,
    whole: TensorTree,
    last: TensorTree,
    final: TensorTree,
    function: Callable[[TensorTree], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Applies a function to a whole rollout as one batch, in the order of `Rollout.timeline`.

    Args:
        rollout: The experience.
        whole: ``[T * F, ...]`` its observations.
        last: ``[F, ...]`` the last ones.
        final: ``[K, ...]`` the final ones.
        function: From observations ``[N, ...]`` to numbers ``[N, W]``.

    Returns:
        The numbers of all decisions ``[T * F, W]``, with zeros where there is none, of last and of final observations.
    """
    rows = rollout.valid_rows()
    num, fragments = rollout.reward.numel() if rows is None else len(rows), len(rollout.length)
    numbers = function(rollout.timeline_rows(whole, last, final))
    found, of_last, of_final = numbers.split((num, fragments, len(rollout.boot_index)))
    if rows is not None:
        found = found.new_zeros(rollout.reward.numel(), found.shape[1]).index_copy(0, rows, found)
    return found, of_last, of_final


@torch.no_grad()
def current_logp(
    forward: Forward[ActorCritic], rollout: Rollout, obs: TensorTree, sequences: Sequences | None, memory: Tensor | None
) -> Tensor:
    """Computes log-probabilities ``[T, F]`` of the stored actions under the current policy, in the same way as its
    minibatches: for a policy with a memory, from its stored memory.

    Args:
        forward: The networks.
        rollout: The experience.
        obs: ``[T * F, ...]`` as the trunk takes them.
        sequences: Positions of the minibatches' rows in time; None if rows are independent.
        memory: ``[B, M]`` stored memory before each sequence.
    """
    rows = None if sequences is None else rollout.valid_rows()
    seen = obs if rows is None else rows_of(obs, rows)
    logp = forward.log_probs(Inputs(seen, memory, sequences), flat(rollout.action, rows))
    if rows is not None:
        logp = logp.new_zeros(rollout.reward.numel()).index_copy(0, rows, logp)
    return logp.view_as(rollout.reward)


@torch.no_grad()
def advantage_targets(
    forward: Forward[ActorCritic],
    rollout: Rollout,
    reward: Tensor,
    columns: Sequence[ValueColumn],
    *,
    gae_lambda: float,
    correction: Correction | None = None,
) -> Minibatch:
    """Computes advantages and value targets of every valid decision of a rollout, for each reward signal separately.

    Args:
        forward: The networks that compute the values: ``attach(net)``.
        rollout: The experience.
        reward: ``[T, F, S]`` rewards, scaled or not; ``[T, F]`` for a single signal.
        columns: The S signals, whose strengths weight the sum of advantages.
        gae_lambda: Decay of later errors.
        correction: Off-policy correction: V-trace with importance weights replaces GAE; None = GAE, as if the latest
            weights had played.

    Returns:
        ``[N]`` rows, observations as the trunk takes them; in sequences, if the policy has a memory that is learned.
    """
    forward.refresh()
    policy, seen = forward.net.policy, values_of(forward, rollout)
    obs, value, logp, importance = seen.obs, seen.value, rollout.logp, None
    reward = reward.unsqueeze(-1) if reward.dim() == 2 else reward
    if not len(columns) == reward.shape[-1] == value.shape[-1]:
        raise _disagreement(len(columns), reward.shape[-1], value.shape[-1])
    only = columns[0] if reward.shape[-1] == 1 else None
    gamma = only.gamma if only else value.new_tensor([column.gamma for column in columns])
    ended = (rollout.terminated | rollout.truncated | rollout.last).unsqueeze(-1)
    next_value, sequences, memory = seen.next_value, None, None
    if only is None:
        next_value, ended = across_episodes(rollout, value, next_value, ended, columns)
    if policy.memory is not None:
        sequences, kept = rollout.sequences()
        memory = policy.learned(kept)
    played = reward, value, next_value, ended
    if correction is None:
        advantage = gae(*played, gamma=gamma, gae_lambda=gae_lambda)
        target = advantage + value
    else:
        logp = current_logp(correction.proximal or forward, rollout, obs, sequences, memory)
        advantage, target, importance = correction.targets(*played, logp - rollout.logp, gamma, gae_lambda)
    weight = None if only and only.strength == 1 else value.new_tensor([column.strength for column in columns])
    advantage = advantage.squeeze(-1) if weight is None else advantage @ weight
    rows = rollout.valid_rows()
    return Minibatch(
        obs=obs if rows is None else rows_of(obs, rows),
        action=flat(rollout.action, rows),
        logp=flat(logp, rows),
        advantage=flat(advantage, rows),
        value_target=flat(target, rows),
        value=flat(value, rows),
        importance=None if importance is None else flat(importance, rows),
        sequences=sequences,
        memory=memory,
    )


def _disagreement(columns: int, rewards: int, values: int) -> RookeryError:
    return RookeryError(
        f"{columns} value columns, rewards of {rewards} and values of {values} signals: columns, rewards(rollout) and "
        "make_net must agree"
    )


def importance_metrics(data: Minibatch) -> Row:
    """Reports the difference between the weights that played and the present ones; nothing without a correction."""
    if data.importance is None:
        return {}
    deviation, mean = torch.std_mean(data.importance, correction=0)
    return {"importance_mean": float(mean), "importance_std": float(deviation)}
