"""Messages that mlagents_envs 1.1.0 has written, and what it reads in them (benchmarks/peers/mlagents_messages.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rookery.envs.samplers import IntervalsSampler, NormalSampler, UniformSampler
from rookery_mlagents.link import messages
from rookery_mlagents.link import side_channel_codec as side_channels
from rookery_mlagents.link.grpc_server import RAW_INPUT, RAW_OUTPUT
from rookery_mlagents.link.layouts import BehaviorReader, layout_of
from rookery_mlagents.link.messages import (
    OK,
    RESET,
    AgentInfoProto,
    HeaderProto,
    UnityInputProto,
    UnityMessageProto,
    UnityRLCapabilitiesProto,
    UnityRLInitializationInputProto,
    UnityRLInputProto,
)
from rookery_mlagents.link.protobuf_wire import from_bytes, to_bytes, wire_fields

pytest.importorskip("google.protobuf")

from rookery_mlagents.link.protobuf_classes import proto  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
MESSAGES = ["striker", "walker", "camera", "old_camera", "first_packages", "greeting", "goodbye", "empty",
            "striker_actions", "walker_actions", "first_packages_actions", "introduction", "reset"]  # fmt: skip
PLAYERS = MESSAGES[:5]


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", sorted(EXPECTED["descriptions"]))
def test_a_message_has_the_fields_it_has_there(name):
    kinds = {"int": (5, 14), "bool": (8,), "float": (2,), "text": (9,), "bytes": (12,), "message": (11,), "map": (11,)}
    ours, theirs = wire_fields(getattr(messages, name)), EXPECTED["descriptions"][name]
    assert sorted(map(str, ours)) == sorted(theirs)
    for number, (_, wire) in ours.items():
        kind, repeated, is_map, *inside = theirs[str(number)]
        assert kind in kinds[wire.kind] and repeated == wire.repeated and is_map == (wire.kind == "map")
        assert inside == ([] if wire.message is None else [wire.message.__name__])


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_read_and_written_again_byte_by_byte(name):
    content = golden(name)
    assert to_bytes(from_bytes(UnityMessageProto, content)) == content
    for raw in (frozenset(), RAW_OUTPUT, RAW_INPUT):
        made = proto(UnityMessageProto, raw).FromString(content)
        assert made.SerializeToString(deterministic=True) == content
        made.DiscardUnknownFields()
        assert made.SerializeToString(deterministic=True) == content  # all is known


def infos_of(name: str) -> dict[str, tuple[BehaviorReader, list]]:
    message = from_bytes(UnityMessageProto, golden(name))
    said = proto(UnityMessageProto, RAW_OUTPUT).FromString(golden(name))
    found = {}
    for brain in message.unity_output.rl_initialization_output.brain_parameters:
        first = message.unity_output.rl_output.agent_infos[brain.brain_name].value[0]
        infos = said.unity_output.rl_output.agent_infos[brain.brain_name].value
        found[brain.brain_name] = BehaviorReader(layout_of(brain, first)), infos
    return found


@pytest.mark.parametrize("name", PLAYERS)
def test_agents_are_read_as_there(name):
    for behavior, (reader, infos) in infos_of(name).items():
        told, layout = EXPECTED[name][behavior], reader.layout
        assert [list(one.shape) for one in layout.sensors] == told["shapes"]
        assert [one.name for one in layout.sensors] == told["names"]
        assert layout.goals == tuple(
            one.path for one, goal in zip(layout.sensors, told["goals"], strict=True) if goal == 1
        )
        assert layout.action.num_numbers == told["continuous"] and list(layout.action.sizes) == told["branches"]
        for _ in range(2):  # at first by every message, then all at once
            check(layout, dict(zip(("asking", "ended"), reader.read(infos), strict=True)), told)


def check(layout, found, told) -> None:
    for key, steps in found.items():
        if steps is None:
            assert not told.get(key, {"id": []})["id"]
            continue
        want = told[key]
        assert steps.ids == want["id"]
        np.testing.assert_array_equal(steps.reward, np.array(want["reward"], np.float32))
        for sensor, obs in zip(layout.sensors, want["obs"], strict=True):
            array = steps.obs[sensor.path]
            array = array[..., 1:] if sensor.is_set else array / 255.0 if sensor.is_packed else array
            np.testing.assert_allclose(array, np.array(obs, np.float32), atol=0 if array.dtype == np.float32 else 1e-6)
        if key == "ended":
            assert steps.truncated.tolist() == want["interrupted"]
        elif layout.action.sizes:
            forbidden = np.concatenate(want["forbidden"], axis=1) if "forbidden" in want else np.zeros((1, 2), bool)
            np.testing.assert_array_equal(steps.obs["action_mask"], ~forbidden)
        groups = want.get("group", [0] * len(steps.ids))
        assert [group or 0 for group in steps.groups or [0] * len(steps.ids)] == groups
        if any(groups):
            np.testing.assert_array_equal(steps.group_reward, np.array(want["group_reward"], np.float32))
        else:
            assert steps.groups == [] and steps.group_reward is None


@pytest.mark.parametrize("name", ["striker_actions", "walker_actions", "first_packages_actions"])
def test_actions_are_written_as_there(name):
    told = EXPECTED[name]
    ((behavior, (reader, infos)),) = infos_of(name.removesuffix("_actions")).items()
    assert behavior == told["behavior"]
    numbers, choices = np.array(told["continuous"], np.float32), np.array(told["discrete"])
    spec = reader.layout.action
    if spec.kind == "composite":
        actions = np.empty(len(numbers), dtype=object)
        for row in range(len(numbers)):
            actions[row] = {"continuous": numbers[row], "discrete": choices[row]}
    else:
        actions = choices if spec.sizes else numbers
    made = proto(UnityMessageProto, RAW_INPUT)()
    made.header.status = OK
    made.unity_input.rl_input.agent_actions[behavior] = reader.write(actions)
    assert made.SerializeToString(deterministic=True) == golden(name)


def test_what_is_said_first_and_last():
    greeting = from_bytes(UnityMessageProto, golden("greeting")).unity_output.rl_initialization_output
    assert (greeting.name, greeting.communication_version, greeting.package_version) == ("Game", "1.5.0", "3.0.0")
    assert greeting.log_path == "/tmp/Player-0.log"
    assert greeting.capabilities == UnityRLCapabilitiesProto(True, False, True, False, True, False, True)
    spec = greeting.brain_parameters[0].action_spec
    assert spec.discrete_branch_sizes == (300, 2) and spec.action_descriptions == ("far", "near")
    assert from_bytes(UnityMessageProto, golden("goodbye")).header == HeaderProto(400, "bye")
    all_of_it = UnityRLCapabilitiesProto(*[True] * 7)
    introduction = UnityRLInitializationInputProto(-7, "1.5.0", "1.1.0", all_of_it, 3)
    told = UnityMessageProto(HeaderProto(OK), None, UnityInputProto(None, introduction))
    assert to_bytes(told) == golden("introduction")
    reset = UnityMessageProto(HeaderProto(OK), None, UnityInputProto(UnityRLInputProto(command=RESET)))
    assert to_bytes(reset) == golden("reset")


def test_side_channels_are_written_as_there():
    told = side_channels.pack(
        [
            *side_channels.engine(
                width=84, height=85, quality_level=3, time_scale=20.0, target_frame_rate=-1, capture_frame_rate=60
            ),
            side_channels.parameter("gravity", -9.81),
            side_channels.parameter("mass", UniformSampler(0.5, 2.5, seed=11)),
            side_channels.parameter("wind", NormalSampler(1.0, 0.25), seed=12),
            side_channels.parameter("size", IntervalsSampler(((0.5, 1.0), (2.0, 3.0)), seed=13), seed=5),
            side_channels.float_property("speed", 1.5),
            side_channels.raw("0f3c7a52-55a1-4ab8-9d5c-6d9e0b1f2a33", b"\0\1bytes"),
        ]
    )
    assert told == golden("trainer_channels")
    values = side_channels.ChannelWriter().flag(True).numbers([1.5, -2.0])
    assert values.content == golden("values")


def test_side_channels_are_read_as_there():
    inbox = side_channels.Inbox()
    assert inbox.receive(golden("statistics")) == ""
    assert [side_channels.statistic(one.name, one.value, one.how) for one in inbox.statistics] == side_channels.unpack(
        golden("statistics")
    )
    found = {
        name: [[value, side_channels.HOWS.index(how)] for value in values]
        for name, (how, values) in inbox.take_statistics().items()
    }
    assert found == EXPECTED["statistics"] and not inbox.take_statistics()


def test_many_choices_are_written_one_by_one():
    brain = from_bytes(UnityMessageProto, golden("greeting")).unity_output.rl_initialization_output.brain_parameters[0]
    seen = messages.ObservationProto((1,), float_data=messages.FloatData((0.0,)))
    reader = BehaviorReader(layout_of(brain, AgentInfoProto(observations=(seen,))))
    actions = np.empty(1, dtype=object)
    actions[0] = {"continuous": np.array([0.0, 1.0, 2.0], np.float32), "discrete": np.array([299, 1])}
    told = from_bytes(messages.ListAgentActionProto, reader.write(actions)).value[0]
    assert told.discrete_actions == (299, 1) and told.continuous_actions == (0.0, 1.0, 2.0)
    assert told.vector_actions_deprecated == (0.0, 1.0, 2.0, 299.0, 1.0)
