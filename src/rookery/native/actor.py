"""Acting on kernels: normalizer, trunk, memory, head, drawing and log-probability of a policy in one call.

The torch modules remain what a policy is; a test holds this against them, and a policy that does not qualify acts by
them.
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
from rookery.native.qualify import obstacle, obstacle_to_drawing, overridden
from rookery.policies.export import read_policy
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy

Call = Callable[[Tensor | None, np.ndarray | None], None]
"""Decides, given noise and, of policies that remember, what is remembered."""


def native_actor(policy: Policy) -> NativeActor | None:
    """Makes what acts for a policy on kernels, or None where there are none for it and its modules must act."""
    why = overridden(policy) or obstacle_to_drawing(policy.head)
    build = None if why or obstacle(policy.model, [policy.trunk], [policy.head], policy.memory) else best_build()
    return None if build is None else NativeActor(policy, build)


def attach_actor(policy: Policy) -> Policy:
    """Lets `predict` of a policy act on kernels where they can; returns the policy."""
    policy.make_actor = native_actor
    return policy


def load_policy(path: str | Path, name: str | None = None, trust_code: TrustCode = False) -> Policy:
    """Loads a trained policy, to act with: ``load_policy("runs/x").predict(obs)``.

    Args:
        path: A run (its last checkpoint) or a checkpoint; ``runs/x:pol1`` names the policy too.
        name: Which policy; not needed where there is one.
        trust_code: Whether code of any package may be run where a policy of somebody else names it, as a model of its
            own; or the names that may be, ``["my.module:MyModel"]`` (docs/trust.md).

    Raises:
        FileError: If there is no checkpoint, or it is broken; names the last good one.
        ConfigError: If there is no policy of that name, or it is made of code that is not trusted.
    """
    return attach_actor(read_policy(path, name, trust_code))


class NativeActor:
    """Acts for a policy that qualifies, on the weights of that policy.

    Args:
        policy: The policy, whose weights are used as they are at each `act`.
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
        self._alone = threading.Lock()  # rows of one call at a time pass through the network's memory

    @property
    def remembers(self) -> bool:
        """Whether its policy carries anything from one decision to the next."""
        return self._recurrence is not None or self._recall is not None

    @property
    def paths(self) -> tuple[str, ...]:
        """Leaves of an observation, in the order in which kernels read them."""
        return self._trunk.paths

    @property
    def masked(self) -> bool:
        """Whether its policy is given masks."""
        return self._masked

    def handles(self) -> tuple[int, int, int]:
        """Gives the addresses of its network, its head and its standard deviations; 0 where there are none of these."""
        return self._trunk.network.handle, self._head.handle, address(self._log_std) or 0

    def is_current(self, policy: Policy) -> bool:
        """Tells whether the policy's weights and statistics are those it was made with, and lie where they lay."""
        parts = policy.trunk, policy.memory, policy.head, policy.normalizer
        return self._parts == parts and self._addresses == [weight.data_ptr() for weight in self._weights]

    def pack(self) -> None:
        """Takes over the weights as they are now, for the calls that `prepare` has made."""
        if self._recurrence is None:
            self._trunk.network.pack()
        else:
            self._recurrence.pack()

    def act(self, obs: Tree, noise: Tensor | None, memory: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Gives actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``.

        Threads may call it at the same time.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; None = the most probable actions.
            memory: ``[N, memory_size]`` float32 what is remembered, changed in place; None for a policy that remembers
                nothing.
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
        """Prepares what `act` does for arrays that stay where they are: a call that costs little more than the kernel.

        The call uses the weights as `pack` last found them, and takes noise and memory that are contiguous.

        Args:
            obs: As `act` takes them, at least one row, contiguous and writable; they must live as long as the call.
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

        # `alive`: as long as a call is, so are its handles
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
        """A decision whose observations are widened by the past first."""
        assert self._recall is not None
        remembered = torch.from_numpy(memory)
        raw = {leaf.path: torch.from_numpy(obs[leaf.path]) for leaf in self._leaves}
        seen, stacks = self._recall.look(raw, remembered, self._normalize)
        inputs = [seen[path].contiguous() for path in self._trunk.paths]
        decide((ADDRESS * len(inputs))(*[leaf.data_ptr() for leaf in inputs]), noise, memory)
        self._recall.remember(remembered, stacks, torch.from_numpy(action))
