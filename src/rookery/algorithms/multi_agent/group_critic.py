"""Critic of a group: attention over its living members, and a baseline that does not know the row's own action.

After Cohen et al. 2021 (arXiv:2111.05992), section 4. The members' observations lie under ``central``
(`envs/groups.py`). One network encodes all members of a kind; absent members have no weight at all.

The critic has no memory. Where the policy has one, the critic receives the policy's features of each member, on which
its actions are based.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.algorithms.on_policy.actor_critic import ActorCritic
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import CENTRAL, MASK, Leaf, ObsSpec
from rookery.envs.groups import ALIVE, ME, MEMBERS
from rookery.models.build import CustomMemory, ModelConfig, build_trunk
from rookery.models.entities import attended_mean
from rookery.models.heads import Outputs, ValueHead
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear
from rookery.policies.policy import Policy
from rookery.signals.signal import action_width


@dataclass(frozen=True)
class GroupOutputs(Outputs):
    """Outputs of the networks for N rows.

    Attributes:
        baseline: ``[N, S]`` values that depend on the actions of the others, but not on the row's own.
    """

    baseline: Tensor


class MemberSet(nn.Module):
    """Encodes members of one kind: their observations, and their observations with their actions.

    Args:
        policy: The policy that learns.
        prefix: Prefix of the paths of the members' leaves.
        model: Layers of the encoder.
        size: Width of the codes.
        num_actions: Width of an action as numbers.
        generator: Draws the weights.

    Attributes:
        number: G, largest number of members.
        is_own: Whether they have the same observations as the policy's own rows, and the same normalization.
        knows: Layer from the features of a policy with a memory, and a 1, to a code; None if it has no memory, or plays
            no members of this kind.
    """

    def __init__(
        self,
        policy: Policy,
        prefix: str,
        model: ModelConfig,
        size: int,
        num_actions: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.prefix = prefix
        before = f"{prefix}/{MEMBERS}/"
        leaves = [leaf for leaf in policy.critic_spec.leaves if leaf.path.startswith(before)]
        self.number = leaves[0].shape[0]
        self.paths = tuple(leaf.path.removeprefix(before) for leaf in leaves)
        raw = {leaf.path: leaf for leaf in policy.own_spec.leaves}
        stacked = {leaf.path.removeprefix(before): leaf for leaf in policy.obs_spec.leaves if leaf.path in
                   {one.path for one in leaves}}  # fmt: skip
        self.is_own = all(
            path in raw and _like(_of_one(stacked[path], path)) == _like(raw[path]) for path in self.paths
        )
        normal = policy.obs_spec if policy.normalizer is None else policy.normalizer.spec
        alike = {leaf.path: leaf for leaf in normal.own.leaves}  # not widened by the past: that of mates is not shown
        single = [
            alike[path] if self.is_own else _of_one(leaf, path) for path, leaf in zip(self.paths, leaves, strict=True)
        ]
        spec = ObsSpec(policy.own_spec.space if self.is_own else policy.obs_spec.space, tuple(single))
        own = self.is_own and not isinstance(policy.memory, CustomMemory)  # which cannot process rows by themselves
        self.trunk = build_trunk(
            spec, model if own else model.replace(module=None, module_config={}), generator=generator
        )
        width = self.trunk.num_features
        assert isinstance(width, int)
        self.sees = linear(width, size, gain=HIDDEN_GAIN, generator=generator)
        self.acts = linear(width + num_actions + 1, size, gain=HIDDEN_GAIN, generator=generator)
        self.change = linear(size, size, gain=1.0, generator=generator)
        nn.init.zeros_(self.change.weight)  # at first a baseline equals the value, and has its error
        self.knows: nn.Linear | None = None
        if self.is_own and policy.memory_size:
            self.knows = linear(policy.num_features + 1, size, gain=HIDDEN_GAIN, generator=generator)
        self._activate = ACTIVATIONS[model.activation]

    def forward(
        self, obs: TensorTree, action: Tensor, acted: Tensor, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Computes codes ``[N, G, size]`` of the members' observations and features, and of these with their actions.

        Args:
            obs: ``[N, ...]`` as `POCA.seen` gives them.
            action: ``[N, G, A]`` as numbers; zeros if unknown.
            acted: ``[N, G]`` bool, whether the action is known.
            known: ``[N, G, F + 1]`` the policy's features of each, and a 1; zeros if unknown. None if the policy has no
                memory.
        """
        seen = {path: obs[f"{self.prefix}/{MEMBERS}/{path}"].flatten(0, 1) for path in self.paths}
        features: Tensor = self.trunk(seen)
        features = features.view(-1, self.number, features.shape[1])
        both = torch.cat((features, action, acted.unsqueeze(-1).to(features.dtype)), -1)
        sees = self.sees(features)
        if self.knows is not None and known is not None:
            sees = sees + self.knows(known)
        return sees, sees + self.change(self._activate(self.acts(both)))


class GroupCritic(nn.Module):
    """Attention over the members of a row's group.

    Args:
        policy: The policy that learns.
        model: Layers of the encoders.
        size: Width of the attention.
        heads: Heads of the attention.
        generator: Draws the weights.

    Raises:
        ConfigError: If observations do not show members, or the heads do not divide the width.
    """

    def __init__(self, policy: Policy, model: ModelConfig, size: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        ends = f"/{ALIVE}"
        central = [leaf.path for leaf in policy.obs_spec.leaves if leaf.is_central]
        before = [path.removesuffix(ends) for path in central if path.endswith(ends)]
        # members' observations may have a leaf of that name too, and those of teams do
        prefixes = [path for path in before if path == CENTRAL or path.removeprefix(f"{CENTRAL}/").isdecimal()]
        if not prefixes or f"{CENTRAL}/{ME}" not in central:
            raise ConfigError(
                f"policy {policy.name!r}: its observations do not show what the members of a group see; environments "
                "get that from the trainer, or from rookery.envs.groups.GroupEnv"
            )
        if size % heads:
            raise ConfigError(f"algorithm.attention_heads is {heads}, which does not divide attention_size = {size}")
        self.heads, self.num_features = heads, size
        self.num_actions = action_width(policy.action_spec)
        self.sets = nn.ModuleList(
            MemberSet(policy, prefix, model, size, self.num_actions, generator) for prefix in prefixes
        )
        self.number: int = sum(group.number for group in self.groups)
        self.me = nn.Parameter(torch.randn(size, generator=generator, dtype=torch.float32, device="cpu") * 0.1)
        self.query_key_value = linear(size, 3 * size, gain=1.0, generator=generator)
        self.output = linear(size, size, gain=1.0, generator=generator)
        self.last = linear(size + 1, size, gain=HIDDEN_GAIN, generator=generator)
        self._activate = ACTIVATIONS[model.activation]

    @property
    def groups(self) -> list[MemberSet]:
        """The sets of members."""
        return [group for group in self.sets if isinstance(group, MemberSet)]

    def forward(
        self, obs: TensorTree, action: Tensor | None, acted: Tensor | None, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Computes features ``[N, size]`` of all members' observations; and of these with the actions of all others.

        Args:
            obs: ``[N, ...]`` as `POCA.seen` gives them.
            action: ``[N, G, A]`` action of each member as numbers; the row's own is ignored. None = unknown.
            acted: ``[N, G]`` bool, whether the action is known.
            known: ``[N, G, F + 1]`` the policy's features of each member, and a 1; zeros if unknown. None if the policy
                has no memory.
        """
        me = obs[f"{CENTRAL}/{ME}"]
        num = len(me)
        action = self.me.new_zeros(num, self.number, self.num_actions) if action is None else action
        acted = torch.zeros(num, self.number, dtype=torch.bool, device=me.device) if acted is None else acted
        sees, acts, alive, first = [], [], [], 0
        for group in self.groups:
            mine = slice(first, first + group.number)
            codes = group(obs, action[:, mine], acted[:, mine], None if known is None else known[:, mine])
            sees.append(codes[0])
            acts.append(codes[1])
            alive.append(obs[f"{group.prefix}/{ALIVE}"] > 0)
            first += group.number
        there = torch.cat(alive, 1).unsqueeze(-1)
        own = functional.one_hot(me, self.number).unsqueeze(-1) > 0
        plain = torch.cat(sees, 1)
        seen = torch.where(own, plain + self.me, plain)
        doing = torch.where(own, seen, torch.cat(acts, 1))
        value, baseline = self._attend(torch.cat((seen, doing)), torch.cat((there, there))).chunk(2)
        return value, baseline

    def _attend(self, codes: Tensor, there: Tensor) -> Tensor:
        present = there.squeeze(-1)
        mean = attended_mean(torch.where(there, codes, 0.0), present, self.query_key_value, self.output, self.heads)
        share = present.to(mean.dtype).mean(1, keepdim=True)
        return self._activate(self.last(torch.cat((mean, share), 1)))


class GroupActorCritic(ActorCritic):
    """Actor-critic with a critic of the group; values and baselines are one layer on its features.

    Where the policy has a memory, values depend on it too: gradients of a row's value flow through the memory of its
    own member, as with `ActorCritic`, and not through its mates' features, which are those before the update.

    Args:
        policy: The policy that learns.
        model: Settings of the networks.
        size: Width of the attention.
        heads: Heads of the attention.
        generator: Draws the weights of the critic.
        columns: S, reward signals whose values are learned.

    Raises:
        ConfigError: If the policy's model outputs values itself, or observations do not show members.
    """

    critic_trunk: GroupCritic

    def __init__(
        self, policy: Policy, model: ModelConfig, size: int, heads: int, generator: torch.Generator, columns: int
    ) -> None:
        nn.Module.__init__(self)  # there is one critic, and it is not the other
        if model.output == "action_params":
            raise ConfigError(
                "algorithm.model.output = action_params: poca has a critic of its own; make the model output features"
            )
        self.policy, self.model = policy, model
        self._remembers = policy.memory is not None
        self.remembers = False  # values never depend on a memory alone: see `value`
        self.critic_trunk = GroupCritic(policy, model, size, heads, generator)
        self.value_head = ValueHead(size, generator=generator, columns=columns)
        self.to(device_of(policy))

    def forward(self, batch: object) -> GroupOutputs:
        """Computes the distribution, the values and the baselines of each row of a `POCAMinibatch`."""
        obs: TensorTree = batch.obs  # type: ignore[attr-defined]
        known: Tensor | None = batch.mates_features  # type: ignore[attr-defined]
        features = self.features(obs, batch.memory, batch.sequences)  # type: ignore[attr-defined]
        distribution = self.policy.head(features, obs.get(MASK))
        if known is not None:
            me = functional.one_hot(obs[f"{CENTRAL}/{ME}"], known.shape[1]).unsqueeze(-1) > 0
            known = torch.where(me, with_one(features).unsqueeze(1), known)
        value, baseline = self.critic_trunk(obs, batch.mates_action, batch.mates_acted, known)  # type: ignore[attr-defined]
        return GroupOutputs(distribution, self.value_head(value), self.value_head(baseline))

    def value(self, obs: TensorTree, known: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Computes values ``[N, S]`` alone; arguments as of `GroupCritic.forward`."""
        value: Tensor = self.value_head(self.critic_trunk(obs, None, None, known)[0])
        return value


def with_one(features: Tensor) -> Tensor:
    """Appends a 1 to features ``[N, F]``, ``[N, F + 1]``, which marks them as known."""
    return torch.cat((features, features.new_ones(len(features), 1)), 1)


def _of_one(leaf: Leaf, path: str) -> Leaf:
    """Returns the leaf of one member, given the leaf of all members."""
    kind = "discrete" if leaf.kind == "multi_discrete" and len(leaf.shape) == 1 else leaf.kind
    size = len(leaf.sizes) // leaf.shape[0]
    return replace(leaf, path=path, kind=kind, shape=leaf.shape[1:], sizes=leaf.sizes[:size])


def _like(leaf: Leaf) -> tuple[object, ...]:
    """Returns the properties in which leaves of one network must agree."""
    return leaf.kind, leaf.shape, leaf.dtype, leaf.sizes, leaf.scale
