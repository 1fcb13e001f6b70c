"""Small HDF5 files as D4RL has them."""

from __future__ import annotations

import h5py
import numpy as np


def rows_of(lengths=(5, 4, 6), *, ends="tct", seed=0, size=3, actions=2, next_obs=True):
    """Columns of episodes of these lengths, each terminated (t), cut off by a timeout (c) or simply over (o)."""
    rng = np.random.default_rng(seed)
    seen = [rng.normal(size=(length + 1, size)).astype(np.float32) for length in lengths]
    number = sum(lengths)
    last = np.cumsum(lengths) - 1
    found = {
        "observations": np.concatenate([one[:-1] for one in seen]),
        "actions": rng.uniform(-1, 1, (number, actions)).astype(np.float32),
        "rewards": rng.normal(size=number).astype(np.float32),
        "terminals": np.zeros(number, bool),
        "timeouts": np.zeros(number, bool),
    }
    for name, letter in (("terminals", "t"), ("timeouts", "c")):
        found[name][[row for row, end in zip(last, ends, strict=True) if end == letter]] = True
    if next_obs:
        found["next_observations"] = np.concatenate([one[1:] for one in seen])
    return found


def write(path, columns, **more):
    """Writes a file of these columns, with others of any names besides."""
    with h5py.File(path, "w") as file:
        for name, array in (columns | more).items():
            file[name] = array
    return path


def described(path, columns):
    """Writes a file as D4RL does: with infos and metadata beside the rows, packed in chunks."""
    number = len(columns["actions"])
    with h5py.File(path, "w") as file:
        for name, array in columns.items():
            file.create_dataset(name, data=array, chunks=(4, *array.shape[1:]), compression="gzip")
        file["infos/qpos"] = np.zeros((number, 2))
        file["infos/action_log_probs"] = np.full(number, -0.5)
        file["metadata/algorithm"] = "SAC"
        file["metadata/policy/fc0/weight"] = np.zeros((7, 5))
    return path
