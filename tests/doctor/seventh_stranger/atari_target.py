"""DQN balances CartPole, with the target network of the Atari paper."""

import argparse

from rookery import DQNConfig, Trainer

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    every = 250 if args.healthy else 10_000  # the mistake: the run makes 5,000 gradient steps in all
    trainer = Trainer(
        "CartPole-v1",
        DQNConfig(lr=1e-3, n_step=1, updates_per_step=0.25, target={"kind": "hard", "every": every}),
        num_envs=8,
        seed=0,
        run_dir=args.run,
        force=True,
    )
    trainer.train(stop={"env_steps": 20_000})
    print(f"score {trainer.evaluate(50).return_mean:.1f}")
