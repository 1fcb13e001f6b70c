"""External environments: a link that is cut, a crowd of clients and strangers, and what is learned through clients.

``python benchmarks/studies/external.py`` writes benchmarks/results/external.md. Clients and strangers are other
processes.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.envs.external.client import Client, EpisodeLost, TrainingOver, pack

ROOT = Path(__file__).parents[2]
TOKEN = "a token for measurements"
CARTPOLE = {"obs": {"box": [4]}, "action": {"discrete": 2}}


# -- processes -----------------------------------------------------------------------------------------------------


def play(address: str, env_id: str) -> None:
    """Plays an environment of Gymnasium as a client, until the training is over."""
    env = gymnasium.make(env_id)
    with suppress(TrainingOver, ConnectionError):
        client = Client(address, TOKEN, timeout=20, quiet=True)
        while True:
            with suppress(EpisodeLost):
                episode = client.start_episode()
                obs, _ = env.reset(seed=client.plan(episode)["seed"] % 2**31)
                over = cut = False
                while not (over or cut):
                    obs, reward, over, cut, _ = env.step(client.get_action(episode, obs))
                    client.log_returns(episode, float(reward))
                client.end_episode(episode, obs, truncated=not over)


def crowd(address: str, connections: int, seconds: float) -> None:
    """Connects many clients that know the token and wait, and lets strangers try all they can meanwhile."""
    host, port = address.split(":")
    clients = [Client(address, TOKEN, quiet=True) for _ in range(connections)]
    print("connected", len(clients), flush=True)
    rng, until, tried = random.Random(0), time.monotonic() + seconds, dict.fromkeys(ATTACKS, 0)
    refused = dict.fromkeys(ATTACKS, 0)
    slow: list[socket.socket] = []
    while time.monotonic() < until:
        kind = rng.choice(ATTACKS)
        tried[kind] += 1
        if kind == "wrong token":
            try:
                Client(address, "not the token at all", timeout=5)
            except TrainingOver:
                refused[kind] += 1
            continue
        sock = socket.create_connection((host, int(port)), timeout=5)
        if kind == "slow bytes":
            slow.append(sock)
        else:
            sock.recv(4096)
            garbage = rng.randbytes(rng.randrange(20, 5000))
            sock.sendall(struct.pack("<Q", 2**40) + b"x" * 100 if kind == "length 2^40" else b"\xff" * 8 + garbage)
            with suppress(OSError):
                while sock.recv(4096):
                    pass
                refused[kind] += 1
            sock.close()
        for one in list(slow):
            try:
                one.sendall(b"\0" if rng.random() < 0.1 else b"")
            except OSError:
                slow.remove(one)
                refused["slow bytes"] += 1
        time.sleep(0.002)
    deadline = time.monotonic() + 25
    while slow and time.monotonic() < deadline:
        for one in list(slow):
            try:
                one.settimeout(0.01)
                if not one.recv(4096):
                    raise OSError
            except TimeoutError:
                pass
            except OSError:
                slow.remove(one)
                refused["slow bytes"] += 1
    alive = 0
    for client in clients:
        with suppress(OSError):
            assert client._socket is not None
            client._socket.sendall(pack({"op": "nothing", "episode": "e", "seq": 1}))
            alive += "error" in client._receive()
    print("tried", tried, "refused", refused, "of the clients still there", alive, flush=True)


ATTACKS = ("wrong token", "length 2^40", "garbage", "slow bytes")


def process(*arguments: Any) -> subprocess.Popen[str]:
    """Starts this file in another process."""
    command = [sys.executable, str(Path(__file__)), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def memory() -> float:
    """MiB that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_helpers() -> ModuleType:
    """Returns the module that the tests of external environments share."""
    spec = spec_from_file_location("clients", ROOT / "tests" / "envs" / "external" / "clients.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- what is measured ----------------------------------------------------------------------------------------------


def link(episodes: int) -> str:
    """Plays episodes over a link that is cut at random, and counts them at both ends."""
    shared = test_helpers()
    env, lengths = shared.made(lanes=8), np.random.default_rng(0).integers(1, 12, episodes)
    begun = time.monotonic()
    with shared.Played(env) as played:
        proxy = shared.CuttingProxy(env.address, mean=3000)
        again = []

        def one(number: int) -> None:
            with Client("{}:{}".format(*proxy.address), shared.TOKEN, quiet=True) as client:
                for length in lengths[number::8]:
                    name = client.start_episode()
                    for step in range(length):
                        assert client.get_action(name, np.array([step, 1.0])) == (step + 1) % 3
                        client.log_returns(name, 1.0)
                    client.end_episode(name, np.zeros(2))
                again.append(client.reconnected)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        proxy.close()
    seconds = time.monotonic() - begun
    return (
        f"| {episodes:,} | {int(lengths.sum()):,} | {sum(again):,} | {played.ends:,} | {played.steps:,} | "
        f"{played.reward:,.0f} | {played.lost} | {seconds:.0f} |"
    )


@dataclass
class Learned:
    """Result of a training through clients."""

    steps: int
    seconds: float
    returns: list[float]

    @property
    def last(self) -> float:
        """Mean return over the last three iterations."""
        return float(np.mean(self.returns[-3:]))


def learn(algorithm: Any, steps: int, seed: int) -> Learned:
    """Trains on CartPole-v1 through two client processes."""
    config: dict[str, Any] = {"env.config.spaces": CARTPOLE, "env.config.token": TOKEN, "sampling.warmup_steps": 0}
    with Trainer(
        "external:0",
        algorithm,
        config=[{**config, "logging.console": "quiet"}],
        num_envs=4,
        seed=seed,
    ) as trainer:
        address = "{}:{}".format(*trainer.env.address)  # type: ignore[attr-defined]
        clients = [process("--play", address) for _ in range(2)]
        begun, returns = time.monotonic(), []
        while trainer.env_steps < steps:
            result = trainer.train_iteration()
            if result.return_mean is not None:
                returns.append(result.return_mean)
        seconds = time.monotonic() - begun
        trainer.close()
        for client in clients:
            client.wait(60)
    return Learned(steps, seconds, returns)


def beset(seconds: float, connections: int) -> list[str]:
    """Trains with two clients, alone and then while a crowd waits and strangers try what they can."""
    config = {"env.config.spaces": CARTPOLE, "env.config.token": TOKEN, "sampling.warmup_steps": 0}
    algorithm = PPOConfig(fragment_length=128, epochs=2, minibatch_size=64)
    lines = []
    with Trainer(
        "external:0", algorithm, config=[{**config, "logging.console": "quiet"}], num_envs=4, seed=0
    ) as trainer:
        address = "{}:{}".format(*trainer.env.address)  # type: ignore[attr-defined]
        clients = [process("--play", address) for _ in range(2)]
        for _ in range(30):
            trainer.train_iteration()
        strangers: subprocess.Popen[str] | None = None
        for what in ("alone", "beset", "alone again"):
            if what == "beset":
                strangers = process("--crowd", address, connections, seconds)
                assert strangers.stdout is not None
                thread = threading.Thread(target=strangers.stdout.readline)
                thread.start()
                while thread.is_alive():
                    trainer.train_iteration()
            before, begun, steps = memory(), time.monotonic(), trainer.env_steps
            while time.monotonic() - begun < seconds:
                trainer.train_iteration()
            rate = (trainer.env_steps - steps) / (time.monotonic() - begun)
            lost = trainer.env.counters.get("episodes_lost", 0)
            lines.append(f"| {what} | {rate:,.0f} | {before:.1f} | {memory():.1f} | {lost} |")
            if strangers is not None and what == "beset":
                while strangers.poll() is None:
                    trainer.train_iteration()
                assert strangers.stdout is not None
                told = strangers.stdout.read().strip()
        trainer.close()
        for client in clients:
            client.wait(60)
    return [*lines, "", f"The crowd of {connections:,} clients and its strangers: {told}."]


PAGE = """# External environments

`python benchmarks/studies/external.py`, on {cores} cores that are shared with everything else that runs; clients, the
crowd and strangers are processes of their own there.

## A link that is cut at random

Eight clients play over a proxy that cuts each connection after a drawn number of bytes, 3,000 in the mean. Every action
is compared with what was seen; counts are those of the training.

| episodes played | decisions | connections lost | episodes counted | steps counted | rewards counted | lost | seconds |
|---|---|---|---|---|---|---|---|
{link}

## A crowd

PPO learns from two clients; then {connections:,} others connect and wait, and strangers come with a wrong token, with a
length of 2^40, with garbage, and with bytes that come one by one.

| training | env steps a second | MiB before | MiB after | episodes lost |
|---|---|---|---|---|
{crowd}

## Learning through two clients

CartPole-v1 in two client processes, one environment each. The control plays the same number of steps with a policy that
does not learn (a learning rate of 1e-12). The last column is the mean return over the last three iterations.

| what learns | seed | env steps | steps a second | return |
|---|---|---|---|---|
{learning}
"""


def main() -> None:
    """Measures everything, or plays a part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", metavar="ADDRESS")
    parser.add_argument("--crowd", nargs=3, metavar=("ADDRESS", "CONNECTIONS", "SECONDS"))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "external.md")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    if given.play:
        play(given.play, "CartPole-v1")
        return
    if given.crowd:
        crowd(given.crowd[0], int(given.crowd[1]), float(given.crowd[2]))
        return
    linked = link(given.episodes)
    print(linked, flush=True)
    beset_by = beset(given.seconds, given.connections)
    print(*beset_by, sep="\n", flush=True)
    learning = []
    for seed in range(given.seeds):
        for name, algorithm, steps in (
            ("PPO", PPOConfig(), 30_000),
            ("DQN", DQNConfig(), 30_000),
            ("control: PPO whose weights do not move", PPOConfig(lr=1e-12), 30_000),
        ):
            found = learn(algorithm, steps, seed)
            learning.append(
                f"| {name} | {seed} | {found.steps:,} | {found.steps / found.seconds:,.0f} | {found.last:.1f} |"
            )
            print(learning[-1], flush=True)
    page = PAGE.format(
        cores=os.cpu_count(), link=linked, connections=given.connections, crowd="\n".join(beset_by),
        learning="\n".join(learning),
    )  # fmt: skip
    given.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
