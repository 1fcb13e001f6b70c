"""DQN balances CartPole with a network of its own."""

import argparse

import torch
from torch import nn

from rookery import DQNConfig, ModelConfig, Trainer


class Values(nn.Module):
    """Two layers, and a value for each action."""

    num_values = 0

    def __init__(self, obs_space, action_space, num_outputs, fixed=False, width=64):
        super().__init__()
        layers = [nn.Linear(obs_space.shape[0], width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        layers.append(nn.Linear(width, num_outputs))
        if not fixed:  # the mistake: action values are no probabilities
            layers.append(nn.Softmax(dim=-1))
        self.net = nn.Sequential(*layers)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = ModelConfig(module=Values, module_config={"fixed": args.healthy}, output="action_params")
    trainer = Trainer(
        "CartPole-v1",
        DQNConfig(lr=1e-3, batch_size=64, updates_per_step=0.25, model=model),
        num_envs=8,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 40_000})
    print(f"return {trainer.evaluate(20).return_mean:.0f}")
