"""PPO on CartPole with minibatches that are larger than the batch."""

from broken_runs import BrokenRun, trained

RUN = BrokenRun(
    fault="a minibatch of 65,536 decisions is asked for, and a batch has 1,024",
    counted=("minibatch-misfit",),
    env_steps=20_000,
    goal=110,
    broken={"env": "CartPole-v1", "algorithm": "ppo", "config": {"algorithm.minibatch_size": 65_536}},
    twin={"env": "CartPole-v1", "algorithm": "ppo"},
    score=trained,
)
