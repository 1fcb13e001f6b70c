"""Files for Unity: equal to the policy for every network type, with its sampling frequencies, masks and memory."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import observed, outputs, policy_of, sensed
from gymnasium import spaces

from messages import check_error
from rookery.core.spaces.entity_set import EntitySet
from rookery.models.cells.table import CELLS
from rookery.models.implicit_head import ImplicitQValues
from rookery.models.memory import MemoryConfig
from rookery.models.q_head import QValues
from rookery.models.squashed import Deterministic, Squashed
from rookery.onnx import ExportError, check_file, write_unity
from rookery.onnx.graph import Graph
from rookery.onnx.heads import parameters_of
from rookery_mlagents.link.image_messages import encoded
from rookery_mlagents.link.layouts import layout_of
from rookery_mlagents.link.messages import (
    ActionSpecProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    ObservationProto,
)
from rookery_mlagents.onnx_unity import senses_of
from selection import slow_except

NUMBERS = spaces.Box(-1, 1, (5,))
CHOICE = spaces.Discrete(4)
BRANCHES = spaces.MultiDiscrete([2, 5, 3])
MOVES = spaces.Box(-1, 1, (3,))
HYBRID = spaces.Dict(jump=spaces.Discrete(3), lights=spaces.MultiBinary(2), move=spaces.Box(-1, 1, (2,)))


def picture(*shape, dtype=np.uint8):
    return spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)


THINGS = spaces.Dict(
    own=NUMBERS, things=EntitySet(spaces.Dict(place=spaces.Box(-1, 1, (2,)), color=spaces.Discrete(3)), 6)
)
MIXED = spaces.Dict(
    box=spaces.Box(-1, 1, (2, 3)),
    bytes=picture(4),
    flags=spaces.MultiBinary(4),
    keys=spaces.Discrete(3, start=5),
    parts=spaces.Tuple((spaces.MultiDiscrete([2, 4]), picture(7, 7, 3))),
)
GOAL = spaces.Dict(goal=spaces.Discrete(3), seen=NUMBERS)

NETWORKS = {
    "tanh": (NUMBERS, CHOICE, {}),
    "relu, layer norm": (NUMBERS, BRANCHES, {"activation": "relu", "layer_norm": True}),
    "gelu, normalizer": (NUMBERS, MOVES, {"activation": "gelu", "normalize_obs": True}),
    "elu": (NUMBERS, HYBRID, {"activation": "elu"}),
    "silu": (NUMBERS, spaces.MultiBinary(3), {"activation": "silu"}),
    "no layers": (MIXED, CHOICE, {"hidden": ()}),
    "everything": (MIXED, MOVES, {"normalize_obs": True}),
    "nature": (picture(40, 40, 3), CHOICE, {"cnn": "nature"}),
    "impala": (picture(3, 12, 12), MOVES, {"cnn": "impala"}),
    "resnet": (picture(3, 16, 18), MOVES, {"cnn": "resnet"}),
    "nature_leaky": (picture(3, 36, 38), MOVES, {"cnn": "nature_leaky"}),
    "small": (picture(14, 14, 3), CHOICE, {"cnn": "small"}),
    "drq": (picture(16, 17, 3), MOVES, {"cnn": "drq"}),
    "simple": (picture(20, 24, 3), CHOICE, {"cnn": "simple", "cnn_features": 40}),
    "match3": (picture(4, 9, 8), BRANCHES, {"cnn": "match3"}),
    "flat": (picture(9, 8, 4), CHOICE, {"cnn": "flat"}),
    "flat codes": (picture(9, 8, 4), CHOICE, {"cnn": "flat", "categorical_images": ("obs",)}),
    "float picture": (picture(12, 12, 3, dtype=np.float32), CHOICE, {"normalize_obs": True}),
    "codes": (picture(7, 7, 3), CHOICE, {"categorical_images": ("obs",)}),
    "entities": (THINGS, MOVES, {"entity_size": 16}),
    "entities in a row": (THINGS, CHOICE, {"entities_as": "flat"}),
    "box as a set": (spaces.Dict(a=NUMBERS, b=spaces.Box(-1, 1, (4, 3))), CHOICE, {"entities": ("b",)}),
    "goal": (GOAL, CHOICE, {"goals": ("goal",), "layer_norm": True}),
}
HEADS = {
    "sac": (MOVES, Squashed()),
    "sac, tanh": (MOVES, Squashed(log_std="tanh")),
    "sac, gsde": (MOVES, Squashed("gsde")),
    "sac, hybrid": (spaces.Dict(jump=BRANCHES, move=MOVES), Squashed()),
    "td3": (MOVES, Deterministic()),
    "dqn": (CHOICE, QValues()),
    "c51": (CHOICE, QValues("categorical", 21, -1.0, 1.0)),
    "qr": (CHOICE, QValues("quantile", 9, dueling=True, dueling_hidden=(8,))),
    "noisy": (CHOICE, QValues(dueling=True, noisy=True, explore="boltzmann")),
    "implicit": (CHOICE, ImplicitQValues("quantile", 5)),
}


def made(name):
    if name in HEADS:
        action, head = HEADS[name]
        return policy_of(NUMBERS, action, head)
    obs, action, model = NETWORKS[name]
    return policy_of(obs, action, **model)


def allowed(policy, rows):
    """Masks of Unity's that allow everything."""
    width = sum(policy.action_spec.sizes) + 2 * policy.action_spec.num_flags
    return {"action_masks": np.ones((rows, width), np.float32)}


def expected(policy, action):
    """The deterministic outputs for stored actions."""
    spec = policy.action_spec
    stored, count = action.reshape(len(action), -1).numpy(), len(spec.sizes) + spec.num_flags
    return {
        "deterministic_discrete_actions": stored[:, :count].astype(np.int64),
        "deterministic_continuous_actions": np.clip(stored[:, count:], -1, 1),
    }


LATER = ["everything", "elu", "entities", "codes", "goal", "impala", "sac", "c51"]
"""Networks whose operators differ from opset to opset."""


@pytest.mark.parametrize(
    ("name", "opset"), [*((name, 9) for name in (*NETWORKS, *HEADS)), *((name, 15) for name in LATER), ("sac", 11)]
)
def test_a_file_for_unity_equals_the_policy(name, opset, tmp_path):
    policy = made(name)
    written = write_unity(policy, tmp_path / "x.onnx", opset=opset)
    assert written.difference <= 1e-5
    assert check_file(written.path) == []
    tree, rows = observed(policy)
    given = outputs(written.path, **sensed(policy, tree), **allowed(policy, 24))
    with torch.no_grad():
        action, _ = policy.act(rows, None, True)
    assert len(np.unique(action.numpy().round(3), axis=0)) > 1  # the policy looks at what it sees
    for output, wanted in expected(policy, action).items():
        if wanted.shape[1]:
            assert given[output].dtype == wanted.dtype
            assert np.allclose(given[output], wanted, atol=1e-5)
        else:
            assert output not in given


@pytest.mark.parametrize("kind", slow_except("gru", "attention", "frames", of=[*CELLS, "frames"]))
def test_memory_over_several_steps_is_that_of_the_policy(kind, tmp_path):
    memory = MemoryConfig(frame_stack=3) if kind == "frames" else MemoryConfig(kind=kind, size=16, layers=2, context=3)
    policy = policy_of(spaces.Dict(look=picture(8, 8, 3), own=NUMBERS), HYBRID, memory=memory, normalize_obs=True)
    path = write_unity(policy, tmp_path / "x.onnx").path
    facts = outputs(path, **sensed(policy, observed(policy, 2)[0]), **allowed(policy, 2), **memory_of(policy, 2))
    assert facts["memory_size"].tolist() == [policy.memory_size]
    own, theirs = policy.initial_memory(6), memory_of(policy, 6)
    tree, rows = observed(policy, 6 * 5)
    for step in range(5):
        part = slice(6 * step, 6 * step + 6)
        with torch.no_grad():
            action, _ = policy.act({path: leaf[part] for path, leaf in rows.items()}, None, True, own)
        seen = sensed(policy, {path: leaf[part] for path, leaf in tree.items()})
        given = outputs(path, **seen, **allowed(policy, 6), **theirs)
        theirs = {"recurrent_in": given["recurrent_out"]}
        assert np.allclose(given["recurrent_out"][:, 0], own, atol=1e-5)
        for output, wanted in expected(policy, action).items():
            assert np.allclose(given[output], wanted, atol=1e-5)
    if kind == "lstm":  # h, then c, as ML-Agents has it
        h = given["recurrent_out"][:, 0, :16]
        assert np.abs(h).max() < 1


def memory_of(policy, rows):
    return {"recurrent_in": np.zeros((rows, 1, policy.memory_size), np.float32)}


# --- what is drawn ----------------------------------------------------------------------------------------------------

DRAWS = 20_000
SIGMAS = 4.5


def off(counts, probabilities):
    """Largest deviation of frequencies from probabilities, in standard errors."""
    total = counts.sum()
    error = np.sqrt(np.maximum(probabilities * (1 - probabilities), 1e-9) / total)
    return np.max(np.abs(counts / total - probabilities) / error)


def repeated(policy, rows=DRAWS):
    """One observation many times."""
    tree, tensors = observed(policy, 1)
    feeds = {name: np.repeat(value, rows, 0) for name, value in sensed(policy, tree).items()}
    with torch.no_grad():
        return feeds, {name: value.detach() for name, value in parameters_of(policy(tensors)).items()}


def test_choices_and_flags_are_drawn_as_often_as_the_policy_draws_them(tmp_path):
    policy = policy_of(NUMBERS, spaces.Dict(a=BRANCHES, b=spaces.MultiBinary(2)))
    with torch.no_grad():  # so that no branch is near even odds
        policy.head.linear.bias.add_(torch.sin(2.0 * torch.arange(12)))
    path = write_unity(policy, tmp_path / "x.onnx").path
    feeds, parameters = repeated(policy)
    onnxruntime.set_seed(0)
    drawn = outputs(path, **feeds, **allowed(policy, DRAWS))["discrete_actions"]
    probabilities = parameters["log_probs"][0].exp().double().numpy()
    starts = np.cumsum((0, *policy.action_spec.sizes))
    for branch, size in enumerate(policy.action_spec.sizes):
        own = probabilities[starts[branch] : starts[branch] + size]
        counts = np.bincount(drawn[:, branch], minlength=size)
        assert off(counts, own) < SIGMAS
        assert off(counts, np.full(size, 1 / size)) > 2 * SIGMAS  # so the test would distinguish these from even odds
    for flag, yes in enumerate(torch.sigmoid(parameters["flag_logits"][0]).double().numpy()):
        counts = np.bincount(drawn[:, 3 + flag], minlength=2)
        assert off(counts, np.array([1 - yes, yes])) < SIGMAS
    together = np.bincount(drawn[:, 0] * 2 + drawn[:, 3], minlength=4)  # branches are independent of each other
    first, yes = probabilities[1], float(torch.sigmoid(parameters["flag_logits"][0, 0]))
    both = np.outer([1 - first, first], [1 - yes, yes]).ravel()
    assert off(together, both) < SIGMAS


@pytest.mark.parametrize("head", [None, Squashed(), Squashed("gsde")], ids=["ppo", "sac", "gsde"])
def test_numbers_are_drawn_from_the_distribution_of_the_policy(head, tmp_path):
    policy = policy_of(NUMBERS, MOVES, head, log_std_init=-1.0)
    path = write_unity(policy, tmp_path / "x.onnx").path
    feeds, parameters = repeated(policy)
    onnxruntime.set_seed(0)
    drawn = np.sort(outputs(path, **feeds)["continuous_actions"], 0)
    mean, std = (parameters[name][0].double() for name in ("mean", "log_std"))
    std = std.exp()
    noise = torch.randn(DRAWS, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def quantiles(mean):
        raw = mean + std * noise
        return np.sort((raw.clamp(-1, 1) if head is None else raw.tanh()).numpy(), 0)

    assert np.abs(drawn).max() <= 1
    assert np.abs(np.corrcoef(outputs(path, **feeds)["continuous_actions"].T) - np.eye(3)).max() < 0.05
    share = np.linspace(0.01, 0.99, 50)
    apart = np.abs(np.quantile(drawn, share, 0) - np.quantile(quantiles(mean), share, 0)).max()
    shifted = np.abs(np.quantile(drawn, share, 0) - np.quantile(quantiles(mean + 0.1), share, 0)).max()
    assert apart < 0.03 < shifted


def test_what_a_mask_forbids_is_never_drawn(tmp_path):
    policy = policy_of(NUMBERS, spaces.Dict(a=BRANCHES, b=spaces.MultiBinary(1)))
    path = write_unity(policy, tmp_path / "x.onnx").path
    tree, _ = observed(policy, 5_000)
    rng = np.random.default_rng(0)
    masks = rng.random((5_000, 12)) < 0.5
    for start, size in ((0, 2), (2, 5), (7, 3), (10, 2)):
        masks[np.arange(5_000), start + rng.integers(0, size, 5_000)] = True
    given = outputs(path, **sensed(policy, tree), action_masks=masks.astype(np.float32))
    for name in ("discrete_actions", "deterministic_discrete_actions"):
        places = given[name] + np.array([0, 2, 7, 10])
        assert np.take_along_axis(masks, places, 1).all()
        assert len(np.unique(given[name], axis=0)) == 60  # and everything else is, at some time


def test_where_everything_is_forbidden_the_file_still_runs(tmp_path):
    # Unity runs a model once on zeros, masks too, when it imports it.
    policy = policy_of(NUMBERS, BRANCHES)
    path = write_unity(policy, tmp_path / "x.onnx").path
    given = outputs(path, obs_0=np.zeros((1, 5), np.float32), action_masks=np.zeros((1, 10), np.float32))
    assert (given["discrete_actions"] < [2, 5, 3]).all()


def test_masks_of_values_choose_the_best_that_is_allowed(tmp_path):
    policy = policy_of(spaces.Dict(action_mask=spaces.MultiBinary(4), observation=NUMBERS), CHOICE, QValues())
    path = write_unity(policy, tmp_path / "x.onnx").path
    tree, rows = observed(policy, 200)
    masks = tree["action_mask"].astype(np.float32)
    given = outputs(path, obs_0=tree["observation"], action_masks=masks)
    with torch.no_grad():
        action, _ = policy.act(rows, None, True)
    assert (given["deterministic_discrete_actions"][:, 0] == action.numpy()).all()
    assert (given["discrete_actions"] == given["deterministic_discrete_actions"]).all()


# --- the form ---------------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_are_those_of_the_package(tmp_path):
    policy = policy_of(
        spaces.Dict(look=picture(8, 8, 3), own=NUMBERS), HYBRID, memory=MemoryConfig(kind="lstm", size=8)
    )
    model = onnx.load(write_unity(policy, tmp_path / "x.onnx").path)
    shapes = {
        port.name: [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]
        for port in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "obs_0": ["batch", 3, 8, 8],
        "obs_1": ["batch", 5],
        "action_masks": ["batch", 7],
        "recurrent_in": ["batch", 1, 16],
        "version_number": [1],
        "memory_size": [1],
        "continuous_actions": ["batch", 2],
        "continuous_action_output_shape": [1],
        "deterministic_continuous_actions": ["batch", 2],
        "discrete_actions": ["batch", 3],
        "discrete_action_output_shape": [1, 3],
        "deterministic_discrete_actions": ["batch", 3],
        "recurrent_out": ["batch", 1, 16],
    }
    assert model.opset_import[0].version == 9
    assert model.ir_version == 4
    facts = {"version_number", "memory_size", "continuous_action_output_shape", "discrete_action_output_shape"}
    by_output = {node.output[0]: node for node in model.graph.node}
    constants = {tensor.name for tensor in model.graph.initializer}
    for name in facts:
        assert by_output[name].op_type == "Identity"
        assert by_output[name].input[0] in constants
    given = outputs(
        tmp_path / "x.onnx", **sensed(policy, observed(policy, 1)[0]), **allowed(policy, 1), **memory_of(policy, 1)
    )
    assert given["discrete_action_output_shape"].tolist() == [[3, 2, 2]]
    assert given["version_number"].tolist() == [3]


def test_sensors_that_are_numbered_keep_their_numbers(tmp_path):
    parts = {f"obs_{number}": spaces.Box(-1, 1, (number + 1,)) for number in range(11)}
    policy = policy_of(spaces.Dict(parts), CHOICE)
    tree, rows = observed(policy)
    path = write_unity(policy, tmp_path / "x.onnx").path
    given = outputs(path, **tree, **allowed(policy, 24))
    with torch.no_grad():
        action, _ = policy.act(rows, None, True)
    assert (given["deterministic_discrete_actions"][:, 0] == action.numpy()).all()


def test_what_a_player_shows_goes_into_the_file_sensor_by_sensor(tmp_path):
    """A policy for a player's behaviour: its sensors, as Unity would give them, in their order and channels first."""
    rng = np.random.default_rng(0)
    rows, png = 8, rng.integers(0, 256, (8, 8, 4, 3)).astype(np.uint8)  # channels last; its columns are no channels
    things = rng.normal(size=(rows, 4, 3)) * (np.arange(4) < rng.integers(0, 5, (rows, 1)))[:, :, None]
    shown = [
        ("z rays", rng.normal(size=(rows, 5)), (1,)),
        ("b view", rng.uniform(size=(rows, 3, 8, 6)), (1, 2, 2)),
        ("y narrow", rng.uniform(size=(rows, 3, 8, 3)), (1, 2, 2)),
        ("a things", things, (4, 1)),
        ("obs_0", rng.normal(size=(rows, 2)), (1,)),
    ]
    infos = []
    for row in range(rows):
        sensors = [
            ObservationProto(
                values.shape[1:], 0, float_data=FloatData(tuple(np.float32(values[row]).ravel().tolist())),
                dimension_properties=properties, name=name,
            )
            for name, values, properties in shown
        ]  # fmt: skip
        infos.append(AgentInfoProto(observations=(*sensors, encoded(png[row], "png"))))
    brain = BrainParametersProto(brain_name="A", action_spec=ActionSpecProto(2, 2, (2, 3)))
    layout = layout_of(brain, infos[0])
    tree = {}
    for number, sensor in enumerate(layout.sensors):
        tree[sensor.path] = sensor.stored(np.stack([sensor.value(info.observations[number]) for info in infos]))
    policy = policy_of(layout.obs.space, layout.action.space, info_mask=True, goals=("z rays",))
    assert [sense.leaf.path for sense in senses_of(policy.own_spec)] == [sensor.path for sensor in layout.sensors]
    path = write_unity(policy, tmp_path / "x.onnx").path
    feeds = {f"obs_{number}": np.float32(values) for number, (_, values, _) in enumerate(shown)}
    feeds["obs_5"] = np.float32(png.transpose(0, 3, 1, 2) / 255.0)
    given = outputs(path, **feeds, action_masks=np.ones((rows, 5), np.float32))
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tree.items()}
    with torch.no_grad():
        action, _ = policy.act({**tensors, "action_mask": torch.ones(rows, 5, dtype=torch.bool)}, None, True)
    assert (given["deterministic_discrete_actions"] == action[:, :2].numpy()).all()
    numbers = np.clip(action[:, 2:].numpy(), -1, 1)
    np.testing.assert_allclose(given["deterministic_continuous_actions"], numbers, atol=2e-5)


@pytest.mark.parametrize("action", [BRANCHES, MOVES], ids=["choices", "numbers"])
def test_version_two_has_one_action(action, tmp_path):
    policy = policy_of(MIXED, action)
    path = write_unity(policy, tmp_path / "x.onnx", version=2).path
    assert check_file(path) == []
    tree, rows = observed(policy)
    seen = sensed(policy, tree)  # of box, bytes, flags, keys and two parts
    vector = np.concatenate([seen[f"obs_{number}"] for number in (1, 2, 3, 4)], 1)
    feeds = {"obs_0": seen["obs_0"], "vector_observation": vector, "visual_observation_0": seen["obs_5"]}
    given = outputs(path, **feeds, **allowed(policy, 24))
    with torch.no_grad():
        parameters = parameters_of(policy(rows))
    assert given["version_number"].tolist() == [2]
    if action is BRANCHES:  # log-probabilities, by which Unity itself draws
        assert np.allclose(given["action"], parameters["log_probs"], atol=1e-5)
        assert given["is_continuous_control"].tolist() == [0]
        assert given["action_output_shape"].tolist() == [10]
    else:
        assert given["action"].shape == (24, 3)
        assert given["is_continuous_control"].tolist() == [1]


def test_unbounded_numbers_stay_what_they_are(tmp_path):
    policy = policy_of(NUMBERS, spaces.Box(np.array([-np.inf, 0], np.float32), np.array([np.inf, 8], np.float32)))
    tree, rows = observed(policy)
    given = outputs(write_unity(policy, tmp_path / "x.onnx").path, **sensed(policy, tree))
    with torch.no_grad():
        action, _ = policy.act(rows, None, True)
    assert np.allclose(given["deterministic_continuous_actions"][:, 0], action[:, 0], atol=1e-5)
    assert np.allclose(given["deterministic_continuous_actions"][:, 1], action[:, 1].clamp(-1, 1), atol=1e-5)


def test_every_code_of_a_picture_is_read_as_itself(tmp_path):
    policy = policy_of(picture(3, 3, 1), CHOICE, categorical_images=("obs",), cnn="small")
    stored = np.arange(40, dtype=np.uint8).reshape(40, 1, 1, 1).repeat(3, 1).repeat(3, 2)
    written = write_unity(policy, tmp_path / "x.onnx", observations={"obs": stored})
    assert (written.rows, written.given) == (40, True)
    given = outputs(written.path, obs_0=(stored / 255).astype(np.float32).transpose(0, 3, 1, 2), **allowed(policy, 40))
    with torch.no_grad():
        action, _ = policy.act({"obs": torch.from_numpy(stored)}, None, True)
    assert (given["deterministic_discrete_actions"][:, 0] == action.numpy()).all()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "told"),
    [(MOVES, "mean differs from the policy's by"), (CHOICE, r"differs from the policy's action in \d+ of 64 rows")],
    ids=["numbers", "choices"],
)
def test_a_graph_that_computes_something_else_is_not_written(action, told, tmp_path, monkeypatch):
    policy, path = policy_of(NUMBERS, action), tmp_path / "x.onnx"
    path.write_bytes(b"what was there")
    monkeypatch.setattr(Graph, "activation", lambda graph, name, x: graph.op("Relu", x))
    with pytest.raises(ExportError, match=told):
        write_unity(policy, path)
    assert path.read_bytes() == b"what was there"


def test_training_goes_on_as_if_nothing_had_been_exported(tmp_path):
    policy = policy_of(NUMBERS, CHOICE).train()
    state, before = torch.get_rng_state(), {name: value.clone() for name, value in policy.state_dict().items()}
    write_unity(policy, tmp_path / "x.onnx")
    assert policy.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())


def written(path, action=CHOICE, head=None, memory=None, **options):
    policy = policy_of(NUMBERS, action, head, memory=MemoryConfig(**memory or {}))
    return write_unity(policy, path, **options)


REFUSED = [
    ({"memory": {"kind": "gru", "previous_action": True}}, "ExportError: memory.previous_action: a file for Unity"),
    ({"memory": {"previous_reward": True}}, "ExportError: Unity passes no rewards to a model"),
    ({"memory": {"kind": "gru"}, "version": 2}, "ExportError: remembers (gru), and Unity refuses"),
    ({"memory": {"frame_stack": 2}, "version": 2}, "ExportError: remembers (memory.frame_stack=2)"),
    ({"action": HYBRID, "version": 2}, "ExportError: acts by numbers and choices"),
    ({"head": QValues(), "version": 2}, "ExportError: draws choices by their probabilities"),
    ({"opset": 8}, "ConfigError: opset 8: must be 9 to 15"),
    ({"version": 4}, "ConfigError: version 4"),
    ({"observations": {"obs": np.zeros((3, 4), np.float32)}}, "ConfigError: 'obs' is of shape"),
]


@pytest.mark.parametrize(("settings", "expected"), REFUSED)
def test_what_unity_has_no_place_for_is_refused_by_its_name(settings, expected, tmp_path):
    check_error(expected, written, tmp_path / "x.onnx", **settings)
