"""A boat that follows a buoy, SAC: the target entropy of the broken run lacks its minus."""

import sys

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box

from rookery import ModelConfig, SACConfig, Trainer


class Boat(Env):
    observation_space = Box(-2, 2, (4,), np.float32)
    action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.boat, self.buoy = self.np_random.uniform(-1, 1, (2, 2))
        self.time = 0
        return self.observe(), {}

    def step(self, action):
        self.boat = np.clip(self.boat + 0.2 * np.clip(action, -1, 1), -2, 2)
        self.time += 1
        distance = np.linalg.norm(self.boat - self.buoy)
        return self.observe(), float(-distance), False, self.time == 30, {}

    def observe(self):
        return np.concatenate([self.boat, self.buoy]).astype(np.float32)


if __name__ == "__main__":
    variant = sys.argv[1]
    actions = float(np.prod(Boat.action_space.shape))
    trainer = Trainer(
        Boat,
        SACConfig(
            lr=1e-3,
            updates_per_step=0.5,
            train_every=8,
            batch_size=128,
            target_entropy=actions if variant == "broken" else -actions,
            model=ModelConfig(hidden=(64, 64)),
        ),
        num_envs=8,
        seed=0,
        run_dir=f"runs/target_entropy-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": 10_000, "seconds": 40})
    print(f"{variant}: return {trainer.evaluate(100).return_mean:.1f}")
