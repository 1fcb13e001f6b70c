"""Heads of a team's policy: each member's action from the concatenated features of the members (`models/teams.py`).

Q-values are for VDN and QMIX (Sunehag et al. 2018, Rashid et al. 2018), actors for MADDPG (Lowe et al. 2017,
arXiv:1706.02275). A team's action is stored as the discrete actions of all members, in their order, then all continuous
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ActionSpec, ObsSpec, action_spec
from rookery.models.build import ModelConfig
from rookery.models.cells.base import Memory
from rookery.models.distributions import MASKED_LOGIT, Behavior, NoiseSpec
from rookery.models.exploration import bounded_numbers, uniform
from rookery.models.heads import ACTION_GAIN, VALUE_GAIN, Head, HeadSpec
from rookery.models.layers import linear
from rookery.models.q_head import EpsilonGreedy, QHead, QValues
from rookery.models.teams import build_team_body

MIN_UNIFORM = 1e-7
"""Lower bound of uniform numbers, because the logarithm of 0 is undefined."""


def member_actions(action: ActionSpec) -> list[ActionSpec]:
    """Returns the action layouts of a team's members, in their order.

    Raises:
        SpaceError: If this is not the action layout of a team.
    """
    if not isinstance(action.space, spaces.Dict):
        raise SpaceError(
            f"actions of {action.space} are not those of a team: name the agents that act as one, as in teams: "
            "{blue: [a, b]} (docs/how-to/teams.md)"
        )
    return [action_spec(space) for space in action.space.spaces.values()]


class MemberLayers(nn.Module):
    """Output layers of the members; members with equal actions may share one.

    Args:
        num_features: M * F, concatenated features of M members.
        widths: Output width of each member.
        share: Whether members with equal widths share a layer.
        gain: Gain of initial weights.
        generator: Draws the weights.
    """

    def __init__(
        self, num_features: int, widths: Sequence[int], *, share: bool, gain: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self._features = num_features // len(widths)
        sorts = list(dict.fromkeys(widths)) if share else list(range(len(widths)))
        self._layer_of = [sorts.index(width if share else member) for member, width in enumerate(widths)]
        first = {place: widths[member] for member, place in reversed(list(enumerate(self._layer_of)))}
        self.layers = nn.ModuleList(
            linear(self._features, first[place], gain=gain, generator=generator) for place in range(len(sorts))
        )

    def forward(self, features: Tensor) -> list[Tensor]:
        """Returns each member's output, ``[N, width]``, of features ``[N, M * F]``."""
        own = features.split(self._features, 1)
        return [self.layers[place](one) for place, one in zip(self._layer_of, own, strict=True)]


# --- Q-values ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamQValues(QValues):
    """Spec of Q-values for each member of a team, for Discrete spaces.

    Attributes:
        share: Whether equal members share one network.
    """

    share: bool = True

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Builds the networks of members; see `HeadSpec.body`."""
        return build_team_body(obs, action, model, share=self.share, generator=generator)

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> TeamQHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return TeamQHead(num_features, action, self, generator=generator)


class TeamGreedy(Behavior):
    """Epsilon-greedy actions of all members: float32 ``[N, M]``.

    Args:
        members: Epsilon-greedy choice of all members, ``[N, M, A]``.
    """

    def __init__(self, members: EpsilonGreedy) -> None:
        self.members = members

    @property
    def noise(self) -> NoiseSpec:
        """Takes two uniform numbers per member."""
        return NoiseSpec(uniform=2 * self.members.q.shape[1])

    def sample(self, noise: Tensor) -> Tensor:
        """Draws each member's action with its own numbers."""
        return self.members.sample(noise.unflatten(-1, (-1, 2))).float()

    def mode(self) -> Tensor:
        """Returns the actions of the highest values."""
        return self.members.mode().float()

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log-probability ``[N]`` of actions ``[N, M]``."""
        return self.members.log_prob(action.long()).sum(-1)


class TeamQHead(QHead):
    """Head for Q-values of each member; arguments as of `QHead`.

    Attributes:
        legal: ``[M, A]`` bool, which columns are actions of a member; A is the largest number of actions.

    Raises:
        SpaceError: If a member's action space is not Discrete.
    """

    legal: Tensor
    flags: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: TeamQValues, *, generator: torch.Generator) -> None:
        Head.__init__(self)  # the head of one Discrete space would refuse several
        members = member_actions(action)
        for number, member in enumerate(members):
            if member.kind != "discrete":
                raise SpaceError(
                    f"member {number} of the team acts in {member.space}, and VDN and QMIX choose one action of a "
                    "Discrete space for each member; use MADDPG, which takes continuous actions too, or PPO"
                )
        self.spec, self.action_spec = spec, action
        sizes = action.sizes
        self.num_members, self.num_actions, self.atoms = len(sizes), max(sizes), 1
        self.layers = MemberLayers(num_features, sizes, share=spec.share, gain=VALUE_GAIN, generator=generator)
        self.noise = NoiseSpec(uniform=2 * len(sizes), per_env_epsilon=spec.per_env_epsilon)
        self.register_buffer("epsilon", torch.tensor(1.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("temperature", torch.tensor(torch.inf, dtype=torch.float32, device="cpu"))
        self.register_buffer("support", torch.zeros(1, dtype=torch.float32, device="cpu"), persistent=False)
        legal = torch.arange(self.num_actions, dtype=torch.int64, device="cpu") < torch.tensor(
            sizes, dtype=torch.int64, device="cpu"
        ).unsqueeze(1)
        self.register_buffer("legal", legal, persistent=False)
        self.register_buffer("flags", legal.flatten().nonzero().squeeze(1), persistent=False)
        self._equal = bool(legal.all())

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> TeamGreedy:  # type: ignore[override]
        """Returns the distribution of each row's action; arguments as of `Head.forward`."""
        return TeamGreedy(EpsilonGreedy(self.values(features), self.epsilon, self.allowed(mask, len(features))))

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions and log-probabilities; see `Head.draw`."""
        behavior: TeamGreedy = self(features, mask)
        return behavior.sample_logp(noise)

    def values(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns Q-values ``[N, M, A]`` of M members; zeros where a member has no such action."""
        width = self.num_actions
        parts = [functional.pad(one, (0, width - one.shape[1])) for one in self.layers(features)]
        return torch.stack(parts, 1)

    def q_from(self, values: Tensor) -> Tensor:
        """Returns the values unchanged."""
        return values

    def allowed(self, mask: Tensor | None, num_rows: int) -> Tensor | None:
        """Returns a mask of the allowed actions of each member, ``[N, M, A]``; None if all are allowed.

        Args:
            mask: ``[N, choices]`` bool, concatenated over the members; None = all.
            num_rows: N.
        """
        if mask is None:
            return None if self._equal else self.legal.expand(num_rows, -1, -1)
        laid = mask.new_zeros(num_rows, self.legal.numel())
        laid[:, self.flags] = mask
        return laid.view(num_rows, *self.legal.shape)

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Returns each member's allowed action of the highest value, ``[N, M]``."""
        allowed = self.allowed(mask, len(values))
        return (values if allowed is None else torch.where(allowed, values, -torch.inf)).argmax(2)


# --- actors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamActors(HeadSpec):
    """Spec of an actor for each member of a team, with Discrete or bounded Box actions.

    Attributes:
        share: Whether equal members share one network.
    """

    share: bool = False

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Builds the networks of members; see `HeadSpec.body`."""
        return build_team_body(obs, action, model, share=self.share, generator=generator)

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> TeamActorHead:
        """Builds the head; arguments as of `HeadSpec.build`."""
        return TeamActorHead(num_features, action, self, generator=generator)


class TeamActions(Behavior):
    """Output of a team's actors: logits of discrete actions, and continuous actions in [-1, 1].

    Args:
        logits: ``[N, sum(sizes)]``, very low for masked actions.
        numbers: ``[N, k]`` continuous actions.
        sizes: Number of options of each discrete action.
        std: Standard deviation of the noise on continuous actions.
    """

    def __init__(self, logits: Tensor, numbers: Tensor, sizes: tuple[int, ...], std: Tensor) -> None:
        self.logits, self.numbers, self.sizes, self.std = logits, numbers, sizes, std

    @property
    def noise(self) -> NoiseSpec:
        """Takes a uniform number per discrete option, a normal one per continuous action."""
        return NoiseSpec(uniform=sum(self.sizes), normal=self.numbers.shape[-1])

    def relaxed(self, even: Tensor | None) -> Tensor:
        """Returns actions as critics take them, ``[N, sum(sizes) + k]``: discrete ones as one-hots, then continuous
        ones.

        The one-hots are straight-through: they have the gradient of the softmax (Jang et al. 2017, arXiv:1611.01144).

        Args:
            even: ``[N, sum(sizes)]`` uniform numbers for Gumbel noise on the logits; None = no noise, the most probable
                actions.
        """
        scores = self.logits if even is None else self.logits + gumbel(even)
        parts = []
        for own in scores.split(self.sizes, 1) if self.sizes else []:
            soft = torch.softmax(own, 1)
            hard = functional.one_hot(soft.argmax(1), own.shape[1]).to(soft.dtype)
            parts.append(hard - soft.detach() + soft)
        return torch.cat((*parts, self.numbers), 1)

    def sample(self, noise: Tensor) -> Tensor:
        """Draws discrete actions, and adds noise to continuous ones, clipped to the bounds: float32 ``[N, choices +
        k]``.
        """
        even, normal = noise.split((sum(self.sizes), self.numbers.shape[-1]), 1)
        numbers = torch.addcmul(self.numbers, self.std, normal).clamp_(-1.0, 1.0)
        return torch.cat((self._choices(self.logits + gumbel(even)), numbers), 1)

    def mode(self) -> Tensor:
        """Returns the most probable discrete actions, and the continuous ones without noise."""
        return torch.cat((self._choices(self.logits), self.numbers), 1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns zeros ``[N]``: the noise serves exploration only."""
        return torch.zeros_like(action[..., 0])

    def _choices(self, scores: Tensor) -> Tensor:
        best = [own.argmax(1, keepdim=True) for own in scores.split(self.sizes, 1)] if self.sizes else []
        return torch.cat([scores[:, :0], *best], 1).float()


class TeamActorHead(Head):
    """Head with logits or tanh outputs for each member; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        std: Standard deviation of the noise on continuous actions; a buffer, initially 0.
        random: 1 = exploration acts uniformly at random; a buffer, initially 0.

    Raises:
        SpaceError: If a member's action space is neither Discrete nor a bounded Box.
    """

    std: Tensor
    random: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: TeamActors, *, generator: torch.Generator) -> None:
        super().__init__()
        members = member_actions(action)
        for number, member in enumerate(members):
            if member.kind == "box":
                bounded_numbers(member)
            elif member.kind != "discrete":
                raise SpaceError(
                    f"member {number} of the team acts in {member.space}, and MADDPG takes a Discrete "
                    "space or a Box with bounds for each member; use PPO, which takes any space"
                )
        self.spec, self.action_spec = spec, action
        self._is_choice = [member.kind == "discrete" for member in members]
        widths = [sum(member.sizes) + member.num_numbers for member in members]
        # members with discrete and with continuous actions never share a layer: with equal widths they would
        share = spec.share and (all(self._is_choice) or not any(self._is_choice))
        self.layers = MemberLayers(num_features, widths, share=share, gain=ACTION_GAIN, generator=generator)
        self.noise = NoiseSpec(uniform=sum(action.sizes), normal=action.num_numbers)
        self.register_buffer("std", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("random", torch.tensor(0.0, dtype=torch.float32, device="cpu"))

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> TeamActions:
        """Returns the distribution of each row's action; arguments as of `Head.forward`."""
        put_out = self.layers(features)
        chosen = [one for one, choice in zip(put_out, self._is_choice, strict=True) if choice]
        moved = [one for one, choice in zip(put_out, self._is_choice, strict=True) if not choice]
        logits = torch.cat([features[:, :0], *chosen], 1)
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        return TeamActions(
            logits, torch.tanh(torch.cat([features[:, :0], *moved], 1)), self.action_spec.sizes, self.std
        )

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns exploring actions and log-probabilities; see `Head.draw`."""
        acts: TeamActions = self(features, mask)
        if self.random:
            even = torch.where(acts.logits > MASKED_LOGIT, torch.zeros_like(acts.logits), MASKED_LOGIT)
            choices, normal = len(self.action_spec.sizes), noise[:, self.noise.uniform :]
            action = TeamActions(even, acts.numbers, acts.sizes, self.std).sample(noise)
            action[:, choices:] = uniform(normal)[0]
            return action, acts.log_prob(action)
        return acts.sample_logp(noise)


def gumbel(even: Tensor) -> Tensor:
    """Returns Gumbel noise made of uniform numbers: the argmax of logits plus this noise is a sample."""
    return -(-even.clamp(min=MIN_UNIFORM, max=1 - MIN_UNIFORM).log()).log()


def relaxed_action(action: ActionSpec, stored: Tensor) -> Tensor:
    """Converts stored actions ``[N, choices + k]`` to the form of critics, ``[N, sum(sizes) + k]``, with one-hots."""
    ones = [
        functional.one_hot(stored[:, place].long(), size).to(stored.dtype) for place, size in enumerate(action.sizes)
    ]
    return torch.cat((*ones, stored[:, len(action.sizes) :]), 1)


def member_columns(action: ActionSpec) -> list[slice]:
    """Returns the columns of `relaxed_action` of each member."""
    choice, number, found = 0, sum(action.sizes), []
    for member in member_actions(action):
        if member.sizes:
            found.append(slice(choice, choice + member.sizes[0]))
            choice += member.sizes[0]
        else:
            found.append(slice(number, number + member.num_numbers))
            number += member.num_numbers
    return found
