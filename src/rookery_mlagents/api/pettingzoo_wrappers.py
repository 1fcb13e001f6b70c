"""`UnityParallelEnv` and `UnityAECEnv`: all agents of an environment, with PettingZoo's present APIs.

An agent is called ``Behavior?agent_id=7``. Who asks for an action is in `agents`; who does not, because it decides less
often, is not there until it does. An agent that ends is there once more, with its end; a game that lets one of the same
number come back calls it ``Behavior?agent_id=7&life=2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from rookery_mlagents.api.exceptions import UnityEnvironmentException
from rookery_mlagents.api.specs import ActionTuple

AGENT = "?agent_id="
"""Separator between the behaviour and the number in the name of an agent."""


class UnityPettingzooBaseEnv:
    """Base class of both wrappers, with the agents and their observations, rewards and infos.

    Observations are the sensors' arrays: one, or a tuple of several. Where actions are choices, it is a dict of
    ``observation`` and ``action_mask``, in which 1 is allowed, as everywhere in PettingZoo.
    """

    def __init__(self, env: Any, seed: int | None = None, metadata: dict[str, Any] | None = None) -> None:
        self._env, self._seed = env, seed
        self.metadata = metadata or {"name": type(env).__name__, "render_modes": []}
        self.render_mode = None
        self.agents: list[str] = []
        self.possible_agents: list[str] = []
        self.rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: dict[str, dict[str, Any]] = {}
        self._observations: dict[str, Any] = {}
        self._lives: dict[tuple[str, int], int] = {}
        self._over: set[str] = set()
        self._rows: dict[str, tuple[str, int]] = {}  # of requesting agents: behaviour and row
        self._actions: dict[str, ActionTuple] = {}
        self._observation_spaces: dict[str, spaces.Space[Any]] = {}
        self._action_spaces: dict[str, spaces.Space[Any]] = {}
        if not env.behavior_specs:
            env.step()
        self._show()

    # -- spaces --------------------------------------------------------------------------------------------------------

    @property
    def observation_spaces(self) -> dict[str, spaces.Space[Any]]:
        return {agent: self.observation_space(agent) for agent in self.possible_agents}

    @property
    def action_spaces(self) -> dict[str, spaces.Space[Any]]:
        return {agent: self.action_space(agent) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._observation_spaces[self._behavior(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._action_spaces[self._behavior(agent)]

    def _behavior(self, agent: str) -> str:
        behavior = agent.rpartition(AGENT)[0]
        if behavior not in self._action_spaces:
            known = ", ".join(self._action_spaces) or "none"
            raise KeyError(f"agent {agent!r} is of no behaviour of this environment; behaviours: {known}")
        return behavior

    def _add_spaces(self, behavior: str, spec: Any) -> None:
        sensors = [spaces.Box(-np.inf, np.inf, tuple(one.shape), np.float32) for one in spec.observation_specs]
        seen: spaces.Space[Any] = sensors[0] if len(sensors) == 1 else spaces.Tuple(sensors)
        numbers, branches = spec.action_spec.continuous_size, [int(size) for size in spec.action_spec.discrete_branches]
        parts: list[spaces.Space[Any]] = []
        if numbers:
            parts.append(spaces.Box(-1.0, 1.0, (numbers,), np.float32))
        if branches:
            parts.append(spaces.Discrete(branches[0]) if len(branches) == 1 else spaces.MultiDiscrete(branches))
            flags = [spaces.Box(0, 1, (size,), np.int8) for size in branches]
            mask = flags[0] if len(flags) == 1 else spaces.Tuple(flags)
            seen = spaces.Dict({"observation": seen, "action_mask": mask})
        if not parts:
            raise UnityEnvironmentException(f"behaviour {behavior} decides nothing")
        action = parts[0] if len(parts) == 1 else spaces.Tuple(parts)
        if self._seed is not None:
            action.seed(self._seed)
        self._observation_spaces[behavior], self._action_spaces[behavior] = seen, action

    # -- who is there --------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Updates the agents that request an action, and those whose episode has ended."""
        self._rows, self._actions = {}, {}
        for table in (self.rewards, self.terminations, self.truncations, self.infos, self._observations):
            table.clear()
        ended: list[str] = []
        for behavior, spec in self._env.behavior_specs.items():
            if behavior not in self._action_spaces:
                self._add_spaces(behavior, spec)
            decisions, terminals = self._env.get_steps(behavior)
            for row in range(len(terminals)):
                agent = self._name(behavior, int(terminals.agent_id[row]))
                cut = bool(terminals.interrupted[row])
                ended.append(agent)
                self._over.add(agent)
                self._tell(agent, behavior, terminals, row, not cut, cut)
            if len(decisions):
                self._actions[behavior] = spec.action_spec.empty_action(len(decisions))
            for row in range(len(decisions)):
                agent = self._name(behavior, int(decisions.agent_id[row]))
                self._rows[agent] = behavior, row
                self._tell(agent, behavior, decisions, row, False, False)
        known = set(self.possible_agents)
        self.possible_agents += [agent for agent in (*self._rows, *ended) if agent not in known]
        self.agents = [*ended, *self._rows]

    def _name(self, behavior: str, number: int) -> str:
        """Returns the name of an agent; a new name for each of its episodes."""
        life = self._lives.setdefault((behavior, number), 1)
        name = f"{behavior}{AGENT}{number}" + (f"&life={life}" if life > 1 else "")
        if name in self._over:
            self._lives[behavior, number] = life + 1
            return self._name(behavior, number)
        return name

    def _tell(self, agent: str, behavior: str, steps: Any, row: int, terminated: bool, truncated: bool) -> None:
        sensors = tuple(np.asarray(values[row], np.float32) for values in steps.obs)
        seen: Any = sensors[0] if len(sensors) == 1 else sensors
        space = self._observation_spaces[behavior]
        if isinstance(space, spaces.Dict):
            masks = getattr(steps, "action_mask", None)
            flags = space["action_mask"]
            parts = list(flags) if isinstance(flags, spaces.Tuple) else [flags]
            allowed = [np.ones(part.shape or (), np.int8) for part in parts]
            if masks is not None:
                allowed = [1 - np.asarray(branch[row]).astype(np.int8) for branch in masks]
            seen = {"observation": seen, "action_mask": allowed[0] if len(allowed) == 1 else tuple(allowed)}
        self._observations[agent] = seen
        self.rewards[agent] = float(steps.reward[row])
        self.terminations[agent], self.truncations[agent] = terminated, truncated
        groups, got = getattr(steps, "group_id", None), getattr(steps, "group_reward", None)
        self.infos[agent] = {
            "behavior_name": behavior,
            "group_id": 0 if groups is None else int(groups[row]),
            "group_reward": 0.0 if got is None else float(got[row]),
        }
        if terminated or truncated:
            self.infos[agent]["interrupted"] = truncated

    def _begin(self, seed: int | None) -> None:
        """Resets the environment; a seed applies to the action spaces only, because the game's seed cannot be
        changed.
        """
        if self._env is None:
            raise UnityEnvironmentException("this environment is closed")
        if seed is not None:
            self._seed = seed
            for space in self._action_spaces.values():
                space.seed(seed)
        self._lives, self._over, self.possible_agents = {}, set(), []
        self._env.reset()
        self._show()

    # -- acting --------------------------------------------------------------------------------------------------------

    def _set(self, agent: str, action: Any) -> None:
        """Stores the action of an agent that has requested one."""
        behavior, row = self._rows[agent]
        space, actions = self._action_spaces[behavior], self._actions[behavior]
        parts = list(action) if isinstance(space, spaces.Tuple) else [action]
        kinds = list(space) if isinstance(space, spaces.Tuple) else [space]
        if len(parts) != len(kinds):
            raise UnityEnvironmentException(f"agent {agent}: the action {action!r} is not in {space}")
        for kind, part in zip(kinds, parts, strict=True):
            value = np.asarray(part, kind.dtype)
            if isinstance(kind, spaces.Discrete):
                value = value.reshape(())
            if not kind.contains(int(value) if isinstance(kind, spaces.Discrete) else value):
                raise UnityEnvironmentException(f"agent {agent}: the action {action!r} is not in {space}")
            table = actions.continuous if isinstance(kind, spaces.Box) else actions.discrete
            table[row] = value

    def _go_on(self) -> None:
        """Sends the actions, and updates the agents with the result."""
        for behavior, actions in self._actions.items():
            self._env.set_actions(behavior, actions)
        while True:
            self._env.step()
            self._show()
            if self.agents:
                return

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def side_channel(self) -> Mapping[str, Any]:
        channels = self._env._side_channel_manager._side_channels_dict.values()
        return {type(channel).__name__: channel for channel in channels}

    def seed(self, seed: int | None = None) -> None:
        self._seed = seed
        for space in self._action_spaces.values():
            space.seed(seed)

    def render(self) -> None:
        """Does nothing: the player has its own window."""

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None


class UnityParallelEnv(UnityPettingzooBaseEnv, ParallelEnv):  # type: ignore[misc]
    """All agents that request an action act at once."""

    def __init__(self, env: Any, seed: int | None = None) -> None:
        super().__init__(env, seed)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self._begin(seed)
        return dict(self._observations), dict(self.infos)

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Steps with the actions of agents; agents without an action use zeros."""
        for agent, action in actions.items():
            if agent not in self._rows:
                here = ", ".join(self._rows) or "no agent; reset() first"
                raise UnityEnvironmentException(f"agent {agent!r} asks for no action; there ask: {here}")
            self._set(agent, action)
        self._go_on()
        self.agents = list(self._rows)
        tables = self._observations, self.rewards, self.terminations, self.truncations, self.infos
        return tuple(dict(table) for table in tables)  # type: ignore[return-value]


class UnityAECEnv(UnityPettingzooBaseEnv, AECEnv):  # type: ignore[misc]
    """Agents act one after the other; the game continues when all requesting agents have acted."""

    def __init__(self, env: Any, seed: int | None = None) -> None:
        self._cumulative_rewards: dict[str, float] = {}
        self._turn: list[str] = []
        super().__init__(env, seed)
        self._new_round()

    @property
    def agent_selection(self) -> str:
        """The agent to act next: first those whose episode has ended, which must pass None, then those that request an
        action.
        """
        if not self._turn:
            raise UnityEnvironmentException("there is no agent: reset() first")
        return self._turn[0]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._begin(seed)
        self.rewards = dict.fromkeys(self.rewards, 0.0)
        self._cumulative_rewards = {}
        self._new_round()

    def _new_round(self) -> None:
        self._turn = list(self.agents)
        self._cumulative_rewards = {
            agent: self._cumulative_rewards.get(agent, 0.0) + self.rewards[agent] for agent in self.agents
        }

    def step(self, action: Any) -> None:
        """Sets the action of the current agent; an agent whose episode has ended takes None, and is removed."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if action is not None:
                raise UnityEnvironmentException(f"agent {agent} has ended: give None, and not {action!r}")
            self.agents.remove(agent)
            for table in (
                self._observations, self.rewards, self.terminations, self.truncations, self.infos,
                self._cumulative_rewards,
            ):  # fmt: skip
                table.pop(agent)
        else:
            self._set(agent, action)
            self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.rewards, 0.0)
        self._turn.pop(0)
        if not self._turn:
            self._go_on()
            self._new_round()

    def observe(self, agent: str) -> Any:
        return self._observations[agent]

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        agent = self.agent_selection
        seen = self._observations[agent] if observe else None
        ends = self.terminations[agent], self.truncations[agent]
        return seen, self._cumulative_rewards[agent], *ends, self.infos[agent]
