"""PPO on Pendulum with an entropy bonus so large that the Gaussian widens until nearly every action is clipped."""

from broken_runs import BrokenRun, trained

RUN = BrokenRun(
    fault="the entropy bonus widens the Gaussian until nearly every action is clipped",
    counted=("actions-saturated", "entropy-stuck"),
    env_steps=60_000,
    goal=-600,
    broken={"env": "Pendulum-v1", "algorithm": "ppo", "config": {"algorithm.entropy_coef": 0.5}},
    twin={"env": "Pendulum-v1", "algorithm": "ppo"},
    score=trained,
    settings={"sampling.num_envs": 4, "algorithm.lr": 1e-3, "algorithm.gamma": 0.9},
)
