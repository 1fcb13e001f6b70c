"""Hyperparameter tuning: search spaces, searches, schedulers, and the analysis of their results.

    from rookery import PPOConfig, tune
    analysis = tune.run("CartPole-v1", PPOConfig(lr=tune.loguniform(1e-4, 1e-2)), num_samples=8)

The names below are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.tune.names import hint_for

_NAMES = {
    "experiment": "run resume",
    "analysis": "Analysis write_report",
    "jobs.trainable": "Trainable report checkpoint seed",
    "space": "grid_search choice uniform quniform loguniform qloguniform randint qrandint lograndint qlograndint "
    "randn qrandn sample_from",
    "settings": "TuneConfig",
    "search": "Search RandomConfig",
    "optuna_search": "OptunaConfig",
    "scheduler": "Scheduler Action Exploit FIFOConfig",
    "schedulers.median": "MedianConfig",
    "schedulers.asha": "ASHAConfig",
    "schedulers.hyperband": "HyperBandConfig",
    "schedulers.pbt": "PBTConfig",
    "schedulers.pb2": "PB2Config",
}
"""Public names by module."""

_HOME = {name: f"rookery.tune.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ASHAConfig", "Action", "Analysis", "Exploit", "FIFOConfig", "HyperBandConfig", "MedianConfig", "OptunaConfig",
    "PB2Config", "PBTConfig", "RandomConfig", "Scheduler", "Search", "Trainable", "TuneConfig", "checkpoint", "choice",
    "grid_search", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint", "qrandn", "quniform",
    "randint", "randn", "report", "resume", "run", "sample_from", "seed", "uniform", "write_report",
]  # fmt: skip

if TYPE_CHECKING:
    from rookery.tune.analysis import Analysis, write_report
    from rookery.tune.experiment import resume, run
    from rookery.tune.jobs.trainable import Trainable, checkpoint, report, seed
    from rookery.tune.optuna_search import OptunaConfig
    from rookery.tune.scheduler import Action, Exploit, FIFOConfig, Scheduler
    from rookery.tune.schedulers.asha import ASHAConfig
    from rookery.tune.schedulers.hyperband import HyperBandConfig
    from rookery.tune.schedulers.median import MedianConfig
    from rookery.tune.schedulers.pb2 import PB2Config
    from rookery.tune.schedulers.pbt import PBTConfig
    from rookery.tune.search import RandomConfig, Search
    from rookery.tune.settings import TuneConfig
    from rookery.tune.space import (
        choice,
        grid_search,
        lograndint,
        loguniform,
        qlograndint,
        qloguniform,
        qrandint,
        qrandn,  # fmt: skip
        quniform,
        randint,
        randn,
        sample_from,
        uniform,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        hint = "" if name.startswith("_") else hint_for(name, __all__)
        raise AttributeError(f"module 'rookery.tune' has no attribute {name!r}{hint}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
