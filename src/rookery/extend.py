"""Public names for writing own algorithms, models, signals, environments and schedulers.

Every name here keeps its name and its meaning from one version to the next. `docs/how-to/` shows their use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, BatchHook, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.actor_critic import ActorCritic, advantage_targets
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.algorithms.rewarding import add_signals
from rookery.cluster.ranks import Ranks, meet
from rookery.core.batch import Decisions, Demand, Minibatch, Rollout, Transitions
from rookery.core.flat import Flat, flatten
from rookery.core.metrics import Means, Metrics, explained_variance
from rookery.core.native import best_build
from rookery.core.ops import gae, vtrace
from rookery.core.optim import (
    Adam,
    ClosedForm,
    Optimizer,
    RMSprop,
    apply_gradients,
    compute_gradients,
    gradient_step,
    track,
)
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import (
    AtStart,
    Fraction,
    NonNegative,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.core.state import Stateful
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorEnv
from rookery.models.build import ModelConfig
from rookery.models.distributions import Distribution
from rookery.models.heads import Head, HeadSpec, Outputs
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import Forward, attach
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.replay import Replay, ReplaySettings
from rookery.rollout.hooks import EpisodeListener
from rookery.signals.learned import LearnedConfig, LearnedSignal
from rookery.signals.rewards import SignalsConfig
from rookery.signals.signal import RewardSignal, SignalConfig, ValueColumn
from rookery.tune.scheduler import Action, Scheduler, SchedulerConfig

if TYPE_CHECKING:
    from rookery.onnx.exporter import Exporter as Exporter
    from rookery.replay.formats.replay_format import ReplayFormat as ReplayFormat
    from rookery.replay.recording import RecordedEpisode as RecordedEpisode
    from rookery.replay.recording import Recording as Recording
    from rookery.replay.recording import recording_of as recording_of
    from rookery.run.loggers import Logger as Logger
    from rookery_mlagents.link.player_channel import PlayerChannel as PlayerChannel
    from rookery_mlagents.link.unity_env import UnityEnv as UnityEnv
    from rookery_mlagents.testing.player_script import write_player as write_player
    from rookery_mlagents.testing.session_file import read_session as read_session

_LATER = {
    "Exporter": "rookery.onnx.exporter",
    "Logger": "rookery.run.loggers",
    "RecordedEpisode": "rookery.replay.recording",
    "Recording": "rookery.replay.recording",
    "ReplayFormat": "rookery.replay.formats.replay_format",
    "recording_of": "rookery.replay.recording",
    "PlayerChannel": "rookery_mlagents.link.player_channel",
    "UnityEnv": "rookery_mlagents.link.unity_env",
    "write_player": "rookery_mlagents.testing.player_script",
    "read_session": "rookery_mlagents.testing.session_file",
}
"""Names that are rarely used, or belong to another package of this distribution; they are imported on first use."""

__all__ = [
    "Action",
    "ActionSpec",
    "ActorCritic",
    "Adam",
    "Algorithm",
    "AlgorithmConfig",
    "AtStart",
    "BatchHook",
    "Capabilities",
    "ClosedForm",
    "Decisions",
    "Demand",
    "Distribution",
    "EpisodeListener",
    "Exporter",
    "Flat",
    "Forward",
    "Fraction",
    "Head",
    "HeadSpec",
    "Inputs",
    "Kind",
    "LearnedConfig",
    "LearnedSignal",
    "Logger",
    "Means",
    "Metrics",
    "Minibatch",
    "ModelConfig",
    "NonNegative",
    "NonNegativeInt",
    "ObsSpec",
    "Optimizer",
    "Outputs",
    "PlayerChannel",
    "Policy",
    "PositiveFloat",
    "PositiveInt",
    "RMSprop",
    "Ranks",
    "RecordedEpisode",
    "Recording",
    "Replay",
    "ReplayBuffer",
    "ReplayConfig",
    "ReplayFormat",
    "ReplaySettings",
    "RewardSignal",
    "Role",
    "Rollout",
    "Row",
    "Rows",
    "Scheduled",
    "Scheduler",
    "SchedulerConfig",
    "SeedPlan",
    "Settings",
    "SignalConfig",
    "SignalsConfig",
    "Stateful",
    "Step",
    "Streams",
    "Structural",
    "Structure",
    "Tower",
    "Transitions",
    "UnityEnv",
    "ValueColumn",
    "VectorEnv",
    "add_signals",
    "advantage_targets",
    "apply_gradients",
    "attach",
    "best_build",
    "compute_gradients",
    "explained_variance",
    "flatten",
    "gae",
    "gradient_step",
    "meet",
    "ppo_loss",
    "read_session",
    "recording_of",
    "track",
    "vtrace",
    "write_player",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
