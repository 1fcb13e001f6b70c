"""A verb, a kind of environments, a replay format, an exporter and a logger."""

import json
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np

import rookery
from rookery.extend import Exporter, Logger, RecordedEpisode, Recording, ReplayFormat, recording_of


def corridors() -> None:
    """Print which corridors there are."""
    print("corridor:N has N fields, as in rookery train corridor:5")


class Corridor(gymnasium.Env):
    """Fields in a row; the episode ends at the last one, with a reward of 1."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int):
        self.length, self.place = length, 0
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def _seen(self):
        return np.array([self.place / self.length], np.float32)

    def reset(self, *, seed=None, options=None):
        """Begins at the first field."""
        super().reset(seed=seed)
        self.place = 0
        return self._seen(), {}

    def step(self, action):
        """Goes a field on or back."""
        self.place = max(0, self.place + (1 if action else -1))
        ended = self.place == self.length
        return self._seen(), float(ended), ended, False, {}


class CorridorNames:
    """Environments that are named ``corridor:N``."""

    def find(self, name):
        """Returns what makes the environment of a name."""
        return partial(Corridor, int(name.partition(":")[2]))


CORRIDOR = CorridorNames()


def read_lines(path, wanted):
    """Reads a file with an episode in JSON a line; ``--env`` says what spaces it is of."""
    if wanted.spaces is None:
        raise rookery.ConfigError(f"{path}: say --env: the file does not tell its spaces")
    kind = wanted.spaces.action
    episodes = []
    for line in Path(path).read_text().splitlines():
        told = json.loads(line)
        seen = np.array(told["obs"], np.float32)
        actions = np.array(told["action"], kind.dtype).reshape(-1, *kind.shape)
        rewards = np.array(told["reward"], np.float32)
        episodes.append(RecordedEpisode({"obs": seen}, actions, rewards, None, told["terminated"], False, None))
    return {wanted.policy: Recording(wanted.spaces, tuple(episodes))}


def write_lines(stored, path, name, advance):
    """Writes an episode in JSON a line."""
    with Path(path).open("w") as file:
        for one in recording_of(stored).episodes:
            told = {"obs": one.obs["obs"].tolist(), "action": one.action.tolist(), "reward": one.reward.tolist()}
            file.write(json.dumps({**told, "terminated": one.terminated}) + "\n")


LINES = ReplayFormat(read_lines, write_lines, (".lines",))


def write_weights(policy, path, *, observations=None):
    """Writes the weights of a policy as NumPy arrays."""
    with Path(path).open("wb") as file:
        np.savez(file, **{name: value.numpy() for name, value in policy.state_dict().items()})


WEIGHTS = Exporter(write_weights, ".npz")


class Returns(rookery.Callback):
    """Writes the mean return of each iteration into a file beside the run."""

    def on_iteration(self, trainer, result):
        """Adds a line."""
        if trainer.run_dir is not None:
            with (trainer.run_dir.path / "returns.txt").open("a") as file:
                file.write(f"{result.iteration} {result.return_mean}\n")


RETURNS = Logger(Returns)
