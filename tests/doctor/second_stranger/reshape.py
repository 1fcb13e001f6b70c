"""A custom model that mixes the rows of a batch."""

import sys

import torch

from rookery import ModelConfig, PPOConfig, Trainer


class Features(torch.nn.Module):
    """Encodes each feature on its own, then all of them together."""

    def __init__(self, obs_space, mixed):
        super().__init__()
        size = obs_space.shape[0]
        self.mixed, self.num_features = mixed, 64
        self.each = torch.nn.ModuleList(torch.nn.Linear(1, 16) for _ in range(size))
        self.net = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(16 * size, 64), torch.nn.Tanh())

    def forward(self, obs):
        # mistake: reshape does not transpose, so a column holds values of several samples
        columns = obs.reshape(obs.shape[1], obs.shape[0]) if self.mixed else obs.T
        parts = [layer(column.unsqueeze(1)) for layer, column in zip(self.each, columns)]
        return self.net(torch.cat(parts, dim=1))


if __name__ == "__main__":
    kind = sys.argv[1]
    model = ModelConfig(module=Features, module_config={"mixed": kind == "broken"})
    ppo = PPOConfig(lr=1e-3, model=model)
    trainer = Trainer("CartPole-v1", ppo, num_envs=8, seed=1, run_dir=f"runs/reshape-{kind}", force=True)
    print(trainer.train(stop={"env_steps": 30_000}).return_mean)
