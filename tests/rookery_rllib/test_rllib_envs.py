"""RLlib's forms of environments: several agents, groups, vectors, PettingZoo, those that drive themselves."""

import threading
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

from rookery.core.errors import ConfigError, EnvError
from rookery.envs.make import make_env
from rookery.envs.random_play import random_play
from rookery_rllib.base.registrations import register_env
from rookery_rllib.env.base_env import BaseEnv
from rookery_rllib.env.envs import (
    GROUP_INFO,
    GROUP_REWARDS,
    EnvContext,
    ExternalEnv,
    ExternalMultiAgentEnv,
    MultiAgentEnv,
    ParallelPettingZooEnv,
    PettingZooEnv,
    VectorEnv,
    add_reward_uncertainty,
    check_env,
    make_multi_agent,
    vector_maker,
)
from rookery_rllib.env.external_env import as_stepped
from rookery_rllib.gym import atari_wrappers
from rookery_rllib.gym.core import Env
from rookery_rllib.trainer.trainers import PPOTrainer


class Count(Env):
    """Counts to `end`, in the old API."""

    def __init__(self, config=None):
        self.end = (config or {}).get("end", 3)
        self.observation_space, self.action_space = Box(0, 99, (1,)), Discrete(2)

    def reset(self):
        self.i = 0
        return np.array([0.0], np.float32)

    def step(self, action):
        self.i += 1
        return np.array([self.i], np.float32), float(action), self.i >= self.end, {}


class Trio(MultiAgentEnv):
    """Three agents, two of them in turns with a lone one."""

    observation_space, action_space = Discrete(5), Discrete(3)

    def reset(self):
        return {"a": 0, "b": 1, "c": 2}

    def step(self, action_dict):
        self.last = action_dict
        return {"a": 1, "b": 2, "c": 3}, {"a": 1.0, "b": 2.0, "c": 4.0}, {"a": True, "b": True, "__all__": False}, {}


def played(env, steps):
    """Returns the first steps of random play: observations, and which episodes ended."""
    play = random_play(env, lambda lane, episode: lane + episode, np.random.default_rng(0))
    shown = ((step.rows[0].obs["obs"].ravel().tolist(), step.ended.tolist()) for step in play)
    return [next(shown) for _ in range(steps)]


def test_settings_know_their_place():
    context = EnvContext({"size": 3}, worker_index=2, num_workers=4)
    other = context.copy_with_overrides({"size": 5}, vector_index=1)
    assert (other["size"], other.worker_index, other.vector_index, other.num_workers) == (5, 2, 1, 4)
    assert context["size"] == 3 and context.vector_index == 0


def test_copies_side_by_side_are_agents():
    config = EnvContext({"num_agents": 2, "end": 2}, 1)
    env = make_multi_agent(Count)(config)
    assert config["num_agents"] == 2  # what was given stays as it was
    assert sorted(env.reset()) == [0, 1]
    obs, rewards, ends, _ = env.step({0: 1, 1: 0})
    assert rewards == {0: 1.0, 1: 0.0} and ends == {0: False, 1: False, "__all__": False}
    assert obs[0].tolist() == [1]
    assert env.step({0: 1})[2] == {0: True, "__all__": False}
    assert env.step({1: 1})[2] == {1: True, "__all__": True}
    modern = make_multi_agent(lambda config: gymnasium.make("CartPole-v1"))({"num_agents": 2})
    modern.seed(5)
    first = modern.reset()
    modern.seed(5)
    assert all((first[i] == again).all() for i, again in modern.reset().items()) and (first[0] != first[1]).any()
    assert len(modern.step({0: 0, 1: 1})) == 4


def test_groups_see_and_act_as_one():
    env = Trio().with_agent_groups({"g": ["a", "b"]})
    assert env.observation_space == Tuple([Discrete(5)] * 2) and env.action_space == Tuple([Discrete(3)] * 2)
    assert env.reset() == {"g": [0, 1], "c": 2}
    obs, rewards, ends, infos = env.step({"g": (2, 1), "c": 0})
    assert env.env.last == {"a": 2, "b": 1, "c": 0}
    assert obs == {"g": [1, 2], "c": 3} and rewards == {"c": 4.0, "g": 3.0}
    assert ends == {"__all__": False, "g": True} and infos["g"] == {GROUP_INFO: [{}, {}], GROUP_REWARDS: [1.0, 2.0]}
    with pytest.raises(ValueError, match="two groups"):
        Trio().with_agent_groups({"g": ["a"], "h": ["a"]})
    late = Trio().with_agent_groups({"g": ["a", "d"]}, Tuple([Discrete(5)] * 2), Tuple([Discrete(3)] * 2))
    with pytest.raises(ValueError, match="d has no observation"):
        late.reset()


def test_noise_on_rewards():
    env = add_reward_uncertainty(Trio, 0.0, 0.5)()
    env.reset()
    assert env.step({})[1] == {"a": 1.5, "b": 2.5, "c": 4.5}


class Pair(VectorEnv):
    """Two copies of `Count` in lists, written by hand."""

    def __init__(self):
        super().__init__(Box(0, 99, (1,)), Discrete(2), 2)
        self.copies = [Count({"end": 2}), Count({"end": 3})]

    def vector_reset(self):
        return [copy.reset() for copy in self.copies]

    def reset_at(self, index=None):
        return self.copies[index].reset()

    def vector_step(self, actions):
        return tuple(map(list, zip(*[copy.step(a) for copy, a in zip(self.copies, actions, strict=True)], strict=True)))


def test_vectors_are_played_by_rookery():
    steps = played(make_env(vector_maker(Pair), None, (), 4, "auto"), 4)
    assert steps[0] == ([0, 0, 0, 0], [False] * 4)
    assert steps[2] == ([0, 2, 0, 2], [True, False, True, False])
    assert steps[3] == ([1, 0, 1, 0], [False, True, False, True])
    with pytest.raises(EnvError, match="not a multiple"):
        make_env(vector_maker(Pair), None, (), 3, "auto")


def test_single_environments_as_a_vector():
    env = VectorEnv.wrap(lambda i: Count({"end": 2 + i}), num_envs=3)
    assert len(env.vector_reset()) == 3 and len(env.get_unwrapped()) == 3
    obs, rewards, ends, _ = env.vector_step([1, 0, 1])
    assert [one.tolist() for one in obs] == [[1], [1], [1]] and rewards == [1.0, 0.0, 1.0] and ends == [False] * 3
    assert env.vector_step([1, 1, 1])[2] == [True, False, False]
    assert env.reset_at(0).tolist() == [0]
    with pytest.raises(ValueError, match="make_env"):
        VectorEnv.wrap(existing_envs=[Count()], num_envs=2)


def test_base_envs_say_who_waits():
    base = BaseEnv.to_base_env(Count({"end": 1}), lambda i: Count(), 2)
    obs, rewards, ends, _, _ = base.poll()
    assert sorted(obs) == [0, 1] and rewards[0] == {"agent0": None} and ends[1] == {"__all__": False}
    base.send_actions({0: {"agent0": 1}, 1: {"agent0": 0}})
    assert base.poll()[2] == {0: {"__all__": True}, 1: {"__all__": False}}
    assert base.try_reset(0)["agent0"].tolist() == [0] and len(base.get_unwrapped()) == 2
    many = BaseEnv.to_base_env(make_multi_agent(Count)({"num_agents": 2, "end": 1}))
    assert sorted(many.poll()[0][0]) == [0, 1]
    many.send_actions({0: {0: 1, 1: 1}})
    assert many.poll()[2][0]["__all__"]
    with pytest.raises(ValueError, match="is over"):
        many.send_actions({0: {0: 1}})
    assert sorted(many.try_reset(0)) == [0, 1]
    with pytest.raises(ConfigError, match="num_workers"):
        BaseEnv.to_base_env(Count(), remote_envs=True)


def test_a_broken_environment_is_told():
    check_env(Count())
    check_env(make_multi_agent(Count)({"num_agents": 2}))
    broken = Count()
    broken.observation_space = Box(0, 99, (2,))
    with pytest.raises(ConfigError, match="shape"):
        check_env(broken)


class Driver(ExternalEnv):
    """Counts to 3 in its own loop; an action of 1 earns 1."""

    def run(self):
        for _ in range(2):
            episode = self.start_episode()
            for i in range(3):
                action = self.get_action(episode, np.array([i], np.float32))
                self.log_returns(episode, 0.5)
                self.log_returns(episode, float(action) - 0.5, info={"i": i})
            self.end_episode(episode, np.array([3], np.float32))


def test_an_environment_that_drives_itself_is_stepped():
    env = as_stepped(Driver(Discrete(2), Box(0, 9, (1,))))
    for _ in range(2):
        assert env.reset(seed=1)[0].tolist() == [0]
        shown = [env.step(action) for action in (1, 0, 1)]
        assert [one[0].item() for one in shown] == [1, 2, 3]
        assert [one[1] for one in shown] == [1.0, 0.0, 1.0] and [one[2] for one in shown] == [False, False, True]
        assert shown[1][4] == {"i": 1}
    with pytest.raises(EnvError, match="no more episodes"):
        env.reset()
    lane = make_env(lambda: as_stepped(Driver(Discrete(2), Box(0, 9, (1,)))), None, (), 1, "serial")
    assert played(lane, 4)[3][1] == [True]


def test_what_it_raises_is_told_and_closing_lets_it_go():
    class Broken(ExternalEnv):
        def run(self):
            raise ZeroDivisionError("no more")

    with pytest.raises(EnvError, match=r"Broken.run\(\) raised ZeroDivisionError: no more"):
        as_stepped(Broken(Discrete(2), Discrete(2))).reset()
    env = as_stepped(Driver(Discrete(2), Box(0, 9, (1,))))
    env.reset()
    env.close()
    env.external.join(5)
    assert not env.external.is_alive()
    with pytest.raises(ConfigError, match="get_action"):
        env.external.log_action("x", 0, 0)
    with pytest.raises(ConfigError, match="training_enabled"):
        env.external.start_episode(training_enabled=False)
    assert threading.current_thread().is_alive()


def test_several_agents_that_drive_themselves():
    class Two(ExternalMultiAgentEnv):
        def run(self):
            while True:
                name = self.start_episode()
                actions = self.get_action(name, {"x": 0, "y": 1})
                self.log_returns(name, {agent: float(a) for agent, a in actions.items()})
                self.log_returns(name, {"x": 1.0})
                self.end_episode(name, {"x": 1, "y": 1})

    env = as_stepped(Two(Discrete(2), Discrete(2)))
    assert env.reset(seed=0) == ({"x": 0, "y": 1}, {})
    assert env.step({"x": 1, "y": 0})[:3] == ({"x": 1, "y": 1}, {"x": 2.0, "y": 0.0}, {"__all__": True})
    env.close()


class Relay(ExternalMultiAgentEnv):
    """A cat that is seen in each of 3 steps, a dog whose part ends first, a bird that comes later."""

    def run(self):
        self.got = []
        while True:
            name = self.start_episode()
            self.got.append(self.get_action(name, {"cat": 0, "dog": 1}))
            self.log_returns(name, {"cat": 1.0, "dog": 2.0}, multiagent_done_dict={"dog": True, "__all__": False})
            self.got.append(self.get_action(name, {"cat": 1, "bird": 0}))
            self.log_returns(name, {"cat": 4.0, "bird": 8.0})
            self.log_returns(name, {"bird": 16.0}, info={"cat": {"told": 1}})
            self.got.append(self.get_action(name, {"cat": 2}))
            self.log_returns(name, {"bird": 32.0})
            self.end_episode(name, {"cat": 3, "bird": 1})


def test_agents_that_drive_themselves_come_and_go_and_have_policies():
    env = as_stepped(Relay(Discrete(2), Discrete(5)))
    assert env.reset()[0] == {"cat": 0, "dog": 1}
    obs, rewards, ends, _, _ = env.step({"cat": 1, "dog": 1})
    assert (obs, rewards) == ({"cat": 1, "bird": 0}, {"cat": 1.0, "dog": 2.0})
    assert ends == {"dog": True, "__all__": False}
    obs, rewards, ends, _, infos = env.step({"cat": 1, "bird": 0})
    assert (obs, rewards, ends) == ({"cat": 2}, {"cat": 4.0, "bird": 24.0}, {"__all__": False})
    assert infos == {"cat": {"told": 1}}
    assert env.step({"cat": 0})[:3] == ({"cat": 3, "bird": 1}, {"bird": 32.0}, {"__all__": True})
    env.close()
    config = {"env": "relay", "num_workers": 0, "rollout_fragment_length": 4, "train_batch_size": 48,
              "sgd_minibatch_size": 24, "num_sgd_iter": 1, "model": {"fcnet_hiddens": [8]},
              "multiagent": {"policies": {"walks": (None, Discrete(5), Discrete(2), {}),
                                          "flies": (None, Discrete(5), Discrete(2), {})},
                             "policy_mapping_fn": lambda agent, **_: "flies" if agent == "bird" else "walks"},
              }  # fmt: skip
    register_env("relay", lambda _: Relay(Discrete(2), Discrete(5)))
    trainer = PPOTrainer(config=config)
    result = trainer.train()
    trainer.stop()
    assert result["episode_reward_mean"] == 1 + 2 + 4 + 8 + 16 + 32
    assert result["policy_reward_mean"] == {"walks": 3.5, "flies": 56.0}


@pytest.mark.parametrize("by_agent", [True, False])
def test_a_misspelt_agent_that_drives_itself_is_refused_once(by_agent):
    spaces = [dict.fromkeys(("cat", "dog"), Discrete(n)) if by_agent else Discrete(n) for n in (2, 5)]
    caught = []

    class Misspelt(ExternalMultiAgentEnv):
        def run(self):
            name = self.start_episode()
            self.get_action(name, {"cat": 0, "dog": 1})
            for said in ({"catt": 1.0}, {}), ({"cat": 1.0}, {"dgo": True}), (1.0, {}):
                try:
                    self.log_returns(name, *said[:1], multiagent_done_dict=said[1])
                except ValueError as error:
                    caught.append(str(error))
            self.log_returns(name, {"cat": 2.0})
            self.end_episode(name, {"cat": 0})

    env = as_stepped(Misspelt(*spaces))
    env.reset()
    assert env.step({"cat": 0, "dog": 0})[1] == {"cat": 2.0}, "what was refused is not noted"
    assert caught[0] == "reward of agent 'catt', which is unknown; did you mean 'cat'? (agents: cat, dog)"
    assert caught[1] == "done of agent 'dgo', which is unknown; did you mean 'dog'? (agents: cat, dog)"
    assert caught[2] == "log_returns: reward is 1.0, expected a dict by agent"


def test_environments_of_pettingzoo():
    from pettingzoo.classic import rps_v2

    turns = PettingZooEnv(rps_v2.env(max_cycles=2))
    obs = turns.reset()
    assert list(obs) == ["player_0"]
    ended = False
    while not ended:
        obs, rewards, ends, _ = turns.step(dict.fromkeys(obs, 0))
        ended = ends["__all__"]
    assert sorted(rewards) == ["player_0", "player_1"]
    both = ParallelPettingZooEnv(rps_v2.parallel_env(max_cycles=2))
    assert sorted(both.reset()) == ["player_0", "player_1"]
    assert not both.step({"player_0": 0, "player_1": 1})[2]["__all__"]
    assert both.step({"player_0": 0, "player_1": 1})[2]["__all__"]
    assert both.observation_space == both.observation_spaces["player_0"]


@pytest.mark.regression(
    "no end", "A PettingZoo environment that keeps its agents in `env.agents` ends in RLlib's wrapper too"
)
def test_an_episode_is_over_when_all_listed_agents_have_their_flag_set():
    from pettingzoo import ParallelEnv

    class Kept(ParallelEnv):
        possible_agents = agents = ["x", "y"]
        observation_spaces = action_spaces = dict.fromkeys(agents, Discrete(2))

        def observation_space(self, agent):
            return Discrete(2)

        action_space = observation_space

        def reset(self, seed=None, options=None):
            self.t = 0
            return {"x": 0, "y": 0}, {"x": {}, "y": {}}

        def step(self, actions):
            self.t += 1
            ended = {"x": True, "y": self.t == 2}
            return {"x": 0, "y": 0}, {"x": 0.0, "y": 1.0}, ended, {"x": False, "y": False}, {"x": {}, "y": {}}

    listed = ParallelPettingZooEnv(Kept())
    listed.reset()
    assert not listed.step({"x": 0, "y": 1})[2]["__all__"]
    assert listed.step({"y": 1})[2]["__all__"]


class Picture(gymnasium.Env):
    """A bright half that counts, in today's API."""

    observation_space, action_space = Box(0, 255, (210, 160, 3), np.uint8), Discrete(3)

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "UP"]

    def reset(self, *, seed=None, options=None):
        self.i = 0
        return np.zeros((210, 160, 3), np.uint8), {}

    def step(self, action):
        self.i += 1
        picture = np.zeros((210, 160, 3), np.uint8)
        picture[:105] = self.i
        return picture, -3.0, False, self.i >= 20, {}


def test_wrappers_for_pictures():
    warped = atari_wrappers.WarpFrame(Picture(), 84)
    assert warped.reset().shape == warped.observation_space.shape == (84, 84, 1)
    obs, reward, done, _ = warped.step(0)
    assert obs[:42].min() == 1 and obs[42:].max() == 0 and reward == -3.0 and done is False
    stacked = atari_wrappers.FrameStack(atari_wrappers.MaxAndSkipEnv(warped, 4), 2)
    assert stacked.reset().shape == stacked.observation_space.shape == (84, 84, 2)
    obs, reward, *_ = atari_wrappers.ClipRewardEnv(stacked).step(0)
    assert obs[0, 0].tolist() == [0, 4] and reward == -1.0
    monitored = atari_wrappers.MonitorEnv(Picture())
    for _ in range(2):
        monitored.reset()
        monitored.step(0)
    assert monitored.get_episode_rewards() == [-3.0] and list(monitored.next_episode_results()) == [(-3.0, 1)]
    assert atari_wrappers.get_wrapper_by_cls(stacked, atari_wrappers.WarpFrame) is warped
    assert not atari_wrappers.is_atari(warped)
    started = atari_wrappers.FireResetEnv(atari_wrappers.NoopResetEnv(Picture(), 3))
    assert 3 <= started.reset()[0, 0, 0] <= 5


@pytest.mark.skipif(not find_spec("ale_py"), reason="needs the package ale-py")
def test_games_are_wrapped_as_deepmind_did():
    import ale_py

    gymnasium.register_envs(ale_py)
    env = atari_wrappers.wrap_deepmind(gymnasium.make("ALE/Breakout-v5", frameskip=1))
    assert atari_wrappers.is_atari(env)
    np.random.seed(0)
    assert env.reset().shape == (84, 84, 4) and env.observation_space.dtype == np.uint8
    lives, steps = env.unwrapped.ale.lives(), 0
    done = False
    while not done:
        _, _, done, _ = env.step(0)
        steps += 1
    assert env.unwrapped.ale.lives() == lives - 1 and steps < 1000
    env.reset()
    assert env.unwrapped.ale.lives() == lives - 1
