"""Operations of execution plans that sample, select and join batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rookery.face import ConfigError
from rookery_rllib.batch.minibatches import standardized
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.execution.counters import (
    AGENT_STEPS_SAMPLED_COUNTER,
    SAMPLE_TIMER,
    STEPS_SAMPLED_COUNTER,
    _check_sample_batch_type,
    _get_shared_metrics,
)
from rookery_rllib.execution.iterators import LocalIterator


def ParallelRollouts(workers: Any, *, mode: str = "bulk_sync", num_async: int = 1) -> LocalIterator:
    """Returns a stream of batches that workers sample, and counts their steps.

    Args:
        workers: A `WorkerSet`. The workers of a trainer sample all together.
        mode: ``bulk_sync`` = a batch of all workers together; ``async`` = of each worker in turn.
        num_async: Has no effect.

    Raises:
        ConfigError: For another mode.
    """
    if mode not in ("bulk_sync", "async"):
        raise ConfigError(f"ParallelRollouts: mode = {mode!r}: must be 'bulk_sync' or 'async'")
    workers.sync_weights()
    samplers: Sequence[Callable[[], Any]] = workers.samplers()

    def batches() -> Iterator[Any]:
        while True:
            if mode == "bulk_sync":
                yield _counted(SampleBatch.concat_samples([_timed(sample) for sample in samplers]))
            else:
                for sample in samplers:
                    yield _counted(_timed(sample))

    return LocalIterator(batches, name=f"ParallelRollouts({mode})")


def _timed(sample: Callable[[], Any]) -> Any:
    timer = _get_shared_metrics().timers[SAMPLE_TIMER]
    with timer:
        batch = sample()
    timer.push_units_processed(batch.count)
    return batch


def _counted(batch: Any) -> Any:
    counters = _get_shared_metrics().counters
    counters[STEPS_SAMPLED_COUNTER] += batch.count
    counters[AGENT_STEPS_SAMPLED_COUNTER] += batch.agent_steps()
    return batch


class ConcatBatches:
    """Joins batches, for `combine`.

    Args:
        min_batch_size: Smallest size of a joined batch.
        count_steps_by: ``env_steps`` or ``agent_steps``.
    """

    def __init__(self, min_batch_size: int, count_steps_by: str = "env_steps") -> None:
        if count_steps_by not in ("env_steps", "agent_steps"):
            raise ValueError(f"count_steps_by = {count_steps_by!r}: must be 'env_steps' or 'agent_steps'")
        self.min_batch_size, self.count_steps_by = min_batch_size, count_steps_by
        self.buffer: list[Any] = []
        self.count = 0

    def __call__(self, batch: Any) -> list[Any]:
        _check_sample_batch_type(batch)
        self.buffer.append(batch)
        self.count += batch.env_steps() if self.count_steps_by == "env_steps" else batch.agent_steps()
        if self.count < self.min_batch_size:
            return []
        joined = SampleBatch.concat_samples(self.buffer)
        self.buffer, self.count = [], 0
        return [joined]


class SelectExperiences:
    """Selects the batches of some policies; arguments as of RLlib."""

    def __init__(self, policy_ids: Sequence[str]) -> None:
        self.policy_ids = list(policy_ids)

    def __call__(self, samples: Any) -> Any:
        _check_sample_batch_type(samples)
        if isinstance(samples, SampleBatch):
            return samples
        kept = {name: batch for name, batch in samples.policy_batches.items() if name in self.policy_ids}
        return MultiAgentBatch(kept, samples.count)


class StandardizeFields:
    """Gives columns mean 0 and standard deviation 1, in place; arguments as of RLlib."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = list(fields)

    def __call__(self, samples: Any) -> Any:
        _check_sample_batch_type(samples)
        for batch in samples.as_multi_agent().policy_batches.values():
            for field in self.fields:
                batch[field] = standardized(np.asarray(batch[field]))
        return samples
