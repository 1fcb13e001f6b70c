"""All forms in which a user may name an environment, and the messages when there is none."""

import functools
import sys

import gymnasium
import numpy as np
import pettingzoo.classic.tictactoe_v3
import pytest
from counting import ComingAndGoing, Counting, CountingParallel
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from messages import check_error
from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import action_spec
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.make import env_name, make_env
from rookery.envs.random_play import random_actions, random_rows
from rookery.envs.vector.serial import SerialEnv
from rookery.tasks.games.arena import BatchedArena, MultiAgentArena


def made(env, implementation="serial", wrappers=(), lanes=1, render=False, **config):
    return make_env(env, config, wrappers, lanes, implementation, render=render)


def message(*args, **kwargs):
    with pytest.raises(EnvError) as caught:
        made(*args, **kwargs)
    return str(caught.value)


class Doubled(gymnasium.Wrapper):
    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, 2 * reward, *rest


def plus_one(env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)


@pytest.mark.parametrize(
    "env",
    ["CartPole-v1", Counting, "counting:Counting", functools.partial(Counting, truncate_at=3), lambda: Counting()],
)
def test_gym_envs_by_id_class_import_path_and_callable_have_one_agent(env):
    vector = made(env, lanes=2)
    assert isinstance(vector, SerialEnv)
    assert [kind.agents for kind in vector.kinds] == [("agent",)]


@pytest.mark.parametrize(
    "env",
    [
        pettingzoo.classic.tictactoe_v3,
        pettingzoo.classic.tictactoe_v3.env,
        pettingzoo.classic.tictactoe_v3.raw_env,
        "pettingzoo.classic.tictactoe_v3",
        "pettingzoo.classic.tictactoe_v3:env",
    ],
)
def test_pettingzoo_games_by_module_function_class_and_path(env):
    assert made(env).kinds[0].agents == ("player_1", "player_2")


def test_minigrid_ids_register_themselves():
    env = made("MiniGrid-Empty-5x5-v0")
    assert {leaf.path for leaf in env.kinds[0].obs.leaves} == {"image", "direction"}
    assert env.notes == (
        "MiniGrid-Empty-5x5-v0: mission: MissionSpace observations cannot be used; that part is left out",
    )


def test_the_config_reaches_the_constructor_and_wrappers_wrap_in_order():
    env = made(Counting, wrappers=[Doubled, plus_one, "test_make:Doubled"], terminate_at=2)
    env.reset(lambda lane, episode: 0)
    assert env.step([np.zeros(1, int)]).rows[0].reward.tolist() == [6]  # 2 * (2 * 1 + 1)
    assert env.step([np.zeros(1, int)]).rows[0].terminated.tolist() == [True]


@pytest.mark.usefixtures("no_twins_in_c")
def test_the_batched_twin_is_taken_unless_wrappers_or_settings_forbid_it():
    assert isinstance(made(MultiAgentArena, "auto", lanes=3), BatchedArena)
    assert isinstance(made("rookery.tasks.games.arena:MultiAgentArena", "batched", width=4), BatchedArena)
    assert isinstance(made("CartPole-v1", "auto"), BatchedCartPole)
    assert isinstance(made("CartPole-v1", "serial"), SerialEnv)
    assert isinstance(made("CartPole-v1", "auto", wrappers=[Doubled]), SerialEnv)
    assert isinstance(made("CartPole-v1", "auto", disable_env_checker=True), SerialEnv)  # the twin does not know that


def test_a_subclass_is_not_replaced_by_its_parents_twin():
    class Own(MultiAgentArena):
        pass

    assert isinstance(made(Own, "auto"), SerialEnv)


def test_a_vector_env_class_is_used_as_it_is():
    assert isinstance(made(BatchedArena, "auto", lanes=2, width=3), BatchedArena)
    assert "cannot be wrapped" in message(BatchedArena, "auto", wrappers=[Doubled])


def test_serial_and_batched_cartpole_play_the_same():
    def play(implementation):
        env = made("CartPole-v1", implementation, lanes=2)
        shown, found = env.reset(lambda lane, episode: 10 * lane + episode), []
        for t in range(60):
            shown = env.step([np.array([t % 2, t % 3 % 2])])
            found.append((shown.rows[0].obs["obs"].tolist(), shown.rows[0].terminated.tolist(), shown.ended.tolist()))
        return found

    assert play("serial") == play("batched")


def test_a_missing_package_comes_with_the_command_that_installs_it(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in ("Box2D", "minigrid", "ale_py")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("Box2D", "minigrid", "ale_py"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in gymnasium.registry if name.startswith("ALE/")]:  # left by the test that loaded ale_py
        monkeypatch.delitem(gymnasium.registry, name)
    assert "pip install" in message("LunarLander-v3") and "box2d" in message("LunarLander-v3")
    assert (
        message("MiniGrid-Nowhere-v0") == "env 'MiniGrid-Nowhere-v0' needs the package minigrid: pip install minigrid"
    )
    assert message("ALE/Pong-v5").endswith("needs the package ale-py: pip install ale-py")


def test_render_asks_those_for_pictures_that_take_a_render_mode():
    assert made(Counting, render=True)._lanes[0].env.render_mode == "rgb_array"
    assert made(Counting)._lanes[0].env.render_mode is None
    assert made("CartPole-v1", render=True)._lanes[0].env.render_mode == "rgb_array"
    assert made(pettingzoo.classic.tictactoe_v3, render=True)._lanes[0].env.unwrapped.render_mode == "rgb_array"
    assert made(CountingParallel, render=True).render(0) is None


def test_names_are_short():
    assert env_name("CartPole-v1") == "CartPole-v1"
    assert env_name("my.module:MyEnv") == "MyEnv"
    assert env_name("pettingzoo.classic.tictactoe_v3") == "tictactoe_v3"
    assert env_name("pettingzoo.classic.tictactoe_v3:env") == "tictactoe_v3"
    assert env_name(pettingzoo.classic.tictactoe_v3) == "tictactoe_v3"
    assert env_name(pettingzoo.classic.tictactoe_v3.env) == "tictactoe"
    assert env_name(Counting) == "Counting"
    assert env_name(functools.partial(Counting, truncate_at=3)) == "Counting"
    assert env_name(lambda: None) == "env"


def test_random_rows_are_the_observations_of_those_who_waited():
    # ComingAndGoing shows a: 0 2 5, b: 1 3, c: (2, 2) (3, 3) (4, 4) (5, 5) before it begins again
    trees = random_rows(made(ComingAndGoing), lambda lane, episode: 0, 6, np.random.default_rng(0))
    assert trees[0]["obs"][:, 0].tolist() == [0, 1, 2, 3, 5]
    assert trees[1]["obs"][:, 0].tolist() == [2, 3, 4, 5]


def test_random_rows_of_kinds_that_appear_late_are_there_too():
    trees = random_rows(made(ComingAndGoing, announced=False), lambda lane, episode: 0, 3, np.random.default_rng(0))
    assert trees[0]["obs"][:, 0].tolist() == [0, 1, 2]
    assert trees[1]["obs"].tolist() == [[2, 2]]
    late = random_rows(made(ComingAndGoing, announced=False), lambda lane, episode: 0, 2, np.random.default_rng(0))
    assert late[1]["obs"].shape == (0, 2)


def test_random_actions_are_allowed_and_even():
    rng = np.random.default_rng(0)
    spec = action_spec(spaces.MultiDiscrete([2, 3]))
    mask = np.tile([False, True, True, False, True], (4000, 1))
    drawn = random_actions(spec, 4000, mask, rng)
    assert drawn[:, 0].tolist() == [1] * 4000
    assert np.bincount(drawn[:, 1], minlength=3) == pytest.approx([2000, 0, 2000], abs=150)  # 5 standard deviations
    box = action_spec(spaces.Box(np.array([-1, -np.inf], np.float32), np.array([3, np.inf], np.float32)))
    drawn = random_actions(box, 4000, None, rng)
    assert abs(drawn[:, 0]).max() <= 1 < abs(drawn[:, 1]).max()
    flags = random_actions(action_spec(spaces.MultiBinary(2)), 4000, None, rng)
    assert flags.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.04)
    parts = action_spec(spaces.Tuple((spaces.Box(-1, 1, (1,)), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(1))))
    drawn = random_actions(parts, 4000, mask, rng)
    assert drawn.dtype == np.float32
    assert drawn[:, 0].tolist() == [1] * 4000  # choices first, then the flag, then the number
    assert set(drawn[:, 1]) == {0, 2}
    assert set(drawn[:, 2]) == {0, 1}
    assert drawn[:, 3].min() < -0.9 and drawn[:, 3].max() > 0.9


def test_a_path_that_is_no_player_says_what_is_wrong_with_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Build").mkdir()
    (tmp_path / "Build" / "Game.x86_64").write_text("#!/bin/sh\n")
    with pytest.raises(EnvError, match=r"Game\.x86_64'?: it may not be run: chmod \+x"):
        made("Build/Game")
    with pytest.raises(EnvError, match=r"player 'Build/Nope': there is no such file in"):
        made("Build/Nope")


def fails(env=None):
    raise OSError("no display")


def vector():
    return gymnasium.make_vec("CartPole-v1", num_envs=2)


MISTAKES = [
    (
        lambda: made("LunarLander-v2"),
        "UnknownEnvError: 'LunarLander-v2' is not a Gymnasium id; ... 'LunarLander-v3'",
    ),
    (lambda: made("CartPole-v7"), "UnknownEnvError: did you mean 'CartPole-v1'?"),
    (lambda: made("cartpole-v1"), "UnknownEnvError: did you mean 'CartPole-v1'?"),
    (lambda: made("Nothing-v0"), "UnknownEnvError: an own environment is named 'my.module:MyEnv'"),
    (lambda: made("nowhere.at.all:MyEnv"), "EnvError: env 'nowhere.at.all:MyEnv': there is no module 'nowhere'"),
    (lambda: made("counting:Countin"), "EnvError: module counting has no 'Countin'; did you mean 'Counting'?"),
    (lambda: made(np), "EnvError: module numpy has neither parallel_env nor env"),
    (lambda: made(Counting()), "EnvError: env is an instance of Counting, expected something that makes environments"),
    (
        lambda: made(gymnasium.wrappers.TimeLimit(CartPoleEnv(), 5)),
        "EnvError: write the class CartPoleEnv itself, and its wrappers as wrappers=[...]",
    ),
    (lambda: made([Counting]), "EnvError: env is an instance of list, ... num_envs is the number of environments"),
    (lambda: made(dict), "EnvError: dict makes dict, expected one Gymnasium, ... it has no reset and"),
    (lambda: made(vector), "EnvError: it plays many environments itself"),
    (lambda: made(Counting, "sreial"), "EnvError: 'sreial' is unknown; did you mean 'serial'?"),
    (lambda: made(Counting, "batched"), "EnvError: 'batched' cannot be used: this environment has no batched variant"),
    (lambda: made("CartPole-v1", "batched", [Doubled]), "EnvError: env.wrappers wrap single environments"),
    (lambda: made("CartPole-v1", gravity=3), "EnvError: CartPole-v1: env.config has 'gravity', unknown to it"),
    (
        lambda: made(Counting, terminate_a=3),
        "EnvError: Counting: env.config has 'terminate_a', ... 'terminate_at'?",
    ),
    (lambda: made(Counting, terminate_a=3), "EnvError: it takes terminate_at, truncate_at, mutate, render_mode"),
    (lambda: made(fails), "EnvError: fails: building it with env.config {} raised OSError: no display"),
    (lambda: made(Counting, wrappers=[fails]), "EnvError: Counting: wrapper fails raised OSError: no display"),
    (lambda: made(Counting, wrappers=["Doubled"]), "EnvError: env.wrappers: 'Doubled' is not an import path"),
    (lambda: made(Counting, wrappers=["test_make:Doubld"]), "EnvError: has no 'Doubld'; did you mean 'Doubled'?"),
    (lambda: made(Counting, wrappers=[3]), "EnvError: env.wrappers: 3 is int, expected a callable"),
]


@pytest.mark.parametrize(("make", "expected"), MISTAKES)
def test_what_cannot_be_made_is_named_with_the_nearest_that_can(make, expected):
    check_error(expected, make)
