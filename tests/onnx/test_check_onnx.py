"""Problems of files are reported: each problem that a file for Unity can have, and files that are not ONNX."""

import re

import numpy as np
import onnx
import pytest
from exported import changed, policy_of
from gymnasium import spaces
from onnx import TensorProto, helper, numpy_helper

from rookery.core.errors import ConfigError
from rookery.models.memory import MemoryConfig
from rookery.onnx import check, check_file, write_generic, write_unity
from rookery.onnx.check import inspect_file, problems_in

HYBRID = spaces.Dict(jump=spaces.MultiDiscrete([3, 2]), move=spaces.Box(-1, 1, (2,)))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A file for Unity with everything that one can have."""
    policy = policy_of(spaces.Box(-1, 1, (5,)), HYBRID, memory=MemoryConfig(kind="lstm", size=8))
    return write_unity(policy, tmp_path_factory.mktemp("onnx") / "good.onnx").path


def port(model, name):
    return next(one for one in (*model.graph.input, *model.graph.output) if one.name == name)


def drop_output(name):
    return lambda model: model.graph.output.remove(port(model, name))


def constant(name, value):
    def change(model):
        old = next(one for one in model.graph.initializer if one.name == f"{name}.value")
        old.CopyFrom(numpy_helper.from_array(np.asarray(value), old.name))
        kind = port(model, name).type.tensor_type
        kind.elem_type = helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype)
        for dim, size in zip(kind.shape.dim, np.shape(value), strict=True):
            dim.dim_value = size

    return change


def renamed(old, new):
    def change(model):
        for one in (*model.graph.input, *model.graph.output):
            one.name = new if one.name == old else one.name
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [new if name == old else name for name in names]

    return change


def fixed_batch(model):
    for dims in (port(model, "obs_0").type.tensor_type.shape.dim,):
        dims[0].dim_value = 1


def computed_fact(model):
    node = next(node for node in model.graph.node if node.output[0] == "memory_size")
    node.op_type = "Neg"


def unknown_operator(model):
    model.graph.node.append(helper.make_node("EyeLike", ["square"], ["eye"]))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(2, dtype=np.float32), "square"))
    model.graph.output.append(helper.make_tensor_value_info("eye", TensorProto.FLOAT, [2, 2]))


def not_a_number(model):
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [64, 5]:
            tensor.CopyFrom(numpy_helper.from_array(np.full((64, 5), np.nan, np.float32), tensor.name))


BROKEN = {
    "no version": (drop_output("version_number"), "version_number is a constant but no output"),
    "version 4": (constant("version_number", [np.float32(4)]), "version_number is 4; the package reads"),
    "version as a whole number": (constant("version_number", np.array([3])), "version_number has the type int64"),
    "no memory size": (drop_output("memory_size"), "memory_size is a constant but no output"),
    "memory size computed": (computed_fact, "memory_size is computed, and Barracuda looks for a constant"),
    "memory size too large": (
        constant("memory_size", [np.float32(32)]),
        r"recurrent_in has the shape \[batch, 1, 16\], not \[batch, 1, 32\]",
    ),
    "memory size forgotten": (constant("memory_size", [np.float32(0)]), "There is recurrent_in, and memory_size is 0"),
    "no memory out": (drop_output("recurrent_out"), "memory_size is 16, and there is no recurrent_out"),
    "version 2 that remembers": (constant("version_number", [np.float32(2)]), "refuses models of version 2 that do"),
    "no width of numbers": (drop_output("continuous_action_output_shape"), "continuous_action_output_shape is a const"),
    "wrong width": (
        constant("continuous_action_output_shape", [np.float32(3)]),
        "continuous_actions is 2 wide where continuous_action_output_shape says 3",
    ),
    "wrong branches": (
        constant("discrete_action_output_shape", np.array([[3, 3]], np.float32)),
        "action_masks is 5 wide where the branches have 6 choices",
    ),
    "branches too small": (
        constant("discrete_action_output_shape", np.array([[4, 1]], np.float32)),
        "where the branches have",
    ),
    "no masks": (
        renamed("action_masks", "action_mask"),
        "action_mask is no input that the package gives; did you mean",
    ),
    "old name": (renamed("obs_0", "vector_observation"), "vector_observation is no input that the package gives"),
    "a gap": (renamed("obs_0", "obs_1"), r"Observations are numbered \[1\]"),
    "one agent at a time": (fixed_batch, "Input obs_0 takes one agent at a time"),
    "unknown operator": (unknown_operator, "Unity knows no operator EyeLike"),
    "not finite": (not_a_number, "is not finite for a batch of zeros"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_wrong_with_a_file_for_unity_is_said(what, good, tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(good.read_bytes())
    change, told = BROKEN[what]
    assert check_file(path) == []
    changed(path, change)
    problems = check_file(path)
    assert any(re.search(told, problem) for problem in problems), problems


def version_2(numbers=0, branches=(), legacy=False, memory=0.0, width=None):
    """A model in the form of ML-Agents 0.17 to 0.25: log-probabilities of all choices, of which those that the mask
    forbids are not finite. `legacy`: the outputs of the first of these releases; `width`: of the log-probabilities.
    """
    width = sum(branches) if width is None else width
    info, node = helper.make_tensor_value_info, helper.make_node
    facts = {"version_number": [2.0], "memory_size": [memory]}
    if not legacy:
        facts |= {"continuous_action_output_shape": [numbers]} if numbers else {}
        facts |= {"discrete_action_output_shape": [sum(branches)]} if branches else {}
    else:
        facts |= {"is_continuous_control": [bool(numbers)], "action_output_shape": [numbers or sum(branches)]}
    stored = {f"{name}.value": np.array(value, np.float32) for name, value in facts.items()}
    nodes = [node("Identity", [f"{name}.value"], [name]) for name in facts]
    inputs, outputs = [("vector_observation", 4)], [(name, None) for name in facts]
    if numbers:
        stored["to_numbers"] = np.ones((4, numbers), np.float32)
        outputs.append(("action" if legacy else "continuous_actions", numbers))
        nodes.append(node("MatMul", ["vector_observation", "to_numbers"], [outputs[-1][0]]))
    if branches:
        stored |= {"to_choices": np.ones((4, width), np.float32), "taken": np.zeros((sum(branches), width), np.float32)}
        stored["taken"][: min(width, sum(branches))] = np.eye(min(width, sum(branches)), width)
        inputs.append(("action_masks", sum(branches)))
        outputs.append(("action" if legacy else "discrete_actions", width))
        nodes += [
            node("MatMul", ["vector_observation", "to_choices"], ["scores"]),
            node("Exp", ["scores"], ["weights"]),
            node("MatMul", ["action_masks", "taken"], ["allowed"]),
            node("Mul", ["weights", "allowed"], ["kept"]),
            node("ReduceSum", ["kept"], ["total"], axes=[1], keepdims=1),
            node("Div", ["kept", "total"], ["probabilities"]),
            node("Log", ["probabilities"], [outputs[-1][0]]),
        ]
    graph = helper.make_graph(
        nodes, "model",
        [info(name, TensorProto.FLOAT, ["batch", size]) for name, size in inputs],
        [info(name, TensorProto.FLOAT, ["batch", size] if size else [1]) for name, size in outputs],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)])
    model.ir_version = 4
    return model


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("form", [{"numbers": 2}, {"branches": (3, 2)}, {"numbers": 2, "branches": (3,)}])
def test_models_of_version_2_are_read_as_the_package_reads_them(form, legacy, tmp_path):
    if legacy and len(form) == 2:
        pytest.skip("one kind of actions was possible")
    path = tmp_path / "old.onnx"
    path.write_bytes(version_2(**form, legacy=legacy).SerializeToString())
    report = inspect_file(path)
    assert (report.version, report.problems) == (2, [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda model: model.graph.node.pop(), "breaks the rules of ONNX"),
        (drop_output("discrete_action_output_shape"), "discrete_action_output_shape is a constant but no output"),
        (lambda model: model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.array([6], np.float32),
         "discrete_action_output_shape.value")), "action_masks is 5 wide where the branches have 6 choices"),
        (lambda model: model.graph.initializer[3].CopyFrom(numpy_helper.from_array(np.full((4, 5), np.nan, np.float32),
         "to_choices")), "discrete_actions is not finite for a batch of numbers"),
    ],
)  # fmt: skip
def test_problems_of_models_of_version_2_are_said(change, problem, tmp_path):
    model = version_2(branches=(3, 2))
    change(model)
    path = tmp_path / "old.onnx"
    path.write_bytes(model.SerializeToString())
    problems = check_file(path)
    assert any(problem in one for one in problems), problems


def test_numbers_of_version_2_that_are_not_finite_for_zeros_are_said_beside_a_mask(tmp_path):
    model = version_2(numbers=2, branches=(3,))
    at = next(node for node in model.graph.node if node.output[0] == "continuous_actions")
    at.op_type, at.input[1] = "Div", "vector_observation"
    path = tmp_path / "old.onnx"
    path.write_bytes(model.SerializeToString())
    assert any("continuous_actions is not finite for a batch of zeros" in one for one in check_file(path))


def test_log_probabilities_of_too_few_choices_are_noted(tmp_path):
    path = tmp_path / "old.onnx"
    path.write_bytes(version_2(branches=(3, 2), width=3).SerializeToString())
    report = inspect_file(path)
    assert report.problems == []
    assert [note for note in report.notes if "is 3 wide where the branches have 5 choices" in note]


def test_facts_need_no_row_for_each_agent(good, tmp_path):
    def many(model):
        port(model, "discrete_action_output_shape").type.tensor_type.shape.dim[0].dim_param = "batch"

    path = tmp_path / "facts.onnx"
    path.write_bytes(good.read_bytes())
    changed(path, many)
    assert check_file(path) == []


def test_files_that_are_none_are_told_from_those_that_are(good, tmp_path):
    for content in (b"", b"not at all", b"\x08\x07", bytes(range(256)) * 10, good.read_bytes()[:3000]):
        path = tmp_path / "x.onnx"
        path.write_bytes(content)
        assert check_file(path), content[:10]
    with pytest.raises(ConfigError, match="there is no such file; did you mean 'x.onnx'"):
        check_file(tmp_path / "y.onnx")
    with pytest.raises(ConfigError, match="cannot be read"):
        check_file(tmp_path)


def test_weights_in_other_files_are_not_read(good, tmp_path):
    path = tmp_path / "x.onnx"
    onnx.save(onnx.load(good), path, save_as_external_data=True, location="weights", size_threshold=0)
    assert check_file(path) == ["Its weights are in other files, which are not read."]


def test_a_file_for_anybody_is_judged_by_running_it(tmp_path):
    policy = policy_of(spaces.Box(-1, 1, (5,)), spaces.Discrete(3))
    path = write_generic(policy, tmp_path / "x.onnx").path
    look = inspect_file(path)
    assert (look.kind, look.problems) == ("generic", [])

    def baked(model):
        node = next(node for node in model.graph.node if node.op_type == "Reshape")
        shape = next(one for one in model.graph.initializer if one.name == node.input[1])
        shape.CopyFrom(numpy_helper.from_array(np.array([1]), shape.name))

    assert "It fails on a batch of 3" in check_file(changed(path, baked))[0]


def test_a_file_without_deterministic_actions_is_noted(good, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(good.read_bytes())
    look = inspect_file(changed(path, drop_output("deterministic_discrete_actions")))
    assert not look.problems
    assert look.notes == [
        "There is no output deterministic_discrete_actions: agents cannot use Deterministic Inference."
    ]


def test_operators_that_old_packages_do_not_know_are_noted(tmp_path):
    policy = policy_of(spaces.Box(-1, 1, (5,)), spaces.Discrete(3), activation="gelu")
    look = inspect_file(write_unity(policy, tmp_path / "x.onnx").path)
    assert not look.problems
    assert "knows no Erf" in look.notes[0]


def test_a_file_that_was_cut_off_is_called_incomplete(good, tmp_path):
    cut, other = tmp_path / "cut.onnx", tmp_path / "other.onnx"
    cut.write_bytes(good.read_bytes()[:500])
    other.write_text("no model")
    assert "incomplete" in check_file(cut)[0]
    assert check_file(other) == ["It is not an ONNX file: it does not begin like one."]


def as_bytes(nodes, shape, initializers=()):
    """A file that computes ``action`` of ``obs``."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("obs", "action")]
    graph = helper.make_graph(nodes, "policy", ports[:1], ports[1:], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@pytest.mark.regression("exhausted memory or time", "Checking an ONNX file is bounded in time and input size")
def test_a_file_that_computes_without_end_or_has_a_huge_input_is_told(monkeypatch):
    monkeypatch.setattr(check, "SECONDS", 0.3)
    same = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in ("cond", "x")]
    inputs = [("i", TensorProto.INT64, []), ("cond", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, ["n", 3])]
    outputs = [("cond_out", TensorProto.BOOL, []), ("x_out", TensorProto.FLOAT, ["n", 3])]
    body = helper.make_graph(
        same, "body", *([helper.make_tensor_value_info(*one) for one in ports] for ports in (inputs, outputs))
    )
    often = [numpy_helper.from_array(np.array(10**15), "often"), numpy_helper.from_array(np.array(True), "go")]
    loop = helper.make_node("Loop", ["often", "go", "obs"], ["action"], body=body)
    (problem,) = problems_in(as_bytes([loop], ["n", 3], often))
    assert "It fails on a batch of 1 of zeros" in problem and "terminate" in problem
    (problem,) = problems_in(as_bytes([helper.make_node("Identity", ["obs"], ["action"])], [10**12]))
    assert problem == "obs has the shape (1000000000000,), too large for a test run."


@pytest.mark.regression("foreign code", "An ONNX file shows nothing of other files of this machine")
def test_weights_of_a_node_that_stand_in_other_files_are_not_read():
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="secret")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("MatMul", ["obs", "w"], ["action"]),
    ]
    assert problems_in(as_bytes(nodes, ["n", 3])) == ["Its weights are in other files, which are not read."]
