"""Jobs go to one of five machines, of which two are busy; the mask of the broken run marks those that are busy."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

MODE = sys.argv[1] if len(sys.argv) > 1 else "broken"


class Dispatch(gymnasium.Env):
    """A job on a free machine earns that machine's speed; on a busy one the job is lost."""

    def __init__(self, machines=5, jobs=20):
        self.machines, self.jobs = machines, jobs
        self.observation_space = Box(0, 1, (2 * machines,), np.float32)
        self.action_space = Discrete(machines)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.done_jobs = 0
        self.draw()
        return self.observe(), self.info()

    def draw(self):
        self.busy = np.zeros(self.machines, bool)
        self.busy[self.np_random.choice(self.machines, 2, replace=False)] = True
        self.speed = self.np_random.random(self.machines)

    def step(self, action):
        reward = -1.0 if self.busy[action] else float(self.speed[action])
        self.done_jobs += 1
        self.draw()
        return self.observe(), reward, False, self.done_jobs >= self.jobs, self.info()

    def observe(self):
        return np.concatenate([self.busy, self.speed]).astype(np.float32)

    def info(self):
        return {"action_mask": (self.busy if MODE == "broken" else ~self.busy).astype(np.int8)}


if __name__ == "__main__":
    ppo = PPOConfig(lr=2e-3, fragment_length=64, epochs=5)
    trainer = Trainer(Dispatch, ppo, num_envs=8, seed=0, run_dir=f"runs/busy_mask-{MODE}", force=True)
    trainer.train(stop={"env_steps": 20_000})
    trainer.save()
    print("mean return:", trainer.evaluate(episodes=40).return_mean)
