"""External environments: `run` requests actions, instead of being stepped.

`run` runs in its own thread. `as_stepped` turns such an environment into a stepped one: the thread waits for each
action. Episodes run one after the other.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

import gymnasium

from rookery.face import ConfigError, EnvError, described, nearest
from rookery_rllib.gym.old_api import ALL

WAIT = 60.0
"""Seconds without an observation after which an episode counts as stuck while another one waits."""


class _Left(BaseException):
    """Raised in the thread of an environment that is closed, to end it."""


class _Episode:
    """An episode of `run`: its latest observation, and the action it waits for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown: queue.Queue[tuple[Any, Any, Any, Any]] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()
        self.reward: Any = 0.0
        self.dones: dict[Any, bool] = {}
        self.info: Any = {}
        self.begun = False
        self.present: set[Any] = set()


class ExternalEnv(threading.Thread):
    """An environment whose `run` starts episodes; they run one after the other, whatever `max_concurrent` is."""

    def __init__(self, action_space: Any, observation_space: Any, max_concurrent: int = 100) -> None:
        super().__init__(daemon=True)
        self.action_space = action_space
        self.observation_space = observation_space
        self._episodes: dict[str, _Episode] = {}
        self._finished: set[str] = set()
        self._begun: queue.Queue[_Episode] = queue.Queue()
        self._failure: BaseException | None = None
        self._closed = False

    def run(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no run(), which plays the episodes")

    def start(self) -> None:
        """Starts `run` in a thread, and stores its exception."""
        played = self.run

        def kept() -> None:
            try:
                played()
            except _Left:
                pass
            except BaseException as error:
                self._failure = error

        self.run = kept  # type: ignore[method-assign]
        super().start()

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Starts an episode; `training_enabled` must be true, because all experience is learned from."""
        if not training_enabled:
            raise ConfigError(
                "start_episode(training_enabled=False): an environment in this process is always learned from; run "
                "such episodes by PolicyClient.start_episode(training_enabled=False), or with trainer.compute_action"
            )
        name = uuid.uuid4().hex if episode_id is None else episode_id
        if name in self._finished or name in self._episodes:
            raise ValueError(f"episode {name} was started before")
        self._episodes[name] = _Episode(name)
        return name

    def get_action(self, episode_id: str, observation: Any) -> Any:
        episode = self._episode(episode_id)
        self._show(episode, observation, done=False)
        action = episode.answers.get()
        if self._closed:
            raise _Left
        return action

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Refuses actions that the policy did not choose."""
        raise ConfigError(
            "ExternalEnv.log_action is not supported: others' actions cannot be learned from online; "
            "ask for actions with get_action, or write others' actions to a file and train from it (config['input'])"
        )

    def log_returns(self, episode_id: str, reward: Any, info: Any = None, multiagent_done_dict: Any = None) -> None:
        episode = self._episode(episode_id)
        self._check_agents(reward, multiagent_done_dict)
        if isinstance(reward, Mapping):
            total = dict(episode.reward) if isinstance(episode.reward, Mapping) else {}
            episode.reward = total | {agent: total.get(agent, 0.0) + one for agent, one in reward.items()}
        else:
            episode.reward += reward
        episode.dones |= dict(multiagent_done_dict or {})
        episode.info = info or episode.info

    def end_episode(self, episode_id: str, observation: Any) -> None:
        episode = self._episode(episode_id)
        self._finished.add(episode.name)
        del self._episodes[episode.name]
        self._show(episode, observation, done=True)

    def _episode(self, name: str) -> _Episode:
        if name not in self._episodes:
            raise ValueError(f"episode {name} {'is over' if name in self._finished else 'was never started'}")
        return self._episodes[name]

    def _show(self, episode: _Episode, observation: Any, done: bool) -> None:
        self._put(episode, observation, done)
        episode.reward = {} if isinstance(episode.reward, Mapping) else 0.0
        episode.info = {}
        if not episode.begun:
            episode.begun = True
            self._begun.put(episode)

    def _put(self, episode: _Episode, observation: Any, done: bool) -> None:
        episode.shown.put((observation, episode.reward, done, episode.info))

    def _check_agents(self, reward: Any, dones: Any) -> None:
        """Refuses rewards by agent for a single agent."""
        if isinstance(reward, Mapping) or dones:
            raise ValueError(
                f"log_returns: {type(self).__name__} has one agent; rewards by agent are for an ExternalMultiAgentEnv"
            )


class ExternalMultiAgentEnv(ExternalEnv):
    """An `ExternalEnv` of several agents: observations, actions and rewards are dicts by agent.

    Agents act when an observation contains them; their rewards are summed up until the next one. An agent that is done
    (``multiagent_done_dict``) does not appear again in the episode, except with its last observation; others may join
    at any time.
    """

    def __init__(self, action_space: Any, observation_space: Any, max_concurrent: int = 100) -> None:
        super().__init__(action_space, observation_space, max_concurrent)
        by_agent = isinstance(action_space, dict), isinstance(observation_space, dict)
        if any(by_agent) and (not all(by_agent) or action_space.keys() != observation_space.keys()):
            raise ValueError(f"agents of the two spaces differ: {action_space} and {observation_space}")
        self._seen: dict[Any, None] = {}  # agents of earlier observations, if the spaces do not name them

    def _put(self, episode: _Episode, observation: Any, done: bool) -> None:
        if not isinstance(observation, Mapping):
            raise ValueError(
                f"{type(self).__name__}: an observation is a {type(observation).__name__}, expected a dict by agent"
            )
        self._refuse_unknown("observation", observation)
        if not isinstance(self.observation_space, dict):
            self._seen |= dict.fromkeys(observation)
        shown = {agent: one for agent, one in observation.items() if agent in episode.present or not done}
        episode.present |= observation.keys()
        paid = episode.reward if isinstance(episode.reward, Mapping) else {}
        over = {agent for agent, ended in episode.dones.items() if ended and agent != ALL}
        infos = {agent: info for agent, info in episode.info.items() if agent in shown}
        episode.shown.put((shown, paid, {**dict.fromkeys(over, True), ALL: done}, infos))
        episode.present -= over
        episode.dones.clear()

    def _check_agents(self, reward: Any, dones: Any) -> None:
        """Refuses rewards and ends of unknown agents, before anything is stored."""
        if not isinstance(reward, Mapping):
            raise ValueError(f"log_returns: reward is {reward!r}, expected a dict by agent")
        self._refuse_unknown("reward", reward)
        self._refuse_unknown("done", dones or {})

    def _refuse_unknown(self, what: str, named: Mapping[Any, Any]) -> None:
        """Raises a ValueError for an agent that is neither in the spaces nor in earlier observations."""
        by_space = isinstance(self.observation_space, dict)
        if not by_space and what == "observation":
            return
        known = [*(self.observation_space if by_space else self._seen)]
        for agent in named:
            if agent not in known and agent != ALL:
                raise ValueError(
                    f"{what} of agent {agent!r}, which is unknown{nearest(str(agent), [*map(str, known)])} "
                    f"(agents: {', '.join(map(str, known)) or 'none so far'})"
                )


class _Stepped:
    """Base of external environments in stepped form."""

    def __init__(self, external: ExternalEnv) -> None:
        self.external = external
        self._now: _Episode | None = None
        self._first: Any = None  # the latest observation, until an action follows

    def _begin(self) -> Any:
        if self._now is not None and self._first is not None:
            return self._first  # no action since, as when an environment is inspected before it runs
        if self._now is not None:
            raise EnvError("an external environment ends its episodes itself: reset() in the middle of one")
        if not self.external.ident:
            self.external.start()
        self._now = self._wait(self.external._begun)
        shown = self._wait(self._now.shown)
        if shown[2] is True or (isinstance(shown[2], Mapping) and shown[2].get(ALL)):
            self._now = None  # over before the first action
            return self._begin()
        self._first = shown
        return shown

    def _go_on(self, action: Any) -> tuple[Any, Any, Any, Any]:
        """Passes an action to the episode and returns its next observation."""
        if self._now is None:
            raise EnvError("an external environment was stepped before reset()")
        self._first = None
        self._now.answers.put(action)
        shown: tuple[Any, Any, Any, Any] = self._wait(self._now.shown)
        if shown[2] is True or (isinstance(shown[2], Mapping) and shown[2].get(ALL)):
            self._now = None
        return shown

    def _wait(self, things: queue.Queue[Any]) -> Any:
        began = time.monotonic()
        while True:
            try:
                return things.get(timeout=0.2)
            except queue.Empty:
                if not self.external.is_alive() and things.empty():
                    cause = self.external._failure
                    why = f"raised {described(cause)}" if cause else "returned, so there are no more episodes"
                    raise EnvError(f"{type(self.external).__name__}.run() {why}") from cause
                if time.monotonic() - began > WAIT and not self.external._begun.empty():
                    name = type(self.external).__name__
                    raise EnvError(
                        f"{name}.run() asks for actions in several episodes at once; run one after the other, and set "
                        "num_envs_per_worker for several environments"
                    ) from None

    def close(self) -> None:
        self.external._closed = True
        for episode in [*self.external._episodes.values()]:
            episode.answers.put(None)


class SteppedExternalEnv(_Stepped, gymnasium.Env[Any, Any]):
    def __init__(self, external: ExternalEnv) -> None:
        super().__init__(external)
        self.observation_space, self.action_space = external.observation_space, external.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Waits for the next episode; the seed has no effect on `run`."""
        obs, _, _, info = self._begin()
        return obs, dict(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, done, info = self._go_on(action)
        return obs, float(reward), bool(done), False, dict(info)


class SteppedExternalMultiAgentEnv(_Stepped):
    """An `ExternalMultiAgentEnv` in dicts by agent, as Rookery's environments of several agents."""

    def __init__(self, external: ExternalMultiAgentEnv) -> None:
        super().__init__(external)
        self.observation_space, self.action_space = external.observation_space, external.action_space
        if isinstance(external.observation_space, dict):
            self.observation_spaces, self.action_spaces = external.observation_space, external.action_space
            self.possible_agents = list(external.observation_space)

    def get_observation_space(self, agent: Any) -> Any:
        space = self.observation_space
        return space[agent] if isinstance(space, dict) else space

    def get_action_space(self, agent: Any) -> Any:
        space = self.action_space
        return space[agent] if isinstance(space, dict) else space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        obs, _, _, info = self._begin()
        return dict(obs), dict(info)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        obs, reward, dones, info = self._go_on(dict(actions))
        reward = reward if isinstance(reward, Mapping) else {}
        return dict(obs), dict(reward), dict(dones), {ALL: False}, dict(info)


def as_stepped(external: ExternalEnv) -> Any:
    """Returns an external environment in stepped form: Gymnasium's form, or dicts by agent."""
    if isinstance(external, ExternalMultiAgentEnv):
        return SteppedExternalMultiAgentEnv(external)
    return SteppedExternalEnv(external)
