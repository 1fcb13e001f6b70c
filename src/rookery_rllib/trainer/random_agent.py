"""The trainer contrib/RandomAgent: plays whole episodes with random actions, and learns nothing."""

from __future__ import annotations

from typing import Any, ClassVar

from rookery.face import IterationResult
from rookery_rllib.config.defaults import with_common_config
from rookery_rllib.policy.random_policy import RandomPolicy
from rookery_rllib.trainer.base_trainer import BaseTrainer

EPISODES = "rollouts_per_iteration"
"""Key with the least number of episodes in an iteration."""


class RandomAgent(BaseTrainer):
    """Plays with random actions; an iteration is ``rollouts_per_iteration`` episodes or a few more."""

    _name: ClassVar[str] = "RandomAgent"
    _algorithm: ClassVar[str] = "PG"
    _default_config: ClassVar[dict[str, Any]] = with_common_config({EPISODES: 10, "num_workers": 0})
    _policy_class: ClassVar[Any] = RandomPolicy

    def _iterate(self) -> IterationResult:
        wanted = (self._episodes_total or 0) + max(int(self.config[EPISODES]), 1)
        found = super()._iterate()
        while found.episodes < wanted:
            found = super()._iterate()
        return found
