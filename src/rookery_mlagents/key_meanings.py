"""Meanings of keys of ML-Agents in settings of ours, where it takes more than a copy: functions of a `Case`.

Paths hold NAME in the place of the behaviour's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rookery.face import DECISIONS, Linear, image_layout
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.run_options import RunOptions
from rookery_mlagents.files.sections import (
    BehaviorOptions,
    CuriosityOptions,
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
"""Settings of ours by path."""

P = "policies.NAME."
"""Where the settings of a behaviour's policy stand."""

M = f"{P}model."
S = f"{P}signals."

LOWEST = {"learning_rate": 1e-10, "epsilon": 0.1, "beta": 1e-5}
"""Where linear schedules end, at `max_steps`."""

CLONING_EPOCHS = 3
"""Passes over the demonstrations in an update, where nothing is said."""

GOAL = "goal"
"""How the path of a part of the observation begins that is a goal, where no player says which are: what Unity calls a
goal signal."""


@dataclass(frozen=True)
class Case:
    """A behaviour to be translated.

    Attributes:
        name: Its name.
        options: Options of the run.
        own: Its options.
        spaces: What its agents see and do.
        behaviors: All behaviours of the run that the environment has.
        replays: For each behaviour and ``demo_path`` of it that is a file of ML-Agents: the replay directory it was
            read into.
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
    def sac(self) -> SACOptions:
        """The hyperparameters of sac."""
        assert isinstance(self.own.hyperparameters, SACOptions)
        return self.own.hyperparameters

    @property
    def batch_size(self) -> int:
        """Decisions in a gradient step, whole sequences of them where the policy remembers."""
        hyper = self.own.hyperparameters
        assert not isinstance(hyper, OwnOptions)
        memory = self.own.network_settings.memory
        if memory is None:
            return hyper.batch_size
        return max(hyper.batch_size // memory.sequence_length, 1) * memory.sequence_length

    def demonstrations(self, path: str) -> tuple[str, ...]:
        """Returns the replay that a ``demo_path`` stands for."""
        return (self.replays.get((self.name, path), path),)


Meaning = Callable[[Case], Values]


# -- hyperparameters ---------------------------------------------------------------------------------------------------


def scheduled(case: Case, key: str, value: float, schedule: ScheduleName) -> float | Linear:
    """Returns a number, or the line from it to its lowest at the last of the behaviour's decisions."""
    if schedule == "constant":
        return value
    return Linear(value, LOWEST[key], case.own.max_steps, DECISIONS)


def learning_rate(case: Case) -> Values:
    """The learning rate of Adam, falling to 1e-10 if it is linear."""
    hyper = case.own.hyperparameters
    assert not isinstance(hyper, OwnOptions)
    return {f"{P}lr": scheduled(case, "learning_rate", hyper.learning_rate, hyper.learning_rate_schedule)}


def entropy(case: Case) -> Values:
    """The weight of the entropy, falling to 1e-5 if it is linear."""
    hyper = case.on_policy
    return {f"{P}entropy_coef": scheduled(case, "beta", hyper.beta, hyper.beta_schedule)}


def clipping(case: Case) -> Values:
    """The range of the probability ratio, falling to 0.1 if it is linear."""
    hyper = case.on_policy
    return {f"{P}clip": scheduled(case, "epsilon", hyper.epsilon, hyper.epsilon_schedule)}


def minibatch(case: Case) -> Values:
    """Decisions in a gradient step, cut down to whole sequences."""
    return {f"{P}minibatch_size": case.batch_size}


def drawn_batch(case: Case) -> Values:
    """Decisions drawn from replay for a gradient step; sequences, if the policy remembers."""
    memory = case.own.network_settings.memory
    length = 1 if memory is None else memory.sequence_length
    return {f"{P}batch_size": case.batch_size // length}


def first_update(case: Case) -> Values:
    """Decisions before learning begins: a batch at least."""
    hyper = case.sac
    return {f"{P}learning_starts": max(hyper.buffer_init_steps, hyper.batch_size)}


def pace(case: Case) -> Values:
    """Gradient steps a decision."""
    return {f"{P}updates_per_step": 1.0 / case.sac.steps_per_update}


def signals_pace(case: Case) -> Values:
    """Gradient steps of reward signals for each of the policy."""
    hyper = case.sac
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
"""Networks for images, by what ML-Agents calls them."""


def layers(network: NetworkOptions, path: str) -> Values:
    """Equal layers with swish."""
    return {f"{path}hidden": (network.hidden_units,) * network.num_layers, f"{path}activation": "silu"}


def widths(case: Case) -> Values:
    """The layers of the policy and of the critic, and their number of features of an image."""
    return layers(case.own.network_settings, M) | picture_features(case, case.own.network_settings, M)


def has_pictures(case: Case) -> bool:
    """Returns whether there is an image among the observations."""
    return any(image_layout(leaf) for leaf in case.spaces.obs.leaves)


def picture_features(case: Case, network: NetworkOptions, path: str) -> Values:
    """As many features of an image as there are hidden units, where there are any."""
    return {f"{path}cnn_features": network.hidden_units} if has_pictures(case) else {}


def pictures(case: Case) -> Values:
    """The network for images, where there are any."""
    return {f"{M}cnn": PICTURES[case.own.network_settings.vis_encode_type]} if has_pictures(case) else {}


def memory(case: Case) -> Values:
    """An LSTM whose state and output are half of ``memory_size`` each."""
    found = case.own.network_settings.memory
    if found is None:
        return {f"{M}memory.kind": "none"}
    return {
        f"{M}memory.kind": "lstm",
        f"{M}memory.size": found.memory_size // 2,
        f"{M}memory.sequence_length": found.sequence_length,
    }


def goals(case: Case) -> Values:
    """Which parts of the observation are goals, and what they do."""
    paths = case.spaces.goals
    if paths is None:
        paths = tuple(leaf.path for leaf in case.spaces.obs.own.leaves if leaf.path.rpartition("/")[2].startswith(GOAL))
    if not paths:
        return {}
    return {f"{M}goals": paths, f"{M}goal_conditioning": case.own.network_settings.goal_conditioning_type}


# -- reward signals ----------------------------------------------------------------------------------------------------


def extrinsic(case: Case) -> Values:
    """The environment's reward: its discount, and what it counts among all. Where it is no signal it counts nothing."""
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
    """Returns the settings common to all signals that learn."""
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
    return values


def curiosity(case: Case) -> Values:
    """Curiosity, with rewards of at most 1 over its strength."""
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
    """Random network distillation, whose rewards are the errors as they are."""
    signal = case.own.reward_signals.get("rnd")
    if signal is None:
        return {}
    return learned_signal(case, "rnd") | {f"{S}rnd.num_features": signal.network_settings.hidden_units}


def gail(case: Case) -> Values:
    """Adversarial imitation with a gradient penalty of 10."""
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
    """Imitation beside reinforcement learning."""
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
    """Snapshots, opponents and ratings."""
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
    """Last step of learning of the behaviour; the run ends when all with agents have reached it, late ones too."""
    return {f"{P}max_decisions": case.own.max_steps, "stop.finished_share": 1.0}


def start(case: Case) -> Values:
    """The run or checkpoint of ours that the behaviour's weights start from."""
    path = case.own.init_path
    if path is not None and not path.endswith(".pt"):
        return {f"{P}init_from": path}
    return {}


def initialize_from(case: Case) -> Values:
    """The weights of a run in the same folder of results, if it is one of ours."""
    found = case.options.checkpoint_settings
    if found.initialize_from is None or case.own.init_path is not None:
        return {}
    run = Path(found.results_dir) / found.initialize_from
    return {f"{P}init_from": f"{run}:{case.name}"} if (run / "checkpoints").is_dir() else {}


def kept(case: Case) -> Values:
    """The most checkpoints that a behaviour keeps."""
    return {"checkpoint.keep_last": max(case.options.of(name).keep_checkpoints for name in case.behaviors)}


def overlap(case: Case) -> Values:
    """Playing while learning, where every behaviour is threaded and learned by ppo, which makes up for it."""
    found = [case.options.of(name) for name in case.behaviors]
    return {"sampling.staleness": int(all(one.threaded and one.trainer_type == "ppo" for one in found))}


def copies(case: Case) -> Values:
    """Number of environments: Unity players, which make their areas themselves; else processes times areas."""
    found = case.options.env_settings
    return {"sampling.num_envs": found.num_envs * (1 if case.options.plays_unity else found.num_areas)}


def seed(case: Case) -> Values:
    """The seed of the run; -1 = it is drawn."""
    value = case.options.env_settings.seed
    return {"seed": value} if value >= 0 else {}


def restarts(case: Case) -> Values:
    """Number of processes that may be replaced; -1 = any number."""
    value = case.options.env_settings.max_lifetime_restarts
    return {"sampling.max_restarts": value if value >= 0 else 1_000_000_000}


def patience(case: Case) -> Values:
    """Seconds that the copies may take for a step."""
    return {"sampling.step_timeout_seconds": float(case.options.env_settings.timeout_wait)}


def device(case: Case) -> Values:
    """The device on which networks learn."""
    value = case.options.torch_settings.device
    return {} if value is None else {"device": value.partition(":")[0]}


def evaluation(case: Case) -> Values:
    """Deterministic actions where nothing is learned: the most likely ones are played."""
    return {"evaluation.deterministic": any(case.options.of(name).network_settings.deterministic
                                            for name in case.behaviors)}  # fmt: skip


# -- parameters of the environment -------------------------------------------------------------------------------------


def sampler(found: SamplerOptions) -> object:
    """Returns a number or a sampler of ours."""
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
    """The longest row of decisions; an update takes rows as they are, so that none can be longer than what it takes."""
    hyper = case.own.hyperparameters
    longest = hyper.buffer_size if isinstance(hyper, PPOOptions | POCAOptions) else case.own.time_horizon
    return {f"{P}fragment_length": min(case.own.time_horizon, longest)}


def parameters(case: Case) -> Values:
    """Numbers, distributions and lessons."""
    return parameters_of(case.options)


def parameters_of(options: RunOptions) -> Values:
    """Returns the numbers, distributions and lessons of a run."""
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
                if criteria.measure == "reward":
                    entry |= {"measure": "return", "threshold": criteria.threshold}
                    entry |= {"smoothing": criteria.signal_smoothing}
                else:
                    steps = options.of(whose).max_steps
                    entry |= {"measure": f"policies/{whose}/decisions", "threshold": criteria.threshold * steps}
                    entry |= {"smoothing": False}
                entry |= {"of_policy": whose, "min_episodes": criteria.min_lesson_length}
            lessons.append(entry)
        values[f"curriculum.{name}"] = {"lessons": lessons}
    return values
