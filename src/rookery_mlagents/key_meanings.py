"""Functions that translate keys of ML-Agents to settings: each takes a `Case` and returns values by path.

NAME in a path stands for the name of the behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rookery.face import DECISIONS, Linear, image_layout
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.run_options import RunOptions
from rookery_mlagents.files.sections import (
    A2COptions,
    BehaviorOptions,
    CuriosityOptions,
    DQNOptions,
    GAILOptions,
    NetworkOptions,
    OwnOptions,
    POCAOptions,
    PPOOptions,
    RewardOptions,
    RNDOptions,
    SACOptions,
    SamplerOptions,
)
from rookery_mlagents.files.sections import Schedule as ScheduleName

Values = dict[str, object]
"""Settings by path."""

P = "policies.NAME."
"""Path of the settings of a behavior's policy."""

M = f"{P}model."
S = f"{P}signals."

LOWEST = {"learning_rate": 1e-10, "epsilon": 0.1, "beta": 1e-5}
"""Final values of linear schedules, at `max_steps`."""

EXPLORED = 20_000
"""Decisions over which the exploration of dqn falls to its final value."""

CLONING_EPOCHS = 3
"""Default of `behavioral_cloning.num_epoch`."""

GOAL = "goal"
"""Prefix of the names of goals (goal signals in Unity) among the parts of an observation, for Python environments."""


@dataclass(frozen=True)
class Case:
    """Behavior to translate.

    Attributes:
        name: Its name.
        options: Options of the run.
        own: Options of the behavior.
        spaces: Observation and action spaces of its agents.
        behaviors: All behaviors of the run that the environment has.
        replays: By behavior and ``demo_path``: the replay directory that a ``.demo`` file was converted to.
    """

    name: str
    options: RunOptions
    own: BehaviorOptions
    spaces: BehaviorSpaces
    behaviors: Mapping[str, BehaviorSpaces] = field(default_factory=dict)
    replays: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def on_policy(self) -> PPOOptions | POCAOptions:
        """The hyperparameters of ppo and poca."""
        assert isinstance(self.own.hyperparameters, PPOOptions | POCAOptions)
        return self.own.hyperparameters

    @property
    def off_policy(self) -> SACOptions | DQNOptions:
        """The hyperparameters of sac and dqn."""
        assert isinstance(self.own.hyperparameters, SACOptions | DQNOptions)
        return self.own.hyperparameters

    @property
    def batch_size(self) -> int:
        """Decisions per gradient step; with memory, rounded down to whole sequences."""
        hyper = self.own.hyperparameters
        assert not isinstance(hyper, OwnOptions)
        memory = self.own.network_settings.memory
        if memory is None:
            return hyper.batch_size
        return max(hyper.batch_size // memory.sequence_length, 1) * memory.sequence_length

    def demonstrations(self, path: str) -> tuple[str, ...]:
        """Returns the replay directory of a ``demo_path``."""
        return (self.replays.get((self.name, path), path),)


Meaning = Callable[[Case], Values]


# -- hyperparameters ---------------------------------------------------------------------------------------------------


def scheduled(case: Case, key: str, value: float, schedule: ScheduleName) -> float | Linear:
    """Returns a number, or a linear schedule that reaches its final value at `max_steps` decisions of the behavior."""
    if schedule == "constant":
        return value
    return Linear(value, LOWEST[key], case.own.max_steps, DECISIONS)


def learning_rate(case: Case) -> Values:
    """Returns the learning rate; a linear one falls to 1e-10."""
    hyper = case.own.hyperparameters
    assert not isinstance(hyper, OwnOptions)
    return {f"{P}lr": scheduled(case, "learning_rate", hyper.learning_rate, hyper.learning_rate_schedule)}


def entropy(case: Case) -> Values:
    """Returns the weight of the entropy bonus; a linear one falls to 1e-5."""
    hyper = case.own.hyperparameters
    assert isinstance(hyper, PPOOptions | POCAOptions | A2COptions)
    return {f"{P}entropy_coef": scheduled(case, "beta", hyper.beta, hyper.beta_schedule)}


def clipping(case: Case) -> Values:
    """Returns the clip range of the probability ratio; a linear one falls to 0.1."""
    hyper = case.on_policy
    return {f"{P}clip": scheduled(case, "epsilon", hyper.epsilon, hyper.epsilon_schedule)}


def minibatch(case: Case) -> Values:
    """Returns the decisions per gradient step."""
    return {f"{P}minibatch_size": case.batch_size}


def drawn_batch(case: Case) -> Values:
    """Returns the decisions, or with memory the sequences, that are sampled from replay for a gradient step."""
    memory = case.own.network_settings.memory
    length = 1 if memory is None else memory.sequence_length
    return {f"{P}batch_size": case.batch_size // length}


def one_step(case: Case) -> Values:
    """Returns the decisions of an update of a2c, which is one gradient step."""
    return {f"{P}rollout_size": case.batch_size}


def exploration(case: Case) -> Values:
    """Returns the probability of a random action of dqn; a linear one falls for 20,000 decisions."""
    hyper = case.own.hyperparameters
    assert isinstance(hyper, DQNOptions)
    first, last = hyper.exploration_initial_eps, hyper.exploration_final_eps
    is_constant = hyper.exploration_schedule == "constant"
    return {f"{P}exploration.epsilon": first if is_constant else Linear(first, last, EXPLORED, DECISIONS)}


def first_update(case: Case) -> Values:
    """Returns the decisions before learning starts, at least a batch."""
    hyper = case.off_policy
    return {f"{P}learning_starts": max(hyper.buffer_init_steps, hyper.batch_size)}


def pace(case: Case) -> Values:
    """Returns the gradient steps per decision."""
    return {f"{P}updates_per_step": 1.0 / case.off_policy.steps_per_update}


def signals_pace(case: Case) -> Values:
    """Returns the gradient steps of reward signals per gradient step of the policy."""
    hyper = case.off_policy
    ratio = hyper.steps_per_update / hyper.reward_signal_steps_per_update
    return {f"{S}{name}.updates_per_step": ratio for name in case.own.reward_signals if name != "extrinsic"}


# -- networks ----------------------------------------------------------------------------------------------------------

PICTURES = {
    "simple": "simple",
    "nature_cnn": "nature_leaky",
    "resnet": "resnet",
    "match3": "match3",
    "fully_connected": "flat",
}
"""Image encoders by their names in ML-Agents."""


def layers(network: NetworkOptions, path: str) -> Values:
    """Returns layers of equal width with swish."""
    return {f"{path}hidden": (network.hidden_units,) * network.num_layers, f"{path}activation": "silu"}


def widths(case: Case) -> Values:
    """Returns the layers of policy and critic, and the number of image features."""
    return layers(case.own.network_settings, M) | picture_features(case, case.own.network_settings, M)


def has_pictures(case: Case) -> bool:
    """Returns whether the observation contains an image."""
    return any(image_layout(leaf) for leaf in case.spaces.obs.leaves)


def picture_features(case: Case, network: NetworkOptions, path: str) -> Values:
    """Returns the number of image features, which is `hidden_units`; nothing without images."""
    return {f"{path}cnn_features": network.hidden_units} if has_pictures(case) else {}


def pictures(case: Case) -> Values:
    """Returns the image encoder; nothing without images."""
    return {f"{M}cnn": PICTURES[case.own.network_settings.vis_encode_type]} if has_pictures(case) else {}


def memory(case: Case) -> Values:
    """Returns an LSTM of ``memory_size`` / 2 units: hidden state and cell state have half of the size each."""
    found = case.own.network_settings.memory
    if found is None:
        return {f"{M}memory.kind": "none"}
    return {
        f"{M}memory.kind": "lstm",
        f"{M}memory.size": found.memory_size // 2,
        f"{M}memory.sequence_length": found.sequence_length,
    }


def goals(case: Case) -> Values:
    """Returns the parts of the observation that are goals, and their use."""
    paths = case.spaces.goals
    if paths is None:
        paths = tuple(leaf.path for leaf in case.spaces.obs.own.leaves if leaf.path.rpartition("/")[2].startswith(GOAL))
    if not paths:
        return {}
    return {f"{M}goals": paths, f"{M}goal_conditioning": case.own.network_settings.goal_conditioning_type}


# -- reward signals ----------------------------------------------------------------------------------------------------


def extrinsic(case: Case) -> Values:
    """Returns discount and weight of the environment's reward; the weight is 0 if it is not among the signals."""
    signals = case.own.reward_signals
    if "extrinsic" in signals:
        return {
            f"{P}gamma": signals["extrinsic"].gamma,
            f"{S}extrinsic.strength": signals["extrinsic"].strength,
            f"{S}combine": "mean",
        }
    first = next(iter(signals.values()), RewardOptions())
    return {f"{P}gamma": first.gamma, f"{S}extrinsic.strength": 0.0, f"{S}combine": "sum"}


def learned_signal(case: Case, name: str) -> Values:
    """Returns the settings shared by all learned signals."""
    signal = case.own.reward_signals[name]
    assert isinstance(signal, CuriosityOptions | RNDOptions | GAILOptions)
    here = f"{S}{name}."
    count = 1 if "extrinsic" in case.own.reward_signals else len(case.own.reward_signals)
    values: Values = {
        f"{here}strength": signal.strength / count,
        f"{here}gamma": signal.gamma,
        f"{here}lr": signal.learning_rate,
        f"{here}scale": False,
        f"{here}share": 1.0,
        **layers(signal.network_settings, f"{here}model."),
    }
    if has_pictures(case):
        values[f"{here}model.cnn"] = PICTURES[signal.network_settings.vis_encode_type]
        values |= picture_features(case, signal.network_settings, f"{here}model.")
    hyper = case.own.hyperparameters
    if isinstance(hyper, PPOOptions | POCAOptions):  # a gradient step for each of the policy, on the same decisions
        values[f"{here}epochs"] = hyper.num_epoch
        values[f"{here}minibatches"] = max(hyper.buffer_size // case.batch_size, 1)
    if isinstance(hyper, A2COptions):
        values |= {f"{here}epochs": 1, f"{here}minibatches": 1}
    return values


def curiosity(case: Case) -> Values:
    """Returns the settings of curiosity, whose rewards are clipped to 1 / strength."""
    signal = case.own.reward_signals.get("curiosity")
    if signal is None:
        return {}
    here = f"{S}curiosity."
    values = learned_signal(case, "curiosity")
    values |= {f"{here}num_features": signal.network_settings.hidden_units, f"{here}hidden": 256}
    values |= {f"{here}forward_share": 0.2}
    if signal.strength > 0:
        values[f"{here}largest"] = 1.0 / signal.strength
    return values


def rnd(case: Case) -> Values:
    """Returns the settings of random network distillation, whose rewards are not normalized."""
    signal = case.own.reward_signals.get("rnd")
    if signal is None:
        return {}
    return learned_signal(case, "rnd") | {f"{S}rnd.num_features": signal.network_settings.hidden_units}


def gail(case: Case) -> Values:
    """Returns the settings of adversarial imitation, with a gradient penalty of weight 10."""
    signal = case.own.reward_signals.get("gail")
    if not isinstance(signal, GAILOptions):
        return {}
    return learned_signal(case, "gail") | {
        f"{S}gail.replay": case.demonstrations(signal.demo_path),
        f"{S}gail.use_actions": signal.use_actions,
        f"{S}gail.reward": "gail",
        f"{S}gail.penalty": 10.0,
        f"{S}gail.bottleneck": 128 if signal.use_vail else None,
    }


# -- imitation, self-play ----------------------------------------------------------------------------------------------


def cloning(case: Case) -> Values:
    """Returns the settings of behavioral cloning in addition to reinforcement learning."""
    found = case.own.behavioral_cloning
    if found is None:
        return {}
    batch = None if isinstance(case.own.hyperparameters, OwnOptions) else case.batch_size
    strength: float | Linear = found.strength
    if found.steps:
        strength = Linear(found.strength, 0.0, found.steps, DECISIONS)
    return {
        f"{P}imitation.replay": case.demonstrations(found.demo_path),
        f"{P}imitation.strength": strength,
        f"{P}imitation.epochs": found.num_epoch or CLONING_EPOCHS,
        f"{P}imitation.batch_size": found.batch_size or batch,
        f"{P}imitation.samples_per_epoch": found.samples_per_update or None,
    }


def self_play(case: Case) -> Values:
    """Returns the settings of self-play."""
    found = case.own.self_play
    if found is None:
        return {}
    here = "self_play.NAME."
    return {
        f"{here}snapshot_every": found.save_steps,
        f"{here}team_change_every": found.team_change,
        f"{here}swap_every": found.swap_steps,
        f"{here}window": found.window,
        f"{here}latest_ratio": found.play_against_latest_model_ratio,
        f"{here}initial_rating": found.initial_elo,
        f"{here}k_factor": 1.0,
        f"{here}rating_games": 0,
    }


# -- the run -----------------------------------------------------------------------------------------------------------


def last_decision(case: Case) -> Values:
    """Returns the number of decisions that the behavior learns from; the run ends when all behaviors with agents have
    finished.
    """
    return {f"{P}max_decisions": case.own.max_steps, "stop.finished_share": 1.0}


def start(case: Case) -> Values:
    """Returns the run or checkpoint of Rookery from which the initial weights are loaded."""
    path = case.own.init_path
    if path is not None and not path.endswith(".pt"):
        return {f"{P}init_from": path}
    return {}


def initialize_from(case: Case) -> Values:
    """Returns the run in the same results folder from which the initial weights are loaded, if it is a run of
    Rookery.
    """
    found = case.options.checkpoint_settings
    if found.initialize_from is None or case.own.init_path is not None:
        return {}
    run = Path(found.results_dir) / found.initialize_from
    return {f"{P}init_from": f"{run}:{case.name}"} if (run / "checkpoints").is_dir() else {}


def kept(case: Case) -> Values:
    """Returns the largest `keep_checkpoints` of all behaviors."""
    return {"checkpoint.keep_last": max(case.options.of(name).keep_checkpoints for name in case.behaviors)}


def overlap(case: Case) -> Values:
    """Returns whether sampling and learning overlap: only if all behaviors are threaded and use ppo."""
    found = [case.options.of(name) for name in case.behaviors]
    return {"sampling.staleness": int(all(one.threaded and one.trainer_type == "ppo" for one in found))}


def copies(case: Case) -> Values:
    """Returns the number of environments: Unity players, or num_envs x num_areas Python environments."""
    found = case.options.env_settings
    return {"sampling.num_envs": found.num_envs * (1 if case.options.plays_unity else found.num_areas)}


def seed(case: Case) -> Values:
    """Returns the seed of the run; no value for -1, so that it is drawn."""
    value = case.options.env_settings.seed
    return {"seed": value} if value >= 0 else {}


def restarts(case: Case) -> Values:
    """Returns the maximum number of restarts of processes; -1 = no limit."""
    value = case.options.env_settings.max_lifetime_restarts
    return {"sampling.max_restarts": value if value >= 0 else 1_000_000_000}


def patience(case: Case) -> Values:
    """Returns the timeout in seconds for a step of an environment."""
    return {"sampling.step_timeout_seconds": float(case.options.env_settings.timeout_wait)}


def device(case: Case) -> Values:
    """Returns the device on which networks learn."""
    value = case.options.torch_settings.device
    return {} if value is None else {"device": value.partition(":")[0]}


def evaluation(case: Case) -> Values:
    """Returns whether evaluations choose the most likely actions."""
    return {"evaluation.deterministic": any(case.options.of(name).network_settings.deterministic
                                            for name in case.behaviors)}  # fmt: skip


# -- parameters of the environment -------------------------------------------------------------------------------------


def sampler(found: SamplerOptions) -> object:
    """Returns a number or the settings of a sampler."""
    given = found.sampler_parameters
    names = {"min_value": "low", "max_value": "high", "mean": "mean", "st_dev": "std", "intervals": "intervals"}
    kinds = {"uniform": "uniform", "gaussian": "normal", "multirangeuniform": "intervals"}
    if found.sampler_type == "constant":
        return given["value"]
    values = {names[key]: value for key, value in given.items() if key in names}
    if found.sampler_type == "multirangeuniform":
        values["intervals"] = [tuple(pair) for pair in values["intervals"]]  # type: ignore[union-attr, arg-type, misc]
    own = given["seed"]
    stream = {"seed": own} if isinstance(own, int) and own >= 0 else {}
    return {"sampler": kinds[found.sampler_type], **values, **stream}


def horizon(case: Case) -> Values:
    """Returns the length of fragments: none is longer than an update."""
    hyper = case.own.hyperparameters
    longest = hyper.buffer_size if isinstance(hyper, PPOOptions | POCAOptions) else case.own.time_horizon
    longest = case.batch_size if isinstance(hyper, A2COptions) else longest
    return {f"{P}fragment_length": min(case.own.time_horizon, longest)}


def parameters(case: Case) -> Values:
    """Returns the environment parameters of a run: numbers, distributions and lessons."""
    return parameters_of(case.options)


def parameters_of(options: RunOptions) -> Values:
    """Returns the environment parameters of options: numbers, distributions and lessons."""
    values: Values = {}
    for name, found in options.environment_parameters.items():
        if len(found.curriculum) == 1:
            values[f"env.parameters.{name}"] = sampler(found.curriculum[0].value)
            continue
        lessons: list[dict[str, object]] = []
        restart = False
        for lesson in found.curriculum:
            entry: dict[str, object] = {"value": sampler(lesson.value), "require_reset": restart}
            criteria = lesson.completion_criteria
            if criteria is not None:
                restart = criteria.require_reset
                whose = criteria.behavior
                if criteria.measure != "progress":
                    columns = {"reward": "return", "group_reward": "group_return", "elo": f"self_play/{whose}/rating"}
                    entry |= {"measure": columns[criteria.measure], "threshold": criteria.threshold}
                    entry |= {"smoothing": criteria.signal_smoothing}
                else:
                    steps = options.of(whose).max_steps
                    entry |= {"measure": f"policies/{whose}/decisions", "threshold": criteria.threshold * steps}
                    entry |= {"smoothing": False}
                entry |= {"of_policy": whose, "min_episodes": criteria.min_lesson_length}
            lessons.append(entry)
        values[f"curriculum.{name}"] = {"lessons": lessons}
    return values
