"""Simulated copies that keep their own clock, which write down what truly happened."""

import numpy as np
from gymnasium import spaces

from rookery.core.spaces import action_spec, obs_spec
from rookery.envs.clocked.arrival import Arrival, Asking, CopyBehavior, Ended
from rookery.envs.clocked.env import ClockedEnv

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
OBS, ACTION = obs_spec(BOX, spaces.Discrete(3)), action_spec(spaces.Discrete(3))


def told(ids, decisions, reward):
    seen = np.array([[agent, number] for agent, number in zip(ids, decisions, strict=True)], np.float32).reshape(-1, 2)
    return list(ids), {"obs": seen}, np.array(reward, dtype=float)


class Walkers:
    """Copies with agents that live for a drawn number of decisions, ask at their own pace, and are paid what they do.

    The reward of an agent's n-th decision is ``id + action / 10``; what is seen is ``[id, n]``.
    """

    own_episodes, parameters, notes, name = True, {}, (), "walkers"

    def __init__(self, lanes, seed=0):
        self.rng = np.random.default_rng(seed)
        self.behaviors, self.counters = {"A": CopyBehavior(OBS, ACTION)}, {}
        self.alive = [{} for _ in range(lanes)]  # id -> [decisions, life, due, truncates]
        self.next_id = [0] * lanes
        self.pending = [{} for _ in range(lanes)]  # id -> action
        self.ready = [True] * lanes
        self.truth = {}  # (lane, id) -> rewards of its decisions, and how it ended

    def begin(self, lane, episode, plan):
        self.alive[lane], self.pending[lane], self.ready[lane] = {}, {}, True
        for _ in range(3):
            self.spawn(lane)

    def spawn(self, lane):
        self.next_id[lane] += 1
        self.alive[lane][self.next_id[lane]] = [0, int(self.rng.integers(1, 6)), bool(self.rng.integers(2))]

    def replan(self, plan):
        pass

    def arrivals(self, seconds):
        found = []
        for lane, ready in enumerate(self.ready):
            if not ready or self.rng.random() < 0.3:
                continue
            gone, paid = [], {}
            for agent, action in self.pending[lane].items():
                paid[agent] = agent + action / 10
                self.truth.setdefault((lane, agent), [[], None])[0].append(paid[agent])
                self.alive[lane][agent][0] += 1
                if self.alive[lane][agent][0] == self.alive[lane][agent][1]:
                    gone.append(agent)
            self.pending[lane] = {}
            cut = [self.alive[lane][agent][2] for agent in gone]
            for agent, truncated in zip(gone, cut, strict=True):
                self.truth[lane, agent][1] = truncated
            lives = [self.alive[lane][agent][0] for agent in gone]
            left = Ended(*told(gone, lives, [paid[agent] for agent in gone]), truncated=np.array(cut))
            for agent in gone:
                del self.alive[lane][agent]
                if self.rng.random() < 0.9 or len(self.alive[lane]) < 2:
                    self.spawn(lane)
            if self.rng.random() < 0.05:
                self.spawn(lane)
            asks = [a for a in self.alive[lane] if a in paid or self.rng.random() < 0.8]
            lives = [self.alive[lane][agent][0] for agent in asks]
            ask = Asking(*told(asks, lives, [paid.get(agent, 0.0) for agent in asks]))
            found.append(Arrival(lane, {"A": ask} if asks else {}, {"A": left} if gone else {}))
            self.ready[lane] = False
        return found

    def answer(self, lane, episode, answers):
        for one in answers.values():
            self.pending[lane] = dict(zip(one.ids, np.asarray(one.actions).tolist(), strict=True))
        self.ready[lane] = True

    def close(self):
        pass


class WalkersEnv(ClockedEnv):
    """Walkers as an environment that can be named."""

    made = 0

    def __init__(self, num_lanes, seed=0, only_one=False):
        type(self).made += 1
        self.only_one = only_one
        super().__init__(Walkers(num_lanes, seed), num_lanes)
