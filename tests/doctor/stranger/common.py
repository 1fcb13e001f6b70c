"""Trains one of the scripts of this folder: ``python NAME.py broken`` or ``healthy``; the run is runs/NAME-broken."""

import sys
import time

import numpy as np

from rookery import PPOConfig, Trainer


def main(name, steps=30_000, score_env=None, config=None, measure=None, num_envs=8):
    variant = sys.argv[1]
    config = (config or {}).get(variant) or PPOConfig(lr=1e-3)
    t = time.time()
    trainer = Trainer(
        f"{name}:{variant}",
        config,
        num_envs=num_envs,
        seed=0,
        run_dir=f"runs/{name}-{variant}",
        force=True,
    )
    result = trainer.train(stop={"env_steps": steps})
    mine = trainer.evaluate(50).return_mean
    policy, scores = trainer.policies["main"], []
    env = (score_env or __import__(name).__dict__[variant])()
    for episode in range(50):
        obs, info = env.reset(seed=1000 + episode)
        total = 0.0
        while True:
            obs, reward, terminated, truncated, info = env.step(policy.predict(obs))
            total += reward
            if terminated or truncated:
                break
        scores.append(total)
    took = time.time() - t
    training = f"training {result.return_mean:.2f}, own evaluate {mine:.2f}"
    print(f"{name} {variant}: {training}, score {np.mean(scores):.2f}, {took:.1f} s")
