"""SB3-contrib's ARS, measured: ``sb3_ars.py ENV --directions 8 --lr 0.02 --noise 0.05``; prints a line of JSON.

Run it with the Python that `install.sh` made, as `benchmarks/studies/ars_speed.py` does; settings that are not named
there are the library's own.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version

import torch
from sb3_contrib import ARS
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


class OverError(Exception):
    """The measurement is over."""


class Timed(BaseCallback):
    """Times whole updates, after some that warm up, and ends the training.

    Args:
        warm_up: Seconds of CPU time before the measurement.
        seconds: Its length, likewise.
    """

    def __init__(self, warm_up: float, seconds: float) -> None:
        super().__init__()
        self.warm_up, self.seconds = warm_up, seconds
        self.born = time.process_time()
        self.began: tuple[float, int] | None = None
        self.rate = 0.0

    def _on_rollout_start(self) -> None:
        now = time.process_time()
        if self.began is None:
            if now - self.born >= self.warm_up:
                self.began = now, self.num_timesteps
        elif now - self.began[0] >= self.seconds:
            self.rate = (self.num_timesteps - self.began[1]) / (now - self.began[0])
            raise OverError

    def _on_step(self) -> bool:
        return True


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("--directions", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--noise", type=float, required=True)
    parser.add_argument("--normalize", action="store_true")
    parser.add_argument("--warm-up", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    env = make_vec_env(args.env, 1, seed=args.seed)
    if args.normalize:
        env = VecNormalize(env, norm_reward=False)
    learner = ARS("LinearPolicy", env, n_delta=args.directions, learning_rate=args.lr, delta_std=args.noise,
                  policy_kwargs={"with_bias": True}, seed=args.seed, device="cpu")  # fmt: skip
    timed = Timed(args.warm_up, args.seconds)
    try:
        learner.learn(10**9, callback=timed, log_interval=None)
    except OverError:
        names = ("sb3-contrib", "gymnasium", "torch")
        print(json.dumps({"steps_per_second": timed.rate, "versions": {name: version(name) for name in names}}))
    env.close()


if __name__ == "__main__":
    main()
