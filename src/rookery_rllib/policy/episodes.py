"""Episodes for callbacks of 2021: MultiAgentEpisode, a view of an episode of Rookery."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from rookery.face import AGENT, Episode
from rookery_rllib.env.observing import Rewrite
from rookery_rllib.model.preprocessors import RowPreprocessor

SINGLE = "agent0"
"""RLlib's id of the agent of a single-agent environment."""


class _Collectors:
    """The latest rows of an episode by policy, in the form of RLlib's collectors."""

    def __init__(self, episode: MultiAgentEpisode) -> None:
        self._episode = episode

    @property
    def policy_collectors(self) -> dict[str, SimpleNamespace]:
        """By policy an object whose `buffers` has a list with one value per agent for each column."""
        episode = self._episode
        found: dict[str, SimpleNamespace] = {}
        for agent in episode.get_agents():
            row = {
                "obs": episode.last_observation_for(agent),
                "actions": episode.last_action_for(agent),
                "rewards": episode.prev_reward_for(agent),
                "infos": episode.last_info_for(agent),
                "dones": episode.is_over,
            }
            policy = found.setdefault(episode.policy_for(agent), SimpleNamespace(buffers={}))
            for column, value in row.items():
                policy.buffers.setdefault(column, []).append(value)
        return found


class MultiAgentEpisode:
    """An episode of one environment; a single agent has the id ``agent0``.

    If no callback has an ``on_episode_step``, an episode is filled in at its end only.
    """

    soft_reset = None
    is_over = False

    def __init__(self, env_id: int, policies: Mapping[str, Any], policy_of: Callable[[Any], str], worker: Any) -> None:
        self.user_data: dict[str, Any] = {}
        self.custom_metrics: dict[str, Any] = {}
        self.hist_data: dict[str, list[Any]] = {}
        self.media: dict[str, Any] = {}
        self.length = 0
        self.total_reward = 0.0
        self.agent_rewards: dict[tuple[Any, str], float] = {}
        self.episode_id = random.randrange(2_000_000_000)
        self.env_id = env_id
        self.worker = worker
        self._policies = policies
        self._policy_of = policy_of
        self.batch_builder = _Collectors(self)
        self._seen: Episode | None = None
        self._actions: dict[Any, Any] = {}
        self._actions_before: dict[Any, Any] = {}

    def follow(self, episode: Episode) -> None:
        """Updates the episode; called before each hook."""
        self._seen = episode
        if episode.length > self.length:
            self._actions_before, self._actions = self._actions, dict(episode.action)
        self.length = episode.length
        self.agent_rewards = {
            (self._own_id(agent), self.policy_for(agent)): value for agent, value in episode.returns.items()
        }
        self.total_reward = sum(episode.returns.values())

    def policy_for(self, agent_id: Any = SINGLE) -> str:
        return self._policy_of(agent_id)

    def get_agents(self) -> list[Any]:
        return [self._own_id(agent) for agent in {**self.played.obs, **self.played.returns}]

    def _key(self, agent_id: Any) -> Any:
        """Returns Rookery's id of an agent, which differs for a single agent."""
        return AGENT if agent_id == SINGLE and self._is_single else str(agent_id)

    def _own_id(self, agent: Any) -> Any:
        return SINGLE if agent == AGENT and self._is_single else self.worker.agent_ids(agent)

    @property
    def _is_single(self) -> bool:
        known = {*self.played.obs, *self.played.returns}
        return known <= {AGENT} and not self.worker.is_multi_agent

    @property
    def played(self) -> Episode:
        assert self._seen is not None
        return self._seen

    def prev_reward_for(self, agent_id: Any = SINGLE) -> float:
        return self.played.reward.get(self._key(agent_id), 0.0)

    def last_raw_obs_for(self, agent_id: Any = SINGLE) -> Any:
        tree = self.played.obs.get(self._key(agent_id))
        return None if tree is None else observation_of(self._space(agent_id), tree)

    def last_observation_for(self, agent_id: Any = SINGLE) -> Any:
        tree = self.played.obs.get(self._key(agent_id))
        if tree is None:
            return None
        return RowPreprocessor(self._space(agent_id)).rows({path: leaf[None] for path, leaf in tree.items()})[0]

    def _space(self, agent_id: Any) -> Space[Any]:
        space: Space[Any] = self._policies[self.policy_for(agent_id)].raw_observation_space
        return space

    def last_info_for(self, agent_id: Any = SINGLE) -> Any:
        infos = self.played.info
        return infos.get(self._key(agent_id), {})

    def last_action_for(self, agent_id: Any = SINGLE) -> Any:
        return self._actions.get(self._key(agent_id))

    def prev_action_for(self, agent_id: Any = SINGLE) -> Any:
        return self._actions_before.get(self._key(agent_id))

    def rnn_state_for(self, agent_id: Any = SINGLE) -> list[Any]:
        """Returns an empty list: memory is stored in the sampling loop."""
        return []

    def last_pi_info_for(self, agent_id: Any = SINGLE) -> dict[str, Any]:
        """Returns an empty dict: further outputs of policies are not stored."""
        return {}


def observation_of(space: Space[Any], tree: Mapping[str, Any], path: str = "") -> Any:
    """Returns an observation in the form of its space."""
    if isinstance(space, Dict | Tuple):
        items = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        found = {key: observation_of(part, tree, f"{path}/{key}" if path else str(key)) for key, part in items}
        return found if isinstance(space, Dict) else tuple(found.values())
    value = tree[path or "obs"]
    if isinstance(space, Discrete):
        return int(value.reshape(-1)[0]) + int(space.start)
    if isinstance(space, MultiDiscrete | Box):
        return value.reshape(space.shape).astype(space.dtype)
    return value


def rewriting(trainer: Any, function: Callable[..., dict[Any, Any]]) -> Rewrite:
    """Returns a function that calls a script's `observation_fn` with worker, environments, policies and episode."""

    def rewrite(obs: dict[Any, Any], lane: int, begins: bool) -> dict[Any, Any]:
        worker, policies = trainer.workers.local_worker(), trainer.policy_facades
        episode = None if begins else trainer.book.running.get(lane)
        if episode is None:
            episode = MultiAgentEpisode(lane, policies, lambda agent: trainer.policy_of(lane, 0, agent), worker)
        return function(agent_obs=obs, worker=worker, base_env=worker.base_env, policies=policies, episode=episode)

    return rewrite
