"""Names of ``ray.rllib.examples``: environments, models, callbacks, and policies that act by a rule.

The names of models for TensorFlow stand for the same models on torch.
"""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray.rllib.examples.env
    examples.single_agent_envs: cartpole_mass.CartPoleMassEnv correlated_actions_env.CorrelatedActionsEnv
        curriculum_capable_env.CurriculumCapableEnv debug_counter_env.DebugCounterEnv fast_image_env.FastImageEnv
        gpu_requiring_env.GPURequiringEnv look_and_push.LookAndPush look_and_push.OneHot mock_env.MockEnv
        mock_env.MockEnv2 nested_space_repeat_after_me_env.NestedSpaceRepeatAfterMeEnv
        parametric_actions_cartpole.ParametricActionsCartPole
        parametric_actions_cartpole.ParametricActionsCartPoleNoEmbeddings pendulum_mass.PendulumMassEnv
        random_env.RandomEnv random_env.RandomLargeObsSpaceEnv repeat_after_me_env.RepeatAfterMeEnv
        repeat_initial_obs_env.RepeatInitialObsEnv simple_corridor.SimpleCorridor simple_rpg.SimpleRPG
        simple_rpg.MAX_PLAYERS simple_rpg.MAX_ITEMS simple_rpg.MAX_EFFECTS stateless_cartpole.StatelessCartPole
        transformed_action_space_env.TransformedActionPendulum windy_maze_env.WindyMazeEnv
    examples.multi_agent_envs: coin_game_non_vectorized_env.CoinGame coin_game_non_vectorized_env.AsymCoinGame
        debug_counter_env.MultiAgentDebugCounterEnv random_env.RandomMultiAgentEnv
        rock_paper_scissors.RockPaperScissors two_step_game.TwoStepGame two_step_game.TwoStepGameWithGroupedAgents
        windy_maze_env.HierarchicalWindyMazeEnv
    examples.actor_envs: env_using_remote_actor.CartPoleWithRemoteParamServer env_using_remote_actor.ParameterStorage
ray.rllib.examples.env.matrix_sequential_social_dilemma  examples.multi_agent_envs:
    MatrixSequentialSocialDilemma IteratedMatchingPennies IteratedPrisonersDilemma IteratedAsymPrisonersDilemma
    IteratedStagHunt IteratedChicken IteratedAsymChicken IteratedBoS IteratedAsymBoS IteratedBoSAndPD
    define_greed_fear_matrix_game
ray.rllib.examples.env.multi_agent
    examples.multi_agent_envs: BasicMultiAgent EarlyDoneMultiAgent FlexAgentsMultiAgent RoundRobinMultiAgent
        MultiAgentCartPole MultiAgentMountainCar MultiAgentPendulum MultiAgentStatelessCartPole
    env.envs: make_multi_agent make_multiagent=make_multi_agent

ray.rllib.examples.models.autoregressive_action_dist  examples.torch_models:
    TorchBinaryAutoregressiveDistribution BinaryAutoregressiveDistribution=TorchBinaryAutoregressiveDistribution
ray.rllib.examples.models.autoregressive_action_model  examples.torch_models:
    TorchAutoregressiveActionModel AutoregressiveActionModel=TorchAutoregressiveActionModel
ray.rllib.examples.models.batch_norm_model  examples.torch_models:
    TorchBatchNormModel BatchNormModel=TorchBatchNormModel KerasBatchNormModel=TorchBatchNormModel
ray.rllib.examples.models.centralized_critic_models  examples.torch_models:
    TorchCentralizedCriticModel CentralizedCriticModel=TorchCentralizedCriticModel
    YetAnotherTorchCentralizedCriticModel YetAnotherCentralizedCriticModel=YetAnotherTorchCentralizedCriticModel
ray.rllib.examples.models.custom_loss_model  examples.torch_models:
    TorchCustomLossModel CustomLossModel=TorchCustomLossModel
ray.rllib.examples.models.custom_model_api  examples.torch_models:
    TorchDuelingQModel DuelingQModel=TorchDuelingQModel TorchContActionQModel ContActionQModel=TorchContActionQModel
ray.rllib.examples.models.eager_model  examples.torch_models: EagerModel
ray.rllib.examples.models.fast_model  examples.torch_models: TorchFastModel FastModel=TorchFastModel
ray.rllib.examples.models.modelv3  examples.torch_models: RNNModel=NativeRNNModel
ray.rllib.examples.models.parametric_actions_model  examples.torch_models:
    TorchParametricActionsModel ParametricActionsModel=TorchParametricActionsModel
ray.rllib.examples.models.rnn_model  examples.torch_models: RNNModel TorchRNNModel
ray.rllib.examples.models.shared_weights_model  examples.torch_models:
    TORCH_GLOBAL_SHARED_LAYER TorchSharedWeightsModel TF2SharedWeightsModel=TorchSharedWeightsModel
    SharedWeightsModel1=TorchSharedWeightsModel SharedWeightsModel2=TorchSharedWeightsModel
ray.rllib.examples.models.simple_rpg_model  examples.torch_models:
    CustomTorchRPGModel CustomTFRPGModel=CustomTorchRPGModel
ray.rllib.examples.models.trajectory_view_utilizing_models  examples.torch_models:
    TorchFrameStackingCartPoleModel FrameStackingCartPoleModel=TorchFrameStackingCartPoleModel

ray.rllib.examples.custom_metrics_and_callbacks  examples.example_callbacks: MyCallbacks
ray.rllib.examples.policy  policy.random_policy: random_policy.RandomPolicy
    examples.scripted_policies:
    rock_paper_scissors_dummies.AlwaysSameHeuristic rock_paper_scissors_dummies.BeatLastHeuristic
    episode_env_aware_policy.EpisodeEnvAwareLSTMPolicy episode_env_aware_policy.EpisodeEnvAwareAttentionPolicy
""")

GONE = gone_in("""
ray.rllib.examples
    serving attention_net attention_net_supervised autoregressive_action_dist batch_norm_model cartpole_lstm
        centralized_critic centralized_critic_2 checkpoint_by_custom_criteria coin_game_env complex_struct_space
        curriculum_learning custom_env custom_eval custom_experiment custom_fast_model custom_keras_model
        custom_logger custom_loss custom_metrics_and_callbacks_legacy
        custom_model_api custom_observation_filters custom_rnn_model custom_tf_policy custom_torch_policy
        custom_train_fn deterministic_training dmlab_watermaze eager_execution env_rendering_and_recording
        hierarchical_training iterated_prisoners_dilemma_env lstm_auto_wrapping mobilenet_v2_with_lstm
        multi_agent_cartpole multi_agent_custom_policy multi_agent_independent_learning
        multi_agent_parameter_sharing multi_agent_two_trainers nested_action_spaces offline_rl
        parallel_evaluation_and_training parametric_actions_cartpole partial_gpus pettingzoo_env
        random_parametric_agent recsim_with_slateq restore_1_of_n_agents_from_checkpoint
        rock_paper_scissors_multiagent rollout_worker_custom_workflow saving_experiences sb2rllib_rllib_example
        sb2rllib_sb_example serve_and_rllib sumo_env_local trajectory_view_api two_step_game
        two_trainer_workflow unity3d_env_local vizdoom_with_attention_net: an example script; put a copy into
        the folder of your script, and import it by its own name
ray.rllib.examples.env
    ant_rand_goal halfcheetah_rand_direc: MuJoCo tasks for MAML, which is not implemented; for the
        robots themselves use gymnasium.envs.mujoco
    mbmpo_env: environments for MB-MPO, which is not implemented
    coin_game_vectorized_env: the coin game compiled by numba; use coin_game_non_vectorized_env
    d4rl_env: environments of D4RL datasets; `rookery replay import` reads .hdf5 files and Minari datasets
    dm_control_suite: dm_control environments; install shimmy and use gymnasium.make('dm_control/...')
    env_with_subprocess: a test of how RLlib cleans up worker processes; not a task to learn
    utils: statistics of the matrix games; the games here report them in the last infos of an episode
    tests: RLlib's own tests
ray.rllib.examples.models
    mobilenet_v2_with_lstm_models: a MobileNet with downloaded weights and an LSTM; write a TorchModelV2 around
        your network, like TorchRNNModel of ray.rllib.examples.models.rnn_model
    neural_computer: a model that uses the package dnc; write a RecurrentNetwork around it, like TorchRNNModel of
        ray.rllib.examples.models.rnn_model
    rnn_spy_model: a TensorFlow model that records its inputs for a test; derive from TorchRNNModel of
        ray.rllib.examples.models.rnn_model and override forward_rnn
""")
