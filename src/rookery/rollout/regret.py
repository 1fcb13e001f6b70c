"""Metrics of the regret that environments report, for contextual bandits."""

from __future__ import annotations

from collections.abc import Mapping

from rookery.rollout.hooks import Episode, EpisodeListener

METRICS = ("regret", "cumulative_regret", "relative_regret")
"""Entries of the info of a pull, and names of the metrics."""


class Regret(EpisodeListener):
    """Sets metrics of an episode to entries of the info of its last step: the regret of a pull, the sum over all pulls
    of its environment so far, and this sum relative to that of uniform play (`METRICS`).
    """

    def on_episode_end(self, episode: Episode) -> None:
        """Sets the metrics that the environment reports, averaged over its agents."""
        for name in METRICS:
            found = [float(info[name]) for info in episode.info.values() if isinstance(info, Mapping) and name in info]
            if found:
                episode.metrics[name] = sum(found) / len(found)
