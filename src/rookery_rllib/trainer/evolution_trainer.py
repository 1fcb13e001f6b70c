"""Trainer of ES and ARS, whose results report the learned weights: candidates' returns are those of changed weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.face import Algorithm, BatchHook, ConfigError, IterationResult, Rollout
from rookery_rllib.trainer.base_trainer import BaseTrainer

PLAN = (
    "sample: whole episodes of all candidates (rollout/candidates.py:CandidatePolicy)",
    "learn: a step along their directions (algorithms/evolution/population.py:Evolution.training_step)",
    "broadcast weights (rollout/pool.py:LocalPool.set_weights)",
    "evaluate the learned weights (trainer/evolution_trainer.py)",
    "report (run/results.py:result_of)",
)
"""Steps of the loop, with their functions."""


class LoweredRewards(BatchHook):
    """Subtracts an amount from each reward before learning, such as a survival bonus.

    Args:
        amount: The amount.
    """

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        return replace(rollout, reward=rollout.reward - self.amount)


class EvolutionTrainer(BaseTrainer):
    """Plays evaluation episodes of the learned weights in each iteration, and reports their mean return."""

    def setup(self, config: dict[str, Any]) -> None:
        super().setup(config)
        self._reports: deque[float] = deque(maxlen=max(int(self.config["report_length"]), 1))
        self._episodes_owed = 1.0

    def validate_config(self, config: dict[str, Any]) -> None:
        super().validate_config(config)
        share = config["eval_prob"]
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise ConfigError(f"rllib config: eval_prob = {share!r}: must be a number from 0 to below 1")

    def _listen(self) -> None:
        new = [name for name in self.rookery.learners if name not in self._hooked]
        super()._listen()
        if amount := abs(float(self.config.get("offset", 0))):
            for name in new:
                self.rookery.learners[name].hooks.append(LoweredRewards(amount))

    def _make_facades(self) -> None:
        super()._make_facades()
        for policy in self.policy_facades.values():
            policy.config["explore"] = False  # actions are the most probable ones

    def _iterate(self) -> IterationResult:
        """Samples and learns until an update was made, also if it takes more steps than an iteration."""
        learners = self.rookery.learners.values()
        before = sum(learner.updates for learner in learners)
        found = super()._iterate()
        while sum(learner.updates for learner in learners) == before:
            found = super()._iterate()
        return found

    @property
    def execution_plan(self) -> Any:
        return list(PLAN)

    def _result(self, found: IterationResult) -> dict[str, Any]:
        result = super()._result(found)
        result["info"] |= {"episodes_this_iter": result["episodes_this_iter"], "episodes_so_far": found.episodes}
        share = float(self.config["eval_prob"])
        if not share:
            return result
        pairs = result["episodes_this_iter"] / 2
        self._episodes_owed += pairs * share / (1 - share)
        count = int(self._episodes_owed)
        if count:
            self._episodes_owed -= count
            played = self._evaluation.play(count, deterministic=True)
            self._reports.append(float(np.mean([each.reward for each in played])))
            result["episode_len_mean"] = float(np.mean([each.length for each in played]))
        result["episode_reward_mean"] = float(np.mean(self._reports))
        return result
