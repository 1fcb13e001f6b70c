"""DQN on a frozen lake, where only the last step pays, with a discount of 0."""

from broken_runs import BrokenRun

RUN = BrokenRun(
    fault="the discount is 0, and only the last of several steps is rewarded",
    counted=("gamma-zero", "horizon-beyond-gamma"),
    env_steps=15_000,
    goal=0.9,
    broken={"env": "FrozenLake-v1", "algorithm": "dqn", "config": {"algorithm.gamma": 0.0}},
    twin={"env": "FrozenLake-v1", "algorithm": "dqn"},
    settings={"env.config": {"is_slippery": False}, "sampling.num_envs": 4, "algorithm.lr": 1e-3},
)
