"""The algorithms of RLlib 2.x, each with its configuration: `PPO` and `PPOConfig`, ..."""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.config.defaults import DEFAULT_CONFIGS
from rookery_rllib.rllib2.algorithm import Algorithm
from rookery_rllib.rllib2.config import AlgorithmConfig

NAMES = ("PPO", "APPO", "IMPALA", "DQN", "SAC", "MARWIL", "BC", "CQL")

ALGORITHMS: dict[str, type[Algorithm]] = {}
"""Algorithms by name."""

CONFIGS: dict[str, type[AlgorithmConfig]] = {}
"""Configurations by the name of their algorithm."""

for _name in NAMES:
    CONFIGS[_name] = type(
        f"{_name}Config",
        (AlgorithmConfig,),
        {
            "algorithm": _name,
            "__module__": __name__,
            "__doc__": f"Configuration of {_name}, with RLlib 2.60's defaults.",
        },
    )
    ALGORITHMS[_name] = type(
        _name,
        (Algorithm,),
        {
            "_name": _name,
            "_algorithm": _name,
            "_default_config": DEFAULT_CONFIGS[_name],
            "config_class": CONFIGS[_name],
            "__module__": __name__,
            "__doc__": f"Trains by {_name} as of RLlib 2.60.",
        },
    )
    CONFIGS[_name].algo_class = ALGORITHMS[_name]

PPO, APPO, IMPALA, DQN, SAC, MARWIL, BC, CQL = (ALGORITHMS[name] for name in NAMES)
PPOConfig, APPOConfig, IMPALAConfig, DQNConfig, SACConfig, MARWILConfig, BCConfig, CQLConfig = (
    CONFIGS[name] for name in NAMES
)


def get_algorithm_class(alg: str, return_config: bool = False) -> Any:
    """Returns the algorithm of a name, and its default configuration if asked; raises a ConfigError without one."""
    if alg not in ALGORITHMS:
        raise ConfigError(f"{alg}: there is no such algorithm{nearest(alg, NAMES)}; there are {', '.join(NAMES)}")
    return (ALGORITHMS[alg], CONFIGS[alg]()) if return_config else ALGORITHMS[alg]
