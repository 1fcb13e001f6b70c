"""Acting on kernels: normalizer, trunk, head, drawing and log-probability of a policy in one call.

The torch modules remain what a policy is; a test holds this against them, and a policy that does not qualify acts by
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from rookery.core.native import Build, Head, address, array_address
from rookery.core.spaces import MASK, Tree
from rookery.models.encoders import Encoder
from rookery.models.native import NativeTrunk
from rookery.policies.normalize import RunningMeanStd

if TYPE_CHECKING:
    from rookery.policies.policy import Policy


class NativeActor:
    """Acts for a policy that qualifies (see `policies/policy.py:native_actor`), on the policy's own weights.

    Args:
        policy: Whose weights are used. They may change in place, by operations of torch; after others, `pack`.
        build: What runs it.
    """

    def __init__(self, policy: Policy, build: Build) -> None:
        trunk, head, spec = policy.trunk, policy.head, policy.action_spec
        assert isinstance(trunk, Encoder)
        normalized = {}
        if policy.normalizer is not None:
            for path, seen in zip(policy.normalizer.paths, policy.normalizer.statistics, strict=True):
                assert isinstance(seen, RunningMeanStd)
                normalized[path] = seen.mean32, seen.inverse_std32, policy.normalizer.clip
        self.build = build
        self._trunk = NativeTrunk(build, trunk, [head.linear], normalized)
        self._head = Head(build, spec.sizes, spec.num_flags, spec.num_numbers, spec.dtype == np.int64)
        self._weights = tuple(policy.parameters())
        self._log_std = head.log_std
        self._masked = policy.obs_spec.has_mask
        self._shape, self._dtype = spec.shape, spec.dtype
        self._step = build.call["policy_step"]
        self._packed = -1
        self._addresses = [weight.data_ptr() for weight in self._weights]

    def is_current(self) -> bool:
        """Whether the policy's weights lie where they lay."""
        return self._addresses == [weight.data_ptr() for weight in self._weights]

    def pack(self) -> None:
        """Takes over weights that changed without torch knowing."""
        self._packed = sum([weight._version for weight in self._weights])
        self._trunk.network.pack()

    def act(self, obs: Tree, noise: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
        """Actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; None = the most probable actions.
        """
        if sum([weight._version for weight in self._weights]) != self._packed:
            self.pack()
        network, arrays = self._trunk.network, []
        for number, path in enumerate(self._trunk.paths):
            array, network.leaf_addresses[number] = _readable(obs[path])
            arrays.append(array)  # one that was copied must live until the call is over
        num_rows = len(array)
        mask_address = None
        if self._masked:
            mask, mask_address = _readable(obs[MASK])
            arrays.append(mask)
        if noise is not None:
            noise = noise.contiguous()
        action = np.empty((num_rows, *self._shape), self._dtype)
        logp = np.empty(num_rows, np.float32)
        self._step(
            network.handle,
            self._head.handle,
            network.leaf_addresses,
            num_rows,
            address(self._log_std),
            mask_address,
            address(noise),
            array_address(action),
            array_address(logp),
        )
        return action, logp


def _readable(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The array, or a copy whose rows lie one after the other, and its address."""
    try:
        return array, array_address(array)
    except TypeError:  # strided, or not to be written on
        array = array.copy(order="C")
        return array, array_address(array)
