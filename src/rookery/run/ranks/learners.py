"""Learners of a run: starts the other ranks, and refuses settings that several learners cannot use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cloudpickle

from rookery.algorithms.capabilities import algorithms_with, one_of, supports_multi_learner
from rookery.cluster.address import AUTO, STARTS, guard_own_cluster, will_start_cluster
from rookery.cluster.local_ranks import LocalRanks
from rookery.cluster.ranks import Ranks
from rookery.cluster.torchrun import meet_started, started
from rookery.core.errors import ConfigError
from rookery.core.packages import install_line
from rookery.core.settings.layers import Layer
from rookery.envs.base import VectorEnv, is_only_one
from rookery.envs.vector.specs import WithSpecs
from rookery.report.console import reporter
from rookery.rollout.hooks import EpisodeListener
from rookery.run.settings import RunConfig, algorithm_name

MODULE = "rookery.run.ranks.rank_process"
"""Module that another learner runs; see its function `serve`."""


@dataclass(frozen=True)
class RankTask:
    """Arguments of the trainer of another rank.

    Attributes:
        layers: Settings as the user gave them.
        preset: Name of the preset.
        callbacks: Callbacks; other ranks have copies of them.
    """

    layers: list[Layer]
    preset: str
    callbacks: Sequence[EpisodeListener]


def check_learners(config: RunConfig, ranks: Ranks) -> None:
    """Refuses settings that do not work with several learners.

    Raises:
        ConfigError: Names the setting, and the replacement.
    """
    learners, lanes = config.cluster.learners, config.sampling.num_envs
    where = f"cluster.learners = {learners}"
    if ranks.size not in (1, learners):
        raise ConfigError(f"{where}: the run has {ranks.size} learner(s); write cluster.learners={ranks.size}")
    if learners == 1:
        return
    if lanes < learners:
        raise ConfigError(f"{where}: sampling.num_envs = {lanes} are too few; each learner needs one at least")
    if lanes % learners:
        fit = -(-lanes // learners) * learners
        raise ConfigError(f"{where}: sampling.num_envs = {lanes} cannot be shared equally; write num_envs={fit}")
    for path, value, why in (
        ("self_play", config.self_play, "opponents are drawn for the environments of one learner"),
        ("curriculum", config.curriculum, "lessons end by the episodes of one learner"),
        ("sampling.workers", config.sampling.workers, "each learner samples its own share, in step with the others"),
        (
            "sampling.asynchronous",
            config.sampling.asynchronous,
            "they sample in step; sampling.staleness=1 samples ahead",
        ),
    ):
        if value:
            raise ConfigError(f"{where}: {path} does not work with several learners: {why}; leave it out, or use one")
    own = {f"policies.{name}": entry.algorithm for name, entry in config.policies.items() if not entry.frozen}
    for path, settings in (own or {"algorithm": config.algorithm}).items():
        if not supports_multi_learner(type(settings)):
            raise ConfigError(
                f"{where}: {path}.name = {algorithm_name(settings)} does not support several learners; use "
                f"{one_of(algorithms_with(supports_multi_learner=True))}"
            )
        if getattr(getattr(settings, "critic", None), "norm", "") == "batch":
            raise ConfigError(
                f"{where}: {path}.critic.norm = batch: each learner would normalize by its own rows; set "
                f"{path}.critic.norm=none or layer"
            )
        replay = getattr(settings, "replay", None)
        if getattr(replay, "kind", "") == "prioritized" and getattr(replay, "mix", {}):
            raise ConfigError(
                f"{where}: {path}.replay.mix with replay.kind = prioritized: each learner would weight rows of several "
                f"buffers by itself; set {path}.replay.kind=uniform, or leave mix out"
            )


def learners_of(config: RunConfig, task: RankTask, ranks: Ranks, stand_in: VectorEnv | None) -> Ranks:
    """Returns the learners of a run; starts the others if there is only one and settings require more.

    Args:
        config: Settings of the run.
        task: Arguments of the other trainers.
        ranks: The existing learners.
        stand_in: Existing vectorized environments; such a trainer has no other learners.

    Raises:
        ConfigError: If the settings do not work with several learners, or the task cannot be sent.
        TrainingError: If a learner does not start.
    """
    if stand_in is not None:
        return ranks
    size = started()[1]
    if ranks.size == 1 < size:
        if size != config.cluster.learners:
            raise ConfigError(
                f"cluster.learners = {config.cluster.learners}: torchrun has started {size} processes, each a "
                f"learner; write cluster.learners={size}"
            )
        check_learners(config, ranks)
        return meet_started()
    check_learners(config, ranks)
    if ranks.size == config.cluster.learners:
        return ranks
    try:
        cloudpickle.dumps(task)
    except Exception as error:  # an object may raise anything when it is pickled
        raise ConfigError(
            f"cluster.learners = {config.cluster.learners}: the run cannot be sent to other processes "
            f"({type(error).__name__}: {error}); make such objects in the environment's constructor, or set it to 1"
        ) from error
    return _others(config, task)


def _others(config: RunConfig, task: RankTask) -> Ranks:
    """Starts the other learners: on this machine, or on the Ray cluster that is named."""
    cluster, sent = config.cluster, WithSpecs(task, task.layers)
    if cluster.ray in (AUTO, "here"):
        return LocalRanks(MODULE, sent, cluster.learners)
    if config.device != "cpu" and not cluster.worker_gpus:
        raise ConfigError(
            f"cluster.learners = {cluster.learners} on cluster.ray = {cluster.ray}: device = {config.device}, and the "
            "others have no GPU; set cluster.worker_gpus=1, or 0.25, so that four share one"
        )
    guard_own_cluster(cluster.ray)
    try:
        from rookery.cluster.ray_ranks import RayRanks
    except ImportError as error:
        raise ConfigError(
            f"cluster.learners = {cluster.learners} on cluster.ray = {cluster.ray} needs Ray, which is not installed "
            f"here ({error}): {install_line('ray')}; or set cluster.ray=auto to use learners on this machine"
        ) from error
    if config.logging.console != "quiet" and will_start_cluster(cluster.ray):
        reporter(config.logging.console).note(STARTS)
    return RayRanks(
        MODULE,
        sent,
        cluster.learners,
        address=cluster.ray,
        cpus=cluster.worker_cpus,
        gpus=cluster.worker_gpus,
        spread=cluster.placement == "spread",
        environment=cluster.environment,
        working_directory=cluster.working_directory,
    )


def check_copies(env: VectorEnv, ranks: Ranks) -> None:
    """Refuses environments that only one process can have.

    Raises:
        ConfigError: If the environment is such a one, and there are several learners.
    """
    if ranks.size > 1 and is_only_one(env):
        raise ConfigError(
            f"cluster.learners = {ranks.size}: only one process can have the environments of {env.name}; write "
            "cluster.learners=1"
        )
