"""`gym` of 2021: reset() -> obs, four values from step(), old ids, spaces, wrappers, pictures without windows."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

from rookery_rllib.base import notices
from rookery_rllib.base.imports import module
from rookery_rllib.gym import old_ids
from rookery_rllib.gym.seeding import hash_seed, np_random

gym = module("gym")
rendering = module("gym.envs.classic_control.rendering")


@pytest.fixture(autouse=True)
def _say_again(monkeypatch):
    monkeypatch.setattr(notices, "_printed", set())


def play(env, steps: int):
    rows = [env.reset()]
    for _ in range(steps):
        obs, reward, done, info = env.step(env.action_space.sample())
        rows.append((obs, reward, done, info))
        if done:
            break
    return rows


def test_cartpole_v0_keeps_its_200_steps_and_says_once_what_it_is(capsys):
    env = gym.make("CartPole-v0")
    gym.make("CartPole-v0")
    assert capsys.readouterr().err.count("CartPole-v1") == 1
    assert env.spec.id == "CartPole-v0" and env.spec.max_episode_steps == env._max_episode_steps == 200
    assert env.seed(3) == [3]
    first = env.reset()
    assert first.shape == (4,) and isinstance(env, gym.Env) and isinstance(env, gym.wrappers.TimeLimit)
    env.seed(3)
    assert np.array_equal(env.reset(), first)
    env.unwrapped.theta_threshold_radians = env.unwrapped.x_threshold = 1e9  # it never falls
    ends = [env.step(0) for _ in range(200)]
    assert [done for _, _, done, _ in ends] == [False] * 199 + [True]
    assert ends[-1][3]["TimeLimit.truncated"] is True and "TimeLimit.truncated" not in ends[0][3]


def test_an_end_of_the_task_is_no_truncation():
    env = gym.make("CartPole-v1")
    rows = play(env, 500)
    assert rows[-1][2] is True and not rows[-1][3].get("TimeLimit.truncated")
    with pytest.raises(gymnasium.error.ResetNeeded):
        gym.make("CartPole-v1").step(0)


@pytest.mark.parametrize(
    "name", ["Pendulum-v0", "FrozenLake-v0", "Taxi-v3", "CliffWalking-v0", "MountainCar-v0", "Acrobot-v1"]
)
def test_old_ids_play(name):
    env = gym.make(name)
    for row in play(env, 5)[1:]:
        assert len(row) == 4
        assert env.observation_space.contains(row[0])
    assert pickle.loads(pickle.dumps(env)).spec.id == copy.deepcopy(env).spec.id == name


def test_what_old_ids_stand_for():
    assert old_ids.current_id("LunarLander-v2").id == "LunarLander-v3"
    assert old_ids.current_id("LunarLanderContinuous-v2").kwargs == {"continuous": True}
    assert old_ids.current_id("CartPole-v0").max_episode_steps == 200
    assert old_ids.current_id("HalfCheetah-v2").id == "HalfCheetah-v5"
    assert old_ids.current_id("CartPole-v1") == old_ids.CurrentId("CartPole-v1")


def test_atari_ids_keep_their_settings():
    pytest.importorskip("ale_py")
    pong = old_ids.current_id("PongNoFrameskip-v4")
    assert (pong.id, pong.kwargs["frameskip"], pong.kwargs["repeat_action_probability"]) == ("ALE/Pong-v5", 1, 0.0)
    assert old_ids.current_id("Breakout-ram-v0").kwargs == {
        "frameskip": (2, 5), "repeat_action_probability": 0.25, "obs_type": "ram",
    }  # fmt: skip
    assert old_ids.current_id("SpaceInvadersDeterministic-v4").kwargs["frameskip"] == 3
    env = gym.make("PongNoFrameskip-v4")
    assert env.reset().shape == (210, 160, 3) and len(env.step(0)) == 4


def test_an_id_that_is_not_there_says_so():
    with pytest.raises(gymnasium.error.UnregisteredEnv, match="did you mean 'CartPole-v"):
        gym.make("CartPol-v0")
    with pytest.raises(gymnasium.error.UnregisteredEnv, match="NChain-v0 is not supported"):
        gym.make("NChain-v0")


class Corridor(gym.Env):
    def __init__(self, length=3):
        self.length = length
        self.observation_space = gym.spaces.Box(0.0, length, (1,))
        self.action_space = gym.spaces.Discrete(2)

    def reset(self):
        self.place = 0
        return [self.place]

    def step(self, action):
        self.place += action
        return [self.place], 1.0, self.place >= self.length, {}


def test_own_environments_can_be_registered():
    gym.register(id="Corridor-v7", entry_point=Corridor, max_episode_steps=4, kwargs={"length": 9})
    env = gym.make("Corridor-v7")
    assert env.unwrapped.length == 9 and gym.make("Corridor-v7", length=2).length == 2
    assert len(play(env, 10)) == 5 and env.spec.max_episode_steps == 4
    assert "Corridor-v7" in gym.envs.registration.registry.env_specs and env.env.spec is env.spec
    by_path = gym.envs.registration.EnvSpec("Pole-v1", entry_point="gym.envs.classic_control:CartPoleEnv").make()
    assert by_path.reset().shape == (4,)
    with gym.make("Corridor-v7") as entered:
        assert str(entered) == "<TimeLimit<Corridor<Corridor-v7>>>"


def test_wrappers_change_what_passes():
    class Negative(gym.ObservationWrapper):
        def observation(self, observation):
            return [-observation[0]]

    class Doubled(gym.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    class Flipped(gym.ActionWrapper):
        def action(self, action):
            return 1 - action

    env = Flipped(Doubled(Negative(Corridor())))
    assert env.reset() == [0] and env.step(0) == ([-1], 2.0, False, {})
    assert isinstance(env.unwrapped, Corridor) and env.length == 3
    with pytest.raises(AttributeError):
        env._secret  # noqa: B018
    stacked = gym.wrappers.FrameStack(gym.wrappers.TransformObservation(Corridor(), np.asarray), 3)
    assert stacked.reset().shape == (3, 1) and stacked.observation_space.shape == (3, 1)
    counted = gym.wrappers.RecordEpisodeStatistics(Corridor(1))
    counted.reset()
    assert counted.step(1)[3]["episode"] == {"r": 1.0, "l": 1}
    rescaled = gym.wrappers.RescaleAction(gym.make("Pendulum-v0"), -1, 1)
    assert rescaled.action(np.array([0.5], np.float32)) == pytest.approx([1.0])
    assert gym.Wrapper(gymnasium.make("CartPole-v1")).reset().shape == (4,)


def test_pictures_are_resized_and_grey():
    class Pictures(Corridor):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 255, (20, 10, 3), np.uint8)

        def reset(self):
            return np.full((20, 10, 3), 100, np.uint8)

    grey = gym.wrappers.ResizeObservation(gym.wrappers.GrayScaleObservation(Pictures()), 5)
    assert grey.observation_space.shape == (5, 5) and (grey.reset() == 100).all()


def test_classes_can_be_inherited():
    class Stateless(gym.envs.classic_control.CartPoleEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(-1, 1, (2,))

        def reset(self):
            return super().reset()[[0, 2]]

        def step(self, action):
            obs, reward, done, info = super().step(action)
            return obs[[0, 2]], reward, done, info

    env = Stateless()
    env.seed(5)
    first = env.reset()
    assert first.shape == (2,) and env.step(1)[0].shape == (2,)
    env.seed(5)
    assert np.array_equal(env.reset(), first)
    assert isinstance(env, gym.Env) and env.unwrapped is env
    lake = module("gym.envs.toy_text").FrozenLakeEnv()
    assert lake.reset() == 0 and len(lake.step(2)) == 4


def test_spaces_are_those_of_gymnasium_and_do_what_they_did():
    spaces = gym.spaces
    box = spaces.Box([0, -1], [2, 1.5], dtype=np.float32)
    assert (
        box.shape == (2,) and isinstance(box, gymnasium.spaces.Box) and box == gymnasium.spaces.Box(box.low, box.high)
    )
    assert box.contains(np.array([1.0, 1.0])) and box.contains([1, 1]) and not box.contains([3, 0])  # float64, lists
    assert spaces.Box(0, 255, shape=(4, 4, 3), dtype=np.uint8).sample().dtype == np.uint8
    assert spaces.Box(-np.inf, np.inf, shape=(2,)).contains([1e9, 0])
    assert spaces.Box(low=-1, high=300, shape=(1,), dtype=np.uint8).high.tolist() == [255]
    assert type(spaces.Discrete(4).sample()) is int and spaces.Discrete(np.int64(4)).n == 4
    assert isinstance(gymnasium.spaces.Discrete(3), spaces.Discrete) and not isinstance(box, spaces.Discrete)
    assert issubclass(gymnasium.spaces.Box, spaces.Box) and spaces.Space is gym.Space
    both = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple([spaces.MultiDiscrete([2, 3]), box])})
    assert list(both.spaces) == ["a", "b"] and both.contains(both.sample())
    assert copy.deepcopy(both) == pickle.loads(pickle.dumps(both)) == both
    assert spaces.utils.flatdim(both) == 2 + 5 + 2

    class Own(spaces.Box):
        pass

    assert isinstance(Own(0, 1, (1,)), Own) and not isinstance(box, Own)


def test_generators_repeat_with_a_seed():
    (one, seed), (two, _) = np_random(5), np_random(5)
    assert seed == 5 and one.randint(1000) == two.randint(1000) and one.rand() == two.rand()
    assert np_random()[1] != np_random()[1] and hash_seed(1) != hash_seed(2)
    with pytest.raises(gymnasium.error.Error, match="-1"):
        np_random(-1)


def test_the_logger_has_levels(capsys):
    logger = module("gym.logger")
    logger.set_level(logger.ERROR)
    logger.warn("unseen")
    logger.error("seen %s", 3)
    logger.set_level(30)
    assert capsys.readouterr().err == "ERROR: seen 3\n"


def test_a_viewer_draws_what_it_was_given():
    viewer = rendering.Viewer(40, 20)
    assert viewer.render(return_rgb_array=True).shape == (20, 40, 3)
    box = rendering.FilledPolygon([(0, 0), (0, 10), (10, 10), (10, 0)])
    box.set_color(1, 0, 0)
    where = rendering.Transform(translation=(20, 0))
    box.add_attr(where)
    viewer.add_geom(box)
    viewer.draw_line((0, 15), (10, 15), color=(0, 0, 1))
    picture = viewer.render(return_rgb_array=True)
    assert picture[15, 25].tolist() == [255, 0, 0] and picture[15, 5].tolist() == [255] * 3  # y points up
    assert picture[5, 5].tolist() == [0, 0, 255] and viewer.get_array()[5, 5].tolist() == [255] * 3  # shown once
    where.set_translation(0, 0)
    where.set_scale(1, 0.5)
    picture = viewer.get_array()
    assert picture[17, 5].tolist() == [255, 0, 0] and picture[12, 5].tolist() == [255] * 3
    where.set_rotation(np.pi / 2)  # turns to the left, out of sight
    assert (viewer.get_array()[:, 1:] == 255).all()
    assert viewer.render() and viewer.render(False)
    viewer.close()
    assert not viewer.isopen


def test_bounds_move_what_is_seen():
    viewer = rendering.Viewer(20, 20)
    viewer.set_bounds(-1, 1, -1, 1)
    pole = rendering.make_capsule(0.8, 0.2)
    pole.set_color(0, 1, 0)
    viewer.add_geom(pole)
    viewer.add_geom(rendering.make_circle(0.1, filled=False))
    viewer.add_geom(rendering.make_polyline([(-1, -0.9), (1, -0.9)]))
    picture = viewer.render(return_rgb_array=True)
    assert picture[10, 15].tolist() == [0, 255, 0] and picture[10, 3].tolist() == [255] * 3
    assert (picture[19] < 255).all()


def test_a_picture_from_a_file_is_drawn(tmp_path):
    from PIL import Image

    Image.new("RGB", (4, 4), (0, 0, 255)).save(tmp_path / "blue.png")
    viewer = rendering.Viewer(20, 20)
    image = rendering.Image(str(tmp_path / "blue.png"), 6, 6)
    image.add_attr(rendering.Transform(translation=(10, 10)))
    viewer.add_geom(image)
    picture = viewer.get_array()
    assert picture[10, 10].tolist() == [0, 0, 255] and picture[2, 2].tolist() == [255] * 3


def test_environments_of_today_give_pictures():
    pytest.importorskip("pygame")
    env = gym.make("CartPole-v0")
    env.reset()
    assert env.render() is True
    picture = env.render(mode="rgb_array")
    assert picture.ndim == 3 and picture.dtype == np.uint8 and picture.min() < picture.max()
    env.close()


@pytest.mark.parametrize(
    ("package", "home", "name"),
    [
        ("Box2D", "gym.envs.box2d", "LunarLander"),
        ("Box2D", "gym.envs.box2d", "CarRacing"),
        ("mujoco", "gym.envs.mujoco", "HalfCheetahEnv"),
    ],
)
def test_classes_of_physics_can_be_inherited(package, home, name):
    pytest.importorskip(package)
    env = getattr(module(home), name)()
    env.seed(1)
    assert env.observation_space.contains(env.reset())
    assert len(env.step(env.action_space.sample())) == 4
