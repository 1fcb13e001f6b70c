"""Keys of sampling: batch sizes, environments and workers."""

from __future__ import annotations

import math

from rookery.face import usable_cores
from rookery_rllib.config.algorithms import (
    A2C_KIND,
    BANDITS,
    CLONING_KIND,
    EVOLUTION,
    IMPALA_KIND,
    OFF_POLICY,
    PPO_KIND,
    A,
)
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, computed, ignored, refused, used
from rookery_rllib.env.teams import TEAM_KIND

WHOLE_EPISODES = (
    "PG learns from whole episodes: an unfinished one waits for the next batch, and nothing is cut "
    "after rollout_fragment_length steps"
)
"""Note about PG, for Rookery's own algorithm."""


def lanes(reader: Reader) -> Values:
    """Translates the number of environments, ``max(1, num_workers) x num_envs_per_worker``, and of workers."""
    if reader.workers:
        return {
            "sampling.num_envs": reader.lanes,
            "sampling.workers": reader.workers,
            "sampling.asynchronous": reader.is_asynchronous,
            "cluster.ray": reader.cluster,
        }
    workers, cores = reader.whole("num_workers"), usable_cores()
    if "num_workers" in reader.given and workers > cores:
        reader.notes.append(
            f"num_workers = {workers} and {cores} cores: {reader.lanes} environments run in this "
            "process, and in environment processes if a short measurement finds them faster"
        )
    return {"sampling.num_envs": reader.lanes}


def on_policy_batch(reader: Reader) -> Values:
    """Translates ``train_batch_size``: whole rounds of fragments until it is reached."""
    whole = reader.get("batch_mode") == "complete_episodes"
    length = reader.fragment * reader.rounds if whole else reader.fragment
    if whole:
        reader.notes.append(
            f"batch_mode = 'complete_episodes': episodes are cut only at the end of a batch, {length} steps of "
            "an environment, with a bootstrapped value"
        )
    elif reader.get("batch_mode") != "truncate_episodes":
        reader.refuse("batch_mode", "must be 'truncate_episodes' or 'complete_episodes'")
    values: Values = {"algorithm.fragment_length": length, "algorithm.rollout_size": None}
    if (reader.rounds > 1 and not whole) or reader.is_asynchronous:  # of any worker that has answered
        values["algorithm.rollout_size"] = batch_rows(reader)
    if reader.algorithm in PPO_KIND:
        minibatch = reader.whole("sgd_minibatch_size", 1)
        if reader.algorithm == "PPO" and minibatch > reader.whole("train_batch_size", 1):
            reader.refuse("sgd_minibatch_size", f"must be at most train_batch_size = {reader.get('train_batch_size')}")
        workers = max(reader.whole("num_workers"), 1) if reader.algorithm == "DDPPO" else 1
        values["algorithm.minibatch_size"] = minibatch * workers
    return values


def batch_rows(reader: Reader) -> int:
    """Returns the decisions of a policy in a batch."""
    return reader.rounds * reader.round * reader.agents


def actor_batch(reader: Reader) -> Values:
    """Translates A2C's batch and gradient norm limit: RLlib's loss is a sum over a microbatch, ours a mean."""
    clip = reader.get("grad_clip")
    norm = None if clip is None else reader.number("grad_clip") * reader.pieces / batch_rows(reader)
    return {**on_policy_batch(reader), "algorithm.max_grad_norm": norm}


def reinforce_batch(reader: Reader) -> Values:
    """Translates the decisions between two updates of REINFORCE."""
    if reader.get("batch_mode") not in ("truncate_episodes", "complete_episodes"):
        reader.refuse("batch_mode", "must be 'truncate_episodes' or 'complete_episodes'")
    elif reader.get("batch_mode") == "truncate_episodes":
        reader.notes.append(WHOLE_EPISODES)
    return {"algorithm.rollout_size": batch_rows(reader)}


def replay_pace(reader: Reader) -> Values:
    """Translates env steps per round, and gradient steps per round."""
    rows = reader.round * reader.agents
    batch = reader.whole("train_batch_size", 1)
    updates = 1.0 / rows
    if reader.is_asynchronous:  # workers are asked for this many steps of each environment, and are not waited for
        rows = reader.fragment * reader.agents
    intensity = reader.get("training_intensity") if reader.algorithm != "SimpleQ" else None
    if intensity:
        updates = reader.number("training_intensity") / batch
    if reader.algorithm == "QMIX":
        batch = max(batch // reader.in_a_row, 1)
    if reader.algorithm == "R2D2":
        length = reader.whole("burn_in") + reader.whole("model.max_seq_len", 1)
        updates = updates if not intensity else updates * length
        batch = max(batch // length, 1)
    return {"algorithm.train_every": rows, "algorithm.updates_per_step": updates, "algorithm.batch_size": batch}


def iteration(reader: Reader) -> Values:
    """Translates the env steps of an iteration: a batch, or ``timesteps_per_iteration`` if that is more."""
    steps = math.ceil(reader.whole("timesteps_per_iteration") / reader.rows_per_step)
    if reader.algorithm in CLONING_KIND:
        return {"sampling.iteration_steps": max(steps, reader.whole("train_batch_size", 1))}
    if reader.algorithm in (*OFF_POLICY, *TEAM_KIND):
        return {"sampling.iteration_steps": max(steps, reader.round)}
    if reader.algorithm in BANDITS:
        return {"sampling.iteration_steps": max(steps, 1)}
    if reader.algorithm in EVOLUTION:
        least = reader.whole("train_batch_size") if reader.algorithm == "ES" else 0
        return {"sampling.iteration_steps": max(steps, least) or None}
    batch = reader.rounds * reader.round
    return {"sampling.iteration_steps": math.ceil(steps / batch) * batch if steps > batch else None}


def staleness(reader: Reader) -> Values:
    """Translates asynchronous sampling: the next batch is collected while one is learned from."""
    if reader.algorithm in ("A3C", *EVOLUTION) or reader.is_asynchronous:
        return {"sampling.staleness": 0}
    if reader.algorithm in IMPALA_KIND:
        return {"sampling.staleness": int(bool(reader.get("vtrace")))}
    if reader.algorithm == "PG" and reader.get("sample_async"):
        reader.refuse("sample_async", "PG would treat experience of older weights as its own; use PPO or A2C, or False")
    return {"sampling.staleness": int(bool(reader.get("sample_async")))}


SAMPLING = [
    by(lanes, {"num_workers": 2, "num_envs_per_worker": 1},
       "sampling.num_envs sampling.workers sampling.asynchronous cluster.ray",
       "There are max(1, num_workers) x num_envs_per_worker environments. If the script has joined a Ray cluster, "
       "num_workers workers step them there, asynchronously for IMPALA, APPO and Ape-X; otherwise this process does.",
       rl2="env_runners"),
    ignored({"create_env_on_driver": False},
            "this process has the environments, or one with the same spaces as those of the workers"),
    by(on_policy_batch, {"rollout_fragment_length": 200, "train_batch_size": 200, "batch_mode": "truncate_episodes"},
       f"{A}fragment_length {A}rollout_size",
       "A batch is the fewest rounds of rollout_fragment_length steps of all environments that have train_batch_size "
       "steps (DDPPO: one round). Advantages are bootstrapped at the end of a fragment; with complete_episodes, "
       "at the end of a batch.",
       PPO_KIND, rl2={"train_batch_size": "training", "batch_mode": "env_runners"}),
    by(actor_batch, "rollout_fragment_length train_batch_size batch_mode grad_clip",
       f"{A}fragment_length {A}rollout_size {A}max_grad_norm",
       "A batch is the fewest rounds of rollout_fragment_length steps of all environments that have train_batch_size "
       "env steps (A3C: one round). grad_clip is divided by the decisions of a batch, as the loss is a mean here and a "
       "sum in RLlib.", A2C_KIND, rl2={"grad_clip": "training"}),
    by(reinforce_batch, "rollout_fragment_length train_batch_size batch_mode", f"{A}rollout_size",
       "A batch is the fewest rounds of rollout_fragment_length steps of all environments that have train_batch_size "
       "env steps. Only complete episodes are learned from; unfinished ones are part of the next batch.", ("PG",)),
    by(replay_pace, "rollout_fragment_length train_batch_size", f"{A}train_every {A}updates_per_step {A}batch_size",
       "Each round of rollout_fragment_length steps of every environment is followed by a gradient step on "
       "train_batch_size decisions.", OFF_POLICY),
    by(replay_pace, {"training_intensity": None}, f"{A}updates_per_step",
       "Decisions sampled from replay per collected decision; None = one gradient step per round.",
       tuple(name for name in OFF_POLICY if name != "SimpleQ"), rl2="training"),
    ignored("batch_mode", "replayed data does not depend on where sampling paused", OFF_POLICY),
    by(iteration, {"timesteps_per_iteration": 0}, "sampling.iteration_steps",
       "Minimum env steps of an iteration; 0 = one batch or round.", rl2="reporting"),
    used({"min_iter_time_s": 0},
         "Minimum duration of an iteration in seconds, if the configuration sets it. RLlib's defaults (10 for A2C, "
         "IMPALA and APPO, 5 for A3C, 1 with replay) are not applied, so that equal seeds give equal iterations.",
         rl2="reporting"),
    by(staleness, {"sample_async": False}, "sampling.staleness",
       "True: the next batch is collected while the current one is learned from; workers on a cluster continue "
       "without waiting (sampling.asynchronous).", rl2="env_runners"),
    refused({"sample_collector": None},
            "the sampler cannot be replaced; read or change batches in on_postprocess_trajectory"),
    ignored({"compress_observations": False}, "replay stores each frame of stacked images once instead",
            rl2="env_runners"),
    ignored({"remote_worker_envs": False, "remote_env_batch_wait_ms": 0},
            "a worker on a cluster steps its environments in its own process, so use more workers; without a cluster, "
            "environment processes are used if a short measurement finds them faster. With remote_worker_envs, "
            "functions of foreach_env may call env.method.remote(...)", rl2="env_runners"),
    ignored({"fake_sampler": False}, "every step is a real one", rl2="debugging"),
    computed(lambda reader: "restart" if reader.get("ignore_worker_failures") else "stop",
             {"ignore_worker_failures": False}, "env.on_error",
             "True: if an environment raises, its episode is dropped and the environment is rebuilt.",
             rl2="env_runners fault_tolerance"),
]  # fmt: skip
