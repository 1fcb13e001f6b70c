"""`Unity3DEnv`: a Unity player as a `MultiAgentEnv`, and the policies of ML-Agents' example games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.face import ConfigError, nearest
from rookery_mlagents.api.exceptions import UnityWorkerInUseException
from rookery_mlagents.api.unity_environment import UnityEnvironment
from rookery_rllib.env.agent_mapping import PolicySpec
from rookery_rllib.env.envs import MultiAgentEnv
from rookery_rllib.gym.core import TRUNCATED
from rookery_rllib.gym.spaces import Box

ALL = "__all__"

PORTS = 100
"""Number of ports to try for a player."""

NUMBERS: dict[str, tuple[int, ...]] = {
    "3DBall": (8,), "3DBallHard": (45,), "GridFoodCollector": (40, 40, 6), "Goalie": (738,), "Tennis": (27,),
    "VisualHallway": (84, 84, 3), "Walker": (212,),
}  # fmt: skip
"""Observation sizes of agents with one sensor, by behaviour."""

SEVERAL: dict[str, tuple[tuple[int, ...], ...]] = {
    "Pyramids": ((56,), (56,), (56,), (4,)), "SoccerPlayer": ((264,), (72,)), "Striker": ((231,), (63,)),
    "Sorter": ((20, 23), (10,), (8,)), "FoodCollector": ((49,), (4,)),
}  # fmt: skip
"""Observation shapes of agents with several sensors."""

MOVES: dict[str, int] = {"3DBall": 2, "3DBallHard": 2, "Tennis": 3, "Walker": 39}
"""Continuous action sizes."""

CHOICES: dict[str, tuple[int, ...]] = {
    "GridFoodCollector": (3, 3, 3, 2), "FoodCollector": (3, 3, 3, 2), "Pyramids": (5,), "VisualHallway": (5,),
    "Goalie": (3, 3, 3), "Striker": (3, 3, 3), "SoccerPlayer": (3, 3, 3), "Sorter": (3, 3, 3),
}  # fmt: skip
"""Discrete action sizes."""

GAMES = sorted({*NUMBERS, *SEVERAL} - {"Goalie", "Striker", "SoccerPlayer"} | {"SoccerTwos", "SoccerStrikersVsGoalie"})


class Unity3DEnv(MultiAgentEnv):
    """A Unity player, or the Editor, as an environment of several agents.

    Agents are named ``Behavior_0``, ``Behavior_1`` ... by free index: an agent whose episode ends is done, and the next
    one takes another name until that one is free again. (RLlib's own class never let agents end.) Players
    after the first take the ports after `port`. A configuration (``env_config``) may be passed as `file_name`, with the
    arguments as its keys.
    """

    _BASE_PORT_EDITOR = 5004
    _BASE_PORT_ENVIRONMENT = 5005
    _WORKER_ID = 0

    def __init__(
        self,
        file_name: str | Mapping[str, Any] | None = None,
        port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        timeout_wait: int = 300,
        episode_horizon: int = 1000,
    ) -> None:
        if isinstance(file_name, Mapping):
            given: dict[str, Any] = {
                "port": port,
                "seed": seed,
                "no_graphics": no_graphics,
                "timeout_wait": timeout_wait,
            }
            given |= {"file_name": None, "episode_horizon": episode_horizon, **file_name}
            if unknown := sorted(set(given) - set(ARGUMENTS)):
                raise ConfigError(f"env_config: {unknown[0]}: no such argument{nearest(unknown[0], ARGUMENTS)}")
            port, seed, no_graphics = given["port"], given["seed"], given["no_graphics"]
            file_name, timeout_wait = given["file_name"], given["timeout_wait"]
            episode_horizon = given["episode_horizon"]
        file: Any = file_name
        self.unity_env = self._opened(file, port, seed, no_graphics, timeout_wait)
        self.episode_horizon, self.episode_timesteps = episode_horizon, 0
        self._held: dict[tuple[str, int], str] = {}  # the name of each present agent
        self._free_from: dict[str, list[str]] = {}  # names that were used, by behaviour

    @classmethod
    def _opened(cls, file: str | None, port: int | None, seed: int, quiet: bool, timeout: int) -> UnityEnvironment:
        """Opens a player on the first port that is free."""
        base = port or (cls._BASE_PORT_ENVIRONMENT if file else cls._BASE_PORT_EDITOR)
        for _ in range(PORTS if file else 1):
            worker = Unity3DEnv._WORKER_ID if file else 0
            Unity3DEnv._WORKER_ID += 1
            try:
                return UnityEnvironment(
                    file, worker, base, seed=seed, no_graphics=quiet, timeout_wait=timeout, side_channels=[]
                )
            except UnityWorkerInUseException:
                continue
        raise UnityWorkerInUseException(f"0 to {PORTS - 1}" if file else 0)

    # -- spaces --------------------------------------------------------------------------------------------------------

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        """Observation space, if there is one behaviour; else policies have it."""
        spec = self._only_spec()
        if spec is None:
            return None
        shown = [Box(-np.inf, np.inf, tuple(sensor.shape), np.float32) for sensor in spec.observation_specs]
        return shown[0] if len(shown) == 1 else spaces.Tuple(shown)

    @property
    def action_space(self) -> spaces.Space[Any] | None:
        """Action space, if there is one behaviour; else policies have it."""
        spec = self._only_spec()
        return None if spec is None else _decided(spec.action_spec.continuous_size, spec.action_spec.discrete_branches)

    def _only_spec(self) -> Any:
        if not self.unity_env.behavior_specs:
            self.unity_env.reset()
        specs = list(self.unity_env.behavior_specs.values())
        return specs[0] if len(specs) == 1 else None

    # -- stepping ------------------------------------------------------------------------------------------------------

    def reset(self) -> dict[str, Any]:
        self.episode_timesteps = 0
        self._held, self._free_from = {}, {}
        self.unity_env.reset()
        return self._shown()[0]

    def step(self, action_dict: Mapping[Any, Any]) -> tuple[dict[str, Any], ...]:
        """Steps the agents that request an action; those without one get zeros."""
        for behavior, spec in self.unity_env.behavior_specs.items():
            decisions = self.unity_env.get_steps(behavior)[0]
            actions = spec.action_spec.empty_action(len(decisions))
            for row, agent in enumerate(decisions.agent_id):
                action = action_dict.get(self._held.get((behavior, int(agent)), ""))
                if action is None:
                    continue
                parts = list(action) if isinstance(action, tuple) else [action]
                if spec.action_spec.continuous_size:
                    actions.continuous[row] = parts.pop(0)
                if spec.action_spec.discrete_size:
                    actions.discrete[row] = parts.pop(0)
            if len(decisions):
                self.unity_env.set_actions(behavior, actions)
        self.unity_env.step()
        obs, rewards, dones, infos = self._shown()
        self.episode_timesteps += 1
        if self.episode_timesteps > self.episode_horizon:
            for agent in self._held.values():
                dones.setdefault(agent, True)
                infos.setdefault(agent, {})[TRUNCATED] = True
            dones[ALL] = True
        return obs, rewards, dones, infos

    def _shown(self) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, dict[str, Any]]]:
        """Returns observations and rewards, first those of agents that ended; their names are free after this step."""
        obs: dict[str, Any] = {}
        rewards: dict[str, float] = {}
        dones: dict[str, bool] = {ALL: False}
        infos: dict[str, dict[str, Any]] = {}
        for behavior in self.unity_env.behavior_specs:
            decisions, terminals = self.unity_env.get_steps(behavior)
            for row, number in enumerate(terminals.agent_id.tolist()):
                agent = self._held.pop((behavior, number), None)
                if agent is None:
                    continue  # it ended before its first decision
                obs[agent], rewards[agent] = _seen(terminals, row), _got(terminals, row)
                dones[agent] = True
                infos[agent] = {TRUNCATED: True} if terminals.interrupted[row] else {}
            for row, number in enumerate(decisions.agent_id.tolist()):
                agent = self._name(behavior, number, dones)
                obs[agent], rewards[agent] = _seen(decisions, row), _got(decisions, row)
        return obs, rewards, dones, infos

    def _name(self, behavior: str, number: int, ended: Mapping[str, bool]) -> str:
        """Returns the name of an agent: the first free one that is not used by an agent that ends in this step."""
        if (behavior, number) not in self._held:
            used, names = set(self._held.values()), self._free_from.setdefault(behavior, [])
            name = next((one for one in names if one not in used and one not in ended), None)
            if name is None:
                name = f"{behavior}_{len(names)}"
                names.append(name)
            self._held[behavior, number] = name
        return self._held[behavior, number]

    def close(self) -> None:
        self.unity_env.close()

    # -- policies of known games ---------------------------------------------------------------------------------------

    @staticmethod
    def get_policy_configs_for_game(game_name: str) -> tuple[dict[str, Any], Callable[..., str]]:
        if game_name == "SoccerStrikersVsGoalie":
            return {name: _policy(name) for name in ("Goalie", "Striker")}, _striker_or_goalie
        if game_name == "SoccerTwos":
            return {name: _policy("SoccerPlayer") for name in ("PurplePlayer", "BluePlayer")}, _blue_or_purple
        if game_name not in GAMES:
            raise ConfigError(
                f"get_policy_configs_for_game({game_name!r}): must be one of {', '.join(GAMES)}"
                f"{nearest(game_name, GAMES)}; of a game of your own, spaces come from the player"
            )
        return {game_name: _policy(game_name)}, lambda agent_id, *_, **__: game_name


ARGUMENTS = ("file_name", "port", "seed", "no_graphics", "timeout_wait", "episode_horizon")


def _striker_or_goalie(agent_id: str, *_: Any, **__: Any) -> str:
    return "Striker" if "Striker" in agent_id else "Goalie"


def _blue_or_purple(agent_id: str, *_: Any, **__: Any) -> str:
    return "BluePlayer" if "1_" in agent_id else "PurplePlayer"


def _policy(behavior: str) -> PolicySpec:
    """Returns a policy of the algorithm's own class with the spaces of a behaviour."""
    bound = 1.0 if behavior == "SoccerPlayer" else np.inf
    several = SEVERAL.get(behavior)
    seen: spaces.Space[Any]
    if several is None:
        seen = Box(-np.inf, np.inf, NUMBERS[behavior], np.float32)
    else:
        seen = spaces.Tuple([Box(-bound, bound, shape, np.float32) for shape in several])
    moves = MOVES.get(behavior, 0)
    decided = _decided(moves, CHOICES.get(behavior, ()))
    return PolicySpec(None, seen, decided, {})


def _decided(numbers: int, branches: tuple[int, ...]) -> spaces.Space[Any]:
    """Returns the action space; a tuple for both kinds of actions."""
    parts: list[spaces.Space[Any]] = []
    if numbers:
        parts.append(Box(-1.0, 1.0, (numbers,), np.float32))
    if branches:
        parts.append(spaces.MultiDiscrete(list(branches)))
    return parts[0] if len(parts) == 1 else spaces.Tuple(parts)


def _seen(steps: Any, row: int) -> Any:
    shown = tuple(values[row] for values in steps.obs)
    return shown[0] if len(shown) == 1 else shown


def _got(steps: Any, row: int) -> float:
    return float(steps.reward[row] + steps.group_reward[row])
