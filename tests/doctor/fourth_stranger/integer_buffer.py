"""CartPole through a wrapper that keeps the observation in a buffer; the broken one forgot that `dtype=int` rounds."""

import sys

import gymnasium
import numpy as np

from rookery import ModelConfig, PPOConfig, Trainer

KIND = sys.argv[1]


class Buffered(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.buffer = np.zeros(4, dtype=int if KIND == "broken" else np.float32)

    def observation(self, observation):
        self.buffer[:] = observation
        return self.buffer.astype(np.float32)


if __name__ == "__main__":
    run = f"runs/integer_buffer-{KIND}"
    trainer = Trainer(
        "CartPole-v1",
        PPOConfig(lr=1e-3, model=ModelConfig(native=False)),
        wrappers=[Buffered],
        seed=0,
        run_dir=run,
        force=True,
        console="quiet",
    )
    result = trainer.train(stop={"env_steps": 30_000})
    trainer.save()
    print(KIND, "training", result.return_mean, "score", trainer.evaluate(episodes=20).return_mean)
