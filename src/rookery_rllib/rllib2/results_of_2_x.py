"""Results with the keys of RLlib 2.x beside those of 2021.

New stack: ``env_runners/episode_return_mean``, ``learners/default_policy/vf_loss``, ``num_env_steps_sampled_lifetime``.
Old stack: ``env_runners/episode_reward_mean`` and ``info/learner``; of 2.0 to 2.9, ``episode_reward_mean`` at the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery_rllib.policy.episodes import SINGLE
from rookery_rllib.trainer.results import EndedEpisode, EpisodeWindow

AGENT = "default_agent"
"""Id of the agent of a single-agent environment in results of the new stack."""

ALL_MODULES = "__all_modules__"

LEARNER_KEYS = {
    "cur_lr": "default_optimizer_learning_rate",
    "policy_loss": "policy_loss",
    "actor_loss": "policy_loss",
    "vf_loss": "vf_loss",
    "vf_explained_var": "vf_explained_var",
    "entropy": "entropy",
    "entropy_coeff": "curr_entropy_coeff",
    "kl": "mean_kl_loss",
    "cur_kl_coeff": "curr_kl_coeff",
    "total_loss": "total_loss",
    "critic_loss": "qf_loss",
    "mean_q": "qf_mean",
    "min_q": "qf_min",
    "max_q": "qf_max",
    "mean_td_error": "td_error_mean",
    "alpha_value": "alpha_value",
    "alpha_loss": "alpha_loss",
    "target_entropy": "target_entropy",
    "grad_gnorm": "gradients_default_optimizer_global_norm",
}
"""Names of learner statistics on the new stack, by their names of 2021."""


class Window(EpisodeWindow):
    """A window that keeps the episodes it returned last."""

    latest: list[EndedEpisode] = []

    def with_earlier(self, new: Sequence[EndedEpisode]) -> list[EndedEpisode]:
        self.latest = super().with_earlier(new)
        return self.latest


class Lifetime:
    """Counters over all iterations."""

    def __init__(self) -> None:
        self.episodes = 0


def with_later_keys(result: dict[str, Any], ended: Sequence[EndedEpisode], lifetime: Lifetime) -> dict[str, Any]:
    """Returns a result of 2021 with the keys of RLlib 2.x added.

    Args:
        result: The result of an iteration.
        ended: Episodes of the window for means.
        lifetime: Counters, which are updated.
    """
    lifetime.episodes += result["episodes_this_iter"]
    steps, total = result["timesteps_this_iter"], result["timesteps_total"]
    agents = result["agent_timesteps_total"]
    info = dict(result["info"])
    info |= {"num_env_steps_sampled": total, "num_env_steps_trained": info["num_steps_trained"]}
    runners = env_runner_keys(result, ended) | {
        "num_env_steps_sampled": steps,
        "num_env_steps_sampled_lifetime": total,
        "num_episodes_lifetime": lifetime.episodes,
        "num_agent_steps_sampled_lifetime": agents,
    }
    throughput = steps / max(result["timers"]["sample_time_ms"] / 1e3, 1e-9)
    runners["num_env_steps_sampled_lifetime_throughput"] = throughput
    found = {
        **result,
        "info": info,
        "env_runners": runners,
        "sampler_results": {key: result[key] for key in SAMPLED},
        "learners": learner_keys(result["info"]["learner"], steps),
        "num_env_steps_sampled": total,
        "num_env_steps_sampled_lifetime": total,
        "num_env_steps_sampled_this_iter": steps,
        "num_env_steps_trained": info["num_steps_trained"],
        "num_env_steps_trained_lifetime": info["num_steps_trained"],
        "num_agent_steps_sampled": agents,
        "num_agent_steps_sampled_lifetime": agents,
        "num_agent_steps_trained": info["num_agent_steps_trained"],
        "num_training_step_calls_per_iteration": 1,
        "fault_tolerance": {"num_healthy_workers": result["num_healthy_workers"], "num_remote_worker_restarts": 0},
        "counters": {
            "num_env_steps_sampled": total,
            "num_env_steps_trained": info["num_steps_trained"],
            "num_agent_steps_sampled": agents,
            "num_agent_steps_trained": info["num_agent_steps_trained"],
        },
    }
    seconds = {"env_runner_sampling_timer": "sample_time_ms", "learner_update_timer": "learn_time_ms",
               "synch_weights": "update_time_ms"}  # fmt: skip
    found["timers"] = result["timers"] | {name: result["timers"][key] / 1e3 for name, key in seconds.items()}
    return found


SAMPLED = (
    "episode_reward_max", "episode_reward_min", "episode_reward_mean", "episode_len_mean", "episode_media",
    "episodes_this_iter", "policy_reward_min", "policy_reward_max", "policy_reward_mean", "custom_metrics",
    "hist_stats", "sampler_perf",
)  # fmt: skip
"""Keys of the section that 2.0 to 2.9 called ``sampler_results``, and the old stack of later releases ``env_runners``.
"""


def env_runner_keys(result: Mapping[str, Any], ended: Sequence[EndedEpisode]) -> dict[str, Any]:
    """Returns the section ``env_runners`` of a result or of an evaluation, with the keys of both stacks."""
    lengths = result["hist_stats"]["episode_lengths"]
    found = {key: result[key] for key in SAMPLED if key in result}
    found |= {f"episode_return_{what}": result[f"episode_reward_{what}"] for what in ("mean", "min", "max")}
    found |= {
        "episode_len_mean": result["episode_len_mean"],
        "episode_len_min": min(lengths, default=float("nan")),
        "episode_len_max": max(lengths, default=float("nan")),
        "num_episodes": result["episodes_this_iter"],
        "episodes_timesteps_total": sum(lengths),
    }
    by_agent: dict[str, list[float]] = {}
    by_module: dict[str, list[float]] = {}
    for episode in ended:
        modules: dict[str, float] = {}
        for (agent, policy), value in episode.agent_rewards.items():
            by_agent.setdefault(AGENT if agent == SINGLE else str(agent), []).append(value)
            modules[policy] = modules.get(policy, 0.0) + value
        for policy, value in modules.items():
            by_module.setdefault(policy, []).append(value)
    means = {
        name: {key: float(np.mean(values)) for key, values in returns.items()}
        for name, returns in (("agent", by_agent), ("module", by_module))
    }
    for name, values in means.items():  # RLlib has both spellings, of one agent and of several
        found[f"{name}_episode_returns_mean"] = found[f"{name}_episode_return_mean"] = values
    return found


def learner_keys(learner: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Returns the section ``learners`` for the learner statistics of 2021, by policy."""
    found: dict[str, Any] = {}
    for name, entry in learner.items():
        stats = entry.get("learner_stats", {})
        found[name] = {later: stats[key] for key, later in LEARNER_KEYS.items() if key in stats}
        found[name] |= stats.get("model", {})
        if "qf_loss" not in found[name] and "qf_mean" in found[name] and "loss" in stats:
            found[name]["qf_loss"] = stats["loss"]
    return {**found, ALL_MODULES: {"num_env_steps_trained": steps}}
