"""Shared parts of the tests of external environments: spaces, a random player, a proxy."""

import random
import selectors
import socket
import threading
import time

import numpy as np

from rookery.envs.external.env import ExternalEnv

TOKEN = "a token for tests"
ONE = {"obs": {"box": [2]}, "action": {"discrete": 3}}


def made(lanes=2, spaces=ONE, **options):
    return ExternalEnv(lanes, 0, spaces, token=TOKEN, **options)


def wait_until(condition):
    """Waits until something is so, for a minute at most."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)


class Played:
    """Plays an environment in a thread, and adds up what it shows.

    Actions are the sum of what is seen, rounded, modulo 3: clients can tell whether they got their own.
    """

    def __init__(self, env, seeds=lambda lane, episode: 1000 * lane + episode):
        self.env, self.seeds = env, seeds
        self.ends = self.steps = self.lost = self.rounds = 0
        self.reward = 0.0
        self.error = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            step = self.env.reset(self.seeds)
            while not self.over.is_set():
                step = self.env.step([answers(rows) for rows in step.rows])
                self.ends += int(step.ended.sum())
                self.lost += 0 if step.lost is None else int(step.lost.sum())
                self.steps += int(step.stepped.sum())
                self.reward += sum(float(rows.reward.sum()) for rows in step.rows)
                self.rounds += 1
        except Exception as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        wait_until(lambda: not self.env._external.served.ready or not self.thread.is_alive())
        rounds = self.rounds  # what was ready has been taken by the round that runs now
        wait_until(lambda: self.rounds > rounds + 1 or not self.thread.is_alive())
        self.over.set()
        self.thread.join()
        self.env.close()
        if self.error is not None:
            raise self.error


def answers(rows):
    if rows.obs["obs"].ndim != 2 or rows.obs["obs"].shape[1] == 1:  # of others than `ONE`
        return np.zeros((int(rows.waiting.sum()), *((2,) if rows.obs["obs"].ndim == 2 else ())), np.int64)
    return np.round(rows.obs["obs"][rows.waiting].sum(axis=1)).astype(np.int64) % 3


class CuttingProxy:
    """A link that forwards bytes between clients and a training, and cuts each connection after a drawn number of them.

    Args:
        target: Host and port of the training.
        mean: Bytes after which a connection is cut, in the mean, both directions together.
        seed: Of what is drawn.
    """

    def __init__(self, target, mean, seed=0):
        self.target, self.mean, self.rng = target, mean, random.Random(seed)
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.listener.getsockname()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.left, self.other = {}, {}
        self.over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over:
            for key, _ in self.selector.select(0.2):
                if key.fileobj is self.listener:
                    self.join(self.listener.accept()[0])
                elif key.fileobj in self.other:
                    self.forward(key.fileobj)

    def join(self, client):
        server = socket.create_connection(self.target)
        budget = [int(self.rng.expovariate(1 / self.mean))]
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.left[one], self.other[one] = budget, other
            self.selector.register(one, selectors.EVENT_READ)

    def forward(self, one):
        try:
            piece = one.recv(65536)
            budget = self.left[one]
            self.other[one].sendall(piece[: budget[0]])
            budget[0] -= len(piece)
            if piece and budget[0] > 0:
                return
            self.cuts += bool(piece)
        except OSError:
            pass
        for end in (one, self.other[one]):
            self.selector.unregister(end)
            end.close()
        other = self.other.pop(one)
        self.other.pop(other), self.left.pop(one), self.left.pop(other)

    def close(self):
        self.over = True
        self.thread.join()
        self.listener.close()
