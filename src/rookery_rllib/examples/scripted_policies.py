"""Rule-based policies of RLlib's examples of 2021, which do not learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from rookery.face import ConfigError
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.examples.multi_agent_envs import RockPaperScissors
from rookery_rllib.policy.random_policy import HeuristicPolicy, RandomPolicy


class AlwaysSameHeuristic(HeuristicPolicy):
    """Rock, paper, scissors policy that repeats a move drawn once per episode."""

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        super().__init__(observation_space, action_space, config)
        self.view_requirements["state_in_0"] = ViewRequirement("state_out_0", Box(0, 100, (), np.int32), shift=-1)

    def get_initial_state(self) -> list[Any]:
        return [int(self.generator.integers(3))]

    def _chosen(self, obs: Any, states: Any) -> tuple[Any, Any]:
        return np.asarray(states[0]).astype(np.int64), states


class BeatLastHeuristic(HeuristicPolicy):
    """Rock, paper, scissors policy that beats the opponent's last move, which is observed as a one-hot."""

    BEATEN_BY = np.array([RockPaperScissors.PAPER, RockPaperScissors.SCISSORS, RockPaperScissors.ROCK])

    def _chosen(self, obs: Any, states: Any) -> tuple[Any, Any]:
        return self.BEATEN_BY[np.asarray(obs).argmax(-1)], []


class EpisodeEnvAwareLSTMPolicy(RandomPolicy):
    """Policy whose actions are agent, episode and environment index, ``[N, 3]``.

    It remembers the time step, twice.
    """

    num_states = 2
    factor, name = 2.0, "2xobs"

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        super().__init__(observation_space, action_space, config)
        self.state_space = Box(-1.0, 1.0, (1,))
        for column in ("agent_index", "eps_id", "env_id", "t", "obs"):
            self.view_requirements[column] = ViewRequirement()
        for number in range(self.num_states):
            self.view_requirements[f"state_in_{number}"] = self._looks_back(number)

    def _looks_back(self, number: int) -> ViewRequirement:
        return ViewRequirement(f"state_out_{number}", self.state_space, shift=-1)

    def get_initial_state(self) -> list[Any]:
        return [np.zeros(1, np.float32) for _ in range(self.num_states)]

    def compute_actions(self, obs_batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Raises a ConfigError: agent, episode and environment are in other columns than the observations."""
        raise ConfigError(
            f"{type(self).__name__}: acts by agent_index, eps_id and env_id; call compute_actions_from_input_dict with "
            "these columns"
        )

    def compute_actions_from_input_dict(
        self, input_dict: Any, explore: bool | None = None, timestep: int | None = None, episodes: Any = None, **kw: Any
    ) -> Any:
        """Returns agent, episode and environment of each row ``[N, 3]``, and the time steps ``[N, 1]`` as states."""
        self.global_timestep += 1
        actions = np.stack([np.asarray(input_dict[name]) for name in ("agent_index", "eps_id", "env_id")], 1)
        steps = np.asarray(input_dict["t"])[:, None]
        return actions, [steps.copy() for _ in range(self.num_states)], {}

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        """Adds a column with a multiple of the observations."""
        sample_batch[self.name] = sample_batch["obs"] * self.factor
        return sample_batch


class EpisodeEnvAwareAttentionPolicy(EpisodeEnvAwareLSTMPolicy):
    """Same policy with one state, of which it observes the last 50."""

    num_states = 1
    factor, name = 3.0, "3xobs"
    LOOKED_AT = 50

    def _looks_back(self, number: int) -> ViewRequirement:
        steps = f"-{self.LOOKED_AT}:-1"
        return ViewRequirement(f"state_out_{number}", self.state_space, steps, batch_repeat_value=self.LOOKED_AT)
