"""Models of RLlib's examples, and weights that models of several policies share."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base.registrations import register_env
from rookery_rllib.batch.repeated_values import RepeatedValues
from rookery_rllib.config.defaults import MODEL_DEFAULTS
from rookery_rllib.examples import torch_models as models
from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole
from rookery_rllib.examples.single_agent_envs import CorrelatedActionsEnv, ParametricActionsCartPole, SimpleRPG
from rookery_rllib.model import catalog, shared_weights
from rookery_rllib.model.catalog import ModelCatalog, network_factory
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.model.preprocessors import get_preprocessor
from rookery_rllib.trainer.trainers import PGTrainer, PPOTrainer, get_trainer_class

OBS, ACTIONS = Box(-1, 1, (4,)), Discrete(3)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def made(cls, obs_space=OBS, action_space=ACTIONS, num_outputs=3, **config):
    space = get_preprocessor(obs_space)(obs_space).observation_space
    options = {"custom_model": cls, "custom_model_config": config, "fcnet_hiddens": [8]}
    return network_factory(options)(space, action_space, num_outputs)


def network(cls, **config):
    options = {**MODEL_DEFAULTS, "custom_model": cls, "custom_model_config": config}
    return ScriptNetwork(OBS, ACTIONS, 3, make=network_factory(options), options=options)


def rows_of(space, n=2):
    space.seed(0)
    preprocessor = get_preprocessor(space)(space)
    return torch.from_numpy(np.stack([preprocessor.transform(space.sample()) for _ in range(n)])).float()


@pytest.mark.parametrize(
    "cls",
    [
        models.TorchBatchNormModel,
        models.TorchCentralizedCriticModel,
        models.TorchFastModel,
        models.TorchRNNModel,
        models.RNNModel,
        models.NativeRNNModel,
        models.TorchSharedWeightsModel,
    ],
)
def test_they_are_networks_of_ours(cls):
    net = network(cls).eval()
    copied = copy.deepcopy(net)
    rows = torch.randn(2, 4)
    memory = (net.initial_memory(2),) if net.states else ()
    given, other = net(rows, *memory), copied(rows, *memory)
    (outputs, values), (same, _) = (given[0], other[0]) if memory else (given, other)
    assert outputs.shape == (2, 3) and values.shape == (2,)
    assert torch.equal(outputs, same)


def test_a_recurrent_model_that_is_no_model_v2_remembers():
    net = network(models.NativeRNNModel, cell_size=5)
    rows = torch.randn(2, 4)
    (first, _), memory = net(rows, net.initial_memory(2))
    (second, _), _ = net(rows, memory)
    assert [part.shape for part in memory] == [(2, 5)] * 2 and not torch.equal(first, second)


def test_pairs_of_choices_depend_on_each_other(monkeypatch):
    monkeypatch.setattr(catalog, "_DISTRIBUTIONS", {})
    space = Tuple([Discrete(2), Discrete(2)])
    ModelCatalog.register_custom_action_dist("pairs", models.TorchBinaryAutoregressiveDistribution)
    found, size = ModelCatalog.get_action_dist(space, {"custom_action_dist": "pairs"})
    model = made(models.TorchAutoregressiveActionModel, action_space=space, num_outputs=size)
    for weight in model.parameters():
        nn.init.normal_(weight)
    inputs, _ = model({"obs": torch.randn(5, 4)})
    dist = found(inputs, model)
    pairs = [torch.tensor([[a, b]] * 5) for a in (0, 1) for b in (0, 1)]
    probabilities = torch.stack([dist.logp(pair).exp() for pair in pairs])
    assert torch.allclose(probabilities.sum(0), torch.ones(5), atol=1e-5)
    a1, a2 = dist.sample()
    assert a1.shape == a2.shape == (5,)
    assert torch.allclose(dist.sampled_action_logp(), dist.logp(torch.stack((a1, a2), 1)))
    assert dist.kl(dist).abs().max() < 1e-6 and (dist.entropy() > 0).all()
    assert dist.deterministic_sample()[0].shape == (5,)
    with pytest.raises(ConfigError, match="two of two choices"):
        made(models.TorchAutoregressiveActionModel)


def test_actions_that_cannot_be_taken_have_the_lowest_logits():
    space = ParametricActionsCartPole(10).observation_space
    model = made(models.TorchParametricActionsModel, space, Discrete(10), 10)
    obs = {key: np.ones(part.shape, np.float32) for key, part in space.spaces.items()}
    obs["action_mask"] = (np.arange(10) % 2).astype(np.float32)
    rows = torch.from_numpy(np.concatenate([part.ravel() for part in obs.values()]))[None]
    logits, _ = model({"obs": rows})
    assert (logits[0, ::2] < -1e38).all() and (logits[0, 1::2].abs() < 1e3).all()
    assert logits.isfinite().all() and model.value_function().shape == (1,)
    assert torch.equal(model.get_q_value_distributions(logits)[0], logits)


def test_central_values_see_both_agents():
    model = made(models.TorchCentralizedCriticModel, Discrete(6), Discrete(2), 2)
    rows = torch.eye(6)[[3, 3]]
    values = model.central_value_function(rows, rows, torch.tensor([0, 1]))
    assert values.shape == (2,) and values[0] != values[1]
    space = Dict(own_obs=Discrete(6), opponent_obs=Discrete(6), opponent_action=Discrete(2))
    model = made(models.YetAnotherTorchCentralizedCriticModel, space, Discrete(2), 2)
    assert model({"obs": rows_of(space, 3)})[0].shape == (3, 2)
    assert model.value_function().shape == (3,)


def test_lists_of_things_come_unpacked():
    space = SimpleRPG({}).observation_space
    model = made(models.CustomTorchRPGModel, space, Discrete(4), 4)
    assert model({"obs": rows_of(space)})[0].shape == (2, 4)
    assert isinstance(model.last_obs, RepeatedValues)


def test_frames_are_looked_back_at():
    model = made(models.TorchFrameStackingCartPoleModel, num_frames=2)
    assert model.view_requirements["prev_n_obs"].shifts() == ([-1, 0], True)
    given = {"obs": torch.randn(5, 4), "prev_n_obs": torch.randn(5, 2, 4), "prev_n_rewards": torch.ones(5, 2)}
    outputs, _ = model({**given, "prev_n_actions": torch.zeros(5, 2, dtype=torch.int64)})
    assert outputs.shape == (5, 3) and model.value_function().shape == (5,)
    with pytest.raises(ConfigError, match="no column 'prev_n_obs'"):
        model({"obs": given["obs"]})


def test_interfaces_of_values_of_actions():
    model = ModelCatalog.get_model_v2(
        OBS, ACTIONS, 3, MODEL_DEFAULTS, model_interface=models.TorchDuelingQModel, name="dueling"
    )
    features, _ = model(input_dict={"obs": np.zeros((10, 4), np.float32), "is_training": False})
    assert features.shape == (10, 256)
    assert torch.allclose(model.get_q_values(features).mean(1), model.V(features)[:, 0], atol=1e-6)
    model = ModelCatalog.get_model_v2(
        OBS, Box(-1, 1, (2,)), 4, MODEL_DEFAULTS, model_interface=models.TorchContActionQModel, name="action"
    )
    assert model.get_single_q_value(torch.randn(5, 256), torch.randn(5, 2)).shape == (5, 1)


def test_recorded_actions_are_learned_from(monkeypatch):
    class Reader:
        def __init__(self, files):
            assert files == "here"

        def next(self):
            return {"obs": np.zeros((6, 4), np.float64), "actions": np.full(6, 2)}

    monkeypatch.setattr(models, "JsonReader", Reader)
    model = made(models.TorchCustomLossModel, input_files="here")
    assert model.metrics() == {}
    (loss,) = model.custom_loss([torch.tensor(3.0)], {})
    told = model.metrics()
    assert told["policy_loss"] == 3.0
    assert loss.item() == pytest.approx(3.0 + 10 * told["imitation_loss"])
    loss.backward()
    assert model.fcnet._logits._model[0].bias.grad[2] < 0


# --- weights that are shared ------------------------------------------------------------------------------------------


class Middle(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.first, self.middle, self.again = nn.Linear(2, 2), middle, middle


def test_a_layer_of_two_models_becomes_two_layers_that_are_put_together():
    layer = nn.Linear(2, 2)
    one, other = (shared_weights.separate(Middle(layer)) for _ in range(2))
    assert one.middle is one.again and other.middle is other.again and other.middle is not one.middle
    shared = shared_weights.remember({"a": one, "b": other})
    assert len(shared) == 2  # weight and bias
    with torch.no_grad():
        start = layer.bias.clone()
        one.middle.bias += 1.0
        other.middle.bias += 0.5
        other.first.bias += 9.0
    shared_weights.put_together(shared)
    assert torch.allclose(one.middle.bias, start + 1.5) and torch.equal(one.middle.bias, other.middle.bias)
    assert not torch.equal(one.first.bias, other.first.bias)
    alone = shared_weights.separate(Middle(nn.Linear(2, 2)))
    assert shared_weights.remember({"a": one, "c": alone}) == []


def test_policies_learn_the_layer_that_they_share():
    policies = {name: (None, None, None, {}) for name in ("policy_0", "policy_1")}
    trainer = PPOTrainer(
        env=MultiAgentCartPole,
        config={
            "env_config": {"num_agents": 2},
            "num_workers": 0,
            "train_batch_size": 400,
            "num_sgd_iter": 2,
            "model": {"custom_model": models.TorchSharedWeightsModel},
            "multiagent": {"policies": policies, "policy_mapping_fn": lambda agent: f"policy_{int(agent) % 2}"},
            "framework": "torch",
            "seed": 0,
        },
    )
    name = "_global_shared_layer._model.0.weight"
    before = trainer.get_weights()["policy_0"][name]
    trainer.train()
    after = trainer.get_weights()
    assert np.array_equal(after["policy_0"][name], after["policy_1"][name])
    assert not np.array_equal(after["policy_0"][name], before)
    first = "first_layer._model.0.weight"
    assert not np.array_equal(after["policy_0"][first], after["policy_1"][first])
    trainer.stop()


def test_models_see_masks_and_whether_they_learn():
    seen = []
    register_env("parametric", lambda config: ParametricActionsCartPole(10))

    class Watched(models.TorchParametricActionsModel):
        def forward(self, input_dict, state, seq_lens):
            mask, is_training = input_dict["obs"]["action_mask"], input_dict["is_training"]
            seen.append((mask, is_training, self.training, any(weight.requires_grad for weight in self.parameters())))
            return super().forward(input_dict, state, seq_lens)

    trainer = PPOTrainer(
        env="parametric",
        config={
            "num_workers": 0,
            "train_batch_size": 200,
            "num_sgd_iter": 1,
            "model": {"custom_model": Watched},
            "framework": "torch",
            "seed": 0,
        },
    )
    trainer.train()
    trainer.stop()
    assert {mask.shape[1] for mask, *_ in seen} == {10}
    assert {float(count) for mask, *_ in seen[5:] for count in mask.sum(1)} == {2.0}
    assert {tuple(told) for _, *told in seen} == {
        (True, True, True),  # the loss
        (False, False, True),  # values for its targets
        (False, False, False),  # actions
    }


def test_bytes_come_as_they_are():
    space = Dict(few=Box(0, 7, (2,), np.uint8), many=Box(0, 255, (2,), np.uint8))
    seen = []

    class Watched(models.TorchFastModel):
        def forward(self, input_dict, state, seq_lens):
            seen.append(input_dict["obs_flat"])
            return super().forward(input_dict, state, seq_lens)

    options = {**MODEL_DEFAULTS, "custom_model": Watched}
    net = ScriptNetwork(space, ACTIONS, 3, make=network_factory(options), options=options)
    net({"few": torch.tensor([[1.0, 3 / 7]]), "many": torch.tensor([[1.0, 0.2]])})
    assert seen[-1].tolist() == [pytest.approx([7.0, 3.0, 255.0, 51.0])]


@pytest.mark.parametrize("trainer", [PPOTrainer, PGTrainer])
def test_distributions_of_a_script_are_learned_on_policy(trainer):
    ModelCatalog.register_custom_model("pairs", models.TorchAutoregressiveActionModel)
    model = {"custom_model": "pairs", "custom_action_dist": models.TorchBinaryAutoregressiveDistribution}
    config = {"model": model, "rollout_fragment_length": 20, "train_batch_size": 40, "seed": 0}
    config |= {"sgd_minibatch_size": 20, "num_sgd_iter": 2} if trainer is PPOTrainer else {}
    trained = trainer(env=CorrelatedActionsEnv, config=config)
    before = trained.get_policy().get_weights()
    trained.train()
    after = trained.get_policy().get_weights()
    assert any((before[name] != after[name]).any() for name in before)


@pytest.mark.parametrize(
    ("name", "why"), [("DQN", "learns from replay"), ("IMPALA", "corrects for"), ("APPO", "corrects for")]
)
def test_distributions_of_a_script_are_refused_where_only_our_own_are_learned(name, why):
    config = {"model": {"custom_action_dist": models.TorchBinaryAutoregressiveDistribution}, "framework": "torch"}
    with pytest.raises(ConfigError, match=rf"model.custom_action_dist.*{name} {why}"):
        get_trainer_class(name)(env="CartPole-v1", config=config)
