"""Share of episodes that end with their goal reached, in environments with goals."""

from __future__ import annotations

from collections.abc import Mapping

from rookery.core.spaces.goals import goal_leaves
from rookery.envs.base import VectorEnv
from rookery.rollout.hooks import Episode, EpisodeListener

SUCCESS = "success_rate"
"""Name of the metric."""


class GoalSuccess(EpisodeListener):
    """Sets the metric `SUCCESS` of an episode: the share of its agents with ``info["is_success"]`` in the last step."""

    def on_episode_end(self, episode: Episode) -> None:
        """Sets the metric, if an agent has this info."""
        infos = [info for info in episode.info.values() if isinstance(info, Mapping) and "is_success" in info]
        if infos:
            episode.metrics[SUCCESS] = sum(bool(info["is_success"]) for info in infos) / len(infos)


def success_listeners(env: VectorEnv) -> list[EpisodeListener]:
    """Returns a `GoalSuccess` for environments with goals, and none for others."""
    return [GoalSuccess()] if any(goal_leaves(kind.obs) for kind in env.kinds) else []
