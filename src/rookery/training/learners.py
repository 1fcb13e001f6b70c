"""What a run on several learners needs, and what is refused because it cannot be one."""

from __future__ import annotations

from rookery.cluster.ranks import Ranks
from rookery.core.errors import ConfigError
from rookery.envs.base import VectorEnv
from rookery.training.settings import RunConfig, algorithm_name


def check_learners(config: RunConfig, ranks: Ranks) -> None:
    """Refuses what cannot be learned by several learners.

    Raises:
        ConfigError: Says which setting, and what to write instead.
    """
    learners, lanes = config.cluster.learners, config.sampling.num_envs
    where = f"cluster.learners = {learners}"
    if ranks.size != learners:
        raise ConfigError(f"{where}: {ranks.size} learner(s) are there; write cluster.learners={ranks.size}")
    if learners == 1:
        return
    if lanes < learners:
        raise ConfigError(f"{where}: sampling.num_envs = {lanes} copies are too few; give each learner one at least")
    if lanes % learners:
        fit = -(-lanes // learners) * learners
        raise ConfigError(f"{where}: sampling.num_envs = {lanes} copies cannot be shared equally; write num_envs={fit}")
    for path, value in (
        ("self_play", config.self_play), ("curriculum", config.curriculum),
        ("sampling.staleness", config.sampling.staleness), ("sampling.workers", config.sampling.workers),
        ("sampling.asynchronous", config.sampling.asynchronous), ("evaluation.every", config.evaluation.every),
    ):  # fmt: skip
        if value:
            raise ConfigError(f"{where}: {path} is not agreed upon by several learners; leave it out or learn on one")
    if len(config.policies) > 1:
        raise ConfigError(f"{where}: several policies do not learn in step; write cluster.learners=1")
    settings = next((entry.algorithm for entry in config.policies.values()), config.algorithm)
    if not vars(type(settings)).get("learns_together"):  # what derives from one that does may agree on less
        name = algorithm_name(settings)
        raise ConfigError(f"{where}: of {name} learners do not agree on everything; use one of PPO, SAC, DQN")
    if getattr(settings, "minibatch_size", None) is not None and getattr(settings, "batch_size", None) is not None:
        raise ConfigError(f"{where}: algorithm.batch_size is counted by each; leave it out and set fragment_length")
    if getattr(getattr(settings, "replay", None), "kind", "") == "prioritized":
        raise ConfigError(f"{where}: priorities are weighed by each learner alone; set algorithm.replay.kind=uniform")


def lanes_of(config: RunConfig, ranks: Ranks) -> int:
    """Returns how many copies this learner plays, if learners can learn together as settings say."""
    check_learners(config, ranks)
    return ranks.share(config.sampling.num_envs)[1]


def check_agents(env: VectorEnv, ranks: Ranks) -> None:
    """Refuses environments whose lanes are not all on turn in every step.

    Raises:
        ConfigError: If there are more agents than one, or copies keep their own clocks.
    """
    if ranks.size > 1 and (len(env.kinds) > 1 or len(env.kinds[0].agents) > 1):
        raise ConfigError(
            f"cluster.learners = {ranks.size}: {env.name} has several agents, which do not learn in step; write 1"
        )
