"""CartPole with a rollout of one step of eight environments (fragment_length=4096) instead of 128."""

import gymnasium

from rookery import PPOConfig


def broken():
    return gymnasium.make("CartPole-v1")


healthy = broken

if __name__ == "__main__":
    from common import main

    main(
        "k_long",
        steps=40_000,
        config={"broken": PPOConfig(lr=1e-3, fragment_length=4096), "healthy": PPOConfig(lr=1e-3)},
    )
