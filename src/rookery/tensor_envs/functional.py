"""`FunctionalEnv`: environments of pure functions over arrays of another library, shared as tensors by DLPack.

Nothing is copied: a tensor and an array share the same memory, on the same device. The library itself is not loaded
here; the caller has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from rookery.core.errors import EnvError, SpaceError
from rookery.core.spaces.arrays import obs_spec
from rookery.tensor_envs.actions import torch_type
from rookery.tensor_envs.env import Observations, TensorEnv, TensorStep

Taken = tuple[list[Any], Any]
"""A flattened state: its arrays, and their structure."""


class FunctionalEnv(TensorEnv):
    """Runs an environment of two pure functions, as in Brax and gymnax, for N environments at once.

    Numbers of other types become those of the spaces: float32, int64, uint8, bool. An action is passed in new memory.

    Args:
        reset: Function ``seed -> (state, obs)``: begins an episode in every environment.
        step: Function ``(state, actions) -> (state, obs, reward, terminated, truncated, final_obs)``: steps every
            environment, and begins the next episode of those whose episode ends.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        num_envs: Number of environments.
        from_dlpack: The library's function that makes an array of a tensor, as ``jax.dlpack.from_dlpack``.
        device: Device of the arrays, ``cpu`` or ``cuda``; None = the CPU.
        action_type: Type of the actions that `step` takes; None = that of the action space, int64 for Discrete.
        flatten: Flattens a state, as ``jax.tree.flatten``; None = a state of arrays in dicts, lists and tuples.
        unflatten: Inverse of `flatten`, as ``jax.tree.unflatten``.
    """

    def __init__(
        self,
        reset: Callable[[int], tuple[Any, Any]],
        step: Callable[[Any, Any], tuple[Any, Any, Any, Any, Any, Any]],
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        *,
        from_dlpack: Callable[[Any], Any],
        device: str | torch.device | None = None,
        action_type: torch.dtype | None = None,
        flatten: Callable[[Any], Taken] | None = None,
        unflatten: Callable[[Any, list[Any]], Any] | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, num_envs, device)
        self._reset, self._step, self._from_dlpack = reset, step, from_dlpack
        self._action_type = action_type
        self._flatten, self._unflatten = flatten or taken_apart, unflatten or put_together
        try:
            leaves = obs_spec(observation_space, action_space).leaves
        except SpaceError as error:
            raise EnvError(f"{type(self).__name__}: {error}") from error
        self._types = {leaf.path: torch_type(leaf.dtype) for leaf in leaves}
        self._state: Any = None

    def reset(self, seed: int) -> Observations:
        """Begins an episode in every environment; see `TensorEnv.reset`."""
        self._state, given = self._reset(seed)
        obs: Observations = self._seen(given)
        return obs

    def step(self, actions: Tensor) -> TensorStep:
        """Steps every environment once; see `TensorEnv.step`."""
        given = self._step(self._state, self._from_dlpack(actions.to(self._action_type or actions.dtype)))
        if not isinstance(given, tuple) or len(given) != 6:
            found = f"{len(given)} values" if isinstance(given, tuple | list) else type(given).__name__
            raise EnvError(
                f"{type(self).__name__}: its function step returned {found}, expected state, obs, reward, terminated, "
                "truncated, final_obs"
            )
        self._state, obs, reward, terminated, truncated, final_obs = given
        return TensorStep(
            self._seen(obs),
            self._tensor(reward, "reward", torch.float32),
            self._tensor(terminated, "terminated", torch.bool),
            self._tensor(truncated, "truncated", torch.bool),
            self._seen(final_obs, "final_obs"),
        )

    def _seen(self, obs: Any, called: str = "obs", path: str = "") -> Any:
        """Returns observations as tensors, in the same structure."""
        if obs is None:
            return None  # the reader raises a clear error for it
        inside = f"{path}/" if path else ""
        if isinstance(obs, Mapping):
            return {key: self._seen(part, called, f"{inside}{key}") for key, part in obs.items()}
        if isinstance(obs, list | tuple):
            return tuple(self._seen(part, called, f"{inside}{number}") for number, part in enumerate(obs))
        return self._tensor(obs, f"{called}: {path}" if path else called, self._types.get(path or "obs"))

    def _tensor(self, array: Any, what: str, dtype: torch.dtype | None) -> Tensor:
        """Returns the tensor of an array."""
        try:
            tensor: Tensor = array if isinstance(array, Tensor) else from_dlpack(array)
        except Exception as error:
            raise EnvError(
                f"{type(self).__name__}: {what} is {type(array).__name__}, expected an array that DLPack can share: "
                f"{type(error).__name__}: {error}"
            ) from error
        return tensor if dtype is None or tensor.dtype is dtype else tensor.to(dtype)

    def state_dict(self) -> dict[str, Any]:
        """Returns the arrays of the state as tensors, in the order of `flatten`."""
        arrays, _ = self._flatten(self._state)
        kept = [one if _is_plain(one) else self._tensor(one, "state", None).clone() for one in arrays]
        return {"state": kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state of `state_dict`, after a `reset`, whose state defines the structure.

        Raises:
            EnvError: If it is the state of another environment.
        """
        arrays, structure = self._flatten(self._state)
        kept = state.get("state", ())
        alike = len(arrays) == len(kept) and all(
            _is_plain(one) or (isinstance(saved, Tensor) and tuple(one.shape) == tuple(saved.shape))
            for one, saved in zip(arrays, kept, strict=True)
        )
        if not alike:
            raise EnvError(f"{type(self).__name__}: the saved state is of another environment, or of other settings")
        placed = [
            self._from_dlpack(saved.to(self.device, copy=True)) if isinstance(saved, Tensor) else saved
            for saved in kept
        ]
        self._state = self._unflatten(structure, placed)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def taken_apart(state: Any) -> Taken:
    """Flattens a state of arrays in dicts, lists and tuples: the arrays in order, and the state itself as the
    structure.

    Raises:
        EnvError: If it holds an object other than arrays and plain values.
    """
    if isinstance(state, Mapping | list | tuple):
        parts = state.values() if isinstance(state, Mapping) else state
        return [leaf for part in parts for leaf in taken_apart(part)[0]], state
    if not _is_plain(state) and not hasattr(state, "__dlpack__"):
        raise EnvError(
            f"the state of a FunctionalEnv has an object of {type(state).__name__} in it, which is not an array; "
            "pass flatten and unflatten, as jax.tree.flatten and jax.tree.unflatten"
        )
    return [state], state


def put_together(form: Any, leaves: list[Any]) -> Any:
    """Inverse of `taken_apart`."""
    rest = iter(leaves)

    def built(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: built(inside) for key, inside in part.items()}
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*map(built, part))
        return type(part)(map(built, part)) if isinstance(part, list | tuple) else next(rest)

    return built(form)
