"""The numbers before tanh that a squashed policy drew, kept beside the actions of a recording.

Close to a bound, the number before tanh cannot be computed from an action in float32, and so neither can the
log-probability with which it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from rookery.models.distributions import Behavior, NoiseSpec
from rookery.models.squashed import Hybrid, HybridHead, SquashedGaussian, SquashedHead
from rookery.policies.policy import Policy
from rookery.replay.pieces import Piece, rows_in
from rookery.replay.segments import unknown_raw
from rookery.rollout.slots import WorkerPolicy

Drawn = Callable[[Tensor, Tensor, Tensor], None]
"""Takes numbers before tanh ``[N, k]``, and the actions and log-probabilities that were made of them."""


class RawActions:
    """Keeps the numbers before tanh of a policy until the decisions come back as rows.

    Attaching it makes the policy act by its modules, since kernels do not give these numbers.

    Args:
        policy: The policy, as a worker plays it.
    """

    def __init__(self, policy: WorkerPolicy) -> None:
        self._drawn: dict[bytes, list[np.ndarray]] = {}
        self._width = policy.policy.action_spec.num_numbers
        policy.actor = None
        policy.policy.head.register_forward_hook(self._keeping)

    def _keeping(self, head: nn.Module, given: tuple[object, ...], behavior: Behavior) -> Behavior:
        assert isinstance(behavior, SquashedGaussian | Hybrid)
        return _KeepingBehavior(behavior, self._keep)

    def _keep(self, raw: Tensor, action: Tensor, logp: Tensor) -> None:
        rows = (tensor.detach().cpu().numpy() for tensor in (raw, action, logp))
        for one, decided, likely in zip(*rows, strict=True):
            self._drawn.setdefault(decided.tobytes() + likely.tobytes(), []).append(one)

    def column(self, piece: Piece) -> np.ndarray:
        """Returns the column `action_raw` of decisions, found by the bits of their actions and log-probabilities."""
        found = unknown_raw(rows_in(piece), self._width)
        for row, (action, logp) in enumerate(zip(piece["action"], piece["logp"], strict=True)):
            if numbers := self._drawn.get(action.tobytes() + logp.tobytes()):
                found[row] = numbers.pop(0)
        return found

    def clear(self) -> None:
        """Removes all numbers at the end of an episode."""
        self._drawn.clear()


def raw_actions_of(policy: WorkerPolicy, deterministic: bool) -> RawActions | None:
    """Returns a `RawActions` for a policy; None if it draws no numbers before tanh."""
    return None if deterministic or not squashes(policy.policy) else RawActions(policy)


def squashes(policy: Policy) -> bool:
    """Returns whether a policy takes tanh of numbers of its actions."""
    return isinstance(policy.head, SquashedHead | HybridHead)


class _KeepingBehavior(Behavior):
    """Draws as another behavior does, and passes on the numbers before tanh."""

    def __init__(self, behavior: SquashedGaussian | Hybrid, keep: Drawn) -> None:
        self._behavior, self._keep = behavior, keep

    @property
    def noise(self) -> NoiseSpec:
        return self._behavior.noise

    def sample(self, noise: Tensor) -> Tensor:
        return self.sample_logp(noise)[0]

    def mode(self) -> Tensor:
        return self._behavior.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        return self._behavior.log_prob(action)

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, logp = self._behavior.sample_logp(noise)
        self._keep(self._behavior.raw(noise), action, logp)
        return action, logp
