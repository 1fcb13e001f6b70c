"""Messages and demonstration files of Unity's ML-Agents, read and written by hand."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from rookery.core.io.files import FileError
from rookery_mlagents.files.demo_file import START, read_demo, write_demo
from rookery_mlagents.link.image_messages import UNUSED, decoded, encoded
from rookery_mlagents.link.messages import (
    AgentActionProto,
    AgentInfoActionPairProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    ObservationProto,
)
from rookery_mlagents.link.protobuf_wire import WireError, delimited, from_bytes, to_bytes, varint

WALKS = base64.b64decode(
    "EggBEgV3YWxrcxgFIAItAACgPwAAAAAAAAAAAAAAAAAAGDoNV2Fsa2VyP3RlYW09MEoHCAEQARoBA0YKOVAHWgMAAQBqGAoBAiIKCggAAMA/AAAA"
    "wDIBAUIEcmF5c2oWCgEBIgYKBAAAQEAyAQE4AUIEZ29hbBIJMgQAAAA/OgECSwo+PQAAgD9QB1oDAAEAahgKAQIiCgoIAAAgQAAAAAAyAQFCBHJh"
    "eXNqFgoBASIGCgQAAKBAMgEBOAFCBGdvYWwSCTIEAACAvjoBAE0KQD0AAAC/QAFQB1oDAAEAahgKAQIiCgoIAABgQG8SgzoyAQFCBHJheXNqFgoB"
    "ASIGCgQAAOBAMgEBOAFCBGdvYWwSCTIEAAAAADoBAEYKOVAIWgMAAQBqGAoBAiIKCggAABBBAAAQQTIBAUIEcmF5c2oWCgEBIgYKBAAAkEEyAQE4"
    "AUIEZ29hbBIJMgQAAIA/OgEBTwpCPQAAAEBAAUgBUAhaAwABAGoYCgECIgoKCAAAAEEAABBBMgEBQgRyYXlzahYKAQEiBgoEAACAQTIBATgBQgRn"
    "b2FsEgkyBAAAAAA6AQA="
)
"""A demonstration of two episodes that Google's own implementation has written by Unity's descriptions: two sensors,
one number and one of three choices to decide on, the second of which is forbidden.
"""


@pytest.fixture
def walks(tmp_path) -> Path:
    path = tmp_path / "walks.demo"
    path.write_bytes(WALKS)
    return path


def test_a_file_that_others_have_written_is_read_field_by_field(walks):
    demo = read_demo(walks)
    assert (demo.meta.api_version, demo.meta.demonstration_name) == (1, "walks")
    assert (demo.meta.number_steps, demo.meta.number_episodes, demo.meta.mean_reward) == (5, 2, 1.25)
    assert demo.brain.brain_name == "Walker?team=0"
    assert demo.brain.action_spec.num_continuous_actions == 1
    assert demo.brain.action_spec.discrete_branch_sizes == (3,)
    infos = [pair.agent_info for pair in demo.pairs]
    assert [info.id for info in infos] == [7, 7, 7, 8, 8]
    assert [info.reward for info in infos] == [0.0, 1.0, -0.5, 0.0, 2.0]
    assert [info.ended for info in infos] == [False, False, True, False, True]
    assert [info.max_step_reached for info in infos] == [False, False, False, False, True]
    assert infos[0].action_mask == (False, True, False)
    assert [obs.name for obs in infos[0].observations] == ["rays", "goal"]
    assert infos[0].observations[0].float_data.data == (1.5, -2.0)
    assert infos[0].observations[1].observation_type == 1
    assert demo.pairs[0].action_info.continuous_actions == (0.5,)
    assert demo.pairs[0].action_info.discrete_actions == (2,)


def test_what_is_written_are_the_bytes_that_others_write(walks):
    demo = read_demo(walks)
    content = delimited(demo.meta).ljust(START, b"\0") + delimited(demo.brain) + b"".join(map(delimited, demo.pairs))
    assert content == WALKS


def test_writing_a_file_sums_up_what_is_in_it(walks, tmp_path):
    demo = read_demo(walks)
    write_demo(tmp_path / "again.demo", "walks", demo.brain, demo.pairs)
    assert (tmp_path / "again.demo").read_bytes() == WALKS


def test_a_name_is_cut_to_what_there_is_room_for(walks, tmp_path):
    demo = read_demo(walks)
    write_demo(tmp_path / "long.demo", "a name of / more than sixteen characters", demo.brain, demo.pairs * 4_000)
    meta = read_demo(tmp_path / "long.demo").meta
    assert "anameofmorethans".startswith(meta.demonstration_name) and len(meta.demonstration_name) > 12
    assert meta.number_steps == 20_000


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**31)])
def test_whole_numbers_go_there_and_back(value):
    assert from_bytes(AgentInfoProto, to_bytes(AgentInfoProto(id=value))).id == value


def test_numbers_are_packed_as_the_format_says():
    assert varint(300) == b"\xac\x02"
    assert to_bytes(AgentInfoProto(id=300)) == b"\x50\xac\x02"  # field 10, wire type 0
    assert to_bytes(AgentActionProto(discrete_actions=(3, 270))) == b"\x3a\x03\x03\x8e\x02"
    assert to_bytes(AgentInfoProto(reward=-0.0)) == b"\x3d\x00\x00\x00\x80"
    assert to_bytes(AgentInfoProto()) == b""


def test_numbers_that_are_not_packed_and_fields_nobody_knows_are_read():
    assert from_bytes(AgentActionProto, b"\x38\x03\x38\x8e\x02").discrete_actions == (3, 270)
    unknown = b"\xa0\x06\x05" + b"\xa2\x06\x02hi" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh"
    assert from_bytes(AgentInfoProto, unknown + b"\x50\x07").id == 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x50", "ends after 1 bytes, in the middle of a number"),
        (b"\x50" + b"\xff" * 11, "a number without end"),
        (b"\x3d\x00", "field 7 should have 4 bytes, and there are 1"),
        (b"\x38\x00", "field 7 is of wire type 0, and a float of 5"),
        (b"\x53\x00", "unknown wire type 3"),
        (b"\x00\x00", "field 0"),
    ],
)
def test_what_is_no_message_is_refused(content, problem):
    with pytest.raises(WireError, match=problem):
        from_bytes(AgentInfoProto, content)


def test_files_that_are_not_whole_say_where_they_end(walks, tmp_path):
    for content, problem in (
        (b"", "is empty: nothing was recorded"),
        (WALKS[:-30], "no whole demonstration, after 4 whole rows: byte 354: AgentInfoActionPairProto of 79 bytes"),
        (WALKS[:-80], "ends after 4 of the 5 rows that it says it has"),
        (WALKS[:20], "no whole demonstration"),
        (b"\x02\x08\x05" + WALKS[3:], "is of version 5 of the format"),
        (b"PK\x03\x04 something else", "no whole demonstration"),
    ):
        path = tmp_path / "part.demo"
        path.write_bytes(content)
        with pytest.raises(FileError, match=problem):
            read_demo(path).pairs  # noqa: B018
    with pytest.raises(FileError, match=r"missing.demo: cannot be read"):
        read_demo(tmp_path / "missing.demo")


def test_a_recorder_that_was_never_closed_has_left_what_is_whole(tmp_path):
    head = b"\x02\x08\x01".ljust(START, b"\0")  # without a number of steps
    path = tmp_path / "crashed.demo"
    path.write_bytes(head + WALKS[START:-30])
    assert len(read_demo(path).pairs) == 4


@pytest.mark.parametrize("shape", [(8, 9, 3), (8, 9, 1), (8, 9, 4), (3, 8, 9), (1, 8, 9), (5, 8, 9)])
def test_pictures_go_there_and_back_without_loss(shape):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    message = from_bytes(ObservationProto, to_bytes(encoded(picture, "camera")))
    np.testing.assert_array_equal(decoded(message), picture)


def test_a_mapping_says_which_channels_are_averaged():
    planes = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    three = encoded(planes, "camera")
    two = ObservationProto((4, 5, 2), 1, three.compressed_data, None, (0, 0, 1), (2, 2, 1))
    expected = np.stack((np.rint(planes[..., :2].mean(axis=2)), planes[..., 2]), axis=2)
    np.testing.assert_array_equal(decoded(two), expected)
    one = ObservationProto((4, 5, 1), 1, three.compressed_data, None, (UNUSED, UNUSED, 0), (2, 2, 1))
    np.testing.assert_array_equal(decoded(one)[..., 0], planes[..., 2])


def test_pictures_that_are_none_are_refused():
    whole = encoded(np.zeros((4, 5, 3), np.uint8), "camera")
    for changed, problem in (
        ({"compressed_data": whole.compressed_data[:-6]}, "its PNG cannot be read"),
        ({"compressed_data": b"no picture"}, "no PNG begins at byte 0"),
        ({"shape": (4, 6, 3)}, "an image of shape"),
        ({"shape": (4, 5)}, "is not that of an image"),
        ({"compressed_channel_mapping": (0, 1)}, "3 channels, and 2 places for them"),
        ({"compressed_channel_mapping": (0, 1, 1)}, "none of its PNGs has channel 2"),
    ):
        with pytest.raises(WireError, match=problem):
            decoded(ObservationProto(**{**vars(whole), **changed}))


def test_messages_may_be_nested_and_missing():
    pair = AgentInfoActionPairProto(
        AgentInfoProto(observations=(ObservationProto((1,), float_data=FloatData((2.5,))),))
    )
    assert from_bytes(AgentInfoActionPairProto, to_bytes(pair)) == pair
    assert from_bytes(BrainParametersProto, b"").action_spec is None
