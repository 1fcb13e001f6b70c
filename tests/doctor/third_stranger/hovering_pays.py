"""A drone is paid for each step near its dock, which is worth more than to dock and end the episode."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

MOVES = np.array([[0, 0], [0, 0.1], [0, -0.1], [0.1, 0], [-0.1, 0]])


class Dock(gymnasium.Env):
    """Fly to the dock in the middle; docking ends the episode."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(5)

    def __init__(self, pay="nearness"):
        self.pay = pay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.place, self.time = 0.9 * np.array([np.cos(angle), np.sin(angle)]), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.time += 1
        before = np.linalg.norm(self.place)
        self.place = np.clip(self.place + MOVES[action] + self.np_random.normal(0, 0.01, 2), -1, 1)
        distance = np.linalg.norm(self.place)
        docked = bool(distance < 0.12)
        reward = float(1 - distance if self.pay == "nearness" else before - distance - 0.01)
        return self.place.astype(np.float32), reward + 5.0 * docked, docked, self.time >= 150, {"is_success": docked}


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        Dock,
        PPOConfig(lr=1e-3),
        env_config={"pay": "nearness" if kind == "broken" else "progress"},
        seed=0,
        run_dir=f"runs/hovering_pays-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 80_000})
    env, docked = Dock(), 0
    for episode in range(50):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            action = trainer.policies["main"].predict(obs, deterministic=False)
            obs, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        docked += info["is_success"]
    print(f"{kind}: return {result.return_mean:.2f}, docked in {docked} of 50 episodes")
