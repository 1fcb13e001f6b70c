"""Trainers of 2021, a class for each algorithm, and `build_trainer`, which makes trainer classes of functions.

The package `config` has the differences of algorithms, `base_trainer` the training.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rookery.face import ConfigError, nearest
from rookery_rllib.config.algorithms import BANDITS, EVOLUTION, OFF_POLICY
from rookery_rllib.config.defaults import DEFAULT_CONFIGS, merge_trainer_configs
from rookery_rllib.env.envs import EnvContext
from rookery_rllib.execution.iterators import LocalIterator
from rookery_rllib.policy.policies import PolicySpec
from rookery_rllib.trainer.bandit_trainer import BanditTrainer
from rookery_rllib.trainer.base_trainer import BaseTrainer
from rookery_rllib.trainer.evolution_trainer import EvolutionTrainer
from rookery_rllib.trainer.random_agent import RandomAgent


class Trainer(BaseTrainer):
    @classmethod
    def with_updates(cls, **overrides: Any) -> type[Trainer]:
        known = vars(cls).get("_built_with") or {"name": cls._name, "base": cls}
        return build_trainer(**{**known, **overrides})


# --- the algorithms ---------------------------------------------------------------------------------------------------

KINDS_OF_TRAINERS: dict[str, tuple[type[BaseTrainer], ...]] = {
    **dict.fromkeys(EVOLUTION, (EvolutionTrainer,)),
    **dict.fromkeys(BANDITS, (BanditTrainer,)),
}

TRAINERS: dict[str, type[Trainer]] = {
    algorithm: type(
        f"{algorithm}Trainer",
        (*KINDS_OF_TRAINERS.get(algorithm, ()), Trainer),
        {
            "_name": algorithm,
            "_algorithm": algorithm,
            "_default_config": config,
            "__module__": __name__,
            "__doc__": f"Trains by {algorithm} as of 2021.",
        },
    )
    for algorithm, config in DEFAULT_CONFIGS.items()
}
"""Trainers by name. Another one is an entry of `config.algorithms.ALGORITHMS`, and the rows of its keys."""

PPOTrainer, DQNTrainer, SimpleQTrainer, SACTrainer = (TRAINERS[name] for name in ("PPO", "DQN", "SimpleQ", "SAC"))
TD3Trainer, DDPGTrainer, A2CTrainer, A3CTrainer = (TRAINERS[name] for name in ("TD3", "DDPG", "A2C", "A3C"))
DDPPOTrainer, PGTrainer, R2D2Trainer = (TRAINERS[name] for name in ("DDPPO", "PG", "R2D2"))
QMixTrainer, MADDPGTrainer = TRAINERS["QMIX"], TRAINERS["MADDPG"]
ImpalaTrainer, APPOTrainer = TRAINERS["IMPALA"], TRAINERS["APPO"]
MARWILTrainer, BCTrainer, CQLTrainer = (TRAINERS[name] for name in ("MARWIL", "BC", "CQL"))
ESTrainer, ARSTrainer = TRAINERS["ES"], TRAINERS["ARS"]
LinUCBTrainer, LinTSTrainer = TRAINERS["LinUCB"], TRAINERS["LinTS"]
ApexTrainer, ApexDDPGTrainer = TRAINERS["APEX"], TRAINERS["APEX_DDPG"]


class RandomAgentTrainer(RandomAgent, Trainer):
    """Plays with random actions and learns nothing; contrib/RandomAgent."""


TRAINERS["RandomAgent"] = RandomAgentTrainer
GenericOffPolicyTrainer = DQNTrainer
"""Base of off-policy trainers made by ``with_updates``."""

UNSUPPORTED = {
    "DREAMER": "Dreamer is not implemented; use PPO or DQN on images, with use_lstm for memory",
    "MAML": "MAML is not implemented; draw a task in reset(), observe it, and use PPO",
    "MBMPO": "MB-MPO is not implemented; use SAC, which needs few environment steps",
    "SlateQ": "SlateQ is not implemented; give slates numbers, as a Discrete space, and use DQN",
    "contrib/AlphaZero": "the trainer is not implemented; use Rookery's own, with the same get_state() and "
    "set_state(state): rookery train MODULE:ENV --algo alphazero env.implementation=serial; or PPO with masks",
}
"""Trainers of 2021 that do not exist here, with what to use."""


def get_trainer_class(alg: str, return_config: bool = False) -> Any:
    """Returns the trainer of a name, ``PPO``, and with `return_config` its default configuration, too.

    Raises:
        ConfigError: If there is none; with what to use, or the nearest name.
    """
    found = TRAINERS.get(alg.removeprefix("contrib/"))
    known = list(TRAINERS)
    if found is None and alg in UNSUPPORTED:
        raise ConfigError(f"{alg}: {UNSUPPORTED[alg]}; there are {', '.join(known)}")
    if found is None:
        raise ConfigError(f"{alg}: there is no such trainer{nearest(alg, known)}; there are {', '.join(known)}")
    return (found, found._default_config) if return_config else found


def with_base_config(base_config: Mapping[str, Any], extra_config: Mapping[str, Any]) -> dict[str, Any]:
    return {**copy.deepcopy(dict(base_config)), **extra_config}


# --- trainers made of functions ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Functions:
    """Functions that a script adds to a trainer; arguments of `build_trainer`."""

    validate_config: Callable[..., Any] | None = None
    get_policy_class: Callable[[Any], Any] | None = None
    validate_env: Callable[..., Any] | None = None
    before_init: Callable[..., Any] | None = None
    after_init: Callable[..., Any] | None = None
    before_evaluate_fn: Callable[..., Any] | None = None
    execution_plan: Callable[..., Any] | None = None


class WithFunctions(Trainer):
    _functions: ClassVar[Functions] = Functions()

    def setup(self, config: dict[str, Any]) -> None:
        own = self._functions
        if own.before_init is not None:
            own.before_init(self)
        if own.get_policy_class is not None:
            chosen = own.get_policy_class(merge_trainer_configs(self._default_config, config, True))
            self.__dict__["_policy_class"] = chosen or type(self)._policy_class
        super().setup(config)
        if own.validate_env is not None and self._envs:
            own.validate_env(self._envs[0], EnvContext(self.config["env_config"]))
        if own.after_init is not None:
            own.after_init(self)

    def validate_config(self, config: dict[str, Any]) -> None:
        super().validate_config(config)
        if self._functions.validate_config is not None:
            self._functions.validate_config(config)

    def _translate(self, given: dict[str, Any], agents: list[Any] | None, env: Any) -> None:
        if self._functions.execution_plan is not None:
            whole = {**DEFAULT_CONFIGS[self.algorithm], **given}
            given = in_rounds(self.algorithm, whole, given)
            self._asked = {key: whole[key] for key in SAMPLING if key in whole}
        super()._translate(given, agents, env)

    def _planned(self) -> LocalIterator:
        plan = self._functions.execution_plan
        if plan is None:
            return super()._planned()
        self.config.update(self._asked)
        if self.config["seed"] is not None:  # of the global generators that a plan draws from
            random.seed(self.config["seed"])
            np.random.seed(self.config["seed"])
        made = plan(self.workers, self.config)
        if not isinstance(made, LocalIterator):
            raise ConfigError(
                f"{self}: execution_plan returned {type(made).__name__}: must return a stream of results, such as that "
                "of StandardMetricsReporting"
            )
        return made

    @property
    def execution_plan(self) -> Any:
        return self._functions.execution_plan or super().execution_plan

    def evaluate(self, episodes_left_fn: Any = None) -> dict[str, Any]:
        if self._functions.before_evaluate_fn is not None:
            self._functions.before_evaluate_fn(self)
        return super().evaluate(episodes_left_fn)


SAMPLING = ("rollout_fragment_length", "train_batch_size", "sgd_minibatch_size")
"""Keys of batches, which an execution plan reads itself."""


def in_rounds(algorithm: str, config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration for an execution plan, whose workers sample in rounds of ``rollout_fragment_length``.

    All policies share these rounds, so that each algorithm that learns from new experience has batches of one round;
    the keys of policies that are about sampling have no effect, as in RLlib.

    Args:
        algorithm: The trainer's algorithm.
        config: All keys.
        given: The keys that were set.
    """
    lanes = max(int(config["num_workers"]), 1) * max(int(config["num_envs_per_worker"]), 1)
    length = max(int(config["rollout_fragment_length"]), 1)

    def rounds(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"rollout_fragment_length": length}
        if name in OFF_POLICY:
            return found
        found["train_batch_size"] = length * lanes
        return found | ({"sgd_minibatch_size": length * lanes} if "sgd_minibatch_size" in DEFAULT_CONFIGS[name] else {})

    section = dict(given.get("multiagent") or {})
    policies = section.get("policies")
    if isinstance(policies, Mapping):
        named = {}
        for name, entry in policies.items():
            spec = PolicySpec(*entry) if isinstance(entry, list | tuple) and len(entry) == len(PolicySpec()) else entry
            if isinstance(spec, PolicySpec):
                own = str(getattr(spec.policy_class, "algorithm", None) or algorithm)
                spec = spec._replace(config={**(spec.config or {}), **rounds(own)})
            elif isinstance(spec, Mapping):
                spec = {**spec, **rounds(algorithm)}
            named[name] = spec
        section["policies"] = named
    return {**given, **rounds(algorithm), **({"multiagent": section} if section else {})}


def build_trainer(
    name: str,
    *,
    default_config: Mapping[str, Any] | None = None,
    validate_config: Callable[..., Any] | None = None,
    default_policy: Any = None,
    get_policy_class: Callable[[Any], Any] | None = None,
    validate_env: Callable[..., Any] | None = None,
    before_init: Callable[..., Any] | None = None,
    after_init: Callable[..., Any] | None = None,
    before_evaluate_fn: Callable[..., Any] | None = None,
    mixins: Sequence[type] | None = None,
    execution_plan: Any = None,
    allow_unknown_configs: bool = False,
    base: type[Trainer] | None = None,
    **further: Any,
) -> type[Trainer]:
    """Makes a trainer class. An `execution_plan`, ``(workers, config) -> LocalIterator``, is its loop, instead of
    Rookery's.

    Raises a ConfigError for arguments that do not exist.
    """
    if further:
        raise ConfigError(f"build_trainer: {name}: {', '.join(further)}: no such argument")
    given = {
        "validate_config": validate_config,
        "get_policy_class": get_policy_class,
        "validate_env": validate_env,
        "before_init": before_init,
        "after_init": after_init,
        "before_evaluate_fn": before_evaluate_fn,
        "execution_plan": execution_plan,
    }
    rest = {"default_config": default_config, "default_policy": default_policy, "mixins": mixins}
    parent = base or TRAINERS.get(str(getattr(default_policy, "algorithm", None)), TRAINERS["PG"])
    members: dict[str, Any] = {
        "_name": name,
        "_functions": Functions(**given),
        "_allow_unknown_configs": allow_unknown_configs,
        "_built_with": {**given, **rest, "name": name, "allow_unknown_configs": allow_unknown_configs, "base": parent},
        "__module__": __name__,
        "__doc__": f"Trains by {name}.",
    }
    if default_config is not None:
        members["_default_config"] = dict(default_config)
    if default_policy is not None:
        members["_policy_class"] = default_policy
    return type(name, (*(mixins or ()), WithFunctions, parent), members)
