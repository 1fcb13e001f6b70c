"""Mixers: from the values of a team's members to the value of the team.

Each is monotonic in every member's value, so that the members' best actions are the team's best. The sum is that of
value decomposition networks (Sunehag et al. 2018, arXiv:1706.05296), the monotonic network that of QMIX (Rashid et al.
2018, arXiv:1803.11485).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import TensorTree
from rookery.core.spaces.arrays import ObsSpec
from rookery.models.build import Encoder, ModelConfig
from rookery.models.layers import HIDDEN_GAIN, linear
from rookery.models.recall import PREVIOUS


class SumMixer(nn.Module):
    """Mixer that sums the members' values."""

    def forward(self, q: Tensor, obs: TensorTree) -> Tensor:
        """Returns team values ``[N]`` of values ``[N, M]`` of M members; ignores `obs`."""
        return q.sum(1)


class MonotonicMixer(nn.Module):
    """Mixer of two layers with non-negative weights generated from the state, plus a value of the state.

    The weights of each layer are the absolute values of a network's output for the state (section 4.1 of the paper);
    between the layers is an ELU.

    Args:
        num_members: M.
        state: Layout of the state.
        model: Encoding of the observation (images, categories).
        width: Units between the two layers.
        hidden: Hidden units of the networks that generate weights; 0 = they are linear, as in the paper.
        generator: Draws the weights.
    """

    def __init__(
        self,
        num_members: int,
        state: ObsSpec,
        model: ModelConfig,
        *,
        width: int,
        hidden: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.num_members, self.width = num_members, width
        self.state = Encoder(state, model, (), generator=generator)
        size = self.state.num_features
        self.first = _hyper(size, num_members * width, hidden, generator)
        self.first_bias = linear(size, width, gain=1.0, generator=generator)
        self.second = _hyper(size, width, hidden, generator)
        self.value = nn.Sequential(
            linear(size, width, gain=HIDDEN_GAIN, generator=generator),
            nn.ReLU(),
            linear(width, 1, gain=1.0, generator=generator),
        )

    def forward(self, q: Tensor, obs: TensorTree) -> Tensor:
        """Returns team values ``[N]`` of values ``[N, M]`` of M members, in states that `obs` ``[N, ...]`` hold."""
        state = self.state(obs)
        first = self.first(state).abs().unflatten(1, (self.num_members, self.width))
        between = functional.elu(torch.einsum("nm,nmw->nw", q, first) + self.first_bias(state))
        mixed: Tensor = (between * self.second(state).abs()).sum(1) + self.value(state).squeeze(1)
        return mixed


def state_spec(obs: ObsSpec) -> ObsSpec:
    """Returns the layout of a mixer's state: the critics' part of the observation; without one, all observations of the
    members and which of them act.

    Args:
        obs: Layout of the team's observations, as networks take them.
    """
    central = tuple(leaf for leaf in obs.leaves if leaf.is_central)
    everything = tuple(leaf for leaf in obs.leaves if leaf.kind != "mask" and leaf.path not in PREVIOUS)
    return ObsSpec(obs.space, central or everything)


def _hyper(size: int, width: int, hidden: int, generator: torch.Generator) -> nn.Module:
    """Makes a network that generates weights."""
    if not hidden:
        return linear(size, width, gain=1.0, generator=generator)
    return nn.Sequential(
        linear(size, hidden, gain=HIDDEN_GAIN, generator=generator),
        nn.ReLU(),
        linear(hidden, width, gain=1.0, generator=generator),
    )
