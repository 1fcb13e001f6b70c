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

from rookery.core.settings.hints import NAMES

_ROOMS: dict[str, dict[str, str]] = {
    "rookery": {
        "rookery": "judging=ope training=run",
    },
    "rookery.algorithms": {
        "rookery.algorithms.multi_agent": "group_critic maddpg mappo poca qmix vdn",
        "rookery.algorithms.off_policy": (
            "action_noise branches=hybrid_actions critics ddpg dqn q_exploration q_sequences q_values sac td3"
        ),
        "rookery.algorithms.offline": "awac bc cql dt iql offline=data_learner td3bc",
        "rookery.algorithms.on_policy": "a2c actor_critic appo impala ppo pqn reinforce",
    },
    "rookery.cli": {
        "rookery.cli": "judge=offline_evaluation plugged=plugin_verbs",
        "rookery.cli.bench": "bench plan",
        "rookery.cli.games": "elo keyboard match person play",
        "rookery.cli.onnx": "check_onnx export",
        "rookery.cli.replay": "replay replay_import replay_places replay_record replay_report",
        "rookery.cli.terminal": "apart=json_output ending",
        "rookery_mlagents.verbs": "mlagents mlagents_convert mlagents_run",
        "rookery_rllib": "rllib=verbs rllib_train=train_verbs",
    },
    "rookery.compat.mlagents": {
        "rookery_mlagents": "__main__ environment=api keys meanings=key_meanings",
        "rookery_mlagents.api": "running",
        "rookery_mlagents.files": (
            "behaviors console_line foreign_options options=run_options reading reading_behaviors reading_parameters "
            "run_files sections status=training_status tags=tensorboard_tags their_weights=mlagents_checkpoint "
            "timers_file yaml_file"
        ),
        "rookery_mlagents.learn": "demonstrations inference learn schedule_ends translate",
        "rookery_mlagents.old": "convert converting=convert old_files old_flags old_parameters old_release",
    },
    "rookery.compat.mlagents.environment": {
        "rookery_mlagents.api": (
            "base_env channel_messages converting=player_steps exceptions gym_wrapper importing loggers "
            "names=mlagents_names pettingzoo_wrappers registry=player_registry side_channels specs steps "
            "unity_environment"
        ),
    },
    "rookery.compat.rllib": {
        "rookery_rllib": "__main__ tuning=tune",
        "rookery_rllib.base": (
            "annotations chance=per_env_rng deprecation from_config imports joined_ray=ray_client locks machine names "
            "nested nested_dicts not_here=unsupported notices ray_core ray_exceptions registrations running_statistics "
            "schedules type_names"
        ),
        "rookery_rllib.batch": (
            "compression debug_text minibatches numpy_functions offline postprocessing repeated_values sample_batch "
            "sequences torch_functions trajectories view_requirement"
        ),
        "rookery_rllib.config": ("config=translation config_table=table default_networks defaults own_exploration"),
        "rookery_rllib.env": (
            "agent_mapping base_env env_making=making envs episode_ends external_env observing teams unity3d_env"
        ),
        "rookery_rllib.examples": (
            "example_actor_envs=actor_envs example_envs=single_agent_envs example_models=torch_models "
            "example_multi_agent_envs=multi_agent_envs example_policies=scripted_policies"
        ),
        "rookery_rllib.gym": (
            "atari_wrappers gym_box2d=env_classes gym_classic=env_classes gym_grid=env_classes gym_logger=logger "
            "gym_mujoco=env_classes gym_names=core gym_registry=registry gym_seeding=seeding gym_spaces=spaces "
            "gym_wrappers=wrappers old_api old_envs old_ids rendering spaces=rllib_spaces"
        ),
        "rookery_rllib.keras": "framework keras_backend=backend keras_layers=layers tensorflow_names",
        "rookery_rllib.model": (
            "action_distributions attention_networks catalog filters model_v2 network_layers networks preprocessors "
            "recurrent_networks script_q_models shared_weights viewing_models"
        ),
        "rookery_rllib.policy": (
            "batches callbacks custom_loss episodes explorations exploring=explorations learned_steps=learned_policy "
            "learner_stats loss_policies policies policy_exploration=explorations policy_losses=losses "
            "policy_mixins=mixins policy_optimizers=optimizers policy_templates=templates script_policies torch_policy"
        ),
        "rookery_rllib.script": "command_line finder rollouts script=run_script",
        "rookery_rllib.trainer": (
            "base_trainer build_trainers=trainers checks cluster_workers evaluation_workers fluent "
            "metrics=results policy_server recording results script_workers trainers workers"
        ),
        "rookery_rllib.trainer.trial": "checkpoints trainable",
    },
    "rookery.compat.rllib.names": {
        "rookery_rllib.base.names": (
            "agents environments example_models=examples example_policies=examples examples exploration=functions "
            "foreign functions models offline=environments policy_templates=agents tensorflow tune=ray_and_tune"
        ),
    },
    "rookery.compat.rllib.tuning": {
        "rookery_rllib.trainer.trial": "errors=tune_errors logger=loggers resources results=result_keys session",
        "rookery_rllib.tune": (
            "analysis callback dict_paths=trial driver experiment job registry=trainables reporters "
            "saving=trainables schedulers search space stopper trial tuner"
        ),
    },
    "rookery.core": {
        "rookery.core": "recipe=actor_program",
        "rookery.core.io": "array_files console_output encoding files json_text leftovers packing signing yaml_reader",
        "rookery.core.process": (
            "activity child_process heartbeats internal_errors interrupt processor runtime thread_context torch_modes "
            "tracebacks waits"
        ),
        "rookery.core.settings": (
            "class_names foreign_arguments hints layers other_names=hints path_settings reach repeated_keys secrets "
            "settings=fields starting_folder thresholds trust yaml_words"
        ),
        "rookery.core.spaces": "entity_set space_files spaces=arrays teams=team_spaces",
    },
    "rookery.core.process": {
        "rookery.core.process": "processor=cpu",
    },
    "rookery.envs": {
        "rookery.envs": (
            "absent=placeholder_env c=native clocked=async_copies elsewhere=remote_env_stub only_here=process_bound "
            "twin_choice=variant_choice"
        ),
        "rookery.envs.adapters": (
            "atari batched batched_agents bundled classic dict_env gym_env import_paths lane minatar pettingzoo_env "
            "probe reported snapshot"
        ),
        "rookery_mlagents": "unity=link",
    },
    "rookery.envs.async_copies": {
        "rookery.envs.async_copies": "arrival=step_message",
    },
    "rookery.envs.c": {
        "rookery.envs.native": (
            "beginning compiler elsewhere=subprocess_check env=c_env guard library playing=c_playing scheme soundness "
            "twins"
        ),
    },
    "rookery.envs.clocked": {
        "rookery.envs.async_copies": "arrival env=async_env seats=async_env",
    },
    "rookery.envs.external": {
        "rookery.envs.external": "reception=episode_server",
    },
    "rookery.envs.native": {
        "rookery.envs.native": "beginning=template_files twins=variants",
    },
    "rookery.envs.unity": {
        "rookery_mlagents": "testing",
        "rookery_mlagents.files": "demo_file",
        "rookery_mlagents.link": (
            "any_parameters base_env=base_env_copies channels=player_channel env=unity_env guard=player_guard layouts "
            "link=grpc_server messages pictures=image_messages players program=player_program "
            "protocol=protobuf_classes recognized=base_env_checks scheme side_channels=side_channel_codec "
            "wire=protobuf_wire"
        ),
    },
    "rookery.envs.unity.testing": {
        "rookery_mlagents.testing": (
            "__main__ line=player_line options=player_options player recorder scene script=player_script sensors "
            "session_file"
        ),
    },
    "rookery.judging": {
        "rookery.ope": "behavior coverage critic_error episodes estimators fitted judge judged_policy",
    },
    "rookery.ope": {
        "rookery.ope": "judge=offline_evaluation judged_policy=evaluated_policy",
    },
    "rookery.onnx": {
        "rookery.onnx": "observations=written pictures=trunks seen=obs_value",
        "rookery_mlagents": "unity=onnx_unity unity_rules=onnx_unity_rules",
    },
    "rookery.replay": {
        "rookery.replay": ("disk=memmap_arrays pieces=segment_arrays selecting=episode_filter sieve=filtered_rows"),
    },
    "rookery.replay.formats": {
        "rookery.replay.formats": "staged=spool",
        "rookery_mlagents.files": "unity_demo=demo_replay",
    },
    "rookery.report": {
        "rookery.report": "films=videos judgement=offline_evaluation",
    },
    "rookery.rollout": {
        "rookery.rollout": "ladder=per_env_epsilon units=agent_episodes",
        "rookery.rollout.loops": "bursts=helper_process device_player=device fragments=native stepping=python",
        "rookery.rollout.remote": "hosts ranked_pool remote_pool shares wait_times",
    },
    "rookery.serving": {
        "rookery.serving": "asking=requests reading=observations",
    },
    "rookery.models": {
        "rookery.models": "pictures=image_encoders pieces=sequence_split",
    },
    "rookery.native": {
        "rookery.native": "recipe=program_recorder",
    },
    "rookery.signals": {
        "rookery.signals": "demonstrated=imitation_base",
    },
    "rookery.run": {
        "rookery.core": "clock=timers",
        "rookery.run": "round=run",
    },
    "rookery.run.checkpoint": {
        "rookery.run.checkpoint": "saved_shares=rank_shards",
    },
    "rookery.tasks": {
        "rookery.tasks": "game_drawing=drawing world_drawing=drawing",
        "rookery.tasks.games": (
            "arena board_games carry_together food_collector line_soccer matrix_game players sacrifice"
        ),
    },
    "rookery.training": {
        "rookery.run": (
            "apart=learn_or_collect callbacks clock compute from_data gradient_steps horizon pace prepare presets "
            "results round run settings stopping trainer watch"
        ),
        "rookery.run.checkpoint": (
            "callback_states changes checkpoint client_tokens earlier_settings own_files path_folders replay_sources "
            "replays run_dir saved_shares=rank_shards"
        ),
        "rookery.run.checks": (
            "codes=categorical_images foreign_settings misread_settings named_policies remarks room=memory_check "
            "trust=trusted_code unused"
        ),
        "rookery.run.describe": "call_path facts schema",
        "rookery.run.evaluate": (
            "endless=episode_limit evaluation evaluation_workers observed raw_actions=recording recording"
        ),
        "rookery.run.lessons": "curriculum parameters",
        "rookery.run.opponents": "matches rating_games ratings self_play",
        "rookery.run.plan": "cost_model crowd=background_load exchange_cost measured_costs speed",
        "rookery.run.ranks": "following=serve_rank learners rank_process workers=run_workers",
    },
    "rookery_mlagents.old": {
        "rookery_mlagents.old": "converted_files=convert",
    },
}
"""Old package, new package, the modules that moved; ``old=new`` where the name of the module changed too."""

MOVED: dict[str, str] = dict(
    sorted(
        (f"{old_room}.{row.partition('=')[0]}", f"{new_room}.{row.rpartition('=')[2]}".lstrip("."))
        for old_room, rooms in _ROOMS.items()
        for new_room, rows in rooms.items()
        for row in rows.split()
    )
)
"""New module by old module.

The row of a package is also the row of each module below it that has none, unless the new name lies below the old one.
A package that is gone needs a row where modules below it have one.
"""

MOVED_NAMES: dict[str, str] = {
    "rookery.algorithms.actor_critic:beyond_episodes": "rookery.algorithms.on_policy.actor_critic:across_episodes",
    "rookery.algorithms.actor_critic:following_values": "rookery.algorithms.on_policy.actor_critic:next_values",
    "rookery.algorithms.branches:branches_of": "rookery.algorithms.off_policy.hybrid_actions:branch_values",
    "rookery.algorithms.branches:chosen_of": "rookery.algorithms.off_policy.hybrid_actions:chosen_indices",
    "rookery.algorithms.branches:numbers_of": "rookery.algorithms.off_policy.hybrid_actions:continuous_part",
    "rookery.algorithms.branches:tabled": "rookery.algorithms.off_policy.hybrid_actions:pad_options",
    "rookery.algorithms.multi_agent.maddpg:acting": "rookery.algorithms.multi_agent.maddpg:acting_mask",
    "rookery.algorithms.multi_agent.mappo:acting": "rookery.algorithms.multi_agent.mappo:acting_rows",
    "rookery.algorithms.multi_agent.poca:ids_of": "rookery.algorithms.multi_agent.poca:member_ids",
    "rookery.algorithms.multi_agent.poca:side_by_side": "rookery.algorithms.multi_agent.poca:member_numbers",
    "rookery.algorithms.multi_agent.poca:standardized": "rookery.algorithms.multi_agent.poca:normalize_advantages",
    "rookery.algorithms.off_policy.critics:RememberingTrunk": "rookery.algorithms.off_policy.critics:RecurrentTrunk",
    "rookery.algorithms.off_policy.critics:critic_values": "rookery.native.critics:action_values",
    "rookery.algorithms.off_policy.critics:named": "rookery.algorithms.off_policy.critics:rename_grad_norm",
    "rookery.algorithms.off_policy.critics:target_of": "rookery.algorithms.off_policy.critics:target_copy",
    "rookery.algorithms.off_policy.q_values:only_played": "rookery.algorithms.off_policy.q_values:expand_gradient",
    "rookery.algorithms.off_policy.sac:WithoutGraph": "rookery.native.critics:WithoutGraph",
    "rookery.algorithms.offline.bc:ClonedPolicy": "rookery.algorithms.off_policy.critics:PolicyNetwork",
    "rookery.algorithms.offline.bc:Imitated": "rookery.algorithms.offline.bc:ImitationBatch",
    "rookery.algorithms.offline.data_learner:look_at_data": "rookery.algorithms.offline.data_learner:check_data",
    "rookery.algorithms.offline.data_learner:of_those_made": "rookery.algorithms.offline.data_learner:values_of_stored",
    "rookery.algorithms.offline.data_learner:within_bounds": "rookery.algorithms.offline.data_learner:clip_actions",
    "rookery.algorithms.offline.dt:spread": "rookery.algorithms.offline.dt:scatter_rows",
    "rookery.algorithms.offline.td3bc:HeldActor": "rookery.algorithms.offline.td3bc:TD3BCActor",
    "rookery.algorithms.offline.td3bc:held_actor_loss": "rookery.algorithms.offline.td3bc:td3bc_actor_loss",
    "rookery.algorithms.on_policy.actor_critic:in_time": "rookery.algorithms.on_policy.actor_critic:along_timeline",
    "rookery.algorithms.on_policy.actor_critic:logp_now": "rookery.algorithms.on_policy.actor_critic:current_logp",
    "rookery.algorithms.on_policy.ppo:standardized": "rookery.algorithms.on_policy.ppo:normalize_advantages",
    "rookery.algorithms.ranked:demand_of_all": "rookery.algorithms.ranked:total_demand",
    "rookery.algorithms.ranked:join": "rookery.algorithms.ranked:join_ranks",
    "rookery.cli.evaluate:limit_layer": "rookery.cli.evaluate:step_limit",
    "rookery.cli.evaluate:table": "rookery.cli.evaluate:evaluation_lines",
    "rookery.cli.explain:changed": "rookery.cli.explain:changed_settings",
    "rookery.cli.explain:seen": "rookery.cli.explain:call_lines",
    "rookery.cli.explain:way_there": "rookery.cli.explain:call_path",
    "rookery.cli.explain:written": "rookery.cli.explain:function_lines",
    "rookery.cli.external:token_layers": "rookery.cli.external:token_layer",
    "rookery.cli.games.elo:named": "rookery.cli.games.elo:named_texts",
    "rookery.cli.games.elo:others_of": "rookery.cli.games.elo:other_players",
    "rookery.cli.games.elo:tell": "rookery.cli.games.elo:print_standings",
    "rookery.cli.games.keyboard:keys_of": "rookery.cli.games.keyboard:keys_to_actions",
    "rookery.cli.games.keyboard:shown": "rookery.cli.games.keyboard:short_text",
    "rookery.cli.games.keyboard:source_of": "rookery.cli.games.keyboard:key_source",
    "rookery.cli.games.keyboard:usual_keys": "rookery.cli.games.keyboard:default_keys",
    "rookery.cli.games.person:Asks": "rookery.cli.games.person:PersonInput",
    "rookery.cli.games.person:ByHand": "rookery.cli.games.person:PersonGames",
    "rookery.cli.games.person:asked_at_terminal": "rookery.cli.games.person:terminal_input",
    "rookery.cli.games.person:copy_to_show": "rookery.cli.games.person:env_to_show",
    "rookery.cli.offline_evaluation:judge_saved": "rookery.cli.offline_evaluation:evaluate_saved",
    "rookery.cli.offline_evaluation:named_by_options": "rookery.cli.offline_evaluation:naming_options",
    "rookery.cli.offline_evaluation:show_work": "rookery.cli.offline_evaluation:show_progress",
    "rookery.cli.offline_evaluation:tell": "rookery.cli.offline_evaluation:print_evaluation",
    "rookery.cli.onnx.export:given": "rookery.cli.onnx.export:given_options",
    "rookery.cli.onnx.export:told": "rookery.cli.onnx.export:file_line",
    "rookery.cli.replay.replay_import:part": "rookery.cli.replay.replay_import:fraction",
    "rookery.cli.replay.replay_import:said": "rookery.cli.replay.replay_import:given_options",
    "rookery.cli.replay.replay_record:PromisedKeyboard": "rookery.cli.replay.replay_record:DeferredKeyboard",
    "rookery.cli.replay.replay_record:kept_whatever_comes": "rookery.cli.replay.replay_record:keep_on_interrupt",
    "rookery.cli.replay.replay_report:age": "rookery.cli.replay.replay_report:time_since",
    "rookery.cli.resume:check": "rookery.cli.resume:check_resume",
    "rookery.cli.resume:follower": "rookery.cli.resume:other_rank_trainer",
    "rookery.cli.resume:go_on": "rookery.cli.resume:resumed_trainer",
    "rookery.cli.resume:made": "rookery.cli.resume:gradient_steps_made",
    "rookery.cli.resume:resolved": "rookery.cli.resume:resolved_settings",
    "rookery.cli.resume:stored": "rookery.cli.resume:stored_settings",
    "rookery.cli.resume:trusted": "rookery.cli.resume:trusted_settings",
    "rookery.cli.runs:in_runs": "rookery.cli.runs:in_runs_folder",
    "rookery.cli.runs:trial_in": "rookery.cli.runs:find_trial",
    "rookery.cli.serve:best_of": "rookery.cli.serve:best_checkpoint",
    "rookery.cli.serve:written": "rookery.cli.serve:url_host",
    "rookery.cli.terminal.ending:left_behind": "rookery.cli.terminal.ending:still_running",
    "rookery.cli.terminal.json_output:rows_apart": "rookery.cli.terminal.json_output:json_rows",
    "rookery.cli.train:claim": "rookery.cli.train:make_run_folder",
    "rookery.cli.train:claimed": "rookery.cli.train:run_folder",
    "rookery.cli.train:exit_of_interrupts": "rookery.cli.train:exit_on_interrupt",
    "rookery.cli.train:finish": "rookery.cli.train:train_and_report",
    "rookery.cli.train:follows": "rookery.cli.train:train_other_rank",
    "rookery.cli.train:identify": "rookery.cli.train:name_and_seed",
    "rookery.cli.train:learned": "rookery.cli.train:offline_lines",
    "rookery.cli.train:table": "rookery.cli.train:result_lines",
    "rookery.cli.train:unsaved_in": "rookery.cli.train:unsaved_progress",
    "rookery.cli.tune:Verbs": "rookery.cli.tune:DefaultRunGroup",
    "rookery.cli.tune:kept": "rookery.cli.tune:interrupt_message",
    "rookery.cli.tune:outcome": "rookery.cli.tune:print_outcome",
    "rookery.cluster.address:begins_here": "rookery.cluster.address:starts_here",
    "rookery.cluster.address:will_begin": "rookery.cluster.address:will_start_cluster",
    "rookery.cluster.connection:end_with": "rookery.cluster.connection:end_with_raylet",
    "rookery.cluster.connection:in_a_line": "rookery.cluster.connection:as_line",
    "rookery.cluster.connection:said_of": "rookery.cluster.connection:describe_ray_error",
    "rookery.cluster.connection:settle_in": "rookery.cluster.connection:prepare_process",
    "rookery.cluster.local_ranks:say_why": "rookery.cluster.local_ranks:send_error",
    "rookery.cluster.ranks:ALONE": "rookery.cluster.ranks:SINGLE",
    "rookery.cluster.ranks:Beside": "rookery.cluster.ranks:ThreadGroup",
    "rookery.compat.mlagents.keys:KeyFate": "rookery_mlagents.keys:KeyStatus",
    "rookery.compat.mlagents.keys:kept": "rookery_mlagents.keys:used",
    "rookery.compat.mlagents:install": "rookery_mlagents:install",
    "rookery.compat.mlagents:mlagents_envs": "rookery_mlagents:mlagents_envs",
    "rookery.compat.rllib.agent_mapping:NotedMapping": "rookery_rllib.env.agent_mapping:RecordedMapping",
    "rookery.compat.rllib.catalog:register_all": "rookery.compat.rllib.registrations:register_all",
    "rookery.compat.rllib.catalog:registered": "rookery.compat.rllib.registrations:registered",
    "rookery.compat.rllib.chance:Chance": "rookery_rllib.base.per_env_rng:PerEnvRandomState",
    "rookery.compat.rllib.chance:drawn_by_whose_turn_it_is": "rookery_rllib.base.per_env_rng:patched_random_functions",
    "rookery.compat.rllib.chance:inside": "rookery_rllib.base.per_env_rng:env_and_inner",
    "rookery.compat.rllib.cluster_workers:EpisodesThere": "rookery_rllib.trainer.cluster_workers:RemoteEpisodes",
    "rookery.compat.rllib.cluster_workers:MeasuringThere": "rookery_rllib.trainer.cluster_workers:RemoteEvaluation",
    "rookery.compat.rllib.cluster_workers:PoliciesThere": "rookery_rllib.trainer.cluster_workers:RemotePolicies",
    "rookery.compat.rllib.cluster_workers:PolicyThere": "rookery_rllib.trainer.cluster_workers:RemotePolicy",
    "rookery.compat.rllib.cluster_workers:TrainerThere": "rookery_rllib.trainer.cluster_workers:RemoteTrainerView",
    "rookery.compat.rllib.cluster_workers:WorkerThere": "rookery_rllib.trainer.cluster_workers:RemoteWorkerView",
    "rookery.compat.rllib.cluster_workers:hears_of_episodes": "rookery_rllib.trainer.cluster_workers:has_episode_hooks",
    "rookery.compat.rllib.cluster_workers:why_here": "rookery_rllib.trainer.cluster_workers:why_local",
    "rookery.compat.rllib.config_table:Fate": "rookery_rllib.config.rows:ConfigKeyStatus",
    "rookery.compat.rllib.config_table:by": "rookery_rllib.config.rows:by",
    "rookery.compat.rllib.config_table:ignored": "rookery_rllib.config.rows:ignored",
    "rookery.compat.rllib.config_table:kept": "rookery_rllib.config.rows:used",
    "rookery.compat.rllib.config_table:keys_of": "rookery_rllib.config.key_names:keys_of",
    "rookery.compat.rllib.config_table:on_cluster": "rookery_rllib.config.rows:on_cluster",
    "rookery.compat.rllib.config_table:pins": "rookery_rllib.config.algorithms:pins",
    "rookery.compat.rllib.config_table:refused": "rookery_rllib.config.rows:refused",
    "rookery.compat.rllib.config_table:to": "rookery_rllib.config.rows:to",
    "rookery.compat.rllib.config_table:why_unknown": "rookery_rllib.config.key_names:why_unknown",
    "rookery.compat.rllib.custom_loss:told_of": "rookery_rllib.policy.custom_loss:loss_batch",
    "rookery.compat.rllib.env_making:todays_of": "rookery_rllib.env.making:current_id_of",
    "rookery.compat.rllib.exploring:apart": "rookery_rllib.policy.explorations:copied_explorations",
    "rookery.compat.rllib.finder:NamesModule": "rookery.compat.rllib.imports:NamesModule",
    "rookery.compat.rllib.finder:carry_names_along": "rookery.script.importer:carry_names_along",
    "rookery.compat.rllib.finder:find": "rookery.compat.rllib.imports:find",
    "rookery.compat.rllib.finder:given": "rookery_rllib.base.imports:lookup",
    "rookery.compat.rllib.finder:is_known": "rookery.compat.rllib.imports:is_known",
    "rookery.compat.rllib.finder:known": "rookery.compat.rllib.imports:known",
    "rookery.compat.rllib.finder:script_builtins": "rookery.script.importer:script_builtins",
    "rookery.compat.rllib.finder:show_names_in": "rookery.script.importer:show_names_in",
    "rookery.compat.rllib.joined_ray:optioned": "rookery_rllib.base.ray_client:with_options",
    "rookery.compat.rllib.joined_ray:told": "rookery_rllib.base.ray_client:as_2021_error",
    "rookery.compat.rllib.notices:said": "rookery_rllib.base.notices:printed_lines",
    "rookery.compat.rllib.notices:speak": "rookery_rllib.base.notices:print_own_lines",
    "rookery.compat.rllib.notices:take_as_said": "rookery_rllib.base.notices:mark_warned",
    "rookery.compat.rllib.observing:rewriting": "rookery.compat.rllib.episodes:rewriting",
    "rookery.compat.rllib.old_ids:Todays": "rookery_rllib.gym.old_ids:CurrentId",
    "rookery.compat.rllib.old_ids:todays": "rookery_rllib.gym.old_ids:current_id",
    "rookery.compat.rllib.ray_core:actors_here": "rookery_rllib.base.ray_core:local_actor_names",
    "rookery.compat.rllib.ray_core:handle_of": "rookery_rllib.base.ray_core:wrap_as_actor",
    "rookery.compat.rllib.ray_core:why_at_home": "rookery_rllib.base.ray_core:why_local_envs",
    "rookery.compat.rllib.results:learner_stats": "rookery.compat.rllib.learner_stats:learner_stats",
    "rookery.compat.rllib.script:run_script": "rookery.script.runner:run_script",
    "rookery.compat.rllib.script:told": "rookery.script.runner:format_error",
    "rookery.compat.rllib.tensorflow_names:needs_keras": "rookery.compat.rllib.keras_backend:needs_keras",
    "rookery.compat.rllib.torch_functions:Swish": "rookery.compat.rllib.framework:Swish",
    "rookery.compat.rllib.trainers:ALGORITHMS": "rookery_rllib.config.algorithms:ALGORITHMS",
    "rookery.compat.rllib.trainers:ModelCatalog": "rookery.compat.rllib.catalog:ModelCatalog",
    "rookery.compat.rllib.trainers:as_measured": "rookery_rllib.trainer.results:as_measured",
    "rookery.compat.rllib.trainers:differing": "rookery.compat.rllib.base_trainer:differing",
    "rookery.compat.rllib.trainers:ended_episode": "rookery_rllib.trainer.results:ended_episode",
    "rookery.compat.rllib.trainers:get_preprocessor": "rookery.compat.rllib.preprocessors:get_preprocessor",
    "rookery.compat.rllib.trainers:learner_extras": "rookery_rllib.trainer.results:learner_extras",
    "rookery.compat.rllib.trainers:spaces_by_policy": "rookery.compat.rllib.base_trainer:spaces_by_policy",
    "rookery.compat.rllib.tuning.dict_paths:unflatten_dict": "rookery_rllib.base.nested_dicts:unflatten_dict",
    "rookery.compat.rllib.tuning.dict_paths:unflattened_lookup": "rookery_rllib.tune.stopper:unflattened_lookup",
    "rookery.compat.rllib.tuning.driver:HereExecutor": "rookery_rllib.tune.driver:LocalExecutor",
    "rookery.compat.rllib.tuning.experiment:use_machine": "rookery.compat.rllib.machine:use_machine",
    "rookery.compat.rllib.tuning.registry:register_all": "rookery.compat.rllib.registrations:register_all",
    "rookery.compat.rllib.tuning.registry:registered": "rookery.compat.rllib.registrations:registered",
    "rookery.compat.rllib.tuning.registry:registered_env": "rookery.compat.rllib.registrations:registered_env",
    "rookery.compat.rllib.tuning.schedulers:Overheard": "rookery_rllib.tune.schedulers:RecordingScheduler",
    "rookery.compat.rllib.tuning.search:SearcherAsAsked": "rookery_rllib.tune.search:SearcherAdapter",
    "rookery.compat.rllib:gym": "rookery_rllib:gym",
    "rookery.compat.rllib:install": "rookery_rllib:install",
    "rookery.compat.rllib:ray": "rookery_rllib:ray",
    "rookery.compat.rllib:rllib": "rookery_rllib:rllib",
    "rookery.compat.rllib:tune": "rookery_rllib:tune",
    "rookery.core.native_memory:Cell": "rookery.core.native_memory:NativeCell",
    "rookery.core.process.child_process:Gone": "rookery.core.process.child_process:ConnectionClosed",
    "rookery.core.process.heartbeats:processor_time": "rookery.core.process.heartbeats:cpu_time",
    "rookery.core.process.interrupt:Stranded": "rookery.core.process.interrupt:ClusterLost",
    "rookery.core.process.runtime:own_torch": "rookery.core.process.torch_modes:own_torch",
    "rookery.core.process.runtime:torch_threads": "rookery.core.process.torch_modes:torch_threads",
    "rookery.core.process.torch_modes:in_users_modes": "rookery.core.process.torch_modes:call_in_user_modes",
    "rookery.core.process.torch_modes:users_differ": "rookery.core.process.torch_modes:user_modes_differ",
    "rookery.core.recipe:Decider": "rookery.core.actor_program:ProgramActor",
    "rookery.core.recipe:Made": "rookery.core.actor_program:CallResult",
    "rookery.core.recipe:NumbersAt": "rookery.core.actor_program:DataAt",
    "rookery.core.recipe:Recipe": "rookery.core.actor_program:ActorProgram",
    "rookery.core.seeding:LastWord": "rookery.core.seeding:FastSeeds",
    "rookery.core.spaces.arrays:picture_axes": "rookery.core.spaces.arrays:image_axes",
    "rookery.envs.absent:AbsentEnv": "rookery.envs.placeholder_env:PlaceholderEnv",
    "rookery.envs.adapters.lane:five_dicts": "rookery.envs.adapters.lane:step_dicts",
    "rookery.envs.adapters.lane:pictures_a_second": "rookery.envs.adapters.lane:render_fps_of",
    "rookery.envs.adapters.lane:said_groups": "rookery.envs.adapters.lane:declared_groups",
    "rookery.envs.adapters.lane:set_for": "rookery.envs.adapters.lane:agents_with_flag",
    "rookery.envs.adapters.lane:ways_to_show": "rookery.envs.adapters.lane:render_modes_of",
    "rookery.envs.async_copies.arrival:Arrival": "rookery.envs.async_copies.step_message:StepMessage",
    "rookery.envs.async_copies.arrival:seats_of": "rookery.envs.async_copies.step_message:slots_of",
    "rookery.envs.async_copies.async_env:ClockedEnv": "rookery.envs.async_copies.async_env:AsyncCopiesEnv",
    "rookery.envs.async_copies.async_env:Seats": "rookery.envs.async_copies.async_env:AgentSlots",
    "rookery.envs.elsewhere:EnvElsewhere": "rookery.envs.remote_env_stub:RemoteEnvStub",
    "rookery.envs.external.listener:Requests": "rookery.envs.external.listener:RequestHandler",
    "rookery.envs.external.listener:most_strangers": "rookery.envs.external.listener:max_unauthenticated",
    "rookery.envs.external.reception:Desk": "rookery.envs.external.episode_server:ServedEnv",
    "rookery.envs.external.reception:DeskLane": "rookery.envs.external.episode_server:ServedLane",
    "rookery.envs.external.reception:Reception": "rookery.envs.external.episode_server:EpisodeServer",
    "rookery.envs.make:asked_again": "rookery.envs.make:without_unstored",
    "rookery.envs.make:code_of": "rookery.envs.schemes:code_of",
    "rookery.envs.make:found_maker": "rookery.envs.make:find_maker",
    "rookery.envs.make:has_single_copies": "rookery.envs.make:has_single_envs",
    "rookery.envs.make:is_player": "rookery.envs.unity.scheme:is_player",
    "rookery.envs.make:random_actions": "rookery.envs.random_play:random_actions",
    "rookery.envs.make:random_answers": "rookery.envs.random_play:random_answers",
    "rookery.envs.make:random_play": "rookery.envs.random_play:random_play",
    "rookery.envs.make:random_rows": "rookery.envs.random_play:random_rows",
    "rookery.envs.make:time_limit_of": "rookery.envs.adapters.gym_ids:time_limit_of",
    "rookery.envs.make:twin_without": "rookery.envs.make:why_no_variant",
    "rookery.envs.native.beginning:write_beginning": "rookery.envs.native.template_files:write_template",
    "rookery.envs.native.c_env:names_c": "rookery.envs.native.c_env:is_c_file",
    "rookery.envs.native.twins:BatchedTwin": "rookery.envs.native.variants:BatchedCVariant",
    "rookery.envs.native.twins:CTwin": "rookery.envs.native.variants:CVariant",
    "rookery.envs.native.twins:GymnasiumTwin": "rookery.envs.native.variants:GymnasiumCVariant",
    "rookery.envs.native.twins:in_c": "rookery.envs.native.variants:native_variant_of",
    "rookery.envs.native.twins:instead_in_c": "rookery.envs.native.variants:prefer_native",
    "rookery.envs.native.twins:plays_alike": "rookery.envs.native.variants:matches_gymnasium",
    "rookery.envs.native.twins:twin_of_id": "rookery.envs.native.variants:variant_of_id",
    "rookery.envs.native.twins:why_not_in_c": "rookery.envs.native.variants:native_unavailable_reason",
    "rookery.envs.only_here:keep_here": "rookery.envs.process_bound:bind_to_process",
    "rookery.envs.only_here:why_only_here": "rookery.envs.process_bound:why_process_bound",
    "rookery.envs.parameters:Noted": "rookery.envs.parameters:NotifyingPlan",
    "rookery.envs.schemes:MadeMany": "rookery.envs.schemes:NotSingleEnv",
    "rookery.envs.twin_choice:twins_of": "rookery.envs.variant_choice:variants_of",
    "rookery.envs.twin_choice:usable_twin": "rookery.envs.variant_choice:usable_variant",
    "rookery.envs.vector.burst:BurstPlayer": "rookery.rollout.loops.helper_side:BurstPlayer",
    "rookery.envs.vector.burst:PlaysShare": "rookery.envs.vector.burst:ShareLoop",
    "rookery.envs.vector.child:told": "rookery.envs.vector.child:error_texts",
    "rookery.models.cells.recurrent:spread_memories": "rookery.models.cells.recurrent:keep_biases",
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
    "rookery.models.pictures:rectified": "rookery.models.image_encoders:leaky_relu",
    "rookery.models.pieces:Pieces": "rookery.models.sequence_split:SplitSequences",
    "rookery.models.recall:Stacked": "rookery.core.batch:Stacked",
    "rookery.models.recall:byte_pictures": "rookery.models.recall:uint8_images",
    "rookery.models.recall:put_together": "rookery.core.batch:put_together",
    "rookery.models.recall:rows_of": "rookery.core.batch:rows_of",
    "rookery.models.squashed:Disturbed": "rookery.models.squashed:NoisyAction",
    "rookery.models.squashed:before_range": "rookery.models.squashed:unbounded_log_std",
    "rookery.models.squashed:in_range": "rookery.models.squashed:bounded_log_std",
    "rookery.models.team_heads:TeamActs": "rookery.models.team_heads:TeamActions",
    "rookery.models.team_heads:acts_of": "rookery.models.team_heads:member_actions",
    "rookery.models.team_heads:own_relaxed": "rookery.models.team_heads:member_columns",
    "rookery.native.critics:WithoutGraph": "rookery.native.critics:ManualTemperatureStep",
    "rookery.native.critics:values_to_go_back_from": "rookery.native.critics:values_and_input_gradient",
    "rookery.native.networks:NativeRecurrence": "rookery.native.networks:NativeMemory",
    "rookery.native.qualify:is_hooked": "rookery.native.qualify:has_hooks",
    "rookery.native.qualify:obstacle_to_drawing": "rookery.native.qualify:drawing_obstacle",
    "rookery.native.recipe:recipe_of": "rookery.native.program_recorder:record_program",
    "rookery.onnx.check:Look": "rookery.onnx.check:FileReport",
    "rookery.onnx.check:look_at": "rookery.onnx.check:inspect_file",
    "rookery.onnx.check:look_into": "rookery.onnx.check:inspect_content",
    "rookery.onnx.heads:Acts": "rookery.onnx.heads:GraphAction",
    "rookery.onnx.heads:acts": "rookery.onnx.heads:add_head",
    "rookery.onnx.memories:Looked": "rookery.onnx.memories:RecallInputs",
    "rookery.onnx.memories:look": "rookery.onnx.memories:recall_inputs",
    "rookery.onnx.memories:remember": "rookery.onnx.memories:updated_recall",
    "rookery.onnx.seen:Seen": "rookery.onnx.obs_value:ObsValue",
    "rookery.onnx.trunks:picture_features": "rookery.onnx.trunks:image_features",
    "rookery.onnx.written:told_of": "rookery.onnx.written:metadata_of",
    "rookery.onnx:write_unity": "rookery.onnx.unity:write_unity",
    "rookery.ope.behavior:even_chances": "rookery.ope.behavior:uniform_probabilities",
    "rookery.ope.coverage:of_choices": "rookery.ope.coverage:discrete_coverage",
    "rookery.ope.coverage:of_numbers": "rookery.ope.coverage:continuous_coverage",
    "rookery.ope.judge:JudgingConfig": "rookery.ope.offline_evaluation:OfflineEvaluationConfig",
    "rookery.ope.judge:quiet": "rookery.ope.offline_evaluation:no_progress",
    "rookery.ope.judged_policy:JudgedPolicy": "rookery.ope.evaluated_policy:EvaluatedPolicy",
    "rookery.replay.demonstrations:followed": "rookery.replay.demonstrations:chain_ends",
    "rookery.replay.demonstrations:part_of_rows": "rookery.replay.demonstrations:rows_per_chunk",
    "rookery.replay.disk:Shelf": "rookery.replay.memmap_arrays:MemmapArrays",
    "rookery.replay.episodes:ChosenEpisodes": "rookery.replay.episodes:FilteredEpisodes",
    "rookery.replay.formats.blocks:Found": "rookery.replay.formats.blocks:FileScan",
    "rookery.replay.formats.columns:unlike": "rookery.replay.formats.columns:differs_from_next",
    "rookery.replay.formats.csv_file:put_aside": "rookery.replay.formats.csv_file:spool",
    "rookery.replay.formats.hdf5_file:put_aside": "rookery.replay.formats.hdf5_file:spool",
    "rookery.replay.formats.staged:Staged": "rookery.replay.formats.spool:SpooledColumns",
    "rookery.replay.formats.staged:StagedColumn": "rookery.replay.formats.spool:SpooledColumn",
    "rookery.replay.pieces:check_numbers_of_rows": "rookery.replay.segment_arrays:check_row_numbers",
    "rookery.replay.selecting:chosen_episodes": "rookery.replay.episode_filter:filter_episodes",
    "rookery.replay.sieve:chosen_rows": "rookery.replay.filtered_rows:filtered_rows",
    "rookery.replay.sieve:copy_chosen": "rookery.replay.filtered_rows:copy_filtered",
    "rookery.replay.sieve:count_chosen": "rookery.replay.filtered_rows:count_filtered",
    "rookery.replay.summary:Stretch": "rookery.replay.summary:EpisodePart",
    "rookery.replay.summary:stretches_in": "rookery.replay.summary:episode_parts",
    "rookery.report.console:StandingReporter": "rookery.report.console:ProgressLineReporter",
    "rookery.report.console:ending": "rookery.report.console:last_lines",
    "rookery.report.console:opening": "rookery.report.console:first_lines",
    "rookery.report.curves:dress": "rookery.report.curves:style_axes",
    "rookery.report.films:Film": "rookery.report.videos:Video",
    "rookery.report.judgement:Judgement": "rookery.report.offline_evaluation:OfflineEvaluation",
    "rookery.report.judgement:draw_judgement": "rookery.report.offline_evaluation:draw_evaluation",
    "rookery.rollout.device_pool:by_rows": "rookery.rollout.device_pool:row_stepping_note",
    "rookery.rollout.device_pool:pool_here": "rookery.rollout.device_pool:make_local_pool",
    "rookery.rollout.device_pool:tensors_in": "rookery.rollout.device_pool:find_tensor_env",
    "rookery.rollout.fragments:EndedEpisodes": "rookery.rollout.worker_state:EndedEpisodes",
    "rookery.rollout.fragments:ManySteps": "rookery.rollout.loops.loop:Loop",
    "rookery.rollout.fragments:episodes_of": "rookery.rollout.worker_state:episodes_of",
    "rookery.rollout.ladder:LadderPolicy": "rookery.rollout.per_env_epsilon:PerEnvEpsilonPolicy",
    "rookery.rollout.loops.device:DevicePlayer": "rookery.rollout.loops.device:DeviceLoop",
    "rookery.rollout.loops.helper_process:BurstsPlayer": "rookery.rollout.loops.helper_process:HelperLoop",
    "rookery.rollout.loops.helper_process:fragment_player": "rookery.rollout.loops.helper_process:fast_loop_of",
    "rookery.rollout.loops.helper_side:BurstPlayer": "rookery.rollout.loops.helper_side:HelperLoopServer",
    "rookery.rollout.loops.native:FragmentPlayer": "rookery.rollout.loops.native:NativeLoop",
    "rookery.rollout.loops.native:steps_ahead": "rookery.rollout.loops.native:steps_available",
    "rookery.rollout.remote.hosts:CallHere": "rookery.rollout.remote.hosts:LocalCall",
    "rookery.rollout.remote.hosts:HostsHere": "rookery.rollout.remote.hosts:LocalHosts",
    "rookery.rollout.tables:evenly": "rookery.rollout.tables:as_slice",
    "rookery.rollout.units:Unit": "rookery.rollout.agent_episodes:AgentEpisode",
    "rookery.rollout.units:ended_units": "rookery.rollout.agent_episodes:finished_agent_episodes",
    "rookery.run.checkpoint.callback_states:tell": "rookery.run.checkpoint.callback_states:notify",
    "rookery.run.checkpoint.changes:explained_misfit": "rookery.run.checkpoint.changes:explain_mismatch",
    "rookery.run.checkpoint.checkpoint:forget_later": "rookery.run.checkpoint.checkpoint:delete_later_checkpoints",
    "rookery.run.checkpoint.checkpoint:remove_lone_shares": "rookery.run.checkpoint.checkpoint:remove_orphan_shards",
    "rookery.run.checkpoint.checkpoint:share_of": "rookery.run.checkpoint.checkpoint:shard_of",
    "rookery.run.checkpoint.rank_shards:load_share": "rookery.run.checkpoint.rank_shards:load_shard",
    "rookery.run.checkpoint.rank_shards:own_share": "rookery.run.checkpoint.rank_shards:own_shard",
    "rookery.run.checkpoint.rank_shards:wait_for_shares": "rookery.run.checkpoint.rank_shards:write_other_shards",
    "rookery.run.checkpoint.rank_shards:write_share": "rookery.run.checkpoint.rank_shards:write_shard",
    "rookery.run.checks.categorical_images:code_layers": "rookery.run.checks.categorical_images:categorical_layers",
    "rookery.run.checks.categorical_images:codes_among": "rookery.run.checks.categorical_images:categorical_among",
    "rookery.run.checks.categorical_images:codes_note": "rookery.run.checks.categorical_images:categorical_note",
    "rookery.run.checks.categorical_images:codes_of": "rookery.run.checks.categorical_images:categorical_paths",
    "rookery.run.checks.categorical_images:undecided": "rookery.run.checks.categorical_images:candidate_images",
    "rookery.run.checks.memory_check:explain_shortage": "rookery.run.checks.memory_check:explain_memory_error",
    "rookery.run.checks.trusted_code:begun_anew": "rookery.run.checks.trusted_code:restarted_run",
    "rookery.run.checks.unused:is_said": "rookery.run.checks.unused:is_given",
    "rookery.run.clock:CheckpointPace": "rookery.run.checkpoint.checkpoint_part:CheckpointPace",
    "rookery.run.evaluate.evaluation:film_speed": "rookery.run.evaluate.evaluation:video_speed",
    "rookery.run.evaluate.recording:told": "rookery.run.evaluate.recording:function_name",
    "rookery.run.learn_or_collect:LearnAlone": "rookery.run.learn_or_collect:LearnOnly",
    "rookery.run.learn_or_collect:PlayAlone": "rookery.run.learn_or_collect:CollectOnly",
    "rookery.run.learn_or_collect:to_learn": "rookery.run.learn_or_collect:learn_task",
    "rookery.run.learn_or_collect:to_play": "rookery.run.learn_or_collect:collect_task",
    "rookery.run.opponents.matches:seated_as": "rookery.run.opponents.matches:adapted_to",
    "rookery.run.plan.background_load:crowd": "rookery.run.plan.background_load:background_load",
    "rookery.run.ranks.run_workers:HearsOfShare": "rookery.run.ranks.run_workers:ShareAware",
    "rookery.run.ranks.run_workers:stand_in_elsewhere": "rookery.run.ranks.run_workers:remote_env_stub",
    "rookery.run.ranks.run_workers:workers_elsewhere": "rookery.run.ranks.run_workers:start_remote_workers",
    "rookery.run.ranks.serve_rank:follow": "rookery.run.ranks.serve_rank:serve_rank",
    "rookery.run.results:made_within": "rookery.run.results:iteration_within",
    "rookery.run.stopping:carried_on": "rookery.run.stopping:resumed_criteria",
    "rookery.run.stopping:given_anew": "rookery.run.stopping:newly_given",
    "rookery.serving.batcher:Forgetting": "rookery.serving.batcher:SessionDeletion",
    "rookery.serving.batcher:NotDecided": "rookery.serving.batcher:InferenceFailed",
    "rookery.serving.batcher:Stopping": "rookery.serving.batcher:ServerStopping",
    "rookery.serving.batcher:TooMuch": "rookery.serving.batcher:LimitExceeded",
    "rookery.serving.batcher:UnfitQuestion": "rookery.serving.batcher:InvalidRequest",
    "rookery.serving.observations:described": "rookery.serving.observations:describe_leaf",
    "rookery.serving.requests:answered": "rookery.serving.requests:answer_fields",
    "rookery.serving.requests:description": "rookery.serving.requests:describe_policy",
    "rookery.serving.requests:known_policy": "rookery.serving.requests:requested_policy",
    "rookery.serving.requests:plain": "rookery.serving.requests:plain_actions",
    "rookery.serving.server:check": "rookery.serving.server:check_options",
    "rookery.serving.server:listening": "rookery.serving.server:listen",
    "rookery.serving.sessions:SessionGone": "rookery.serving.sessions:SessionEvicted",
    "rookery.serving.tokens:kept_in": "rookery.serving.tokens:stored_token",
    "rookery.serving.tokens:shows": "rookery.serving.tokens:has_token",
    "rookery.serving.versions:refuse_other": "rookery.serving.versions:check_compatible",
    "rookery.serving.versions:rows_of": "rookery.serving.versions:num_rows",
    "rookery.serving.versions:try_out": "rookery.serving.versions:warm_up",
    "rookery.signals.curiosity:Guesses": "rookery.signals.curiosity:DynamicsOutput",
    "rookery.signals.demonstrated:Demonstrated": "rookery.signals.imitation_base:ImitationBase",
    "rookery.signals.gail:Comparison": "rookery.signals.gail:DiscriminatorBatch",
    "rookery.signals.gail:Verdict": "rookery.signals.gail:DiscriminatorOutput",
    "rookery.signals.learned:parts_of": "rookery.signals.learned:shuffled_minibatches",
    "rookery.signals.learned:seen_by": "rookery.signals.learned:normalized_spec",
    "rookery.signals.rewards:laid_out": "rookery.signals.rewards:to_rollout_shape",
    "rookery.tasks.scripted:twin_of": "rookery.tasks.scripted:batched_variant_of",
    "rookery.tune.analysis:filled": "rookery.tune.analysis:fill_template",
    "rookery.tune.executors.trial_worker:failed": "rookery.tune.executors.trial_worker:failure_of",
    "rookery.tune.executors.trial_worker:is_full": "rookery.tune.executors.trial_worker:is_disk_full",
    "rookery.tune.executors.trial_worker:prints_to": "rookery.tune.executors.trial_worker:redirect_output",
    "rookery.tune.executors.worker_process:send_prints": (
        "rookery.tune.executors.worker_process:redirect_process_output"
    ),
    "rookery.tune.experiment:falling": "rookery.tune.experiment:minimized_metrics",
    "rookery.tune.experiment:named_parts": "rookery.tune.experiment:parts_as_mappings",
    "rookery.tune.experiment:never": "rookery.tune.experiment:never_stop",
    "rookery.tune.identity:described": "rookery.tune.identity:describe_domains",
    "rookery.tune.identity:named": "rookery.tune.identity:as_in_file",
    "rookery.tune.job:begin_anew": "rookery.tune.job:reset_folder",
    "rookery.tune.jobs.rows:flat": "rookery.tune.jobs.rows:flatten",
    "rookery.tune.jobs.rows:reached": "rookery.tune.jobs.rows:reached_criterion",
    "rookery.tune.jobs.trainable:packed": "rookery.tune.jobs.trainable:pack_files",
    "rookery.tune.jobs.trainable:unpacked": "rookery.tune.jobs.trainable:unpack_files",
    "rookery.tune.jobs.training_job:reaching": "rookery.tune.jobs.training_job:protected_settings",
    "rookery.tune.journal:chosen": "rookery.tune.journal:from_json",
    "rookery.tune.journal:following": "rookery.tune.journal:naming_line",
    "rookery.tune.names:called_here": "rookery.tune.names:hint_for",
    "rookery.tune.schedulers.asha:admits": "rookery.tune.schedulers.asha:passes_rung",
    "rookery.tune.schedulers.pb2:highest": "rookery.tune.schedulers.pb2:maximize",
    "rookery.tune.schedulers.population:to_change": "rookery.tune.schedulers.population:changeable_paths",
    "rookery.tune.search:searched": "rookery.tune.search:searched_domains",
    "rookery.tune.space:takes": "rookery.tune.space:accepts",
    "rookery.tune.space:written": "rookery.tune.space:to_json",
    "rookery.tune.spec:known": "rookery.tune.spec:chosen_values",
    "rookery.tune.spec:outline": "rookery.tune.spec:merged_values",
    "rookery.tune.trust:count": "rookery.tune.trust:max_alternatives",
    "rookery.tune.trust:reached_by_experiment": "rookery.tune.trust:objections_to_experiment",
    "rookery_mlagents.old.old_files:OldKey": "rookery_mlagents.old.old_keys:OldKey",
    "rookery_rllib.policy.batches:Piece": "rookery_rllib.batch.trajectories:Trajectory",
    "rookery_rllib.policy.batches:columns_of": "rookery_rllib.batch.trajectories:columns_of",
    "rookery_rllib.policy.batches:pieces_of": "rookery_rllib.batch.trajectories:pieces_of",
    "rookery_rllib.policy.explorations:Sampling": "rookery_rllib.policy.explorations:StochasticSampling",
    "rookery_rllib.policy.policies:DefaultModel": "rookery_rllib.model.default_model:DefaultModel",
    "rookery_rllib.policy.policies:LearnedPolicy": "rookery_rllib.policy.learned_policy:LearnedPolicy",
    "rookery_rllib.policy.policies:as_arrays": "rookery_rllib.batch.numpy_functions:as_arrays",
    "rookery_rllib.policy.policies:script_network": "rookery_rllib.model.model_v2:script_network",
}
"""New ``module:Name`` by old ``module:Name``, for classes and functions that left their module or have a new name."""

REMOVED: dict[str, str] = {
    "rookery.algorithms.off_policy.q_sequences:timeline_rows": "use rookery.core.batch.Rollout.timeline_rows",
    "rookery.algorithms.off_policy.q_values:values_of": "use rookery.native.forward.Forward.values",
    "rookery.algorithms.offline.cql:conservative_gradient": "autograd takes the gradient of conservative_loss",
    "rookery.algorithms.offline.td3bc:held_actor_gradient": "autograd takes the gradient of td3bc_actor_loss",
    "rookery.compat.rllib.build_trainers:with_updates": "use Trainer.with_updates",
    "rookery.compat.rllib.finder:is_script_code": "use rookery.script.importer.importer_of",
    "rookery.compat.rllib.fluent:names": "use rookery_rllib.trainer.fluent.arguments",
    "rookery.compat.rllib.key_functions": "use rookery_rllib.config.translation.translated, which knows every key",
    "rookery.envs.unity.recognized:MadeBaseEnv": "use rookery.envs.schemes.NotSingleEnv",
    "rookery.native.critics:action_gradient": "use rookery.native.critics.ActionValues",
    "rookery.rollout.fragments:times_before": "use rookery.rollout.worker_state.episodes_of",
    "rookery.run.checks.memory_check:explained_shortage": "use explain_memory_error, which is given the error",
    "rookery.run.compute:threads_for": "use Run.threads_of",
    "rookery.run.gradient_steps:end_round": "use Run.end_round",
    "rookery_mlagents.old.convert:convert": "use rookery_mlagents.old.convert.converted_files, which takes paths",
    "rookery_rllib.policy.learned_policy:gradient_of": "use LearnedPolicy.compute_gradients",
    "rookery_rllib.policy.learned_policy:step_along": "use LearnedPolicy.apply_gradients",
    "rookery_rllib.policy.learned_policy:step_on": "use LearnedPolicy.learn_on_batch",
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
        reason = reason or (NAMES.get(name, "") if module == "rookery" else "")
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
            row = _left(module.__name__).get(name)
            if row is not None:
                return attribute(row.partition(":")[0], name)
            return attribute(module.__name__, name) if own is None else own(name)

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
    """Returns the modules that have a row, and the present ones that classes and functions with a row have left."""
    rows = [row.partition(":") for table in (MOVED, MOVED_NAMES, REMOVED) for row in table]
    return frozenset(module for module, _, _ in rows) | {new_name(module) for module, _, name in rows if name}


@cache
def _left(module: str) -> dict[str, str]:
    """Returns the rows of what has left a present module, by name: those under its own name and under its old ones."""
    rows = {row.partition(":")[2]: row for row in (*MOVED_NAMES, *REMOVED) if new_name(row.partition(":")[0]) == module}
    return {name: row for name, row in rows.items() if name}
