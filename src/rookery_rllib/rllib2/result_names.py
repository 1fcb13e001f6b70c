"""Names of result keys and of parts of checkpoints: ``ray.rllib.utils.metrics`` and ``ray.rllib.core``."""

from __future__ import annotations

from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID as DEFAULT_POLICY_ID
from rookery_rllib.rllib2.results_of_2_x import AGENT
from rookery_rllib.rllib2.results_of_2_x import ALL_MODULES as ALL_MODULES

DEFAULT_AGENT_ID = AGENT

DEFAULT_MODULE_ID = DEFAULT_POLICY_ID

COMPONENTS = """
    env_runner env_to_module_connector eval_env_runner learner learner_group metrics_logger module_to_env_connector
    optimizer rl_module
"""

SAME = """
    episode_duration_sec_mean episode_len_mean episode_len_max episode_len_min episode_return_mean episode_return_max
    episode_return_min num_episodes num_episodes_lifetime num_agent_steps_sampled num_agent_steps_sampled_lifetime
    num_agent_steps_sampled_this_iter num_env_steps_sampled num_env_steps_sampled_lifetime
    num_env_steps_sampled_per_second num_env_steps_sampled_this_iter num_module_steps_sampled
    num_module_steps_sampled_lifetime num_agent_steps_trained num_agent_steps_trained_lifetime num_env_steps_trained
    num_env_steps_trained_lifetime num_env_steps_trained_this_iter num_module_steps_trained
    num_module_steps_trained_lifetime num_training_step_calls_per_iteration learner_group timers learner_stats
    td_error weights_seq_no num_grad_updates_lifetime learner_update_timer env_runner_sampling_timer
"""
"""Values of constants whose names are the same in capitals."""

OTHERS = {
    "AGGREGATOR_ACTOR_RESULTS": "aggregator_actors", "EVALUATION_RESULTS": "evaluation",
    "ENV_RUNNER_RESULTS": "env_runners", "FAULT_TOLERANCE_STATS": "fault_tolerance", "LEARNER_RESULTS": "learners",
    "REPLAY_BUFFER_RESULTS": "replay_buffer", "EPISODE_AGENT_RETURN_MEAN": "agent_episode_returns_mean",
    "EPISODE_MODULE_RETURN_MEAN": "module_episode_returns_mean", "LEARNER_STATS_KEY": "learner_stats",
    "TD_ERROR_KEY": "td_error", "TRAINING_ITERATION_TIMER": "training_iteration",
    "EVALUATION_ITERATION_TIMER": "evaluation_iteration", "TRAINING_STEP_TIMER": "training_step",
    "SAMPLE_TIMER": "sample", "SYNCH_WORKER_WEIGHTS_TIMER": "synch_weights", "LEARN_ON_BATCH_TIMER": "learn",
    "NUM_SYNCH_WORKER_WEIGHTS": "num_weight_broadcasts", "NUM_TRAINABLE_PARAMETERS": "num_trainable_parameters",
    "NUM_EPISODES_STORED": "num_episodes_stored", "NUM_ENV_STEPS_STORED": "num_env_steps_stored",
}  # fmt: skip
"""Constants with other values."""

NAMES = {
    **{name.upper(): name for name in SAME.split()},
    **{f"COMPONENT_{name.upper()}": name for name in COMPONENTS.split()},
    **OTHERS,
}


def __getattr__(name: str) -> str:
    if name not in NAMES:
        raise AttributeError(f"ray.rllib.utils.metrics has no {name!r} in Rookery")
    return NAMES[name]
