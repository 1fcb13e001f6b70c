"""Remote workers of a run: their recipe, their processes and the checks of their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

import cloudpickle

from rookery.cluster.address import STARTS, guard_own_cluster, will_start_cluster
from rookery.core.config import Resolved
from rookery.core.errors import ConfigError, EnvError, refuse
from rookery.core.packages import install_line
from rookery.core.process.interrupt import Interrupt
from rookery.core.seeding import Streams
from rookery.core.timers import Timers
from rookery.envs.base import SeedPlan, VectorEnv, is_only_one
from rookery.envs.choice import HelperChoice
from rookery.envs.parameters import Draws
from rookery.envs.remote_env_stub import RemoteEnvStub
from rookery.envs.vector.specs import ONLY_HERE, WithSpecs
from rookery.rollout.hooks import EpisodeListener, EpisodeListeners, moments_of
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.remote.hosts import Hosts, LocalHosts
from rookery.rollout.remote.remote_pool import RemotePool
from rookery.rollout.remote.shares import LaneShare, ShareMapping, shares_of
from rookery.rollout.worker import RolloutWorker
from rookery.run.lessons.parameters import training_plan
from rookery.run.settings import RunConfig

CALLS_BESIDE = 4
"""Calls of a worker that may be in flight in addition to requested fragments."""

MakeCopies = Callable[[RunConfig, int, HelperChoice | None], VectorEnv]
"""Makes a number of environments of a run."""


@runtime_checkable
class MakesForShare(Protocol):
    """Environment factory that depends on the worker for which it makes environments."""

    def make_for_share(self, share: LaneShare) -> None:
        """Called with the share of lanes for which it makes environments from now on."""
        ...


@runtime_checkable
class ShareAware(Protocol):
    """Listener or mapping that depends on its share of the lanes."""

    def set_share(self, share: LaneShare, env: VectorEnv) -> None:
        """Called with the share, and with its vectorized environments in this process."""
        ...


@dataclass(frozen=True)
class WorkerRecipe:
    """Recipe of a remote worker; it can be sent to other processes.

    Attributes:
        config: Settings of the run.
        mapping: Policy of each agent.
        streams: Random streams of the run.
        draws: Samplers of environment parameters.
        listeners: Listeners of the worker's episodes.
        make_copies: Makes the environments.
    """

    config: RunConfig
    mapping: PolicyMapping
    streams: Streams
    draws: Draws
    listeners: tuple[EpisodeListener, ...]
    make_copies: MakeCopies

    def __call__(self, share: LaneShare) -> RolloutWorker:
        """Makes the worker of a share, without policies."""
        cfg = self.config
        if isinstance(cfg.env.name, MakesForShare):
            cfg.env.name.make_for_share(share)
        try:
            env = self.make_copies(cfg, share.lanes, worker_choice(cfg))
        except EnvError as error:  # the environment could be built where the run learns
            raise EnvError(f"in a worker (sampling.workers): {error}; {ONLY_HERE}") from error.__cause__
        for part in (self.mapping.rule, *self.listeners):
            if isinstance(part, ShareAware):
                part.set_share(share, env)
        seeds: SeedPlan = training_plan(self.draws, self.streams, share.place)
        worker = RolloutWorker(env, ShareMapping(self.mapping, share), self.streams, seeds, Timers())
        worker.lanes_in_run = cfg.sampling.num_envs
        if any(map(moments_of, self.listeners)):
            worker.listeners = EpisodeListeners(env, self.listeners, seeds)
        return worker


def worker_choice(config: RunConfig) -> HelperChoice:
    """Returns the stepping of a remote worker's environments: in its own process, unless settings require environment
    processes.
    """
    return HelperChoice(config.env.implementation, config.sampling.env_processes or 0)


def remote_env_stub(resolved: Resolved[RunConfig], make_copies: MakeCopies) -> RemoteEnvStub:
    """Returns the placeholder for the workers' environments, described by one that is made here and closed again.

    Raises:
        ConfigError: If workers cannot have this environment, or their settings contradict each other.
    """
    cfg, sampling = resolved.config, resolved.config.sampling
    problems = []
    lanes, workers, group = sampling.num_envs, sampling.workers, sampling.inference_batch_envs or 1
    source = resolved.history["sampling.workers"][-1][0]
    where = f"{source}: sampling.workers = {workers}"
    if workers > -(-lanes // group):
        of = f"groups of {group} environments (sampling.inference_batch_envs)" if group > 1 else "environments"
        problems.append(
            f"{where}: there are only {-(-lanes // group)} {of} to share; use fewer workers, or more sampling.num_envs"
        )
    if sampling.staleness:
        problems.append(f"{where}: sampling.staleness = 1 is for one process; use sampling.asynchronous=true")
    if cfg.device != "cpu" and not cfg.cluster.worker_gpus and cfg.cluster.ray != "here":
        problems.append(
            f"{where}: device = {cfg.device}: workers run the policy on its device, and have no GPU; set "
            "cluster.worker_gpus=0.25, for example, so that four share one"
        )
    if cfg.self_play:
        problems.append(f"{where}: self_play is played in this process only; set sampling.workers=0")
    refuse(problems)
    with closing(make_copies(cfg, 1, worker_choice(cfg))) as copy:
        if is_only_one(copy):
            raise ConfigError(f"{where}: only one process can have environments of {copy.name}; set sampling.workers=0")
        return RemoteEnvStub(copy, lanes)


def notes_of_workers(resolved: Resolved[RunConfig], env: VectorEnv) -> list[str]:
    """Returns notes on changed settings that only remote workers use, where the run has none.

    Raises:
        ConfigError: If evaluation workers cannot have this environment, its opponents or the device.
    """
    config, notes = resolved.config, []
    evaluation, workers = config.evaluation, config.evaluation.workers
    paths = ("sampling.asynchronous", "sampling.max_policy_lag", "sampling.max_requests_in_flight", "cluster.ray",
             "cluster.worker_gpus")  # fmt: skip
    usual = RunConfig()  # the configuration file of a run sets defaults too
    given = [path for path in paths if attrgetter(path)(config) != attrgetter(path)(usual)]
    if workers or config.cluster.learners > 1:
        given = [path for path in given if path.startswith("sampling")]
    if workers:
        where = f"{resolved.history['evaluation.workers'][-1][0]}: evaluation.workers = {workers}"
        if is_only_one(env):
            raise ConfigError(
                f"{where}: only one process can have environments of {env.name}; set evaluation.workers=0"
            )
        if config.self_play:
            raise ConfigError(f"{where}: self_play is measured in this process only; set evaluation.workers=0")
        if config.device != "cpu" and not config.cluster.worker_gpus and config.cluster.ray != "here":
            raise ConfigError(
                f"{where}: device = {config.device}: policies act on this device, and workers have no GPU; set "
                "cluster.worker_gpus=0.25, for example, so that four share one"
            )
        copies = min(evaluation.episodes, evaluation.num_envs)
        if not evaluation.every:
            notes.append("evaluation.workers: without effect, because evaluation.every = 0: nothing is evaluated")
        elif workers > copies:
            notes.append(
                f"{where}: only {copies} environments to share (evaluation.num_envs): as many workers evaluate"
            )
    if given and not config.sampling.workers:
        notes.append(f"{', '.join(given)}: without effect, because sampling.workers = 0: this process samples alone")
    return notes


def start_remote_workers(
    recipe: WorkerRecipe, env: RemoteEnvStub, timers: Timers, interrupt: Interrupt, note: Callable[[str], None]
) -> RemotePool:
    """Starts the workers of a run, without policies.

    Args:
        recipe: Recipe of a worker.
        env: Placeholder for the environment here.
        timers: Timers of the run.
        interrupt: Ends sampling early.
        note: Called with a line that a user should read once.

    Raises:
        ConfigError: If the recipe cannot be sent, or there is no cluster.
    """
    config, mapping = recipe.config, recipe.mapping
    sampling = config.sampling
    check_can_be_sent(recipe)
    shares = shares_of(sampling.num_envs, sampling.workers, sampling.inference_batch_envs or 1)
    if sampling.asynchronous or not mapping.is_static:
        env.exact = False
    hosts = hosts_of(config, sampling.workers, "sampling.workers", note)
    try:
        return RemotePool(
            hosts,
            shares,
            WithSpecs(recipe, config.env),
            env,
            timers,
            interrupt,
            inference_batch_envs=sampling.inference_batch_envs,
            asynchronous=sampling.asynchronous,
            max_requests_in_flight=sampling.max_requests_in_flight,
            max_policy_lag=sampling.max_policy_lag,
            max_losses=sampling.max_restarts,
            note=note,
        )
    except BaseException:
        hosts.close()
        raise


def hosts_of(config: RunConfig, count: int, setting: str, note: Callable[[str], None]) -> Hosts:
    """Returns the processes for workers.

    Args:
        config: Settings of the run.
        count: Number of workers.
        setting: The setting of this number, for messages.
        note: Called with a line that a user should read once.

    Raises:
        ConfigError: If there is no cluster, or it has no room for a worker.
    """
    cluster = config.cluster
    each, counts = cluster.workers_per_process, (config.sampling.workers, config.evaluation.workers)
    if cluster.ray == "here":
        return LocalHosts()
    guard_own_cluster(cluster.ray)
    instead = "set sampling.workers=0, and sampling.env_processes to step copies in processes of this machine"
    if setting != "sampling.workers":
        instead = f"set {setting}=0"
    try:
        from rookery.cluster.ray_hosts import Patience, RayHosts
    except ImportError as error:
        raise ConfigError(
            f"{setting} = {count} needs Ray, which is not installed here ({error}): {install_line('ray')}; or {instead}"
        ) from error
    if config.logging.console != "quiet" and will_start_cluster(cluster.ray):
        note(STARTS)
    return RayHosts(
        cluster.ray,
        count,
        each=each,
        calls=config.sampling.max_requests_in_flight + CALLS_BESIDE,
        cpus=cluster.worker_cpus,
        gpus=cluster.worker_gpus,
        spread=cluster.placement == "spread",
        environment=cluster.environment,
        working_directory=cluster.working_directory,
        note=note,
        cores=cluster.worker_cpus * sum(-(-number // each) * each for number in counts),
        instead=f"{setting}=0 needs no Ray",
        patience=Patience(config.sampling.step_timeout_seconds, config.sampling.reset_timeout_seconds),
    )


def check_can_be_sent(recipe: WorkerRecipe) -> None:
    """Refuses a recipe that cannot be pickled.

    Raises:
        ConfigError: Names the part, the attribute inside, and the reason.
    """
    env = recipe.config.env
    parts = {
        "env.name": env.name,
        "env.config": env.config,
        "env.wrappers": env.wrappers,
        "policy_mapping": recipe.mapping.rule,
        "callbacks": recipe.listeners,
    }
    try:
        cloudpickle.dumps(recipe)
        return
    except Exception as error:  # an object may raise anything when it is pickled
        whole = error
    for path, part in parts.items():
        found = unsendable(part, path)
        if found is not None:
            raise ConfigError(
                f"{found[0]}: it cannot be sent to workers (sampling.workers): {type(found[1]).__name__}: {found[1]}; "
                "make it where it is used, in the environment's constructor, or set sampling.workers=0"
            ) from whole
    raise ConfigError(f"sampling.workers: the run cannot be sent to workers: {whole}") from whole


def unsendable(value: Any, path: str, depth: int = 6) -> tuple[str, Exception] | None:
    """Returns the path of the innermost part of a value that cannot be pickled, and the error; None if all can."""
    try:
        cloudpickle.dumps(value)
        return None
    except Exception as error:
        raised = error
    inside: dict[str, Any] = {}
    if isinstance(value, Mapping):
        inside = {f"{path}.{key}": part for key, part in value.items()}
    elif isinstance(value, list | tuple):
        inside = {f"{path}[{number}]": part for number, part in enumerate(value)}
    else:
        inside = {f"{path}.{name}": part for name, part in getattr(value, "__dict__", {}).items()}
        cells = getattr(value, "__closure__", None) or ()
        names = getattr(getattr(value, "__code__", None), "co_freevars", ())
        inside |= {f"{path}, its variable {name}": cell.cell_contents for name, cell in zip(names, cells, strict=True)}
    for where, part in inside.items() if depth else ():
        found = unsendable(part, where, depth - 1)
        if found is not None:
            return found
    return path, raised
