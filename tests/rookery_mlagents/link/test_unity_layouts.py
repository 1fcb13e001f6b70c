"""Sensors as leaves, messages as arrays and back, whatever is in them."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("google.protobuf")

from google.protobuf.message import DecodeError  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from PIL import Image  # noqa: E402
from test_unity_golden import GOLDEN  # noqa: E402
from unity_client import agents, brain, output, seen  # noqa: E402

from rookery.core.errors import RookeryError, SpaceError  # noqa: E402
from rookery.core.spaces.arrays import image_axes  # noqa: E402
from rookery.core.spaces.entity_set import EntitySet  # noqa: E402
from rookery_mlagents.link.grpc_server import RAW_OUTPUT  # noqa: E402
from rookery_mlagents.link.image_messages import encoded  # noqa: E402
from rookery_mlagents.link.layouts import BehaviorReader, layout_of, paths_of, sensor_layouts  # noqa: E402
from rookery_mlagents.link.messages import (  # noqa: E402
    PNG,
    ActionSpecProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    ListAgentActionProto,
    ObservationProto,
    UnityMessageProto,
)
from rookery_mlagents.link.protobuf_classes import proto  # noqa: E402
from rookery_mlagents.link.protobuf_wire import WireError, from_bytes, to_bytes  # noqa: E402


def reader_of(*observations: ObservationProto, numbers: int = 1, branches=()) -> BehaviorReader:
    return BehaviorReader(layout_of(brain("A", numbers, branches), AgentInfoProto(observations=observations)))


def raw(*infos: AgentInfoProto):
    """Agents as the link reads them."""
    content = to_bytes(output({"A": infos}))
    return proto(UnityMessageProto, RAW_OUTPUT).FromString(content).unity_output.rl_output.agent_infos["A"].value


# --- what there is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        ([""], ["obs"]),
        (["rays"], ["obs"]),
        (["", ""], ["obs_0", "obs_1"]),
        (["a", "b", "a"], ["a", "b", "a_2"]),
        (["action_mask", "central", "central/x"], ["action_mask_0", "central_1", "central_x_2"]),
        (["obs_0", "obs_1"], ["obs_0", "obs_1"]),
        (["obs_0", "obs_10", "obs_2"], ["obs_0", "obs_10_1", "obs_2"]),
        (["a/b", "obs"], ["a/b", "obs"]),
        (["x_1", "x", "x"], ["x_1", "x", "x_2"]),
        (["x_2", "x", "x"], ["x_2", "x", "x_2_2"]),
    ],
)
def test_leaves_are_called_after_sensors(names, paths):
    assert paths_of(names) == paths


CHW, HWC, NOTHING = (1, 2, 2), (2, 2, 1), ()


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("shape", "properties", "leaf", "channels"),
    [
        ((3, 10, 12), CHW, (3, 10, 12), 3),
        ((10, 12, 3), HWC, (10, 12, 3), 3),
        ((10, 12, 3), NOTHING, (10, 12, 3), 3),
        ((1, 8, 8), CHW, (1, 8, 8), 1),
        ((8, 8, 8), CHW, (8, 8, 8), 8),
        ((3, 10, 3), CHW, (10, 3, 3), 3),  # as it comes, its columns would be its channels
        ((8, 9, 8), CHW, (9, 8, 8), 8),
        ((8, 12, 9), HWC, (9, 8, 12), 9),
        ((8, 8, 9), HWC, (8, 8, 9), None),  # more channels than rows or columns: networks know no such thing
        ((2, 2, 3), CHW, (2, 2, 3), None),  # too small for a picture: as it comes
    ],
)
def test_channels_are_where_networks_look_for_them(shape, properties, leaf, channels, is_packed):
    values = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    obs = packed(values, properties) if is_packed else seen(values / 255, dimension_properties=properties)
    reader = reader_of(obs)
    (made,) = reader.layout.obs.leaves
    (sensor,) = reader.layout.sensors
    if channels is None and min(shape) > 2:
        assert "fewer channels" in reader.layout.notes[0] and made.shape == shape
        return
    assert made.shape == leaf and made.dtype == (np.uint8 if is_packed else np.float32) and not reader.layout.notes
    axes = image_axes(made.shape)
    assert (None if axes is None else axes[0]) == channels
    for _ in range(2):
        asking, _ = reader.read(raw(AgentInfoProto(observations=(obs,))))
        found = asking.obs["obs"][0] if is_packed else np.rint(asking.obs["obs"][0] * 255)
        first = properties == CHW
        moved = np.moveaxis(values, *((0, 2) if first else (2, 0))) if sensor.is_turned else values
        np.testing.assert_array_equal(found, moved)


def packed(values: np.ndarray, properties) -> ObservationProto:
    """An image in as many PNGs as it needs."""
    planes = np.moveaxis(values, 0, 2) if properties == CHW else values
    channels, content = planes.shape[2], b""
    planes = np.repeat(planes, 3, axis=2) if channels == 1 else np.pad(planes, ((0, 0), (0, 0), (0, -channels % 3)))
    for start in range(0, planes.shape[2], 3):
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(planes[:, :, start : start + 3])).save(file, "PNG")
        content += file.getvalue()
    return ObservationProto(values.shape, PNG, content, dimension_properties=properties)


def test_tables_of_any_length_are_sets():
    values = np.array([[1, 2], [0, 0], [0, -1], [0, 0]], np.float32)
    obs = seen(values, "b", dimension_properties=(4, 1))
    reader = reader_of(seen([1], "a"), obs, seen(values, "c", dimension_properties=(1, 1)))
    assert list(reader.layout.obs.space.spaces) == ["a", "b", "c"]
    space = reader.layout.obs.space["b"]
    assert isinstance(space, EntitySet) and space.max_entities == 4
    asking, _ = reader.read(raw(AgentInfoProto(observations=(seen([1], "a"), obs, seen(values, "c")))))
    assert asking.obs["b"][0, :, 0].tolist() == [1, 0, 1, 0] and (asking.obs["b"][0, :, 1:] == values).all()
    assert (asking.obs["c"][0] == values).all()


def test_the_order_of_sensors_is_that_of_leaves():
    layout = reader_of(seen([1], "z"), seen([2], "a", observation_type=1), seen([3], "m")).layout
    assert [leaf.path for leaf in layout.obs.leaves] == ["z", "a", "m"] and layout.goals == ("a",)


@pytest.mark.parametrize(
    ("told", "kind", "sizes", "numbers"),
    [
        (BrainParametersProto((3,), (), 1, "A"), "box", (), 3),
        (BrainParametersProto((3,), (), 0, "A"), "discrete", (3,), 0),
        (BrainParametersProto((3, 2), (), 0, "A"), "multi_discrete", (3, 2), 0),
        (BrainParametersProto((3, 2), (), 0, "A", action_spec=ActionSpecProto()), "multi_discrete", (3, 2), 0),
        (BrainParametersProto((7,), (), 1, "A", action_spec=ActionSpecProto(2, 1, (4,))), "composite", (4,), 2),
        (BrainParametersProto((), (), 0, "A", action_spec=ActionSpecProto(0, 2, (1, 4))), "multi_discrete", (1, 4), 0),
    ],
)
def test_actions_are_those_that_new_and_old_players_say(told, kind, sizes, numbers):
    layout = layout_of(told, AgentInfoProto(observations=(seen([1]),)))
    assert (layout.action.kind, layout.action.sizes, layout.action.num_numbers) == (kind, sizes, numbers)
    assert layout.obs.has_mask == bool(sizes)


@pytest.mark.parametrize(
    ("told", "obs", "words"),
    [
        (BrainParametersProto(brain_name="A"), seen([1]), "behaviour 'A' has no actions"),
        (brain("A", 1), ObservationProto(), r"'obs' has the shape \(\)"),
        (brain("A", 1), ObservationProto((3, 0)), r"'obs' has the shape \(3, 0\)"),
        (brain("A", 1), ObservationProto((2**31 - 1, 2**31 - 1)), r"'obs' has the shape \(2147483647, 2147483647\)"),
        (brain("A", -1), seen([1]), "decides -1 numbers"),
        (brain("A", 0, (2, 0)), seen([1]), r"branches of \(2, 0\)"),
        (brain("A", 0, (2**31 - 1,)), seen([1]), "branches of"),
    ],
)
def test_what_cannot_be_is_refused(told, obs, words):
    with pytest.raises(SpaceError, match=words):
        layout_of(told, AgentInfoProto(observations=(obs,)))


# --- messages as arrays -----------------------------------------------------------------------------------------------

floats = st.floats(width=32, allow_nan=False) | st.just(-0.0)


@st.composite
def scenes(draw):
    """Sensors, and agents that see, end and are forbidden something."""
    shapes = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3))
    branches = draw(st.lists(st.integers(1, 4), max_size=2).map(tuple))
    infos = []
    for number in draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True)):
        values = [draw(st.lists(floats, min_size=n, max_size=n)) for n in map(int, map(np.prod, shapes))]
        sight = tuple(
            ObservationProto(
                shape, float_data=FloatData(tuple(some)), dimension_properties=(1,) * len(shape), name=name
            )
            for shape, some, name in zip(shapes, values, "xyz", strict=False)
        )
        mask = tuple(draw(st.lists(st.booleans(), min_size=sum(branches), max_size=sum(branches))))
        infos.append(
            AgentInfoProto(
                draw(floats), draw(st.booleans()), draw(st.booleans()), number, draw(st.sampled_from([mask, ()])),
                sight, draw(st.integers(0, 3)), draw(floats),
            )
        )  # fmt: skip
    return branches, infos


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_agents_are_what_was_sent(scene):
    branches, infos = scene
    reader = reader_of(*infos[0].observations, numbers=2, branches=branches)
    for _ in range(2):  # one by one, then all at once
        for steps, sent in zip(reader.read(raw(*infos)), split(infos), strict=True):
            if steps is None:
                assert not sent
                continue
            assert steps.ids == [info.id for info in sent]
            np.testing.assert_array_equal(steps.reward, np.array([info.reward for info in sent], np.float32))
            for place, sensor in enumerate(reader.layout.sensors):
                want = [np.array(one.observations[place].float_data.data, np.float32) for one in sent]
                found = steps.obs[sensor.path]
                assert found.tobytes() == np.concatenate(want).tobytes()  # -0.0 too
                assert found.shape == (len(sent), *sensor.shape) and found.dtype == np.float32
            if branches:
                width = sum(branches)
                want = [[not one for one in info.action_mask or [False] * width] for info in sent]
                assert steps.obs["action_mask"].tolist() == want
            if any(info.group_id for info in sent):
                assert steps.groups == [info.group_id or None for info in sent]
                assert steps.group_reward.tolist() == np.float32([info.group_reward for info in sent]).tolist()
    _, ended = reader.read(raw(*infos))
    if ended is not None:
        assert ended.truncated.tolist() == [info.max_step_reached for info in infos if info.ended]


def split(infos):
    return [info for info in infos if not info.ended], [info for info in infos if info.ended]


def test_one_agent_that_says_more_than_others_is_read_too():
    """Messages that differ in more than numbers are read one by one, with the same result."""
    first, named = seen([1, 2], "a"), seen([3, 4], "a", dimension_properties=(1,))
    reader = reader_of(first)
    for row in ((first, first), (first, named), (named, named), (named, first)):
        asking, _ = reader.read(raw(*[AgentInfoProto(observations=(obs,)) for obs in row]))
        assert asking.obs["obs"].tolist() == [list(obs.float_data.data) for obs in row]


def test_a_mask_must_fit_the_branches():
    reader = reader_of(seen([1]), branches=(2, 3))
    with pytest.raises(WireError, match="a mask is of 3 actions, and there are 5"):
        reader.read(raw(AgentInfoProto(observations=(seen([1]),), action_mask=(True, False, True))))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3), st.lists(st.sampled_from([1, 3, 128, 129, 70_000]), max_size=3), st.integers(1, 4), st.data())
def test_actions_are_what_was_decided(count, branches, num, data):
    if not count and not branches:
        count = 1
    reader = reader_of(seen([1]), numbers=count, branches=tuple(branches))
    numbers = np.array(data.draw(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=count, max_size=count),
                                          min_size=num, max_size=num)), np.float32).reshape(num, count)  # fmt: skip
    choices = np.array([[data.draw(st.integers(0, size - 1)) for size in branches] for _ in range(num)], np.int64)
    kind = reader.layout.action.kind
    if kind == "composite":
        actions = np.empty(num, dtype=object)
        for row in range(num):
            actions[row] = {"continuous": numbers[row], "discrete": choices[row]}
    else:
        actions = choices[:, 0] if kind == "discrete" else choices if branches else numbers
    told = from_bytes(ListAgentActionProto, reader.write(actions)).value
    assert len(told) == num
    for one, some, whole in zip(told, numbers.tolist(), choices.tolist(), strict=True):
        assert one.continuous_actions == tuple(some) and one.discrete_actions == tuple(whole)
        assert one.vector_actions_deprecated == tuple(np.float32([*some, *whole]).tolist())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_garbage_is_refused_and_nothing_else(data):
    """Bytes of messages that are changed somewhere are read, or refused with an error of ours."""
    name = data.draw(st.sampled_from(["striker", "walker", "camera", "old_camera"]))
    content = bytearray((GOLDEN / f"{name}.bin").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        said = proto(UnityMessageProto, RAW_OUTPUT).FromString(
            bytes(content[: data.draw(st.integers(1, len(content)))])
        )
    except DecodeError:
        return
    told = said.unity_output
    brains = {}
    try:
        for one in told.rl_initialization_output.brain_parameters:
            made = from_bytes(BrainParametersProto, one)
            brains[made.brain_name] = made
        for behavior, listed in told.rl_output.agent_infos.items():
            if behavior in brains and len(listed.value):
                first = tuple(from_bytes(ObservationProto, one) for one in listed.value[0].observations)
                reader = BehaviorReader(layout_of(brains[behavior], AgentInfoProto(observations=first)))
                reader.read(listed.value)
                reader.read(listed.value)
    except RookeryError:
        pass


def test_pictures_of_ours_are_read_as_they_were():
    planes = np.random.default_rng(0).integers(0, 255, (9, 8, 5)).astype(np.uint8)
    obs = encoded(planes, "eyes")
    (sensor,) = sensor_layouts([obs])
    np.testing.assert_array_equal(sensor.stored(sensor.value(obs)[None])[0], planes)


def test_ids_of_agents_are_read_in_order():
    asking, ended = reader_of(seen([0, 0])).read(raw(*agents([5, 3, 9, 1], ended={3, 1})))
    assert asking.ids == [5, 9] and ended.ids == [3, 1]
