"""Observations that the environment preprocesses: filters of scripts, and lists within lists."""

import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import ConfigError
from rookery_rllib.batch.repeated_values import RepeatedValues
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.examples.single_agent_envs import SimpleRPG
from rookery_rllib.examples.torch_models import CustomTorchRPGModel
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.model.filters import Filter
from rookery_rllib.trainer.trainers import PPOTrainer

SMALL = {
    "rollout_fragment_length": 20, "train_batch_size": 40, "sgd_minibatch_size": 20, "num_sgd_iter": 1, "seed": 3,
    "model": {"fcnet_hiddens": [8]},
}  # fmt: skip


class Numbers:
    """Shows 1, 2, 3 and so on in an episode of five steps."""

    observation_space, action_space = spaces.Box(0.0, 9.0, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, config=None):
        pass

    def reset(self):
        self.at = 1.0
        return np.full(2, self.at, np.float32)

    def step(self, action):
        self.at += 1
        return np.full(2, self.at, np.float32), 0.0, self.at == 6, {}


class Tenfold(Filter):
    """Multiplies by ten, and keeps what it learns from."""

    def __init__(self, shape):
        self.shape, self.seen = shape, []

    def __call__(self, x, update=True):
        if update:
            self.seen.append(np.array(x))
        return 10.0 * np.asarray(x)


def test_a_filter_of_the_script_sees_what_is_learned_from_and_changes_it(capsys):
    made = []

    def make(shape):
        made.append(Tenfold(shape))
        return made[-1]

    trainer = PPOTrainer(config={**SMALL, "env": Numbers, "observation_filter": make, "num_envs_per_worker": 2})
    assert [each.shape for each in made] == [(2,)]
    assert "not in checkpoints" in capsys.readouterr().err
    batch = trainer.workers.local_worker().sample()
    assert set(np.unique(batch["obs"])) == {10.0, 20.0, 30.0, 40.0, 50.0}
    trainer.train()
    (own,) = made
    assert len(own.seen) > 40 and set(np.unique(own.seen)) == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert trainer.workers.local_worker().filters == {"default_policy": own}

    known = len(own.seen)
    trainer.evaluate()
    assert trainer.compute_action(np.ones(2)) in (0, 1)
    assert len(own.seen) == known, "an evaluation and a single action teach the filter nothing"
    logits, _ = trainer.get_policy().model({"obs": np.full((1, 2), 30.0)})
    probability = trainer.get_policy().compute_log_likelihoods(np.array([0]), np.full((1, 2), 30.0))
    assert np.exp(probability) == pytest.approx(float(logits.detach().softmax(1)[0, 0]), abs=1e-5)
    trainer.stop()


def test_a_filter_is_for_one_agent():
    class Pair(MultiAgentEnv):
        observation_space, action_space = Numbers.observation_space, Numbers.action_space

        def __init__(self, config):
            pass

        def reset(self):
            return {"a": np.zeros(2), "b": np.zeros(2)}

        def step(self, actions):
            raise NotImplementedError

    with pytest.raises(ConfigError, match=r"observation_filter: .*one agent, and Pair has several"):
        PPOTrainer(config={**SMALL, "env": Pair, "observation_filter": Tenfold})
    with pytest.raises(ConfigError, match=r"did you mean 'NoFilter'"):
        PPOTrainer(config={**SMALL, "env": Numbers, "observation_filter": "NoFiltr"})


def test_a_model_gets_lists_within_lists():
    ModelCatalog.register_custom_model("rpg", CustomTorchRPGModel)
    trainer = PPOTrainer(config={**SMALL, "env": SimpleRPG, "model": {"custom_model": "rpg"}})
    trainer.train()
    players = trainer.get_policy().model.last_obs
    assert isinstance(players, RepeatedValues) and isinstance(players.values["items"], RepeatedValues)
    obs = trainer.env_maker.made[0].observation_space.sample()
    assert trainer.compute_action(obs) in range(4)
    seen = trainer.get_policy().model.last_obs.unbatch_all()[0]
    assert len(seen) == len(obs) and [len(each["items"]) for each in seen] == [len(each["items"]) for each in obs]
    for own, given in zip(seen, obs, strict=True):
        assert np.allclose(own["location"], given["location"])
    trainer.stop()
