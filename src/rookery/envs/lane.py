"""One copy of an environment, whatever style it is written in: what the adapters offer and the back ends drive.

`Lane` is implemented by `dict_env.DictLane`, `pettingzoo_env.ParallelLane` and `pettingzoo_env.AECLane`;
`gym_env.GymLane` has all of it but `step`, because its one agent is stepped without dictionaries. Agents are named by
the environment's own ids here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium import Space

from rookery.core.spaces import MASK
from rookery.core.tracebacks import own_frames

RESTING = "resting"
"""Key of `info`: true while the agent need not act, as of a machine that cools down (docs/how-to/replay-memory.md)."""

Agent = Hashable

Spaces = tuple[Space[Any], Space[Any]]


class Breach(Exception):
    """An environment broke its contract. The back end adds where, and raises an `EnvError`.

    Args:
        problem: What was found, and what was expected.
        agent: Whom it concerns, if it is one agent.
    """

    def __init__(self, problem: str, agent: Agent | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.agent = agent


@dataclass
class LaneStep:
    """What one copy shows after a reset or a step.

    Attributes:
        obs: Observations of the agents that must act now.
        reward: What agents got in this step; who is missing got nothing.
        terminated: Agents whose episode ended now and has no future.
        truncated: Agents whose episode was cut off now.
        final: Last observations of agents that ended now, where the environment gives them.
        masks: Action masks that came in `info` rather than in the observation.
        ended: The whole episode is over; `obs` is empty.
        infos: What the environment said besides, by agent.
    """

    obs: dict[Agent, Any]
    reward: Mapping[Agent, Any] = field(default_factory=dict)
    terminated: Iterable[Agent] = ()
    truncated: Iterable[Agent] = ()
    final: Mapping[Agent, Any] = field(default_factory=dict)
    masks: Mapping[Agent, Any] = field(default_factory=dict)
    ended: bool = False
    infos: Mapping[Agent, Any] = field(default_factory=dict)

    def resting(self) -> list[Agent]:
        """Those of `obs` who need not act, because their info says that they rest."""
        if not self.infos or not isinstance(self.infos, Mapping):
            return []
        return [agent for agent in self.obs if rests(self.infos.get(agent))]


class Lane(Protocol):
    """One copy of an environment.

    Attributes:
        env: The environment itself.
        agents: Those it announces, in its order; others may appear.
        max_entities: Room for the elements of a ``Sequence`` that agents observe; None: each must say it itself.
    """

    env: Any
    agents: tuple[Agent, ...]
    max_entities: int | None

    def spaces(self, agent: Agent) -> Spaces:
        """Observation and action space of an agent; raises a Breach if the environment does not know them."""

    def reset(self, seed: int) -> LaneStep:
        """Starts an episode; raises a Breach if the environment breaks the contract."""

    def step(self, actions: dict[Agent, Any]) -> LaneStep:
        """Steps once, with an action for each agent of the last `LaneStep.obs`; raises as `reset` does."""


def info_masks(infos: Any) -> dict[Agent, Any]:
    """The action masks in a dict of infos by agent."""
    if not isinstance(infos, Mapping):
        return {}
    return {agent: info[MASK] for agent, info in infos.items() if isinstance(info, Mapping) and MASK in info}


def rests(info: Any) -> bool:
    """Whether an agent's info lets it rest."""
    return bool(info) and isinstance(info, Mapping) and bool(info.get(RESTING))


def five_dicts(result: Any, call: str) -> tuple[dict[Agent, Any], ...]:
    """The five dicts that a multi-agent `step` returns; raises a Breach if it returned anything else."""
    names = "(observations, rewards, terminateds, truncateds, infos)"
    if not isinstance(result, tuple) or len(result) != 5:
        raise Breach(f"{call} returned {shape_of(result)}, expected five dicts by agent {names}; {NEW_API}")
    for name, part in zip(names.strip("()").split(", "), result, strict=True):
        if not isinstance(part, Mapping):
            raise Breach(f"{call} returned {name} as {type(part).__name__}, expected a dict by agent")
    return result


def obs_and_infos(result: Any, call: str) -> tuple[dict[Agent, Any], Any]:
    """The two dicts that a multi-agent `reset` returns; raises a Breach if it returned anything else."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Mapping):
        raise Breach(f"{call} returned {shape_of(result)}, expected (observations, infos), dicts by agent; {NEW_API}")
    return result


NEW_API = (
    "the old Gym API looks like this: use Gymnasium's, reset(seed=, options=) -> (obs, info) and "
    "step(action) -> (obs, reward, terminated, truncated, info), or convert the environment with `shimmy` "
    "(pip install shimmy)"
)


def shape_of(result: Any) -> str:
    """A returned value in a few words: ``4 values``, ``ndarray of shape (4,)``."""
    if isinstance(result, tuple):
        return f"{len(result)} values"
    if isinstance(result, np.ndarray):
        return f"ndarray of shape {result.shape}"
    return type(result).__name__


def picture(env: Any) -> np.ndarray | None:
    """What `env` draws, ``[height, width, 3]`` uint8, or None if it draws no pictures."""
    mode = getattr(env, "render_mode", "rgb_array")
    if mode not in ("rgb_array", "rgb_array_list") or not callable(getattr(env, "render", None)):
        return None
    try:
        frame = env.render()
    except NotImplementedError:
        return None
    if isinstance(frame, list) and frame:
        frame = frame[-1]
    if isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3:
        return np.ascontiguousarray(frame, dtype=np.uint8)
    return None


def cause_of(error: Exception) -> BaseException | None:
    """What to show beneath an `EnvError`: the environment's own exception, from its own first line on."""
    if isinstance(error, Breach):
        return error.__cause__
    return error.with_traceback(own_frames(error) or error.__traceback__)
