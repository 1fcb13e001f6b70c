"""Entry points for users: `run` begins or resumes an experiment, `resume` resumes one from its folder alone."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from secrets import randbits
from typing import Any

from rookery.core.config import resolve
from rookery.core.errors import ConfigError, refuse
from rookery.core.io.console_output import LOG, survive_lost_output
from rookery.core.io.files import write_file
from rookery.core.io.signing import is_signed, signed
from rookery.core.packages import install_line
from rookery.core.process.child_process import STARTS_CHILDREN
from rookery.core.process.cpu import usable_cores
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Settings, fields_of, is_undecided, show
from rookery.core.settings.former_paths import Rename, renamed_keys, renamed_layer, renamed_tree
from rookery.core.settings.layers import Layer, import_object, mapping_of, nested
from rookery.core.settings.starting_folder import absolute, started_in, starting_folder
from rookery.core.settings.thresholds import directed
from rookery.core.settings.trust import CodeKind, TrustCode
from rookery.report.experiment import ExperimentSummary
from rookery.report.experiment_table import progress_reporter
from rookery.report.results import IterationResult
from rookery.report.tensorboard import write_experiment
from rookery.run.callbacks import Callback
from rookery.run.checkpoint.own_files import (
    experiment_was_killed_at_start,
    move_killed_experiment,
    refuse_links_of_trials,
    remove_trials,
)
from rookery.run.prepare import code_values, layers_of
from rookery.run.settings import SHORTHANDS, RunConfig
from rookery.run.stopping import StopFunction
from rookery.tune.analysis import Analysis, records_of
from rookery.tune.checks import (
    check_arguments,
    check_columns,
    check_keywords,
    check_trainable,
    check_variety,
)
from rookery.tune.executor import Executor
from rookery.tune.identity import (
    describe_domains,
    experiment_yaml,
    refuse_changes,
    settings_spec,
    trainable_spec,
    training_spec,
)
from rookery.tune.job import Job
from rookery.tune.jobs.trainable import SCORE, TrainableJob
from rookery.tune.jobs.training_job import TrainingJob
from rookery.tune.journal import FILE, VERSION, Journal, read
from rookery.tune.names import EXECUTORS, SCHEDULERS, SEARCHES
from rookery.tune.runner import Experiment, Runner
from rookery.tune.scheduler import Scheduler
from rookery.tune.search import Suggestions
from rookery.tune.settings import SECTION, ExperimentFile, TuneConfig
from rookery.tune.space import Domain, grid_size
from rookery.tune.spec import domains_in, merged_values, read_layer, split_layers
from rookery.tune.trial import per_metric
from rookery.tune.trust import check_experiment, check_params

TRAINABLE = CodeKind(
    "a class with step, or a function", lambda found: callable(getattr(found, "step", None)), functions=True
)
SCHEDULER = CodeKind("a scheduler (a class of rookery.tune.Scheduler)", lambda found: issubclass(found, Scheduler))

RUNS = Path("runs")
"""Parent of new experiment folders."""


@dataclass(frozen=True)
class Plan:
    """An experiment, built from the arguments of `run`.

    Attributes:
        job: Job of the trials.
        cfg: Settings of the experiment.
        space: Domains by path.
        config: Configuration of a trial, a nested dict with domains in it.
        spec: Description from which the experiment can be made again (`identity.py`).
        objects: A search or scheduler given as an object.
        seed: Seed of the trials, if the user gave one.
        rename: Returns the path of a setting in the experiment, for any of its names.
        notes: A line for each former name of a setting.
    """

    job: Job
    cfg: TuneConfig
    space: Mapping[str, Domain]
    config: Mapping[str, Any]
    spec: Mapping[str, Any]
    objects: Mapping[str, Any]
    seed: int | None
    rename: Rename = str
    notes: Sequence[str] = ()


def run(
    env: Any = None,
    algorithm: Settings | None = None,
    *,
    trainable: Any = None,
    config: Any = (),
    policies: Mapping[str, Any] | Sequence[str] | None = None,
    policy_mapping: Any = None,
    callbacks: Sequence[Callback] | Callable[[], Sequence[Callback]] = (),
    preset: str = "none",
    stop: Any = None,
    seed: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    **keywords: Any,
) -> Analysis:
    """Tunes hyperparameters: trains with each suggestion of a search, under the control of a scheduler.

    Any setting may be a domain: ``PPOConfig(lr=tune.loguniform(1e-4, 1e-2))``,
    ``num_envs=tune.grid_search([8, 16])``, ``config={"algorithm.gamma": tune.choice([0.9, 0.99])}``.

    Args:
        env: Environment, as in `Trainer`; so are `algorithm`, `policies`, `policy_mapping`, `preset`, further keywords.
        algorithm: Settings of the algorithm.
        trainable: Tuned instead of a training: a class with ``step`` (see `Trainable`), or a function of its `config`
            that reports, yields or returns metrics.
        config: For trainings, more layers of settings: files, dicts or `Layer` objects. For a `trainable`, its
            configuration, a nested dict.
        policies: Policies by name.
        policy_mapping: Policy of each agent.
        callbacks: Callbacks, copied for each trial; or a function that makes them.
        preset: ``none``, ``auto`` or the name of a preset.
        stop: Ends each trial: criteria such as ``{"return_mean": 475, "env_steps": 100_000}``, each reached at or above
            its threshold, or at or below it for a metric with ``mode="min"``; for trainings, a function of a result is
            allowed too.
        seed: Random seed of the search, the scheduler and all trials; None = drawn once and recorded.
        folder: Folder of all files; None = a new one in ``runs/``.
        resume: Resume the experiment in `folder`, if there is one.
        force: Replace the experiment in `folder`.
        keywords: Settings of `TuneConfig` (``metric``, ``num_samples``, ``search``, ``scheduler``, ...); all others
            are for `Trainer`, such as ``num_envs=16``.

    Returns:
        The results; see `Analysis`.

    Raises:
        ConfigError: If settings are wrong, before any trial starts; the message lists all of them.
        Interrupted: A KeyboardInterrupt, after Ctrl-C or SIGTERM; `resume` continues the experiment.
    """
    own = {name: keywords.pop(name) for name in list(keywords) if name in fields_of(TuneConfig)}
    parts = {name: own[name] for name in ("search", "scheduler") if own.get(name) is not None}
    objects = {name: part for name, part in parts.items() if not isinstance(part, str | Mapping | Settings)}
    check_arguments(folder, env, preset, stop, objects)
    own = parts_as_mappings({name: value for name, value in own.items() if name not in objects})
    if trainable is None:
        known = [*fields_of(TuneConfig), *SHORTHANDS, *fields_of(RunConfig), "replay", "memory"]
        check_keywords(keywords, known, "neither tune.run nor Trainer has such an argument")
        given = code_values(env, algorithm, policies, policy_mapping, seed, keywords)
        given |= {"stop": stop} if isinstance(stop, Mapping) else {}
        layers = [*layers_of(config), Layer("code", given)]
        stored = stored_paths(folder) if resume and folder is not None else []
        plan = training_plan(layers, preset, callbacks, stop if callable(stop) else None, own, objects, stored)
    else:
        unused = {"env": env, "algorithm": algorithm, "policies": policies, "policy_mapping": policy_mapping,
                  "callbacks": callbacks, **keywords}  # fmt: skip
        unused = {name: value for name, value in unused.items() if value is not None and value != ()}
        check_keywords(unused, [], "is for trainings, and trainable= is given; arguments of a trainable go into config")
        plan = trainable_plan(trainable, config, stop, seed, own, objects)
    return execute(plan, folder, resume=resume, force=force)


def training_plan(
    layers: Sequence[Layer],
    preset: str,
    callbacks: Sequence[Callback] | Callable[[], Sequence[Callback]],
    stop: StopFunction | None,
    own: Mapping[str, Any],
    objects: Mapping[str, Any],
    stored: Sequence[str] = (),
) -> Plan:
    """Returns the plan for trials that are trainings.

    Args:
        layers: Settings, weakest first, with domains and section ``tune`` among them.
        preset: ``none``, ``auto`` or the name of a preset.
        callbacks: Callbacks, or a function that makes them.
        stop: A function of a result.
        own: Settings of the experiment given in code.
        objects: A search or scheduler given as an object.
        stored: Paths of the space of an experiment that is resumed, which keep their names.
    """
    layers, section = take_section(list(map(read_layer, layers)))
    fixed, undecided = split_layers(layers)
    rename = TrainingJob(fixed, undecided, preset).names(domains_in(undecided), stored)
    renamed = [renamed_layer(layer, rename) for layer in layers]
    layers = [layer for layer, _ in renamed]
    fixed, undecided = split_layers(layers)
    cfg = renamed_keys(settings_of([*section, Layer("code", own)]), ("points",), rename)
    cfg = cfg.replace(scheduler=renamed_keys(cfg.scheduler, ("mutations", "bounds"), rename))
    ends = never_stop if stop is None and hasattr(cfg.scheduler, "max_time") else stop
    seeds = [layer.values["seed"] for layer in fixed if isinstance(layer.values.get("seed"), int)]
    return Plan(
        job=TrainingJob(fixed, undecided, preset, callbacks, ends, minimized_metrics(cfg)),
        cfg=cfg,
        space=domains_in(undecided),
        config=merged_values(layer.values for layer in layers),
        spec=training_spec(layers, preset, {"callbacks": callbacks, "stop": stop}),
        objects=objects,
        seed=seeds[-1] if seeds else None,
        rename=rename,
        notes=() if stored else [note for layer, notes in renamed for note in notes if not layer.stored],
    )


def trainable_plan(
    trainable: Any, config: Any, stop: Any, seed: int | None, own: Mapping[str, Any], objects: Mapping[str, Any]
) -> Plan:
    """Returns the plan for trials of a class or a function; takes the arguments of `run` and `training_plan`."""
    if not isinstance(config, Mapping) and config != ():
        raise ConfigError(f'code: config = {show(config)}: must be a mapping, such as {{"x": tune.uniform(0, 1)}}')
    config = dict(config)
    cfg = settings_of([Layer("code", {"metric": SCORE, **own})])
    ends = directed(stop, minimized_metrics(cfg)) if isinstance(stop, Mapping) else stop or {}
    job = TrainableJob(trainable, config, ends, cfg.save_every)
    check_trainable(trainable, stop, cfg, objects)
    return Plan(job, cfg, domains_in(config), config, trainable_spec(trainable, config, stop), objects, seed)


def settings_of(sections: Sequence[Layer]) -> TuneConfig:
    """Resolves the settings of an experiment from sections ``tune`` of layers, weakest first."""
    refuse(
        f"{layer.source}: {SECTION}.{name} = {show(value)}: settings of the experiment cannot be tuned; give it a value"
        for layer in sections
        for name, value in layer.values.items()
        if name not in ("search", "scheduler") and is_undecided(value)
    )
    refuse(
        f"{layer.source}: {SECTION}.{name} = {chosen}: this is not a {name}; there are {', '.join(known)}"
        for layer in sections
        for name, known, others in (("search", SEARCHES, SCHEDULERS), ("scheduler", SCHEDULERS, SEARCHES))
        if isinstance(part := layer.values.get(name), Mapping) and (chosen := part.get("name")) in others
    )
    whole = [Layer(layer.source, {SECTION: layer.values}, layer.lines) for layer in sections]
    found: TuneConfig = resolve(ExperimentFile, whole, SEARCHES | SCHEDULERS).config.tune
    return found


def minimized_metrics(cfg: TuneConfig) -> tuple[str, ...]:
    """Returns the metrics with mode ``min``; a criterion on one of them is reached from above."""
    judged = zip(*per_metric(cfg.metric, cfg.mode), strict=True)
    return tuple(metric for metric, mode in judged if mode == "min" and metric != cfg.scheduler.time)


def never_stop(result: IterationResult) -> bool:
    """Returns False: the scheduler ends trials, at its `max_time`."""
    return False


def take_section(layers: Sequence[Layer]) -> tuple[list[Layer], list[Layer]]:
    """Returns the layers without section ``tune``, and those sections."""
    rest, sections = [], []
    for layer in layers:
        tree = nested(layer.values)
        if "trainable" in tree:
            raise ConfigError(
                f"{layer.where('trainable')}: trainable = {show(tree['trainable'])}: a file can start trainings only; "
                "rookery tune resume continues such an experiment, and tune.run(trainable=...) begins one"
            )
        if SECTION not in tree:
            rest.append(layer)
            continue
        section = tree.pop(SECTION)
        section = {} if section is None else section  # ``tune:`` with nothing after it
        if not isinstance(section, Mapping | Settings):
            raise ConfigError(f"{layer.where(SECTION)}: {SECTION} = {show(section)}: must be a section of settings")
        rest.append(replace(layer, values=tree))
        sections.append(replace(layer, values=parts_as_mappings(mapping_of(section))))
    return rest, sections


def parts_as_mappings(section: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in which a search or scheduler given by its name, or with domains, is a mapping."""
    parts = dict(section)
    for name in {"search", "scheduler"} & section.keys():
        parts[name] = {"name": parts[name]} if isinstance(parts[name], str) else describe_domains(parts[name])
    return parts


def resume(folder: str | Path, trust_code: TrustCode = False, **changes: Any) -> Analysis:
    """Resumes an experiment: finished trials stay, the others continue from their last checkpoints.

    Args:
        folder: Folder of the experiment.
        trust_code: Whether the experiment of another user may name and run code of any package; or the names that are
            allowed, ``["my.module:Annealing"]`` (docs/trust.md).
        changes: Settings to change: num_samples (more), place, cpus, gpus, max_concurrent, max_failures, max_losses,
            save_every, seconds, console.

    Raises:
        ConfigError: If there is no experiment, it was made with objects that cannot be imported (then use `run` with
            ``resume=True``) or code that is not trusted, or a change is not allowed.
        FileError: If its journal is damaged.
    """
    check_arguments(folder, None, "none", None, {})
    place = absolute(folder)
    records = records_of(place)
    spec = records[0]["spec"]
    if spec["in_code"]:
        raise ConfigError(
            f"{place}: this experiment was made in code, with {', '.join(spec['in_code'])}; run that code again, with "
            "tune.run(..., resume=True)"
        )
    check_experiment(place, records[0], trust_code)
    folders = {"": records[0].get("folder", "")} if is_signed(FILE, records[0]) and records[0].get("folder") else {}
    config = read_layer(Layer(str(place), spec["config"], stored_folders=folders, stored=True))
    wanted = [{"num_samples": record["num_samples"]} for record in records if record["kind"] == "resume"]
    settings = {**records[0]["tune"], **(wanted[-1] if wanted else {}), **changes}
    if spec["trainable"]:
        trainable = TRAINABLE.find(spec["trainable"])
        return run(trainable=trainable, config=config.values, stop=spec["stop"], folder=place, resume=True, **settings)
    return run(config=config, preset=spec["preset"], folder=place, resume=True, **settings)


def execute(plan: Plan, folder: str | Path | None, *, resume: bool, force: bool) -> Analysis:
    """Begins or resumes an experiment, and runs it to its end.

    Args:
        plan: The experiment.
        folder: Folder of all files; None = a new one.
        resume: Whether to resume the experiment in `folder`, if there is one.
        force: Whether to replace the experiment in `folder`.
    """
    job, cfg, space, started = plan.job, plan.cfg, plan.space, starting_folder()
    place = absolute(new_folder(job.title) if folder is None else folder)  # trials may change the working directory
    check_columns(cfg, job.columns)
    if job.repeats_exactly and "search" not in plan.objects:
        check_variety(cfg, space)
    job.check(space)
    before = first_record(place, resume, force)
    drawn = plan.seed if cfg.seed is None else cfg.seed
    record: dict[str, Any] = {
        "kind": "experiment", "version": VERSION, "time": time.time(), "title": job.title,
        "seed": before["seed"] if before else randbits(31) if drawn is None else drawn,
        "trial_seed": before["trial_seed"] if before else plan.seed,
        "space": {path: domain.describe() for path, domain in space.items()},
        "job": job.describe(), "tune": settings_spec(cfg, plan.objects), "spec": dict(plan.spec), "folder": started,
    }  # fmt: skip
    streams = Streams(int(record["seed"]))
    experiment = Experiment(place, cfg, space, streams, record["trial_seed"])
    search = Suggestions(
        plan.objects.get("search", cfg.search), space, experiment.modes, cfg.num_samples, cfg.points, streams,
        plan.config, before["tune"]["num_samples"] if before else None,
    )  # fmt: skip
    fixed = job.fixed(space)
    marked = {path: replace(domain, fixed=path in fixed) for path, domain in space.items()}
    scheduler = plan.objects.get("scheduler") or SCHEDULER.find(cfg.scheduler.scheduler)(cfg.scheduler, marked, streams)
    if before:
        job_before = before["job"]
        if "settings" in job_before:
            job_before = {**job_before, "settings": renamed_tree(job_before["settings"], plan.rename)}
        refuse_changes(place, {**before, "job": job_before}, record)
        check_params(place, read(place), record)
        refuse_links_of_trials(place)
    notes = [*plan.notes, *([] if before or force else move_killed_experiment(place))]
    with closing(make_executor(job, cfg, started)) as executor, closing(Journal(place, anew=not before)) as journal:
        if not before:  # an older experiment is replaced only after all checks
            notes += remove_trials(place)
            journal.append(signed(FILE, record))
            write_file(place / "experiment.yaml", experiment_yaml(record).encode())
            write_experiment(place, record["space"], experiment.metrics)
        survive_lost_output(place / LOG)
        reporter = progress_reporter(cfg.console)
        runner = Runner(experiment, search, scheduler, executor, journal, reporter)
        reporter.start(ExperimentSummary(
            title=job.title, folder=str(place), metrics=experiment.metrics, modes=experiment.modes, scope=cfg.scope,
            total=cfg.num_samples * grid_size(space) * cfg.repeats, cores=0 if cfg.place == "ray" else usable_cores(),
            cpus=cfg.cpus or job.cpus, columns=tuple(job.metrics),
        ))  # fmt: skip
        try:
            for line in notes:
                reporter.note(line)
            runner.run()
        finally:
            runner.state.stop_running()
            reporter.finish(runner.summaries)
    return Analysis(place)


def stored_paths(folder: str | Path) -> list[str]:
    """Returns the paths of the space of the experiment in a folder; none if there is no experiment to resume."""
    place = absolute(folder)
    records = read(place) if (place / FILE).is_file() else []
    return list(records[0]["space"]) if records else []


def first_record(folder: Path, resume: bool, force: bool) -> dict[str, Any] | None:
    """Returns the first record of the experiment in a folder, if it is resumed.

    Raises:
        ConfigError: If the folder holds an experiment that is neither resumed nor replaced, or other files.
        FileError: If its journal is damaged.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"folder = {str(folder)!r}: this is a file; choose another folder")
    there = (folder / FILE).exists() and (folder / FILE).stat().st_size > 0  # empty: killed before it began
    killed = experiment_was_killed_at_start(folder)
    if there and not (resume or force or killed):
        raise ConfigError(
            f"folder = {str(folder)!r}: there is an experiment here already; resume it (rookery tune resume "
            f"{folder}, tune.run(..., resume=True)), replace it (force), or choose another folder"
        )
    is_cut_off = force and (folder / FILE).exists()  # killed while an older experiment was being replaced
    if not there and folder.exists() and not (killed or is_cut_off):
        raise ConfigError(f"folder = {str(folder)!r}: the folder holds other files; choose another folder")
    records = read(folder) if there and resume else []
    return records[0] if records else None


def new_folder(title: str) -> Path:
    """Returns a folder in ``runs/`` that does not exist yet."""
    usual = re.sub(r"[^\w.+-]+", "-", f"tune-{title}")
    names = (usual if number == 1 else f"{usual}-{number}" for number in itertools.count(1))
    return next(RUNS / name for name in names if not (RUNS / name).exists())


def make_executor(job: Job, cfg: TuneConfig, folder: str) -> Executor:
    """Returns the executor: this process if one trial runs at a time and `place` is ``auto``. Other processes begin in
    `folder`.
    """
    cpus = cfg.cpus or job.cpus
    kind = cfg.place
    if kind == "auto":
        kind = "here" if cfg.max_concurrent == 1 or usable_cores() < 2 * cpus or not STARTS_CHILDREN else "processes"
    if kind == "ray" and find_spec("ray") is None:
        raise ConfigError(f"tune.place = ray: Ray is not installed: {install_line('ray')}; processes needs none")
    with started_in(folder, enter=False):
        executor: Executor = import_object(EXECUTORS[kind])(job, cpus, cfg.gpus, cfg.max_concurrent)
    return executor
