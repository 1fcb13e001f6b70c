"""The table of keys: it has all of them, and each does what its row says."""

import functools
import json

import pytest

from rookery.core.errors import ConfigError
from rookery.run.presets import MEMORY_PRESETS, SPACE_PRESETS
from rookery_rllib.config import algorithms
from rookery_rllib.config.defaults import COMMON_CONFIG, DEFAULT_CONFIGS
from rookery_rllib.config.exploration_keys import EXPLORATION_DEFAULTS
from rookery_rllib.config.key_names import keys_of
from rookery_rllib.config.key_order import ORDER
from rookery_rllib.config.rows import ConfigKeyStatus
from rookery_rllib.config.table import ROWS, rows_of
from rookery_rllib.config.translation import Translation, translated

ALGORITHMS = list(DEFAULT_CONFIGS)

FILTERS = {"conv_filters": [[16, [4, 4], 2], [32, [4, 4], 1]]}
ATTENTION = {"use_attention": True}
NOISY = {"exploration_config": {"type": "ParameterNoise"}}

BESIDE = {
    "model.conv_activation": {"model": FILTERS},
    "model.post_fcnet_activation": {"model": FILTERS | {"post_fcnet_hiddens": [8]}},
    "model.lstm_use_prev_action": {"model": {"use_lstm": True}},
    "model.lstm_use_prev_reward": {"model": {"use_lstm": True}},
    "model.lstm_use_prev_action_reward": {"model": {"use_lstm": True}},
    **{
        f"model.attention_{name}": {"model": ATTENTION}
        for name in (
            "num_transformer_units",
            "dim",
            "num_heads",
            "memory_inference",
            "use_n_prev_actions",
            "use_n_prev_rewards",
        )
    },
    "prioritized_replay_beta_annealing_timesteps": {"final_prioritized_replay_beta": 1.0},
    "target_noise": {"smooth_target_policy": True},
    "target_noise_clip": {"smooth_target_policy": True},
    "use_gae": {"lambda": 0.5, "batch_mode": "complete_episodes"},
    **{
        f"exploration_config.{kind}.{name}": {"exploration_config": {"final_scale": 0.5}}
        for kind in ("GaussianNoise", "OrnsteinUhlenbeckNoise")
        for name in ("random_timesteps", "scale_timesteps")
    },
    "huber_threshold": {"use_huber": True},
    "lagrangian_thresh": {"lagrangian": True},
    "v_min": {"num_atoms": 51},
    "v_max": {"num_atoms": 51},
    "evaluation_config.explore": {},
}
"""What has to be said beside a key for it to do anything."""

OFF_LAYERS = ("SAC", "CQL", "DDPG", "TD3", "APEX_DDPG", "QMIX", "MADDPG")
FORGETFUL = ("PG", "SimpleQ", "DDPG", "TD3", "APEX_DDPG", "QMIX", "MADDPG")
"""Algorithms, beside others, that refuse policies with memory."""

OF_LAYERS = ("model.conv_activation", "model.post_fcnet_activation")
"""Keys that say nothing of these algorithms, whose layers are keys of their own."""

OTHER = {
    "model.fcnet_hiddens": [32],
    "model.fcnet_activation": "relu",
    "model.post_fcnet_hiddens": [16],
    "model.post_fcnet_activation": "tanh",
    "model.conv_filters": FILTERS["conv_filters"],
    "model.conv_activation": "tanh",
    "model.num_framestacks": 3,
    "model.lstm_use_prev_action_reward": True,
    "vf_share_layers": True,
    "observation_filter": "MeanStdFilter",
    "batch_mode": "complete_episodes",
    "horizon": 50,
    "seed": 7,
    "lr_schedule": [[0, 1e-3], [1000, 1e-4]],
    "entropy_coeff_schedule": [[0, 1e-2], [1000, 0.0]],
    "training_intensity": 16.0,
    "grad_clip": 0.7,
    "target_entropy": -3.0,
    "hiddens": [64],
    "actor_hiddens": [64],
    "critic_hiddens": [64],
    "actor_hidden_activation": "tanh",
    "critic_hidden_activation": "tanh",
    "timesteps_per_iteration": 20_000,
    "vf_clip_param": 20.0,
    "l2_reg": 0.5,
    "opt_type": "rmsprop",
    "microbatch_size": 30,
    "rollouts_used": 8,
    "model.alpha": 4,
    "model.lambda_": 0.5,
    "replay_proportion": 2.0,
    "model.attention_use_n_prev_actions": 1,
    "model.attention_use_n_prev_rewards": 1,
    "exploration_config.random_timesteps": 60_000,
    "exploration_config.epsilon_schedule": [[0, 1.0], [100, 0.5]],
    "exploration_config.feature_net_config": {"fcnet_hiddens": [8]},
    "exploration_config.forward_net_hiddens": [8],
    "exploration_config.scale_schedule": [[0, 1.0], [100, 0.5]],
}
"""Another value of keys whose default does not show what one would be."""

EXPLORES = {
    **dict.fromkeys(("DQN", "SimpleQ", "R2D2", "APEX"), "SoftQ"),
    "DDPG": "GaussianNoise",
    "APEX_DDPG": "GaussianNoise",
    "TD3": "OrnsteinUhlenbeckNoise",
}
"""Another type of exploration; the algorithms that are not here have one."""

TWINS = {
    "actor_hidden_activation": "critic_hidden_activation",
}
"""Keys that must be the same as another."""

REFUSED_IF_SET = {
    "model.no_final_linear", "model.framestack", "use_critic", "multiagent.count_steps_by", "soft_horizon", "num_gpus",
    "_fake_gpus", "policy_model.custom_model", "Q_model.custom_model", "extra_python_environs_for_worker",
    "evaluation_num_workers",
}  # fmt: skip
"""Translated keys whose other value is refused, or has a test of its own."""


def other(key: str, value: object) -> object:
    """Another value for a key."""
    written = key.split(".")
    if (key, value) == ("batch_mode", "complete_episodes"):
        return "truncate_episodes"
    if (key, value) == ("observation_filter", "MeanStdFilter"):
        return "NoFilter"
    short = f"{written[0]}.{written[-1]}" if len(written) == 3 else key
    if short in OTHER:
        return OTHER[short]
    if isinstance(value, bool) or key == "evaluation_config.explore":
        return not (True if value is None else value)
    if isinstance(value, int):
        return 2 * value + 3
    if isinstance(value, float):
        return value / 2 or 0.5
    if isinstance(value, str):
        return f"{value}-other"
    return {"list": [1], "dict": {"other": 1}}.get(type(value).__name__, "other")


def default(algorithm: str, key: str) -> object:
    if key.count(".") == 2:
        return EXPLORATION_DEFAULTS[key.split(".")[1]][key.split(".")[2]]
    value = DEFAULT_CONFIGS[algorithm]
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def nested(key: str, value: object) -> dict:
    parts = key.split(".")
    if len(parts) == 1:
        return {key: value}
    kind = {"type": parts[1]} if len(parts) == 3 else {}
    return {parts[0]: {**kind, parts[-1]: value}}


def merged(one: dict, two: dict) -> dict:
    both = {key: {**one[key], **two[key]} for key in one if key in two and isinstance(one[key], dict)}
    return {**one, **two, **both}


def basis(algorithm: str, key: str) -> dict:
    """Returns the keys that a test sets beside a key."""
    said = {} if algorithm in OFF_LAYERS and key in OF_LAYERS else BESIDE.get(key, {})
    if algorithm in algorithms.CLONING_KIND:
        said = {name: value for name, value in said.items() if name in DEFAULT_CONFIGS[algorithm]}
    if algorithm == "R2D2" and "use_attention" not in said.get("model", {}):
        said = merged({"model": {"use_lstm": True}}, said)
    if algorithm == "R2D2" and key in ("num_atoms", "v_min", "v_max"):
        said = merged(said, {"use_h_function": False})
    if algorithm == "APPO":
        without = {"lambda": {"vtrace": False}, "use_gae": {"vtrace": False, "lambda": 0.5}}
        said = {
            **without,
            "kl_coeff": {"use_kl_loss": True},
            "replay_buffer_num_slots": {"replay_proportion": 1.0},
        }.get(key, said)
    if key.count(".") == 2:
        said = merged(said, {"exploration_config": {"type": key.split(".")[1]}})
    return said


def both(algorithm: str, key: str) -> tuple[Translation, Translation, object]:
    """A translation without and with another value of a key."""
    value = EXPLORES.get(algorithm) if key == "exploration_config.type" else other(key, default(algorithm, key))
    said = basis(algorithm, key)
    changed = merged(said, nested(key, value))
    first, _, last = key.rpartition(".")
    if first in ("policy_model", "Q_model") and not last.startswith("custom"):
        after = {"fcnet_hiddens": [], "post_fcnet_hiddens": [8], "post_fcnet_activation": "relu"}
        beside = after if last == "post_fcnet_activation" else {}
        value = {"activation": "tanh", "hiddens": [32]}[last.rpartition("_")[2]]
        network = {**beside, last: value}
        said = {"policy_model": beside, "Q_model": beside}
        changed = {"policy_model": network, "Q_model": network} if "activation" in last else {first: network}
    elif key in TWINS or key in TWINS.values():
        twin = TWINS.get(key) or next(one for one, two in TWINS.items() if two == key)
        changed = merged(changed, {twin: value})
    return usual(algorithm, json.dumps(said)), translated(algorithm, changed), value


@functools.cache
def usual(algorithm: str, said: str) -> Translation:
    """A translation of what is said beside a key, which is the same for most."""
    return translated(algorithm, json.loads(said))


CASES = [(algorithm, key, row) for algorithm in ALGORITHMS for key, rows in rows_of(algorithm).items() for row in rows]


def cases(*statuses: ConfigKeyStatus) -> list:
    return [(algorithm, key, row) for algorithm, key, row in CASES if row.status in statuses]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_key_of_each_algorithm_is_in_the_table(algorithm):
    config, rows = DEFAULT_CONFIGS[algorithm], rows_of(algorithm)
    top = {key.split(".")[0] for key in rows}
    assert not set(config) - top
    for section in ("model", "multiagent", "Q_model", "policy_model", "optimization"):
        assert not set(config.get(section, {})) - set(keys_of(section, algorithm))
    kind = config["exploration_config"]["type"]
    assert not set(config["exploration_config"]) - set(keys_of("exploration_config", algorithm, kind))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_table_has_no_key_that_an_algorithm_does_not_know(algorithm):
    assert not {key.split(".")[0] for key in rows_of(algorithm)} - set(DEFAULT_CONFIGS[algorithm])


def test_the_order_of_keys_names_each_key_once():
    listed = {algorithm: words.split() for algorithm, words in ORDER.items()}
    assert all(len(words) == len(set(words)) for words in listed.values())
    assert {word.split(".")[0] for word in listed.pop("")} == set(COMMON_CONFIG)
    own = {algorithm: set(DEFAULT_CONFIGS[algorithm]) - set(COMMON_CONFIG) for algorithm in ALGORITHMS}
    assert all(set(words) <= own[algorithm] for algorithm, words in listed.items())


def test_what_an_algorithm_changes_is_something_else_than_before():
    for name, old in algorithms.ALGORITHMS.items():
        before = DEFAULT_CONFIGS[old.base] if old.base else COMMON_CONFIG
        assert not {key for key in old.changes if key in before and old.changes[key] == before[key]}, name


def test_each_row_says_something():
    assert all(row.text.strip() for row in ROWS)
    assert all(row.paths for row in ROWS if row.status is ConfigKeyStatus.SET)


def test_a_key_that_is_set_or_translated_changes_what_the_table_says():
    wrong = []
    for algorithm, key, row in cases(ConfigKeyStatus.SET, ConfigKeyStatus.TRANSLATED):
        if not row.paths or key in REFUSED_IF_SET or (algorithm, key) in SAME:
            continue
        if (
            algorithm in (*FORGETFUL, *algorithms.OFFLINE, *algorithms.EVOLUTION, *algorithms.BANDITS)
            and key != "model.lstm_cell_size"
            and ("lstm" in key or "attention" in key)
        ):
            continue  # refused there: they learn no policies that remember
        before, after, value = both(algorithm, key)
        changed = {path for path in after.settings if after.settings[path] != before.settings.get(path)}
        if not changed & set(row.paths):
            wrong.append(f"{algorithm}: {key} = {value!r} changed {sorted(changed)} and none of {row.paths}")
    assert not wrong, "\n".join(wrong)


SAME = {
    ("DDPPO", "train_batch_size"), ("DDPPO", "batch_mode"),  # a batch is one round
    ("A3C", "train_batch_size"), ("A3C", "batch_mode"), ("A3C", "sample_async"),  # likewise, and of one moment
    ("IMPALA", "sample_async"), ("APPO", "sample_async"),  # always ahead
    ("PG", "rollout_fragment_length"), ("PG", "batch_mode"),  # learns from whole episodes
    ("PG", "sample_async"), ("R2D2", "prioritized_replay"), ("R2D2", "model.use_lstm"),  # refused
    ("R2D2", "model.use_attention"),  # has a memory in any case
    ("SAC", "exploration_config.type"), ("CQL", "exploration_config.type"),  # have one
    ("QMIX", "exploration_config.type"),
    ("MADDPG", "exploration_config.type"),
    ("MADDPG", "model.lstm_cell_size"),  # remembers nothing
    ("QMIX", "model.max_seq_len"),  # a whole episode there
    ("QMIX", "mixer"),  # has a test of its own
    ("ES", "sample_async"), ("ARS", "sample_async"),  # an update needs all its episodes
    ("ES", "evaluation_config.explore"), ("ARS", "evaluation_config.explore"),  # the most probable actions always
}  # fmt: skip
"""What changes nothing there, with the reason."""


def test_a_key_that_is_ignored_changes_nothing_and_is_told():
    wrong = []
    for algorithm, key, _row in cases(ConfigKeyStatus.IGNORED, ConfigKeyStatus.CLUSTER):
        if algorithm in algorithms.CLONING_KIND and key == "exploration_config.type":
            continue  # the only key of its section, and not reported yet
        before, after, value = both(algorithm, key)
        parts = key.split(".")
        written = f"{parts[0]}.{parts[-1]}" if parts[0] == "exploration_config" else key
        told = [line for line in after.notes if line.startswith(f"{written} ")]
        if after.settings != before.settings or len(told) != 1:
            wrong.append(f"{algorithm}: {key} = {value!r}: {after.notes}")
    assert not wrong, "\n".join(wrong)


def test_a_key_that_is_refused_is_named_with_what_to_use():
    wrong = []
    for algorithm, key, _row in cases(ConfigKeyStatus.REFUSED):
        written = f"exploration_config.{key.split('.')[2]}" if key.count(".") == 2 else key
        if algorithm in ("SAC", "CQL") and key == "clip_actions":
            continue  # fine there, because normalize_actions is True
        try:
            both(algorithm, key)
            wrong.append(f"{algorithm}: {key} was taken")
        except ConfigError as error:
            if not any(line.startswith(f"rllib config: {written} = ") for line in error.problems):
                wrong.append(f"{algorithm}: {key}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_key_that_is_kept_reaches_the_trainer():
    for algorithm, key, _row in cases(ConfigKeyStatus.USED):
        if "." in key or key in ("callbacks", "evaluation_config", "env_config"):
            continue
        assert translated(algorithm, {**basis(algorithm, key), key: 12}).trainer[key] == 12


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_preset_for_a_space_has_a_say(algorithm):
    name = algorithms.ALGORITHMS[algorithm].name
    presets = [*SPACE_PRESETS.get(name, {}).values(), MEMORY_PRESETS.get(name, {}), {"model.precision": ""}]
    settings = translated(algorithm, basis(algorithm, ""), discrete=False).settings
    assert not {path for preset in presets for path in preset if f"algorithm.{path}" not in settings}
