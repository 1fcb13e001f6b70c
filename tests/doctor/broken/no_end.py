"""CartPole that sets the pole up again by itself, and reports no end."""

import gymnasium
from broken_runs import BrokenRun, earned
from gymnasium.envs.classic_control import CartPoleEnv


class EndlessCartPole(gymnasium.Wrapper):
    """Begins again after a fall, without the end of an episode."""

    def __init__(self, ends=False):
        super().__init__(CartPoleEnv())
        self.ends = ends

    def reset(self, **given):
        self.steps = 0
        return self.env.reset(**given)

    def step(self, action):
        obs, reward, fell, _, info = self.env.step(action)
        self.steps += 1
        if fell and not self.ends:
            obs, _ = self.env.reset()
        return obs, reward, fell and self.ends, self.steps == 500 and self.ends, {"earned": 1.0, "fell": fell}


RUN = BrokenRun(
    fault="episodes never end",
    counted=("episodes-endless",),
    env_steps=40_000,
    goal=150,
    broken={"env": EndlessCartPole, "algorithm": "ppo"},
    twin={"env": EndlessCartPole, "algorithm": "ppo", "env_config": {"ends": True}},
    score=earned,
)
