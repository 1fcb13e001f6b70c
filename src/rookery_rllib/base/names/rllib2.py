"""Names of RLlib 2.x: ``ray.rllib.algorithms``, ``.core``, ``.callbacks``, ``ray.air``, ``ray.train``.

`NAMES_OF_2_X` has names that exist in 2021 too, and mean something else to a script of RLlib 2.x.
"""

from rookery_rllib.base.names import gone_in, names_in
from rookery_rllib.base.names.examples import NAMES as EXAMPLES

NAMES = names_in("""
ray.rllib.algorithms.ppo.ppo  rllib2.algorithm_classes: PPO PPOConfig
ray.rllib.algorithms.ppo  .ppo: *
ray.rllib.algorithms.appo.appo  rllib2.algorithm_classes: APPO APPOConfig
ray.rllib.algorithms.appo  .appo: *
ray.rllib.algorithms.impala.impala
    rllib2.algorithm_classes: IMPALA IMPALAConfig Impala=IMPALA ImpalaConfig=IMPALAConfig
ray.rllib.algorithms.impala  .impala: *
ray.rllib.algorithms.dqn.dqn  rllib2.algorithm_classes: DQN DQNConfig
ray.rllib.algorithms.dqn  .dqn: *
ray.rllib.algorithms.sac.sac  rllib2.algorithm_classes: SAC SACConfig
ray.rllib.algorithms.sac  .sac: *
ray.rllib.algorithms.marwil.marwil  rllib2.algorithm_classes: MARWIL MARWILConfig
ray.rllib.algorithms.marwil  .marwil: *
ray.rllib.algorithms.bc.bc  rllib2.algorithm_classes: BC BCConfig
ray.rllib.algorithms.bc  .bc: *
ray.rllib.algorithms.cql.cql  rllib2.algorithm_classes: CQL CQLConfig
ray.rllib.algorithms.cql  .cql: *
ray.rllib.algorithms.ppo.ppo_torch_policy ray.rllib.algorithms.ppo.ppo_tf_policy ray.rllib.algorithms.ppo
    policy.templates: PPOTorchPolicy
ray.rllib.algorithms.ppo.ppo_tf_policy  policy.templates: PPOTF1Policy=PPOTFPolicy PPOTF2Policy=PPOTFPolicy
ray.rllib.algorithms.dqn.dqn_torch_policy ray.rllib.algorithms.dqn  policy.templates: DQNTorchPolicy
ray.rllib.algorithms.sac.sac_torch_policy ray.rllib.algorithms.sac  policy.templates: SACTorchPolicy
ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module ray.rllib.algorithms.ppo.torch.ppo_torch_rl_module
    rllib2.modules.rl_modules: DefaultPPOTorchRLModule=DefaultModule PPOTorchRLModule=DefaultModule
ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module
    rllib2.modules.rl_modules: DefaultDQNTorchRLModule=DefaultModule
ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module
    rllib2.modules.rl_modules: DefaultSACTorchRLModule=DefaultModule
ray.rllib.examples.rl_modules.classes.action_masking_rlm
    rllib2.modules.rl_modules: ActionMaskingTorchRLModule=DefaultModule
ray.rllib.env.single_agent_env_runner  rllib2.env_runners: SingleAgentEnvRunner=EnvRunner
ray.rllib.env.multi_agent_env_runner  rllib2.env_runners: MultiAgentEnvRunner=EnvRunner
ray.rllib.env.env_runner  rllib2.env_runners: EnvRunner
ray.rllib.env.env_runner_group  rllib2.env_runners: EnvRunnerGroup
ray.rllib.env.single_agent_episode  rllib2.episode_views: SingleAgentEpisode=EpisodeView
ray.rllib.env.multi_agent_episode  rllib2.episode_views: MultiAgentEpisode=EpisodeView
ray.rllib.evaluation  policy.episodes: Episode=MultiAgentEpisode episode.Episode=MultiAgentEpisode
    episode_v2.EpisodeV2=MultiAgentEpisode
ray.rllib.algorithms.algorithm_config  rllib2.config: AlgorithmConfig NotProvided
ray.rllib.algorithms.algorithm  rllib2.algorithm: Algorithm
ray.rllib.algorithms.registry  rllib2.algorithm_classes: get_algorithm_class ALGORITHMS
ray.rllib.algorithms.callbacks ray.rllib.callbacks.callbacks  rllib2.rllib_callbacks:
    DefaultCallbacks=RLlibCallback RLlibCallback make_multi_callbacks
ray.rllib.callbacks  .callbacks: *
ray.rllib.utils.metrics.metrics_logger  rllib2.metrics_logger: MetricsLogger
ray.rllib.algorithms  .algorithm: *  .algorithm_config: *  .ppo: *  .appo: *  .impala: *  .dqn: *  .sac: *
    .marwil: *  .bc: *  .cql: *

ray.rllib.core.columns  rllib2.modules.rl_modules: Columns
ray.rllib.core.rl_module.rl_module  rllib2.modules.rl_modules: RLModule RLModuleSpec RLModuleConfig
    SingleAgentRLModuleSpec=RLModuleSpec
ray.rllib.core.rl_module.multi_rl_module  rllib2.modules.rl_modules: MultiRLModuleSpec
ray.rllib.core.rl_module.marl_module  rllib2.modules.rl_modules: MultiAgentRLModuleSpec=MultiRLModuleSpec
ray.rllib.core.rl_module.default_model_config  rllib2.modules.rl_modules: DefaultModelConfig
ray.rllib.core.rl_module.apis  rllib2.modules.rl_modules:
    ValueFunctionAPI value_function_api.ValueFunctionAPI InferenceOnlyAPI inference_only_api.InferenceOnlyAPI
    TargetNetworkAPI target_network_api.TargetNetworkAPI SelfSupervisedLossAPI
    self_supervised_loss_api.SelfSupervisedLossAPI
ray.rllib.core.rl_module.torch.torch_rl_module  rllib2.modules.rl_modules: TorchRLModule
ray.rllib.core.rl_module.torch  .torch_rl_module: *
ray.rllib.core.rl_module  .rl_module: *  .multi_rl_module: *  .default_model_config: *
ray.rllib.core.distribution.torch.torch_distribution ray.rllib.models.torch.torch_distributions
    rllib2.modules.logit_distributions: TorchDistribution=OfLogits TorchCategorical=CategoricalOfLogits
    TorchDiagGaussian=GaussianOfLogits TorchSquashedGaussian=SquashedOfLogits TorchDeterministic=ExactActions
    TorchMultiCategorical=SeveralOfLogits
ray.rllib.core.distribution.distribution  rllib2.modules.logit_distributions: Distribution=OfLogits
ray.rllib.examples.rl_modules.classes.random_rlm  rllib2.modules.rl_modules: RandomRLModule=RandomModule
ray.rllib.examples.rl_modules.classes  .random_rlm: *

ray.rllib.connectors.connector_v2  rllib2.connectors: ConnectorV2
ray.rllib.connectors.env_to_module  rllib2.connectors:
    FlattenObservations=FlatObservations flatten_observations.FlattenObservations=FlatObservations
    MeanStdFilter=NormalizedObservations mean_std_filter.MeanStdFilter=NormalizedObservations
    FrameStackingEnvToModule=StackedFrames frame_stacking.FrameStackingEnvToModule=StackedFrames
    PrevActionsPrevRewards=PreviousSteps prev_actions_prev_rewards.PrevActionsPrevRewards=PreviousSteps
ray.rllib.connectors.env_to_module.frame_stacking ray.rllib.connectors.common.frame_stacking
    rllib2.connectors: FrameStacking=StackedFrames
ray.rllib.connectors.learner  rllib2.connectors: FrameStackingLearner=BuiltIn
    frame_stacking.FrameStackingLearner=BuiltIn AddObservationsFromEpisodesToBatch=BuiltIn
    AddColumnsFromEpisodesToTrainBatch=BuiltIn NumpyToTensor=BuiltIn AddStatesFromEpisodesToBatch=BuiltIn
    BatchIndividualItems=BuiltIn GeneralAdvantageEstimation=BuiltIn
ray.rllib.connectors.module_to_env  rllib2.connectors: NormalizeAndClipActions=BuiltIn GetActions=BuiltIn

ray.rllib.core  rllib2.modules.rl_modules: Columns  rllib2.result_names: DEFAULT_AGENT_ID DEFAULT_MODULE_ID
    DEFAULT_POLICY_ID ALL_MODULES COMPONENT_ENV_RUNNER COMPONENT_ENV_TO_MODULE_CONNECTOR COMPONENT_EVAL_ENV_RUNNER
    COMPONENT_LEARNER
    COMPONENT_LEARNER_GROUP COMPONENT_METRICS_LOGGER COMPONENT_MODULE_TO_ENV_CONNECTOR COMPONENT_OPTIMIZER
    COMPONENT_RL_MODULE
ray.rllib.utils.metrics  rllib2.result_names: *
ray.rllib.examples.utils ray.rllib.utils.test_utils  rllib2.example_scripts:
    add_rllib_example_script_args run_rllib_example_script_experiment should_stop
ray.rllib.examples.envs.classes.multi_agent  rllib2.envs_of_2_x:
    MultiAgentCartPole MultiAgentPendulum MultiAgentMountainCar
ray.air ray.air.config ray.train  tune.tuner: RunConfig CheckpointConfig FailureConfig
ray.air ray.train ray.tune  tune.trial: Checkpoint  trainer.trial.resources: SyncConfig
ray.air.session ray.train  trainer.trial.session:
    report get_checkpoint get_trial_id get_trial_name get_trial_dir get_trial_resources
ray.air  tune.tuner: Result ResultGrid
ray.train  tune.tuner: Result
ray.tune  trainer.trial.session: get_checkpoint  tune.tuner: TuneConfig Result
ray.tune.search  tune.search: basic_variant.BasicVariantGenerator repeater.Repeater search.SearchAlgorithm
    searcher.Searcher concurrency_limiter.ConcurrencyLimiter create_searcher optuna.OptunaSearch
    tune.space: variant_generator.grid_search sample.Domain
    .basic_variant: *  .repeater: *  .search: *  .searcher: *  .concurrency_limiter: *
ray.tune.execution.placement_groups  trainer.trial.resources: PlacementGroupFactory
ray.tune.experiment  tune.trial: trial.Trial  .trial: *
""")

CLASSES = "ray.rllib.examples.envs.classes"

_SINGLE = (
    "correlated_actions_env", "debug_counter_env", "fast_image_env", "look_and_push", "mock_env",
    "nested_space_repeat_after_me_env", "parametric_actions_cartpole", "random_env", "repeat_after_me_env",
    "repeat_initial_obs_env", "simple_corridor", "simple_rpg", "stateless_cartpole", "windy_maze_env",
)  # fmt: skip
_SEVERAL = ("rock_paper_scissors", "two_step_game")

NAMES[f"{CLASSES}.multi_agent"]["MultiAgentStatelessCartPole"] = EXAMPLES["ray.rllib.examples.env.multi_agent"][
    "MultiAgentStatelessCartPole"
]

for _below, _modules in ((CLASSES, _SINGLE), (f"{CLASSES}.multi_agent", _SEVERAL)):
    for _module in _modules:
        NAMES[f"{_below}.{_module}"] = EXAMPLES[f"ray.rllib.examples.env.{_module}"]

_OWN = "use PPO, APPO, IMPALA, DQN or SAC, or a trainer of 2021 in a script of its own (ray.rllib.agents)"
_OFFLINE = "there is no such algorithm here; use rookery replay import FOLDER -o DATA, then rookery train"

GONE = gone_in(f"""
ray.rllib.algorithms
    iql: {_OFFLINE} --algo iql --replay DATA
    dreamerv3: Dreamer is not implemented
    tqc: TQC is not implemented; use SAC
    a2c a3c pg td3 ddpg qmix r2d2 apex_dqn apex_ddpg simple_q ddppo maddpg es ars: {_OWN}
""")

NAMES_OF_2_X = names_in("""
ray.rllib.env.multi_agent_env  rllib2.envs_of_2_x: MultiAgentEnv make_multi_agent
ray.rllib.env.wrappers.pettingzoo_env ray.rllib.env.pettingzoo_env  rllib2.envs_of_2_x:
    PettingZooEnv ParallelPettingZooEnv
ray.rllib.env ray.rllib  rllib2.envs_of_2_x: MultiAgentEnv
ray.rllib.env  rllib2.envs_of_2_x: PettingZooEnv ParallelPettingZooEnv
ray.rllib.examples.env.multi_agent  rllib2.envs_of_2_x:
    MultiAgentCartPole MultiAgentPendulum MultiAgentMountainCar make_multi_agent
""")
