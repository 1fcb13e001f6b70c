"""Which policy plays which agent."""

import pytest

from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping

EPISODE = EpisodeInfo(lane=2, index=7, streams=Streams(0))


def test_a_dict_names_the_policy_of_each_agent():
    mapping = PolicyMapping({"x": "a", "y": "b"}, ["a", "b"])
    assert (mapping("x", EPISODE), mapping("y", EPISODE)) == ("a", "b")
    assert mapping.is_static


def test_without_a_rule_the_only_policy_plays_everyone():
    assert PolicyMapping(None, ["main"])("anyone", EPISODE) == "main"


def test_without_a_rule_agents_play_the_policies_of_their_names():
    mapping = PolicyMapping(None, ["x", "y"])
    assert (mapping("x", EPISODE), mapping("y", EPISODE)) == ("x", "y")


def test_a_function_sees_agent_and_episode():
    mapping = PolicyMapping(lambda agent, episode: f"{agent}{episode.lane}{episode.index}", ["x27"])
    assert mapping("x", EPISODE) == "x27"
    assert not mapping.is_static


def test_agents_of_an_episode_draw_the_same_numbers_and_other_episodes_others():
    def draws(lane, index):
        return EpisodeInfo(lane, index, Streams(3)).rng.integers(10**9, size=4).tolist()

    assert draws(0, 1) == draws(0, 1)
    assert len({tuple(draws(lane, index)) for lane in range(3) for index in range(3)}) == 9


def test_one_generator_goes_on_within_one_question():
    info = EpisodeInfo(0, 0, Streams(0))
    assert info.rng is info.rng
    assert info.rng.integers(10**9) != info.rng.integers(10**9)


def test_a_dict_that_names_unknown_policies_says_all_of_them():
    with pytest.raises(ConfigError) as error:
        PolicyMapping({"x": "po1", "y": "pol2", "z": "other"}, ["pol1", "pol2"])
    assert error.value.problems == (
        "policy_mapping.x = 'po1': no such policy; there are pol1, pol2; did you mean 'pol1'?",
        "policy_mapping.z = 'other': no such policy; there are pol1, pol2",
    )
