"""What a user is told who gets something wrong: each message names the thing, its value, its source and the way out."""

from __future__ import annotations

import traceback

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import ConfigError, EnvError, EvaluationConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.core.errors import UnknownEnvError
from rookery.core.settings.layers import override_layer, yaml_layer
from rookery.models.build import ModelConfig

NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
SHOWN = np.zeros(2, np.float32)


def told(kind, make):
    """What the error says that `make` raises."""
    with pytest.raises(kind) as caught:
        make()
    assert type(caught.value) is kind
    return str(caught.value)


def short(env="CartPole-v1", **overrides):
    cfg = PPOConfig(fragment_length=32, epochs=1)
    return Trainer(env, cfg, **{"seed": 0, "num_envs": 2, **overrides})


# --- settings ---------------------------------------------------------------------------------------------------


def test_an_unknown_key_in_code_is_answered_with_the_nearest():
    message = told(ConfigError, lambda: PPOConfig(gama=0.9))
    assert message == "code: PPOConfig.gama = 0.9: there is no such setting; did you mean 'gamma'?"
    message = told(ConfigError, lambda: Trainer("CartPole-v1", config={"algorithm.gama": 0.9}))
    assert message == "code: algorithm.gama = 0.9: there is no such setting; did you mean 'algorithm.gamma'?"
    message = told(ConfigError, lambda: EvaluationConfig(evry=5))
    assert message.startswith("code: EvaluationConfig.evry = 5: there is no such setting; did you mean 'every'?; known")


def test_an_unknown_key_in_a_file_is_answered_with_file_and_line(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("env:\n  name: CartPole-v1\nalgorithm:\n  gamma: 0.9\n  learning_rate: 0.1\n  gama: 0.9\n")
    message = told(ConfigError, lambda: Trainer(config=yaml_layer(file)))
    assert "run.yaml:5: algorithm.learning_rate = 0.1: there is no such setting" in message
    assert "run.yaml:6: algorithm.gama = 0.9: there is no such setting; did you mean 'algorithm.gamma'?" in message


def test_a_key_in_the_wrong_place_is_answered_with_the_right_one():
    message = told(ConfigError, lambda: Trainer("CartPole-v1", config=override_layer(["lr=0.1", "sampling.gamma=1"])))
    assert "command line: lr = 0.1: there is no such setting; did you mean 'algorithm.lr'?" in message
    assert "command line: sampling.gamma = 1: there is no such setting; did you mean 'algorithm.gamma'?" in message


def test_a_wrong_type_says_what_is_allowed_and_where_it_stood(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text('env: {name: CartPole-v1}\nalgorithm:\n  lr: "3e-4"\n  epochs: 2.5\n')
    lines = told(ConfigError, lambda: Trainer(config=file)).splitlines()
    assert lines[0].startswith("run.yaml:3: algorithm.lr = '3e-4': must be a number above 0 or a schedule of it")
    assert lines[0].endswith("write it without quotes")
    assert lines[1] == "run.yaml:4: algorithm.epochs = 2.5: must be a whole number of at least 1"


def test_a_negative_lr_and_a_gamma_of_1_5_are_refused():
    message = told(ConfigError, lambda: PPOConfig(lr=-1e-3))
    assert message == "code: PPOConfig.lr = -0.001: must be a number above 0 or a schedule of it"
    message = told(ConfigError, lambda: PPOConfig(gamma=1.5))
    assert message == "code: PPOConfig.gamma = 1.5: must be a number from 0 to 1"
    message = told(ConfigError, lambda: Trainer("CartPole-v1", config=override_layer(["algorithm.gamma=1.5"])))
    assert message == "command line: algorithm.gamma = 1.5: must be a number from 0 to 1"


def test_a_mistyped_argument_of_the_trainer_is_answered_with_the_nearest():
    message = told(ConfigError, lambda: Trainer("CartPole-v1", num_env=8))
    assert message == "code: num_env = 8: Trainer has no such argument; did you mean 'num_envs'?"


def test_all_problems_are_reported_together(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("env: {name: CartPole-v1}\nalgorithm: {gama: 0.9}\nsampling: {num_envs: 0}\n")
    layers = [file, override_layer(["algorithm.lr=-1"])]
    with pytest.raises(ConfigError) as caught:
        Trainer(config=layers, seed="three")
    starts = [problem.split(" = ")[0] for problem in caught.value.problems]
    expected = [
        "run.yaml:3: sampling.num_envs",
        "command line: algorithm.lr",
        "code: seed",
        "run.yaml:2: algorithm.gama",
    ]
    assert starts == expected


def test_an_unknown_algorithm_is_answered_with_those_there_are():
    message = told(ConfigError, lambda: Trainer("CartPole-v1", config={"algorithm.name": "pppo"}))
    assert message.startswith(
        "code: algorithm.name = 'pppo': no such name; there are ppo, mappo, poca, a2c, impala, appo, reinforce, dqn, "
        "pqn, vdn, qmix, maddpg, sac, td3, ddpg, bc, marwil, iql, cql, discrete_cql, td3bc, awac, dt; did you mean "
        "'ppo'?; or "
    )


def test_an_unknown_preset_is_answered_with_those_there_are():
    message = told(ConfigError, lambda: Trainer("CartPole-v1", preset="cartpole-v1"))
    assert message.startswith(
        "preset = 'cartpole-v1': there is none of that name; use auto, none or one of CartPole-v1, "
    )
    assert message.endswith("did you mean 'CartPole-v1'?")


def test_no_environment_is_answered_with_both_ways_to_give_one():
    message = told(ConfigError, Trainer)
    assert message.startswith(
        "env.name is missing: say which environment, as in Trainer('CartPole-v1') or env: {name: "
    )


def test_an_unknown_environment_is_answered_with_the_nearest():
    message = told(UnknownEnvError, lambda: Trainer("Cartpole-v1"))
    assert message.startswith(
        "env 'Cartpole-v1' is not a Gymnasium id; did you mean 'CartPole-v1'?; an own environment "
    )
    message = told(UnknownEnvError, lambda: Trainer("CartPole-v7"))
    assert "did you mean 'CartPole-v1'?" in message
    message = told(EnvError, lambda: Trainer("rookery.tasks.games.arena:MultiAgentArea"))
    assert message.endswith("module rookery.tasks.games.arena has no 'MultiAgentArea'; did you mean 'MultiAgentArena'?")


# --- when to stop -----------------------------------------------------------------------------------------------


def test_a_training_that_nothing_ends_is_refused_before_it_begins():
    trainer = short()
    message = told(ConfigError, trainer.train)
    assert message == 'stop: nothing ends this training; say when, as in train(stop={"env_steps": 100_000})'
    assert trainer.env_steps == 0


def test_a_stop_metric_that_does_not_exist_is_answered_with_those_there_are():
    message = told(ConfigError, lambda: short().train({"retrun_mean": 100}))
    assert message.startswith("stop.retrun_mean: this run has no such metric; known are counters/finals_stale, ")
    assert message.endswith("; did you mean 'return_mean'?")
    message = told(ConfigError, lambda: short().train({"policies.main.k": 1}))
    assert message.endswith("; did you mean 'policies/main/kl'?")


def test_a_stop_threshold_that_is_no_number_is_refused():
    message = told(ConfigError, lambda: short().train({"return_mean": "100", "env_steps": True}))
    assert message == "stop.return_mean = '100': not a number\nstop.env_steps = True: not a number"
    message = told(ConfigError, lambda: short(stop={"return_mean": "high"}))
    assert message == "code: stop.return_mean = 'high': must be a number or null"
    message = told(ConfigError, lambda: short().train(100_000))
    assert message == 'stop = 100000: use criteria like {"env_steps": 100_000}, or a function of a result'


def test_a_stop_by_an_evaluation_that_is_never_made_is_refused():
    message = told(ConfigError, lambda: short().train({"evaluation.return_mean": 100}))
    assert message == "stop.evaluation.return_mean: nothing is evaluated in training; set evaluation.every, to 5 say"


# --- agents and policies ----------------------------------------------------------------------------------------


def arena(**arguments):
    return Trainer(MultiAgentArena, PPOConfig(fragment_length=8), num_envs=2, seed=0, **arguments)


def test_an_unmapped_agent_is_named():
    message = told(ConfigError, lambda: arena(policies=["a", "b"], policy_mapping={"agent1": "a"}))
    assert message.startswith("policy_mapping: agent 'agent2' has no policy; mapped agents are agent1")
    assert message.endswith("add 'agent2' to policy_mapping")


def test_a_missing_mapping_is_answered_with_one_to_write():
    message = told(ConfigError, lambda: arena(policies=["a", "b"]))
    assert message.startswith("policy_mapping is missing: agent 'agent1' could play any of a, b; ")
    assert "pass policy_mapping={'agent1': 'a', ...} or a function (agent, episode) -> policy" in message


def test_a_mapping_to_an_unknown_policy_is_answered_with_the_nearest():
    names = ["runner", "blocker"]
    message = told(ConfigError, lambda: arena(policies=names, policy_mapping={"agent1": "runner", "agent2": "bloker"}))
    assert message == (
        "policy_mapping.agent2 = 'bloker': no such policy; there are runner, blocker; did you mean 'blocker'?"
    )
    trainer = arena(policies=names, policy_mapping=lambda agent, episode: "runer")
    message = told(ConfigError, trainer.train_iteration)
    assert message.startswith(
        "policy_mapping returned 'runer' for agent 'agent1': no such policy; there are runner, blocker"
    )
    assert message.endswith("did you mean 'runner'?")


def test_a_mapping_that_is_neither_dict_nor_function_is_refused():
    message = told(ConfigError, lambda: arena(policy_mapping="main"))
    assert message.startswith("policy_mapping = 'main': must be a dict from agent to policy, or (in code) a function ")


def test_a_policy_entry_that_is_no_settings_is_refused():
    assert told(ConfigError, lambda: arena(policies={"a": 3})) == "code: policies.a = 3: must be a section of settings"
    message = told(ConfigError, lambda: arena(policies={"a": {"frozn": True}}))
    assert message == "code: policies.a.frozn = True: there is no such setting; did you mean 'policies.a.frozen'?"
    message = told(ConfigError, lambda: arena(policies=["a.b"]))
    assert message == "code: policies.a.b = {}: the name of an entry must be a text without dots"


class TwoKinds:
    """A dict-style environment of a bird that steers by numbers and a fish that chooses."""

    possible_agents = agents = ["bird", "fish"]
    observation_spaces = {"bird": NUMBERS, "fish": NUMBERS}
    action_spaces = {"bird": spaces.Box(-1, 1, (1,), np.float32), "fish": spaces.Discrete(3)}

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.agents, SHOWN), {}

    def step(self, actions):
        given, no = dict.fromkeys(self.agents, SHOWN), {"bird": False, "fish": False, "__all__": False}
        return given, {"bird": 0.0, "fish": 0.0}, no, no, {}


def test_an_agent_whose_spaces_differ_from_its_policys_is_named_before_training():
    message = told(ConfigError, lambda: short(TwoKinds))
    assert message.startswith(
        "policy_mapping: policy 'main' cannot play both 'bird' (observes Box(-1.0, 1.0, (2,), float32)"
    )
    assert "and 'fish' (observes Box(-1.0, 1.0, (2,), float32), acts in Discrete(3))" in message
    assert message.endswith("give them policies of their own")


def test_an_agent_whose_spaces_differ_from_its_policys_is_named_while_playing():
    trainer = short(TwoKinds, policies=["main", "other"], policy_mapping=lambda agent, episode: "main")
    message = told(ConfigError, trainer.train_iteration)
    assert message.startswith(
        "policy_mapping: agent 'fish' observes Box(-1.0, 1.0, (2,), float32) and acts in Discrete(3)"
    )
    assert "its policy 'main' was made for" in message
    assert message.endswith("map it to a policy of its own")


@pytest.mark.parametrize(
    "values",
    [
        {"algorithm.name": "rookery.models.build:ModelConfig"},
        {"algorithm": ModelConfig(hidden=(8,))},
        {"policies.main.name": "rookery.models.build:ModelConfig"},
        {"policies": {"main": ModelConfig()}},
    ],
)
def test_settings_of_something_else_than_an_algorithm_are_refused(values):
    (at,) = values
    section = "algorithm" if at.startswith("algorithm") else "policies.main"
    message = told(ConfigError, lambda: Trainer("CartPole-v1", config=values))
    assert message.startswith(f"code: {section}.name = ")
    assert "rookery.models.build:ModelConfig" in message and "derive from AlgorithmConfig" in message


# --- environments -----------------------------------------------------------------------------------------------


class Sound(gymnasium.Env):
    """Has nothing wrong; its children have."""

    observation_space = NUMBERS
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return SHOWN, {}

    def step(self, action):
        return SHOWN, 1.0, False, False, {}


def breach(**methods):
    """What is said when an environment with these methods is trained; `Sound` itself trains."""
    broken = type("Broken", (Sound,), methods)
    return told(EnvError, lambda: short(broken, num_envs=1).train({"env_steps": 300}))


def test_a_sound_environment_trains():
    assert short(Sound, num_envs=1).train({"env_steps": 300}).env_steps == 320


def test_the_old_gym_api_is_recognized():
    message = breach(reset=lambda self, *, seed=None, options=None: SHOWN)
    assert "reset() returned" in message
    assert "the old Gym API looks like this: use Gymnasium's, reset(seed=, options=) -> (obs, info)" in message
    message = breach(step=lambda self, action: (SHOWN, 1.0, False, {}))
    assert "step() returned 4 values, expected five: (obs, reward, terminated, truncated, info)" in message
    assert "or convert the environment with `shimmy`" in message


def test_an_observation_that_is_not_finite_is_named():
    bad = np.array([0, np.nan], np.float32)
    message = breach(step=lambda self, action: (bad, 1.0, False, False, {}))
    assert message.startswith("Broken: lane 0, seed ")
    assert "episode 0, step 1, agent 'agent', action" in message
    assert "nan" in message.lower()


def test_a_reward_that_is_not_finite_is_named():
    message = breach(step=lambda self, action: (SHOWN, float("inf"), False, False, {}))
    assert message.endswith("non-finite reward inf, expected a finite number")


def test_an_observation_of_the_wrong_shape_or_dtype_is_named():
    message = breach(step=lambda self, action: (np.zeros(3, np.float32), 1.0, False, False, {}))
    assert message.endswith("obs: shape (3,) where the space says (2,)")
    message = breach(reset=lambda self, *, seed=None, options=None: (np.array(["a", "b"]), {}))
    assert message.endswith("obs: dtype <U1 where the space gives box (float32)")


def test_an_environment_that_raises_at_step_137_shows_where_and_its_own_traceback():
    class Fragile(Sound):
        steps = 0

        def step(self, action):
            self.steps += 1
            if self.steps == 137:
                raise KeyError("the 137th")
            return super().step(action)

    with pytest.raises(EnvError) as caught:
        short(Fragile, num_envs=1).train({"env_steps": 300})
    message = str(caught.value)
    assert message.startswith("Fragile: lane 0, seed ")
    assert "episode 0, step 137, agent 'agent', action " in message
    assert message.endswith("raised KeyError: 'the 137th'")
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["step"]


def test_constructor_arguments_that_an_environment_does_not_take_are_answered_with_the_nearest():
    message = told(EnvError, lambda: Trainer(MultiAgentArena, env_config={"widht": 5}))
    assert message.startswith(
        "MultiAgentArena: env.config has 'widht', unknown to it; did you mean 'width'?; it takes width"
    )
