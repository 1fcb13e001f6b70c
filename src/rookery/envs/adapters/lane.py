"""`Lane`: one environment of any style, in the interface that adapters implement and back ends use.

A `Lane` is a `gym_env.GymLane`, a `dict_env.DictLane`, a `pettingzoo_env.ParallelLane` or a `pettingzoo_env.AECLane`.
Agents are named by the environment's own ids here.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.core.process.tracebacks import own_frames
from rookery.core.spaces.arrays import MASK
from rookery.envs.parameters import ParameterHook
from rookery.envs.samplers import Value

RESTING = "resting"
"""Key of `info`: true while the agent need not act, such as a machine that cools down
(docs/how-to/replay-memory.md).
"""

GROUP_REWARD = "group_reward"
"""Key of `info`: reward of an agent's group in the step, beside the agent's own reward (docs/how-to/groups.md)."""

Agent = Hashable

Spaces = tuple[Space[Any], Space[Any]]


class Breach(Exception):
    """Raised when an environment breaks its contract. The back end adds the place, and raises an `EnvError`.

    Args:
        problem: The found and the expected value.
        agent: The agent concerned, if it is one agent.
    """

    def __init__(self, problem: str, agent: Agent | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.agent = agent


def refuse(breach: Breach) -> None:
    """Raises a breach: the default for breaches that a lane reports."""
    raise breach


@dataclass
class LaneStep:
    """Content of a reset or a step of one environment.

    Attributes:
        obs: Observations of the agents that must act now.
        reward: Rewards of this step by agent; absent agents have none.
        terminated: Agents whose episode ended now and has no future.
        truncated: Agents whose episode was cut off now.
        final: Last observations of agents that ended now, if the environment returns them.
        masks: Action masks that came in `info` rather than in the observation.
        ended: The whole episode is over; `obs` is empty.
        infos: Infos of the environment, by agent.
        group_reward: Rewards of agents' groups in this step, by agent, beside the agents' own.
    """

    obs: dict[Agent, Any]
    reward: Mapping[Agent, Any] = field(default_factory=dict)
    terminated: Iterable[Agent] = ()
    truncated: Iterable[Agent] = ()
    final: Mapping[Agent, Any] = field(default_factory=dict)
    masks: Mapping[Agent, Any] = field(default_factory=dict)
    ended: bool = False
    infos: Mapping[Agent, Any] = field(default_factory=dict)
    group_reward: Mapping[Agent, Any] = field(default_factory=dict)

    def resting(self) -> list[Agent]:
        """Returns the agents of `obs` that need not act, because their info has `RESTING`."""
        if not self.infos or not isinstance(self.infos, Mapping):
            return []
        return [agent for agent in self.obs if rests(self.infos.get(agent))]


class Lane(ABC):
    """One environment.

    Attributes:
        env: The environment itself.
        inner: Environment whose `step` is called: `env`, or the one behind wrappers that only check calls.
        agents: Announced agents, in the environment's order; others may appear.
        max_entities: Largest number of elements of a ``Sequence`` that agents observe; None: each space must define it.
        hook: Sets the parameters of the environment.
        names_groups: Whether the environment declares groups of agents.
        report: Called with each Breach after which the episode can continue; `refuse` by default.
    """

    def __init__(self, env: Any, agents: Iterable[Agent]) -> None:
        self.env = self.inner = env
        self.agents = tuple(agents)
        self.max_entities: int | None = None
        self.hook = ParameterHook()
        self.names_groups = bool(declared_groups(env))
        self.report: Callable[[Breach], None] = refuse

    @abstractmethod
    def spaces(self, agent: Agent) -> Spaces:
        """Returns observation and action space of an agent; raises a Breach if the environment does not know them."""

    @abstractmethod
    def reset(self, seed: int, parameters: Mapping[str, Value] | None = None) -> LaneStep:
        """Starts an episode, with parameters if given; raises a Breach if it breaks the contract."""

    def begin(self, seed: int, parameters: Mapping[str, Value] | None) -> Any:
        """Calls the environment's own `reset`, with the parameters in the form it accepts."""
        options: dict[str, Any] = {}
        if parameters:
            self.env, options = self.hook.give(self.env, parameters)
            self.inner = self.without_checks(self.env)
        return self.env.reset(seed=seed, **options)

    def without_checks(self, env: Any) -> Any:
        """Returns the environment whose `step` is called in place of that of `env`."""
        return env

    def step(self, actions: dict[Agent, Any]) -> LaneStep:
        """Steps once, with an action for each agent of the last `LaneStep.obs`; raises as `reset` does."""
        shown = self.read(self.inner.step(self.argument(actions)))
        if self.names_groups:
            shown.group_reward = self.group_rewards(shown)
        return shown

    def group_rewards(self, shown: LaneStep) -> Mapping[Agent, Any]:
        """Returns the rewards of groups in a step, from the agents' infos."""
        return rewards_of_groups(shown.infos)

    def argument(self, actions: dict[Agent, Any]) -> Any:
        """Returns the argument of the environment's own `step` for these actions."""
        return actions

    @abstractmethod
    def read(self, given: Any) -> LaneStep:
        """Returns the content of a step from the environment's result; raises as `reset` does."""


def is_true(flag: Any, name: str, agent: Agent | None = None) -> bool:
    """Returns whether a flag from an environment is set.

    Args:
        flag: Its value: true or false, or a number that stands for one.
        name: Name of the flag for the message.
        agent: Agent of the flag.

    Raises:
        Breach: If it is neither true nor false, such as the text "False".
    """
    if flag is True or flag is False:
        return flag
    value = np.asarray(flag)
    if value.size != 1 or value.dtype.kind not in "biuf" or value.item() not in (0, 1):
        raise Breach(f"{name} is {flag!r}, expected true or false", agent)
    return bool(value.item())


def agents_with_flag(agents: Iterable[Agent], flags: Mapping[Agent, Any], name: str) -> list[Agent]:
    """Returns the agents whose flag is set; raises a Breach as `is_true` does."""
    return [agent for agent in agents if (flag := flags.get(agent)) and is_true(flag, f"{name} of this agent", agent)]


def info_masks(infos: Any) -> dict[Agent, Any]:
    """Returns the action masks from a dict of infos by agent."""
    if not isinstance(infos, Mapping):
        return {}
    return {agent: info[MASK] for agent, info in infos.items() if isinstance(info, Mapping) and MASK in info}


def declared_groups(env: Any) -> Mapping[Any, Any]:
    """Returns the attribute `groups` of an environment if it is a dict; an empty one if it is of another type."""
    groups = getattr(env, "groups", None)
    return groups if isinstance(groups, Mapping) else {}


def rewards_of_groups(infos: Any) -> dict[Agent, Any]:
    """Returns the group rewards from a dict of infos by agent."""
    if not isinstance(infos, Mapping):
        return {}
    reported = [(agent, info) for agent, info in infos.items() if isinstance(info, Mapping)]
    return {agent: info[GROUP_REWARD] for agent, info in reported if GROUP_REWARD in info}


def rests(info: Any) -> bool:
    """Whether an agent's info marks it as resting."""
    return bool(info) and isinstance(info, Mapping) and bool(info.get(RESTING))


STEP_PARTS = ("observations", "rewards", "terminateds", "truncateds", "infos")
"""Names of the values that a multi-agent `step` returns."""


def step_dicts(result: Any, report: Callable[[Breach], None]) -> tuple[dict[Agent, Any], ...]:
    """Returns the five dicts of a multi-agent `step`; reports wrong types, raises a Breach if some are missing."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise Breach(
            f"step() returned {shape_of(result)}, expected five dicts by agent ({', '.join(STEP_PARTS)}); {NEW_API}"
        )
    for name, part in zip(STEP_PARTS, result, strict=True):
        if not isinstance(part, Mapping):
            report(Breach(f"step() returned {name} as {shape_of(part)}, expected a dict by agent"))
            result = tuple(part if isinstance(part, Mapping) else {} for part in result)
    dicts: tuple[dict[Agent, Any], ...] = result
    return dicts


def obs_and_infos(result: Any, report: Callable[[Breach], None]) -> tuple[dict[Agent, Any], Any]:
    """Returns the two dicts of a multi-agent `reset`; reports other forms, raises a Breach without observations."""
    pair = isinstance(result, tuple) and len(result) == 2
    obs, infos = result if pair else (result, {})
    if not pair or not isinstance(obs, Mapping):
        report(
            Breach(f"reset() returned {shape_of(result)}, expected (observations, infos), dicts by agent; {NEW_API}")
        )
    if not isinstance(obs, Mapping):
        raise Breach(f"reset() returned observations as {shape_of(obs)}, expected a dict by agent")
    return dict(obs), infos


NEW_API = (
    "this is the form of the old Gym API: use Gymnasium's, reset(seed=, options=) -> (obs, info) and step(action) "
    "-> (obs, reward, terminated, truncated, info), or convert the environment with `shimmy` (pip install shimmy)"
)


def takes_seed(env: Any) -> bool:
    """Returns whether `reset` of an environment takes a seed, as it does not in the old Gym API."""
    parameters = inspect.signature(getattr(env, "unwrapped", env).reset).parameters
    return "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def shape_of(result: Any) -> str:
    """Describes a returned value in a few words: ``4 values``, ``ndarray of shape (4,)``."""
    if isinstance(result, tuple):
        return f"{len(result)} values"
    if isinstance(result, np.ndarray):
        return f"ndarray of shape {result.shape}"
    return type(result).__name__


def render_fps_of(env: Any) -> float | None:
    """Returns the `render_fps` in the metadata of `env`, or None if there is no valid one."""
    metadata = getattr(env, "metadata", None)
    fps = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    return float(fps) if isinstance(fps, int | float) and 0 < fps < math.inf else None


def render_modes_of(env: Any) -> tuple[str, ...]:
    """Returns the `render_modes` in the metadata of `env`."""
    metadata = getattr(env, "metadata", None)
    modes = metadata.get("render_modes", ()) if isinstance(metadata, Mapping) else ()
    return tuple(str(mode) for mode in modes) if isinstance(modes, list | tuple) else ()


def cause_of(error: Exception) -> BaseException | None:
    """Returns the cause to show beneath an `EnvError`: the environment's own exception, from its own first line on."""
    if isinstance(error, Breach):
        return error.__cause__
    return error.with_traceback(own_frames(error) or error.__traceback__)
