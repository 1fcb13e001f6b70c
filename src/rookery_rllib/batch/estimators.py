"""Off-policy estimates of 2021: the value of a policy from episodes of another one, by stepwise importance sampling.

Jiang & Li 2016 (arXiv:1511.03722, eqs. 4 and 5). Rookery's own estimates, with intervals and models, are in
`rookery/ope`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from rookery.face import ConfigError
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch

OffPolicyEstimate = namedtuple("OffPolicyEstimate", ["estimator_name", "metrics"])

SMALLEST_VALUE = 1e-8
"""Least value of the recorded policy that a gain is relative to."""


class OffPolicyEstimator:
    """Base of estimators: `process` takes batches of one episode each, `get_metrics` returns the new estimates."""

    estimator_name = ""

    def __init__(self, policy: Any, gamma: float) -> None:
        self.policy, self.gamma = policy, gamma
        self.new_estimates: list[OffPolicyEstimate] = []

    @classmethod
    def create(cls, ioctx: Any) -> OffPolicyEstimator:
        policies = list(ioctx.worker.policy_map.values())
        if len(policies) != 1:
            raise ConfigError("input_evaluation: estimates are for one policy; set it to []")
        return cls(policies[0], ioctx.worker.policy_config["gamma"])

    def estimate(self, batch: SampleBatch) -> OffPolicyEstimate:
        """Returns the estimate from an episode, or from a piece of one.

        Raises:
            ConfigError: If the batch has no column ``action_prob``, or several policies.
        """
        self.check_can_estimate_for(batch)
        rewards = np.asarray(batch["rewards"], np.float64)
        discounts = self.gamma ** np.arange(len(rewards))
        weights = self._weights(np.cumprod(self.action_prob(batch) / np.asarray(batch["action_prob"], np.float64)))
        before, after = float(discounts @ rewards), float(discounts @ (weights * rewards))
        return OffPolicyEstimate(
            self.estimator_name,
            {
                "V_prev": before,
                f"V_step_{self.estimator_name.upper()}": after,
                "V_gain_est": after / max(SMALLEST_VALUE, before),
            },
        )

    def _weights(self, ratios: np.ndarray) -> np.ndarray:
        """Returns the weight of each reward, from the ratio of the probabilities of the actions up to it, ``[T]``."""
        raise NotImplementedError(f"{type(self).__name__} has no estimate(batch)")

    def action_prob(self, batch: SampleBatch) -> np.ndarray:
        """Returns the probabilities ``[T]`` of the actions of a batch under the policy."""
        states = [batch[name] for name in sorted(batch) if name.startswith("state_in_")]
        logp = self.policy.compute_log_likelihoods(
            batch["actions"], batch["obs"], states, batch.get("prev_actions"), batch.get("prev_rewards")
        )
        return np.exp(np.asarray(logp, np.float64))

    def process(self, batch: SampleBatch) -> None:
        self.new_estimates.append(self.estimate(batch))

    def check_can_estimate_for(self, batch: Any) -> None:
        if isinstance(batch, MultiAgentBatch):
            raise ConfigError("input_evaluation: estimates are for one policy; set it to []")
        if "action_prob" not in batch:
            raise ConfigError(
                "input_evaluation: the recorded data have no column action_prob, the probabilities of their actions; "
                "set it to []"
            )

    def get_metrics(self) -> list[OffPolicyEstimate]:
        found, self.new_estimates = self.new_estimates, []
        return found


class ImportanceSamplingEstimator(OffPolicyEstimator):
    """Weighs each reward by the ratio of probabilities of the actions up to it."""

    estimator_name = "is"

    def _weights(self, ratios: np.ndarray) -> np.ndarray:
        return ratios


class WeightedImportanceSamplingEstimator(OffPolicyEstimator):
    """Divides these weights by their mean over all episodes so far, at the same step."""

    estimator_name = "wis"

    def __init__(self, policy: Any, gamma: float) -> None:
        super().__init__(policy, gamma)
        self._sums, self._counts = np.zeros(0), np.zeros(0)

    def _weights(self, ratios: np.ndarray) -> np.ndarray:
        missing = np.zeros(max(len(ratios) - len(self._sums), 0))
        self._sums, self._counts = np.append(self._sums, missing), np.append(self._counts, missing)
        self._sums[: len(ratios)] += ratios
        self._counts[: len(ratios)] += 1
        means = self._sums[: len(ratios)] / self._counts[: len(ratios)]
        found: np.ndarray = np.divide(ratios, means, out=np.zeros_like(ratios), where=means > 0)
        return found


ESTIMATORS: dict[str, type[OffPolicyEstimator]] = {
    kind.estimator_name: kind for kind in (ImportanceSamplingEstimator, WeightedImportanceSamplingEstimator)
}
"""Estimators by their names in ``input_evaluation``."""
