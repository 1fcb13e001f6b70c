"""DQN on CartPole whose replay buffer holds 64 decisions."""

from broken_runs import BrokenRun, trained

RUN = BrokenRun(
    fault="the replay buffer holds 64 decisions",
    counted=("replay-small",),
    env_steps=40_000,
    goal=100,
    broken={
        "env": "CartPole-v1",
        "algorithm": "dqn",
        "config": {"algorithm.replay.capacity": 64, "algorithm.learning_starts": 64},
    },
    twin={"env": "CartPole-v1", "algorithm": "dqn"},
    score=trained,
    settings={"algorithm.batch_size": 64},
)
