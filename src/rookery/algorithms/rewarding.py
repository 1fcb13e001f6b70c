"""Reward signals in algorithms that have no values for each of them: what is learned from is their sum.

Of what is drawn from replay each decision is rewarded anew, by signals as they are then: novelty that was is not
novelty that is. Signals learn from the same decisions.
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
from rookery.signals.rewards import RewardSignals, SignalsConfig, to_rollout_shape
from rookery.signals.signal import decisions_of


def add_signals(learner: Algorithm[Any], cfg: SignalsConfig) -> RewardSignals:
    """Makes the reward signals of a learner, and has them reward what it learns from.

    Args:
        learner: The learner.
        cfg: Settings of the signals.
    """
    signals = RewardSignals(cfg, learner.policy, learner.streams, learner.name)
    for signal in signals.others.values():
        signal.attach(attach)
    if signals.others or cfg.extrinsic.strength != 1.0:
        learner.hooks.append(Rewarding(signals))
    return signals


class Rewarding(BatchHook):
    """Puts the sum of all signals' rewards in the place of the environment's.

    Args:
        signals: The signals.
    """

    def __init__(self, signals: RewardSignals) -> None:
        self.signals = signals

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Rewards what was just played, unless the learner has values for each signal, or replay, where it is rewarded
        when it is drawn.
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
        """Rewards what was drawn from replay; signals learn."""
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
