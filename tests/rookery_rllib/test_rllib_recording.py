"""Recording of episodes, and functions that see them before: the keys ``output`` and ``observation_fn``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.core.errors import ConfigError
from rookery_rllib.batch.offline import JsonReader
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer.trainers import DQNTrainer, PPOTrainer

SMALL: dict[str, Any] = {
    "framework": "torch", "num_workers": 0, "seed": 3, "model": {"fcnet_hiddens": [8]}, "train_batch_size": 64,
    "rollout_fragment_length": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1,
}  # fmt: skip


def test_what_is_played_is_written_and_can_be_read(tmp_path: Any) -> None:
    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0", "output": str(tmp_path), "output_compress_columns": [],
                                 "output_max_file_size": 2000})  # fmt: skip
    trainer.train()
    batches = list(JsonReader(str(tmp_path)).read_all_files())
    assert sum(batch.count for batch in batches) == 64
    assert {"obs", "new_obs", "actions", "rewards", "dones", "advantages", "value_targets"} <= set(batches[0])
    assert batches[0]["obs"].shape[1:] == (4,)
    assert len(list(tmp_path.glob("output-*.json"))) > 1
    line = next(iter(tmp_path.glob("*.json"))).read_text().splitlines()[0]
    assert json.loads(line)["type"] == "SampleBatch"


def test_replay_writes_too_and_a_wrong_output_is_refused(tmp_path: Any) -> None:
    config = {"env": "CartPole-v0", "framework": "torch", "num_workers": 0, "seed": 1, "learning_starts": 10,
              "timesteps_per_iteration": 40}  # fmt: skip
    DQNTrainer(config={**config, "output": str(tmp_path), "output_compress_columns": []}).train()
    assert sum(batch.count for batch in JsonReader(str(tmp_path)).read_all_files()) >= 36
    with pytest.raises(ConfigError, match="output = 5"):
        DQNTrainer(config={**config, "output": 5})


class Pair(MultiAgentEnv):
    """Two agents who see one number each, for three steps."""

    action_space = Discrete(2)
    observation_space = Box(-9.0, 9.0, (1,))

    def __init__(self, config: Any = None) -> None:
        self.step_number = 0

    def reset(self) -> Any:
        self.step_number = 0
        return self._seen()

    def _seen(self) -> Any:
        return {agent: np.array([self.step_number + 5 * agent], np.float32) for agent in (0, 1)}

    def step(self, actions: Any) -> Any:
        self.step_number += 1
        over = self.step_number == 3
        return self._seen(), {0: 1.0, 1: 1.0}, {0: over, 1: over, "__all__": over}, {0: {}, 1: {}}


def test_observations_are_rewritten_and_callbacks_change_what_is_learned() -> None:
    calls: list[Any] = []
    learned: list[np.ndarray] = []

    def observe(agent_obs: Any, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any) -> Any:
        calls.append((sorted(policies), episode.length))
        return {agent: np.concatenate([agent_obs[agent], agent_obs[1 - agent], [0.0]]).astype(np.float32)
                for agent in agent_obs}  # fmt: skip

    class FillIn(DefaultCallbacks):
        def on_postprocess_trajectory(self, *, agent_id: Any, postprocessed_batch: Any, original_batches: Any,
                                      **kwargs: Any) -> None:  # fmt: skip
            _, other = original_batches[1 - agent_id]
            assert np.array_equal(other["obs"][:, 0], postprocessed_batch["obs"][:, 1])
            postprocessed_batch["obs"][:, 2] = 3.0

        def on_learn_on_batch(self, *, policy: Any, train_batch: Any, result: Any, **kwargs: Any) -> None:
            learned.append(np.asarray(train_batch["obs"]))

    space = Box(-9.0, 9.0, (3,))
    trainer = PPOTrainer(config={
        **SMALL, "env": Pair, "callbacks": FillIn,
        "multiagent": {"policies": {name: (None, space, Discrete(2), {}) for name in ("a", "b")},
                       "policy_mapping_fn": lambda agent, **kwargs: "ab"[agent], "observation_fn": observe},
    })  # fmt: skip
    trainer.train()
    assert trainer.get_policy("a").observation_space.shape == (3,)
    assert calls[-1][0] == ["a", "b"]
    assert {length for _, length in calls} == {0, 1, 2}
    assert len(learned) == 2
    np.testing.assert_array_equal(np.unique(learned[0][:, 2]), [3.0])
    np.testing.assert_array_equal(np.abs(learned[0][:, 0] - learned[0][:, 1]), 5.0)
