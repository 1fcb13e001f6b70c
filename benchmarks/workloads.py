"""Settings of each workload, which Rookery and its peers read alike. Standard library only."""

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

SPREAD = PPO("mpe2.simple_spread_v3", 8, 100, 480, 4, lr=3e-4, gamma=0.95)
"""Three agents of one policy; a gradient step has 160 env steps, of all three agents."""

MATCHED = {
    "cartpole-matched": CARTPOLE,
    "cartpole-64": replace(CARTPOLE, num_envs=64),
    "pendulum-matched": PPO("Pendulum-v1", epochs=10, lr=1e-3, gamma=0.9),
    "arena-one": ARENA,
    "arena-two": ARENA,
    "halfcheetah": PPO("HalfCheetah-v5", lr=3e-4),
    "pong": PPO("ALE/Pong-v5", clip=0.1, entropy_coef=0.01),
    "synthetic": PPO("Busy", 32, 128, 2048),
    "connect-four": PPO("pettingzoo.classic.connect_four_v3"),
    "spread-ippo": SPREAD,
    "spread-mappo": SPREAD,
    "memory": PPO("StatelessCartPole", epochs=10, lr=3e-4, hidden=(64,), lstm=64),
}
"""Settings that all libraries share; `synthetic` has no peer that learns."""


@dataclass(frozen=True)
class OffPolicy:
    """A training from a replay memory.

    Attributes:
        env: Gymnasium id; one copy is played.
        iteration_steps: Env steps from one measurement to the next; as many random ones fill the memory first.
        train_every: Env steps from one gradient step to the next.
        batch_size: Decisions a gradient step.
        lr: Learning rate of Adam.
        hidden: Widths of the layers of each network, with ReLU.
        capacity: Decisions in the memory.
        target_every: Gradient steps from one copy of the target network to the next; 0 = it follows by a share of 0.005
            in each.
        epsilon_steps: Env steps in which the share of random actions falls from 1 to 0.05, where there is one.
        gamma: Discount.
    """

    env: str
    iteration_steps: int
    train_every: int
    batch_size: int
    lr: float
    hidden: tuple[int, ...]
    capacity: int
    target_every: int = 0
    epsilon_steps: int = 0
    gamma: float = 0.99


OFF_POLICY = {
    "dqn": OffPolicy("CartPole-v1", 1000, 4, 64, 5e-4, (64, 64), 50_000, target_every=250, epsilon_steps=10_000),
    "sac": OffPolicy("HalfCheetah-v5", 250, 1, 256, 3e-4, (256, 256), 300_000),
    **dict.fromkeys(("td3", "tqc", "crossq"), OffPolicy("HalfCheetah-v5", 250, 1, 256, 3e-4, (256, 256), 300_000)),
}
"""Settings that all libraries have; DQN is the plain one, SAC, TQC and CrossQ adapt their temperature, TD3 explores
with a noise of 0.1, TQC has two critics of 25 quantiles, of which two each are left out, and CrossQ trains its actor in
each step.
"""

QUICK = replace(CARTPOLE, fragment_length=32, minibatch_size=2048, lr=2e-3)
BEST = {
    "rookery-128": replace(CARTPOLE, num_envs=128, fragment_length=32, epochs=1, minibatch_size=128, lr=3e-3),
    "rookery-256": replace(CARTPOLE, num_envs=256, fragment_length=32, epochs=1, minibatch_size=128, lr=2e-3),
    "sb3-64": replace(CARTPOLE, num_envs=64, minibatch_size=2048, lr=1e-3),
    "sb3-128": replace(QUICK, num_envs=128, epochs=1, minibatch_size=512, lr=3e-3),
    "sb3-256": replace(QUICK, num_envs=256, epochs=1, minibatch_size=512, lr=3e-3),
    "sb3-256-large": replace(QUICK, num_envs=256, minibatch_size=4096, lr=3e-3),
    "rllib-256": replace(QUICK, num_envs=256),
}
"""``cartpole-best``: the fastest settings known for each library that reach 475; learning rates are higher than in
`CARTPOLE`, because with so many copies it would take several times the steps. On kernels small gradient steps cost
no more a row than large ones, so Rookery's look at each row once, in minibatches of 128; its first reaches 475 soonest,
its second plays the most steps a second.
"""
