"""A crane has to move to a random target, which its observation does not contain."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import PPOConfig, Trainer


class Crane(gymnasium.Env):
    """Move the hook to the target of this episode; the reward is minus the distance."""

    action_space = Box(-1, 1, (2,), np.float32)

    def __init__(self, show_target=False):
        self.show_target = show_target
        self.observation_space = Box(-2, 2, (6 if show_target else 4,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hook, self.target = self.np_random.uniform(-1, 1, (2, 2))
        self.speed, self.time = np.zeros(2), 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.speed = 0.5 * self.speed + 0.1 * np.clip(action, -1, 1)
        self.hook = np.clip(self.hook + self.speed, -1, 1)
        reward = -float(np.linalg.norm(self.target - self.hook))
        return self.observe(), reward, False, self.time >= 40, {}

    def observe(self):
        seen = [self.hook, self.speed, self.target - self.hook] if self.show_target else [self.hook, self.speed]
        return np.concatenate(seen).astype(np.float32)


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        Crane,
        PPOConfig(lr=1e-3, gamma=0.95),
        env_config={"show_target": kind == "healthy"},
        seed=0,
        run_dir=f"runs/goal_not_observed-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 60_000})
    print(f"{kind}: return {result.return_mean:.2f}, evaluated {trainer.evaluate(50).return_mean:.2f}")
