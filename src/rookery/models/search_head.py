"""Head of policies that plan by search: logits of actions, and the value of the observation, on one trunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import MASK, ActionSpec
from rookery.models.build import ModelConfig
from rookery.models.distributions import MASKED_LOGIT, NoiseSpec
from rookery.models.heads import VALUE_GAIN, ActionHead, HeadSpec
from rookery.models.layers import linear
from rookery.models.structure import Inputs, Structure, Tower

POLICY, VALUE = "improved_policy", "search_value"
"""Names of the columns that a search writes beside its action."""


@dataclass(frozen=True)
class SearchSpec:
    """Numbers of a search.

    Attributes:
        simulations: Simulations of each search (n).
        considered_actions: Largest number of actions that are sampled at the root (m).
        c_visit: Visits added to the largest number of visits in the scale of values.
        c_scale: Scale of values, as logits, for each visit.
        low: Smallest return; values are used as fractions of the range from `low` to `high`.
        high: Largest return.
        discount: Discount from a player's decision to its next one.
    """

    simulations: int
    considered_actions: int
    c_visit: float
    c_scale: float
    low: float
    high: float
    discount: float


@dataclass(frozen=True)
class SearchHead(SearchSpec, HeadSpec):
    """Spec of the head of a policy that plans, with the numbers of its search."""

    def build(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> PriorHead:
        """Builds the head; arguments as of `HeadSpec.build`.

        Raises:
            SpaceError: If actions are not one choice.
        """
        if action.kind != "discrete":
            raise SpaceError(f"search chooses one of several actions, a Discrete space, and not one of {action.space}")
        return PriorHead(num_features, action, log_std_init=log_std_init, generator=generator)

    def extras(self, action: ActionSpec) -> Mapping[str, int]:
        """Returns the columns of the improved policy, and of the value that the search found."""
        return {POLICY: action.sizes[0], VALUE: 1}

    @property
    def greedy(self) -> HeadSpec:
        """Returns a spec without the numbers of the search, which weights do not depend on."""
        return SearchHead(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)


class PriorHead(ActionHead):
    """Linear layers to the logits of actions and to a value. An action takes a uniform number for each action, which is
    the noise of a search; without a search, the first draws from the logits.

    Args:
        num_features: Width of the trunk's output.
        action: Layout of the actions.
        log_std_init: Not used.
        generator: Draws the weights.
    """

    def __init__(
        self, num_features: int, action: ActionSpec, *, log_std_init: float, generator: torch.Generator
    ) -> None:
        super().__init__(num_features, action, log_std_init=log_std_init, generator=generator)
        self.value = linear(num_features, 1, gain=VALUE_GAIN, generator=generator)
        self.noise = NoiseSpec(uniform=action.sizes[0])

    def draw(
        self, features: Tensor, mask: Tensor | None, noise: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns actions drawn from the logits; see `Head.draw`."""
        return super().draw(features, mask, noise[:, :1], carried)


class Prior(NamedTuple):
    """Outputs of a network for N observations.

    Attributes:
        logits: ``[N, A]``, masked.
        value: ``[N]`` expected return of the player that observes.
    """

    logits: Tensor
    value: Tensor


class Observed(Protocol):
    """A batch with observations."""

    @property
    def obs(self) -> TensorTree:
        """``[N, ...]`` by leaf path, as the trunk takes them."""
        ...


class ObservationRows(NamedTuple):
    """A batch of observations alone.

    Attributes:
        obs: ``[N, ...]`` by leaf path, as the trunk takes them.
    """

    obs: TensorTree


class PriorNetwork(nn.Module):
    """Network of a policy that plans, on the policy's own modules.

    Args:
        trunk: The policy's trunk.
        head: The policy's head.
        model: Settings of the network.
    """

    def __init__(self, trunk: nn.Module, head: PriorHead, model: ModelConfig) -> None:
        super().__init__()
        self.trunk, self.head, self.model = trunk, head, model

    def forward(self, batch: Observed) -> Prior:
        """Computes logits and values of the observations of a batch."""
        features = self.trunk(batch.obs)
        return _prior([self.head.linear(features), self.head.value(features)], batch)

    def structure(self) -> Structure:
        """Declares what `forward` computes."""
        tower = Tower(self.trunk, (self.head.linear, self.head.value))
        return Structure((tower,), self.model, lambda batch: Inputs(batch.obs), _prior)


def _prior(parts: list[Tensor], batch: Any) -> Prior:
    logits, value = parts
    mask = batch.obs.get(MASK)
    return Prior(logits if mask is None else torch.where(mask, logits, MASKED_LOGIT), value.squeeze(-1))
