"""PPO, PPO with RPO's noise, and TRPO on Pendulum and HalfCheetah: returns after 200,000 env steps, and the time of a
step that is neither the environment's, nor the policy's, nor a gradient step's.

Each run has the environment preset of its algorithm, and one process. Writes `benchmarks/results/trust_regions.md`.
Settings were chosen on seed 100.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.learning import machine

from rookery import Trainer
from rookery.algorithms.on_policy import ppo, trpo
from rookery.report.statistics import mean_interval

PAGE = Path(__file__).resolve().parents[1] / "results" / "trust_regions.md"
ENV_STEPS = 200_000
EPISODES = 20
ENVS = ("Pendulum-v1", "HalfCheetah-v5")
ALPHA = {"Pendulum-v1": 0.5, "HalfCheetah-v5": 0.1}
ALGORITHMS = ("PPO", "RPO", "TRPO")
HEAD = """# Trust regions

Made by `python benchmarks/studies/trust_regions.py --seeds {seeds}`. Machine: {about}.

Mean return of {episodes} deterministic evaluation episodes after {env_steps:,} env steps, with the environment preset
of each algorithm, one process and one torch thread. RPO is PPO with `rpo_alpha` {alphas}. An interval is that of the
mean over seeds (95 %, Student's t); "holds" says whether the mean is not below the lower end of PPO's interval. "Rest"
is the time of a step outside the environment, the policy's forward passes and gradient steps (for TRPO, the natural
gradient and its line search are gradient steps): sampling's own work, targets, advantages and metrics; the shortest of
the seeds, in microseconds. On Pendulum, PPO makes half as many updates, of twice the size.

| environment | algorithm | return, mean | interval | by seed | holds | seconds a run | rest a step |
|---|---|---|---|---|---|---|---|
"""


def settings_of(algorithm: str, env: str) -> dict[str, Any]:
    """Returns the settings of a run."""
    return {
        "algorithm.name": "trpo" if algorithm == "TRPO" else "ppo",
        "sampling.env_processes": 0,
        "stop.env_steps": ENV_STEPS,
        **({"algorithm.rpo_alpha": ALPHA[env]} if algorithm == "RPO" else {}),
    }


@contextmanager
def timed_gradient_steps() -> Iterator[list[float]]:
    """Times the calls of `gradient_step` and `gradient_steps` by PPO and TRPO in the block; yields their seconds."""
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.perf_counter()
            made = function(*arguments)
            made = made if isinstance(made, dict) else list(made)
            seconds.append(time.perf_counter() - began)
            return made

        return call

    places = [(ppo, "gradient_steps"), (trpo, "gradient_steps"), (trpo, "gradient_step")]
    before = [getattr(module, name) for module, name in places]
    for (module, name), function in zip(places, before, strict=True):
        setattr(module, name, timed(function))
    try:
        yield seconds
    finally:
        for (module, name), function in zip(places, before, strict=True):
            setattr(module, name, function)


def run(algorithm: str, env: str, seed: int) -> tuple[float, float, float]:
    """Returns the return, the seconds of the training, and the microseconds of a step that the rest takes."""
    with (
        timed_gradient_steps() as gradients,
        Trainer(env, config=settings_of(algorithm, env), preset="auto", seed=seed) as trainer,
    ):
        began = time.perf_counter()
        trainer.train()
        seconds, steps = time.perf_counter() - began, trainer.env_steps
        apart = sum(row.seconds for row in trainer.timers.rows() if row.label in ("act", "env.step", "env.reset"))
        score = trainer.evaluate(EPISODES).return_mean
    rest = (seconds - apart - sum(gradients)) / steps * 1e6
    print(env, algorithm, seed, round(score, 1), round(seconds, 1), round(rest, 2), flush=True)
    return score, seconds, rest


def main() -> None:
    """Runs all, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    lines = []
    for env in ENVS:
        found = {name: [run(name, env, seed) for seed in given.seeds] for name in ALGORITHMS}
        low = mean_interval([score for score, _, _ in found["PPO"]])[0]
        usual = fmean(rest for _, _, rest in found["PPO"])
        for name, runs in found.items():
            scores = [score for score, _, _ in runs]
            bounds, rest = mean_interval(scores), fmean(rest for _, _, rest in runs)
            holds = "" if name == "PPO" else "yes" if fmean(scores) >= low else "NO"
            each = ", ".join(f"{score:.0f}" for score in scores)
            lines.append(
                f"| {env} | {name} | {fmean(scores):.0f} | [{bounds[0]:.0f}, {bounds[1]:.0f}] | {each} | {holds} "
                f"| {fmean(seconds for _, seconds, _ in runs):.0f} | {rest:.1f} | {rest / usual - 1:+.1%} |"
            )
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    alphas = ", ".join(f"{alpha:g} on {env}" for env, alpha in ALPHA.items())
    head = HEAD.format(
        seeds=" ".join(map(str, given.seeds)), about=about, episodes=EPISODES, env_steps=ENV_STEPS, alphas=alphas
    )
    PAGE.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
