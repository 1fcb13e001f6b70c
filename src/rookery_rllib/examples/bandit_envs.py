"""RLlib's bandit environments, reimplemented in the API of 2021.

They draw from NumPy's global generator, whose state is kept for each environment (`per_env_rng`). An episode is
one step, whose info has its ``regret``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rookery_rllib.gym.core import Env

Shown = tuple[Any, float, bool, dict[str, Any]]
"""Observation, reward, done, info."""


class LinearDiscreteEnv(Env):
    """Rewards are linear in a context of ``feature_dim`` numbers, by weights of length 1 for each action.

    Args:
        config: ``feature_dim`` (8), ``num_actions`` (4), ``reward_noise_std`` (0.01).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = {"feature_dim": 8, "num_actions": 4, "reward_noise_std": 0.01} | dict(config or {})
        self.feature_dim, self.num_actions = self.config["feature_dim"], self.config["num_actions"]
        self.sigma = self.config["reward_noise_std"]
        self.action_space = Discrete(self.num_actions)
        self.observation_space = Box(-10, 10, (self.feature_dim,))
        drawn = np.random.uniform(-1, 1, (self.num_actions, self.feature_dim))
        self.thetas = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def reset(self) -> Any:
        self.context = np.random.normal(scale=1 / 3, size=self.feature_dim)
        return self.context

    def step(self, action: Any) -> Shown:
        """Rewards an action for the context, and draws the next context."""
        means = self.thetas @ self.context
        reward = float(means[action] + np.random.normal(scale=self.sigma))
        regret = float(means.max() - means[action])
        return self.reset(), reward, True, {"regret": regret, "opt_action": int(means.argmax())}


class WheelBanditEnv(Env):
    """Contexts are points in the unit disc. Action 0 pays ``mu_1``, the others ``mu_2``, and the one of a quarter
    ``mu_3`` outside of the radius ``delta`` (Riquelme et al. 2018, arXiv:1802.09127).

    Args:
        config: ``delta`` (0.5), ``mu_1`` (1.2), ``mu_2`` (1), ``mu_3`` (50), ``std`` (0.01).
    """

    feature_dim, num_actions = 2, 5

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = {"delta": 0.5, "mu_1": 1.2, "mu_2": 1, "mu_3": 50, "std": 0.01} | dict(config or {})
        self.action_space = Discrete(self.num_actions)
        self.observation_space = Box(-1, 1, (self.feature_dim,))

    def reset(self) -> Any:
        while True:
            self.context = np.random.uniform(-1, 1, self.feature_dim)
            if np.linalg.norm(self.context) <= 1:
                return self.context

    def step(self, action: Any) -> Shown:
        """Rewards an action for the context, and draws the next context."""
        known = self.config
        means = np.array([known["mu_1"], *[known["mu_2"]] * 4], float)
        best = 0
        if np.linalg.norm(self.context) >= known["delta"]:
            right, above = self.context > 0
            best = (1 if above else 4) if right else (2 if above else 3)
            means[best] = known["mu_3"]
        rewards = np.random.normal(means, known["std"])
        reward = float(rewards[action])
        return self.reset(), reward, True, {"regret": float(rewards[best]) - reward, "opt_action": best}


class ParametricItemRecoEnv(Env):
    """Recommends one of ``num_candidates`` items, drawn from all in each step; the reward is the product of the hidden
    vector of a user and the features of the item.

    Args:
        config: ``num_users`` (1), ``num_items`` (100), ``feature_dim`` (16), ``slate_size`` (1), ``num_candidates``
            (25), ``seed`` (1, without effect).
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        known = {"num_users": 1, "num_items": 100, "feature_dim": 16, "slate_size": 1, "num_candidates": 25, "seed": 1}
        self.config = known | dict(config or {})
        self.num_users, self.num_items = self.config["num_users"], self.config["num_items"]
        self.feature_dim, self.num_candidates = self.config["feature_dim"], self.config["num_candidates"]
        if self.config["slate_size"] != 1:
            raise ValueError(
                f"slate_size = {self.config['slate_size']}: slates of several items have no rewards; use 1"
            )
        self.action_space = Discrete(self.num_candidates)
        shown = {
            "item": Box(-np.inf, np.inf, (self.num_candidates, self.feature_dim)),
            "item_id": MultiDiscrete([self.num_items] * self.num_candidates),
            "response": Box(-1, 1, (1,)),
        }
        self.observation_space = Dict(shown | ({"user": Discrete(self.num_users)} if self.num_users > 1 else {}))
        self.item_embeddings, self.user_embeddings = (
            drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
            for drawn in (np.random.rand(count, self.feature_dim) for count in (self.num_items, self.num_users))
        )
        self.total_regret = 0.0

    def reset(self) -> Any:
        return self._next(0.0)

    def step(self, action: Any) -> Shown:
        """Rewards a recommendation, and draws the next user and candidates."""
        scores = self.item_embeddings[self.item_pool_ids] @ self.user_embeddings[self.current_user_id]
        reward = float(scores[action])
        regret = float(scores.max()) - reward
        self.total_regret += regret
        return self._next(reward), reward, True, {"regret": regret}

    def _next(self, response: float) -> dict[str, Any]:
        """Draws a user and candidates, and returns the observation."""
        self.current_user_id = int(np.random.randint(0, self.num_users))
        self.item_pool_ids = np.random.choice(self.num_items, self.num_candidates, replace=False)
        shown = {
            "item": self.item_embeddings[self.item_pool_ids],
            "item_id": self.item_pool_ids,
            "response": np.array([response]),
        }
        return shown | ({"user": self.current_user_id} if self.num_users > 1 else {})
