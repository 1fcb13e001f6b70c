"""Random streams."""

import numpy as np
import pytest

from rookery.core.seeding import Role, Streams, generator_of, seed_words


def test_a_stream_depends_on_seed_role_and_key_alone():
    one = Streams(3)
    one.generator(Role.ENV).random(100)  # what others draw changes nothing
    draws = one.generator(Role.ACTION, "main", 7).random(5)
    assert (Streams(3).generator(Role.ACTION, "main", 7).random(5) == draws).all()


def test_streams_of_different_names_have_nothing_in_common():
    names = [(seed, role, key) for seed in (0, 1, 2**40) for role in Role for key in ((), (0,), (1,), ("a",), ("b", 0))]
    names += [(0, Role.ENV, key) for key in ((0, 0), (0, 1), (1, 0), ("b",), ("b", 1), (2**31,))]
    draws = np.array([Streams(seed).generator(role, *key).integers(2**63, size=20) for seed, role, key in names])
    assert len(np.unique(draws)) == draws.size


def test_streams_of_neighbouring_names_are_uncorrelated():
    draws = np.array([Streams(0).generator(Role.ENV, lane).normal(size=4000) for lane in range(8)])
    correlation = np.corrcoef(draws) - np.eye(8)
    assert abs(correlation).max() < 4.5 / np.sqrt(4000)


def test_the_numbers_of_roles_are_fixed_because_runs_repeat_by_them():
    assert {role.name: int(role) for role in Role} == {
        "INIT": 0, "ENV": 1, "ACTION": 2, "LEARNER": 3, "MAPPING": 4, "WARMUP": 5, "EVALUATION": 6, "REPLAY": 7,
        "TUNE": 8, "SIGNAL": 9, "PARAMETERS": 10, "OPPONENT": 11, "MATCH": 12,
    }  # fmt: skip
    assert Streams(5).integer(Role.ENV, 1, 2) == Streams(5).integer(Role.ENV, 1, 2)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**64])
def test_an_integer_is_a_seed_that_any_environment_takes(seed):
    integers = [Streams(seed).integer(Role.ENV, lane) for lane in range(200)]
    assert all(0 <= number < 2**31 for number in integers)
    assert len(set(integers)) == 200


def test_every_lane_and_episode_has_a_seed_of_its_own():
    plan = Streams(0).episodes(Role.ENV)
    assert len({plan(lane, episode) for lane in range(20) for episode in range(20)}) == 400


def test_evaluation_seeds_do_not_depend_on_the_number_of_lanes():
    def seeds(lanes):
        plan = Streams(0).episodes(Role.ENV, stride=lanes)
        return [plan(k % lanes, k // lanes) for k in range(12)]

    assert seeds(1) == seeds(3) == seeds(4)


@pytest.mark.parametrize("seed", [0, 5, 2**31, 2**40, 2**127, 2**128, 2**200 + 3])
def test_the_seeds_of_a_plan_are_the_integers_of_lane_and_episode(seed):
    streams = Streams(seed)
    plan, dealt = streams.episodes(Role.ENV), streams.episodes(Role.EVALUATION, stride=7)
    for lane in (0, 3, 63):
        for episode in (0, 1, 500, 2**31, 2**32 - 1, 2**32, 2**40):
            assert plan(lane, episode) == streams.integer(Role.ENV, lane, episode)
            assert dealt(lane, episode) == streams.integer(Role.EVALUATION, episode * 7 + lane)


# --- many seeds at once ---

ONE_WORD = [0, 1, 2, 77, 2**16, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.parametrize("seeds", [ONE_WORD, [5], [2**32], [3, 2**40, 2**130 + 1]])
def test_generators_give_the_numbers_of_default_rng(seeds):
    for seed, words in zip(seeds, seed_words(seeds), strict=True):
        mine, expected = generator_of(words), np.random.default_rng(seed)
        assert mine.bit_generator.state == expected.bit_generator.state
        assert np.array_equal(mine.uniform(-1.0, 1.0, (3, 2)), expected.uniform(-1.0, 1.0, (3, 2)))
        assert np.array_equal(mine.integers(0, 9, 20), expected.integers(0, 9, 20))


def test_words_of_many_seeds_are_those_of_seed_sequences():
    seeds = np.random.default_rng(0).integers(0, 2**32, 1000).tolist()
    expected = [np.random.SeedSequence(seed).generate_state(4, np.uint64) for seed in seeds]
    assert np.array_equal(seed_words(seeds), expected)


def test_a_negative_seed_is_refused():
    with pytest.raises((ValueError, OverflowError)):
        seed_words([3, -1])
