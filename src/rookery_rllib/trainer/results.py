"""Results of ``train()`` and ``evaluate()`` in the form of 2021, from Rookery's metrics."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isclose
from typing import Any

import numpy as np

from rookery.face import EpisodeResult, IterationResult, Timers, usable_cores
from rookery_rllib.base import ray_core

DEFAULT_POLICY_ID = "default_policy"


@dataclass(frozen=True)
class EndedEpisode:
    """An episode in results.

    Attributes:
        reward: Sum of the rewards of all agents.
        length: Environment steps.
        agent_rewards: Sum of the rewards of each agent, by pairs of agent and policy.
        custom_metrics: Metrics of callbacks.
        hist_data: Histogram data of callbacks.
        media: Media of callbacks.
    """

    reward: float
    length: int
    agent_rewards: Mapping[tuple[Any, str], float]
    custom_metrics: Mapping[str, Any] = field(default_factory=dict)
    hist_data: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    media: Mapping[str, Any] = field(default_factory=dict)


def ended_episode(episode: Any) -> EndedEpisode:
    return EndedEpisode(
        episode.total_reward,
        episode.length,
        episode.agent_rewards,
        episode.custom_metrics,
        episode.hist_data,
        episode.media,
    )


def as_measured(result: EpisodeResult, noted: list[Any]) -> EndedEpisode:
    """Returns a finished episode with the data of callbacks.

    Args:
        result: The episode.
        noted: Ended episodes of its environment that were not returned yet, in the order of time.
    """
    for place, episode in enumerate(noted):
        if episode.length == result.length and isclose(episode.total_reward, result.total, abs_tol=1e-6):
            return ended_episode(noted.pop(place))
    rewards = {(agent, result.policies[agent]): value for agent, value in result.agents.items()}
    return EndedEpisode(result.total, result.length, rewards)


class EpisodeWindow:
    """Window of episodes for means: those of the iteration, filled up with earlier ones.

    Args:
        smallest: Smallest number of episodes (``metrics_smoothing_episodes``).
    """

    def __init__(self, smallest: int) -> None:
        self.smallest = smallest
        self._earlier: deque[EndedEpisode] = deque(maxlen=max(smallest, 1))

    def with_earlier(self, new: Sequence[EndedEpisode]) -> list[EndedEpisode]:
        """Returns earlier episodes, as many as are missing, and the new ones; stores them."""
        missing = max(self.smallest - len(new), 0)
        earlier = list(self._earlier)[-missing:] if missing else []
        self._earlier.extend(new)
        return [*earlier, *new]


def summarized(episodes: Sequence[EndedEpisode], new: int) -> dict[str, Any]:
    rewards, lengths = [each.reward for each in episodes], [each.length for each in episodes]
    by_policy: dict[str, list[float]] = {}
    measured: dict[str, list[Any]] = {}
    histograms: dict[str, list[Any]] = {"episode_reward": rewards, "episode_lengths": lengths}
    media: dict[str, list[Any]] = {}
    for each in episodes:
        for (_, policy), reward in each.agent_rewards.items():
            if policy != DEFAULT_POLICY_ID:
                by_policy.setdefault(policy, []).append(reward)
        for name, value in each.custom_metrics.items():
            measured.setdefault(name, []).append(value)
        for name, values in each.hist_data.items():
            histograms.setdefault(name, []).extend(values)
        for name, thing in each.media.items():
            media.setdefault(name, []).append(thing)
    histograms |= {f"policy_{policy}_reward": list(values) for policy, values in by_policy.items()}
    nothing = float("nan")
    return {
        "episode_reward_max": max(rewards, default=nothing),
        "episode_reward_min": min(rewards, default=nothing),
        "episode_reward_mean": float(np.mean(rewards)) if rewards else nothing,
        "episode_len_mean": float(np.mean(lengths)) if lengths else nothing,
        "episode_media": media,
        "episodes_this_iter": new,
        "policy_reward_min": {policy: float(np.min(values)) for policy, values in by_policy.items()},
        "policy_reward_max": {policy: float(np.max(values)) for policy, values in by_policy.items()},
        "policy_reward_mean": {policy: float(np.mean(values)) for policy, values in by_policy.items()},
        "custom_metrics": _statistics(measured),
        "hist_stats": histograms,
        "off_policy_estimator": {},
    }


def _statistics(measured: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Returns mean, minimum and maximum of each number; nested values and lists are unchanged."""
    found: dict[str, Any] = {}
    for name, values in measured.items():
        flat = [float(value) for value in values if np.ndim(value) == 0]
        if len(flat) != len(values):
            flat = [float(number) for value in values for number in np.ravel(value)]
        nothing = float("nan")
        found[f"{name}_mean"] = float(np.mean(flat)) if flat else nothing
        found[f"{name}_min"] = min(flat, default=nothing)
        found[f"{name}_max"] = max(flat, default=nothing)
    return found


class Stopwatch:
    """Measures parts of the iterations, from Rookery's tree of timers."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._before: dict[str, tuple[float, int]] = {}

    def since(self) -> dict[str, tuple[float, int]]:
        """Returns seconds and calls of each label since the last call."""
        now: dict[str, tuple[float, int]] = {}
        for row in self._timers.rows():
            seconds, count = now.get(row.label, (0.0, 0))
            now[row.label] = seconds + row.seconds, count + row.count
        found = {}
        for label, (seconds, count) in now.items():
            earlier, calls = self._before.get(label, (0.0, 0))
            found[label] = seconds - earlier, count - calls
        self._before = now
        return found


def performance(spent: Mapping[str, tuple[float, int]], env_steps: int) -> dict[str, Any]:
    def seconds(*labels: str) -> float:
        return sum(spent.get(label, (0.0, 0))[0] for label in labels)

    steps = max(spent.get("env.step", (0.0, 0))[1], 1)
    sample, learn, update = seconds("sample"), seconds("training_step", "learn"), seconds("set_weights")
    return {
        "sampler_perf": {
            "mean_raw_obs_processing_ms": 1e3 * seconds("record") / steps,
            "mean_inference_ms": 1e3 * seconds("act") / steps,
            "mean_action_processing_ms": 0.0,
            "mean_env_wait_ms": 1e3 * seconds("env.step", "env.reset") / steps,
            "mean_env_render_ms": 0.0,
        },
        "timers": {
            "sample_time_ms": round(1e3 * sample, 3),
            "sample_throughput": round(env_steps / max(sample, 1e-9), 3),
            "load_time_ms": 0.0,
            "load_throughput": 0.0,
            "learn_time_ms": round(1e3 * learn, 3),
            "learn_throughput": round(env_steps / max(learn, 1e-9), 3),
            "update_time_ms": round(1e3 * update, 3),
        },
        "perf": _machine_use(),
    }


def _machine_use() -> dict[str, float]:
    """Returns CPU and memory use of the machine in percent, if the system provides it."""
    found = {}
    with suppress(OSError, AttributeError):
        found["cpu_util_percent"] = min(100.0 * os.getloadavg()[0] / usable_cores(), 100.0)
    with suppress(OSError, ValueError, AttributeError):
        pages, free = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_AVPHYS_PAGES")
        found["ram_util_percent"] = 100.0 * (1 - free / pages)
    return {name: round(share, 1) for name, share in found.items()}


def counters(timesteps: int, earlier: int, decisions: int, result: IterationResult) -> dict[str, Any]:
    """Returns the counters of sampled and trained steps.

    Args:
        timesteps: Timesteps so far.
        earlier: Those of an iteration earlier.
        decisions: Decisions of all agents so far.
        result: The latest result of the run.
    """
    return {
        "timesteps_this_iter": timesteps - earlier,
        "timesteps_total": timesteps,
        "agent_timesteps_total": decisions,
        "num_healthy_workers": 0,
        "info": {
            "num_steps_sampled": timesteps,
            "num_agent_steps_sampled": decisions,
            "num_steps_trained": timesteps,
            "num_agent_steps_trained": sum(policy.decisions for policy in result.policies.values()),
        },
    }


def learner_extras(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the further entries beside ``learner_stats`` for algorithms with replay."""
    return {name: stats[name] for name in ("mean_td_error",) if name in stats}


# --- of workers, as `ray.rllib.evaluation.metrics` --------------------------------------------------------------------


def collect_episodes(
    local_worker: Any = None,
    remote_workers: Any = (),
    to_be_collected: Any = (),
    timeout_seconds: float | None = None,
) -> tuple[list[Any], list[Any]]:
    """Returns the episodes that have ended since the last call, and an empty list: none is pending."""
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
