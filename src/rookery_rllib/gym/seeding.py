"""`gym.utils.seeding`: generators with the methods of ``numpy.random.RandomState``, from a seed of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import Error

SIZE = 2**63
"""Upper bound of random seeds."""


def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Returns a generator (``rand``, ``randint``, ``uniform``, ``choice`` ...) and its seed.

    The random numbers of a seed differ from those of Gym in 2021.

    Args:
        seed: Number from 0 on; None = random.

    Raises:
        Error: If the seed is neither None nor a whole number from 0 on (gymnasium.error.Error).
    """
    used = create_seed(seed)
    return np.random.RandomState(np.random.MT19937(used)), used


def create_seed(a: int | str | bytes | None = None, max_bytes: int = 8) -> int:
    """Returns a seed: the given number, the hash of a text, or a random one."""
    if a is None:
        made: int = int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) % min(SIZE, 256**max_bytes)
        return made
    if isinstance(a, str | bytes):
        return hash_seed(int.from_bytes(a.encode() if isinstance(a, str) else a, "little"), max_bytes)
    if not isinstance(a, int | np.integer) or a < 0:
        raise Error(f"a seed is a whole number from 0 on, not {a!r}")
    seed: int = int(a) % 256**max_bytes
    return seed


def hash_seed(seed: int | None = None, max_bytes: int = 8) -> int:
    """Returns a hash of a seed."""
    entropy = create_seed(None) if seed is None else int(seed)
    words: Any = np.random.SeedSequence(entropy).generate_state(-(-max_bytes // 4), np.uint32)
    return int.from_bytes(words.tobytes()[:max_bytes], "little")
