"""Models of scripts that DQN, SimpleQ and R2D2 learn."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from restored import check_that_it_goes_on
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base import imports
from rookery_rllib.examples.single_agent_envs import ParametricActionsCartPole
from rookery_rllib.examples.torch_models import TorchParametricActionsModel, TorchRNNModel
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.model.networks import DQNTorchModel
from rookery_rllib.model.script_q_models import q_values

SMALL = {
    "num_workers": 0,
    "env": "CartPole-v0",
    "learning_starts": 40,
    "timesteps_per_iteration": 80,
    "train_batch_size": 16,
    "seed": 1,
}


class Line(TorchModelV2, nn.Module):
    """A linear layer, whose own loss pulls a weight to 5 if `pull` is set."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, pull=0.0):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.layer = nn.Linear(obs_space.shape[0], num_outputs)
        self.extra, self.pull = nn.Parameter(torch.zeros(())), pull

    def forward(self, input_dict, state, seq_lens):
        return self.layer(input_dict["obs"].float()), state

    def custom_loss(self, policy_loss, loss_inputs):
        assert loss_inputs["actions"].shape == (16,)
        return [loss + self.pull * (self.extra - 5) ** 2 for loss in policy_loss]


def made(custom=Line, told=None, cls="DQNTrainer", **config):
    section = {"fcnet_hiddens": [8], "custom_model": custom, "custom_model_config": told or {}}
    trainers = imports.module("ray.rllib.agents.dqn")
    return getattr(trainers, cls)(config={**SMALL, **config, "model": {**section, **config.get("model", {})}})


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"dueling": False, "double_q": False},
        {"hiddens": [], "dueling": False},
        {"num_atoms": 5, "v_min": 0.0, "v_max": 20.0},
        {"exploration_config": {"type": "ParameterNoise", "random_timesteps": 40}},
    ],
    ids=["as it is", "plain", "outputs are values", "atoms", "parameter noise"],
)
def test_a_model_of_a_script_learns(config):
    trainer = made(**config)
    model = trainer.get_policy().model
    assert isinstance(model, Line) and isinstance(model, DQNTorchModel)
    assert model.layer.out_features == (2 if config.get("hiddens") == [] else 8)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    for _ in range(2):
        trainer.train()
    after = trainer.get_policy().model.state_dict()
    assert [name for name in after if torch.equal(before[name], after[name])] == ["extra"]
    assert trainer.compute_action(np.zeros(4), explore=False) in (0, 1)
    trainer.stop()


def test_outputs_of_a_model_are_the_values_of_simple_q():
    trainer = made(cls="SimpleQTrainer")
    trainer.train()
    model = trainer.get_policy().model
    assert not isinstance(model, DQNTorchModel) and model.layer.out_features == 2
    obs = np.array([0.3, -0.1, 0.2, 0.1])
    values = model.layer(torch.from_numpy(obs).float())
    assert trainer.compute_action(obs, explore=False) == int(values.argmax())
    trainer.stop()


def test_a_restored_trainer_goes_on_to_the_same_weights(tmp_path):
    trainer = made()
    trainer.train()
    check_that_it_goes_on(trainer, made(), tmp_path)


def test_what_a_model_adds_to_the_loss_is_learned():
    trainer = made(told={"pull": 1.0}, lr=0.1)
    for _ in range(2):
        trainer.train()
    assert trainer.get_policy().model.extra.item() > 0.2
    trainer.stop()


def test_heads_of_a_class_of_the_script_are_asked():
    class Upside(DQNTorchModel):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.layer = nn.Linear(4, self.num_outputs)

        def forward(self, input_dict, state, seq_lens):
            return self.layer(input_dict["obs"].float()), state

        def get_q_value_distributions(self, model_out):
            scores, *rest = super().get_q_value_distributions(model_out)
            return (-scores, *rest)

    trainer = made(Upside, dueling=False)
    policy, obs = trainer.get_policy(), np.array([0.3, -0.1, 0.2, 0.1])
    with torch.no_grad():
        scores = policy.model.advantage_module(policy.model.layer(torch.from_numpy(obs).float()))
    assert trainer.compute_action(obs, explore=False) == int(scores.argmin())
    trainer.stop()


def test_values_of_two_streams_by_hand():
    obs, actions = Box(-1.0, 1.0, (4,), np.float32), Discrete(3)
    heads = {"q_hiddens": (), "dueling": True}
    model = ModelCatalog.get_model_v2(obs, actions, 3, {"custom_model": Line}, model_interface=DQNTorchModel, **heads)
    outputs = torch.tensor([[1.0, 2.0, 6.0], [1.0, -3.4e38, 5.0], [1.0, -torch.inf, 5.0]])
    with torch.no_grad():
        for parameter in model.value_module.parameters():
            parameter.fill_(0.0)
        found = q_values(model, outputs)
    expected = [[-2.0, -1.0, 3.0], [-2.0, -3.4e38, 2.0]]
    assert torch.allclose(found[:2], torch.tensor(expected))
    assert found[2, 1] == -torch.inf


def test_a_model_that_remembers_learns_by_r2d2():
    config = {"train_batch_size": 32, "burn_in": 2, "hiddens": [8]}
    model = {"max_seq_len": 6}
    trainer = made(TorchRNNModel, {"fc_size": 8, "lstm_state_size": 4}, "R2D2Trainer", model=model, **config)
    before = trainer.get_policy().model.lstm.weight_ih_l0.detach().clone()
    for _ in range(2):
        trainer.train()
    assert not torch.equal(before, trainer.get_policy().model.lstm.weight_ih_l0)
    trainer.stop()


def test_actions_that_a_model_rules_out_are_never_taken():
    imports.module("ray.tune.registry").register_env("pa_cartpole", lambda _: ParametricActionsCartPole(10))
    trainer = made(TorchParametricActionsModel, env="pa_cartpole", hiddens=[], dueling=False)
    for _ in range(2):
        trainer.train()  # the environment raises where an action is not there
    trainer.stop()


def test_noisy_layers_are_not_for_models_of_scripts():
    with pytest.raises(ConfigError, match="noisy = True: .*custom_model"):
        made(noisy=True)


def test_sac_says_what_takes_models():
    trainer = imports.module("ray.rllib.agents.sac").SACTrainer
    with pytest.raises(ConfigError, match=r"model.custom_model = .*: the networks of SAC are made by settings"):
        trainer(config={"env": "Pendulum-v0", "num_workers": 0, "model": {"custom_model": Line}})
