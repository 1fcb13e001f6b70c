"""`TensorContract`: checks the results of a `TensorEnv` against its contract, without synchronizing with the device.

Shapes, types and devices are checked without reading tensors. Their content is checked where it is read anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.errors import EnvError, SpaceError
from rookery.core.spaces.arrays import Leaf, action_spec, obs_spec, part_of
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.base import Kind
from rookery.tensor_envs.actions import torch_type
from rookery.tensor_envs.env import TensorEnv

FORM = "obs, reward, terminated, truncated, final_obs"

Parts = tuple[TensorTree, Tensor, Tensor, Tensor, TensorTree]
"""Results of a step, with stored observations by leaf path."""


class TensorContract:
    """Reads the results of an environment, or raises an error that names the fault.

    Args:
        env: The environment.
        name: Name of the environment for messages.

    Attributes:
        kind: Its one kind of agents.

    Raises:
        EnvError: If its spaces have no layout of tensors.
    """

    def __init__(self, env: TensorEnv, name: str) -> None:
        self.name = name
        try:
            obs = obs_spec(env.single_observation_space, env.single_action_space)
            self.kind = Kind((AGENT,), obs, action_spec(env.single_action_space))
        except SpaceError as error:
            raise EnvError(f"{name}: {error}") from error
        if any(leaf.entities is not None for leaf in obs.leaves):
            raise EnvError(f"{name}: sets of entities (Sequence) cannot be given as tensors; use a Box with empty rows")
        if self.kind.action.kind == "composite":
            raise EnvError(
                f"{name}: actions of {env.single_action_space} cannot be given as one tensor; use Discrete, "
                "MultiDiscrete, MultiBinary or Box"
            )
        self._num, self._device = env.num_envs, env.device
        self._leaves = [(leaf, *self._expected(leaf)) for leaf in obs.leaves]
        self._starts = {
            leaf.path: torch.from_numpy(np.asarray(leaf.start)).to(env.device)
            for leaf in obs.leaves
            if leaf.kind in ("discrete", "multi_discrete") and np.any(leaf.start)
        }
        self._sizes = {
            leaf.path: torch.tensor(leaf.sizes, device=env.device, dtype=torch.int64).reshape(leaf.shape)
            for leaf in obs.leaves
            if leaf.kind in ("discrete", "multi_discrete")
        }
        self._plain = [leaf.path for leaf in obs.leaves] == ["obs"]
        self._numbers = torch.Size((env.num_envs,))

    def _expected(self, leaf: Leaf) -> tuple[torch.Size, torch.dtype]:
        return torch.Size((self._num, *leaf.shape)), torch_type(leaf.dtype)

    def obs(self, given: Any, called: str) -> TensorTree:
        """Reads observations of all environments.

        Args:
            given: Observations from the environment.
            called: Their name for messages, as ``final_obs of step()``.

        Returns:
            Tensors ``[N, ...]`` by leaf path, as they are stored: the given ones, unless categories start at another
                number than 0.
            from another number than 0.

        Raises:
            EnvError: If a part is missing, or has another shape, type or device.
        """
        if given is None:
            raise EnvError(f"{self.name}: {called} is None, expected {self._form()}")
        tree: TensorTree = {}
        for leaf, shape, dtype in self._leaves:
            try:
                part = given if self._plain and isinstance(given, Tensor) else part_of(given, leaf.path)
            except SpaceError as error:
                raise EnvError(f"{self.name}: {called}: {error}") from error
            what = called if self._plain else f"{called}: {leaf.path}"
            self._check(part, what, shape, dtype)
            start = self._starts.get(leaf.path)
            tree[leaf.path] = part if start is None else part - start
        return tree

    def _form(self) -> str:
        """Describes the structure of observations for messages."""
        if self._plain:
            _, shape, dtype = self._leaves[0]
            return f"a tensor {tuple(shape)} of {_dtype(dtype)}"
        return f"tensors by {', '.join(leaf.path for leaf, _, _ in self._leaves)}"

    def step(self, given: Any) -> Parts:
        """Reads the results of a step.

        Raises:
            EnvError: If it is not five parts, or one of them has another shape, type or device than it must have.
        """
        if not isinstance(given, tuple) or len(given) != 5:
            found = f"{len(given)} values" if isinstance(given, tuple | list) else type(given).__name__
            hint = ""
            if isinstance(given, tuple) and len(given) == 4:
                hint = "; final_obs, the observations before the next episodes began, is missing"
            raise EnvError(f"{self.name}: step() returned {found}, expected {FORM}{hint}")
        if isinstance(given[4], Mapping) and not isinstance(given[0], Mapping):
            raise EnvError(f"{self.name}: step() returned 5 values, the last of them infos, expected {FORM}")
        obs, reward, terminated, truncated, final_obs = given
        self._check(reward, "reward of step()", self._numbers, torch.float32)
        self._check(terminated, "terminated of step()", self._numbers, torch.bool)
        self._check(truncated, "truncated of step()", self._numbers, torch.bool)
        if final_obs is None:
            raise EnvError(
                f"{self.name}: final_obs of step() is None, expected {self._form()}: the observations before the "
                "next episodes began; an environment that never truncates returns obs again"
            )
        seen = self.obs(obs, "obs of step()")
        return seen, reward, terminated, truncated, self.obs(final_obs, "final_obs of step()")

    def sound(self, tree: TensorTree) -> list[Tensor]:
        """Returns for each leaf of observations ``[..., leaf]`` whether it is valid, as flags on the device. A false
        flag may also result from overflow of a sum.
        """
        found = []
        for leaf, _, _ in self._leaves:
            value = tree[leaf.path]
            if leaf.kind in ("discrete", "multi_discrete"):
                found.append(((value >= 0) & (value < self._sizes[leaf.path])).all())
            elif leaf.kind == "mask":
                found += [part.any(-1).all() for part in value.split(leaf.sizes, -1)]
            elif leaf.kind == "multi_binary":
                found.append((value <= 1).all())
            elif value.dtype.is_floating_point:
                found.append(torch.isfinite(value.sum()))
        return found

    def _check(self, given: Any, what: str, shape: torch.Size, dtype: torch.dtype) -> None:
        """Raises an EnvError for any object but a tensor of this shape and type on the device."""
        if not isinstance(given, Tensor):
            raise EnvError(f"{self.name}: {what} is {type(given).__name__}, expected a tensor on {self._device}")
        if given.shape != shape:
            raise EnvError(
                f"{self.name}: {what} has shape {tuple(given.shape)}, expected {tuple(shape)}: one row for each of "
                f"{self._num} environments"
            )
        if given.dtype is not dtype:
            raise EnvError(
                f"{self.name}: {what} is of {_dtype(given.dtype)}, expected {_dtype(dtype)}; write .to({dtype})"
            )
        if given.device != self._device:
            raise EnvError(
                f"{self.name}: {what} is on {given.device}, expected {self._device}, the environment's device; make "
                "every tensor with device=self.device"
            )


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
