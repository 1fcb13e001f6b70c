"""DQN on CartPole whose exploration would end after ten million steps."""

from broken_runs import BrokenRun, trained

RUN = BrokenRun(
    fault="epsilon falls over ten million steps, of which the run has 40,000",
    counted=("epsilon-stuck", "evaluation-above-training"),
    env_steps=40_000,
    goal=80,
    broken={
        "env": "CartPole-v1",
        "algorithm": "dqn",
        "config": {"algorithm.exploration.epsilon": {"start": 1.0, "end": 0.05, "steps": 10_000_000}},
    },
    twin={"env": "CartPole-v1", "algorithm": "dqn"},
    score=trained,
)
