"""CartPole, PPO: the learning rate should fall over 40 updates; the broken run gives 40 where env steps count."""

import sys

from rookery import PPOConfig, Trainer

UPDATES, ROLLOUT = 40, 512

if __name__ == "__main__":
    variant = sys.argv[1]
    trainer = Trainer(
        "CartPole-v1",
        PPOConfig(
            lr={"start": 2e-3, "end": 0.0, "steps": UPDATES if variant == "broken" else UPDATES * ROLLOUT},
            fragment_length=64,
        ),
        num_envs=8,
        seed=0,
        run_dir=f"runs/schedule_units-{variant}",
        force=True,
    )
    trainer.train(stop={"env_steps": UPDATES * ROLLOUT})
    print(f"{variant}: return {trainer.evaluate(50).return_mean:.1f}")
