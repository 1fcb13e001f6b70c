"""Invalid input by a table: impossible settings are refused with a message, unambiguous ones work."""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from messages import check_error
from rookery import Callback, ConfigError, EvaluationConfig, MultiAgentArena, PPOConfig, Trainer, tune
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.off_policy.dqn import DQNConfig, TargetConfig
from rookery.algorithms.off_policy.sac import SACConfig
from rookery.algorithms.on_policy.reinforce import ReinforceConfig
from rookery.core.config import resolve
from rookery.core.errors import RookeryError, TrainingError
from rookery.core.settings.fields import paths_of
from rookery.core.settings.hints import OTHER_NAMES
from rookery.core.settings.layers import Layer, import_object, override_layer
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.base import Kind
from rookery.models.build import ModelConfig
from rookery.run import run
from rookery.run.checks import memory_check as room
from rookery.run.lessons.curriculum import CourseConfig
from rookery.run.opponents.self_play import SelfPlayConfig
from rookery.run.settings import PolicyEntry, RunConfig, SamplingConfig

NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
NOTHING = spaces.Box(-1, 1, (0,), np.float32)
SHOWN = np.zeros(2, np.float32)
CHOICE = spaces.Discrete(2)
PPO = PPOConfig(fragment_length=8, epochs=1, model={"hidden": (8,)})


def told(make):
    """Returns the message of the error that `make` raises on purpose."""
    with pytest.raises(RookeryError) as caught:
        make()
    return str(caught.value)


class Sound(gymnasium.Env):
    """Has nothing wrong; its children have."""

    observation_space = NUMBERS
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


class Ends(Sound):
    """Ends after every second step."""

    steps = 0

    def step(self, action):
        self.steps += 1
        return SHOWN, 1.0, self.steps % 2 == 0, False, {}


def trained(env=Sound, algorithm=PPO, **settings):
    settings = {"config": {"env.implementation": "serial"}, "num_envs": 2, "seed": 0} | settings
    with Trainer(env, algorithm, **settings) as trainer:
        return trainer.train({"env_steps": 32})


# --- settings by the names of other libraries -------------------------------------------------------------------------

HINTS = [
    ("ppo", "learning_rate", "lr"),
    ("ppo", "learing_rate", "lr"),
    ("dqn", "learing_rate", "lr"),
    ("sac", "learning_rate", "lr"),
    # Stable-Baselines3
    ("ppo", "n_steps", "fragment_length"),
    ("ppo", "n_epochs", "epochs"),
    ("ppo", "ent_coef", "entropy_coef"),
    ("sac", "ent_coef", "alpha"),
    ("ppo", "vf_coef", "value_coef"),
    ("ppo", "clip_range", "clip"),
    ("dqn", "buffer_size", "replay.capacity"),
    ("dqn", "train_freq", "train_every"),
    ("dqn", "target_update_interval", "target.every_env_steps"),
    # RLlib
    ("ppo", "lambda", "gae_lambda"),
    ("ppo", "lambda_", "gae_lambda"),
    ("ppo", "train_batch_size", "rollout_size"),
    ("ppo", "train_batch_size_per_learner", "rollout_size"),
    ("ppo", "num_sgd_iter", "epochs"),
    ("ppo", "num_epochs", "epochs"),
    ("ppo", "sgd_minibatch_size", "minibatch_size"),
    ("ppo", "clip_param", "clip"),
    ("ppo", "vf_loss_coeff", "value_coef"),
    ("ppo", "entropy_coeff", "entropy_coef"),
    ("ppo", "grad_clip", "max_grad_norm"),
    ("ppo", "rollout_fragment_length", "fragment_length"),
    ("ppo", "fcnet_hiddens", "model.hidden"),
    # ML-Agents
    ("ppo", "buffer_size", "rollout_size"),
    ("ppo", "beta", "entropy_coef"),
    ("ppo", "epsilon", "clip"),
    ("ppo", "lambd", "gae_lambda"),
    ("ppo", "num_epoch", "epochs"),
    ("ppo", "time_horizon", "fragment_length"),
    ("ppo", "hidden_units", "model.hidden"),
    ("ppo", "num_layers", "model.hidden"),
    ("ppo", "normalize", "model.normalize_obs"),
]


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "sac"])
def test_names_of_other_libraries_lead_to_ours(algorithm):
    hints = {name: ours for named, name, ours in HINTS if named == algorithm}
    values = {"algorithm.name": algorithm, **{f"algorithm.{name}": 1 for name in hints}}
    lines = told(lambda: resolve(RunConfig, [Layer("run.yaml", values)], ALGORITHMS)).splitlines()
    own = told(lambda: import_object(ALGORITHMS[algorithm])(**dict.fromkeys(hints, 1))).splitlines()
    for (name, ours), line, mine in zip(hints.items(), lines, own, strict=True):
        unknown = "there is no such setting; did you mean"
        assert line.startswith(f"run.yaml: algorithm.{name} = 1: {unknown} 'algorithm.{ours}'?")
        assert f"Config.{name} = 1: {unknown} {ours!r}?" in mine


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("num_env_runners", "sampling.num_envs"),
        ("num_envs_per_env_runner", "sampling.num_envs"),
        ("max_steps", "stop"),
        ("policy_mapping_fn", "policy_mapping"),
        ("evaluation.evaluation_interval", "evaluation.every"),
        ("environment_parameters", "env.parameters"),
        ("network_settings", "algorithm.model"),
        ("algorithm.signals.gail.demo_path", "algorithm.signals.gail.replay"),
        ("self_play.main.save_steps", "self_play.main.snapshot_every"),
    ],
)
def test_a_setting_of_another_section_in_another_library_leads_to_ours(path, ours):
    message = told(lambda: resolve(RunConfig, [override_layer([f"{path}=1"])], ALGORITHMS))
    assert f"did you mean {ours!r}?" in message


def test_a_configuration_of_ml_agents_leads_to_the_command_that_runs_it():
    message = told(lambda: resolve(RunConfig, [Layer("run.yaml", {"behaviors": {"Walker": {}}})], ALGORITHMS))
    assert "rookery mlagents learn FILE.yaml" in message


def test_every_name_in_the_table_leads_to_a_setting():
    algorithms = [f"algorithm.{path}" for place in ALGORITHMS.values() for path in paths_of(import_object(place))]
    by_name = [path for section in (PolicyEntry, CourseConfig, SelfPlayConfig) for path in paths_of(section)]
    known = [*paths_of(RunConfig), *algorithms, *by_name, "algorithm.name"]
    for name, ours in OTHER_NAMES.items():
        assert any(f".{path}".endswith(f".{ending}") for path in known for ending in ours), name


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: SACConfig(alpha="auto"), r"or a schedule of it; write null \(in code None\)"),
        (lambda: ModelConfig(activation=torch.nn.ReLU), "; write 'relu'"),
        (lambda: ModelConfig(hidden={"pi": [64], "vf": [64]}), "; actor and critic have the same"),
        (lambda: SACConfig(replay_buffer_class="HerReplayBuffer"), "did you mean 'replay.hindsight'?"),
        (lambda: small().train(total_timesteps=100), r"train\(total_timesteps=...\): .*; criteria end a training"),
        (lambda: small().evaluate(n_eval_episodes=3), r"evaluate\(n_eval_episodes=...\): .*; evaluation={"),
        (lambda: tune.run("CartPole-v1", n_trials=3), "n_trials = 3: .*; here it is num_samples"),
        (lambda: small().learn(100, callback=None), r"learn\(callback=...\): .*; callbacks=\[MyCallback"),
    ],
)
def test_values_and_arguments_of_stable_baselines3_lead_to_ours(make, expected):
    with pytest.raises(ConfigError, match=expected):
        make()


def small():
    return Trainer("CartPole-v1", ReinforceConfig(), num_envs=2, seed=0)


def test_the_class_of_an_algorithm_leads_to_a_trainer_and_its_settings():
    with pytest.raises(
        ConfigError, match=r"PPO\('MlpPolicy', ...\): a trainer creates this class: Trainer\(env, PPOConfig"
    ):
        rookery.PPO("MlpPolicy", "CartPole-v1")
    with pytest.raises(ConfigError, match=r"must be a name or a class of settings; did you mean PPOConfig\?"):
        Trainer("CartPole-v1", rookery.PPO)


def test_the_state_of_predict_in_another_library_is_named_memory():
    with small() as trainer, pytest.raises(ConfigError, match=r"predict\(state=...\): .* memory = policy.predict"):
        trainer.policies["main"].predict([0.0, 0.0, 0.0, 0.0], state=None)


# --- shorter ways to say it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["dqn", "DQN", DQNConfig, "rookery.algorithms.off_policy.dqn:DQNConfig"])
def test_an_algorithm_is_chosen_by_its_name_or_class(said):
    with Trainer("CartPole-v1", said, model={"hidden": [8]}, seed=0) as trainer:
        assert type(trainer.config.algorithm) is DQNConfig
        assert trainer.config.algorithm.model.hidden == (8,)
    for layer in (override_layer(["algorithm.name=DQN"]), Layer("x", {"algorithm": said})):
        resolved = resolve(RunConfig, [layer, override_layer(["algorithm.lr=1e-3"])], ALGORITHMS)
        assert type(resolved.config.algorithm) is DQNConfig
        assert resolved.config.algorithm.lr == 1e-3
    assert type(resolve(RunConfig, [Layer("x", {"policies.a": said})], ALGORITHMS).config.policies["a"].algorithm) is (
        DQNConfig
    )


def test_a_name_and_settings_in_one_layer_are_put_together():
    layer = override_layer(["algorithm=dqn", "algorithm.lr=1e-3"])
    config = resolve(RunConfig, [layer], ALGORITHMS).config
    assert type(config.algorithm) is DQNConfig and config.algorithm.lr == 1e-3


def arena(**settings):
    return Trainer(MultiAgentArena, PPO, num_envs=2, seed=0, **settings)


def test_an_entry_of_policies_may_list_the_agents_that_it_plays():
    with arena(policies={"one": ["agent1"], "two": ("agent2",)}) as trainer:
        assert list(trainer.train({"iterations": 1}).policies) == ["one", "two"]
        assert trainer.config.policy_mapping == {"agent1": "one", "agent2": "two"}


def test_a_mapping_function_may_take_the_agent_alone():
    with arena(policies=["agent", "other"], policy_mapping=lambda agent: "other") as trainer:
        assert trainer.train_iteration().policies["other"].decisions


def test_an_environment_may_be_named_with_dots():
    with Trainer("rookery.tasks.games.arena.MultiAgentArena", PPO, num_envs=2, seed=0) as trainer:
        assert trainer.env.kinds[0].agents == ("agent1", "agent2")


@pytest.mark.parametrize("name", SamplingConfig.__dataclass_fields__)
def test_every_setting_of_sampling_is_a_keyword_of_the_trainer(name):
    message = told(lambda: Trainer("CartPole-v1", **{name: "x"}))
    assert message.startswith(f"code: sampling.{name} = 'x': must be ")


# --- policies, callbacks, criteria ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "overrides",
    [
        ["policies.main.lr=1e-3"],
        ["policies.agent1.lr=1e-3"],  # called like an agent
        ["policies.a={}", "policies.a.lr=1e-3"],
        ["policies.a.name=ppo", "policies.a.lr=1e-3"],
        ["policies.a.lr=1e-3", "policies.b.lr=1e-3", "policy_mapping={agent1: a, agent2: b}"],
    ],
)
def test_settings_of_policies_that_there_are_are_taken(overrides):
    with arena(config=override_layer(overrides)) as trainer:
        assert {cfg.algorithm.lr for cfg in trainer.config.policies.values()} == {1e-3}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "high", None])
def test_a_metric_of_a_callback_that_is_no_finite_number_is_refused(value):
    class Measures(Callback):
        def on_episode_end(self, episode):
            episode.metrics["x"] = value

    message = told(lambda: trained(Ends, callbacks=[Measures()]))
    assert message.startswith(f"callback: episode.metrics['x'] = {value!r}: must be a finite number; leave it out")


@pytest.mark.parametrize("values", [[1.0, float("nan")], ["a"], 3, None])
def test_a_histogram_of_a_callback_that_is_no_list_of_finite_numbers_is_refused(values):
    class Measures(Callback):
        def on_episode_end(self, episode):
            episode.histograms["x"] = values

    message = told(lambda: trained(Ends, callbacks=[Measures()]))
    assert message.startswith("callback: episode.histograms['x']: must be a list, each a finite number")


CRITERIA = [
    ({"env_steps": -5}, "stop.env_steps = -5: must be above 0"),
    ({"iterations": 0}, "stop.iterations = 0: must be above 0"),
    ({"seconds": -1.0}, "stop.seconds = -1.0: must be above 0"),
    ({"return_mean": float("nan")}, "stop.return_mean = nan: must be a finite number"),
    ({"retrun_mean": 5}, "stop.retrun_mean: this run has no such metric; known are "),
    ({"hours": 2}, "stop.hours: this run has no such metric; known are "),
]


@pytest.mark.parametrize(("criteria", "expected"), CRITERIA)
def test_a_criterion_that_cannot_be_met_is_refused_before_anything_is_played(criteria, expected):
    with made_once() as trainer:
        assert told(lambda: trainer.train(criteria)).startswith(expected)
        assert trainer.env_steps == 0


def made_once(env="CartPole-v1"):
    return Trainer(env, PPO, num_envs=2, seed=0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("env_steps=-5", "code: stop.env_steps = -5.0: must be above 0"),
        ("retrun_mean=5", "code: stop.retrun_mean: this run has no such metric"),
    ],
)
def test_a_criterion_in_the_settings_is_refused_before_anything_is_written(said, expected, tmp_path):
    name, _, value = said.partition("=")
    settings = {"stop": {name: int(value)}, "run_dir": tmp_path / "run"}
    assert told(lambda: Trainer("CartPole-v1", PPO, num_envs=2, **settings)).startswith(expected)
    assert not (tmp_path / "run").exists()


def test_a_criterion_on_a_metric_of_a_callback_is_waited_for():
    class Measures(Callback):
        def on_episode_end(self, episode):
            episode.metrics["x"] = 3.0

    with Trainer(Ends, PPO, num_envs=2, seed=0, callbacks=[Measures()]) as trainer:
        assert trainer.train({"metrics.x.mean": 3}).stop_reason == "metrics.x.mean 3 reached 3"


# --- environments -----------------------------------------------------------------------------------------------------

MASKED = {flags: spaces.Dict(observation=NUMBERS, action_mask=spaces.Box(0, 1, (flags,), np.int8)) for flags in (2, 3)}


@pytest.mark.parametrize("flag", [np.True_, 1, 1.0, np.array(True), np.array([1])])
def test_flags_that_are_numbers_are_taken(flag):
    env = type("Odd", (Sound,), {"step": lambda self, action: (SHOWN, 1, flag, np.bool_(False), {})})
    assert trained(env).episodes == 32


class ByAgent:
    """A dict-style environment whose step returns what a child says."""

    possible_agents = agents = ["bird", "fish"]
    observation_spaces = dict.fromkeys(agents, NUMBERS)
    action_spaces = dict.fromkeys(agents, spaces.Discrete(2))
    given = (1.0, False)

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.agents, SHOWN), {}

    def step(self, actions):
        reward, end = self.given
        shown, no = dict.fromkeys(self.agents, SHOWN), {"__all__": False}
        return shown, dict.fromkeys(self.agents, reward), {"bird": end, "__all__": False}, no, {}


class Many(gymnasium.vector.VectorEnv):
    """Plays many copies; its children give something else than numbers."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
    given = {}

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = NUMBERS, spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(NUMBERS, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        flags = np.zeros(self.num_envs, bool)
        shown = {"reward": np.ones(self.num_envs), "end": flags} | self.given
        return np.zeros((self.num_envs, 2), np.float32), shown["reward"], shown["end"], flags, {}


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _gigabyte(monkeypatch):
    monkeypatch.setattr(room, "bytes_free", lambda: 10**9)


class Counted(Sound):
    """Counts how many of it are made."""

    made = 0

    def __init__(self):
        type(self).made += 1


TOO_LARGE = [
    ({"num_envs": 10**9}, PPO, "code: sampling.num_envs = 1,000,000,000: these environments take at least 500 GB"),
    ({"num_envs": 10**6}, PPO, "code: sampling.num_envs = 1,000,000: these environments take at least "),
    (
        {},
        PPOConfig(fragment_length=10**9),
        "policies.main.fragment_length = 1,000,000,000: the 2,000,000,000 decisions",
    ),
    (
        {},
        PPOConfig(rollout_size=10**9),
        "policies.main.rollout_size = 1,000,000,000: the 1,000,000,000 decisions of an",
    ),
    ({}, PPOConfig(model={"hidden": (10**6, 10**6)}), "policies.main.model.hidden = [1000000, 1000000]: "),
    ({}, SACConfig(model={"hidden": (10**5, 10**5)}), "policies.main.model.hidden = [100000, 100000]: "),
]


@pytest.mark.usefixtures("_gigabyte")
@pytest.mark.parametrize(("settings", "algorithm", "expected"), TOO_LARGE)
def test_what_cannot_fit_is_refused_before_it_is_made(settings, algorithm, expected):
    Counted.made = 0
    message = told(lambda: trained(Counted, algorithm, **settings))
    assert expected in message and "this process has 1 GB left; use " in message
    assert Counted.made <= room.SAMPLE


MANY_NUMBERS = spaces.Box(-1, 1, (10**6,), np.float32)


@pytest.mark.regression("exhausted memory or time", "The memory of a large space is reported before it is allocated")
@pytest.mark.parametrize(
    ("obs", "action", "algorithm", "told"),
    [
        (
            spaces.Discrete(10**6),
            spaces.Discrete(2),
            DQNConfig(batch_size=64, model={"hidden": (64, 64)}),
            r"2.88 GB .* 64,004,224 weights, .* smaller c",
        ),
        (
            spaces.Discrete(2),
            spaces.Discrete(10**6),
            DQNConfig(batch_size=64, model={"hidden": (64, 64)}),
            r"3.9 GB .* 1,000,000 outputs .* smaller discrete actions",
        ),
        (
            spaces.MultiDiscrete([10**6, 9]),
            spaces.Discrete(2),
            PPOConfig(),
            r"1,000,009 inputs of Multi.* smaller",
        ),
        (MANY_NUMBERS, spaces.Discrete(2), PPOConfig(), r"1,000,000 inputs of Box.* or smaller observations"),
        (spaces.Discrete(10**4), spaces.Discrete(10**4), PPOConfig(), None),
    ],
)
def test_what_large_spaces_take_is_told(obs, action, algorithm, told):
    kind = Kind(("agent",), obs_spec(obs, action), action_spec(action))
    line = room.memory_line("main", PolicyEntry(algorithm=algorithm), kind)
    assert re.search(told, line) if told else line == ""
    frozen = room.memory_line("main", PolicyEntry(algorithm=algorithm, frozen=True), kind)
    assert len(frozen) <= len(line)


@pytest.mark.regression("exhausted memory or time", "The memory of a large space is reported before it is allocated")
def test_memory_is_told_before_a_policy_is_made(monkeypatch, capsys):
    monkeypatch.setattr(room, "LARGE", 0)
    monkeypatch.setattr(run, "make_policy", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Trainer(Sound, PPO, num_envs=1, config={"logging.console": "plain"})
    assert "policy main will take about" in "".join(capsys.readouterr())


@pytest.mark.usefixtures("_gigabyte")
def test_what_is_proposed_instead_fits():
    message = told(lambda: trained(Counted, PPOConfig(fragment_length=10**8)))
    fitting = int(message.partition("use at most fragment_length = ")[2].partition(", or")[0].replace(",", ""))
    with Trainer(Counted, PPOConfig(fragment_length=fitting), num_envs=2, seed=0) as trainer:
        assert trainer.config.algorithm.fragment_length == fitting


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate"), RuntimeError("x: can't allocate memory: 9")])
def test_a_shortage_that_comes_all_the_same_is_explained(error):
    class Full(Callback):
        def on_episode_end(self, episode):
            raise error

    with pytest.raises(TrainingError, match="there is not enough memory left .* algorithm.model.hidden") as caught:
        trained(Ends, callbacks=[Full()])
    assert caught.value.__cause__ is error


def test_other_errors_are_left_alone():
    assert room.explain_memory_error(RuntimeError("of something else")) is None


# --- the target network of DQN ----------------------------------------------------------------------------------------


def test_the_target_interval_may_be_given_in_env_steps():
    assert DQNConfig(target={"every_env_steps": 10_000}).target_every == 5000
    assert DQNConfig(target={"every_env_steps": 10_000}, updates_per_step=0.25).target_every == 2500
    assert DQNConfig(target={"every_env_steps": 1}).target_every == 1
    assert DQNConfig(target={"kind": "hard"}).target_every == 250


@pytest.mark.parametrize(
    ("target", "is_soft"),
    [
        ({}, True),
        ({"tau": 0.1}, True),
        ({"every": 7}, False),
        ({"every_env_steps": 7}, False),
        ({"kind": "hard"}, False),
        ({"kind": "soft", "every": 7}, True),
    ],
)
def test_an_interval_makes_the_target_network_a_hard_copy(target, is_soft):
    assert TargetConfig(**target).is_soft == is_soft


def target_of(*layers):
    named = Layer("name", {"algorithm.name": "dqn"})
    return resolve(RunConfig, [named, *layers], ALGORITHMS)


def test_the_stronger_layer_decides_how_the_target_interval_is_given():
    steps, gradients = {"algorithm.target.every_env_steps": 400}, {"algorithm.target.every": 7}
    resolved = target_of(Layer("preset", gradients), Layer("code", steps))
    assert resolved.config.algorithm.target_every == 200
    assert resolved.explain("algorithm.target.every") == (
        "algorithm.target.every = null  (code)\n    instead of 7  (preset)\n    instead of null  (default)"
    )
    assert target_of(Layer("file", steps), Layer("code", gradients)).config.algorithm.target_every == 7
    again = target_of(Layer("what was kept", {path: values[-1][1] for path, values in resolved.history.items()}))
    assert again.config.algorithm.target == resolved.config.algorithm.target
    assert TargetConfig(every_env_steps=5).replace(every=4) == TargetConfig(every=4)


# --- what a message says ----------------------------------------------------------------------------------------------

MODEL, ARENA = "rookery.models.build:ModelConfig", "rookery.tasks.games.arena"
NO_ALGORITHM = "name = ... rookery.models.build:ModelConfig ... derive from AlgorithmConfig"
TWO_KINDS = {"action_spaces": {"bird": spaces.Box(-1, 1, (1,), np.float32), "fish": spaces.Discrete(3)}}
RUNNERS = ["runner", "blocker"]


def cart(*arguments, **settings):
    return Trainer("CartPole-v1", *arguments, **settings)


def remembering(**memory):
    return cart(config={f"algorithm.model.memory.{name}": value for name, value in memory.items()})


def forgetful(**memory):
    return cart(ReinforceConfig(model={"memory": memory}))


def shared(workers, **sampling):
    return cart(PPO, sampling={"workers": workers, "num_envs": 6, **sampling}, cluster={"ray": "here"})


def measured(env="CartPole-v1", workers=2, **settings):
    return Trainer(env, PPO, num_envs=2, evaluation={"workers": workers, "every": 1}, **settings)


def stopped_by(criteria):
    return made_once().train(criteria)


def given(**settings):
    return resolve(RunConfig, [Layer("run.yaml", settings)], ALGORITHMS)


def broken(parent=Sound, **changes):
    """Trains an environment of which something is wrong; its parent is sound."""
    return trained(type("Odd", (parent,), changes), config={} if parent is Many else {"env.implementation": "serial"})


def spaced(observed, action, algorithm=PPO):
    return trained(type("Odd", (Sound,), {"observation_space": observed, "action_space": action}), algorithm)


def ended(terminated=False, truncated=False):
    return broken(step=lambda self, action: (SHOWN, 1.0, terminated, truncated, {}))


def kinds(**settings):
    return Trainer(type("TwoKinds", (ByAgent,), TWO_KINDS), PPO, num_envs=2, seed=0, **settings)


def misspelt():
    return type("Counting", (Callback,), {"on_episode_endd": lambda self, episode: None})


MISTAKES = [
    # settings
    (lambda: PPOConfig(gama=0.9), "ConfigError: code: PPOConfig.gama = 0.9: ... did you mean 'gamma'?"),
    (lambda: EvaluationConfig(evry=5), "ConfigError: code: EvaluationConfig.evry = 5: ... 'every'?; known"),
    (lambda: PolicyEntry(frozn=True), "ConfigError: code: PolicyEntry.frozn = True: there is no such setting; did"),
    (lambda: RunConfig(sede=1), "ConfigError: RunConfig.sede = 1: there is no such setting; did you mean 'seed'?"),
    (lambda: DQNConfig(n_epochs=3), "ConfigError: code: DQNConfig.n_epochs = 3: ... rookery config schema lists"),
    (lambda: PPOConfig(lr=-1e-3), "ConfigError: code: PPOConfig.lr = -0.001: must be a number above 0 or a schedule"),
    (lambda: PPOConfig(gamma=1.5), "ConfigError: code: PPOConfig.gamma = 1.5: must be a number from 0 to 1"),
    (lambda: cart(config={"algorithm.gama": 0.9}), "ConfigError: code: algorithm.gama = 0.9: ... 'algorithm.gamma'?"),
    (lambda: cart(config={"sampling.gamma": 1}), "ConfigError: code: sampling.gamma = 1: ... mean 'algorithm.gamma'?"),
    (lambda: cart(num_env=8), "ConfigError: code: num_env = 8: Trainer has no such argument; did you mean 'num_envs'?"),
    (lambda: cart(preset="cartpole-v1"), "ConfigError: preset = 'cartpole-v1': ... use auto, none or one of"),
    (lambda: cart(preset="cartpole-v1"), "ConfigError: did you mean 'CartPole-v1'?"),
    (lambda: TargetConfig(every=1, every_env_steps=4), "ConfigError: every = 1 and every_env_steps = 4: give one of"),
    (
        lambda: given(algorithm={"name": "dqn", "target": {"every": 1, "every_env_steps": 4}}),
        "ConfigError: run.yaml: algorithm.target: every = 1 and every_env_steps = 4: give one of them",
    ),
    # the algorithm
    (lambda: cart("pppo"), "ConfigError: algorithm.name = 'pppo': ... there are ppo, mappo, ... did you mean 'ppo'?"),
    (lambda: cart("shop.Mine"), "ConfigError: code: algorithm.name = ... write shop:Mine"),
    (lambda: cart(dict), "ConfigError: code: algorithm.name = ... must be a name or a class of settings"),
    (lambda: cart(ModelConfig(hidden=(8,))), f"ConfigError: code: algorithm.{NO_ALGORITHM}"),
    (lambda: cart(config={"algorithm.name": MODEL}), f"ConfigError: code: algorithm.{NO_ALGORITHM}"),
    (lambda: cart(config={"policies.main.name": MODEL}), f"ConfigError: code: policies.main.{NO_ALGORITHM}"),
    (lambda: cart(config={"policies": {"main": ModelConfig()}}), f"ConfigError: code: policies.main.{NO_ALGORITHM}"),
    # the environment
    (Trainer, "ConfigError: env.name is missing: ... as in Trainer('CartPole-v1') or env: {name: "),
    (lambda: Trainer(f"{ARENA}.MultiAgentArea"), f"EnvError: {ARENA} has no 'MultiAgentArea'; ... 'MultiAgentArena'"),
    (lambda: arena(env_config={"widht": 5}), "EnvError: env.config has 'widht', ... 'width'?; it takes width"),
    # when to stop
    (lambda: stopped_by({"retrun_mean": 100}), "ConfigError: stop.retrun_mean: ... known are ... mean 'return_mean'?"),
    (lambda: stopped_by({"policies.main.k": 1}), "ConfigError: did you mean 'policies/main/kl'?"),
    (lambda: stopped_by({"return_mean": "100"}), "ConfigError: stop.return_mean = '100': not a number"),
    (lambda: stopped_by({"env_steps": True}), "ConfigError: stop.env_steps = True: not a number"),
    (lambda: stopped_by(100_000), 'ConfigError: stop = 100000: use criteria like {"env_steps": 100_000}, or a'),
    (lambda: stopped_by({"evaluation.return_mean": 1}), "ConfigError: there are no evaluations ... evaluation.every"),
    (lambda: cart(stop={"return_mean": "high"}), "ConfigError: code: stop.return_mean = 'high': must be a number or"),
    # policies
    (
        lambda: arena(config={"policies.nobody.lr": 1e-3}),
        "ConfigError: code: policies.nobody.lr = 0.001: there is no policy 'nobody'; there are main; ... ={} makes one",
    ),
    (lambda: arena(config={"policies.nobody.lr": 1}, policies=["a"]), "ConfigError: no policy 'nobody'; there are a; "),
    (
        lambda: arena(config={"policies.nobody.lr": 1}, policies=["a"], policy_mapping=lambda agent: "a"),
        "ConfigError: no policy 'nobody'; there are a; ... policies.nobody={} makes one",
    ),
    (lambda: cart(config={"policies.mian.lr": 1}), "ConfigError: no policy 'mian'; there are main; ... 'main'?"),
    (lambda: arena(policies={"a": 3}), "ConfigError: code: policies.a = 3: must be a section of settings"),
    (lambda: arena(policies={"a": {"frozn": 1}}), "ConfigError: policies.a.frozn = 1: ... mean 'policies.a.frozen'?"),
    (lambda: arena(policies=["a.b"]), "ConfigError: code: policies.a.b = {}: the name of an entry must be a text"),
    (
        lambda: arena(policies={"a": ["agent1", "agent2"]}, policy_mapping={"agent1": "a"}),
        "ConfigError: code: policies.a lists agents, and policy_mapping is given too",
    ),
    (lambda: arena(policies={"a": ["agent1"], "b": ["agent1"]}), "ConfigError: 'agent1' is in the lists of a and b"),
    (lambda: arena(config={"policies": {"a": ["agent1"]}}), "ConfigError: policies.a = ['agent1']: must be a section"),
    # who plays whom
    (lambda: arena(policies=["a", "b"]), "ConfigError: policy_mapping is missing: ... policy_mapping={'agent1': 'a'"),
    (
        lambda: arena(policies=["a", "b"], policy_mapping={"agent1": "a"}),
        "ConfigError: agent 'agent2' has no policy; mapped agents are agent1; did you mean 'agent1'? ... add 'agent2'",
    ),
    (
        lambda: arena(policies=RUNNERS, policy_mapping={"agent1": "runner", "agent2": "bloker"}),
        "ConfigError: policy_mapping.agent2 = 'bloker': no such policy; there are runner, blocker; ... 'blocker'?",
    ),
    (
        lambda: arena(policies=RUNNERS, policy_mapping=lambda agent, episode: "runer").train_iteration(),
        "ConfigError: policy_mapping returned 'runer' for agent 'agent1': no such policy; ... did you mean 'runner'?",
    ),
    (lambda: arena(policy_mapping="main"), "ConfigError: policy_mapping = 'main': must be a dict from agent to policy"),
    (
        lambda: arena(policies=["a"], policy_mapping=lambda agent, episode, worker: "a"),
        "ConfigError: policy_mapping = <lambda>(agent, episode, worker): ... write (agent, episode) -> policy, or",
    ),
    (kinds, "ConfigError: 'main' cannot play both 'bird' (observes Box( ... and 'fish' ( ... give them policies of"),
    (
        lambda: kinds(policies=["main", "other"], policy_mapping=lambda agent: "main").train_iteration(),
        "ConfigError: agent 'fish' observes Box( ... its policy 'main' was made for ... map it to a policy of its own",
    ),
    (misspelt, "ConfigError: callback Counting.on_episode_endd: ... 'on_episode_end'?; it has on_checkpoint"),
    # memory
    (lambda: remembering(kind="attention", size=10, heads=4), "ConfigError: heads: 4 heads ... size 10 ... such as 12"),
    (lambda: remembering(kind="transformer"), "ConfigError: model.memory.kind ... transformer"),
    (lambda: remembering(kind="lstm", size=0), "ConfigError: model.memory.size ... 0"),
    (lambda: remembering(layers=-1), "ConfigError: model.memory.layers ... -1"),
    (lambda: remembering(sequence_length=0), "ConfigError: model.memory.sequence_length ... 0"),
    (lambda: remembering(context=0), "ConfigError: model.memory.context ... 0"),
    (lambda: remembering(frame_stack=0), "ConfigError: model.memory.frame_stack ... 0"),
    (lambda: remembering(frame_stack=1.5), "ConfigError: model.memory.frame_stack ... 1.5"),
    (lambda: remembering(previous_action="perhaps"), "ConfigError: model.memory.previous_action ... perhaps"),
    (lambda: remembering(seqence_length=3), "ConfigError: model.memory ... seqence_length ... sequence_length"),
    (lambda: forgetful(kind="lstm"), "ConfigError: policies.main.model.memory: ... use ppo, ... or leave memory out"),
    (lambda: forgetful(frame_stack=4), "ConfigError: policies.main.model.memory: ... use ppo, ... or leave memory out"),
    (lambda: forgetful(previous_reward=True), "ConfigError: policies.main.model.memory: ... or leave memory out"),
    # domains of tune, in a training that nothing tunes
    (
        lambda: cart(PPOConfig(lr=tune.uniform(1e-4, 1e-3))),
        "ConfigError: algorithm.lr ... only tune.run (rookery tune)",
    ),
    # workers, and what plays ahead
    (
        lambda: cart(config={"env.implementation": "serial", "sampling.env_processes": 2}),
        "ConfigError: sampling.env_processes = 2, and env.implementation = serial has none",
    ),
    (lambda: shared(7), "ConfigError: sampling.workers = 7: there are only 6 environments to share"),
    (lambda: shared(4, inference_batch_envs=2), "ConfigError: there are only 3 groups of 2 environments"),
    (lambda: shared(2, staleness=1), "ConfigError: use sampling.asynchronous=true"),
    (lambda: measured(workers=-1), "ConfigError: evaluation.workers"),
    (
        lambda: measured("ConnectFour", self_play={"main": {}}),
        "ConfigError: evaluation.workers = 2: self_play is measured in this process only",
    ),
    (
        lambda: cart(ReinforceConfig(), sampling={"staleness": 1}),
        "ConfigError: sampling.staleness = 1: policy 'main' is trained by Reinforce, ... use ppo, ppo_lagrangian, a2c, "
        "impala, appo, alphazero, linucb, lints or",
    ),
    # courses of a curriculum
    (lambda: CourseConfig(), "ConfigError: a course has either lessons or widen"),
    (lambda: CourseConfig(lessons=[1, 2]), "ConfigError: lesson 1 has no threshold, so it would never end"),
    (
        lambda: CourseConfig(lessons=[1, 2], measure="progress", threshold=1.5),
        "ConfigError: lesson 1 ends at progress 1.5, which can never be reached: progress goes from 0 to 1",
    ),
    (lambda: CourseConfig(lessons=[1, 2], threshold=1.0, back=1.0), "ConfigError: back must be lower"),
    (lambda: CourseConfig(lessons=[1, 2], threshold=1.0, back=0.0, better="below"), "ConfigError: back must be higher"),
    (lambda: CourseConfig(lessons=[{"valu": 1}], threshold=1), "ConfigError: lesson 1: valu = 1: ... did you mean"),
    (
        lambda: CourseConfig(widen={"start": [2, 1], "end": [0, 3]}, threshold=1.0),
        "ConfigError: the first must not be above the second",
    ),
    (
        lambda: CourseConfig(widen={"start": [1, 1], "end": [0, 3], "stages": 1}, threshold=1.0),
        "ConfigError: in 2 stages or more",
    ),
    # spaces
    (lambda: spaced(NOTHING, CHOICE), "EnvError: no part of the observation space Box([], [], (0,), float32) can be"),
    (lambda: spaced(NUMBERS, NOTHING), "EnvError: action space Box([], [], (0,), float32) is empty: use Discrete"),
    (lambda: spaced(NUMBERS, NOTHING, SACConfig()), "EnvError: action space Box([], [], (0,), float32) is empty: use"),
    (lambda: spaced(NUMBERS, spaces.Discrete(1), SACConfig()), "ConfigError: actions of Discrete(1) are always the"),
    (lambda: spaced(MASKED[2], NUMBERS), "EnvError: action_mask: actions of Box(-1.0, ... have no choices that a mask"),
    (lambda: spaced(MASKED[3], CHOICE), "EnvError: action_mask: Box(0, 1, (3,), int8) is no mask of actions of"),
    # what an environment returns
    (lambda: ended("False"), "EnvError: Odd: environment 0, seed ... terminated is 'False', expected true or false"),
    (lambda: ended(False, "no"), "EnvError: Odd: environment 0, seed ... truncated is 'no', expected true or false"),
    (lambda: ended(2.5), "EnvError: Odd: environment 0, seed ... terminated is 2.5, expected true or false"),
    (lambda: ended(False, [1, 2]), "EnvError: Odd: environment 0, seed ... truncated is [1, 2], expected true or"),
    (lambda: broken(ByAgent, given=("1", False)), "EnvError: agent 'bird', action ... reward is '1', expected a"),
    (lambda: broken(ByAgent, given=(1.0, "False")), "EnvError: terminateds of this agent is 'False', expected true or"),
    (lambda: broken(Many, given={"reward": ["1", "2"]}), "EnvError: step() returned ... expected 2 numbers or flags"),
    (lambda: broken(Many, given={"end": ["False"] * 2}), "EnvError: step() returned ... expected 2 numbers or flags"),
]


@pytest.mark.parametrize(("make", "expected"), MISTAKES)
def test_a_mistake_is_named_with_its_value_its_place_and_the_way_out(make, expected):
    check_error(expected, make)


def test_all_problems_are_reported_together(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("env: {name: CartPole-v1}\nalgorithm: {gama: 0.9}\nsampling: {num_envs: 0}\n")
    layers = [file, override_layer(["algorithm.lr=-1"])]
    with pytest.raises(ConfigError) as caught:
        Trainer(config=layers, seed="three")
    starts = [problem.split(" = ")[0] for problem in caught.value.problems]
    expected = [
        "run.yaml:2: algorithm.gama",
        "command line: algorithm.lr",
        "code: seed",
        "run.yaml:3: sampling.num_envs",
    ]
    assert starts == expected


def test_a_training_that_nothing_ends_is_refused_before_it_begins():
    trainer = made_once()
    message = told(trainer.train)
    assert message == 'stop: nothing ends this training; set a criterion, as in train(stop={"env_steps": 100_000})'
    assert trainer.env_steps == 0
