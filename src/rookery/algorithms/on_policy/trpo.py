"""Trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477): the largest step along the natural
gradient whose KL divergence stays within a limit.

The value function learns separately, by gradient steps on minibatches. The details that decide are in
docs/algorithms/trpo.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn import functional

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.actor_critic import ActorCritic, advantage_targets
from rookery.algorithms.on_policy.ppo import normalize_advantages
from rookery.algorithms.rewarding import add_signals
from rookery.algorithms.settings import OnPolicySettings
from rookery.core.batch import Minibatch, Rollout
from rookery.core.errors import ConfigError
from rookery.core.flat import Flat, flatten
from rookery.core.metrics import Means, Metrics, explained_variance
from rookery.core.native import Build
from rookery.core.optim import Adam, ClosedForm, Optimizer, OutputGradients, gradient_step, gradient_steps
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Length
from rookery.models.distributions import Distribution
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.signals.return_scale import ReturnScale
from rookery.signals.return_spread import ReturnSpread
from rookery.signals.signal import ValueColumn
from rookery.signals.value_scale import ValueScale


@dataclass(frozen=True)
class TRPOConfig(AlgorithmConfig, OnPolicySettings):
    """Settings of TRPO. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.trpo:TRPO"
    capabilities = Capabilities(
        speed_hints={"minibatch_size": "larger minibatches", "value_epochs": "fewer passes of the value function"}
    )
    field_order = (
        "lr gamma gae_lambda max_kl cg_iterations cg_damping max_backtracks backtrack_factor value_epochs "
        "minibatch_size fragment_length rollout_size max_grad_norm normalize_advantage scale_rewards normalize_values "
        "adam_eps signals model"
    )

    lr: Scheduled[PositiveFloat] = 1e-3
    """Learning rate of the value function's Adam. The policy's step has none: `max_kl` limits it."""
    gae_lambda: Fraction = 0.95
    """Decay of later errors in the advantage: 0 = one step, 1 = Monte Carlo."""
    max_kl: Scheduled[PositiveFloat] = 0.01
    """Largest mean KL divergence from the policy before an update to the one after it (delta of the paper)."""
    cg_iterations: Count = 15
    """Iterations of the conjugate gradient method that solves for the natural gradient, at most."""
    cg_damping: NonNegative = 0.1
    """Multiple of the identity that is added to the Fisher matrix."""
    max_backtracks: Count = 10
    """Steps that the line search tries, each `backtrack_factor` times as long as the one before. If none improves the
    surrogate within `max_kl`, the policy stays as it is.
    """
    backtrack_factor: Annotated[float, Interval(gt=0, lt=1)] = 0.8
    """Factor by which the line search shortens a step."""
    value_epochs: Count = 10
    """Passes of the value function over the batch per update."""
    minibatch_size: Count = 128
    """Largest number of decisions per gradient step of the value function: the batch is cut into near-equal parts."""
    fragment_length: Structural[Length] = 128
    """Consecutive decisions of one slot before its advantage is bootstrapped from a value."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Largest norm of the value function's gradient; larger gradients are scaled down. None = no limit."""
    normalize_advantage: bool = True
    """Normalizes advantages of an update to mean 0 and standard deviation 1."""
    scale_rewards: Structural[bool] = False
    """Divides rewards by the running standard deviation of their discounted return."""
    normalize_values: Structural[bool] = True
    """Learns large values in units of about the standard deviation of their targets (as in PopArt)."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""


# --- losses -----------------------------------------------------------------------------------------------------------


def trpo_loss(distribution: Distribution, batch: Minibatch, cfg: TRPOConfig) -> tuple[Tensor, Metrics]:
    """Negated surrogate (eq. 14): the mean of the probability ratio times the advantage."""
    ratio = (distribution.log_prob(batch.action) - batch.logp).exp()
    policy_loss = -(ratio * batch.advantage).mean()
    entropy = distribution.entropy().mean()
    return policy_loss, {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}


def value_loss(value: Tensor, batch: Minibatch, cfg: TRPOConfig) -> tuple[Tensor, Metrics]:
    """Mean squared error of values ``[N, S]``, summed over columns."""
    loss = functional.mse_loss(value, batch.value_target) * value.shape[1]
    return loss, {"value_loss": loss.detach()}


def value_gradient(value: Tensor, batch: Minibatch, cfg: TRPOConfig) -> OutputGradients:
    """Computes the gradient of `value_loss` with respect to the values ``[N, S]`` in closed form, and its metrics."""
    error = value - batch.value_target
    return [error * (2 / len(error))], {"value_loss": error.square().sum() / len(error)}


VALUE_GRADIENT = ClosedForm(value_loss, value_gradient)


# --- the policy's step ------------------------------------------------------------------------------------------------


def conjugate_gradient(product: Callable[[Tensor], Tensor], right: Tensor, iterations: int) -> Tensor:
    """Solves ``A x = b`` approximately by the conjugate gradient method (Hestenes & Stiefel 1952), from x = 0.

    Args:
        product: Multiplies a vector ``[W]`` by A, which is symmetric and positive definite.
        right: ``[W]`` b.
        iterations: Iterations, at most; W of them solve it exactly, but for rounding.
    """
    found, residual = torch.zeros_like(right), right.clone()
    along, size = right.clone(), right @ right
    for _ in range(iterations):
        if not float(size) > 1e-10:
            break
        multiplied = product(along)
        length = size / (along @ multiplied)
        found.add_(along * length)
        residual.sub_(multiplied * length)
        size, before = residual @ residual, size
        along = residual + along * (size / before)
    return found


class FisherMatrix:
    """Products with the Fisher information matrix of a policy at its present weights: the Hessian of the mean KL
    divergence from the present policy, by differentiating twice (appendix C.1).

    Args:
        distribution: The policy's distributions of N rows, with their graph.
        weights: The policy's weights, W numbers in all.
        damping: Multiple of the identity that is added.
    """

    def __init__(self, distribution: Distribution, weights: Sequence[nn.Parameter], damping: float) -> None:
        self.weights = weights
        self.damping = damping
        divergence = distribution.like(distribution.parameters.detach()).kl(distribution).mean()
        self._gradient = self._flat_gradient(divergence, keep=True)

    def product(self, vector: Tensor) -> Tensor:
        """Returns the damped matrix times a vector ``[W]``."""
        return self._flat_gradient(self._gradient @ vector) + self.damping * vector

    def _flat_gradient(self, of: Tensor, keep: bool = False) -> Tensor:
        """Returns the gradient of a number with respect to the weights, ``[W]``.

        Args:
            of: The number; its graph is kept.
            keep: Whether the gradient has a graph, too.
        """
        parts = grad(of, self.weights, create_graph=keep, retain_graph=True, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts])


class TrustRegion(Optimizer):
    """Makes one step along the natural gradient, as long as the KL limit allows, and shorter until the surrogate
    improves within that limit (appendix C); otherwise none. `aim` comes before each step.

    Args:
        flat: The policy's weights.
        weights: The same weights, as parameters in the order of the vector.

    Attributes:
        made: Metrics of the last step: ``kl`` after it, ``surrogate_gain``, ``line_search_steps`` tried, and
            ``rejected``, 1 if all of them were.
    """

    def __init__(self, flat: Flat, weights: Sequence[nn.Parameter]) -> None:
        super().__init__(flat)
        self._weights = weights
        self._forward: Callable[[Minibatch], Distribution] | None = None
        self._batch: Minibatch | None = None
        self._cfg: TRPOConfig | None = None
        self.made: Row = {}

    def aim(self, forward: Callable[[Minibatch], Distribution], batch: Minibatch, cfg: TRPOConfig) -> None:
        """Sets what the next step is about: a batch's distributions by `forward`, and the settings of the step."""
        self._forward, self._batch, self._cfg = forward, batch, cfg

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step; learning rate and clipping of the gradient do not apply. A gradient that is not finite, or
        is 0, changes nothing.
        """
        assert self._forward is not None and self._batch is not None and self._cfg is not None
        forward, batch, cfg = self._forward, self._batch, self._cfg
        self._forward = self._batch = self._cfg = None
        downhill = -self.flat.read_gradient()
        self.made = {"kl": 0.0, "surrogate_gain": 0.0, "line_search_steps": 0, "rejected": 1}
        if float(bad) or not float(downhill.square().sum()):
            return
        with torch.enable_grad():
            old = forward(batch)
            fisher = FisherMatrix(old, self._weights, cfg.cg_damping)
        direction = conjugate_gradient(fisher.product, downhill, cfg.cg_iterations)
        curvature = float(direction @ fisher.product(direction))
        if not 0.0 < curvature < math.inf:
            return
        step = direction * math.sqrt(2.0 * float(cfg.max_kl) / curvature)
        self._search(forward, batch, cfg, old.like(old.parameters.detach()), step)

    @torch.no_grad()
    def _search(
        self,
        forward: Callable[[Minibatch], Distribution],
        batch: Minibatch,
        cfg: TRPOConfig,
        old: Distribution,
        step: Tensor,
    ) -> None:
        """Tries shorter and shorter steps; leaves the weights at the first one that is accepted, or as they were."""
        start, before = self.flat.data.clone(), float(trpo_loss(forward(batch), batch, cfg)[0])
        for number in range(cfg.max_backtracks):
            self.flat.data.copy_(start).add_(step, alpha=cfg.backtrack_factor**number)
            new = forward(batch)
            kl, gain = float(old.kl(new).mean()), before - float(trpo_loss(new, batch, cfg)[0])
            self.made["line_search_steps"] = number + 1
            if kl <= float(cfg.max_kl) and gain > 0.0:  # neither holds for NaN
                self.made.update(kl=kl, surrogate_gain=gain, rejected=0)
                return
        self.flat.data.copy_(start)

    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Raises NotImplementedError: kernels do not compute the gradient of the surrogate."""
        raise NotImplementedError("TrustRegion makes no steps on kernels")


# --- the algorithm ----------------------------------------------------------------------------------------------------


class Values:
    """The value function of an actor-critic by itself.

    Args:
        net: The networks; their values have a trunk of their own.
    """

    def __init__(self, net: ActorCritic) -> None:
        self.net = net

    def __call__(self, batch: Minibatch) -> Tensor:
        """Computes values ``[N, S]``."""
        return self.net.value(batch.obs)

    def structure(self) -> Structure:
        """Declares what a call computes."""
        assert self.net.critic_trunk is not None
        tower = Tower(self.net.critic_trunk, (self.net.value_head,))
        return Structure((tower,), self.net.model, lambda batch: Inputs(batch.obs), lambda parts, batch: parts[-1])


class TRPO(Algorithm[TRPOConfig]):
    """The algorithm: `training_step` is section 6 of the paper (single path), with advantages by GAE.

    Attributes:
        net: Policy and value function.
        policy_optimizer: Makes the policy's step.
        optimizer: Optimizer of the value function.
    """

    saved = ("net", "policy_optimizer", "optimizer", "signals", "return_scale", "return_spread", "value_scale", "rng")
    fixed = ("forward", "value_forward", "columns")

    def __init__(self, policy: Policy, cfg: TRPOConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        self.columns: Sequence[ValueColumn] = self.signals.columns(cfg.gamma)
        """The reward signals whose values are learned, the environment's first."""
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.net = ActorCritic(policy, cfg.model, generator, columns=len(self.columns))
        if self.net.critic_trunk is None:
            raise ConfigError(
                f"policies.{name}.model: TRPO needs values with networks of their own, because only the policy's "
                "weights move within its KL limit: set model.shared_trunk to false, use no memory, and let your own "
                "model return features (model.output=features); ppo shares networks"
            )
        whole = flatten(self.net.parts)
        acting: list[nn.Module] = [policy.head, policy.trunk]
        weights = [weight for part in acting for weight in part.parameters() if weight.requires_grad]
        self.policy_optimizer = TrustRegion(whole.part(acting), weights)
        valuing = whole.part([self.net.critic_trunk, self.net.value_head])
        self.optimizer = Adam(valuing, betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.forward = attach(self.net)
        self.value_forward = attach(Values(self.net))
        self.return_scale = ReturnScale(cfg.gamma) if cfg.scale_rewards else None
        self.return_spread = ReturnSpread(cfg.gamma)
        self.value_scale = ValueScale(is_fixed=not cfg.normalize_values, below_1=self.return_scale is None)
        self.rng = streams.generator(Role.LEARNER, name)

    def summary(self) -> Row:
        """Reports rewards and learning of the signals."""
        return self.signals.summary() if self.signals.others else {}

    def distribution(self, batch: Minibatch) -> Distribution:
        """Computes the policy's distribution of each row, by its modules."""
        behavior = self.net.behavior(batch.obs)
        assert isinstance(behavior, Distribution)
        return behavior

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: targets, a step of the policy, then epochs of minibatches of the value function."""
        cfg, data = self.now(), self.before_update(self.targets(rollout))
        self.policy_optimizer.aim(self.distribution, data, cfg)
        means = Means()
        surrogate = gradient_step(self.distribution, trpo_loss, data, self.policy_optimizer, cfg)
        means.add({name: value for name, value in surrogate.items() if name != "grad_norm"})
        for _ in range(cfg.value_epochs):
            batches = data.shuffled(cfg.minibatch_size, self.rng)
            steps = gradient_steps(self.value_forward, value_loss, batches, self.optimizer, cfg, VALUE_GRADIENT)
            for metrics in steps:
                means.add(metrics)
        self.updates += 1
        return {
            **self.after_update(means.result()),
            **self.policy_optimizer.made,
            "explained_variance": explained_variance(data.value[:, 0], data.value_target[:, 0]),
            "value_unit": self.value_scale.unit,
            "lr": cfg.lr,
            "max_kl": cfg.max_kl,
            "skipped_steps": self.check_finite(self.policy_optimizer) + self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> Minibatch:
        """Computes advantages and value targets of every valid decision, ``[N]`` and ``[N, S]``."""
        cfg, scale = self.cfg, self.value_scale
        reward = rollout.reward if self.return_scale is None else self.return_scale(rollout)
        rewards = self.signals.rewards(rollout, reward) if self.signals.others else reward.unsqueeze(-1)
        in_unit = scale.in_unit(rollout, rewards)
        data = advantage_targets(self.forward, rollout, in_unit, self.columns, gae_lambda=cfg.gae_lambda)
        self.value_forward.refresh()
        data = scale.renewed(data, self.net.value_head)
        if not cfg.normalize_advantage:
            return data
        strengths = rewards.new_tensor([column.strength for column in self.columns])
        least = self.return_spread.least_deviation(rollout, rewards @ strengths, scale.unit)
        return normalize_advantages(replace(data, least_deviation=least))
