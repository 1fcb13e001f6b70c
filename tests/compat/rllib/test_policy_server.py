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
import pytest

from rookery.compat.rllib.policy_server import PolicyClient, PolicyServerInput, token_file
from rookery.compat.rllib.trainers import DQNTrainer, PPOTrainer
from rookery.core.errors import ConfigError
from rookery.envs.external.client import EpisodeLost, TrainingOver

PORT = 19907

CLIENT = """
    from rookery.compat.rllib import install; install()
    import gym, sys
    from ray.rllib.env.policy_client import PolicyClient

    env = gym.make("CartPole-v0")
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
    from rookery.compat.rllib import install; install()
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
            subprocess.Popen(script(CLIENT, PORT=port) + [mode], stdout=-1, stderr=-2, text=True, env=env)
            for mode in modes
        ]
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
    assert "asked for each action all the same" in clients[1]
    assert (tmp_path / ".cache/rookery" / f"external-{port}.token").stat().st_mode & 0o777 == 0o600


def test_a_client_plays_on_when_its_episode_is_given_up(monkeypatch):
    class Given:
        def __init__(self, *_: Any) -> None:
            self.lost, self.number, self.told = False, 0, []

        def start_episode(self, name: str | None = None) -> str:
            self.number += 1
            return name or f"made-{self.number}"

        def get_action(self, episode: str, obs: Any) -> str:
            if self.lost:
                self.lost = False
                raise EpisodeLost("given up")
            return episode

        def end_episode(self, episode: str, obs: Any) -> None:
            raise EpisodeLost("given up")

    monkeypatch.setattr("rookery.compat.rllib.policy_server.Client", Given)
    client = PolicyClient("http://localhost:1", inference_mode="remote")
    name = client.start_episode("mine")
    assert client.get_action(name, 0) == "mine"
    client._client.lost = True
    assert client.get_action(name, 0) == "made-2" == client.get_action(name, 0)
    client.end_episode(name, 0)
    with pytest.raises(ValueError, match="episode mine was never started, or is over"):
        client.get_action(name, 0)
    with pytest.raises(ConfigError, match="training_enabled=False"):
        client.start_episode(training_enabled=False)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"input": "somewhere/*.json"}, "input.*PolicyServerInput"),
        ({"input": lambda ioctx: 3}, "the function gave int"),
        ({"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 1)}, "observation_space and action_space are"),
        ({"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 1),
          "multiagent": {"policies": {"a": (None, None, None, {})}}}, "one agent each"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_are_refused(config, wanted):
    for trainer in (PPOTrainer, DQNTrainer):
        with pytest.raises(ConfigError, match=wanted):
            trainer(config=config | ({"env": "CartPole-v0"} if isinstance(config["input"], str) else {}))


def test_a_wrong_token_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)
    with pytest.raises(ValueError, match="a token is needed"):
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
