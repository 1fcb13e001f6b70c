"""Reward signals for algorithms without a value per signal, which learn from the sum of rewards.

Decisions drawn from replay are rewarded again by the signals as they are now, because novelty changes. Signals learn
from the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.core.batch import Decisions, Rollout, Transitions
from rookery.native.forward import attach
from rookery.replay.buffer import SampledSequences
from rookery.signals.reward_unit import EVERY, RewardUnit
from rookery.signals.rewards import RewardSignals, SignalsConfig, to_rollout_shape
from rookery.signals.signal import decisions_of


def add_signals(learner: Algorithm[Any], cfg: SignalsConfig) -> RewardSignals:
    """Creates the reward signals of a learner, and adds them to its hooks.

    Args:
        learner: The learner.
        cfg: Settings of the signals.
    """
    signals = RewardSignals(cfg, learner.policy, learner.streams, learner.name)
    for signal in signals.others.values():
        signal.attach(attach)
    if signals.others or cfg.extrinsic.strength != 1.0:
        learner.hooks.append(Rewarding(signals))
    if not hasattr(type(learner), "columns") and not learner.capabilities.offline:
        learner.hooks.append(InUnit(signals.reward_unit))
    return signals


class Rewarding(BatchHook):
    """Replaces the environment's reward by the sum of all signals' rewards.

    Args:
        signals: The signals.
    """

    def __init__(self, signals: RewardSignals) -> None:
        self.signals = signals

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Rewards new experience, unless the learner has a value per signal, or replay, where decisions are rewarded
        when they are drawn.
        """
        signals = self.signals
        if learner.replay is not None:
            signals.observe(rollout)
        elif not hasattr(learner, "columns"):
            strengths = [column.strength for column in signals.columns(0.0)]
            reward = signals.rewards(rollout, rollout.reward) @ rollout.reward.new_tensor(strengths)
            return replace(rollout, reward=reward)
        return rollout

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Rewards decisions drawn from replay; signals learn from them."""
        signals = self.signals
        extrinsic = signals.cfg.extrinsic.strength / signals.unit
        if isinstance(batch, SampledSequences):
            seen: Decisions = decisions_of(batch.rollout)
            rollout = batch.rollout
            reward = extrinsic * rollout.reward + to_rollout_shape(signals.current_rewards(seen), rollout)
            batch = replace(batch, rollout=replace(rollout, reward=reward))
        elif isinstance(batch, Transitions) and not signals.others:
            return batch if extrinsic == 1.0 else replace(batch, reward=extrinsic * batch.reward)
        elif isinstance(batch, Transitions):
            assert learner.replay is not None
            steps = learner.replay.steps(batch)
            seen = steps
            earned = signals.current_rewards(steps) * steps.discount
            summed = torch.zeros_like(batch.reward).index_add_(0, steps.window, earned)
            batch = replace(batch, reward=extrinsic * batch.reward + summed)
        else:
            signals.learn()
            return batch
        for signal in signals.others.values():
            signal.learn_drawn(seen)
        return batch


class InUnit(BatchHook):
    """Divides rewards by their unit (`signals/reward_unit.py`), where values can change their unit.

    Args:
        unit: The unit.
    """

    def __init__(self, unit: RewardUnit) -> None:
        self.unit = unit

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Divides rewards of new experience, unless it is stored in replay."""
        if learner.replay is not None:
            return rollout
        if learner.updates % EVERY == 0 and (weights := learner.value_weights()):
            self.unit.measure(rollout.reward[rollout.valid], weights if learner.updates else ())
        return rollout if self.unit.unit == 1.0 else replace(rollout, reward=rollout.reward / self.unit.unit)

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Divides rewards of decisions drawn from replay."""
        replay = learner.replay
        if replay is None or (self.unit.unit == 1.0 and replay.gradient_steps % EVERY):
            return batch
        sequences = isinstance(batch, SampledSequences)
        made, holder = replay.gradient_steps, batch.rollout if sequences else batch
        if made % EVERY == 0 and (weights := learner.value_weights()):
            reward = holder.reward[holder.valid] if sequences else holder.reward
            self.unit.measure(reward, weights if made else ())
        if self.unit.unit == 1.0:
            return batch
        holder = replace(holder, reward=holder.reward / self.unit.unit)
        return replace(batch, rollout=holder) if sequences else holder
