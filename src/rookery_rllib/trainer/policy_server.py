"""Policy serving for external simulators: `PolicyServerInput` in a configuration, `PolicyClient` in a simulator.

Both use Rookery's external environments. The protocol is Rookery's, and a token is needed; a server without one writes
a new one to a file of its user, where clients of that user find it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rookery.face import ALL, SCHEME, TOKEN, Client, ConfigError, EpisodeLost, space_to_json
from rookery_rllib.base.notices import say_once
from rookery_rllib.batch.offline import InputReader, IOContext
from rookery_rllib.config.translation import policies_of
from rookery_rllib.env.agent_mapping import FIRST_EPISODE
from rookery_rllib.env.making import creator_of
from rookery_rllib.gym.old_envs import adapted, speaks_in_dicts
from rookery_rllib.gym.old_ids import CurrentId

ANY = "#"
"""Last character of the name of any number of agents; each agent's name contains it."""

EPISODES_AT_ONCE = 16
"""Limit of concurrent episodes of a trainer's clients; further ones wait."""


def token_file(port: int) -> Path:
    """Returns the file of this user that holds the token of a port."""
    return Path.home() / ".cache" / "rookery" / f"external-{port}.token"


class PolicyServerInput:
    """External clients as input: ``"input": lambda ioctx: PolicyServerInput(ioctx, "localhost", 9900)`` in a config.

    The trainer listens at that port; the methods of this object are not called.
    """

    def __init__(self, ioctx: Any, address: str, port: int, idle_timeout: float = 3.0) -> None:
        self.address, self.port = address, int(port)


def served(given: dict[str, Any]) -> CurrentId | None:
    """Removes a `PolicyServerInput` from a configuration, and returns the environment of its clients; None without one.

    Raises a ConfigError if `input` is something else, or the spaces are missing.
    """
    source = given.get("input")
    if not callable(source):
        return None
    worker = SimpleNamespace(num_workers=0, worker_index=0, env=None)
    server = source(IOContext(config=given, worker_index=0, worker=worker))
    if isinstance(server, InputReader):
        return None
    if not isinstance(server, PolicyServerInput):
        raise ConfigError(
            f"rllib config: input: the function returned {type(server).__name__}, expected a PolicyServerInput, or for "
            "MARWIL, BC and CQL an InputReader"
        )
    del given["input"]
    spaces = spaces_of_clients(given)
    given["env_config"] = {}
    given["num_envs_per_worker"] = max(int(given.get("num_envs_per_worker") or 1), EPISODES_AT_ONCE)
    given["num_workers"] = 0
    settings: dict[str, Any] = {
        "spaces": {"agents": {str(agent): _written(pair) for agent, pair in spaces.items()}}
        if isinstance(spaces, dict)
        else _written(spaces),
        "host": server.address,
    }
    if not os.environ.get(TOKEN):
        file = token_file(server.port)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings["token_file"] = str(file)
        say_once(f"PolicyServerInput: clients need a token, which is in {file} (or set {TOKEN} on both sides)")
    return CurrentId(f"{SCHEME}{server.port}", settings)


def agents_of(clients: CurrentId | None) -> list[str] | None:
    """Returns the agents of clients, one of each group; None for a single agent, or without clients."""
    agents = None if clients is None else clients.kwargs["spaces"].get("agents")
    return None if agents is None else [f"{agent}0" if agent.endswith(ANY) else agent for agent in agents]


def _written(pair: tuple[Any, Any]) -> dict[str, Any]:
    return {"obs": space_to_json(pair[0]), "action": space_to_json(pair[1])}


def spaces_of_clients(given: dict[str, Any]) -> tuple[Any, Any] | dict[Any, tuple[Any, Any]]:
    """Removes the spaces of clients from a configuration and returns both, by agent if there are several.

    Clients have several agents if the spaces are dicts, or ``env`` is a multi-agent environment, or policies are named;
    if one with spaces is named, all agents of clients have that one. Raises a ConfigError if the spaces or the agents
    are missing.
    """
    seen, done = (given.pop(key, None) for key in ("observation_space", "action_space"))
    if isinstance(seen, dict) or isinstance(done, dict):
        if not isinstance(seen, dict) or not isinstance(done, dict) or seen.keys() != done.keys() or not seen:
            raise ConfigError("rllib config: observation_space and action_space: dicts by agent name the same agents")
        return {agent: (seen[agent], done[agent]) for agent in seen}
    policies = (given.get("multiagent") or {}).get("policies")
    if given.get("env") is None and policies:
        named, _ = policies_of({"multiagent": given["multiagent"]})
        only = next(iter(named.items())) if len(named) == 1 else None
        if only is not None and only[1].observation_space is not None and only[1].action_space is not None:
            return {f"{only[0]}{ANY}": (only[1].observation_space, only[1].action_space)}
        raise ConfigError(
            "rllib config: multiagent.policies: the agents of clients are missing: give observation_space and "
            "action_space as dicts by agent ('walker#' stands for walker#1, walker#left, ...), or name an env that "
            "has the same agents; only with one policy that has spaces may all clients' agents be unknown"
        )
    if given.get("env") is None and (seen is None or done is None):
        raise ConfigError(
            "rllib config: observation_space and action_space are missing: clients need them; or name an env that "
            "has the same spaces"
        )
    if seen is not None and done is not None and not policies:
        return seen, done
    like = creator_of(given["env"])(dict(given.get("env_config") or {}))
    try:
        if not speaks_in_dicts(like):
            return (like.observation_space, like.action_space) if seen is None or done is None else (seen, done)
        view = adapted(like, lambda agent: spaces_by_mapping(given, agent))
        return {agent: _pair(view, agent) for agent in view.reset()[0]}
    finally:
        if callable(close := getattr(like, "close", None)):
            close()


def _pair(env: Any, agent: Any) -> tuple[Any, Any]:
    """Returns the spaces of an agent of an environment."""
    if hasattr(env, "get_observation_space"):
        return env.get_observation_space(agent), env.get_action_space(agent)
    if isinstance(getattr(env, "observation_spaces", None), Mapping):
        return env.observation_spaces[agent], env.action_spaces[agent]
    return env.observation_space, env.action_space


def spaces_by_mapping(given: Mapping[str, Any], agent: Any) -> tuple[Any, Any]:
    """Returns the spaces of an agent's policy in a configuration; None if it has none."""
    policies, mapping = policies_of({"multiagent": given.get("multiagent") or {}})
    name = str(agent) if mapping is None else mapping(agent, FIRST_EPISODE)
    entry = policies.get(name) or next(iter(policies.values()))
    return entry.observation_space, entry.action_space


class PolicyClient:
    """Runs episodes for a trainer with a `PolicyServerInput`; ``local`` inference is the same as ``remote``.

    An episode that the trainer has dropped, for an evaluation or after a restart, continues as a new one from its next
    observation.
    """

    def __init__(self, address: str, inference_mode: str = "local", update_interval: float = 10.0) -> None:
        if inference_mode not in ("local", "remote"):
            raise ValueError(f"inference_mode = {inference_mode!r}: use 'remote' or 'local'")
        if inference_mode == "local":
            say_once(
                "PolicyClient(inference_mode='local'): the trainer computes each action all the same, so that all "
                "of them are of its newest weights; a client alone can run an exported policy (rookery export)"
            )
        place = address.rpartition("://")[2].rstrip("/").rpartition(":")[2]
        file = token_file(int(place)) if place.isdigit() else None
        token = os.environ.get(TOKEN)
        if not token and file is not None and file.is_file():
            token = file.read_text(encoding="utf-8").strip()
        if not token:
            raise ConnectionError(
                f"PolicyClient: there is no server yet at {address}: start the trainer with a PolicyServerInput first, "
                f"which writes its token for clients of the same user; elsewhere set {TOKEN} on both sides"
            )
        self._client = Client(address, token)
        self._now: dict[str, str] = {}  # the current episode of the script
        self._unlearned: set[str] = set()  # episodes of the script without training

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Starts an episode and returns its name.

        Without `training_enabled` nothing is learned from it, and no result counts it.
        """
        name = self._client.start_episode(episode_id, learned=training_enabled)
        self._now[name] = name
        if not training_enabled:
            self._unlearned.add(name)
        return name

    def get_action(self, episode_id: str, observation: Any) -> Any:
        given = self._by_name(observation)
        try:
            action = self._client.get_action(self._played(episode_id), given)
        except EpisodeLost:
            action = self._client.get_action(self._another(episode_id), given)
        return {agent: action[self._name(agent)] for agent in observation} if self._several else action

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Reports an action that is not the policy's; algorithms with replay learn from it."""
        observation, action = self._by_name(observation), self._by_name(action)
        try:
            self._client.log_action(self._played(episode_id), observation, action)
        except EpisodeLost:
            self._client.log_action(self._another(episode_id), observation, action)

    def log_returns(
        self, episode_id: str, reward: Any, info: Any = None, multiagent_done_dict: Mapping[Any, bool] | None = None
    ) -> None:
        several = self._several
        sent_info = {self._name(agent): _sent(one) for agent, one in (info or {}).items()} if several else _sent(info)
        ended = None if multiagent_done_dict is None else self._by_name(multiagent_done_dict)
        self._client.log_returns(self._played(episode_id), self._by_name(reward), sent_info or None, ended)

    def end_episode(self, episode_id: str, observation: Any) -> None:
        with suppress(EpisodeLost):  # its training data ended earlier
            self._client.end_episode(self._played(episode_id), self._by_name(observation))
        del self._now[episode_id]
        self._unlearned.discard(episode_id)

    def _name(self, agent: Any) -> str:
        """Returns the name under which the trainer knows an agent: with its group, if there is only one."""
        known = list(self._client.welcome.get("agents") or ())
        only = known[0] if len(known) == 1 and known[0].endswith(ANY) else ""
        return str(agent) if str(agent) == ALL or ANY in str(agent) else f"{only}{agent}"

    def _by_name(self, given: Any) -> Any:
        """Returns values by agent under the trainer's names; those of a single agent as they are."""
        if not self._several or not isinstance(given, Mapping):
            return given
        return {self._name(agent): value for agent, value in given.items()}

    def update_policy_weights(self) -> None:
        """Does nothing: every action is of the newest weights."""

    def _played(self, episode_id: str) -> str:
        if episode_id not in self._now:
            raise ValueError(f"episode {episode_id} was never started, or is over")
        return self._now[episode_id]

    def _another(self, episode_id: str) -> str:
        self._now[episode_id] = self._client.start_episode(learned=episode_id not in self._unlearned)
        return self._now[episode_id]

    @property
    def _several(self) -> bool:
        return bool(self._client.welcome.get("several"))


def _sent(info: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Returns the part of an info that can be sent."""
    return {str(key): value for key, value in (info or {}).items() if isinstance(value, bool | int | float | str)}
