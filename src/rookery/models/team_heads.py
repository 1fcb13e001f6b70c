"""Heads of a team's policy: what each member does, from the features of the members side by side (`models/teams.py`).

Values of actions are for VDN and QMIX (Sunehag et al. 2018, Rashid et al. 2018), actors for MADDPG (Lowe et al. 2017,
arXiv:1706.02275). An action of the team is stored as the choices of all members, in their order, then all numbers.
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
"""Uniform numbers below this count as it, because there is no logarithm of 0."""


def acts_of(action: ActionSpec) -> list[ActionSpec]:
    """The layouts of the actions of a team's members, in their order.

    Raises:
        SpaceError: If this is not what a team does.
    """
    if not isinstance(action.space, spaces.Dict):
        raise SpaceError(
            f"actions of {action.space} are not those of a team: name the agents that act as one, as in teams: "
            "{blue: [a, b]} (docs/how-to/teams.md)"
        )
    return [action_spec(space) for space in action.space.spaces.values()]


class MemberLayers(nn.Module):
    """A last layer for each member; members that act alike may share one.

    Args:
        num_features: M * F, features of M members side by side.
        widths: What is put out for each member.
        share: Whether members with equal widths share a layer.
        gain: Of first weights.
        generator: Draws them.
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
        """What is put out for each member, ``[N, width]``, of features ``[N, M * F]``."""
        own = features.split(self._features, 1)
        return [self.layers[place](one) for place, one in zip(self._layer_of, own, strict=True)]


# --- values of actions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamQValues(QValues):
    """Values of the actions of each member of a team, of Discrete spaces.

    Attributes:
        share: Whether members that are alike have one network.
    """

    share: bool = True

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Networks of members; see `HeadSpec.body`."""
        return build_team_body(obs, action, model, share=self.share, generator=generator)

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> TeamQHead:
        """The head; arguments as of `HeadSpec.build`."""
        return TeamQHead(num_features, action, self, generator=generator)


class TeamGreedy(Behavior):
    """For each member the action of the highest value, or with a small probability any: float32 ``[N, M]``.

    Args:
        members: What all members choose by, ``[N, M, A]``.
    """

    def __init__(self, members: EpsilonGreedy) -> None:
        self.members = members

    @property
    def noise(self) -> NoiseSpec:
        """Two uniform numbers for each member."""
        return NoiseSpec(uniform=2 * self.members.q.shape[1])

    def sample(self, noise: Tensor) -> Tensor:
        """Each member explores by numbers of its own."""
        return self.members.sample(noise.unflatten(-1, (-1, 2))).float()

    def mode(self) -> Tensor:
        """The actions of the highest values."""
        return self.members.mode().float()

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of actions ``[N, M]``, ``[N]``."""
        return self.members.log_prob(action.long()).sum(-1)


class TeamQHead(QHead):
    """Values of the actions of each member; arguments as of `QHead`.

    Attributes:
        legal: ``[M, A]`` bool, which of the columns are actions of a member; A is the most that one has.

    Raises:
        SpaceError: If an action of a member is not one choice.
    """

    legal: Tensor
    flags: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: TeamQValues, *, generator: torch.Generator) -> None:
        Head.__init__(self)  # the head of one choice would refuse several
        members = acts_of(action)
        for number, member in enumerate(members):
            if member.kind != "discrete":
                raise SpaceError(
                    f"member {number} of the team acts in {member.space}, and VDN and QMIX choose one action of a "
                    "Discrete space for each member; use MADDPG, which takes numbers too, or PPO"
                )
        self.spec, self.action_spec = spec, action
        sizes = action.sizes
        self.num_members, self.num_actions, self.atoms = len(sizes), max(sizes), 1
        self.layers = MemberLayers(num_features, sizes, share=spec.share, gain=VALUE_GAIN, generator=generator)
        self.noise = NoiseSpec(uniform=2 * len(sizes), ladder=spec.ladder)
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
        """What each row's action is drawn from; arguments as of `Head.forward`."""
        return TeamGreedy(EpsilonGreedy(self.values(features), self.epsilon, self.allowed(mask, len(features))))

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions as whoever explores takes them; see `Head.draw`."""
        behavior: TeamGreedy = self(features, mask)
        return behavior.sample_logp(noise)

    def values(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Values ``[N, M, A]`` of all actions of M members; zeros where a member has no such action."""
        width = self.num_actions
        parts = [functional.pad(one, (0, width - one.shape[1])) for one in self.layers(features)]
        return torch.stack(parts, 1)

    def q_from(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def allowed(self, mask: Tensor | None, num_rows: int) -> Tensor | None:
        """Which actions of each member are allowed, ``[N, M, A]``; None where all are.

        Args:
            mask: ``[N, choices]`` bool, those of all members side by side; None = everything.
            num_rows: N.
        """
        if mask is None:
            return None if self._equal else self.legal.expand(num_rows, -1, -1)
        laid = mask.new_zeros(num_rows, self.legal.numel())
        laid[:, self.flags] = mask
        return laid.view(num_rows, *self.legal.shape)

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The action of the highest value of each member among those that are allowed, ``[N, M]``."""
        allowed = self.allowed(mask, len(values))
        return (values if allowed is None else torch.where(allowed, values, -torch.inf)).argmax(2)


# --- actors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamActors(HeadSpec):
    """An actor for each member of a team, whose actions are one choice or numbers with bounds.

    Attributes:
        share: Whether members that are alike have one network.
    """

    share: bool = False

    def body(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, *, generator: torch.Generator
    ) -> tuple[nn.Module, Memory | None, int]:
        """Networks of members; see `HeadSpec.body`."""
        return build_team_body(obs, action, model, share=self.share, generator=generator)

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> TeamActorHead:
        """The head; arguments as of `HeadSpec.build`."""
        return TeamActorHead(num_features, action, self, generator=generator)


class TeamActs(Behavior):
    """What the actors of a team put out: logits of all choices, and numbers in [-1, 1].

    Args:
        logits: ``[N, sum(sizes)]``, of choices that are not allowed very low.
        numbers: ``[N, k]``.
        sizes: How many there are to choose from, for each choice.
        std: Standard deviation of the noise on numbers.
    """

    def __init__(self, logits: Tensor, numbers: Tensor, sizes: tuple[int, ...], std: Tensor) -> None:
        self.logits, self.numbers, self.sizes, self.std = logits, numbers, sizes, std

    @property
    def noise(self) -> NoiseSpec:
        """A uniform number for each thing to choose from, a normal one for each number."""
        return NoiseSpec(uniform=sum(self.sizes), normal=self.numbers.shape[-1])

    def relaxed(self, even: Tensor | None) -> Tensor:
        """The actions as critics take them, ``[N, sum(sizes) + k]``: each choice as a one-hot, then numbers.

        The one-hots are straight through: they have the gradient of the softmax (Jang et al. 2017, arXiv:1611.01144).

        Args:
            even: ``[N, sum(sizes)]`` uniform numbers, from which Gumbel noise on the logits is made; None = no noise,
                the most probable choices.
        """
        scores = self.logits if even is None else self.logits + gumbel(even)
        parts = []
        for own in scores.split(self.sizes, 1) if self.sizes else []:
            soft = torch.softmax(own, 1)
            hard = functional.one_hot(soft.argmax(1), own.shape[1]).to(soft.dtype)
            parts.append(hard - soft.detach() + soft)
        return torch.cat((*parts, self.numbers), 1)

    def sample(self, noise: Tensor) -> Tensor:
        """Choices by their probabilities, and numbers with noise, at most the bounds: float32 ``[N, choices + k]``."""
        even, normal = noise.split((sum(self.sizes), self.numbers.shape[-1]), 1)
        numbers = torch.addcmul(self.numbers, self.std, normal).clamp_(-1.0, 1.0)
        return torch.cat((self._choices(self.logits + gumbel(even)), numbers), 1)

    def mode(self) -> Tensor:
        """The most probable choices, and the numbers."""
        return torch.cat((self._choices(self.logits), self.numbers), 1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Zeros ``[N]``: noise only tries things out."""
        return torch.zeros_like(action[..., 0])

    def _choices(self, scores: Tensor) -> Tensor:
        best = [own.argmax(1, keepdim=True) for own in scores.split(self.sizes, 1)] if self.sizes else []
        return torch.cat([scores[:, :0], *best], 1).float()


class TeamActorHead(Head):
    """Logits and tanh of numbers for each member; arguments as of `HeadSpec.build`, and the spec.

    Attributes:
        std: Standard deviation of the noise on numbers; a buffer, 0 until somebody sets it.
        random: 1 = whoever explores acts evenly at random; a buffer, 0 until somebody sets it.

    Raises:
        SpaceError: If an action of a member is neither one choice nor numbers with bounds.
    """

    std: Tensor
    random: Tensor

    def __init__(self, num_features: int, action: ActionSpec, spec: TeamActors, *, generator: torch.Generator) -> None:
        super().__init__()
        members = acts_of(action)
        for number, member in enumerate(members):
            if member.kind == "box":
                bounded_numbers(member)
            elif member.kind != "discrete":
                raise SpaceError(
                    f"member {number} of the team acts in {member.space}, and MADDPG takes one choice of a Discrete "
                    "space or a Box with bounds for each member; use PPO, which takes any space"
                )
        self.spec, self.action_spec = spec, action
        self._is_choice = [member.kind == "discrete" for member in members]
        widths = [sum(member.sizes) + member.num_numbers for member in members]
        # members that choose and members that act by numbers never share a layer: with equal widths they would
        share = spec.share and (all(self._is_choice) or not any(self._is_choice))
        self.layers = MemberLayers(num_features, widths, share=share, gain=ACTION_GAIN, generator=generator)
        self.noise = NoiseSpec(uniform=sum(action.sizes), normal=action.num_numbers)
        self.register_buffer("std", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
        self.register_buffer("random", torch.tensor(0.0, dtype=torch.float32, device="cpu"))

    def forward(self, features: Tensor, mask: Tensor | None = None, noise: Tensor | None = None) -> TeamActs:
        """What each row's action is drawn from; arguments as of `Head.forward`."""
        put_out = self.layers(features)
        chosen = [one for one, choice in zip(put_out, self._is_choice, strict=True) if choice]
        moved = [one for one, choice in zip(put_out, self._is_choice, strict=True) if not choice]
        logits = torch.cat([features[:, :0], *chosen], 1)
        if mask is not None:
            logits = torch.where(mask, logits, MASKED_LOGIT)
        return TeamActs(logits, torch.tanh(torch.cat([features[:, :0], *moved], 1)), self.action_spec.sizes, self.std)

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Actions as whoever explores takes them; see `Head.draw`."""
        acts: TeamActs = self(features, mask)
        if self.random:
            even = torch.where(acts.logits > MASKED_LOGIT, torch.zeros_like(acts.logits), MASKED_LOGIT)
            choices, normal = len(self.action_spec.sizes), noise[:, self.noise.uniform :]
            action = TeamActs(even, acts.numbers, acts.sizes, self.std).sample(noise)
            action[:, choices:] = uniform(normal)[0]
            return action, acts.log_prob(action)
        return acts.sample_logp(noise)


def gumbel(even: Tensor) -> Tensor:
    """Numbers of the Gumbel distribution, of uniform ones: which of logits with these on top is largest is a draw."""
    return -(-even.clamp(min=MIN_UNIFORM, max=1 - MIN_UNIFORM).log()).log()


def relaxed_action(action: ActionSpec, stored: Tensor) -> Tensor:
    """Stored actions ``[N, choices + k]`` as critics take them, ``[N, sum(sizes) + k]``: choices as one-hots."""
    ones = [
        functional.one_hot(stored[:, place].long(), size).to(stored.dtype) for place, size in enumerate(action.sizes)
    ]
    return torch.cat((*ones, stored[:, len(action.sizes) :]), 1)


def own_relaxed(action: ActionSpec) -> list[slice]:
    """Which columns of `relaxed_action` are each member's own."""
    choice, number, found = 0, sum(action.sizes), []
    for member in acts_of(action):
        if member.sizes:
            found.append(slice(choice, choice + member.sizes[0]))
            choice += member.sizes[0]
        else:
            found.append(slice(number, number + member.num_numbers))
            number += member.num_numbers
    return found
