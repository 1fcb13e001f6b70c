"""The catalog of 2021: which model, action distribution and preprocessor belong to a space or a name."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base import imports, registrations
from rookery_rllib.config.defaults import MODEL_DEFAULTS
from rookery_rllib.gym.rllib_spaces import Simplex, UnsupportedSpaceException
from rookery_rllib.model import action_distributions as dists
from rookery_rllib.model import catalog
from rookery_rllib.model.catalog import ModelCatalog, network_factory
from rookery_rllib.model.model_v2 import ScriptNetwork, TFModelV2, TorchModelV2
from rookery_rllib.model.networks import ComplexInputNetwork, FullyConnectedNetwork, VisionNetwork
from rookery_rllib.model.preprocessors import OneHotPreprocessor, Preprocessor, get_preprocessor
from rookery_rllib.model.recurrent_networks import LSTMWrapper

OBS, ACTIONS = Box(-1, 1, (4,)), Discrete(3)


@pytest.fixture(autouse=True)
def _nothing_registered():
    kinds = [registrations.table(kind) for kind in ("models", "preprocessors", "distributions")]
    before = [dict(kind) for kind in kinds]
    for kind in kinds:
        kind.clear()
    yield
    for kind, entries in zip(kinds, before, strict=True):
        kind.clear()
        kind.update(entries)


class Mine(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name, width=8, **kwargs):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.width, self.further = width, kwargs
        self.num_outputs = num_outputs or width
        self.layer = nn.Linear(obs_space.shape[0], self.num_outputs)

    def forward(self, input_dict, state, seq_lens):
        return self.layer(input_dict["obs_flat"]), state

    def value_function(self):
        return torch.zeros(2)


class Plain(nn.Module):
    """A class in the form of the tutorial's Keras model."""

    def __init__(self, input_space, action_space, num_outputs, name="", *, layers=(256, 256)):
        super().__init__()
        self.name, self.layers = name, layers
        self.outputs, self.values = nn.Linear(input_space.shape[0], num_outputs), nn.Linear(input_space.shape[0], 1)

    def forward(self, inputs):
        return self.outputs(inputs["obs"]), [], {"vf_preds": self.values(inputs["obs"]).reshape(-1)}


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_name", [True, False])
def test_a_custom_model_is_found_and_told_its_configuration(by_name):
    ModelCatalog.register_custom_model("mine", Mine)
    options = {"custom_model": "mine" if by_name else Mine, "custom_model_config": {"width": 16, "other": 1}}
    assert catalog.custom_model(options) is Mine
    model = network_factory(options, "its_name")(OBS, ACTIONS, 3)
    assert (model.width, model.further, model.num_outputs, model.name) == (16, {"other": 1}, 3, "its_name")
    assert model.model_config["fcnet_hiddens"] == [256, 256]
    assert model.model_config["custom_model_config"] == {"width": 16, "other": 1}
    assert model({"obs": torch.randn(2, 4)})[0].shape == (2, 3)


def test_what_a_model_writes_into_its_configuration_stays_there():
    options = {"custom_model": Mine}
    network_factory(options)(OBS, ACTIONS, 3).model_config["fcnet_hiddens"].append(1)
    assert MODEL_DEFAULTS["fcnet_hiddens"] == [256, 256] and options == {"custom_model": Mine}


def test_a_model_may_find_its_configuration_in_the_section(capsys):
    class Old(Mine):
        def __init__(self, obs_space, action_space, num_outputs, model_config, name):
            super().__init__(obs_space, action_space, num_outputs, model_config, name)
            self.told = model_config["custom_model_config"]["depth"]

    made = network_factory({"custom_model": Old, "custom_model_config": {"depth": 5}})(OBS, ACTIONS, 3)
    assert made.told == 5
    assert "Old: its constructor does not take depth" in capsys.readouterr().err


def test_plain_classes_are_called_as_the_tutorial_calls_them():
    options = {"custom_model": Plain, "custom_model_config": {"layers": [128, 128]}}
    model = network_factory(options, "its_name")(OBS, ACTIONS, 3)
    assert (model.name, model.layers) == ("its_name", [128, 128])
    net = ScriptNetwork(OBS, ACTIONS, 3, make=network_factory(options), options=options)
    outputs, values = net(torch.randn(2, 4))
    assert outputs.shape == (2, 3) and values.shape == (2,)


def test_a_function_may_make_the_model():
    def make(obs_space, action_space, num_outputs, model_config, name, width):
        return Mine(obs_space, action_space, num_outputs, model_config, name, width)

    made = network_factory({"custom_model": make, "custom_model_config": {"width": 3}})(OBS, ACTIONS, 2)
    assert isinstance(made, Mine) and made.width == 3


@pytest.mark.skipif(find_spec("keras") is None, reason="needs the package keras")
def test_keras_models_are_called_as_the_tutorial_calls_them():
    tf = imports.find("tensorflow")

    class MyModel(tf.keras.Model):
        def __init__(self, input_space, action_space, num_outputs, name="", *, layers=(256, 256)):
            super().__init__(name=name)
            self.dense_layers = [tf.keras.layers.Dense(size, name=f"dense_{i}") for i, size in enumerate(layers)]
            self.logits = tf.keras.layers.Dense(num_outputs, name="logits")
            self.values = tf.keras.layers.Dense(1, name="values")

        def call(self, inputs, training=None, mask=None):
            out = inputs["obs"]
            for layer in self.dense_layers:
                out = layer(out)
            return self.logits(out), [], {"vf_preds": tf.reshape(self.values(out), [-1])}

    options = {"custom_model": MyModel, "custom_model_config": {"layers": [8]}}
    model = network_factory(options, "its_name")(OBS, ACTIONS, 3)
    outputs, _, extras = model({"obs": torch.randn(2, 4)})
    assert outputs.shape == (2, 3) and extras["vf_preds"].shape == (2,)
    assert model.name == "its_name" and [layer.units for layer in model.dense_layers] == [8]


def test_what_is_no_model_is_refused():
    ModelCatalog.register_custom_model("mine", Mine)
    with pytest.raises(ConfigError, match=r"'minne'.*did you mean 'mine'.*register_custom_model\('minne'"):
        network_factory({"custom_model": "minne"})
    with pytest.raises(ConfigError, match="not int"):
        catalog.custom_model({"custom_model": 3})
    with pytest.raises(ConfigError, match="returned str; must be a TorchModelV2"):
        network_factory({"custom_model": lambda *args: "x"})(OBS, ACTIONS, 3)
    if find_spec("keras") is None:
        with pytest.raises(ConfigError, match=r"Tf: derives from TFModelV2.*keras is not installed: pip install"):
            network_factory({"custom_model": type("Tf", (TFModelV2,), {})})(OBS, ACTIONS, 3)
    with pytest.raises(ConfigError, match="leave one of them out"):
        network_factory({"use_lstm": True, "use_attention": True})
    with pytest.raises(ConfigError, match="Plain is not a ModelV2"):
        network_factory({"custom_model": Plain, "use_lstm": True})(OBS, ACTIONS, 3)
    assert catalog.custom_model({}) is None


@pytest.mark.parametrize("memory", ["use_lstm", "use_attention"])
@pytest.mark.parametrize("custom", [None, Mine])
def test_a_memory_stands_on_top(memory, custom):
    options = {memory: True, "custom_model": custom, "custom_model_config": {"width": 6} if custom else {}}
    model = network_factory({**options, "lstm_cell_size": 7, "fcnet_hiddens": [6]})(OBS, ACTIONS, 3)
    assert isinstance(model, LSTMWrapper) == (memory == "use_lstm")
    assert isinstance(model.wrapped, custom or FullyConnectedNetwork)
    state = [part.expand(2, *part.shape) for part in model.get_initial_state()]
    assert model({"obs": torch.randn(2, 4)}, state, torch.ones(2))[0].shape == (2, 3)
    assert model.num_features == 6


def test_default_networks_go_by_space():
    picture, mixed = Box(0, 255, (42, 42, 3), np.uint8), Tuple((Box(0, 255, (42, 42, 3), np.uint8), Discrete(2)))
    cases = [(OBS, FullyConnectedNetwork), (picture, VisionNetwork), (Dict(a=OBS), FullyConnectedNetwork)]
    for space, expected in cases:
        preprocessed = get_preprocessor(space)(space).observation_space
        assert type(network_factory({})(preprocessed, ACTIONS, 3)) is expected
    preprocessed = get_preprocessor(mixed)(mixed).observation_space
    assert type(network_factory({})(preprocessed, ACTIONS, 3)) is ComplexInputNetwork
    assert catalog.default_network(Box(0, 255, (84, 84), np.uint8), {"num_framestacks": 4}) is VisionNetwork


def test_an_interface_comes_on_top_of_the_default_network():
    class Dueling(TorchModelV2):
        def __init__(self, obs_space, action_space, num_outputs, model_config, name):
            nn.Module.__init__(self)
            super().__init__(obs_space, action_space, None, model_config, name)
            self.A = nn.Linear(self.num_outputs, num_outputs)

        def get_q_values(self, features):
            return self.A(features)

    model = ModelCatalog.get_model_v2(
        obs_space=OBS,
        action_space=ACTIONS,
        num_outputs=3,
        model_config=MODEL_DEFAULTS,
        framework="torch",
        model_interface=Dueling,
        name="dueling",
    )
    features, _ = model(input_dict={"obs": torch.randn(2, 4), "is_training": False})
    assert features.shape == (2, 256) and model.get_q_values(features).shape == (2, 3)
    assert isinstance(model, Dueling) and isinstance(model, FullyConnectedNetwork)


# --- action distributions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "expected", "size"),
    [
        (Discrete(5), dists.TorchCategorical, 5),
        (Box(-1, 1, (3,)), dists.TorchDiagGaussian, 6),
        (MultiDiscrete([2, 3]), dists.TorchMultiCategorical, 5),
        (Box(0, 3, (2, 2), np.int64), dists.TorchMultiCategorical, 16),
        (Simplex((3,)), dists.TorchDirichlet, 3),
        (Tuple((Discrete(2), Box(-1, 1, (2,)))), dists.TorchMultiActionDistribution, 6),
        (Dict(b=MultiDiscrete([2, 2]), a=Dict(c=Discrete(3))), dists.TorchMultiActionDistribution, 7),
    ],
)
def test_distributions_go_by_space(space, expected, size):
    made, inputs = ModelCatalog.get_action_dist(space, {}, framework="torch")
    assert inputs == size
    distribution = made(torch.zeros(1, size), None)
    assert type(distribution) is expected
    actions = distribution.sample()
    if isinstance(space, Dict | Tuple):
        assert distribution.logp(actions).shape == (1,)
    else:
        assert actions.shape[1:] == space.shape
        assert space.contains(made(torch.zeros(1, size), None).deterministic_sample()[0].numpy())


def test_other_distributions_are_asked_for():
    box = Box(-1, 1, (3,))
    assert ModelCatalog.get_action_dist(box, {}, dist_type="deterministic") == (dists.TorchDeterministic, 3)
    assert ModelCatalog.get_action_dist(box, {}, dist_type=dists.TorchBeta) == (dists.TorchBeta, 6)

    class Own(dists.TorchDistributionWrapper):
        @staticmethod
        def required_model_output_shape(action_space, model_config):
            return 16

    ModelCatalog.register_custom_action_dist("own", Own)
    assert ModelCatalog.get_action_dist(box, {"custom_action_dist": "own"}) == (Own, 16)
    assert catalog.custom_action_dist({"custom_action_dist": Own}) is Own
    with pytest.raises(ConfigError, match=r"did you mean 'own'"):
        ModelCatalog.get_action_dist(box, {"custom_action_dist": "owm"})


def test_spaces_without_a_distribution_are_refused():
    with pytest.raises(UnsupportedSpaceException, match="several dimensions"):
        ModelCatalog.get_action_dist(Box(-1, 1, (2, 2)), {})
    with pytest.raises(UnsupportedSpaceException, match="MultiBinary"):
        ModelCatalog.get_action_dist(MultiBinary(3), {})
    with pytest.raises(ConfigError, match="get_action_shape"):
        ModelCatalog.get_action_placeholder(ACTIONS)


def test_shapes_of_actions():
    assert ModelCatalog.get_action_shape(ACTIONS) == (np.int64, (None,))
    assert ModelCatalog.get_action_shape(Box(-1, 1, (2, 3))) == (torch.float32, (None, 2, 3))
    assert ModelCatalog.get_action_shape(Tuple((ACTIONS, Discrete(2)))) == (torch.int64, (None, 2))
    assert ModelCatalog.get_action_shape(Dict(a=ACTIONS, b=Box(-1, 1, (2,)))) == (torch.float32, (None, 3))


# --- preprocessors ----------------------------------------------------------------------------------------------------


def test_preprocessors_go_by_space_or_name():
    assert isinstance(ModelCatalog.get_preprocessor_for_space(Discrete(4)), OneHotPreprocessor)

    class Twice(Preprocessor):
        def _init_shape(self, obs_space, options):
            return obs_space.shape

        def transform(self, observation):
            return observation * 2 * self._options["dim"]

    ModelCatalog.register_custom_preprocessor("twice", Twice)
    env = type("Env", (), {"observation_space": OBS})
    made = ModelCatalog.get_preprocessor(env, {"custom_preprocessor": "twice", "dim": 3})
    assert made.transform(np.ones(4)).tolist() == [6, 6, 6, 6]
    with pytest.raises(ConfigError, match=r"model.dimm: there is no such key; did you mean 'dim'"):
        ModelCatalog.get_preprocessor(env, {"dimm": 3})


# --- names ------------------------------------------------------------------------------------------------------------


def test_what_is_registered_goes_to_other_processes():
    ModelCatalog.register_custom_model("mine", Mine)
    known = registrations.registered()
    registrations.table("models").clear()
    registrations.register_all(known)
    assert catalog.custom_model({"custom_model": "mine"}) is Mine


def test_tensorflow_names_are_the_same_classes():
    assert imports.find("ray.rllib.models.tf.tf_action_dist.Categorical") is dists.TorchCategorical
    assert imports.find("ray.rllib.models.tf.fcnet.FullyConnectedNetwork") is FullyConnectedNetwork
    recurrent = imports.find("ray.rllib.models.tf.recurrent_net.RecurrentNetwork")
    assert issubclass(recurrent, TFModelV2)
