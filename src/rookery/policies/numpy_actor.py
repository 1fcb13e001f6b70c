"""Acting on a few rows without torch: what `Policy.act` computes, in NumPy, on the same weights.

A call of torch costs two to three microseconds whatever it computes, one of NumPy a third of that, and eight rows of a
small network are hardly any arithmetic. The torch modules remain what a policy is: this file repeats them for the plain
networks that most policies are, a test holds it against them, and every other policy acts by its modules.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from rookery.core.spaces import MASK, Tree
from rookery.models.distributions import LOG_2PI, MASKED_LOGIT
from rookery.models.encoders import Encoder
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy

MOST_PRODUCTS = 2**18
"""Multiplications in a layer up to which NumPy's matrix product stays on one core, and torch has nothing to gain."""

LARGEST_POWER = 88.0
"""Of e, in float32: beyond it NumPy would warn of an infinity."""


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
    "elu": _elu,
    "silu": lambda x: x / (1.0 + np.exp(np.minimum(-x, LARGEST_POWER))),
}
"""Those of `models/activations.py` that NumPy has the functions for."""


class NumpyActor:
    """Acts for a policy that qualifies (see `numpy_actor`); its arrays are views of the policy's tensors.

    Args:
        policy: Whose weights are read in every call; they may change in place.
    """

    def __init__(self, policy: Policy) -> None:
        trunk = policy.trunk
        assert isinstance(trunk, Encoder)
        self._activation = ACTIVATIONS[trunk.activation]
        self._vectors = tuple(leaf.path for leaf in trunk.vectors)
        self._categories = tuple((leaf.path, len(leaf.sizes)) for leaf in trunk.categories)
        first, head = trunk.first, policy.head
        assert first is not None
        self._weight = None if first.weight is None else first.weight.numpy().T
        self._table = None if first.table is None else first.table.numpy()
        self._bias, self._offsets = first.bias.numpy(), first.offsets.numpy()
        layers = [layer for layer in trunk.layers if isinstance(layer, nn.Linear)]
        self._later = [(layer.weight.numpy().T, layer.bias.numpy()) for layer in layers]
        self._head = head.linear.weight.numpy().T, head.linear.bias.numpy()
        self._log_std = None if head.log_std is None else head.log_std.numpy()
        self._masked = policy.obs_spec.has_mask
        self._normalized: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._clip = 0.0
        if policy.normalizer is not None:
            self._clip = policy.normalizer.clip
            for path, seen in zip(policy.normalizer.paths, policy.normalizer.statistics, strict=True):
                assert isinstance(seen, RunningMeanStd)
                self._normalized[path] = seen.mean32.numpy(), seen.inverse_std32.numpy()
        weights = [self._weight, self._head[0], *(weight for weight, _ in self._later)]
        self.most_rows = MOST_PRODUCTS // max(weight.size for weight in weights if weight is not None)
        """Rows up to which it is the faster way."""

    def act(self, obs: Tree, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; None = the most probable actions.
        """
        activation = self._activation
        x = activation(self._first_layer(obs))
        for weight, bias in self._later:
            x = x @ weight
            x += bias
            x = activation(x)
        weight, bias = self._head
        output = x @ weight
        output += bias
        if self._log_std is not None:
            return self._numbers(output, noise)
        return self._choice(output, obs[MASK] if self._masked else None, noise)

    def _first_layer(self, obs: Tree) -> np.ndarray:
        """What `Encoder` puts into its first activation."""
        x: np.ndarray = self._bias
        if self._weight is not None:
            parts = [self._standard(path, obs[path]) for path in self._vectors]
            x = (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)) @ self._weight
            x += self._bias
        if self._table is not None:
            parts = [obs[path].reshape(-1, width) for path, width in self._categories]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            x = self._table[rows + self._offsets].sum(axis=1) + x
        return x

    def _standard(self, path: str, value: np.ndarray) -> np.ndarray:
        """A vector as the trunk takes it: normalized if the policy does that."""
        if path not in self._normalized:
            return value
        mean, inverse = self._normalized[path]
        scaled: np.ndarray = (value - mean) * inverse
        return np.clip(scaled, -self._clip, self._clip, out=scaled)

    def _choice(
        self, logits: np.ndarray, mask: np.ndarray | None, noise: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `models/distributions.py:Categorical`."""
        if mask is not None:
            logits = np.where(mask, logits, np.float32(MASKED_LOGIT))
        logits -= logits.max(axis=1, keepdims=True)
        cumulative = np.exp(logits).cumsum(axis=1, dtype=np.float64)
        total = cumulative[:, -1]
        if noise is None:
            choice = logits.argmax(axis=1)
        else:
            choice = np.count_nonzero(cumulative <= noise * total[:, None], axis=1)
        logp = logits[np.arange(len(logits)), choice] - np.log(total)
        return choice, logp.astype(np.float32)

    def _numbers(self, mean: np.ndarray, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """As `models/distributions.py:DiagonalGaussian`."""
        assert self._log_std is not None
        constant = self._log_std.sum() + np.float32(0.5 * mean.shape[1] * LOG_2PI)
        if noise is None:
            return mean, np.full(len(mean), -constant, dtype=np.float32)
        return mean + np.exp(self._log_std) * noise, np.float32(-0.5) * np.square(noise).sum(axis=1) - constant


def numpy_actor(policy: Policy) -> NumpyActor | None:
    """What acts for a policy on the processor, or None if its modules must.

    It qualifies if it is of our own encoder on vectors and categories, with at least one layer and an activation that
    NumPy has, if its action is one choice or a vector of numbers, and if it needs no gradients.
    """
    if type(policy) is not Policy:
        return None
    trunk = policy.trunk
    if type(trunk) is not Encoder or trunk.first is None or trunk.pictures:
        return None
    plain = all(leaf.dtype == np.float32 and len(leaf.shape) == 1 and leaf.scale == 1.0 for leaf in trunk.vectors)
    if not plain or trunk.activation not in ACTIVATIONS or policy.action_spec.kind not in ("discrete", "box"):
        return None
    if any(weight.requires_grad or not weight.is_cpu for weight in policy.parameters()):
        return None
    return NumpyActor(policy)
