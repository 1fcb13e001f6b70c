"""A new trainer in each pass of the loop."""

import sys

from rookery import PPOConfig, Trainer


def new(kind):
    return Trainer("CartPole-v1", PPOConfig(lr=1e-3), num_envs=8, seed=1, run_dir=f"runs/restart-{kind}", force=True)


def train_one(kind):
    trainer = new(kind)  # mistake: each epoch starts with new weights
    return trainer.train(stop={"env_steps": 3_000})


kind = sys.argv[1]
if kind == "broken":
    for epoch in range(10):
        result = train_one(kind)
else:
    trainer = new(kind)
    for epoch in range(1, 11):
        result = trainer.train(stop={"env_steps": 3_000 * epoch})
print(result.return_mean)
