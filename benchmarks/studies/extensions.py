"""Cost of custom code: ``extensions.py [--rounds 7] [--seconds 2]``; prints a table.

On the settings of cartpole-64, PPO as it is beside: a plain subclass of its networks, a callback for ended episodes,
one for every step, two value columns (examples/two_values.py), and a custom loss (examples/own_loss.py). They run in
turn, in one process; reported is the median of the rounds' ratios to PPO.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import ClassVar

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from own_loss import SPOConfig
from two_values import CuriousConfig

from rookery import PPO, Callback, PPOConfig, Trainer
from rookery.extend import ActorCritic, Role

sys.path.append(str(Path(__file__).parents[1]))
from ours import trainer
from workloads import MATCHED


class PlainNet(ActorCritic):
    """Changes nothing."""


class Subclass(PPO):
    """PPO on a subclass of its networks."""

    def make_net(self) -> ActorCritic:
        """Builds the subclass as PPO builds the networks."""
        import torch

        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, self.name, 1))
        return PlainNet(self.policy, self.cfg.model, generator, columns=len(self.columns))


@dataclass(frozen=True)
class SubclassConfig(PPOConfig):
    """Settings of the subclass."""

    algorithm: ClassVar[str] = "extensions:Subclass"


class HearsEnds(Callback):
    """Looks at each episode that has ended."""

    def on_episode_end(self, episode):
        """Keeps a number."""
        episode.metrics["length"] = episode.length


class Follows(HearsEnds):
    """Follows every step."""

    def on_episode_step(self, episode):
        """Looks at it."""


def make(cfg: type[PPOConfig] = PPOConfig, callbacks: tuple[Callback, ...] = ()) -> Trainer:
    """A trainer with the settings of cartpole-64 and those of another class besides."""
    plain = trainer(MATCHED["cartpole-64"], 0)
    settings = plain.config.policies["main"].algorithm
    plain.close()
    own = cfg(**{item.name: getattr(settings, item.name) for item in fields(PPOConfig)})
    return Trainer("CartPole-v1", own, num_envs=64, seed=0, callbacks=callbacks)


KINDS: dict[str, Callable[[], Trainer]] = {
    "PPO": make,
    "plain subclass of its networks": lambda: make(SubclassConfig),
    "callback on_episode_end": lambda: make(callbacks=(HearsEnds(),)),
    "callback on_episode_step": lambda: make(callbacks=(Follows(),)),
    "two value columns": lambda: make(CuriousConfig),
    "loss of one's own": lambda: make(SPOConfig),
}


def speed(trainer: Trainer, seconds: float) -> float:
    """Returns the env steps a second of a trainer that continues."""
    began, steps = perf_counter(), trainer.env_steps
    while perf_counter() - began < seconds:
        trainer.train_iteration()
    return (trainer.env_steps - steps) / (perf_counter() - began)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    trainers = {name: build() for name, build in KINDS.items()}
    for one in trainers.values():
        speed(one, options.seconds)  # episodes are short at first
    found: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(options.rounds):
        for name, one in trainers.items():
            found[name].append(speed(one, options.seconds))
    print("| what | steps/s | of PPO |\n|---|---|---|")
    for name, speeds in found.items():
        ratio = median(mine / plain for mine, plain in zip(speeds, found["PPO"], strict=True))
        print(f"| {name} | {median(speeds):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
