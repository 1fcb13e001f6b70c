"""Reward signals in algorithms that have no values for each of them: what is learned from is their sum.

Of what is drawn from replay each decision is rewarded anew, by signals as they are then: novelty that was is not
novelty that is. Signals learn from the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.core.batch import Decisions, Rollout, Transitions
from rookery.core.errors import ConfigError
from rookery.native.forward import attach
from rookery.replay.buffer import SampledSequences
from rookery.signals.rewards import RewardSignals, SignalsConfig, laid_out
from rookery.signals.signal import decisions_of


def add_signals(learner: Algorithm[Any], cfg: SignalsConfig) -> RewardSignals:
    """Makes the reward signals of a learner, and has them reward what it learns from.

    Args:
        learner: The learner.
        cfg: Settings of the signals.
    """
    if cfg.updates_per_step is not None and not hasattr(learner.cfg, "updates_per_step"):
        raise ConfigError(
            f"policies.{learner.name}.signals.updates_per_step = {cfg.updates_per_step} is for algorithms that learn "
            "from replay; leave it out, and set epochs and minibatches of each signal"
        )
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
            reward = extrinsic * rollout.reward + laid_out(signals.again(seen), rollout)
            batch = replace(batch, rollout=replace(rollout, reward=reward))
        elif isinstance(batch, Transitions) and not signals.others:
            return replace(batch, reward=extrinsic * batch.reward)
        elif isinstance(batch, Transitions):
            assert learner.replay is not None
            steps = learner.replay.steps(batch)
            seen = steps
            earned = signals.again(steps) * steps.discount
            summed = torch.zeros_like(batch.reward).index_add_(0, steps.window, earned)
            batch = replace(batch, reward=extrinsic * batch.reward + summed)
        else:
            signals.learn()
            return batch
        for _ in range(self._due(learner)):
            for signal in signals.others.values():
                signal.learn_drawn(seen)
        return batch

    def _due(self, learner: Algorithm[Any]) -> int:
        """Gradient steps that signals make beside the next one of the learner: evenly among its own, as many as asked
        for.
        """
        asked = self.signals.cfg.updates_per_step
        if asked is None:
            return 1
        assert learner.replay is not None
        own: float = learner.cfg.updates_per_step
        made = learner.replay.gradient_steps
        if not own:  # whoever asks for steps by hand learns with each
            return 1
        return math.floor((made + 1) * asked / own) - math.floor(made * asked / own)
