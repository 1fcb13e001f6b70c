"""Keys of PPO, A2C, IMPALA, APPO and algorithms derived from them."""

from __future__ import annotations

import math

from rookery.face import nearest
from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.config.algorithms import A2C_KIND, IMPALA_KIND, ON_POLICY, PPO_KIND, A
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, computed, ignored, on_cluster, refused, to
from rookery_rllib.config.sampling_keys import actor_batch, batch_rows, on_policy_batch
from rookery_rllib.config.scheduled_values import scheduled

VALUE_CLIP_IGNORED = "vf_clip_param is ignored at its default"
"""Start of the note about vf_clip_param, for Rookery's own algorithms."""


def advantage(reader: Reader) -> Values:
    if not reader.get("use_critic"):
        reader.refuse("use_critic", "advantages always have a baseline here; use PG, which has none")
    if reader.get("use_gae"):
        return {"algorithm.gae_lambda": reader.get("lambda")}
    if reader.get("batch_mode") == "truncate_episodes" and reader.algorithm in PPO_KIND:
        reader.refuse("use_gae", "truncated episodes need GAE; set batch_mode = 'complete_episodes'")
    return {"algorithm.gae_lambda": 1.0}


def entropy(reader: Reader) -> Values:
    has_schedule = "entropy_coeff_schedule" in reader.config
    key = "entropy_coeff"
    return {"algorithm.entropy_coef": scheduled(reader, key, f"{key}_schedule") if has_schedule else reader.number(key)}


def value_clip(reader: Reader) -> Values:
    """Translates the clip range of values, of 2021, or the bound of their squared errors, of RLlib 2."""
    if reader.get("_clip_vf_loss"):
        clip = reader.get("vf_clip_param")
        return {
            "algorithm.value_clip": None,
            "algorithm.value_loss_clip": None if clip is None or clip == math.inf else reader.number("vf_clip_param"),
        }
    return {"algorithm.value_loss_clip": None} | _moves_of_values(reader)


def _moves_of_values(reader: Reader) -> Values:
    clip, given = reader.get("vf_clip_param"), "vf_clip_param" in reader.given
    if clip is None or not given:
        if clip is not None:
            reader.notes.append(
                f"{VALUE_CLIP_IGNORED} ({clip:g}), which limits how far value errors above "
                "it are learned; set it in the configuration to apply it"
            )
        return {"algorithm.value_clip": None}
    return {"algorithm.value_clip": reader.number("vf_clip_param")}


def surrogate(reader: Reader) -> Values:
    """Translates APPO's choice between V-trace and the advantages of PPO."""
    if reader.get("vtrace"):
        return {"algorithm.gae_lambda": 1.0}
    for key in ("replay_proportion", "use_kl_loss"):
        if reader.get(key):
            reader.refuse(key, "it needs the target network of V-trace; set vtrace = True, or leave it out")
    reader.notes.append(
        "vtrace = False: it is PPO on batches of the latest weights, and nothing is collected meanwhile"
    )
    return {**advantage(reader), "algorithm.name": "ppo"}


def trace_bounds(reader: Reader) -> Values:
    """Translates the largest importance weight, which is the same for targets and policy gradients."""
    keys = ("vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold")
    given = [key for key in keys if key in reader.given] or [keys[0]]
    bounds = {key: reader.number(key) for key in given}
    if len(set(bounds.values())) > 1:
        reader.refuse(
            keys[1], f"value targets and policy gradients have one bound here; use {keys[0]} = {bounds[keys[0]]:g}"
        )
    if min(bounds.values()) <= 0:
        reader.refuse(given[0], "must be above 0")
        return {}
    if len(given) == 1 and given[0] in reader.given:
        reader.notes.append(f"{given[0]} = {bounds[given[0]]:g} bounds both value targets and policy gradients here")
    return {"algorithm.rho_bar": bounds[given[0]]}


def passes(reader: Reader) -> Values:
    """Translates the number of times that APPO learns from a batch: as epochs, or by reusing it from a batch buffer."""
    rows, kept = batch_rows(reader), reader.whole("minibatch_buffer_size", 1)
    uses, proportion = reader.whole("num_sgd_iter", 1), reader.number("replay_proportion")
    if not reader.get("vtrace"):
        kept = 1  # batches are learned from at once
    values: Values = {"algorithm.minibatch_size": rows, "algorithm.epochs": 1, "algorithm.batch_uses": 1}
    if proportion != int(proportion) or proportion < 0:
        reader.refuse("replay_proportion", "must be a whole number: older batches that are learned with each new one")
    elif proportion and kept > 1:
        reader.refuse(
            "replay_proportion", "there is only one buffer of batches here; leave out this key or minibatch_buffer_size"
        )
    elif proportion:
        pieces = rows // (reader.fragment * reader.whole("num_envs_per_worker", 1) * reader.agents)
        slots = max(reader.whole("replay_buffer_num_slots", 1) // max(pieces, 1), 1)
        return values | {
            "algorithm.epochs": uses,
            "algorithm.batch_uses": 1 + int(proportion),
            "algorithm.buffered_batches": slots,
        }
    if kept > 1:
        return values | {"algorithm.batch_uses": uses, "algorithm.buffered_batches": kept}
    return values | {"algorithm.epochs": uses}


def step_maker(reader: Reader) -> Values:
    kind = reader.get("opt_type")
    if kind not in ("adam", "rmsprop"):
        reader.refuse("opt_type", f"must be 'adam' or 'rmsprop'{nearest(str(kind), ['adam', 'rmsprop'])}")
        return {}
    return {
        "algorithm.optimizer": kind,
        "algorithm.rms_alpha": reader.number("decay"),
        "algorithm.rms_eps": reader.number("epsilon"),
    }


PPO_AND_A2C = [
    by(advantage, {"use_critic": True, "use_gae": True, "lambda": 1.0}, f"{A}gae_lambda",
       "Lambda of generalized advantage estimation; 1 without use_gae. use_critic = False is refused.",
       (*PPO_KIND, *A2C_KIND), rl2="training"),
    to({"vf_loss_coeff": 1.0}, f"{A}value_coef", "Weight of the value loss.", PPO_KIND, rl2="training"),
    computed(lambda reader: 0.5 * reader.number("vf_loss_coeff"), {"vf_loss_coeff": 0.5}, f"{A}value_coef",
             "Weight of the value loss, halved as in RLlib.", (*A2C_KIND, *IMPALA_KIND)),
    by(entropy, {"entropy_coeff": 0.0}, f"{A}entropy_coef", "Weight of the entropy bonus.", ON_POLICY),
    by(entropy, {"entropy_coeff_schedule": None}, f"{A}entropy_coef",
       "Schedule of the entropy weight, [[env step, weight], ...], or the env step at which it reaches 0.",
       (*PPO_KIND, *IMPALA_KIND),
       rl2="training"),
    to({"clip_param": 0.3}, f"{A}clip", "Clip range of the probability ratio around 1.", (*PPO_KIND, "APPO"),
       rl2="training"),
    by(value_clip, {"vf_clip_param": 10.0}, f"{A}value_clip {A}value_loss_clip",
       "Clip range of values in an update. Its default is not applied, and a note states it.",
       PPO_KIND, rl2="training"),
    by(value_clip, {"_clip_vf_loss": False}, f"{A}value_clip {A}value_loss_clip",
       "Whether vf_clip_param limits squared errors, as in RLlib 2, which sets it; its default is then applied.",
       PPO_KIND),
    to({"kl_coeff": 0.2}, f"{A}kl_coef", "Initial weight of the KL penalty.", PPO_KIND, rl2="training"),
    to({"kl_target": 0.01}, f"{A}kl_target", "Target KL divergence of the penalty.", (*PPO_KIND, "APPO"),
       rl2="training"),
    by(on_policy_batch, {"sgd_minibatch_size": 128}, f"{A}minibatch_size", "Minibatch size, in decisions.", PPO_KIND,
       rl2="training"),
    to({"num_sgd_iter": 30}, f"{A}epochs", "Epochs over a batch.", PPO_KIND, rl2="training"),
    to({"grad_clip": None}, f"{A}max_grad_norm", "Gradient norm limit; None = no clipping.", (*PPO_KIND, "APPO")),
    refused({"shuffle_sequences": True}, "minibatches are always shuffled; leave it out", PPO_KIND, rl2="training"),
    by(actor_batch, {"microbatch_size": None}, f"{A}rollout_size {A}max_grad_norm",
       "Env steps whose gradient is computed and clipped at once in RLlib: a batch is whole rounds for each of them.",
       ("A2C",)),
    ignored({"keep_local_weights_in_sync": True, "torch_distributed_backend": "gloo", "truncate_episodes": True},
            "DDPPO is PPO with one learner here", ("DDPPO",)),
]  # fmt: skip

IMPALA_AND_APPO = [
    by(actor_batch, "rollout_fragment_length train_batch_size batch_mode grad_clip",
       f"{A}fragment_length {A}rollout_size {A}max_grad_norm",
       "A batch is the fewest rounds of rollout_fragment_length steps of all environments that have train_batch_size "
       "env steps. grad_clip is divided by the decisions of a batch, as the loss is a mean here and a sum in RLlib.",
       ("IMPALA",)),
    by(on_policy_batch, "rollout_fragment_length train_batch_size batch_mode", f"{A}fragment_length {A}rollout_size",
       "A batch is the fewest rounds of rollout_fragment_length steps of all environments that have train_batch_size "
       "env steps.", ("APPO",)),
    refused({"vtrace": True}, "IMPALA always corrects for stale weights (V-trace); use A2C", ("IMPALA",)),
    by(surrogate, {"use_critic": True, "use_gae": True, "lambda": 1.0}, f"{A}gae_lambda",
       "Lambda of generalized advantage estimation, if vtrace is False.", ("APPO",)),
    by(surrogate, "vtrace", "algorithm.name sampling.staleness",
       "True: stale weights are corrected for (V-trace). False: advantages of PPO, on batches of the latest weights.",
       ("APPO",)),
    by(trace_bounds, {"vtrace_clip_rho_threshold": 1.0, "vtrace_clip_pg_rho_threshold": 1.0}, f"{A}rho_bar",
       "Largest importance weight, the same for value targets and policy gradients.", IMPALA_KIND),
    ignored({"vtrace_drop_last_ts": True},
            "the last decision is not dropped, but bootstrapped with a value estimate", IMPALA_KIND),
    refused({"num_sgd_iter": 1}, "IMPALA learns from a batch once; use APPO", ("IMPALA",)),
    refused({"replay_proportion": 0.0}, "IMPALA keeps no batches; use APPO", ("IMPALA",)),
    ignored({"minibatch_buffer_size": 1, "replay_buffer_num_slots": 0}, "IMPALA keeps no batches", ("IMPALA",)),
    by(passes, "num_sgd_iter minibatch_buffer_size", f"{A}epochs {A}batch_uses {A}buffered_batches {A}minibatch_size",
       "num_sgd_iter: how often a batch is learned from, at once, or later if minibatch_buffer_size is above 1. A "
       "batch is one gradient step.", ("APPO",)),
    by(passes, "replay_proportion replay_buffer_num_slots", f"{A}batch_uses {A}buffered_batches",
       "replay_proportion: older batches learned from per new one. replay_buffer_num_slots: size of their buffer.",
       ("APPO",)),
    ignored({"learner_queue_size": 16, "learner_queue_timeout": 300},
            "there is no queue: collected steps are learned from as soon as they fill a batch", IMPALA_KIND),
    on_cluster(lambda reader: {"sampling.max_requests_in_flight":
                               reader.whole("max_sample_requests_in_flight_per_worker", 1)},
               {"max_sample_requests_in_flight_per_worker": 2}, "sampling.max_requests_in_flight",
               "Fragments in flight for each worker.", IMPALA_KIND),
    ignored({"num_aggregation_workers": 0}, "the trainer combines the fragments of workers", IMPALA_KIND),
    ignored({"broadcast_interval": 1}, "weights are broadcast after each update", IMPALA_KIND),
    ignored({"num_multi_gpu_tower_stacks": 1, "num_data_loader_buffers": DEPRECATED_VALUE},
            "a run learns on one GPU at most", IMPALA_KIND),
    by(step_maker, {"opt_type": "adam", "decay": 0.99, "epsilon": 0.1}, f"{A}optimizer {A}rms_alpha {A}rms_eps",
       "Adam or RMSprop; RMSprop has epsilon inside the square root here.", ("IMPALA",)),
    refused({"momentum": 0.0}, "RMSprop has no momentum here; use 0", ("IMPALA",), fine=(0,)),
    refused("opt_type", "APPO always uses Adam", ("APPO",)),
    ignored("decay momentum epsilon", "it belongs to RMSprop", ("APPO",)),
    refused({"_separate_vf_optimizer": False}, "actor and critic have one optimizer; leave it out", IMPALA_KIND),
    ignored({"_lr_vf": 0.0005}, "actor and critic have one optimizer", IMPALA_KIND),
    refused({"after_train_step": None}, "read or change batches in on_learn_on_batch", IMPALA_KIND),
    computed(lambda reader: reader.number("kl_coeff") if reader.get("use_kl_loss") else 0.0,
             {"use_kl_loss": False, "kl_coeff": 1.0}, f"{A}kl_coef",
             "Initial weight of the penalty on the KL divergence from the target network, if use_kl_loss is set.",
             ("APPO",)),
]  # fmt: skip
