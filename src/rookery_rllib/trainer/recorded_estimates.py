"""The key ``input_evaluation``: off-policy estimates of a trainer that learns from recorded experience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rookery.face import ConfigError, nearest
from rookery_rllib.base.notices import say_once
from rookery_rllib.batch.estimators import ESTIMATORS, OffPolicyEstimator
from rookery_rllib.batch.offline import JsonReader

SIMULATION = "simulation"


class RecordedEstimates:
    """Estimates from the recorded episodes, read from files as far as an iteration needs them.

    Args:
        methods: Names of estimators, of ``input_evaluation``.
        files: Files of recorded experience.
        policy: Returns the policy.
        gamma: Discount.
        rows: Least rows that an iteration's estimate is made from.

    Raises:
        ConfigError: For an unknown name.
    """

    def __init__(
        self, methods: Sequence[str], files: Sequence[str], policy: Callable[[], Any], gamma: float, rows: int
    ) -> None:
        for name in methods:
            if name == SIMULATION:
                say_once("input_evaluation: simulation: set evaluation_interval, which runs episodes")
            elif name not in ESTIMATORS:
                known = [*ESTIMATORS, SIMULATION]
                raise ConfigError(
                    f"rllib config: input_evaluation = {list(methods)}: there is no {name!r}{nearest(name, known)}; "
                    f"use {', '.join(known)}"
                )
        self._kinds = [ESTIMATORS[name] for name in methods if name in ESTIMATORS]
        self._made: list[OffPolicyEstimator] = []
        self._reader, self._policy, self._gamma, self._rows = JsonReader(files), policy, gamma, rows

    def result(self) -> dict[str, dict[str, float]]:
        """Returns the mean metrics of the next episodes by estimator; none if the data have no probabilities."""
        self._made = self._made or [kind(self._policy(), self._gamma) for kind in self._kinds]
        rows = 0
        while self._made and rows < self._rows:
            batch = self._reader.next()
            if "action_prob" not in batch:
                say_once("input_evaluation: no estimates: the recorded data have no column action_prob")
                self._kinds, self._made = [], []
                break
            rows += batch.count
            for episode in batch.split_by_episode():
                for estimator in self._made:
                    estimator.process(episode)
        return {estimator.estimator_name: _means(estimator) for estimator in self._made}


def _means(estimator: OffPolicyEstimator) -> dict[str, float]:
    found = [estimate.metrics for estimate in estimator.get_metrics()]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}
