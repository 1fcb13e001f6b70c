"""`np.random.default_rng` for many seeds: the same generators, for less where seeds are known ahead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from rookery.core.seeding import WORD


def generator_of(words: np.ndarray) -> np.random.Generator:
    """The generator whose seed has these words, a row of `seed_words`."""
    source: Any = _Words(words)  # NumPy takes any `ISeedSequence`, its stubs know only one
    return np.random.Generator(np.random.PCG64(source))


def seed_words(seeds: Sequence[int]) -> np.ndarray:
    """What `SeedSequence` makes of each seed for a PCG64, ``[seeds, 4]`` uint64.

    Its steps are those of `SeedSequence`, for all seeds at once: each fills a pool of four words, these are hashed and
    mixed with each other, and hashes of them are the result. The constants are NumPy's, whose streams never change.
    """
    if max(seeds) > WORD:  # a seed of more than one word
        return np.array([np.random.SeedSequence(seed).generate_state(4, np.uint64) for seed in seeds])
    pool = np.zeros((4, len(seeds)), dtype=np.uint32)
    pool[0] = seeds
    constants = iter(pairwise(_IN))

    def hashed(values: np.ndarray) -> np.ndarray:
        before, after = next(constants)
        return _folded((values ^ before) * after)

    for word in range(4):
        pool[word] = hashed(pool[word])
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _folded(pool[target] * _LEFT - hashed(pool[source]) * _RIGHT)
    state = _folded((np.concatenate((pool, pool)) ^ _OUT[:8, None]) * _OUT[1:, None])
    return np.ascontiguousarray(state.T).astype("<u4", copy=False).view("<u8")


class _Words(ISeedSequence):
    """A `SeedSequence` whose result is known."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """The words; a PCG64 asks for just these."""
        return self._words


def _powers(first: int, factor: int, count: int) -> np.ndarray:
    return np.array([first * pow(factor, power, 1 << 32) & WORD for power in range(count)], dtype=np.uint32)


def _folded(values: np.ndarray) -> np.ndarray:
    folded: np.ndarray = values ^ values >> 16
    return folded


_IN, _OUT = _powers(0x43B0D7E5, 0x931E8875, 17), _powers(0x8B51F9DD, 0x58F38DED, 9)
_LEFT, _RIGHT = np.array([0xCA01F9DD, 0x4973F715], dtype=np.uint32)
