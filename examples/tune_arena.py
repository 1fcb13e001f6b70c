"""A grid of two learning rates and two batch sizes in the arena: who needs fewest steps until both earn 15 together?"""

from rookery import ModelConfig, MultiAgentArena, PPOConfig, tune

analysis = tune.run(
    MultiAgentArena,
    PPOConfig(
        lr=tune.grid_search([1e-4, 5e-4]),
        rollout_size=tune.grid_search([2000, 3000]),
        model=ModelConfig(hidden=(128, 128)),
    ),
    policies=["pol1", "pol2"],
    policy_mapping={"agent1": "pol1", "agent2": "pol2"},
    num_envs=10,
    stop={"return_mean": 15, "iterations": 100},
    metric="env_steps",
    mode="min",
    seed=0,
    folder="runs/tune-arena",
    force=True,  # replaces the experiment of an earlier start
)
best = analysis.best()
print(f"{best.name} was the quickest, with {best.params}; its last checkpoint is {best.checkpoint}")
tune.write_report(analysis, "runs/tune-arena/report.html")
print("look at runs/tune-arena/report.html; rookery tune show tune-arena; tensorboard --logdir runs/tune-arena")
