"""Scripted policies: a Python function, or uniformly random actions."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.errors import ConfigError, SpaceError
from rookery.core.process.torch_modes import users_modes
from rookery.core.process.tracebacks import described
from rookery.core.seeding import generator_of, seed_words
from rookery.core.settings.layers import import_object
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, Tree
from rookery.models.build import ModelConfig
from rookery.models.distributions import NoiseSpec
from rookery.policies.policy import Policy

Player = Callable[[Tree, np.random.Generator], Any]
"""Scripted player ``player(obs, rng) -> actions``. `obs` has an array ``[N, ...]`` for each leaf path (``"obs"`` for a
space without parts, the mask under ``"action_mask"``); actions are ``[N, ...]`` in the environment's form.
"""

RANDOM = "random"
"""Name of the player that draws uniformly from the allowed actions."""

UNIFORMS = 2
"""Random numbers per decision, which seed the generator that a player receives."""


def find_player(name: str) -> Player | None:
    """Returns the player of a name ``my.module:function``, or None for ``random``.

    Raises:
        ConfigError: If there is no such function.
    """
    if name == RANDOM:
        return None
    if ":" not in name:
        raise ConfigError(f"player {name!r}: write my.module:function (obs, rng) -> actions, or {RANDOM!r}")
    found = import_object(name)
    if not callable(found):
        raise ConfigError(f"player {name!r} is a {type(found).__name__}; it must be a function (obs, rng) -> actions")
    player: Player = found
    return player


class ScriptedPolicy(Policy):
    """Policy that calls a function, or draws uniformly from the allowed actions; it has no weights and never learns.

    The function is called once per row, with a generator made of the row's own random numbers: so its actions depend
    neither on the batch nor on the number of environment processes. Without random numbers (deterministic actions), the
    policy draws its own from `seed` and the number of its decisions.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        player: The function; None draws uniformly from the allowed actions.
        name: Name of the policy, for messages.
        seed: Seed of its own random numbers.
    """

    decided: Tensor
    """Number of decisions with its own random numbers."""

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, player: Player | None = None, name: str = RANDOM, seed: int = 0
    ) -> None:
        nn.Module.__init__(self)  # it has no network
        self.name = name
        self.obs_spec, self.action_spec, self.player = obs, action, player
        self.model = ModelConfig()
        self.own_spec = self.input_spec = obs.own
        self.critic_spec, self.has_central = obs, self.own_spec is not obs
        self.normalizer = self.recall = self.memory = self.reward_column = None
        self.memory_size = self.exploration_size = self._recalled = 0
        self._masked, self._actor, self.make_actor = obs.has_mask, None, None
        elements = len(action.sizes) + action.num_flags + action.num_numbers
        self.noise = NoiseSpec(uniform=elements if player is None else UNIFORMS)
        self._seed = seed ^ zlib.crc32(name.encode())
        self.register_buffer("decided", torch.zeros((), dtype=torch.int64, device="cpu"))

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptedPolicy:
        """Returns a policy with the same function and no decisions yet."""
        copy = ScriptedPolicy(self.obs_spec, self.action_spec, self.player, self.name)
        copy._seed = self._seed
        return copy

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns actions ``[N, ...]`` in stored form; log-probabilities are unknown, and 0.

        Raises:
            SpaceError: If the function returns an invalid or masked action; the message names function and row.
        """
        tree = {path: tensor.cpu().numpy() for path, tensor in obs.items()}
        num = len(next(iter(tree.values())))
        numbers = self._own(num) if noise is None else noise.cpu().numpy()
        action = self._uniform(tree, numbers) if self.player is None else self._called_by_row(tree, numbers)
        return torch.from_numpy(action), torch.zeros(num, dtype=torch.float32, device="cpu")

    def _own(self, num: int) -> np.ndarray:
        """Draws its own random numbers ``[N, noise.width]``."""
        first = int(self.decided)
        self.decided += num
        rows = [np.random.default_rng((self._seed, first + row)).random(self.noise.uniform) for row in range(num)]
        return np.array(rows, dtype=np.float32).reshape(num, self.noise.uniform)

    def _uniform(self, tree: Tree, numbers: np.ndarray) -> np.ndarray:
        """Returns stored actions ``[N, ...]``, uniform over the allowed ones. Unbounded elements have a standard normal
        distribution, elements with one bound an exponential distance from it.
        """
        spec = self.action_spec
        parts, start = [], 0
        uniform = numbers.astype(np.float64)
        for column, size in enumerate(spec.sizes):
            allowed = np.ones((len(numbers), size), dtype=bool)
            if self._masked:
                allowed = tree[MASK][:, start : start + size]
            start += size
            which = np.floor(uniform[:, column] * allowed.sum(axis=1)) + 1
            parts.append((np.cumsum(allowed, axis=1) < which[:, None]).sum(axis=1))
        rest = uniform[:, len(spec.sizes) :]
        parts.extend(rest[:, : spec.num_flags].T >= 0.5)
        if spec.num_numbers:
            parts.extend(self._numbers(rest[:, spec.num_flags :]).T)
        return np.stack(parts, axis=1).reshape(len(numbers), *spec.shape).astype(spec.dtype)

    def _numbers(self, uniform: np.ndarray) -> np.ndarray:
        """Returns continuous elements ``[N, num_numbers]`` of stored actions, from uniform numbers."""
        parts = [part for part, _ in self.action_spec.parts] or [self.action_spec]
        boxes = [part.space for part in parts if isinstance(part.space, spaces.Box)]
        low = np.concatenate([box.low.ravel() for box in boxes])
        high = np.concatenate([box.high.ravel() for box in boxes])
        middle = (uniform + 2.0**-25).clip(2.0**-25, 1 - 2.0**-25)
        normal = torch.special.ndtri(torch.from_numpy(middle)).numpy()
        far = -np.log(middle)
        below, above = np.isfinite(low), np.isfinite(high)
        one_end = np.where(below, low + far, np.where(above, high - far, normal))
        return np.where(below & above, 2.0 * uniform - 1.0, one_end)

    def _called_by_row(self, tree: Tree, numbers: np.ndarray) -> np.ndarray:
        """Returns stored actions ``[N, ...]``, calling the function row by row."""
        num = len(numbers)
        action = np.empty((num, *self.action_spec.shape), self.action_spec.dtype)
        if not num:
            return action
        bits = (numbers * 2.0**24).astype(np.uint64)
        words = seed_words(((bits[:, 0] << 8) ^ (bits[:, 1] & 0xFF)).tolist())
        for row in range(num):
            seen = {path: array[row : row + 1].copy() for path, array in tree.items()}
            action[row] = self._row_action(row, seen, generator_of(words[row]))
        return action

    def _row_action(self, row: int, seen: Tree, rng: np.random.Generator) -> np.ndarray:
        """Returns the stored action of one row.

        Raises:
            SpaceError: If the function returns an invalid or masked action.
        """
        assert self.player is not None
        space, where = self.action_spec.space, f"player {self.name!r}, row {row}"
        mask = seen[MASK][0].copy() if self._masked else None
        try:
            with users_modes():
                answer = self.player(seen, rng)
        except Exception as error:
            raise SpaceError(f"{where}: it raised {described(error)}") from error
        try:
            shape = (1, *(space.shape or ()))
            if self.action_spec.kind != "composite" and np.shape(answer) != shape:
                raise SpaceError(f"its shape is {np.shape(answer)} where one row of {space} has {shape}")
            if self.action_spec.kind == "composite" and len(answer) != 1:
                raise SpaceError(f"it has {len(answer)} actions for one row")
            stored: np.ndarray = self.action_spec.from_env(answer)[0]
        except (SpaceError, TypeError, ValueError, KeyError) as error:
            raise SpaceError(f"{where}: it returned {answer!r}, which is not an action of {space}: {error}") from None
        if mask is not None and (wrong := forbidden(self.action_spec, stored, mask)):
            raise SpaceError(f"{where}: it returned {answer!r}, but {wrong}")
        return stored


def forbidden(spec: ActionSpec, stored: np.ndarray, mask: np.ndarray) -> str:
    """Returns the part of an action that its mask forbids, or an empty string.

    Args:
        spec: Layout of the action.
        stored: One action in stored form.
        mask: Its flags, concatenated over all discrete actions.
    """
    start = 0
    for place, (choice, size) in enumerate(zip(np.ravel(stored).tolist(), spec.sizes, strict=False)):
        allowed = mask[start : start + size]
        start += size
        if not allowed[int(choice)]:
            those = ", ".join(str(number) for number in np.flatnonzero(allowed))
            which = f"choice {place}: " if len(spec.sizes) > 1 else ""
            return f"{which}{int(choice)} is not allowed: the mask allows {those} of {size} (counted from 0)"
    return ""
