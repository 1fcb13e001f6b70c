"""What a reward signal is: something that rewards decisions beside the environment.

A signal of your own is one class that derives from `RewardSignal` and one of settings that names it;
docs/how-to/explore.md has one of 30 lines. Signals see decisions row by row, whoever played them and in whatever
order, so that the same class rewards what was just played and what is drawn from replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from rookery.core.batch import Decisions, Rollout, TensorTree, flat
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, Settings
from rookery.core.spaces.arrays import ActionSpec
from rookery.core.state import Stateful
from rookery.policies.policy import Policy

Report = dict[str, float | int | None]
"""Numbers about a signal, by name."""


@dataclass(frozen=True)
class SignalConfig(Settings):
    """What can be set of every reward signal.

    Attributes:
        signal: Import path of the class these settings steer, ``package.module:Class``.
    """

    signal: ClassVar[str]

    strength: NonNegative = 1.0
    """What its rewards count; 0 = they are reported, and nothing is learned from them."""
    gamma: Fraction = 0.99
    """Discount of its rewards, where they have values of their own (PPO, A2C); elsewhere that of the algorithm counts.
    """


SettingsT = TypeVar("SettingsT", bound=SignalConfig)


@dataclass(frozen=True)
class ValueColumn:
    """A reward signal as its values are learned.

    Attributes:
        gamma: Discount of its rewards.
        strength: What its advantages count in the policy's loss.
        episodic: Whether its returns end with the episode; else they go on into the next.
    """

    gamma: float
    strength: float = 1.0
    episodic: bool = True


def decisions_of(rollout: Rollout) -> Decisions:
    """Gives the valid decisions of a rollout, in the order of its flattened rows."""
    rows, shape = rollout.valid_rows(), rollout.reward.shape
    fragment = torch.arange(shape[1], device=rollout.length.device, dtype=torch.int64)
    boot = rollout.boot_index[:, 0], rollout.boot_index[:, 1]
    after: TensorTree = {}
    for path, leaf in rollout.obs.items():
        follows = torch.cat((leaf[1:], rollout.last_obs[path].unsqueeze(0)))
        follows[rollout.length - 1, fragment] = rollout.last_obs[path]
        follows[boot] = rollout.final_obs[path]
        after[path] = flat(follows, rows)
    obs = {path: flat(leaf, rows) for path, leaf in rollout.obs.items()}
    return Decisions(obs, flat(rollout.action, rows), after, flat(rollout.terminated, rows))


def action_features(action: Tensor, spec: ActionSpec) -> Tensor:
    """Gives actions ``[N, ...]`` as numbers ``[N, W]``: choices as one-hots, then flags, then numbers cut off at +-1.

    Args:
        action: As it is stored.
        spec: Its layout.
    """
    elements = action.reshape(len(action), -1)
    count = len(spec.sizes)
    chosen = elements[:, :count].long()
    parts = [functional.one_hot(chosen[:, place], size).float() for place, size in enumerate(spec.sizes)]
    rest = elements[:, count:].float()
    return torch.cat((*parts, rest[:, : spec.num_flags], rest[:, spec.num_flags :].clamp(-1.0, 1.0)), 1)


def action_width(spec: ActionSpec) -> int:
    """Gives W of `action_features`."""
    return sum(spec.sizes) + spec.num_flags + spec.num_numbers


class RewardSignal(Stateful, ABC, Generic[SettingsT]):
    """Rewards decisions.

    Args:
        policy: The policy that is rewarded; its layouts and its observation normalizer are for use, its weights are
            not.
        cfg: Settings.
        streams: The run's random streams.
        name: Name of the policy and of the signal, for streams and messages.

    Attributes:
        rng: Random numbers for learning.
    """

    episodic: ClassVar[bool] = True
    """Whether returns end with the episode, as the environment's do; else what is still to be found in the next one
    counts too (Burda et al. 2018, section 2.3).
    """
    saved: ClassVar[tuple[str, ...]] = ("rng",)
    fixed: ClassVar[tuple[str, ...]] = ("policy", "cfg", "name")

    def __init__(self, policy: Policy, cfg: SettingsT, streams: Streams, name: str) -> None:
        self.policy = policy
        self.cfg = cfg
        self.name = name
        self.rng = streams.generator(Role.SIGNAL, name)

    def generator(self, streams: Streams) -> torch.Generator:
        """Gives what first weights are drawn from."""
        return torch.Generator().manual_seed(streams.integer(Role.SIGNAL, self.name, 1))

    def attach(self, attach: Callable[[Any], Any]) -> None:
        """Lets networks run on kernels where these know them: `attach` is ``native/forward.py:attach``."""

    def observe(self, played: Decisions) -> None:
        """Takes decisions into running statistics. It is called once for all that is played, before it is rewarded."""

    @abstractmethod
    def reward(self, seen: Decisions) -> Tensor:
        """Gives the reward ``[N]`` of each decision, before it is scaled and multiplied by its strength."""

    def learn(self, seen: Decisions) -> None:
        """Learns from all decisions of an update, of algorithms that learn from what was just played."""

    def learn_drawn(self, seen: Decisions) -> None:
        """Learns from decisions that were drawn from replay for one gradient step of the policy."""
        self.learn(seen)

    def summary(self) -> Report:
        """Returns what there is to know about all that was learned since the last call."""
        return {}


AnySignal = RewardSignal[Any]
