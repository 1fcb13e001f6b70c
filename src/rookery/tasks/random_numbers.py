"""Counter-based random numbers of many lanes: each is a function of its lane's key and a count, so that the state is
two arrays.

Draws in the middle of an episode would need a generator for each lane, and each generator's state in every checkpoint.
Here a number comes from hashing: the step and the finish of SplitMix64 (Steele, Lea and Flood 2014).
"""

from __future__ import annotations

import numpy as np

GOLDEN, FIRST, SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Increment and multipliers of SplitMix64."""


def hashed(key: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns 64 random bits for each key and count, ``[...]`` uint64.

    Args:
        key: Keys ``[...]`` uint64.
        count: Which number of its key each is, ``[...]`` integers of at least 0; broadcast with `key`.
    """
    bits = key + (np.asarray(count).astype(np.uint64) + np.uint64(1)) * GOLDEN  # arrays of uint64 wrap around
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def lane_key(seed: int) -> np.uint64:
    """Returns the key of an episode with a seed."""
    return np.uint64(hashed(np.array([seed % 2**64], dtype=np.uint64), np.array([0]))[0])


def below(bits: np.ndarray, limit: int) -> np.ndarray:
    """Returns integers ``[...]`` int64 from 0 to `limit` - 1, from the upper 32 of random bits ``[...]`` uint64."""
    return np.asarray(((bits >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


def fraction(bits: np.ndarray) -> np.ndarray:
    """Returns numbers ``[...]`` float64 in [0, 1), from the upper 53 of random bits ``[...]`` uint64."""
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)
