"""The reward signals of one policy: the environment's reward and all others."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from rookery.core.batch import Decisions, Rollout
from rookery.core.config import Polymorphic
from rookery.core.metrics import Means
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, Settings, Structural
from rookery.core.settings.reach import CODE
from rookery.core.settings.trust import CodeKind
from rookery.core.state import Stateful
from rookery.policies.policy import Policy
from rookery.signals.count import CountConfig
from rookery.signals.curiosity import CuriosityConfig
from rookery.signals.gail import GAILConfig
from rookery.signals.return_scale import ReturnScale
from rookery.signals.reward_unit import RewardUnit
from rookery.signals.rnd import RNDConfig
from rookery.signals.signal import Report, RewardSignal, SignalConfig, ValueColumn, decisions_of

SIGNAL = CodeKind(
    "a reward signal (a class of rookery.extend.RewardSignal)", lambda found: issubclass(found, RewardSignal)
)


@dataclass(frozen=True)
class ExtrinsicConfig(Settings):
    """Weight of the environment's reward; its discount is `gamma` of the algorithm."""

    strength: NonNegative = 1.0
    """Weight of the environment's reward; 0 = it is reported, but not learned from."""


@dataclass(frozen=True)
class SignalsConfig(Settings):
    """Reward signals of a policy: the environment, and all that are named here (docs/how-to/explore.md)."""

    extrinsic: ExtrinsicConfig = field(default_factory=ExtrinsicConfig)
    """The environment's reward."""
    rnd: Structural[RNDConfig | None] = None
    """Novelty by random network distillation; none = no such signal."""
    curiosity: Structural[CuriosityConfig | None] = None
    """Prediction error of the consequences of actions; none = no such signal."""
    count: Structural[CountConfig | None] = None
    """Rarity of observations; none = no such signal."""
    gail: Structural[GAILConfig | None] = None
    """Similarity to demonstrations; none = no such signal."""
    own: Structural[Annotated[dict[str, Annotated[Any, Polymorphic()] | None], Polymorphic(), CODE]] = field(
        default_factory=dict
    )
    """User-defined signals by name: settings that derive from `SignalConfig`, or ``{name: my.module:MyConfig, ...}``;
    none = no such signal.
    """
    combine: Literal["sum", "mean"] = "sum"
    """Combination of the advantages (or, without separate values, rewards) of several signals: ``mean`` divides their
    sum by the number of signals, as ML-Agents does.
    """

    @property
    def others(self) -> dict[str, SignalConfig]:
        """The signals in addition to the environment's reward, by name."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in {**named, **self.own}.items() if isinstance(value, SignalConfig)}


class RewardSignals(Stateful):
    """All reward signals of one policy.

    Args:
        cfg: Settings.
        policy: The policy.
        streams: The run's random streams.
        name: The policy's name.

    Attributes:
        others: The signals except the environment's reward, by name.
        scales: Running standard deviations of returns of the signals with scaled rewards, by name.
        reward_unit: Unit of the sum of rewards, for algorithms without a value per signal.
    """

    state_version = 2
    saved = ("others", "scales", "means", "reward_unit")
    fixed = ("cfg", "_seen")

    def __init__(self, cfg: SignalsConfig, policy: Policy, streams: Streams, name: str) -> None:
        self.cfg = cfg
        self.others: dict[str, RewardSignal[Any]] = {}
        self.scales: dict[str, ReturnScale] = {}
        self.means = Means()
        self.reward_unit = RewardUnit()
        self._seen: Decisions | None = None
        for key, settings in cfg.others.items():
            make: type[RewardSignal[Any]] = SIGNAL.find(settings.signal)
            self.others[key] = make(policy, settings, streams, f"{name}/{key}")
            if getattr(settings, "scale", False):
                self.scales[key] = ReturnScale(settings.gamma, clip=None)

    @property
    def unit(self) -> float:
        """Divisor of strengths."""
        return 1.0 + len(self.others) if self.cfg.combine == "mean" else 1.0

    def columns(self, gamma: float) -> tuple[ValueColumn, ...]:
        """Returns the value columns of the signals, the environment's first.

        Args:
            gamma: Discount of the environment's reward.
        """
        own = ValueColumn(gamma, self.cfg.extrinsic.strength / self.unit)
        signals = self.others.values()
        return own, *(ValueColumn(one.cfg.gamma, one.cfg.strength / self.unit, one.episodic) for one in signals)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds the unit of rewards to states of version 1, which were learned as they were."""
        return {**state, "reward_unit": self.reward_unit.state_dict()}

    def rewards(self, rollout: Rollout, extrinsic: Tensor) -> Tensor:
        """Returns the rewards of a new rollout, ``[T, F, S]``, a column for each of `columns`; updates running
        statistics.

        Args:
            rollout: The rollout.
            extrinsic: ``[T, F]`` the environment's rewards as used in learning.
        """
        found = [extrinsic]
        seen = self._seen = decisions_of(rollout)
        for name, signal in self.others.items():
            signal.observe(seen)
            reward = to_rollout_shape(signal.reward(seen), rollout)
            self.means.add({f"{name}_reward": reward[rollout.valid]})
            scale = self.scales.get(name)
            found.append(reward if scale is None else scale(_with_rewards(rollout, reward, signal.episodic)))
        return torch.stack(found, -1)

    def learn(self) -> None:
        """Updates the signals on the decisions that they have rewarded last."""
        if self._seen is not None:
            for signal in self.others.values():
                signal.learn(self._seen)
        self._seen = None

    def observe(self, rollout: Rollout) -> None:
        """Updates running statistics with a rollout for replay."""
        if self.others:
            self.rewards(rollout, rollout.reward)
            self._seen = None

    def current_rewards(self, seen: Decisions) -> Tensor:
        """Returns the current rewards ``[N]`` of all signals except the environment's, weighted by strength."""
        total = torch.zeros(len(seen), device=seen.terminated.device, dtype=torch.float32)
        for name, signal in self.others.items():
            reward = signal.reward(seen)
            scale = self.scales.get(name)
            factor = signal.cfg.strength / self.unit
            total += reward * (factor if scale is None else factor / scale.deviation)
        return total

    def summary(self) -> Report:
        """Returns metrics of all signals since the last call."""
        row: Report = dict(self.means.result())
        self.means = Means()
        for name, signal in self.others.items():
            row |= {f"{name}_{key}": value for key, value in signal.summary().items()}
        return row


def to_rollout_shape(reward: Tensor, rollout: Rollout) -> Tensor:
    """Returns rewards ``[N]`` of the valid decisions of a rollout as ``[T, F]``, 0 elsewhere."""
    rows, shape = rollout.valid_rows(), rollout.reward.shape
    if rows is None:
        return reward.view(shape)
    return reward.new_zeros(shape.numel()).index_copy(0, rows, reward).view(shape)


def _with_rewards(rollout: Rollout, reward: Tensor, episodic: bool) -> Rollout:
    """Returns a rollout with other rewards; without episode ends if the signal is not episodic."""
    if episodic:
        return replace(rollout, reward=reward)
    never = torch.zeros_like(rollout.terminated)
    return replace(rollout, reward=reward, terminated=never, truncated=never, first=torch.zeros_like(rollout.first))
