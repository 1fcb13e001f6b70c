"""MARWIL, BC and CQL as trainers: what they read as `input`, what they learn from it, and what they refuse."""

import numpy as np
import pytest
from gymnasium import spaces
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base import notices
from rookery_rllib.base.registrations import register_input
from rookery_rllib.batch.estimators import ImportanceSamplingEstimator, WeightedImportanceSamplingEstimator
from rookery_rllib.batch.offline import InputReader, JsonReader, JsonWriter
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.trainer import recorded_input
from rookery_rllib.trainer.trainers import BCTrainer, CQLTrainer, MARWILTrainer, PPOTrainer, get_trainer_class

EPISODE = 10
SMALL = {"model": {"fcnet_hiddens": [8]}, "train_batch_size": 50, "seed": 1}


class Signs:
    """Shows a number; the action that equals its sign is right."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(0)

    def reset(self):
        self.t = 0
        return self._seen()

    def step(self, action):
        right = float(action == (self.obs[0] > 0))
        self.t += 1
        return self._seen(), right, self.t == EPISODE, {}

    def _seen(self):
        self.obs = self.rng.uniform(-1, 1, 1).astype(np.float32)
        return self.obs


def episode(number, right=0.9):
    """An episode in which a share of the actions is right."""
    rng = np.random.default_rng(number)
    obs = rng.uniform(-1, 1, (EPISODE + 1, 1)).astype(np.float32)
    good = (obs[:-1, 0] > 0).astype(int)
    actions = np.where(rng.random(EPISODE) < right, good, 1 - good)
    return SampleBatch({
        "obs": obs[:-1], "new_obs": obs[1:], "actions": actions, "rewards": (actions == good).astype(np.float32),
        "dones": np.arange(EPISODE) == EPISODE - 1, "eps_id": np.full(EPISODE, number), "t": np.arange(EPISODE),
    })  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    writer = JsonWriter(str(tmp_path / "data"))
    for number in range(30):
        writer.write(episode(number))
    return str(tmp_path / "data")


def right(trainer):
    """Share of right actions."""
    seen = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    actions = trainer.get_policy().compute_actions(seen, explore=False)[0]
    return np.mean(np.asarray(actions) == (seen[:, 0] > 0))


@pytest.mark.parametrize("cls", [BCTrainer, MARWILTrainer], ids=str)
def test_the_data_are_learned_from_and_nothing_is_sampled(cls, folder, tmp_path):
    config = {**SMALL, "env": Signs, "input": folder, "lr": 1e-2, "timesteps_per_iteration": 5000}
    trainer = cls(config=config)
    assert len(trainer.local_replay_buffer.replay_buffers["default_policy"]) == 300
    result = trainer.train()
    assert (result["timesteps_total"], result["timesteps_this_iter"], trainer.rookery.env_steps) == (5000, 5000, 0)
    assert np.isnan(result["episode_reward_mean"])
    assert np.isfinite(result["info"]["learner"]["default_policy"]["learner_stats"]["policy_loss"])
    assert right(trainer) > 0.9
    path = trainer.save(str(tmp_path / "checkpoints"))
    other = cls(config=config)
    other.restore(path)
    assert right(other) == right(trainer) and other.train()["timesteps_total"] == 10_000
    for each in (trainer, other):
        each.stop()


def test_weights_prefer_the_better_of_two_actions(tmp_path):
    writer = JsonWriter(str(tmp_path))
    for number in range(60):
        writer.write(episode(number, right=0.35))  # most actions are wrong
    config = {
        **SMALL,
        "env": Signs,
        "input": str(tmp_path),
        "lr": 1e-2,
        "timesteps_per_iteration": 10_000,
        "gamma": 0.0,
    }
    shares = []
    for cls, beta in ((BCTrainer, 0.0), (MARWILTrainer, 20.0)):
        trainer = cls(config={**config, "beta": beta})
        trainer.train()
        shares.append(right(trainer))
        trainer.stop()
    assert shares[0] < 0.2 < 0.8 < shares[1]


class Once(InputReader):
    """Episodes of a script."""

    def __init__(self, ioctx):
        self.number = 0

    def next(self):
        self.number += 1
        return SampleBatch.concat_samples([episode(1000 * self.number + i) for i in range(100)])


def test_inputs_of_every_form_are_read(folder, monkeypatch):
    monkeypatch.setattr(recorded_input, "ROWS", 2000)
    register_input("recorded here", lambda ioctx: JsonReader(folder, ioctx))
    files = JsonReader(folder).files
    for source, rows in ((folder + "/*.json", 300), (files, 300), ({folder: 1.0}, 300), ("recorded here", 300),
                         (Once, 2000)):  # fmt: skip
        trainer = BCTrainer(config={**SMALL, "env": Signs, "input": source})
        assert len(trainer.local_replay_buffer.replay_buffers["default_policy"]) == rows
        trainer.stop()


def test_what_cannot_be_read_is_refused(folder):
    for config, message in (
        ({}, "input = 'sampler': this algorithm learns from recorded experience"),
        ({"input": 3}, "input = 3"),
        ({"input": lambda ioctx: 3}, "returned int"),
        ({"input": folder, "beta": 1.0}, "use MARWIL"),
    ):
        with pytest.raises(ConfigError, match=message):
            BCTrainer(config={**SMALL, "env": Signs, **config})
    with pytest.raises(ConfigError, match="PPO samples"):
        PPOTrainer(config={"env": "CartPole-v1", "input": folder})
    assert get_trainer_class("CQL") is CQLTrainer


def test_cql_learns_from_actions_of_numbers(tmp_path):
    writer = JsonWriter(str(tmp_path))
    rng = np.random.default_rng(0)
    for number in range(20):
        obs = rng.uniform(-1, 1, (6, 3)).astype(np.float32)
        writer.write(SampleBatch({
            "obs": obs[:-1], "new_obs": obs[1:], "actions": rng.uniform(-2, 2, (5, 1)).astype(np.float32),
            "rewards": np.ones(5, np.float32), "dones": np.arange(5) == 4, "eps_id": np.full(5, number),
            "t": np.arange(5),
        }))  # fmt: skip
    networks = {name: {"fcnet_hiddens": [8]} for name in ("policy_model", "Q_model")}
    config = {"env": "Pendulum-v1", "input": str(tmp_path), "train_batch_size": 16, "timesteps_per_iteration": 20}
    trainer = CQLTrainer(config={**config, **networks, "bc_iters": 10, "min_q_weight": 2.0, "seed": 1})
    result = trainer.train()
    cfg = trainer.rookery.learners["default_policy"].cfg
    assert (cfg.cloning_steps, cfg.conservative_weight, cfg.critic.huber) == (10, 2.0, None)
    assert trainer.rookery.replays["default_policy"].gradient_steps == 20
    assert result["timesteps_total"] == 20 * 16
    assert np.isfinite(result["info"]["learner"]["default_policy"]["learner_stats"]["critic_loss"])

    policy, rows = trainer.get_policy(), trainer.local_replay_buffer.replay_buffers["default_policy"].sample(16)
    before = policy.get_weights()
    gradients, _ = policy.compute_gradients(rows)  # of critics, actor and temperature
    assert len(gradients) == 3 and all(np.isfinite(part).all() for part in gradients)
    policy.apply_gradients(gradients)
    assert policy.learn_on_batch(rows)["td_error"].shape == (16,)
    assert any((before[name] != value).any() for name, value in policy.get_weights().items())
    trainer.stop()


def test_a_policy_that_clones_does_not_learn_from_batches(folder):
    trainer = BCTrainer(config={**SMALL, "env": Signs, "input": folder})
    with pytest.raises(ConfigError, match="learns by BC: learn_on_batch is for PPO, A2C, PG, DQN, SAC, DDPG and TD3"):
        trainer.get_policy().learn_on_batch(episode(0))


# --- off-policy estimates ---------------------------------------------------------------------------------------------


class Fixed:
    """Policy that plays action 1 with a probability."""

    def __init__(self, share):
        self.share = share

    def compute_log_likelihoods(self, actions, *columns):
        return np.log(np.where(np.asarray(actions) == 1, self.share, 1 - self.share))


def recorded_episode(actions, rewards, share=0.5):
    actions = np.array(actions)
    probability = np.where(actions == 1, share, 1 - share)
    columns = {"obs": np.zeros((len(actions), 1)), "actions": actions, "rewards": np.array(rewards, float)}
    return SampleBatch({**columns, "action_prob": probability, "eps_id": np.zeros(len(actions), int)})


def test_estimates_are_those_of_a_calculation_by_hand():
    batch, gamma = recorded_episode([1, 0, 1], [1.0, 2.0, 4.0]), 0.5
    plain = ImportanceSamplingEstimator(Fixed(0.8), gamma).estimate(batch)
    before, after = 1 + 0.5 * 2 + 0.25 * 4, 1.6 * 1 + 1.6 * 0.4 * 0.5 * 2 + 1.6 * 0.4 * 1.6 * 0.25 * 4
    assert plain.estimator_name == "is"
    assert plain.metrics == pytest.approx({"V_prev": before, "V_step_IS": after, "V_gain_est": after / before})

    weighted = WeightedImportanceSamplingEstimator(Fixed(0.8), gamma)
    alone = weighted.estimate(batch).metrics["V_step_WIS"]
    assert alone == pytest.approx(before)  # a single episode is weighted by its own mean
    other = weighted.estimate(recorded_episode([0], [3.0])).metrics["V_step_WIS"]
    assert other == pytest.approx(3.0 * 0.4 / ((1.6 + 0.4) / 2))
    with pytest.raises(ConfigError, match="no column action_prob"):
        weighted.estimate(SampleBatch({"obs": np.zeros((1, 1)), "actions": np.zeros(1), "rewards": np.zeros(1)}))


def test_a_policy_of_the_recorded_data_has_their_value_and_a_better_one_more(tmp_path):
    writer = JsonWriter(str(tmp_path))
    for number in range(100):
        batch = episode(number, right=0.5)
        batch["action_prob"] = np.full(EPISODE, 0.5)
        writer.write(batch)
    config = {**SMALL, "env": Signs, "input": str(tmp_path), "train_batch_size": 1000, "lr": 0.01}
    trainer = MARWILTrainer(config={**config, "beta": 3.0, "gamma": 0.9})
    before = trainer.train()["off_policy_estimator"]
    trainer.rookery.learn(300)
    after = trainer.train()["off_policy_estimator"]
    trainer.stop()
    assert before.keys() == after.keys() == {"is", "wis"}
    assert 2.0 < after["wis"]["V_prev"] < 4.5  # 0.5 a step, for ten steps of gamma 0.9: 3.3
    gains = [each["wis"]["V_step_WIS"] / each["wis"]["V_prev"] for each in (before, after)]
    assert abs(gains[0] - 1) < 0.05, "it begins almost like the data"
    assert gains[1] > 1.1, "and learns what is better"


def test_estimates_are_left_out_where_they_are_not_possible(folder, capsys, monkeypatch):
    monkeypatch.setattr(notices, "_printed", set())
    config = {**SMALL, "env": Signs, "input": folder}
    trainer = MARWILTrainer(config=config)
    assert trainer.train()["off_policy_estimator"] == {}
    assert "no column action_prob" in capsys.readouterr().err
    trainer.stop()
    with pytest.raises(ConfigError, match=r"there is no 'iss'.*did you mean 'is'"):
        BCTrainer(config={**config, "input_evaluation": ["iss"]})


class OwnModel(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.hidden, self.logits, self.values = nn.Linear(1, 8), nn.Linear(8, num_outputs), nn.Linear(8, 1)

    def forward(self, input_dict, state, seq_lens):
        self.features = self.hidden(input_dict["obs"].float()).tanh()
        return self.logits(self.features), state

    def value_function(self):
        return self.values(self.features).squeeze(1)


@pytest.mark.parametrize("trainer_class", [BCTrainer, MARWILTrainer])
def test_a_custom_model_clones_the_data(trainer_class, folder):
    ModelCatalog.register_custom_model("own", OwnModel)
    config = {"model": {"custom_model": "own"}, "train_batch_size": 50, "seed": 1, "lr": 0.05, "env": Signs}
    trainer = trainer_class(config={**config, "input": folder, "timesteps_per_iteration": 10_000})
    seen = np.array([[-0.8], [-0.3], [0.3], [0.8]])
    right = [0, 0, 1, 1]
    before = trainer.get_policy().model.hidden.weight.clone()
    trainer.train()
    assert isinstance(trainer.get_policy().model, OwnModel)
    assert not bool((trainer.get_policy().model.hidden.weight == before).all())
    assert [trainer.compute_action(obs, explore=False) for obs in seen] == right
    trainer.stop()
