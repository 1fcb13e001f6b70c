"""The order of keys in the configurations of Ray 1.4, which the dicts here keep."""

from __future__ import annotations

ORDER = {
    "": """
        num_workers num_envs_per_worker create_env_on_driver rollout_fragment_length batch_mode train_batch_size
        model._use_default_native_models model.fcnet_hiddens model.fcnet_activation model.conv_filters
        model.conv_activation model.post_fcnet_hiddens model.post_fcnet_activation model.free_log_std
        model.no_final_linear model.vf_share_layers model.use_lstm model.max_seq_len model.lstm_cell_size
        model.lstm_use_prev_action model.lstm_use_prev_reward model._time_major model.use_attention
        model.attention_num_transformer_units model.attention_dim model.attention_num_heads
        model.attention_head_dim model.attention_memory_inference model.attention_memory_training
        model.attention_position_wise_mlp_dim model.attention_init_gru_gate_bias
        model.attention_use_n_prev_actions model.attention_use_n_prev_rewards model.num_framestacks model.dim
        model.grayscale model.zero_mean model.custom_model model.custom_model_config model.custom_action_dist
        model.custom_preprocessor model.lstm_use_prev_action_reward model.framestack optimizer gamma horizon
        soft_horizon no_done_at_end env env_config env_task_fn render_env record_env normalize_actions
        clip_rewards clip_actions preprocessor_pref lr log_level callbacks ignore_worker_failures log_sys_usage
        fake_sampler framework eager_tracing explore exploration_config.type evaluation_interval
        evaluation_num_episodes evaluation_parallel_to_training in_evaluation evaluation_config
        evaluation_num_workers custom_eval_function sample_async sample_collector observation_filter
        synchronize_filters tf_session_args local_tf_session_args compress_observations collect_metrics_timeout
        metrics_smoothing_episodes remote_worker_envs remote_env_batch_wait_ms min_iter_time_s
        timesteps_per_iteration seed extra_python_environs_for_driver extra_python_environs_for_worker num_gpus
        _fake_gpus num_cpus_per_worker num_gpus_per_worker custom_resources_per_worker num_cpus_for_driver
        placement_strategy input input_evaluation postprocess_inputs shuffle_buffer_size output
        output_compress_columns output_max_file_size multiagent.policies multiagent.policy_mapping_fn
        multiagent.policies_to_train multiagent.observation_fn multiagent.replay_mode multiagent.count_steps_by
        logger_config simple_optimizer monitor
    """,
    "PPO": """
        use_critic use_gae lambda kl_coeff sgd_minibatch_size shuffle_sequences num_sgd_iter lr_schedule
        vf_loss_coeff entropy_coeff entropy_coeff_schedule clip_param vf_clip_param grad_clip kl_target
        _clip_vf_loss vf_share_layers
    """,
    "DDPPO": "keep_local_weights_in_sync torch_distributed_backend truncate_episodes",
    "A2C": "microbatch_size",
    "A3C": "use_critic use_gae lambda grad_clip lr_schedule vf_loss_coeff entropy_coeff",
    "IMPALA": """
        vtrace vtrace_clip_rho_threshold vtrace_clip_pg_rho_threshold vtrace_drop_last_ts
        num_multi_gpu_tower_stacks num_data_loader_buffers minibatch_buffer_size num_sgd_iter replay_proportion
        replay_buffer_num_slots learner_queue_size learner_queue_timeout
        max_sample_requests_in_flight_per_worker broadcast_interval num_aggregation_workers grad_clip opt_type
        lr_schedule decay momentum epsilon vf_loss_coeff entropy_coeff entropy_coeff_schedule
        _separate_vf_optimizer _lr_vf after_train_step
    """,
    "APPO": "use_critic use_gae lambda clip_param use_kl_loss kl_coeff kl_target",
    "DQN": """
        num_atoms v_min v_max noisy sigma0 dueling hiddens double_q n_step prioritized_replay
        prioritized_replay_alpha prioritized_replay_beta final_prioritized_replay_beta
        prioritized_replay_beta_annealing_timesteps prioritized_replay_eps before_learn_on_batch
        training_intensity worker_side_prioritization
    """,
    "SimpleQ": """
        target_network_update_freq buffer_size replay_sequence_length lr_schedule adam_epsilon grad_clip
        learning_starts
    """,
    "R2D2": "zero_init_states burn_in use_h_function h_function_epsilon",
    "SAC": """
        twin_q use_state_preprocessor Q_model policy_model tau initial_alpha target_entropy n_step buffer_size
        prioritized_replay prioritized_replay_alpha prioritized_replay_beta final_prioritized_replay_beta
        prioritized_replay_beta_annealing_timesteps prioritized_replay_eps training_intensity optimization
        grad_clip learning_starts target_network_update_freq worker_side_prioritization _deterministic_loss
        _use_beta_distribution
    """,
    "CQL": "bc_iters temperature num_actions lagrangian lagrangian_thresh min_q_weight",
    "MARWIL": "use_gae beta vf_coeff grad_clip replay_buffer_size learning_starts",
    "DDPG": """
        twin_q policy_delay smooth_target_policy target_noise target_noise_clip use_state_preprocessor
        actor_hiddens actor_hidden_activation critic_hiddens critic_hidden_activation n_step buffer_size
        prioritized_replay prioritized_replay_alpha prioritized_replay_beta final_prioritized_replay_beta
        prioritized_replay_beta_annealing_timesteps prioritized_replay_eps training_intensity critic_lr actor_lr
        target_network_update_freq tau use_huber huber_threshold l2_reg grad_clip learning_starts
        worker_side_prioritization
    """,
    "ES": """
        action_noise_std l2_coeff noise_stdev episodes_per_batch eval_prob return_proc_mode stepsize noise_size
        report_length
    """,
    "ARS": """
        action_noise_std noise_stdev num_rollouts rollouts_used sgd_stepsize noise_size eval_prob report_length offset
    """,
    "QMIX": """
        mixer mixing_embed_dim double_q optim_alpha optim_eps target_network_update_freq buffer_size
        grad_norm_clipping learning_starts worker_side_prioritization
    """,
    "MADDPG": """
        agent_id use_local_critic use_state_preprocessor actor_hiddens actor_hidden_activation critic_hiddens
        critic_hidden_activation n_step good_policy adv_policy buffer_size critic_lr actor_lr
        target_network_update_freq tau actor_feature_reg grad_norm_clipping learning_starts
        worker_side_prioritization
    """,
}
"""Keys of all algorithms, with their sections, and the own keys of each; one that is not listed comes after them."""
