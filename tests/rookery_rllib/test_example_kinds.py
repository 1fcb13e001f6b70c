"""Features of trainers that RLlib's example scripts of 2021 need, each on the smallest case that shows it."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError
from rookery_rllib.base import registrations, unsupported
from rookery_rllib.batch.offline import JsonReader, JsonWriter, ShuffledInput
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.config.translation import translated
from rookery_rllib.env.envs import ExternalEnv, MultiAgentEnv, TaskSettableEnv, VectorEnv, same_task
from rookery_rllib.env.making import EnvMaker
from rookery_rllib.examples.single_agent_envs import CartPoleMassEnv, SimpleCorridor
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.script import finder
from rookery_rllib.trainer.trainers import PGTrainer, PPOTrainer, build_trainer

SMALL = {
    "num_workers": 0,
    "rollout_fragment_length": 20,
    "train_batch_size": 40,
    "sgd_minibatch_size": 20,
    "num_sgd_iter": 1,
    "model": {"fcnet_hiddens": [4]},
}


class Pair(MultiAgentEnv):
    """Two agents with numbers for names; a third comes after a step, with other spaces."""

    observation_space, action_space = Box(-1.0, 1.0, (2,), np.float32), Discrete(2)

    def __init__(self, config: Any) -> None:
        self.late = config.get("late", False)
        self.steps = 0

    def reset(self) -> dict[Any, Any]:
        self.steps = 0
        return {agent: np.zeros(2, np.float32) for agent in (0, 1)}

    def step(self, actions: dict[Any, Any]) -> Any:
        self.steps += 1
        obs: dict[Any, Any] = {agent: np.zeros(2, np.float32) for agent in (0, 1)}
        if self.late:
            obs["late"] = np.zeros(3, np.float32)
        return obs, dict.fromkeys(actions, 1.0), {"__all__": self.steps >= 5}, {}


SPACES = (Box(-1.0, 1.0, (2,), np.float32), Discrete(2))


def test_agents_keep_the_names_of_their_environment_in_mappings_and_callbacks() -> None:
    asked, seen = set(), []

    class Watching(DefaultCallbacks):
        def on_episode_end(self, *, episode: Any, **about: Any) -> None:
            seen.append((sorted(episode.get_agents()), sorted(episode.agent_rewards), episode.last_action_for(1)))

    def mapped(agent: Any) -> str:
        asked.add(agent)
        return ("even", "odd")[agent % 2]

    policies = {name: (None, *SPACES, {}) for name in ("even", "odd")}
    config = {**SMALL, "callbacks": Watching, "multiagent": {"policies": policies, "policy_mapping_fn": mapped}}
    PPOTrainer(env=Pair, config=config).train()
    assert asked == {0, 1}
    assert seen[0][:2] == ([0, 1], [(0, "even"), (1, "odd")]) and seen[0][2] in (0, 1)


def test_policies_are_made_for_agents_that_come_later_with_other_spaces() -> None:
    policies = {"now": (None, *SPACES, {}), "later": (None, Box(-1.0, 1.0, (3,), np.float32), Discrete(4), {})}
    config = {
        **SMALL,
        "env_config": {"late": True},
        "multiagent": {"policies": policies, "policy_mapping_fn": lambda agent: "later" if agent == "late" else "now"},
    }
    trainer = PPOTrainer(env=Pair, config=config)
    assert trainer.get_policy("later").action_space == Discrete(4)
    assert {*trainer.train()["info"]["learner"]} == {"now", "later"}


def test_weights_go_to_a_policy_that_only_plays_and_back() -> None:
    policies = {name: (None, *SPACES, {}) for name in ("one", "two")}
    mapping = {"policies": policies, "policy_mapping_fn": lambda agent: ("one", "two")[agent]}
    filtered = {**SMALL, "observation_filter": "MeanStdFilter"}
    first = PPOTrainer(env=Pair, config={**filtered, "multiagent": {**mapping, "policies_to_train": ["one"]}})
    second = PPOTrainer(env=Pair, config={**SMALL, "multiagent": {**mapping, "policies_to_train": ["two"]}})
    first.train()
    given = first.get_weights(["one"])
    assert not any("normalizer" in name for name in given["one"])
    second.set_weights(given)
    taken = second.get_weights(["one"])["one"]
    assert taken and all(np.array_equal(given["one"][f"policy.{name}"], value) for name, value in taken.items())
    kept = first.get_weights(["one"])["one"]
    for value in taken.values():
        value += 1.0
    first.set_weights({"one": taken})
    after = first.get_weights(["one"])["one"]
    changed = {name for name in after if not np.array_equal(after[name], kept[name])}
    assert changed == {f"policy.{name}" for name in taken}


def test_a_checkpoint_is_restored_where_others_learn_and_where_environments_differ(tmp_path: Any) -> None:
    policies = {name: (None, *SPACES, {}) for name in ("one", "two")}
    section = {"policies": policies, "policy_mapping_fn": lambda agent: ("one", "two")[agent]}
    first = PPOTrainer(env=Pair, config={**SMALL, "multiagent": section})
    first.train()
    path = first.save(str(tmp_path))
    other = {**SMALL, "num_envs_per_worker": 2, "multiagent": {**section, "policies_to_train": ["two"]}}
    for config in (other, {**SMALL, "num_envs_per_worker": 3, "multiagent": section}):
        second = PPOTrainer(env=Pair, config=config)
        second.restore(path)
        for name in ("one", "two"):
            saved, taken = first.get_weights([name])[name], second.get_weights([name])[name]
            assert all(np.array_equal(saved.get(key, saved.get(f"policy.{key}")), taken[key]) for key in taken)
        second.train()


def test_env_task_fn_sets_the_tasks_of_all_copies() -> None:
    class Tasks(TaskSettableEnv):
        observation_space, action_space = SPACES

        def __init__(self, config: Any) -> None:
            self.task, self.steps = 1, 0

        def get_task(self) -> int:
            return self.task

        def set_task(self, task: int) -> None:
            self.task = task

        def reset(self) -> Any:
            self.steps = 0
            return np.zeros(2, np.float32)

        def step(self, action: Any) -> Any:
            self.steps += 1
            return np.zeros(2, np.float32), float(self.task), self.steps >= 5, {}

    def next_task(result: Any, env: Any, context: Any) -> int:
        return int(env.get_task() + result["training_iteration"] if "training_iteration" in result else 7)

    config = {**SMALL, "num_envs_per_worker": 4, "env_task_fn": next_task}
    trainer = PPOTrainer(env=Tasks, config=config)
    assert trainer.train()["episode_reward_mean"] == 5.0
    assert trainer.workers.foreach_worker(lambda worker: worker.foreach_env(lambda env: env.task)) == [[7] * 4]
    trainer.train()
    assert trainer.train()["hist_stats"]["episode_reward"][-1] == 35.0
    with pytest.raises(ConfigError, match="env_task_fn: SimpleCorridor has no set_task"):
        PPOTrainer(env=SimpleCorridor, config=config).train()


@pytest.mark.regression("unclear error", "Tasks of environments may be arrays")
def test_tasks_that_are_arrays_are_compared() -> None:
    asked = []

    class Mass(CartPoleMassEnv):
        def set_task(self, task: Any) -> None:
            asked.append(task)
            super().set_task(task)

    config = {**SMALL, "num_envs_per_worker": 1, "env_task_fn": lambda result, env, context: np.array([1.5, 0.2])}
    trainer = PPOTrainer(env=Mass, config=config)
    asked.clear()
    trainer.train()
    trainer.train()
    assert len(asked) == 1
    (masses,) = trainer.workers.foreach_worker(lambda worker: worker.foreach_env(lambda env: env.get_task()))
    assert masses[0].tolist() == [1.5, 0.2]


def test_equal_tasks_are_equal_whatever_they_are_made_of() -> None:
    one, other = {"a": [np.ones(2), 3]}, {"a": [np.ones(2), 3.0]}
    assert same_task(one, other) and same_task("x", "x") and same_task(None, None)
    for different in ({"a": [np.ones(3), 3]}, {"a": [np.ones(2), 3], "b": 1}, 3, None, "x"):
        assert not same_task(one, different) and not same_task(different, one)


@pytest.mark.regression(
    "wrong result", "An environment of a script is found by itself and not by a number that may be reused"
)
def test_environments_that_are_gone_are_forgotten() -> None:
    maker = EnvMaker(SimpleCorridor, {"corridor_length": 3})
    first, second = maker(), maker()
    lanes = SimpleNamespace(_lanes=[SimpleNamespace(env=second), SimpleNamespace(env=first)])
    assert maker.played(lanes) == maker.made[::-1] and len(maker.made) == 2
    del second, lanes
    gc.collect()
    assert len(maker.made) == 1 and len(maker._own) == 1
    stranger = SimpleNamespace(env=None)
    maker._own[id(stranger)] = maker._own[id(first)]  # as if it had the number of one that is gone
    assert maker.played(SimpleNamespace(_lanes=[SimpleNamespace(env=stranger)])) == maker.made
    assert maker.context(2).vector_index == 2 and len([maker() for _ in range(3)]) == 3
    assert maker._number == 5


def test_evaluation_has_settings_of_its_own_for_the_environment() -> None:
    config = {
        **SMALL,
        "env_config": {"corridor_length": 50},
        "evaluation_interval": 1,
        "evaluation_num_episodes": 2,
        "evaluation_config": {"env_config": {"corridor_length": 1}},
        "horizon": 200,
    }
    result = PPOTrainer(env=SimpleCorridor, config=config).train()
    assert result["evaluation"]["episode_len_mean"] < 30


def test_rewards_are_clipped_for_learning_only_and_iterations_last() -> None:
    class Large(SimpleCorridor):
        def step(self, action: Any) -> Any:
            obs, _, done, info = super().step(action)
            return obs, -100.0, done, info

    seen = []

    class Watching(DefaultCallbacks):
        def on_postprocess_trajectory(self, *, postprocessed_batch: Any, **about: Any) -> None:
            seen.extend(np.unique(postprocessed_batch["rewards"]).tolist())

    for clip, expected in ((True, -1.0), (3, -3.0), (None, -100.0)):
        seen.clear()
        config = {**SMALL, "env_config": {"corridor_length": 2}, "clip_rewards": clip, "callbacks": Watching}
        result = PPOTrainer(env=Large, config=config).train()
        assert set(seen) == {expected} and result["episode_reward_max"] <= -200.0
    result = PPOTrainer(env=Large, config={**SMALL, "min_iter_time_s": 1, "horizon": 9}).train()
    assert result["time_this_iter_s"] >= 1 and result["timesteps_this_iter"] > 40


def test_a_model_is_told_whether_it_learns() -> None:
    modes: set[tuple[int, bool, bool]] = set()

    class Net(TorchModelV2, nn.Module):
        def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
            nn.Module.__init__(self)
            TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
            self.net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, num_outputs + 1))

        def forward(self, input_dict: Any, state: Any, seq_lens: Any) -> Any:
            modes.add((input_dict["obs"].shape[1], bool(input_dict["is_training"]), self.net.training))
            outputs = self.net(input_dict["obs"])
            self.values = outputs[:, -1]
            return outputs[:, :-1], state

        def value_function(self) -> torch.Tensor:
            return self.values

    PPOTrainer(env=Pair, config={**SMALL, "model": {"custom_model": Net}}).train()
    assert modes == {(2, False, False), (2, True, True)}


def test_what_models_are_registered_reaches_other_processes() -> None:
    known = cloudpickle.loads(cloudpickle.dumps(registrations.registered()))
    assert {"environments", "models"} <= set(known)
    registrations.register_all(known)
    registrations.register_all({"environments": {"made-elsewhere": SimpleCorridor}})
    assert registrations.registered_env("made-elsewhere") is SimpleCorridor


def test_a_maker_of_environments_goes_to_other_processes_alone() -> None:
    maker = EnvMaker("made-here", {"corridor_length": 3}) if registrations.registered_env("made-here") else None
    registrations.register_env("made-here", SimpleCorridor)
    maker = EnvMaker("made-here", {"corridor_length": 3})
    maker.first()
    other = cloudpickle.loads(cloudpickle.dumps(maker))
    assert len(maker.made) == 1 and other.made == []
    assert other.own().end_pos == 3 and other.another({"corridor_length": 5}).own().end_pos == 5


def test_vector_and_external_environments_are_played() -> None:
    class Two(VectorEnv):
        def __init__(self, config: Any) -> None:
            super().__init__(*SPACES, num_envs=2)
            self.steps = [0, 0]

        def vector_reset(self) -> list[Any]:
            return [self.reset_at(index) for index in range(2)]

        def reset_at(self, index: int | None = None) -> Any:
            self.steps[index or 0] = 0
            return np.zeros(2, np.float32)

        def vector_step(self, actions: list[Any]) -> Any:
            self.steps = [count + 1 for count in self.steps]
            over = [count >= 5 for count in self.steps]
            return [np.zeros(2, np.float32)] * 2, [1.0, 1.0], over, [{}, {}]

    class Outside(ExternalEnv):
        def __init__(self, config: Any) -> None:
            super().__init__(SPACES[1], SPACES[0])

        def run(self) -> None:
            while True:
                episode = self.start_episode()
                for _ in range(5):
                    self.get_action(episode, np.zeros(2, np.float32))
                    self.log_returns(episode, 1.0)
                self.end_episode(episode, np.zeros(2, np.float32))

    for env in (Two, Outside):
        trainer = PPOTrainer(env=env, config=SMALL)
        assert trainer.train()["episode_reward_mean"] == 5.0
        trainer.stop()


def test_trainers_are_built_with_other_arguments() -> None:
    said = []
    built = build_trainer(
        "Mine", default_config={"lr": 0.5}, after_init=lambda trainer: said.append("after"), base=PGTrainer
    )
    again = built.with_updates(before_init=lambda trainer: said.append("before"))
    trainer = again(env=SimpleCorridor, config={"rollout_fragment_length": 10, "train_batch_size": 10})
    assert said == ["before", "after"] and str(trainer) == "Mine" and trainer.config["lr"] == 0.5
    assert PPOTrainer.default_resource_request({"num_gpus": 1}).to_json() == {"cpu": 1.0, "gpu": 1.0}


def test_recorded_batches_come_back(tmp_path: Any) -> None:
    one = SampleBatch({"obs": np.ones((3, 2), np.float32), "actions": np.arange(3), "infos": [{"a": 1}, {}, {}]})
    writer = JsonWriter(str(tmp_path / "out"), max_file_size=10)
    writer.write(one)
    writer.write(MultiAgentBatch({"pol": one}, 3))
    assert len(list((tmp_path / "out").iterdir())) == 2
    read = {type(batch).__name__: batch for batch in JsonReader(str(tmp_path / "out")).read_all_files()}
    for batch in (read["SampleBatch"], read["MultiAgentBatch"].policy_batches["pol"]):
        assert batch["obs"].dtype == np.float32 and np.array_equal(batch["obs"], one["obs"])
        assert batch["actions"].tolist() == [0, 1, 2]
    endless = ShuffledInput(JsonReader(str(tmp_path / "out")), 3)
    assert all(endless.next().count == 3 for _ in range(5))
    with pytest.raises(FileError, match="there are no files"):
        JsonReader(str(tmp_path / "nothing"))
    (tmp_path / "bad.json").write_text("{}\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"bad.json: a line is not a batch"):
        JsonReader(str(tmp_path / "bad.json")).next()


def test_names_of_numpy_and_of_missing_classes_as_scripts_have_them() -> None:
    numpy = finder._view("numpy")
    assert numpy.product is np.prod and numpy.float is float and numpy.ndarray is np.ndarray
    assert unsupported.ParallelIterator[dict] is unsupported.ParallelIterator
    with pytest.raises(ConfigError, match="use ParallelRollouts, or a LocalIterator"):
        unsupported.ParallelIterator()


def test_the_end_of_an_episode_is_in_its_latest_rows() -> None:
    ends = []

    class Watching(DefaultCallbacks):
        def on_episode_step(self, *, episode: Any, **about: Any) -> None:
            ends.append(episode.batch_builder.policy_collectors["default_policy"].buffers["dones"][-1])

        def on_episode_end(self, *, episode: Any, **about: Any) -> None:
            ends.append(episode.batch_builder.policy_collectors["default_policy"].buffers["dones"][-1])

        def on_learn_on_batch(self, *, policy: Any, train_batch: Any, result: Any, **about: Any) -> None:
            result["rows"] = len(train_batch["actions"])

    config = {**SMALL, "env_config": {"corridor_length": 3}, "callbacks": Watching}
    result = PPOTrainer(env=SimpleCorridor, config=config).train()
    assert ends[0] is False and True in ends
    assert result["custom_metrics"]["default_policy"] == {"rows": 40}


def test_batches_do_not_hang_on_one_draw_of_a_mapping_that_draws() -> None:
    policies = dict.fromkeys(("one", "two"))
    rng = np.random.default_rng(0)
    section = {"policies": policies, "policy_mapping_fn": lambda agent: ("one", "two")[rng.integers(2)]}
    for _ in range(5):
        told = translated("PPO", {"env": Pair, "multiagent": section}, agents=list(range(4)))
        assert told.settings["algorithm.rollout_size"] == 8000 and not told.policies["two"].settings
