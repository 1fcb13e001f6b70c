"""Acting on kernels: one call computes normalizer, trunk, memory, head, actions and log-probabilities of a policy.

The torch modules remain the reference, which tests compare with; a policy that kernels do not support acts by them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rookery.core.native import (
    ADDRESS,
    BYTES,
    FLOATS,
    Build,
    DrawingHead,
    InputLeaf,
    address,
    array_address,
    best_build,
    readable,
)
from rookery.core.settings.trust import TrustCode
from rookery.core.spaces.arrays import MASK, Tree
from rookery.models.build import Encoder
from rookery.native.networks import NativeMemory, NativeTrunk, last_layers, layout_of
from rookery.native.qualify import drawing_obstacle, obstacle, overridden
from rookery.policies.export import read_policy
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy

Call = Callable[[Tensor | None, np.ndarray | None], None]
"""Computes actions, given noise and, for policies with memory, the memory."""


def native_actor(policy: Policy) -> NativeActor | None:
    """Makes a policy's actor on kernels, or returns None if kernels do not support the policy."""
    why = overridden(policy) or drawing_obstacle(policy.head)
    build = None if why or obstacle(policy.model, [policy.trunk], [policy.head], policy.memory) else best_build()
    return None if build is None else NativeActor(policy, build)


def attach_actor(policy: Policy) -> Policy:
    """Makes `predict` of a policy act on kernels if they support it; returns the policy."""
    policy.make_actor = native_actor
    return policy


def load_policy(path: str | Path, name: str | None = None, trust_code: TrustCode = False) -> Policy:
    """Loads a trained policy for acting: ``load_policy("runs/x").predict(obs)``.

    Args:
        path: A run (its last checkpoint) or a checkpoint; ``runs/x:pol1`` also names the policy.
        name: Name of the policy; not needed if there is only one.
        trust_code: Whether code of any package that an untrusted policy names, such as a custom model, may run; or the
            names that may, ``["my.module:MyModel"]`` (docs/trust.md).

    Raises:
        FileError: If there is no checkpoint, or it is broken; names the last good one.
        ConfigError: If there is no policy of that name, or its code is not trusted.
    """
    return attach_actor(read_policy(path, name, trust_code))


class NativeActor:
    """Actor on kernels, on the weights of its policy.

    Args:
        policy: The policy; each `act` uses its present weights.
        build: The compiled kernels.
    """

    def __init__(self, policy: Policy, build: Build) -> None:
        trunk, head, spec = policy.trunk, policy.head, policy.action_spec
        assert isinstance(trunk, Encoder)
        normalized: dict[str, InputLeaf] = {}
        byte_paths = {leaf.path for leaf in policy.obs_spec.leaves if leaf.dtype == np.uint8}
        if policy.normalizer is not None and policy.recall is None:
            for path, seen in zip(policy.normalizer.paths, policy.normalizer.statistics, strict=True):
                assert isinstance(seen, RunningMeanStd)
                kind, width = BYTES if path in byte_paths else FLOATS, seen.mean32.numel()
                clip = policy.normalizer.clip
                normalized[path] = InputLeaf(kind, width, 1.0, seen.mean32, seen.inverse_std32, clip)
        self.build = build
        self._recurrence = None
        if policy.memory is None:
            self._trunk = NativeTrunk(build, trunk, last_layers(head), normalized)
        else:
            net = NativeMemory(build, trunk, policy.memory, last_layers(head), normalized)
            self._trunk = net.trunk
            self._recurrence = net.playing(policy.memory_size - policy.memory.size)
        self._memory_size = policy.memory_size
        self._normalize = policy.normalize
        self._recall = policy.recall
        self._head = DrawingHead(build, layout_of(head))
        self._weights = (*policy.parameters(), *head.buffers())
        self._log_std = getattr(head, "log_std", None)
        self._leaves = policy.own_spec.leaves
        self._masked = policy.obs_spec.has_mask
        self._shape, self._dtype = spec.shape, spec.dtype
        self._step = build.call["policy_step"]
        self._parts = trunk, policy.memory, head, policy.normalizer
        self._addresses = [weight.data_ptr() for weight in self._weights]
        self._alone = threading.Lock()  # the network's working memory serves one call at a time

    @property
    def remembers(self) -> bool:
        """Whether its policy carries memory from one decision to the next."""
        return self._recurrence is not None or self._recall is not None

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of observation leaves in the order in which kernels read them."""
        return self._trunk.paths

    @property
    def masked(self) -> bool:
        """Whether its policy receives masks."""
        return self._masked

    def handles(self) -> tuple[int, int, int]:
        """Returns the addresses of its network, its head and its standard deviations; 0 for missing ones."""
        return self._trunk.network.handle, self._head.handle, address(self._log_std) or 0

    def is_current(self, policy: Policy) -> bool:
        """Returns whether the policy still has the weights and statistics of its creation, at the same addresses."""
        parts = policy.trunk, policy.memory, policy.head, policy.normalizer
        return self._parts == parts and self._addresses == [weight.data_ptr() for weight in self._weights]

    def pack(self) -> None:
        """Updates the weights that calls made by `prepare` use."""
        if self._recurrence is None:
            self._trunk.network.pack()
        else:
            self._recurrence.pack()

    def act(self, obs: Tree, noise: Tensor | None, memory: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns actions ``[N, ...]`` in stored form, and their log-probabilities ``[N]``.

        Thread-safe.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; None = the most probable actions.
            memory: ``[N, memory_size]`` float32, changed in place; None for a policy without memory.
        """
        num_rows = len(next(iter(obs.values())))
        action, logp = np.empty((num_rows, *self._shape), self._dtype), np.empty(num_rows, np.float32)
        if num_rows:
            obs = {leaf.path: readable(obs[leaf.path], leaf.dtype) for leaf in self._leaves}
            call = self.prepare(obs, action, logp)
            with self._alone:
                self.pack()
                call(None if noise is None else noise.contiguous(), memory)
        return action, logp

    def prepare(self, obs: Tree, action: np.ndarray, logp: np.ndarray) -> Call:
        """Prepares `act` for arrays at fixed addresses: returns a call that costs little more than the kernel.

        The call uses the weights of the last `pack`, and takes contiguous noise and memory.

        Args:
            obs: As `act` takes them, at least one row, contiguous and writable; they must exist as long as the call.
            action: ``[N, ...]`` contiguous, written by the call; so is `logp`.
            logp: ``[N]``.
        """
        network, head, num_rows = self._trunk.network.handle, self._head, len(logp)
        log_std, mask = address(self._log_std), array_address(obs[MASK]) if self._masked else None
        actions, logps = array_address(action), array_address(logp)
        step, recurrence, width = self._step, self._recurrence, self._memory_size

        def through_memory(leaves: object, noise: Tensor | None, memory: np.ndarray) -> None:
            numbers, remembered = None if noise is None else noise.data_ptr(), array_address(memory)
            if recurrence is None:
                step(network, head.handle, leaves, num_rows, log_std, mask, numbers, actions, logps)
            else:
                rows = num_rows, remembered, width, log_std, mask, numbers, actions, logps
                recurrence.policy_step(head, leaves, *rows)

        def recalling(noise: Tensor | None, memory: np.ndarray | None) -> None:
            assert memory is not None
            self._recalling(through_memory, obs, action, noise, memory)

        if self._recall is not None:
            return recalling
        leaves = (ADDRESS * len(self._trunk.paths))(*[array_address(obs[path]) for path in self._trunk.paths])

        def remembering(noise: Tensor | None, memory: np.ndarray | None, alive: NativeActor = self) -> None:
            assert memory is not None
            through_memory(leaves, noise, memory)

        # `alive` keeps the handles as long as the call
        def call(noise: Tensor | None, memory: np.ndarray | None, alive: NativeActor = self) -> None:
            numbers = None if noise is None else noise.data_ptr()
            step(network, head.handle, leaves, num_rows, log_std, mask, numbers, actions, logps)

        return call if recurrence is None else remembering

    def _recalling(
        self,
        decide: Callable[..., None],
        obs: Tree,
        action: np.ndarray,
        noise: Tensor | None,
        memory: np.ndarray,
    ) -> None:
        """Computes a decision whose observations include recalled inputs."""
        assert self._recall is not None
        remembered = torch.from_numpy(memory)
        raw = {leaf.path: torch.from_numpy(obs[leaf.path]) for leaf in self._leaves}
        arrays = self._recall.stack_arrays(obs, memory)
        stacks = {path: torch.from_numpy(stack) for path, stack in arrays.items()}
        seen, _ = self._recall.look(raw, remembered, self._normalize, stacks)
        inputs = [seen[path].contiguous() for path in self._trunk.paths]
        decide((ADDRESS * len(inputs))(*[leaf.data_ptr() for leaf in inputs]), noise, memory)
        self._recall.remember_stacks(memory, arrays)
        self._recall.remember_action(remembered, torch.from_numpy(action))
