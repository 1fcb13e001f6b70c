"""A rover repeats each action; the wrapper leaves its loop at the end of an episode before it adds the last reward."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import PPOConfig, Trainer

MINES = np.array([[-0.8, 0.5], [-0.8, -0.5], [0.1, 0.0]])
BASE = np.array([0.8, 0.0])
MOVES = np.array([[0, 0.04], [0, -0.04], [0.04, 0], [-0.04, 0]])


class Rover(gymnasium.Env):
    """Drive to the base (+10) around the mines (-10); each move costs a little fuel."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = np.array([-0.4, self.np_random.uniform(-0.6, 0.6)]), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.time += 1
        self.place = np.clip(self.place + MOVES[action] + self.np_random.normal(0, 0.01, 2), -1, 1)
        hit = bool((np.linalg.norm(MINES - self.place, axis=1) < 0.15).any())
        home = bool(np.linalg.norm(BASE - self.place) < 0.25)
        reward = 10.0 if home else -10.0 if hit else -0.03
        return self.place.astype(np.float32), reward, hit or home, self.time >= 240, {"is_success": home}


class ActionRepeat(gymnasium.Wrapper):
    """Repeats each action four times and sums the rewards."""

    def __init__(self, env, keep_last):
        super().__init__(env)
        self.keep_last = keep_last

    def step(self, action):
        total = 0.0
        for _ in range(4):
            obs, reward, terminated, truncated, info = self.env.step(action)
            if (terminated or truncated) and not self.keep_last:
                break
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


def make(keep_last):
    return ActionRepeat(Rover(), keep_last)


if __name__ == "__main__":
    kind = sys.argv[1]
    trainer = Trainer(
        make,
        PPOConfig(lr=1e-3),
        env_config={"keep_last": kind == "healthy"},
        seed=0,
        run_dir=f"runs/action_repeat_drops_end-{kind}",
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 60_000})
    env, home = make(True), 0
    for episode in range(50):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            obs, _, terminated, truncated, info = env.step(trainer.policies["main"].predict(obs))
            over = terminated or truncated
        home += info["is_success"]
    print(f"{kind}: return {result.return_mean:.2f}, reached the base in {home} of 50 episodes")
