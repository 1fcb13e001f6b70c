"""CartPole with `n_steps` 2048 copied from an example with one environment; here 8 environments fill each of them."""

import sys

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]

if __name__ == "__main__":
    length = 2048 if KIND == "broken" else 64
    run = f"runs/few_updates-{KIND}"
    ppo = PPOConfig(lr=1e-3, fragment_length=length, model=ModelConfig(native=False))
    trainer = Trainer("CartPole-v1", ppo, num_envs=8, seed=0, run_dir=run, force=True, console="quiet")
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=20).return_mean)
