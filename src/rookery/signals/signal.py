"""Base class of reward signals, which reward decisions in addition to the environment.

A signal of your own is one class that derives from `RewardSignal` and one of settings that names it;
docs/how-to/explore.md has one of 30 lines. Signals receive decisions as independent rows, in any order and of any
policy, so that the same class rewards new rollouts and samples from replay.
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
"""Metrics of a signal, by name."""


@dataclass(frozen=True)
class SignalConfig(Settings):
    """Settings shared by all reward signals.

    Attributes:
        signal: Import path of the class of these settings, ``package.module:Class``.
    """

    signal: ClassVar[str]

    strength: NonNegative = 1.0
    """Weight of the signal's rewards; 0 = they are reported, but not learned from."""
    gamma: Fraction = 0.99
    """Discount of the signal's rewards, if they have a separate value function (PPO, A2C); otherwise the algorithm's
    applies.
    """


SettingsT = TypeVar("SettingsT", bound=SignalConfig)


@dataclass(frozen=True)
class ValueColumn:
    """A reward signal as a column of the value function.

    Attributes:
        gamma: Discount of its rewards.
        strength: Weight of its advantages in the policy's loss.
        episodic: Whether its returns end with the episode; else they continue into the next one.
    """

    gamma: float
    strength: float = 1.0
    episodic: bool = True


def decisions_of(rollout: Rollout) -> Decisions:
    """Returns the valid decisions of a rollout, in the order of its flattened rows."""
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
    """Returns actions ``[N, ...]`` as features ``[N, W]``: categories as one-hots, flags, continuous values clipped to
    +-1.

    Args:
        action: Actions as stored.
        spec: Layout of actions.
    """
    elements = action.reshape(len(action), -1)
    count = len(spec.sizes)
    chosen = elements[:, :count].long()
    parts = [functional.one_hot(chosen[:, place], size).float() for place, size in enumerate(spec.sizes)]
    rest = elements[:, count:].float()
    return torch.cat((*parts, rest[:, : spec.num_flags], rest[:, spec.num_flags :].clamp(-1.0, 1.0)), 1)


def action_width(spec: ActionSpec) -> int:
    """Returns W of `action_features`."""
    return sum(spec.sizes) + spec.num_flags + spec.num_numbers


class RewardSignal(Stateful, ABC, Generic[SettingsT]):
    """Base class of reward signals.

    Args:
        policy: The rewarded policy; a signal may use its layouts and its observation normalizer, not its weights.
        cfg: Settings.
        streams: The run's random streams.
        name: Name of the policy and of the signal, for streams and messages.

    Attributes:
        rng: Random numbers for learning.
    """

    episodic: ClassVar[bool] = True
    """Whether returns end with the episode, as the environment's do; else rewards of the next episode count too (Burda
    et al. 2018, section 2.3).
    """
    saved: ClassVar[tuple[str, ...]] = ("rng",)
    fixed: ClassVar[tuple[str, ...]] = ("policy", "cfg", "name")

    def __init__(self, policy: Policy, cfg: SettingsT, streams: Streams, name: str) -> None:
        self.policy = policy
        self.cfg = cfg
        self.name = name
        self.rng = streams.generator(Role.SIGNAL, name)

    def generator(self, streams: Streams) -> torch.Generator:
        """Returns the random generator of initial weights."""
        return torch.Generator().manual_seed(streams.integer(Role.SIGNAL, self.name, 1))

    def attach(self, attach: Callable[[Any], Any]) -> None:
        """Runs networks on kernels if supported: `attach` is ``native/forward.py:attach``."""

    def observe(self, played: Decisions) -> None:
        """Updates running statistics. Called once for all new decisions, before they are rewarded."""

    @abstractmethod
    def reward(self, seen: Decisions) -> Tensor:
        """Returns the reward ``[N]`` of each decision, before it is scaled and multiplied by its strength."""

    def learn(self, seen: Decisions) -> None:
        """Learns from all decisions of an update, in on-policy algorithms."""

    def learn_drawn(self, seen: Decisions) -> None:
        """Learns from decisions sampled from replay for one gradient step of the policy."""
        self.learn(seen)

    def summary(self) -> Report:
        """Returns metrics of learning since the last call."""
        return {}


AnySignal = RewardSignal[Any]
