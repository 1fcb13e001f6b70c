"""Names of RLlib's tools: each of them is there; and what they do, against small computations of another kind."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from rookery.core.errors import ConfigError
from rookery_rllib.base import deprecation, nested
from rookery_rllib.base.annotations import override
from rookery_rllib.base.deprecation import deprecation_warning, renamed_class, renamed_function
from rookery_rllib.base.from_config import from_config
from rookery_rllib.base.locks import with_lock
from rookery_rllib.base.nested_dicts import (
    add_mixins,
    deep_update,
    flatten_dict,
    force_list,
    force_tuple,
    merge_dicts,
    unflatten_dict,
)
from rookery_rllib.base.running_statistics import TimerStat, WindowStat
from rookery_rllib.base.schedules import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    PolynomialSchedule,
)
from rookery_rllib.batch import numpy_functions, torch_functions
from rookery_rllib.batch.debug_text import log_once, summarize
from rookery_rllib.batch.minibatches import averaged, do_minibatch_sgd, minibatches, standardized
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.gym import rllib_spaces as spaces
from rookery_rllib.keras.framework import (
    Swish,
    get_activation_fn,
    get_variable,
    try_import_jax,
    try_import_torch,
)
from rookery_rllib.model.filters import ConcurrentMeanStdFilter, FilterManager, MeanStdFilter, RunningStat, get_filter
from rookery_rllib.trainer.checks import check, check_learning_achieved, framework_iterator


def test_structures_are_mapped_with_sorted_keys():
    structure = {"b": [1, (2,)], "a": {"x": 3}}
    assert nested.flatten(structure) == [3, 1, 2]
    assert nested.map_structure(lambda x, y: x + y, structure, structure) == {"b": [2, (4,)], "a": {"x": 6}}
    assert list(nested.map_structure(str, structure)) == ["b", "a"]


def test_frameworks():
    assert try_import_torch() == (torch, torch.nn)
    assert try_import_jax() == (None, None)
    assert get_variable(3.0, "torch") == 3.0
    variable = get_variable(np.ones(2), "torch", trainable=True, torch_tensor=True)
    assert variable.requires_grad and variable.dtype == torch.float32
    assert get_activation_fn("relu", "torch") is torch.nn.ReLU and get_activation_fn("linear") is None
    assert get_activation_fn("swish") is Swish
    with pytest.raises(ConfigError, match="sine"):
        get_activation_fn("sine")
    config = {}
    assert list(framework_iterator(config)) == ["torch"] and config == {"framework": "torch"}


def test_overriding_is_checked():
    class Above:
        def method(self): ...

    assert override(Above)(Above.method) is Above.method
    with pytest.raises(NameError, match="Above has no method"):
        override(Above)(check)


def test_old_names_warn(monkeypatch):
    told = []
    monkeypatch.setattr(deprecation.logger, "warning", lambda text, *words: told.append(text % words))
    Renamed = renamed_class(dict, "OldDict")
    assert Renamed(a=1) == {"a": 1} and renamed_function(abs, "old_abs")(-1) == 1
    deprecation_warning("x", "y")
    assert "OldDict" in told[0] and "old_abs" in told[1] and told[2].endswith("`x` is deprecated. Use `y`.")
    with pytest.raises(ValueError, match="x"):
        deprecation_warning("x", error=True)


@pytest.mark.parametrize("t", [0, 25, 50, 100, 200])
def test_schedules(t):
    share = min(t, 100) / 100
    assert ConstantSchedule(2.0, framework="torch")(t) == 2.0
    linear = LinearSchedule(schedule_timesteps=100, initial_p=2.0, final_p=1.0, framework=None)
    assert linear.value(t) == pytest.approx(2 - share)
    assert float(linear(torch.tensor(t))) == pytest.approx(2 - share)
    assert PolynomialSchedule(100, 1.0, None, 2.0, power=3.0)(t) == pytest.approx(1 + (1 - share) ** 3)
    assert ExponentialSchedule(100, None, 2.0, 0.1)(t) == pytest.approx(2 * 0.1 ** (t / 100))
    piecewise = PiecewiseSchedule([(0, 0.0), (50, 1.0), (100, 3.0)], framework=None, outside_value=9.0)
    assert piecewise(t) == {0: 0.0, 25: 0.5, 50: 1.0, 100: 9.0, 200: 9.0}[t]
    if t >= 100:
        with pytest.raises(AssertionError, match="outside"):
            PiecewiseSchedule([(0, 0.0), (50, 1.0)])(t)


def test_array_functions():
    x = np.random.default_rng(0).normal(size=(3, 4))
    tensor = torch.as_tensor(x)
    np.testing.assert_allclose(numpy_functions.softmax(x), torch.softmax(tensor, -1), atol=1e-6)
    np.testing.assert_allclose(numpy_functions.sigmoid(x), torch.sigmoid(tensor))
    np.testing.assert_allclose(numpy_functions.relu(x, 0.1), torch.nn.functional.leaky_relu(tensor, 0.1))
    np.testing.assert_allclose(
        numpy_functions.huber_loss(x, 0.5),
        torch.nn.functional.huber_loss(tensor, tensor * 0, reduction="none", delta=0.5),
    )
    assert numpy_functions.l2_loss(x) == pytest.approx(float(torch_functions.l2_loss(tensor)))
    assert numpy_functions.one_hot(np.array([[0, 2]]), 3).tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert numpy_functions.one_hot(np.array([True, False])).tolist() == [[0, 1], [1, 0]]
    assert numpy_functions.one_hot(2).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="where there are 2"):
        numpy_functions.one_hot(np.array([2]), 2)
    aligned = numpy_functions.aligned_array(7, np.float32)
    assert aligned.shape == (7,) and aligned.dtype == np.float32 and aligned.ctypes.data % 64 == 0
    layer = torch.nn.Linear(4, 2).double()
    np.testing.assert_allclose(
        numpy_functions.fc(tensor, layer.weight, layer.bias, framework="torch"), layer(tensor).detach()
    )
    converted = numpy_functions.convert_to_numpy({"a": tensor, "b": torch.tensor(2), "c": "text"}, reduce_floats=True)
    assert converted["a"].dtype == np.float32 and converted["b"] == 2 and converted["c"] == "text"


def test_an_lstm_is_that_of_torch():
    torch.manual_seed(0)
    cell = torch.nn.LSTM(3, 2, batch_first=True).double()
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    expected, (hidden, last) = cell(x)

    def ordered(matrix):  # torch: input, forget, cell, output
        add, forget, new, out = matrix.chunk(4)
        return torch.cat((add, new, forget, out))

    weights = torch.cat((ordered(cell.weight_ih_l0), ordered(cell.weight_hh_l0)), dim=1).T.detach().numpy()
    biases = ordered(cell.bias_ih_l0 + cell.bias_hh_l0).detach().numpy()
    for time_major in (False, True):
        given = np.swapaxes(x.numpy(), 0, 1) if time_major else x.numpy()
        out, (c, h) = numpy_functions.lstm(given, weights, biases, time_major=time_major, forget_bias=0.0)
        np.testing.assert_allclose(np.swapaxes(out, 0, 1) if time_major else out, expected.detach())
        np.testing.assert_allclose(c, last[0].detach())
        np.testing.assert_allclose(h, hidden[0].detach())


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_batches_of_structures_are_flattened(kind):
    space = Dict({"a": Discrete(3), "b": Tuple([MultiDiscrete([2, 2]), Box(-9, 9, (2,))])})
    inputs = {"a": kind([2, 0]), "b": (kind([[1, 0], [0, 1]]), kind([[5.0, 6.0], [7.0, 8.0]]))}
    flat = numpy_functions.flatten_inputs_to_1d_tensor(inputs, spaces.get_base_struct_from_space(space))
    assert type(flat) is type(inputs["a"])
    assert flat.tolist() == [[0, 0, 1, 0, 1, 1, 0, 5, 6], [1, 0, 0, 1, 0, 0, 1, 7, 8]]


def test_tensor_functions():
    y = torch.randn(50)
    assert float(torch_functions.explained_variance(y, y)) == 1.0
    assert float(torch_functions.explained_variance(y, -9 * y)) == -1.0
    assert float(torch_functions.explained_variance(torch.ones(5), y[:5])) == 0.0
    parts = [torch.randn(3), torch.randn(2, 2)]
    joined = torch.cat([part.ravel() for part in parts])
    torch.testing.assert_close(torch_functions.global_norm(parts), joined.norm())
    lengths = torch.tensor([1, 3])
    assert torch_functions.sequence_mask(lengths).tolist() == [[True, False, False], [True, True, True]]
    assert torch_functions.sequence_mask(lengths, 2, torch.float32, time_major=True).tolist() == [[1, 1], [0, 1]]
    infinite = torch.tensor([[1.0, float("-inf"), 3.0]])
    assert torch_functions.reduce_mean_ignore_inf(infinite, 1).tolist() == [2.0]
    logits, labels = torch.randn(4, 3), torch.softmax(torch.randn(4, 3), -1)
    torch.testing.assert_close(
        torch_functions.softmax_cross_entropy_with_logits(logits, labels),
        torch.nn.functional.cross_entropy(logits, labels, reduction="none"),
    )
    torch.testing.assert_close(torch_functions.atanh(torch.tensor([0.5])), torch.atanh(torch.tensor([0.5])))
    assert torch_functions.one_hot(torch.tensor([[1, 0]]), MultiDiscrete([2, 3])).tolist() == [[0, 1, 1, 0, 0]]
    found = torch_functions.convert_to_torch_tensor({"a": np.ones(2), "b": 3, "c": np.array([{}], object), "d": None})
    assert found["a"].dtype == torch.float32 and found["b"].item() == 3
    assert found["c"].dtype == object and found["d"] is None
    assert torch_functions.make_tf_callable()(lambda x: x * 2)(np.ones(2, np.float32)).tolist() == [2, 2]
    weight = torch.nn.Parameter(torch.zeros(2))
    (weight * torch.tensor([30.0, 40.0])).sum().backward()
    optimizer = SimpleNamespace(param_groups=[{"params": [weight, torch.nn.Parameter(torch.zeros(1))]}])
    info = torch_functions.apply_grad_clipping(SimpleNamespace(config={"grad_clip": 10.0}), optimizer, None)
    assert info["grad_gnorm"] == pytest.approx(50.0)
    torch.testing.assert_close(weight.grad, torch.tensor([6.0, 8.0]))
    torch_functions.minimize_and_clip(optimizer, 5)
    torch.testing.assert_close(weight.grad, torch.tensor([3.0, 4.0]))


@pytest.mark.parametrize("kind", [MeanStdFilter, ConcurrentMeanStdFilter])
def test_filters_keep_mean_and_deviation(kind):
    data = np.random.default_rng(0).normal(3, 2, (20, 2))
    one, other = kind((2,), clip=None), kind((2,), clip=None)
    for row in data[:10]:
        one(row)
    other(data[10:])
    np.testing.assert_allclose(other.rs.mean, data[10:].mean(0))
    one.apply_changes(other, with_buffer=False)
    assert one.rs.n == 20 and one.buffer.n == 10
    np.testing.assert_allclose(one(data, update=False), (data - data.mean(0)) / (data.std(0, ddof=1) + 1e-8))
    twin = one.copy()
    one.clear_buffer()
    assert one.buffer.n == 0 and twin.buffer.n == 10 and type(twin) is kind
    assert type(one.as_serializable()) is MeanStdFilter
    assert isinstance(get_filter(kind.__name__, (2,)), kind)
    with pytest.raises(ConfigError, match="MeanStdFilter"):
        get_filter("MeanStdFiltr", (2,))


def test_statistics_are_those_of_their_docstrings():
    a, b = MeanStdFilter(()), MeanStdFilter(())
    a(1), a(2), b(10)
    a.apply_changes(b)
    assert (a.rs.n, float(a.rs.mean), a.buffer.n) == (3, pytest.approx(13 / 3), 2)
    single = RunningStat(())
    single.push(-3.0)
    assert float(single.std) == 3.0
    worker = SimpleNamespace(get_filters=lambda flush_after: {"p": b}, sync_filters=lambda filters: got.update(filters))
    got = {}
    FilterManager.synchronize({"p": a}, [worker])
    assert a.rs.n == got["p"].rs.n == 4


def test_dicts_of_settings():
    base = {"a": {"x": 1, "type": "A"}, "b": 2}
    assert merge_dicts(base, {"a": {"y": 3}, "c": 4}) == {"a": {"x": 1, "type": "A", "y": 3}, "b": 2, "c": 4}
    assert base["a"] == {"x": 1, "type": "A"}
    with pytest.raises(ConfigError, match="Unknown config parameter `gama`; did you mean 'gamma'"):
        deep_update({"gamma": 1}, {"gama": 2})
    whole = deep_update({"a": {"x": 1, "type": "A"}}, {"a": {"type": "B"}}, False, ["a"], ["a"])
    assert whole == {"a": {"type": "B"}}
    assert deep_update({"a": {}}, {"a": {"new": 1}}, False, ["a"]) == {"a": {"new": 1}}
    assert flatten_dict({"a": {"b": 1}, "c": {}}) == {"a/b": 1, "c": {}}
    assert unflatten_dict({"a/b": 1, "c": 2}) == {"a": {"b": 1}, "c": 2}
    assert force_list() == [] and force_list((1, 2)) == [1, 2] and force_tuple(3) == (3,)

    class First:
        def who(self):
            return "first"

    class Second(First):
        def who(self):
            return "second"

    assert add_mixins(dict, [First])().who() == "first"
    assert add_mixins(dict, [Second, First])().who() == "second"


def test_objects_are_made_from_descriptions(tmp_path):
    class Shape:
        def __init__(self, size=1, name=""):
            self.size, self.name = size, name

    class Round(Shape):
        pass

    Shape.__type_registry__ = {"round": Round}
    made = from_config(Shape, {"type": "Round", "size": 3}, name="x")
    assert type(made) is Round and (made.size, made.name) == (3, "x")
    assert from_config(Shape, made) is made and type(from_config(Shape)) is Shape
    assert from_config({"type": "collections.Counter", "_args": ["aab"]}) == {"a": 2, "b": 1}
    (tmp_path / "shape.yaml").write_text("type: round\nsize: 5\n")
    assert from_config(Shape, str(tmp_path / "shape.yaml")).size == 5
    with pytest.raises(ConfigError, match="no.such.Thing"):
        from_config(Shape, "no.such.Thing")


def test_spaces():
    space = Dict({"a": Discrete(3), "b": Tuple([Box(-2, 4, (2,)), Discrete(2)])})
    assert spaces.flatten_space(space) == [Discrete(3), Box(-2, 4, (2,)), Discrete(2)]
    struct = spaces.get_base_struct_from_space(space)
    assert struct == {"a": Discrete(3), "b": (Box(-2, 4, (2,)), Discrete(2))}
    rows = spaces.unbatch({"a": np.array([1, 2]), "b": (np.array([3.0, 4.0]), np.array([5, 6]))})
    assert rows == [{"a": 1, "b": (3.0, 5)}, {"a": 2, "b": (4.0, 6)}]
    action = {"a": 1, "b": (np.array([-9.0, 9.0]), 1)}
    assert spaces.clip_action(action, space)["b"][0].tolist() == [-2, 4]
    half = {"a": 1, "b": (np.array([0.5, -1.0]), 1)}
    assert spaces.unsquash_action(half, struct)["b"][0].tolist() == [2.5, -2.0]
    np.testing.assert_allclose(spaces.normalize_action(np.array([2.5, -2.0]), Box(-2, 4, (2,))), [0.5, -1.0])
    assert spaces.clip_action(1, Discrete(2)) == 1
    dummy = spaces.get_dummy_batch_for_space(space, 4, time_size=3)
    assert dummy["a"].shape == (4, 3) and dummy["b"][0].shape == (4, 3, 2)
    assert spaces.flatten_to_single_ndarray([np.ones((2, 2)), np.zeros(1)]).tolist() == [1, 1, 1, 1, 0]
    simplex = spaces.Simplex((4, 3))
    assert simplex.contains(simplex.sample()) and not simplex.contains(np.ones((4, 3)))
    assert simplex == spaces.Simplex((4, 3)) != spaces.Simplex((4, 3), concentration=[1, 2, 3])
    repeated = spaces.Repeated(Discrete(3), 2)
    assert all(repeated.contains(repeated.sample()) for _ in range(20)) and not repeated.contains([1, 1, 1])
    flexible = spaces.FlexDict({"b": Discrete(2)})
    flexible["a"] = Discrete(3)
    assert list(flexible.sample()) == ["b", "a"]


def test_checks_of_scripts():
    check({"a": [1, np.array([1.0])]}, {"a": [1, torch.tensor([1.000001])]})
    check(1.0, 2.0, false=True)
    check([1.0], [1.1], atol=0.2)
    for x, y in (({"a": 1}, {"b": 1}), ([1, 2], [1]), (1.0, 1.1), ("a", "b"), (True, False), (None, 1)):
        with pytest.raises(AssertionError):
            check(x, y)
    with pytest.raises(AssertionError, match="is the same as"):
        check(1.0, 1.0, false=True)
    told = {"episode_reward_mean": 10.0, "evaluation": {"episode_reward_mean": 5.0}}
    results = SimpleNamespace(trials=[SimpleNamespace(last_result=told)])
    check_learning_achieved(results, 10.0)
    with pytest.raises(ValueError, match="not reached: 5.0"):
        check_learning_achieved(results, 6.0, evaluation=True)


def test_times_and_windows():
    timer = TimerStat(window_size=2)
    for seconds in (1.0, 2.0, 4.0):
        timer.push(seconds)
        timer.push_units_processed(6)
    assert (timer.mean, timer.count, timer.mean_throughput, timer.mean_units_processed) == (3.0, 3, 2.0, 6.0)
    with timer:
        pass
    assert timer.count == 4
    window = WindowStat("x", 3)
    assert window.stats()["x_quantiles"] == []
    for value in (1.0, 2.0, 3.0, 4.0):
        window.push(value)
    assert window.stats()["x_mean"] == 3.0 and window.stats()["x_count"] == 4
    assert window.stats()["x_quantiles"][2] == 3.0


def test_minibatches():
    batch = SampleBatch({"a": np.arange(10.0)})
    parts = list(minibatches(batch, 4))
    assert sorted(part.count for part in parts) == [2, 4, 4]
    assert sorted(np.concatenate([part["a"] for part in parts])) == list(range(10))
    assert next(minibatches(batch, 0)) is batch
    scaled = standardized(np.arange(4.0))
    assert scaled.mean() == pytest.approx(0) and scaled.std() == pytest.approx(1)
    assert averaged({"x": [1, 3], "y": [{"a": 1}]}) == {"x": 2.0, "y": {"a": 1}}
    worker = SimpleNamespace(learn_on_batch=lambda part: {"learner_stats": {"rows": part.count}})
    told = do_minibatch_sgd(batch, {"default_policy": None}, worker, 2, 5, ["a"])
    assert told["default_policy"]["learner_stats"] == {"rows": 5.0}


def test_locks_and_summaries():
    class Locked:
        @with_lock
        def value(self):
            return 3

    with pytest.raises(AttributeError, match="_lock"):
        Locked().value()
    locked = Locked()
    locked._lock = threading.RLock()
    assert locked.value() == 3
    words = summarize({"batch": SampleBatch({"obs": np.arange(3.0)})})
    assert "SampleBatch" in words and "min=0.000, max=2.000, mean=1.000" in words
    assert log_once("test_locks_and_summaries") and not log_once("test_locks_and_summaries")
