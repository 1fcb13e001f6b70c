"""Environments of 2021 in today's form: reset(seed), five values or five dicts, chance that repeats."""

import copy
import pickle
import random

import gymnasium
import numpy as np
import pytest

from rookery import PPOConfig, Trainer
from rookery.envs.make import make_env
from rookery.script.importer import script_builtins
from rookery_rllib.base import notices, per_env_rng
from rookery_rllib.base.imports import module
from rookery_rllib.base.per_env_rng import PerEnvRandomState, libraries_may_draw
from rookery_rllib.gym.old_envs import OldEnv, OldMultiAgentEnv, adapted, is_old
from rookery_rllib.script.finder import IMPORTER

gym = module("gym")


@pytest.fixture(autouse=True)
def _say_again(monkeypatch):
    monkeypatch.setattr(notices, "_printed", set())


def of_a_script(source: str) -> dict:
    """The globals of code that runs as a script's."""
    namespace = {"__name__": "__main__", "__builtins__": script_builtins(IMPORTER)}
    exec(compile(source, "script.py", "exec"), namespace)
    return namespace


DICE = """
import random
from random import randint
import gym
import numpy as np

class Dice(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (4,))
    action_space = gym.spaces.Discrete(2)

    def reset(self):
        self.left = 5
        return self.thrown()

    def step(self, action):
        self.left -= 1
        return self.thrown(), 1.0, self.left == 0, {}

    def thrown(self):
        return np.array([random.random(), randint(0, 9) / 9, np.random.rand(), self.action_space.sample()], np.float32)

def outside():
    return random.random(), np.random.rand()
"""


class Dice(gym.Env):
    """Of a module of plain Python, which knows the real `random`."""

    observation_space = gym.spaces.Box(0, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self):
        self.left = 5
        return np.array([random.random(), np.random.rand()], np.float32)

    def step(self, action):
        self.left -= 1
        return np.array([random.random(), np.random.normal()], np.float32), 1.0, self.left == 0, {}


@pytest.fixture(params=["of a script", "of a library"])
def dice(request):
    """A class of environments that draw from the global generators."""
    return of_a_script(DICE)["Dice"] if request.param == "of a script" else Dice


def played(env, seed, steps=4):
    return [env.reset(seed=seed)[0], *(env.step(0)[0] for _ in range(steps))]


def test_reset_and_step_have_todays_form_and_a_line_is_said_once(dice, capsys):
    env = adapted(dice())
    adapted(dice())
    assert capsys.readouterr().err.count("Dice has the API of 2021") == 1
    assert isinstance(env, gymnasium.Env) and env.observation_space.shape == env.env.observation_space.shape
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(obs) and info == {}
    ends = [env.step(0)[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(True, False)]
    assert env.left == 0  # attributes are the environment's own
    assert adapted(env) is env


def test_global_generators_repeat_with_a_seed_and_copies_are_independent(dice):
    alone = played(adapted(dice()), 3)
    one, other = adapted(dice()), adapted(dice())
    mixed = []
    other.reset(seed=9)
    mixed.append(one.reset(seed=3)[0])
    for _ in range(4):
        other.step(0)
        random.random(), np.random.rand()
        mixed.append(one.step(0)[0])
    assert np.array_equal(alone, mixed)
    assert not np.array_equal(alone, played(other, 4))
    assert np.array_equal(alone, played(other, 3))


def test_whoever_else_draws_is_left_alone(dice):
    random.seed(1), np.random.seed(1)
    expected = [random.random() for _ in range(3)], np.random.rand(3).tolist()
    env = adapted(dice())
    random.seed(1), np.random.seed(1)
    found = []
    for _ in range(3):
        env.reset(seed=2)
        env.step(1)
        found.append((random.random(), np.random.rand()))
    assert [list(part) for part in zip(*found)] == list(expected)


def test_a_script_outside_its_environments_draws_from_the_global_generators():
    script = of_a_script(DICE)
    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(1)
    adapted(script["Dice"]()).reset(seed=4)
    assert script["outside"]() == expected
    with PerEnvRandomState(5), PerEnvRandomState(6, libraries=False) as own:
        own.seed(7)
        inner = script["outside"]()
    random.seed(7), np.random.seed(7)
    assert inner == (random.random(), np.random.rand())


def test_a_copy_goes_on_where_the_original_was(dice):
    env = adapted(dice())
    env.reset(seed=1)
    env.step(0)
    twin = copy.deepcopy(env)
    assert np.array_equal(env.step(0)[0][:3], twin.step(0)[0][:3])


def test_who_is_looked_at_for_libraries_that_draw():
    assert libraries_may_draw(Dice())
    script = of_a_script(DICE)
    assert not libraries_may_draw(script["Dice"]())
    assert libraries_may_draw(gym.Wrapper(Dice()))
    script = of_a_script("from types import SimpleNamespace\ndef draw(): pass\nclass E:\n    def reset(self): draw()\n")
    assert not libraries_may_draw(script["E"]())
    script["draw"] = played
    script["E"].reset.__globals__["lent"] = Dice  # a class of a module that knows random
    assert libraries_may_draw(script["E"]())


def test_changing_generators_is_cheap():
    env = adapted(of_a_script(DICE)["Dice"]())
    assert env._random_state.libraries is False
    state = random.getstate()
    with env._random_state:
        assert random.getstate() == state  # what costs 20 us a step was not touched
        assert per_env_rng._current_random is env._random_state._random


def test_truncation_is_told_by_the_info():
    env = adapted(gym.make("CartPole-v0"))
    env.reset(seed=0)
    env.env.unwrapped.theta_threshold_radians = env.env.unwrapped.x_threshold = 1e9
    ends = [env.step(0)[2:4] for _ in range(200)]
    assert ends[-1] == (False, True) and ends[-2] == (False, False)
    first = adapted(gym.make("CartPole-v0")).reset(seed=0)[0]
    assert np.array_equal(first, gymnasium.make("CartPole-v1").reset(seed=0)[0])


def test_environments_of_today_pass_as_they_are():
    class Today:
        def reset(self, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 0.0, False, False, {}

    assert not is_old(Today()) and not is_old(object())
    current_id = gymnasium.make("CartPole-v1")
    assert adapted(current_id) is current_id
    assert is_old(gym.make("CartPole-v1")) and isinstance(adapted(gym.make("CartPole-v1")), OldEnv)


def test_an_environment_without_a_base_class_is_adapted_too():
    class Bare:
        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

        def __init__(self):
            self.seeds = []

        def seed(self, seed=None):
            self.seeds.append(seed)

        def reset(self):
            return 0

        def step(self, action):
            return np.int64(1), np.float32(0.5), np.bool_(True), {}

    env = adapted(Bare())
    env.reset(seed=4)
    env.reset()
    assert env.env.seeds == [4]
    assert env.step(0) == (1, 0.5, True, False, {})
    assert env.render() is None
    env.close()


def test_pictures_come_as_arrays():
    class Drawn(Dice):
        def render(self, mode="human"):
            viewer = module("gym.envs.classic_control.rendering").Viewer(6, 4)
            return viewer.render(return_rgb_array=mode == "rgb_array")

    assert adapted(Drawn()).render().shape == (4, 6, 3)
    assert adapted(Dice()).render() is None


class MultiAgentEnv:
    """Base class by name, as RLlib's."""


class Meeting(MultiAgentEnv):
    def __init__(self, config=None):
        self.observation_space = gym.spaces.MultiDiscrete([5, 5])
        self.action_space = gym.spaces.Discrete(2)
        self.limit = (config or {}).get("limit", 6)

    def reset(self):
        self.steps = 0
        return {"a": np.array([0, 4]), "b": np.array([4, 0])}

    def step(self, actions):
        self.steps += 1
        over = self.steps >= self.limit
        obs = {name: np.array([random.randrange(5), 0]) for name in actions}
        return obs, dict.fromkeys(actions, np.float64(1)), {"a": over, "b": over, "__all__": over}, {}


def test_four_dicts_become_five():
    env = adapted(Meeting())
    obs, infos = env.reset(seed=1)
    assert obs["a"].tolist() == [0, 4] and infos == {}
    step = env.step({"a": 0, "b": 1})
    assert step[2:] == ({"a": False, "b": False, "__all__": False}, {"a": False, "b": False, "__all__": False}, {})
    again = adapted(Meeting())
    again.reset(seed=1)
    assert again.step({"a": 0, "b": 1})[0]["b"].tolist() == step[0]["b"].tolist()
    for _ in range(5):
        step = env.step({"a": 0, "b": 1})
    assert step[2] == {"a": True, "b": True, "__all__": True} and not any(step[3].values())


@pytest.mark.parametrize(
    ("dones", "infos", "terminated", "truncated"),
    [
        ({"a": True, "__all__": False}, {}, {"a"}, set()),
        ({"a": True, "__all__": False}, {"a": {"TimeLimit.truncated": True}}, set(), {"a"}),
        ({"a": True, "b": True, "__all__": True}, {"a": {"TimeLimit.truncated": True}}, {"b", "__all__"}, {"a"}),
        ({"__all__": True}, {"a": {"TimeLimit.truncated": True}}, set(), {"__all__"}),
        ({"__all__": True}, {}, {"__all__"}, set()),
        ({"__all__": True}, {"a": {}}, {"__all__"}, set()),
    ],
)
def test_an_end_is_a_truncation_where_the_infos_say_so(dones, infos, terminated, truncated):
    class Ending(Meeting):
        def step(self, actions):
            return {}, {}, dones, infos

    env = adapted(Ending())
    env.reset(seed=0)
    _, _, ended, cut, _ = env.step({})
    assert {agent for agent, over in ended.items() if over} == terminated
    assert {agent for agent, over in cut.items() if over} == truncated


def test_spaces_come_from_the_environment_or_from_whoever_knows_them():
    class Named(Meeting):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Dict({"a": gym.spaces.Discrete(3)})
            self.agents = [object()]  # RLlib's make_multi_agent keeps environments there

    env = adapted(Named())
    assert env.get_observation_space("a").n == 3 and env.get_action_space("a").n == 2
    known = adapted(Named(), lambda agent: (gym.spaces.Discrete(7), None))
    assert known.get_observation_space("a").n == 7 and known.get_action_space("a").n == 2
    assert isinstance(env, OldMultiAgentEnv) and adapted(env) is env


def test_adapted_environments_train_and_survive_cloudpickle():
    made = make_env(lambda: adapted(Meeting()), None, (), 2, "serial")
    made.reset(lambda lane, episode: lane)
    made.close()
    trainer = Trainer(
        lambda limit=6: adapted(Meeting({"limit": limit})), PPOConfig(minibatch_size=16), num_envs=2, seed=0
    )
    assert trainer.train(stop={"env_steps": 100}).env_steps >= 100
    single = make_env(lambda: adapted(gym.make("CartPole-v0")), None, (), 2, "processes", helpers=1)
    single.reset(lambda lane, episode: lane)
    single.step([np.zeros(2, np.int64)])
    single.close()


def test_adapted_environments_can_be_pickled():
    env = adapted(gym.make("CartPole-v0"))
    env.reset(seed=1)
    twin = pickle.loads(pickle.dumps(env))
    assert np.array_equal(env.step(0)[0], twin.step(0)[0])
