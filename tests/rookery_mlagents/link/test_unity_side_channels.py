"""Side channels: there and back, and garbage."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.errors import ConfigError
from rookery.envs.samplers import (
    ChoiceSampler,
    ConstantSampler,
    IntervalsSampler,
    LogUniformSampler,
    NormalSampler,
    UniformSampler,
)
from rookery_mlagents.link import side_channel_codec as channels


@given(st.lists(st.tuples(st.uuids(), st.binary(max_size=40)), max_size=5))
def test_messages_are_packed_and_unpacked(messages):
    assert channels.unpack(channels.pack(messages)) == messages


@given(st.binary(max_size=200))
def test_garbage_is_counted_and_never_raises(content):
    inbox = channels.Inbox()
    told = [inbox.receive(content) for _ in range(2)]
    assert not told[1] and bool(told[0]) == bool(inbox.num_broken) and inbox.num_broken % 2 == 0


@given(st.sampled_from([channels.STATISTICS, channels.PROPERTIES, channels.ENGINE]), st.binary(max_size=60))
def test_garbage_on_a_channel_does_not_hide_what_is_beside_it(channel, content):
    inbox = channels.Inbox()
    own = uuid4()
    inbox.receive(channels.pack([(channel, content), (own, b"x"), channels.statistic("a", 1.0, "sum")]))
    assert inbox.raw == [(own, b"x")] and inbox.statistics[-1] == channels.Statistic("a", 1.0, "sum")
    assert inbox.num_broken <= 1


def test_what_is_wrong_is_said_once():
    inbox = channels.Inbox()
    broken = channels.pack([(channels.STATISTICS, b"\5\0\0\0ab")])
    assert "channel statistics: ends after 6 bytes" in inbox.receive(broken) or "values follow" in inbox.problem
    assert inbox.receive(broken) == "" and inbox.receive(b"abc") == "" and inbox.num_broken == 3
    way = channels.ChannelWriter().text("Score").number(1.0).whole(9).content
    inbox = channels.Inbox()
    assert "statistic 'Score'" in inbox.receive(channels.pack([(channels.STATISTICS, way)]))


def test_too_short_messages_are_named():
    whole = channels.pack([(channels.ENGINE, b"1234")])
    with pytest.raises(channels.SideChannelError, match="byte 0: a message of 4 bytes on channel e951342c"):
        channels.unpack(whole[:-1])
    with pytest.raises(channels.SideChannelError, match="byte 24: 3 bytes are left"):
        channels.unpack(whole + b"abc")
    with pytest.raises(channels.SideChannelError, match="-1 bytes"):
        channels.unpack(whole[:16] + b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "value",
    [2.5, UniformSampler(-1.0, 2.0, seed=3), NormalSampler(0.5, 0.25, seed=0),
     IntervalsSampler(((0.0, 1.0), (4.0, 5.0)), seed=9)],
)  # fmt: skip
def test_parameters_go_there_and_back(value):
    channel, content = channels.parameter("gravity", value)
    assert channel == channels.PARAMETERS and channels.read_parameter(content) == ("gravity", value)


def test_seeds_of_samplers_go_before_those_of_the_player():
    sampler = UniformSampler(0.0, 1.0)
    assert channels.read_parameter(channels.parameter("a", sampler, seed=4)[1])[1].seed == 4
    assert channels.read_parameter(channels.parameter("a", sampler)[1])[1].seed == 0
    assert channels.read_parameter(channels.parameter("a", ConstantSampler(2.0))[1]) == ("a", 2.0)


@pytest.mark.parametrize("value", [LogUniformSampler(1.0, 2.0), ChoiceSampler((1.0, 2.0))])
def test_distributions_that_unity_has_not_are_refused(value):
    with pytest.raises(ConfigError, match="parameter 'a': Unity draws no values of the kind (loguniform|choice)"):
        channels.parameter("a", value)


def test_names_are_of_letters_that_unity_reads():
    with pytest.raises(ConfigError, match="'größe' cannot be sent to Unity"):
        channels.parameter("größe", 1.0)


def test_the_engine_is_told_what_is_given():
    told = channels.engine(time_scale=20.0, width=80, height=60)
    assert [channels.read_engine(content) for _, content in told] == [{"width": 80, "height": 60}, {"time_scale": 20.0}]
    whole = channels.engine(quality_level=0, target_frame_rate=-1, capture_frame_rate=60)
    assert [channels.read_engine(content) for _, content in whole] == [
        {"quality_level": 0}, {"target_frame_rate": -1}, {"capture_frame_rate": 60}
    ]  # fmt: skip
    assert channels.engine() == []
    with pytest.raises(ConfigError, match="give both or none"):
        channels.engine(width=80)


@pytest.mark.parametrize(
    "content", [b"", b"\1\0\0\0a\7\0\0\0", b"\1\0\0\0a\1\0\0\0\0\0\0\0\\9\0\0\0", b"\xff\xff\xff\xff"]
)
def test_parameters_that_are_none_are_refused(content):
    with pytest.raises(channels.SideChannelError):
        channels.read_parameter(content)


def test_an_inbox_sorts_what_comes():
    inbox = channels.Inbox()
    own = UUID(int=7)
    told = [channels.statistic("a", 1.0, "average"), channels.statistic("b", 2.0, "histogram"),
            channels.statistic("a", 3.0, "average"), channels.float_property("speed", 1.0),
            channels.float_property("speed", 2.0), channels.raw(own, b"x"), (channels.ANALYTICS, b"?")]  # fmt: skip
    assert inbox.receive(channels.pack(told)) == "" and inbox.num_broken == 0
    assert inbox.take_statistics() == {"a": ("average", [1.0, 3.0]), "b": ("histogram", [2.0])}
    assert inbox.properties == {"speed": 2.0} and inbox.raw == [(own, b"x")] and not inbox.statistics
