"""What `ray.rllib.evaluation.metrics` gave: statistics of the episodes that workers have finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery_rllib.base import ray_core
from rookery_rllib.trainer.results import EndedEpisode, summarized


def collect_episodes(
    local_worker: Any = None,
    remote_workers: Any = (),
    to_be_collected: Any = (),
    timeout_seconds: float | None = None,
) -> tuple[list[Any], list[Any]]:
    """Returns the episodes that have ended since the last call, and an empty list: nothing is still on its way."""
    found = [] if local_worker is None else list(local_worker.get_metrics())
    for ended in ray_core.get(
        [worker.get_metrics.remote() for worker in remote_workers or ()], timeout=timeout_seconds
    ):
        found += ended
    return found, []


def summarize_episodes(episodes: Sequence[EndedEpisode], new_episodes: Sequence[EndedEpisode] | None = None) -> Any:
    return summarized(episodes, len(episodes if new_episodes is None else new_episodes))


def collect_metrics(
    local_worker: Any = None,
    remote_workers: Any = (),
    to_be_collected: Any = (),
    timeout_seconds: float | None = None,
) -> dict[str, Any]:
    episodes, _ = collect_episodes(local_worker, remote_workers, to_be_collected, timeout_seconds)
    found: dict[str, Any] = summarize_episodes(episodes)
    return found
