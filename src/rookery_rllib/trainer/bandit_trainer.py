"""Trainer of LinUCB and LinTS, whose results have the regret that environments report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gymnasium.spaces import Dict

from rookery.face import Callback, ConfigError, Episode, IterationResult, Layer
from rookery_rllib.config.bandit_keys import EXPLORES
from rookery_rllib.trainer.base_trainer import BaseTrainer

ITEM = "item"
"""Part of an observation with the features of each action."""

ITEM_BOUND, ITEM_PRECISION = 0.3, 0.1
"""Factor on bounds and default of ``model.lambda_``, where actions have features."""

PLAN = (
    "sample: a step of all environments (rollout/worker.py:RolloutWorker.sample)",
    "learn: the posterior of rewards (algorithms/bandits/bandit.py:Bandit.training_step)",
    "broadcast the posterior (rollout/pool.py:LocalPool.set_weights)",
    "report (run/results.py:result_of)",
)
"""Steps of the loop, with their functions."""


class RegretOfPolicies(Callback):
    """Sums the regret in the infos of steps, by policy."""

    def __init__(self, trainer: BanditTrainer) -> None:
        self.trainer = trainer
        self.totals: dict[str, float] = {}

    def on_episode_step(self, episode: Episode) -> None:
        for agent, info in episode.info.items():
            if isinstance(info, Mapping) and "regret" in info:
                name = self.trainer.policy_of(episode.lane, episode.index, agent)
                self.totals[name] = self.totals.get(name, 0.0) + float(info["regret"])

    def state_dict(self) -> dict[str, float]:
        return dict(self.totals)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self.totals = dict(state)


class BanditTrainer(BaseTrainer):
    """Reads the features of actions from observations with a part ``item``, and reports ``cumulative_regret``."""

    def _take_over_translation(self, env: Any) -> None:
        super()._take_over_translation(env)
        self._regret = RegretOfPolicies(self)
        space = None if self._known is not None else self._spaces[0]
        if not isinstance(space, Dict):
            return
        if ITEM not in space.spaces:
            raise ConfigError(
                f"rllib config: env: {self} observes {space}: a Dict must have the features of actions under {ITEM!r}; "
                "for a plain context use one Box"
            )
        layer: dict[str, Any] = {"algorithm.arm_features": ITEM}
        if EXPLORES[self.algorithm] == "UCB":
            scale = float(self.translation.settings["algorithm.exploration_scale"])
            layer["algorithm.exploration_scale"] = ITEM_BOUND * scale
        if self.config["model"].get("lambda_") is None:
            layer["algorithm.prior_precision"] = ITEM_PRECISION
        layers = (*self.translation.layers, Layer("rllib config: env", layer))
        self.translation = replace(self.translation, layers=layers)

    def _listeners(self) -> list[Any]:
        return [*super()._listeners(), self._regret]

    @property
    def execution_plan(self) -> Any:
        return list(PLAN)

    def _result(self, found: IterationResult) -> dict[str, Any]:
        result = super()._result(found)
        for name, total in self._regret.totals.items():
            if name in result["info"]["learner"]:
                result["info"]["learner"][name]["learner_stats"]["cumulative_regret"] = total
        return result
