"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), and its form for discrete actions (Christodoulou 2019,
arXiv:1910.07207), several choices and choices beside numbers (`branches.py`).

The details that decide are in docs/algorithms/sac.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.experience import Experience, RecurrentInput, sequence_experience
from rookery.algorithms.imitation import ImitationConfig, add_imitation
from rookery.algorithms.off_policy.action_noise import NoiseConfig
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    CriticLearner,
    Critics,
    CriticSettings,
    StateAction,
    actor_structure,
    behavior_of,
    critic_loss,
    mask_at,
    named,
)
from rookery.algorithms.off_policy.hybrid_actions import (
    ActorBatch,
    BranchCriticBatch,
    Branches,
    branch_actor_loss,
    branch_critic_loss,
    branches_of,
    chosen_of,
    has_branches,
    num_temperatures,
    numbers_of,
    target_entropies,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Few
from rookery.models.distributions import Behavior, Categorical
from rookery.models.heads import DistributionHead, HeadSpec
from rookery.models.squashed import Squashed
from rookery.models.structure import Inputs, Structure
from rookery.native.critics import WithoutGraph, action_values, squashed_drawing, values_to_go_back_from
from rookery.native.forward import Forward, attach
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class SACConfig(AlgorithmConfig, CriticSettings):
    """Settings of SAC. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.off_policy.sac:SAC"
    capabilities = Capabilities(
        supports_staleness=True, supports_memory=True, supports_multi_learner=True, uses_replay=True
    )

    n_step: Few = 1
    """Decisions whose rewards a target counts before it trusts a value; they are those of the policy that played, and
    entropy counts only after them.
    """
    alpha: Scheduled[NonNegative] | None = None
    """Temperature: what a nat of entropy is worth in rewards; none = it adapts, so that the policy keeps
    `target_entropy`.
    """
    alpha_init: PositiveFloat = 1.0
    """The first temperature, where it adapts."""
    target_entropy: float | None = None
    """Entropy in nats that the temperature aims at; none = minus one for each number of an action, on [-1, 1]; of
    discrete actions, `entropy_share` of the most there could be. Where an action has several parts each one has a
    temperature and a target of its own, and this is none.
    """
    entropy_share: Fraction = 0.5
    """Of choices: target entropy as a share of that of choosing evenly among what is allowed."""
    discrete: Structural[bool] = False
    """Whether actions are one of several, or several such choices; critics then value all of them at once. Choices
    beside numbers need no setting.
    """
    log_std: Literal["clamp", "tanh"] = "clamp"
    """How the log standard deviation stays in range: cut off at -20 and 2, or brought between -5 and 2 by tanh."""
    exploration: NoiseConfig = field(default_factory=NoiseConfig)
    """What the noise of consecutive decisions has to do with each other; how large it is, the policy says."""
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    """What of demonstrations is imitated beside what is learned by rewards."""

    @property
    def head(self) -> HeadSpec:
        """A squashed Gaussian, or a categorical."""
        if self.discrete:
            return DistributionHead()
        noise = self.exploration
        return Squashed(noise.kind, noise.theta, noise.every, self.log_std)


@dataclass(frozen=True)
class DiscreteBatch:
    """Rows of the actor's loss with discrete actions, ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        q: ``[N, A]`` what each action is worth.
        alpha: Temperature, without dimensions.
        recurrent: Where the rows stand among the observations, for a policy that remembers; else None.
    """

    obs: TensorTree
    q: Tensor
    alpha: Tensor
    recurrent: RecurrentInput | None = field(default_factory=lambda: None)

    def __len__(self) -> int:
        return len(self.q)


@dataclass(frozen=True)
class EntropyBatch:
    """What the temperature learns from.

    Attributes:
        entropy: ``[N]`` of the policy now, or ``[N, P]`` of P parts of it.
        target: What it should be: one number, ``[N]``, ``[P]`` or ``[N, P]``.
    """

    entropy: Tensor
    target: Tensor | float

    def __len__(self) -> int:
        return len(self.entropy)


@dataclass(frozen=True)
class ActorOutputs:
    """What the actor's loss takes: fresh actions by their log-probabilities and values.

    Attributes:
        logp: ``[N]`` their log-probabilities.
        q: What critics say of them, ``[K, N]`` or ``[K, N, M]``.
        back: On kernels: from gradients with respect to `logp`, one number for all, and `q` to that of what the last
            layer of the policy put out.
    """

    logp: Tensor
    q: Tensor
    back: Callable[[Tensor, Tensor], Tensor] | None = None


# --- losses -----------------------------------------------------------------------------------------------------------


def actor_loss(outputs: ActorOutputs, batch: ActorBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Eq. 7: the temperature times the log-probability of fresh actions, minus the lowest value of them; of quantiles
    the mean of all (TQC, eq. 13).
    """
    value = outputs.q.amin(0) if outputs.q.dim() == 2 else outputs.q.mean((0, 2))
    each = batch.alpha * outputs.logp - value
    return each.mean(), {"actor_loss": each.detach(), "entropy": -outputs.logp.detach()}


def actor_gradient(outputs: ActorOutputs, batch: ActorBatch, cfg: SACConfig) -> OutputGradients | None:
    """The gradient of `actor_loss` with respect to what the policy's last layer puts out, and its metrics; None of
    quantiles.
    """
    if outputs.back is None or outputs.q.dim() != 2:
        return None
    logp, q = outputs.logp, outputs.q
    share = 1.0 / logp.shape[0]
    value, lowest = q.min(0, keepdim=True)
    by_q = torch.zeros_like(q).scatter_(0, lowest, -share)
    gradient = outputs.back(batch.alpha * share, by_q)
    return [gradient], {"actor_loss": batch.alpha * logp - value, "entropy": -logp}


ACTOR_GRADIENT = ClosedForm(actor_loss, actor_gradient)


def discrete_actor_loss(policy: Categorical, batch: DiscreteBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Christodoulou, eq. 12: the same, expected over all actions instead of drawn."""
    probs = policy.log_probs.exp()
    loss = (probs * (batch.alpha * policy.log_probs - batch.q)).sum(1).mean()
    return loss, {"actor_loss": loss.detach(), "entropy": policy.entropy().detach()}


def discrete_critic_loss(q: Tensor, batch: CriticBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """`critic_loss` of the actions that were played, given the values ``[K, N, A]`` of all."""
    played = batch.action.expand(len(q), -1).unsqueeze(2)
    return critic_loss(q.gather(2, played).squeeze(2), batch, cfg)


def temperature_loss(log_alpha: Tensor, batch: EntropyBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Eq. 18, of the logarithm: entropy below its target raises the temperature; of several ``[P]``, the sum."""
    below = batch.entropy - batch.target
    loss = log_alpha * below.mean() if log_alpha.dim() == 0 else log_alpha @ below.mean(0)
    return loss, {"temperature_loss": loss.detach()}


def temperature_gradient(log_alpha: Tensor, batch: EntropyBatch, cfg: SACConfig) -> OutputGradients:
    """The gradient of `temperature_loss` with respect to the logarithms, and its metrics."""
    below = batch.entropy - batch.target
    gradient = below.mean() if log_alpha.dim() == 0 else below.mean(0)
    return [gradient], {"temperature_loss": log_alpha * gradient if log_alpha.dim() == 0 else log_alpha @ gradient}


TEMPERATURE_GRADIENT = ClosedForm(temperature_loss, temperature_gradient)


# --- networks ---------------------------------------------------------------------------------------------------------


class SACActor:
    """Puts out fresh actions of a policy with what critics say of them.

    Args:
        policy: The policy that acts.
        critics: The critics, whose weights take no gradients here.
    """

    def __init__(self, policy: Policy, critics: Forward[Critics]) -> None:
        self.policy = policy
        self.critics = critics
        self.drawing = squashed_drawing(policy.head)

    def __call__(self, batch: ActorBatch) -> ActorOutputs:
        """Draws fresh actions and values them; gradients flow through both into the policy."""
        return self.outputs(behavior_of(self.policy, batch.obs, recurrent=batch.recurrent), batch)

    def structure(self) -> Structure:
        """Declares what a call computes: the policy, and from what it puts out, `outputs`."""
        declared = actor_structure(self.policy, self.outputs)
        return replace(
            declared,
            inputs=lambda batch: Inputs(batch.obs, known=batch.known),
            outputs=lambda parts, batch: self.outputs_of(parts, batch, declared),
        )

    def outputs(self, behavior: Behavior, batch: ActorBatch) -> ActorOutputs:
        """Does the same, given what actions are drawn from."""
        action, logp = behavior.sample_logp(batch.noise)
        pair = StateAction(batch.obs, action, recurrent=batch.recurrent)
        return ActorOutputs(logp, action_values(self.critics, pair))

    def outputs_of(self, parts: list[Tensor], batch: ActorBatch, declared: Structure) -> ActorOutputs:
        """Does the same, given what the policy's last layer puts out; without a graph, kernels draw and go back."""
        drawing = self.drawing
        if drawing is None or torch.is_grad_enabled() or not self.critics.on_kernels:
            outputs: ActorOutputs = declared.outputs(parts, batch)
            return outputs
        action, logp = drawing.sample_logp(parts[0], batch.noise)
        q, input_gradient = values_to_go_back_from(self.critics, StateAction(batch.obs, action))

        def back(by_logp: Tensor, by_q: Tensor) -> Tensor:
            return drawing.gradient(parts[0], batch.noise, action, by_logp, input_gradient(by_q))

        return ActorOutputs(logp, q, back)

    @torch.no_grad()
    def ahead(
        self, forward: Forward[SACActor], rows: Experience, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Draws actions in what came next, ``[N, k]``, with their log-probabilities ``[N]``; without a graph.

        Args:
            forward: The way through this actor.
            rows: Decisions.
            noise: ``[N, k]`` standard normal numbers.

        Returns:
            Actions, log-probabilities, and what the policy puts out for the decisions themselves, which on kernels is
            the same pass (`ActorBatch.known`); else None.
        """
        drawing = self.drawing
        drawn = None if drawing is None else drawing.draw_ahead(forward, rows.obs, rows.next_obs, noise)
        if drawn is not None:
            return drawn
        return *behavior_of(self.policy, rows.next_obs, rows.next_recurrent).sample_logp(noise), None


class Temperature(nn.Module):
    """One number, or several, learned as their logarithms.

    Args:
        alpha: Where they start.
        number: How many, ``[number]``; None = one, without dimensions.
    """

    def __init__(self, alpha: float, number: int | None = None) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(
            torch.full(() if number is None else (number,), math.log(alpha), dtype=torch.float32, device="cpu")
        )

    def forward(self, batch: EntropyBatch) -> Tensor:
        """Their logarithms."""
        return self.log_alpha


# --- the algorithm ----------------------------------------------------------------------------------------------------


class SAC(Algorithm[SACConfig]):
    """Learns critics, an actor and a temperature from replay: `learn` is the inner loop of Algorithm 1."""

    saved: ClassVar[tuple[str, ...]] = (
        "critics",
        "actor_optimizer",
        "temperature",
        "temperature_optimizer",
        "rng",
        "replay",
        "signals",
        "imitation",
    )
    fixed: ClassVar[tuple[str, ...]] = ("actor", "has_branches")
    replay: Replay

    def __init__(self, policy: Policy, cfg: SACConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.has_branches = has_branches(policy.action_spec)
        """Whether an action has more than one choice, or choices and numbers."""
        self._check_actions()
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.critics = CriticLearner(policy, cfg.critic, cfg.model, adam_eps=cfg.adam_eps, generator=generator)
        self.actor_optimizer = self._adam(policy)
        self.imitation = add_imitation(self, cfg.imitation, self.actor_optimizer.flat)
        self.actor = attach(SACActor(policy, self.critics.detached_forward))
        parts = num_temperatures(policy.action_spec) if self.has_branches else None
        self.temperature = Temperature(cfg.alpha_init, parts).to(self.replay.device) if cfg.alpha is None else None
        self.temperature_optimizer = None if self.temperature is None else self._adam(self.temperature)
        self.rng = streams.generator(Role.LEARNER, name)
        self.explore()

    def _adam(self, module: nn.Module) -> Adam:
        return Adam(flatten([module]), betas=(0.9, 0.999), eps=self.cfg.adam_eps)

    def _check_actions(self) -> None:
        cfg, action = self.cfg, self.policy.action_spec
        if not cfg.discrete and not self.has_branches:  # the head has seen to it
            return
        if cfg.discrete and (not action.sizes or action.num_numbers or action.num_flags):
            raise ConfigError(
                f"policies.{self.name}.discrete = True: actions of {action.space} are not one of several; set "
                "discrete = false for numbers (a Box) or numbers beside choices, or use PPO, which takes any space"
            )
        if self.has_branches and cfg.target_entropy is not None:
            raise ConfigError(
                f"policies.{self.name}.target_entropy = {cfg.target_entropy} is one number, and each part of an action "
                f"of {action.space} has a target of its own: leave it out, or set entropy_share for the choices"
            )
        if set(action.sizes) == {1} and not action.num_numbers:
            raise ConfigError(
                f"policies.{self.name}: actions of {action.space} are always the same, so there is no entropy to hold "
                "and nothing to learn: give the environment two choices at least, or use PPO, which takes any space"
            )
        if cfg.critic.norm == "batch" or cfg.critic.quantiles is not None:
            raise ConfigError(
                f"policies.{self.name}.critic: quantiles and norm = batch are for numbers, not for actions of "
                f"{action.space}; leave them out, or use DQN with values.kind = quantile"
            )

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: of critics, actor and temperature one each; target critics follow."""
        cfg, temperature = self.now(), self.temperature
        forward: Any = temperature
        if temperature is not None and self.actor.on_kernels:
            forward = WithoutGraph(temperature.log_alpha)
        for _ in range(gradient_steps):
            rows, alpha = self.experience(cfg), self.alpha(cfg)
            learn = self.learn_discrete if cfg.discrete else self.learn_continuous
            metrics = (self.learn_branches if self.has_branches else learn)(rows, alpha, cfg)
            self.replay.update_priorities(rows.row, metrics.pop("priority"), rows.fragment)
            entropy = metrics["entropy"]
            assert isinstance(entropy, Tensor)
            if forward is not None and self.temperature_optimizer is not None:
                batch = EntropyBatch(entropy, self.target_entropy(rows))
                learned = gradient_step(
                    forward, temperature_loss, batch, self.temperature_optimizer, cfg, TEMPERATURE_GRADIENT
                )
                metrics |= named("temperature", learned)
            self.critics.track(cfg.tau)
            metrics["entropy"] = entropy if entropy.dim() == 1 else entropy.sum(1)
            self.replay.record({**metrics, "alpha": alpha})

    def explore(self) -> None:
        """Lets actions be random while replay fills. A categorical starts out nearly even by itself."""
        if not self.cfg.discrete:
            self.policy.head.random.fill_(float(self.replay.is_warming_up))

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        several = (self.actor_optimizer, self.critics.optimizer, self.temperature_optimizer)
        skipped = sum(self.check_finite(optimizer) for optimizer in several if optimizer is not None)
        beside = {} if self.imitation is None else self.imitation.summary()
        signals = self.signals.summary()
        return {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates, **signals, **beside}

    def alpha(self, cfg: SACConfig) -> Tensor:
        """Returns the temperature now; of an action with several parts those of all, ``[P]``."""
        if self.temperature is None:
            alpha = torch.tensor(cfg.alpha, device=self.replay.device, dtype=torch.float32)
            return alpha.expand(num_temperatures(self.policy.action_spec)) if self.has_branches else alpha
        return self.temperature.log_alpha.detach().exp()

    def experience(self, cfg: SACConfig) -> Experience:
        """Draws what a gradient step learns from: decisions, or sequences of them for a policy that remembers."""
        window: dict[str, Any] = {"n_step": cfg.n_step, "gamma": cfg.gamma}
        if not self.policy.memory_size:
            drawn = self.before_update(self.replay.sample(cfg.batch_size, **window, beta=cfg.replay.beta))
            return Experience.of(drawn)
        burn_in = cfg.replay.burn_in
        length = burn_in + cfg.model.memory.sequence_length
        found = self.replay.sample_sequences(cfg.batch_size, length=length, beta=cfg.replay.beta)
        found = self.before_update(found)
        return sequence_experience(self.policy, found.rollout, found.row, found.weight, burn_in=burn_in, **window)

    def learn_continuous(self, rows: Experience, alpha: Tensor, cfg: SACConfig) -> Metrics:
        """Critics learn the soft value of one fresh action each (eq. 5), and the actor from critics."""
        shape = (2, len(rows), self.policy.action_spec.num_numbers)
        noise = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32)).to(self.replay.device)
        ahead, now = noise.unbind()
        next_action, next_logp, known = self.actor.net.ahead(self.actor, rows, ahead)
        metrics = self.critics.learn(rows, next_action, alpha * next_logp, cfg)
        batch = ActorBatch(rows.obs, now, alpha, rows.recurrent, known)
        return metrics | named(
            "actor", gradient_step(self.actor, actor_loss, batch, self.actor_optimizer, cfg, ACTOR_GRADIENT)
        )

    def learn_discrete(self, rows: Experience, alpha: Tensor, cfg: SACConfig) -> Metrics:
        """The same, in expectation over all actions (Christodoulou, eq. 10)."""
        with torch.no_grad():
            assert self.critics.target_forward is not None
            pair = StateAction(rows.next_obs, rows.action, recurrent=rows.next_recurrent)
            policy = self.distribution(pair)
            q = action_values(self.critics.target_forward, pair).amin(0)
            value = (policy.log_probs.exp() * (q - alpha * policy.log_probs)).sum(1)
            target = torch.addcmul(rows.reward, rows.discount, value)
        batch = CriticBatch(rows.obs, rows.action, target, rows.weight, recurrent=rows.recurrent)
        metrics = self.critics.improve(discrete_critic_loss, batch, cfg)
        with torch.no_grad():
            q = action_values(self.critics.forward, batch).amin(0)
        actor_batch = DiscreteBatch(rows.obs, q, alpha, rows.recurrent)
        learned = gradient_step(self.distribution, discrete_actor_loss, actor_batch, self.actor_optimizer, cfg)
        return metrics | named("actor", learned)

    def learn_branches(self, rows: Experience, alpha: Tensor, cfg: SACConfig) -> Metrics:
        """The same where an action has several parts: in expectation over all choices, and of fresh numbers."""
        action = self.policy.action_spec
        shape = (2, len(rows), action.num_numbers)
        ahead, now = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32)).to(self.replay.device)
        with torch.no_grad():
            assert self.critics.target_forward is not None
            behavior = behavior_of(self.policy, rows.next_obs, recurrent=rows.next_recurrent)
            after = branches_of(behavior, self.critics.target_forward, rows.next_obs, ahead, rows.next_recurrent)
            target = torch.addcmul(rows.reward, rows.discount, after.soft_value(alpha))
        numbers, chosen = numbers_of(rows.action, action), chosen_of(rows.action, action)
        batch = BranchCriticBatch(rows.obs, numbers, target, rows.weight, chosen, recurrent=rows.recurrent)
        metrics = self.critics.improve(branch_critic_loss, batch, cfg)
        actor_batch = ActorBatch(rows.obs, now, alpha, rows.recurrent)
        learned = gradient_step(self.branches, branch_actor_loss, actor_batch, self.actor_optimizer, cfg)
        return metrics | named("actor", learned)

    def branches(self, batch: ActorBatch) -> Branches:
        """What the policy would do in the rows of a batch, and what critics say of it."""
        behavior = behavior_of(self.policy, batch.obs, recurrent=batch.recurrent)
        return branches_of(behavior, self.critics.detached_forward, batch.obs, batch.noise, batch.recurrent)

    def distribution(self, batch: DiscreteBatch | StateAction) -> Categorical:
        """The policy's probabilities of all actions in the rows of a batch."""
        distribution = behavior_of(self.policy, batch.obs, recurrent=batch.recurrent)
        assert isinstance(distribution, Categorical)
        return distribution

    def target_entropy(self, rows: Experience) -> Tensor | float:
        """The entropy that the temperature aims at; where masks forbid some choices, ``[N]``. Of an action with several
        parts that of each, ``[P]`` or ``[N, P]``.
        """
        cfg, action = self.cfg, self.policy.action_spec
        if self.has_branches:
            mask = mask_at(rows.obs, rows.recurrent)
            return target_entropies(action, cfg.entropy_share, mask).to(self.replay.device)
        if cfg.target_entropy is not None:
            return cfg.target_entropy
        if not cfg.discrete:
            return -float(action.num_numbers)
        mask = mask_at(rows.obs, rows.recurrent)
        if mask is None:
            return cfg.entropy_share * math.log(action.sizes[0])
        return cfg.entropy_share * mask.sum(1).float().log()
