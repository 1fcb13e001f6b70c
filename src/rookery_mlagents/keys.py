"""Every key of ML-Agents 1.1.0 and its translation: `ROWS`.

A key is *set* (its value is copied to a setting), *translated* (a function computes settings from it and its
neighbours), *used* (``rookery mlagents learn`` reads it), *ignored* (it has no effect, and a note states it) or
*refused* (only its default is accepted). The reference page of the documentation is generated from the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from rookery_mlagents import key_meanings as m
from rookery_mlagents.key_meanings import Case, M, Meaning, P, S, Values


class KeyStatus(Enum):
    """Treatment of a key."""

    SET = "set"
    TRANSLATED = "translated"
    USED = "used"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class KeyRow:
    """Row of the key table.

    Attributes:
        key: The key with its section, below the behavior or from the top of the file.
        status: How it is handled.
        text: Its effect, or the reason why it is ignored or refused; a message may quote it.
        paths: Settings that the key determines; NAME stands for the behavior.
        meaning: Of translated keys: the function that returns the values.
        only: Trainers that the row is for; empty = all.
        fine: Values that cause no note or error, of keys that are ignored or refused.
        of_players: Whether only Unity players use it; with a Python environment a note states that it has no effect.
    """

    key: str
    status: KeyStatus
    text: str
    paths: tuple[str, ...] = ()
    meaning: Meaning | None = None
    only: tuple[str, ...] = ()
    fine: tuple[object, ...] = ()
    of_players: bool = False


ON_POLICY = ("ppo", "poca")
ADVANTAGES = (*ON_POLICY, "a2c")
SAC = ("sac",)
DQN = ("dqn",)
OFF_POLICY = (*SAC, *DQN)
TRAINER_KINDS = (*ADVANTAGES, *OFF_POLICY)


def to(key: str, path: str, text: str, only: tuple[str, ...] = ()) -> KeyRow:
    """Returns the row of a key whose value is copied to a path."""
    return KeyRow(key, KeyStatus.SET, text, (path,), only=only)


def by(meaning: Meaning, keys: str, paths: str, text: str, only: tuple[str, ...] = ()) -> list[KeyRow]:
    """Returns rows of keys that a function translates to paths; keys and paths are separated by spaces."""
    return [KeyRow(key, KeyStatus.TRANSLATED, text, tuple(paths.split()), meaning, only) for key in keys.split()]


def used(keys: str, text: str, only: tuple[str, ...] = ()) -> list[KeyRow]:
    """Returns rows of keys that the command reads."""
    return [KeyRow(key, KeyStatus.USED, text, only=only) for key in keys.split()]


def ignored(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[object, ...] = ()) -> list[KeyRow]:
    """Returns rows of keys without an effect."""
    return [KeyRow(key, KeyStatus.IGNORED, text, only=only, fine=fine) for key in keys.split()]


def of_players(keys: str, text: str) -> list[KeyRow]:
    """Returns rows of keys for Unity players only, as arguments of `rookery_mlagents/link/unity_env.py:UnityEnv`."""
    return [
        KeyRow(key, KeyStatus.USED, text, (f"env.config.{key.rpartition('.')[2]}",), of_players=True)
        for key in keys.split()
    ]


def refused(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[object, ...] = ()) -> list[KeyRow]:
    """Returns rows of keys that accept only their default."""
    return [KeyRow(key, KeyStatus.REFUSED, text, only=only, fine=fine) for key in keys.split()]


H = "hyperparameters."
N = "network_settings."
R = "reward_signals."
PLAYER = "only Unity players use it, and this environment runs in Python"

TRAINER_ROWS = [
    *by(lambda case: {f"{P}name": case.own.trainer_type}, "trainer_type", f"{P}name",
        "Algorithm: `ppo`, `sac`, `poca`; `a2c`, `dqn` with the keys of Unity's `ml-agents-trainer-plugin`; any other "
        "algorithm of Rookery that learns from play, such as `td3`, or the settings class of a custom algorithm as "
        "`my.module:MyConfig`: the keys of `hyperparameters` are then its settings."),
    *by(m.last_decision, "max_steps", f"{P}max_decisions stop.finished_share",
        "Decisions, counted over all agents of the behavior, after which it stops learning. It continues to act until "
        "every behavior has reached its `max_steps`, which ends the run. Linear schedules end here; on resume only a "
        "larger `max_steps` moves their end, and not with `--keep-schedules`."),
    *by(m.horizon, "time_horizon", f"{P}fragment_length",
        "Consecutive decisions of an agent after which its advantage is bootstrapped with a value estimate; at most "
        "`buffer_size` (a2c: `batch_size`), since every update cuts the running trajectories.", ADVANTAGES),
    *ignored("time_horizon", "each decision is stored in the replay buffer at once, without waiting for the end of a "
             "trajectory", OFF_POLICY, (64,)),
    *by(m.overlap, "threaded", "sampling.staleness",
        "`true` for all behaviors, all with `ppo`: environments step while the policy learns from the previous "
        "rollout, and PPO corrects for the older weights. Otherwise no effect."),
    *by(m.kept, "keep_checkpoints", "checkpoint.keep_last",
        "Number of latest checkpoints to keep. For the checkpoints of the run, the largest value of all behaviors "
        "applies."),
    *used("checkpoint_interval even_checkpoints",
          "A checkpoint of a behavior is its ONNX model and its weights, in the folder of the behavior."),
    *used("summary_freq", "Decisions of the behavior between two console lines, and between two points in "
          "TensorBoard."),
    *by(m.start, "init_path", f"{P}init_from",
        "Run or checkpoint of Rookery that the policy takes its initial weights from. A `.pt` file of ML-Agents is a "
        "pickle, and is read only with `rookery mlagents learn --trust-pickle`."),
]  # fmt: skip

ON_POLICY_ROWS = [
    to(f"{H}buffer_size", f"{P}rollout_size",
       "Decisions per update. Trajectories that are still running are cut there and bootstrapped with a value "
       "estimate; ML-Agents waits for their end.", ON_POLICY),
    *by(m.minibatch, f"{H}batch_size", f"{P}minibatch_size",
        "Decisions per gradient step; with memory, rounded down to whole sequences.", ON_POLICY),
    *by(m.learning_rate, f"{H}learning_rate {H}learning_rate_schedule", f"{P}lr",
        "`linear`: it falls to 1e-10 at `max_steps`.", TRAINER_KINDS),
    *by(m.entropy, f"{H}beta {H}beta_schedule", f"{P}entropy_coef",
        "The entropy of an action is the sum over its elements or branches; ML-Agents takes their mean. `linear`: the "
        "weight falls to 1e-5 at `max_steps`.", ADVANTAGES),
    *by(m.clipping, f"{H}epsilon {H}epsilon_schedule", f"{P}clip",
        "The ratio is that of the whole action; ML-Agents clips each element or branch separately. `linear`: the range "
        "falls to 0.1 at `max_steps`.", ON_POLICY),
    to(f"{H}lambd", f"{P}gae_lambda", "Lambda of generalized advantage estimation (GAE).", ADVANTAGES),
    to(f"{H}num_epoch", f"{P}epochs", "Epochs over the decisions of an update.", ON_POLICY),
    to(f"{H}shared_critic", f"{M}shared_trunk", "Whether the value function shares the network of the policy.",
       ("ppo", "a2c")),
]  # fmt: skip

A2C_ROWS = [
    *by(m.one_step, f"{H}batch_size", f"{P}rollout_size",
        "Decisions per update, which is one gradient step; with memory, rounded down to whole sequences.", ("a2c",)),
    *ignored(f"{H}buffer_size", "each gradient step follows at once on the `batch_size` decisions that it learns from; "
             "the plugin collects `buffer_size` decisions for several steps", ("a2c",), (10240,)),
    *refused(f"{H}num_epoch", "each decision is learned from once, in the plugin too", ("a2c",), (1,)),
]  # fmt: skip

OFF_POLICY_ROWS = [
    to(f"{H}buffer_size", f"{P}replay.capacity",
       "Capacity of the replay buffer in decisions. When it is full, a new decision replaces the oldest one; ML-Agents "
       "cuts the buffer to 80 % at once.", OFF_POLICY),
    *by(m.drawn_batch, f"{H}batch_size", f"{P}batch_size",
        "Decisions per gradient step; with memory, rounded down to whole sequences.", OFF_POLICY),
    *by(m.first_update, f"{H}buffer_init_steps", f"{P}learning_starts",
        "Decisions before learning starts, at least `batch_size`. Until then actions are random; ML-Agents takes the "
        "policy's.", OFF_POLICY),
    *by(m.pace, f"{H}steps_per_update", f"{P}updates_per_step", "Decisions per gradient step.", OFF_POLICY),
    *by(m.signals_pace, f"{H}reward_signal_steps_per_update", f"{S}curiosity.updates_per_step "
        f"{S}rnd.updates_per_step {S}gail.updates_per_step",
        "Decisions per gradient step of the learned reward signals, which use the policy's batches.", OFF_POLICY),
    to(f"{H}tau", f"{P}tau", "Soft update rate of the target networks.", SAC),
    to(f"{H}tau", f"{P}target.tau", "Soft update rate of the target network, in every gradient step.", DQN),
    to(f"{H}init_entcoef", f"{P}alpha_init",
       "Initial temperature (entropy coefficient). Checkpoints contain the current one.", SAC),
    *by(m.exploration, f"{H}exploration_initial_eps {H}exploration_final_eps {H}exploration_schedule",
        f"{P}exploration.epsilon", "Probability of a random action. `linear`: it falls from `exploration_initial_eps` "
        "to `exploration_final_eps` over 20,000 decisions, as in the plugin.", DQN),
    *ignored(f"{H}gamma", "the plugin does not use it either: the discount factor is `gamma` of the reward signal",
             DQN, (0.99,)),
    *ignored(f"{H}target_update_interval", "the plugin does not use it either: the target network follows by `tau`",
             DQN, (10000,)),
    to(f"{H}save_replay_buffer", f"{P}replay.save", "Whether checkpoints contain the replay buffer.", OFF_POLICY),
]  # fmt: skip

NETWORK_ROWS = [
    *by(m.widths, f"{N}hidden_units {N}num_layers", f"{M}hidden {M}activation {M}cnn_features",
        "The activation is swish (`silu`). An image is encoded as `hidden_units` features."),
    to(f"{N}normalize", f"{M}normalize_obs",
       "Whether observations other than images are normalized by their running mean and standard deviation, and "
       "clipped to 5 standard deviations."),
    *by(m.pictures, f"{N}vis_encode_type", f"{M}cnn",
        "Image encoder: `simple`, `nature_cnn` (here `nature_leaky`), `resnet`, `match3` or `fully_connected` (here "
        "`flat`). Images that are too small for it are refused. No effect without images."),
    *by(m.memory, f"{N}memory {N}memory.memory_size {N}memory.sequence_length",
        f"{M}memory.kind {M}memory.size {M}memory.sequence_length",
        "The LSTM has `memory_size` / 2 units, as hidden state and cell state have half of the size each. The "
        "value function uses the same LSTM; in ML-Agents it has its own."),
    *by(m.goals, f"{N}goal_conditioning_type", f"{M}goal_conditioning {M}goals",
        "Use of goals: `hyper` = they generate the weights of the last hidden layer; `none` = they are ordinary "
        "inputs. Goals are the sensors of type goal signal of a Unity player, and in a Python environment the parts of "
        "the observation whose name starts with `goal`."),
    *by(m.evaluation, f"{N}deterministic", "evaluation.deterministic",
        "Whether evaluations and `--inference` choose the most likely action. Training always samples; in ML-Agents "
        "the key applies to training too."),
]  # fmt: skip

SIGNAL_PATHS = "strength {0}gamma {0}lr {0}scale {0}share {0}epochs {0}minibatches {0}model.hidden {0}model.activation"


def signal_paths(name: str, more: str) -> str:
    """Returns the settings that the keys of a reward signal determine."""
    here = f"{S}{name}."
    own = " ".join(f"{here}{path}" for path in more.split())
    return f"{here}{SIGNAL_PATHS.format(here)} {own}"


def signal_keys(name: str, more: str = "") -> str:
    """Returns the keys of a learned reward signal."""
    common = "strength gamma learning_rate network_settings.hidden_units network_settings.num_layers "
    common += "network_settings.vis_encode_type"
    return " ".join(f"{R}{name}.{key}" for key in (*common.split(), *more.split()))


SIGNAL_ROWS = [
    *by(m.extrinsic, f"{R}extrinsic.gamma {R}extrinsic.strength", f"{P}gamma {S}extrinsic.strength {S}combine",
        "With SAC, `gamma` of the environment's reward applies to all signals. Advantages of several signals are "
        "averaged. If the file lists signals without `extrinsic`, the environment's reward is not learned from."),
    *ignored(f"{R}extrinsic.network_settings", "the environment's reward has no network"),
    *by(m.curiosity, signal_keys("curiosity"), signal_paths("curiosity", "num_features hidden forward_share largest"),
        "Learns with every gradient step of the policy (SAC: `reward_signal_steps_per_update`). The reward is "
        "clipped to 1 / `strength` before it is weighted, and is not normalized."),
    *by(m.rnd, signal_keys("rnd"), signal_paths("rnd", "num_features"),
        "Learns with every gradient step of the policy (SAC: `reward_signal_steps_per_update`). The reward is the "
        "prediction error, not normalized."),
    *by(m.gail, signal_keys("gail", "demo_path use_actions use_vail"),
        signal_paths("gail", "replay use_actions reward penalty bottleneck"),
        "Learns with every gradient step of the policy (SAC: `reward_signal_steps_per_update`). The gradient penalty "
        "has weight 10. `.demo` files are first converted to a replay directory."),
    *ignored(f"{R}curiosity.network_settings.normalize {R}rnd.network_settings.normalize "
             f"{R}gail.network_settings.normalize",
             "curiosity receives observations as the policy normalizes them; rnd and gail always normalize their own",
             fine=(False,)),
    *ignored(f"{R}curiosity.network_settings.memory {R}rnd.network_settings.memory {R}gail.network_settings.memory",
             "the networks of reward signals have no memory: they process single decisions", fine=(None,)),
    *ignored(f"{R}curiosity.network_settings.deterministic {R}rnd.network_settings.deterministic "
             f"{R}gail.network_settings.deterministic {R}curiosity.network_settings.goal_conditioning_type "
             f"{R}rnd.network_settings.goal_conditioning_type {R}gail.network_settings.goal_conditioning_type",
             "it applies to policies only; reward signals choose no actions, and take goals as ordinary inputs",
             fine=(False, "hyper", "none")),
]  # fmt: skip

CLONING_ROWS = [
    *by(m.cloning, "behavioral_cloning.demo_path behavioral_cloning.steps behavioral_cloning.strength "
        "behavioral_cloning.samples_per_update behavioral_cloning.num_epoch behavioral_cloning.batch_size",
        f"{P}imitation.replay {P}imitation.strength {P}imitation.epochs {P}imitation.batch_size "
        f"{P}imitation.samples_per_epoch",
        "Cloning follows every update (SAC: every gradient step). Continuous actions are learned by "
        "their log-likelihood; ML-Agents takes the squared error of a sampled action."),
]  # fmt: skip

SELF_PLAY_PATHS = "snapshot_every team_change_every swap_every window latest_ratio initial_rating k_factor rating_games"

SELF_PLAY_ROWS = [
    *by(m.self_play, "self_play.save_steps self_play.team_change self_play.swap_steps self_play.window "
        "self_play.play_against_latest_model_ratio self_play.initial_elo",
        " ".join(f"self_play.NAME.{path}" for path in SELF_PLAY_PATHS.split()),
        "Only decisions that the behavior learns from are counted. Elo ratings change with K = 1 per game, so that "
        "they are comparable to those of ML-Agents."),
]  # fmt: skip

BEHAVIOR_ROWS = [
    *TRAINER_ROWS, *ON_POLICY_ROWS, *A2C_ROWS, *OFF_POLICY_ROWS, *NETWORK_ROWS, *SIGNAL_ROWS, *CLONING_ROWS,
    *SELF_PLAY_ROWS
]  # fmt: skip
"""Keys of the section of a behavior."""

ENV_ROWS = [
    *used("env_settings.env_path",
          "Unity player, or an environment as `rookery train` takes it; `null` = the Unity Editor."),
    *used("env_settings.env_args",
          "Arguments of the Unity player; for a Python environment `name=value` arguments of its constructor."),
    *by(m.copies, "env_settings.num_envs env_settings.num_areas", "sampling.num_envs",
        "A Python run has `num_envs` x `num_areas` environments; if neither is given, the default of the setting."),
    *by(m.seed, "env_settings.seed", "seed", "Seed of all random streams; -1 = drawn once and stored."),
    *by(m.patience, "env_settings.timeout_wait", "sampling.step_timeout_seconds",
        "Seconds that an environment may take for a step before it counts as hung, and that a Unity player may take to "
        "connect. Without this key, Python environments use the default of the setting."),
    *by(m.restarts, "env_settings.max_lifetime_restarts", "sampling.max_restarts",
        "Number of times that each Unity player may be restarted; for a Python environment, that its environment "
        "processes may be restarted in total. -1 = no limit. Without this key, Python environments use the default of "
        "the setting."),
    *of_players("env_settings.restarts_rate_limit_n env_settings.restarts_rate_limit_period_s",
                "A Unity player may be restarted `restarts_rate_limit_n` times within `restarts_rate_limit_period_s` "
                "seconds; -1 = any number. Python environments have only the limit of `max_lifetime_restarts`."),
    *of_players("env_settings.base_port",
                "Port of the first Unity player. Others use the ports after it; ports in use are skipped."),
]  # fmt: skip

ENGINE_ROWS = [
    *of_players("engine_settings.width", "Width of the player's window in pixels."),
    *of_players("engine_settings.height", "Height of the player's window in pixels."),
    *of_players("engine_settings.quality_level", "Index of the quality level in the Unity project."),
    *of_players("engine_settings.time_scale", "Speed of the game as a multiple of real time."),
    *of_players("engine_settings.target_frame_rate", "Frames per second of real time to aim for; -1 = no limit."),
    *of_players("engine_settings.capture_frame_rate",
                "Frames per second of game time, however long they take to compute; 0 = not fixed."),
    *of_players("engine_settings.no_graphics",
                "Starts players with `-nographics -batchmode`. They render nothing, so no images are observed."),
    *of_players("engine_settings.no_graphics_monitor", "As `no_graphics`, for all players except the first."),
]  # fmt: skip

PARAMETER_ROWS = [
    *by(m.parameters, "environment_parameters", "env.parameters curriculum",
        "A Unity player receives values and distributions and draws by itself, with the seed plus the index of the "
        "player. For Python environments Rookery draws once per episode. A lesson ends by the episodes of the "
        "behavior that started in it (`reward`), or by the number of its decisions (`progress`)."),
]  # fmt: skip

KEY_WORDS = {
    "checkpoint_interval": "Decisions of the behavior between two checkpoints",
    "even_checkpoints": "Whether the interval is `max_steps` / `keep_checkpoints` instead",
    "learning_rate": "Learning rate of Adam",
    "learning_rate_schedule": "`linear` or `constant`; the default of sac and dqn is `constant`",
    "exploration_initial_eps": "Probability at the start",
    "exploration_final_eps": "Probability from 20,000 decisions on",
    "exploration_schedule": "`linear` or `constant`",
    "beta": "Weight of the entropy bonus",
    "beta_schedule": "`linear` or `constant`; if absent, that of the learning rate",
    "epsilon": "Clip range of the probability ratio around 1",
    "epsilon_schedule": "`linear` or `constant`; if absent, that of the learning rate",
    "hidden_units": "Width of each hidden layer",
    "num_layers": "Number of hidden layers",
    "memory": "Section of the LSTM; `null` = no memory",
    "memory_size": "Size of the state of the LSTM; must be even",
    "sequence_length": "Decisions per training sequence",
    "gamma": "Discount factor of this reward",
    "strength": "Weight of this reward",
    "vis_encode_type": "Image encoder, as in `network_settings`",
    "demo_path": "`.demo` file, folder of such files, or replay directory",
    "use_actions": "Whether the discriminator also receives actions",
    "use_vail": "Whether the discriminator has a variational bottleneck (VAIL), of width 128",
    "steps": "Decisions over which `strength` falls linearly to 0; 0 = it does not fall",
    "behavioral_cloning.strength": "Learning rate of cloning, as a multiple of the current learning rate",
    "samples_per_update": "Demonstrated decisions per epoch; 0 = all. Refused with sac",
    "num_epoch": "Epochs per update (SAC: cloning steps per gradient step); `null` = 3",
    "batch_size": "Decisions per gradient step; `null` = `batch_size` of the hyperparameters",
    "save_steps": "Decisions between two snapshots of the policy",
    "team_change": "For two behaviors that play each other: decisions until the other one learns; if absent, 5 x "
    "`save_steps`. A behavior that plays itself learns from both sides",
    "swap_steps": "Decisions between two draws of opponents",
    "window": "Number of latest snapshots that opponents are drawn from",
    "play_against_latest_model_ratio": "Share of games against the current policy",
    "initial_elo": "Initial Elo rating",
    "num_envs": "Number of Unity players",
    "num_areas": "Training areas per Unity player, which creates them itself",
    "run_id": "Name of the run",
    "results_dir": "Folder of all runs",
    "resume": "Continues the run `run_id`",
    "force": "Replaces the run `run_id`",
    "inference": "Runs the policies without learning",
}
"""Descriptions of single keys of a row with several keys, by the whole key or its last part, for the documentation."""

PARAMETER_KEYS = (
    ("NAME", "required", "A parameter of the environment: a number, a distribution or a curriculum."),
    ("NAME.sampler_type", "required", "Distribution: `constant`, `uniform`, `gaussian` or `multirangeuniform`."),
    ("NAME.sampler_parameters", "required", "Arguments of the distribution."),
    ("NAME.sampler_parameters.seed", "any", "Seed of the draws; -1 = the seed of the run + 0, 1, 2, ... for players."),
    ("NAME.sampler_parameters.value", "constant", "The number."),
    ("NAME.sampler_parameters.min_value", "uniform", "Lower bound."),
    ("NAME.sampler_parameters.max_value", "uniform", "Upper bound."),
    ("NAME.sampler_parameters.mean", "gaussian", "Mean."),
    ("NAME.sampler_parameters.st_dev", "gaussian", "Standard deviation."),
    ("NAME.sampler_parameters.intervals", "multirangeuniform",
     "Intervals [low, high], each drawn in proportion to its width."),
    ("NAME.curriculum", "required", "List of lessons, in order; the last one does not end."),
    ("NAME.curriculum[].name", "required", "Name of the lesson."),
    ("NAME.curriculum[].value", "required", "Number or distribution, as above."),
    ("NAME.curriculum[].completion_criteria", "lesson", "When the lesson ends; required except for the last one."),
    ("NAME.curriculum[].completion_criteria.behavior", "criteria", "Behavior whose reward or progress is measured."),
    ("NAME.curriculum[].completion_criteria.measure", "criteria", "`reward` = mean reward of episodes; `progress` = "
     "decisions as a share of `max_steps`; only in Rookery `Elo` = the rating in self-play, and `group_reward` = mean "
     "group reward of episodes."),
    ("NAME.curriculum[].completion_criteria.threshold", "criteria", "Value of the measure that ends the lesson."),
    ("NAME.curriculum[].completion_criteria.min_lesson_length", "criteria",
     "Episodes before the lesson can end; the mean is over this many latest ones."),
    ("NAME.curriculum[].completion_criteria.signal_smoothing", "criteria",
     "Whether the measure is smoothed: 0.25 x its previous value + 0.75 x the new one."),
    ("NAME.curriculum[].completion_criteria.require_reset", "criteria",
     "Whether running episodes end at once when the next lesson starts."),
)  # fmt: skip
"""Keys inside `environment_parameters`: the key, its owner (a distribution, ``any`` of them, ``lesson``, ``criteria``
of one, or ``required``), and its meaning.
"""

CHECKPOINT_ROWS = [
    *used("checkpoint_settings.run_id checkpoint_settings.results_dir", "The run is stored in `results_dir`/`run_id`."),
    *used("checkpoint_settings.resume checkpoint_settings.force checkpoint_settings.inference",
          "The same as the flags `--resume`, `--force` and `--inference`."),
    *by(m.initialize_from, "checkpoint_settings.initialize_from", f"{P}init_from",
        "Run in `results_dir` whose weights the behaviors of the same names start from. `init_path` of a behavior "
        "takes precedence."),
    *ignored("checkpoint_settings.load_model", "it belongs to old versions of ML-Agents; use resume", fine=(False,)),
    *ignored("checkpoint_settings.train_model",
             "it belongs to old versions of ML-Agents; a run learns unless inference is set", fine=(False, True)),
]  # fmt: skip

OTHER_ROWS = [
    *by(m.device, "torch_settings.device", "device",
        "`cpu` or `cuda`; `null` = `cpu`, on which small networks learn faster. ML-Agents takes `cuda` if available."),
    *used("debug", "Whether more notes are printed."),
]  # fmt: skip

RUN_ROWS = [*ENV_ROWS, *ENGINE_ROWS, *PARAMETER_ROWS, *CHECKPOINT_ROWS, *OTHER_ROWS]
"""Keys of the other sections."""

ROWS = [*BEHAVIOR_ROWS, *RUN_ROWS]
"""Rows of all keys."""

ONLY_GIVEN = ("env_settings.timeout_wait", "env_settings.max_lifetime_restarts")
"""Keys whose default applies to Unity players only; Python environments keep the default of the setting."""


DQN_CONSTANTS: Values = {
    f"{P}n_step": 1, f"{P}train_every": 1, f"{P}max_grad_norm": None, f"{P}double": True, f"{P}dueling": False,
    f"{P}dueling_hidden": (), f"{P}values.kind": "mean", f"{P}values.rescale": False, f"{P}target.kind": "soft",
    f"{P}exploration.kind": "epsilon", f"{P}exploration.per_env_epsilon": 0.0, f"{P}replay.kind": "uniform",
    f"{P}replay.burn_in": 0, f"{P}munchausen.weight": 0.0, f"{P}munchausen.temperature": 0.03,
    f"{P}munchausen.low": -1.0,
}  # fmt: skip
"""Settings of dqn without a key in Unity's plugin, as its code has them."""


def constants(case: Case) -> Values:
    """Returns settings without a key in ML-Agents, which differ there from Rookery's defaults."""
    values: Values = {f"{M}layer_norm": False, f"{M}categorical_images": (), f"{P}adam_eps": 1e-8}
    if case.own.network_settings.normalize:
        values[f"{M}obs_clip"] = 5.0
    if any(leaf.kind == "entities" for leaf in case.spaces.obs.leaves):
        values[f"{M}entity_size"] = 128
    if case.own.trainer_type == "sac":
        return values | {
            f"{P}alpha": None, f"{P}entropy_share": 0.2, f"{P}log_std": "clamp", f"{P}n_step": 1, f"{P}train_every": 1,
        }  # fmt: skip
    if case.own.trainer_type == "dqn":
        return values | DQN_CONSTANTS
    if case.own.trainer_type == "a2c":
        del values[f"{P}adam_eps"]
        values |= {
            f"{P}normalize_advantage": True, f"{P}scale_rewards": False, f"{P}max_grad_norm": 0.5,
            f"{P}normalize_values": True, f"{P}rms_alpha": 0.99, f"{P}rms_eps": 1e-5,
            f"{P}value_coef": value_coef(case),
        }  # fmt: skip
        return values | ({f"{M}log_std_init": -math.log(3.0)} if case.spaces.actions.num_numbers else {})
    values |= {
        f"{P}normalize_advantage": "batch", f"{P}scale_rewards": False, f"{P}kl_coef": 0.0, f"{P}target_kl": None,
        f"{P}log_std_min": -20.0, f"{P}log_std_max": 2.0,
        f"{P}value_coef": value_coef(case),
    }  # fmt: skip
    return values | ({f"{M}log_std_init": -math.log(3.0)} if case.spaces.actions.num_numbers else {})


def value_coef(case: Case) -> float:
    """Returns the weight of the value loss, which is small where the critic uses the LSTM of the policy."""
    shares = case.own.network_settings.memory is not None and case.own.trainer_type != "poca"
    return (0.02 if shares else 0.5) / max(len(case.own.reward_signals), 1)


CONSTANTS = {
    "normalize_advantage": "Advantages are normalized to mean 0 and standard deviation 1 over the whole batch.",
    "value_coef": "Value losses are averaged over the reward signals and weighted by 0.5; with memory, where the "
    "critic of ppo and a2c uses the LSTM of the policy, by 0.02, so that its errors do not decide what is remembered.",
    "log_std_init": "Continuous actions in [-1, 1] start with a standard deviation of 1/3: ML-Agents clips samples of "
    "standard deviation 1 to [-3, 3] and divides them by 3.",
    "obs_clip": "Normalized observations are clipped to 5 standard deviations.",
    "entropy_share": "The target entropy of SAC is 0.2 of the largest possible for discrete actions, and minus one nat "
    "per element for continuous ones.",
    "categorical_images": "Values of images are brightness, never categories.",
    "adam_eps": "Epsilon of Adam is 1e-8, the default of torch.",
    "entity_size": "Entities of a set are embedded in 128 features.",
    "double": "DQN learns a mean for each action with Huber errors: the online network chooses the action that a "
    "target network values, which follows in every gradient step; no priorities, no limit of gradients.",
}
"""Descriptions of the constants, for the documentation."""

DIFFERENCES = (
    ("probability ratio of ppo, poca", "of each element or branch of an action",
     "of the whole action, as in the paper"),
    ("entropy of an action", "mean over its elements or branches", "sum, which is the entropy of the whole action"),
    ("gradients of ppo, poca", "not clipped", "clipped to a norm of 0.5, so that one bad batch does not end a run"),
    ("values", "learned as they are, clipped like the ratio",
     "learned in units of about the standard deviation of their targets, not clipped"),
    ("start of an update of ppo, poca", "when enough complete trajectories have arrived",
     "at `buffer_size` decisions; running trajectories are cut there and bootstrapped with a value estimate"),
    ("`buffer_size` and `batch_size` with memory",
     "count the padding of sequences too: where episodes have 4 decisions and `sequence_length` is 16, there are four "
     "times as many updates",
     "count decisions; divide both by that factor for as many updates"),
    ("minibatches of ppo, poca", "the last one is dropped if it is incomplete",
     "all decisions are used, in minibatches of nearly equal size"),
    ("normalization of observations", "starts with the first trajectory",
     "starts from 512 random decisions; statistics are updated after each update of the policy"),
    ("actions of sac before learning starts", "from the policy", "random"),
    ("reward signals of sac", "a critic and a discount factor for each",
     "one critic of their sum, with the discount factor of `extrinsic`"),
    ("trainer dqn of Unity's plugin", "the target takes the action that is best in the present observation; one branch",
     "double DQN: the best action in the next observation"),
    ("trainer a2c of Unity's plugin", "Adam; advantages normalized over `buffer_size` decisions",
     "RMSprop, as in the paper; advantages normalized over the `batch_size` decisions of the step"),
    ("critic of a policy with memory", "has its own LSTM",
     "uses the LSTM of the policy; the weight of its loss is 0.02 (ppo, a2c)"),
    ("behavioral_cloning", "squared error of a sampled continuous action; a learning rate of its own",
     "log-likelihood; the learning rate is `strength` x that of the policy"),
    ("self_play of one behavior", "one team learns at a time", "the policy learns from both sides"),
    ("lessons", "episodes that end in the lesson count; the measure must exceed the threshold",
     "episodes that started in the lesson count; reaching the threshold is enough"),
    ("environment_parameters of Python environments", "not supported",
     "drawn by Rookery once per episode; unknown names are refused"),
    ("deterministic", "applies to training too", "applies to evaluations and `--inference` only"),
    ("device", "`cuda` if available", "`cpu`, unless `cuda` is given"),
)  # fmt: skip
"""Intended differences: the subject, ML-Agents' behaviour and Rookery's."""
