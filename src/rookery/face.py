"""Names of the engine for the packages `rookery_rllib` and `rookery_mlagents`; all other names may change.

Names are imported on first use. For your own extensions use `rookery.extend`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, BatchHook
    from rookery.algorithms.algorithm import Row as LearnerRow
    from rookery.algorithms.capabilities import Capabilities
    from rookery.algorithms.names import ALGORITHMS
    from rookery.algorithms.on_policy.a2c import A2C
    from rookery.algorithms.on_policy.ppo import PPO
    from rookery.algorithms.on_policy.reinforce import Reinforce, ReinforceBatch
    from rookery.cli.resume import KeepSchedules, check_resume
    from rookery.cli.runs import Provenance, TrustedCode, read_provenance
    from rookery.cli.terminal.json_output import json_rows, report_rows
    from rookery.cli.train import exit_on_interrupt, unsaved_progress
    from rookery.cluster.address import AUTO, answers
    from rookery.cluster.allotments import visible_gpus
    from rookery.core import ops
    from rookery.core.batch import Demand, Minibatch, Rollout, TensorTree, Transitions
    from rookery.core.config import DEFAULT, current_history, resolve
    from rookery.core.device import as_tensor
    from rookery.core.errors import ConfigError, EnvError, RookeryError, SpaceError, nearest, refuse
    from rookery.core.flat import Flat, flatten
    from rookery.core.io.console_output import LOG as CONSOLE_LOG
    from rookery.core.io.console_output import survive_lost_output
    from rookery.core.io.encoding import EncodingError, encode
    from rookery.core.io.file_names import as_file_name, name_refusal
    from rookery.core.io.files import (
        FOLDER,
        LONGEST_NAME,
        FileError,
        WriteError,
        last_good,
        list_checkpoints,
        make_folder,
        read_checkpoint_files,
        read_manifest,
        remove_directory,
        write_directory,
        write_file,
    )
    from rookery.core.io.json_text import DuplicateKeyError, unique_keys
    from rookery.core.io.leftovers import TEMPORARY, aside_of, clean, locked, restore
    from rookery.core.io.signing import is_signed_text, signed
    from rookery.core.io.yaml_reader import compose_yaml, construct_yaml, load_yaml
    from rookery.core.metrics import Means, Metrics
    from rookery.core.native import Build
    from rookery.core.optim import Adam, Optimizer, apply_gradients, compute_gradients, gradient_step
    from rookery.core.packages import install_line, needed
    from rookery.core.plugins import PluginTable
    from rookery.core.process.cpu import usable_cores
    from rookery.core.process.interrupt import Interrupt, Interrupted
    from rookery.core.process.torch_modes import own_modes
    from rookery.core.process.tracebacks import described
    from rookery.core.process.waits import exit_code_of
    from rookery.core.schedules import DECISIONS, Linear, Piecewise, read_schedule
    from rookery.core.seeding import Role, Streams
    from rookery.core.settings.fields import (
        Fraction,
        NonNegative,
        NonNegativeInt,
        PositiveFloat,
        PositiveInt,
        Settings,
        Structural,
        alternatives,
        bare,
        check,
        fields_of,
        is_undecided,
        optional,
        show,
    )
    from rookery.core.settings.layers import Layer, flow, import_object, nested, override_layer, yaml_layer
    from rookery.core.settings.reach import (
        ARGUMENTS,
        CODE,
        COUNT,
        Count,
        CountFromZero,
        Few,
        FewFromZero,
        Label,
        Length,
        Objection,
        Reaches,
        Width,
        Within,
        of_settings,
    )
    from rookery.core.settings.starting_folder import absolute, shown
    from rookery.core.settings.trust import Trust, TrustCode, refuse_reach, texts_in
    from rookery.core.spaces.arrays import (
        CATEGORIES,
        CENTRAL,
        MASK,
        ActionSpec,
        Leaf,
        ObsSpec,
        Tree,
        action_spec,
        image_axes,
        obs_spec,
    )
    from rookery.core.spaces.entity_set import EntityLayout, EntitySet, entity_layout
    from rookery.core.spaces.space_files import space_from_json, space_to_json
    from rookery.core.timers import Timers
    from rookery.envs.adapters.dict_env import ALL
    from rookery.envs.adapters.gym_env import AGENT
    from rookery.envs.adapters.reported import ReportedNumbers
    from rookery.envs.async_copies.async_env import TEAM_MARK, AsyncCopiesEnv, behaviors_of
    from rookery.envs.async_copies.step_message import Answer, Asking, CopyBehavior, Ended, StepMessage, slots_of
    from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase, VectorEnv, is_only_one
    from rookery.envs.check import check_env
    from rookery.envs.external.client import Client, EpisodeLost
    from rookery.envs.external.env import SCHEME, TOKEN
    from rookery.envs.foreign_config import objections_to
    from rookery.envs.groups import groups_of
    from rookery.envs.logs import log_folder, logs_in
    from rookery.envs.make import env_name, make_env
    from rookery.envs.parameters import (
        OPTION,
        Draws,
        EpisodePlan,
        OpenParameters,
        Parameter,
        first_plan,
        first_plan_by,
        parameters_of,
    )
    from rookery.envs.process_bound import bind_to_process, why_process_bound
    from rookery.envs.remote_env_stub import RemoteEnvStub
    from rookery.envs.samplers import (
        ConstantSampler,
        IntervalsSampler,
        NormalSampler,
        Sampler,
        UniformSampler,
        Value,
        is_number,
    )
    from rookery.envs.schemes import EnvScheme, scheme_of
    from rookery.envs.vector.closing import close_env
    from rookery.models.build import ModelConfig
    from rookery.models.heads import ActionHead, GivenActionHead, GivenHead, HeadSpec
    from rookery.models.image_encoders import SMALLEST, image_layout
    from rookery.models.q_head import IMPOSSIBLE, QHead
    from rookery.models.recall import CHOICES, NUMBERS, REWARD
    from rookery.models.squashed import SquashedHead
    from rookery.onnx.check import FileReport, OnnxRules
    from rookery.onnx.compare import Exported, probes_of
    from rookery.onnx.exporter import Exporter
    from rookery.onnx.graph import BATCH, OPSETS, ExportError, Graph, Port, check_opset, require_onnx
    from rookery.onnx.heads import Allowed, number_bounds, within
    from rookery.onnx.network import Decision, decide
    from rookery.onnx.obs_value import ObsValue
    from rookery.onnx.written import Written, metadata_of, write
    from rookery.policies.export import FILE as POLICY_FILE
    from rookery.policies.export import policy_files
    from rookery.policies.normalize import VARIANCE_FLOOR
    from rookery.policies.policy import Policy, _draw
    from rookery.replay.buffer import ReplayBuffer
    from rookery.replay.formats.columns import Wanted
    from rookery.replay.formats.growth import Growth, growth_of
    from rookery.replay.formats.names import read_recordings
    from rookery.replay.formats.packed import pack, unpack
    from rookery.replay.formats.replay_format import ReplayFormat
    from rookery.replay.formats.rllib_json import SINGLE, read_line
    from rookery.replay.recording import RecordedEpisode, Recording, last_change, recording_of, write_recordings
    from rookery.replay.segments import Spaces, StoredReplay
    from rookery.replay.sum_tree import SumTree
    from rookery.report.experiment_table import Gather, ProgressReporter
    from rookery.report.live import write_line
    from rookery.report.results import IterationResult, together
    from rookery.report.tensorboard import TensorBoard
    from rookery.rollout.hooks import Episode, EpisodeListener, EpisodeResult
    from rookery.rollout.mapping import EpisodeInfo
    from rookery.rollout.remote.shares import LaneShare
    from rookery.run.callbacks import Callback
    from rookery.run.checkpoint import own_files
    from rookery.run.checkpoint.checkpoint import read_checkpoint
    from rookery.run.checkpoint.other_env import is_of_env
    from rookery.run.checkpoint.run_dir import RunDir, versions
    from rookery.run.checks.misread_settings import MINIBATCH
    from rookery.run.checks.trusted_code import check_stored
    from rookery.run.describe.facts import finished_lines
    from rookery.run.evaluate.episode_limit import BoundedEpisodes
    from rookery.run.evaluate.evaluation import bounded
    from rookery.run.evaluate.evaluation_workers import EvaluationTask, EvaluationWorkers
    from rookery.run.horizon import change
    from rookery.run.lessons.parameters import plan_before
    from rookery.run.loggers import Logger
    from rookery.run.pace import ITERATION
    from rookery.run.prepare import make_copies
    from rookery.run.ranks.run_workers import unsendable
    from rookery.run.settings import RunConfig, SamplingConfig, algorithm_family, settings_of
    from rookery.run.trainer import Trainer
    from rookery.tasks.wall_curriculum import WallCurriculum
    from rookery.tune import space
    from rookery.tune.executor import Event, Executor, Failed, Order, Stepped
    from rookery.tune.executors.in_process import InProcessExecutor
    from rookery.tune.executors.processes import ProcessExecutor
    from rookery.tune.executors.trial_worker import LOG as TRIAL_LOG
    from rookery.tune.job import Job, Start, Work
    from rookery.tune.jobs.trainable import Trainable, pack_files, unpack_files
    from rookery.tune.journal import FILE as JOURNAL_FILE
    from rookery.tune.journal import VERSION, ExperimentState, Journal, read
    from rookery.tune.names import EXECUTORS
    from rookery.tune.optuna_search import OptunaConfig
    from rookery.tune.runner import Experiment, Runner
    from rookery.tune.scheduler import FIFO, Action, Actions, Exploit, FIFOConfig, Scheduler
    from rookery.tune.schedulers.asha import ASHA, ASHAConfig
    from rookery.tune.schedulers.hyperband import HyperBand, HyperBandConfig
    from rookery.tune.schedulers.median import Median, MedianConfig
    from rookery.tune.schedulers.pb2 import PB2, PB2Config
    from rookery.tune.schedulers.population import Population, PopulationConfig
    from rookery.tune.search import AskTell, RandomConfig, Suggestions
    from rookery.tune.settings import TuneConfig
    from rookery.tune.space import grid_size
    from rookery.tune.spec import read_layer
    from rookery.tune.trial import Row as TrialRow
    from rookery.tune.trial import Status, Trial

_NAMES = {
    "rookery.algorithms.algorithm": "Algorithm AlgorithmConfig BatchHook LearnerRow=Row",
    "rookery.algorithms.capabilities": "Capabilities",
    "rookery.algorithms.names": "ALGORITHMS",
    "rookery.algorithms.on_policy.a2c": "A2C",
    "rookery.algorithms.on_policy.ppo": "PPO",
    "rookery.algorithms.on_policy.reinforce": "Reinforce ReinforceBatch",
    "rookery.cli.resume": "KeepSchedules check_resume",
    "rookery.cli.runs": "Provenance TrustedCode read_provenance",
    "rookery.cli.terminal.json_output": "json_rows report_rows",
    "rookery.cli.train": "exit_on_interrupt unsaved_progress",
    "rookery.cluster.address": "AUTO answers",
    "rookery.cluster.allotments": "visible_gpus",
    "rookery.core": "ops",
    "rookery.core.batch": "Demand Minibatch Rollout TensorTree Transitions",
    "rookery.core.config": "DEFAULT current_history resolve",
    "rookery.core.device": "as_tensor",
    "rookery.core.errors": "ConfigError EnvError RookeryError SpaceError nearest refuse",
    "rookery.core.flat": "Flat flatten",
    "rookery.core.io.console_output": "CONSOLE_LOG=LOG survive_lost_output",
    "rookery.core.io.encoding": "EncodingError encode",
    "rookery.core.io.file_names": "as_file_name name_refusal",
    "rookery.core.io.files": (
        "FOLDER FileError LONGEST_NAME WriteError last_good list_checkpoints make_folder "
        "read_checkpoint_files read_manifest remove_directory write_directory write_file"
    ),
    "rookery.core.io.json_text": "DuplicateKeyError unique_keys",
    "rookery.core.io.leftovers": "TEMPORARY aside_of clean locked restore",
    "rookery.core.io.signing": "is_signed_text signed",
    "rookery.core.io.yaml_reader": "compose_yaml construct_yaml load_yaml",
    "rookery.core.metrics": "Means Metrics",
    "rookery.core.native": "Build",
    "rookery.core.optim": "Adam Optimizer apply_gradients compute_gradients gradient_step",
    "rookery.core.process.interrupt": "Interrupt Interrupted",
    "rookery.core.packages": "install_line needed",
    "rookery.core.plugins": "PluginTable",
    "rookery.core.process.cpu": "usable_cores",
    "rookery.core.process.torch_modes": "own_modes",
    "rookery.core.process.tracebacks": "described",
    "rookery.core.process.waits": "exit_code_of",
    "rookery.core.schedules": "DECISIONS Linear Piecewise read_schedule",
    "rookery.core.seeding": "Role Streams",
    "rookery.core.settings.fields": (
        "Fraction NonNegative NonNegativeInt PositiveFloat PositiveInt Settings Structural alternatives bare "
        "check fields_of is_undecided optional show"
    ),
    "rookery.core.settings.layers": "Layer flow import_object nested override_layer yaml_layer",
    "rookery.core.settings.reach": (
        "ARGUMENTS CODE COUNT Count CountFromZero Few FewFromZero Label Length Objection Reaches Width Within "
        "of_settings"
    ),
    "rookery.core.settings.starting_folder": "absolute shown",
    "rookery.core.settings.trust": "Trust TrustCode refuse_reach texts_in",
    "rookery.core.spaces.arrays": (
        "ActionSpec CATEGORIES CENTRAL Leaf MASK ObsSpec Tree action_spec obs_spec image_axes"
    ),
    "rookery.core.spaces.entity_set": "EntityLayout EntitySet entity_layout",
    "rookery.core.spaces.space_files": "space_from_json space_to_json",
    "rookery.core.timers": "Timers",
    "rookery.envs.adapters.dict_env": "ALL",
    "rookery.envs.adapters.gym_env": "AGENT",
    "rookery.envs.adapters.reported": "ReportedNumbers",
    "rookery.envs.async_copies.step_message": "Answer StepMessage Asking CopyBehavior Ended slots_of",
    "rookery.envs.async_copies.async_env": "AsyncCopiesEnv TEAM_MARK behaviors_of",
    "rookery.envs.base": "Kind Rows SeedPlan Step VectorBase VectorEnv is_only_one",
    "rookery.envs.check": "check_env",
    "rookery.envs.remote_env_stub": "RemoteEnvStub",
    "rookery.envs.external.client": "Client EpisodeLost",
    "rookery.envs.external.env": "SCHEME TOKEN",
    "rookery.envs.foreign_config": "objections_to",
    "rookery.envs.groups": "groups_of",
    "rookery.envs.logs": "log_folder logs_in",
    "rookery.envs.make": "env_name make_env",
    "rookery.envs.process_bound": "bind_to_process why_process_bound",
    "rookery.envs.parameters": (
        "Draws EpisodePlan OPTION OpenParameters Parameter first_plan first_plan_by parameters_of"
    ),
    "rookery.envs.samplers": "ConstantSampler IntervalsSampler NormalSampler Sampler UniformSampler Value is_number",
    "rookery.envs.schemes": "EnvScheme scheme_of",
    "rookery.envs.vector.closing": "close_env",
    "rookery.models.build": "ModelConfig",
    "rookery.models.heads": "ActionHead GivenActionHead GivenHead HeadSpec",
    "rookery.models.image_encoders": "SMALLEST image_layout",
    "rookery.models.q_head": "IMPOSSIBLE QHead",
    "rookery.models.recall": "CHOICES NUMBERS REWARD",
    "rookery.models.squashed": "SquashedHead",
    "rookery.onnx.check": "FileReport OnnxRules",
    "rookery.onnx.compare": "Exported probes_of",
    "rookery.onnx.exporter": "Exporter",
    "rookery.onnx.graph": "BATCH ExportError Graph OPSETS Port check_opset require_onnx",
    "rookery.onnx.heads": "Allowed number_bounds within",
    "rookery.onnx.network": "Decision decide",
    "rookery.onnx.obs_value": "ObsValue",
    "rookery.onnx.written": "Written metadata_of write",
    "rookery.policies.export": "POLICY_FILE=FILE policy_files",
    "rookery.policies.normalize": "VARIANCE_FLOOR",
    "rookery.policies.policy": "Policy _draw",
    "rookery.replay.buffer": "ReplayBuffer",
    "rookery.replay.formats.columns": "Wanted",
    "rookery.replay.formats.growth": "Growth growth_of",
    "rookery.replay.formats.names": "read_recordings",
    "rookery.replay.formats.packed": "pack unpack",
    "rookery.replay.formats.replay_format": "ReplayFormat",
    "rookery.replay.formats.rllib_json": "SINGLE read_line",
    "rookery.replay.recording": "RecordedEpisode Recording last_change recording_of write_recordings",
    "rookery.replay.segments": "Spaces StoredReplay",
    "rookery.replay.sum_tree": "SumTree",
    "rookery.report.experiment_table": "Gather ProgressReporter",
    "rookery.report.live": "write_line",
    "rookery.report.results": "IterationResult together",
    "rookery.report.tensorboard": "TensorBoard",
    "rookery.rollout.hooks": "Episode EpisodeListener EpisodeResult",
    "rookery.rollout.mapping": "EpisodeInfo",
    "rookery.rollout.remote.shares": "LaneShare",
    "rookery.run.callbacks": "Callback",
    "rookery.run.checkpoint": "own_files",
    "rookery.run.checkpoint.checkpoint": "read_checkpoint",
    "rookery.run.checkpoint.other_env": "is_of_env",
    "rookery.run.checkpoint.run_dir": "RunDir versions",
    "rookery.run.checks.misread_settings": "MINIBATCH",
    "rookery.run.checks.trusted_code": "check_stored",
    "rookery.run.describe.facts": "finished_lines",
    "rookery.run.evaluate.episode_limit": "BoundedEpisodes",
    "rookery.run.evaluate.evaluation": "bounded",
    "rookery.run.evaluate.evaluation_workers": "EvaluationTask EvaluationWorkers",
    "rookery.run.horizon": "change",
    "rookery.run.loggers": "Logger",
    "rookery.run.lessons.parameters": "plan_before",
    "rookery.run.pace": "ITERATION",
    "rookery.run.prepare": "make_copies",
    "rookery.run.ranks.run_workers": "unsendable",
    "rookery.run.settings": "RunConfig SamplingConfig algorithm_family settings_of",
    "rookery.tasks.wall_curriculum": "WallCurriculum",
    "rookery.run.trainer": "Trainer",
    "rookery.tune": "space",
    "rookery.tune.executor": "Event Executor Failed Order Stepped",
    "rookery.tune.executors.in_process": "InProcessExecutor",
    "rookery.tune.executors.processes": "ProcessExecutor",
    "rookery.tune.executors.trial_worker": "TRIAL_LOG=LOG",
    "rookery.tune.job": "Job Start Work",
    "rookery.tune.jobs.trainable": "Trainable pack_files unpack_files",
    "rookery.tune.journal": "ExperimentState JOURNAL_FILE=FILE Journal VERSION read",
    "rookery.tune.names": "EXECUTORS",
    "rookery.tune.optuna_search": "OptunaConfig",
    "rookery.tune.runner": "Experiment Runner",
    "rookery.tune.scheduler": "Action Actions Exploit FIFO FIFOConfig Scheduler",
    "rookery.tune.schedulers.asha": "ASHA ASHAConfig",
    "rookery.tune.schedulers.hyperband": "HyperBand HyperBandConfig",
    "rookery.tune.schedulers.median": "Median MedianConfig",
    "rookery.tune.schedulers.pb2": "PB2 PB2Config",
    "rookery.tune.schedulers.population": "Population PopulationConfig",
    "rookery.tune.search": "AskTell RandomConfig Suggestions",
    "rookery.tune.settings": "TuneConfig",
    "rookery.tune.space": "grid_size",
    "rookery.tune.spec": "read_layer",
    "rookery.tune.trial": "TrialRow=Row Status Trial",
}
"""Names by module; `public=name` if two modules have the same name."""

_HOME = {
    entry.partition("=")[0]: (module, entry.rpartition("=")[2])
    for module, names in _NAMES.items()
    for entry in names.split()
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, inside = _HOME[name]
    home = import_module(module)
    found = globals()[name] = getattr(home, inside) if hasattr(home, inside) else import_module(f"{module}.{inside}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
