"""Random decisions, alike for all libraries whose gradient steps are counted: nothing is to be learned from them."""

import numpy as np

BATCH = 256
LR = 3e-4
EPISODE = 200
"""Decisions of an episode, which is cut off."""
SIZE = 20_000
OBS, ACTION = 17, 6
"""Numbers of an observation and an action, those of a MuJoCo robot."""


def random_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns observations ``[SIZE + 1, OBS]``, actions ``[SIZE, ACTION]`` in [-1, 1], rewards ``[SIZE]``, float32."""
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(SIZE + 1, OBS)).astype(np.float32),
        rng.uniform(-0.99, 0.99, (SIZE, ACTION)).astype(np.float32),
        rng.normal(size=SIZE).astype(np.float32),
    )
