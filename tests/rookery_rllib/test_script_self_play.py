"""Self-play as scripts of RLlib write it: sides by the id of an episode, opponents with copied weights, a memory."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.env.agent_mapping import EpisodeName, episode_number
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer.trainers import PPOTrainer

SPACES = Box(-1, 1, (2,), np.float32), Discrete(2)


class Race(MultiAgentEnv):
    def __init__(self, config):
        super().__init__()

    def reset(self):
        self.time = 0
        return self.look()

    def look(self):
        return {agent: np.full(2, self.time / 5, np.float32) for agent in (0, 1)}

    def step(self, actions):
        self.time += 1
        lead = float(actions[0] - actions[1])
        return self.look(), {0: lead, 1: -lead}, {"__all__": self.time == 5}, {}


class Remembers(TorchModelV2, nn.Module):
    """Adds up its observations in two parts of its state."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.outputs, self.values = nn.Linear(2, num_outputs), nn.Linear(2, 1)

    def get_initial_state(self):
        return [torch.full((2,), 7.0), torch.zeros(1, 3)]

    def forward(self, input_dict, state, seq_lens):
        total = state[0] + input_dict["obs_flat"].float()
        self.seen = total
        return self.outputs(total), [total, state[1] + 1.0]

    def value_function(self):
        return self.values(self.seen)[:, 0]


def by_turns(agent_id, episode, **kwargs):
    return "main" if episode.episode_id % 2 == agent_id else "opponent"


def race(mapping=by_turns, **config):
    multiagent = {
        "policies": {name: (None, *SPACES, {}) for name in ("main", "opponent")},
        "policy_mapping_fn": mapping,
        "policies_to_train": ["main"],
    }
    small = {"num_workers": 0, "num_envs_per_worker": 2, "train_batch_size": 80, "sgd_minibatch_size": 40,
             "rollout_fragment_length": 20, "num_sgd_iter": 1, "model": {"fcnet_hiddens": [4]}, "seed": 1}  # fmt: skip
    return PPOTrainer(config={**small, "env": Race, "multiagent": multiagent, **config})


class Noting(DefaultCallbacks):
    ended: list = []

    def on_episode_end(self, *, episode, **kwargs):
        self.ended.append((episode.episode_id, episode.policy_for(0)))


@pytest.mark.parametrize("by_text", [False, True])
def test_the_id_of_an_episode_decides_who_plays_which_side(by_text):
    Noting.ended = []
    by_hash = lambda agent, episode, **kwargs: "main" if hash(episode.id_) % 2 == agent else "opponent"  # noqa: E731
    trainer = race(by_hash if by_text else by_turns, callbacks=Noting)
    trainer.train()
    assert len(Noting.ended) >= 16 and len({number for number, _ in Noting.ended}) == len(Noting.ended)
    assert {name for _, name in Noting.ended} == {"main", "opponent"}
    assert all(name == ("main" if number % 2 == 0 else "opponent") for number, name in Noting.ended)
    trainer.stop()


def test_numbers_of_episodes_repeat_and_are_odd_or_even_by_chance():
    numbers = [episode_number(lane, index) for lane in range(8) for index in range(50)]
    assert len(set(numbers)) == 400 and 160 < sum(number % 2 for number in numbers) < 240
    assert hash(EpisodeName(numbers[0])) == numbers[0] and EpisodeName(7) == "7"


def test_the_state_of_a_scripts_model_has_its_own_parts():
    trainer = race(model={"custom_model": Remembers, "max_seq_len": 5})
    trainer.train()
    policy, obs = trainer.get_policy("main"), np.array([0.5, -0.5], np.float32)
    initial = policy.get_initial_state()
    assert [part.tolist() for part in initial] == [[7.0, 7.0], [[0.0, 0.0, 0.0]]]
    _, state, _ = trainer.compute_single_action(obs, state=initial, policy_id="main")
    assert [part.tolist() for part in state] == [[7.5, 6.5], [[1.0, 1.0, 1.0]]]
    _, state, _ = trainer.compute_single_action(obs, state=state, policy_id="main")
    assert [part.tolist() for part in state] == [[8.0, 6.0], [[2.0, 2.0, 2.0]]]
    _, state, _ = trainer.compute_single_action(obs, state=[np.zeros(2), np.zeros((1, 3))], policy_id="main")
    assert state[0].tolist() == [0.5, -0.5]  # and not that of a new episode
    with pytest.raises(ConfigError, match=r"parts of \[2\] numbers; this policy has \[2, 3\]"):
        trainer.compute_single_action(obs, state=[np.zeros(2)], policy_id="main")
    trainer.stop()


def test_policies_are_declared_and_not_added():
    trainer = race()
    with pytest.raises(ConfigError, match=r"PPO: policy 'main_v1' cannot be added during training: declare it"):
        trainer.add_policy(policy_id="main_v1", policy_cls=None)
    with pytest.raises(ConfigError, match=r"policy_id = 'man': no such policy; .*main, opponent; did you mean 'main'"):
        trainer.compute_single_action(np.zeros(2, np.float32), policy_id="man")
    main, opponent = trainer.get_policy("main"), trainer.get_policy("opponent")
    opponent.set_weights(main.get_weights())
    copied = opponent.actor.state_dict()
    assert copied and all(torch.equal(copied[key], value) for key, value in main.actor.state_dict().items())
    trainer.stop()
