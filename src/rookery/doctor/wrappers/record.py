"""`Recorder`: what passes between an environment and each of its wrappers: actions, observations, rewards and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described
from rookery.core.spaces.arrays import MASK
from rookery.envs.random_play import is_over, single_episode

EPISODES, MOST_STEPS, MOST_KEPT = 40, 3_000, 20_000_000
"""Most episodes and steps of a play, and bytes of observations after which no more of their values are kept."""

MOST_LEVELS = 64
"""Largest number of wrappers that are looked at."""

MOST_ELEMENTS = 256
"""Elements of an observation up to which its values are kept."""

USUAL = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
"""Wrappers that pass everything on as it is, but for a time limit."""

ONE, ALL = "agent", "__all__"
"""Name of the only agent, and that of all agents in the ends of a step."""

Choose = Callable[[Any, Mapping[str, Any]], Any]
"""Returns the action for an observation and an info."""


@dataclass
class LevelCall:
    """A call of ``reset`` or ``step`` at one level.

    Attributes:
        is_reset: Whether it is a reset.
        given: Action of a step as numbers, or None; seed of a reset.
        key: Observation as bytes that can be compared.
        values: Elements of the observation; None where there are many.
        reward: Reward of each agent.
        terminated: Agents that have terminated.
        truncated: Agents that were truncated.
        over: Whether the episode is over.
        masks: Mask of each agent that has one.
        below: Calls of the level below within this one.
    """

    is_reset: bool
    given: Any
    key: bytes = b""
    values: np.ndarray | None = None
    reward: dict[str, float] = field(default_factory=dict)
    terminated: frozenset[str] = frozenset()
    truncated: frozenset[str] = frozenset()
    over: bool = False
    masks: dict[str, bytes] = field(default_factory=dict)
    below: list[LevelCall] = field(default_factory=list)

    @property
    def steps_below(self) -> list[LevelCall]:
        """Steps of the level below within this call."""
        return [one for one in self.below if not one.is_reset]


class Recorder:
    """A wrapped environment whose calls are recorded at each level.

    Args:
        env: An environment of Gymnasium, or one with dicts by agent; wrappers have the one below as ``env``.

    Attributes:
        names: Name of the class at each level, the outermost first.
        levels: Calls at each level, in the order of time.
    """

    def __init__(self, env: Any) -> None:
        self.env, self._open, self._kept = env, list[tuple[int, LevelCall]](), 0
        self.chain = [*chain_of(env)]
        self.names = [type(one).__name__ for one in self.chain]
        self.levels: list[list[LevelCall]] = [[] for _ in self.chain]
        for number, one in enumerate(self.chain):
            one.reset = self._recorded(number, one.reset, is_reset=True)
            one.step = self._recorded(number, one.step, is_reset=False)

    def _recorded(self, number: int, function: Callable[..., Any], *, is_reset: bool) -> Callable[..., Any]:
        """Returns a function that calls another one, and keeps what it is given and what it returns."""

        def recorded(*given: Any, **named: Any) -> Any:
            if self._open and self._open[-1][0] == number:  # a call of its own, as of `step` in `reset`
                return function(*given, **named)
            first = named.get("seed") if is_reset else _numbers((*given, *named.values())[0])
            call = LevelCall(is_reset, first)
            if self._open:
                self._open[-1][1].below.append(call)
            self._open.append((number, call))
            try:
                result = function(*given, **named)
                self.levels[number].append(call)
                self._fill(call, result)
            except Exception as error:
                if len(self._open) > 1 or isinstance(error, EnvError):
                    raise  # as it is, since a wrapper may catch it
                raise EnvError(f"{self.names[number]}: {described(error)}") from error
            finally:
                self._open.pop()
            return result

        return recorded

    def _fill(self, call: LevelCall, result: Any) -> None:
        """Keeps what a call returns."""
        obs, info = result[0], result[-1]
        call.key, values = seen_of(obs)
        if values is not None and self._kept < MOST_KEPT:
            call.values, self._kept = values, self._kept + values.nbytes
        call.masks = masks_of(obs, info)
        if call.is_reset:
            return
        _, reward, terminated, truncated, _ = result
        call.over = is_over(obs, terminated, truncated)
        if isinstance(reward, Mapping):
            call.reward = {str(agent): float(value) for agent, value in reward.items()}
            call.terminated, call.truncated = (
                frozenset(str(agent) for agent, flag in flags.items() if flag and agent != ALL)
                for flags in (terminated, truncated)
            )
            return
        call.reward = {ONE: float(reward)}
        call.terminated, call.truncated = (frozenset((ONE,) if flag else ()) for flag in (terminated, truncated))


def chain_of(env: Any) -> Iterator[Any]:
    """Yields an environment and those inside it, the outermost first."""
    for _ in range(MOST_LEVELS):
        yield env
        held = vars(env) if hasattr(env, "__dict__") else {}
        inside = [one for one in held.values() if isinstance(one, gymnasium.Env)]
        env = held.get("env") or (inside[0] if len(inside) == 1 else None)
        if not (callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))):
            break


def play_recorded(make: Callable[[], Any], choose: Choose | None, until: float, most: int = EPISODES) -> Recorder:
    """Plays an environment, in equal episodes for all behaviours, and returns what has passed between its levels.

    Args:
        make: Makes a single throwaway environment, wrapped.
        choose: Chooses its actions; None = random ones.
        until: Time of `time.monotonic` at which it ends.
        most: Number of episodes after which it ends.

    Raises:
        EnvError: If the environment raises, or is of another style.
    """
    try:
        env = make()
    except Exception as error:
        raise EnvError(f"the environment cannot be made: {described(error)}") from error
    try:
        recorder, left = Recorder(env), MOST_STEPS
        choose = choose or random_choice(env)
        for episode in range(most):
            for _ in single_episode(env, episode, choose):
                left -= 1
                if left <= 0 or time.monotonic() > until:
                    return recorder
        return recorder
    finally:
        if hasattr(env, "close"):
            env.close()


def random_choice(env: Any) -> Choose:
    """Returns a choice of random allowed actions, which depends on the number of earlier choices alone; it raises an
    `EnvError` for spaces of another style.
    """
    spaces: dict[Any, Any] = {}

    def sample(agent: Any, mask: np.ndarray | None) -> Any:
        if agent not in spaces:
            space: Any = getattr(env, "action_space", None)
            if agent is not None:
                by_agent = getattr(env, "action_spaces", None) or space
                space = by_agent[agent] if isinstance(by_agent, Mapping) else space
                space = space(agent) if callable(space) and not hasattr(space, "sample") else space
            space.seed(len(spaces))
            spaces[agent] = space
        usable = mask is not None and np.shape(mask) == (getattr(spaces[agent], "n", None),) and np.any(mask)
        return spaces[agent].sample(np.asarray(mask, np.int8)) if usable else spaces[agent].sample()

    def choose(obs: Any, info: Mapping[str, Any]) -> Any:
        try:
            if not _is_by_agent(env, obs):
                return sample(None, _mask(obs, info))
            return {agent: sample(agent, _mask(one, info.get(agent, {}))) for agent, one in obs.items()}
        except Exception as error:
            raise EnvError(f"there is no random action for it: {described(error)}") from error

    return choose


def _is_by_agent(env: Any, obs: Any) -> bool:
    """Returns whether an observation is a dict by agent, and not one of several parts."""
    agents = getattr(env, "possible_agents", None) or getattr(env, "agents", None) or ()
    return isinstance(obs, Mapping) and bool(agents) and all(agent in agents for agent in obs)


def _mask(obs: Any, info: Any) -> Any:
    """Returns the action mask in an observation or an info; None without one."""
    found = obs.get(MASK) if isinstance(obs, Mapping) else None
    return info.get(MASK) if found is None and isinstance(info, Mapping) else found


def masks_of(obs: Any, info: Any) -> dict[str, bytes]:
    """Returns the action mask of each agent that has one, as bytes that can be compared."""
    found = {ONE: _mask(obs, info)}
    for place in (obs, info):
        if isinstance(place, Mapping):
            found |= {str(name): one[MASK] for name, one in place.items() if isinstance(one, Mapping) and MASK in one}
    return {name: np.asarray(mask, bool).tobytes() for name, mask in found.items() if mask is not None}


def seen_of(obs: Any) -> tuple[bytes, np.ndarray | None]:
    """Returns an observation as bytes that can be compared, and as numbers, unless it has many."""
    leaves = [np.asarray(one) for one in _leaves(obs)]
    key = b"".join(one.tobytes() for one in leaves)
    if not leaves or any(one.dtype.kind not in "biuf" for one in leaves):
        return key, None
    few = sum(one.size for one in leaves) <= MOST_ELEMENTS
    return key, np.concatenate([one.ravel().astype(np.float64) for one in leaves]) if few else None


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the parts of an observation or action, in the order of their names; masks are left out."""
    if isinstance(value, Mapping):
        for name in sorted(value, key=str):
            if name != MASK:
                yield from _leaves(value[name])
    elif isinstance(value, tuple | list) and value and not np.isscalar(value[0]):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _numbers(action: Any) -> np.ndarray | None:
    """Returns an action as numbers."""
    return seen_of(action)[1]
