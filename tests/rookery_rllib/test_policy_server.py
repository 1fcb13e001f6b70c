"""A trainer of 2021 whose experience comes from clients: both scripts with nothing but their imports' names."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery.envs.external.client import EpisodeLost, TrainingOver
from rookery_rllib.base.registrations import register_env
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer.policy_server import PolicyClient, PolicyServerInput, spaces_of_clients, token_file
from rookery_rllib.trainer.trainers import DQNTrainer, PPOTrainer

PORT = 19907

CLIENT = """
    from rookery_rllib import install; install()
    import gym, sys
    from ray.rllib.env.policy_client import PolicyClient

    env = gym.make("CartPole-v0")
    print("ready", flush=True)
    sys.stdin.readline()
    client = PolicyClient("http://localhost:PORT", inference_mode=sys.argv[1])
    eid = client.start_episode(training_enabled=True)
    obs = env.reset()
    rewards, episodes = 0, 0
    while True:
        action = client.get_action(eid, obs)
        obs, reward, done, info = env.step(action)
        rewards += reward
        client.log_returns(eid, reward, info=info)
        if done:
            print("Total reward:", rewards, flush=True)
            rewards = 0
            client.end_episode(eid, obs)
            obs = env.reset()
            eid = client.start_episode(training_enabled=True)
"""

SERVER = """
    from rookery_rllib import install; install()
    import gym
    import ray
    from ray.rllib.agents.AGENT import TRAINER
    from ray.rllib.env.policy_server_input import PolicyServerInput

    ray.init()
    trainer = TRAINER(env=ENV, config=dict({
        "input": lambda ioctx: PolicyServerInput(ioctx, "localhost", PORT),
        "num_workers": 0,
        "input_evaluation": [],
        "framework": "torch",
    }, **MORE))
    for _ in range(ITERATIONS):
        result = trainer.train()
        print(result["episodes_total"], result["episode_reward_mean"], flush=True)
    print("saved", trainer.save())
"""


def script(text: str, **words: Any) -> list[str]:
    for word, value in words.items():
        text = text.replace(word, str(value))
    return [sys.executable, "-c", dedent(text)]


def run_both(server: list[str], modes: tuple[str, ...], home: Path, port: int) -> tuple[str, list[str]]:
    env = {**os.environ, "HOME": str(home), "OMP_NUM_THREADS": "1"}
    env.pop("ROOKERY_TOKEN", None)
    trainer = subprocess.Popen(server, stdout=-1, stderr=-2, text=True, env=env, cwd=home)
    file, clients = home / ".cache" / "rookery" / f"external-{port}.token", []
    try:
        for _ in range(600):
            if file.exists() or trainer.poll() is not None:
                break
            threading.Event().wait(0.1)
        clients = [
            subprocess.Popen(script(CLIENT, PORT=port) + [mode], stdin=-1, stdout=-1, stderr=-2, text=True, env=env)
            for mode in modes
        ]
        for client in clients:  # one that begins late would find that the other has played all that is learned from
            line = ""
            while line != "ready\n":
                line = client.stdout.readline()
                assert line, client.wait()
        for client in clients:
            client.stdin.write("go\n")
            client.stdin.flush()
        out, _ = trainer.communicate(timeout=280)
        return out, [client.communicate(timeout=60)[0] for client in clients]
    finally:
        for process in (trainer, *clients):
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "trainer", "env", "more"),
    [
        ("ppo", "PPOTrainer", "'CartPole-v0'", {"rollout_fragment_length": 100, "train_batch_size": 400,
                                                 "sgd_minibatch_size": 64}),
        ("dqn", "DQNTrainer", "None", {"learning_starts": 100, "timesteps_per_iteration": 200,
                                       "observation_space": "BOX", "action_space": "DISCRETE"}),
    ],
)  # fmt: skip
def test_scripts_of_2021_train_through_two_clients(agent, trainer, env, more, tmp_path):
    told = repr(more).replace("'BOX'", "gym.spaces.Box(-10.0, 10.0, (4,))")
    told = told.replace("'DISCRETE'", "gym.spaces.Discrete(2)")
    port = PORT + len(agent + env)
    words = {"AGENT": agent, "TRAINER": trainer, "ENV": env, "MORE": told, "PORT": port, "ITERATIONS": 3}
    out, clients = run_both(script(SERVER, **words), ("remote", "local"), tmp_path, port)
    lines = [line.split() for line in out.splitlines() if line[:1].isdigit()]
    assert len(lines) == 3 and int(lines[-1][0]) > 5 and float(lines[-1][1]) > 9, out
    assert "saved" in out
    for client in clients:
        assert client.count("Total reward") > 2 and "the training is over" in client, client
    assert "computes each action all the same" in clients[1]
    assert (tmp_path / ".cache/rookery" / f"external-{port}.token").stat().st_mode & 0o777 == 0o600


def test_a_client_plays_on_when_its_episode_is_given_up(monkeypatch):
    class Given:
        def __init__(self, *_: Any) -> None:
            self.lost, self.number, self.told, self.welcome = False, 0, [], {}

        def start_episode(self, name: str | None = None, learned: bool = True) -> str:
            self.number += 1
            self.told.append(learned)
            return name or f"made-{self.number}"

        def get_action(self, episode: str, obs: Any) -> str:
            if self.lost:
                self.lost = False
                raise EpisodeLost("given up")
            return episode

        def end_episode(self, episode: str, obs: Any) -> None:
            raise EpisodeLost("given up")

    monkeypatch.setattr("rookery_rllib.trainer.policy_server.Client", Given)
    monkeypatch.setenv("ROOKERY_TOKEN", "token")
    client = PolicyClient("http://localhost:1", inference_mode="remote")
    name = client.start_episode("mine")
    assert client.get_action(name, 0) == "mine"
    client._client.lost = True
    assert client.get_action(name, 0) == "made-2" == client.get_action(name, 0)
    client.end_episode(name, 0)
    with pytest.raises(ValueError, match="episode mine was never started, or is over"):
        client.get_action(name, 0)
    name = client.start_episode("shown", training_enabled=False)
    client._client.lost = True
    client.get_action(name, 0)
    assert client._client.told == [True, True, False, False], "what takes its place is not learned from either"


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"input": "somewhere/*.json"}, "input.*PolicyServerInput"),
        ({"input": lambda ioctx: 3}, "the function returned int"),
        ({"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 1)}, "observation_space and action_space are"),
        ({"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 1),
          "multiagent": {"policies": {"a": (None, None, None, {})}}}, "the agents of clients are missing"),
        ({"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 1),
          "observation_space": {"a": None}, "action_space": {"b": None}}, "dicts by agent name the same agents"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_are_refused(config, wanted):
    for trainer in (PPOTrainer, DQNTrainer):
        with pytest.raises(ConfigError, match=wanted):
            trainer(config=config | ({"env": "CartPole-v0"} if isinstance(config["input"], str) else {}))


def test_a_wrong_token_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)
    with pytest.raises(ConnectionError, match="there is no server yet at .*PolicyServerInput"):
        PolicyClient("http://localhost:19999")
    like = gymnasium.make("CartPole-v1")
    config = {"input": lambda ioctx: PolicyServerInput(ioctx, "127.0.0.1", 19906), "num_workers": 0,
              "observation_space": like.observation_space, "action_space": like.action_space,
              "train_batch_size": 64, "sgd_minibatch_size": 32, "rollout_fragment_length": 4}  # fmt: skip
    trainer = PPOTrainer(config=config)
    try:
        assert token_file(19906).read_text()
        monkeypatch.setenv("ROOKERY_TOKEN", "another token")
        with pytest.raises(TrainingOver, match="wrong token"):
            PolicyClient("http://localhost:19906")
    finally:
        trainer.stop()


class Games(threading.Thread):
    """Plays a game of a cat, mice that come and go, and a dog whose part ends first, until the training is over.

    Every second episode is not learned from; its observations are 7.
    """

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.error, self.answers = address, None, []

    def run(self) -> None:
        try:
            client = PolicyClient(self.address, inference_mode="remote")
            with pytest.raises(ValueError, match=r"reward of agent 'catt', which is unknown; did you mean cat\?"):
                client.log_returns(name := client.start_episode(), {"catt": 1.0})
            with pytest.raises(ValueError, match=r"ended of agent 'mause#1', which is unknown; did you mean mouse#"):
                client.log_returns(name, {"cat": 1.0}, multiagent_done_dict={"mause#1": True})
            learned = True
            while True:
                see = 1.0 if learned else 7.0
                self.answers.append(client.get_action(name, {"cat": [see, 0], "dog": [see, 1]}))
                client.log_returns(name, {"cat": 1.0, "dog": 2.0}, multiagent_done_dict={"dog": True, "__all__": False})
                self.answers.append(client.get_action(name, {"mouse#a": see}))
                client.log_returns(name, {"cat": 4.0, "mouse#a": 8.0}, info={"cat": {"told": 1}})
                self.answers.append(client.get_action(name, {"cat": [see, 2], "mouse#b": see}))
                client.log_returns(name, {"mouse#b": 16.0} if learned else {"cat": 1000.0})
                client.end_episode(name, {"cat": [see, 3], "mouse#a": see, "mouse#b": see})
                learned = not learned
                name = client.start_episode(training_enabled=learned)
        except TrainingOver:
            pass
        except BaseException as error:
            self.error = error


def test_several_agents_of_clients_have_policies_by_the_mapping_function(monkeypatch):
    monkeypatch.setenv("ROOKERY_TOKEN", "a token for tests")
    walls = gymnasium.spaces.Box(0, 9, (2,))
    hole = gymnasium.spaces.Box(0, 9, ())
    asked: set[str] = set()

    def mapping(agent: str, episode: Any = None, **_: Any) -> str:
        asked.add(agent)
        return "small" if agent.startswith("mouse") else "big"

    seen: dict[str, list[Any]] = {"big": [], "small": []}

    class Note(DefaultCallbacks):
        def on_postprocess_trajectory(self, *, policy_id: str, postprocessed_batch: Any, **_: Any) -> None:
            seen[policy_id].append(np.array(postprocessed_batch["obs"]))

    config = {"input": lambda ioctx: PolicyServerInput(ioctx, "127.0.0.1", 0), "num_workers": 0,
              "observation_space": {"cat": walls, "dog": walls, "mouse#": hole},
              "action_space": {"cat": gymnasium.spaces.Discrete(2), "dog": gymnasium.spaces.Discrete(2),
                               "mouse#": gymnasium.spaces.Box(-1, 1, (1,))},
              "multiagent": {"policies": {"big": (None, None, None, {}), "small": (None, None, None, {})},
                             "policy_mapping_fn": mapping},
              "num_envs_per_worker": 1, "callbacks": Note, "model": {"fcnet_hiddens": [8]},
              "train_batch_size": 60, "sgd_minibatch_size": 30, "num_sgd_iter": 1, "rollout_fragment_length": 4,
              }  # fmt: skip
    trainer = PPOTrainer(config=config)
    games = Games("http://{}:{}".format(*trainer.rookery.env.address))
    games.start()
    try:
        results = [trainer.train() for _ in range(2)]
    finally:
        trainer.stop()
        games.join(60)
    assert games.error is None and not games.is_alive()
    assert [sorted(answer) for answer in games.answers[:3]] == [["cat", "dog"], ["mouse#a"], ["cat", "mouse#b"]]
    assert {"cat", "dog"} <= asked and all(agent in ("cat", "dog") or agent.startswith("mouse#") for agent in asked)
    result = results[-1]
    assert result["episodes_total"] > 3 and result["episode_reward_mean"] == 1 + 2 + 4 + 8 + 16
    assert result["policy_reward_mean"].keys() == {"big", "small"}
    for policy, found in seen.items():
        assert found and not any((obs == 7).any() for obs in found), f"{policy} learned from what it was not to"
    unlearned = trainer.rookery.env.counters["episodes_not_learned"]
    assert unlearned > 1


def test_an_env_of_several_agents_says_who_plays_and_policies_what_they_see():
    class Pair(MultiAgentEnv):
        def reset(self) -> dict[str, int]:
            return {"cat": 0, "dog": 0}

        def step(self, action_dict: dict[str, int]) -> Any:
            raise NotImplementedError

    small, large, act = (gymnasium.spaces.Discrete(n) for n in (2, 5, 3))
    policies = {"c": (None, small, act, {}), "d": (None, large, act, {})}
    given = {"multiagent": {"policies": policies, "policy_mapping_fn": lambda a, **_: a[0]}}
    register_env("pair", lambda _: Pair())
    assert spaces_of_clients({**given, "env": "pair"}) == {"cat": (small, act), "dog": (large, act)}
    given = {"observation_space": small, "action_space": act}
    assert spaces_of_clients(given) == (small, act) and not given


def test_agents_of_clients_need_no_names_where_there_is_one_policy(monkeypatch):
    seen, act = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(3)
    given = {"multiagent": {"policies": {"ball": (None, seen, act, {})}, "policy_mapping_fn": lambda agent: "ball"}}
    assert spaces_of_clients(dict(given)) == {"ball#": (seen, act)}
    two = {**given["multiagent"]["policies"], "other": (None, seen, act, {})}
    with pytest.raises(ConfigError, match="only with one policy that has spaces"):
        spaces_of_clients({"multiagent": {"policies": two}})

    class Game(threading.Thread):
        """Three agents with names of their own, for ten steps an episode."""

        def __init__(self, address: str, token: str) -> None:
            super().__init__(daemon=True)
            self.address, self.token, self.error, self.answers = address, token, None, []

        def run(self) -> None:
            monkeypatch.setenv("ROOKERY_TOKEN", self.token)
            client, agents = PolicyClient(self.address, "remote"), [f"ball?team=0_{number}" for number in range(3)]
            try:
                while True:
                    episode = client.start_episode()
                    for _ in range(10):
                        self.answers.append(client.get_action(episode, dict.fromkeys(agents, np.zeros(2))))
                        client.log_returns(episode, dict.fromkeys(agents, 1.0), {}, {"__all__": False})
                    client.end_episode(episode, dict.fromkeys(agents, np.zeros(2)))
            except TrainingOver:
                pass
            except Exception as error:
                self.error = error

    config = {"input": lambda ioctx: PolicyServerInput(ioctx, "127.0.0.1", 0), "num_workers": 2, **given,
              "model": {"fcnet_hiddens": [8]}, "train_batch_size": 90, "sgd_minibatch_size": 30, "num_sgd_iter": 1,
              "rollout_fragment_length": 20}  # fmt: skip
    trainer = PPOTrainer(config=config)
    game = Game("http://{}:{}".format(*trainer.rookery.env.address), trainer.rookery.env.token)
    game.start()
    try:
        result = trainer.train()
    finally:
        trainer.stop()
        game.join(60)
    assert game.error is None and sorted(game.answers[0]) == [f"ball?team=0_{number}" for number in range(3)]
    assert result["policy_reward_mean"] == {"ball": 10.0} and result["episode_reward_mean"] == 30.0
    rows = result["timesteps_total"] * 3
    assert 90 <= rows < 90 + 3 * 16, "a batch has train_batch_size decisions, however few clients play"
