"""Environments of the small runs in `lives`; helper processes import them without the learning code."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A random walk drawn from the seed, moved by the action, that ends after 11 to 40 steps; it can say nothing."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t, self.end = np.zeros(2), 0, int(self.np_random.integers(11, 40))
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.t += 1
        self.place = self.place + action + self.np_random.normal(size=2)
        action *= 0  # destroys the numbers of a caller that kept the array
        reward = -float(np.abs(self.place).sum())
        return self.place.astype(np.float32), reward, self.t == self.end, self.t == 30, {}


class Guarded(Walk):
    """A walk that must not be touched while it is forbidden."""

    forbidden = False

    def __init__(self):
        assert not Guarded.forbidden, "constructed"

    def reset(self, *, seed=None, options=None):
        assert not Guarded.forbidden, "reset"
        return super().reset(seed=seed)

    def step(self, action):
        assert not Guarded.forbidden, "stepped"
        return super().step(action)


class Weary(Walk):
    """A walk with two choices that rests now and then, sometimes from the start; it cannot be moved then."""

    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        self.rest = 3 * (seed % 3 == 0)
        return obs, {"resting": True} if self.rest else info

    def step(self, action):
        if self.rest:
            self.rest -= 1
            return self.place.astype(np.float32), 0.0, False, False, {"resting": self.rest > 0}
        obs, reward, terminated, truncated, info = super().step(np.array([action - 0.5, 0.5 - action]))
        self.rest = 5 * (self.t % 9 == 0)
        return obs, reward, terminated, truncated, {"resting": True} if self.rest else info


class Composite(Walk):
    """A walk whose actions are a dict of everything there is."""

    action_space = spaces.Dict(
        {
            "leap": spaces.Discrete(2),
            "move": spaces.Box(-1, 1, (2,), np.float32),
            "rest": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
        }
    )

    def step(self, action):
        flags, choices = action["rest"]
        push = action["move"] * (1 + action["leap"]) + flags * 0.1 + choices * 0.01
        del action["rest"]
        return super().step(push)


class Windy(Walk):
    """A walk in a wind, which is drawn for each episode; it says where it is only by its actions."""

    parameters = {"wind": (0.0, -2.0, 2.0), "place": 0.0}

    def reset(self, *, seed=None, options=None):
        given = (options or {}).get("parameters", {})
        super().reset(seed=seed)
        self.wind, self.place = given.get("wind", 0.0), self.place + given.get("place", 0.0)
        return self.place.astype(np.float32), {}

    def step(self, action):
        return super().step(action + self.wind)


class Forks(Walk):
    """A walk with three choices."""

    action_space = spaces.Discrete(3)

    def step(self, action):
        return super().step(np.array([action - 1.0, 1.0 - action]))


class Flags(Walk):
    """A walk steered by two flags."""

    action_space = spaces.MultiBinary(2)

    def step(self, action):
        return super().step(2.0 * action - 1.0)


class Restless(Walk):
    """A walk that is never the same again in lanes whose seeds are odd."""

    steps = 0

    def step(self, action):
        Restless.steps += 1
        obs, *rest = super().step(action)
        if self.odd:
            obs = obs + np.float32(Restless.steps)
        return obs, *rest

    def reset(self, *, seed=None, options=None):
        self.odd = bool(seed % 2)
        return super().reset(seed=seed)


class Saying(Walk):
    """A walk that says where it is."""

    def get_state(self):
        return {"place": self.place, "t": self.t, "end": self.end, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.place, self.t, self.end = state["place"], state["t"], state["end"]
        self.np_random.bit_generator.state = state["rng"]


class Turns:
    """A dict-style environment of three players who take turns; one comes late, is nowhere announced, and leaves.

    Half of the episodes are cut off; x and y are paid in every step, before their first turn too.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.place = dict.fromkeys(("x", "y", "z"), 0.0)
        self.end = int(self.rng.integers(12, 30))
        return self.seen("x"), {}

    def seen(self, agent):
        return {agent: np.array([self.place[agent], self.t], np.float32)}

    def step(self, actions):
        ((agent, action),) = actions.items()
        self.t += 1
        self.place[agent] += int(action) - 1 + self.rng.normal()
        players = ["x", "y", "z"] if 4 <= self.t < 10 else ["x", "y"]
        turn = players[self.t % len(players)]
        rewards = {"x": 0.1, "y": 0.2, agent: -abs(self.place[agent])}
        over, cut = self.t == self.end, self.end % 2 == 0
        terminateds, truncateds = {"z": self.t == 10, "__all__": over and not cut}, {"__all__": over and cut}
        return ({} if over else self.seen(turn)), rewards, terminateds, truncateds, {}


class Podium:
    """A game of one step for three: whatever they do, a wins against b and c, and b against c."""

    possible_agents = ("a", "b", "c")
    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return {agent: np.zeros(1, np.float32) for agent in self.possible_agents}, {}

    def step(self, actions):
        return {}, {"a": 4.0, "b": 3.0, "c": 0.0}, {"__all__": True}, {"__all__": False}, {}
