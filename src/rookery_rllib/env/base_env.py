"""`BaseEnv`: vectorized environments that return the waiting agents, by environment and agent.

RLlib samples from this form. Rookery does not, but callbacks get one (``base_env.get_unwrapped()``), and scripts may
poll it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.face import ConfigError
from rookery_rllib.env.envs import MultiAgentEnv, VectorEnv
from rookery_rllib.env.external_env import ExternalEnv
from rookery_rllib.gym import old_api

ASYNC_RESET_RETURN = "async_reset_return"

DUMMY_AGENT_ID = "agent0"
"""Id of the agent of a single-agent environment."""

Polled = tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]


class BaseEnv:
    observation_space: Any = None
    action_space: Any = None

    @staticmethod
    def to_base_env(
        env: Any,
        make_env: Callable[[int], Any] | None = None,
        num_envs: int = 1,
        remote_envs: bool = False,
        remote_env_batch_wait_ms: int = 0,
        policy_config: Any = None,
    ) -> BaseEnv:
        """Returns an environment of any form as a `BaseEnv`. It runs in this process: `remote_envs` must be false."""
        if remote_envs:
            raise ConfigError("to_base_env: remote_envs is not supported; trainers have num_workers")
        if isinstance(env, BaseEnv):
            return env
        if isinstance(env, ExternalEnv):
            raise ConfigError("to_base_env: an ExternalEnv drives itself; give it to a trainer as its env")
        if isinstance(env, VectorEnv):
            return _FromVector(env)
        if isinstance(env, MultiAgentEnv):
            return _FromMultiAgent(env, make_env, num_envs)
        return _FromVector(VectorEnv.wrap(make_env, [env], num_envs))

    def poll(self) -> Polled:
        raise NotImplementedError(f"{type(self).__name__} has no poll()")

    def send_actions(self, action_dict: Mapping[Any, Mapping[Any, Any]]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no send_actions()")

    def try_reset(self, env_id: Any = None) -> Any:
        return None

    def get_unwrapped(self) -> list[Any]:
        return []

    def get_sub_environments(self) -> list[Any]:
        return self.get_unwrapped()

    def try_render(self, env_id: Any = None) -> Any:
        return None

    def stop(self) -> None:
        for env in self.get_unwrapped():
            if hasattr(env, "close"):
                env.close()


class _FromVector(BaseEnv):
    """A `VectorEnv` whose environments are reset by `try_reset` only."""

    def __init__(self, vector_env: VectorEnv) -> None:
        self.vector_env = vector_env
        self.observation_space, self.action_space = vector_env.observation_space, vector_env.action_space
        self.num_envs = vector_env.num_envs
        self._shown: tuple[list[Any], ...] | None = None

    def poll(self) -> Polled:
        if self._shown is None:
            num = self.num_envs
            self._shown = (self.vector_env.vector_reset(), [None] * num, [False] * num, [{} for _ in range(num)])
        obs, rewards, ends, infos = self._shown
        return (
            {place: {DUMMY_AGENT_ID: one} for place, one in enumerate(obs)},
            {place: {DUMMY_AGENT_ID: one} for place, one in enumerate(rewards)},
            {place: {old_api.ALL: one} for place, one in enumerate(ends)},
            {place: {DUMMY_AGENT_ID: one} for place, one in enumerate(infos)},
            {},
        )

    def send_actions(self, action_dict: Mapping[Any, Mapping[Any, Any]]) -> None:
        actions = [action_dict[place][DUMMY_AGENT_ID] for place in range(self.num_envs)]
        self._shown = self.vector_env.vector_step(actions)

    def try_reset(self, env_id: Any = None) -> dict[Any, Any]:
        return {DUMMY_AGENT_ID: self.vector_env.reset_at(env_id)}

    def get_unwrapped(self) -> list[Any]:
        return self.vector_env.get_unwrapped()

    def try_render(self, env_id: Any = None) -> Any:
        return self.vector_env.try_render_at(env_id)


class _FromMultiAgent(BaseEnv):
    def __init__(self, env: MultiAgentEnv, make_env: Callable[[int], Any] | None, num_envs: int) -> None:
        if make_env is None and num_envs > 1:
            raise ConfigError(f"to_base_env: num_envs={num_envs} needs make_env, which makes the other environments")
        self.envs = [env, *(make_env(place) for place in range(1, num_envs) if make_env is not None)]
        self.num_envs = len(self.envs)
        self._shown: list[Any] = [None] * self.num_envs
        self._over: set[int] = set()

    def poll(self) -> Polled:
        """Returns the observations of the agents that act next; rewards are None at the start of an episode."""
        polled: Polled = ({}, {}, {}, {}, {})
        for place in range(self.num_envs):
            if self._shown[place] is None:
                self.try_reset(place)
            for part, one in zip(polled, self._shown[place], strict=False):
                part[place] = one
            self._shown[place] = ({}, {}, {old_api.ALL: False}, {})
        return polled

    def send_actions(self, action_dict: Mapping[Any, Mapping[Any, Any]]) -> None:
        """Steps environments; raises a ValueError if an episode is over, or the dict of ends has no ``__all__``."""
        for place, actions in action_dict.items():
            if place in self._over:
                raise ValueError(f"environment {place}: the episode is over, call try_reset({place})")
            shown = old_api.step(self.envs[place], dict(actions))
            if old_api.ALL not in shown[2]:
                raise ValueError(
                    f"environment {place}: the ends {shown[2]} do not state whether all is over: '{old_api.ALL}'"
                )
            if shown[2][old_api.ALL]:
                self._over.add(place)
            self._shown[place] = shown

    def try_reset(self, env_id: Any = None) -> dict[Any, Any]:
        place = env_id or 0
        obs: dict[Any, Any] = old_api.reset(self.envs[place])
        ends = {**dict.fromkeys(obs, False), old_api.ALL: False}
        self._shown[place] = (obs, dict.fromkeys(obs), ends, {agent: {} for agent in obs})
        self._over.discard(place)
        return obs

    def get_unwrapped(self) -> list[Any]:
        return list(self.envs)

    def try_render(self, env_id: Any = None) -> Any:
        return self.envs[env_id or 0].render()
