"""Critics: values of observations and actions, by several networks; the lowest value is used.

The plain ones are those of TD3 (Fujimoto et al. 2018, arXiv:1802.09477). Options: layer normalization; quantiles of
which the highest are dropped (TQC, Kuznetsov et al. 2020, arXiv:2005.04269); batch renormalization that makes target
networks unnecessary (CrossQ, Bhatt et al. 2024, arXiv:1902.05605); targets of a random subset of the networks (REDQ,
Chen et al. 2021, arXiv:2101.05982); dropout (DroQ, Hiraoka et al. 2022, arXiv:2110.02034).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

import torch
from annotated_types import Interval
from torch import Tensor, nn

from rookery.algorithms.experience import Experience, RecurrentInput
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.ops import quantile_huber, quantile_huber_gradient
from rookery.core.optim import Adam, ClosedForm, OutputGradients, StepConfig, gradient_step, track
from rookery.core.settings.fields import Fraction, PositiveFloat, Settings, Structural
from rookery.core.settings.reach import CountFromZero, Few, Layers
from rookery.core.spaces.arrays import MASK
from rookery.core.state import Stateful
from rookery.models.build import CRITIC_ACTION, Encoder, ModelConfig, build_body, build_critic_trunk, build_trunk
from rookery.models.distributions import Behavior
from rookery.models.heads import VALUE_GAIN
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.critics import action_values
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.replay.replay import ReplaySettings
from rookery.signals.rewards import SignalsConfig

ModuleT = TypeVar("ModuleT", bound=nn.Module)
BatchT = TypeVar("BatchT", bound="StateAction")
ConfigT = TypeVar("ConfigT", bound=StepConfig)


TARGET_PASSES = 1 << 40
"""First pass of dropout in target networks, so that they drop other units than the networks that learn."""

PAIR = 2
"""Number of critics for which each loss is reported: the usual number."""


@dataclass(frozen=True)
class CriticConfig(Settings):
    """Settings of critics."""

    number: Few = 2
    """Number of networks, each with its own first weights. The lowest of their values is used."""

    widths: Layers | None = None
    """Widths of the hidden layers of each network; none = those of `model`."""

    norm: Literal["none", "layer", "batch"] = "none"
    """Normalization between layers. ``batch`` = CrossQ: batch renormalization, and no target critics."""

    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    """Probability with which each hidden unit is dropped in a pass of training and in targets; the actor learns from
    all units (DroQ: 0.01, with ``norm=layer``).
    """

    quantiles: Few | None = None
    """Quantiles of the return that each network learns instead of its mean (TQC: 25); none = the mean."""

    drop: CountFromZero = 2
    """With `quantiles`: quantiles per network left out of targets, the highest of all together."""

    huber: PositiveFloat | None = None
    """Size from which errors of the mean count linearly instead of squared (Huber's loss); none = all are squared."""

    def network(self, model: ModelConfig) -> ModelConfig:
        """Returns the settings of a network, of those of the policy's."""
        return model if self.widths is None else model.replace(hidden=self.widths)


@dataclass(frozen=True)
class CriticSettings(ReplaySettings):
    """Settings of every algorithm whose actor learns from critics."""

    tau: Fraction = 0.005
    """Polyak factor with which target networks follow."""
    critic: Structural[CriticConfig] = field(default_factory=CriticConfig)
    """The critics."""
    signals: SignalsConfig = field(default_factory=SignalsConfig)
    """Reward signals in addition to the environment's reward."""


@dataclass(frozen=True)
class StateAction:
    """Inputs of critics; ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        action: Continuous actions in [-1, 1]; ignored by critics of discrete actions.
        recurrent: Positions of the rows among the observations, for critics with a memory; else None.
    """

    obs: TensorTree
    action: Tensor
    recurrent: RecurrentInput | None = field(default_factory=lambda: None, kw_only=True)

    def seen(self, takes_action: bool) -> TensorTree:
        """Returns the inputs of a critic's trunk, with the action or without."""
        return {**self.obs, CRITIC_ACTION: self.action} if takes_action else self.obs

    def __len__(self) -> int:
        return len(self.action) if self.recurrent is None else len(self.recurrent.rows)


@dataclass(frozen=True)
class CriticBatch(StateAction):
    """Rows of a critic loss.

    Attributes:
        target: Value target ``[N]``, or samples of the return ``[N, M']``.
        weight: ``[N]`` weights of the rows; None if all have the same.
    """

    target: Tensor
    weight: Tensor | None


@dataclass(frozen=True)
class JointBatch(StateAction):
    """Rows of a loss without target networks: decisions, followed by their next states, ``[2N, ...]``.

    Attributes:
        reward: ``[N]``.
        discount: ``[N]``.
        bonus: ``[N]`` amount subtracted from the value of the next state; None = nothing.
        weight: ``[N]`` weights of the rows; None if all have the same.
    """

    reward: Tensor
    discount: Tensor
    bonus: Tensor | None
    weight: Tensor | None


# --- losses -----------------------------------------------------------------------------------------------------------


def backup(q: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | None, critic: CriticConfig) -> Tensor:
    """Computes value targets from the values of the next states.

    The lowest of the networks' values counts; of quantiles, all but the highest of all networks (TQC, eq. 10-11).

    Args:
        q: ``[K, N]`` of K networks, or their quantiles ``[K, N, M]``.
        reward: ``[N]``.
        discount: ``[N]``.
        bonus: ``[N]`` amount subtracted from `q`; None = nothing.
        critic: Settings of the critics.

    Returns:
        ``[N]``, or ``[N, K * (M - drop)]``.
    """
    if critic.quantiles is None:
        value = q.amin(0)
        return torch.addcmul(reward, discount, value if bonus is None else value - bonus)
    pooled = q.transpose(0, 1).flatten(1).sort(1).values
    kept = pooled[:, : pooled.shape[1] - critic.number * critic.drop]
    if bonus is not None:
        kept = kept - bonus.unsqueeze(1)
    return torch.addcmul(reward.unsqueeze(1), discount.unsqueeze(1), kept)


def critic_loss(q: Tensor, batch: CriticBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """Computes half the squared error of each network (or Huber's loss), or its quantile regression loss, summed over
    networks.

    Args:
        q: ``[K, N]``, or quantiles ``[K, N, M]``.
        batch: Decisions with their value targets.
        cfg: The algorithm's settings.

    Returns:
        The loss, and metrics, of which ``priority`` is the size of each row's error, ``[K, N]``; of quantiles ``[N]``.
        With two networks, the metrics contain the loss of each.
    """
    if q.dim() == 2:
        error = q - batch.target
        each = half_squared(error, cfg.critic.huber)
        size = error.detach().abs()
    else:
        number = len(q)
        each = quantile_huber(q.flatten(0, 1), batch.target.repeat(number, 1), kappa=1.0).view(number, -1)
        size = (q.detach().mean((0, 2)) - batch.target.mean(1)).abs()
    losses = (each if batch.weight is None else each * batch.weight).mean(1)
    loss = losses.sum()
    return loss, {"critic_loss": loss.detach(), **_critic_metrics(losses.detach().unbind(), q.detach(), size)}


def critic_gradient(q: Tensor, batch: CriticBatch, cfg: CriticSettings) -> OutputGradients:
    """Computes the gradient of `critic_loss` with respect to values ``[K, N]`` or quantiles ``[K, N, M]``, and its
    metrics.
    """
    if q.dim() != 2:
        return _quantile_gradient(q, batch)
    error = q - batch.target
    pull = clipped(error, cfg.critic.huber)
    gradient = pull / q.shape[1]
    if batch.weight is not None:
        gradient.mul_(batch.weight)
    losses = (gradient * (error if pull is error else 2 * error - pull)).sum(1).mul_(0.5).tolist()
    return [gradient], {"critic_loss": sum(losses), **_critic_metrics(losses, q, error.abs_())}


def _quantile_gradient(q: Tensor, batch: CriticBatch) -> OutputGradients:
    """Computes the result of `critic_gradient` for quantiles ``[K, N, M]``."""
    number, count, _ = q.shape
    by_row, rows = quantile_huber_gradient(q.flatten(0, 1), batch.target.repeat(number, 1), kappa=1.0)
    gradient, each = by_row.view_as(q).div_(count), rows.view(number, count)
    if batch.weight is not None:
        gradient.mul_(batch.weight.unsqueeze(1))
        each = each * batch.weight
    losses = each.mean(1).tolist()
    size = (q.mean((0, 2)) - batch.target.mean(1)).abs()
    return [gradient], {"critic_loss": sum(losses), **_critic_metrics(losses, q, size)}


def half_squared(error: Tensor, limit: float | None) -> Tensor:
    """Returns half the square of each error, and Huber's loss where there is a limit."""
    if limit is None:
        return 0.5 * error.square()
    pull = clipped(error, limit)
    return pull * (error - 0.5 * pull)


def clipped(error: Tensor, limit: float | None) -> Tensor:
    """Returns the gradient of the loss of each error: the error itself, up to a limit."""
    return error if limit is None else error.clamp(-limit, limit)


def _critic_metrics(losses: Sequence[Tensor | float], q: Tensor, size: Tensor) -> Metrics:
    """Returns the other metrics, from each network's loss, its values and the sizes of its errors."""
    own = losses if len(losses) == PAIR else ()
    each: Metrics = {f"critic_loss_{number}": one for number, one in enumerate(own, 1)}
    return {**each, "q_mean": q, "td_error": size, "priority": size}


CRITIC_GRADIENT = ClosedForm(critic_loss, critic_gradient)


def joint_critic_loss(q: Tensor, batch: JointBatch, cfg: CriticSettings) -> tuple[Tensor, Metrics]:
    """Computes `critic_loss` towards the networks' own values of the next states in one pass (CrossQ, section 3)."""
    now, after = q.chunk(2, 1)
    target = backup(after.detach(), batch.reward, batch.discount, batch.bonus, cfg.critic)
    return critic_loss(now, CriticBatch(batch.obs, batch.action, target, batch.weight), cfg)


# --- networks ---------------------------------------------------------------------------------------------------------


class BatchRenorm(nn.Module):
    """Batch renormalization (Ioffe 2017, arXiv:1702.03275): in training, rows are normalized almost as in `eval`.

    In training, rows are normalized by their own mean and standard deviation, and corrected, within limits, towards the
    running ones; there is no correction in the first `WARM_UP` passes. In `eval` the running ones are used. Constants
    are those of CrossQ.

    Args:
        width: Numbers in a row.
    """

    mean: Tensor
    var: Tensor
    passes: Tensor

    MOMENTUM = 0.01
    EPS = 1e-3
    R_MAX = 3.0
    D_MAX = 5.0
    WARM_UP = 100_000

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width, dtype=torch.float32, device="cpu"))
        self.shift = nn.Parameter(torch.zeros(width, dtype=torch.float32, device="cpu"))
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float32, device="cpu"))
        self.register_buffer("var", torch.ones(width, dtype=torch.float32, device="cpu"))
        self.register_buffer("passes", torch.zeros((), dtype=torch.float32, device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes, scales and shifts rows ``[N, width]``."""
        if not self.training:
            return torch.addcmul(self.shift, (x - self.mean) * torch.rsqrt(self.var + self.EPS), self.scale)
        mean = x.mean(0)
        centered = x - mean
        var = centered.square().mean(0)  # torch.var takes five times as long along columns
        std = (var + self.EPS).sqrt()
        with torch.no_grad():
            running = (self.var + self.EPS).sqrt()
            corrects = (self.passes >= self.WARM_UP).float()
            ratio = (std / running).clamp_(1 / self.R_MAX, self.R_MAX)
            offset = ((mean - self.mean) / running).clamp_(-self.D_MAX, self.D_MAX)
            ratio, offset = torch.lerp(torch.ones_like(ratio), ratio, corrects), offset * corrects
            self.mean.lerp_(mean, self.MOMENTUM)
            self.var.lerp_(var, self.MOMENTUM)
            self.passes += 1
        return torch.addcmul(torch.addcmul(self.shift, offset, self.scale), centered, ratio / std * self.scale)


class RenormalizedLayers(nn.Module):
    """Linear layers with batch renormalization before the first and after each activation, as in CrossQ.

    Args:
        trunk: Module below the layers.
        model: Widths and activation.
        generator: Draws the weights.
    """

    def __init__(self, trunk: nn.Module, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        first = trunk.num_features
        assert isinstance(first, int)
        widths = (first, *model.hidden)
        self.trunk = trunk
        self.layers = nn.ModuleList(
            linear(widths[i], widths[i + 1], gain=HIDDEN_GAIN, generator=generator) for i in range(len(model.hidden))
        )
        self.norms = nn.ModuleList(BatchRenorm(width) for width in widths)
        self.num_features = widths[-1]
        self._activate = ACTIVATIONS[model.activation]

    def forward(self, obs: TensorTree) -> Tensor:
        """Computes features ``[N, num_features]``."""
        before, *after = self.norms
        x: Tensor = before(self.trunk(obs))
        for layer, norm in zip(self.layers, after, strict=True):
            x = norm(self._activate(layer(x)))
        return x


class SeededDropout(nn.Module):
    """Dropout (Srivastava et al. 2014), of which the number of passes so far decides which units are dropped, so that a
    resumed run drops the same.

    Args:
        probability: That of dropping a unit; the others are divided by one minus it.
        seed: Layers with different seeds drop independently of each other.
    """

    passes: Tensor

    def __init__(self, probability: float, seed: int) -> None:
        super().__init__()
        self.probability = probability
        self.seed = seed
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64, device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        """Drops units of rows ``[N, width]``; in `eval` none."""
        if not self.training:
            return x
        generator = torch.Generator().manual_seed(self.seed + int(self.passes))
        self.passes += 1
        kept = torch.rand(x.shape, generator=generator, dtype=torch.float32, device="cpu") >= self.probability
        return x * (kept.to(x.device, x.dtype) / (1.0 - self.probability))


class DroppedLayers(nn.Module):
    """Linear layers with dropout, and with layer normalization where it is set, before each activation, as in DroQ.

    Args:
        trunk: Module below the layers.
        model: Widths, activation and normalization.
        probability: See `SeededDropout`.
        generator: Draws the weights.
    """

    def __init__(self, trunk: nn.Module, model: ModelConfig, probability: float, generator: torch.Generator) -> None:
        super().__init__()
        first = trunk.num_features
        assert isinstance(first, int)
        widths = (first, *model.hidden)
        self.trunk = trunk
        self.layers, self.drops, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for before, width in pairwise(widths):
            self.layers.append(linear(before, width, gain=HIDDEN_GAIN, generator=generator))
            seed = int(torch.randint(1 << 62, (), generator=generator, dtype=torch.int64, device="cpu"))
            self.drops.append(SeededDropout(probability, seed))
            norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu") if model.layer_norm else nn.Identity()
            self.norms.append(norm)
        self.num_features = widths[-1]
        self._activate = ACTIVATIONS[model.activation]

    def forward(self, obs: TensorTree) -> Tensor:
        """Computes features ``[N, num_features]``."""
        x: Tensor = self.trunk(obs)
        for layer, drop, norm in zip(self.layers, self.drops, self.norms, strict=True):
            x = self._activate(norm(drop(layer(x))))
        return x


class RecurrentTrunk(nn.Module):
    """A trunk with its own memory, and a layer that combines the memory's output with an action.

    It processes observations along time from an empty memory, because the policy's stored memory is not the
    critic's.

    Args:
        policy: The policy whose actions are valued.
        model: Trunk and memory.
        generator: Draws the weights.
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk, memory, width = build_body(policy.critic_spec, policy.action_spec, model, generator=generator)
        assert memory is not None
        self.memory = memory
        self.num_features = width
        self.layer = linear(width + policy.action_spec.num_numbers, width, gain=HIDDEN_GAIN, generator=generator)
        self._activate = ACTIVATIONS[model.activation]

    def forward(self, batch: StateAction) -> Tensor:
        """Computes features ``[N, num_features]``."""
        recurrent = batch.recurrent
        assert recurrent is not None
        seen = self.trunk(batch.obs)
        empty = seen.new_zeros(len(recurrent.sequences.length), self.memory.size)
        features = self.memory(seen, empty, recurrent.sequences)[0].index_select(0, recurrent.rows)
        if batch.action.is_floating_point():
            features = torch.cat((features, batch.action), 1)
        return self._activate(self.layer(features))


class Critic(nn.Module):
    """One network: from an observation and a continuous action to its value, or to those of all discrete actions.

    Args:
        policy: The policy whose actions are valued.
        cfg: Settings of critics.
        model: Settings of networks.
        generator: Draws the weights.
    """

    def __init__(self, policy: Policy, cfg: CriticConfig, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        obs, action = policy.critic_spec, policy.action_spec
        self.takes_action = action.num_numbers > 0
        model = model.replace(layer_norm=True) if cfg.norm == "layer" else model
        has_own_layers = cfg.norm == "batch" or cfg.dropout > 0.0
        inside = model.replace(hidden=()) if has_own_layers else model
        if policy.memory is not None:
            trunk: nn.Module = RecurrentTrunk(policy, inside, generator)
        elif self.takes_action:
            trunk = build_critic_trunk(obs, action, inside, generator=generator)
        else:
            trunk = build_trunk(obs, inside, generator=generator)
        if cfg.norm == "batch":
            trunk = RenormalizedLayers(trunk, model, generator)
        elif cfg.dropout:
            trunk = DroppedLayers(trunk, model, cfg.dropout, generator)
        self.trunk = trunk
        width = self.trunk.num_features
        assert isinstance(width, int)
        self._outputs = sum(action.sizes) or cfg.quantiles or 1
        self.linear = linear(width, self._outputs, gain=VALUE_GAIN, generator=generator)

    def forward(self, batch: StateAction) -> Tensor:
        """Computes values ``[N]``, quantiles ``[N, M]``, or values of all discrete options ``[N, A]``."""
        output: Tensor = self.linear(self.trunk(batch.seen(self.takes_action) if batch.recurrent is None else batch))
        return output.squeeze(1) if self._outputs == 1 else output


class Critics(nn.Module):
    """Several independent critics.

    Arguments as of `Critic`; with `shares_images` all have the convolutions of the first.
    """

    def __init__(
        self,
        policy: Policy,
        cfg: CriticConfig,
        model: ModelConfig,
        generator: torch.Generator,
        *,
        shares_images: bool = False,
    ) -> None:
        super().__init__()
        self.model = model = cfg.network(model)
        self.takes_action = policy.action_spec.num_numbers > 0
        self._both = self.takes_action and bool(policy.action_spec.sizes)
        self.networks = nn.ModuleList(Critic(policy, cfg, model, generator) for _ in range(cfg.number))
        self.shares_images = shares_images
        if shares_images:
            share_convolutions(policy.name, [critic.trunk for critic in self.networks if isinstance(critic, Critic)])
        self.to(device_of(policy))

    @property
    def encoder(self) -> Encoder | None:
        """Encoder whose convolutions all share; None = each network has its own."""
        first = self.networks[0].trunk if self.shares_images else None
        return first if isinstance(first, Encoder) else None

    def forward(self, batch: StateAction, chosen: Sequence[int] | None = None) -> Tensor:
        """Computes the output of each network, or of those of the numbers `chosen`, ``[K, N]`` or ``[K, N, ...]``."""
        if self.shares_images and (encoder := self.encoder):
            batch = replace(batch, obs=encoder.with_maps(batch.obs))
        networks = self.networks if chosen is None else [self.networks[number] for number in chosen]
        return torch.stack([network(batch) for network in networks])

    def structure(self) -> Structure:
        """Declares what `forward` computes."""
        towers = tuple(Tower(critic.trunk, (critic.linear,)) for critic in self.networks if isinstance(critic, Critic))
        why = "critics of choices and numbers" if self._both else ""
        why = "critics that remember" if any(isinstance(tower.trunk, RecurrentTrunk) for tower in towers) else why
        return Structure(
            towers,
            self.model,
            lambda batch: Inputs(batch.seen(self.takes_action)),
            lambda parts, batch: parts[0],
            stacked=True,
            rounds=True,
            obstacle=why,
        )


def share_convolutions(name: str, trunks: Sequence[nn.Module]) -> None:
    """Gives all trunks the convolutions of the first.

    Args:
        name: The policy's name.
        trunks: Trunks of equal settings.

    Raises:
        ConfigError: If they are not the built-in networks for images.
    """
    first = trunks[0]
    if type(first) is not Encoder or not first.image_paths:
        raise ConfigError(
            f"policies.{name}.shared_encoder = True needs images in the observations, and built-in networks: leave it "
            "out, or leave out model.module, model.goals, critic.dropout and critic.norm = batch"
        )
    for trunk in trunks[1:]:
        assert isinstance(trunk, Encoder)
        trunk.take_convolutions(first.images)


def behavior_of(policy: Policy, obs: TensorTree, recurrent: RecurrentInput | None = None) -> Behavior:
    """Computes a policy's action distribution, given observations ``[N, ...]`` as networks take them.

    Args:
        policy: The policy.
        obs: By leaf path.
        recurrent: Positions of the rows among the observations, for a policy with a memory; else None.
    """
    if recurrent is not None:
        assert policy.memory is not None
        features, _ = policy.memory(policy.trunk(obs), recurrent.memory, recurrent.sequences)
        mask = mask_at(obs, recurrent)
        remembering: Behavior = policy.head(features.index_select(0, recurrent.rows), mask)
        return remembering
    behavior: Behavior = policy.head(policy.trunk(obs), obs.get(MASK))
    return behavior


class PolicyNetwork:
    """Computes a policy's action distribution for the rows of a batch.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __call__(self, batch: Any) -> Behavior:
        """Computes the action distribution for the observations ``obs`` of a batch."""
        return behavior_of(self.policy, batch.obs)

    def structure(self) -> Structure:
        """Declares what a call computes."""
        return actor_structure(self.policy, lambda behavior, batch: behavior)


def actor_structure(policy: Policy, outputs: Callable[[Behavior, Any], Any]) -> Structure:
    """Declares the inputs of an actor's loss: `outputs` of the policy's action distribution and the batch."""
    declared = policy.structure()
    return replace(
        declared,
        outputs=lambda parts, batch: outputs(declared.outputs(parts, batch), batch),
        rounds=True,
        obstacle="an actor that remembers" if policy.memory_size else "",
    )


def mask_at(obs: TensorTree, recurrent: RecurrentInput | None) -> Tensor | None:
    """Returns the mask of allowed actions of the rows, ``[N, choices]``; None = all."""
    mask = obs.get(MASK)
    return mask if mask is None or recurrent is None else mask.index_select(0, recurrent.rows)


def target_copy(net: ModuleT) -> tuple[ModuleT, Tensor]:
    """Returns a frozen copy of a network, and the vector of its weights in the order of ``flatten([net])``, which
    `track` updates.
    """
    target = copy.deepcopy(net)
    data = flatten([target]).data
    return target.requires_grad_(False), data


def detached_view(net: ModuleT) -> ModuleT:
    """Returns the same network on the same weights, frozen, so that gradients only flow through it: for networks that
    learn from its values. Normalization layers use their running statistics.

    Args:
        net: The network, whose weights are already at their final place (after `flatten`).
    """
    view = copy.deepcopy(net).requires_grad_(False).eval()
    for mine, source in zip(view.parameters(), net.parameters(), strict=True):
        mine.data = source.data
    for module, original in zip(view.modules(), net.modules(), strict=True):
        for name, buffer in original.named_buffers(recurse=False):
            module.register_buffer(name, buffer)
    return view


def at_rate(cfg: ConfigT, lr: float | None) -> ConfigT:
    """Returns the settings of a gradient step of a part with its own learning rate; None = that of all parts."""
    if lr is None:
        return cfg
    own = copy.copy(cfg)
    object.__setattr__(own, "lr", lr)
    return own


def rename_grad_norm(part: str, metrics: Metrics) -> Metrics:
    """Renames the gradient norm in the metrics of a gradient step after the part that was trained."""
    metrics[f"{part}_grad_norm"] = metrics.pop("grad_norm")
    return metrics


class CriticLearner(Stateful):
    """The critics of an algorithm, with target networks and optimizer.

    Args:
        policy: The policy whose actions are valued.
        cfg: Settings of critics.
        model: Settings of networks.
        adam_eps: Added to Adam's denominator.
        generator: Draws the weights.
        shares_images: Whether all critics have the same convolutions on images.

    Attributes:
        net: The critics that learn.
        target: Their target networks; None if there are none (CrossQ).
        detached: Frozen view of `net` for an actor to learn from.
        optimizer: Optimizer of `net`.
    """

    saved = ("net", "target", "optimizer")
    fixed = ("cfg", "detached", "forward", "target_forward", "detached_forward", "_target_data")

    def __init__(
        self,
        policy: Policy,
        cfg: CriticConfig,
        model: ModelConfig,
        *,
        adam_eps: float,
        generator: torch.Generator,
        shares_images: bool = False,
    ) -> None:
        if cfg.quantiles is not None and cfg.drop >= cfg.quantiles:
            raise ConfigError(
                f"policies.{policy.name}.critic.drop = {cfg.drop} leaves none of critic.quantiles = {cfg.quantiles}; "
                "drop fewer (TQC: 2 of 25)"
            )
        if cfg.norm == "batch" and policy.memory_size:
            raise ConfigError(
                f"policies.{policy.name}.critic.norm = batch: rows of a policy that remembers stand in sequences, and "
                "cannot be normalized together; use norm = layer, or leave it out"
            )
        if cfg.dropout and (cfg.norm == "batch" or policy.memory_size):
            raise ConfigError(
                f"policies.{policy.name}.critic.dropout = {cfg.dropout:g} is not for norm = batch, nor for policies "
                "with a memory: leave it out, or set norm = layer"
            )
        self.cfg = cfg
        self.net = Critics(policy, cfg, model, generator, shares_images=shares_images)
        self.target: Critics | None = None
        self._target_data: Tensor | None = None
        if cfg.norm != "batch":
            self.target, self._target_data = target_copy(self.net)
            for module in self.target.modules():
                if isinstance(module, SeededDropout):
                    module.passes.fill_(TARGET_PASSES)
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=adam_eps)
        self.detached = detached_view(self.net)
        self.forward = attach(self.net)
        self.target_forward = None if self.target is None else attach(self.target, learns=False)
        self.detached_forward = attach(self.detached, learns=False, sharing=self.forward)

    def learn(
        self,
        rows: Experience,
        next_action: Tensor,
        bonus: Tensor | None,
        cfg: CriticSettings,
        chosen: Sequence[int] | None = None,
    ) -> Metrics:
        """Makes one gradient step towards ``reward + discount * (value of the next action - bonus)``.

        Args:
            rows: Decisions; observations as networks take them.
            next_action: ``[N, k]`` the actor's next actions.
            bonus: ``[N]``; None = nothing.
            cfg: The algorithm's settings, schedules resolved.
            chosen: Numbers of the target networks that count, without quantiles; None = all.
        """
        if self.target_forward is None:
            obs = {path: torch.cat((leaf, rows.next_obs[path])) for path, leaf in rows.obs.items()}
            action = torch.cat((rows.action, next_action))
            joint = JointBatch(obs, action, rows.reward, rows.discount, bonus, rows.weight)
            return self.improve(joint_critic_loss, joint, cfg)
        with torch.no_grad():
            after = StateAction(rows.next_obs, next_action, recurrent=rows.next_recurrent)
            q = action_values(self.target_forward, after, chosen)
            target = backup(q, rows.reward, rows.discount, bonus, self.cfg)
        return self.improve(
            critic_loss, CriticBatch(rows.obs, rows.action, target, rows.weight, recurrent=rows.recurrent), cfg
        )

    def value_weights(self) -> list[Tensor]:
        """Returns the weights to which values are proportional, those of target networks included."""
        networks = [*self.net.networks, *([] if self.target is None else self.target.networks)]
        return [weight for one in networks if isinstance(one, Critic) for weight in one.linear.parameters()]

    def improve(
        self, loss: Callable[[Tensor, BatchT, ConfigT], tuple[Tensor, Metrics]], batch: BatchT, cfg: ConfigT
    ) -> Metrics:
        """Makes one gradient step on a loss."""
        return rename_grad_norm(
            "critic", gradient_step(self.forward, loss, batch, self.optimizer, cfg, CRITIC_GRADIENT)
        )

    def track(self, tau: float) -> None:
        """Moves target networks by the Polyak factor `tau`, if there are any."""
        if self._target_data is not None:
            track(self._target_data, self.optimizer.flat.data, tau)
