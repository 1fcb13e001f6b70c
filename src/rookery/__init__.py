"""Rookery trains one or many agents by reinforcement learning, and shows exactly how.

The names below are imported when they are first used: ``import rookery`` costs nothing.
"""

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.core.moved import OldNames, attribute

__version__ = "0.1.0"

_HOME = {
    "Trainer": "rookery.training.trainer",
    "PPOConfig": "rookery.algorithms.ppo",
    "PPO": "rookery.algorithms.ppo",
    "MAPPOConfig": "rookery.algorithms.mappo",
    "MAPPO": "rookery.algorithms.mappo",
    "POCAConfig": "rookery.algorithms.poca",
    "POCA": "rookery.algorithms.poca",
    "A2CConfig": "rookery.algorithms.a2c",
    "A2C": "rookery.algorithms.a2c",
    "IMPALAConfig": "rookery.algorithms.impala",
    "IMPALA": "rookery.algorithms.impala",
    "APPOConfig": "rookery.algorithms.appo",
    "APPO": "rookery.algorithms.appo",
    "ReinforceConfig": "rookery.algorithms.reinforce",
    "Reinforce": "rookery.algorithms.reinforce",
    "DQNConfig": "rookery.algorithms.dqn",
    "DQN": "rookery.algorithms.dqn",
    "PQNConfig": "rookery.algorithms.pqn",
    "PQN": "rookery.algorithms.pqn",
    "VDNConfig": "rookery.algorithms.vdn",
    "VDN": "rookery.algorithms.vdn",
    "QMIXConfig": "rookery.algorithms.qmix",
    "QMIX": "rookery.algorithms.qmix",
    "MADDPGConfig": "rookery.algorithms.maddpg",
    "MADDPG": "rookery.algorithms.maddpg",
    "SACConfig": "rookery.algorithms.sac",
    "SAC": "rookery.algorithms.sac",
    "TD3Config": "rookery.algorithms.td3",
    "TD3": "rookery.algorithms.td3",
    "DDPGConfig": "rookery.algorithms.ddpg",
    "DDPG": "rookery.algorithms.ddpg",
    "BCConfig": "rookery.algorithms.bc",
    "BC": "rookery.algorithms.bc",
    "MARWILConfig": "rookery.algorithms.bc",
    "MARWIL": "rookery.algorithms.bc",
    "IQLConfig": "rookery.algorithms.iql",
    "IQL": "rookery.algorithms.iql",
    "CQLConfig": "rookery.algorithms.cql",
    "CQL": "rookery.algorithms.cql",
    "DiscreteCQLConfig": "rookery.algorithms.cql",
    "DiscreteCQL": "rookery.algorithms.cql",
    "TD3BCConfig": "rookery.algorithms.td3bc",
    "TD3BC": "rookery.algorithms.td3bc",
    "AWACConfig": "rookery.algorithms.awac",
    "AWAC": "rookery.algorithms.awac",
    "DTConfig": "rookery.algorithms.dt",
    "DT": "rookery.algorithms.dt",
    "ReplayConfig": "rookery.replay.buffer",
    "ModelConfig": "rookery.models.build",
    "EvaluationConfig": "rookery.training.settings",
    "SamplingConfig": "rookery.training.settings",
    "Linear": "rookery.core.schedules",
    "Exponential": "rookery.core.schedules",
    "Piecewise": "rookery.core.schedules",
    "MultiAgentArena": "rookery.tasks.arena",
    "StatelessCartPole": "rookery.tasks.memory_tasks",
    "EntitySet": "rookery.core.spaces.entity_set",
    "RookeryError": "rookery.core.errors",
    "load_policy": "rookery.native.actor",
    "write_unity": "rookery.onnx.unity",
    "write_generic": "rookery.onnx.generic",
    "judge": "rookery.judging.judge",
    "record_replay": "rookery.training.recording",
    "import_replay": "rookery.replay.formats.names",
    "export_replay": "rookery.replay.formats.names",
    "Callback": "rookery.training.callbacks",
    "Episode": "rookery.rollout.hooks",
    "CheckpointConfig": "rookery.training.settings",
    "ConfigError": "rookery.core.errors",
    "EnvError": "rookery.core.errors",
    "CEnv": "rookery.envs.native.c_env",
    "c_env_of": "rookery.envs.native.c_env",
    "TensorEnv": "rookery.tensor_envs.env",
    "TensorStep": "rookery.tensor_envs.env",
    "FunctionalEnv": "rookery.tensor_envs.functional",
    "GymnaxEnv": "rookery.tensor_envs.jax_envs",
    "BraxEnv": "rookery.tensor_envs.jax_envs",
    "Client": "rookery.envs.external.client",
    "EpisodeLost": "rookery.envs.external.client",
    "TrainingOver": "rookery.envs.external.client",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from rookery.algorithms.a2c import A2C as A2C
    from rookery.algorithms.a2c import A2CConfig as A2CConfig
    from rookery.algorithms.appo import APPO as APPO
    from rookery.algorithms.appo import APPOConfig as APPOConfig
    from rookery.algorithms.awac import AWAC as AWAC
    from rookery.algorithms.awac import AWACConfig as AWACConfig
    from rookery.algorithms.bc import BC as BC
    from rookery.algorithms.bc import MARWIL as MARWIL
    from rookery.algorithms.bc import BCConfig as BCConfig
    from rookery.algorithms.bc import MARWILConfig as MARWILConfig
    from rookery.algorithms.cql import CQL as CQL
    from rookery.algorithms.cql import CQLConfig as CQLConfig
    from rookery.algorithms.cql import DiscreteCQL as DiscreteCQL
    from rookery.algorithms.cql import DiscreteCQLConfig as DiscreteCQLConfig
    from rookery.algorithms.ddpg import DDPG as DDPG
    from rookery.algorithms.ddpg import DDPGConfig as DDPGConfig
    from rookery.algorithms.dqn import DQN as DQN
    from rookery.algorithms.dqn import DQNConfig as DQNConfig
    from rookery.algorithms.dt import DT as DT
    from rookery.algorithms.dt import DTConfig as DTConfig
    from rookery.algorithms.impala import IMPALA as IMPALA
    from rookery.algorithms.impala import IMPALAConfig as IMPALAConfig
    from rookery.algorithms.iql import IQL as IQL
    from rookery.algorithms.iql import IQLConfig as IQLConfig
    from rookery.algorithms.maddpg import MADDPG as MADDPG
    from rookery.algorithms.maddpg import MADDPGConfig as MADDPGConfig
    from rookery.algorithms.mappo import MAPPO as MAPPO
    from rookery.algorithms.mappo import MAPPOConfig as MAPPOConfig
    from rookery.algorithms.poca import POCA as POCA
    from rookery.algorithms.poca import POCAConfig as POCAConfig
    from rookery.algorithms.ppo import PPO as PPO
    from rookery.algorithms.ppo import PPOConfig as PPOConfig
    from rookery.algorithms.pqn import PQN as PQN
    from rookery.algorithms.pqn import PQNConfig as PQNConfig
    from rookery.algorithms.qmix import QMIX as QMIX
    from rookery.algorithms.qmix import QMIXConfig as QMIXConfig
    from rookery.algorithms.reinforce import Reinforce as Reinforce
    from rookery.algorithms.reinforce import ReinforceConfig as ReinforceConfig
    from rookery.algorithms.sac import SAC as SAC
    from rookery.algorithms.sac import SACConfig as SACConfig
    from rookery.algorithms.td3 import TD3 as TD3
    from rookery.algorithms.td3 import TD3Config as TD3Config
    from rookery.algorithms.td3bc import TD3BC as TD3BC
    from rookery.algorithms.td3bc import TD3BCConfig as TD3BCConfig
    from rookery.algorithms.vdn import VDN as VDN
    from rookery.algorithms.vdn import VDNConfig as VDNConfig
    from rookery.core.errors import ConfigError as ConfigError
    from rookery.core.errors import EnvError as EnvError
    from rookery.core.errors import RookeryError as RookeryError
    from rookery.core.schedules import Exponential as Exponential
    from rookery.core.schedules import Linear as Linear
    from rookery.core.schedules import Piecewise as Piecewise
    from rookery.core.spaces.entity_set import EntitySet as EntitySet
    from rookery.envs.external.client import Client as Client
    from rookery.envs.external.client import EpisodeLost as EpisodeLost
    from rookery.envs.external.client import TrainingOver as TrainingOver
    from rookery.envs.native.c_env import CEnv as CEnv
    from rookery.envs.native.c_env import c_env_of as c_env_of
    from rookery.judging.judge import judge as judge
    from rookery.models.build import ModelConfig as ModelConfig
    from rookery.native.actor import load_policy as load_policy
    from rookery.onnx.generic import write_generic as write_generic
    from rookery.onnx.unity import write_unity as write_unity
    from rookery.replay.buffer import ReplayConfig as ReplayConfig
    from rookery.replay.formats.names import export_replay as export_replay
    from rookery.replay.formats.names import import_replay as import_replay
    from rookery.rollout.hooks import Episode as Episode
    from rookery.tasks.arena import MultiAgentArena as MultiAgentArena
    from rookery.tasks.memory_tasks import StatelessCartPole as StatelessCartPole
    from rookery.tensor_envs.env import TensorEnv as TensorEnv
    from rookery.tensor_envs.env import TensorStep as TensorStep
    from rookery.tensor_envs.functional import FunctionalEnv as FunctionalEnv
    from rookery.tensor_envs.jax_envs import BraxEnv as BraxEnv
    from rookery.tensor_envs.jax_envs import GymnaxEnv as GymnaxEnv
    from rookery.training.callbacks import Callback as Callback
    from rookery.training.recording import record_replay as record_replay
    from rookery.training.settings import CheckpointConfig as CheckpointConfig
    from rookery.training.settings import EvaluationConfig as EvaluationConfig
    from rookery.training.settings import SamplingConfig as SamplingConfig
    from rookery.training.trainer import Trainer as Trainer


sys.meta_path.insert(0, OldNames())


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        return attribute("rookery", name)
    collects = gc.isenabled()
    gc.disable()  # what torch brings is no garbage, and there is much of it to look through
    try:
        return getattr(import_module(_HOME[name]), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
