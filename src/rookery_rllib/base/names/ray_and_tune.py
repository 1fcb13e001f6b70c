"""Where the names of ``ray`` itself, ``ray.tune``, ``ray.util`` and ``ray.exceptions`` stand; what became of others."""

from __future__ import annotations


def _in(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


_CORE = _in(
    "base.ray_core",
    "init shutdown is_initialized get put wait remote method kill cancel get_actor nodes cluster_resources "
    "available_resources get_gpu_ids get_resource_ids timeline show_in_dashboard get_runtime_context client "
    "ClientBuilder ObjectRef ObjectID LOCAL_MODE SCRIPT_MODE WORKER_MODE __version__",
)
_EXCEPTIONS = _in(
    "base.ray_exceptions",
    "RayError CrossLanguageError TaskCancelledError RayTaskError WorkerCrashedError RayActorError RaySystemError "
    "ObjectStoreFullError ObjectLostError GetTimeoutError PlasmaObjectNotAvailable AsyncioActorExit",
)
_SPACE = _in(
    "tune.space",
    "grid_search choice uniform quniform loguniform qloguniform randint qrandint lograndint qlograndint randn qrandn "
    "sample_from function",
)
_SESSION = _in(
    "trainer.trial.session",
    "report get_trial_dir get_trial_name get_trial_id make_checkpoint_dir save_checkpoint checkpoint_dir "
    "is_session_enabled",
)
_REGISTRY = {
    **_in("base.registrations", "register_env"),
    **_in(
        "tune.trainables",
        "register_trainable get_trainable_cls has_trainable validate_trainable ENV_CREATOR TRAINABLE_CLASS",
    ),
    "_global_registry": "tune.trainables:global_registry",
}
_STOPPERS = _in(
    "tune.stopper",
    "Stopper CombinedStopper NoopStopper FunctionStopper MaximumIterationStopper ExperimentPlateauStopper "
    "TrialPlateauStopper TimeoutStopper EarlyStopping",
)
_SCHEDULERS = _in(
    "tune.schedulers",
    "TrialScheduler FIFOScheduler AsyncHyperBandScheduler ASHAScheduler HyperBandScheduler MedianStoppingRule "
    "PopulationBasedTraining PopulationBasedTrainingReplay create_scheduler",
)
_SEARCHES = _in(
    "tune.search",
    "SearchAlgorithm Searcher BasicVariantGenerator ConcurrencyLimiter Repeater create_searcher",
)
_LOGGERS = {
    **_in(
        "trainer.trial.loggers",
        "Logger NoopLogger JsonLogger CSVLogger TBXLogger UnifiedLogger DEFAULT_LOGGERS pretty_print "
        "SafeFallbackEncoder",
    ),
    **_in(
        "tune.callback",
        "LoggerCallback LegacyLoggerCallback JsonLoggerCallback CSVLoggerCallback TBXLoggerCallback",
    ),
}
_REPORTERS = _in(
    "tune.reporters",
    "ProgressReporter TuneReporterBase CLIReporter JupyterNotebookReporter TrialProgressCallback",
)
_ANALYSIS = _in("tune.analysis", "Analysis ExperimentAnalysis")
_TUNER = _in("tune.tuner", "Tuner ResultGrid TuneConfig")
_RUN_CONFIGS = _in("tune.tuner", "RunConfig CheckpointConfig FailureConfig")
_TRAINABLE = {
    "Trainable": "trainer.trial.trainable:Trainable",
    "with_parameters": "trainer.trial.trainable:with_parameters",
}
_FLAT = {
    "flatten_dict": "trainer.trial.loggers:flatten_dict",
    "merge_dicts": "base.nested_dicts:merge_dicts",
    "deep_update": "base.nested_dicts:deep_update",
    "unflatten_dict": "base.nested_dicts:unflatten_dict",
    "unflattened_lookup": "tune.dict_paths:unflattened_lookup",
    "date_str": "tune.driver:moment",
    "validate_save_restore": "tune.saving:validate_save_restore",
}

NAMES: dict[str, dict[str, str]] = {
    "ray": _CORE,
    "ray.worker": _CORE,
    "ray.actor": _in("base.ray_core", "ActorClass ActorHandle ActorMethod exit_actor method"),
    "ray.exceptions": _EXCEPTIONS,
    "ray.client_builder": _in("base.ray_core", "ClientBuilder ClientContext client"),
    "ray.util": {
        **_in(
            "base.ray_core",
            "ActorPool get_node_ip_address inspect_serializability register_serializer deregister_serializer connect "
            "disconnect",
        ),
        "log_once": "batch.debug_text:log_once",
    },
    "ray.util.actor_pool": _in("base.ray_core", "ActorPool"),
    "ray.util.debug": {"log_once": "batch.debug_text:log_once"},
    "ray.tune": {
        **_SPACE, **_SESSION, **_REPORTERS, **_ANALYSIS, **_TRAINABLE, **_TUNER, **_RUN_CONFIGS,
        **_in("tune.experiment", "run run_experiments Experiment"),
        **_in("base.registrations", "register_env"),
        **_in("tune.trainables", "register_trainable"),
        **_in("trainer.trial.resources", "PlacementGroupFactory SyncConfig"),
        "TuneError": "trainer.trial.tune_errors:TuneError",
        "Callback": "tune.callback:Callback",
        "Stopper": "tune.stopper:Stopper",
        "EarlyStopping": "tune.stopper:EarlyStopping",
        "create_scheduler": "tune.schedulers:create_scheduler",
        "create_searcher": "tune.search:create_searcher",
    },
    "ray.tune.tune": _in("tune.experiment", "run run_experiments"),
    "ray.tune.tuner": _TUNER,
    "ray.tune.result_grid": _in("tune.tuner", "ResultGrid Result"),
    "ray.air": _RUN_CONFIGS,
    "ray.air.config": _RUN_CONFIGS,
    "ray.tune.experiment": _in("tune.experiment", "Experiment"),
    "ray.tune.trainable": {**_TRAINABLE, "wrap_function": "trainer.trial.trainable:wrap_function"},
    "ray.tune.function_runner": {
        "wrap_function": "trainer.trial.trainable:wrap_function",
        "FunctionRunner": "trainer.trial.trainable:FunctionTrainable",
        "StatusReporter": "trainer.trial.trainable:StatusReporter",
    },
    "ray.tune.registry": _REGISTRY,
    "ray.tune.error": _in("trainer.trial.tune_errors", "TuneError AbortTrialExecution"),
    "ray.tune.result": _in(
        "trainer.trial.result_keys",
        "DONE SHOULD_CHECKPOINT HOSTNAME TRIAL_ID EXPERIMENT_TAG NODE_IP PID DEFAULT_METRIC EPISODE_REWARD_MEAN "
        "MEAN_LOSS NEG_MEAN_LOSS MEAN_ACCURACY EPISODES_THIS_ITER EPISODES_TOTAL TIMESTEPS_THIS_ITER TIMESTEPS_TOTAL "
        "TIME_THIS_ITER_S TIME_TOTAL_S TRAINING_ITERATION RESULT_DUPLICATE TRIAL_INFO STDOUT_FILE STDERR_FILE "
        "EXPR_PARAM_FILE EXPR_PROGRESS_FILE EXPR_RESULT_FILE AUTO_RESULT_KEYS DEFAULT_RESULTS_DIR",
    ),
    "ray.tune.stopper": _STOPPERS,
    "ray.tune.sample": {**_SPACE, **_in("tune.space", "Domain Float Integer Categorical Function")},
    "ray.tune.suggest": {**_SEARCHES, "grid_search": "tune.space:grid_search"},
    "ray.tune.suggest.suggestion": _in("tune.search", "Searcher ConcurrencyLimiter"),
    "ray.tune.suggest.search": _in("tune.search", "SearchAlgorithm"),
    "ray.tune.suggest.basic_variant": _in("tune.search", "BasicVariantGenerator"),
    "ray.tune.suggest.variant_generator": {
        "grid_search": "tune.space:grid_search",
        "format_vars": "tune.dict_paths:format_vars",
    },
    "ray.tune.suggest.repeater": _in("tune.search", "Repeater"),
    "ray.tune.suggest.optuna": _in("tune.search", "OptunaSearch"),
    "ray.tune.schedulers": {**_SCHEDULERS, "PB2": "tune.schedulers:PB2"},
    "ray.tune.schedulers.trial_scheduler": _in("tune.schedulers", "TrialScheduler FIFOScheduler"),
    "ray.tune.schedulers.async_hyperband": _in("tune.schedulers", "AsyncHyperBandScheduler ASHAScheduler"),
    "ray.tune.schedulers.hyperband": _in("tune.schedulers", "HyperBandScheduler"),
    "ray.tune.schedulers.median_stopping_rule": _in("tune.schedulers", "MedianStoppingRule"),
    "ray.tune.schedulers.pbt": _in("tune.schedulers", "PopulationBasedTraining PopulationBasedTrainingReplay"),
    "ray.tune.schedulers.pb2": _in("tune.schedulers", "PB2"),
    "ray.tune.logger": _LOGGERS,
    "ray.tune.callback": _in("tune.callback", "Callback CallbackList"),
    "ray.tune.progress_reporter": _REPORTERS,
    "ray.tune.analysis": _ANALYSIS,
    "ray.tune.analysis.experiment_analysis": _ANALYSIS,
    "ray.tune.session": {**_SESSION, "get_session": "trainer.trial.session:get_session"},
    "ray.tune.trial": _in("tune.trial", "Trial Checkpoint ExportFormat Location TrialInfo"),
    "ray.tune.checkpoint_manager": _in("tune.trial", "Checkpoint"),
    "ray.tune.resources": _in("trainer.trial.resources", "Resources"),
    "ray.tune.syncer": _in("trainer.trial.resources", "SyncConfig"),
    "ray.tune.utils": _FLAT,
    "ray.tune.utils.util": _FLAT,
    "ray.tune.utils.log": _in("tune.reporters", "Verbosity has_verbosity set_verbosity"),
    "ray.tune.utils.placement_groups": _in("trainer.trial.resources", "PlacementGroupFactory"),
    "ray.tune.utils.trainable": {"with_parameters": "trainer.trial.trainable:with_parameters"},
    "ray.tune.config_parser": {"make_parser": "script.command_line:base_parser"},
}  # fmt: skip
"""Targets of names, by module of 2021."""

_CLUSTER = "ray.init(address=...) joins a cluster that was begun otherwise, and trials run on it"
_SEARCH = "a search of another library; ray.tune.suggest.optuna.OptunaSearch learns from results, too"
_WATCH = "a connection to another program; write a tune.Callback with on_trial_result, or read result.json"

GONE: dict[str, str] = {
    "ray.serve": "served models over HTTP; export_policy_model writes a policy that any server can load",
    "ray.data": "distributed tables; load data with numpy or pandas",
    "ray.workflow": "durable tasks; a Trainable with checkpoints goes on after a kill",
    "ray.autoscaler": _CLUSTER,
    "ray.cluster_utils": "several nodes on one machine, for tests; " + _CLUSTER,
    "ray.internal": "Ray's own objects; nothing of them exists here",
    "ray.state": "Ray's own tables; ray.nodes() and ray.cluster_resources() say what there is",
    "ray.java_function": "calls into Java; there is none",
    "ray.java_actor_class": "calls into Java; there is none",
    "ray.cross_language": "calls into other languages; there are none",
    "ray.experimental": "parts of Ray that were tried out; nothing of them exists here",
    "ray.util.queue": "a queue between processes; tasks run in this process: use queue.Queue",
    "ray.util.multiprocessing": "a pool on a cluster; use multiprocessing.Pool",
    "ray.util.joblib": "a back end of joblib; leave register_ray() out",
    "ray.util.sgd": "distributed training of networks; a network of RLlib trains by its trainer",
    "ray.util.placement_group": "places on a cluster; " + _CLUSTER,
    "ray.util.placement_group_table": "places on a cluster; " + _CLUSTER,
    "ray.util.remove_placement_group": "places on a cluster; " + _CLUSTER,
    "ray.util.get_placement_group": "places on a cluster; " + _CLUSTER,
    "ray.util.collective": "communication between GPUs of a cluster; " + _CLUSTER,
    "ray.util.pdb": "a debugger of remote tasks; tasks run here: use breakpoint()",
    "ray.util.metrics": "metrics of a cluster; a Trainable returns its own from step()",
    "ray.tune.DurableTrainable": "kept checkpoints in cloud storage; derive from tune.Trainable, and copy local_dir",
    "ray.tune.durable": "kept checkpoints in cloud storage; leave it out, and copy local_dir",
    "ray.tune.durable_trainable": "kept checkpoints in cloud storage; derive from tune.Trainable, and copy local_dir",
    "ray.tune.track": "reported before 2020; use tune.report",
    "ray.tune.trial_runner": "the loop of Tune; rookery/tune/runner.py:Runner is the one that runs, "
    "and a tune.Callback hears of its steps",
    "ray.tune.trial_executor": "ran trials; Rookery's executors do",
    "ray.tune.ray_trial_executor": "ran trials; Rookery's executors do",
    "ray.tune.web_server": "a server of the experiment; result.json and experiment_state-....json say the same",
    "ray.tune.automl": "searched over networks; use a search space in config['model']",
    "ray.tune.sklearn": "tuned scikit-learn's estimators; write a function that reports a score",
    "ray.tune.commands": "listed trials; rookery tune show, or ExperimentAnalysis",
    "ray.tune.integration": _WATCH,
    "ray.tune.integration.wandb": _WATCH,
    "ray.tune.integration.mlflow": _WATCH,
    "ray.tune.integration.torch": "distributed training of one trial; " + _CLUSTER,
    "ray.tune.integration.horovod": "distributed training of one trial; " + _CLUSTER,
    "ray.tune.integration.kubernetes": _CLUSTER,
    "ray.tune.integration.docker": _CLUSTER,
    "ray.tune.integration.keras": "reported from Keras; write a keras callback that calls tune.report",
    "ray.tune.integration.pytorch_lightning": "reported from Lightning; write a callback that calls tune.report",
    "ray.tune.integration.xgboost": "reported from XGBoost; write a callback that calls tune.report",
    "ray.tune.suggest.ax": _SEARCH,
    "ray.tune.suggest.bayesopt": _SEARCH,
    "ray.tune.suggest.bohb": _SEARCH,
    "ray.tune.suggest.dragonfly": _SEARCH,
    "ray.tune.suggest.flaml": _SEARCH,
    "ray.tune.suggest.hebo": _SEARCH,
    "ray.tune.suggest.hyperopt": _SEARCH,
    "ray.tune.suggest.nevergrad": _SEARCH,
    "ray.tune.suggest.sigopt": _SEARCH,
    "ray.tune.suggest.skopt": _SEARCH,
    "ray.tune.suggest.zoopt": _SEARCH,
    "ray.tune.suggest.SearchGenerator": "made a search of a Searcher; give the Searcher itself",
    "ray.tune.schedulers.HyperBandForBOHB": "BOHB's half; use HyperBandScheduler with OptunaSearch",
    "ray.tune.schedulers.hb_bohb": "BOHB's half; use HyperBandScheduler with OptunaSearch",
    "ray.tune.schedulers.ResourceChangingScheduler": "gave trials more cores while they ran; a trial keeps what it has",
}
"""What names that are not here were, and what to use."""
