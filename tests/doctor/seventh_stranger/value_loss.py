"""PPO with a loss of its own walks along a corridor of 40 cells to the exit."""

import argparse
from dataclasses import dataclass
from typing import ClassVar

import gymnasium
import torch
from gymnasium.spaces import Discrete

from rookery import PPO, PPOConfig, Trainer


class Corridor(gymnasium.Env):
    """Walk left (0) or right (1) from any cell; the exit at the right end pays 1; at most 100 steps."""

    observation_space, action_space = Discrete(40), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(39)), 0
        return self.place, {}

    def step(self, action):
        self.steps += 1
        self.place = max(0, self.place + (1 if action == 1 else -1))
        out = self.place == 39
        return self.place, 1.0 if out else -0.01, out, self.steps >= 100, {}


def common(outputs, batch, cfg, value_loss):
    """The clipped objective of PPO with a given error of the values."""
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    entropy = outputs.distribution.entropy().mean()
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
    kl = ratio - 1 - log_ratio
    return loss, {
        "policy_loss": policy_loss.detach(),
        "value_loss": value_loss.detach(),
        "entropy": entropy.detach(),
        "kl": kl.detach(),
    }


def my_loss(outputs, batch, cfg):
    """The mistake: [N] minus [N, 1] is [N, N], so that every value is drawn to the mean of all targets."""
    value = outputs.value.squeeze(1)
    return common(outputs, batch, cfg, (value - batch.value_target).square().mean())


def fixed_loss(outputs, batch, cfg):
    """Values and targets of the same shape."""
    return common(outputs, batch, cfg, (outputs.value - batch.value_target).square().mean())


class MyPPO(PPO):
    loss = staticmethod(my_loss)


class FixedPPO(PPO):
    loss = staticmethod(fixed_loss)


@dataclass(frozen=True)
class MyConfig(PPOConfig):
    algorithm: ClassVar[str] = "value_loss:MyPPO"


@dataclass(frozen=True)
class FixedConfig(PPOConfig):
    algorithm: ClassVar[str] = "value_loss:FixedPPO"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    config = FixedConfig if args.healthy else MyConfig
    trainer = Trainer(
        Corridor,
        config(lr=1e-3, fragment_length=8, epochs=4),
        num_envs=32,
        env_processes=0,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 40_000})
    print(f"score {trainer.evaluate(100).return_mean:.2f}")
