"""Names of trainers, policies, callbacks, workers and episodes: ``ray.rllib.agents``, ``.policy``, ``.evaluation``."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray.rllib  policy.policies: Policy  policy.torch_policy: TorchPolicy  base.unsupported: TFPolicy
    trainer.script_workers: RolloutWorker

ray.rllib.agents.callbacks  policy.callbacks: DefaultCallbacks MemoryTrackingCallbacks MultiCallbacks
ray.rllib.agents.trainer  trainer.trainers: Trainer with_base_config  config.defaults: COMMON_CONFIG with_common_config
ray.rllib.agents.trainer_template  trainer.trainers: build_trainer
ray.rllib.agents.registry  trainer.trainers: get_trainer_class get_agent_class=get_trainer_class ALGORITHMS=TRAINERS
ray.rllib.agents  .callbacks: *  .trainer: *

ray.rllib.agents.a3c.a2c  trainer.trainers: A2CTrainer  config.defaults: DEFAULT_CONFIG=A2C_DEFAULT_CONFIG
ray.rllib.agents.a3c.a3c  trainer.trainers: A3CTrainer  config.defaults: DEFAULT_CONFIG=A3C_DEFAULT_CONFIG
ray.rllib.agents.a3c.a3c_torch_policy ray.rllib.agents.a3c.a3c_tf_policy
    policy.losses: actor_critic_loss loss_and_entropy_stats add_advantages postprocess_advantages=add_advantages
        model_value_predictions=vf_preds_fetches setup_mixins=setup_value_mixin torch_optimizer
    policy.mixins: ValueNetworkMixin
ray.rllib.agents.a3c  .a2c: A2CTrainer  .a3c: *
    policy.templates: A3CTorchPolicy A3CTFPolicy a3c_torch_policy.A3CTorchPolicy a3c_tf_policy.A3CTFPolicy

ray.rllib.agents.ddpg.ddpg  trainer.trainers: DDPGTrainer  config.defaults: DEFAULT_CONFIG=DDPG_DEFAULT_CONFIG
ray.rllib.agents.ddpg.td3  trainer.trainers: TD3Trainer  config.defaults: DEFAULT_CONFIG=TD3_DEFAULT_CONFIG
ray.rllib.agents.ddpg.apex  trainer.trainers: ApexDDPGTrainer  config.defaults: APEX_DDPG_DEFAULT_CONFIG
ray.rllib.agents.ddpg  policy.templates: ddpg_torch_policy.DDPGTorchPolicy ddpg_tf_policy.DDPGTFPolicy
    .ddpg: *  .td3: TD3Trainer  .apex: *  .ddpg_torch_policy: *  .ddpg_tf_policy: *

ray.rllib.agents.dqn.dqn  trainer.trainers: DQNTrainer GenericOffPolicyTrainer
    config.defaults: DEFAULT_CONFIG=DQN_DEFAULT_CONFIG
ray.rllib.agents.dqn.simple_q  trainer.trainers: SimpleQTrainer  config.defaults: DEFAULT_CONFIG=SIMPLEQ_DEFAULT_CONFIG
ray.rllib.agents.dqn.r2d2  trainer.trainers: R2D2Trainer  config.defaults: DEFAULT_CONFIG=R2D2_DEFAULT_CONFIG
ray.rllib.agents.dqn.apex  trainer.trainers: ApexTrainer  config.defaults: APEX_DEFAULT_CONFIG
ray.rllib.agents.dqn.dqn_torch_policy ray.rllib.agents.dqn.dqn_tf_policy
    policy.q_losses: build_q_losses compute_q_values QLoss PRIO_WEIGHTS
ray.rllib.agents.dqn.simple_q_torch_policy ray.rllib.agents.dqn.simple_q_tf_policy  policy.q_losses: build_q_losses
    policy.mixins: TargetNetworkMixin
ray.rllib.agents.dqn  .dqn: DQNTrainer DEFAULT_CONFIG  .simple_q: SimpleQTrainer  .r2d2: R2D2Trainer  .apex: *
    config.defaults: SIMPLE_Q_DEFAULT_CONFIG=SIMPLEQ_DEFAULT_CONFIG R2D2_DEFAULT_CONFIG
    policy.templates: DQNTorchPolicy DQNTFPolicy dqn_torch_policy.DQNTorchPolicy dqn_tf_policy.DQNTFPolicy
        SimpleQTorchPolicy simple_q_torch_policy.SimpleQTorchPolicy
        SimpleQTFPolicy simple_q_tf_policy.SimpleQTFPolicy
        r2d2_torch_policy.R2D2TorchPolicy r2d2_tf_policy.R2D2TFPolicy
    .r2d2_torch_policy: *  .r2d2_tf_policy: *

ray.rllib.agents.es.es  trainer.trainers: ESTrainer  config.defaults: DEFAULT_CONFIG=ES_DEFAULT_CONFIG
ray.rllib.agents.es  .es: *
ray.rllib.agents.ars.ars  trainer.trainers: ARSTrainer  config.defaults: DEFAULT_CONFIG=ARS_DEFAULT_CONFIG
ray.rllib.agents.ars  .ars: *

ray.rllib.agents.impala.impala  trainer.trainers: ImpalaTrainer  config.defaults: DEFAULT_CONFIG=IMPALA_DEFAULT_CONFIG
ray.rllib.agents.impala  .impala: *

ray.rllib.agents.marwil.marwil  trainer.trainers: MARWILTrainer
    config.defaults: DEFAULT_CONFIG=MARWIL_DEFAULT_CONFIG
ray.rllib.agents.marwil.bc  trainer.trainers: BCTrainer  config.defaults: BC_DEFAULT_CONFIG
ray.rllib.agents.marwil  .marwil: *  .bc: *
ray.rllib.agents.cql.cql  trainer.trainers: CQLTrainer  config.defaults: CQL_DEFAULT_CONFIG
ray.rllib.agents.cql  .cql: *

ray.rllib.agents.pg.pg  trainer.trainers: PGTrainer  config.defaults: DEFAULT_CONFIG=PG_DEFAULT_CONFIG
ray.rllib.agents.pg.pg_torch_policy  policy.templates: PGTorchPolicy
    policy.losses: pg_torch_loss pg_loss_stats post_process_advantages
ray.rllib.agents.pg.pg_tf_policy  policy.templates: PGTFPolicy
    policy.losses: pg_tf_loss=pg_torch_loss post_process_advantages
ray.rllib.agents.pg  .*: *  policy.losses: utils.post_process_advantages

ray.rllib.agents.ppo.ppo  trainer.trainers: PPOTrainer  config.defaults: DEFAULT_CONFIG=PPO_DEFAULT_CONFIG
ray.rllib.agents.ppo.ddppo  trainer.trainers: DDPPOTrainer  config.defaults: DEFAULT_CONFIG=DDPPO_DEFAULT_CONFIG
ray.rllib.agents.ppo.appo  trainer.trainers: APPOTrainer  config.defaults: DEFAULT_CONFIG=APPO_DEFAULT_CONFIG
ray.rllib.agents.ppo.ppo_torch_policy ray.rllib.agents.ppo.ppo_tf_policy
    policy.losses: ppo_surrogate_loss kl_and_loss_stats vf_preds_fetches setup_config setup_mixins
    policy.mixins: KLCoeffMixin ValueNetworkMixin LearningRateSchedule EntropyCoeffSchedule
    batch.postprocessing: compute_gae_for_sample_batch  batch.torch_functions: apply_grad_clipping
ray.rllib.agents.ppo  .ppo: *  .ddppo: DDPPOTrainer  .appo: APPOTrainer
    policy.templates: PPOTorchPolicy PPOTFPolicy ppo_torch_policy.PPOTorchPolicy ppo_tf_policy.PPOTFPolicy

ray.rllib.agents.qmix.qmix  trainer.trainers: QMixTrainer  config.defaults: DEFAULT_CONFIG=QMIX_DEFAULT_CONFIG
ray.rllib.agents.qmix  .qmix: *

ray.rllib.agents.sac.sac  trainer.trainers: SACTrainer  config.defaults: DEFAULT_CONFIG=SAC_DEFAULT_CONFIG
ray.rllib.agents.sac  policy.templates: sac_torch_policy.SACTorchPolicy sac_tf_policy.SACTFPolicy  .*: *

ray.rllib.contrib.bandits.agents.lin_ucb  trainer.trainers: LinUCBTrainer
    config.defaults: UCB_CONFIG=LINUCB_DEFAULT_CONFIG
ray.rllib.contrib.bandits.agents.lin_ts  trainer.trainers: LinTSTrainer
    config.defaults: TS_CONFIG=LINTS_DEFAULT_CONFIG
ray.rllib.contrib.bandits.agents  .lin_ucb: LinUCBTrainer  .lin_ts: LinTSTrainer
ray.rllib.contrib.bandits.envs.discrete  examples.bandit_envs: LinearDiscreteEnv WheelBanditEnv
ray.rllib.contrib.bandits.envs.parametric  examples.bandit_envs: ParametricItemRecoEnv
ray.rllib.contrib.bandits.envs  .discrete: LinearDiscreteEnv WheelBanditEnv  .parametric: ParametricItemRecoEnv

ray.rllib.contrib.maddpg.maddpg  trainer.trainers: MADDPGTrainer  config.defaults: DEFAULT_CONFIG=MADDPG_DEFAULT_CONFIG
ray.rllib.contrib.maddpg  .maddpg: *
ray.rllib.contrib.random_agent.random_agent  trainer.trainers: RandomAgentTrainer

ray.rllib.evaluation  policy.episodes: episode.MultiAgentEpisode
    trainer.script_workers: rollout_worker.RolloutWorker worker_set.WorkerSet
    .episode: *  .rollout_worker: *
ray.rllib.evaluation.metrics  trainer.results: collect_metrics collect_episodes summarize_episodes
    policy.policies: LEARNER_STATS_KEY

ray.rllib.policy.policy  policy.policies: Policy PolicySpec LEARNER_STATS_KEY
ray.rllib.policy.torch_policy ray.rllib.policy.tf_policy  policy.mixins: LearningRateSchedule EntropyCoeffSchedule
ray.rllib.policy  policy.policies: Policy PolicySpec  policy.torch_policy: TorchPolicy torch_policy.TorchPolicy
    base.unsupported: TFPolicy tf_policy.TFPolicy
    policy.templates: policy_template.build_policy_class torch_policy_template.build_torch_policy
        tf_policy_template.build_tf_policy
    .policy_template: *  .torch_policy_template: *  .tf_policy_template: *

ray.rllib.execution.common  execution.counters:
    STEPS_SAMPLED_COUNTER AGENT_STEPS_SAMPLED_COUNTER STEPS_TRAINED_COUNTER AGENT_STEPS_TRAINED_COUNTER
    LAST_TARGET_UPDATE_TS NUM_TARGET_UPDATES APPLY_GRADS_TIMER COMPUTE_GRADS_TIMER WORKER_UPDATE_TIMER GRAD_WAIT_TIMER
    SAMPLE_TIMER LEARN_ON_BATCH_TIMER LOAD_BATCH_TIMER LEARNER_INFO
    _get_shared_metrics _get_global_vars _check_sample_batch_type
ray.rllib.execution.concurrency_ops  execution.replay_ops: Concurrently Enqueue Dequeue
ray.rllib.execution.metric_ops  execution.metric_ops:
    StandardMetricsReporting CollectMetrics OncePerTimeInterval OncePerTimestepsElapsed
ray.rllib.execution.replay_buffer  execution.replay_buffers:
    LocalReplayBuffer ReplayBuffer=BatchRing PrioritizedReplayBuffer _ALL_POLICIES  execution.replay_ops: ReplayActor
ray.rllib.execution.replay_ops  execution.replay_ops:
    StoreToReplayBuffer Replay MixInReplay WaitUntilTimestepsElapsed  execution.replay_buffers: SimpleReplayBuffer
ray.rllib.execution.rollout_ops  execution.rollout_ops:
    ParallelRollouts SelectExperiences ConcatBatches StandardizeFields  execution.train_ops: AsyncGradients
ray.rllib.execution.train_ops  execution.train_ops:
    TrainOneStep TrainTFMultiGPU UpdateTargetNetwork ComputeGradients ApplyGradients AverageGradients
ray.rllib.execution  .concurrency_ops: *  .metric_ops: *  .replay_buffer: ReplayBuffer PrioritizedReplayBuffer
    .replay_ops: StoreToReplayBuffer Replay SimpleReplayBuffer MixInReplay  .rollout_ops: *  .train_ops: *
    base.unsupported: learner_thread.LearnerThread
ray.util.iter  execution.iterators: LocalIterator _NextValueNotReady  base.unsupported: ParallelIterator
ray.util.iter_metrics  execution.iterators: MetricsContext SharedMetrics
""")

_REPLAY = "part of the loss of an algorithm with replay, which Rookery implements itself (docs/algorithms/dqn.md)"
_OFFLINE = "there is no such trainer class; use rookery replay import FOLDER -o DATA, then rookery train"

GONE = gone_in(f"""
ray.rllib.agents
    dreamer: Dreamer is not implemented
    maml: MAML is not implemented
    mbmpo: MBMPO is not implemented
    slateq: SlateQ is not implemented
ray.rllib.agents.dqn.dqn_torch_policy
    ComputeTDErrorMixin build_q_model_and_distribution: {_REPLAY}
ray.rllib.agents.sac.sac_torch_policy
    actor_critic_loss build_sac_model_and_action_dist ComputeTDErrorMixin: {_REPLAY}
""")
