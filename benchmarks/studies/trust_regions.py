"""PPO, PPO with RPO's noise, and TRPO on Pendulum and HalfCheetah: returns after 200,000 env steps, and the time of a
step that is neither the environment's, nor the policy's, nor a gradient step's.

Each run has the environment preset of its algorithm, and one process. Writes `benchmarks/results/trust_regions.md`.
Settings were chosen on seed 100.
"""

from __future__ import annotations

import argparse
import json
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
FIGURES = PAGE.with_suffix(".json")
ENV_STEPS = 200_000
EPISODES = 20
ENVS = ("Pendulum-v1", "HalfCheetah-v5")
ALPHA = {"Pendulum-v1": 0.5, "HalfCheetah-v5": 0.1}
EQUAL = {"sampling.num_envs": 4, "algorithm.fragment_length": 512}
REPEATS = 5
ALGORITHMS = ("PPO", "RPO", "TRPO")
HEAD = """# Trust regions

Made by `python benchmarks/studies/trust_regions.py --seeds {seeds}`. Machine: {about}.

Mean return of {episodes} deterministic evaluation episodes after {env_steps:,} env steps, with the environment preset
of each algorithm, one process and one torch thread. RPO is PPO with `rpo_alpha` {alphas}. An interval is that of the
mean over seeds (95 %, Student's t); "holds" says whether the mean is not below the lower end of PPO's interval. "Rest"
is the time of a step outside the environment, the policy's forward passes and gradient steps (for TRPO, the natural
gradient and its line search are gradient steps): sampling's own work, targets, advantages and metrics. It is in
microseconds, the shortest of {repeats} runs of 20,480 env steps that take turns, with equal batches, the start of the
run included. Other processes used the machine too.

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


def run(algorithm: str, env: str, seed: int, env_steps: int, **settings: Any) -> tuple[float, float, float]:
    """Returns the return, the seconds of the training, and the microseconds of a step that the rest takes."""
    config = [settings_of(algorithm, env), {"stop.env_steps": env_steps, **settings}]
    with (
        timed_gradient_steps() as gradients,
        Trainer(env, config=config, preset="auto", seed=seed, console="quiet") as trainer,
    ):
        began = time.perf_counter()
        trainer.train()
        seconds, steps = time.perf_counter() - began, trainer.env_steps
        apart = sum(row.seconds for row in trainer.timers.rows() if row.label in ("act", "env.step", "env.reset"))
        score = trainer.evaluate(EPISODES).return_mean
    rest = (seconds - apart - sum(gradients)) / steps * 1e6
    print(env, algorithm, seed, round(score, 1), round(seconds, 1), round(rest, 2), flush=True)
    return score, seconds, rest


def returns(seeds: list[int]) -> dict[str, Any]:
    """Returns ``[score, seconds]`` of each seed, by environment and algorithm."""
    return {env: {name: [run(name, env, seed, ENV_STEPS)[:2] for seed in seeds] for name in ALGORITHMS} for env in ENVS}


def rests() -> dict[str, float]:
    """Returns the shortest rest of several short runs on Pendulum, in turns, by algorithm; batches are equal."""
    found: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    for repeat in range(REPEATS):
        for name in ALGORITHMS:
            found[name].append(run(name, ENVS[0], repeat, 20_480, **EQUAL)[2])
    return {name: min(times) for name, times in found.items()}


def page(figures: dict[str, Any], seeds: str) -> str:
    """Returns the page."""
    lines = []
    for env in ENVS:
        low = mean_interval([score for score, _ in figures["returns"][env]["PPO"]])[0]
        for name, runs in figures["returns"][env].items():
            scores, rest = [score for score, _ in runs], figures["rests"]
            bounds, beside = mean_interval(scores), ""
            if env == ENVS[0]:
                beside = f"{rest[name]:.1f} ({rest[name] / rest['PPO'] - 1:+.0%})"
            holds = "" if name == "PPO" else "yes" if fmean(scores) >= low else "NO"
            each = ", ".join(f"{score:.0f}" for score in scores)
            seconds = ", ".join(f"{seconds:.0f}" for _, seconds in runs)
            lines.append(
                f"| {env} | {name} | {fmean(scores):.0f} | [{bounds[0]:.0f}, {bounds[1]:.0f}] | {each} | {holds} "
                f"| {seconds} | {beside} |"
            )
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    alphas = ", ".join(f"{alpha:g} on {env}" for env, alpha in ALPHA.items())
    head = HEAD.format(seeds=seeds, about=about, episodes=EPISODES, env_steps=ENV_STEPS, alphas=alphas, repeats=REPEATS)
    return head + "\n".join(lines) + "\n"


def main() -> None:
    """Runs what is chosen, and writes the figures and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", choices=("returns", "rests"), help="keep the other figures as they are")
    given = parser.parse_args()
    figures = json.loads(FIGURES.read_text()) if given.only else {}
    if given.only != "rests":
        figures["returns"] = returns(given.seeds)
    if given.only != "returns":
        figures["rests"] = rests()
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(page(figures, " ".join(map(str, given.seeds))))


if __name__ == "__main__":
    main()
