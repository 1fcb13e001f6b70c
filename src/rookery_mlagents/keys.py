"""Every key of ML-Agents 1.1.0 and what becomes of it: `ROWS`, the one table.

A key is *set* (its value goes to a path of ours as it is), *translated* (a function of it and its neighbours gives the
values of paths), *kept* (``rookery mlagents learn`` itself goes by it), *ignored* (it would change nothing here, and
a note says so) or *refused* (only its default can be, for the reason given). The page of the documentation
is made from it.
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
    """A key, its treatment and its meaning.

    Attributes:
        key: The key with its section, from the behaviour's section on, or from the top of the file.
        status: What becomes of it.
        text: What it does here, or why it is ignored or refused, in a sentence.
        paths: Settings of ours that it decides; NAME stands for the behaviour.
        meaning: Of keys that are translated: what gives the values.
        only: Trainers of which this is said; empty = of all.
        fine: Values that need no word, of keys that are ignored or refused.
        of_players: Whether it is of Unity players alone: with an environment in Python it would change nothing, and
            a note says so.
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
SAC = ("sac",)
TRAINER_KINDS = (*ON_POLICY, *SAC)


def to(key: str, path: str, text: str, only: tuple[str, ...] = ()) -> KeyRow:
    """A key whose value is that of a path."""
    return KeyRow(key, KeyStatus.SET, text, (path,), only=only)


def by(meaning: Meaning, keys: str, paths: str, text: str, only: tuple[str, ...] = ()) -> list[KeyRow]:
    """Keys that a function translates to paths, both written with spaces between."""
    return [KeyRow(key, KeyStatus.TRANSLATED, text, tuple(paths.split()), meaning, only) for key in keys.split()]


def used(keys: str, text: str, only: tuple[str, ...] = ()) -> list[KeyRow]:
    """Keys that the command goes by."""
    return [KeyRow(key, KeyStatus.USED, text, only=only) for key in keys.split()]


def ignored(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[object, ...] = ()) -> list[KeyRow]:
    """Keys that would change nothing here."""
    return [KeyRow(key, KeyStatus.IGNORED, text, only=only, fine=fine) for key in keys.split()]


def of_players(keys: str, text: str) -> list[KeyRow]:
    """Returns rows of keys for Unity players only, as arguments of `rookery_mlagents/link/unity_env.py:UnityEnv`."""
    return [
        KeyRow(key, KeyStatus.USED, text, (f"env.config.{key.rpartition('.')[2]}",), of_players=True)
        for key in keys.split()
    ]


def refused(keys: str, text: str, only: tuple[str, ...] = (), fine: tuple[object, ...] = ()) -> list[KeyRow]:
    """Keys of which only the default can be."""
    return [KeyRow(key, KeyStatus.REFUSED, text, only=only, fine=fine) for key in keys.split()]


H = "hyperparameters."
N = "network_settings."
R = "reward_signals."
LEARN = "`rookery mlagents learn` goes by it"
PLAYER = "it is for Unity players, and Python environments have nothing of the kind"

TRAINER_ROWS = [
    *by(lambda case: {f"{P}name": case.own.trainer_type}, "trainer_type", f"{P}name",
        "The algorithm: ppo, sac, poca, or settings of your own as my.module:MyConfig, which hyperparameters then "
        "are."),
    *by(m.last_decision, "max_steps", f"{P}max_decisions stop.finished_share",
        "Decisions of the behaviour, all its agents together, after which it learns no more; it plays on until all "
        "behaviours have come as far, which ends the run. Linear schedules end there; in a resumed run only a larger "
        "`max_steps` moves that end, and not with `--keep-schedules`."),
    *by(m.horizon, "time_horizon", f"{P}fragment_length",
        "Decisions of an agent in a row before its advantage is cut off with a value: buffer_size at most, where an "
        "update cuts it anyway.", ON_POLICY),
    *ignored("time_horizon", "decisions go into replay at once, not in trajectories, so nothing waits for their end",
             SAC, (64,)),
    *by(m.overlap, "threaded", "sampling.staleness",
        "Environments step while a rollout is learned from, if all behaviours say so and ppo learns them, which makes "
        "up for the older weights; else it changes nothing."),
    *by(m.kept, "keep_checkpoints", "checkpoint.keep_last", "Of several behaviours the largest number counts."),
    *used("checkpoint_interval even_checkpoints", f"{LEARN}: decisions of the behaviour between two checkpoints."),
    *used("summary_freq", f"{LEARN}: decisions between two lines, and two points in TensorBoard."),
    *by(m.start, "init_path", f"{P}init_from",
        "A run or checkpoint of ours whose weights the policy starts with; a file .pt of ML-Agents is a pickle, which "
        "`rookery mlagents learn --trust-pickle` reads."),
]  # fmt: skip

ON_POLICY_ROWS = [
    to(f"{H}buffer_size", f"{P}rollout_size",
       "Decisions before an update; running fragments are cut there, with a value, instead of being waited for.",
       ON_POLICY),
    *by(m.minibatch, f"{H}batch_size", f"{P}minibatch_size",
        "Decisions in a gradient step; with a memory, as many whole sequences.", ON_POLICY),
    *by(m.learning_rate, f"{H}learning_rate {H}learning_rate_schedule", f"{P}lr",
        "Learning rate of Adam; `linear` falls to 1e-10 at `max_steps` decisions of the behaviour.", TRAINER_KINDS),
    *by(m.entropy, f"{H}beta {H}beta_schedule", f"{P}entropy_coef",
        "Weight of the entropy, which is summed over the parts of an action; `linear` falls to 1e-5.", ON_POLICY),
    *by(m.clipping, f"{H}epsilon {H}epsilon_schedule", f"{P}clip",
        "Range of the probability ratio of whole actions; `linear` falls to 0.1.", ON_POLICY),
    to(f"{H}lambd", f"{P}gae_lambda", "Decay of later errors in the advantage.", ON_POLICY),
    to(f"{H}num_epoch", f"{P}epochs", "Passes over the batch in an update.", ON_POLICY),
    to(f"{H}shared_critic", f"{M}shared_trunk", "Values stand on the policy's features.", ("ppo",)),
]  # fmt: skip

SAC_ROWS = [
    to(f"{H}buffer_size", f"{P}replay.capacity",
       "Decisions kept; the oldest go one by one, where ML-Agents cuts to 80 % at once.", SAC),
    *by(m.drawn_batch, f"{H}batch_size", f"{P}batch_size",
        "Decisions in a gradient step; with a memory, as many whole sequences.", SAC),
    *by(m.first_update, f"{H}buffer_init_steps", f"{P}learning_starts",
        "Decisions before learning begins, a batch at least; until then actions are random, not the policy's.", SAC),
    *by(m.pace, f"{H}steps_per_update", f"{P}updates_per_step", "Decisions for each gradient step.", SAC),
    *by(m.signals_pace, f"{H}reward_signal_steps_per_update", f"{S}curiosity.updates_per_step "
        f"{S}rnd.updates_per_step {S}gail.updates_per_step",
        "Decisions for each gradient step of reward signals, on the same decisions as the policy's.", SAC),
    to(f"{H}tau", f"{P}tau", "How far target networks follow.", SAC),
    to(f"{H}init_entcoef", f"{P}alpha_init", "The first temperature; a checkpoint keeps what it has become.", SAC),
    to(f"{H}save_replay_buffer", f"{P}replay.save", "Whether checkpoints hold the replay.", SAC),
]  # fmt: skip

NETWORK_ROWS = [
    *by(m.widths, f"{N}hidden_units {N}num_layers", f"{M}hidden {M}activation {M}cnn_features",
        "Equal layers, with swish (silu); as many features of an image."),
    to(f"{N}normalize", f"{M}normalize_obs", "Observations by their running mean and deviation, cut off at 5."),
    *by(m.pictures, f"{N}vis_encode_type", f"{M}cnn",
        "Network for images: simple, nature_cnn = nature_leaky, resnet, match3, fully_connected = flat, each "
        "refused where an image is too small for it; ignored without images."),
    *by(m.memory, f"{N}memory {N}memory.memory_size {N}memory.sequence_length",
        f"{M}memory.kind {M}memory.size {M}memory.sequence_length",
        "An LSTM of half the `memory_size`: the other half is its cell's. Values stand on it too."),
    *by(m.goals, f"{N}goal_conditioning_type", f"{M}goal_conditioning {M}goals",
        "What goals do: hyper = the last hidden layer has weights that depend on them, none = they are inputs like "
        "others. Goals are the sensors of a Unity player of the type goal signal, and in environments in Python the "
        "parts of the observation whose name begins with `goal`."),
    *by(m.evaluation, f"{N}deterministic", "evaluation.deterministic",
        "Most likely actions wherever nothing is learned, with --inference too; training always draws, as there is "
        "nothing to learn from else."),
]  # fmt: skip

SIGNAL_PATHS = "strength {0}gamma {0}lr {0}scale {0}share {0}epochs {0}minibatches {0}model.hidden {0}model.activation"


def signal_paths(name: str, more: str) -> str:
    """Returns the paths that a signal's keys decide."""
    here = f"{S}{name}."
    own = " ".join(f"{here}{path}" for path in more.split())
    return f"{here}{SIGNAL_PATHS.format(here)} {own}"


def signal_keys(name: str, more: str = "") -> str:
    """Returns the keys of a reward signal that learns."""
    common = "strength gamma learning_rate network_settings.hidden_units network_settings.num_layers "
    common += "network_settings.vis_encode_type"
    return " ".join(f"{R}{name}.{key}" for key in (*common.split(), *more.split()))


SIGNAL_ROWS = [
    *by(m.extrinsic, f"{R}extrinsic.gamma {R}extrinsic.strength", f"{P}gamma {S}extrinsic.strength {S}combine",
        "The environment's reward: its discount, which SAC uses for all signals, and what it counts. Advantages of "
        "several signals are averaged. Where it is not among the signals it counts nothing."),
    *ignored(f"{R}extrinsic.network_settings", "there is nothing to learn about the environment's reward"),
    *by(m.curiosity, signal_keys("curiosity"), signal_paths("curiosity", "num_features hidden forward_share largest"),
        "A gradient step for each of the policy's; rewards are at most 1 / strength, and are not scaled."),
    *by(m.rnd, signal_keys("rnd"), signal_paths("rnd", "num_features"),
        "A gradient step for each of the policy's; rewards are errors as they are."),
    *by(m.gail, signal_keys("gail", "demo_path use_actions use_vail"),
        signal_paths("gail", "replay use_actions reward penalty bottleneck"),
        "A gradient step for each of the policy's, with a gradient penalty of 10; use_vail is a bottleneck of 128; "
        "files .demo are read into a replay directory first."),
    *ignored(f"{R}curiosity.network_settings.normalize {R}rnd.network_settings.normalize "
             f"{R}gail.network_settings.normalize",
             "signals see observations as the policy's normalizer gives them; rnd and gail normalize by themselves",
             fine=(False,)),
    *ignored(f"{R}curiosity.network_settings.memory {R}rnd.network_settings.memory {R}gail.network_settings.memory",
             "signals see decisions row by row, and remember nothing", fine=(None,)),
    *ignored(f"{R}curiosity.network_settings.deterministic {R}rnd.network_settings.deterministic "
             f"{R}gail.network_settings.deterministic {R}curiosity.network_settings.goal_conditioning_type "
             f"{R}rnd.network_settings.goal_conditioning_type {R}gail.network_settings.goal_conditioning_type",
             "it is about actions, or about goals of a policy; to a signal goals are inputs like others",
             fine=(False, "hyper", "none")),
]  # fmt: skip

CLONING_ROWS = [
    *by(m.cloning, "behavioral_cloning.demo_path behavioral_cloning.steps behavioral_cloning.strength "
        "behavioral_cloning.samples_per_update behavioral_cloning.num_epoch behavioral_cloning.batch_size",
        f"{P}imitation.replay {P}imitation.strength {P}imitation.epochs {P}imitation.batch_size "
        f"{P}imitation.samples_per_epoch",
        "Imitation beside every update: `strength` times the learning rate of the moment, falling to 0 over `steps` "
        "decisions; `num_epoch` passes (3 where nothing is said) over `samples_per_update` demonstrated decisions (0 = "
        "all). Continuous actions are learned by their likelihood."),
]  # fmt: skip

SELF_PLAY_PATHS = "snapshot_every team_change_every swap_every window latest_ratio initial_rating k_factor rating_games"

SELF_PLAY_ROWS = [
    *by(m.self_play, "self_play.save_steps self_play.team_change self_play.swap_steps self_play.window "
        "self_play.play_against_latest_model_ratio self_play.initial_elo",
        " ".join(f"self_play.NAME.{path}" for path in SELF_PLAY_PATHS.split()),
        "Counted in decisions that are learned from. Ratings move by K = 1 a game, so that their values compare with "
        "ML-Agents'; `team_change` counts where two behaviours meet: one that meets itself learns all its sides."),
]  # fmt: skip

BEHAVIOR_ROWS = [
    *TRAINER_ROWS, *ON_POLICY_ROWS, *SAC_ROWS, *NETWORK_ROWS, *SIGNAL_ROWS, *CLONING_ROWS, *SELF_PLAY_ROWS
]  # fmt: skip
"""Keys of a behaviour's section."""

ENV_ROWS = [
    *used("env_settings.env_path", f"{LEARN}: a Unity player, or what `rookery train` takes; none = the Unity Editor."),
    *used("env_settings.env_args", f"{LEARN}: arguments of a Unity player; of an environment in Python, name=value."),
    *by(m.copies, "env_settings.num_envs env_settings.num_areas", "sampling.num_envs",
        "Unity players, which make their areas themselves; environments in Python, times areas."),
    *by(m.seed, "env_settings.seed", "seed", "The seed; -1 = it is drawn, and noted."),
    *by(m.patience, "env_settings.timeout_wait", "sampling.step_timeout_seconds",
        "Seconds after which an environment counts as hung, and a player that has not connected as lost."),
    *by(m.restarts, "env_settings.max_lifetime_restarts", "sampling.max_restarts",
        "How often each player may be replaced; of helper processes of Python environments, of all together; -1 = any "
        "number."),
    *of_players("env_settings.restarts_rate_limit_n env_settings.restarts_rate_limit_period_s",
                "How often a player may be replaced within so many seconds; helper processes of Python environments "
                "are replaced at once, up to max_lifetime_restarts."),
    *of_players("env_settings.base_port", "Port of the first player; ports that are taken are passed over."),
]  # fmt: skip

ENGINE_ROWS = [
    *of_players("engine_settings.width engine_settings.height engine_settings.quality_level "
                "engine_settings.time_scale engine_settings.target_frame_rate engine_settings.capture_frame_rate",
                "Sent to players by their side channel, as in ML-Agents."),
    *of_players("engine_settings.no_graphics engine_settings.no_graphics_monitor",
                "Players are started with -nographics -batchmode; with the latter, all but the first."),
]  # fmt: skip

PARAMETER_ROWS = [
    *by(m.parameters, "environment_parameters", "env.parameters curriculum",
        "Unity players receive values and distributions, and draw from these themselves, each by the seed and its "
        "number. For environments in Python Rookery draws for every episode; a `seed` names a stream. Lessons are "
        "judged by the episodes of the behaviour's agents that began in them, or by its decisions (progress)."),
]  # fmt: skip

KEY_WORDS = {
    "checkpoint_interval": "Steps between checkpoints",
    "even_checkpoints": "Whether checkpoints are `max_steps` / `keep_checkpoints` apart",
    "learning_rate": "Size of a gradient step",
    "learning_rate_schedule": "linear or constant",
    "beta": "Weight of the entropy",
    "beta_schedule": "linear or constant; that of the learning rate where nothing is said",
    "epsilon": "How far the probability ratio may go from 1",
    "epsilon_schedule": "linear or constant; that of the learning rate where nothing is said",
    "hidden_units": "Width of each layer",
    "num_layers": "Number of layers",
    "memory": "null = no memory, or a section",
    "memory_size": "Size of the memory; an even number",
    "sequence_length": "Decisions of a sequence that is learned from",
    "gamma": "Discount of this reward",
    "strength": "What this counts is multiplied by it",
    "vis_encode_type": "Network for images",
    "demo_path": "A file .demo, a directory of them, or a replay directory",
    "use_actions": "Whether the discriminator sees actions too",
    "use_vail": "Whether it has a bottleneck",
    "steps": "Steps over which imitation ends; 0 = it stays",
    "samples_per_update": "Demonstrated decisions an update; 0 = all",
    "num_epoch": "Passes in an update",
    "batch_size": "Decisions in a gradient step",
    "save_steps": "Steps between two snapshots",
    "team_change": "Steps between two turns of teams; 5 times `save_steps` where nothing is said",
    "swap_steps": "Steps between two draws of opponents",
    "window": "Snapshots that opponents are drawn from",
    "play_against_latest_model_ratio": "Share of games against the policy as it is",
    "initial_elo": "Rating at the start",
    "num_envs": "Processes",
    "num_areas": "Training areas in each",
    "restarts_rate_limit_n": "Restarts in a period",
    "restarts_rate_limit_period_s": "Seconds of a period",
    "run_id": "Name of the run's folder",
    "results_dir": "Folder of runs",
    "resume": "Resume the run of that name",
    "force": "Replace it",
    "inference": "Play and learn nothing",
}
"""What single keys of a row with several say, by their last part, for the documentation."""

PARAMETER_KEYS = (
    ("NAME", "required", "A number, a distribution or a curriculum: what the environment's parameter of that name is."),
    ("NAME.sampler_type", "required", "The distribution: constant, uniform, gaussian or multirangeuniform."),
    ("NAME.sampler_parameters", "required", "Its settings, of which those below belong to one distribution each."),
    ("NAME.sampler_parameters.seed", "any", "The stream of random numbers; -1 = that of the run's seed."),
    ("NAME.sampler_parameters.value", "constant", "The number."),
    ("NAME.sampler_parameters.min_value", "uniform", "The lowest number."),
    ("NAME.sampler_parameters.max_value", "uniform", "The highest number."),
    ("NAME.sampler_parameters.mean", "gaussian", "The mean."),
    ("NAME.sampler_parameters.st_dev", "gaussian", "The standard deviation."),
    ("NAME.sampler_parameters.intervals", "multirangeuniform", "Ranges [low, high]; wider ones are drawn more often."),
    ("NAME.curriculum", "required", "A list of lessons, which follow each other; the last has no end."),
    ("NAME.curriculum[].name", "required", "What the lesson is called."),
    ("NAME.curriculum[].value", "required", "A number or a distribution, as above."),
    ("NAME.curriculum[].completion_criteria", "lesson", "When the next lesson begins; all but the last need it."),
    ("NAME.curriculum[].completion_criteria.behavior", "criteria", "Whose rewards or progress count."),
    ("NAME.curriculum[].completion_criteria.measure", "criteria", "reward: of an episode; progress: the part of "
     "`max_steps` that is over."),
    ("NAME.curriculum[].completion_criteria.threshold", "criteria", "What the measure has to reach."),
    ("NAME.curriculum[].completion_criteria.min_lesson_length", "criteria", "Episodes that are needed, and whose mean "
     "reward counts."),
    ("NAME.curriculum[].completion_criteria.signal_smoothing", "criteria", "Whether a quarter of the measure before "
     "counts beside three quarters of the new one."),
    ("NAME.curriculum[].completion_criteria.require_reset", "criteria", "Whether episodes under way end at once when "
     "the next lesson begins."),
)  # fmt: skip
"""Keys inside `environment_parameters`: the key, what it belongs to (a distribution, ``any`` of them, ``lesson``,
``criteria`` of one, or ``required``), and what it means.
"""

CHECKPOINT_ROWS = [
    *used("checkpoint_settings.run_id checkpoint_settings.results_dir", f"{LEARN}: the run's directory."),
    *used("checkpoint_settings.resume checkpoint_settings.force checkpoint_settings.inference", f"{LEARN}."),
    *by(m.initialize_from, "checkpoint_settings.initialize_from", f"{P}init_from",
        "Weights of the behaviours of the same names in another run of the folder."),
    *ignored("checkpoint_settings.load_model", "it is of old versions; today it is resume", fine=(False,)),
    *ignored("checkpoint_settings.train_model", "it is of old versions; what is not inference is training",
             fine=(False, True)),
]  # fmt: skip

OTHER_ROWS = [
    *by(m.device, "torch_settings.device", "device",
        "cpu or cuda; where nothing is said, cpu: small networks learn faster there."),
    *used("debug", f"{LEARN}: more notes."),
]  # fmt: skip

RUN_ROWS = [*ENV_ROWS, *ENGINE_ROWS, *PARAMETER_ROWS, *CHECKPOINT_ROWS, *OTHER_ROWS]
"""Keys of the other sections."""

ROWS = [*BEHAVIOR_ROWS, *RUN_ROWS]
"""All of them."""

ONLY_GIVEN = ("env_settings.timeout_wait", "env_settings.max_lifetime_restarts")
"""Keys whose default is not carried over: of players it is another thing than of Python environments."""


def constants(case: Case) -> Values:
    """Returns settings without a key in ML-Agents, which differ there from Rookery's defaults."""
    values: Values = {f"{M}layer_norm": False, f"{M}codes": (), f"{P}adam_eps": 1e-8}
    if case.own.network_settings.normalize:
        values[f"{M}obs_clip"] = 5.0
    if any(leaf.kind == "entities" for leaf in case.spaces.obs.leaves):
        values[f"{M}entity_size"] = 128
    if case.own.trainer_type == "sac":
        actions = case.spaces.actions
        chooses = bool(actions.sizes) and not actions.num_numbers and not actions.num_flags
        return values | {
            f"{P}discrete": chooses,
            f"{P}alpha": None, f"{P}entropy_share": 0.2, f"{P}log_std": "clamp", f"{P}n_step": 1, f"{P}train_every": 1,
        }  # fmt: skip
    values |= {
        f"{P}normalize_advantage": "batch", f"{P}scale_rewards": False, f"{P}kl_coef": 0.0, f"{P}target_kl": None,
        f"{P}value_coef": 0.5 / max(len(case.own.reward_signals), 1),
    }  # fmt: skip
    return values | ({f"{M}log_std_init": -math.log(3.0)} if case.spaces.actions.num_numbers else {})


CONSTANTS = {
    "normalize_advantage": "Advantages have mean 0 and deviation 1 over the whole batch.",
    "value_coef": "Value losses are averaged over reward signals, and count half.",
    "log_std_init": "Gaussian actions start with a deviation of 1/3 of their range: ML-Agents cuts draws off at 3 and "
    "divides them by 3.",
    "obs_clip": "Normalized observations are cut off at 5.",
    "entropy_share": "Discrete SAC aims at 0.2 of the most entropy there could be; continuous at minus one nat a "
    "number.",
    "codes": "Images are pixels: bytes are no codes.",
    "adam_eps": "Adam's epsilon is torch's.",
    "entity_size": "Sets of entities are embedded in 128 dimensions.",
}
"""The constants in words, for the documentation."""

DIFFERENCES = (
    ("probability ratio of ppo, poca", "of each part of an action by itself", "of the whole action, as in the paper"),
    ("entropy", "averaged over the parts of an action", "their sum, which is the entropy of the action"),
    ("gradients of ppo, poca", "any length", "at most 0.5 long: a batch that is off does not end a run"),
    ("values", "as they are, and clipped as the ratio is", "in a unit of about their deviation, without clipping"),
    ("an update of ppo, poca", "when enough whole trajectories have come in",
     "at `buffer_size` decisions: those that run are cut there with a value"),
    ("minibatches", "what is left of a batch is dropped", "every decision counts: parts are nearly equal"),
    ("normalization", "starts with the first trajectory", "starts from 512 random decisions, and moves after updates"),
    ("sac before it learns", "the policy as it is", "random actions"),
    ("sac's reward signals", "a critic and a discount each", "one critic of their sum, with the discount of extrinsic"),
    ("policies that remember", "the critic has an LSTM of its own", "the critic stands on the policy's"),
    ("behavioral_cloning", "continuous actions by the squared error of a draw; a rate of its own",
     "by likelihood; the rate is `strength` times that of the moment"),
    ("self_play of one behaviour", "one team learns at a time", "a policy that meets itself learns from both sides"),
    ("lessons", "episodes that end in a lesson count, and the measure must be above the threshold",
     "episodes that began in it count, and the threshold may be met"),
    ("environment_parameters of Python environments", "there are none",
     "drawn by Rookery once an episode; unknown ones are refused"),
    ("deterministic", "while training too", "only where nothing is learned"),
    ("device", "cuda where there is one", "cpu, unless cuda is asked for"),
)  # fmt: skip
"""What is done differently on purpose: what, how ML-Agents does it, and how it is here."""
