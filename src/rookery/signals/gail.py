"""Generative adversarial imitation learning (Ho & Ermon 2016, arXiv:1606.03476).

A discriminator learns to distinguish the demonstrations' decisions from the policy's; decisions that it classifies as
demonstrations are rewarded. A gradient penalty (Gulrajani et al. 2017, arXiv:1704.00028, eq. 3) keeps it from
saturating before the policy can learn from it.

With a bottleneck (Peng et al. 2018, arXiv:1810.00821) only a few bits of a decision pass, so that it cannot separate
the policy from demonstrations by irrelevant details.

``-log(1 - D)`` is never below 0: survival itself is rewarded, which is wrong if demonstrations end soon. ``airl`` gives
``log D - log(1 - D)`` (Fu et al. 2018, arXiv:1710.11248, section 4), which has both signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn import functional

from rookery.core.batch import Decisions
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Structural
from rookery.core.settings.reach import Reaches, Width
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear
from rookery.policies.normalize import ObsNormalizer
from rookery.policies.policy import Policy
from rookery.signals.imitation_base import Demonstrations, ImitationBase
from rookery.signals.learned import LearnedConfig, LearnedSignal
from rookery.signals.signal import action_features, action_width

EPS = 1e-7
"""Keeps the logarithm finite at D = 1."""
PASSES_GAIN = 0.1
"""Gain of the weights before a bottleneck: little information passes at first."""
CLIP = 10.0
"""Largest magnitude of a normalized value, in standard deviations."""


@dataclass(frozen=True)
class GAILConfig(LearnedConfig):
    """Settings of adversarial imitation."""

    signal: ClassVar[str] = "rookery.signals.gail:GAIL"

    replay: tuple[Annotated[str, Reaches("a path")], ...] = ()
    """The demonstrations: runs, checkpoints or replay directories (``PATH`` or ``PATH:policy``)."""
    reward: Literal["gail", "airl"] = "gail"
    """``gail`` = -log(1 - D), never below 0; ``airl`` = log D - log(1 - D)."""
    use_actions: Structural[bool] = True
    """Whether the discriminator receives actions, not only observations."""
    penalty: NonNegative = 10.0
    """Weight of the gradient penalty."""
    bottleneck: Structural[Width | None] = None
    """Width of a variational bottleneck before the output (VAIL; in ML-Agents 128); none = no bottleneck."""
    information: NonNegative = 0.5
    """With `bottleneck`: mean information of a decision that may pass, in nats (I_c of the paper)."""
    information_lr: PositiveFloat = 5e-4
    """With `bottleneck`: step size of the dual update of that limit's weight."""
    scale: bool = False
    """Whether rewards are divided by the running standard deviation of their returns."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(activation="relu"))


@dataclass(frozen=True)
class DiscriminatorBatch:
    """Training batch of the discriminator: demonstrations and the policy's decisions, ``[N, W]`` each, and points
    between.

    Attributes:
        noise: ``[3, N, Z]`` normal noise for the bottleneck of each; None without one.
        weight: Weight of the limit on information, a scalar.
    """

    expert: Tensor
    played: Tensor
    between: Tensor
    noise: Tensor | None = field(default_factory=lambda: None)
    weight: Tensor | None = field(default_factory=lambda: None)


@dataclass(frozen=True)
class DiscriminatorOutput:
    """Logits of demonstrations and of the policy's decisions, ``[N]``, the gradient norm at points between, ``[N]``,
    and the information that passes the bottleneck of both, in nats ``[2N]``, or None.
    """

    expert: Tensor
    played: Tensor
    slope: Tensor
    information: Tensor | None


class Discriminator(nn.Module):
    """Classifies an observation and an action as demonstration or policy.

    Args:
        obs: Layout of normalized observations.
        action: Layout of actions.
        cfg: Settings.
        generator: Random generator of the weights.

    Attributes:
        weight: With a bottleneck, the weight of its limit; a buffer.
    """

    weight: Tensor

    def __init__(self, obs: ObsSpec, action: ActionSpec, cfg: GAILConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.action_spec = action if cfg.use_actions else None
        self.trunk = build_trunk(obs, cfg.model.replace(hidden=()), generator=generator)
        found = self.trunk.num_features
        assert isinstance(found, int)
        width = found + (action_width(action) if cfg.use_actions else 0)
        layers: list[nn.Linear] = []
        for size in cfg.model.hidden:
            layers.append(linear(width, size, gain=HIDDEN_GAIN, generator=generator))
            width = size
        self.layers = nn.ModuleList(layers)
        self.passes: nn.Linear | None = None
        if cfg.bottleneck is not None:
            self.passes = linear(width, cfg.bottleneck, gain=PASSES_GAIN, generator=generator)
            self.log_std = nn.Parameter(torch.zeros(cfg.bottleneck, dtype=torch.float32, device="cpu"))
            self.register_buffer("weight", torch.tensor(0.0, dtype=torch.float32, device="cpu"))
            width = cfg.bottleneck
        self.last = linear(width, 1, gain=1.0, generator=generator)
        self._activate = ACTIVATIONS[cfg.model.activation]

    def inputs(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        """Returns observations and actions as vectors ``[N, W]``; images as features of their network."""
        seen: Tensor = self.trunk(obs)
        return seen if self.action_spec is None else torch.cat((seen, action_features(action, self.action_spec)), 1)

    def hidden(self, inputs: Tensor) -> Tensor:
        """Returns the hidden features of inputs ``[N, W]``; with a bottleneck, the mean of its distribution."""
        x = inputs
        for layer in self.layers:
            x = self._activate(layer(x))
        return x if self.passes is None else self.passes(x)

    def logit(self, inputs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns the logits ``[N]`` of inputs ``[N, W]``, above 0 for demonstrations; `noise` ``[N, Z]`` is added in
        the bottleneck.
        """
        return self._verdict(self.hidden(inputs), noise)

    def _verdict(self, hidden: Tensor, noise: Tensor | None) -> Tensor:
        x = hidden if noise is None else torch.addcmul(hidden, self.log_std.exp(), noise)
        found: Tensor = self.last(x)
        return found.squeeze(1)

    def information(self, mean: Tensor) -> Tensor:
        """Returns the information that passes the bottleneck, in nats: the KL divergence from a standard normal,
        ``[N]`` of means ``[N, Z]``.
        """
        return 0.5 * (mean.square() + (2.0 * self.log_std).exp() - 1.0 - 2.0 * self.log_std).sum(1)

    def forward(self, batch: DiscriminatorBatch) -> DiscriminatorOutput:
        """Returns the logits of both, and the gradient norm between them."""
        between = batch.between.detach().requires_grad_()
        noise = (None, None, None) if batch.noise is None else batch.noise.unbind(0)
        with torch.enable_grad():
            (gradient,) = grad(self.logit(between, noise[2]).sum(), between, create_graph=True)
        expert, played = self.hidden(batch.expert), self.hidden(batch.played)
        passed = None if self.passes is None else self.information(torch.cat((expert, played)))
        return DiscriminatorOutput(
            self._verdict(expert, noise[0]), self._verdict(played, noise[1]), gradient.norm(dim=1), passed
        )


def discriminator_loss(
    outputs: DiscriminatorOutput, batch: DiscriminatorBatch, cfg: GAILConfig
) -> tuple[Tensor, Metrics]:
    """Cross-entropy (eq. 17 of the paper, with the signs of D reversed) and gradient penalty; with a bottleneck also
    the excess information (Peng et al. 2018, eq. 9).
    """
    entropy = functional.softplus(-outputs.expert).mean() + functional.softplus(outputs.played).mean()
    penalty = (outputs.slope - 1).square().mean()
    metrics: Metrics = {
        "loss": entropy.detach(),
        "penalty": penalty.detach(),
        "expert_estimate": torch.sigmoid(outputs.expert.detach()).mean(),
        "policy_estimate": torch.sigmoid(outputs.played.detach()).mean(),
    }
    loss = entropy + cfg.penalty * penalty
    if outputs.information is not None and batch.weight is not None:
        passed = outputs.information.mean()
        loss = loss + batch.weight * (passed - cfg.information)
        metrics |= {"information": passed.detach(), "information_weight": batch.weight}
    return loss, metrics


def gail_reward(estimate: Tensor) -> Tensor:
    """``-log(1 - D)`` of estimates D ``[N]``, finite up to D = 1."""
    return -torch.log(1 - estimate * (1 - EPS))


class GAIL(ImitationBase, LearnedSignal[GAILConfig]):
    """Rewards decisions that the discriminator classifies as demonstrations.

    Attributes:
        normalizer: Running statistics of demonstrations and the policy's observations.
        net: The discriminator.
        demonstrations: The demonstrations; set at the start of a run.
    """

    saved = ("normalizer", "net")

    def __init__(self, policy: Policy, cfg: GAILConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator, device = self.generator(streams), device_of(policy)
        self.normalizer = ObsNormalizer(policy.own_spec, CLIP, policy.model.entities).to(device)
        self.net = Discriminator(self.normalizer.spec, policy.action_spec, cfg, generator).to(device)
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=1e-8)
        self.demonstrations: Demonstrations | None = None
        self.mark = ""
        """Text that identifies the demonstrations."""

    def imitate(self, demonstrations: Demonstrations, mark: str) -> None:
        """Sets the demonstrations.

        Args:
            demonstrations: Source of decisions.
            mark: A text that differs for different demonstrations.
        """
        self.demonstrations, self.mark = demonstrations, mark

    @property
    def imitator_name(self) -> str:
        """Name of the signal."""
        return self.name

    @property
    def sources(self) -> Sequence[str]:
        """The setting `replay`."""
        return self.cfg.replay

    def expert(self, number: int) -> Decisions:
        """Draws `number` decisions of the demonstrations.

        Raises:
            ConfigError: If there are none.
        """
        if self.demonstrations is None:
            raise ConfigError(
                f"{self.name}: there are no demonstrations: set signals.gail.replay to the directory of a run or of a "
                "replay (rookery replay record makes one)"
            )
        return self.demonstrations.decisions(number)

    def inputs(self, seen: Decisions) -> Tensor:
        """Returns the discriminator's inputs, ``[N, W]``."""
        return self.net.inputs(self.normalizer(seen.obs), seen.action)

    def observe(self, played: Decisions) -> None:
        """Updates the running statistics with the decisions and as many demonstrations."""
        self.normalizer.update(played.obs)
        self.normalizer.update(self.expert(len(played)).obs)

    @torch.no_grad()
    def reward(self, seen: Decisions) -> Tensor:
        """Returns the reward of each decision, ``[N]``."""
        logit = self.net.logit(self.inputs(seen))
        return logit if self.cfg.reward == "airl" else gail_reward(torch.sigmoid(logit))

    def fit(self, seen: Decisions) -> Metrics:
        """Takes a gradient step of the discriminator on equally many demonstrations and decisions."""
        expert, played = self.inputs(self.expert(len(seen))), self.inputs(seen)
        share = torch.from_numpy(self.rng.random((len(seen), 1), dtype="float32")).to(played.device)
        between = share * expert + (1 - share) * played
        if self.net.passes is None:
            return self.improve(self.net, discriminator_loss, DiscriminatorBatch(expert, played, between))
        drawn = self.rng.standard_normal((3, len(seen), self.net.passes.out_features), dtype="float32")
        noise, weight = torch.from_numpy(drawn).to(played.device), self.net.weight
        batch = DiscriminatorBatch(expert, played, between, noise, weight.clone())
        metrics = self.improve(self.net, discriminator_loss, batch)
        passed = metrics["information"]
        weight.add_((passed - self.cfg.information) * self.cfg.information_lr).clamp_(min=0.0)
        return metrics
