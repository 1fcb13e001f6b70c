"""Generators of many seeds are those of NumPy."""

import numpy as np
import pytest

from rookery.core.bulk_seeding import generator_of, seed_words

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
