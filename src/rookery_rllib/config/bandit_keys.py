"""Keys of LinUCB and LinTS, which learn the rewards of single decisions."""

from __future__ import annotations

import math

from rookery_rllib.config.algorithms import BANDITS, A
from rookery_rllib.config.exploration_keys import exploration_type, refuse_exploration
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, ignored

EXPLORES = {"LinUCB": "UCB", "LinTS": "ThompsonSampling"}
"""Type of exploration of each."""


def bandit_exploration(reader: Reader) -> Values:
    """Checks the exploration, which is that of the algorithm."""
    kind, own = exploration_type(reader), EXPLORES[reader.algorithm]
    if kind != own:
        refuse_exploration(reader, kind, f"ray.rllib.contrib.bandits.exploration.{own}")
    return {}


def bandit_scale(reader: Reader) -> Values:
    """Translates ``model.alpha``, by which RLlib multiplies the covariance, and ``model.lambda_``, the precision before
    any data.
    """
    alpha, precision = (
        1.0 if reader.get(key) is None else reader.number(key) for key in ("model.alpha", "model.lambda_")
    )
    if precision <= 0:
        reader.refuse("model.lambda_", "must be above 0")
        precision = 1.0
    return {f"{A}exploration_scale": math.sqrt(max(alpha, 0.0)), f"{A}prior_precision": precision}


def updates(reader: Reader) -> Values:
    """Translates the decisions of each environment between two updates."""
    return {f"{A}fragment_length": max(reader.whole("rollout_fragment_length"), 1)}


BANDIT_KEYS = [
    by(bandit_exploration, "exploration_config.type", "", "Exploration type: UCB (LinUCB), ThompsonSampling (LinTS).",
       BANDITS),
    by(bandit_scale, {"model.alpha": None}, f"{A}exploration_scale",
       "Factor on the covariance of the weights; None = 1. Where actions have features (``item``), bounds are 0.3 of "
       "those.",
       BANDITS),
    by(bandit_scale, {"model.lambda_": None}, f"{A}prior_precision",
       "Precision of the weights before any data; None = 1, or 0.1 where actions have features (``item``).",
       BANDITS),
    by(updates, "rollout_fragment_length", f"{A}fragment_length", "Decisions of an environment between two updates.",
       BANDITS),
    ignored("train_batch_size batch_mode", "an update learns from each decision once", BANDITS),
    ignored("gamma", "decisions are learned from without their future", BANDITS),
    ignored("lr", "weights are computed, not learned in steps", BANDITS),
]  # fmt: skip
