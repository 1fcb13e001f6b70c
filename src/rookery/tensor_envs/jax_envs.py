"""Environments of gymnax and Brax as tensors: both are written in JAX, whose arrays PyTorch reads without copying.

JAX is loaded when one of them is made. It must have the requested device.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.tensor_envs.functional import FunctionalEnv

OVER = "done"
"""Brax's name of the flag for the end of an episode, as a number."""


def _jax() -> ModuleType:
    try:
        import jax
    except ImportError as error:
        raise EnvError(f"environments written in JAX need it: pip install jax ({error})") from error
    found: ModuleType = jax
    return found


def _device(jax: ModuleType, device: str) -> Any:
    """Returns the JAX device for PyTorch's name of a device."""
    kind, _, number = device.partition(":")
    try:
        return jax.devices("cuda" if kind == "cuda" else kind)[int(number or 0)]
    except (RuntimeError, IndexError) as error:
        raise EnvError(f"device {device}: JAX finds no such device: {error}") from error


class JaxEnv(FunctionalEnv):
    """Base class of environments in JAX.

    Args:
        begin: Function ``key -> (state, obs)``: begins an episode in every environment.
        step: Function ``(key, state, actions) -> (state, obs, reward, terminated, truncated, final_obs)``: steps every
            environment, and begins the next episode of those whose episode ends.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        num_envs: Number of environments.
        device: Device, ``cpu`` or ``cuda``; None = the CPU.

    Raises:
        EnvError: If JAX is not installed, or does not have the device.
    """

    def __init__(
        self,
        begin: Callable[[Any], tuple[Any, Any]],
        step: Callable[[Any, Any, Any], tuple[Any, Any, Any, Any, Any, Any]],
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        device: str | None = None,
    ) -> None:
        jax = _jax()
        place = _device(jax, device or "cpu")

        def first(key: Any) -> tuple[Any, Any]:
            key, start = jax.random.split(key)
            state, obs = begin(start)
            return (key, state), obs

        def following(state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
            key, now = jax.random.split(state[0])
            after, obs, reward, terminated, truncated, final_obs = step(now, state[1], actions)
            return (key, after), obs, reward, terminated, truncated, final_obs

        began = jax.jit(first)
        numbers = torch.float32 if isinstance(action_space, spaces.Box) else torch.int32
        super().__init__(
            lambda seed: began(jax.device_put(jax.random.PRNGKey(seed), place)),
            jax.jit(following),
            observation_space,
            action_space,
            num_envs,
            from_dlpack=jax.dlpack.from_dlpack,
            device=device,
            action_type=numbers,
            flatten=jax.tree.flatten,
            unflatten=jax.tree.unflatten,
        )


def where_ended(ended: Any, begun: Any, after: Any) -> Any:
    """Returns, leaf by leaf, the values of the next episode where one has ended, else those after the step.

    Args:
        ended: ``[N]`` bool.
        begun: Leaves ``[N, ...]`` of episodes that begin.
        after: Leaves ``[N, ...]`` after the step.
    """
    jax = _jax()

    def chosen(new: Any, old: Any) -> Any:
        return jax.numpy.where(ended.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

    return jax.tree.map(chosen, begun, after)


class GymnaxEnv(JaxEnv):
    """Runs N environments of gymnax; each episode has its own initial state.

    Args:
        num_envs: Number of environments.
        env: Its name in gymnax, or the object.
        device: Device, ``cpu`` or ``cuda``; None = the CPU.
        parameters: Changed fields of its parameters, as ``max_steps_in_episode=200``.

    Raises:
        EnvError: If gymnax is not installed, or one of its spaces has no equivalent in Gymnasium.
    """

    def __init__(self, num_envs: int, env: Any, device: str | None = None, **parameters: Any) -> None:
        jax = _jax()
        if isinstance(env, str):
            try:
                import gymnax
            except ImportError as error:
                raise EnvError(f"env {env!r} of gymnax needs the package: pip install gymnax ({error})") from error
            env, params = gymnax.make(env)
        else:
            params = env.default_params
        params = params.replace(**parameters)
        split, tells_cut = jax.random.split, hasattr(env, "is_truncated")

        def begin(key: Any) -> tuple[Any, Any]:
            obs, state = jax.vmap(env.reset_env, (0, None))(split(key, num_envs), params)
            return state, obs

        def step(key: Any, state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
            now, start = split(key)
            stepped = jax.vmap(env.step_env, (0, 0, 0, None))(split(now, num_envs), state, actions, params)
            final_obs, after, reward, ended, _ = stepped
            if tells_cut:
                truncated, terminated = jax.vmap(env.is_truncated, (0, None))(after, params), ended
            else:  # older versions report the end of an episode without the reason
                truncated = ended & (after.time >= params.max_steps_in_episode)
                terminated = ended & ~truncated
            over = terminated | truncated
            begun, obs = begin(start)
            shown = where_ended(over, obs, final_obs)
            return where_ended(over, begun, after), shown, reward, terminated, truncated, final_obs

        observed, acted = gym_space(env.observation_space(params)), gym_space(env.action_space(params))
        super().__init__(begin, step, observed, acted, num_envs, device)


class BraxEnv(JaxEnv):
    """Runs N environments of Brax, or of its interface.

    As in Brax, an environment whose episode ends returns to the initial state of its first episode.

    Args:
        num_envs: Number of environments.
        env: Its name in Brax, or the object: not wrapped, for one environment.
        device: Device, ``cpu`` or ``cuda``; None = the CPU.
        episode_length: Steps after which an episode is truncated.
        settings: Other arguments of the environment, as ``backend="spring"``.

    Raises:
        EnvError: If Brax is not installed.
    """

    def __init__(
        self, num_envs: int, env: Any, device: str | None = None, episode_length: int = 1000, **settings: Any
    ) -> None:
        jax = _jax()
        if isinstance(env, str):
            try:
                from brax.envs import get_environment
            except ImportError as error:
                raise EnvError(f"env {env!r} of Brax needs the package: pip install brax ({error})") from error
            env = get_environment(env, **settings)

        def begin(key: Any) -> tuple[Any, Any]:
            first = jax.vmap(env.reset)(jax.random.split(key, num_envs))
            steps = jax.numpy.zeros(num_envs, jax.numpy.int32)
            return {"first": first, "now": first, "steps": steps}, first.obs

        def step(key: Any, state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
            after, steps = jax.vmap(env.step)(state["now"], actions), state["steps"] + 1
            terminated = getattr(after, OVER) > 0
            truncated = (steps >= episode_length) & ~terminated
            over = terminated | truncated
            now = where_ended(over, state["first"], after)
            kept = {"first": state["first"], "now": now, "steps": jax.numpy.where(over, 0, steps)}
            return kept, now.obs, after.reward, terminated, truncated, after.obs

        size = env.observation_size
        parts = {name: _box(one) for name, one in size.items()} if hasattr(size, "items") else None
        observed = _box(size) if parts is None else spaces.Dict(parts)
        super().__init__(begin, step, observed, spaces.Box(-1.0, 1.0, (env.action_size,)), num_envs, device)


def _box(size: Any) -> spaces.Space[Any]:
    shape = tuple(size) if isinstance(size, tuple | list) else (int(size),)
    return spaces.Box(-np.inf, np.inf, shape)


def gym_space(space: Any) -> spaces.Space[Any]:
    """Returns the Gymnasium space that is equivalent to one of gymnax.

    Raises:
        EnvError: If there is none.
    """
    inside = getattr(space, "spaces", None)
    if isinstance(inside, dict):
        return spaces.Dict({key: gym_space(part) for key, part in inside.items()})
    if isinstance(inside, list | tuple):
        return spaces.Tuple(map(gym_space, inside))
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "low") and hasattr(space, "high"):
        dtype = np.dtype(np.uint8) if np.dtype(space.dtype) == np.uint8 else np.dtype(np.float32)
        low, high = (np.broadcast_to(np.asarray(bound, dtype), space.shape).copy() for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=dtype)
    raise EnvError(f"{space} of gymnax has no equivalent in Gymnasium")
