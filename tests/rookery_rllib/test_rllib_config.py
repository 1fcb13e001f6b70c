"""Configurations of 2021 in terms of ours: batches, layers, policies, ends of episodes, networks."""

import pickle
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.schedules import Linear, Piecewise
from rookery.run.settings import RunConfig
from rookery_rllib.base.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule
from rookery_rllib.config.default_networks import DefaultNetwork
from rookery_rllib.config.defaults import COMMON_CONFIG, DEFAULT_CONFIGS, merge_trainer_configs, with_common_config
from rookery_rllib.config.translation import translated
from rookery_rllib.env.episode_ends import EndlessTask, Horizon

TUTORIAL = {"num_envs_per_worker": 10, "train_batch_size": 2000, "lr": 0.0005}


# --- merging ----------------------------------------------------------------------------------------------------------


def test_sections_merge_by_key_and_exploration_is_replaced_with_its_type():
    one = {"env_config": {"a": 1}, "exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 0.1}, "lr": 1}
    two = {"env_config": {"b": 2}, "exploration_config": {"type": "SoftQ"}}
    assert merge_trainer_configs(one, two) == {
        "env_config": {"a": 1, "b": 2},
        "exploration_config": {"type": "SoftQ"},
        "lr": 1,
    }
    kept = merge_trainer_configs(one, {"exploration_config": {"final_epsilon": 0.2}})
    assert kept["exploration_config"] == {"type": "EpsilonGreedy", "final_epsilon": 0.2}


def test_merging_changes_neither_of_both():
    mine = with_common_config({"new_key": 1, "model": {"fcnet_hiddens": [8]}})
    assert mine["new_key"] == 1
    assert mine["model"]["fcnet_hiddens"] == [8] and mine["model"]["fcnet_activation"] == "tanh"
    assert COMMON_CONFIG["model"]["fcnet_hiddens"] == [256, 256]
    assert "new_key" not in COMMON_CONFIG


def test_an_unknown_key_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="num_wrokers: there is no such key; did you mean 'num_workers'"):
        merge_trainer_configs(COMMON_CONFIG, {"num_wrokers": 1})
    assert merge_trainer_configs(COMMON_CONFIG, {"num_wrokers": 1}, _allow_unknown_configs=True)["num_wrokers"] == 1


# --- batches ----------------------------------------------------------------------------------------------------------


def test_the_tutorials_batch_is_one_round_of_4000():
    settings = translated("PPO", TUTORIAL).settings
    assert settings["sampling.num_envs"] == 20
    assert settings["algorithm.fragment_length"] == 200
    assert settings["algorithm.rollout_size"] is None  # a fragment of each of 20 copies
    assert "sampling.env_processes" not in settings


@pytest.mark.parametrize(
    ("agents", "multiagent", "rows"),
    [
        (None, {}, 4000),
        (["agent1", "agent2"], {}, 4000),
        (["agent1", "agent2"], {"policies": ["default_policy"]}, 4000),
        (["agent1", "agent2"], {"policies": ["shared"], "policy_mapping_fn": lambda agent: "shared"}, 8000),
        (
            ["agent1", "agent2"],
            {"policies": ["shared"], "policy_mapping_fn": lambda agent: "shared", "count_steps_by": "agent_steps"},
            4000,
        ),
        (
            ["agent1", "agent2"],
            {
                "policies": {"agent1", "agent2"},
                "policy_mapping_fn": lambda agent: agent,
                "count_steps_by": "agent_steps",
            },
            2000,
        ),
        (["agent1", "agent2"], {"policies": {"agent1", "agent2"}, "policy_mapping_fn": lambda agent: agent}, 4000),
        (["agent1", "agent2"], {"count_steps_by": "agent_steps"}, 4000),
    ],
)
def test_a_batch_is_whole_rounds_until_it_is_reached(agents, multiagent, rows):
    translation = translated("PPO", {"multiagent": multiagent}, agents=agents)  # 2 copies, 400 steps a round
    assert translation.settings["algorithm.rollout_size"] == rows
    assert translation.settings["algorithm.fragment_length"] == 200


def test_policies_that_play_more_agents_have_larger_batches():
    multiagent = {
        "policies": {"walker": None, "others": None},
        "policy_mapping_fn": lambda agent: "walker" if agent == 0 else "others",
    }
    policies = translated("PPO", {"multiagent": multiagent}, agents=[0, 1, 2]).policies
    assert policies["walker"].settings == {}
    assert policies["others"].settings == {"rollout_size": 8000}


def test_whole_episodes_are_cut_at_the_end_of_a_batch_alone():
    translation = translated("PPO", {"batch_mode": "complete_episodes", "num_workers": 0})
    assert translation.settings["algorithm.fragment_length"] == 4000
    assert translation.settings["algorithm.rollout_size"] is None
    assert any("complete_episodes" in line for line in translation.notes)


def test_replay_has_a_gradient_step_a_round():
    settings = translated("DQN", {"num_workers": 2, "num_envs_per_worker": 2}).settings
    assert settings["algorithm.train_every"] == 16
    assert settings["algorithm.updates_per_step"] == 1 / 16
    assert settings["sampling.iteration_steps"] == 1000
    intense = translated("DQN", {"training_intensity": 8.0}).settings
    assert intense["algorithm.updates_per_step"] == 8 / 32


def test_batches_of_sequences_are_counted_in_steps():
    settings = translated("R2D2", {"model": {"use_lstm": True}, "burn_in": 12}).settings
    assert settings["algorithm.batch_size"] == 1280 // 32
    assert settings["algorithm.model.memory.kind"] == "lstm"
    assert settings["algorithm.values.rescale"] is True


def test_the_gradient_of_a_sum_is_clipped_as_that_of_a_mean():
    assert translated("A2C", {}).settings["algorithm.max_grad_norm"] == pytest.approx(40 / 200)
    assert translated("IMPALA", {}).settings["algorithm.max_grad_norm"] == pytest.approx(40 / 500)
    assert translated("APPO", {}).settings["algorithm.max_grad_norm"] == 40  # whose loss is a mean there


def test_a_batch_of_a2c_is_whole_rounds_for_each_microbatch():
    found = translated("A2C", {"num_workers": 1, "microbatch_size": 50, "train_batch_size": 100}).settings
    assert found["algorithm.rollout_size"] == 120  # two of 60 steps, which are rounds of 20
    assert found["algorithm.max_grad_norm"] == pytest.approx(40 / 60)


@pytest.mark.parametrize(("name", "start"), [("PPO", "unit_rows"), ("DQN", "unit_rows"), ("TD3", "orthogonal")])
def test_layers_of_the_section_model_start_with_unit_rows(name, start):
    assert translated(name, {}).settings["algorithm.model.initial_weights"] == start


@pytest.mark.parametrize("name", ["A2C", "A3C"])
def test_a2c_learns_by_adam_with_the_epsilon_of_2021(name):
    settings = translated(name, {}).settings
    assert (settings["algorithm.optimizer"], settings["algorithm.adam_eps"]) == ("adam", 1e-8)


@pytest.mark.parametrize(("policy", "last"), [("default_policy", 50_000.0), ("shared", 100_000.0)])
def test_schedules_of_the_only_policy_go_by_rows_of_agents(policy, last):
    points = [[0, 1e-3], [100_000, 0.0]]
    multiagent = {"policies": [policy], "policy_mapping_fn": lambda agent: policy}
    config = {"multiagent": multiagent, "lr_schedule": points, "timesteps_per_iteration": 16_000}
    settings = translated("PPO", config, agents=["one", "other"]).settings
    assert settings["algorithm.lr"].points == ((0.0, 1e-3), (last, 0.0))
    assert settings["sampling.iteration_steps"] == 16_000 * last / 100_000
    config = {"multiagent": multiagent, "exploration_config": {"type": "EpsilonGreedy", "epsilon_timesteps": 100_000}}
    settings = translated("DQN", config, agents=["one", "other"]).settings
    assert settings["algorithm.exploration.epsilon"].steps == last
    assert settings["algorithm.target.every_env_steps"] == 500 * last / 100_000


# --- IMPALA and APPO --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (1, 1, None)),
        ({"num_sgd_iter": 3}, (3, 1, None)),
        ({"num_sgd_iter": 3, "minibatch_buffer_size": 4}, (1, 3, 4)),
        ({"replay_proportion": 2.0, "num_sgd_iter": 3}, (3, 3, 10)),  # 100 pieces of 50 decisions, 10 to a batch
        ({"replay_proportion": 1, "replay_buffer_num_slots": 40, "num_envs_per_worker": 5}, (1, 2, 20)),
    ],
)
def test_batches_of_appo_are_learned_from_at_once_or_again(config, expected):
    settings = translated("APPO", {"num_workers": 2, **config}).settings
    assert settings["algorithm.minibatch_size"] == 500
    names = ("epochs", "batch_uses", "buffered_batches")
    assert tuple(settings.get(f"algorithm.{name}") for name in names) == expected


def test_one_bound_of_importance_weights_is_that_of_both():
    for key in ("vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold"):
        translation = translated("IMPALA", {key: 1.5})
        assert translation.settings["algorithm.rho_bar"] == 1.5
        assert f"{key} = 1.5 bounds both value targets and policy gradients here" in translation.notes
    assert translated("APPO", {}).settings["algorithm.rho_bar"] == 1.0
    with pytest.raises(ConfigError, match="vtrace_clip_pg_rho_threshold = 2.*one bound here"):
        translated("APPO", {"vtrace_clip_rho_threshold": 1.0, "vtrace_clip_pg_rho_threshold": 2.0})


def test_the_penalty_of_appo_is_there_where_it_is_asked_for():
    assert translated("APPO", {}).settings["algorithm.kl_coef"] == 0
    assert translated("APPO", {"use_kl_loss": True}).settings["algorithm.kl_coef"] == 1.0


def test_impala_steps_by_rmsprop_if_that_is_asked_for():
    settings = translated("IMPALA", {"opt_type": "rmsprop", "decay": 0.9, "epsilon": 0.01}).settings
    assert [settings[f"algorithm.{name}"] for name in ("optimizer", "rms_alpha", "rms_eps")] == ["rmsprop", 0.9, 0.01]


def test_a_gpu_that_nobody_asked_for_need_not_be_there():
    assert translated("IMPALA", {}).settings["device"] in ("cpu", "cuda")


# --- actor and critics ------------------------------------------------------------------------------------------------


def test_actor_and_critics_have_their_own_rates_and_layers():
    rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-4, "entropy_learning_rate": 3e-4}
    networks = {"policy_model": {"fcnet_hiddens": [64]}, "Q_model": {"fcnet_hiddens": [32, 32]}}
    settings = translated("SAC", {"optimization": rates, **networks}).settings
    assert [settings[f"algorithm.{name}"] for name in ("lr", "actor_lr", "alpha_lr")] == [1e-4, 1e-3, 3e-4]
    assert (settings["algorithm.model.hidden"], settings["algorithm.critic.widths"]) == ((64,), (32, 32))
    for name in ("DDPG", "TD3", "MADDPG"):
        given = {"actor_lr": 1e-4, "critic_lr": 1e-3, "actor_hiddens": [64], "critic_hiddens": [32]}
        settings = translated(name, given).settings
        assert (settings["algorithm.lr"], settings["algorithm.actor_lr"]) == (1e-3, 1e-4)
        assert (settings["algorithm.model.hidden"], settings["algorithm.critic.widths"]) == ((64,), (32,))


@pytest.mark.parametrize(
    ("name", "config", "gradient_steps"),
    [
        ("SAC", {}, 1),
        ("SAC", {"target_network_update_freq": 32}, 33),  # RLlib updates when more than 32 steps have passed
        ("SAC", {"target_network_update_freq": 32, "rollout_fragment_length": 10}, 4),
        ("TD3", {"target_network_update_freq": 1}, 2),
        ("SAC", {"target_network_update_freq": 9, "train_batch_size": 32, "training_intensity": 64.0}, 20),
    ],
)
def test_targets_follow_when_more_timesteps_have_passed(name, config, gradient_steps):
    assert translated(name, config).settings["algorithm.target_every"] == gradient_steps


def test_ddpg_with_the_additions_of_td3_keeps_its_defaults():
    resolved = resolve(RunConfig, translated("DDPG", {"policy_delay": 2}).layers, ALGORITHMS)
    cfg = resolved.config.policies["default_policy"].algorithm
    assert (type(cfg).__name__, cfg.tau, cfg.model.hidden) == ("TD3Config", 0.002, (400, 300))


def test_errors_are_those_of_2021():
    assert translated("SAC", {}).settings["algorithm.critic.huber"] == 1.0  # has no key
    assert translated("DDPG", {}).settings["algorithm.critic.huber"] is None
    assert translated("DDPG", {"use_huber": True, "huber_threshold": 2.0}).settings["algorithm.critic.huber"] == 2.0


def test_appo_without_v_trace_is_ppo_on_batches_of_the_latest_weights():
    translation = translated("APPO", {"vtrace": False, "lambda": 0.9, "num_sgd_iter": 2, "minibatch_buffer_size": 4})
    settings = translation.settings
    assert (settings["algorithm.name"], settings["sampling.staleness"]) == ("ppo", 0)
    assert (settings["algorithm.gae_lambda"], settings["algorithm.epochs"]) == (0.9, 2)
    assert "algorithm.rho_bar" not in settings
    assert not any("collects one batch" in line for line in translation.notes)
    assert any("latest weights" in line for line in translation.notes)
    resolved = resolve(RunConfig, translation.layers, ALGORITHMS)
    assert resolved.config.policies["default_policy"].algorithm.clip == 0.4


# --- single keys ------------------------------------------------------------------------------------------------------


def test_vf_clip_param_is_ignored_at_its_default_and_honoured_when_given():
    silent, copied = translated("PPO", {}), translated("PPO", {**DEFAULT_CONFIGS["PPO"], "num_workers": 0})
    for translation in (silent, copied):
        assert translation.settings["algorithm.value_clip"] is None
        assert any("vf_clip_param is ignored" in line for line in translation.notes)
    given = translated("PPO", {"vf_clip_param": 10.0})
    assert given.settings["algorithm.value_clip"] == 10.0
    assert not any("vf_clip_param" in line for line in given.notes)


def test_a_changed_copy_of_the_defaults_is_what_was_changed():
    config = {**DEFAULT_CONFIGS["PPO"], "lr": 1e-3, "num_cpus_per_worker": 2}
    translation = translated("PPO", config)
    assert set(translation.layers[1].values) == {"algorithm.lr"}
    assert [line for line in translation.notes if "has no effect" in line] == [
        "num_cpus_per_worker = 2 has no effect here: environments run in this process, not on a cluster"
    ]


def test_schedules_are_lines_through_points():
    config = {"lr_schedule": [[0, 1e-3], [1000, 1e-4]], "entropy_coeff": 0.1, "entropy_coeff_schedule": 500}
    settings = translated("PPO", config).settings
    assert settings["algorithm.lr"] == Piecewise(((0, 1e-3), (1000, 1e-4)))
    assert settings["algorithm.entropy_coef"] == Piecewise(((0, 0.1), (500, 0.0)))


def test_exploration_by_type():
    def of(algorithm: str, **config: Any) -> dict[str, Any]:
        found = translated(algorithm, {"exploration_config": config} if config else {}).settings
        return {path.rpartition(".")[2]: value for path, value in found.items() if ".exploration." in path}

    assert of("DQN")["epsilon"] == Linear(1.0, 0.02, 10_000)
    assert of("DQN", type="SoftQ", temperature=0.5) | {"noisy_std": 0} == {
        "kind": "boltzmann", "epsilon": 0.0, "temperature": 0.5, "noisy_std": 0, "per_env_epsilon": 0.0,
    }  # fmt: skip
    assert of("DQN", type="ParameterNoise")["kind"] == "parameters"
    assert of("TD3")["std"] == 0.1
    assert of("DDPG")["std"] == pytest.approx(2 * 0.1 * 0.2 / np.sqrt(1 - 0.85**2))
    assert translated("DQN", {"noisy": True}).settings["algorithm.exploration.kind"] == "noisy"
    assert translated("DQN", {"explore": False}).settings["algorithm.exploration.epsilon"] == 0.0
    with pytest.raises(ConfigError, match="SlateEpsilonGreedy.*use EpsilonGreedy"):
        of("DQN", type="SlateEpsilonGreedy")
    with pytest.raises(ConfigError, match="PPO does not support it"):
        of("PPO", type="EpsilonGreedy")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (ConstantSchedule(value=0.3, framework=None), 0.3),
        (LinearSchedule(schedule_timesteps=500, final_p=0.1, framework=None), Linear(1.0, 0.1, 500)),
        (PiecewiseSchedule(endpoints=[(0, 1.0), (9, 0.2)], framework=None), Piecewise(((0, 1.0), (9, 0.2)))),
        ({"type": "PiecewiseSchedule", "endpoints": [(0, 1.0), (9, 0.2)]}, Piecewise(((0, 1.0), (9, 0.2)))),
        ({"type": "ray.rllib.utils.schedules.ConstantSchedule", "value": 0.3}, 0.3),
    ],
)
def test_schedules_of_exploration(schedule, expected):
    config = {"exploration_config": {"epsilon_schedule": schedule}}
    assert translated("DQN", config).settings["algorithm.exploration.epsilon"] == expected


@pytest.mark.parametrize(
    ("algorithm", "config", "key"),
    [
        ("PPO", {"use_critic": False}, "use_critic"),
        ("PPO", {"use_gae": False}, "use_gae"),
        ("PPO", {"model": {"no_final_linear": True}}, "model.no_final_linear"),
        ("PPO", {"model": {"framestack": False}}, "model.framestack"),
        ("PPO", {"exploration_config": {"random_timesteps": 9}}, "exploration_config.random_timesteps"),
        ("SAC", {"Q_model": {"custom_model": "mine"}}, "Q_model.custom_model"),
        ("PG", {"sample_async": True}, "sample_async"),
        ("SimpleQ", {"model": {"use_lstm": True}}, "model.use_lstm"),
        ("R2D2", {"model": {"use_lstm": True}, "prioritized_replay": True}, "prioritized_replay"),
        ("DQN", {"exploration_config": {"type": "Curiosity"}}, "exploration_config.type"),
        ("MARWIL", {"exploration_config": {"type": "EpsilonGreedy"}}, "exploration_config.type"),
        ("BC", {"exploration_config": {"type": "SoftQ", "temperature": 2.0}}, "exploration_config.type"),
    ],
)
def test_values_that_cannot_be(algorithm, config, key):
    with pytest.raises(ConfigError, match=f"^rllib config: {key} = "):
        translated(algorithm, config)


def test_ddpg_with_a_delay_is_td3():
    assert translated("DDPG", {}).settings["algorithm.name"] == "ddpg"
    delayed = translated("DDPG", {"policy_delay": 2, "twin_q": True}).settings
    assert delayed["algorithm.name"] == "td3" and delayed["algorithm.target_noise"] == 0.0


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="num_gpus = 0.5: torch finds no GPU here; set num_gpus = 0"):
        translated("PPO", {"num_gpus": 0.5})
    assert translated("PPO", {"num_gpus": 2, "_fake_gpus": True}).settings["device"] == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert translated("PPO", {"num_gpus": 1}).settings["device"] == "cuda"


@pytest.mark.parametrize(
    ("algorithm", "config", "text"),
    [
        ("PPO", {"lrr": 1}, "lrr = 1: PPO has no such key; did you mean 'lr'"),
        ("DQN", {"kl_coeff": 1}, "kl_coeff = 1: it is a key of PPO, DDPPO, APPO, not of DQN"),
        ("PPO", {"sample_batch_size": 3}, "it was called 'rollout_fragment_length' in 2021"),
        ("PPO", {"model": {"fcnet_hidden": [3]}}, r"model.fcnet_hidden = \[3\].*did you mean 'fcnet_hiddens'"),
        ("PPO", {"multiagent": {"policy_mapping_fun": len}}, "did you mean 'policy_mapping_fn'"),
        ("DQN", {"exploration_config": {"inital_epsilon": 1}}, "did you mean 'initial_epsilon'"),
        ("PPO", {"num_workers": "3"}, "num_workers = '3': must be a whole number"),
        ("PPO", {"lr": {"grid_search": [1, 2]}}, "lr = .*only tune.run searches"),
        ("PPO", {"sgd_minibatch_size": 9000}, "must be at most train_batch_size = 4000"),
        ("PPO", {"multiagent": {"policies": {"a": (None, None)}}}, r"policies\.a = .*four values, not 2"),
        ("PPO", {"multiagent": {"policies": {"a"}, "policies_to_train": ["b"]}}, "there is no policy 'b'"),
        ("PPO", {"multiagent": {"policies": {"a": (None, None, None, {"lrr": 1})}}}, r"policies.a: lrr = 1.*'lr'"),
        ("R2D2", {}, "R2D2 trains recurrent policies"),
        ("PPO", {"model": {"fcnet_activation": "tahn"}}, "did you mean 'tanh'"),
        ("DREAMER", {}, "there is no algorithm 'DREAMER'"),
        ("SAC", {"Q_model": {"fcnet_activation": "tanh"}}, r"Q_model\.fcnet_activation.*one activation here"),
        ("APPO", {"vtrace": False, "replay_proportion": 1.0}, "needs the target network of V-trace"),
        ("QMIX", {"mixer": "sum"}, "mixer = 'sum'.*must be 'qmix', 'vdn' or None"),
        ("MADDPG", {"use_local_critic": True}, "use_local_critic"),
        ("PPO", {"extra_python_environs_for_worker": {"A": "1"}}, "_for_worker.*set the variables before it starts"),
    ],
)
def test_what_cannot_be_is_said_in_the_spelling_of_2021(algorithm, config, text):
    with pytest.raises(ConfigError, match=text):
        translated(algorithm, config)


def test_more_workers_than_cores_are_copies_with_a_line():
    translation = translated("PPO", {"num_workers": 500})
    assert translation.settings["sampling.num_envs"] == 500
    assert any(line.startswith("num_workers = 500 and ") for line in translation.notes)


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", list(DEFAULT_CONFIGS))
def test_the_defaults_are_settings_of_ours(algorithm):
    config = {"model": {"use_lstm": True}} if algorithm == "R2D2" else {}
    translation = translated(algorithm, config, discrete=False)
    resolved = resolve(RunConfig, translation.layers, ALGORITHMS)
    assert not resolved.notes
    if algorithm not in ("BC", "ES", "ARS", "LinUCB", "LinTS"):  # which have no discounted rewards
        assert resolved.config.algorithm.gamma == DEFAULT_CONFIGS[algorithm]["gamma"]


def test_explain_names_the_key_a_value_came_from():
    multiagent = {"policies": {"one": (None, None, None, {"lr": 3e-4}), "two": (None, None, None, {})}}
    config = {"vf_loss_coeff": 0.5, "num_envs_per_worker": 10, "multiagent": multiagent}
    resolved = resolve(RunConfig, translated("PPO", config).layers, ALGORITHMS)
    assert resolved.explain("algorithm.value_coef").splitlines()[:2] == [
        "algorithm.value_coef = 0.5  (rllib config: vf_loss_coeff)",
        "    instead of 1.0  (preset rllib2021: vf_loss_coeff)",
    ]
    assert "(rllib config: num_envs_per_worker)" in resolved.explain("sampling.num_envs")
    assert "(rllib config: multiagent.policies.one: lr)" in resolved.explain("policies.one.lr")
    assert resolved.config.policies["two"].algorithm.lr == 5e-5


# --- policies ---------------------------------------------------------------------------------------------------------


@dataclass
class Spec:
    policy_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    config: dict = field(default_factory=dict)


def test_policies_in_all_their_forms():
    space = spaces.Discrete(3)
    named = {
        "tuple": (None, space, space, {"gamma": 0.5}),
        "spec": Spec(observation_space=space, config={"lr": 1e-3, "model": {"fcnet_hiddens": [8]}}),
        "none": None,
    }
    translation = translated("PPO", {"multiagent": {"policies": named, "policies_to_train": ["tuple", "spec"]}})
    assert translation.policies["tuple"].settings == {"gamma": 0.5}
    assert translation.policies["tuple"].action_space is space
    assert translation.policies["spec"].settings == {"lr": 1e-3, "model.hidden": (8,)}
    assert translation.policies["none"].settings == {"frozen": True} and not translation.policies["none"].trained
    assert list(translated("PPO", {"multiagent": {"policies": {"b", "a"}}}).policies) == ["a", "b"]
    assert list(translated("PPO", {}).policies) == ["default_policy"]


def test_a_policy_of_another_algorithm_has_the_settings_of_that():
    class DQNPolicy:
        algorithm = "DQN"

    named = {"one": (None, None, None, {}), "two": (DQNPolicy, None, None, {"n_step": 3})}
    config = {"model": {"fcnet_hiddens": [8]}, "multiagent": {"policies": named, "policies_to_train": ["one"]}}
    translation = translated("PPO", config)
    two = resolve(RunConfig, translation.layers, ALGORITHMS).config.policies["two"]
    assert type(two.algorithm).__name__ == "DQNConfig" and two.frozen
    assert (two.algorithm.n_step, two.algorithm.model.hidden) == (3, (8,))


def one_of_the_agent(agent_id):
    return f"policy_{agent_id}"


class Episode:
    episode_id = "seven"


@pytest.mark.parametrize(
    "function",
    [
        one_of_the_agent,
        lambda agent_id, **kwargs: f"policy_{agent_id}",
        lambda agent_id, episode: f"policy_{agent_id}" if episode.episode_id == "seven" else "",
        lambda agent_id, episode, **kwargs: f"policy_{agent_id}" if kwargs == {"worker": None} else "",
        lambda agent_id, episode=None, worker=None: f"policy_{agent_id}" if episode is not None else "",
        lambda agent_id, *, episode: f"policy_{agent_id}" if episode.episode_id == "seven" else "",
        lambda aid, sigma=3: f"policy_{aid}" if sigma == 3 else "",
        f"{__name__}.one_of_the_agent",
        f"{__name__}:one_of_the_agent",
        {"a": "policy_a"},
    ],
)
def test_mapping_functions_of_all_years(function):
    multiagent = {"policies": {"policy_a", "policy_b"}, "policy_mapping_fn": function}
    mapping = translated("PPO", {"multiagent": multiagent}).policy_mapping
    assert mapping("a", Episode()) == "policy_a"


def test_without_a_mapping_function():
    assert translated("PPO", {"multiagent": {"policies": {"a", "b"}}}).policy_mapping is None
    both = {"multiagent": {"policies": {"default_policy", "b"}}}
    assert translated("PPO", both).policy_mapping("x", None) == "default_policy"


def test_policies_to_train_as_a_function():
    multiagent = {"policies": {"a", "b"}, "policies_to_train": lambda pid, batch: pid == "a"}
    policies = translated("PPO", {"multiagent": multiagent}).policies
    assert (policies["a"].trained, policies["b"].trained) == (True, False)


# --- ends of episodes -------------------------------------------------------------------------------------------------


class Pair:
    """Two agents who earn 1 a step; the first one's episode ends after three."""

    possible_agents = ["a", "b"]

    def __init__(self):
        self.steps = 0

    def reset(self, seed=None, options=None):
        self.steps = 0
        return {"a": 0, "b": 0}, {}

    def step(self, actions):
        self.steps += 1
        ended = self.steps == 3
        obs = dict.fromkeys(self.possible_agents, 0)
        return obs, {"a": 1.0, "b": 1.0}, {"a": ended, "__all__": False}, {"__all__": False}, {}


def test_episodes_end_at_the_horizon():
    env = Horizon(5)(gymnasium.make("CartPole-v1"))
    env.reset(seed=0)
    steps = [env.step(number % 2) for number in range(5)]
    assert [bool(step[3]) for step in steps] == [False] * 4 + [True]
    assert env.observation_space.shape == (4,)
    pair = pickle.loads(pickle.dumps(Horizon(2)))(Pair())
    pair.reset()
    assert pair.step({})[3]["__all__"] is False
    _, _, terminated, truncated, _ = pair.step({})
    assert truncated == {"a": True, "b": True, "__all__": True} and not any(terminated.values())


def test_an_endless_tasks_ends_are_cuts():
    pair = EndlessTask()(Pair())
    pair.reset()
    *_, (_, _, terminated, truncated, _) = [pair.step({}) for _ in range(3)]
    assert truncated["a"] is True and not any(terminated.values())


def test_wrappers_come_from_the_keys():
    settings = translated("PPO", {"horizon": 7, "no_done_at_end": True}).settings
    assert settings["env.wrappers"] == (EndlessTask(), Horizon(7))
    soft = translated("PPO", {"horizon": 7, "soft_horizon": True}).settings
    assert soft["env.wrappers"] == (Horizon(7, soft=True),)


def test_a_soft_horizon_continues_from_the_state_of_the_environment():
    class Steps:
        """Counts its steps since a reset, and ends after five."""

        resets = at = 0

        def reset(self, **kwargs):
            self.resets, self.at = self.resets + 1, 0
            return self.at, {}

        def step(self, action):
            self.at += 1
            return self.at, 0.0, self.at == 5, False, {}

    env = Horizon(2, soft=True)(Steps())
    seen = [env.reset()[0]]
    for _ in range(8):
        obs, _, terminated, truncated, _ = env.step(0)
        seen.append(obs)
        if terminated or truncated:
            seen.append(env.reset(seed=1)[0])
    assert seen == [0, 1, 2, 2, 3, 4, 4, 5, 0, 1, 2, 2, 3]
    hard = Horizon(2)(Steps())
    hard.reset(), hard.step(0), hard.step(0)
    assert hard.reset()[0] == 0


# --- networks ---------------------------------------------------------------------------------------------------------


def test_networks_that_settings_cannot_say():
    plain = translated("PPO", {"model": {"fcnet_hiddens": [8], "fcnet_activation": "swish"}}).settings
    assert plain["algorithm.model.activation"] == "silu" and "algorithm.model.module" not in plain
    linear = translated("PPO", {"model": {"fcnet_hiddens": [8], "fcnet_activation": "linear"}}).settings
    assert linear["algorithm.model.activation"] == "linear" and "algorithm.model.module" not in linear
    selu = translated("PPO", {"model": {"fcnet_hiddens": [8], "fcnet_activation": "selu"}}).settings
    assert selu["algorithm.model.module"].endswith("DefaultNetwork")
    network = DefaultNetwork(spaces.Discrete(5), **{**selu["algorithm.model.module_config"], "filters": ()})
    x = torch.arange(5)
    assert network(x).shape == (5, 8) and network.num_features == 8
    mixed = spaces.Dict({"a": spaces.Box(-1, 1, (2, 3)), "b": spaces.MultiDiscrete([2, 3]), "c": spaces.Discrete(4)})
    obs = {"a": torch.zeros(7, 2, 3), "b": torch.ones(7, 2).long(), "c": torch.zeros(7).long()}
    assert DefaultNetwork(mixed, (4,))(obs).shape == (7, 4)


def test_convolutions_keep_the_size_but_for_the_last():
    filters = [[4, [4, 4], 2], [8, 3, 2], [16, [11, 11], 1]]
    network = DefaultNetwork(spaces.Box(0, 1, (42, 42, 3)), (), "relu", filters)
    assert network.num_features == 16 and network(torch.zeros(2, 42, 42, 3)).shape == (2, 16)
    assert network(torch.rand(2, 42, 42, 3)).abs().sum() > 0
    with pytest.raises(ConfigError, match=r"the kernel \[12, 12\] of filter 3 is larger"):
        DefaultNetwork(spaces.Box(0, 1, (42, 42, 3)), (), "relu", [*filters[:2], [16, 12, 1]])
    settings = translated("PPO", {"model": {"conv_filters": filters, "post_fcnet_hiddens": [9]}}).settings
    assert settings["algorithm.model.module_config"]["filters"] == filters
    assert settings["algorithm.model.module_config"]["hidden"] == [9]


def test_dueling_streams_have_their_layers():
    assert translated("DQN", {}).settings["algorithm.dueling_hidden"] == (256,)
    assert translated("DQN", {"dueling": False}).settings["algorithm.model.hidden"] == (256, 256, 256)


# --- it trains --------------------------------------------------------------------------------------------------------

SMALL = {"num_workers": 0, "seed": 0, "model": {"fcnet_hiddens": [8]}}


@pytest.mark.parametrize(
    ("algorithm", "config"),
    [
        ("PPO", {"rollout_fragment_length": 16, "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2}),
        ("PPO", {"rollout_fragment_length": 16, "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1,
                 "model": {"fcnet_hiddens": [8], "fcnet_activation": "linear"}, "horizon": 5}),
        ("A2C", {"train_batch_size": 40}),
        ("IMPALA", {"rollout_fragment_length": 20, "train_batch_size": 60}),
        ("APPO", {"rollout_fragment_length": 20, "train_batch_size": 60, "num_sgd_iter": 2}),
        ("PG", {}),
        ("DQN", {"learning_starts": 32, "timesteps_per_iteration": 64, "buffer_size": 500}),
    ],
)  # fmt: skip
def test_an_iteration_is_a_batch_or_as_many_steps_as_asked_for(algorithm, config):
    translation = translated(algorithm, {**SMALL, **config})
    trainer = Trainer("CartPole-v1", config=list(translation.layers))
    result = trainer.train_iteration()
    assert result.env_steps == config.get("timesteps_per_iteration", translation.config["train_batch_size"])
    if config.get("horizon"):
        assert result.length_mean == 5
