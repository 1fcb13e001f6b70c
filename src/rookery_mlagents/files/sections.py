"""Sections of an ML-Agents configuration, with the keys, types and defaults of ML-Agents 1.1.0.

Each key is declared once, as a field of the class of its section; `rookery_mlagents.keys` translates them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from rookery.face import (
    ARGUMENTS,
    CODE,
    COUNT,
    Count,
    Few,
    Fraction,
    Label,
    NonNegative,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Width,
    Within,
)

Plain = bool | int | float | str | None | list["Plain"] | dict[str, "Plain"]
"""A value in the types of YAML."""

Schedule = Literal["linear", "constant"]
"""Schedule of a number until `max_steps`."""


# -- one behaviour -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryOptions:
    """Section ``network_settings.memory``: an LSTM."""

    sequence_length: PositiveInt = 64
    memory_size: PositiveInt = 128


@dataclass(frozen=True)
class NetworkOptions:
    """Section ``network_settings``, of a behaviour or of a reward signal."""

    normalize: bool = False
    hidden_units: PositiveInt = 128
    num_layers: PositiveInt = 2
    vis_encode_type: Literal["simple", "nature_cnn", "resnet", "match3", "fully_connected"] = "simple"
    memory: MemoryOptions | None = None
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    deterministic: bool = False


@dataclass(frozen=True)
class PPOOptions:
    """Section ``hyperparameters`` of trainer type ppo."""

    batch_size: PositiveInt = 1024
    buffer_size: PositiveInt = 10240
    learning_rate: PositiveFloat = 3e-4
    beta: NonNegative = 5e-3
    epsilon: PositiveFloat = 0.2
    lambd: Fraction = 0.95
    num_epoch: PositiveInt = 3
    shared_critic: bool = False
    learning_rate_schedule: Schedule = "linear"
    beta_schedule: Schedule = "linear"
    epsilon_schedule: Schedule = "linear"


@dataclass(frozen=True)
class POCAOptions:
    """Section ``hyperparameters`` of trainer type poca."""

    batch_size: PositiveInt = 1024
    buffer_size: PositiveInt = 10240
    learning_rate: PositiveFloat = 3e-4
    beta: NonNegative = 5e-3
    epsilon: PositiveFloat = 0.2
    lambd: Fraction = 0.95
    num_epoch: PositiveInt = 3
    learning_rate_schedule: Schedule = "linear"
    beta_schedule: Schedule = "linear"
    epsilon_schedule: Schedule = "linear"


@dataclass(frozen=True)
class SACOptions:
    """Section ``hyperparameters`` of trainer type sac."""

    batch_size: PositiveInt = 128
    buffer_size: PositiveInt = 50000
    learning_rate: PositiveFloat = 3e-4
    learning_rate_schedule: Schedule = "constant"
    buffer_init_steps: NonNegativeInt = 0
    tau: Fraction = 0.005
    steps_per_update: PositiveFloat = 1.0
    save_replay_buffer: bool = False
    init_entcoef: PositiveFloat = 1.0
    reward_signal_steps_per_update: PositiveFloat = 1.0


@dataclass(frozen=True)
class A2COptions:
    """Section ``hyperparameters`` of trainer type a2c, as in Unity's ``ml-agents-trainer-plugin``."""

    batch_size: PositiveInt = 1024
    buffer_size: PositiveInt = 10240
    learning_rate: PositiveFloat = 3e-4
    beta: NonNegative = 5e-3
    lambd: Fraction = 0.95
    num_epoch: PositiveInt = 1
    shared_critic: bool = False
    learning_rate_schedule: Schedule = "linear"
    beta_schedule: Schedule = "linear"


@dataclass(frozen=True)
class DQNOptions:
    """Section ``hyperparameters`` of trainer type dqn, as in Unity's ``ml-agents-trainer-plugin``."""

    batch_size: PositiveInt = 128
    buffer_size: PositiveInt = 50000
    learning_rate: PositiveFloat = 3e-4
    learning_rate_schedule: Schedule = "constant"
    buffer_init_steps: NonNegativeInt = 0
    gamma: Fraction = 0.99
    exploration_schedule: Schedule = "linear"
    exploration_initial_eps: Fraction = 0.1
    exploration_final_eps: Fraction = 0.05
    target_update_interval: PositiveInt = 10000
    tau: Fraction = 0.005
    steps_per_update: PositiveFloat = 1.0
    save_replay_buffer: bool = False
    reward_signal_steps_per_update: PositiveFloat = 1.0


@dataclass(frozen=True)
class OwnOptions:
    """Section ``hyperparameters`` of another algorithm of Rookery, ``trainer_type: td3``, or of a custom one,
    ``trainer_type: my.module:MyConfig``: settings of its class.
    """

    values: dict[str, Plain] = field(default_factory=dict)


HyperOptions = PPOOptions | POCAOptions | SACOptions | A2COptions | DQNOptions | OwnOptions
"""Hyperparameters of any trainer type."""


@dataclass(frozen=True)
class RewardOptions:
    """Section of a reward signal; this class itself is the section ``extrinsic``."""

    gamma: Fraction = 0.99
    strength: NonNegative = 1.0
    network_settings: NetworkOptions = field(default_factory=NetworkOptions)


@dataclass(frozen=True)
class CuriosityOptions(RewardOptions):
    """Section ``reward_signals.curiosity``."""

    learning_rate: PositiveFloat = 3e-4


@dataclass(frozen=True)
class RNDOptions(RewardOptions):
    """Section ``reward_signals.rnd``."""

    learning_rate: PositiveFloat = 1e-4


@dataclass(frozen=True)
class GAILOptions(RewardOptions):
    """Section ``reward_signals.gail``; `demo_path` is required."""

    learning_rate: PositiveFloat = 3e-4
    use_actions: bool = False
    use_vail: bool = False
    demo_path: str = ""


@dataclass(frozen=True)
class CloningOptions:
    """Section ``behavioral_cloning``; `demo_path` is required."""

    demo_path: str = ""
    steps: NonNegativeInt = 0
    strength: NonNegative = 1.0
    samples_per_update: NonNegativeInt = 0
    num_epoch: PositiveInt | None = None
    batch_size: PositiveInt | None = None


@dataclass(frozen=True)
class SelfPlayOptions:
    """Section ``self_play``; the default of `team_change` is five times `save_steps`."""

    save_steps: PositiveInt = 20000
    team_change: PositiveInt = 100000
    swap_steps: PositiveInt = 2000
    window: PositiveInt = 10
    play_against_latest_model_ratio: Fraction = 0.5
    initial_elo: float = 1200.0


@dataclass(frozen=True)
class BehaviorOptions:
    """Section of a behaviour, completed by ``default_settings`` and defaults."""

    trainer_type: str = "ppo"
    hyperparameters: HyperOptions = field(default_factory=PPOOptions)
    checkpoint_interval: PositiveInt = 500000
    network_settings: NetworkOptions = field(default_factory=NetworkOptions)
    reward_signals: dict[str, RewardOptions] = field(default_factory=lambda: {"extrinsic": RewardOptions()})
    init_path: str | None = None
    keep_checkpoints: PositiveInt = 5
    even_checkpoints: bool = False
    max_steps: PositiveInt = 500000
    time_horizon: PositiveInt = 64
    summary_freq: PositiveInt = 50000
    threaded: bool = False
    self_play: SelfPlayOptions | None = None
    behavioral_cloning: CloningOptions | None = None


# -- the parameters of the environment ---------------------------------------------------------------------------------


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
    """Section ``completion_criteria`` of a lesson: the condition for the next lesson; `behavior` is required."""

    behavior: str = ""
    measure: Literal["reward", "progress", "elo", "group_reward"] = "reward"
    threshold: float = 0.0
    min_lesson_length: NonNegativeInt = 0
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
    """A parameter of the environment; without a curriculum it has a single lesson."""

    curriculum: tuple[LessonOptions, ...]


# -- the run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvOptions:
    """Section ``env_settings``."""

    env_path: Annotated[str, CODE] | None = None
    env_args: tuple[Annotated[str, ARGUMENTS], ...] | None = None
    base_port: Annotated[PositiveInt, Within(65_535)] = 5005
    num_envs: Few = 1
    num_areas: Few = 1
    timeout_wait: Count = 60
    seed: Annotated[int, COUNT] = -1
    max_lifetime_restarts: Annotated[int, COUNT] = 10
    restarts_rate_limit_n: Annotated[int, COUNT] = 1
    restarts_rate_limit_period_s: Annotated[int, COUNT] = 60


@dataclass(frozen=True)
class EngineOptions:
    """Section ``engine_settings``: display and time settings of a Unity player."""

    width: Width = 84
    height: Width = 84
    quality_level: Annotated[int, COUNT] = 5
    time_scale: PositiveFloat = 20.0
    target_frame_rate: Annotated[int, COUNT] = -1
    capture_frame_rate: Annotated[int, COUNT] = 60
    no_graphics: bool = False
    no_graphics_monitor: bool = False


@dataclass(frozen=True)
class CheckpointOptions:
    """Section ``checkpoint_settings``."""

    run_id: Label = "ppo"
    initialize_from: Label | None = None  # not read by a resumed run
    load_model: bool = False
    resume: bool = False
    force: bool = False
    train_model: bool = False
    inference: bool = False
    results_dir: Label = "results"  # likewise

    @property
    def write_path(self) -> str:
        """Folder of the run."""
        return str(Path(self.results_dir) / self.run_id)

    @property
    def run_logs_dir(self) -> str:
        """Folder of its logs."""
        return str(Path(self.write_path) / "run_logs")


@dataclass(frozen=True)
class TorchOptions:
    """Section ``torch_settings``."""

    device: Label | None = None
