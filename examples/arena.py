"""Two policies learn in the arena: an explorer that wants new tiles, a blocker that wants to be in its way."""

from pathlib import Path

from rookery import MultiAgentArena, PPOConfig, Trainer

trainer = Trainer(
    MultiAgentArena,
    policies={"pol1": PPOConfig(lr=3e-4), "pol2": PPOConfig(lr=4e-4)},
    policy_mapping={"agent1": "pol1", "agent2": "pol2"},
    num_envs=16,
    seed=0,
    console="auto",
    run_dir="runs/arena",
    force=True,  # replaces the run of an earlier demo
)
before = trainer.evaluate(episodes=20)
result = trainer.train(stop={"return_mean": 45, "env_steps": 200_000})  # any criterion reached ends it
after = trainer.evaluate(episodes=50, deterministic=False)

animation = Path("runs/arena/arena.webp")
trainer.record(animation, episodes=1, deterministic=False)
low, high = after.return_interval
print(f"evaluation before training {before.return_mean:.1f}, after {after.return_mean:.1f} [{low:.1f}, {high:.1f}]")
for agent, value in after.agents.items():
    print(f"  {agent}: {value:.1f} an episode")
print(f"animation of an episode: {animation}")
print("look further: rookery plot runs/arena; rookery explain runs/arena; rookery timers runs/arena")
