"""Policies that act without learning: the base of policies that follow a rule, and one that draws its actions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rookery.face import ConfigError
from rookery_rllib.policy.policies import Policy


class HeuristicPolicy(Policy):
    """Policy without learning."""

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        super().__init__(observation_space, action_space, config)
        self.generator = np.random.default_rng(np.random.randint(2**31))  # seeded by scripts and trainers

    def _act(self, columns: Any, states: Any, explore: bool | None, timestep: int | None) -> Any:
        return *self._chosen(columns["obs"], states), {}

    def _chosen(self, obs: Any, states: Any) -> tuple[Any, Any]:
        """Returns actions ``[N, ...]`` and the states after them, in a list."""
        raise NotImplementedError

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        return {}


class RandomPolicy(HeuristicPolicy):
    """Policy that draws uniform actions from the action space.

    With ``ignore_action_bounds`` actions of a Box are normal numbers without bounds.
    """

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        super().__init__(observation_space, action_space, config)
        self.action_space_for_sampling = copy.deepcopy(action_space)  # other code draws from that one, too
        if config.get("ignore_action_bounds") and isinstance(action_space, Box):
            self.action_space_for_sampling = Box(-np.inf, np.inf, action_space.shape, np.float32)
        self.action_space_for_sampling.seed(int(self.generator.integers(2**31)))

    def _chosen(self, obs: Any, states: Any) -> tuple[Any, Any]:
        return [self.action_space_for_sampling.sample() for _ in range(len(obs))], []

    def _log_likelihoods(self, actions: Any, columns: Any, states: Any) -> np.ndarray:
        """Returns the log-probability (log-density of continuous actions) ``[N]`` of every action.

        Raises:
            ConfigError: If actions are not drawn uniformly.
        """
        space = self.action_space_for_sampling
        if isinstance(space, Discrete):
            logp = -np.log(float(space.n))
        elif isinstance(space, MultiDiscrete):
            logp = -float(np.log(space.nvec).sum())
        elif isinstance(space, Box) and space.is_bounded():
            logp = -float(np.log(space.high.astype(np.float64) - space.low).sum())
        else:
            raise ConfigError(f"RandomPolicy: actions of {space} are not drawn uniformly, and have no log-likelihoods")
        return np.full(len(columns["obs"]), logp)
