"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), and its form for discrete actions (Christodoulou 2019,
arXiv:1910.07207), several discrete actions, and discrete with continuous ones (`hybrid_actions.py`).

The details that decide are in docs/algorithms/sac.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

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
    at_rate,
    behavior_of,
    critic_loss,
    mask_at,
    rename_grad_norm,
)
from rookery.algorithms.off_policy.hybrid_actions import (
    ActorBatch,
    BranchCriticBatch,
    Branches,
    branch_actor_loss,
    branch_critic_loss,
    branch_values,
    chosen_indices,
    continuous_part,
    has_branches,
    num_temperatures,
    target_entropies,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree, Transitions
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, Optimizer, OutputGradients, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Few
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.models.distributions import Behavior, Categorical
from rookery.models.heads import DistributionHead, HeadSpec
from rookery.models.squashed import Squashed
from rookery.models.structure import Inputs, Structure
from rookery.native.critics import ManualTemperatureStep, action_values, squashed_drawing, values_and_input_gradient
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
    """Decisions whose rewards a target sums before it bootstraps; they come from the policy that played, and entropy
    counts only after them.
    """
    actor_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the actor; none = `lr`."""
    alpha_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the temperature; none = `lr`."""
    target_every: Count = 1
    """Gradient steps between updates of target networks."""
    target_critics: Few | None = None
    """Critics, drawn anew for each gradient step, whose lowest value is the target; the actor then follows the mean of
    all critics (REDQ: 2 of ``critic.number=10``; DroQ: 2 of 2). none = all, and the actor follows the lowest value.
    """
    policy_delay: Count = 1
    """Gradient steps of the critics per step of actor and temperature (REDQ, DroQ: 20, as `updates_per_step`)."""
    alpha: Scheduled[NonNegative] | None = None
    """Temperature: the value of a nat of entropy in rewards; none = it adapts, so that the policy keeps
    `target_entropy`.
    """
    alpha_init: PositiveFloat = 1.0
    """Initial temperature, if it adapts."""
    target_entropy: float | None = None
    """Target entropy in nats of the adaptive temperature; none = minus one per continuous action, on [-1, 1]; of
    discrete actions, `entropy_share` of the largest possible entropy. The largest possible one is n ln 2 of n
    continuous actions, 0.69 each, and ln A of A discrete ones, and there is no smallest of continuous ones. If an
    action has several parts, each has its own temperature and target, and this is none.
    """
    entropy_share: Fraction = 0.5
    """Of discrete actions: target entropy as a share of that of a uniform distribution over the allowed actions."""
    discrete: Structural[bool | None] = None
    """Whether actions are discrete (one or several); critics then output the values of all of them. none = by the
    policy's actions.
    """
    log_std: Literal["clamp", "tanh"] = "clamp"
    """How the log standard deviation is bounded: clamped to [-20, 2], or scaled to [-5, 2] by tanh."""
    exploration: NoiseConfig = field(default_factory=NoiseConfig)
    """Correlation of the exploration noise over time; its size is the policy's standard deviation."""
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    """Imitation of demonstrations in addition to the RL loss."""

    @property
    def head(self) -> HeadSpec:
        """Squashed Gaussian head, or a categorical one."""
        if self.discrete:
            return DistributionHead()
        noise = self.exploration
        return Squashed(noise.kind, noise.theta, noise.every, self.log_std)

    def for_actions(self, action: ActionSpec) -> Self:
        """Returns the settings for actions of a layout: with `discrete` as they are, unless it is set."""
        return self if self.discrete is not None else self.replace(discrete=not action.num_numbers)

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for the actions; see `AlgorithmConfig.build_policy`."""
        return super(SACConfig, self.for_actions(action)).build_policy(obs, action, name, generator)


@dataclass(frozen=True)
class DiscreteBatch:
    """Rows of the actor's loss with discrete actions, ``[N, ...]``.

    Attributes:
        obs: Observations as networks take them.
        q: ``[N, A]`` values of all actions.
        alpha: Temperature, a scalar.
        recurrent: Positions of the rows among the observations, for a policy with a memory; else None.
    """

    obs: TensorTree
    q: Tensor
    alpha: Tensor
    recurrent: RecurrentInput | None = field(default_factory=lambda: None)

    def __len__(self) -> int:
        return len(self.q)


@dataclass(frozen=True)
class EntropyBatch:
    """Rows of the temperature's loss.

    Attributes:
        entropy: ``[N]`` the policy's entropy, or ``[N, P]`` of its P parts.
        target: Target entropy: one number, ``[N]``, ``[P]`` or ``[N, P]``.
    """

    entropy: Tensor
    target: Tensor | float

    def __len__(self) -> int:
        return len(self.entropy)


@dataclass(frozen=True)
class ActorOutputs:
    """Inputs of the actor's loss: newly drawn actions with their log-probabilities and values.

    Attributes:
        logp: ``[N]`` their log-probabilities.
        q: Critics' values, ``[K, N]`` or ``[K, N, M]``.
        back: On kernels: maps the gradients with respect to `logp`, one number for all, and `q` to that of the output
            of the policy's last layer.
    """

    logp: Tensor
    q: Tensor
    back: Callable[[Tensor, Tensor], Tensor] | None = None


# --- losses -----------------------------------------------------------------------------------------------------------


def actor_loss(outputs: ActorOutputs, batch: ActorBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Eq. 7: the temperature times the log-probability of new actions, minus their lowest value; with `target_critics`
    the mean of all critics (REDQ, algorithm 1), with quantiles the mean of all (TQC, eq. 13).
    """
    if outputs.q.dim() == 2:
        value = outputs.q.amin(0) if cfg.target_critics is None else outputs.q.mean(0)
    else:
        value = outputs.q.mean((0, 2))
    each = batch.alpha * outputs.logp - value
    return each.mean(), {"actor_loss": each.detach(), "entropy": -outputs.logp.detach()}


def actor_gradient(outputs: ActorOutputs, batch: ActorBatch, cfg: SACConfig) -> OutputGradients | None:
    """Computes the gradient of `actor_loss` with respect to the output of the policy's last layer, and its metrics;
    None for actions with a graph.
    """
    if outputs.back is None:
        return None
    logp, q = outputs.logp, outputs.q
    share = 1.0 / logp.shape[0]
    if q.dim() != 2:
        value, by_q = q.mean((0, 2)), torch.full_like(q, -share / (len(q) * q.shape[2]))
    elif cfg.target_critics is None:
        value, lowest = q.min(0, keepdim=True)
        by_q = torch.zeros_like(q).scatter_(0, lowest, -share)
    else:
        value, by_q = q.mean(0, keepdim=True), torch.full_like(q, -share / len(q))
    gradient = outputs.back(batch.alpha * share, by_q)
    return [gradient], {"actor_loss": batch.alpha * logp - value, "entropy": -logp}


ACTOR_GRADIENT = ClosedForm(actor_loss, actor_gradient)


def discrete_actor_loss(policy: Categorical, batch: DiscreteBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Christodoulou, eq. 12: the same loss, in expectation over all actions."""
    probs = policy.log_probs.exp()
    loss = (probs * (batch.alpha * policy.log_probs - batch.q)).sum(1).mean()
    return loss, {"actor_loss": loss.detach(), "entropy": policy.entropy().detach()}


def discrete_critic_loss(q: Tensor, batch: CriticBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Computes `critic_loss` of the stored actions, given values ``[K, N, A]`` of all."""
    played = batch.action.expand(len(q), -1).unsqueeze(2)
    return critic_loss(q.gather(2, played).squeeze(2), batch, cfg)


def temperature_loss(log_alpha: Tensor, batch: EntropyBatch, cfg: SACConfig) -> tuple[Tensor, Metrics]:
    """Eq. 18, on the logarithm: entropy below its target raises the temperature; of several ``[P]``, the sum."""
    below = batch.entropy - batch.target
    loss = log_alpha * below.mean() if log_alpha.dim() == 0 else log_alpha @ below.mean(0)
    return loss, {"temperature_loss": loss.detach()}


def temperature_gradient(log_alpha: Tensor, batch: EntropyBatch, cfg: SACConfig) -> OutputGradients:
    """Computes the gradient of `temperature_loss` with respect to the logarithms, and its metrics."""
    below = batch.entropy - batch.target
    gradient = below.mean() if log_alpha.dim() == 0 else below.mean(0)
    return [gradient], {"temperature_loss": log_alpha * gradient if log_alpha.dim() == 0 else log_alpha @ gradient}


TEMPERATURE_GRADIENT = ClosedForm(temperature_loss, temperature_gradient)


# --- networks ---------------------------------------------------------------------------------------------------------


class SACActor:
    """Draws new actions of a policy, with the critics' values.

    Args:
        policy: The policy that acts.
        critics: The critics, whose weights take no gradients here.
    """

    def __init__(self, policy: Policy, critics: Forward[Critics]) -> None:
        self.policy = policy
        self.critics = critics
        self.drawing = squashed_drawing(policy.head)

    def __call__(self, batch: ActorBatch) -> ActorOutputs:
        """Draws new actions and computes their values; gradients flow through both into the policy."""
        return self.outputs(behavior_of(self.policy, batch.obs, recurrent=batch.recurrent), batch)

    def structure(self) -> Structure:
        """Declares what a call computes: the policy, and `outputs` of its distribution."""
        declared = actor_structure(self.policy, self.outputs)
        return replace(
            declared,
            inputs=lambda batch: Inputs(batch.obs, known=batch.known),
            outputs=lambda parts, batch: self.outputs_of(parts, batch, declared),
        )

    def outputs(self, behavior: Behavior, batch: ActorBatch) -> ActorOutputs:
        """Computes the outputs, given the action distribution."""
        action, logp = behavior.sample_logp(batch.noise)
        pair = StateAction(batch.obs, action, recurrent=batch.recurrent)
        return ActorOutputs(logp, action_values(self.critics, pair))

    def outputs_of(self, parts: list[Tensor], batch: ActorBatch, declared: Structure) -> ActorOutputs:
        """Computes the outputs from those of the policy's last layer; without a graph, kernels draw the actions and
        compute the gradients.
        """
        drawing = self.drawing
        if drawing is None or torch.is_grad_enabled() or not self.critics.on_kernels:
            outputs: ActorOutputs = declared.outputs(parts, batch)
            return outputs
        action, logp = drawing.sample_logp(parts[0], batch.noise)
        q, input_gradient = values_and_input_gradient(self.critics, StateAction(batch.obs, action))

        def back(by_logp: Tensor, by_q: Tensor) -> Tensor:
            return drawing.gradient(parts[0], batch.noise, action, by_logp, input_gradient(by_q))

        return ActorOutputs(logp, q, back)

    @torch.no_grad()
    def draw_next_actions(
        self, forward: Forward[SACActor], rows: Experience, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Draws actions for the next states, ``[N, k]``, with their log-probabilities ``[N]``; without a graph.

        Args:
            forward: Forward pass of this actor.
            rows: Decisions.
            noise: ``[N, k]`` standard normal numbers.

        Returns:
            Actions, log-probabilities, and the policy's outputs for the decisions themselves, which kernels compute in
            the same pass (`ActorBatch.known`); else None.
        """
        drawing = self.drawing
        drawn = None if drawing is None else drawing.draw_ahead(forward, rows.obs, rows.next_obs, noise)
        if drawn is not None:
            return drawn
        return *behavior_of(self.policy, rows.next_obs, rows.next_recurrent).sample_logp(noise), None


class Temperature(nn.Module):
    """One temperature, or several, learned as logarithms.

    Args:
        alpha: Initial value.
        number: Number of temperatures, ``[number]``; None = one, a scalar.
    """

    def __init__(self, alpha: float, number: int | None = None) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(
            torch.full(() if number is None else (number,), math.log(alpha), dtype=torch.float32, device="cpu")
        )

    def forward(self, batch: EntropyBatch) -> Tensor:
        """Returns the logarithms."""
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
        cfg = cfg.for_actions(policy.action_spec)
        super().__init__(policy, cfg, streams, name)
        self.has_branches = has_branches(policy.action_spec)
        """Whether an action has several discrete parts, or discrete and continuous ones."""
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
        if cfg.target_critics is not None and (cfg.critic.quantiles is not None or cfg.critic.norm == "batch"):
            raise ConfigError(
                f"policies.{self.name}.target_critics = {cfg.target_critics} is not for critics with quantiles or "
                "norm = batch, whose targets are those of all critics: leave one of them out"
            )
        if cfg.target_critics is not None and cfg.target_critics > cfg.critic.number:
            raise ConfigError(
                f"policies.{self.name}.target_critics = {cfg.target_critics} is more than critic.number = "
                f"{cfg.critic.number}; REDQ takes 2 of 10"
            )
        if not cfg.discrete and not self.has_branches:  # checked by the head
            return
        if cfg.target_critics is not None or cfg.policy_delay > 1:
            raise ConfigError(
                f"policies.{self.name}: target_critics and policy_delay are for continuous actions, not for those of "
                f"{action.space}; leave them out"
            )
        if cfg.discrete and (not action.sizes or action.num_numbers or action.num_flags):
            raise ConfigError(
                f"policies.{self.name}.discrete = True: actions of {action.space} are not one of several; set "
                "discrete = false for continuous actions (a Box) or mixed ones, or use PPO, which takes any space"
            )
        if self.has_branches and cfg.target_entropy is not None:
            raise ConfigError(
                f"policies.{self.name}.target_entropy = {cfg.target_entropy} is one number, and each part of an action "
                f"of {action.space} has its own target: leave it out, or set entropy_share for the discrete ones"
            )
        if set(action.sizes) == {1} and not action.num_numbers:
            raise ConfigError(
                f"policies.{self.name}: actions of {action.space} are always the same, so there is no entropy to keep "
                "and nothing to learn: give the environment at least two actions, or use PPO, which takes any space"
            )
        if cfg.critic.norm == "batch" or cfg.critic.quantiles is not None:
            raise ConfigError(
                f"policies.{self.name}.critic: quantiles and norm = batch are for continuous actions, not for those of "
                f"{action.space}; leave them out, or use DQN with values.kind = quantile"
            )

    def value_weights(self) -> list[Tensor]:
        """Returns the weights of the critics' last layers."""
        return self.critics.value_weights()

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of critics, actor and temperature; target critics follow."""
        cfg = self.now()
        for _ in range(gradient_steps):
            rows = self.experience(cfg)
            metrics = self.learn_experience(rows, cfg)
            self.replay.update_priorities(rows.row, metrics.pop("priority"), rows.fragment)
            self.replay.record(metrics)
            if self.replay.gradient_steps % cfg.target_every == 0:
                self.critics.track(cfg.tau)

    def learn_rows(self, rows: Transitions, cfg: SACConfig) -> Metrics:
        """Makes one gradient step each of critics, actor and temperature."""
        return self.learn_experience(Experience.of(rows), cfg)

    def learn_experience(self, rows: Experience, cfg: SACConfig) -> Metrics:
        """Makes the same steps on decisions, or on sequences of them."""
        alpha = self.alpha(cfg)
        learn = self.learn_discrete if cfg.discrete else self.learn_continuous
        metrics = (self.learn_branches if self.has_branches else learn)(rows, alpha, cfg)
        if "entropy" not in metrics:  # a step of the critics alone, by `policy_delay`
            return {**metrics, "alpha": alpha}
        entropy = metrics["entropy"]
        assert isinstance(entropy, Tensor)
        if self.temperature is not None and self.temperature_optimizer is not None:
            forward: Any = self.temperature
            if self.actor.on_kernels:
                forward = ManualTemperatureStep(self.temperature.log_alpha)
            batch = EntropyBatch(entropy, self.target_entropy(rows))
            step = cfg if cfg.alpha_lr is None else at_rate(cfg, cfg.alpha_lr)
            learned = gradient_step(
                forward, temperature_loss, batch, self.temperature_optimizer, step, TEMPERATURE_GRADIENT
            )
            metrics |= rename_grad_norm("temperature", learned)
        metrics["entropy"] = entropy if entropy.dim() == 1 else entropy.sum(1)
        return {**metrics, "alpha": alpha}

    def track_targets(self, cfg: SACConfig) -> None:
        """Moves the target critics by the Polyak factor."""
        self.critics.track(cfg.tau)

    def step_optimizers(self, cfg: SACConfig) -> list[tuple[Optimizer, float]]:
        """Returns the optimizers of critics, actor and temperature."""
        actor_lr, alpha_lr = (cfg.lr if lr is None else lr for lr in (cfg.actor_lr, cfg.alpha_lr))
        found: list[tuple[Optimizer, float]] = [(self.critics.optimizer, cfg.lr), (self.actor_optimizer, actor_lr)]
        return found if self.temperature_optimizer is None else [*found, (self.temperature_optimizer, alpha_lr)]

    def explore(self) -> None:
        """Makes actions random while replay fills. A categorical policy starts nearly uniform."""
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
        """Returns the present temperature; of an action with several parts those of all, ``[P]``."""
        if self.temperature is None:
            assert cfg.alpha is not None
            in_unit = cfg.alpha / self.signals.reward_unit.unit
            alpha = torch.tensor(in_unit, device=self.replay.device, dtype=torch.float32)
            return alpha.expand(num_temperatures(self.policy.action_spec)) if self.has_branches else alpha
        return self.temperature.log_alpha.detach().exp()

    def experience(self, cfg: SACConfig) -> Experience:
        """Draws rows of a gradient step: decisions, or sequences of them for a policy with a memory."""
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
        """Makes a step of the critics towards the soft value of one new action each (eq. 5); and one of the actor in
        every `policy_delay`-th step.
        """
        shape = (2, len(rows), self.policy.action_spec.num_numbers)
        noise = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32)).to(self.replay.device)
        ahead, now = noise.unbind()
        next_action, next_logp, known = self.actor.net.draw_next_actions(self.actor, rows, ahead)
        chosen = None
        if cfg.target_critics is not None:
            chosen = self.rng.choice(cfg.critic.number, cfg.target_critics, replace=False).tolist()
        metrics = self.critics.learn(rows, next_action, alpha * next_logp, cfg, chosen)
        if (self.replay.gradient_steps + 1) % cfg.policy_delay:
            return metrics
        batch = ActorBatch(rows.obs, now, alpha, rows.recurrent, known)
        return metrics | rename_grad_norm(
            "actor",
            gradient_step(
                self.actor, actor_loss, batch, self.actor_optimizer, at_rate(cfg, cfg.actor_lr), ACTOR_GRADIENT
            ),
        )

    def learn_discrete(self, rows: Experience, alpha: Tensor, cfg: SACConfig) -> Metrics:
        """Makes the same steps, in expectation over all actions (Christodoulou, eq. 10)."""
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
        step = at_rate(cfg, cfg.actor_lr)
        learned = gradient_step(self.distribution, discrete_actor_loss, actor_batch, self.actor_optimizer, step)
        return metrics | rename_grad_norm("actor", learned)

    def learn_branches(self, rows: Experience, alpha: Tensor, cfg: SACConfig) -> Metrics:
        """Makes the same steps for actions with several parts: in expectation over discrete ones, sampled otherwise."""
        action = self.policy.action_spec
        shape = (2, len(rows), action.num_numbers)
        ahead, now = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32)).to(self.replay.device)
        with torch.no_grad():
            assert self.critics.target_forward is not None
            behavior = behavior_of(self.policy, rows.next_obs, recurrent=rows.next_recurrent)
            after = branch_values(behavior, self.critics.target_forward, rows.next_obs, ahead, rows.next_recurrent)
            target = torch.addcmul(rows.reward, rows.discount, after.soft_value(alpha))
        numbers, chosen = continuous_part(rows.action, action), chosen_indices(rows.action, action)
        batch = BranchCriticBatch(rows.obs, numbers, target, rows.weight, chosen, recurrent=rows.recurrent)
        metrics = self.critics.improve(branch_critic_loss, batch, cfg)
        actor_batch = ActorBatch(rows.obs, now, alpha, rows.recurrent)
        step = at_rate(cfg, cfg.actor_lr)
        learned = gradient_step(self.branches, branch_actor_loss, actor_batch, self.actor_optimizer, step)
        return metrics | rename_grad_norm("actor", learned)

    def branches(self, batch: ActorBatch) -> Branches:
        """Computes the critics' values of the policy's actions in the rows of a batch."""
        behavior = behavior_of(self.policy, batch.obs, recurrent=batch.recurrent)
        return branch_values(behavior, self.critics.detached_forward, batch.obs, batch.noise, batch.recurrent)

    def distribution(self, batch: DiscreteBatch | StateAction) -> Categorical:
        """Computes the policy's probabilities of all actions in the rows of a batch."""
        distribution = behavior_of(self.policy, batch.obs, recurrent=batch.recurrent)
        assert isinstance(distribution, Categorical)
        return distribution

    def target_entropy(self, rows: Experience) -> Tensor | float:
        """Returns the target entropy; with masks, ``[N]``. For an action with several parts that of each, ``[P]`` or
        ``[N, P]``.
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
