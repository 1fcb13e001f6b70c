"""Generative adversarial imitation learning (Ho & Ermon 2016, arXiv:1606.03476): to do what demonstrations show.

A discriminator learns to tell the demonstrations' decisions from the policy's; what it takes for a demonstration is
rewarded. A penalty keeps its gradient near 1 between the two (Gulrajani et al. 2017, arXiv:1704.00028, eq. 3), without
which it wins too soon for anything to be learned from it.

``-log(1 - D)`` is never below 0: staying alive pays by itself, which is wrong where demonstrations end soon. ``airl``
gives ``log D - log(1 - D)`` (Fu et al. 2018, arXiv:1710.11248, section 4), which has both signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

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
from rookery.core.settings import NonNegative, Structural
from rookery.core.spaces import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear
from rookery.policies.normalize import ObsNormalizer
from rookery.policies.policy import Policy
from rookery.signals.demonstrated import Demonstrated, Demonstrations
from rookery.signals.learned import LearnedConfig, LearnedSignal
from rookery.signals.signal import action_features, action_width

EPS = 1e-7
"""Keeps the logarithm of what is taken for a demonstration with certainty finite."""
CLIP = 10.0
"""Largest size of a normalized number, in standard deviations."""


@dataclass(frozen=True)
class GAILConfig(LearnedConfig):
    """Settings of adversarial imitation."""

    signal: ClassVar[str] = "rookery.signals.gail:GAIL"

    replay: tuple[str, ...] = ()
    """The demonstrations: runs, checkpoints or replay directories (``PATH`` or ``PATH:policy``)."""
    reward: Literal["gail", "airl"] = "gail"
    """``gail`` = -log(1 - D), never below 0; ``airl`` = log D - log(1 - D)."""
    use_actions: Structural[bool] = True
    """Whether the discriminator sees actions, and not only what was decided on."""
    penalty: NonNegative = 10.0
    """Weight of the gradient penalty."""
    scale: bool = False
    """Whether rewards are divided by the running standard deviation of their returns."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(activation="relu"))


@dataclass(frozen=True)
class Comparison:
    """What the discriminator learns from: demonstrations and the policy's play, ``[N, W]`` each, and points between."""

    expert: Tensor
    played: Tensor
    between: Tensor


@dataclass(frozen=True)
class Verdict:
    """Logits of demonstrations and of play, ``[N]``, and the size of the gradient at points between, ``[N]``."""

    expert: Tensor
    played: Tensor
    slope: Tensor


class Discriminator(nn.Module):
    """Tells from an observation and an action whether it is of a demonstration.

    Args:
        obs: Layout of normalized observations.
        action: Layout of actions.
        cfg: Settings.
        generator: Draws the weights.
    """

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
        self.last = linear(width, 1, gain=1.0, generator=generator)
        self._activate = ACTIVATIONS[cfg.model.activation]

    def inputs(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        """Gives what is judged as numbers ``[N, W]``; of pictures, what their network makes of them."""
        seen: Tensor = self.trunk(obs)
        return seen if self.action_spec is None else torch.cat((seen, action_features(action, self.action_spec)), 1)

    def logit(self, inputs: Tensor) -> Tensor:
        """Judges inputs ``[N, W]``: above 0 what looks like a demonstration, ``[N]``."""
        x = inputs
        for layer in self.layers:
            x = self._activate(layer(x))
        found: Tensor = self.last(x)
        return found.squeeze(1)

    def forward(self, batch: Comparison) -> Verdict:
        """Judges both, and measures the slope between them."""
        between = batch.between.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = grad(self.logit(between).sum(), between, create_graph=True)
        return Verdict(self.logit(batch.expert), self.logit(batch.played), gradient.norm(dim=1))


def discriminator_loss(verdict: Verdict, batch: Comparison, cfg: GAILConfig) -> tuple[Tensor, Metrics]:
    """Cross-entropy (eq. 17 of the paper, with the signs of D turned round) and gradient penalty."""
    entropy = functional.softplus(-verdict.expert).mean() + functional.softplus(verdict.played).mean()
    penalty = (verdict.slope - 1).square().mean()
    metrics: Metrics = {
        "loss": entropy.detach(),
        "penalty": penalty.detach(),
        "expert_estimate": torch.sigmoid(verdict.expert.detach()).mean(),
        "policy_estimate": torch.sigmoid(verdict.played.detach()).mean(),
    }
    return entropy + cfg.penalty * penalty, metrics


def gail_reward(estimate: Tensor) -> Tensor:
    """``-log(1 - D)`` of estimates D ``[N]``, finite up to D = 1."""
    return -torch.log(1 - estimate * (1 - EPS))


class GAIL(Demonstrated, LearnedSignal[GAILConfig]):
    """Rewards what its discriminator takes for a demonstration.

    Attributes:
        normalizer: Running statistics of demonstrations and play alike.
        net: The discriminator.
        demonstrations: What is to be imitated; who begins a run gives it.
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
        """A text that is another one if the demonstrations are others."""

    def imitate(self, demonstrations: Demonstrations, mark: str) -> None:
        """Takes what is to be imitated.

        Args:
            demonstrations: Where decisions are drawn from.
            mark: A text that is another one if they are others.
        """
        self.demonstrations, self.mark = demonstrations, mark

    @property
    def imitator(self) -> str:
        """The signal's name."""
        return self.name

    @property
    def sources(self) -> Sequence[str]:
        """The setting `replay`."""
        return self.cfg.replay

    def expert(self, number: int) -> Decisions:
        """Draws decisions of the demonstrations.

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
        """Gives what the discriminator judges, ``[N, W]``."""
        return self.net.inputs(self.normalizer(seen.obs), seen.action)

    def observe(self, played: Decisions) -> None:
        """Takes play, and as much of the demonstrations, into the running statistics."""
        self.normalizer.update(played.obs)
        self.normalizer.update(self.expert(len(played)).obs)

    @torch.no_grad()
    def reward(self, seen: Decisions) -> Tensor:
        """Gives the reward of each decision, ``[N]``."""
        logit = self.net.logit(self.inputs(seen))
        return logit if self.cfg.reward == "airl" else gail_reward(torch.sigmoid(logit))

    def fit(self, seen: Decisions) -> Metrics:
        """Makes a step of the discriminator on as many demonstrations as decisions."""
        expert, played = self.inputs(self.expert(len(seen))), self.inputs(seen)
        share = torch.from_numpy(self.rng.random((len(seen), 1), dtype="float32")).to(played.device)
        between = share * expert + (1 - share) * played
        return self.improve(self.net, discriminator_loss, Comparison(expert, played, between))
