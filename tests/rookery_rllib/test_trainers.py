"""Trainers of 2021: what results mean, against counts of our own; saving, evaluating, acting, models, bad input."""

import json
import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from restored import weights_of
from torch import nn

from rookery import MultiAgentArena
from rookery.core.errors import ConfigError
from rookery_rllib.base import imports, machine
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.policy.policies import Policy
from rookery_rllib.trainer.trainers import (
    A2CTrainer,
    DQNTrainer,
    PGTrainer,
    PPOTrainer,
    SACTrainer,
    Trainer,
    build_trainer,
    get_trainer_class,
)
from rookery_rllib.tune import experiment

SMALL = {
    "num_workers": 0,
    "rollout_fragment_length": 20,
    "train_batch_size": 40,
    "sgd_minibatch_size": 20,
    "num_sgd_iter": 2,
    "model": {"fcnet_hiddens": [8]},
    "seed": 3,
}
"""PPO that takes a hundredth of a second an iteration."""


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield tmp_path / "results"
    machine.use_machine(local_mode=False, num_cpus=None)


class Meadow(MultiAgentEnv):
    """Two agents get what they do; ``late`` comes at the third step; episodes are of 6, 7, 8, 6, ... steps."""

    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Discrete(2)
    played: list = []
    """Every episode that has begun: steps, reward by agent, decisions."""

    def __init__(self, config=None):
        self.config, self.number = dict(config or {}), 0

    def reset(self):
        self.t, self.number = 0, self.number + 1
        self.length = 6 + self.number % 3
        self.notes = {"length": 0, "reward": {}, "decisions": 0, "over": False}
        self.played.append(self.notes)
        return {"early": self._seen()}

    def step(self, actions):
        self.t += 1
        over = self.t == self.length
        paid = {agent: float(action) + 0.25 for agent, action in actions.items()}
        if self.t == 2:
            paid["late"] = 0.0
        self.notes["length"], self.notes["over"] = self.t, over
        self.notes["decisions"] += len(actions)
        for agent, reward in paid.items():
            self.notes["reward"][agent] = self.notes["reward"].get(agent, 0.0) + reward
        obs = {"early": self._seen(), **({"late": self._seen()} if self.t >= 2 else {})}
        return obs, paid, {"__all__": over}, {}

    def _seen(self):
        return np.full(3, self.t / 10, np.float32)


def meadow(**config):
    Meadow.played = []
    spaces = Meadow.observation_space, Meadow.action_space
    policies = {name: (None, *spaces, {}) for name in ("one", "two")}
    multiagent = {"policies": policies, "policy_mapping_fn": lambda agent: "one" if agent == "early" else "two"}
    return PPOTrainer(config={**SMALL, "env": Meadow, "multiagent": multiagent, **config})


def over():
    return [notes for notes in Meadow.played if notes["over"]]


def test_timesteps_are_rows_of_agents_where_all_have_the_default_policy():
    Meadow.played = []
    trainer = PPOTrainer(config={**SMALL, "env": Meadow})
    result = trainer.train()
    decisions = sum(notes["decisions"] for notes in Meadow.played)
    assert trainer.rookery.env_steps < decisions == result["timesteps_total"] == result["agent_timesteps_total"]
    assert result["timesteps_this_iter"] == result["info"]["num_steps_sampled"] == decisions


# --- results ----------------------------------------------------------------------------------------------------------


class Measuring(DefaultCallbacks):
    """Reports the length of each episode, by the names that the tutorial uses."""

    def on_episode_start(self, *, episode, **kwargs):
        episode.user_data["steps"] = 0
        episode.hist_data["rewards"] = []

    def on_episode_step(self, *, episode, **kwargs):
        episode.user_data["steps"] += 1
        episode.hist_data["rewards"].append(episode.prev_reward_for("early"))

    def on_episode_end(self, *, episode, worker, base_env, policies, env_index, **kwargs):
        assert episode.user_data["steps"] == episode.length
        assert isinstance(base_env.get_unwrapped()[env_index], Meadow)
        assert set(policies) == {"one", "two"} and worker.policy_map is not None
        episode.custom_metrics["steps"] = episode.length


def test_results_say_what_an_independent_count_says():
    trainer = meadow(callbacks=Measuring, metrics_smoothing_episodes=8, num_envs_per_worker=2)
    before, steps = 0, 0
    for iteration in range(1, 4):
        result = trainer.train()
        ended = over()
        window = ended[before:] if len(ended) - before >= 8 else ended[-8:]
        totals = [sum(notes["reward"].values()) for notes in window]
        assert result["training_iteration"] == trainer.iteration == iteration
        assert result["episodes_this_iter"] == len(ended) - before
        assert result["episodes_total"] == len(ended)
        assert result["timesteps_total"] == sum(notes["length"] for notes in Meadow.played)
        assert result["timesteps_this_iter"] == result["timesteps_total"] - steps >= 40
        assert result["info"]["num_steps_sampled"] == result["timesteps_total"]
        steps = result["timesteps_total"]
        decisions = sum(notes["decisions"] for notes in Meadow.played)
        assert result["agent_timesteps_total"] == result["info"]["num_agent_steps_sampled"] == decisions
        assert result["episode_reward_mean"] == pytest.approx(np.mean(totals))
        assert (result["episode_reward_min"], result["episode_reward_max"]) == (min(totals), max(totals))
        assert result["episode_len_mean"] == pytest.approx(np.mean([notes["length"] for notes in window]))
        histograms = result["hist_stats"]
        assert sorted(histograms["episode_reward"]) == pytest.approx(sorted(totals))
        assert sorted(histograms["episode_lengths"]) == sorted(notes["length"] for notes in window)
        assert len(histograms["rewards"]) == sum(notes["length"] for notes in window)
        for policy, agent in (("one", "early"), ("two", "late")):
            own = [notes["reward"][agent] for notes in window]
            assert sorted(histograms[f"policy_{policy}_reward"]) == pytest.approx(sorted(own))
            told = [result[f"policy_reward_{kind}"][policy] for kind in ("min", "mean", "max")]
            assert told == pytest.approx([min(own), np.mean(own), max(own)])
        lengths = [notes["length"] for notes in window]
        assert result["custom_metrics"] == {
            "steps_mean": pytest.approx(np.mean(lengths)),
            "steps_min": min(lengths),
            "steps_max": max(lengths),
        }
        before = len(ended)
    trainer.stop()


def test_results_have_every_key_that_scripts_of_2021_read():
    trainer = meadow()
    result = trainer.train()
    keys = """episode_reward_max episode_reward_min episode_reward_mean episode_len_mean episode_media
        episodes_this_iter policy_reward_min policy_reward_max policy_reward_mean custom_metrics hist_stats sampler_perf
        off_policy_estimator num_healthy_workers timesteps_total timesteps_this_iter agent_timesteps_total timers info
        done episodes_total training_iteration trial_id experiment_id date timestamp time_this_iter_s time_total_s pid
        hostname node_ip config time_since_restore timesteps_since_restore iterations_since_restore perf""".split()
    assert set(keys) <= set(result) | {"trial_id"}
    learned = result["info"]["learner"]["one"]["learner_stats"]
    assert learned.keys() >= {"cur_kl_coeff", "cur_lr", "total_loss", "policy_loss", "vf_loss", "vf_explained_var",
                              "kl", "entropy", "entropy_coeff"}  # fmt: skip
    parts = learned["policy_loss"] + learned["vf_loss"] + learned["cur_kl_coeff"] * learned["kl"]
    assert learned["total_loss"] == pytest.approx(parts)
    assert learned["cur_lr"] == 5e-5 and 0 < learned["entropy"] <= math.log(2) + 1e-6
    assert set(result["sampler_perf"]) == {f"mean_{part}_ms" for part in (
        "raw_obs_processing", "inference", "action_processing", "env_wait", "env_render")}  # fmt: skip
    trainer.stop()


def test_one_policy_is_in_no_dict_of_policies():
    Meadow.played = []
    trainer = PPOTrainer(config={**SMALL, "env": Meadow})
    result = trainer.train()
    assert result["policy_reward_mean"] == {} and list(result["info"]["learner"]) == ["default_policy"]
    assert trainer.get_policy("one") is None and trainer.get_policy() is trainer.get_policy("default_policy")
    trainer.stop()


class Late(DefaultCallbacks):
    """Counts the trajectories of each agent, and reports them with the episode that they belong to."""

    def on_postprocess_trajectory(self, *, episode, agent_id, postprocessed_batch, original_batches, **kwargs):
        key = f"rows_{agent_id}"
        episode.custom_metrics[key] = episode.custom_metrics.get(key, 0) + len(postprocessed_batch["rewards"])
        assert set(original_batches) == {agent_id}
        postprocessed_batch["advantages"][:] = 0.0

    def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
        result["largest_advantage"] = float(np.abs(train_batch["advantages"]).max())

    def on_train_result(self, *, trainer, result, **kwargs):
        result["seen_by"] = str(trainer)


def test_metrics_that_trajectories_leave_with_their_episode_are_in_the_result_and_changes_are_learned():
    trainer = meadow(callbacks=Late, rollout_fragment_length=40, metrics_smoothing_episodes=1)
    result = trainer.train()
    ended = over()
    # the first fragment holds all of these episodes but the last, which is cut
    assert result["custom_metrics"]["rows_early_max"] == max(notes["length"] for notes in ended)
    assert result["custom_metrics"]["rows_late_max"] == max(notes["length"] for notes in ended) - 2
    assert result["seen_by"] == "PPO"
    assert result["info"]["learner"]["one"]["custom_metrics"] == {"largest_advantage": 0.0}
    assert abs(result["info"]["learner"]["one"]["learner_stats"]["policy_loss"]) < 1e-6
    trainer.stop()


# --- saving, evaluating, acting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [PPOTrainer, DQNTrainer], ids=str)
def test_a_restored_trainer_goes_on_exactly(cls):
    config = {"env": "CartPole-v0", "num_workers": 0, "seed": 5, "rollout_fragment_length": 20}
    replay = {"learning_starts": 32, "train_batch_size": 16, "hiddens": [8], "timesteps_per_iteration": 60}
    config |= SMALL if cls is PPOTrainer else {**replay, "model": {"fcnet_hiddens": [8]}}
    first = cls(config=config)
    first.train()
    path = first.save()
    assert path.endswith("checkpoint_000001/checkpoint-1")
    told = first.train()
    second = cls(config=config)
    second.restore(path)
    assert second.iteration == 1
    again = second.train()
    assert np.array_equal(weights_of(first), weights_of(second))
    for key in (
        "timesteps_total",
        "timesteps_this_iter",
        "agent_timesteps_total",
        "episodes_this_iter",
        "training_iteration",
        "episodes_total",
    ):
        assert again[key] == told[key], key
    assert again["info"]["learner"]["default_policy"] == told["info"]["learner"]["default_policy"]
    first.stop()
    second.stop()


class Counting(MultiAgentEnv):
    """One step an episode; the reward is the action."""

    observation_space, action_space = Box(-1.0, 1.0, (1,), np.float32), Discrete(2)

    def __init__(self, config=None):
        pass

    def reset(self):
        return {"a": np.zeros(1, np.float32)}

    def step(self, actions):
        return {"a": np.zeros(1, np.float32)}, {"a": float(actions["a"])}, {"__all__": True}, {}


def test_evaluation_explores_unless_told_otherwise_and_leaves_the_trainer_as_it_was():
    config = {**SMALL, "env": Counting, "evaluation_num_episodes": 40}
    trainer = PPOTrainer(config=config)
    rewards = trainer.evaluate()["evaluation"]["hist_stats"]["episode_reward"]
    assert len(rewards) == 40 and 0 < np.mean(rewards) < 1
    trainer.train()
    before, envs = weights_of(trainer), list(trainer.workers.local_worker().base_env.get_unwrapped())
    steps = trainer.rookery.env_steps
    trainer.evaluate()
    assert np.array_equal(before, weights_of(trainer)) and trainer.rookery.env_steps == steps
    assert trainer.workers.local_worker().base_env.get_unwrapped() == envs
    greedy = PPOTrainer(config={**config, "evaluation_config": {"explore": False}})
    assert np.mean(greedy.evaluate()["evaluation"]["hist_stats"]["episode_reward"]) in (0.0, 1.0)
    trainer.stop()
    greedy.stop()


class Named(DefaultCallbacks):
    def on_episode_end(self, *, episode, **kwargs):
        episode.custom_metrics["length"] = episode.length


def test_callbacks_measure_the_episodes_of_an_evaluation():
    trainer = PPOTrainer(config={**SMALL, "env": Counting, "callbacks": Named, "evaluation_interval": 1})
    result = trainer.train()
    assert result["evaluation"]["episodes_this_iter"] == 10
    assert result["evaluation"]["custom_metrics"]["length_mean"] == 1.0
    assert result["episodes_this_iter"] == 40 and result["timesteps_total"] == 40
    trainer.stop()


def test_actions_are_what_the_environment_takes():
    trainer = PPOTrainer(config={**SMALL, "env": "Pendulum-v0"})
    obs = np.array([1.0, 0.0, 0.5], np.float32)
    action = trainer.compute_action(obs, explore=False)
    assert action.shape == (1,) and -2.0 <= action[0] <= 2.0
    assert np.array_equal(action, trainer.compute_single_action(obs, explore=False))
    assert len({float(trainer.compute_action(obs)[0]) for _ in range(20)}) > 1
    action, state, extra = trainer.compute_action(obs, full_fetch=True)
    assert state == [] and extra["action_prob"] == pytest.approx(np.exp(extra["action_logp"]))
    both = trainer.compute_actions({"x": obs, "y": -obs}, explore=False)
    assert set(both) == {"x", "y"} and np.array_equal(both["x"], trainer.compute_action(obs, explore=False))
    trainer.stop()


def test_a_policy_that_remembers_takes_and_gives_its_state():
    model = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [8], "max_seq_len": 5}
    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0", "model": model})
    trainer.train()
    policy = trainer.get_policy()
    obs, memory, state = np.zeros(4, np.float32), None, [[0.0] * 4, np.zeros(4)]  # h and c
    for _ in range(3):
        action, state, _ = trainer.compute_action(obs, state=state, explore=False)
        expected, memory = policy.actor.predict(obs, memory, deterministic=True)
        assert action == expected and [part.shape for part in state] == [(4,), (4,)]
        assert np.allclose(np.concatenate(state), memory[0], atol=1e-6)
    assert [part.shape for part in policy.get_initial_state()] == [(4,), (4,)] and policy.num_state_tensors() == 2
    with pytest.raises(ConfigError, match=r"parts of \[8, 8\] numbers; this policy has \[4, 4\]"):
        trainer.compute_action(obs, state=[np.zeros(8), np.zeros(8)])
    trainer.stop()


def test_what_a_policy_recalls_is_the_last_part_of_its_state():
    model = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [8], "lstm_use_prev_action": True}
    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0", "model": model})
    obs = np.zeros(4, np.float32)
    whole = trainer.compute_action(obs, state=trainer.get_policy().get_initial_state(), explore=False)
    short = trainer.compute_action(obs, state=[np.zeros(4), np.zeros(4)], explore=False)
    assert [part.shape for part in whole[1]] == [part.shape for part in short[1]] == [(4,), (4,), (1,)]
    assert all(np.array_equal(one, other) for one, other in zip(whole[1], short[1], strict=True))
    trainer.stop()


def test_weights_are_handed_from_trainer_to_trainer():
    first, second = (PPOTrainer(config={**SMALL, "env": "CartPole-v0", "seed": seed}) for seed in (1, 2))
    obs = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    assert not np.array_equal(weights_of(first), weights_of(second))
    second.set_weights(first.get_weights())
    assert np.array_equal(weights_of(first), weights_of(second))
    logits = [trainer.get_policy().model({"obs": obs[None]})[0].detach().numpy() for trainer in (first, second)]
    assert np.array_equal(*logits)
    with pytest.raises(ConfigError, match=r"set_weights: there is no policy 'other'"):
        first.set_weights({"other": {}})
    first.stop()
    second.stop()


def test_workers_show_policies_environments_and_filters():
    trainer = meadow(num_envs_per_worker=2)
    worker = trainer.workers.local_worker()
    assert isinstance(worker.env, Meadow) and list(worker.policy_map) == ["one", "two"]
    assert trainer.workers.remote_workers() == [] and worker.worker_index == 0
    assert worker.foreach_policy(lambda policy, name: name) == ["one", "two"]
    assert trainer.workers.foreach_worker(lambda each: each.num_workers) == [0]
    trainer.train()
    assert len(worker.foreach_env(lambda env: env.number)) == 2
    assert worker.preprocessors["one"].shape == (3,) and set(worker.filters) == {"one", "two"}
    trainer.stop()


def test_only_named_policies_learn():
    spaces = Meadow.observation_space, Meadow.action_space
    multiagent = {
        "policies": {name: (None, *spaces, {"lr": rate}) for name, rate in (("one", 0.01), ("two", 0.02))},
        "policy_mapping_fn": lambda agent: "one" if agent == "early" else "two",
        "policies_to_train": ["two"],
    }
    trainer = meadow(multiagent=multiagent)
    before = trainer.get_weights()
    result = trainer.train()
    after = trainer.get_weights()
    same = {name: all(np.array_equal(before[name][key], after[name][key]) for key in after[name]) for name in after}
    assert same == {"one": True, "two": False}
    assert list(result["info"]["learner"]) == ["two"]
    assert result["info"]["learner"]["two"]["learner_stats"]["cur_lr"] == 0.02
    trainer.stop()


def test_a_trainer_prints_its_name_and_lists_its_loop():
    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0"})
    assert f"{trainer}" == repr(trainer) == "PPO"
    assert any("core/optim.py" in step or "PPO.training_step" in step for step in trainer.execution_plan)
    trainer.stop()


def test_the_replay_memory_of_a_trainer_is_saved_and_read_again(tmp_path):
    config = {"env": "CartPole-v0", "num_workers": 0, "learning_starts": 10, "train_batch_size": 8,
              "timesteps_per_iteration": 50, "buffer_size": 500, "model": {"fcnet_hiddens": [8]}}  # fmt: skip
    trainer = DQNTrainer(config=config)
    trainer.train()
    held = len(trainer.local_replay_buffer.replay_buffers["default_policy"])
    assert 40 < held <= trainer.rookery.env_steps  # what the last round has not handed over comes with the next
    path = trainer.save(str(tmp_path))
    other = DQNTrainer(config=config)
    assert len(other.local_replay_buffer.replay_buffers["default_policy"]) == 0
    other.restore(path)
    assert len(other.local_replay_buffer.replay_buffers["default_policy"]) == held
    other.rookery.learn(gradient_steps=3)
    assert other.rookery.env_steps == trainer.rookery.env_steps  # nothing was played
    trainer.stop()
    other.stop()


# --- policies and models of the script --------------------------------------------------------------------------------


class Stubborn(Policy):
    """Always plays 1; counts what it is given to learn."""

    def __init__(self, *args):
        super().__init__(*args)
        self.rows = 0

    def compute_actions(self, obs_batch, state_batches=None, **kwargs):
        assert np.shape(obs_batch)[1:] == (3,)
        return np.ones(len(obs_batch), np.int64), [], {}

    def learn_on_batch(self, samples):
        self.rows += samples.count
        return {"rows": float(self.rows)}

    def get_weights(self):
        return {"rows": np.array(self.rows)}

    def set_weights(self, weights):
        self.rows = int(weights["rows"])


def test_a_hand_written_policy_plays_and_learns_beside_a_learned_one(tmp_path):
    spaces = Meadow.observation_space, Meadow.action_space
    multiagent = {
        "policies": {"learned": (None, *spaces, {}), "stubborn": (Stubborn, *spaces, {})},
        "policy_mapping_fn": lambda agent: "learned" if agent == "early" else "stubborn",
    }
    trainer = meadow(multiagent=multiagent)
    for _ in range(2):
        result = trainer.train()
    assert isinstance(trainer.get_policy("stubborn"), Stubborn)
    assert all(notes["reward"]["late"] == 1.25 * (notes["length"] - 2) for notes in over())
    assert trainer.get_policy("stubborn").rows > 0
    assert result["info"]["learner"]["learned"]["learner_stats"]["entropy"] > 0
    rows, path = trainer.get_policy("stubborn").rows, trainer.save(str(tmp_path))
    other = meadow(multiagent=multiagent)
    other.restore(path)
    assert other.get_policy("stubborn").rows == rows
    trainer.stop()
    other.stop()


class Pulled(TorchModelV2, nn.Module):
    """A linear model whose own loss pulls its second weight to 5."""

    seen: list = []

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, pull=0.0):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.logits, self.values = nn.Linear(obs_space.shape[0], num_outputs), nn.Linear(obs_space.shape[0], 1)
        self.extra, self.pull, self.distance = nn.Parameter(torch.zeros(())), pull, 25.0

    def forward(self, input_dict, state, seq_lens):
        self.features = input_dict["obs"].float()
        return self.logits(self.features), state

    def value_function(self):
        return self.values(self.features).squeeze(1)

    def custom_loss(self, policy_loss, loss_inputs):
        self.seen.append({name: tuple(column.shape) for name, column in loss_inputs.items()})
        assert torch.equal(loss_inputs["obs"], self.features)
        distance = (self.extra - 5) ** 2
        self.distance = distance.item()
        return [loss + self.pull * distance for loss in policy_loss]

    def metrics(self):
        return {"distance": self.distance, "as_tensor": self.extra.detach()}


@pytest.mark.parametrize("cls", [PPOTrainer, A2CTrainer, PGTrainer], ids=str)
def test_the_loss_of_a_model_stands_on_that_of_its_algorithm(cls):
    Pulled.seen = []
    own = SMALL if cls is PPOTrainer else {"num_workers": 0, "rollout_fragment_length": 20, "train_batch_size": 40}
    model = {"custom_model": Pulled, "custom_model_config": {"pull": 1.0}}
    trainer = cls(config={**own, "env": "CartPole-v0", "lr": 0.1, "model": model, "seed": 1})
    result = [trainer.train() for _ in range(4)][-1]
    assert trainer.get_policy().model.extra.item() > 0.2
    told = result["info"]["learner"]["default_policy"]["learner_stats"]["model"]
    assert told["distance"] < 25.0 and told["as_tensor"] == pytest.approx(trainer.get_policy().model.extra.item())
    rows = Pulled.seen[0]["obs"][0]
    assert Pulled.seen[0] | {"obs": (rows, 4), "actions": (rows,), "advantages": (rows,)} == Pulled.seen[0]
    trainer.stop()


def test_a_loss_that_wants_an_optimizer_of_its_own_is_refused():
    class Two(Pulled):
        def custom_loss(self, policy_loss, loss_inputs):
            return [*policy_loss, self.extra**2]

    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0", "model": {"custom_model": Two}})
    with pytest.raises(ConfigError, match=r"Two: custom_loss returned .* must return one loss"):
        trainer.train()
    trainer.stop()


def keras_model(names):
    tf = imports.module("tensorflow")

    class Model(tf.keras.Model):
        def __init__(self, input_space, action_space, num_outputs, name="", *, width=8):
            super().__init__(name=name)
            self.hidden = [tf.keras.layers.Dense(width, activation=tf.nn.relu, name=each) for each in names]
            self.logits = tf.keras.layers.Dense(num_outputs, name="logits")
            self.values = tf.keras.layers.Dense(1, name="values")

        def call(self, inputs, training=None, mask=None):
            out = inputs["obs"]
            for layer in self.hidden:
                out = layer(out)
            return self.logits(out), [], {"vf_preds": tf.reshape(self.values(out), [-1])}

    return Model


@pytest.fixture
def keras():
    pytest.importorskip("torch")
    try:
        imports.module("tensorflow").keras.Model  # noqa: B018
    except (ImportError, ConfigError):
        pytest.skip("no keras here")


def test_a_keras_model_learns_and_is_saved(keras):
    model = {"custom_model": keras_model(["a", "b"]), "custom_model_config": {"width": 6}}
    config = {**SMALL, "env": "CartPole-v0", "lr": 0.01, "model": model}
    trainer = PPOTrainer(config=config)
    before = weights_of(trainer)
    trainer.train()
    assert not np.any(before == weights_of(trainer)) or np.mean(before != weights_of(trainer)) > 0.5
    assert len(before) == (4 * 6 + 6) + (6 * 6 + 6) + (6 * 2 + 2) + (6 + 1)
    other = PPOTrainer(config=config)
    other.restore(trainer.save())
    assert np.array_equal(weights_of(trainer), weights_of(other))
    trainer.stop()
    other.stop()


def test_keras_layers_of_one_name_are_refused(keras):
    with pytest.raises(ConfigError, match=r"two layers have one name.*would not learn: give each layer a name"):
        PPOTrainer(config={**SMALL, "env": "CartPole-v0", "model": {"custom_model": keras_model(["a", "a"])}})


class Linear:
    """A TFModelV2 as scripts write it: layers of Keras that are attributes."""

    @staticmethod
    def made(base):
        tf = imports.module("tensorflow")

        class Model(base):
            def __init__(self, obs_space, action_space, num_outputs, model_config, name, **kw):
                super().__init__(obs_space, action_space, num_outputs, model_config, name, **kw)
                seen = tf.keras.layers.Input(shape=obs_space.shape)
                hidden = tf.keras.layers.Dense(6, activation=tf.nn.relu, name="hidden")(seen)
                outputs = tf.keras.layers.Dense(num_outputs, name="outputs")(hidden)
                values = tf.keras.layers.Dense(1, name="values")(hidden)
                self.base_model = tf.keras.Model(seen, [outputs, values])

            def forward(self, input_dict, state, seq_lens):
                outputs, self._values = self.base_model(input_dict["obs"])
                return outputs, state

            def value_function(self):
                return tf.reshape(self._values, [-1])

            def metrics(self):
                return {"foo": tf.constant(42.0)}

        return Model


def test_a_model_of_tensorflows_names_learns(keras):
    model = Linear.made(imports.find("ray.rllib.models.tf.tf_modelv2.TFModelV2"))
    config = {**SMALL, "env": "CartPole-v0", "lr": 0.01, "model": {"custom_model": model}}
    trainer = PPOTrainer(config=config)
    before = weights_of(trainer)
    result = trainer.train()
    assert len(before) == (4 * 6 + 6) + (6 * 2 + 2) + (6 + 1)
    assert np.mean(before != weights_of(trainer)) > 0.5
    assert result["info"]["learner"]["default_policy"]["learner_stats"]["model"] == {"foo": 42.0}
    other = PPOTrainer(config=config)
    other.restore(trainer.save())
    assert np.array_equal(weights_of(trainer), weights_of(other))
    trainer.stop(), other.stop()

    model = Linear.made(imports.find("ray.rllib.agents.dqn.distributional_q_tf_model.DistributionalQTFModel"))
    trainer = DQNTrainer(config={"env": "CartPole-v0", "learning_starts": 0, "timesteps_per_iteration": 40,
                                 "model": {"custom_model": model}})  # fmt: skip
    layer = trainer.get_policy().model.base_model.get_layer("hidden")
    before = np.array(layer.kernel)
    trainer.train()
    assert (np.array(layer.kernel) != before).any(), "its heads are DQN's, its layers Keras's, and both learn"
    trainer.stop()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_gpus": 1}, r"num_gpus = 1: torch finds no GPU here; set num_gpus = 0"),
        ({"callbacks": 3}, r"callbacks = 3: must be"),
    ],
)
def test_a_wrong_key_is_refused_in_the_words_of_rllib(config, said):
    if "num_gpus" in config and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match=said):
        PPOTrainer(config={**SMALL, "env": "CartPole-v0", **config})


def test_no_environment_is_refused():
    with pytest.raises(ConfigError, match="PPO: env is missing"):
        PPOTrainer(config=SMALL)


def test_more_workers_than_cores_are_copies_in_this_process(capsys):
    trainer = PPOTrainer(config={**SMALL, "env": Counting, "num_workers": 300, "rollout_fragment_length": 1})
    assert trainer.rookery.env.num_lanes == 300
    assert "num_workers = 300" in capsys.readouterr().err
    trainer.stop()


class Broken(DefaultCallbacks):
    def on_episode_end(self, *, episode, **kwargs):
        raise ValueError("no such measurement")


def test_a_callback_that_raises_is_named():
    trainer = PPOTrainer(config={**SMALL, "env": Counting, "callbacks": Broken})
    with pytest.raises(Exception, match="no such measurement") as raised:
        trainer.train()
    assert "on_episode_end" in "".join([str(raised.value), *getattr(raised.value, "__notes__", [])]) or any(
        entry.name == "on_episode_end" for entry in raised.traceback
    )
    trainer.stop()


def test_a_moment_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"on_episode_ends: there is no such hook; did you mean 'on_episode_end'"):
        type("Wrong", (DefaultCallbacks,), {"on_episode_ends": lambda self: None})


def test_a_function_that_never_reports_is_an_error_that_says_so():
    analysis = experiment.run(lambda config: None, verbose=0, raise_on_failed_trial=False)
    (trial,) = analysis.trials
    assert trial.status == "ERROR"
    assert "without a report: call tune.report" in (trial.error_msg or open(trial.error_file).read())


def test_algorithms_that_are_not_here_are_named():
    registry = imports.module("ray.rllib.agents.registry")
    with pytest.raises(ConfigError, match="MAML: MAML is not implemented; draw a task in reset"):
        registry.get_trainer_class("MAML")
    with pytest.raises(ConfigError, match="PPPO: there is no such trainer; did you mean 'PPO'"):
        registry.get_trainer_class("PPPO")


# --- trainers that scripts make ---------------------------------------------------------------------------------------


def test_a_trainer_made_by_build_trainer_is_a_class_with_its_own_defaults():
    told = []
    made = build_trainer(
        "Mine",
        default_config={**PPOTrainer._default_config, **SMALL, "lr": 0.003},
        default_policy=imports.module("ray.rllib.agents.ppo").PPOTorchPolicy,
        after_init=lambda trainer: told.append(trainer),
    )
    trainer = made(config={"env": "CartPole-v0"})
    assert f"{trainer}" == "Mine" and told == [trainer] and isinstance(trainer, Trainer)
    assert trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"] == 0.003
    assert made.with_updates(name="Yours")(config={"env": "CartPole-v0"}).algorithm == "PPO"
    trainer.stop()


def test_explain_names_the_key_a_value_came_from():
    trainer = PPOTrainer(config={**SMALL, "env": "CartPole-v0", "gamma": 0.9})
    told = trainer.rookery.resolved.explain("algorithm.gamma")
    assert "0.9" in told and "rllib config: gamma" in told and "rllib2021" in told
    trainer.stop()


def test_two_trainers_of_different_algorithms_stand_side_by_side():
    sac = SACTrainer(config={"env": "Pendulum-v0", "num_workers": 0, "learning_starts": 20, "train_batch_size": 8,
                             "timesteps_per_iteration": 30, "Q_model": {"fcnet_hiddens": [8]},
                             "policy_model": {"fcnet_hiddens": [8]}})  # fmt: skip
    ppo = PPOTrainer(config={**SMALL, "env": "CartPole-v0"})
    for trainer in (sac, ppo):
        assert json.dumps(trainer.train()["info"])
        trainer.stop()
    assert {"actor_loss", "critic_loss"} <= set(sac.rookery._last_learning["default_policy"])


class Following(DefaultCallbacks):
    """Reports the steps that it has counted; ``thing`` cannot be written to a checkpoint."""

    thing: object = None

    def on_episode_start(self, *, episode, **kwargs):
        episode.user_data.update(steps=0, thing=self.thing)

    def on_episode_step(self, *, episode, **kwargs):
        episode.user_data["steps"] += 1

    def on_episode_end(self, *, episode, **kwargs):
        episode.custom_metrics["missed"] = episode.length - episode.user_data["steps"]


@pytest.mark.parametrize("whole", [True, False])
def test_callbacks_go_on_with_running_episodes_after_a_restore(whole, tmp_path):
    callbacks = type("Kept", (Following,), {"thing": None if whole else object()})
    config = {
        "callbacks": callbacks,
        "rollout_fragment_length": 41,
        "train_batch_size": 41,
        "metrics_smoothing_episodes": 0,
    }
    first = meadow(**config)
    first.train()
    path = first.save(str(tmp_path))
    second = meadow(**config)
    second.restore(path)
    told = second.train()
    assert (told["custom_metrics"]["missed_max"] == 0) == whole
    counts = [len(told["hist_stats"][f"policy_{name}_reward"]) for name in ("one", "two")]
    assert counts == [told["episodes_this_iter"]] * 2
    first.stop()
    second.stop()


@pytest.mark.parametrize(
    ("name", "own"), [("IMPALA", {}), ("APPO", {"replay_proportion": 1, "use_kl_loss": True})], ids=["IMPALA", "APPO"]
)
def test_impala_and_appo_train_policies_with_and_without_memory(name, own):
    config = {
        "rollout_fragment_length": 10, "train_batch_size": 40, "num_workers": 0, "num_envs_per_worker": 2, "seed": 1,
        "model": {"fcnet_hiddens": [8]},
        "multiagent": {
            "policies": {
                "plain": (None, None, None, {}),
                "lstm": (None, None, None, {"model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8}}),
            },
            "policy_mapping_fn": lambda agent: "plain" if agent == "agent1" else "lstm",
        },
    }  # fmt: skip
    trainer = get_trainer_class(name)({"env": MultiAgentArena, **config, **own})
    results = [trainer.train() for _ in range(3)]
    assert results[-1]["timesteps_total"] >= 120
    assert set(results[-1]["info"]["learner"]) == {"plain", "lstm"}
    assert {type(learner).__name__ for learner in trainer.rookery.learners.values()} == {name}
    assert trainer.rookery.config.sampling.staleness == 1
    trainer.stop()
