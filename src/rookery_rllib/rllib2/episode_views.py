"""Episodes for callbacks of RLlib 2.x: a view of an episode of 2021, which scripts of 2.0 to 2.9 use as it is."""

from __future__ import annotations

import time
from typing import Any

from rookery_rllib.env.agent_mapping import EpisodeName
from rookery_rllib.policy.episodes import SINGLE, MultiAgentEpisode


class EpisodeView:
    """An episode with the methods of `SingleAgentEpisode`, of `MultiAgentEpisode` and of the episodes of 2.0 to 2.9.

    The last observation of an episode that ended by termination is not kept: ``get_observations(-1)`` is then the one
    before.

    Args:
        episode: The episode as of 2021; its attributes are attributes of the view, too.
        one: The agent, for a view of one agent of several; None = the whole episode.
    """

    def __init__(self, episode: MultiAgentEpisode, one: Any = None) -> None:
        self._episode, self._one = episode, one
        self.custom_data = episode.user_data if one is None else {}
        self._began = time.perf_counter()
        self._steps: list[dict[str, dict[Any, Any]]] = []
        self._recorded = -1

    def record(self) -> None:
        """Adds the latest step, with those before it left out if nothing followed them."""
        episode = self._episode
        if episode.length == self._recorded:
            return
        self._recorded = episode.length
        agents = episode.get_agents()
        first = not episode.length
        self._steps.append(
            {
                "observations": {each: episode.last_raw_obs_for(each) for each in agents if self._has_obs(each)},
                "infos": {each: episode.last_info_for(each) for each in agents},
                "actions": {} if first else {each: episode.last_action_for(each) for each in agents},
                "rewards": {} if first else {each: episode.prev_reward_for(each) for each in agents},
            }
        )

    def _has_obs(self, agent: Any) -> bool:
        return self._episode.last_raw_obs_for(agent) is not None

    @property
    def _is_single(self) -> bool:
        return self._one is not None or set(self._episode.get_agents()) <= {SINGLE}

    @property
    def _agent(self) -> Any:
        return SINGLE if self._one is None else self._one

    def _column(self, name: str, indices: Any) -> Any:
        steps = [step[name] for step in self._steps if step[name] or not self._is_single]
        if self._is_single:
            steps = [step[self._agent] for step in steps if self._agent in step]
        if indices is None:
            return steps if self._is_single else _by_agent(steps)
        if isinstance(indices, list | tuple):
            return [steps[place] for place in indices]
        return steps[indices]

    def get_observations(self, indices: Any = None, agent_ids: Any = None, **others: Any) -> Any:
        """Returns observations: all, or those at indices from the start; by agent, if there are several."""
        return self._column("observations", indices)

    def get_infos(self, indices: Any = None, agent_ids: Any = None, **others: Any) -> Any:
        return self._column("infos", indices)

    def get_actions(self, indices: Any = None, agent_ids: Any = None, **others: Any) -> Any:
        return self._column("actions", indices)

    def get_rewards(self, indices: Any = None, agent_ids: Any = None, **others: Any) -> Any:
        return self._column("rewards", indices)

    def get_return(self, **others: Any) -> float:
        if self._one is None:
            return float(self._episode.total_reward)
        return float(sum(value for (agent, _), value in self._episode.agent_rewards.items() if agent == self._one))

    @property
    def observations(self) -> Any:
        return self.get_observations()

    @property
    def actions(self) -> Any:
        return self.get_actions()

    @property
    def rewards(self) -> Any:
        return self.get_rewards()

    @property
    def infos(self) -> Any:
        return self.get_infos()

    def __len__(self) -> int:
        return self._episode.length

    env_steps = agent_steps = __len__

    def get_duration_s(self) -> float:
        return time.perf_counter() - self._began

    @property
    def id_(self) -> str:
        return EpisodeName(self._episode.episode_id)

    @property
    def is_done(self) -> bool:
        return self._episode.is_over

    @property
    def is_truncated(self) -> bool:
        return self.is_done and any(map(self._has_obs, self._episode.get_agents()))

    @property
    def is_terminated(self) -> bool:
        return self.is_done and not self.is_truncated

    @property
    def agent_ids(self) -> set[Any]:
        return set(self._episode.get_agents())

    @property
    def agent_episodes(self) -> dict[Any, EpisodeView]:
        """A view of each agent."""
        found = {agent: EpisodeView(self._episode, agent) for agent in self._episode.get_agents()}
        for view in found.values():
            view._steps = self._steps
        return found

    def module_for(self, agent_id: Any = SINGLE) -> str:
        return self._episode.policy_for(agent_id)

    @property
    def module_id(self) -> str:
        return self.module_for(self._agent)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_episode"], name)


def view_of(episode: MultiAgentEpisode) -> EpisodeView:
    """Returns the view of an episode, always the same one."""
    known = vars(episode).get("later_view")
    if known is None:
        known = vars(episode)["later_view"] = EpisodeView(episode)
    return known


def _by_agent(steps: list[dict[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for step in steps:
        for agent, value in step.items():
            found.setdefault(agent, []).append(value)
    return found
