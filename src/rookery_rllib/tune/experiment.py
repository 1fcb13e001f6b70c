"""``tune.run``: an experiment of 2021 on Rookery's trial runner.

`run` takes the arguments of Tune, `Setup` has the resulting settings, and `execute` combines the parts. The docstring
of `run` has the differences of arguments.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.face import CONSOLE_LOG as LOG
from rookery.face import (
    EXECUTORS,
    FOLDER,
    VERSION,
    AskTell,
    ConfigError,
    Executor,
    ExperimentState,
    Interrupted,
    Journal,
    ProcessExecutor,
    Runner,
    Streams,
    Suggestions,
    TuneConfig,
    grid_size,
    import_object,
    read,
    refuse,
    show,
    signed,
    survive_lost_output,
    usable_cores,
)
from rookery.face import JOURNAL_FILE as FILE
from rookery.face import Experiment as OurExperiment
from rookery_rllib.base.machine import Machine
from rookery_rllib.base.notices import say
from rookery_rllib.base.ray_client import joined
from rookery_rllib.base.registrations import registered
from rookery_rllib.trainer.trial.resources import SyncConfig, cpus_and_gpus
from rookery_rllib.trainer.trial.result_keys import TRAINING_ITERATION, results_directory
from rookery_rllib.trainer.trial.trainable import FunctionTrainable, Trainable
from rookery_rllib.trainer.trial.tune_errors import TuneError
from rookery_rllib.tune import trainables as registry
from rookery_rllib.tune.analysis import ExperimentAnalysis
from rookery_rllib.tune.callback import Callback, LegacyLoggerCallback, default_loggers
from rookery_rllib.tune.driver import Driver, LocalExecutor, Orders, Progress, WatchedExecutor, moment
from rookery_rllib.tune.job import TrainableOf2021
from rookery_rllib.tune.reporters import (
    ProgressReporter,
    TrialProgressCallback,
    Verbosity,
    default_reporter,
    has_verbosity,
    set_verbosity,
)
from rookery_rllib.tune.schedulers import PopulationBasedTraining, RecordingScheduler, TrialScheduler, scheduler_of
from rookery_rllib.tune.search import Plan, Searcher, SearcherAdapter, plan_of
from rookery_rllib.tune.space import filled, seed_of_numpy, space_of
from rookery_rllib.tune.stopper import CombinedStopper, TimeoutStopper, stopper_of
from rookery_rllib.tune.trial import Trial

OURS = ".rookery"
"""Folder of the runner's own files, in the directory of an experiment."""

FOREVER = 1_000_000
"""Number of samples or failures without a limit."""


@dataclass(frozen=True, kw_only=True)
class Setup(Orders):
    """Settings from the arguments of `run`.

    Attributes:
        space: Domains by path.
        plan: The search.
        scheduler: The scheduler.
        num_samples: Number of suggestions, each for the whole grid.
        gpus: GPUs of a trial.
        resume: Whether to resume the newest experiment in `folder`.
        max_failures: Number of failures after which a trial may resume.
        raise_on_failed_trial: Whether a failed trial is an error at the end.
        max_concurrent: Trials at the same time, at most.
    """

    space: Mapping[str, Any]
    plan: Plan
    scheduler: TrialScheduler
    num_samples: int
    gpus: float
    resume: bool
    max_failures: int
    raise_on_failed_trial: bool
    max_concurrent: int | None = None

    @property
    def total(self) -> int:
        """Number of trials."""
        return self.num_samples * grid_size(self.space) * self.plan.repeats


# fmt: off
def run(
    run_or_experiment: Any, name: str | None = None, metric: str | None = None, mode: str | None = None,
    stop: Any = None, time_budget_s: Any = None, config: Mapping[str, Any] | None = None,
    resources_per_trial: Any = None, num_samples: int = 1, local_dir: str | None = None, search_alg: Any = None,
    scheduler: Any = None, keep_checkpoints_num: int | None = None, checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0, checkpoint_at_end: bool = False, verbose: int = Verbosity.V3_TRIAL_DETAILS,
    progress_reporter: ProgressReporter | None = None, log_to_file: Any = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None, sync_config: SyncConfig | None = None,
    export_formats: Sequence[str] | None = None, max_failures: int = 0, fail_fast: bool | str = False,
    restore: str | None = None, server_port: int | None = None, resume: bool | str = False,
    queue_trials: bool = False, reuse_actors: bool = False, trial_executor: Any = None,
    raise_on_failed_trial: bool = True, callbacks: Sequence[Any] | None = None, loggers: Sequence[Any] | None = None,
    **old: Any,
) -> ExperimentAnalysis:
    """Runs trials to their ends, and returns their results.

    Arguments are those of Ray, with these differences:

    Args:
        resources_per_trial: Cores and GPUs of a trial; None = one core.
        keep_checkpoints_num: Checkpoints to keep per trial, always with the newest. None = all.
        sync_config: Without an ``upload_dir`` it has no effect.
        server_port, queue_trials, reuse_actors: Have no meaning: no server, trials wait for cores, no actor is reused.
        trial_executor: Must be None.
        resume: True or ``LOCAL``: resume the newest experiment of this name.
        time_budget_s: Seconds, or a timedelta.
        old: Arguments that were deprecated in 2021; those with an effect are refused with a replacement.

    Raises:
        ConfigError: If an argument is wrong, or unsupported.
        TuneError: If trials have failed.
    """
    return run_given(dict(locals()))
# fmt: on


def run_given(given: dict[str, Any]) -> ExperimentAnalysis:
    """Runs an experiment with the arguments of `run`.

    Raises:
        ConfigError: If there are several experiments, or an argument is wrong.
    """
    target, old = given["run_or_experiment"], given.pop("old")
    given["config"] = getattr(given["config"], "param_space", given["config"])  # of a configuration with methods
    given["max_concurrent_trials"] = old.get("max_concurrent_trials")
    if isinstance(target, Experiment):
        return target.run(**{key: given[key] for key in Experiment.SHARED})
    if isinstance(target, list | tuple):
        raise ConfigError("run: takes one experiment; give several to tune.run_experiments")
    refuse_unused(given, old)
    set_verbosity(given["verbose"])
    return execute(setup_of(given))


def refuse_unused(given: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Refuses unsupported arguments."""
    upload = getattr(given["sync_config"], "upload_dir", None) or old.get("upload_dir")
    resume = given["resume"]
    problems = {
        f"sync_config.upload_dir = {upload!r}: nothing is sent to cloud storage here; copy local_dir": bool(upload),
        "trial_executor: trials run on Rookery's own executors; leave it out": given["trial_executor"] is not None,
        f"resume = {resume!r}: only a local experiment can be resumed; use resume=True": resume
        not in (False, None, True, "LOCAL", "AUTO"),
        f"mode = {given['mode']!r}: must be min or max": given["mode"] not in (None, "min", "max"),
        f"fail_fast = {given['fail_fast']!r}: must be True, False or 'raise'": given["fail_fast"]
        not in (True, False, "raise"),
        f"num_samples = {given['num_samples']!r}: must be a whole number above 0, or -1": not isinstance(
            given["num_samples"], int
        )
        or (given["num_samples"] < 1 and given["num_samples"] != -1),
        "run_errored_only: is not supported; use resume=True, which resumes all unfinished trials": bool(
            old.get("run_errored_only")
        ),
    }
    known = {"run_errored_only", "ray_auto_init", "global_checkpoint_period", "with_server", "upload_dir",
             "sync_to_cloud", "sync_to_driver", "sync_on_checkpoint", "_remote", "max_concurrent_trials"}  # fmt: skip
    problems |= {f"run has no argument {key!r}": True for key in old if key not in known}
    refuse(line for line, applies in problems.items() if applies)


def setup_of(given: Mapping[str, Any]) -> Setup:
    """Returns the settings of the arguments of `run`."""
    target = given["run_or_experiment"]
    trainable = registry.trainable_class(target)
    name = title_of(target)
    config = dict(given["config"] or {})
    scheduler, plan = scheduler_of(given["scheduler"]), plan_of(given["search_alg"])
    space = {
        **plan.space,
        **space_of(config, {"run": name, "env": config.get("env")}),
        **scheduler.parameters(config),
    }
    metric = plan.metric or scheduler.metric or given["metric"]
    mode = plan.mode or scheduler.mode or given["mode"]
    check_saving(trainable, name, given, scheduler)
    resources = given["resources_per_trial"]
    cpus, gpus = cpus_and_gpus(resources)
    if not gpus:
        gpus = float(config.get("num_gpus") or 0) if isinstance(config.get("num_gpus"), int | float) else 0.0
    stoppers = [stopper_of(given["stop"])]
    if given["time_budget_s"] is not None:
        stoppers.append(TimeoutStopper(given["time_budget_s"]))
    reporter = given["progress_reporter"] or default_reporter()
    reporter.set_search_properties(metric, mode)
    files = given["log_to_file"]
    log_files = ("stdout", "stderr") if files is True else (files, files) if isinstance(files, str) else files
    folder = Path(given["local_dir"] or results_directory()).expanduser().absolute()
    job = TrainableOf2021(
        trainable, name, config, resources=cpus or 1.0, known=registered(), checkpoint_freq=given["checkpoint_freq"],
        restore=given["restore"], log_to_file=tuple(log_files or (None, None)),
        export_formats=tuple(given["export_formats"] or ()),
    )  # fmt: skip
    same = ("checkpoint_at_end", "keep_checkpoints_num", "checkpoint_score_attr", "fail_fast", "trial_name_creator",
            "trial_dirname_creator", "raise_on_failed_trial")  # fmt: skip
    return Setup(
        folder=folder / (given["name"] or default_name(trainable, name)), job=job, space=space, plan=plan,
        scheduler=scheduler, stopper=CombinedStopper(*stoppers),
        stop=given["stop"] if isinstance(given["stop"], Mapping) else {},
        callbacks=callbacks_of(given["callbacks"], given["loggers"], metric), reporter=reporter,
        num_samples=FOREVER if given["num_samples"] == -1 else -(-given["num_samples"] // plan.repeats),
        metric=metric, mode=mode, gpus=gpus, resume=bool(given["resume"]),
        max_failures=FOREVER if given["max_failures"] < 0 else given["max_failures"],
        max_concurrent=given["max_concurrent_trials"], **{key: given[key] for key in same},
    )  # fmt: skip


def title_of(target: Any) -> str:
    """Returns the name of a trainable: ``PPO``, or that of a class or function."""
    if isinstance(target, str):
        return target
    own = getattr(target, "_name", None) or getattr(target, "__name__", None)
    if own is None and hasattr(target, "func"):  # functools.partial
        own = getattr(target.func, "__name__", None)
    return "lambda" if own == "<lambda>" else str(own or "DEFAULT")


def default_name(trainable: type[Trainable], name: str) -> str:
    """Returns the name of an experiment's directory: ``PPO``, for functions with the date behind it."""
    return f"{name}_{moment()}" if issubclass(trainable, FunctionTrainable) else name


def check_saving(trainable: type[Trainable], name: str, given: Mapping[str, Any], scheduler: TrialScheduler) -> None:
    """Refuses arguments that need checkpoints of a trainable without them."""
    if issubclass(trainable, FunctionTrainable):
        if given["checkpoint_freq"]:
            raise ConfigError(
                f"checkpoint_freq: {name} is a function, which saves by itself: `with "
                "tune.checkpoint_dir(step) as folder:`"
            )
        return
    writes = trainable.save_checkpoint is not Trainable.save_checkpoint
    wants = [key for key in ("checkpoint_freq", "checkpoint_at_end") if given[key]]
    wants += [type(scheduler).__name__] if scheduler.clones else []
    if wants and not writes:
        raise ConfigError(f"{', '.join(wants)}: {name} has no save_checkpoint and load_checkpoint; write both")


def callbacks_of(callbacks: Sequence[Any] | None, loggers: Sequence[Any] | None, metric: str | None) -> list[Callback]:
    """Returns the callbacks of the script, the loggers, and the printer of results.

    Raises:
        ConfigError: If an object is not a callback.
    """
    own = list(callbacks or ())
    for given in own:
        if not isinstance(given, Callback):
            kind = given.__name__ if isinstance(given, type) else type(given).__name__
            hint = "; pass an instance" if isinstance(given, type) else ""
            raise ConfigError(
                f"callbacks: {kind} is not a tune.Callback{hint}; callbacks of a Trainer are in config['callbacks']"
            )
    files = [LegacyLoggerCallback(loggers)] if loggers else default_loggers(own)
    return [*own, *files, TrialProgressCallback(metric)]


# --- running ----------------------------------------------------------------------------------------------------------


def execute(setup: Setup) -> ExperimentAnalysis:
    """Runs an experiment."""
    began = time.time()
    place, before = earlier(setup) if setup.resume else (None, None)
    started = before["spec"] if before else {"prefix": secrets.token_hex(3)[:5], "moment": moment()}
    if place is None:
        place = setup.folder / OURS / f"{started['moment']}-{started['prefix']}"
    seed = before["seed"] if before else setup.plan.seed if setup.plan.seed is not None else seed_of_numpy()
    streams = Streams(int(seed))
    cfg = TuneConfig(
        metric=setup.metric or TRAINING_ITERATION, mode=setup.mode or "max",  # type: ignore[arg-type]
        num_samples=setup.num_samples, repeats=setup.plan.repeats,
        max_failures=setup.max_failures, max_concurrent=concurrent(setup),
    )  # fmt: skip
    job, search = setup.job, make_search(setup, streams, cfg, started["prefix"])
    if isinstance(setup.scheduler, PopulationBasedTraining):
        setup.scheduler.fill = job.configured
    scheduler = RecordingScheduler(setup.scheduler.make(setup.space, streams))
    searcher = search if isinstance(search, SearcherAdapter) else None
    driver = Driver(setup, scheduler, started["prefix"], started["moment"], searcher)
    record = {
        "kind": "experiment", "version": VERSION, "time": began, "title": job.name, "seed": seed, "trial_seed": None,
        "space": {path: domain.describe() for path, domain in setup.space.items()}, "job": job.describe(),
        "tune": {"num_samples": setup.num_samples}, "spec": started,
    }  # fmt: skip
    if before and json.loads(json.dumps(record["space"])) != before["space"]:
        raise ConfigError(
            f"resume: {place.parent.parent}: config has other search dimensions than before; use another name"
        )
    with closing(Journal(place, anew=not before)) as journal:
        if not before:
            journal.append(signed(FILE, record))
        loop(setup, OurExperiment(place, cfg, setup.space, streams, None), search, scheduler, journal, driver)
    setup.scheduler.finish(str(setup.folder), {name: trial.trial_id for name, trial in driver.trials.items()})
    return finished(setup, driver, time.time() - began)


def earlier(setup: Setup) -> tuple[Path, dict[str, Any]]:
    """Returns the folder of the newest experiment, and its initial arguments; raises a ConfigError without one."""
    found = sorted(path.parent for path in (setup.folder / OURS).glob(f"*/{FILE}") if path.stat().st_size)
    if not found:
        raise ConfigError(f"resume: {setup.folder}: has no experiment to resume; leave resume out to begin one")
    return found[-1], read(found[-1])[0]


def concurrent(setup: Setup) -> int | None:
    """Returns the limit of concurrent trials; None = by the number of cores."""
    limits = [setup.plan.max_concurrent, setup.max_concurrent]
    if Machine.num_cpus:
        limits.append(max(1, int(Machine.num_cpus // setup.job.cpus)))
    if Machine.local_mode or setup.total == 1:
        limits.append(1)
    elif (ray := joined()) is not None and (beside := setup.job.trainable.cores_beside(setup.job.config)):
        cores = ray.cluster_resources().get("CPU", 0.0)
        # so that no trial waits for another's workers
        limits.append(max(1, int(cores // (setup.job.cpus + beside))))
    return min((limit for limit in limits if limit), default=None)


def make_search(setup: Setup, streams: Streams, cfg: TuneConfig, prefix: str) -> AskTell:
    """Returns the search."""
    search, space = setup.plan.search, dict(setup.space)
    if isinstance(search, Searcher):
        search.set_search_properties(setup.metric, setup.mode, setup.job.config)
        return SearcherAdapter(search, setup.num_samples, prefix)
    return Suggestions(search, space, (setup.mode or "max",), cfg.num_samples, setup.plan.points, streams, space)


def make_executor(setup: Setup, cfg: TuneConfig) -> Executor:
    """Returns the executor of trials: the joined cluster; else processes, if several trials can run at a time and
    can be sent; else this process.
    """
    job, cpus = setup.job, setup.job.cpus
    try:
        if joined() is not None and not Machine.local_mode:
            executor: Executor = import_object(EXECUTORS["ray"])(job, cpus, setup.gpus, cfg.max_concurrent)
            return executor
        if cfg.max_concurrent == 1 or usable_cores() < 2 * cpus:
            return LocalExecutor(job)
        actors = Machine.actors()
        if not actors:
            return ProcessExecutor(job, cpus, setup.gpus, cfg.max_concurrent)
        reason = f"the actor {actors[0]!r} lives here, and trials may call it"
    except ConfigError as error:
        reason = str(error)
    say(f"trials run one after the other in this process: {reason}")
    return LocalExecutor(job)


def loop(
    setup: Setup,
    experiment: OurExperiment,
    search: AskTell,
    scheduler: RecordingScheduler,
    journal: Journal,
    driver: Driver,
) -> None:
    """Runs Rookery's loop with a driver."""
    cfg = experiment.cfg
    survive_lost_output(setup.folder / LOG)
    if isinstance(search, Suggestions):
        setup.reporter.set_total_samples(setup.total)
    driver.callbacks.notify("setup")
    with closing(make_executor(setup, cfg)) as executor:
        watched = WatchedExecutor(executor, driver)
        driver.runner = Runner(experiment, Gate(search, driver), scheduler, watched, journal, Progress(driver))
        if journal.records:
            say(f"resuming {setup.folder.name} of {driver.moment}")
            before = ExperimentState.of(experiment.folder, journal.records, experiment.space)
            for trial in before.trials.values():
                if trial.status.is_over:
                    driver.recall(trial)
        try:
            driver.runner.run()
        except Interrupted:
            say("stopped; resume=True resumes unfinished trials")
        finally:
            driver.runner.state.stop_running()
            driver.sync()
            driver.write_state(at_once=True)
            for callback in setup.callbacks:
                if isinstance(callback, LegacyLoggerCallback):
                    callback.close()
        over = [trial for trial in driver.runner.state.trials.values() if trial.status.is_over]
        if len(over) == len(driver.runner.state.trials):  # no trial resumes from these any more
            for trial in over:
                shutil.rmtree(trial.folder / FOLDER, ignore_errors=True)


class Gate:
    """Forwards requests to a search until the experiment ends."""

    def __init__(self, search: AskTell, driver: Driver) -> None:
        self.search, self.driver = search, driver

    def ask(self, number: int) -> Mapping[str, Any] | None:
        """Returns the next suggestion; None at the end of the experiment."""
        return None if self.driver.stopping else self.search.ask(number)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        self.search.tell(number, values)


def finished(setup: Setup, driver: Driver, seconds: float) -> ExperimentAnalysis:
    """Shows the ends of trials, and returns the results; raises a TuneError if some have failed."""
    trials = driver.everyone
    if has_verbosity(Verbosity.V1_EXPERIMENT) and setup.reporter.should_report(trials, done=True):
        setup.reporter.report(trials, True)
    failed = [trial for trial in trials if trial.status == Trial.ERROR]
    if failed and setup.raise_on_failed_trial:
        first = failed[0]
        raise TuneError(f"trials have failed, the first with {first.error_msg} ({first.error_file})", failed)
    for trial in failed:
        say(f"{trial} has failed: {trial.error_msg} ({trial.error_file})")
    if has_verbosity(Verbosity.V1_EXPERIMENT):
        say(f"Total run time: {seconds:.2f} seconds.")
    return ExperimentAnalysis(str(driver.write_state(at_once=True)), trials, setup.metric, setup.mode)


# --- experiments as objects -------------------------------------------------------------------------------------------


class Experiment:
    """An experiment for `run_experiments`."""

    SHARED = (
        "verbose", "progress_reporter", "resume", "raise_on_failed_trial", "scheduler", "search_alg", "callbacks",
        "server_port", "queue_trials", "reuse_actors", "trial_executor", "metric", "mode", "fail_fast",
    )  # fmt: skip
    """Arguments shared by the experiments of one call."""

    def __init__(self, name: str, run: Any, **spec: Any) -> None:
        self.name, self.target, self.spec = name, run, spec

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Makes an experiment from a dict, as in tuned examples: ``{"run": "PPO", "env": ..., "config": {...}}``.

        Raises:
            ConfigError: If the trainable is missing.
        """
        rest = dict(spec)
        if "run" not in rest:
            raise ConfigError(f"{name}: run is missing, for example run: PPO")
        target = rest.pop("run")
        if "env" in rest:
            rest["config"] = {**(rest.get("config") or {}), "env": rest.pop("env")}
        return cls(name, target, **rest)

    def run(self, **shared: Any) -> ExperimentAnalysis:
        return run(self.target, **{**shared, "name": self.name, **self.spec})

    @property
    def run_identifier(self) -> str:
        return title_of(self.target)


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    server_port: int | None = None,
    verbose: int = Verbosity.V3_TRIAL_DETAILS,
    progress_reporter: ProgressReporter | None = None,
    resume: bool | str = False,
    queue_trials: bool = False,
    reuse_actors: bool = False,
    trial_executor: Any = None,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Sequence[Any] | None = None,
    _remote: bool | None = None,
) -> list[Trial]:
    """Runs experiments, one after the other; trials of one run at the same time. Returns all trials.

    `server_port`, `queue_trials`, `reuse_actors`, `concurrent` and `_remote` have no meaning; `trial_executor` must be
    None.
    """
    if isinstance(experiments, Mapping):
        listed = [Experiment.from_json(str(name), spec) for name, spec in experiments.items()]
    else:
        listed = [experiments] if isinstance(experiments, Experiment) else list(experiments or ())
    if not listed or not all(isinstance(each, Experiment) for each in listed):
        raise ConfigError(f"run_experiments: takes tune.Experiment objects, or dicts by name, not {show(experiments)}")
    trials: list[Trial] = []
    for each in listed:
        analysis = each.run(
            scheduler=scheduler, verbose=verbose, progress_reporter=progress_reporter, resume=resume,
            trial_executor=trial_executor, raise_on_failed_trial=raise_on_failed_trial, callbacks=callbacks,
        )  # fmt: skip
        trials += analysis.trials
    return trials


def variants(config: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
    """Returns a nested configuration with a sample of each domain, and the `number`-th value of grids."""
    space = space_of(config)
    suggestions = Suggestions(plan_of(None).search, space, ("max",), number + 1, (), Streams(seed_of_numpy()), space)
    return dict(filled(config, suggestions.ask(number) or {}))
