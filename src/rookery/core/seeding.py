"""Random streams, derived and never shared: every draw comes from a stream named by the run's seed, a role and a key.

Two streams with different names are independent (NumPy's `SeedSequence`), so nothing that draws more or less often,
such as evaluation, changes what another part draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np


class Role(IntEnum):
    """What a stream is for. The numbers are part of what makes runs repeat: never reuse one."""

    INIT = 0
    ENV = 1
    ACTION = 2
    LEARNER = 3
    MAPPING = 4
    WARMUP = 5
    EVALUATION = 6


@dataclass(frozen=True)
class Streams:
    """All random streams of one run."""

    seed: int

    def sequence(self, role: Role, *key: int | str) -> np.random.SeedSequence:
        """The seed sequence of a role and a key; words in the key count by their CRC-32."""
        words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in key]
        return np.random.SeedSequence(self.seed, spawn_key=(int(role), *words))

    def generator(self, role: Role, *key: int | str) -> np.random.Generator:
        """A NumPy generator at the start of the stream."""
        return np.random.Generator(np.random.PCG64(self.sequence(role, *key)))

    def integer(self, role: Role, *key: int | str) -> int:
        """A seed in [0, 2**31) for code that takes an integer, such as an environment's `reset`."""
        return int(self.sequence(role, *key).generate_state(1)[0] >> 1)

    def episodes(self, role: Role, stride: int = 0) -> Callable[[int, int], int]:
        """The seed plan of environments: a seed for each (lane, episode in that lane).

        Args:
            role: `Role.ENV` for training.
            stride: If given, the seed depends only on ``episode * stride + lane``: episodes dealt to `stride` lanes in
                turn.
        """
        if stride:
            return lambda lane, episode: self.integer(role, episode * stride + lane)
        return lambda lane, episode: self.integer(role, lane, episode)
