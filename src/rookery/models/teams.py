"""Networks of a team between its observation and its head: one for each member, or one shared by equal members.

The features of a team are the concatenated features of its members, in their order; likewise its memory. No member's
features depend on another's observation, so each could act independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences, TensorTree, put_together
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.core.spaces.team_spaces import TeamMember, alike, members_of
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.cells.base import Memory
from rookery.models.memory import build_memory
from rookery.models.recall import CHOICES, NUMBERS, REWARD

WHO = "\0member"
"""Leaf path of a member's index among those that share its network; no key of a space begins like this."""


def build_team_body(
    obs: ObsSpec, action: ActionSpec, cfg: ModelConfig, *, share: bool, generator: torch.Generator
) -> tuple[TeamTrunk, Memory | None, int]:
    """Returns the body below the head of a team's policy: trunk, memory or None, and the number of features.

    Args:
        obs: Layout of the input of the team's policy.
        action: Layout of its actions.
        cfg: Settings of each member's network.
        share: Whether equal members share one network, which receives the member's index.
        generator: Draws the weights.

    Raises:
        SpaceError: If these are not the layouts of a team.
        ConfigError: As `build_trunk`; and for a model with ``output=action_params`` or its own memory.
    """
    if cfg.output == "action_params":
        raise ConfigError(
            "model.output = 'action_params': a team has a head for each member; set model.output = features"
        )
    trunk = TeamTrunk(obs, action, cfg, share=share, generator=generator)
    if any(getattr(network, "remembers", False) for network in trunk.networks):
        raise ConfigError(
            "model.module has its own memory (initial_memory), which the members of a team cannot use: "
            "leave initial_memory out and set model.memory.kind"
        )
    cells = [build_memory(cfg.memory, trunk.width, generator) for _ in trunk.networks]
    kept = [cell for cell in cells if cell is not None]
    if not kept:
        return trunk, None, trunk.num_features
    memory = TeamMemory(kept, trunk.sharing, trunk.width)
    return trunk, memory, memory.num_features


class TeamTrunk(nn.Module):
    """Maps a team's observation to the features of its members; arguments as of `build_team_body`.

    Attributes:
        sharing: The members of each network.
        networks: The trunks.
        width: F, features of a member; narrower ones are padded with zeros.
        num_features: M * F for M members.
    """

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, cfg: ModelConfig, *, share: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        members = [_widened(member, obs) for member in members_of(obs, action)]
        self.sharing = alike(members) if share else [[number] for number in range(len(members))]
        self._members = members
        self._paths = [member.paths for member in members]
        self._columns = [_previous_columns(member, action) for member in members]
        networks = []
        for sharers in self.sharing:
            first = members[sharers[0]]
            leaves = first.obs.leaves
            if len(sharers) > 1:
                leaves = (*leaves, Leaf(WHO, "discrete", (), np.dtype(np.int64), (len(sharers),)))
            codes = None if cfg.categorical_images is None else _own_paths(cfg.categorical_images, first)
            networks.append(
                build_trunk(
                    replace(first.obs, leaves=leaves), cfg.replace(categorical_images=codes), generator=generator
                )
            )
        self.networks = nn.ModuleList(networks)
        self.width = max(int(network.num_features) for network in networks)  # type: ignore[arg-type]
        self.num_features = len(members) * self.width
        self._order = np.argsort([number for sharers in self.sharing for number in sharers]).tolist()

    def forward(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, M * F]`` of observations ``[N, ...]`` by leaf path."""
        obs = put_together(obs)
        found: list[Tensor] = []
        for sharers, network in zip(self.sharing, self.networks, strict=True):
            seen = [self._own(number, obs) for number in sharers]
            if len(sharers) == 1:
                features = network(seen[0]).unsqueeze(1)
            else:
                tree = {path: torch.stack([one[path] for one in seen], 1).flatten(0, 1) for path in seen[0]}
                rows = len(next(iter(seen[0].values())))
                tree[WHO] = torch.arange(
                    len(sharers), device=next(iter(tree.values())).device, dtype=torch.int64
                ).repeat(rows)
                features = network(tree).unflatten(0, (rows, len(sharers)))
            found += functional.pad(features, (0, self.width - features.shape[-1])).unbind(1)
        return torch.cat([found[place] for place in self._order], 1)

    def _own(self, number: int, obs: TensorTree) -> TensorTree:
        """Returns one member's observation, by its own paths."""
        columns = self._columns[number]
        tree: TensorTree = {}
        for leaf, path in zip(self._members[number].obs.leaves, self._paths[number], strict=True):
            tree[leaf.path] = obs[path] if path not in columns else obs[path][:, columns[path]]
        return tree


def _widened(member: TeamMember, obs: ObsSpec) -> TeamMember:
    """Returns a member with its own last action and the team's last reward, as far as the team's policy has them."""
    leaves, paths = list(member.obs.leaves), list(member.paths)
    seen = {leaf.path: leaf for leaf in obs.leaves}
    choices, numbers = len(member.action.sizes), member.action.num_flags + member.action.num_numbers
    if CHOICES in seen and choices:
        sizes = tuple(size + 1 for size in member.action.sizes)
        leaves.append(replace(seen[CHOICES], shape=(choices,), sizes=sizes))
        paths.append(CHOICES)
    if NUMBERS in seen and numbers:
        leaves.append(replace(seen[NUMBERS], shape=(numbers,)))
        paths.append(NUMBERS)
    if REWARD in seen:
        leaves.append(seen[REWARD])
        paths.append(REWARD)
    return replace(member, obs=replace(member.obs, leaves=tuple(leaves)), paths=tuple(paths))


def _previous_columns(member: TeamMember, action: ActionSpec) -> dict[str, list[int]]:
    """Returns the columns of the team's last action that belong to the member."""
    choices = len(action.sizes)
    return {
        CHOICES: [column for column in member.columns if column < choices],
        NUMBERS: [column - choices for column in member.columns if column >= choices],
    }


def _own_paths(paths: Sequence[str], member: TeamMember) -> tuple[str, ...]:
    """Converts paths in a team's observation to the member's own paths, as far as it has them."""
    own = dict(zip(member.paths, (leaf.path for leaf in member.obs.leaves), strict=True))
    return tuple(own.get(path, path) for path in paths if path in own or path in own.values())


class TeamMemory(Memory):
    """Concatenated memories of a team's members.

    Args:
        cells: Memory of a member for each network.
        sharing: The members of each.
        width: Features of a member.
    """

    def __init__(self, cells: Sequence[Memory], sharing: Sequence[Sequence[int]], width: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        number = {member: place for place, sharers in enumerate(sharing) for member in sharers}
        self._cell_of = [number[member] for member in range(len(number))]
        self._width = width
        self.num_members = len(number)
        self.size = self.num_members * cells[0].size
        self.num_features = self.num_members * cells[0].num_features

    def advance(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Processes one decision of N slots; see `Memory.advance`."""
        parts = [self._cell(m).advance(one, kept) for m, (one, kept) in enumerate(self._members(x, memory))]
        return torch.cat([features for features, _ in parts], 1), torch.cat([after for _, after in parts], 1)

    def forward(self, x: Tensor, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Processes all decisions of B sequences; see `Memory.forward`."""
        parts = [self._cell(m)(one, kept, sequences) for m, (one, kept) in enumerate(self._members(x, memory))]
        return torch.cat([features for features, _ in parts], 1), torch.cat([after for _, after in parts], 1)

    def _cell(self, member: int) -> Memory:
        cell = self.cells[self._cell_of[member]]
        assert isinstance(cell, Memory)
        return cell

    def _members(self, x: Tensor, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Returns the inputs of each member's cell."""
        sizes = self.size // self.num_members
        return list(zip(x.split(self._width, 1), memory.split(sizes, 1), strict=True))
