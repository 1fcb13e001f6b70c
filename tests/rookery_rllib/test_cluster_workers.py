"""num_workers and related keys on a cluster that a script has joined, with all workers in one process
("here" in the place of an address); a cluster of two nodes is in test_cluster_scripts.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery_rllib.base import notices, ray_client
from rookery_rllib.config.rows import ConfigKeyStatus
from rookery_rllib.config.table import ROWS
from rookery_rllib.config.translation import translated
from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole
from rookery_rllib.examples.single_agent_envs import CurriculumCapableEnv, SimpleCorridor
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer import base_trainer, trainers

SMALL = {"num_workers": 2, "num_envs_per_worker": 2, "rollout_fragment_length": 20, "train_batch_size": 80,
         "model": {"fcnet_hiddens": [8]}, "seed": 1}  # fmt: skip
PPO = {
    **SMALL,
    "env": SimpleCorridor,
    "env_config": {"corridor_length": 3},
    "sgd_minibatch_size": 40,
    "num_sgd_iter": 1,
}


@pytest.fixture
def joined(monkeypatch):
    """A script that has joined a cluster, whose workers are in this process."""
    monkeypatch.setattr(base_trainer, "address", lambda: "here")
    monkeypatch.setattr(notices, "_printed", set())


def trained(name="PPO", iterations=1, **config):
    """Returns the last result of some iterations, the settings of Rookery's trainer, and its weights."""
    trainer = trainers.TRAINERS[name](config=config)
    try:
        for _ in range(iterations):
            result = trainer.train()
        weights = {key: value.copy() for key, value in trainer.get_weights()["default_policy"].items()} \
            if "default_policy" in trainer.policy_facades else {}  # fmt: skip
        return result, trainer.rookery.config, weights
    finally:
        trainer.stop()


def test_each_key_of_workers_on_a_cluster_reaches_its_path():
    given = {
        "num_workers": 3, "num_envs_per_worker": 4, "num_cpus_per_worker": 2, "num_gpus_per_worker": 0.5,
        "placement_strategy": "SPREAD", "extra_python_environs_for_worker": {"A": 1}, "evaluation_num_workers": 2,
    }  # fmt: skip
    settings = translated("PPO", given, cluster="10.0.0.1:6379").settings
    expected = {
        "sampling.num_envs": 12, "sampling.workers": 3, "sampling.asynchronous": False, "cluster.ray": "10.0.0.1:6379",
        "cluster.worker_cpus": 2.0, "cluster.worker_gpus": 0.5, "cluster.placement": "spread",
        "cluster.environment": {"A": "1"}, "evaluation.workers": 2,
    }  # fmt: skip
    assert {path: settings[path] for path in expected} == expected
    here = translated("PPO", {"num_workers": 3, "num_envs_per_worker": 4, "num_cpus_per_worker": 2})
    assert here.settings["sampling.num_envs"] == 12 and not here.settings.get("sampling.workers")
    assert not [path for path in here.settings if path.startswith("cluster.")]
    assert "num_cpus_per_worker = 2 has no effect here: environments run in this process, not on a cluster" in \
        here.notes  # fmt: skip


def test_each_row_about_clusters_changes_what_it_says_there_and_nothing_here():
    others = {"num_cpus_per_worker": 4, "num_gpus_per_worker": 1, "placement_strategy": "STRICT_SPREAD",
              "evaluation_parallel_to_training": True, "max_sample_requests_in_flight_per_worker": 5}  # fmt: skip
    rows = [row for row in ROWS if row.status is ConfigKeyStatus.CLUSTER]
    assert {row.key for row in rows} == set(others)
    for row in rows:
        name = (row.only or ("PPO",))[0]
        given = {row.key: others[row.key], "evaluation_num_workers": 1}
        for cluster in ("", "10.0.0.1:6379"):
            before = translated(name, {"evaluation_num_workers": 1}, cluster=cluster)
            after = translated(name, given, cluster=cluster)
            changed = {path for path, value in after.settings.items() if before.settings.get(path) != value}
            assert changed == (set(row.paths) & changed if cluster else set())
            assert bool(changed) == bool(cluster and row.paths)
            told = [line for line in after.notes if line.startswith(row.key) and "has no effect" in line]
            assert bool(told) == (not cluster)
    beside = {"evaluation_num_workers": 1, "evaluation_parallel_to_training": True}
    assert translated("PPO", beside, cluster="10.0.0.1:6379").evaluation["beside"]
    assert not translated("PPO", beside).evaluation["beside"]


@pytest.mark.parametrize(
    ("name", "more", "asynchronous"),
    [("PPO", {}, False), ("PPO", {"sample_async": True}, True), ("A2C", {}, False), ("A3C", {}, False),
     ("PG", {}, False),
     ("DQN", {}, False), ("SAC", {}, False), ("IMPALA", {}, True), ("APPO", {}, True), ("APEX", {}, True),
     ("APEX_DDPG", {}, True)],
)  # fmt: skip
def test_who_was_asynchronous_there_is_so_on_a_cluster(name, more, asynchronous):
    told = translated(name, {"num_workers": 4, **more}, cluster="10.0.0.1:6379")
    assert told.settings["sampling.asynchronous"] is asynchronous and told.settings["sampling.staleness"] == 0
    assert told.settings["sampling.workers"] == 4
    repeats = [line for line in told.notes if "equal seeds give equal runs" in line]
    assert not repeats
    if name.startswith("APEX"):  # so many steps of each copy are asked for; as much is learned as of copies here
        here = translated(name, {"num_workers": 4})
        assert told.settings["algorithm.train_every"] * 4 == here.settings["algorithm.train_every"]
        assert told.settings["algorithm.updates_per_step"] == here.settings["algorithm.updates_per_step"]


def test_settings_of_workers_are_checked():
    with pytest.raises(ConfigError) as raised:
        translated("PPO", {"num_cpus_per_worker": -1, "placement_strategy": "SPRAED"}, cluster="10.0.0.1:6379")
    assert "num_cpus_per_worker = -1: must be a number of at least 0" in str(raised.value)
    assert "did you mean 'SPREAD'" in str(raised.value)


@pytest.mark.parametrize("env", ["CartPole-v0", SimpleCorridor])
def test_workers_learn_the_weights_that_copies_here_learn(joined, monkeypatch, env):
    config = {**PPO, "env": env, "env_config": {"corridor_length": 3} if env is SimpleCorridor else {}}
    there, config_there, weights = trained(iterations=2, **config)
    monkeypatch.setattr(base_trainer, "address", lambda: "")
    here, config_here, others = trained(iterations=2, **config)
    assert (config_there.sampling.workers, config_here.sampling.workers) == (2, 0)
    assert all(np.array_equal(weights[name], others[name]) for name in weights) and weights
    for key in ("episode_reward_mean", "episodes_this_iter", "timesteps_total", "episode_len_mean"):
        assert there[key] == here[key] and np.isfinite(there[key])


def test_impala_and_ape_x_learn_from_workers_that_play_on(joined, capfd):
    small = {**SMALL, "env": "CartPole-v0"}
    result, config, _ = trained("IMPALA", 2, **small, min_iter_time_s=0)
    assert config.sampling.asynchronous and result["timesteps_total"] >= 160
    result, config, _ = trained("APEX", 2, **small | {"rollout_fragment_length": 5}, learning_starts=20,
                                timesteps_per_iteration=100, hiddens=[8], buffer_size=1000)  # fmt: skip
    assert config.sampling.asynchronous and result["info"]["learner"]["default_policy"]["learner_stats"]["mean_q"]
    assert "IMPALA learns from rollouts of cluster workers" in capfd.readouterr().err


class Measuring(DefaultCallbacks):
    def on_episode_step(self, *, worker, base_env, episode, **others):
        episode.user_data.setdefault("seen", []).append(episode.last_observation_for()[0])

    def on_episode_end(self, *, worker, base_env, policies, episode, **others):
        assert len(base_env.get_unwrapped()) == 2 == len(worker.foreach_env(lambda env: env))
        contexts = worker.foreach_env_with_context(lambda env, context: context.worker_index)
        assert contexts == [worker.worker_index] * 2 and list(policies) == ["default_policy"]
        episode.custom_metrics["worker"] = worker.worker_index
        episode.custom_metrics["furthest"] = max(episode.user_data["seen"])
        episode.hist_data["lengths"] = [episode.length]

    def on_train_result(self, *, trainer, result, **others):
        result["told"] = trainer.iteration


def test_callbacks_hear_of_episodes_where_these_are_played(joined):
    result, config, _ = trained(**PPO, callbacks=Measuring)
    assert config.sampling.workers == 2 and result["told"] == 1  # the iteration counts already
    assert (result["custom_metrics"]["worker_min"], result["custom_metrics"]["worker_max"]) == (1, 2)
    assert result["custom_metrics"]["furthest_max"] == 2.0  # the last that is seen before the corridor ends
    assert sorted(result["hist_stats"]["lengths"]) == sorted(result["hist_stats"]["episode_lengths"])


class Peeking(DefaultCallbacks):
    def on_episode_end(self, *, policies, **others):
        policies["default_policy"].get_weights()


def test_a_callback_that_wants_a_policy_elsewhere_is_told_where_it_is(joined):
    with pytest.raises(
        ConfigError, match=r"policies\['default_policy'\].get_weights: policies act .* num_workers to 0"
    ):
        trained(**PPO, callbacks=Peeking)


class Setting(DefaultCallbacks):
    def on_train_result(self, *, trainer, result, **others):
        trainer.workers.foreach_worker(lambda worker: worker.foreach_env(lambda env: env.set_corridor_length(2)))


class Postprocessing(DefaultCallbacks):
    def on_postprocess_trajectory(self, *, postprocessed_batch, **others):
        pass


class Window:
    """Something that stays where it was made."""

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a window stays on its screen")


REASONS = {
    "reaching": ({"callbacks": Setting}, "on_train_result of the callbacks uses the trainer's workers"),
    "pieces": ({"callbacks": Postprocessing}, "callbacks have on_postprocess_trajectory"),
    "tasks": ({"env_task_fn": lambda result, env, context: 1, "env": CurriculumCapableEnv, "env_config": {}},
              "env_task_fn needs the environments"),
    "unsendable": ({"env_config": {"corridor_length": 3, "window": Window()}},
                   "env_config.window cannot be sent (TypeError: a window stays on its screen)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_what_cannot_be_on_a_cluster_stays_here_with_a_line(joined, capfd, name):
    given, why = {**PPO, **REASONS[name][0]}, REASONS[name][1]
    result, config, _ = trained(**given)
    said = [line for line in capfd.readouterr().err.splitlines() if "num_workers: " in line]
    assert len(said) == 1 and why in said[0] and "environments run in this process" in said[0]
    assert (config.sampling.workers, config.sampling.num_envs) == (0, 4) and result["timesteps_total"] == 80


def test_environments_elsewhere_are_out_of_reach_and_told_so(joined):
    trainer = trainers.PPOTrainer(config=PPO)
    try:
        assert trainer.workers.local_worker().env.observation_space.shape == (1,)
        for ask in (trainer.workers.foreach_env, trainer.workers.local_worker().foreach_env):
            with pytest.raises(ConfigError, match="its environments are with 2 workers on the cluster"):
                ask(lambda env: env)
    finally:
        trainer.stop()


def test_evaluation_workers_measure_what_this_process_would(joined, monkeypatch):
    asked = {"evaluation_interval": 1, "evaluation_num_episodes": 5, "evaluation_num_workers": 2,
             "evaluation_config": {"env_config": {"corridor_length": 2}}, "lr": 0.1}  # fmt: skip
    there, config, _ = trained(**PPO, **asked)
    beside, _, _ = trained(**PPO, **asked, evaluation_parallel_to_training=True)
    monkeypatch.setattr(base_trainer, "address", lambda: "")
    here, _, _ = trained(**PPO, **asked)
    assert config.evaluation.workers == 2
    keys = ("episode_reward_mean", "episode_len_mean", "episodes_this_iter", "hist_stats")
    assert [there["evaluation"][key] for key in keys] == [here["evaluation"][key] for key in keys]
    assert beside["evaluation"]["episodes_this_iter"] == 5
    assert beside["evaluation"]["hist_stats"] != here["evaluation"]["hist_stats"]  # of weights that learned nothing


def test_several_agents_are_mapped_where_they_play(joined):
    def mapped(agent, episode, **others):
        assert isinstance(agent, int)
        return "odd" if agent % 2 else "even"

    policies = {"odd": (None, None, None, {}), "even": (None, None, None, {})}
    result, config, _ = trained(
        **{**PPO, "env": MultiAgentCartPole, "env_config": {"num_agents": 3}},
        multiagent={"policies": policies, "policy_mapping_fn": mapped},
    )
    assert config.sampling.workers == 2 and set(result["policy_reward_mean"]) == {"odd", "even"}
    assert set(result["info"]["learner"]) == {"odd", "even"}


def test_a_checkpoint_of_a_cluster_is_restored_there_and_here(joined, monkeypatch, tmp_path):
    trainer = trainers.PPOTrainer(config=PPO)
    trainer.train()
    path = trainer.save(str(tmp_path))
    saved = trainer.get_weights()["default_policy"]
    trainer.stop()
    for where in ("here", ""):
        monkeypatch.setattr(base_trainer, "address", lambda where=where: where)
        again = trainers.PPOTrainer(config=PPO)
        try:
            again.restore(path)
            assert all(
                np.array_equal(value, saved[name]) for name, value in again.get_weights()["default_policy"].items()
            )
            assert again.train()["timesteps_total"] == 160  # counted over the whole life, as in 2021
        finally:
            again.stop()


def test_a_process_without_a_cluster_has_no_address():
    assert ray_client.address() == ""
