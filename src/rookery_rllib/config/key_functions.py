"""What keys of 2021 say, where more than a value has to be handed on: functions that `config_table.py` names.

Each takes a `Reader`, which holds the whole configuration, and gives values by dotted path. What cannot be is noted in
the reader's `problems`, in the spelling of 2021, and what one should know in its `notes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch

from rookery.face import Linear, Piecewise, nearest, show, usable_cores
from rookery_rllib.config.default_networks import FUNCTIONS
from rookery_rllib.config.defaults import DEPRECATED_VALUE
from rookery_rllib.config.own_exploration import own_exploration
from rookery_rllib.env.episode_ends import EndlessTask, Horizon
from rookery_rllib.env.teams import TEAM_KIND

Values = dict[str, Any]

PPO_KIND = ("PPO", "DDPPO")
A2C_KIND = ("A2C", "A3C")
IMPALA_KIND = ("IMPALA", "APPO")
ON_POLICY = (*PPO_KIND, *A2C_KIND, *IMPALA_KIND)

DQN_KIND = ("DQN", "R2D2", "APEX")
Q_KIND = (*DQN_KIND, "SimpleQ")
DDPG_KIND = ("DDPG", "TD3", "APEX_DDPG")
APEX_KIND = ("APEX", "APEX_DDPG")
OFF_POLICY = (*Q_KIND, "SAC", *DDPG_KIND)

LEAST_CPUS = 0.01
"""Cores of a worker that is to reserve none: Ray counts them, and we do not ask for nothing."""

MOST_IN_A_ROW = 16
"""Decisions of a sequence that QMIX learns from, at most: theirs are whole episodes."""

OURS = {"tanh": "tanh", "relu": "relu", "elu": "elu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
"""Functions after layers that settings of ours have, by the names of 2021."""

WHOLE_EPISODES = (
    "PG learns from whole episodes: decisions of one that is not over wait for the next batch, and nothing is cut "
    "after rollout_fragment_length steps"
)
"""What is said of PG, where it is Rookery's own algorithm that learns."""

VALUE_CLIP_IGNORED = "vf_clip_param is ignored at its default"
"""What begins the line about values, where it is Rookery's own algorithm that learns them."""

NETWORK = "rookery_rllib.config.default_networks:DefaultNetwork"


@dataclass
class Reader:
    """A configuration under translation.

    Attributes:
        algorithm: Its name, ``PPO``.
        config: All keys, those that nobody set with their defaults.
        given: The keys that somebody set, dotted.
        agents: Agents that each policy plays in an environment; 1 where that is not known.
        cluster: Address of the cluster that workers play on; empty = in this process.
        notes: Lines to print once.
        problems: Lines of the error that comes of them.
    """

    algorithm: str
    config: Mapping[str, Any]
    given: frozenset[str]
    agents: int = 1
    cluster: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """Gives the value of a dotted key; None where a section has no such key."""
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def refuse(self, key: str, why: str) -> None:
        self.problems.append(f"rllib config: {key} = {show(self.get(key))}: {why}")

    def whole(self, key: str, least: int = 0) -> int:
        """Gives a whole number of at least `least`; notes a problem and gives that where it is none."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
            self.refuse(key, f"must be a whole number of at least {least}")
            return max(least, 1)
        return int(value)

    def number(self, key: str) -> float:
        """Gives a number; notes a problem and gives 1 where it is none."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.refuse(key, "must be a number")
            return 1.0
        return float(value)

    @cached_property
    def lanes(self) -> int:
        """Copies of the environment."""
        return max(self.whole("num_workers"), 1) * self.whole("num_envs_per_worker", 1)

    @cached_property
    def workers(self) -> int:
        """Workers that play on a cluster; 0 = this process plays."""
        return self.whole("num_workers") if self.cluster else 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers on a cluster play on while is learned from what they have played."""
        asked = self.algorithm in (*IMPALA_KIND, *APEX_KIND) or bool(self.get("sample_async"))
        return self.workers > 0 and asked and self.algorithm not in ("A3C", "PG")

    @cached_property
    def fragment(self) -> int:
        """Env steps of a copy in a round."""
        length = self.whole("rollout_fragment_length", 1)
        if self.algorithm in DQN_KIND:  # as theirs: a window fits into a round
            length = max(length, self.whole("n_step", 1))
        return length

    @cached_property
    def round(self) -> int:
        """Env steps of all copies in a round."""
        return self.fragment * self.lanes

    @cached_property
    def rounds(self) -> int:
        """Rounds of a batch: as many as it takes to reach ``train_batch_size``."""
        if self.algorithm in ("DDPPO", "A3C"):
            return 1
        steps = self.round * (self.agents if self.get("multiagent.count_steps_by") == "agent_steps" else 1)
        return max(math.ceil(self.whole("train_batch_size", 1) / steps), 1)


Function = Callable[[Reader], Values]


# --- sampling ---------------------------------------------------------------------------------------------------------


def lanes(reader: Reader) -> Values:
    """Copies of the environment, ``max(1, num_workers) x num_envs_per_worker``, and the workers that have them."""
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
            f"num_workers = {workers} and {cores} cores: {reader.lanes} copies of the environment play in this "
            "process, and in as many helper processes as a short measurement finds worth it"
        )
    return {"sampling.num_envs": reader.lanes}


def on_policy_batch(reader: Reader) -> Values:
    """Whole rounds of fragments until ``train_batch_size`` is reached."""
    whole = reader.get("batch_mode") == "complete_episodes"
    length = reader.fragment * reader.rounds if whole else reader.fragment
    if whole:
        reader.notes.append(
            f"batch_mode = 'complete_episodes': episodes are cut nowhere but at the end of a batch, {length} steps of "
            "a copy, where what follows counts with its value"
        )
    elif reader.get("batch_mode") != "truncate_episodes":
        reader.refuse("batch_mode", "must be 'truncate_episodes' or 'complete_episodes'")
    values: Values = {"algorithm.fragment_length": length, "algorithm.batch_size": None}
    if (reader.rounds > 1 and not whole) or reader.is_asynchronous:  # whoever of the workers has answered
        values["algorithm.batch_size"] = batch_rows(reader)
    if reader.algorithm in PPO_KIND:
        minibatch = reader.whole("sgd_minibatch_size", 1)
        if reader.algorithm == "PPO" and minibatch > reader.whole("train_batch_size", 1):
            reader.refuse("sgd_minibatch_size", f"must be at most train_batch_size = {reader.get('train_batch_size')}")
        workers = max(reader.whole("num_workers"), 1) if reader.algorithm == "DDPPO" else 1
        values["algorithm.minibatch_size"] = minibatch * workers
    return values


def batch_rows(reader: Reader) -> int:
    """Decisions of a policy in a batch."""
    return reader.rounds * reader.round * reader.agents


def actor_batch(reader: Reader) -> Values:
    """The batch of A2C, and its longest gradient: theirs is one of a sum over the batch, ours one of a mean."""
    clip = reader.get("grad_clip")
    norm = None if clip is None else reader.number("grad_clip") / batch_rows(reader)
    return {**on_policy_batch(reader), "algorithm.max_grad_norm": norm}


def reinforce_batch(reader: Reader) -> Values:
    """Decisions between two updates of REINFORCE."""
    if reader.get("batch_mode") not in ("truncate_episodes", "complete_episodes"):
        reader.refuse("batch_mode", "must be 'truncate_episodes' or 'complete_episodes'")
    elif reader.get("batch_mode") == "truncate_episodes":
        reader.notes.append(WHOLE_EPISODES)
    return {"algorithm.batch_size": batch_rows(reader)}


def replay_pace(reader: Reader) -> Values:
    """Rounds of playing and the gradient steps that belong to each."""
    rows = reader.round * reader.agents
    batch = reader.whole("train_batch_size", 1)
    updates = 1.0 / rows
    if reader.is_asynchronous:  # workers are asked for so many steps of each copy, and are not waited for
        rows = reader.fragment * reader.agents
    intensity = reader.get("training_intensity") if reader.algorithm != "SimpleQ" else None
    if intensity:
        updates = reader.number("training_intensity") / batch
    if reader.algorithm == "QMIX":
        batch = max(batch // _in_a_row(reader), 1)
    if reader.algorithm == "R2D2":
        length = reader.whole("burn_in") + reader.whole("model.max_seq_len", 1)
        updates = updates if not intensity else updates * length
        batch = max(batch // length, 1)
    return {"algorithm.train_every": rows, "algorithm.updates_per_step": updates, "algorithm.batch_size": batch}


def iteration(reader: Reader) -> Values:
    """Env steps of an iteration: a batch, or ``timesteps_per_iteration`` where that is more."""
    steps = reader.whole("timesteps_per_iteration")
    if reader.algorithm in (*OFF_POLICY, *TEAM_KIND):
        return {"sampling.iteration_steps": max(steps, reader.round)}
    batch = reader.rounds * reader.round
    return {"sampling.iteration_steps": math.ceil(steps / batch) * batch if steps > batch else None}


def staleness(reader: Reader) -> Values:
    """Whether the next batch is played while one is learned from."""
    if reader.algorithm == "A3C" or reader.is_asynchronous:
        return {"sampling.staleness": 0}
    if reader.algorithm in IMPALA_KIND:
        return {"sampling.staleness": 1}
    if reader.algorithm == "PG" and reader.get("sample_async"):
        reader.refuse("sample_async", "PG takes what older weights played for its own play; use PPO or A2C, or False")
    return {"sampling.staleness": int(bool(reader.get("sample_async")))}


def worker_resources(reader: Reader) -> Values:
    cpus, gpus = reader.number("num_cpus_per_worker"), reader.number("num_gpus_per_worker")
    for key, number in (("num_cpus_per_worker", cpus), ("num_gpus_per_worker", gpus)):
        if number < 0:
            reader.refuse(key, "must be a number of at least 0")
    return {"cluster.worker_cpus": max(cpus, LEAST_CPUS), "cluster.worker_gpus": max(gpus, 0.0)}


def placement(reader: Reader) -> Values:
    value = reader.get("placement_strategy")
    known = {"PACK": "pack", "STRICT_PACK": "pack", "SPREAD": "spread", "STRICT_SPREAD": "spread"}
    if value not in known:
        reader.refuse("placement_strategy", f"must be one of {', '.join(known)}{nearest(str(value), list(known))}")
    elif value.startswith("STRICT"):
        reader.notes.append(f"placement_strategy = {value!r} is {known[value]!r}: workers go wherever there is room")
    return {"cluster.placement": known.get(value, "pack")}


def worker_environment(reader: Reader) -> Values:
    value = reader.get("extra_python_environs_for_worker")
    if not isinstance(value, Mapping):
        reader.refuse("extra_python_environs_for_worker", "must be a dict of environment variables")
        return {}
    if not reader.cluster:
        if value:
            reader.refuse(
                "extra_python_environs_for_worker",
                "workers are copies in this process: set the variables before it starts",
            )
        return {}
    return {"cluster.environment": {str(name): str(part) for name, part in value.items()}}


def in_flight(reader: Reader) -> Values:
    return {"sampling.in_flight": reader.whole("max_sample_requests_in_flight_per_worker", 1)}


def worker_failures(reader: Reader) -> Values:
    return {"env.on_error": "restart" if reader.get("ignore_worker_failures") else "stop"}


def episode_ends(reader: Reader) -> Values:
    """Wrappers that end episodes otherwise than the environment does."""
    wrappers: list[Any] = []
    if reader.get("no_done_at_end"):
        wrappers.append(EndlessTask())
    if reader.get("horizon") is not None:
        wrappers.append(Horizon(reader.whole("horizon", 1)))
        if reader.get("soft_horizon"):
            reader.refuse(
                "soft_horizon",
                "an episode that is over starts anew here; write an environment that reports truncated after horizon "
                "steps and goes on from where it is at reset, and leave horizon out",
            )
    return {"env.wrappers": tuple(wrappers)}


def observation_filter(reader: Reader) -> Values:
    value = reader.get("observation_filter")
    if value not in ("NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"):
        reader.refuse(
            "observation_filter",
            f"must be 'NoFilter' or 'MeanStdFilter'{nearest(str(value), ['NoFilter', 'MeanStdFilter'])}; a filter of "
            "your own is a wrapper around the environment",
        )
    used = value != "NoFilter"
    return {"algorithm.model.normalize_obs": used, "sampling.warmup_steps": 512 if used else 0}


def device(reader: Reader) -> Values:
    gpus = reader.get("num_gpus") or 0
    if isinstance(gpus, bool) or not isinstance(gpus, int | float) or gpus < 0:
        reader.refuse("num_gpus", "must be a number of at least 0")
        return {"device": "cpu"}
    nobody_asked = "num_gpus" not in reader.given and not torch.cuda.is_available()
    if not gpus or reader.get("_fake_gpus") or nobody_asked:
        return {"device": "cpu"}
    if not torch.cuda.is_available():
        reader.refuse(
            "num_gpus",
            "torch finds no GPU here; set num_gpus = 0, or install a torch with CUDA (docs/how-to/install.md)",
        )
        return {"device": "cpu"}
    if gpus > 1:
        reader.notes.append(
            f"num_gpus = {gpus:g}: a training of these trainers learns on one of them; several learners are "
            "cluster.learners of Rookery's own (docs/how-to/several-learners.md)"
        )
    return {"device": "cuda"}


def measuring(reader: Reader) -> Values:
    explore = reader.get("evaluation_config.explore")
    explore = reader.get("explore") if explore is None else explore
    workers = reader.whole("evaluation_num_workers") if reader.cluster and not reader.get("custom_eval_function") else 0
    return {
        "evaluation.every": 0,
        "evaluation.workers": workers,
        "evaluation.episodes": reader.whole("evaluation_num_episodes", 1),
        "evaluation.deterministic": not explore,
    }


# --- schedules --------------------------------------------------------------------------------------------------------


def scheduled(reader: Reader, key: str, schedule_key: str) -> Any:
    """Gives the value of a key, or the schedule that takes its place: ``[[env steps, value], ...]``."""
    points = reader.get(schedule_key)
    if points is None:
        return reader.number(key)
    if schedule_key == "entropy_coeff_schedule" and isinstance(points, int | float):
        points = [[0, reader.number(key)], [points, 0.0]]
    return piecewise(reader, schedule_key, points)


def piecewise(reader: Reader, key: str, points: Any) -> Any:
    """Gives straight lines through ``[[env steps, value], ...]``."""
    shaped = isinstance(points, list | tuple) and bool(points)
    if not shaped or not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        reader.refuse(key, "must be a list of [env steps, value], for example [[0, 1e-3], [100000, 1e-5]]")
        return 1.0
    steps = [point[0] for point in points]
    if any(low >= high for low, high in pairwise(steps)) or steps[0] < 0:
        reader.refuse(key, "env steps must ascend from 0 or later")
        return 1.0
    return Piecewise(tuple((float(step), float(value)) for step, value in points))


def learning_rate(reader: Reader) -> Values:
    has_schedule = "lr_schedule" in reader.config
    return {"algorithm.lr": scheduled(reader, "lr", "lr_schedule") if has_schedule else reader.number("lr")}


def entropy(reader: Reader) -> Values:
    has_schedule = "entropy_coeff_schedule" in reader.config
    key = "entropy_coeff"
    return {"algorithm.entropy_coef": scheduled(reader, key, f"{key}_schedule") if has_schedule else reader.number(key)}


def ramp(start: float, end: float, steps: float, after: float = 0.0) -> Any:
    """Gives a straight line from one value to another, from step `after` on; a number where nothing changes."""
    if start == end or steps <= 0:
        return end
    if after <= 0:
        return Linear(start, end, int(steps))
    return Piecewise(((0.0, start), (after, start), (after + steps, end)))


# --- PPO and A2C ------------------------------------------------------------------------------------------------------


def advantage(reader: Reader) -> Values:
    if not reader.get("use_critic"):
        reader.refuse("use_critic", "advantages have a baseline here; use PG, which has none")
    if reader.get("use_gae"):
        return {"algorithm.gae_lambda": reader.get("lambda")}
    if reader.get("batch_mode") == "truncate_episodes" and reader.algorithm in PPO_KIND:
        reader.refuse("use_gae", "returns of episodes that are cut need it; set batch_mode = 'complete_episodes'")
    return {"algorithm.gae_lambda": 1.0}


def value_clip(reader: Reader) -> Values:
    clip, given = reader.get("vf_clip_param"), "vf_clip_param" in reader.given
    if clip is None or not given:
        if clip is not None:
            reader.notes.append(
                f"{VALUE_CLIP_IGNORED} ({clip:g}), which cuts off what is learned of values above "
                "it; write it into the configuration to have it honoured"
            )
        return {"algorithm.value_clip": None}
    return {"algorithm.value_clip": reader.number("vf_clip_param")}


def actor_value_weight(reader: Reader) -> Values:
    """The weight of the value loss: theirs is of half the squared error."""
    return {"algorithm.value_coef": 0.5 * reader.number("vf_loss_coeff")}


# --- IMPALA and APPO --------------------------------------------------------------------------------------------------


def trace_bounds(reader: Reader) -> Values:
    """The largest importance weight, which is one for targets and scores."""
    keys = ("vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold")
    given = [key for key in keys if key in reader.given] or [keys[0]]
    bounds = {key: reader.number(key) for key in given}
    if len(set(bounds.values())) > 1:
        reader.refuse(keys[1], f"value targets and scores have one bound here; use {keys[0]} = {bounds[keys[0]]:g}")
    if min(bounds.values()) <= 0:
        reader.refuse(given[0], "must be above 0")
        return {}
    if len(given) == 1 and given[0] in reader.given:
        reader.notes.append(f"{given[0]} = {bounds[given[0]]:g} bounds value targets and scores alike here")
    return {"algorithm.rho_bar": bounds[given[0]]}


def passes(reader: Reader) -> Values:
    """How often APPO learns from a batch: in passes at once, or again later, from those that are kept."""
    rows, kept = batch_rows(reader), reader.whole("minibatch_buffer_size", 1)
    uses, proportion = reader.whole("num_sgd_iter", 1), reader.number("replay_proportion")
    values: Values = {"algorithm.minibatch_size": rows, "algorithm.epochs": 1, "algorithm.batch_uses": 1}
    if proportion != int(proportion) or proportion < 0:
        reader.refuse("replay_proportion", "must be a whole number: older batches that are learned with each new one")
    elif proportion and kept > 1:
        reader.refuse("replay_proportion", "batches are kept once here; leave it out, or minibatch_buffer_size")
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


def target_penalty(reader: Reader) -> Values:
    """The penalty on the divergence from the target network, if it is used."""
    return {"algorithm.kl_coef": reader.number("kl_coeff") if reader.get("use_kl_loss") else 0.0}


# --- networks ---------------------------------------------------------------------------------------------------------


def policy_network(reader: Reader) -> Values:
    filters, custom = reader.get("model.conv_filters"), reader.get("model.custom_model")
    hidden = [*(reader.get("model.fcnet_hiddens") or ()), *(reader.get("model.post_fcnet_hiddens") or ())]
    first = "model.fcnet_activation" if reader.get("model.fcnet_hiddens") else "model.post_fcnet_activation"
    if filters:  # as theirs: after convolutions come the layers of post_fcnet_hiddens alone
        hidden, first = list(reader.get("model.post_fcnet_hiddens") or ()), "model.post_fcnet_activation"
    if reader.algorithm in ("DQN", "APEX") and not reader.get("dueling"):
        hidden += list(reader.get("hiddens") or ())
    values: Values = {
        "algorithm.model.hidden": tuple(hidden),
        "algorithm.model.activation": OURS.get(activation(reader, first), "tanh"),
    }
    function, of_pictures = activation(reader, first), activation(reader, "model.conv_activation")
    if custom is None and (filters or (function not in OURS and hidden) or of_pictures not in ("relu",)):
        settings = {"hidden": hidden, "activation": function, "conv_activation": of_pictures}
        if filters or function not in OURS:
            values["algorithm.model.module"] = NETWORK
            values["algorithm.model.module_config"] = settings | {"filters": [list(one) for one in filters or ()]}
        elif "model.conv_activation" in reader.given:
            reader.refuse("model.conv_activation", "give conv_filters beside it, whose functions it names")
    if filters and not _are_filters(filters):
        reader.refuse("model.conv_filters", "must be a list of [channels, kernel, stride], [16, [4, 4], 2] for example")
    if reader.get("model.no_final_linear"):
        reader.refuse("model.no_final_linear", "a head stands on every network; register a custom_model that is whole")
    return values


def _are_filters(filters: Any) -> bool:
    return isinstance(filters, list | tuple) and all(isinstance(one, list | tuple) and len(one) == 3 for one in filters)


def activation(reader: Reader, key: str) -> str:
    """Gives the name of a function after layers, in the spelling of 2021; ``linear`` for None."""
    value = reader.get(key)
    name = "linear" if value is None else str(value)
    if name not in FUNCTIONS:
        reader.refuse(key, f"must be one of {', '.join(FUNCTIONS)}{nearest(name, list(FUNCTIONS))}")
    return name


def shared_trunk(reader: Reader) -> Values:
    """Whether the value function stands on the policy's features."""
    old = reader.config.get("vf_share_layers", DEPRECATED_VALUE)
    shares = reader.get("model.vf_share_layers") if old == DEPRECATED_VALUE else old
    return {"algorithm.model.shared_trunk": bool(shares)}


def memory(reader: Reader) -> Values:
    """What a policy remembers: a cell, attention, frames."""
    path = "algorithm.model.memory."
    lstm, attends = bool(reader.get("model.use_lstm")), bool(reader.get("model.use_attention"))
    if reader.algorithm == "QMIX" and (lstm or attends):
        key = "model.use_lstm" if lstm else "model.use_attention"
        reader.refuse(key, "members of QMIX have a GRU of lstm_cell_size units in any case; leave it out")
    both = reader.get("model.lstm_use_prev_action_reward")
    old = bool(both) and both != DEPRECATED_VALUE
    values: Values = {
        f"{path}kind": "lstm" if lstm else "attention" if attends else "none",
        f"{path}size": reader.whole("model.attention_dim" if attends else "model.lstm_cell_size", 1),
        f"{path}layers": reader.whole("model.attention_num_transformer_units", 1) if attends else 1,
        f"{path}heads": reader.whole("model.attention_num_heads", 1) if attends else 4,
        f"{path}context": reader.whole("model.attention_memory_inference", 1) if attends else 32,
        f"{path}sequence_length": reader.whole("model.max_seq_len", 1),
        f"{path}previous_action": lstm and (old or bool(reader.get("model.lstm_use_prev_action"))),
        f"{path}previous_reward": lstm and (old or bool(reader.get("model.lstm_use_prev_reward"))),
        f"{path}frames": frames(reader),
    }
    if reader.algorithm == "QMIX":
        values |= {f"{path}kind": "gru", f"{path}sequence_length": _in_a_row(reader)}
    if lstm and attends:
        reader.refuse("model.use_attention", "and use_lstm is True: a policy has one memory; leave one of them out")
    for name in ("action", "reward") if attends else ():
        many = reader.whole(f"model.attention_use_n_prev_{name}s")
        if many > 1:
            reader.refuse(f"model.attention_use_n_prev_{name}s", "attention looks back by itself; use 1 or 0")
        values[f"{path}previous_{name}"] = many > 0
    if reader.algorithm == "R2D2" and not (lstm or attends) and reader.get("model.custom_model") is None:
        reader.refuse("model.use_lstm", "R2D2 learns policies that remember; set model.use_lstm = True, or use DQN")
    if (lstm or attends) and reader.algorithm in ("SimpleQ", *DDPG_KIND, "MADDPG"):
        use = "R2D2" if reader.algorithm == "SimpleQ" else "PPO"
        key = "model.use_lstm" if lstm else "model.use_attention"
        reader.refuse(key, f"{reader.algorithm} learns no policies that remember; use {use}")
    return values


def frames(reader: Reader) -> int:
    stack = reader.get("model.num_framestacks")
    if stack == "auto":
        if not reader.get("model.framestack"):
            reader.refuse("model.framestack", "pictures of Atari are stacked by their preset; write num_framestacks")
        return 1
    return max(reader.whole("model.num_framestacks"), 1)


# --- what learns from replay ------------------------------------------------------------------------------------------


def replay(reader: Reader) -> Values:
    path = "algorithm.replay."
    prioritized = bool(reader.get("prioritized_replay"))
    if prioritized and reader.algorithm == "R2D2":
        reader.refuse("prioritized_replay", "R2D2 of 2021 draws all sequences alike; set it to False")
    values: Values = {
        f"{path}kind": "prioritized" if prioritized else "uniform",
        f"{path}capacity": reader.whole("buffer_size", 1),
    }
    if reader.algorithm == "SimpleQ":
        return values | {f"{path}alpha": 0.6, f"{path}beta": 0.4, f"{path}priority_eps": 1e-6}
    first, last = reader.number("prioritized_replay_beta"), reader.number("final_prioritized_replay_beta")
    return {
        **values,
        f"{path}alpha": reader.get("prioritized_replay_alpha"),
        f"{path}beta": ramp(first, last, reader.number("prioritized_replay_beta_annealing_timesteps")),
        f"{path}priority_eps": reader.get("prioritized_replay_eps"),
    }


def q_values(reader: Reader) -> Values:
    """What DQN learns of an action's value."""
    atoms = reader.whole("num_atoms", 1)
    rescaled = reader.algorithm == "R2D2" and bool(reader.get("use_h_function"))
    if rescaled and atoms > 1:
        reader.refuse("num_atoms", "a distribution is not rescaled; set use_h_function = False, or num_atoms = 1")
    values: Values = {
        "algorithm.values.kind": "categorical" if atoms > 1 else "mean",
        "algorithm.values.atoms": atoms if atoms > 1 else 51,
        "algorithm.values.low": reader.number("v_min"),
        "algorithm.values.high": reader.number("v_max"),
        "algorithm.values.rescale": rescaled,
    }
    return values


def dueling(reader: Reader) -> Values:
    apart = bool(reader.get("dueling"))
    return {
        "algorithm.dueling": apart,
        "algorithm.dueling_hidden": tuple(reader.get("hiddens") or ()) if apart else (),
    }


def q_target(reader: Reader) -> Values:
    """When the target network becomes a copy of the one that learns."""
    return {
        "algorithm.target.every_env_steps": reader.whole("target_network_update_freq", 1),
        "algorithm.target.every": None,
    }


def q_exploration(reader: Reader) -> Values:
    path, kind = "algorithm.exploration.", exploration_type(reader)
    noisy = reader.algorithm != "SimpleQ" and bool(reader.get("noisy"))
    values: Values = {
        f"{path}kind": "epsilon",
        f"{path}epsilon": 0.0,
        f"{path}temperature": 1.0,
        f"{path}noisy_std": reader.number("sigma0") if reader.algorithm != "SimpleQ" else 0.5,
        f"{path}ladder": 0.0,
    }
    if kind == OWN_EXPLORATION:
        pass  # it is asked, and nothing else tries anything out
    elif kind == "EpsilonGreedy":
        values[f"{path}epsilon"] = epsilon(reader)
    elif kind == "PerWorkerEpsilonGreedy":
        values |= {f"{path}epsilon": APEX_RATE, f"{path}ladder": APEX_LADDER}
    elif kind in ("SoftQ", "StochasticSampling"):
        values[f"{path}kind"] = "boltzmann"
        values[f"{path}temperature"] = exploration_number(reader, "temperature") if kind == "SoftQ" else 1.0
    elif kind == "Random":
        values[f"{path}epsilon"] = 1.0
    elif kind == "ParameterNoise":
        steps = exploration_number(reader, "random_timesteps")
        values[f"{path}kind"] = "parameters"
        values[f"{path}epsilon"] = Piecewise(((0.0, 1.0), (steps + 1, 1.0), (steps + 2, 0.01)))
        if noisy:
            reader.refuse("noisy", "and exploration_config.type = 'ParameterNoise': leave one of them out")
    else:
        refuse_exploration(reader, kind, "EpsilonGreedy, SoftQ, ParameterNoise, or noisy = True")
    if noisy and reader.get("model.custom_model") is not None:
        reader.refuse("noisy", "a custom_model puts values of actions out by layers of its own; use EpsilonGreedy, "
                      "SoftQ or ParameterNoise")  # fmt: skip
    if noisy:
        values[f"{path}kind"] = "noisy"
    if not reader.get("explore"):
        values |= {f"{path}kind": "epsilon", f"{path}epsilon": 0.0}
    return values


def epsilon(reader: Reader) -> Any:
    schedule = reader.get("exploration_config.epsilon_schedule")
    if schedule is not None:
        return written_schedule(reader, "exploration_config.epsilon_schedule", schedule)
    names = ("initial_epsilon", "final_epsilon", "epsilon_timesteps")
    first, last, steps = (exploration_number(reader, name) for name in names)
    return ramp(first, last, steps)


def written_schedule(reader: Reader, key: str, schedule: Any) -> Any:
    """Gives what a dict ``{"type": ...}``, a list of points, or a schedule object of 2021 says."""
    if isinstance(schedule, int | float):
        return float(schedule)
    if isinstance(schedule, list | tuple):
        return piecewise(reader, key, schedule)
    parts = schedule if isinstance(schedule, Mapping) else {"type": type(schedule).__name__, **vars(schedule)}
    kind = str(parts.get("type", "")).rpartition(".")[2].removesuffix("Schedule")
    if kind == "Constant":
        return float(parts.get("value", parts.get("_v", 0.0)))
    if kind == "Linear" or (kind == "Polynomial" and parts.get("power", 2.0) == 1.0):
        return ramp(parts.get("initial_p", 1.0), parts.get("final_p", 0.0), parts.get("schedule_timesteps", 0))
    if kind == "Piecewise":
        return piecewise(reader, key, parts.get("endpoints"))
    reader.refuse(key, "must be a ConstantSchedule, LinearSchedule or PiecewiseSchedule")
    return 1.0


APEX_RATE = 0.4
APEX_LADDER = 7.0
"""What explorations by worker do: worker i of N has the rate ``0.4 ** (1 + 7 * i / (N - 1))``; here each copy has."""

EXPLORATION_DEFAULTS: dict[str, dict[str, Any]] = {
    "StochasticSampling": {"random_timesteps": 0},
    "EpsilonGreedy": {
        "initial_epsilon": 1.0, "final_epsilon": 0.05, "epsilon_timesteps": 100_000, "epsilon_schedule": None
    },
    "PerWorkerEpsilonGreedy": {},
    "SoftQ": {"temperature": 1.0},
    "Random": {},
    "GaussianNoise": {
        "random_timesteps": 1000, "stddev": 0.1, "initial_scale": 1.0, "final_scale": 0.02, "scale_timesteps": 10_000,
        "scale_schedule": None,
    },
    "OrnsteinUhlenbeckNoise": {
        "random_timesteps": 1000, "ou_theta": 0.15, "ou_sigma": 0.2, "ou_base_scale": 0.1, "initial_scale": 1.0,
        "final_scale": 0.02, "scale_timesteps": 10_000, "scale_schedule": None,
    },
    "PerWorkerGaussianNoise": {"random_timesteps": 1000, "stddev": 0.1},
    "PerWorkerOrnsteinUhlenbeckNoise": {
        "random_timesteps": 1000, "ou_theta": 0.15, "ou_sigma": 0.2, "ou_base_scale": 0.1
    },
    "Curiosity": {
        "eta": 1.0, "lr": 1e-3, "beta": 0.2, "feature_dim": 288, "feature_net_config": None,
        "inverse_net_hiddens": (256,), "inverse_net_activation": "relu", "forward_net_hiddens": (256,),
        "forward_net_activation": "relu", "sub_exploration": None,
    },
    "ParameterNoise": {"initial_stddev": 1.0, "random_timesteps": 10_000, "sub_exploration": None},
}  # fmt: skip
"""Keys of each type of exploration with what they are where nobody sets them."""

CURIOSITY_FINE: dict[str, tuple[Any, ...]] = {
    "inverse_net_hiddens": ((256,), [256]),
    "inverse_net_activation": ("relu",),
    "forward_net_activation": ("relu",),
    "sub_exploration": (None, {"type": "StochasticSampling"}, "StochasticSampling"),
}
"""What some of its keys may be."""

GONE_EXPLORATIONS: dict[str, str] = {
    "RE3": "novelty is rewarded by random network distillation here (algorithm.signals.rnd of a rookery.Trainer); use "
    "Curiosity, or add a reward in postprocess_trajectory of an Exploration of your own",
    "SlateEpsilonGreedy": "there are no slates; use EpsilonGreedy",
    "SlateSoftQ": "there are no slates; use SoftQ",
    "ThompsonSampling": "there are no bandits",
    "UpperConfidenceBound": "there are no bandits",
}
"""Types of exploration that are not here, and what to use."""


OWN_EXPLORATION = "a class of the script"
"""The type of exploration where the script has written it."""


def exploration_type(reader: Reader) -> str:
    if own_exploration(reader.config) is not None:
        return OWN_EXPLORATION
    kind = reader.get("exploration_config.type")
    name = getattr(kind, "__name__", None) or str(kind or "StochasticSampling")
    return str(name).replace(":", ".").rpartition(".")[2]


def exploration_number(reader: Reader, name: str) -> float:
    if reader.get(f"exploration_config.{name}") is not None:
        return reader.number(f"exploration_config.{name}")
    return float(EXPLORATION_DEFAULTS[exploration_type(reader)][name])


def refuse_exploration(reader: Reader, kind: str, use: str) -> None:
    """Notes that an algorithm does not explore so."""
    gone = GONE_EXPLORATIONS.get(kind)
    known = [*EXPLORATION_DEFAULTS, *GONE_EXPLORATIONS]
    near = "" if kind in known else nearest(kind, known)
    reader.refuse("exploration_config.type", gone or f"{reader.algorithm} does not explore so: use {use}{near}")


def drawn_exploration(reader: Reader) -> Values:
    """PPO, A2C and PG draw from their own distribution."""
    kind = exploration_type(reader)
    if kind == OWN_EXPLORATION:
        return {}
    if kind == "Curiosity":
        return curiosity(reader)
    if kind != "StochasticSampling":
        refuse_exploration(
            reader, kind, "StochasticSampling, which draws from the policy's own distribution, or Curiosity"
        )
    elif exploration_number(reader, "random_timesteps"):
        reader.refuse("exploration_config.random_timesteps", "what is learned from is the policy's own play; use 0")
    return {}


def curiosity(reader: Reader) -> Values:
    """The reward for surprise, which is a signal with values of its own, as PPO and A2C learn it."""
    path = "algorithm.signals.curiosity."

    def given(name: str) -> Any:
        value = reader.get(f"exploration_config.{name}")
        return EXPLORATION_DEFAULTS["Curiosity"][name] if value is None else value

    widths = tuple(given("forward_net_hiddens"))
    if len(widths) != 1:
        reader.refuse("exploration_config.forward_net_hiddens", "both models have one hidden layer: give one width")
        widths = (256,)
    net = given("feature_net_config") or reader.get("model") or {}
    if not isinstance(net, Mapping):
        reader.refuse("exploration_config.feature_net_config", "must be a dict as of model, or None")
        net = {}
    return {
        f"{path}strength": exploration_number(reader, "eta"),
        f"{path}lr": exploration_number(reader, "lr"),
        f"{path}forward_share": exploration_number(reader, "beta"),
        f"{path}num_features": int(exploration_number(reader, "feature_dim")),
        f"{path}hidden": int(widths[0]),
        f"{path}scale": False,
        f"{path}model.hidden": tuple(net.get("fcnet_hiddens", (256, 256))),
        f"{path}model.activation": str(net.get("fcnet_activation", "tanh")),
    }


def critic_exploration(reader: Reader) -> Values:
    """How SAC, DDPG and TD3 try actions out, and how long at random."""
    path, kind = "algorithm.exploration.", exploration_type(reader)
    starts = reader.whole("learning_starts")
    values: Values = {f"{path}kind": "white", f"{path}theta": 0.15}
    noises = ("GaussianNoise", "OrnsteinUhlenbeckNoise", "PerWorkerGaussianNoise", "PerWorkerOrnsteinUhlenbeckNoise")
    known = {"SAC": ("StochasticSampling",)}.get(reader.algorithm, noises)
    if kind not in known:
        if kind != OWN_EXPLORATION:
            refuse_exploration(reader, kind, " or ".join(known))
        elif reader.algorithm != "SAC":
            values[f"{path}std"] = 0.0
        return values | {"algorithm.learning_starts": starts}
    values["algorithm.learning_starts"] = max(starts, int(exploration_number(reader, "random_timesteps")))
    if kind == "StochasticSampling":
        return values
    if kind.endswith("OrnsteinUhlenbeckNoise"):
        theta, sigma = exploration_number(reader, "ou_theta"), exploration_number(reader, "ou_sigma")
        # Theirs is in units of the range of an action, which is 2 here, and sigma is that of a step.
        spread = sigma / math.sqrt(max(1 - (1 - theta) ** 2, 1e-12))
        values |= {f"{path}kind": "ou", f"{path}theta": theta}
        std = 2 * exploration_number(reader, "ou_base_scale") * spread
    else:
        std = exploration_number(reader, "stddev")
    values[f"{path}ladder"] = 0.0
    if not reader.get("explore"):
        values[f"{path}std"] = 0.0
    elif kind.startswith("PerWorker"):
        values[f"{path}std"] = std = std * APEX_RATE
        if 0.0 < std < 1.0:  # std ** (1 + ladder * p) is then std * 0.4 ** (7 * p)
            values[f"{path}ladder"] = APEX_LADDER * math.log(APEX_RATE) / math.log(std)
    else:
        values[f"{path}std"] = noise_size(reader, std)
    return values


def noise_size(reader: Reader, std: float) -> Any:
    """Gives the size of noise, or its schedule, which begins when random play ends."""
    key = "exploration_config.scale_schedule"
    if reader.get(key) is not None:
        scale = written_schedule(reader, key, reader.get(key))
        return std * scale if isinstance(scale, float) else Piecewise(
            tuple((step, std * size) for step, size in points_of(scale))
        )  # fmt: skip
    names = ("initial_scale", "final_scale", "scale_timesteps", "random_timesteps")
    first, last, steps, after = (exploration_number(reader, name) for name in names)
    return ramp(std * first, std * last, steps, after)


def points_of(schedule: Any) -> Sequence[tuple[float, float]]:
    if isinstance(schedule, Linear):
        return [(0.0, schedule.start), (float(schedule.steps or 1), schedule.end)]
    return list(schedule.points)


def same(reader: Reader, keys: Sequence[str], what: str) -> Any:
    """Gives the value that several keys have, which must be the same."""
    first = reader.get(keys[0])
    for key in keys[1:]:
        value = reader.get(key)
        pair = [list(one) if isinstance(one, list | tuple) else one for one in (first, value)]
        if pair[0] != pair[1]:
            reader.refuse(key, f"{what}, and {keys[0]} is {show(first)}: give both the same")
    return first


def critics(reader: Reader) -> Values:
    return {"algorithm.critic.number": 2 if reader.get("twin_q") else 1}


def sac_networks(reader: Reader) -> Values:
    what = "actor and critics have layers of the same kind here"
    names = ("fcnet_hiddens", "fcnet_activation", "post_fcnet_hiddens", "post_fcnet_activation")
    layers, _, after, _ = (same(reader, (f"policy_model.{name}", f"Q_model.{name}"), what) for name in names)
    key = "policy_model.fcnet_activation" if layers else "policy_model.post_fcnet_activation"
    name = activation(reader, key)
    if name not in OURS and (layers or after):
        reader.refuse(key, f"must be one of {', '.join(OURS)}")
    for network in ("policy_model", "Q_model"):
        if reader.get(f"{network}.custom_model") is not None:
            reader.refuse(f"{network}.custom_model", "SAC's networks are made by settings; set fcnet_hiddens")
    return {
        "algorithm.model.hidden": (*(layers or ()), *(after or ())),
        "algorithm.model.activation": OURS.get(name, "relu"),
    }


def sac_rates(reader: Reader) -> Values:
    names = ("actor", "critic", "entropy")
    what = "actor, critics and temperature have one learning rate here"
    rate = same(reader, [f"optimization.{name}_learning_rate" for name in names], what)
    return {"algorithm.lr": rate}


def temperature(reader: Reader) -> Values:
    """The entropy that SAC's temperature aims at."""
    target = reader.get("target_entropy")
    return {"algorithm.target_entropy": None if target in (None, "auto") else reader.number("target_entropy")}


def ddpg_networks(reader: Reader) -> Values:
    what = "actor and critics have layers of the same kind here"
    hidden = same(reader, ("actor_hiddens", "critic_hiddens"), what)
    same(reader, ("actor_hidden_activation", "critic_hidden_activation"), what)
    name = activation(reader, "actor_hidden_activation")
    if name not in OURS:
        reader.refuse("actor_hidden_activation", f"must be one of {', '.join(OURS)}")
    return {"algorithm.model.hidden": tuple(hidden or ()), "algorithm.model.activation": OURS.get(name, "relu")}


def ddpg_rates(reader: Reader) -> Values:
    return {"algorithm.lr": same(reader, ("actor_lr", "critic_lr"), "actor and critics have one learning rate here")}


def smoothing(reader: Reader) -> Values:
    """What TD3 has and DDPG has not; DDPG with either of both is TD3."""
    if not is_td3(reader):
        return {}
    smooth = bool(reader.get("smooth_target_policy"))
    return {
        "algorithm.policy_delay": reader.whole("policy_delay", 1),
        "algorithm.target_noise": reader.get("target_noise") if smooth else 0.0,
        "algorithm.target_noise_clip": reader.get("target_noise_clip"),
    }


def is_td3(reader: Reader) -> bool:
    """Says whether the actor waits for the critics, or targets are smoothed."""
    return reader.algorithm == "TD3" or reader.get("policy_delay") != 1 or bool(reader.get("smooth_target_policy"))


# --- teams ------------------------------------------------------------------------------------------------------------


def _in_a_row(reader: Reader) -> int:
    return min(reader.whole("model.max_seq_len", 1), MOST_IN_A_ROW)


def mixer(reader: Reader) -> Values:
    """How the values of a group's members become that of the group: QMIX, or VDN."""
    kind = reader.get("mixer")
    if kind == "vdn":
        return {"algorithm.name": "vdn"}
    if kind != "qmix":
        reader.refuse("mixer", "must be 'qmix' or 'vdn'; without a mixer members learn apart: use DQN without groups")
    return {"algorithm.name": "qmix", "algorithm.mixing_size": reader.whole("mixing_embed_dim", 1)}


def member_layers(reader: Reader) -> Values:
    """The layer before a member's GRU, which is as wide."""
    width = reader.whole("model.lstm_cell_size", 1)
    return {"algorithm.model.hidden": (width,), "algorithm.model.activation": "relu"}


def team_replay(reader: Reader) -> Values:
    return {"algorithm.replay.kind": "uniform", "algorithm.replay.capacity": reader.whole("buffer_size", 1)}


def team_exploration(reader: Reader) -> Values:
    kind = exploration_type(reader)
    values: Values = {"algorithm.exploration.kind": "epsilon", "algorithm.exploration.epsilon": 0.0}
    if kind != "EpsilonGreedy":
        refuse_exploration(reader, kind, "EpsilonGreedy")
    elif reader.get("explore"):
        values["algorithm.exploration.epsilon"] = epsilon(reader)
    return values
