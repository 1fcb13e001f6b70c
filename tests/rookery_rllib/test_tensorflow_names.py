"""The handful of TensorFlow's names that models for RLlib used, on Keras 3 with PyTorch."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from rookery.core.errors import ConfigError
from rookery.script.importer import script_builtins
from rookery_rllib.base import imports
from rookery_rllib.script.finder import IMPORTER

if find_spec("keras") is None:  # importing it would choose a back end
    pytest.skip("the extra keras is not installed", allow_module_level=True)

from rookery_rllib.base.imports import module  # noqa: E402
from rookery_rllib.keras import backend as keras_backend
from rookery_rllib.keras import tensorflow_names  # noqa: E402


@pytest.fixture(scope="module")
def tf():
    return module("tensorflow")


def is_close(found, expected):
    found = found.detach().numpy() if isinstance(found, torch.Tensor) else np.asarray(found)
    return found.shape == np.shape(expected) and np.allclose(found, expected)


TUTORIAL = """
import numpy as np
import tensorflow as tf
from gym.spaces import Box

class MyModel(tf.keras.Model):
    def __init__(self, input_space, action_space, num_outputs, name="", *, layers=(256, 256)):
        super().__init__(name=name)
        self.dense_layers = []
        for i, layer_size in enumerate(layers):
            self.dense_layers.append(tf.keras.layers.Dense(layer_size, activation=tf.nn.relu, name=f"dense_{i}"))
        self.logits = tf.keras.layers.Dense(num_outputs, activation=tf.keras.activations.linear, name="logits")
        self.values = tf.keras.layers.Dense(1, activation=None, name="values")

    def call(self, inputs, training=None, mask=None):
        out = inputs["obs"]
        for layer in self.dense_layers:
            out = layer(out)
        return self.logits(out), [], {"vf_preds": tf.reshape(self.values(out), [-1])}

model = MyModel(input_space=Box(-1.0, 1.0, (2,)), action_space=None, num_outputs=2)
out, state, extra = model({"obs": np.array([[0.5, 0.5]])})
"""


def test_a_model_of_the_tutorials_form_runs_and_learns():
    seen = {"__name__": "__main__", "__builtins__": script_builtins(IMPORTER)}
    exec(TUTORIAL, seen)
    assert seen["out"].shape == (1, 2) and seen["extra"]["vf_preds"].shape == (1,) and seen["state"] == []
    weights = tensorflow_names.parameters(seen["model"])
    assert sum(weight.numel() for weight in weights) == (2 + 1) * 256 + 257 * 256 + 257 * 3
    (seen["out"].sum() + seen["extra"]["vf_preds"].sum()).backward()
    assert all(weight.grad is not None for weight in weights)
    assert "tensorflow" not in sys.modules


def test_functional_models_take_the_operations(tf):
    layers = tf.keras.layers
    obs = layers.Input(shape=(4,), name="observations")
    hidden = layers.Dense(8, name="hidden", activation=tf.nn.tanh)(tf.cast(obs, tf.float32))
    both = layers.Concatenate(axis=-1)([hidden, layers.Lambda(lambda x: tf.square(x) + tf.constant(1.0))(obs)])
    out = layers.Dense(3, name="out")(tf.concat([both, tf.expand_dims(tf.reduce_mean(obs, axis=1), 1)], axis=1))
    model = tf.keras.Model(obs, [out, tf.reduce_sum(hidden, axis=1)])
    first, second = model(np.ones((5, 4)))
    assert first.shape == (5, 3) and second.shape == (5,) and len(tensorflow_names.parameters(model)) == 4


def test_recurrent_models_take_masks_and_states(tf):
    layers = tf.keras.layers
    steps, h, c = layers.Input(shape=(None, 4)), layers.Input(shape=(6,)), layers.Input(shape=(6,))
    lengths = layers.Input(shape=(), dtype=tf.int32)
    out, last_h, last_c = layers.LSTM(6, return_sequences=True, return_state=True, name="lstm")(
        inputs=steps, mask=tf.sequence_mask(lengths), initial_state=[h, c]
    )
    model = tf.keras.Model([steps, lengths, h, c], [out, last_h, last_c])
    zeros = np.zeros((2, 6), np.float32)
    found = model([np.ones((2, 3, 4), np.float32), np.array([3, 1], np.int32), zeros, zeros])
    assert found[0].shape == (2, 3, 6) and torch.allclose(found[1][1], found[0][1, 0])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("tf.reshape([[1, 2], [3, 4]], [-1])", [1, 2, 3, 4]),
        ("tf.concat([[1.0], [2.0]], 0)", [1, 2]),
        ("tf.stack([tf.constant(1), tf.constant(2)], axis=0)", [1, 2]),
        ("tf.reduce_mean([[1.0, 3.0]], axis=1, keepdims=True)", [[2]]),
        ("tf.reduce_max(tf.constant([[1, 5], [7, 2]]), axis=[0, 1])", 7),
        ("tf.math.log(tf.exp(2.0))", 2),
        ("tf.one_hot([0, 2], 3)", [[1, 0, 0], [0, 0, 1]]),
        ("tf.one_hot([1], 2, on_value=0.0, off_value=5.0)", [[5, 0]]),
        ("tf.argmax([[1, 5], [7, 2]], axis=1)", [1, 0]),
        ("tf.argmax([[1, 5], [7, 2]])", [1, 0]),
        ("tf.transpose([[1, 2]], perm=[1, 0])", [[1], [2]]),
        ("tf.where([True, False], [1.0, 2.0], 0.0)", [1, 0]),
        ("tf.where([True, False, True])", [[0], [2]]),
        ("tf.maximum([1.0, 2.0], 1.5)", [1.5, 2]),
        ("tf.minimum(1, 2)", 1),
        ("tf.clip_by_value([-2.0, 2.0], -1, 1)", [-1, 1]),
        ("tf.squeeze([[[1]], [[2]]], axis=[1, 2])", [1, 2]),
        ("tf.split([1, 2, 3], [1, -1])[1]", [2, 3]),
        ("tf.split([1, 2, 3, 4], 2)[1]", [3, 4]),
        ("tf.sequence_mask([1, 3])", [[True, False, False], [True, True, True]]),
        ("tf.boolean_mask([[1, 2], [3, 4]], [False, True])", [[3, 4]]),
        ("tf.gather([[1, 2], [3, 4]], [1, 0], axis=0)", [[3, 4], [1, 2]]),
        ("tf.gather([[1.0, 2.0], [3.0, 4.0]], [1, 0], batch_dims=1)", [2, 3]),
        ("tf.tile([[1, 2]], [2, 1])", [[1, 2], [1, 2]]),
        ("tf.range(3)", [0, 1, 2]),
        ("tf.zeros((2,)) + tf.ones(2) + tf.fill([2], 3.0)", [4, 4]),
        ("tf.zeros_like([1, 2])", [0, 0]),
        ("tf.matmul([[1.0, 2.0]], [[1.0, 2.0]], transpose_b=True)", [[5]]),
        ("tf.cumsum([1, 2, 3], exclusive=True, reverse=True)", [5, 3, 0]),
        ("tf.slice([[1, 2, 3]], [0, 1], [1, -1])", [[2, 3]]),
        ("tf.pad([1], [[1, 2]])", [0, 1, 0, 0]),
        ("tf.nn.relu([-1.0, 1.0])", [0, 1]),
        ("tf.nn.softmax([[0.0, 0.0]], axis=-1)", [[0.5, 0.5]]),
        ("tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0.0, 0.0]])", [np.log(2)]),
        ("tf.nn.softmax_cross_entropy_with_logits(labels=[[0.0, 1.0]], logits=[[0.0, 0.0]])", [np.log(2)]),
        ("tf.nn.sigmoid_cross_entropy_with_logits(labels=[1.0], logits=[0.0])", [np.log(2)]),
        ("tf.nn.moments(tf.constant([1.0, 3.0]), axes=[0])[1]", 1),
        ("tf.math.add_n([tf.constant(1), tf.constant(2)])", 3),
        ("tf.linalg.global_norm([tf.constant([3.0]), None, tf.constant([4.0])])", 5),
        ("tf.cast([1.7], tf.int32)", [1]),
        ("tf.abs([-1]) * tf.sign(-2.0)", [-1]),
        ("tf.cond(tf.constant(True), lambda: 1, lambda: 2)", 1),
        ("tf.py_function(lambda x: x * 2, [3], tf.float32)", 6),
        ("tf.reverse([1, 2], [0])", [2, 1]),
        ("tf.unstack([[1], [2]])[1]", [2]),
        ("tf.compat.v1.nn.tanh(0)", 0),
        ("tf.stop_gradient(tf.identity([1.0]))", [1]),
        ("tf.shape(np.zeros((2, 3)))[1]", 3),
        ("tf.constant(2.0, shape=(2,))", [2, 2]),
    ],
)
def test_operations_do_what_they_did(tf, told, expected):
    assert is_close(eval(told, {"tf": tf, "np": np}), expected), told


def test_types_have_their_reach(tf):
    assert tf.float32 == "float32" and tf.float32.min == np.finfo(np.float32).min and tf.int32.max == 2**31 - 1
    assert np.zeros(2, tf.float32).dtype == np.float32 and tf.float32.as_numpy_dtype is np.float32
    assert tf.constant(1.5).dtype == torch.float32 and tf.constant(1).dtype == torch.int32
    assert tf.convert_to_tensor(np.zeros(2)).dtype == torch.float64
    assert isinstance(tf.constant(1), tf.Tensor) and tf.is_tensor(tf.constant(1)) and not tf.is_tensor(1)


def test_chance_repeats_with_a_seed(tf):
    tf.random.set_seed(1)
    first = tf.random.normal((3,)), tf.random.uniform([2], 1, 5), tf.random.categorical([[0.0, 9.0]], 4)
    assert (first[1] >= 1).all() and first[2].shape == (1, 4)
    assert tf.random.uniform((20,), maxval=3, dtype=tf.int32).max() < 3


def test_what_needs_no_graph_is_as_it_was(tf):
    tf.compat.v1.enable_eager_execution()
    assert tf.executing_eagerly() and tf.__version__.startswith("2.")

    @tf.function
    def plain(x):
        return x

    @tf.function(autograph=False)
    def told(x):
        return x

    assert plain(1) == told(1) == 1
    bias = tf.Variable(np.float32(2), trainable=True, name="a/bias")
    assert is_close(bias + 1.0, 3)
    assert tf.nest.map_structure(lambda x: x + 1, {"a": 1}) == {"a": 2}
    assert tf.config.list_physical_devices("CPU")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("tf.Session", "graphs and sessions"),
        ("tf.compat.v1.placeholder", "graphs and sessions"),
        ("tf.compat.v1.get_variable", "variables by scope"),
        ("tf.GradientTape", "the trainer's config"),
        ("tf.reduce_summ", "did you mean 'reduce_sum'"),
        ("tf.keras.layers.Dence", "tensorflow.keras.layers has no 'Dence'"),
    ],
)
def test_what_is_not_there_says_what_to_use(tf, told, why):
    with pytest.raises(AttributeError, match=why):
        eval(told, {"tf": tf})


def test_layers_of_one_name_are_caught(tf):
    class Twins(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.both = [tf.keras.layers.Dense(2, name="same"), tf.keras.layers.Dense(2, name="same")]

        def call(self, x):
            return self.both[1](self.both[0](x))

    model = Twins()
    with pytest.raises(ConfigError, match="call it once"):
        tensorflow_names.parameters(model)
    model(np.zeros((1, 2)))
    with pytest.raises(ConfigError, match="same/kernel"):
        tensorflow_names.parameters(model)


def test_without_keras_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(keras_backend.importlib.util, "find_spec", lambda name: None)
    imports.module.cache_clear()
    with pytest.raises(ImportError, match=r"rookery-rl\[keras\]"):
        exec("import tensorflow.keras.layers", {"__builtins__": script_builtins(IMPORTER)})
    imports.module.cache_clear()


def test_keras_on_another_back_end_is_refused():
    script = (
        "import sys, types\nfrom importlib.machinery import ModuleSpec\n"
        "keras = types.SimpleNamespace(backend=lambda: 'jax')\n"
        "sys.modules['keras'] = types.SimpleNamespace(config=keras, __spec__=ModuleSpec('keras', None))\n"
        "from rookery_rllib.base.imports import module\ntry:\n    module('tensorflow')\n"
        "except ImportError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "keras runs on jax" in done.stdout, done.stderr
