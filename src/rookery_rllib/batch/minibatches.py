"""Minibatches of batches, and functions for learning from them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID, MultiAgentBatch, SampleBatch

LEARNER_STATS_KEY = "learner_stats"


def averaged(kv: Mapping[str, Any], axis: int | None = None) -> dict[str, Any]:
    return {
        key: values[0] if values[0] is None or isinstance(values[0], dict) else np.mean(values, axis=axis)
        for key, values in kv.items()
    }


def standardized(array: np.ndarray) -> np.ndarray:
    """Returns an array with mean 0 and standard deviation 1; one that hardly varies is divided by 1e-4."""
    scaled: np.ndarray = (array - array.mean()) / max(1e-4, array.std())
    return scaled


def minibatches(samples: SampleBatch, sgd_minibatch_size: int, shuffle: bool = True) -> Iterator[SampleBatch]:
    """Yields batches of rows; those of one sequence stay together. Raises a ValueError for several policies."""
    if isinstance(samples, MultiAgentBatch):
        raise ValueError("minibatches: a batch of several policies; take one of its policy_batches")
    if not sgd_minibatch_size:
        yield samples
        return
    if shuffle and "seq_lens" not in samples:
        samples.shuffle()
    parts = samples.timeslices(size=sgd_minibatch_size)
    if shuffle:
        random.shuffle(parts)
    yield from parts


def do_minibatch_sgd(
    samples: Any,
    policies: Mapping[str, Any],
    local_worker: Any,
    num_sgd_iter: int,
    sgd_minibatch_size: int,
    standardize_fields: Sequence[str],
) -> dict[str, Any]:
    whole = samples.as_multi_agent() if isinstance(samples, SampleBatch) else samples
    results: dict[str, Any] = {}
    for name in policies:
        batch = whole.policy_batches.get(name)
        if batch is None:
            continue
        for field in standardize_fields:
            batch[field] = standardized(np.asarray(batch[field]))
        for _ in range(num_sgd_iter):
            stats: dict[str, list[Any]] = defaultdict(list)
            for part in minibatches(batch, sgd_minibatch_size):
                wrapped = MultiAgentBatch({name: part}, part.count)
                fetched = local_worker.learn_on_batch(wrapped if name != DEFAULT_POLICY_ID else part)
                fetched = fetched.get(name, fetched)
                for key, value in fetched.get(LEARNER_STATS_KEY, {}).items():
                    stats[key].append(value)
        results[name] = {LEARNER_STATS_KEY: averaged(stats)}
    return results
