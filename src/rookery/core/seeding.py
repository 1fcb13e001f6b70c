"""Random streams: every random draw uses a stream derived from the run's seed, a role and a key.

Different streams are independent (NumPy's `SeedSequence`), so draws of one part, such as evaluation, never change those
of another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

WORD = 2**32 - 1


class Role(IntEnum):
    """Purpose of a stream. Reproducibility depends on these numbers: never reuse one."""

    INIT = 0
    ENV = 1
    ACTION = 2
    LEARNER = 3
    MAPPING = 4
    WARMUP = 5
    EVALUATION = 6
    REPLAY = 7
    TUNE = 8
    SIGNAL = 9
    PARAMETERS = 10
    OPPONENT = 11
    MATCH = 12


@dataclass(frozen=True)
class Streams:
    """All random streams of one run."""

    seed: int

    def sequence(self, role: Role, *key: int | str) -> np.random.SeedSequence:
        """Returns the seed sequence of a role and a key; strings in the key count by their CRC-32."""
        words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in key]
        return np.random.SeedSequence(self.seed, spawn_key=(int(role), *words))

    def generator(self, role: Role, *key: int | str) -> np.random.Generator:
        """Returns a NumPy generator at the start of the stream."""
        return np.random.Generator(np.random.PCG64(self.sequence(role, *key)))

    def integer(self, role: Role, *key: int | str) -> int:
        """Returns a seed in [0, 2**31) for code that takes an integer, such as an environment's `reset`."""
        return int(self.sequence(role, *key).generate_state(1)[0] >> 1)

    def episodes(self, role: Role, stride: int = 0) -> Callable[[int, int], int]:
        """Returns the seed plan of environments: a seed for each (lane, episode in that lane).

        Args:
            role: `Role.ENV` for training.
            stride: If given, the seed depends only on ``episode * stride + lane``: for episodes assigned to `stride`
                lanes in turn.
        """
        if stride:
            dealt = FastSeeds(self, role)
            return lambda lane, episode: dealt.integer(episode * stride + lane)
        by_lane: dict[int, FastSeeds] = {}

        def plan(lane: int, episode: int) -> int:
            if lane not in by_lane:
                by_lane[lane] = FastSeeds(self, role, lane)
            return by_lane[lane].integer(episode)

        return plan


class FastSeeds:
    """Fast `Streams.integer` for keys that differ only in their last word: every episode needs a seed.

    `SeedSequence` mixes the words of a key one after the other into a pool of four, so the pool before the last word is
    the same for all keys. Only the mixing of that word into the first of the four, which determines the seed, remains.
    The constants are NumPy's, whose streams never change.

    Args:
        streams: The run's streams.
        role: Purpose of the seeds.
        key: The words of the key before the last one, each below 2**32.
    """

    def __init__(self, streams: Streams, role: Role, *key: int) -> None:
        self._slowly = partial(streams.integer, role, *key)
        self._pool = int(streams.sequence(role, *key).pool[0])
        words = max(4, -(-streams.seed.bit_length() // 32)) + 1 + len(key)  # the run's seed fills at least the pool
        self._before = 0x43B0D7E5 * pow(0x931E8875, 4 * words, 1 << 32) & WORD  # four hashes a word so far
        self._after = self._before * 0x931E8875 & WORD

    def integer(self, word: int) -> int:
        """Returns the seed in [0, 2**31) of the key that ends with `word`."""
        if word > WORD:
            return self._slowly(word)
        mixed = (word ^ self._before) * self._after & WORD
        mixed ^= mixed >> 16
        mixed = 0xCA01F9DD * self._pool - 0x4973F715 * mixed & WORD
        mixed = (mixed ^ mixed >> 16 ^ 0x8B51F9DD) * 0x464A0A99 & WORD
        return (mixed ^ mixed >> 16) >> 1


# --- many seeds at once: the generators of `np.random.default_rng`, faster if seeds are known ahead -------------------


def generator_of(words: np.ndarray) -> np.random.Generator:
    """Returns the generator of a seed with these words, a row of `seed_words`."""
    source: Any = _Words(words)  # NumPy takes any `ISeedSequence`, its stubs only one
    return np.random.Generator(np.random.PCG64(source))


def seed_words(seeds: Sequence[int]) -> np.ndarray:
    """Returns the state that `SeedSequence` generates for a PCG64 from each seed, ``[seeds, 4]`` uint64.

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
    """`SeedSequence` with a precomputed result."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Returns the precomputed words; a PCG64 requests exactly these."""
        return self._words


def _powers(first: int, factor: int, count: int) -> np.ndarray:
    return np.array([first * pow(factor, power, 1 << 32) & WORD for power in range(count)], dtype=np.uint32)


def _folded(values: np.ndarray) -> np.ndarray:
    folded: np.ndarray = values ^ values >> 16
    return folded


_IN, _OUT = _powers(0x43B0D7E5, 0x931E8875, 17), _powers(0x8B51F9DD, 0x58F38DED, 9)
_LEFT, _RIGHT = np.array([0xCA01F9DD, 0x4973F715], dtype=np.uint32)
