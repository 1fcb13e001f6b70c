"""Critics, and actors that learn from them, on compiled kernels (docs/kernels.md).

Losses stay what they are, functions in torch of what networks put out. Where a loss of an actor goes on through
critics to their judgment of its actions, `Judgment` brings the gradient back to the actions; no weight's gradient is
computed on that way, and nothing at all for critics whose opinion of a row did not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.native import Build, Networks
from rookery.core.spaces import MASK
from rookery.models.build import CRITIC_ACTION
from rookery.models.deterministic import DeterministicHead
from rookery.models.distributions import Behavior
from rookery.models.encoders import Encoder
from rookery.models.heads import ActionHead, distribution_for
from rookery.models.squashed import CLAMPED, SCALED, SquashedGaussian, SquashedHead
from rookery.native.networks import NativeTrunk, last_layers
from rookery.native.qualify import kernels_for
from rookery.policies.policy import Policy

if TYPE_CHECKING:
    from rookery.algorithms.critics import Critics, StateAction


class CriticKernels:
    """`Critics` on kernels. They put out ``[K, N]``, or ``[K, N, ...]`` where a critic gives several numbers.

    Args:
        critics: Whose weights are used, which lie in flat memory or learn nothing.
        build: What runs it.
        bfloat16: Numbers may be rounded to that before they are multiplied.
    """

    def __init__(self, critics: Critics, build: Build, *, bfloat16: bool) -> None:
        trunks = []
        for trunk, linear in _parts(critics):
            assert isinstance(trunk, Encoder)
            trunks.append(NativeTrunk(build, trunk, [linear], {}, bfloat16=bfloat16))
        self._trunk = trunks[0]
        self._networks = Networks(build, [trunk.network for trunk in trunks])
        self._takes_action = critics.networks[0].takes_action
        self._passes = 0

    def values(self, batch: StateAction, keep: bool = False) -> Tensor:
        """What each one puts out, without a graph.

        Args:
            batch: What is judged.
            keep: A way back will follow.
        """
        self._passes += keep
        obs = {**batch.obs, CRITIC_ACTION: batch.action} if self._takes_action else batch.obs
        values = self._networks.forward(self._trunk.read(obs), keep)
        return values.squeeze(2) if self._networks.width == 1 else values

    def judge(self, batch: StateAction) -> Tensor:
        """The same, with a graph if the actions have one: the gradient flows back to them, and nowhere else."""
        if not (torch.is_grad_enabled() and batch.action.requires_grad):
            return self.values(batch)
        judgment: Tensor = Judgment.apply(batch.action, batch, self)  # type: ignore[no-untyped-call]
        return judgment

    def action_gradient(self, gradient: Tensor, width: int) -> Tensor:
        """With respect to the actions ``[N, width]`` of the last pass that kept, given that of what came out of it."""
        shape = *gradient.shape[:2], self._networks.width
        inputs = self._networks.write_gradients(gradient.reshape(shape), inputs=True, weights=False)
        assert inputs is not None
        return inputs[..., -width:].sum(0)  # of all numbers that are read, those of the action come last

    def forward(self, batch: Any) -> list[Tensor]:
        """What each one puts out, for a batch that a loss learns."""
        return [self.values(batch, keep=True)]

    def outputs(self, parts: list[Tensor], batch: Any) -> Tensor:
        """The same as a loss takes it."""
        return parts[0]

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        (gradient,) = gradients
        self._networks.write_gradients(gradient.reshape(*gradient.shape[:2], self._networks.width))


class Judgment(torch.autograd.Function):
    """What critics on kernels say of actions, as a node of a graph."""

    @staticmethod
    def forward(ctx: Any, action: Tensor, batch: StateAction, critics: CriticKernels) -> Tensor:
        """``[K, N]`` or ``[K, N, ...]``; the batch holds the same actions."""
        ctx.critics, ctx.width = critics, action.shape[1]
        judgment = critics.values(batch, keep=True)
        ctx.passes = critics._passes
        return judgment

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """With respect to the actions."""
        assert ctx.passes == ctx.critics._passes, "critics have judged something else meanwhile"
        return ctx.critics.action_gradient(gradient, ctx.width), None, None


def critic_kernels(critics: Critics) -> CriticKernels | None:
    """What runs critics, whose weights lie where they will stay; None if torch must."""
    model = critics.model
    trunks, layers = zip(*_parts(critics), strict=True)
    build = kernels_for(model, trunks, layers)
    return None if build is None else CriticKernels(critics, build, bfloat16=model.precision == "bfloat16")


def _parts(critics: Critics) -> list[tuple[nn.Module, nn.Linear]]:
    """Each critic's trunk and the layer on it."""
    parts = []
    for critic in critics.networks:
        trunk, linear = critic.trunk, critic.linear
        assert isinstance(trunk, nn.Module)
        assert isinstance(linear, nn.Linear)
        parts.append((trunk, linear))
    return parts


def squashed_gradient(
    head: SquashedHead, behavior: SquashedGaussian, noise: Tensor, action: Tensor, by_logp: Tensor, by_action: Tensor
) -> Tensor:
    """The gradient with respect to what the layer of a head puts out, ``[N, 2 * k]``.

    Args:
        head: The head.
        behavior: What it makes of that.
        noise: ``[N, k]`` numbers that actions were drawn with.
        action: ``[N, k]`` these actions.
        by_logp: ``[N]`` the gradient with respect to their log-probabilities.
        by_action: ``[N, k]`` that with respect to themselves.
    """
    weight = by_logp.unsqueeze(1)
    # of u, of which the action is the tanh: d log p / du = 2 tanh u, as noise stays where it is
    by_number = torch.addcmul(by_action, by_action * action, action, value=-1.0).add_(action * weight, alpha=2.0)
    log_std = behavior.log_std
    by_log_std = (by_number * noise).mul_(log_std.exp()).sub_(weight)
    low, high = SCALED if head.spec.log_std == "tanh" else CLAMPED
    if head.spec.log_std == "tanh":  # by its derivative, in terms of what it gave
        by_log_std.mul_((log_std - low) * (high - log_std)).mul_(2.0 / (high - low))
    else:
        by_log_std.mul_((log_std > low) & (log_std < high))
    return torch.cat((by_number, by_log_std), 1)


class ActorKernels:
    """The trunk of a policy and the layer of its head on kernels; what actions are drawn from is up to torch.

    Args:
        policy: Whose weights are used, which lie in flat memory or learn nothing.
        build: What runs it.
        then: Makes of a batch, and of what the policy draws its actions from there, what a loss takes.
    """

    def __init__(self, policy: Policy, build: Build, then: Callable[[Behavior, Any], Any]) -> None:
        assert isinstance(policy.trunk, Encoder)
        bfloat16 = policy.model.precision == "bfloat16"
        self._policy, self._then = policy, then
        self._trunk = NativeTrunk(build, policy.trunk, last_layers(policy.head), {}, bfloat16=bfloat16)

    def behavior(self, obs: TensorTree) -> Behavior:
        """What actions are drawn from, given observations as networks take them; without a graph."""
        return self._of(self._trunk.forward(obs)[0], obs)

    def _of(self, output: Tensor, obs: TensorTree) -> Behavior:
        head = self._policy.head
        if isinstance(head, SquashedHead | DeterministicHead):
            return head.behavior(output)
        assert isinstance(head, ActionHead)
        return distribution_for(head.action_spec, output, head.log_std, obs.get(MASK))

    def forward(self, batch: Any) -> list[Tensor]:
        """What the head's layer puts out."""
        return self._trunk.forward(batch.obs, keep=True)

    def outputs(self, parts: list[Tensor], batch: Any) -> Any:
        """What a loss takes."""
        return self._then(self._of(parts[0], batch.obs), batch)

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of what `forward` put out last."""
        self._trunk.write_gradients(gradients)


def actor_kernels(policy: Policy, then: Callable[[Behavior, Any], Any]) -> ActorKernels | None:
    """What runs a policy that learns from critics, whose weights lie where they will stay; None if torch must."""
    if policy.memory is not None or policy.recall is not None or type(policy) is not Policy:
        return None
    build = kernels_for(policy.model, [policy.trunk], [policy.head])
    return None if build is None else ActorKernels(policy, build, then)
