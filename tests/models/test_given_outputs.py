"""Models that put out the parameters of distributions and values themselves (model.output=action_params)."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import A2CConfig, DQNConfig, ModelConfig, PPOConfig, PQNConfig, Trainer
from rookery.core.errors import ConfigError


class Both(nn.Module):
    """Logits, or means and spreads, and values on one trunk."""

    def __init__(self, obs_space, action_space, num_outputs, width=32):
        super().__init__()
        self.space = action_space
        self.trunk = nn.Sequential(nn.Linear(obs_space.shape[0], width), nn.Tanh())
        self.outputs, self.values = nn.Linear(width, num_outputs), nn.Linear(width, 1)

    def forward(self, obs):
        features = self.trunk(obs)
        return self.outputs(features), self.values(features).squeeze(1)


class Remembers(Both):
    """The same, with a memory of its own."""

    def initial_memory(self, n):
        return torch.zeros(n, 3)

    def forward(self, obs, memory):
        return super().forward(obs), memory + obs[:, :3]


class TwoValues(Both):
    num_values = 2

    def forward(self, obs):
        outputs, value = super().forward(obs)
        return outputs, torch.stack((value, value), 1)


class Mixed(gymnasium.Env):
    """A choice, a flag and two numbers; pays for the flag."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Dict(
        choice=spaces.Discrete(3), flag=spaces.MultiBinary(1), numbers=spaces.Box(-1, 1, (2,), np.float32)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 8
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(4, np.float32), float(action["flag"][0]), self.left == 0, False, {}


def config(algorithm=PPOConfig, module=Both, **further):
    return algorithm(model=ModelConfig(module=module, output="action_params"), **further)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", Mixed])
@pytest.mark.parametrize("algorithm", [PPOConfig, A2CConfig])
def test_any_action_space_is_learned(env, algorithm):
    with Trainer(env, config(algorithm, fragment_length=32), num_envs=4, seed=0) as trainer:
        policy = trainer.policies["main"]
        assert sum(parameter.numel() for parameter in policy.head.parameters()) == 0
        before = [parameter.clone() for parameter in policy.trunk.parameters()]
        row = trainer.train_iteration().policies["main"].learning
        assert row["skipped_steps"] == 0
        assert all(not torch.equal(old, new) for old, new in zip(before, policy.trunk.parameters(), strict=True))


@pytest.mark.slow
def test_it_learns_and_values_follow_their_unit():
    with Trainer("CartPole-v1", config(epochs=8), num_envs=8, seed=0, config={"stop.env_steps": 30_000}) as trainer:
        last = trainer.train()
    assert last.return_mean > 100
    assert last.policies["main"].learning["value_unit"] > 1
    learner = trainer.learners["main"]
    assert learner.net.value_head.linear.weight.item() == last.policies["main"].learning["value_unit"] ** -1


def test_a_memory_of_its_own_goes_along(tmp_path):
    cfg = config(module=Remembers, fragment_length=32, epochs=2)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train_iteration()
        action, memory = trainer.policies["main"].predict(np.zeros(4, np.float32))
        assert action in (0, 1)
        assert memory.shape == (1, 4)
        trainer.save()
        after = trainer.train_iteration()
    with Trainer.load(tmp_path / "run", trust_code=True) as again:
        assert again.train_iteration().policies["main"].learning["kl"] == after.policies["main"].learning["kl"]


class Values(nn.Module):
    """Values of actions alone, by the layers that settings would have made; ``taken`` says which actions it allows."""

    num_values = 0

    def __init__(self, obs_space, action_space, num_outputs, taken=None):
        super().__init__()
        self.hidden = nn.Linear(obs_space.shape[0], 16)
        self.last = nn.Linear(16, num_outputs)
        self.taken = taken

    def forward(self, obs):
        values = self.last(torch.tanh(self.hidden(obs)))
        if self.taken is None:
            return values
        return torch.where(torch.tensor(self.taken), values, -3.4e38)


def order_of(net):
    return [*net.trunk.module.last.parameters(), *net.trunk.module.hidden.parameters()]


OF_VALUES = {"batch_size": 16, "learning_starts": 32, "lr": 1e-3}


def test_values_of_actions_that_a_model_gives_are_learned_as_those_of_layers():
    ours = ModelConfig(hidden=(16,), activation="tanh", native=False)
    theirs = ModelConfig(hidden=(), module=Values, output="action_params")
    weights = []
    trainers = [Trainer("CartPole-v1", DQNConfig(model=model, **OF_VALUES), seed=0) for model in (ours, theirs)]
    for trainer in trainers:
        learner = trainer.learners["main"]
        if not weights:
            first = [parameter.detach().clone() for parameter in learner.net.parameters()]
        else:  # the head's come first there
            for net in (learner.net, learner.target_net):
                for mine, other in zip(order_of(net), first, strict=True):
                    mine.data.copy_(other)
        trainer._pool.set_weights({"main": learner.behaviour})
        trainer.train(stop={"env_steps": 200})
        net = learner.net
        after = list(net.parameters()) if not weights else order_of(net)
        weights.append([parameter.detach().clone() for parameter in after])
        trainer.close()
    assert any((before != now).any() for before, now in zip(first, weights[0], strict=True))
    for mine, other in zip(*weights, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)  # sums run in another order


def test_actions_that_a_model_calls_impossible_are_never_tried():
    model = ModelConfig(
        hidden=(), module=Values, output="action_params", module_config={"taken": [False, True, True, False]}
    )
    with Trainer("LunarLander-v3", DQNConfig(model=model, **OF_VALUES), seed=0) as trainer:
        trainer.train(stop={"env_steps": 200})  # the first at random
        drawn = trainer.learners["main"].replay.sample(100, n_step=1, gamma=0.9, beta=0.0)
        assert set(drawn.action.tolist()) == {1, 2}
        assert all(parameter.isfinite().all() for parameter in trainer.learners["main"].net.parameters())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"model.module is not set"):
        Trainer("CartPole-v1", PPOConfig(model=ModelConfig(output="action_params")))
    with pytest.raises(ConfigError, match=r"its algorithm ends networks in .*\(ppo, a2c\)"):
        Trainer("CartPole-v1", config(PQNConfig))
    with pytest.raises(ConfigError, match="dueling = True .* your model outputs the values of actions itself"):
        Trainer("CartPole-v1", config(DQNConfig, dueling=True))
    with pytest.raises(ConfigError, match="its model gives 2 values"):
        Trainer("CartPole-v1", config(module=TwoValues))
    with pytest.raises(ConfigError, match=r"num_outputs.*values \[N\]"):
        Trainer("CartPole-v1", config(module=nn.Identity))
