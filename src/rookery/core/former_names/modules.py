"""Modules that were moved, by the package that contained them."""

from __future__ import annotations

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
        "rookery.cli": "judge=offline_evaluation plugged=verbs plugin_verbs=verbs",
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
        "rookery_rllib.config": (
            "config=translation config_table=table default_networks defaults own_exploration=exploration_keys"
        ),
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
            "base_trainer build_trainers=trainers checks cluster_workers evaluation_workers "
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
"""Old package, new package, the modules that moved; ``old=new`` if the module's name changed too."""

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
