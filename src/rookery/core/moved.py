"""Old names of modules, classes and functions, which stored runs, settings files, command lines and pickles hold.

Three tables say what became of a name: `MOVED`, `MOVED_NAMES` and `REMOVED`. `new_name` reads them where a text names
code. `OldNames` reads them where Python imports a module: for pickles, ``import`` statements and ``python -m``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

MOVED: dict[str, str] = {
    "rookery.algorithms.a2c": "rookery.algorithms.on_policy.a2c",
    "rookery.algorithms.action_noise": "rookery.algorithms.off_policy.action_noise",
    "rookery.algorithms.actor_critic": "rookery.algorithms.on_policy.actor_critic",
    "rookery.algorithms.appo": "rookery.algorithms.on_policy.appo",
    "rookery.algorithms.awac": "rookery.algorithms.offline.awac",
    "rookery.algorithms.bc": "rookery.algorithms.offline.bc",
    "rookery.algorithms.branches": "rookery.algorithms.off_policy.hybrid_actions",
    "rookery.algorithms.cql": "rookery.algorithms.offline.cql",
    "rookery.algorithms.critics": "rookery.algorithms.off_policy.critics",
    "rookery.algorithms.ddpg": "rookery.algorithms.off_policy.ddpg",
    "rookery.algorithms.dqn": "rookery.algorithms.off_policy.dqn",
    "rookery.algorithms.dt": "rookery.algorithms.offline.dt",
    "rookery.algorithms.group_critic": "rookery.algorithms.multi_agent.group_critic",
    "rookery.algorithms.impala": "rookery.algorithms.on_policy.impala",
    "rookery.algorithms.iql": "rookery.algorithms.offline.iql",
    "rookery.algorithms.maddpg": "rookery.algorithms.multi_agent.maddpg",
    "rookery.algorithms.mappo": "rookery.algorithms.multi_agent.mappo",
    "rookery.algorithms.offline": "rookery.algorithms.offline.data_learner",
    "rookery.algorithms.poca": "rookery.algorithms.multi_agent.poca",
    "rookery.algorithms.ppo": "rookery.algorithms.on_policy.ppo",
    "rookery.algorithms.pqn": "rookery.algorithms.on_policy.pqn",
    "rookery.algorithms.q_exploration": "rookery.algorithms.off_policy.q_exploration",
    "rookery.algorithms.q_sequences": "rookery.algorithms.off_policy.q_sequences",
    "rookery.algorithms.q_values": "rookery.algorithms.off_policy.q_values",
    "rookery.algorithms.qmix": "rookery.algorithms.multi_agent.qmix",
    "rookery.algorithms.reinforce": "rookery.algorithms.on_policy.reinforce",
    "rookery.algorithms.sac": "rookery.algorithms.off_policy.sac",
    "rookery.algorithms.td3": "rookery.algorithms.off_policy.td3",
    "rookery.algorithms.td3bc": "rookery.algorithms.offline.td3bc",
    "rookery.algorithms.vdn": "rookery.algorithms.multi_agent.vdn",
    "rookery.cli.apart": "rookery.cli.terminal.json_output",
    "rookery.cli.bench": "rookery.cli.bench.bench",
    "rookery.cli.check_onnx": "rookery.cli.onnx.check_onnx",
    "rookery.cli.elo": "rookery.cli.games.elo",
    "rookery.cli.ending": "rookery.cli.terminal.ending",
    "rookery.cli.export": "rookery.cli.onnx.export",
    "rookery.cli.keyboard": "rookery.cli.games.keyboard",
    "rookery.cli.match": "rookery.cli.games.match",
    "rookery.cli.mlagents": "rookery_mlagents.verbs.mlagents",
    "rookery.cli.mlagents_convert": "rookery_mlagents.verbs.mlagents_convert",
    "rookery.cli.mlagents_run": "rookery_mlagents.verbs.mlagents_run",
    "rookery.cli.person": "rookery.cli.games.person",
    "rookery.cli.plan": "rookery.cli.bench.plan",
    "rookery.cli.play": "rookery.cli.games.play",
    "rookery.cli.replay": "rookery.cli.replay.replay",
    "rookery.cli.replay_import": "rookery.cli.replay.replay_import",
    "rookery.cli.replay_places": "rookery.cli.replay.replay_places",
    "rookery.cli.replay_record": "rookery.cli.replay.replay_record",
    "rookery.cli.replay_report": "rookery.cli.replay.replay_report",
    "rookery.cli.rllib": "rookery_rllib.verbs",
    "rookery.cli.rllib_train": "rookery_rllib.train_verbs",
    "rookery.compat.mlagents.__main__": "rookery_mlagents.__main__",
    "rookery.compat.mlagents.behaviors": "rookery_mlagents.files.behaviors",
    "rookery.compat.mlagents.console_line": "rookery_mlagents.files.console_line",
    "rookery.compat.mlagents.convert": "rookery_mlagents.old.convert",
    "rookery.compat.mlagents.converting": "rookery_mlagents.old.converted_files",
    "rookery.compat.mlagents.demonstrations": "rookery_mlagents.learn.demonstrations",
    "rookery.compat.mlagents.environment": "rookery_mlagents.api",
    "rookery.compat.mlagents.environment.base_env": "rookery_mlagents.api.base_env",
    "rookery.compat.mlagents.environment.channel_messages": "rookery_mlagents.api.channel_messages",
    "rookery.compat.mlagents.environment.converting": "rookery_mlagents.api.player_steps",
    "rookery.compat.mlagents.environment.exceptions": "rookery_mlagents.api.exceptions",
    "rookery.compat.mlagents.environment.gym_wrapper": "rookery_mlagents.api.gym_wrapper",
    "rookery.compat.mlagents.environment.importing": "rookery_mlagents.api.importing",
    "rookery.compat.mlagents.environment.loggers": "rookery_mlagents.api.loggers",
    "rookery.compat.mlagents.environment.names": "rookery_mlagents.api.mlagents_names",
    "rookery.compat.mlagents.environment.pettingzoo_wrappers": "rookery_mlagents.api.pettingzoo_wrappers",
    "rookery.compat.mlagents.environment.registry": "rookery_mlagents.api.player_registry",
    "rookery.compat.mlagents.environment.side_channels": "rookery_mlagents.api.side_channels",
    "rookery.compat.mlagents.environment.specs": "rookery_mlagents.api.specs",
    "rookery.compat.mlagents.environment.steps": "rookery_mlagents.api.steps",
    "rookery.compat.mlagents.environment.unity_environment": "rookery_mlagents.api.unity_environment",
    "rookery.compat.mlagents.foreign_options": "rookery_mlagents.files.foreign_options",
    "rookery.compat.mlagents.inference": "rookery_mlagents.learn.inference",
    "rookery.compat.mlagents.keys": "rookery_mlagents.keys",
    "rookery.compat.mlagents.learn": "rookery_mlagents.learn.learn",
    "rookery.compat.mlagents.meanings": "rookery_mlagents.key_meanings",
    "rookery.compat.mlagents.old_files": "rookery_mlagents.old.old_files",
    "rookery.compat.mlagents.old_flags": "rookery_mlagents.old.old_flags",
    "rookery.compat.mlagents.old_parameters": "rookery_mlagents.old.old_parameters",
    "rookery.compat.mlagents.old_release": "rookery_mlagents.old.old_release",
    "rookery.compat.mlagents.options": "rookery_mlagents.files.run_options",
    "rookery.compat.mlagents.reading": "rookery_mlagents.files.reading",
    "rookery.compat.mlagents.reading_behaviors": "rookery_mlagents.files.reading_behaviors",
    "rookery.compat.mlagents.reading_parameters": "rookery_mlagents.files.reading_parameters",
    "rookery.compat.mlagents.run_files": "rookery_mlagents.files.run_files",
    "rookery.compat.mlagents.running": "rookery_mlagents.api.running",
    "rookery.compat.mlagents.schedule_ends": "rookery_mlagents.learn.schedule_ends",
    "rookery.compat.mlagents.sections": "rookery_mlagents.files.sections",
    "rookery.compat.mlagents.status": "rookery_mlagents.files.training_status",
    "rookery.compat.mlagents.tags": "rookery_mlagents.files.tensorboard_tags",
    "rookery.compat.mlagents.their_weights": "rookery_mlagents.files.mlagents_checkpoint",
    "rookery.compat.mlagents.timers_file": "rookery_mlagents.files.timers_file",
    "rookery.compat.mlagents.translate": "rookery_mlagents.learn.translate",
    "rookery.compat.mlagents.yaml_file": "rookery_mlagents.files.yaml_file",
    "rookery.compat.rllib.__main__": "rookery_rllib.__main__",
    "rookery.compat.rllib.action_distributions": "rookery_rllib.model.action_distributions",
    "rookery.compat.rllib.agent_mapping": "rookery_rllib.env.agent_mapping",
    "rookery.compat.rllib.annotations": "rookery_rllib.base.annotations",
    "rookery.compat.rllib.atari_wrappers": "rookery_rllib.gym.atari_wrappers",
    "rookery.compat.rllib.attention_networks": "rookery_rllib.model.attention_networks",
    "rookery.compat.rllib.base_env": "rookery_rllib.env.base_env",
    "rookery.compat.rllib.base_trainer": "rookery_rllib.trainer.base_trainer",
    "rookery.compat.rllib.batches": "rookery_rllib.policy.batches",
    "rookery.compat.rllib.build_trainers": "rookery_rllib.trainer.trainers",
    "rookery.compat.rllib.callbacks": "rookery_rllib.policy.callbacks",
    "rookery.compat.rllib.catalog": "rookery_rllib.model.catalog",
    "rookery.compat.rllib.chance": "rookery_rllib.base.chance",
    "rookery.compat.rllib.checkpoints": "rookery_rllib.trainer.trial.checkpoints",
    "rookery.compat.rllib.checks": "rookery_rllib.trainer.checks",
    "rookery.compat.rllib.cluster_workers": "rookery_rllib.trainer.cluster_workers",
    "rookery.compat.rllib.command_line": "rookery_rllib.script.command_line",
    "rookery.compat.rllib.compression": "rookery_rllib.batch.compression",
    "rookery.compat.rllib.config": "rookery_rllib.config.translation",
    "rookery.compat.rllib.config_table": "rookery_rllib.config.table",
    "rookery.compat.rllib.custom_loss": "rookery_rllib.policy.custom_loss",
    "rookery.compat.rllib.debug_text": "rookery_rllib.batch.debug_text",
    "rookery.compat.rllib.default_networks": "rookery_rllib.config.default_networks",
    "rookery.compat.rllib.defaults": "rookery_rllib.config.defaults",
    "rookery.compat.rllib.deprecation": "rookery_rllib.base.deprecation",
    "rookery.compat.rllib.env_making": "rookery_rllib.env.making",
    "rookery.compat.rllib.envs": "rookery_rllib.env.envs",
    "rookery.compat.rllib.episode_ends": "rookery_rllib.env.episode_ends",
    "rookery.compat.rllib.episodes": "rookery_rllib.policy.episodes",
    "rookery.compat.rllib.evaluation_workers": "rookery_rllib.trainer.evaluation_workers",
    "rookery.compat.rllib.example_actor_envs": "rookery_rllib.examples.actor_envs",
    "rookery.compat.rllib.example_envs": "rookery_rllib.examples.single_agent_envs",
    "rookery.compat.rllib.example_models": "rookery_rllib.examples.torch_models",
    "rookery.compat.rllib.example_multi_agent_envs": "rookery_rllib.examples.multi_agent_envs",
    "rookery.compat.rllib.example_policies": "rookery_rllib.examples.scripted_policies",
    "rookery.compat.rllib.explorations": "rookery_rllib.policy.explorations",
    "rookery.compat.rllib.exploring": "rookery_rllib.policy.exploring",
    "rookery.compat.rllib.external_env": "rookery_rllib.env.external_env",
    "rookery.compat.rllib.filters": "rookery_rllib.model.filters",
    "rookery.compat.rllib.finder": "rookery_rllib.script.finder",
    "rookery.compat.rllib.fluent": "rookery_rllib.trainer.fluent",
    "rookery.compat.rllib.framework": "rookery_rllib.keras.framework",
    "rookery.compat.rllib.from_config": "rookery_rllib.base.from_config",
    "rookery.compat.rllib.gym_box2d": "rookery_rllib.gym.env_classes",
    "rookery.compat.rllib.gym_classic": "rookery_rllib.gym.env_classes",
    "rookery.compat.rllib.gym_grid": "rookery_rllib.gym.env_classes",
    "rookery.compat.rllib.gym_logger": "rookery_rllib.gym.logger",
    "rookery.compat.rllib.gym_mujoco": "rookery_rllib.gym.env_classes",
    "rookery.compat.rllib.gym_names": "rookery_rllib.gym.core",
    "rookery.compat.rllib.gym_registry": "rookery_rllib.gym.registry",
    "rookery.compat.rllib.gym_seeding": "rookery_rllib.gym.seeding",
    "rookery.compat.rllib.gym_spaces": "rookery_rllib.gym.spaces",
    "rookery.compat.rllib.gym_wrappers": "rookery_rllib.gym.wrappers",
    "rookery.compat.rllib.imports": "rookery_rllib.base.imports",
    "rookery.compat.rllib.joined_ray": "rookery_rllib.base.joined_ray",
    "rookery.compat.rllib.keras_backend": "rookery_rllib.keras.backend",
    "rookery.compat.rllib.keras_layers": "rookery_rllib.keras.layers",
    "rookery.compat.rllib.key_functions": "rookery_rllib.config.key_functions",
    "rookery.compat.rllib.learned_steps": "rookery_rllib.policy.learned_steps",
    "rookery.compat.rllib.learner_stats": "rookery_rllib.policy.learner_stats",
    "rookery.compat.rllib.locks": "rookery_rllib.base.locks",
    "rookery.compat.rllib.loss_policies": "rookery_rllib.policy.loss_policies",
    "rookery.compat.rllib.machine": "rookery_rllib.base.machine",
    "rookery.compat.rllib.metrics": "rookery_rllib.trainer.metrics",
    "rookery.compat.rllib.minibatches": "rookery_rllib.batch.minibatches",
    "rookery.compat.rllib.model_v2": "rookery_rllib.model.model_v2",
    "rookery.compat.rllib.names": "rookery_rllib.base.names",
    "rookery.compat.rllib.names.agents": "rookery_rllib.base.names.agents",
    "rookery.compat.rllib.names.environments": "rookery_rllib.base.names.environments",
    "rookery.compat.rllib.names.example_models": "rookery_rllib.base.names.example_models",
    "rookery.compat.rllib.names.example_policies": "rookery_rllib.base.names.example_policies",
    "rookery.compat.rllib.names.examples": "rookery_rllib.base.names.examples",
    "rookery.compat.rllib.names.exploration": "rookery_rllib.base.names.exploration",
    "rookery.compat.rllib.names.foreign": "rookery_rllib.base.names.foreign",
    "rookery.compat.rllib.names.functions": "rookery_rllib.base.names.functions",
    "rookery.compat.rllib.names.models": "rookery_rllib.base.names.models",
    "rookery.compat.rllib.names.offline": "rookery_rllib.base.names.recordings",
    "rookery.compat.rllib.names.policy_templates": "rookery_rllib.base.names.policy_templates",
    "rookery.compat.rllib.names.tensorflow": "rookery_rllib.base.names.tensorflow",
    "rookery.compat.rllib.names.tune": "rookery_rllib.base.names.ray_and_tune",
    "rookery.compat.rllib.nested": "rookery_rllib.base.nested",
    "rookery.compat.rllib.nested_dicts": "rookery_rllib.base.nested_dicts",
    "rookery.compat.rllib.network_layers": "rookery_rllib.model.network_layers",
    "rookery.compat.rllib.networks": "rookery_rllib.model.networks",
    "rookery.compat.rllib.not_here": "rookery_rllib.base.not_here",
    "rookery.compat.rllib.notices": "rookery_rllib.base.notices",
    "rookery.compat.rllib.numpy_functions": "rookery_rllib.batch.numpy_functions",
    "rookery.compat.rllib.observing": "rookery_rllib.env.observing",
    "rookery.compat.rllib.offline": "rookery_rllib.batch.offline",
    "rookery.compat.rllib.old_api": "rookery_rllib.gym.old_api",
    "rookery.compat.rllib.old_envs": "rookery_rllib.gym.old_envs",
    "rookery.compat.rllib.old_ids": "rookery_rllib.gym.old_ids",
    "rookery.compat.rllib.own_exploration": "rookery_rllib.config.own_exploration",
    "rookery.compat.rllib.policies": "rookery_rllib.policy.policies",
    "rookery.compat.rllib.policy_exploration": "rookery_rllib.policy.explorations",
    "rookery.compat.rllib.policy_losses": "rookery_rllib.policy.losses",
    "rookery.compat.rllib.policy_mixins": "rookery_rllib.policy.mixins",
    "rookery.compat.rllib.policy_optimizers": "rookery_rllib.policy.optimizers",
    "rookery.compat.rllib.policy_server": "rookery_rllib.trainer.policy_server",
    "rookery.compat.rllib.policy_templates": "rookery_rllib.policy.templates",
    "rookery.compat.rllib.postprocessing": "rookery_rllib.batch.postprocessing",
    "rookery.compat.rllib.preprocessors": "rookery_rllib.model.preprocessors",
    "rookery.compat.rllib.ray_core": "rookery_rllib.base.ray_core",
    "rookery.compat.rllib.ray_exceptions": "rookery_rllib.base.ray_exceptions",
    "rookery.compat.rllib.recording": "rookery_rllib.trainer.recording",
    "rookery.compat.rllib.recurrent_networks": "rookery_rllib.model.recurrent_networks",
    "rookery.compat.rllib.registrations": "rookery_rllib.base.registrations",
    "rookery.compat.rllib.rendering": "rookery_rllib.gym.rendering",
    "rookery.compat.rllib.repeated_values": "rookery_rllib.batch.repeated_values",
    "rookery.compat.rllib.results": "rookery_rllib.trainer.results",
    "rookery.compat.rllib.rollouts": "rookery_rllib.script.rollouts",
    "rookery.compat.rllib.running_statistics": "rookery_rllib.base.running_statistics",
    "rookery.compat.rllib.sample_batch": "rookery_rllib.batch.sample_batch",
    "rookery.compat.rllib.schedules": "rookery_rllib.base.schedules",
    "rookery.compat.rllib.script": "rookery_rllib.script.run_script",
    "rookery.compat.rllib.script_policies": "rookery_rllib.policy.script_policies",
    "rookery.compat.rllib.script_q_models": "rookery_rllib.model.script_q_models",
    "rookery.compat.rllib.script_workers": "rookery_rllib.trainer.script_workers",
    "rookery.compat.rllib.sequences": "rookery_rllib.batch.sequences",
    "rookery.compat.rllib.shared_weights": "rookery_rllib.model.shared_weights",
    "rookery.compat.rllib.spaces": "rookery_rllib.gym.rllib_spaces",
    "rookery.compat.rllib.teams": "rookery_rllib.env.teams",
    "rookery.compat.rllib.tensorflow_names": "rookery_rllib.keras.tensorflow_names",
    "rookery.compat.rllib.torch_functions": "rookery_rllib.batch.torch_functions",
    "rookery.compat.rllib.torch_policy": "rookery_rllib.policy.torch_policy",
    "rookery.compat.rllib.trainable": "rookery_rllib.trainer.trial.trainable",
    "rookery.compat.rllib.trainers": "rookery_rllib.trainer.trainers",
    "rookery.compat.rllib.trajectories": "rookery_rllib.batch.trajectories",
    "rookery.compat.rllib.tuning": "rookery_rllib.tune",
    "rookery.compat.rllib.tuning.analysis": "rookery_rllib.tune.analysis",
    "rookery.compat.rllib.tuning.callback": "rookery_rllib.tune.callback",
    "rookery.compat.rllib.tuning.dict_paths": "rookery_rllib.tune.dict_paths",
    "rookery.compat.rllib.tuning.driver": "rookery_rllib.tune.driver",
    "rookery.compat.rllib.tuning.errors": "rookery_rllib.trainer.trial.tune_errors",
    "rookery.compat.rllib.tuning.experiment": "rookery_rllib.tune.experiment",
    "rookery.compat.rllib.tuning.job": "rookery_rllib.tune.job",
    "rookery.compat.rllib.tuning.logger": "rookery_rllib.trainer.trial.loggers",
    "rookery.compat.rllib.tuning.registry": "rookery_rllib.tune.trainables",
    "rookery.compat.rllib.tuning.reporters": "rookery_rllib.tune.reporters",
    "rookery.compat.rllib.tuning.resources": "rookery_rllib.trainer.trial.resources",
    "rookery.compat.rllib.tuning.results": "rookery_rllib.trainer.trial.result_keys",
    "rookery.compat.rllib.tuning.saving": "rookery_rllib.tune.saving",
    "rookery.compat.rllib.tuning.schedulers": "rookery_rllib.tune.schedulers",
    "rookery.compat.rllib.tuning.search": "rookery_rllib.tune.search",
    "rookery.compat.rllib.tuning.session": "rookery_rllib.trainer.trial.session",
    "rookery.compat.rllib.tuning.space": "rookery_rllib.tune.space",
    "rookery.compat.rllib.tuning.stopper": "rookery_rllib.tune.stopper",
    "rookery.compat.rllib.tuning.trial": "rookery_rllib.tune.trial",
    "rookery.compat.rllib.tuning.tuner": "rookery_rllib.tune.tuner",
    "rookery.compat.rllib.type_names": "rookery_rllib.base.type_names",
    "rookery.compat.rllib.unity3d_env": "rookery_rllib.env.unity3d_env",
    "rookery.compat.rllib.view_requirement": "rookery_rllib.batch.view_requirement",
    "rookery.compat.rllib.viewing_models": "rookery_rllib.model.viewing_models",
    "rookery.compat.rllib.workers": "rookery_rllib.trainer.workers",
    "rookery.core.activity": "rookery.core.process.activity",
    "rookery.core.array_files": "rookery.core.io.array_files",
    "rookery.core.child_process": "rookery.core.process.child_process",
    "rookery.core.class_names": "rookery.core.settings.class_names",
    "rookery.core.console_output": "rookery.core.io.console_output",
    "rookery.core.encoding": "rookery.core.io.encoding",
    "rookery.core.entity_set": "rookery.core.spaces.entity_set",
    "rookery.core.files": "rookery.core.io.files",
    "rookery.core.foreign_arguments": "rookery.core.settings.foreign_arguments",
    "rookery.core.heartbeats": "rookery.core.process.heartbeats",
    "rookery.core.hints": "rookery.core.settings.hints",
    "rookery.core.internal_errors": "rookery.core.process.internal_errors",
    "rookery.core.interrupt": "rookery.core.process.interrupt",
    "rookery.core.json_text": "rookery.core.io.json_text",
    "rookery.core.layers": "rookery.core.settings.layers",
    "rookery.core.leftovers": "rookery.core.io.leftovers",
    "rookery.core.other_names": "rookery.core.settings.hints",
    "rookery.core.packing": "rookery.core.io.packing",
    "rookery.core.path_settings": "rookery.core.settings.path_settings",
    "rookery.core.processor": "rookery.core.process.processor",
    "rookery.core.reach": "rookery.core.settings.reach",
    "rookery.core.repeated_keys": "rookery.core.settings.repeated_keys",
    "rookery.core.runtime": "rookery.core.process.runtime",
    "rookery.core.secrets": "rookery.core.settings.secrets",
    "rookery.core.settings": "rookery.core.settings.fields",
    "rookery.core.signing": "rookery.core.io.signing",
    "rookery.core.space_files": "rookery.core.spaces.space_files",
    "rookery.core.spaces": "rookery.core.spaces.arrays",
    "rookery.core.starting_folder": "rookery.core.settings.starting_folder",
    "rookery.core.teams": "rookery.core.spaces.team_spaces",
    "rookery.core.thread_context": "rookery.core.process.thread_context",
    "rookery.core.thresholds": "rookery.core.settings.thresholds",
    "rookery.core.torch_modes": "rookery.core.process.torch_modes",
    "rookery.core.tracebacks": "rookery.core.process.tracebacks",
    "rookery.core.trust": "rookery.core.settings.trust",
    "rookery.core.waits": "rookery.core.process.waits",
    "rookery.core.yaml_reader": "rookery.core.io.yaml_reader",
    "rookery.core.yaml_words": "rookery.core.settings.yaml_words",
    "rookery.envs.atari": "rookery.envs.adapters.atari",
    "rookery.envs.batched": "rookery.envs.adapters.batched",
    "rookery.envs.batched_agents": "rookery.envs.adapters.batched_agents",
    "rookery.envs.bundled": "rookery.envs.adapters.bundled",
    "rookery.envs.c": "rookery.envs.native",
    "rookery.envs.c.beginning": "rookery.envs.native.beginning",
    "rookery.envs.c.compiler": "rookery.envs.native.compiler",
    "rookery.envs.c.elsewhere": "rookery.envs.native.subprocess_check",
    "rookery.envs.c.env": "rookery.envs.native.c_env",
    "rookery.envs.c.guard": "rookery.envs.native.guard",
    "rookery.envs.c.library": "rookery.envs.native.library",
    "rookery.envs.c.playing": "rookery.envs.native.c_playing",
    "rookery.envs.c.scheme": "rookery.envs.native.scheme",
    "rookery.envs.c.soundness": "rookery.envs.native.soundness",
    "rookery.envs.c.twins": "rookery.envs.native.twins",
    "rookery.envs.classic": "rookery.envs.adapters.classic",
    "rookery.envs.clocked": "rookery.envs.async_copies",
    "rookery.envs.clocked.arrival": "rookery.envs.async_copies.arrival",
    "rookery.envs.clocked.env": "rookery.envs.async_copies.async_env",
    "rookery.envs.clocked.seats": "rookery.envs.async_copies.async_env",
    "rookery.envs.dict_env": "rookery.envs.adapters.dict_env",
    "rookery.envs.gym_env": "rookery.envs.adapters.gym_env",
    "rookery.envs.import_paths": "rookery.envs.adapters.import_paths",
    "rookery.envs.lane": "rookery.envs.adapters.lane",
    "rookery.envs.minatar": "rookery.envs.adapters.minatar",
    "rookery.envs.pettingzoo_env": "rookery.envs.adapters.pettingzoo_env",
    "rookery.envs.probe": "rookery.envs.adapters.probe",
    "rookery.envs.reported": "rookery.envs.adapters.reported",
    "rookery.envs.snapshot": "rookery.envs.adapters.snapshot",
    "rookery.envs.unity": "rookery_mlagents.link",
    "rookery.envs.unity.any_parameters": "rookery_mlagents.link.any_parameters",
    "rookery.envs.unity.base_env": "rookery_mlagents.link.base_env_copies",
    "rookery.envs.unity.channels": "rookery_mlagents.link.player_channel",
    "rookery.envs.unity.demo_file": "rookery_mlagents.files.demo_file",
    "rookery.envs.unity.env": "rookery_mlagents.link.unity_env",
    "rookery.envs.unity.guard": "rookery_mlagents.link.player_guard",
    "rookery.envs.unity.layouts": "rookery_mlagents.link.layouts",
    "rookery.envs.unity.link": "rookery_mlagents.link.grpc_server",
    "rookery.envs.unity.messages": "rookery_mlagents.link.messages",
    "rookery.envs.unity.pictures": "rookery_mlagents.link.image_messages",
    "rookery.envs.unity.players": "rookery_mlagents.link.players",
    "rookery.envs.unity.program": "rookery_mlagents.link.player_program",
    "rookery.envs.unity.protocol": "rookery_mlagents.link.protobuf_classes",
    "rookery.envs.unity.recognized": "rookery_mlagents.link.base_env_checks",
    "rookery.envs.unity.scheme": "rookery_mlagents.link.scheme",
    "rookery.envs.unity.side_channels": "rookery_mlagents.link.side_channel_codec",
    "rookery.envs.unity.testing": "rookery_mlagents.testing",
    "rookery.envs.unity.testing.__main__": "rookery_mlagents.testing.__main__",
    "rookery.envs.unity.testing.line": "rookery_mlagents.testing.player_line",
    "rookery.envs.unity.testing.options": "rookery_mlagents.testing.player_options",
    "rookery.envs.unity.testing.player": "rookery_mlagents.testing.player",
    "rookery.envs.unity.testing.recorder": "rookery_mlagents.testing.recorder",
    "rookery.envs.unity.testing.scene": "rookery_mlagents.testing.scene",
    "rookery.envs.unity.testing.script": "rookery_mlagents.testing.player_script",
    "rookery.envs.unity.testing.sensors": "rookery_mlagents.testing.sensors",
    "rookery.envs.unity.testing.session_file": "rookery_mlagents.testing.session_file",
    "rookery.envs.unity.wire": "rookery_mlagents.link.protobuf_wire",
    "rookery.judging": "rookery.ope",
    "rookery.judging.behavior": "rookery.ope.behavior",
    "rookery.judging.coverage": "rookery.ope.coverage",
    "rookery.judging.critic_error": "rookery.ope.critic_error",
    "rookery.judging.episodes": "rookery.ope.episodes",
    "rookery.judging.estimators": "rookery.ope.estimators",
    "rookery.judging.fitted": "rookery.ope.fitted",
    "rookery.judging.judge": "rookery.ope.judge",
    "rookery.judging.judged_policy": "rookery.ope.judged_policy",
    "rookery.onnx.observations": "rookery.onnx.written",
    "rookery.onnx.pictures": "rookery.onnx.trunks",
    "rookery.onnx.unity": "rookery_mlagents.onnx_unity",
    "rookery.onnx.unity_rules": "rookery_mlagents.onnx_unity_rules",
    "rookery.replay.formats.unity_demo": "rookery_mlagents.files.demo_replay",
    "rookery.rollout.bursts": "rookery.rollout.loops.helper_process",
    "rookery.rollout.device_player": "rookery.rollout.loops.device",
    "rookery.rollout.fragments": "rookery.rollout.loops.native",
    "rookery.rollout.hosts": "rookery.rollout.remote.hosts",
    "rookery.rollout.ranked_pool": "rookery.rollout.remote.ranked_pool",
    "rookery.rollout.remote_pool": "rookery.rollout.remote.remote_pool",
    "rookery.rollout.shares": "rookery.rollout.remote.shares",
    "rookery.rollout.stepping": "rookery.rollout.loops.python",
    "rookery.rollout.wait_times": "rookery.rollout.remote.wait_times",
    "rookery.tasks.arena": "rookery.tasks.games.arena",
    "rookery.tasks.board_games": "rookery.tasks.games.board_games",
    "rookery.tasks.carry_together": "rookery.tasks.games.carry_together",
    "rookery.tasks.food_collector": "rookery.tasks.games.food_collector",
    "rookery.tasks.game_drawing": "rookery.tasks.drawing",
    "rookery.tasks.line_soccer": "rookery.tasks.games.line_soccer",
    "rookery.tasks.matrix_game": "rookery.tasks.games.matrix_game",
    "rookery.tasks.players": "rookery.tasks.games.players",
    "rookery.tasks.sacrifice": "rookery.tasks.games.sacrifice",
    "rookery.tasks.world_drawing": "rookery.tasks.drawing",
    "rookery.training": "rookery.run",
    "rookery.training.apart": "rookery.run.learn_or_collect",
    "rookery.training.call_path": "rookery.run.describe.call_path",
    "rookery.training.callback_states": "rookery.run.checkpoint.callback_states",
    "rookery.training.callbacks": "rookery.run.callbacks",
    "rookery.training.changes": "rookery.run.checkpoint.changes",
    "rookery.training.checkpoint": "rookery.run.checkpoint.checkpoint",
    "rookery.training.client_tokens": "rookery.run.checkpoint.client_tokens",
    "rookery.training.clock": "rookery.run.clock",
    "rookery.training.codes": "rookery.run.checks.categorical_images",
    "rookery.training.compute": "rookery.run.compute",
    "rookery.training.cost_model": "rookery.run.plan.cost_model",
    "rookery.training.crowd": "rookery.run.plan.background_load",
    "rookery.training.curriculum": "rookery.run.lessons.curriculum",
    "rookery.training.earlier_settings": "rookery.run.checkpoint.earlier_settings",
    "rookery.training.endless": "rookery.run.evaluate.episode_limit",
    "rookery.training.evaluation": "rookery.run.evaluate.evaluation",
    "rookery.training.evaluation_workers": "rookery.run.evaluate.evaluation_workers",
    "rookery.training.exchange_cost": "rookery.run.plan.exchange_cost",
    "rookery.training.facts": "rookery.run.describe.facts",
    "rookery.training.following": "rookery.run.ranks.serve_rank",
    "rookery.training.foreign_settings": "rookery.run.checks.foreign_settings",
    "rookery.training.from_data": "rookery.run.from_data",
    "rookery.training.gradient_steps": "rookery.run.gradient_steps",
    "rookery.training.horizon": "rookery.run.horizon",
    "rookery.training.learners": "rookery.run.ranks.learners",
    "rookery.training.matches": "rookery.run.opponents.matches",
    "rookery.training.measured_costs": "rookery.run.plan.measured_costs",
    "rookery.training.misread_settings": "rookery.run.checks.misread_settings",
    "rookery.training.named_policies": "rookery.run.checks.named_policies",
    "rookery.training.observed": "rookery.run.evaluate.observed",
    "rookery.training.own_files": "rookery.run.checkpoint.own_files",
    "rookery.training.pace": "rookery.run.pace",
    "rookery.training.parameters": "rookery.run.lessons.parameters",
    "rookery.training.path_folders": "rookery.run.checkpoint.path_folders",
    "rookery.training.prepare": "rookery.run.prepare",
    "rookery.training.presets": "rookery.run.presets",
    "rookery.training.rank_process": "rookery.run.ranks.rank_process",
    "rookery.training.rating_games": "rookery.run.opponents.rating_games",
    "rookery.training.ratings": "rookery.run.opponents.ratings",
    "rookery.training.raw_actions": "rookery.run.evaluate.recording",
    "rookery.training.recording": "rookery.run.evaluate.recording",
    "rookery.training.remarks": "rookery.run.checks.remarks",
    "rookery.training.replay_sources": "rookery.run.checkpoint.replay_sources",
    "rookery.training.replays": "rookery.run.checkpoint.replays",
    "rookery.training.results": "rookery.run.results",
    "rookery.training.room": "rookery.run.checks.memory_check",
    "rookery.training.round": "rookery.run.round",
    "rookery.training.run": "rookery.run.run",
    "rookery.training.run_dir": "rookery.run.checkpoint.run_dir",
    "rookery.training.saved_shares": "rookery.run.checkpoint.saved_shares",
    "rookery.training.schema": "rookery.run.describe.schema",
    "rookery.training.self_play": "rookery.run.opponents.self_play",
    "rookery.training.settings": "rookery.run.settings",
    "rookery.training.speed": "rookery.run.plan.speed",
    "rookery.training.stopping": "rookery.run.stopping",
    "rookery.training.trainer": "rookery.run.trainer",
    "rookery.training.trust": "rookery.run.checks.trusted_code",
    "rookery.training.unused": "rookery.run.checks.unused",
    "rookery.training.watch": "rookery.run.watch",
    "rookery.training.workers": "rookery.run.ranks.run_workers",
}
"""New module by old module.

The row of a package is also the row of each module below it that has none, unless the new name lies below the old one.
A package that is gone needs a row where modules below it have one.
"""

MOVED_NAMES: dict[str, str] = {
    "rookery.algorithms.off_policy.critics:critic_values": "rookery.native.critics:action_values",
    "rookery.algorithms.off_policy.sac:WithoutGraph": "rookery.native.critics:WithoutGraph",
    "rookery.algorithms.offline.bc:ClonedPolicy": "rookery.algorithms.off_policy.critics:PolicyNetwork",
    "rookery.compat.mlagents:install": "rookery_mlagents:install",
    "rookery.compat.mlagents:mlagents_envs": "rookery_mlagents:mlagents_envs",
    "rookery.compat.rllib.catalog:register_all": "rookery.compat.rllib.registrations:register_all",
    "rookery.compat.rllib.catalog:registered": "rookery.compat.rllib.registrations:registered",
    "rookery.compat.rllib.finder:NamesModule": "rookery.compat.rllib.imports:NamesModule",
    "rookery.compat.rllib.finder:carry_names_along": "rookery.script.importer:carry_names_along",
    "rookery.compat.rllib.finder:find": "rookery.compat.rllib.imports:find",
    "rookery.compat.rllib.finder:is_known": "rookery.compat.rllib.imports:is_known",
    "rookery.compat.rllib.finder:known": "rookery.compat.rllib.imports:known",
    "rookery.compat.rllib.finder:script_builtins": "rookery.script.importer:script_builtins",
    "rookery.compat.rllib.finder:show_names_in": "rookery.script.importer:show_names_in",
    "rookery.compat.rllib.observing:rewriting": "rookery.compat.rllib.episodes:rewriting",
    "rookery.compat.rllib.results:learner_stats": "rookery.compat.rllib.learner_stats:learner_stats",
    "rookery.compat.rllib.script:run_script": "rookery.script.runner:run_script",
    "rookery.compat.rllib.script:told": "rookery.script.runner:told",
    "rookery.compat.rllib.tensorflow_names:needs_keras": "rookery.compat.rllib.keras_backend:needs_keras",
    "rookery.compat.rllib.torch_functions:Swish": "rookery.compat.rllib.framework:Swish",
    "rookery.compat.rllib.trainers:ModelCatalog": "rookery.compat.rllib.catalog:ModelCatalog",
    "rookery.compat.rllib.trainers:as_measured": "rookery.compat.rllib.base_trainer:as_measured",
    "rookery.compat.rllib.trainers:differing": "rookery.compat.rllib.base_trainer:differing",
    "rookery.compat.rllib.trainers:ended_episode": "rookery.compat.rllib.base_trainer:ended_episode",
    "rookery.compat.rllib.trainers:get_preprocessor": "rookery.compat.rllib.preprocessors:get_preprocessor",
    "rookery.compat.rllib.trainers:learner_extras": "rookery.compat.rllib.base_trainer:learner_extras",
    "rookery.compat.rllib.trainers:spaces_by_policy": "rookery.compat.rllib.base_trainer:spaces_by_policy",
    "rookery.compat.rllib.tuning.experiment:use_machine": "rookery.compat.rllib.machine:use_machine",
    "rookery.compat.rllib.tuning.registry:register_all": "rookery.compat.rllib.registrations:register_all",
    "rookery.compat.rllib.tuning.registry:registered": "rookery.compat.rllib.registrations:registered",
    "rookery.compat.rllib.tuning.registry:registered_env": "rookery.compat.rllib.registrations:registered_env",
    "rookery.compat.rllib:gym": "rookery_rllib:gym",
    "rookery.compat.rllib:install": "rookery_rllib:install",
    "rookery.compat.rllib:ray": "rookery_rllib:ray",
    "rookery.compat.rllib:rllib": "rookery_rllib:rllib",
    "rookery.compat.rllib:tune": "rookery_rllib:tune",
    "rookery.core.native_memory:Cell": "rookery.core.native_memory:NativeCell",
    "rookery.envs.make:code_of": "rookery.envs.schemes:code_of",
    "rookery.envs.make:is_player": "rookery.envs.unity.scheme:is_player",
    "rookery.envs.make:random_actions": "rookery.envs.random_play:random_actions",
    "rookery.envs.make:random_answers": "rookery.envs.random_play:random_answers",
    "rookery.envs.make:random_play": "rookery.envs.random_play:random_play",
    "rookery.envs.make:random_rows": "rookery.envs.random_play:random_rows",
    "rookery.envs.make:time_limit_of": "rookery.envs.adapters.gym_ids:time_limit_of",
    "rookery.envs.vector.burst:BurstPlayer": "rookery.rollout.loops.helper_side:BurstPlayer",
    "rookery.models.memory:Attention": "rookery.models.cells.attention:Attention",
    "rookery.models.memory:AttentionBlock": "rookery.models.cells.attention:AttentionBlock",
    "rookery.models.memory:GRU": "rookery.models.cells.gru:GRU",
    "rookery.models.memory:Gate": "rookery.models.cells.attention:Gate",
    "rookery.models.memory:LSTM": "rookery.models.cells.lstm:LSTM",
    "rookery.models.memory:Memory": "rookery.models.cells.base:Memory",
    "rookery.models.memory:Recurrent": "rookery.models.cells.recurrent:Recurrent",
    "rookery.models.memory:RecurrentLayer": "rookery.models.cells.recurrent:Cell",
    "rookery.models.memory:RelativeAttention": "rookery.models.cells.attention:RelativeAttention",
    "rookery.models.memory:Scan": "rookery.models.cells.scan:Scan",
    "rookery.models.memory:biases": "rookery.models.cells.recurrent:biases",
    "rookery.models.memory:blend": "rookery.models.cells.scan:blend",
    "rookery.models.memory:sinusoids": "rookery.models.cells.attention:sinusoids",
    "rookery.models.memory:spread_memories": "rookery.models.cells.recurrent:spread_memories",
    "rookery.models.recall:Stacked": "rookery.core.batch:Stacked",
    "rookery.models.recall:put_together": "rookery.core.batch:put_together",
    "rookery.models.recall:rows_of": "rookery.core.batch:rows_of",
    "rookery.native.networks:NativeRecurrence": "rookery.native.networks:NativeMemory",
    "rookery.onnx:write_unity": "rookery.onnx.unity:write_unity",
    "rookery.rollout.fragments:EndedEpisodes": "rookery.rollout.worker_state:EndedEpisodes",
    "rookery.rollout.fragments:ManySteps": "rookery.rollout.loops.loop:Loop",
    "rookery.rollout.fragments:episodes_of": "rookery.rollout.worker_state:episodes_of",
}
"""New ``module:Name`` by old ``module:Name``, for classes and functions that left their module or have a new name."""

REMOVED: dict[str, str] = {
    "rookery.algorithms.off_policy.q_sequences:timeline_rows": "use rookery.core.batch.Rollout.timeline_rows",
    "rookery.algorithms.off_policy.q_values:values_of": "use rookery.native.forward.Forward.values",
    "rookery.algorithms.offline.cql:conservative_gradient": "autograd takes the gradient of conservative_loss",
    "rookery.algorithms.offline.td3bc:held_actor_gradient": "autograd takes the gradient of held_actor_loss",
    "rookery.compat.rllib.build_trainers:with_updates": "use Trainer.with_updates",
    "rookery.compat.rllib.finder:is_script_code": "use rookery.script.importer.importer_of",
    "rookery.envs.unity.recognized:MadeBaseEnv": "use rookery.envs.schemes.MadeMany",
    "rookery.native.critics:action_gradient": "use rookery.native.critics.ActionValues",
    "rookery.rollout.fragments:times_before": "use rookery.rollout.worker_state.episodes_of",
    "rookery.run.checks.memory_check:explained_shortage": "use explain_shortage, which is given the error",
    "rookery.run.compute:threads_for": "use Run.threads_of",
    "rookery.run.gradient_steps:end_round": "use Run.end_round",
}
"""What to use instead, by ``module`` or ``module:Name``: a sentence that ends an error message."""


def new_name(name: str) -> str:
    """Returns the present name of a module or of ``module:Name``; any other text as it is."""
    *_, last = _names(name)
    return last


def why_removed(name: str) -> str:
    """Returns what to use instead of a module or ``module:Name`` that was removed; otherwise an empty string."""
    for one in _names(name):
        module, _, inside = one.partition(":")
        for row in (f"{module}:{inside.partition('.')[0]}", *_upwards(module)):
            if row in REMOVED:
                return REMOVED[row]
    return ""


def new_names(tree: Any) -> Any:
    """Returns a tree of mappings, lists and plain values with the present names in place of old ones."""
    if isinstance(tree, str):
        return new_name(tree)
    if isinstance(tree, dict):
        return {key: new_names(value) for key, value in tree.items()}
    return [new_names(value) for value in tree] if isinstance(tree, list) else tree


def attribute(module: str, name: str) -> Any:
    """Returns what a module had under a name in an older version.

    Raises:
        AttributeError: If there was nothing, or it was removed.
    """
    old = f"{module}:{name}"
    new, reason = new_name(old), why_removed(old)
    if reason or new == old:
        raise AttributeError(f"module {module!r} has no attribute {name!r}{reason and f': {reason}'}")
    place, _, now = new.partition(":")
    return getattr(import_module(place), now)


class OldNames:
    """Finds modules by their old names; an entry of `sys.meta_path`.

    A module that exists under the name is found first. It is given the names that have left it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the specification of a module with an old name or old attributes; None for all others.

        Raises:
            ModuleNotFoundError: If the module was removed; says what to use instead.
        """
        if not name.startswith("rookery") or (name not in _have_rows() and new_name(name) == name):
            return None
        present = PathFinder.find_spec(name, path, target)
        if present is not None and present.origin is not None:  # not a folder that is empty but for a cache
            if type(present.loader) is SourceFileLoader:
                present.loader = _PresentModule(name, present.loader.path)
            return present
        if reason := why_removed(name):
            raise ModuleNotFoundError(f"No module named {name!r}: {reason}", name=name)
        moved = find_spec(new_name(name)) if new_name(name) != name else None
        if moved is None:
            return None
        had_modules = any(old.startswith(f"{name}.") for old in MOVED)
        is_package = had_modules or moved.submodule_search_locations is not None
        loader: Any = _OldModule(moved)
        return ModuleSpec(name, loader, origin=moved.origin, is_package=is_package)


class _PresentModule(SourceFileLoader):
    """Loads a module that some names have left."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        own = vars(module).get("__getattr__")

        def found(name: str) -> Any:
            old = f"{module.__name__}:{name}"
            if own is None or why_removed(old) or new_name(old) != old:
                return attribute(module.__name__, name)
            return own(name)

        vars(module)["__getattr__"] = found


class _OldModule:
    """Loads a module under its old name.

    This is the present module itself. For a package it is a module of its own, which takes every attribute from the
    present one: Python would look for modules below a package under the package's present name.
    """

    def __init__(self, moved: ModuleSpec) -> None:
        self.moved = moved

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python to make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module that Python has made, or puts the present one in its place."""
        if hasattr(module, "__path__"):
            vars(module)["__getattr__"] = partial(attribute, module.__name__)
        else:
            sys.modules[module.__name__] = import_module(self.moved.name)

    def get_code(self, name: str) -> CodeType | None:
        """Returns the code that ``python -m`` runs."""
        loader: Any = self.moved.loader
        code: CodeType | None = loader.get_code(self.moved.name)
        return code


def _names(name: str) -> Iterator[str]:
    """Yields a name and those that it had later, the present one last."""
    yield name
    for _ in range(len(MOVED) + len(MOVED_NAMES)):
        following = _next_name(name)
        if following == name:
            return
        name = following
        yield name


def _next_name(name: str) -> str:
    module, colon, inside = name.partition(":")
    first, dot, rest = inside.partition(".")
    if (row := f"{module}:{first}") in MOVED_NAMES:
        return f"{MOVED_NAMES[row]}{dot}{rest}"
    for above in _upwards(module):
        if above in MOVED and not (above != module and MOVED[above].startswith(f"{above}.")):
            return f"{MOVED[above]}{module.removeprefix(above)}{colon}{inside}"
    return name


def _upwards(module: str) -> Iterator[str]:
    """Yields the name of a module and of the packages above it."""
    while module:
        yield module
        module = module.rpartition(".")[0]


@cache
def _have_rows() -> frozenset[str]:
    """Returns the modules that have a row, or whose classes and functions have one."""
    return frozenset(row.partition(":")[0] for table in (MOVED, MOVED_NAMES, REMOVED) for row in table)
