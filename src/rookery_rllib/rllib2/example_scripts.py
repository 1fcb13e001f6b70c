"""Functions that RLlib's example scripts of 2.x share: their arguments, and the experiment that they run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rookery.face import ConfigError, RookeryError
from rookery_rllib.base.notices import say
from rookery_rllib.rllib2.config import AlgorithmConfig
from rookery_rllib.tune.stopper import value_at
from rookery_rllib.tune.tuner import CheckpointConfig, RunConfig, TuneConfig, Tuner

RETURN = "env_runners/episode_return_mean"
STEPS = "num_env_steps_sampled_lifetime"

NUMBERS: dict[str, tuple[type, Any]] = {
    "num-env-runners": (int, None), "num-envs-per-env-runner": (int, None), "num-agents": (int, 0),
    "evaluation-num-env-runners": (int, 0), "evaluation-interval": (int, 0), "num-samples": (int, 1),
    "max-concurrent-trials": (int, None), "verbose": (int, 2), "checkpoint-freq": (int, 0),
    "tune-max-report-freq": (int, 5), "num-learners": (int, None), "num-cpus-per-learner": (float, None),
    "num-gpus-per-learner": (float, None), "num-aggregator-actors-per-learner": (int, None), "num-cpus": (int, 0),
    "num-gpus": (int, None),
    # of earlier releases
    "num-gpus-per-env-runner": (int, None),
}  # fmt: skip
"""Arguments that are numbers: type and default."""

TEXTS: dict[str, str | None] = {
    "framework": "torch", "env": None, "evaluation-duration-unit": "episodes", "output": None, "log-level": None,
    "wandb-key": None, "wandb-project": None, "wandb-run-name": None,
}  # fmt: skip

FLAGS = (
    "evaluation-parallel-to-training", "no-tune", "checkpoint-at-end", "as-test", "as-release-test", "old-api-stack",
    "enable-new-api-stack", "local-mode",
)  # fmt: skip


def add_rllib_example_script_args(
    parser: argparse.ArgumentParser | None = None,
    default_reward: float = 100.0,
    default_iters: int = 200,
    default_timesteps: int = 100000,
) -> argparse.ArgumentParser:
    """Adds the arguments of example scripts to a parser; None = a new one."""
    parser = argparse.ArgumentParser() if parser is None else parser
    parser.add_argument("--algo", type=str, default="PPO")
    parser.add_argument("--evaluation-duration", type=lambda text: text if text == "auto" else int(text), default=10)
    parser.add_argument("--stop-reward", type=float, default=default_reward)
    parser.add_argument("--stop-iters", type=int, default=default_iters)
    parser.add_argument("--stop-timesteps", type=int, default=default_timesteps)
    for name, (kind, default) in NUMBERS.items():
        parser.add_argument(f"--{name}", type=kind, default=default)
    for name, text in TEXTS.items():
        parser.add_argument(f"--{name}", type=str, default=text)
    for name in FLAGS:
        parser.add_argument(f"--{name}", action="store_true")
    return parser


def run_rllib_example_script_experiment(
    base_config: AlgorithmConfig,
    args: argparse.Namespace | None = None,
    *,
    stop: Mapping[str, Any] | None = None,
    success_metric: Mapping[str, float] | None = None,
    trainable: Any = None,
    tune_callbacks: Sequence[Any] | None = None,
    keep_config: bool = False,
    keep_ray_up: bool = False,
    scheduler: Any = None,
    progress_reporter: Any = None,
) -> Any:
    """Runs an algorithm until a stop criterion, by Tune or, with ``--no-tune``, in a loop.

    Args:
        base_config: The configuration, which gets the values of the arguments.
        args: Arguments of `add_rllib_example_script_args`; None = those of the command line.
        stop: Stop criteria; None = by the arguments.
        success_metric: With ``--as-test``, a result key and its least value; None = ``--stop-reward``.
        trainable: What Tune runs; None = the algorithm of the configuration.
        tune_callbacks: Callbacks of Tune.
        keep_config: Whether the configuration stays as it is.
        keep_ray_up: Has no meaning here.
        scheduler: Scheduler of Tune.
        progress_reporter: Reporter of Tune.

    Returns:
        The last result, or the results of Tune.

    Raises:
        RookeryError: With ``--as-test``, if the least value was not reached.
    """
    args = add_rllib_example_script_args().parse_args() if args is None else args
    if getattr(args, "wandb_key", None):
        raise ConfigError("--wandb-key: there is no logger for it here; results are in result.json and progress.csv")
    stop = stop or {RETURN: args.stop_reward, STEPS: args.stop_timesteps, "training_iteration": args.stop_iters}
    config = base_config if keep_config else with_arguments(base_config, args)
    if args.no_tune:
        return _looped(config, stop, args.stop_iters)
    grid = Tuner(
        trainable or config.algo_class,
        param_space=config,
        run_config=RunConfig(
            stop=dict(stop),
            verbose=args.verbose,
            callbacks=tune_callbacks,
            checkpoint_config=CheckpointConfig(
                checkpoint_frequency=args.checkpoint_freq, checkpoint_at_end=args.checkpoint_at_end
            ),
            progress_reporter=progress_reporter,
        ),
        tune_config=TuneConfig(
            num_samples=args.num_samples, max_concurrent_trials=args.max_concurrent_trials, scheduler=scheduler
        ),
    ).fit()
    if grid.num_errors:
        raise RookeryError(f"trials have failed: {grid.errors[0]}")
    if args.as_test or args.as_release_test:
        key, least = next(iter((success_metric or {RETURN: args.stop_reward}).items()))
        best = max(float(value_at(result.metrics, key, math.nan)) for result in grid)
        if not best >= least:
            raise RookeryError(f"{key} = {best:g} did not reach {least:g}")
        say(f"`{key}` reached {best:g} (at least {least:g})")
    return grid


def with_arguments(config: AlgorithmConfig, args: argparse.Namespace) -> AlgorithmConfig:
    """Returns a configuration with the values of the arguments that were given."""
    config.framework(args.framework)
    if args.env is not None and config.env is None:
        config.environment(args.env)
    if args.old_api_stack:
        config.api_stack(False, False)
    runners = {"num_env_runners": args.num_env_runners, "num_envs_per_env_runner": args.num_envs_per_env_runner}
    config.env_runners(**{name: value for name, value in runners.items() if value is not None})
    learners = {"num_learners": args.num_learners, "num_gpus_per_learner": args.num_gpus_per_learner}
    config.learners(**{name: value for name, value in learners.items() if value is not None})
    if args.num_gpus is not None:
        config.resources(num_gpus=args.num_gpus)
    if args.evaluation_interval:
        config.evaluation(
            evaluation_num_env_runners=args.evaluation_num_env_runners,
            evaluation_interval=args.evaluation_interval,
            evaluation_duration=args.evaluation_duration,
            evaluation_duration_unit=args.evaluation_duration_unit,
            evaluation_parallel_to_training=args.evaluation_parallel_to_training,
        )
    if args.output is not None:
        config.offline_data(output=args.output)
    return config


def _looped(config: AlgorithmConfig, stop: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    algorithm = config.build_algo()
    result: dict[str, Any] = {}
    for number in range(stop.get("training_iteration", iterations)):
        result = algorithm.train()
        say(f"iter={number} R={value_at(result, RETURN)}")
        reached = [
            key for key, least in stop.items() if (value := value_at(result, key)) is not None and value >= least
        ]
        if reached:
            say(f"Stop criterion ({reached[0]}={stop[reached[0]]}) fulfilled!")
            break
    algorithm.stop()
    return result


def should_stop(stop: Mapping[str, Any], results: Mapping[str, Any], keep_ray_up: bool = False) -> bool:
    """Returns whether a result has reached one of the criteria."""
    values = {key: value_at(results, key) for key in stop}
    return any(value is not None and value >= stop[key] for key, value in values.items())
