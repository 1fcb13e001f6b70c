"""Reads demonstrations with ML-Agents' own reader: ``mlagents_demos.py FILE ... OUT``, for `studies/unity_demos.py`.

It runs in the environment that ``benchmarks/peers/install.sh mlagents`` makes. For each file, ``OUT/NUMBER.npz`` holds
the buffer of `make_demo_buffer`, and which of its rows begin where an episode has ended; a file that it refuses has
``NUMBER.txt``, the error, instead. PNGs with their channels last, which 1.1.0 refuses, are read as if their shape named
the channels first (``turned``).
"""

# ruff: noqa: E402

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import numpy as np

np.float = float  # mlagents_envs 1.1.0 asks numpy for names that it has no longer
np.bool = bool

from mlagents.trainers.buffer import BufferKey, ObservationKeyPrefix
from mlagents.trainers.demo_loader import load_demonstration, make_demo_buffer


def read(file: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a file, by name."""
    spec, pairs, _ = load_demonstration(file)
    seen = [obs for pair in pairs for obs in pair.agent_info.observations]
    turned = [obs for obs in seen if obs.compression_type and len(obs.shape) == 3 and obs.shape[2] in (1, 3)]
    for obs in turned:
        obs.shape[:] = [obs.shape[2], *obs.shape[:2]]
    shapes = [tuple(obs.shape) for obs in pairs[0].agent_info.observations]
    senses = [one._replace(shape=shape) for one, shape in zip(spec.observation_specs, shapes, strict=True)]
    spec = spec._replace(observation_specs=senses)
    buffer = make_demo_buffer(pairs, spec, sequence_length=1)
    infos = [pair.agent_info for pair in pairs]
    found = {
        "rows": np.array(len(pairs)),
        "turned": np.array(bool(turned)),
        "agents_mix": np.array(any(a.id != b.id and not a.done for a, b in pairwise(infos))),
        "begins_at_end": np.array([info.done for info in infos[:-1]], bool),
        "reward": np.array(buffer[BufferKey.ENVIRONMENT_REWARDS], np.float32),
        "done": np.array(buffer[BufferKey.DONE], bool),
    }
    for name, key in (("continuous", BufferKey.CONTINUOUS_ACTION), ("discrete", BufferKey.DISCRETE_ACTION)):
        if key in buffer:
            found[name] = np.array([list(one) for one in buffer[key]])
    for number in range(len(spec.observation_specs)):
        found[f"obs_{number}"] = np.array(buffer[(ObservationKeyPrefix.OBSERVATION, number)], np.float32)
    return found


if __name__ == "__main__":
    *files, out = sys.argv[1:]
    for number, file in enumerate(files):
        try:
            np.savez(Path(out) / f"{number}.npz", **read(file))
        except Exception as error:  # several types, of protobuf's among them
            line = (str(error).strip().splitlines() or [""])[0]
            (Path(out) / f"{number}.txt").write_text(f"{type(error).__name__}: {line}", encoding="utf-8")
