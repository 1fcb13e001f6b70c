"""SAC swings a pendulum up and holds it there."""

import argparse

from rookery import SACConfig, Trainer

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(
        "Pendulum-v1",
        SACConfig(
            lr=1e-3,
            model={"hidden": (64, 64)},
            updates_per_step=0.5,
            target_entropy=-1.0 if args.healthy else 1.0,  # the mistake: minus the number of actions, without the minus
        ),
        num_envs=4,
        env_processes=0,
        seed=args.seed,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"return {trainer.evaluate(20).return_mean:.0f}")
