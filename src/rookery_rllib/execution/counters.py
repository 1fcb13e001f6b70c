"""Names of the counters and timers of execution plans, and access to those of the running plan."""

from __future__ import annotations

from typing import Any

from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.execution.iterators import LocalIterator, MetricsContext

STEPS_SAMPLED_COUNTER = "num_steps_sampled"
AGENT_STEPS_SAMPLED_COUNTER = "num_agent_steps_sampled"
STEPS_TRAINED_COUNTER = "num_steps_trained"
AGENT_STEPS_TRAINED_COUNTER = "num_agent_steps_trained"
LAST_TARGET_UPDATE_TS = "last_target_update_ts"
NUM_TARGET_UPDATES = "num_target_updates"

APPLY_GRADS_TIMER = "apply_grad"
COMPUTE_GRADS_TIMER = "compute_grads"
WORKER_UPDATE_TIMER = "update"
GRAD_WAIT_TIMER = "grad_wait"
SAMPLE_TIMER = "sample"
LEARN_ON_BATCH_TIMER = "learn"
LOAD_BATCH_TIMER = "load"

LEARNER_INFO = "learner"


def _get_shared_metrics() -> MetricsContext:
    """Returns the counters of the running plan."""
    return LocalIterator.get_metrics()


def _get_global_vars() -> dict[str, int]:
    return {"timestep": _get_shared_metrics().counters[STEPS_SAMPLED_COUNTER]}


def _check_sample_batch_type(batch: Any) -> None:
    """Raises a ValueError for an object that is no batch."""
    if not isinstance(batch, SampleBatch | MultiAgentBatch):
        raise ValueError(f"{type(batch).__name__}: must be a SampleBatch or a MultiAgentBatch")
