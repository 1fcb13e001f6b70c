"""Environments whose agents are put together as teams."""

import numpy as np
from gymnasium import spaces

TWO_STEP = {1: ((7.0, 7.0), (7.0, 7.0)), 2: ((0.0, 1.0), (1.0, 8.0))}


class TwoStepGame:
    """The two-step game (Rashid et al. 2018): the first member chooses which matrix both play next."""

    agents = ("a", "b")
    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.state = 0
        return dict.fromkeys(self.agents, 0), {}

    def step(self, action):
        earned = 0.0
        over = self.state > 0
        if over:
            earned = TWO_STEP[self.state][action["a"]][action["b"]]
        else:
            self.state = 1 + int(action["a"])
        obs = dict.fromkeys(self.agents, self.state)
        reward = dict.fromkeys(self.agents, earned / 2)
        return obs, reward, {"__all__": over}, {"__all__": False}, {}


class Squad:
    """Three walkers and a guard, drawn from the seed. Each walker falls at a time of its own, by its seed; masks forbid
    a walker the choice of the last step. Ends by termination or is cut off at 12 steps.
    """

    agents = ("a", "b", "c", "guard")

    def __init__(self, cut=12):
        self.cut = cut
        walker = spaces.Dict(
            {"place": spaces.Box(-np.inf, np.inf, (2,), np.float32), "action_mask": spaces.MultiBinary(3)}
        )
        sight = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_spaces = {**dict.fromkeys("abc", walker), "guard": sight}
        self.action_spaces = {**dict.fromkeys("abc", spaces.Discrete(3)), "guard": spaces.Discrete(2)}

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.t = 0
        self.falls = dict(zip("abc", self.rng.integers(3, 20, 3).tolist(), strict=True))
        self.place = {one: self.rng.normal(size=2) for one in "abc"}
        self.last = dict.fromkeys("abc", 0)
        return self.shown("abc"), {}

    def shown(self, who):
        seen = {}
        for one in who:
            mask = np.ones(3, np.int8)
            mask[self.last[one]] = 0
            seen[one] = {"place": self.place[one].astype(np.float32), "action_mask": mask}
        return {**seen, "guard": np.array([self.t], np.float32)}

    def step(self, action):
        self.t += 1
        living = [one for one in action if one != "guard"]
        reward = {"guard": 0.1 * float(action["guard"])}
        terminated = {}
        for one in living:
            assert action[one] != self.last[one], "a forbidden choice"
            self.last[one] = int(action[one])
            self.place[one] = self.place[one] + self.rng.normal(size=2) + action[one] - 1
            reward[one] = float(-abs(self.place[one]).sum())
            terminated[one] = self.t >= self.falls[one]
        over = all(self.t >= self.falls[one] for one in "abc")
        cut = not over and self.t >= self.cut
        return self.shown(living), reward, {**terminated, "__all__": over}, {"__all__": cut}, {}
