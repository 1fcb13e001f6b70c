"""Rookery trains one or many agents by reinforcement learning, and shows exactly how.

The names below are imported when they are first used: ``import rookery`` costs nothing.
"""

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.core.moved import OldNames, attribute
from rookery.core.packages import DISTRIBUTION, check_alone

check_alone(os.path.dirname(__path__[0]))

__distribution__ = DISTRIBUTION
"""Name of the distribution. An unrelated package with the same import name does not define it."""

__version__ = "0.2.0"

_HOME = {
    "Trainer": "rookery.run.trainer",
    "PPOConfig": "rookery.algorithms.on_policy.ppo",
    "PPO": "rookery.algorithms.on_policy.ppo",
    "PPOLagrangianConfig": "rookery.algorithms.on_policy.ppo_lagrangian",
    "PPOLagrangian": "rookery.algorithms.on_policy.ppo_lagrangian",
    "TRPOConfig": "rookery.algorithms.on_policy.trpo",
    "TRPO": "rookery.algorithms.on_policy.trpo",
    "MAPPOConfig": "rookery.algorithms.multi_agent.mappo",
    "MAPPO": "rookery.algorithms.multi_agent.mappo",
    "POCAConfig": "rookery.algorithms.multi_agent.poca",
    "POCA": "rookery.algorithms.multi_agent.poca",
    "A2CConfig": "rookery.algorithms.on_policy.a2c",
    "A2C": "rookery.algorithms.on_policy.a2c",
    "IMPALAConfig": "rookery.algorithms.on_policy.impala",
    "IMPALA": "rookery.algorithms.on_policy.impala",
    "APPOConfig": "rookery.algorithms.on_policy.appo",
    "APPO": "rookery.algorithms.on_policy.appo",
    "ReinforceConfig": "rookery.algorithms.on_policy.reinforce",
    "Reinforce": "rookery.algorithms.on_policy.reinforce",
    "ESConfig": "rookery.algorithms.evolution.es",
    "ES": "rookery.algorithms.evolution.es",
    "ARSConfig": "rookery.algorithms.evolution.ars",
    "ARS": "rookery.algorithms.evolution.ars",
    "AlphaZeroConfig": "rookery.algorithms.model_based.alphazero",
    "AlphaZero": "rookery.algorithms.model_based.alphazero",
    "LinUCBConfig": "rookery.algorithms.bandits.lin_ucb",
    "LinUCB": "rookery.algorithms.bandits.lin_ucb",
    "LinTSConfig": "rookery.algorithms.bandits.lin_ts",
    "LinTS": "rookery.algorithms.bandits.lin_ts",
    "NeuralLinearConfig": "rookery.algorithms.bandits.neural_linear",
    "NeuralLinear": "rookery.algorithms.bandits.neural_linear",
    "DQNConfig": "rookery.algorithms.off_policy.dqn",
    "DQN": "rookery.algorithms.off_policy.dqn",
    "PQNConfig": "rookery.algorithms.on_policy.pqn",
    "PQN": "rookery.algorithms.on_policy.pqn",
    "VDNConfig": "rookery.algorithms.multi_agent.vdn",
    "VDN": "rookery.algorithms.multi_agent.vdn",
    "QMIXConfig": "rookery.algorithms.multi_agent.qmix",
    "QMIX": "rookery.algorithms.multi_agent.qmix",
    "MADDPGConfig": "rookery.algorithms.multi_agent.maddpg",
    "MADDPG": "rookery.algorithms.multi_agent.maddpg",
    "SACConfig": "rookery.algorithms.off_policy.sac",
    "SAC": "rookery.algorithms.off_policy.sac",
    "TD3Config": "rookery.algorithms.off_policy.td3",
    "TD3": "rookery.algorithms.off_policy.td3",
    "DDPGConfig": "rookery.algorithms.off_policy.ddpg",
    "DDPG": "rookery.algorithms.off_policy.ddpg",
    "BCConfig": "rookery.algorithms.offline.bc",
    "BC": "rookery.algorithms.offline.bc",
    "MARWILConfig": "rookery.algorithms.offline.bc",
    "MARWIL": "rookery.algorithms.offline.bc",
    "IQLConfig": "rookery.algorithms.offline.iql",
    "IQL": "rookery.algorithms.offline.iql",
    "CQLConfig": "rookery.algorithms.offline.cql",
    "CQL": "rookery.algorithms.offline.cql",
    "DiscreteCQLConfig": "rookery.algorithms.offline.cql",
    "DiscreteCQL": "rookery.algorithms.offline.cql",
    "TD3BCConfig": "rookery.algorithms.offline.td3bc",
    "TD3BC": "rookery.algorithms.offline.td3bc",
    "AWACConfig": "rookery.algorithms.offline.awac",
    "AWAC": "rookery.algorithms.offline.awac",
    "DTConfig": "rookery.algorithms.offline.dt",
    "DT": "rookery.algorithms.offline.dt",
    "ReplayConfig": "rookery.replay.buffer",
    "ModelConfig": "rookery.models.build",
    "EvaluationConfig": "rookery.run.settings",
    "SamplingConfig": "rookery.run.settings",
    "Linear": "rookery.core.schedules",
    "Exponential": "rookery.core.schedules",
    "Piecewise": "rookery.core.schedules",
    "MultiAgentArena": "rookery.tasks.games.arena",
    "StatelessCartPole": "rookery.tasks.memory_tasks",
    "EntitySet": "rookery.core.spaces.entity_set",
    "RookeryError": "rookery.core.errors",
    "load_policy": "rookery.native.actor",
    "write_unity": "rookery_mlagents.onnx_unity",
    "write_generic": "rookery.onnx.generic",
    "evaluate_offline": "rookery.ope.offline_evaluation",
    "judge": "rookery.ope.offline_evaluation",
    "aggregate_scores": "rookery.report.statistics",
    "iqm": "rookery.report.statistics",
    "probability_of_improvement": "rookery.report.statistics",
    "record_replay": "rookery.run.evaluate.recording",
    "import_replay": "rookery.replay.formats.names",
    "export_replay": "rookery.replay.formats.names",
    "Callback": "rookery.run.callbacks",
    "Episode": "rookery.rollout.hooks",
    "CheckpointConfig": "rookery.run.settings",
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
    from rookery.algorithms.bandits.lin_ts import LinTS as LinTS
    from rookery.algorithms.bandits.lin_ts import LinTSConfig as LinTSConfig
    from rookery.algorithms.bandits.lin_ucb import LinUCB as LinUCB
    from rookery.algorithms.bandits.lin_ucb import LinUCBConfig as LinUCBConfig
    from rookery.algorithms.bandits.neural_linear import NeuralLinear as NeuralLinear
    from rookery.algorithms.bandits.neural_linear import NeuralLinearConfig as NeuralLinearConfig
    from rookery.algorithms.evolution.ars import ARS as ARS
    from rookery.algorithms.evolution.ars import ARSConfig as ARSConfig
    from rookery.algorithms.evolution.es import ES as ES
    from rookery.algorithms.evolution.es import ESConfig as ESConfig
    from rookery.algorithms.model_based.alphazero import AlphaZero as AlphaZero
    from rookery.algorithms.model_based.alphazero import AlphaZeroConfig as AlphaZeroConfig
    from rookery.algorithms.multi_agent.maddpg import MADDPG as MADDPG
    from rookery.algorithms.multi_agent.maddpg import MADDPGConfig as MADDPGConfig
    from rookery.algorithms.multi_agent.mappo import MAPPO as MAPPO
    from rookery.algorithms.multi_agent.mappo import MAPPOConfig as MAPPOConfig
    from rookery.algorithms.multi_agent.poca import POCA as POCA
    from rookery.algorithms.multi_agent.poca import POCAConfig as POCAConfig
    from rookery.algorithms.multi_agent.qmix import QMIX as QMIX
    from rookery.algorithms.multi_agent.qmix import QMIXConfig as QMIXConfig
    from rookery.algorithms.multi_agent.vdn import VDN as VDN
    from rookery.algorithms.multi_agent.vdn import VDNConfig as VDNConfig
    from rookery.algorithms.off_policy.ddpg import DDPG as DDPG
    from rookery.algorithms.off_policy.ddpg import DDPGConfig as DDPGConfig
    from rookery.algorithms.off_policy.dqn import DQN as DQN
    from rookery.algorithms.off_policy.dqn import DQNConfig as DQNConfig
    from rookery.algorithms.off_policy.sac import SAC as SAC
    from rookery.algorithms.off_policy.sac import SACConfig as SACConfig
    from rookery.algorithms.off_policy.td3 import TD3 as TD3
    from rookery.algorithms.off_policy.td3 import TD3Config as TD3Config
    from rookery.algorithms.offline.awac import AWAC as AWAC
    from rookery.algorithms.offline.awac import AWACConfig as AWACConfig
    from rookery.algorithms.offline.bc import BC as BC
    from rookery.algorithms.offline.bc import MARWIL as MARWIL
    from rookery.algorithms.offline.bc import BCConfig as BCConfig
    from rookery.algorithms.offline.bc import MARWILConfig as MARWILConfig
    from rookery.algorithms.offline.cql import CQL as CQL
    from rookery.algorithms.offline.cql import CQLConfig as CQLConfig
    from rookery.algorithms.offline.cql import DiscreteCQL as DiscreteCQL
    from rookery.algorithms.offline.cql import DiscreteCQLConfig as DiscreteCQLConfig
    from rookery.algorithms.offline.dt import DT as DT
    from rookery.algorithms.offline.dt import DTConfig as DTConfig
    from rookery.algorithms.offline.iql import IQL as IQL
    from rookery.algorithms.offline.iql import IQLConfig as IQLConfig
    from rookery.algorithms.offline.td3bc import TD3BC as TD3BC
    from rookery.algorithms.offline.td3bc import TD3BCConfig as TD3BCConfig
    from rookery.algorithms.on_policy.a2c import A2C as A2C
    from rookery.algorithms.on_policy.a2c import A2CConfig as A2CConfig
    from rookery.algorithms.on_policy.appo import APPO as APPO
    from rookery.algorithms.on_policy.appo import APPOConfig as APPOConfig
    from rookery.algorithms.on_policy.impala import IMPALA as IMPALA
    from rookery.algorithms.on_policy.impala import IMPALAConfig as IMPALAConfig
    from rookery.algorithms.on_policy.ppo import PPO as PPO
    from rookery.algorithms.on_policy.ppo import PPOConfig as PPOConfig
    from rookery.algorithms.on_policy.ppo_lagrangian import PPOLagrangian as PPOLagrangian
    from rookery.algorithms.on_policy.ppo_lagrangian import PPOLagrangianConfig as PPOLagrangianConfig
    from rookery.algorithms.on_policy.pqn import PQN as PQN
    from rookery.algorithms.on_policy.pqn import PQNConfig as PQNConfig
    from rookery.algorithms.on_policy.reinforce import Reinforce as Reinforce
    from rookery.algorithms.on_policy.reinforce import ReinforceConfig as ReinforceConfig
    from rookery.algorithms.on_policy.trpo import TRPO as TRPO
    from rookery.algorithms.on_policy.trpo import TRPOConfig as TRPOConfig
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
    from rookery.models.build import ModelConfig as ModelConfig
    from rookery.native.actor import load_policy as load_policy
    from rookery.onnx.generic import write_generic as write_generic
    from rookery.ope.offline_evaluation import evaluate_offline as evaluate_offline
    from rookery.ope.offline_evaluation import judge as judge
    from rookery.replay.buffer import ReplayConfig as ReplayConfig
    from rookery.replay.formats.names import export_replay as export_replay
    from rookery.replay.formats.names import import_replay as import_replay
    from rookery.report.statistics import aggregate_scores as aggregate_scores
    from rookery.report.statistics import iqm as iqm
    from rookery.report.statistics import probability_of_improvement as probability_of_improvement
    from rookery.rollout.hooks import Episode as Episode
    from rookery.run.callbacks import Callback as Callback
    from rookery.run.evaluate.recording import record_replay as record_replay
    from rookery.run.settings import CheckpointConfig as CheckpointConfig
    from rookery.run.settings import EvaluationConfig as EvaluationConfig
    from rookery.run.settings import SamplingConfig as SamplingConfig
    from rookery.run.trainer import Trainer as Trainer
    from rookery.tasks.games.arena import MultiAgentArena as MultiAgentArena
    from rookery.tasks.memory_tasks import StatelessCartPole as StatelessCartPole
    from rookery.tensor_envs.env import TensorEnv as TensorEnv
    from rookery.tensor_envs.env import TensorStep as TensorStep
    from rookery.tensor_envs.functional import FunctionalEnv as FunctionalEnv
    from rookery.tensor_envs.jax_envs import BraxEnv as BraxEnv
    from rookery.tensor_envs.jax_envs import GymnaxEnv as GymnaxEnv
    from rookery_mlagents.onnx_unity import write_unity as write_unity


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
