"""Models of scripts that look at earlier rows: every window holds what the environment really showed."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from restored import check_that_it_goes_on
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.examples.torch_models import TorchFrameStackingCartPoleModel
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.model.viewing_models import looks_back
from rookery_rllib.trainer.trainers import A2CTrainer, PPOTrainer
from selection import slow_repeats

SMALL = {"num_workers": 0, "num_envs_per_worker": 2, "rollout_fragment_length": 20, "train_batch_size": 80, "seed": 3}
EPOCHS = {"sgd_minibatch_size": 40, "num_sgd_iter": 2}


class Diary(gymnasium.Env):
    """Shows the step, counted from 1, the last action and its reward; half of the episodes are truncated."""

    observation_space = Box(-100.0, 100.0, (3,), np.float32)
    action_space = Discrete(3)

    def __init__(self, config=None):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number, self.last, self.fails = 1, self.np_random.integers(5, 9), self.np_random.integers(2)
        return np.array([1, 0, 0], np.float32), {}

    def step(self, action):
        self.step_number += 1
        reward = 10.0 * action + self.step_number
        over = bool(self.step_number == self.last)
        seen = np.array([self.step_number, action, reward], np.float32)
        return seen, reward, over and bool(self.fails), over and not self.fails, {}


class Looks(TorchModelV2, nn.Module):
    """Checks its windows against each other, which the observations of `Diary` allow."""

    rows = 0
    learned = 0

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, remembers=False):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.layer, self.values, self.remembers = nn.Linear(9, num_outputs), nn.Linear(9, 1), remembers
        self.view_requirements |= {
            "prev_n_obs": ViewRequirement("obs", space=obs_space, shift="-2:0"),
            "before_last": ViewRequirement("obs", space=obs_space, shift=-2),
            "prev_n_actions": ViewRequirement("actions", space=action_space, shift="-2:-1"),
            "prev_rewards": ViewRequirement("rewards", shift=-1),
            "new_obs": ViewRequirement("obs", shift=1, space=obs_space, used_for_compute_actions=False),
        }

    def get_initial_state(self):
        return [np.zeros(1, np.float32)] if self.remembers else []

    def forward(self, input_dict, state, seq_lens):
        obs, window = input_dict["obs"], input_dict["prev_n_obs"]
        actions, reward = input_dict["prev_n_actions"], input_dict["prev_rewards"]
        assert torch.equal(window[:, -1], obs) and torch.equal(window[:, 0], input_dict["before_last"])
        assert actions.dtype == torch.int64 and actions.shape == (len(obs), 2)
        known = obs[:, 0] > 0  # rows of zeros are no rows: the network is tried out on them
        second, third = known & (obs[:, 0] >= 2), known & (obs[:, 0] >= 3)
        assert torch.equal(window[second, 1, 0], obs[second, 0] - 1)
        assert torch.equal(window[third, 0, 0], obs[third, 0] - 2)
        assert not window[known & ~second, :2].any() and not window[known & ~third, 0].any()
        # Where an episode ends with a rollout, targets pass over the next one's first observation, which is nothing.
        told = known if input_dict["is_training"] else second
        assert torch.equal(actions[told, 1], obs[told, 1].long())
        assert torch.equal(actions[second, 0], window[second, 1, 1].long())
        assert torch.equal(reward[told], obs[told, 2])
        type(self).rows += int(known.sum())
        type(self).learned += int(known.sum()) * bool(input_dict["is_training"])
        if self.remembers:  # counts the steps of the episode
            state = [state[0] + 1]
            assert torch.equal(state[0][known, 0], obs[known, 0])
        self.features = window.flatten(1) / 10
        return self.layer(self.features), state

    def value_function(self):
        return self.values(self.features).squeeze(1)


@pytest.mark.parametrize(
    ("cls", "remembers"), slow_repeats(of=itertools.product([PPOTrainer, A2CTrainer], [False, True]))
)
def test_windows_hold_what_the_environment_showed(cls, remembers):
    Looks.rows = Looks.learned = 0
    model = {"custom_model": Looks, "custom_model_config": {"remembers": remembers}, "max_seq_len": 7}
    trainer = cls(config={**SMALL, **(EPOCHS if cls is PPOTrainer else {}), "env": Diary, "model": model})
    before = trainer.get_policy().model.layer.weight.detach().clone()
    for _ in range(3):
        trainer.train()
    assert Looks.learned >= 3 * 80 and Looks.rows > 2 * 3 * 80
    assert not torch.equal(before, trainer.get_policy().model.layer.weight)
    trainer.stop()


def test_a_restored_trainer_goes_on_to_the_same_weights(tmp_path):
    def made():
        return PPOTrainer(config={**SMALL, **EPOCHS, "env": Diary, "model": {"custom_model": Looks}})

    trainer = made()
    trainer.train()
    check_that_it_goes_on(trainer, made(), tmp_path)


def test_an_lstm_on_a_model_sees_the_last_action_and_reward():
    class Plain(TorchModelV2, nn.Module):
        def __init__(self, obs_space, action_space, num_outputs, model_config, name):
            TorchModelV2.__init__(self, obs_space, action_space, 8, model_config, name)
            nn.Module.__init__(self)
            self.layer = nn.Linear(3, 8)

        def forward(self, input_dict, state, seq_lens):
            return self.layer(input_dict["obs"].float() / 10), state

    model = {"custom_model": Plain, "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 7}
    model |= {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}
    trainer = PPOTrainer(config={**SMALL, **EPOCHS, "env": Diary, "model": model})
    trainer.train()
    assert trainer.get_policy().model.lstm.input_size == 8 + 3 + 1
    trainer.stop()


def test_what_is_yet_to_come_cannot_be_seen():
    class Seer(Looks):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.view_requirements["next"] = ViewRequirement("obs", shift=1)

    with pytest.raises(ConfigError, match=r"Seer: view_requirements\['next'\] wants 'obs' at 1"):
        A2CTrainer(config={**SMALL, "env": Diary, "model": {"custom_model": Seer}})


def test_obs_are_those_of_now():
    class Stacks(Looks):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.view_requirements["obs"] = ViewRequirement("obs", shift="-3:0")

    with pytest.raises(ConfigError, match=r"Stacks: view_requirements\['obs'\] is -3:0: .*another name"):
        A2CTrainer(config={**SMALL, "env": Diary, "model": {"custom_model": Stacks}})


def test_models_that_speak_of_views_are_known():
    assert looks_back({"custom_model": TorchFrameStackingCartPoleModel})
    assert looks_back({"custom_model": Looks})
    assert not looks_back({"custom_model": nn.Linear})
