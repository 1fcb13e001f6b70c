"""What is trained in each workload: settings that Rookery and its peers read alike. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, replace

TARGETS = {"cartpole-best": 475.0, "arena-15": 15.0}
"""Mean return (last 100 episodes) at which a run of the workload ends."""


@dataclass(frozen=True)
class PPO:
    """A PPO training.

    Attributes:
        env: Gymnasium id, or the name of an environment of ours.
        num_envs: Copies.
        fragment_length: Steps of each copy an iteration.
        minibatch_size: Decisions a gradient step.
        epochs: Passes over an iteration's decisions.
        lr: Learning rate of Adam.
        hidden: Widths of the layers of policy and value network; both are networks of their own, but for pictures.
        activation: Between the layers.
        gamma: Discount.
        gae_lambda: Decay of later errors in the advantage.
        entropy_coef: Weight of the entropy bonus.
        clip: How far the probability ratio may leave 1.
        lstm: Width of an LSTM behind the hidden layers, from which both policy and value are read; 0 = none.
        sequence_length: Steps through which it is learned, where that can be set.
    """

    env: str
    num_envs: int = 8
    fragment_length: int = 128
    minibatch_size: int = 256
    epochs: int = 4
    lr: float = 2.5e-4
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    gamma: float = 0.99
    gae_lambda: float = 0.95
    entropy_coef: float = 0.0
    clip: float = 0.2
    lstm: int = 0
    sequence_length: int = 32


CARTPOLE = PPO("CartPole-v1")
ARENA = PPO("MultiAgentArena", 40, 100, 128, 30, lr=3e-4, hidden=(256, 256))
"""RLlib's usual settings: 4,000 env steps an iteration (8,000 decisions), 30 epochs of minibatches of 128."""

MATCHED = {
    "cartpole-matched": CARTPOLE,
    "cartpole-64": replace(CARTPOLE, num_envs=64),
    "arena-one": ARENA,
    "arena-two": ARENA,
    "halfcheetah": PPO("HalfCheetah-v5", lr=3e-4),
    "pong": PPO("ALE/Pong-v5", clip=0.1, entropy_coef=0.01),
    "synthetic": PPO("Busy", 32, 128, 2048),
    "memory": PPO("StatelessCartPole", epochs=10, lr=3e-4, hidden=(64,), lstm=64),
}
"""Settings that all libraries share; `synthetic` has no peer that learns."""

QUICK = replace(CARTPOLE, fragment_length=32, minibatch_size=2048, lr=2e-3)
BEST = {
    "rookery-64": replace(CARTPOLE, num_envs=64, fragment_length=32, epochs=8, lr=1e-3),
    "rookery-256": replace(QUICK, num_envs=256),
    "sb3-64": replace(CARTPOLE, num_envs=64, minibatch_size=2048, lr=1e-3),
    "sb3-128": replace(QUICK, num_envs=128),
    "sb3-256": replace(QUICK, num_envs=256, minibatch_size=4096, lr=3e-3),
    "rllib-256": replace(QUICK, num_envs=256),
}
"""``cartpole-best``: the fastest settings known for each library that reach 475; learning rates are higher than in
`CARTPOLE`, because with so many copies it would take several times the steps. Rookery's first makes many small gradient
steps, which reaches 475 soonest, its second few large ones, which plays the most steps a second.
"""
