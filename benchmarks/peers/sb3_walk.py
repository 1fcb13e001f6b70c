"""Files and functions that one iteration of Stable-Baselines3's PPO on CartPole enters, counted as in
`scripts/trace_walks.py`; prints JSON.

It runs in the environment that ``benchmarks/peers/install.sh sb3`` makes; `scripts/trace_walks.py` starts it. Settings
are the library's own. An iteration is playing and learning once, after two others.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import stable_baselines3
from stable_baselines3 import PPO

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from trace_walks import total, trace


def main() -> None:
    """Trains, traces and reports."""
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)
    model.learn(2 * model.n_steps)
    assert model.env is not None
    callback = model._init_callback(None)

    def iteration() -> None:
        model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
        model.train()

    entered = trace(iteration, Path(stable_baselines3.__file__).parent)
    print(json.dumps({"version": version("stable_baselines3"), **asdict(total(entered))}))


if __name__ == "__main__":
    main()
