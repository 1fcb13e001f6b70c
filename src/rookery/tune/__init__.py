"""Many trainings: what to try, how to choose, and what came of it.

    from rookery import PPOConfig, tune
    analysis = tune.run("CartPole-v1", PPOConfig(lr=tune.loguniform(1e-4, 1e-2)), num_samples=8)

The names below are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.tune.names import called_here

_HOME = {
    "run": "rookery.tune.experiment",
    "resume": "rookery.tune.experiment",
    "Analysis": "rookery.tune.analysis",
    "write_report": "rookery.tune.analysis",
    "Trainable": "rookery.tune.jobs.trainable",
    "report": "rookery.tune.jobs.trainable",
    "checkpoint": "rookery.tune.jobs.trainable",
    "seed": "rookery.tune.jobs.trainable",
    "grid_search": "rookery.tune.space",
    "choice": "rookery.tune.space",
    "uniform": "rookery.tune.space",
    "quniform": "rookery.tune.space",
    "loguniform": "rookery.tune.space",
    "qloguniform": "rookery.tune.space",
    "randint": "rookery.tune.space",
    "qrandint": "rookery.tune.space",
    "lograndint": "rookery.tune.space",
    "qlograndint": "rookery.tune.space",
    "randn": "rookery.tune.space",
    "qrandn": "rookery.tune.space",
    "sample_from": "rookery.tune.space",
    "TuneConfig": "rookery.tune.settings",
    "Search": "rookery.tune.search",
    "RandomConfig": "rookery.tune.search",
    "OptunaConfig": "rookery.tune.optuna_search",
    "Scheduler": "rookery.tune.scheduler",
    "Action": "rookery.tune.scheduler",
    "Exploit": "rookery.tune.scheduler",
    "FIFOConfig": "rookery.tune.scheduler",
    "MedianConfig": "rookery.tune.schedulers.median",
    "ASHAConfig": "rookery.tune.schedulers.asha",
    "HyperBandConfig": "rookery.tune.schedulers.hyperband",
    "PBTConfig": "rookery.tune.schedulers.pbt",
    "PB2Config": "rookery.tune.schedulers.pb2",
}

__all__ = list(_HOME)

if TYPE_CHECKING:
    from rookery.tune.analysis import Analysis as Analysis
    from rookery.tune.analysis import write_report as write_report
    from rookery.tune.experiment import resume as resume
    from rookery.tune.experiment import run as run
    from rookery.tune.jobs.trainable import Trainable as Trainable
    from rookery.tune.jobs.trainable import checkpoint as checkpoint
    from rookery.tune.jobs.trainable import report as report
    from rookery.tune.jobs.trainable import seed as seed
    from rookery.tune.optuna_search import OptunaConfig as OptunaConfig
    from rookery.tune.scheduler import Action as Action
    from rookery.tune.scheduler import Exploit as Exploit
    from rookery.tune.scheduler import FIFOConfig as FIFOConfig
    from rookery.tune.scheduler import Scheduler as Scheduler
    from rookery.tune.schedulers.asha import ASHAConfig as ASHAConfig
    from rookery.tune.schedulers.hyperband import HyperBandConfig as HyperBandConfig
    from rookery.tune.schedulers.median import MedianConfig as MedianConfig
    from rookery.tune.schedulers.pb2 import PB2Config as PB2Config
    from rookery.tune.schedulers.pbt import PBTConfig as PBTConfig
    from rookery.tune.search import RandomConfig as RandomConfig
    from rookery.tune.search import Search as Search
    from rookery.tune.settings import TuneConfig as TuneConfig
    from rookery.tune.space import choice as choice
    from rookery.tune.space import grid_search as grid_search
    from rookery.tune.space import lograndint as lograndint
    from rookery.tune.space import loguniform as loguniform
    from rookery.tune.space import qlograndint as qlograndint
    from rookery.tune.space import qloguniform as qloguniform
    from rookery.tune.space import qrandint as qrandint
    from rookery.tune.space import qrandn as qrandn
    from rookery.tune.space import quniform as quniform
    from rookery.tune.space import randint as randint
    from rookery.tune.space import randn as randn
    from rookery.tune.space import sample_from as sample_from
    from rookery.tune.space import uniform as uniform


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        hint = "" if name.startswith("_") else called_here(name, __all__)
        raise AttributeError(f"module 'rookery.tune' has no attribute {name!r}{hint}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
