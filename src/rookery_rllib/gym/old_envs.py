"""`adapted`: converts environments of 2021 to the present API.

Their `reset` returns observations alone and takes no seed, `step` returns four values, and they draw from the global
generators `random` and `numpy.random`, of which each environment gets its own state (`per_env_rng`).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.face import ALL
from rookery_rllib.base.notices import say_once
from rookery_rllib.base.per_env_rng import PerEnvRandomState, env_and_inner, libraries_may_draw
from rookery_rllib.gym.core import TRUNCATED, Env
from rookery_rllib.gym.old_api import takes_seed
from rookery_rllib.gym.rllib_spaces import holds

SpacesOf = Callable[[Any], tuple[Any, Any]]
"""Returns the observation and action space of an agent that its environment does not define."""


def adapted(env: Any, spaces_of: SpacesOf | None = None) -> Any:
    """Returns an environment with the present API, as for `rookery.envs.make`; unchanged if it has that API already.

    An end is a truncation if ``info["TimeLimit.truncated"]`` is true, else a termination. The first environment of a
    class prints a line.

    Args:
        env: An object with `reset` and `step` of Gym before 0.26, or of RLlib's `MultiAgentEnv` of that time.
        spaces_of: Spaces of agents that a multi-agent environment does not define; None = it defines all.
    """
    if not is_old(env):
        return env
    many = speaks_in_dicts(env)
    form = "reset() -> {agent: obs}, four dicts" if many else "reset() -> obs, four values"
    say_once(
        f"{type(getattr(env, 'unwrapped', env)).__name__} has the API of 2021 ({form} from step(), no seed) and was "
        f"adapted: an end is a termination unless info has {TRUNCATED!r}, and global generators repeat with a seed"
    )
    return OldMultiAgentEnv(env, spaces_of) if many else OldEnv(env)


def is_old(env: Any) -> bool:
    """Returns whether an object is an environment with the API of 2021: its `reset` takes no seed.

    Objects without `reset` and `step`, environments of PettingZoo and those of Gymnasium are not.
    """
    if not all(callable(getattr(env, method, None)) for method in ("reset", "step")):
        return False
    if isinstance(env, OldEnv | OldMultiAgentEnv) or (isinstance(env, gymnasium.Env) and not isinstance(env, Env)):
        return False
    if callable(getattr(env, "last", None)) or callable(getattr(env, "observation_space", None)):
        return False
    return not takes_seed(env)


def speaks_in_dicts(env: Any) -> bool:
    """Returns whether an environment of 2021, or one that it wraps, is a `MultiAgentEnv`."""
    return any(base.__name__ == "MultiAgentEnv" for inner in env_and_inner(env) for base in type(inner).__mro__)


class _Adapted:
    """An environment of 2021 with its own state of the global generators."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._random_state = PerEnvRandomState(libraries=libraries_may_draw(env))
        self._spaces = _own_spaces(env)

    def _restarted(self, seed: int | None) -> Any:
        if seed is not None:
            self._random_state.seed(seed)
            for space in self._spaces:
                space.seed(seed)
        with self._random_state:
            if seed is not None and callable(getattr(self.env, "seed", None)):
                self.env.seed(seed)
            return self.env.reset()

    def _stepped(self, action: Any) -> Any:
        return self._random_state.call(self.env.step, action)

    def render(self) -> Any:
        """Returns an image [height, width, 3] uint8, or None if the environment renders none."""
        with self._random_state:
            picture = _picture(self.env.render) if callable(getattr(self.env, "render", None)) else None
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        if callable(getattr(self.env, "close", None)):
            self.env.close()

    def __str__(self) -> str:
        return f"<{type(self).__name__} of {self.env}>"


def _own_spaces(env: Any) -> list[spaces.Space[Any]]:
    """Replaces the spaces of an environment, and of those it wraps, by copies that it may draw from; returns them."""
    found: dict[int, spaces.Space[Any]] = {}
    memo: dict[int, Any] = {}
    for inner in env_and_inner(env):
        for name in ("action_space", "observation_space"):
            space = getattr(inner, name, None)
            if not isinstance(space, spaces.Space):
                continue
            own = copy.deepcopy(space, memo)
            try:
                setattr(inner, name, own)
            except AttributeError:  # a property, which may return a new one each time
                own = space
            found[id(own)] = own
    return list(found.values())


def _picture(render: Callable[..., Any]) -> Any:
    try:
        takes = inspect.signature(render).parameters
    except (TypeError, ValueError):
        return None
    by_word = "mode" in takes or any(kind.kind is kind.VAR_KEYWORD for kind in takes.values())
    try:
        return render(mode="rgb_array") if by_word else render()
    except NotImplementedError:
        return None


class OldEnv(_Adapted, gymnasium.Env[Any, Any]):
    """An environment of Gym before 0.26 with the present API."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = {"render_modes": ["rgb_array"]}
        self.render_mode = "rgb_array"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.env, name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; a seed makes it reproducible, also for environments that draw from the global
        generators.
        """
        given = self._restarted(seed)
        pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict)
        if pair and not holds(self.observation_space, given):  # a Tuple observation may have that form, too
            return given  # type: ignore[no-any-return]
        return given, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the environment and returns (observation, reward, terminated, truncated, info)."""
        given = self._stepped(action)
        if len(given) == 5:
            five: tuple[Any, Any, bool, bool, dict[str, Any]] = given
            return five
        obs, reward, done, info = given
        cut = bool(done) and bool(info.get(TRUNCATED)) if isinstance(info, Mapping) else False
        return obs, reward, bool(done) and not cut, cut, info


class OldMultiAgentEnv(_Adapted):
    """Multi-agent environment of 2021, whose `step` returns four dicts, with the present API of five.

    Args:
        env: The environment.
        spaces_of: Spaces of agents that it does not define.
    """

    def __init__(self, env: Any, spaces_of: SpacesOf | None = None) -> None:
        super().__init__(env)
        self._spaces_of = spaces_of
        self.observation_space = getattr(env, "observation_space", None)
        self.action_space = getattr(env, "action_space", None)
        self.possible_agents = list(getattr(env, "possible_agents", None) or ())
        self.render_mode = "rgb_array"

    def get_observation_space(self, agent: Any) -> Any:
        """Returns an agent's observation space, None if it is unknown."""
        return self._space("observation", 0, agent)

    def get_action_space(self, agent: Any) -> Any:
        """Returns an agent's action space, None if it is unknown."""
        return self._space("action", 1, agent)

    def _space(self, what: str, place: int, agent: Any) -> Any:
        given = self._spaces_of(agent)[place] if self._spaces_of is not None else None
        if given is not None:
            return given
        for own in (getattr(self.env, f"{what}_spaces", None), getattr(self, f"{what}_space")):
            by_agent = own.spaces if isinstance(own, spaces.Dict) else own
            if isinstance(by_agent, Mapping) and agent in by_agent:
                return by_agent[agent]
        return getattr(self, f"{what}_space")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Starts an episode and returns observations and infos by agent; a seed makes it reproducible."""
        given = self._restarted(seed)
        if isinstance(given, tuple) and len(given) == 2:
            return given
        return given, {}

    def step(self, actions: dict[Any, Any]) -> tuple[Any, Any, dict[Any, bool], dict[Any, bool], Any]:
        """Steps the environment with the agents' actions and returns observations, rewards, terminateds, truncateds and
        infos by agent.
        """
        given = self._stepped(actions)
        if len(given) == 5:
            five: tuple[Any, Any, dict[Any, bool], dict[Any, bool], Any] = given
            return five
        obs, rewards, dones, infos = given
        infos = {} if infos is None else infos
        if not any(dones.values()):
            return obs, rewards, dones, dict.fromkeys(dones, False), infos
        cut = {agent: bool(over) and _cut(infos, agent) for agent, over in dones.items() if agent != ALL}
        if ALL in dones:  # the episode is truncated if all agents that end with it are
            ended = [agent for agent in cut if dones[agent]] or list(infos)
            cut[ALL] = bool(dones[ALL]) and bool(ended) and all(_cut(infos, agent) for agent in ended)
        return obs, rewards, {agent: bool(over) and not cut[agent] for agent, over in dones.items()}, cut, infos


def _cut(infos: Any, agent: Any) -> bool:
    info = infos.get(agent) if isinstance(infos, Mapping) else None
    return isinstance(info, Mapping) and bool(info.get(TRUNCATED))
