"""PettingZoo environments: parallel (all agents act at once) and AEC (one agent at a time)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.envs.adapters.dict_env import space_of
from rookery.envs.adapters.lane import (
    Agent,
    Breach,
    Lane,
    LaneStep,
    Spaces,
    agents_with_flag,
    info_masks,
    obs_and_infos,
    rewards_of_groups,
    step_dicts,
)
from rookery.envs.samplers import Value

WRAPPERS = "pettingzoo.utils.wrappers."
"""Beginning of the class names of PettingZoo's own wrappers."""

ORDER, RANGE = "order_enforcing.OrderEnforcingWrapper", "assert_out_of_bounds.AssertOutOfBoundsWrapper"
"""Wrappers that check the order of calls and the range of discrete actions, and forward each read of an attribute to
the environment inside. Lanes call in order, and check the range themselves.
"""

READ = {"step", "observe", "rewards", "terminations", "truncations", "infos", "agents", "agent_selection"}
"""Members of an AEC environment that lanes use."""


class _PettingZooLane(Lane):
    """Base class of both PettingZoo lanes."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, getattr(env, "possible_agents", ()))
        self._alive: list[Agent] = []
        self._ranges: dict[Agent, tuple[int, int]] = {}
        self._checks_range = False
        self.inner = self.without_checks(env)

    def spaces(self, agent: Agent) -> Spaces:
        """Returns observation and action space of an agent; raises a Breach if the environment does not know them.

        They come from the methods ``observation_space`` and ``action_space``, or, where these are attributes instead,
        as for dict-style environments.
        """
        try:
            if not callable(getattr(self.env, "observation_space", None)):
                return space_of(self.env, "observation", agent), space_of(self.env, "action", agent)
            return self.env.observation_space(agent), self.env.action_space(agent)
        except (KeyError, AttributeError, ValueError, AssertionError) as error:
            known = ", ".join(map(str, self.agents)) or "none"
            raise Breach(f"no spaces are known for this agent (possible_agents: {known})", agent) from error

    def _past_checks(self, env: Any) -> Any:
        """Returns the environment behind wrappers that only check; the range of actions is then checked here."""
        inside = behind(env, (ORDER,))
        inner = behind(inside, (RANGE,))
        self._checks_range |= inner is not inside
        return inner

    def _check_range(self, actions: Mapping[Agent, Any]) -> None:
        """Raises a Breach for a discrete action out of range where PettingZoo's wrapper no longer does."""
        for agent, action in actions.items() if self._checks_range else ():
            if agent not in self._ranges:
                space: Any = self.spaces(agent)[1]
                self._ranges[agent] = (int(space.start), int(space.start + space.n))
            low, high = self._ranges[agent]
            if not low <= action < high:
                raise Breach(f"action {action} is not from {low} to {high - 1}", agent)

    def _check_vanished(self, ended: set[Agent], agents: Sequence[Agent]) -> None:
        for agent in self._alive:
            if agent not in ended and agent not in agents:
                problem = "left env.agents, expected it to be terminated or truncated with that step"
                self.report(Breach(problem, agent))


class ParallelLane(_PettingZooLane):
    """A PettingZoo parallel environment as a lane. Its episode is over when no agent is left to act.

    PettingZoo removes an agent that has ended from `env.agents`. If an environment keeps it there, that is not a
    return: such an agent acts again only after a step in which both its flags are false, which is a respawn.
    """

    def without_checks(self, env: Any) -> Any:
        """Removes wrappers that only check from the AEC environment inside PettingZoo's conversion, which is changed;
        returns the environment.
        """
        if class_name(env) == "pettingzoo.utils.conversions.aec_to_parallel_wrapper":
            env.aec_env = self._past_checks(env.aec_env)
        return env

    def argument(self, actions: dict[Agent, Any]) -> Any:
        """Returns the actions; raises a Breach for one out of range."""
        self._check_range(actions)
        return actions

    def reset(self, seed: int, parameters: Mapping[str, Value] | None = None) -> LaneStep:
        """Starts an episode; raises a Breach if `reset` does not return two dicts, or an agent has no observation."""
        obs, infos = obs_and_infos(self.begin(seed, parameters), self.report)
        self._alive = list(self.env.agents)
        self._kept: set[Agent] = set()  # agents that have ended and stayed in env.agents since
        return LaneStep(self._observed(obs), masks=info_masks(infos), infos=infos)

    def read(self, given: Any) -> LaneStep:
        """Returns the content of a step from the environment's result.

        Raises:
            Breach: If the result is not five dicts, an agent vanished without an end, or one has no observation.
        """
        obs, reward, terminations, truncations, infos = step_dicts(given, self.report)
        terminated = agents_with_flag(self._alive, terminations, "terminations")
        truncated = agents_with_flag(self._alive, truncations, "truncations")
        left = {*terminated, *truncated}
        self._check_vanished(left, self.env.agents)
        if self._kept or any(terminations.values()) or any(truncations.values()):
            self._alive = self._still_playing(left, obs, terminations, truncations)
        else:  # most steps end nothing
            self._alive = list(self.env.agents)
        final = {agent: obs[agent] for agent in obs if agent in left}
        acting = self._observed(obs)
        return LaneStep(acting, reward, terminated, truncated, final, info_masks(infos), not self._alive, infos)

    def _still_playing(self, left: set[Agent], obs: Mapping[Agent, Any], *flags: Mapping[Agent, Any]) -> list[Agent]:
        """Returns the agents that must act after a step in which those of `left` ended."""
        agents = self.env.agents
        ended = {
            *agents_with_flag(agents, flags[0], "terminations"),
            *agents_with_flag(agents, flags[1], "truncations"),
        }
        self._kept = {agent for agent in agents if agent in self._kept or agent in left}
        respawned = {a for a in self._kept if a not in ended and a in obs and all(a in part for part in flags)}
        self._kept -= respawned
        return [agent for agent in agents if agent not in ended and agent not in self._kept]

    def _observed(self, obs: dict[Agent, Any]) -> dict[Agent, Any]:
        for agent in self._alive:
            if agent not in obs:
                self.report(Breach("no observation for this agent, expected one because it is in env.agents", agent))
        return {agent: obs[agent] for agent in self._alive if agent in obs}


class AECLane(_PettingZooLane):
    """A PettingZoo AEC environment as a lane: one environment step is one agent's action.

    Rewards are read from `env.rewards` after each action, for all agents at once, so each is counted once; rewards of
    groups from `env.infos` at the same moment, where the environment must remove them afterwards. Agents that ended are
    stepped out with None before the next one acts.
    """

    def reset(self, seed: int, parameters: Mapping[str, Value] | None = None) -> LaneStep:
        """Starts an episode."""
        self._group_rewards: Mapping[Agent, Any] = {}
        self.begin(seed, parameters)
        self._facts = behind(self.inner)
        self._alive = list(self._facts.agents)
        return self._on_turn({})

    def without_checks(self, env: Any) -> Any:
        """Returns the environment behind wrappers that only check."""
        return self._past_checks(env)

    def argument(self, actions: dict[Agent, Any]) -> Any:
        """Returns the action of the agent to act; raises a Breach if it is out of range."""
        self._check_range(actions)
        (action,) = actions.values()
        return action

    def read(self, given: Any) -> LaneStep:
        """Returns the content of a step from the environment, whose `step` returns nothing.

        Raises:
            Breach: If an agent vanished without an end, or an ended one cannot be stepped out.
        """
        env, rewards = self._facts, self._facts.rewards
        self._group_rewards = rewards_of_groups(env.infos)
        # some environments never clear `rewards`; an agent that ended earlier must not be rewarded again
        reward = {agent: rewards[agent] for agent in self._alive if agent in rewards}
        terminated = agents_with_flag(self._alive, env.terminations, "terminations")
        truncated = agents_with_flag(self._alive, env.truncations, "truncations")
        left = {*terminated, *truncated}
        self._check_vanished(left, env.agents)
        lasting = [agent for agent in truncated if agent not in terminated and agent in env.agents]
        final = {agent: self.inner.observe(agent) for agent in lasting}
        masks = info_masks({agent: env.infos.get(agent) for agent in final})
        for _ in range(len(env.agents)):
            if not env.agents:
                break
            agent = env.agent_selection
            if not (env.terminations.get(agent) or env.truncations.get(agent)):
                break
            self.inner.step(None)
            if agent in env.agents:
                raise Breach("step(None) left the ended agent in env.agents, expected it to be removed", agent)
        terminations, truncations = env.terminations, env.truncations
        self._alive = [a for a in env.agents if not (terminations.get(a) or truncations.get(a))]
        shown = self._on_turn(masks)
        shown.reward, shown.terminated, shown.truncated, shown.final = reward, terminated, truncated, final
        return shown

    def group_rewards(self, shown: LaneStep) -> Mapping[Agent, Any]:
        """Returns the group rewards that agents had before ended ones were stepped out."""
        return self._group_rewards

    def _on_turn(self, masks: dict[Agent, Any]) -> LaneStep:
        env, infos = self._facts, dict(self._facts.infos)
        if not self._alive:
            return LaneStep({}, masks=masks, ended=True, infos=infos)
        agent = env.agent_selection
        if agent not in self._alive:
            raise Breach(f"env.agent_selection is {agent!r}, expected one of env.agents: {self._alive}", agent)
        masks = masks | info_masks({agent: infos.get(agent)})
        return LaneStep({agent: self.inner.observe(agent)}, masks=masks, infos=infos)


def behind(env: Any, wrappers: Sequence[str] | None = None) -> Any:
    """Returns the environment behind PettingZoo's wrappers of these names, or behind all of PettingZoo's wrappers if
    None: none of them changes the attributes that lanes read. A wrapper with a member of its own in `READ` is kept.
    """
    while class_name(env).startswith(WRAPPERS) and "env" in vars(env) and not READ & vars(env).keys():
        if wrappers is not None and class_name(env).removeprefix(WRAPPERS) not in wrappers:
            break
        env = env.env
    return env


def class_name(env: Any) -> str:
    """Returns the name of the class of an environment, with its module."""
    return f"{type(env).__module__}.{type(env).__qualname__}"


def is_parallel_style(env: Any) -> bool:
    """Returns whether `env` is a parallel environment of PettingZoo: by its base class, or its space methods."""
    by_class = any(base.__name__ == "ParallelEnv" for base in type(env).__mro__)
    return by_class or callable(getattr(env, "observation_space", None))


def is_aec_style(env: Any) -> bool:
    """Returns whether `env` is an environment of PettingZoo in which one agent acts at a time."""
    return callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None))
