"""`write_environment`: writes a template of an environment in Python, and a test of it."""

from __future__ import annotations

from pathlib import Path

from rookery.envs.native.template_files import check_new_files

ONE_AGENT = '''"""A walk to a goal, as a first environment; change it into your own.

    rookery envs check MODULE:CLASS     plays random episodes and reports all errors
    rookery train MODULE:CLASS          trains
"""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class CLASS(gymnasium.Env):
    """An agent on a line walks to a goal. The arguments are settings: env.config.size=20."""

    def __init__(self, size=10, max_steps=50):
        self.size, self.max_steps = size, max_steps
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)  # place, goal
        self.action_space = Discrete(3)  # left, stay, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # makes self.np_random; draw all random numbers from it
        self.place, self.goal = (int(number) for number in self.np_random.integers(0, self.size + 1, 2))
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.place = min(max(self.place + int(action) - 1, 0), self.size)
        self.steps += 1
        arrived = self.place == self.goal  # terminated: the episode reached an end state
        late = self.steps >= self.max_steps  # truncated: the episode is cut off
        return self.observe(), 1.0 if arrived else -0.1, arrived, late and not arrived, {}

    def observe(self):
        return np.array([self.place, self.goal], np.float32) / self.size
'''

SEVERAL_AGENTS = '''"""A walk to goals with several agents, as a first environment; change it into your own.

    rookery envs check MODULE:CLASS     plays random episodes and reports all errors
    rookery train settings.yaml         trains
"""

import numpy as np
from gymnasium.spaces import Box, Discrete


class CLASS:
    """Agents on a line walk to their goals. The arguments are settings: env.config.size=20.

    All values are dictionaries by agent. The agents with an observation act next. An agent ends when its entry in
    terminateds or truncateds is true, and the episode when that of "__all__" is.
    """

    possible_agents = AGENTS

    def __init__(self, size=10, max_steps=50):
        self.size, self.max_steps = size, max_steps
        self.observation_spaces = {agent: Box(0.0, 1.0, (2,), np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: Discrete(3) for agent in self.possible_agents}  # left, stay, right
        self.rng = np.random.default_rng()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)  # draw all random numbers from it
        self.places, self.goals = (
            {agent: int(self.rng.integers(0, self.size + 1)) for agent in self.possible_agents} for _ in range(2)
        )
        self.steps = 0
        return self.observe(self.possible_agents), {}

    def step(self, actions):
        for agent, action in actions.items():
            self.places[agent] = min(max(self.places[agent] + int(action) - 1, 0), self.size)
        self.steps += 1
        arrived = {agent: self.places[agent] == self.goals[agent] for agent in actions}
        late = {agent: self.steps >= self.max_steps and not arrived[agent] for agent in actions}
        rewards = {agent: 1.0 if arrived[agent] else -0.1 for agent in actions}
        terminateds = {**arrived, "__all__": all(arrived.values())}
        truncateds = {**late, "__all__": any(late.values())}
        return self.observe(actions), rewards, terminateds, truncateds, {}

    def observe(self, agents):
        return {
            agent: np.array([self.places[agent], self.goals[agent]], np.float32) / self.size for agent in agents
        }
'''

TEST_OF_ONE = '''"""Tests of CLASS: python -m pytest"""

import numpy as np
from gymnasium.utils.env_checker import check_env
from MODULE import CLASS


def played(seed, choose):
    """Plays an episode; returns its observations, its return, and whether it was terminated and truncated."""
    env = CLASS()
    obs, _ = env.reset(seed=seed)
    seen, total, terminated, truncated = [obs], 0.0, False, False
    while not (terminated or truncated):
        obs, reward, terminated, truncated, _ = env.step(choose(obs))
        seen.append(obs)
        total += reward
    return np.array(seen), total, terminated, truncated


def towards_goal(obs):
    return 1 + int(np.sign(obs[1] - obs[0]))


def test_the_environment_follows_the_interface():
    check_env(CLASS(), skip_render_check=True)


def test_equal_seeds_and_actions_give_equal_episodes():
    assert np.array_equal(played(3, towards_goal)[0], played(3, towards_goal)[0])


def test_walking_towards_the_goal_ends_the_episode():
    for seed in range(20):
        _, total, terminated, truncated = played(seed, towards_goal)
        assert terminated and not truncated and total > 0


def test_an_episode_is_truncated_after_its_last_step():
    ends = [played(seed, lambda obs: 0)[1:] for seed in range(20)]
    assert any(truncated and not terminated and total < -4 for total, terminated, truncated in ends)
'''

TEST_OF_SEVERAL = '''"""Tests of CLASS: python -m pytest"""

import numpy as np
from MODULE import CLASS


def played(seed, choose):
    """Plays an episode; returns the return of each agent, the last terminateds and truncateds, and the steps."""
    env = CLASS()
    obs, _ = env.reset(seed=seed)
    returns, terminateds, truncateds = dict.fromkeys(env.possible_agents, 0.0), {"__all__": False}, {"__all__": False}
    acting = list(obs)
    while not (terminateds["__all__"] or truncateds["__all__"]):
        obs, rewards, terminateds, truncateds, _ = env.step({agent: choose(obs[agent]) for agent in acting})
        for agent, reward in rewards.items():
            returns[agent] += reward
        acting = [agent for agent in obs if not (terminateds[agent] or truncateds[agent])]
    return returns, terminateds["__all__"], truncateds["__all__"], env.steps


def towards_goal(obs):
    return 1 + int(np.sign(obs[1] - obs[0]))


def test_observations_are_in_their_spaces():
    env = CLASS()
    obs, _ = env.reset(seed=0)
    assert list(obs) == env.possible_agents
    assert all(env.observation_spaces[agent].contains(one) for agent, one in obs.items())


def test_equal_seeds_and_actions_give_equal_episodes():
    assert played(3, towards_goal) == played(3, towards_goal)


def test_agents_that_walk_towards_their_goals_end_the_episode():
    for seed in range(20):
        returns, terminated, truncated, _ = played(seed, towards_goal)
        assert terminated and not truncated and min(returns.values()) > 0


def test_an_episode_is_truncated_after_its_last_step():
    assert any(truncated and steps == 50 for _, _, truncated, steps in (played(s, lambda obs: 0) for s in range(20)))
'''


def class_name(module: str) -> str:
    """Returns the name of a class for the name of a module: ``MyGame`` for ``my_game``."""
    return "".join(part[:1].upper() + part[1:] for part in module.split("_"))


def agent_names(agents: int) -> list[str]:
    """Returns the names of the agents of an environment with several."""
    return [f"agent{number}" for number in range(1, agents + 1)]


def filled(template: str, module: str, agents: int) -> str:
    """Returns a template with the names of a module and its class."""
    names = "[{}]".format(", ".join(f'"{name}"' for name in agent_names(agents)))
    return template.replace("MODULE", module).replace("CLASS", class_name(module)).replace("AGENTS", names)


def write_environment(path: Path, agents: int) -> tuple[Path, Path]:
    """Writes an environment in Python and a test of it; returns both files.

    Args:
        path: The environment, ``my_env`` or ``my_env.py``.
        agents: Number of its agents; several act by dictionaries.

    Raises:
        ConfigError: If a file exists already, the name is not valid for a module, or the folder does not exist.
    """
    source = path if path.suffix == ".py" else path.with_name(f"{path.name}.py")
    test = source.with_name(f"test_{source.stem}.py")
    check_new_files(source, test)
    texts = (ONE_AGENT, TEST_OF_ONE) if agents == 1 else (SEVERAL_AGENTS, TEST_OF_SEVERAL)
    for file, text in zip((source, test), texts, strict=True):
        file.write_text(filled(text, source.stem, agents), encoding="utf-8")
    return source, test
