"""Policies and their agents as in scripts of 2021, and agents by the ids of their environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rookery.face import EpisodeInfo, LaneShare, Streams, VectorEnv


class PolicySpec(NamedTuple):
    """A policy of ``multiagent.policies``; the spaces are those of its agents if they are None.

    Attributes:
        policy_class: Its class; None = that of the trainer.
        observation_space: Observation space.
        action_space: Action space.
        config: Keys that differ from those of the trainer.
    """

    policy_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    config: Mapping[str, Any] | None = None


class AgentIds:
    """Maps Rookery's text id of an agent to the environment's own id, which may be a number.

    Args:
        known: Agents that have been seen.

    Attributes:
        env: The vectorized environments, which know further agents.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._ids: dict[str, Any] = {str(agent): agent for agent in known}
        self.env: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for another process, without the environments."""
        return {**self.__dict__, "env": None}

    def __call__(self, name: str) -> Any:
        """Returns the environment's id of an agent; the text itself if it is unknown."""
        if name not in self._ids:
            for ids in getattr(getattr(self.env, "agents", None), "ids", ()):
                self._ids.update((str(agent), agent) for agent in ids)
        return self._ids.get(name, name)


class EpisodeName(str):
    """Number of an episode as a text whose hash is that number, so that ``hash(episode.id_) % 2`` repeats."""

    __slots__ = ()

    def __hash__(self) -> int:
        """Returns the number."""
        return int(self)


def episode_number(lane: int, index: int) -> int:
    """Returns the id of an episode of an environment, a number below 2**32, odd or even by chance."""
    return int(np.random.SeedSequence((lane, index)).generate_state(1)[0])


class MappedEpisode(EpisodeInfo):
    """Episode for the mapping function of a script, with the ids that callbacks have of it."""

    @property
    def episode_id(self) -> int:
        return episode_number(self.lane, self.index)

    @property
    def id_(self) -> str:
        return EpisodeName(self.episode_id)

    @property
    def env_id(self) -> int:
        return self.lane


FIRST_EPISODE = MappedEpisode(0, 0, Streams(0))
"""Stands for an episode where a mapping function is called before any begins."""


class RecordedMapping:
    """Mapping function that records its answers for callbacks.

    Args:
        rule: ``(agent, episode) -> policy``.
        agent_ids: Maps agents to the ids of their environment.
        spaces: Observation and action space by policy; policies with both can be made before an agent appears.

    Attributes:
        latest: Answers of the latest episodes, by copy, number of the episode and agent.
    """

    def __init__(
        self,
        rule: Callable[[Any, Any], str],
        agent_ids: AgentIds,
        spaces: Mapping[str, tuple[Any, Any]],
    ) -> None:
        self._rule, self._agent_ids = rule, agent_ids
        self.spaces = {name: pair for name, pair in spaces.items() if None not in pair}
        self.latest: dict[int, dict[int, dict[str, str]]] = {}

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        given = MappedEpisode(episode.lane, episode.index, episode.streams, episode.parameters)
        policy = self._rule(self._agent_ids(agent), given)
        by_index = self.latest.setdefault(episode.lane, {})
        if episode.index not in by_index:
            for old in [index for index in by_index if index < episode.index - 1]:
                del by_index[old]
            by_index[episode.index] = {}
        by_index[episode.index][agent] = policy
        return policy

    def set_share(self, share: LaneShare, env: VectorEnv) -> None:
        """Uses the environments of a cluster worker to look up agents."""
        self._agent_ids.env = env

    def players(self, policy: str) -> set[str]:
        episodes = [known for by_index in self.latest.values() for known in by_index.values()]
        return {agent for known in episodes for agent, name in known.items() if name == policy}

    def recorded(self, lane: int, index: int, agent: Any) -> str | None:
        """Returns the policy of an agent in an episode of an environment; None if it was not requested."""
        return self.latest.get(lane, {}).get(index, {}).get(str(agent))

    @staticmethod
    def record_separately(mapping: RecordedMapping | None) -> Callable[[], None]:
        """Records separately from here on, for episodes that run in parallel to others; returns a function that ends
        this.
        """
        if mapping is None:
            return lambda: None
        known, mapping.latest = mapping.latest, {}
        return lambda: setattr(mapping, "latest", known)
