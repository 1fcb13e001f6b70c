"""Mixers: from the values of a team's members to that of the team.

Each is monotonic in every member's value, so that the actions that are best for the members are best for the team. The
sum is that of value decomposition networks (Sunehag et al. 2018, arXiv:1706.05296), the monotonic network that of QMIX
(Rashid et al. 2018, arXiv:1803.11485).
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
    """The sum of the members' values."""

    def forward(self, q: Tensor, obs: TensorTree) -> Tensor:
        """Values ``[N]`` of values ``[N, M]`` of M members; `obs` are not looked at."""
        return q.sum(1)


class MonotonicMixer(nn.Module):
    """Two layers whose weights come from the state and are never negative, and a value of the state beside them.

    The weights of each layer are the absolute values of what a network puts out for the state (section 4.1 of the
    paper); between the layers is an ELU.

    Args:
        num_members: M.
        state: Layout of the state.
        model: How what is observed is encoded (pictures, codes).
        width: Units between the two layers.
        hidden: Hidden units of the networks that put out weights; 0 = they are linear, as in the paper.
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
        """Values ``[N]`` of values ``[N, M]`` of M members, in states that `obs` ``[N, ...]`` hold."""
        state = self.state(obs)
        first = self.first(state).abs().unflatten(1, (self.num_members, self.width))
        between = functional.elu(torch.einsum("nm,nmw->nw", q, first) + self.first_bias(state))
        mixed: Tensor = (between * self.second(state).abs()).sum(1) + self.value(state).squeeze(1)
        return mixed


def state_spec(obs: ObsSpec) -> ObsSpec:
    """The layout of the state that a mixer sees: what is for critics alone; where there is no such thing, all that the
    members observe and who of them acts.

    Args:
        obs: Layout of the team's observations, as networks take them.
    """
    central = tuple(leaf for leaf in obs.leaves if leaf.is_central)
    everything = tuple(leaf for leaf in obs.leaves if leaf.kind != "mask" and leaf.path not in PREVIOUS)
    return ObsSpec(obs.space, central or everything)


def _hyper(size: int, width: int, hidden: int, generator: torch.Generator) -> nn.Module:
    """A network that puts out weights."""
    if not hidden:
        return linear(size, width, gain=1.0, generator=generator)
    return nn.Sequential(
        linear(size, hidden, gain=HIDDEN_GAIN, generator=generator),
        nn.ReLU(),
        linear(hidden, width, gain=1.0, generator=generator),
    )
