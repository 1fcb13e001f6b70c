"""``rllib train`` with its flags of 2021 and its files of tuned examples; ``rllib rollout`` is in `rollouts`.

A file holds experiments by name:

    cartpole-ppo:
        env: CartPole-v0
        run: PPO
        stop: {episode_reward_mean: 150, timesteps_total: 100000}
        config: {lr: {grid_search: [0.0003, 0.001]}}
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, import_object, load_yaml
from rookery.script.importer import show_names_in
from rookery_rllib.base import ray_core
from rookery_rllib.base.imports import find, is_known
from rookery_rllib.base.registrations import registered_env
from rookery_rllib.script.finder import IMPORTER
from rookery_rllib.trainer.trial.result_keys import results_directory
from rookery_rllib.tune.experiment import run_experiments
from rookery_rllib.tune.reporters import CLIReporter
from rookery_rllib.tune.schedulers import create_scheduler
from rookery_rllib.tune.trainables import trainable_class

FRAMEWORKS = ("tf", "tf2", "tfe", "torch")

ParserMaker = Callable[..., argparse.ArgumentParser]


def mapping(text: str) -> dict[str, Any]:
    """Parses a JSON object of the command line; raises an ArgumentTypeError for other text."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not JSON ({error}); write {{"key": value}} in single quotes'
        ) from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'{text!r} must be a JSON object, {{"key": value}}')
    return found


def base_parser(parser_creator: ParserMaker | None = None, **kwargs: Any) -> argparse.ArgumentParser:
    """Returns a parser with the flags of an experiment, as ``ray.tune.config_parser.make_parser``."""
    parser = (parser_creator or argparse.ArgumentParser)(**kwargs)
    add = parser.add_argument
    add("--run", help="the trainer: PPO, DQN, ..., or a registered name")
    add("--stop", type=mapping, default={}, metavar="JSON", help="when a trial ends: '{\"training_iteration\": 10}'")
    add("--config", type=mapping, default={}, metavar="JSON", help="the configuration of the trainer")
    add("--resources-per-trial", type=mapping, metavar="JSON", help="cores and GPUs: '{\"cpu\": 2}'")
    add("--num-samples", type=int, default=1, metavar="N", help="number of samples of the search space")
    add("--checkpoint-freq", type=int, default=0, metavar="N", help="iterations between checkpoints; 0 = none")
    add("--checkpoint-at-end", action="store_true", help="write a checkpoint at the end")
    add("--sync-on-checkpoint", action="store_true", help="has no meaning: there is one machine")
    add("--keep-checkpoints-num", type=int, metavar="N", help="number of checkpoints to keep")
    add(
        "--checkpoint-score-attr",
        default="training_iteration",
        metavar="KEY",
        help="result by which they are kept; min-KEY = smallest",
    )
    add("--export-formats", metavar="A,B", help="formats of the exported model at the end")
    add("--max-failures", type=int, default=3, metavar="N", help="number of failures after which a trial may resume")
    add("--scheduler", default="FIFO", help="FIFO, AsyncHyperBand, HyperBand, MedianStopping, pbt, ...")
    add("--scheduler-config", type=mapping, default={}, metavar="JSON", help="arguments of the scheduler")
    add("--restore", metavar="PATH", help="checkpoint from which each trial starts")
    return parser


def train_parser(parser_creator: ParserMaker | None = None) -> argparse.ArgumentParser:
    parser = base_parser(
        parser_creator, prog="rookery rllib train", description="Train with RLlib's flags of 2021.",
        epilog="A file given with -f replaces all flags about the experiment.",
    )  # fmt: skip
    add = parser.add_argument
    add("--env", help="the environment: an id of gym, or the path of a class, package.module.Class")
    add("-f", "--config-file", metavar="FILE", help="a YAML file of experiments")
    add("--experiment-name", default="default", metavar="NAME", help="directory of the experiment in --local-dir")
    add("--local-dir", default=None, metavar="DIR", help="directory of results; TUNE_RESULT_DIR, or ~/ray_results")
    add("--upload-dir", default="", metavar="URI", help="must be empty: nothing is sent to cloud storage")
    add("--framework", choices=FRAMEWORKS, help="any: networks are those of Rookery")
    add("--resume", action="store_true", help="resume the newest experiment of this name")
    add("-v", action="store_true", help="print whole results")
    add("-vv", action="store_true", help="print whole results")
    add("--local-mode", action="store_true", help="one trial after the other, in this process")
    add("--ray-address", metavar="ADDRESS", help="must not be given: there is no cluster")
    add("--ray-num-cpus", type=int, metavar="N", help="cores shared by trials")
    add("--ray-num-gpus", type=int, metavar="N", help="GPUs, as ray.cluster_resources() shows them")
    for flag in ("--ray-num-nodes", "--ray-object-store-memory"):
        add(flag, type=int, metavar="N", help="has no meaning: there is one machine")
    for flag in ("--no-ray-ui", "--queue-trials", "--trace", "--torch", "--eager"):
        add(flag, action="store_true", help="has no meaning here")
    return parser


def train(arguments: Sequence[str]) -> None:
    run_train(train_parser().parse_args(list(arguments)))


def run_train(args: argparse.Namespace) -> None:
    experiments = experiments_in(args.config_file) if args.config_file else {args.experiment_name: of_flags(args)}
    for name, spec in experiments.items():
        complete(name, spec, args)
    ray_core.init(
        args.ray_address,
        num_cpus=args.ray_num_cpus,
        num_gpus=args.ray_num_gpus,
        local_mode=args.local_mode,
        ignore_reinit_error=True,
    )
    try:
        run_experiments(
            experiments,
            scheduler=create_scheduler(args.scheduler, **args.scheduler_config),
            resume=args.resume,
            verbose=3 if args.v or args.vv else 1,
            progress_reporter=CLIReporter(print_intermediate_tables=True),
        )
    finally:
        ray_core.shutdown()


def of_flags(args: argparse.Namespace) -> dict[str, Any]:
    names = (
        "run", "env", "stop", "config", "restore", "num_samples", "checkpoint_freq", "checkpoint_at_end",
        "keep_checkpoints_num", "checkpoint_score_attr", "resources_per_trial", "max_failures", "upload_dir",
    )  # fmt: skip
    spec = {name: getattr(args, name) for name in names}
    spec["export_formats"] = args.export_formats.split(",") if args.export_formats else None
    return {**spec, "config": dict(args.config), "local_dir": args.local_dir}


def experiments_in(path: str) -> dict[str, dict[str, Any]]:
    """Reads a file of experiments; raises a ConfigError for other content."""
    place = Path(path).expanduser()
    try:
        found = load_yaml(place.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(found, Mapping) or not all(isinstance(spec, Mapping) for spec in found.values()):
        raise ConfigError(f"{path}: must hold experiments by name: cartpole-ppo: {{env: CartPole-v0, run: PPO, ...}}")
    return {str(name): {str(key).replace("-", "_"): part for key, part in spec.items()} for name, spec in found.items()}


def complete(name: str, spec: dict[str, Any], args: argparse.Namespace) -> None:
    """Completes an experiment with the arguments of `run`, and with flags.

    Raises:
        ConfigError: If the trainer or the environment is missing, or unknown.
    """
    config = spec["config"] = dict(spec.get("config") or {})
    env = spec.pop("env", None) or config.get("env")
    for key, value in (("run", spec.get("run")), ("env", env)):
        if not value:
            where = f"{args.config_file}: {name}: {key} is missing" if args.config_file else f"--{key} is missing"
            raise ConfigError(f"{where}; for example {'PPO' if key == 'run' else 'CartPole-v0'}")
    trainable_class(spec["run"])  # a trainer that is not here is refused before its environment is looked for
    config["env"] = found_env(env)
    if config["env"] is not env and isinstance(config["env"], type) and "env_config" in config:
        config["env_config"] = own_config(config["env"], config["env_config"])
    if "trial_resources" in spec:  # its name in 2018
        spec["resources_per_trial"] = spec.pop("trial_resources")
    if upload := spec.pop("upload_dir", None):
        raise ConfigError(
            f"upload_dir = {upload!r}: nothing is sent to cloud storage here; copy the directory of results"
        )
    if args.framework:
        config["framework"] = args.framework
    if not spec.get("local_dir"):
        spec["local_dir"] = args.local_dir or results_directory()


def own_config(env: type, env_config: Mapping[str, Any]) -> Any:
    """Returns the configuration of an environment that was given by its path: RLlib passed its entries as keywords, so
    a file has ``env_config: {config: {repeat_delay: 2}}`` for a class with the one argument ``config``.
    """
    arguments = list(inspect.signature(env).parameters)
    return env_config[arguments[0]] if arguments == list(env_config) else env_config


def found_env(env: Any) -> Any:
    """Returns the class of an import path; other values are returned unchanged."""
    if isinstance(env, Mapping) and set(env) == {"grid_search"}:
        return {"grid_search": [found_env(each) for each in env["grid_search"]]}
    if not isinstance(env, str) or registered_env(env) is not None or "." not in env:
        return env
    module, _, name = env.replace(":", ".").rpartition(".")
    if is_known(module.partition(".")[0]):
        try:
            return find(f"{module}.{name}")
        except ImportError as error:
            raise ConfigError(f"env = {env!r}: {error}") from None
    show_names_in(IMPORTER, Path.cwd())
    return import_object(f"{module}:{name}")
