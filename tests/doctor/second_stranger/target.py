"""DQN whose target network is copied too late for its run."""

import sys

from rookery import DQNConfig, Trainer
from rookery.algorithms.off_policy.dqn import TargetConfig

kind = sys.argv[1]
every = 1_000_000 if kind == "broken" else 500  # mistake: the run ends before the first copy
dqn = DQNConfig(lr=1e-3, target=TargetConfig(every_env_steps=every))
trainer = Trainer("CartPole-v1", dqn, num_envs=8, seed=1, run_dir=f"runs/target-{kind}", force=True)
print(trainer.train(stop={"env_steps": 25_000}).return_mean)
