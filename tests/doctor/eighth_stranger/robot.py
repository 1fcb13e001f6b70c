"""Three parts of a robot, each with a DQN of its own, turn to their targets; an episode lasts 30 steps."""

import argparse

import numpy as np
from gymnasium.spaces import Box, Discrete

from rookery import DQNConfig, Trainer

PARTS = ["wheel", "arm", "camera"]


class Robot:
    """Each part turns left, not at all or right, and pays for its distance to its own target."""

    possible_agents = PARTS

    def __init__(self, fixed=False):
        self.fixed = fixed
        self.observation_spaces = {part: Box(-1, 1, (2,), np.float32) for part in PARTS}  # angle, target
        self.action_spaces = {part: Discrete(3) for part in PARTS}
        self.rng = np.random.default_rng()

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.angle, self.target = self.rng.uniform(-1, 1, (2, 3))
        self.steps = 0
        return self.observe(), {}

    def step(self, actions):
        self.steps += 1
        turn = np.array([actions[part] for part in PARTS]) - 1
        self.angle = np.clip(self.angle + 0.15 * turn, -1, 1)
        costs = np.abs(self.angle - self.target)
        names = PARTS if self.fixed else sorted(PARTS)  # the mistake: costs are in another order than sorted names
        rewards = {part: -float(cost) for part, cost in zip(names, costs, strict=True)}
        return self.observe(), rewards, {"__all__": False}, {"__all__": self.steps >= 30}, {}

    def observe(self):
        pairs = np.stack((self.angle, self.target), 1).astype(np.float32)
        return dict(zip(PARTS, pairs, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(
        Robot,
        DQNConfig(learning_starts=1_000, gamma=0.95, updates_per_step=0.25),
        policies=PARTS,
        env_config={"fixed": args.healthy},
        num_envs=8,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"return of all parts {trainer.evaluate(50).return_mean:.1f}")
