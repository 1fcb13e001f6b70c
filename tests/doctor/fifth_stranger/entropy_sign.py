"""A gripper moves to a point in space with SAC; the target entropy of the broken run has lost its minus sign."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import SACConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Gripper(gymnasium.Env):
    def __init__(self, limit=30):
        self.limit = limit
        self.observation_space = Box(-2, 2, (6,), np.float32)
        self.action_space = Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 3))
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        self.place = np.clip(self.place + 0.2 * action, -2, 2)
        distance = float(np.linalg.norm(self.place - self.goal))
        return self.observe(), -distance, False, self.time >= self.limit, {"is_success": distance < 0.2}

    def observe(self):
        return np.concatenate([self.place, self.goal]).astype(np.float32)


if __name__ == "__main__":
    sac = SACConfig(learning_starts=500, batch_size=128, lr=1e-3, target_entropy=3.0 if MODE == "broken" else -3.0)
    trainer = Trainer(Gripper, sac, num_envs=4, seed=0, run_dir=f"runs/entropy_sign-{MODE}", force=True)
    trainer.train(stop={"env_steps": 6_000, "seconds": 60})
    trainer.save()
    print("mean return:", trainer.evaluate(episodes=40, deterministic=False).return_mean)
