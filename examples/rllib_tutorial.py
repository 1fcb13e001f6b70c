"""RLlib's tutorial of 2021 in Rookery: run the environment by hand, train, inspect, save, tune, write a model.

Exercise 1 runs the arena by hand, exercise 2 tries settings of two policies, exercise 3 counts events of the agents.
"""

import torch
from torch import nn

from rookery import Callback, ModelConfig, MultiAgentArena, PPOConfig, Trainer, tune

STEPS = 60_000
"""Environment steps of a training, at most."""

TWO = {"policies": ["pol1", "pol2"], "policy_mapping": {"agent1": "pol1", "agent2": "pol2"}}


# --- exercise 1: the loop by hand -------------------------------------------------------------------------------------


def play(act, episodes=5):
    """Plays episodes by a function from observation to action, and gives what both agents earned in each."""
    env, earned = MultiAgentArena(), []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        earned.append(0.0)
        over = False
        while not over:
            obs, rewards, terminated, truncated, _ = env.step({agent: act(seen) for agent, seen in obs.items()})
            earned[-1] += sum(rewards.values())
            over = terminated["__all__"] or truncated["__all__"]
    return [round(value, 1) for value in earned]


space = MultiAgentArena().action_spaces["agent1"]
print("by chance:", play(lambda obs: space.sample()))

# --- one policy for both agents ---------------------------------------------------------------------------------------

trainer = Trainer(MultiAgentArena, PPOConfig(), num_envs=10, seed=0)
result = trainer.train(stop={"return_mean": 15, "env_steps": STEPS})
policy = trainer.policies["main"]
print(f"trained for {result.env_steps:,} steps:", play(lambda obs: policy.predict(obs, deterministic=False)))

with torch.no_grad():  # inside: an observation, the chances of the four moves
    distribution = policy({"obs": torch.tensor([[0, 99]])})
print("chances of up, right, down, left:", distribution.parameters[0].exp().numpy().round(2))

saved = trainer.save("runs/arena-one")
again = Trainer.load(saved)  # with its environments, in the middle of their episodes
print(
    "evaluated:",
    trainer.evaluate(episodes=20, deterministic=False).return_mean,
    "and when loaded:",
    again.evaluate(episodes=20, deterministic=False).return_mean,
)

# --- exercise 2: two policies, a grid of settings ---------------------------------------------------------------------

analysis = tune.run(
    MultiAgentArena,
    PPOConfig(lr=tune.grid_search([1e-4, 5e-4]), rollout_size=tune.grid_search([2000, 3000])),
    **TWO,
    num_envs=10,
    stop={"return_mean": 15, "env_steps": STEPS},
    metric="env_steps",
    mode="min",
    seed=0,
    folder="runs/arena-grid",
    force=True,
)
best = analysis.best()
print("quickest to 15:", best.params)

# --- a model of one's own ---------------------------------------------------------------------------------------------


class Tiles(nn.Module):
    """Learns a vector for each tile of either agent, adds them up, and puts a layer on top."""

    def __init__(self, obs_space, width=128):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(int(tiles), width) for tiles in obs_space.nvec)
        self.layer = nn.Linear(width, width)
        self.num_features = width

    def forward(self, obs):
        seen = sum(table(tile) for table, tile in zip(self.tables, obs.unbind(1), strict=True))
        return torch.relu(self.layer(torch.relu(seen)))


# --- exercise 3: what do the agents do? -------------------------------------------------------------------------------


class Doings(Callback):
    """Counts the tiles that the explorer finds in an episode, and how often the two run into each other."""

    def on_episode_start(self, episode):
        episode.metrics["new_tiles"] = episode.metrics["collisions"] = 0

    def on_episode_step(self, episode):
        episode.metrics["new_tiles"] += episode.reward["agent1"] == 1.0
        episode.metrics["collisions"] += episode.reward["agent2"] == 1.0


model = ModelConfig(module=Tiles, module_config={"width": 64})
trainer = Trainer(MultiAgentArena, PPOConfig(model=model), **TWO, num_envs=10, seed=0, callbacks=[Doings()])
for result in trainer.results(stop={"return_mean": 15, "env_steps": STEPS}):
    print(f"{result.iteration} {result.return_mean:.1f}", end="  ", flush=True)
for name, (least, mean, most) in result.metrics.items():
    print(f"{name}: {mean:.1f} an episode, from {least:.0f} to {most:.0f}")
for name, policy in result.policies.items():
    print(f"{name} earns {policy.return_mean:.1f}")
