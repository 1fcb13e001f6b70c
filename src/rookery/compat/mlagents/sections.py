"""Sections of an ML-Agents configuration, with the keys, types and defaults of ML-Agents 1.1.0.

Each key is declared once, as a field of the class of its section; `rookery.compat.mlagents.keys` says what each means
here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Plain = bool | int | float | str | None | list["Plain"] | dict[str, "Plain"]
"""A value as a YAML file has it."""

Schedule = Literal["linear", "constant"]
"""How a number changes until `max_steps`."""


# -- one behaviour ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryOptions:
    """Section ``network_settings.memory``: an LSTM."""

    sequence_length: int = 64
    memory_size: int = 128


@dataclass(frozen=True)
class NetworkOptions:
    """Section ``network_settings``, of a behaviour or of a reward signal."""

    normalize: bool = False
    hidden_units: int = 128
    num_layers: int = 2
    vis_encode_type: Literal["simple", "nature_cnn", "resnet", "match3", "fully_connected"] = "simple"
    memory: MemoryOptions | None = None
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    deterministic: bool = False


@dataclass(frozen=True)
class PPOOptions:
    """Section ``hyperparameters`` of trainer type ppo."""

    batch_size: int = 1024
    buffer_size: int = 10240
    learning_rate: float = 3e-4
    beta: float = 5e-3
    epsilon: float = 0.2
    lambd: float = 0.95
    num_epoch: int = 3
    shared_critic: bool = False
    learning_rate_schedule: Schedule = "linear"
    beta_schedule: Schedule = "linear"
    epsilon_schedule: Schedule = "linear"


@dataclass(frozen=True)
class POCAOptions:
    """Section ``hyperparameters`` of trainer type poca."""

    batch_size: int = 1024
    buffer_size: int = 10240
    learning_rate: float = 3e-4
    beta: float = 5e-3
    epsilon: float = 0.2
    lambd: float = 0.95
    num_epoch: int = 3
    learning_rate_schedule: Schedule = "linear"
    beta_schedule: Schedule = "linear"
    epsilon_schedule: Schedule = "linear"


@dataclass(frozen=True)
class SACOptions:
    """Section ``hyperparameters`` of trainer type sac."""

    batch_size: int = 128
    buffer_size: int = 50000
    learning_rate: float = 3e-4
    learning_rate_schedule: Schedule = "constant"
    buffer_init_steps: int = 0
    tau: float = 0.005
    steps_per_update: float = 1.0
    save_replay_buffer: bool = False
    init_entcoef: float = 1.0
    reward_signal_steps_per_update: float = 1.0


@dataclass(frozen=True)
class OwnOptions:
    """Section ``hyperparameters`` of an own algorithm, ``trainer_type: my.module:MyConfig``: settings of its class."""

    values: dict[str, Plain] = field(default_factory=dict)


HyperOptions = PPOOptions | POCAOptions | SACOptions | OwnOptions
"""Hyperparameters of any trainer type."""


@dataclass(frozen=True)
class RewardOptions:
    """Section of a reward signal; by itself the one of ``extrinsic``."""

    gamma: float = 0.99
    strength: float = 1.0
    network_settings: NetworkOptions = field(default_factory=NetworkOptions)


@dataclass(frozen=True)
class CuriosityOptions(RewardOptions):
    """Section ``reward_signals.curiosity``."""

    learning_rate: float = 3e-4


@dataclass(frozen=True)
class RNDOptions(RewardOptions):
    """Section ``reward_signals.rnd``."""

    learning_rate: float = 1e-4


@dataclass(frozen=True)
class GAILOptions(RewardOptions):
    """Section ``reward_signals.gail``; `demo_path` has to be given."""

    learning_rate: float = 3e-4
    use_actions: bool = False
    use_vail: bool = False
    demo_path: str = ""


@dataclass(frozen=True)
class CloningOptions:
    """Section ``behavioral_cloning``; `demo_path` has to be given."""

    demo_path: str = ""
    steps: int = 0
    strength: float = 1.0
    samples_per_update: int = 0
    num_epoch: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class SelfPlayOptions:
    """Section ``self_play``; `team_change` is five times `save_steps` where nothing is said."""

    save_steps: int = 20000
    team_change: int = 100000
    swap_steps: int = 2000
    window: int = 10
    play_against_latest_model_ratio: float = 0.5
    initial_elo: float = 1200.0


@dataclass(frozen=True)
class BehaviorOptions:
    """Section of a behaviour, with everything that ``default_settings`` and defaults add to it."""

    trainer_type: str = "ppo"
    hyperparameters: HyperOptions = field(default_factory=PPOOptions)
    checkpoint_interval: int = 500000
    network_settings: NetworkOptions = field(default_factory=NetworkOptions)
    reward_signals: dict[str, RewardOptions] = field(default_factory=lambda: {"extrinsic": RewardOptions()})
    init_path: str | None = None
    keep_checkpoints: int = 5
    even_checkpoints: bool = False
    max_steps: int = 500000
    time_horizon: int = 64
    summary_freq: int = 50000
    threaded: bool = False
    self_play: SelfPlayOptions | None = None
    behavioral_cloning: CloningOptions | None = None


# -- the parameters of the environment -------------------------------------------------------------


@dataclass(frozen=True)
class SamplerOptions:
    """A value of a parameter: a constant, or a distribution.

    Attributes:
        sampler_type: ``constant``, ``uniform``, ``gaussian`` or ``multirangeuniform``.
        sampler_parameters: Its settings, complete: ``value``; ``min_value`` and ``max_value``; ``mean`` and ``st_dev``;
            ``intervals``; ``seed`` beside each of them, -1 = of the run.
    """

    sampler_type: str
    sampler_parameters: dict[str, Plain]


@dataclass(frozen=True)
class CriteriaOptions:
    """Section ``completion_criteria`` of a lesson: when the next one begins."""

    behavior: str
    measure: Literal["reward", "progress"] = "reward"
    threshold: float = 0.0
    min_lesson_length: int = 0
    signal_smoothing: bool = True
    require_reset: bool = False


@dataclass(frozen=True)
class LessonOptions:
    """A lesson of a curriculum."""

    name: str
    value: SamplerOptions
    completion_criteria: CriteriaOptions | None = None


@dataclass(frozen=True)
class ParameterOptions:
    """A parameter of the environment; one that has no curriculum has a single lesson."""

    curriculum: tuple[LessonOptions, ...]


# -- the run ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvOptions:
    """Section ``env_settings``."""

    env_path: str | None = None
    env_args: tuple[str, ...] | None = None
    base_port: int = 5005
    num_envs: int = 1
    num_areas: int = 1
    timeout_wait: int = 60
    seed: int = -1
    max_lifetime_restarts: int = 10
    restarts_rate_limit_n: int = 1
    restarts_rate_limit_period_s: int = 60


@dataclass(frozen=True)
class EngineOptions:
    """Section ``engine_settings``: how a Unity player draws and keeps time."""

    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60
    no_graphics: bool = False
    no_graphics_monitor: bool = False


@dataclass(frozen=True)
class CheckpointOptions:
    """Section ``checkpoint_settings``."""

    run_id: str = "ppo"
    initialize_from: str | None = None
    load_model: bool = False
    resume: bool = False
    force: bool = False
    train_model: bool = False
    inference: bool = False
    results_dir: str = "results"


@dataclass(frozen=True)
class TorchOptions:
    """Section ``torch_settings``."""

    device: str | None = None
