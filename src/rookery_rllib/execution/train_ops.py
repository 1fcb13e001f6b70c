"""Operations of execution plans that learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery_rllib.batch.minibatches import LEARNER_STATS_KEY, do_minibatch_sgd
from rookery_rllib.execution.counters import (
    AGENT_STEPS_TRAINED_COUNTER,
    APPLY_GRADS_TIMER,
    COMPUTE_GRADS_TIMER,
    LAST_TARGET_UPDATE_TS,
    LEARN_ON_BATCH_TIMER,
    LEARNER_INFO,
    NUM_TARGET_UPDATES,
    STEPS_SAMPLED_COUNTER,
    STEPS_TRAINED_COUNTER,
    WORKER_UPDATE_TIMER,
    _check_sample_batch_type,
    _get_global_vars,
    _get_shared_metrics,
)
from rookery_rllib.execution.iterators import LocalIterator
from rookery_rllib.execution.rollout_ops import ParallelRollouts


def _part(info: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns one entry of the report of each policy that has it."""
    return {name: told[key] for name, told in info.items() if isinstance(told, Mapping) and key in told}


def _distribute(workers: Any) -> None:
    """Sends the weights of the local worker to the others, and the sampled steps to all policies."""
    with _get_shared_metrics().timers[WORKER_UPDATE_TIMER]:
        workers.sync_weights()
    workers.local_worker().set_global_vars(_get_global_vars())


class TrainOneStep:
    """Trains policies on each batch; returns the batch, and the reports by policy.

    Args:
        workers: A `WorkerSet`, whose local worker learns.
        policies: The policies; none = all that learn.
        num_sgd_iter: Passes over the batch.
        sgd_minibatch_size: Rows of a gradient step; 0 = the whole batch.
    """

    def __init__(
        self, workers: Any, policies: Sequence[str] = (), num_sgd_iter: int = 1, sgd_minibatch_size: int = 0
    ) -> None:
        self.workers, self.policies = workers, list(policies)
        self.num_sgd_iter, self.sgd_minibatch_size = num_sgd_iter, sgd_minibatch_size

    def __call__(self, batch: Any) -> tuple[Any, dict[str, Any]]:
        _check_sample_batch_type(batch)
        metrics, worker = _get_shared_metrics(), self.workers.local_worker()
        names = self.policies or self.workers.trainable_policies()
        timer = metrics.timers[LEARN_ON_BATCH_TIMER]
        with timer:
            if self.num_sgd_iter > 1 or 0 < self.sgd_minibatch_size < batch.count:
                policies = {name: worker.get_policy(name) for name in names}
                info = do_minibatch_sgd(batch, policies, worker, self.num_sgd_iter, self.sgd_minibatch_size, [])
                metrics.info[LEARNER_INFO] = info
            else:
                info = worker.learn_on_batch(batch)
                metrics.info[LEARNER_INFO] = _part(info, LEARNER_STATS_KEY)
                metrics.info["custom_metrics"] = _part(info, "custom_metrics")
        timer.push_units_processed(batch.count)
        metrics.counters[STEPS_TRAINED_COUNTER] += batch.count
        metrics.counters[AGENT_STEPS_TRAINED_COUNTER] += batch.agent_steps()
        _distribute(self.workers)
        return batch, info


class TrainTFMultiGPU(TrainOneStep):
    """The same, with further arguments of RLlib, which have no effect."""

    def __init__(
        self,
        *,
        workers: Any,
        sgd_minibatch_size: int,
        num_sgd_iter: int,
        num_gpus: int = 0,
        shuffle_sequences: bool = True,
        policies: Sequence[str] = (),
        _fake_gpus: bool = False,
        framework: str = "torch",
    ) -> None:
        super().__init__(workers, policies, num_sgd_iter, sgd_minibatch_size)


class ComputeGradients:
    """Computes gradients from each batch; returns them with its number of rows."""

    def __init__(self, workers: Any) -> None:
        self.workers = workers

    def __call__(self, samples: Any) -> tuple[Any, int]:
        _check_sample_batch_type(samples)
        metrics = _get_shared_metrics()
        with metrics.timers[COMPUTE_GRADS_TIMER]:
            gradients, info = self.workers.local_worker().compute_gradients(samples)
        own = {"default_policy": info} if LEARNER_STATS_KEY in info else info
        metrics.info[LEARNER_INFO] = _part(own, LEARNER_STATS_KEY)
        return gradients, samples.count


def AsyncGradients(workers: Any) -> LocalIterator:
    """Returns a stream of gradients from the batches of workers, with their numbers of rows."""
    return ParallelRollouts(workers, mode="async").for_each(ComputeGradients(workers))


class AverageGradients:
    """Averages a list of gradients; returns them with the sum of their numbers of rows."""

    def __call__(self, gradients: Sequence[tuple[Any, int]]) -> tuple[Any, int]:
        each = [found for found, _ in gradients]
        rows = sum(count for _, count in gradients)
        if isinstance(each[0], Mapping):
            return {name: _mean([found[name] for found in each]) for name in each[0]}, rows
        return _mean(each), rows


def _mean(gradients: Sequence[Any]) -> list[Any]:
    """Returns the means of lists of vectors, of which some may be None."""
    columns = zip(*gradients, strict=True)
    kept = ([part for part in column if part is not None] for column in columns)
    return [np.mean(parts, axis=0) if parts else None for parts in kept]


class ApplyGradients:
    """Makes the steps of gradients.

    Args:
        workers: A `WorkerSet`, whose local worker learns.
        policies: Has no effect: gradients name their policies.
        update_all: Has no effect: all workers get the weights.
    """

    def __init__(self, workers: Any, policies: Sequence[str] = (), update_all: bool = True) -> None:
        self.workers = workers

    def __call__(self, item: tuple[Any, int]) -> None:
        if not isinstance(item, tuple) or len(item) != 2:
            raise ValueError(f"ApplyGradients: {type(item).__name__}: must be a pair of gradients and number of rows")
        gradients, rows = item
        metrics = _get_shared_metrics()
        with metrics.timers[APPLY_GRADS_TIMER]:
            self.workers.local_worker().apply_gradients(gradients)
        metrics.counters[STEPS_TRAINED_COUNTER] += rows
        _distribute(self.workers)


class UpdateTargetNetwork:
    """Updates target networks once in a number of steps.

    Args:
        workers: A `WorkerSet`, whose local worker learns.
        target_update_freq: Steps between updates.
        by_steps_trained: Whether steps of training count, instead of sampled ones.
        policies: The policies; none = all that learn.
    """

    def __init__(
        self, workers: Any, target_update_freq: int, by_steps_trained: bool = False, policies: Sequence[str] = ()
    ) -> None:
        self.workers, self.target_update_freq, self.policies = workers, target_update_freq, list(policies)
        self.metric = STEPS_TRAINED_COUNTER if by_steps_trained else STEPS_SAMPLED_COUNTER

    def __call__(self, item: Any) -> None:
        counters = _get_shared_metrics().counters
        now = counters[self.metric]
        if now - counters[LAST_TARGET_UPDATE_TS] > self.target_update_freq:
            for name in self.policies or self.workers.trainable_policies():
                self.workers.local_worker().get_policy(name).update_target()
            counters[NUM_TARGET_UPDATES] += 1
            counters[LAST_TARGET_UPDATE_TS] = now
