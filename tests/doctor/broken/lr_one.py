"""PPO on CartPole with a learning rate of 1."""

from broken_runs import BrokenRun

RUN = BrokenRun(
    fault="the learning rate is 1",
    counted=("lr-out-of-range", "kl-out-of-range", "clip-fraction-out-of-range", "entropy-collapsed"),
    env_steps=40_000,
    goal=150,
    broken={"env": "CartPole-v1", "algorithm": "ppo", "config": {"algorithm.lr": 1.0}},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
)
