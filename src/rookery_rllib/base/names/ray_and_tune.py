"""Names of ``ray`` itself, ``ray.tune``, ``ray.util`` and ``ray.exceptions``."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray ray.worker  base.ray_core:
    init shutdown is_initialized get put wait remote method kill cancel get_actor nodes cluster_resources
    available_resources get_gpu_ids get_resource_ids timeline show_in_dashboard get_runtime_context client
    ClientBuilder ObjectRef ObjectID LOCAL_MODE SCRIPT_MODE WORKER_MODE __version__
ray.actor  base.ray_core: ActorClass ActorHandle ActorMethod exit_actor method
ray.client_builder  base.ray_core: ClientBuilder ClientContext client
ray.exceptions  base.ray_exceptions:
    RayError CrossLanguageError TaskCancelledError RayTaskError WorkerCrashedError RayActorError RaySystemError
    ObjectStoreFullError ObjectLostError GetTimeoutError PlasmaObjectNotAvailable AsyncioActorExit
ray.util
    base.ray_core: ActorPool actor_pool.ActorPool get_node_ip_address inspect_serializability register_serializer
        deregister_serializer connect disconnect
    batch.debug_text: log_once debug.log_once


ray.tune.callback  tune.callback: Callback CallbackList
ray.tune.checkpoint_manager  tune.trial: Checkpoint
ray.tune.config_parser  script.command_line: make_parser=base_parser
ray.tune.error  trainer.trial.tune_errors: TuneError AbortTrialExecution
ray.tune.function_runner  trainer.trial.trainable: wrap_function FunctionRunner=FunctionTrainable StatusReporter
ray.tune.logger
    trainer.trial.loggers: Logger NoopLogger JsonLogger CSVLogger TBXLogger UnifiedLogger DEFAULT_LOGGERS pretty_print
        SafeFallbackEncoder
    tune.callback: LoggerCallback LegacyLoggerCallback JsonLoggerCallback CSVLoggerCallback TBXLoggerCallback
ray.tune.progress_reporter  tune.reporters:
    ProgressReporter TuneReporterBase CLIReporter JupyterNotebookReporter TrialProgressCallback
ray.tune.registry
    base.registrations: register_env register_input
    tune.trainables: register_trainable get_trainable_cls has_trainable validate_trainable ENV_CREATOR TRAINABLE_CLASS
        _global_registry=global_registry
ray.tune.resources  trainer.trial.resources: Resources
ray.tune.result  trainer.trial.result_keys:
    DONE SHOULD_CHECKPOINT HOSTNAME TRIAL_ID EXPERIMENT_TAG NODE_IP PID DEFAULT_METRIC EPISODE_REWARD_MEAN MEAN_LOSS
    NEG_MEAN_LOSS MEAN_ACCURACY EPISODES_THIS_ITER EPISODES_TOTAL TIMESTEPS_THIS_ITER TIMESTEPS_TOTAL TIME_THIS_ITER_S
    TIME_TOTAL_S TRAINING_ITERATION RESULT_DUPLICATE TRIAL_INFO STDOUT_FILE STDERR_FILE EXPR_PARAM_FILE
    EXPR_PROGRESS_FILE EXPR_RESULT_FILE AUTO_RESULT_KEYS DEFAULT_RESULTS_DIR
ray.tune.result_grid  tune.tuner: ResultGrid Result
ray.tune.sample  tune.space:
    grid_search choice uniform quniform loguniform qloguniform randint qrandint lograndint qlograndint randn qrandn
    sample_from function Domain Float Integer Categorical Function
ray.tune.schedulers  tune.schedulers: async_hyperband.AsyncHyperBandScheduler async_hyperband.ASHAScheduler
    hyperband.HyperBandScheduler median_stopping_rule.MedianStoppingRule pb2.PB2 pbt.PopulationBasedTraining
    pbt.PopulationBasedTrainingReplay trial_scheduler.TrialScheduler trial_scheduler.FIFOScheduler create_scheduler
    .*: *
ray.tune.session  trainer.trial.session:
    report get_trial_dir get_trial_name get_trial_id make_checkpoint_dir save_checkpoint checkpoint_dir
    is_session_enabled get_session
ray.tune.stopper  tune.stopper:
    Stopper CombinedStopper NoopStopper FunctionStopper MaximumIterationStopper ExperimentPlateauStopper
    TrialPlateauStopper TimeoutStopper EarlyStopping
ray.tune.suggest  tune.search: basic_variant.BasicVariantGenerator repeater.Repeater search.SearchAlgorithm
    suggestion.Searcher suggestion.ConcurrencyLimiter create_searcher  .*: *
    tune.search: optuna.OptunaSearch
    tune.space: grid_search variant_generator.grid_search
    tune.trial: variant_generator.format_vars
ray.tune.trainable  trainer.trial.trainable: Trainable with_parameters wrap_function
ray.tune.trial  tune.trial: Trial Checkpoint ExportFormat Location TrialInfo
ray.tune.tuner  tune.tuner: Tuner ResultGrid TuneConfig
ray.tune.utils ray.tune.utils.util
    base.nested_dicts: merge_dicts deep_update unflatten_dict
    trainer.trial.loggers: flatten_dict
    tune.stopper: unflattened_lookup
    tune.driver: date_str=moment
    tune.trainables: validate_save_restore
ray.tune.utils.log  tune.reporters: Verbosity has_verbosity set_verbosity

ray.tune
    trainer.trial.resources: PlacementGroupFactory utils.placement_groups.PlacementGroupFactory syncer.SyncConfig
    trainer.trial.trainable: utils.trainable.with_parameters
    tune.analysis: analysis.Analysis analysis.ExperimentAnalysis analysis.experiment_analysis.Analysis
        analysis.experiment_analysis.ExperimentAnalysis
    tune.experiment: tune.run tune.run_experiments experiment.Experiment
    tune.tuner: RunConfig CheckpointConfig FailureConfig
    .analysis: *  .experiment: *  .progress_reporter: *  .syncer: *  .tune: *  .tuner: *
    .callback: Callback  .error: TuneError  .registry: register_env register_trainable
    .sample: grid_search choice uniform quniform loguniform qloguniform randint qrandint lograndint qlograndint randn
        qrandn sample_from function
    .schedulers: create_scheduler
    .session: report get_trial_dir get_trial_name get_trial_id make_checkpoint_dir save_checkpoint checkpoint_dir
        is_session_enabled
    .stopper: Stopper EarlyStopping  .suggest: create_searcher  .trainable: Trainable with_parameters
""")

_CLUSTER = "start the cluster with Ray itself; ray.init(address=...) joins it, and trials run on it"

GONE = gone_in(f"""
ray
    serve: serves models over HTTP; export_policy_model writes a policy that any server can load
    data: distributed datasets; load data with numpy or pandas
    workflow: durable tasks; use a Trainable with checkpoints, which resumes after a kill
    autoscaler: {_CLUSTER}
    cluster_utils: several nodes on one machine for tests; {_CLUSTER}
    internal: internal objects of Ray
    state: internal tables of Ray; use ray.nodes() and ray.cluster_resources()
    java_function java_actor_class: calls of Java code
    cross_language: calls of code in other languages
    experimental: experimental features of Ray
ray.util
    queue: a queue between processes; tasks run in this process, so use queue.Queue
    multiprocessing: a process pool on a cluster; use multiprocessing.Pool
    joblib: a joblib backend; leave register_ray() out
    sgd: distributed supervised training; RLlib networks are trained by their trainer
    placement_group placement_group_table remove_placement_group get_placement_group: placement on a cluster; {_CLUSTER}
    collective: communication between the GPUs of a cluster; {_CLUSTER}
    pdb: a debugger for remote tasks; tasks run in this process, so use breakpoint()
    metrics: cluster metrics; return metrics from step() of a Trainable
ray.tune
    DurableTrainable durable_trainable: stores checkpoints in the cloud; derive from tune.Trainable, and copy
        local_dir
    durable: stores checkpoints in the cloud; leave it out, and copy local_dir
    track: the reporting API before 2020; use tune.report
    trial_runner: the loop of Tune, here rookery/tune/runner.py:Runner; use a tune.Callback to run code at its
        steps
    trial_executor ray_trial_executor: internal classes that run trials; Rookery has its own
    web_server: serves the state of an experiment over HTTP; read result.json and experiment_state-....json
    automl: search over networks; use a search space in config['model']
    sklearn: tunes scikit-learn estimators; write a function that reports a score
    commands: lists trials; use rookery tune show, or ExperimentAnalysis
    integration integration.wandb integration.mlflow: an integration of another program; write a tune.Callback
        with on_trial_result, or read result.json
    integration.torch integration.horovod: distributed training of one trial; {_CLUSTER}
    integration.kubernetes integration.docker: {_CLUSTER}
    integration.keras: reports from Keras; write a Keras callback that calls tune.report
    integration.pytorch_lightning: reports from Lightning; write a callback that calls tune.report
    integration.xgboost: reports from XGBoost; write a callback that calls tune.report
    schedulers.HyperBandForBOHB schedulers.hb_bohb: the scheduler of BOHB; use HyperBandScheduler with OptunaSearch
    schedulers.ResourceChangingScheduler: changes the cores of running trials; here a trial keeps its cores
ray.tune.suggest
    ax bayesopt bohb dragonfly flaml hebo hyperopt nevergrad sigopt skopt zoopt: the search of another
        library; use ray.tune.suggest.optuna.OptunaSearch
    SearchGenerator: wraps a Searcher; pass the Searcher itself
""")
