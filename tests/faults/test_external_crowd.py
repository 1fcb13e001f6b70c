"""A training with clients, while a thousand others are there and strangers try what they can; and what it learns."""

import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.envs.external.client import Client, TrainingOver

TOKEN = "a token for tests"
CARTPOLE = {"obs": {"box": [4]}, "action": {"discrete": 2}}

CLIENT = """
import sys
import gymnasium
from rookery.envs.external.client import Client, EpisodeLost, TrainingOver

env, client = gymnasium.make("CartPole-v1"), Client(sys.argv[1], "a token for tests", timeout=20, quiet=True)
try:
    while True:
        try:
            episode, over, cut = client.start_episode(), False, False
            obs, _ = env.reset(seed=client.plan(episode)["seed"])
            while not (over or cut):
                obs, reward, over, cut, _ = env.step(client.get_action(episode, obs))
                client.log_returns(episode, reward)
            client.end_episode(episode, obs, truncated=not over)
        except EpisodeLost:
            pass
except TrainingOver:
    assert "torch" not in sys.modules
    print("over")
"""


def trainer_of(algorithm, **options):
    config = {"env.config.spaces": CARTPOLE, "env.config.token": TOKEN, "logging.console": "quiet"}
    return Trainer("external:0", algorithm, config=[config], num_envs=4, **options)


def clients_of(trainer, number=2):
    address = "{}:{}".format(*trainer.env.address)
    command = [sys.executable, "-c", CLIENT, address]
    return [subprocess.Popen(command, stdout=-1, text=True, env=os.environ) for _ in range(number)]


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "learns"),
    [(PPOConfig(), True), (DQNConfig(), True), (PPOConfig(lr=1e-12), False)],
    ids=["ppo", "dqn", "control"],
)
def test_cartpole_is_learned_through_two_client_processes(algorithm, learns):
    with trainer_of(algorithm, seed=0) as trainer:
        clients = clients_of(trainer)
        result = trainer.train(stop={"return_mean": 120, "env_steps": 50_000})
        assert (result.return_mean >= 120) == learns, result.return_mean
        if learns:
            assert trainer.evaluate(10).return_mean > 120
            again = trainer.train_iteration()  # the clients are back
            assert again.env_steps > result.env_steps
            assert again.counters["episodes_interrupted"] >= 1
    for client in clients:
        assert client.communicate(timeout=60)[0] == "over\n"


def molest(address, over, tried, refused):
    """Comes as a stranger, again and again, in every way."""
    rng, slow = random.Random(0), []
    while not over.is_set():
        kind = rng.choice(sorted(tried))
        tried[kind] += 1
        if kind == "wrong token":
            with suppress(TrainingOver):
                Client("{}:{}".format(*address), "not the token", timeout=5)
            refused[kind] += 1
            continue
        sock = socket.create_connection(address, timeout=5)
        if kind == "slow bytes":
            slow.append(sock)
        else:
            sock.recv(4096)
            sock.sendall(struct.pack("<Q", 2**40) if kind == "length" else b"\xff" * 8 + rng.randbytes(3000))
            with suppress(OSError):
                while sock.recv(4096):
                    pass
            refused[kind] += 1
            sock.close()
        for one in list(slow):
            try:
                one.sendall(b"\0")
            except OSError:
                slow.remove(one)
                refused["slow bytes"] += 1
    for one in slow:
        one.close()


@pytest.mark.slow
def test_a_thousand_clients_and_strangers_leave_memory_and_training_as_they_are(monkeypatch):
    monkeypatch.setattr("rookery.envs.external.listener.ConnectionLimits.message_seconds", 2.0)
    with trainer_of(PPOConfig(fragment_length=64, epochs=1, minibatch_size=64), seed=0) as trainer:
        address = trainer.env.address
        players = clients_of(trainer)
        for _ in range(10):
            trainer.train_iteration()
        crowd, over = [], threading.Event()
        ways = ("wrong token", "length", "garbage", "slow bytes")
        tried, refused = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)

        def gather():
            crowd.extend(Client("{}:{}".format(*address), TOKEN, quiet=True) for _ in range(1000))

        threads = [threading.Thread(target=gather)]
        threads[0].start()
        while threads[0].is_alive():
            trainer.train_iteration()
        assert len(crowd) == 1000
        threads = [threading.Thread(target=molest, args=(address, over, tried, refused)) for _ in range(2)]
        for thread in threads:
            thread.start()
        held = []
        begun = time.monotonic()
        while time.monotonic() - begun < 12:
            result = trainer.train_iteration()
            held.append(memory())
        over.set()
        for thread in threads:
            thread.join()
        assert min(tried.values()) > 20 and all(refused[kind] == tried[kind] for kind in ways[:3])
        assert refused["slow bytes"] > 0
        assert np.mean(held[-5:]) - np.mean(held[len(held) // 4 : len(held) // 4 + 5]) < 16, held
        assert result.counters.get("episodes_lost", 0) == 0 and result.counters["connections_refused"] > 60
        played = []
        threads = [threading.Thread(target=lambda: played.extend(_episode(one) for one in crowd[:200]))]
        threads[0].start()
        while threads[0].is_alive():
            trainer.train_iteration()
        assert played == [3] * 200
    for player in players:
        assert player.communicate(timeout=60)[0] == "over\n"


def _episode(client):
    name = client.start_episode()
    for _ in range(3):
        assert client.get_action(name, np.zeros(4)) in (0, 1)
        client.log_returns(name, 1.0)
    client.end_episode(name)
    return 3
