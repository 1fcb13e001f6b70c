"""A frozen lake whose goal is further away than an episode is long."""

from broken_runs import BrokenRun


def lake(size):
    """Returns the arguments of a lake without holes."""
    rows = ["S" + "F" * (size - 1), *["F" * size] * (size - 2), "F" * (size - 1) + "G"]
    return {"desc": rows, "is_slippery": False, "max_episode_steps": 20}


RUN = BrokenRun(
    fault="no episode is long enough to reach the only reward",
    counted=("reward-missing",),
    env_steps=30_000,
    goal=0.9,
    broken={"env": "FrozenLake-v1", "algorithm": "ppo", "env_config": lake(12)},
    twin={"env": "FrozenLake-v1", "algorithm": "ppo", "env_config": lake(4)},
)
