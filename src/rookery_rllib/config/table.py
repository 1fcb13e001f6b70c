"""Every key of a configuration of 2021, and what becomes of it: `ROWS`, the one table.

A key is *set* (its value goes to a path of ours), *translated* (a function of it and its neighbours gives values of
paths), *kept* (the trainer itself goes by it), *cluster* (translated where workers play on a cluster that the script
has joined, ignored in one process), *ignored* (nothing would change; a line says so to whoever set it), or *refused*
(with what to use instead). The page of the documentation is made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rookery.face import nearest
from rookery_rllib.config import key_functions as f
from rookery_rllib.config.defaults import DEFAULT_CONFIGS, DEPRECATED_VALUE
from rookery_rllib.env.teams import TEAM_KIND


class Fate(Enum):
    SET = "set"
    TRANSLATED = "translated"
    KEPT = "kept"
    CLUSTER = "cluster"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """What becomes of a key.

    Attributes:
        key: The key, with the section it stands in: ``model.use_lstm``. Keys of exploration have its type in between:
            ``exploration_config.EpsilonGreedy.final_epsilon``.
        fate: What becomes of it.
        text: What it does here, or why it is ignored or refused, in a sentence.
        paths: Settings of ours that it decides.
        function: Of keys that are translated: what gives the values; None of one that the trainer goes by on a cluster.
        only: Algorithms of which this is said; empty = of all.
        fine: Values beside the default that are neither refused nor worth a line.
    """

    key: str
    fate: Fate
    text: str
    paths: tuple[str, ...] = ()
    function: Callable[[f.Reader], f.Values] | None = None
    only: tuple[str, ...] = ()
    fine: tuple[Any, ...] = ()


def to(key: str, path: str, text: str, only: tuple[str, ...] = ()) -> Row:
    """A key whose value is that of a path."""
    return Row(key, Fate.SET, text, (path,), only=only)


def by(
    function: Callable[[f.Reader], f.Values], keys: str, paths: str, text: str, only: tuple[str, ...] = ()
) -> list[Row]:
    """Keys that a function translates to paths, both written with spaces between."""
    return [Row(key, Fate.TRANSLATED, text, tuple(paths.split()), function, only) for key in keys.split()]


def on_cluster(
    function: Callable[[f.Reader], f.Values] | None, keys: str, paths: str, text: str, only: tuple[str, ...] = ()
) -> list[Row]:
    """Keys that are translated, or gone by, where workers play on a cluster, and change nothing in one process."""
    return [Row(key, Fate.CLUSTER, text, tuple(paths.split()), function, only) for key in keys.split()]


def kept(key: str, text: str, only: tuple[str, ...] = ()) -> Row:
    return Row(key, Fate.KEPT, text, only=only)


def ignored(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = ()) -> list[Row]:
    """Keys that would change nothing here."""
    return [Row(key, Fate.IGNORED, text, only=only, fine=fine) for key in keys.split()]


def refused(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[Any, ...] = ()) -> list[Row]:
    """Keys of which only the default can be."""
    return [Row(key, Fate.REFUSED, text, only=only, fine=fine) for key in keys.split()]


A = "algorithm."
M = "algorithm.model."
X = "algorithm.exploration."
R = "algorithm.replay."
TENSORFLOW = "networks are torch's, whatever framework is named"
COPIES_HERE = "workers are copies in this process, and not on a cluster"
"""Why a key about workers on a cluster changes nothing where there are none."""

OFFLINE = "it says how recorded experience is read, and nothing is read here"

SAMPLING = [
    *by(f.lanes, "num_workers num_envs_per_worker",
        "sampling.num_envs sampling.workers sampling.asynchronous cluster.ray",
        "Copies of the environment: max(1, num_workers) x num_envs_per_worker. Where the script has joined a cluster "
        "of Ray, so many workers there play them, asynchronously for IMPALA, APPO and Ape-X; else this process does."),
    *ignored("create_env_on_driver", "environments are in this process, or one tells it the spaces of those elsewhere"),
    *by(f.on_policy_batch, "rollout_fragment_length train_batch_size batch_mode",
        f"{A}fragment_length {A}batch_size",
        "Whole rounds of fragments until train_batch_size env steps are reached; advantages are cut at their ends.",
        f.PPO_KIND),
    *by(f.actor_batch, "rollout_fragment_length train_batch_size batch_mode grad_clip",
        f"{A}fragment_length {A}batch_size {A}max_grad_norm",
        "Whole rounds of fragments until train_batch_size env steps are reached (A3C: one); the longest gradient is "
        "divided by the batch, because their loss is a sum.", f.A2C_KIND),
    *by(f.reinforce_batch, "rollout_fragment_length train_batch_size batch_mode", f"{A}batch_size",
        "Decisions of a batch; those of episodes that are not over wait for the next.", ("PG",)),
    *by(f.replay_pace, "rollout_fragment_length train_batch_size", f"{A}train_every {A}updates_per_step {A}batch_size",
        "A round of rollout_fragment_length steps of every copy, then a gradient step of train_batch_size decisions.",
        f.OFF_POLICY),
    *by(f.replay_pace, "training_intensity", f"{A}updates_per_step",
        "Decisions learned from for each that is played; None = one gradient step a round.",
        tuple(name for name in f.OFF_POLICY if name != "SimpleQ")),
    *ignored("batch_mode", "what is replayed does not depend on where playing paused", f.OFF_POLICY),
    *by(f.iteration, "timesteps_per_iteration", "sampling.iteration_steps",
        "Env steps of an iteration, at least; without it an iteration is one batch."),
    kept("min_iter_time_s", "Seconds an iteration goes on for at least, where it is set; the defaults of A2C, IMPALA "
         "and APPO (10), of A3C (5) and of replay (1) are not waited for, so that equal seeds give equal iterations."),
    *by(f.staleness, "sample_async", "sampling.staleness",
        "True: the next batch is played while one is learned from; workers on a cluster play on without waiting "
        "(sampling.asynchronous)."),
    *refused("sample_collector", "batches are collected in one way; see a batch in on_postprocess_trajectory"),
    *ignored("compress_observations", "replay stores pictures frame by frame"),
    *ignored("remote_worker_envs remote_env_batch_wait_ms",
             "a worker on a cluster steps its copies in its own process, take more of them; copies in this process "
             "have helpers where a short measurement finds them worth it"),
    *refused("fake_sampler", "every step is a real one; leave it out"),
    *by(f.worker_failures, "ignore_worker_failures", "env.on_error",
        "True: an episode whose environment raises is given up, and the environment is built anew."),
]  # fmt: skip

ENVIRONMENT = [
    kept("env", "The environment: an id, a registered name, a class."),
    kept("env_config", "What the environment is built with, as an EnvContext."),
    *by(f.episode_ends, "horizon soft_horizon no_done_at_end", "env.wrappers",
        "Episodes are truncated after horizon steps; with no_done_at_end every end is a cut."),
    kept("env_task_fn", "A function (result, env, env_context) after each iteration: the task the env is set to."),
    *ignored("render_env", "no windows are opened; rookery record, or Trainer.record, makes a film"),
    *refused("record_env monitor", "films are made afterwards: rookery record, or Trainer.record",
             fine=(False, None, DEPRECATED_VALUE)),
    *ignored("normalize_actions", "actions of bounded boxes are always learned as numbers from -1 to 1"),
    kept("clip_rewards", "True: what is learned from has the sign of the reward; a number: the reward cut off there."),
    *refused("clip_actions", "actions always stay within their box; leave it out, or set normalize_actions = True"),
    *refused("preprocessor_pref", "pictures of Atari are prepared as DeepMind did; wrap the environment for others"),
    kept("callbacks", "The class of the callbacks."),
    kept("explore", "False: actions that are asked for are the most likely ones; DQN, DDPG and TD3 then play so too."),
]  # fmt: skip

LEARNING = [
    to("gamma", f"{A}gamma", "Discount of the reward."),
    *by(f.learning_rate, "lr", f"{A}lr", "Learning rate.", (*f.ON_POLICY, "PG", *f.Q_KIND)),
    *by(f.learning_rate, "lr_schedule", f"{A}lr", "Learning rate by env steps, [[step, rate], ...].",
        (*f.ON_POLICY, *f.Q_KIND)),
    *ignored("lr", "the rates of actor and critics are keys of their own (optimization, actor_lr, critic_lr)",
             ("SAC", *f.DDPG_KIND)),
    *ignored("optimizer", "no algorithm here reads it; learning rates and grad_clip are keys of their own"),
    *by(f.device, "num_gpus _fake_gpus", "device",
        "More than 0: networks learn on the GPU, on one of them."),
    to("seed", "seed", "Names all random streams; None = drawn once and noted."),
    *by(f.observation_filter, "observation_filter", f"{M}normalize_obs sampling.warmup_steps",
        "MeanStdFilter: observations are shifted and scaled by their running mean and deviation."),
    *ignored("synchronize_filters", "there is one filter a policy"),
    *ignored("framework eager_tracing tf_session_args local_tf_session_args", TENSORFLOW,
             fine=("tf", "tf1", "tf2", "tfe", "torch", "jax", None)),
    *ignored("simple_optimizer", "there is one optimizer"),
]  # fmt: skip

EVALUATION = [
    kept("evaluation_interval", "Iterations between evaluations."),
    *by(f.measuring, "evaluation_num_episodes evaluation_config.explore",
        "evaluation.episodes evaluation.deterministic",
        "Episodes of an evaluation, and whether their actions are drawn."),
    kept("evaluation_config", "Keys that differ while policies are evaluated, such as env_config."),
    kept("custom_eval_function", "A function (trainer, workers) that evaluates instead."),
    *by(f.measuring, "evaluation_num_workers", "evaluation.workers",
        "Workers that a custom_eval_function gets; above 0 it sets an interval of 1. Where the script has joined a "
        "cluster and has no such function, so many workers there play the episodes."),
    *on_cluster(None, "evaluation_parallel_to_training", "",
                "True: evaluation_num_workers on the cluster measure what an iteration begins with, while it is made; "
                "else an evaluation comes between two iterations."),
    *ignored("in_evaluation", "it marks their workers; nothing reads it here"),
]  # fmt: skip

REPORTING = [
    kept("metrics_smoothing_episodes", "Episodes that means and extremes of returns are taken over."),
    kept("log_level", "Level of Python's logger ray.rllib, which scripts may use."),
    kept("log_sys_usage", "Whether results have the section perf."),
    kept("logger_config", "What loggers of Tune are told."),
    *ignored("collect_metrics_timeout", "nothing is waited for"),
    *on_cluster(f.worker_resources, "num_cpus_per_worker num_gpus_per_worker",
                "cluster.worker_cpus cluster.worker_gpus",
                "Cores and GPUs that Ray reserves for each worker."),
    *on_cluster(f.placement, "placement_strategy", "cluster.placement",
                "PACK: few machines have many workers; SPREAD: each has as many as the others."),
    *ignored("custom_resources_per_worker", "a worker is placed by its cores and GPUs"),
    *ignored("num_cpus_for_driver", "a trial has what resources_per_trial of tune.run says"),
    *refused("extra_python_environs_for_driver", "set the variables before this process starts"),
    *by(f.worker_environment, "extra_python_environs_for_worker", "cluster.environment",
        "Environment variables of workers on a cluster; refused where workers are copies in this process."),
    *refused("input", "experience is played here, or by clients of a PolicyServerInput, which a function gives; "
             "rookery learn RUN learns from a replay that was recorded"),
    kept("output", "A directory, or 'logdir', that what is played is written to, in lines of JSON; or a function of an "
         "IOContext that gives an OutputWriter."),
    kept("output_compress_columns", "Columns that are packed there."),
    kept("output_max_file_size", "Bytes after which another file begins there."),
    *ignored("input_evaluation postprocess_inputs shuffle_buffer_size", OFFLINE),
]  # fmt: skip

MULTIAGENT = [
    kept("multiagent.policies", "Policies by name: (class or None, spaces or None, own keys), or names alone."),
    kept("multiagent.policy_mapping_fn", "Agent to policy: a function of the agent, and of the episode where it takes "
         "one; None = the only policy, or policies named like agents."),
    kept("multiagent.policies_to_train", "Policies that learn; None = all. A function is asked once for each."),
    *by(f.lanes, "multiagent.count_steps_by", f"{A}batch_size",
        "env_steps or agent_steps: what train_batch_size counts."),
    kept("multiagent.observation_fn", "A function (agent_obs, worker, base_env, policies, episode) that rewrites what "
         "the agents see in each step."),
    *refused("multiagent.replay_mode", "each policy replays its own decisions; use 'independent'"),
]  # fmt: skip

LAYERED = (*f.ON_POLICY, "PG", *f.Q_KIND)
OUTSIDE_LAYERS = ("SAC", *f.DDPG_KIND)

MODEL = [
    *by(f.policy_network, "model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens "
        "model.post_fcnet_activation model.conv_filters model.conv_activation model.no_final_linear",
        f"{M}hidden {M}activation {M}module {M}module_config",
        "Layers, one chain of both lists; with conv_filters the second stands on the convolutions.", LAYERED),
    *ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation",
             "layers of actor and critics are keys of their own", OUTSIDE_LAYERS),
    *refused("model.conv_filters model.conv_activation model.no_final_linear",
             "pictures go through the network that model.cnn names", OUTSIDE_LAYERS),
    *ignored("model.free_log_std", "the logarithm of a deviation is a parameter of its own, as with True"),
    *by(f.shared_trunk, "model.vf_share_layers", f"{M}shared_trunk",
        "Whether values stand on the policy's features.", f.ON_POLICY),
    *by(f.shared_trunk, "vf_share_layers", f"{M}shared_trunk", "The same, as it was written before.", f.PPO_KIND),
    *ignored("model.vf_share_layers", "there is no value function beside the policy", ("PG", *f.OFF_POLICY)),
    *by(f.memory, "model.use_lstm model.max_seq_len model.lstm_cell_size model.lstm_use_prev_action "
        "model.lstm_use_prev_reward model.lstm_use_prev_action_reward model.use_attention "
        "model.attention_num_transformer_units model.attention_dim model.attention_num_heads "
        "model.attention_memory_inference model.attention_use_n_prev_actions model.attention_use_n_prev_rewards "
        "model.num_framestacks model.framestack",
        " ".join(f"{M}memory.{name}" for name in ("kind", "size", "layers", "heads", "context", "sequence_length",
                                                   "previous_action", "previous_reward", "frames")),
        "What a policy remembers: an LSTM, attention, its last frames."),
    *ignored("model.attention_memory_training", "gradients flow through max_seq_len decisions"),
    *refused("model.attention_head_dim model.attention_position_wise_mlp_dim model.attention_init_gru_gate_bias",
             "heads share attention_dim among them, and layers are of its width; leave it out"),
    *ignored("model._time_major model._use_default_native_models", "how rows lie in memory is not seen from outside"),
    *ignored("model.dim", "pictures of Atari are 84 x 84, and others are not resized; wrap the environment to do so"),
    *ignored("model.grayscale model.zero_mean", "only the preprocessor that preprocessor_pref = 'rllib' chose read it"),
    kept("model.custom_model", "A model of your own, by the name it was registered under."),
    kept("model.custom_model_config", "What it is told."),
    kept("model.custom_action_dist", "A distribution of your own, by the name it was registered under."),
    kept("model.custom_preprocessor", "A preprocessor of your own, by the name it was registered under."),
]  # fmt: skip

PPO_AND_A2C = [
    *by(f.advantage, "use_critic use_gae lambda", f"{A}gae_lambda",
        "Decay of later errors in the advantage; without use_gae it is 1.", (*f.PPO_KIND, *f.A2C_KIND)),
    to("vf_loss_coeff", f"{A}value_coef", "Weight of the value loss.", f.PPO_KIND),
    *by(f.actor_value_weight, "vf_loss_coeff", f"{A}value_coef", "Weight of the value loss, halved as theirs is.",
        (*f.A2C_KIND, *f.IMPALA_KIND)),
    *by(f.entropy, "entropy_coeff", f"{A}entropy_coef", "Weight of the entropy bonus.", f.ON_POLICY),
    *by(f.entropy, "entropy_coeff_schedule", f"{A}entropy_coef",
        "Weight by env steps, [[step, weight], ...], or the step at which it is 0.",
        (*f.PPO_KIND, *f.IMPALA_KIND)),
    to("clip_param", f"{A}clip", "How far a probability ratio may leave 1.", (*f.PPO_KIND, "APPO")),
    *by(f.value_clip, "vf_clip_param", f"{A}value_clip",
        "How far values may move in an update; ignored at its default, with a line.", f.PPO_KIND),
    to("kl_coeff", f"{A}kl_coef", "First weight of the penalty on the KL divergence.", f.PPO_KIND),
    to("kl_target", f"{A}kl_target", "Divergence that the penalty aims at.", (*f.PPO_KIND, "APPO")),
    *by(f.on_policy_batch, "sgd_minibatch_size", f"{A}minibatch_size", "Decisions in a gradient step.", f.PPO_KIND),
    to("num_sgd_iter", f"{A}epochs", "Passes over a batch.", f.PPO_KIND),
    to("grad_clip", f"{A}max_grad_norm", "Longest gradient; None = any.", (*f.PPO_KIND, "APPO")),
    *refused("shuffle_sequences", "minibatches are always drawn anew; leave it out", f.PPO_KIND),
    *ignored("microbatch_size", "it saves memory on a GPU and changes no gradient", ("A2C",)),
    *ignored("keep_local_weights_in_sync torch_distributed_backend truncate_episodes",
             "DDPPO is PPO in one process here", ("DDPPO",)),
]  # fmt: skip

NO_QUEUE = "nothing waits in queues: what is there is learned from as soon as it makes a batch"

IMPALA_AND_APPO = [
    *by(f.actor_batch, "rollout_fragment_length train_batch_size batch_mode grad_clip",
        f"{A}fragment_length {A}batch_size {A}max_grad_norm",
        "Whole rounds of fragments until train_batch_size env steps are reached; the longest gradient is divided by "
        "the batch, because their loss is a sum.", ("IMPALA",)),
    *by(f.on_policy_batch, "rollout_fragment_length train_batch_size batch_mode", f"{A}fragment_length {A}batch_size",
        "Whole rounds of fragments until train_batch_size env steps are reached.", ("APPO",)),
    *refused("vtrace", "IMPALA always corrects for the weights that played; A2C does without", ("IMPALA",)),
    *refused("vtrace", "APPO always corrects for the weights that played; PPO with sample_async does without a target "
             "network", ("APPO",)),
    *by(f.trace_bounds, "vtrace_clip_rho_threshold vtrace_clip_pg_rho_threshold", f"{A}rho_bar",
        "Largest importance weight, of value targets and of scores alike.", f.IMPALA_KIND),
    *ignored("vtrace_drop_last_ts", "no decision is dropped: what comes after the last one counts with its value",
             f.IMPALA_KIND),
    *refused("num_sgd_iter", "IMPALA learns from a batch once; use APPO", ("IMPALA",)),
    *refused("replay_proportion", "IMPALA keeps no batches; use APPO", ("IMPALA",)),
    *ignored("minibatch_buffer_size replay_buffer_num_slots", "IMPALA keeps no batches", ("IMPALA",)),
    *by(f.passes, "num_sgd_iter minibatch_buffer_size",
        f"{A}epochs {A}batch_uses {A}buffered_batches {A}minibatch_size",
        "How often a batch is learned from: at once, or, where more than one is kept, again later; a batch is one "
        "gradient step.", ("APPO",)),
    *by(f.passes, "replay_proportion replay_buffer_num_slots", f"{A}batch_uses {A}buffered_batches",
        "Older batches that are learned with each new one, and how many pieces of them are kept.", ("APPO",)),
    *ignored("learner_queue_size learner_queue_timeout", NO_QUEUE, f.IMPALA_KIND),
    *on_cluster(f.in_flight, "max_sample_requests_in_flight_per_worker", "sampling.in_flight",
                "Fragments that each worker is asked for ahead.", f.IMPALA_KIND),
    *ignored("num_aggregation_workers", "the trainer itself puts together what workers send", f.IMPALA_KIND),
    *ignored("broadcast_interval", "weights are handed out after each update", f.IMPALA_KIND),
    *ignored("num_multi_gpu_tower_stacks num_data_loader_buffers", "a training learns on one GPU at most",
             f.IMPALA_KIND),
    *by(f.step_maker, "opt_type decay epsilon", f"{A}optimizer {A}rms_alpha {A}rms_eps",
        "Adam or RMSprop; RMSprop has epsilon inside the root here.", ("IMPALA",)),
    *refused("momentum", "RMSprop has none here; use 0", ("IMPALA",), fine=(0,)),
    *refused("opt_type", "APPO learns by Adam", ("APPO",)),
    *ignored("decay momentum epsilon", "they belong to RMSprop", ("APPO",)),
    *refused("_separate_vf_optimizer", "actor and critic have one optimizer; leave it out", f.IMPALA_KIND),
    *ignored("_lr_vf", "actor and critic have one optimizer", f.IMPALA_KIND),
    *refused("after_train_step", "see and change batches in on_learn_on_batch", f.IMPALA_KIND),
    *ignored("use_critic use_gae lambda", "they belong to vtrace = False", ("APPO",)),
    *by(f.target_penalty, "use_kl_loss kl_coeff", f"{A}kl_coef",
        "First weight of the penalty on the KL divergence from the target network, where use_kl_loss is set.",
        ("APPO",)),
]  # fmt: skip

REPLAY = [
    *by(f.replay, "buffer_size", f"{R}capacity", "Decisions kept.", f.OFF_POLICY),
    *by(f.replay, "prioritized_replay prioritized_replay_alpha prioritized_replay_beta prioritized_replay_eps "
        "final_prioritized_replay_beta prioritized_replay_beta_annealing_timesteps",
        f"{R}kind {R}alpha {R}beta {R}priority_eps",
        "Whether decisions are drawn by what there was to learn from them.",
        tuple(name for name in f.OFF_POLICY if name != "SimpleQ")),
    to("n_step", f"{A}n_step", "Decisions whose rewards a target counts.", (*f.DQN_KIND, "SAC", *f.DDPG_KIND)),
    to("learning_starts", f"{A}learning_starts", "Decisions before learning begins; until then actions are random.",
       f.Q_KIND),
    to("grad_clip", f"{A}max_grad_norm", "Longest gradient; None = any.", f.OFF_POLICY),
    *refused("worker_side_prioritization", "new decisions have the highest priority; leave it out",
             tuple(name for name in f.OFF_POLICY if name not in ("SimpleQ", *f.APEX_KIND))),
    *ignored("worker_side_prioritization", "priorities are the learner's: new decisions have the highest", f.APEX_KIND,
             fine=(True,)),
]  # fmt: skip

DQN_KEYS = [
    to("adam_epsilon", f"{A}adam_eps", "Added to Adam's denominator.", f.Q_KIND),
    to("double_q", f"{A}double", "Whether the network that learns chooses the next action.", f.DQN_KIND),
    *by(f.dueling, "dueling hiddens", f"{A}dueling {A}dueling_hidden",
        "Streams of their own for states and advantages; without them hiddens are more layers.", f.DQN_KIND),
    *by(f.q_values, "num_atoms v_min v_max", f"{A}values.kind {A}values.atoms {A}values.low {A}values.high",
        "More than one atom: the distribution of returns is learned.", f.DQN_KIND),
    *by(f.q_exploration, "noisy sigma0", f"{X}kind {X}noisy_std", "Layers with learned noise.", f.DQN_KIND),
    *by(f.q_target, "target_network_update_freq", f"{A}target.every_env_steps",
        "Env steps from one copy of the target network to the next.", f.Q_KIND),
    *refused("replay_sequence_length", "decisions are drawn one by one; R2D2 draws sequences",
             ("DQN", "SimpleQ", "APEX")),
    *refused("replay_sequence_length", "it follows from max_seq_len and burn_in; leave it out", ("R2D2",)),
    *refused("before_learn_on_batch", "see and change batches in on_learn_on_batch", f.DQN_KIND),
    to("burn_in", f"{R}burn_in", "Decisions at the start of a sequence that only bring memory up to date.", ("R2D2",)),
    *ignored("zero_init_states", "sequences start from what was remembered when they were played, as with False",
             ("R2D2",)),
    *by(f.q_values, "use_h_function", f"{A}values.rescale", "Whether values are rescaled.", ("R2D2",)),
    *refused("h_function_epsilon", "the slope that is left of large values is 0.001; leave it out", ("R2D2",)),
]  # fmt: skip

CRITIC_KEYS = [
    *by(f.critics, "twin_q", f"{A}critic.number", "Two critics, of which the lower value counts.",
        ("SAC", *f.DDPG_KIND)),
    to("tau", f"{A}tau", "How far targets follow in a gradient step.", ("SAC", *f.DDPG_KIND)),
    *refused("target_network_update_freq", "targets follow in every gradient step, by tau; use 0",
             ("SAC", "DDPG", "TD3")),
    *ignored("target_network_update_freq", "targets follow in every gradient step, by tau", ("APEX_DDPG",)),
    *refused("use_state_preprocessor", "networks see observations as they are; leave it out", ("SAC", *f.DDPG_KIND),
             fine=(DEPRECATED_VALUE, False)),
    *by(f.critic_exploration, "learning_starts", f"{A}learning_starts",
        "Decisions before learning begins; until then actions are random.", ("SAC", *f.DDPG_KIND)),
    *by(f.sac_networks, " ".join(
        f"{net}.{name}" for net in ("policy_model", "Q_model") for name in
        ("fcnet_hiddens", "fcnet_activation", "post_fcnet_hiddens", "post_fcnet_activation", "custom_model")),
        f"{M}hidden {M}activation", "Layers of actor and critics, which are the same here.", ("SAC",)),
    *ignored("policy_model.custom_model_config Q_model.custom_model_config", "there is no custom_model to be told",
             ("SAC",)),
    to("initial_alpha", f"{A}alpha_init", "First temperature.", ("SAC",)),
    *by(f.temperature, "target_entropy", f"{A}target_entropy", "Entropy aimed at; None, 'auto' = by the space.",
        ("SAC",)),
    *by(f.sac_rates, "optimization.actor_learning_rate optimization.critic_learning_rate "
        "optimization.entropy_learning_rate", f"{A}lr", "Learning rate, one for all three.", ("SAC",)),
    *refused("_deterministic_loss _use_beta_distribution", "actions are squashed Gaussians; leave it out", ("SAC",)),
    *by(f.ddpg_networks, "actor_hiddens actor_hidden_activation critic_hiddens critic_hidden_activation",
        f"{M}hidden {M}activation", "Layers of actor and critics, which are the same here.", f.DDPG_KIND),
    *by(f.ddpg_rates, "actor_lr critic_lr", f"{A}lr", "Learning rate, one for both.", f.DDPG_KIND),
    *by(f.smoothing, "policy_delay smooth_target_policy target_noise target_noise_clip",
        f"{A}policy_delay {A}target_noise {A}target_noise_clip",
        "What TD3 adds; DDPG with a delay or smoothing is TD3.", f.DDPG_KIND),
    *refused("use_huber", "critics learn from squared errors; leave it out", f.DDPG_KIND),
    *ignored("huber_threshold", "it belongs to use_huber", f.DDPG_KIND),
    *refused("l2_reg", "weights are not drawn to 0; use 0", f.DDPG_KIND, fine=(0, 0.0)),
]  # fmt: skip

TEAM_KEYS = [
    *by(f.replay_pace, "rollout_fragment_length train_batch_size", f"{A}train_every {A}updates_per_step {A}batch_size",
        "A round of rollout_fragment_length steps of every copy, then a gradient step of train_batch_size decisions; "
        "QMIX draws sequences of them.", TEAM_KIND),
    *ignored("batch_mode", "what is replayed does not depend on where playing paused", TEAM_KIND),
    *by(f.team_replay, "buffer_size", f"{R}capacity", "Decisions kept.", TEAM_KIND),
    to("learning_starts", f"{A}learning_starts", "Decisions before learning begins; until then actions are random.",
       TEAM_KIND),
    to("grad_norm_clipping", f"{A}max_grad_norm", "Longest gradient; None = any.", TEAM_KIND),
    *refused("worker_side_prioritization", "decisions are drawn all alike; leave it out", TEAM_KIND),
    *by(f.learning_rate, "lr", f"{A}lr", "Learning rate.", ("QMIX",)),
    *by(f.mixer, "mixer mixing_embed_dim", "algorithm.name algorithm.mixing_size",
        "qmix, or vdn for a sum; and the width of the mixer.", ("QMIX",)),
    to("double_q", f"{A}double", "Whether the network that learns chooses the next actions.", ("QMIX",)),
    *by(f.q_target, "target_network_update_freq", f"{A}target.every_env_steps",
        "Env steps from one copy of the target network to the next.", ("QMIX",)),
    *ignored("optim_alpha optim_eps", "QMIX learns by Adam here, and by RMSprop there", ("QMIX",)),
    *by(f.member_layers, "model.lstm_cell_size", f"{M}hidden {M}activation",
        "A layer and a GRU of so many units for each member, which share them.", ("QMIX",)),
    *ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation",
             "a member has a layer and a GRU of lstm_cell_size units", ("QMIX",)),
    *ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation lr",
             "layers and rates of actors and critic are keys of their own", ("MADDPG",)),
    *refused("model.conv_filters model.conv_activation model.no_final_linear",
             "pictures go through the network that model.cnn names", TEAM_KIND),
    *ignored("model.vf_share_layers", "there is no value function beside the policy", TEAM_KIND),
    *ignored("agent_id good_policy adv_policy",
             "all agents are members of one team, whose critic learns the sum of their rewards", ("MADDPG",)),
    *refused("use_local_critic", "the critic sees what all see and do; use DDPG for agents that learn apart",
             ("MADDPG",)),
    *refused("use_state_preprocessor", "networks see observations as they are; leave it out", ("MADDPG",)),
    *by(f.ddpg_networks, "actor_hiddens actor_hidden_activation critic_hiddens critic_hidden_activation",
        f"{M}hidden {M}activation", "Layers of actors and critic, which are the same here.", ("MADDPG",)),
    *by(f.ddpg_rates, "actor_lr critic_lr", f"{A}lr", "Learning rate, one for both.", ("MADDPG",)),
    to("n_step", f"{A}n_step", "Decisions whose rewards a target counts.", ("MADDPG",)),
    to("tau", f"{A}tau", "How far targets follow in a gradient step.", ("MADDPG",)),
    to("actor_feature_reg", f"{A}logit_coef", "Weight of the size of logits in the actors' loss.", ("MADDPG",)),
    *refused("target_network_update_freq", "targets follow in every gradient step, by tau; use 0", ("MADDPG",)),
]  # fmt: skip


CURIOSITY = {
    "eta": "strength", "lr": "lr", "beta": "forward_share", "feature_dim": "num_features",
    "forward_net_hiddens": "hidden", "feature_net_config": "model.hidden model.activation",
}  # fmt: skip
"""Keys of the exploration by curiosity, and the settings of the signal that they are."""


def _exploration() -> list[Row]:
    """Rows of every key of every type of exploration, by kind of algorithm."""
    rows: list[Row] = []
    kinds = (
        ((*f.ON_POLICY, "PG"), f.drawn_exploration, ("StochasticSampling", "Curiosity"), ""),
        (f.Q_KIND, f.q_exploration, ("EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "StochasticSampling",
         "Random", "ParameterNoise"), f"{X}kind {X}epsilon {X}temperature {X}ladder"),
        (("SAC",), f.critic_exploration, ("StochasticSampling",), f"{A}learning_starts"),
        (("QMIX",), f.team_exploration, ("EpsilonGreedy",), f"{X}epsilon"),
        (("MADDPG",), f.drawn_exploration, ("StochasticSampling",), ""),
        (f.DDPG_KIND, f.critic_exploration, ("GaussianNoise", "OrnsteinUhlenbeckNoise", "PerWorkerGaussianNoise",
         "PerWorkerOrnsteinUhlenbeckNoise"), f"{X}kind {X}theta {X}std {X}ladder {A}learning_starts"),
    )  # fmt: skip
    for only, function, types, paths in kinds:
        rows += by(function, "exploration_config.type", paths, f"How actions are tried out: {', '.join(types)}.", only)
        for kind in types:
            for name in f.EXPLORATION_DEFAULTS[kind]:
                key = f"exploration_config.{kind}.{name}"
                if kind == "ParameterNoise" and name != "random_timesteps":
                    rows += refused(key, "noise adapts until actions differ as wanted; leave it out", only)
                elif name == "random_timesteps" and function in (f.drawn_exploration,):
                    rows += refused(key, "what is learned from is the policy's own play; use 0", only)
                elif kind == "Curiosity" and name in CURIOSITY:
                    there = " ".join(f"{A}signals.curiosity.{path}" for path in CURIOSITY[name].split())
                    rows += by(function, key, there, "The reward for surprise, a signal with values of its own.", only)
                elif kind == "Curiosity":
                    why = "both models have one hidden layer, with relu; leave it out"
                    rows += refused(key, why, only, fine=f.CURIOSITY_FINE[name])
                elif kind == "StochasticSampling" and function is f.q_exploration:
                    rows += refused(key, "random play ends with learning_starts; use 0", only)
                else:
                    rows += by(function, key, paths, f"A setting of {kind}.", only)
    return rows


ROWS: list[Row] = [
    *SAMPLING, *ENVIRONMENT, *LEARNING, *EVALUATION, *REPORTING, *MULTIAGENT, *MODEL, *PPO_AND_A2C, *IMPALA_AND_APPO,
    *REPLAY, *DQN_KEYS, *CRITIC_KEYS, *TEAM_KEYS, *_exploration(),
]  # fmt: skip

SECTIONS = ("model", "multiagent", "exploration_config", "Q_model", "policy_model", "optimization")
"""Sections whose keys stand in the table one by one."""

RENAMED = {
    "sample_batch_size": "rollout_fragment_length",
    "use_pytorch": "framework",
    "eager": "framework",
    "num_env_runners": "num_workers",
    "num_rollout_workers": "num_workers",
    "num_envs_per_env_runner": "num_envs_per_worker",
    "min_time_s_per_iteration": "min_iter_time_s",
    "min_time_s_per_reporting": "min_iter_time_s",
    "min_sample_timesteps_per_iteration": "timesteps_per_iteration",
    "min_sample_timesteps_per_reporting": "timesteps_per_iteration",
    "evaluation_duration": "evaluation_num_episodes",
    "evaluation_num_env_runners": "evaluation_num_workers",
    "custom_evaluation_function": "custom_eval_function",
    "metrics_num_episodes_for_smoothing": "metrics_smoothing_episodes",
    "minibatch_size": "sgd_minibatch_size",
    "num_epochs": "num_sgd_iter",
    "train_batch_size_per_learner": "train_batch_size",
    "lambda_": "lambda",
    "num_steps_sampled_before_learning_starts": "learning_starts",
    "schedule_max_timesteps": "exploration_config.epsilon_timesteps",
    "exploration_final_eps": "exploration_config.final_epsilon",
    "exploration_final_scale": "exploration_config.final_scale",
    "per_worker_exploration": "exploration_config.type",
    "parameter_noise": "exploration_config.type",
    "soft_q": "exploration_config.type",
    "softmax_temp": "exploration_config.temperature",
    "straggler_mitigation": "num_workers",
    "learning_rate": "lr",
    "vf_coef": "vf_loss_coeff",
    "ent_coef": "entropy_coeff",
    "clip_range": "clip_param",
    "gae_lambda": "lambda",
    "fcnet_layers": "model.fcnet_hiddens",
    "custom_options": "model.custom_model_config",
}
"""What keys of earlier and later versions, and of other libraries, were called in 2021."""


def rows_of(algorithm: str) -> dict[str, list[Row]]:
    """Gives the rows of the keys of an algorithm, by key; a few keys have two, which both hold."""
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        if not row.only or algorithm in row.only:
            found.setdefault(row.key, []).append(row)
    return found


def keys_of(section: str, algorithm: str, kind: str = "") -> list[str]:
    """Gives the keys of a section by their bare names."""
    if not section:
        return list(DEFAULT_CONFIGS[algorithm])
    inside = [key.removeprefix(f"{section}.") for key in rows_of(algorithm) if key.startswith(f"{section}.")]
    return [key.rpartition(".")[2] for key in inside if "." not in key or key.startswith(f"{kind}.")]


def why_unknown(algorithm: str, path: str, known: list[str]) -> str:
    """Says what a key that an algorithm does not have may have meant."""
    name = path.rpartition(".")[2]
    if name in RENAMED:
        return f"it was called {RENAMED[name]!r} in 2021"
    section = path.rpartition(".")[0]
    others = [] if section else [other for other, config in DEFAULT_CONFIGS.items() if name in config]
    if others:
        return f"it is a key of {', '.join(others)}, and not of {algorithm}{nearest(name, known)}"
    near = nearest(name, known)
    elsewhere = [key for key in (row.key for row in ROWS) if key.rpartition(".")[2] == name]
    if not near and elsewhere:
        near = f"; did you mean {elsewhere[0]!r}?"
    where = f"{section} has" if section else f"{algorithm} has"
    return f"{where} no such key{near}"


def pins(algorithm: str) -> f.Values:
    """Gives what no key says, and a preset for a space would: so that none of them interferes."""
    values: f.Values = {
        f"{M}layer_norm": False, f"{M}shared_trunk": False, f"{M}obs_clip": 10.0, f"{M}log_std_init": 0.0,
        f"{M}codes": (), f"{M}precision": "float32",
    }  # fmt: skip
    if algorithm in f.PPO_KIND:
        return values | {
            f"{A}normalize_advantage": "batch", f"{A}scale_rewards": False, f"{A}normalize_values": False,
            f"{A}target_kl": None, f"{A}adam_eps": 1e-8,
        }  # fmt: skip
    if algorithm in f.A2C_KIND:
        return values | {f"{A}normalize_advantage": False, f"{A}scale_rewards": False, f"{A}normalize_values": False}
    if algorithm in f.IMPALA_KIND:
        values |= {
            f"{A}normalize_advantage": False, f"{A}scale_rewards": False, f"{A}normalize_values": False,
            f"{A}gae_lambda": 1.0, f"{A}c_bar": 1.0, f"{A}adam_eps": 1e-8,
        }  # fmt: skip
        own = {f"{A}target_every": 1, f"{A}target_kl": None, f"{A}value_clip": None}
        return values if algorithm == "IMPALA" else values | own
    if algorithm == "PG":
        return values | {
            f"{A}normalize_returns": False, f"{A}entropy_coef": 0.0, f"{A}max_grad_norm": None, f"{A}adam_eps": 1e-8
        }  # fmt: skip
    if algorithm == "QMIX":
        return values | {
            f"{A}n_step": 1, f"{A}dueling": False, f"{A}values.kind": "mean", f"{A}share": True, f"{R}burn_in": 0,
            f"{A}target.kind": "hard",
        }  # fmt: skip
    if algorithm == "MADDPG":
        return values | {f"{A}adam_eps": 1e-8, f"{A}critic.number": 1, f"{A}share": False, f"{R}burn_in": 0}
    if algorithm == "SimpleQ":
        values |= {
            f"{A}n_step": 1, f"{A}double": False, f"{A}dueling": False, f"{A}dueling_hidden": (),
            f"{A}values.kind": "mean", f"{A}values.rescale": False,
        }  # fmt: skip
    if algorithm != "R2D2":
        values[f"{R}burn_in"] = 0
    if algorithm in f.Q_KIND:
        return values | {f"{A}target.kind": "hard"}
    values |= {f"{A}adam_eps": 1e-7, f"{A}critic.norm": "none", f"{A}critic.quantiles": None}
    if algorithm == "SAC":
        values |= {f"{A}alpha": None, f"{A}entropy_share": 0.98, f"{A}log_std": "clamp"}
    return values


NAMES = {
    "PPO": "ppo", "DDPPO": "ppo", "A2C": "a2c", "A3C": "a2c", "IMPALA": "impala", "APPO": "appo",
    "PG": "reinforce", "DQN": "dqn", "SimpleQ": "dqn",
    "R2D2": "dqn", "SAC": "sac", "DDPG": "ddpg", "TD3": "td3", "QMIX": "qmix", "MADDPG": "maddpg",
    "APEX": "dqn", "APEX_DDPG": "ddpg",
}  # fmt: skip
"""Our algorithms by the names of 2021."""

LINES = {
    "A3C": "A3C is A2C here: gradients of one moment, and none of older weights",
    "DDPPO": "DDPPO is PPO here: one learner with the batch of all workers",
    "IMPALA": "IMPALA plays one batch while it learns from another here, by weights that are one update older: "
    "equal seeds give equal runs",
    "APPO": "APPO plays one batch while it learns from another here, by weights that are one update older: equal "
    "seeds give equal runs",
    "A2C": "A2C learns by RMSprop here, and by Adam there",
    "QMIX": "QMIX learns sequences of up to 16 decisions here, and whole episodes there",
    "MADDPG": "MADDPG has one critic of the sum of all rewards here, and one for each agent there; its agents are the "
    "members of one policy",
    "APEX": "APEX plays all copies in step here, each with an epsilon of its own, by its number; priorities are the "
    "learner's",
    "APEX_DDPG": "APEX_DDPG plays all copies in step here, each with noise of its own size, by its number; priorities "
    "are the learner's",
    "R2D2": "R2D2 is DQN on sequences, from what was remembered when they were played",
}
"""What is to be said of an algorithm that is here by another name, or in another form."""

LINES_ON_CLUSTER = {
    **LINES,
    **{
        name: f"{name} learns from what workers on the cluster send, whatever weights they had: equal seeds give runs "
        "that differ"
        for name in f.IMPALA_KIND
    },
    **{
        name: f"{name}: copies explore each at a rate of its own, by its number; workers on the cluster play on: "
        "equal seeds give runs that differ"
        for name in f.APEX_KIND
    },
}
"""The same, where workers play on a cluster."""
