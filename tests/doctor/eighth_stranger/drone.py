"""PPO with a loss of its own flies a drone to a beacon and stays there; an episode lasts 40 steps."""

import argparse
from dataclasses import dataclass
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from rookery import PPO, PPOConfig, Trainer


class Drone(gymnasium.Env):
    """Fly along two axes; each step costs the distance to the beacon."""

    observation_space = Box(-2, 2, (4,), np.float32)  # way to the beacon, speed
    action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.way, self.speed, self.steps = self.np_random.uniform(-1, 1, 2), np.zeros(2), 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.speed = 0.7 * self.speed + 0.1 * np.clip(action, -1, 1)
        self.way = np.clip(self.way - self.speed, -2, 2)
        return self.observe(), -float(np.linalg.norm(self.way)), False, self.steps >= 40, {}

    def observe(self):
        return np.concatenate((self.way, self.speed)).astype(np.float32)


def surrogate(outputs, batch, cfg, old):
    """Returns the clipped loss of PPO, with the log-probabilities ``old``, ``[N]``, as those before the update."""
    log_ratio = outputs.distribution.log_prob(batch.action) - old
    ratio = log_ratio.exp()
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    policy_loss = -(ratio * advantage).minimum(clipped * advantage).mean()
    value_loss = (outputs.value - batch.value_target).square().mean()
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * outputs.distribution.entropy().mean()
    kl = (ratio - 1 - log_ratio).detach()
    return loss, {"policy_loss": policy_loss.detach(), "value_loss": value_loss.detach(), "kl": kl}


def own_loss(outputs, batch, cfg):
    """The mistake: the old log-probabilities are those of the network that is being trained."""
    return surrogate(outputs, batch, cfg, outputs.distribution.log_prob(batch.action))


def fixed_loss(outputs, batch, cfg):
    """The same with the stored log-probabilities."""
    return surrogate(outputs, batch, cfg, batch.logp)


class OwnPPO(PPO):
    loss = staticmethod(own_loss)


class FixedPPO(PPO):
    loss = staticmethod(fixed_loss)


@dataclass(frozen=True)
class OwnConfig(PPOConfig):
    algorithm: ClassVar[str] = "drone:OwnPPO"


@dataclass(frozen=True)
class FixedConfig(PPOConfig):
    algorithm: ClassVar[str] = "drone:FixedPPO"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    cfg = (FixedConfig if args.healthy else OwnConfig)(lr=1e-3, epochs=5)
    run = {"run_dir": args.run, "force": True, "seed": args.seed}
    trainer = Trainer(Drone, cfg, num_envs=16, env_processes=0, **run)
    trainer.train(stop={"env_steps": 60_000})
    print(f"return {trainer.evaluate(50).return_mean:.1f}")
