"""Environments that count: every number they show can be worked out by hand."""

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)
PAIR = spaces.Box(-np.inf, np.inf, (2,), np.float32)
TWO = spaces.Discrete(2)


class Counting(gymnasium.Env):
    """Step t shows t and pays t; ends at `terminate_at` or `truncate_at`, whichever comes first."""

    def __init__(self, terminate_at=None, truncate_at=None, mutate=False, render_mode=None):
        self.observation_space, self.action_space = NUMBER, TWO
        self.terminate_at, self.truncate_at, self.render_mode = terminate_at, truncate_at, render_mode
        self.memory = np.zeros(1, np.float32) if mutate else None
        self.seeds, self.actions = [], []

    def observe(self):
        if self.memory is None:
            return np.array([self.t], np.float32)
        self.memory[0] = self.t
        return self.memory

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.seeds.append(seed)
        return self.observe(), {}

    def step(self, action):
        if self.memory is not None:
            self.memory[0] = -99  # a caller that kept the array instead of its numbers sees this
        self.t += 1
        self.actions.append(action)
        return self.observe(), float(self.t), self.t == self.terminate_at, self.t == self.truncate_at, {}

    def render(self):
        return np.full((2, 3, 3), self.t, np.uint8) if self.render_mode == "rgb_array" else None


class Walk(gymnasium.Env):
    """A random walk drawn from the seed, moved by the action: terminates at distance 3, is truncated after 9 steps."""

    def __init__(self):
        self.observation_space, self.action_space = PAIR, TWO

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = self.np_random.normal(), 0
        return np.array([self.place, 0.0]), {}

    def step(self, action):
        self.t += 1
        self.place += 2 * action - 1 + self.np_random.normal()
        return np.array([self.place, self.t]), -abs(self.place), bool(abs(self.place) > 3), self.t >= 9, {}


class CountingParallel(ParallelEnv):
    """Agents x and y count; x terminates after 2 steps, y is truncated after 4; x sees one number, y two."""

    metadata = {"name": "counting_parallel"}

    def __init__(self):
        self.possible_agents = ["x", "y"]

    def observation_space(self, agent):
        return {"x": NUMBER, "y": PAIR}[agent]

    def action_space(self, agent):
        return {"x": TWO, "y": TWO}[agent]

    def observe(self, agents):
        return {a: np.full(1 if a == "x" else 2, self.t, np.float32) for a in agents}

    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, ["x", "y"]
        return self.observe(self.agents), {a: {} for a in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        self.t += 1
        acted = list(actions)
        terminations = {a: a == "x" and self.t == 2 for a in acted}
        truncations = {a: a == "y" and self.t == 4 for a in acted}
        self.agents = [a for a in acted if not (terminations[a] or truncations[a])]
        rewards = {a: self.t * (1 if a == "x" else 10) for a in acted}
        return self.observe(acted), rewards, terminations, truncations, {a: {} for a in acted}


class Pair(ParallelEnv):
    """Agents x and y see the step t; a step pays x t and y 10 t. x terminates in step 2, y is truncated in step 6.

    Args:
        after: What becomes of x after its end: ``removed`` from `agents` at once, as PettingZoo asks; ``one step``
            later; it ``stays`` with an observation alone; it stays ``flagged``; or it ``respawns`` in step 4, after a
            step in which it was flagged.
        paid: What a flagged x gets in each step.
    """

    metadata = {"name": "pair"}

    def __init__(self, after, paid=0.0):
        self.after, self.paid, self.possible_agents = after, paid, ["x", "y"]

    def observation_space(self, agent):
        return NUMBER

    def action_space(self, agent):
        return TWO

    def reset(self, seed=None, options=None):
        self.t, self.agents, self.asked = 0, ["x", "y"], ["x", "y"]
        return self.see(self.agents), {agent: {} for agent in self.agents}

    def see(self, agents):
        return {agent: np.array([self.t], np.float32) for agent in agents}

    def step(self, actions):
        assert list(actions) == self.asked, (self.t, list(actions))
        self.t += 1
        rewards = {agent: float(self.t * (1 if agent == "x" else 10)) for agent in actions}
        terminations, truncations = dict.fromkeys(actions, False), dict.fromkeys(actions, False)
        seen = list(actions)
        terminations["x"] = self.t == 2
        if "x" not in actions:
            seen.append("x")
            del terminations["x"]
            if self.after == "flagged" or (self.after == "respawns" and self.t == 3):
                terminations["x"], truncations["x"], rewards["x"] = True, False, self.paid
            elif self.after == "respawns":
                terminations["x"] = truncations["x"] = False
        if self.t == 6:
            truncations |= dict.fromkeys(actions, True)
        until = {"removed": 2, "one step": 3}.get(self.after, 99)
        self.agents = [agent for agent in ("x", "y") if agent == "y" or self.t < until]
        self.asked = ["x", "y"] if self.t < 2 or (self.after == "respawns" and self.t >= 4) else ["y"]
        if self.t == 6:
            self.agents = ["x"] if self.after in ("stays", "flagged") else []
        return self.see(seen), rewards, terminations, truncations, {agent: {} for agent in seen}


class CountingAEC(AECEnv):
    """a, b, c take turns; turn n pays n to who acted and -0.5 to all others.

    b dies in turn 4, and turn 8 cuts everything off.
    """

    metadata = {"name": "counting_aec"}

    def __init__(self):
        super().__init__()
        self.possible_agents = ["a", "b", "c"]
        self.observation_spaces = dict.fromkeys(self.possible_agents, NUMBER)
        self.action_spaces = dict.fromkeys(self.possible_agents, TWO)

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observe(self, agent):
        return np.array([self.turn], np.float32)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.turn, self.agent_selection = 0, "a"
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {a: {} for a in self.agents}

    def step(self, action):
        actor = self.agent_selection
        if self.terminations[actor] or self.truncations[actor]:
            self._was_dead_step(action)
            return
        self.turn += 1
        self._cumulative_rewards[actor] = 0
        self.rewards = {a: self.turn if a == actor else -0.5 for a in self.agents}
        self._accumulate_rewards()
        if self.turn == 4:
            self.terminations["b"] = True
        if self.turn == 8:
            self.truncations = dict.fromkeys(self.agents, True)
        order = [a for a in self.agents if not self.terminations[a]]
        self.agent_selection = order[(order.index(actor) + 1) % len(order)] if actor in order else order[0]
        self._deads_step_first()


# obs, rewards, terminateds, truncateds of `ComingAndGoing`, from its reset on
STORY = [
    ({"a": [0]}, {}, {}, {}),
    ({"b": [1]}, {"a": 1}, {}, {}),  # turns: now b acts
    ({"a": [2], "c": [2, 2]}, {"b": 2, "a": 0.5}, {}, {}),  # c appears; a is paid for its first action once more
    ({"a": [3], "b": [3], "c": [3, 3]}, {"a": 3, "c": 3}, {"a": True}, {}),  # a's last observation
    ({"c": [4, 4]}, {"b": 4}, {"a": True}, {"b": True}),  # b is cut off and shows nothing; a stays flagged
    ({"a": [5], "c": [5, 5]}, {}, {}, {}),  # a is back
    ({"c": [6, 6]}, {"c": 6}, {}, {"__all__": True}),  # no agent is named, so a and c are cut off; a shows nothing
]


class ComingAndGoing:
    """A dict-style environment that plays `STORY`; c sees two numbers, the others one."""

    observation_spaces = {"a": NUMBER, "b": NUMBER, "c": PAIR}
    action_spaces = {"a": TWO, "b": TWO, "c": TWO}

    def __init__(self, announced=True):
        if announced:
            self.possible_agents = ["a", "b", "c"]
        else:
            self.possible_agents = ["a"]

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.expected = {"a"}
        return {"a": np.zeros(1, np.float32)}, {}

    def step(self, actions):
        assert set(actions) == self.expected, (actions, self.expected)
        self.t += 1
        obs, rewards, terminateds, truncateds = STORY[self.t]
        self.expected = {a for a in obs if not terminateds.get(a) and not truncateds.get(a)}
        shown = {a: np.array(value, np.float32) for a, value in obs.items()}
        return shown, rewards, {"__all__": False} | terminateds, {"__all__": False} | truncateds, {}


class WalkTogether:
    """Dict-style, one space for all, names no agents: walkers with ids 0 and 1, of which 1 comes later."""

    observation_space, action_space = PAIR, spaces.Box(-1, 3, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.place = self.rng.normal(size=2)
        return {0: np.array([self.place[0], 0.0])}, {}

    def step(self, actions):
        self.t += 1
        for agent, action in actions.items():
            self.place[agent] += action[0]
        obs = {agent: np.array([self.place[agent], self.t]) for agent in (0, 1)}
        rewards = {agent: -abs(self.place[agent]) for agent in actions}
        return obs, rewards, {"__all__": bool(self.place[0] > 9)}, {"__all__": self.t >= 7}, {0: {}, 1: {}}


PARTS = spaces.Dict(
    {
        "arm": spaces.Tuple((spaces.Box(-2, 2, (2,), np.float64), spaces.MultiBinary(2))),
        "gear": spaces.Discrete(3, start=1),
        "keys": spaces.MultiDiscrete([2, 2]),
    }
)


class Parts(gymnasium.Env):
    """Takes actions of parts, not in gear 1 (so says the mask in the info), shows what it got, then writes into it."""

    def __init__(self, truncate_at=6):
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (3,), np.float32), PARTS
        self.truncate_at, self.given = truncate_at, []

    def mask(self):
        return {"action_mask": np.array([0, 1, 1, 1, 1, 1, 1], np.int8)}

    def reset(self, *, seed=None, options=None):
        self.t, self.sum = 0, 0.0
        return np.array([seed, 0, 0], np.float32), self.mask()

    def step(self, action):
        assert self.action_space.contains(action), action
        assert action["gear"] > 1
        self.given.append(action)
        self.t += 1
        self.sum += float(action["arm"][0].sum())
        obs = np.array([action["gear"], self.sum, action["keys"].sum() + action["arm"][1].sum()], np.float32)
        action["arm"][0][:] = action["keys"][:] = 9
        return obs, self.sum, False, self.t == self.truncate_at, self.mask()


class PartsTogether:
    """Dict-style: two agents that play `Parts`, each its own; the second acts in a tuple."""

    agents = possible_agents = ["one", "two"]
    observation_spaces = dict.fromkeys(agents, spaces.Box(-np.inf, np.inf, (3,), np.float32))
    action_spaces = {"one": PARTS, "two": spaces.Tuple((PARTS, spaces.Discrete(2)))}

    def reset(self, *, seed=None, options=None):
        self.games = {agent: Parts() for agent in self.agents}
        shown = {agent: game.reset(seed=seed) for agent, game in self.games.items()}
        return {agent: obs for agent, (obs, _) in shown.items()}, self.masks()

    def masks(self):
        mask = self.games["one"].mask()["action_mask"]
        return {"one": {"action_mask": mask}, "two": {"action_mask": np.append(mask, [1, 1])}}

    def step(self, actions):
        assert isinstance(actions["two"], tuple)
        given = {"one": actions["one"], "two": actions["two"][0]}
        shown = {agent: game.step(given[agent]) for agent, game in self.games.items()}
        truncated = shown["one"][3]
        return (
            {agent: step[0] for agent, step in shown.items()},
            {agent: step[1] for agent, step in shown.items()},
            {"__all__": False},
            {"__all__": truncated},
            self.masks(),
        )
