"""PPO on CartPole with an entropy bonus of 1."""

import sys

from rookery import PPOConfig, Trainer

kind = sys.argv[1]
coef = 1.0 if kind == "broken" else 0.01  # mistake: the bonus for entropy outweighs the reward
ppo = PPOConfig(lr=1e-3, entropy_coef=coef)
trainer = Trainer("CartPole-v1", ppo, num_envs=8, seed=1, run_dir=f"runs/entropy-{kind}", force=True)
print(trainer.train(stop={"env_steps": 40_000}).return_mean)
