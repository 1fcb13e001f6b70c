"""What actor-critics share: a policy beside a value function, and the targets both learn towards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Row
from rookery.core.batch import Minibatch, Rollout, Sequences, TensorTree, flat
from rookery.core.device import device_of
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.ops import following, gae, vtrace
from rookery.core.spaces.arrays import MASK
from rookery.models.build import CustomMemory, ModelConfig, build_trunk
from rookery.models.distributions import Distribution
from rookery.models.heads import GivenActionHead, GivenValueHead, Outputs, ValueHead, distribution_for
from rookery.models.recall import put_together, rows_of
from rookery.models.squashed import BoundedHead, HybridHead
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import Forward
from rookery.policies.policy import Policy
from rookery.signals.signal import ValueColumn


@dataclass(frozen=True)
class Correction:
    """Says how far what other weights have played counts for those that learn (V-trace, Espeholt et al. 2018,
    arXiv:1802.01561).

    Attributes:
        rho_bar: Largest importance weight of a decision, which decides what is learned.
        c_bar: Largest factor by which a later error counts for an earlier decision. It decides only how fast values are
            learned, and 1 keeps products of many ratios from growing, as in the paper.
        proximal: Networks whose probabilities lead from what was played to what is learned, such as a target network;
            None = those that learn.
    """

    rho_bar: float
    c_bar: float
    proximal: Forward[ActorCritic] | None = None


ONE_UPDATE_LATE = Correction(rho_bar=2.0, c_bar=1.0)
"""What `sampling.staleness` 1 asks for: importance weights should hardly ever be cut, and between the weights of two
updates probabilities rarely double.
"""


class ActorCritic(nn.Module):
    """Puts values beside the policy, on one trunk or on two; where the policy has a memory, both stand on that.

    Where observations have parts for critics alone, values always stand on a trunk of their own, which sees these too
    and remembers nothing: what a central critic sees is meant to be all there is to know.

    Takes observations as the trunk sees them, normalized and widened (once an update, not once a gradient step).

    Args:
        policy: The policy that learns.
        model: Settings of the networks.
        generator: Draws the weights of the value function.
        columns: S, reward signals whose values are learned.
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator, columns: int = 1) -> None:
        super().__init__()
        self.policy = policy
        self._remembers, self._recalls = policy.memory is not None, policy.recall is not None  # kept at hand
        if isinstance(policy.head, BoundedHead | HybridHead):
            raise ConfigError(
                f"policy {policy.name!r}: its head ({type(policy.head).__name__}) is for algorithms that learn from "
                "replay: actions near a bound do not say with which probability they were played, and there is no "
                "entropy; leave `head` of the algorithm's configuration as it is"
            )
        given, central = isinstance(policy.head, GivenActionHead), policy.has_central
        if given and central:
            raise ConfigError(
                f"policy {policy.name!r}: model.gives = outputs: its model gives the values too, and cannot see what "
                "the environment shows for critics alone (central): let it give features, or leave that out"
            )
        shared = given or (not central and (model.shared_trunk or self._remembers))
        own = isinstance(policy.memory, CustomMemory)  # a module that remembers cannot stand for rows by themselves
        alone = model.replace(module=None, module_config={}) if own and central else model
        self.critic_trunk = None if shared else build_trunk(policy.critic_spec, alone, generator=generator)
        self.remembers = self._remembers and self.critic_trunk is None
        """Whether values stand on what the policy remembers."""
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
        """All modules that learn, in the order in which they lie in flat memory: actor head, trunk, critic."""
        parts = [self.policy.head, self.policy.trunk, self.policy.memory, self.critic_trunk, self.value_head]
        return [part for part in parts if part is not None]

    def forward(self, batch: Minibatch) -> Outputs:
        """Computes the distribution and the values of each row."""
        obs = put_together(batch.obs) if self._recalls else batch.obs  # pictures may still stand once each
        features = self.policy.trunk(obs)
        if self._remembers:
            memory = self.policy.memory
            assert memory is not None
            features, _ = memory(features, batch.memory, batch.sequences)
        distribution = self.policy.head(features, obs.get(MASK))
        seen = features if self.critic_trunk is None else self.critic_trunk(obs)
        return Outputs(distribution, self.value_head(seen))

    def value(self, obs: TensorTree) -> Tensor:
        """Gives values ``[N, S]`` alone, of rows that stand for themselves; on what a policy remembers see `along`."""
        if self.remembers:
            raise RookeryError(f"policy {self.policy.name!r} remembers: its values are along sequences (`along`)")
        trunk = self.policy.trunk if self.critic_trunk is None else self.critic_trunk
        value: Tensor = self.value_head(trunk(obs))
        return value

    def along(self, obs: TensorTree, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Computes, along a policy's memory, the head's output ``[N, W]`` and values ``[N, S]``, without gradients.

        Args:
            obs: ``[N, ...]`` as the trunk takes them.
            memory: ``[B, M]`` what its memory kept before each sequence.
            sequences: How the rows lie in time.
        """
        assert self.policy.memory is not None
        with torch.no_grad():
            features, _ = self.policy.memory(self.policy.trunk(obs), memory, sequences)
            seen = features if self.critic_trunk is None else self.critic_trunk(obs)
            return self.policy.head.linear(features), self.value_head(seen)

    def structure(self) -> Structure:
        """Declares what `forward`, `value` and `along` compute."""
        policy, model = self.policy, self.model
        if self.critic_trunk is None:
            towers: tuple[Tower, ...] = (Tower(policy.trunk, (policy.head, self.value_head), policy.memory),)
        else:
            towers = Tower(policy.trunk, (policy.head,), policy.memory), Tower(self.critic_trunk, (self.value_head,))
        return Structure(towers, model, _inputs, self._outputs)

    def _outputs(self, parts: list[Tensor], batch: Minibatch) -> Outputs:
        """What a loss takes, given what the heads' layers put out."""
        log_std = None if self.policy.head.log_std is None else parts[1]
        return Outputs(distribution_for(self.policy.action_spec, parts[0], log_std, batch.obs.get(MASK)), parts[-1])


def _inputs(batch: Minibatch) -> Inputs:
    return Inputs(batch.obs, batch.memory, batch.sequences)


@dataclass(frozen=True)
class RolloutValues:
    """Holds what the networks say about a rollout before an update.

    Attributes:
        obs: ``[T * F, ...]`` its observations as the trunk takes them.
        value: ``[T, F, S]``.
        next_value: ``[T, F, S]`` of what came after each decision: nothing after a terminal one, the value of the final
            observation after a truncated one, that of the last observation at the end of a fragment, and else that of
            the next row.
    """

    obs: TensorTree
    value: Tensor
    next_value: Tensor


@torch.no_grad()
def values_of(forward: Forward[ActorCritic], rollout: Rollout) -> RolloutValues:
    """Passes a rollout through the networks: row by row, or, for a policy with a memory, along the time line."""
    policy, shape = forward.net.policy, rollout.reward.shape
    if policy.recall is None:
        obs = policy.normalize({path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()})
        last, final = policy.normalize(rollout.last_obs), policy.normalize(rollout.final_obs)
        whole = obs
    else:
        obs, last, final = policy.recall.unroll(rollout, policy.normalize)
        whole, last, final = put_together(obs), put_together(last), put_together(final)
    if not forward.net.remembers:
        kernels = forward.kernels
        value_of = forward.net.value if kernels is None else kernels.last
        value, last_value = value_of(whole).view(*shape, -1), value_of(last)
        final_value = value_of(final) if len(rollout.boot_index) else None
    else:
        value, last_value, final_value = _values_along(forward, rollout, whole, last, final)
    return RolloutValues(obs, value, following_values(rollout, value, last_value, final_value))


def following_values(rollout: Rollout, value: Tensor, last_value: Tensor, final_value: Tensor | None) -> Tensor:
    """Gives the values of what came after each decision, ``[T, F, S]``; see `RolloutValues.next_value`.

    Args:
        rollout: The experience.
        value: ``[T, F, S]`` of the observations that were decided on.
        last_value: ``[F, S]`` of the last observations.
        final_value: ``[K, S]`` of the final ones; None if there are none.
    """
    next_value = following(value, last_value)
    next_value[rollout.length - 1, torch.arange(len(last_value), device=value.device, dtype=torch.int64)] = last_value
    if final_value is not None:
        next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = final_value
    return next_value.masked_fill_(rollout.terminated.unsqueeze(-1), 0.0)


def beyond_episodes(
    rollout: Rollout, value: Tensor, next_value: Tensor, ended: Tensor, columns: Sequence[ValueColumn]
) -> tuple[Tensor, Tensor]:
    """Gives what came after each decision, and where sums stop, both ``[T, F, S]``, where returns of some signals go on
    through the ends of episodes: the next episode's first value follows. Where a fragment ends with an episode nobody
    knows that one; the value of the decision itself stands for it.

    Args:
        rollout: The experience.
        value: ``[T, F, S]`` of the observations that were decided on.
        next_value: ``[T, F, S]`` within episodes.
        ended: ``[T, F, 1]`` where they end, or fragments do.
        columns: The S signals.
    """
    goes_on = torch.tensor([not column.episodic for column in columns], device=value.device, dtype=torch.bool)
    over = (rollout.terminated | rollout.truncated).unsqueeze(-1)
    last = rollout.last.unsqueeze(-1)
    onward = torch.where(last, value, following(value, value[-1]))
    next_value = torch.where(goes_on & over, onward, next_value)
    return next_value, torch.where(goes_on, last, ended)


def _values_along(
    forward: Forward[ActorCritic], rollout: Rollout, whole: TensorTree, last: TensorTree, final: TensorTree
) -> tuple[Tensor, Tensor, Tensor]:
    """Values of all rows ``[T, F, S]``, last ``[F, S]`` and final observations ``[K, S]``, along a policy's memory."""
    assert rollout.memory is not None
    memory = forward.net.policy.learned(rollout.memory[0])

    def value_of(obs: TensorTree) -> Tensor:
        return _along(forward, obs, memory, rollout.timeline())[1]

    values, last_value, final_value = in_time(rollout, whole, last, final, value_of)
    return values.view(*rollout.reward.shape, -1), last_value, final_value


def in_time(
    rollout: Rollout,
    whole: TensorTree,
    last: TensorTree,
    final: TensorTree,
    function: Callable[[TensorTree], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Passes a rollout through a function as one batch, in the order of `Rollout.timeline`.

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
    decided = whole if rows is None else {path: leaf.index_select(0, rows) for path, leaf in whole.items()}
    together = {path: torch.cat((leaf, last[path], final[path])) for path, leaf in decided.items()}
    num, fragments = rollout.reward.numel() if rows is None else len(rows), len(rollout.length)
    found, of_last, of_final = function(together).split((num, fragments, len(rollout.boot_index)))
    if rows is not None:
        found = found.new_zeros(rollout.reward.numel(), found.shape[1]).index_copy(0, rows, found)
    return found, of_last, of_final


def _along(
    forward: Forward[ActorCritic], obs: TensorTree, memory: Tensor, sequences: Sequences
) -> tuple[Tensor, Tensor]:
    """The head's output and values along a policy's memory, as `ActorCritic.along` gives them."""
    kernels = forward.kernels
    if kernels is None:
        return forward.net.along(obs, memory, sequences)
    output, *_, value = kernels.run(Inputs(obs, memory, sequences))
    return output, value


@torch.no_grad()
def logp_now(
    forward: Forward[ActorCritic], rollout: Rollout, obs: TensorTree, sequences: Sequences | None, memory: Tensor | None
) -> Tensor:
    """Computes log-probabilities ``[T, F]`` of what was played, under the policy that learns, as its minibatches will
    find them: of a policy that remembers, from the memories that were kept.

    Args:
        forward: The networks.
        rollout: What was played.
        obs: ``[T * F, ...]`` as the trunk takes them.
        sequences: How minibatches have the rows; None if each stands for itself.
        memory: ``[B, M]`` what was kept before each sequence.
    """
    policy, rows, action = forward.net.policy, rollout.valid_rows(), rollout.action.flatten(0, 1)
    if sequences is None or memory is None:
        output = policy.head.linear(policy.trunk(put_together(obs)))
    else:
        decided = obs if rows is None else rows_of(obs, rows)
        output, _ = _along(forward, put_together(decided), memory, sequences)
        if rows is not None:
            output = output.new_zeros(len(action), output.shape[1]).index_copy(0, rows, output)
    distribution: Distribution = policy.head.distribution(output, obs.get(MASK))
    return distribution.log_prob(action).view_as(rollout.reward)


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
    """Computes advantages and value targets of every valid decision of a rollout, for each reward signal by itself.

    Args:
        forward: The networks, which say what observations are worth: ``attach(net)``.
        rollout: The experience.
        reward: ``[T, F, S]`` rewards, scaled or not; ``[T, F]`` of a single signal.
        columns: The S signals, by whose strength advantages are summed.
        gae_lambda: Decay of later errors.
        correction: Other weights than those that learn may have played: V-trace takes the place of GAE, with
            importance; None = GAE, as if these had.

    Returns:
        ``[N]`` rows, observations as the trunk takes them; in sequences, if the policy has a memory that is learned.
    """
    forward.refresh()
    policy, seen = forward.net.policy, values_of(forward, rollout)
    obs, value, logp, ratio = seen.obs, seen.value, rollout.logp, None
    reward = reward.unsqueeze(-1) if reward.dim() == 2 else reward
    if not len(columns) == reward.shape[-1] == value.shape[-1]:
        raise _disagreement(len(columns), reward.shape[-1], value.shape[-1])
    only = columns[0] if reward.shape[-1] == 1 else None
    gamma = only.gamma if only else value.new_tensor([column.gamma for column in columns])
    ended = (rollout.terminated | rollout.truncated | rollout.last).unsqueeze(-1)
    next_value, sequences, memory = seen.next_value, None, None
    if only is None:
        next_value, ended = beyond_episodes(rollout, value, next_value, ended, columns)
    if policy.memory is not None:
        sequences, kept = rollout.sequences()
        memory = policy.learned(kept)
    if correction is not None:
        logp = logp_now(correction.proximal or forward, rollout, obs, sequences, memory)
        ratio = (logp - rollout.logp).exp()
        played = reward, value, next_value, ended, ratio.unsqueeze(-1)
        rho_bar, c_bar = correction.rho_bar, correction.c_bar
        advantage, target = vtrace(*played, gamma=gamma, gae_lambda=gae_lambda, rho_bar=rho_bar, c_bar=c_bar)
    else:
        advantage = gae(reward, value, next_value, ended, gamma=gamma, gae_lambda=gae_lambda)
        target = advantage + value
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
        importance=None if ratio is None or correction is None else flat(ratio.clamp(max=correction.rho_bar), rows),
        sequences=sequences,
        memory=memory,
    )


def _disagreement(columns: int, rewards: int, values: int) -> RookeryError:
    return RookeryError(
        f"{columns} value columns, rewards of {rewards} and values of {values} signals: columns, rewards(rollout) and "
        "make_net must agree"
    )


def importance_metrics(data: Minibatch) -> Row:
    """Reports how far the weights that played were from those that learn; nothing if they were the same."""
    if data.importance is None:
        return {}
    deviation, mean = torch.std_mean(data.importance, correction=0)
    return {"importance_mean": float(mean), "importance_std": float(deviation)}
