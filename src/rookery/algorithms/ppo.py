"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347), the clipped version.

The details that decide are in docs/algorithms/ppo.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.core.batch import Demand, Minibatch, Rollout, TensorTree, flat
from rookery.core.metrics import Means, Metrics, explained_variance
from rookery.core.ops import following, gae
from rookery.core.optim import Adam, flatten, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings import Fraction, NonNegative, PositiveFloat, PositiveInt, Scheduled
from rookery.core.spaces import MASK
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.distributions import Distribution
from rookery.models.heads import ValueHead
from rookery.policies.policy import Policy
from rookery.signals.return_scale import ReturnScale


@dataclass(frozen=True)
class PPOConfig(AlgorithmConfig):
    """Settings of PPO. Space and environment presets change some of them: see docs/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.ppo:PPO"

    lr: Scheduled[PositiveFloat] = 3e-4
    """Learning rate of Adam."""
    gamma: Fraction = 0.99
    """Discount of the environment's reward."""
    gae_lambda: Fraction = 0.95
    """Decay of later errors in the advantage: 0 = one step, 1 = Monte Carlo."""
    clip: Scheduled[PositiveFloat] = 0.2
    """How far the probability ratio may leave 1 before its gradient stops (epsilon of eq. 7)."""
    epochs: PositiveInt = 10
    """Passes over the batch in an update (K)."""
    minibatch_size: PositiveInt = 128
    """Decisions in a gradient step, at most: the batch is cut into near-equal parts."""
    fragment_length: PositiveInt = 128
    """Decisions in a row of one slot (T) before its advantage is cut off with a value."""
    batch_size: PositiveInt | None = None
    """Decisions an update; none = fragment_length x the slots that the policy plays."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss (c1 of eq. 9)."""
    entropy_coef: Scheduled[NonNegative] = 0.01
    """Weight of the entropy bonus (c2 of eq. 9)."""
    max_grad_norm: PositiveFloat | None = 0.5
    """Longest gradient; longer ones are scaled down. None = any."""
    normalize_advantage: bool = True
    """Advantages of each minibatch get mean 0 and standard deviation 1."""
    scale_rewards: bool = False
    """Rewards are divided by the running standard deviation of their discounted return."""
    value_clip: PositiveFloat | None = None
    """How far the value may move in an update before its gradient stops; none = freely (it does not help: Engstrom
    2020).
    """
    target_kl: PositiveFloat | None = None
    """Ends the update after the epoch whose mean KL divergence passes 1.5 times this; none = never."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The networks."""


@dataclass(frozen=True)
class Outputs:
    """What the networks say about N observations: a distribution over actions, and values ``[N]``."""

    distribution: Distribution
    value: Tensor


class ActorCritic(nn.Module):
    """The policy and a value function, on one trunk or on two.

    Takes observations that are normalized already (once an update, instead of once a gradient step).
    """

    def __init__(self, policy: Policy, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.policy = policy
        self.critic_trunk = None if model.shared_trunk else build_trunk(policy.obs_spec, model, generator=generator)
        self.value_head = ValueHead(policy.num_features, generator=generator)

    def forward(self, batch: Minibatch) -> Outputs:
        """Distribution and value for each row."""
        features = self.policy.trunk(batch.obs)
        distribution = self.policy.head(features, batch.obs.get(MASK))
        seen = features if self.critic_trunk is None else self.critic_trunk(batch.obs)
        return Outputs(distribution, self.value_head(seen))

    def value(self, obs: TensorTree) -> Tensor:
        """Values ``[N]`` alone."""
        trunk = self.policy.trunk if self.critic_trunk is None else self.critic_trunk
        value: Tensor = self.value_head(trunk(obs))
        return value


def ppo_loss(outputs: Outputs, batch: Minibatch, cfg: PPOConfig) -> tuple[Tensor, Metrics]:
    """Negated eq. 9: clipped surrogate, value error, entropy bonus."""
    advantage = batch.advantage
    if cfg.normalize_advantage and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()

    value = outputs.value
    if cfg.value_clip is not None:
        value = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
    value_loss = (value - batch.value_target).square().mean()

    entropy = outputs.distribution.entropy().mean()
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
    with torch.no_grad():
        metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "kl": (ratio - 1 - log_ratio).mean(),  # Schulman's low-variance estimate of KL(old || new)
            "clip_fraction": (ratio != clipped).float().mean(),
        }
    return loss, metrics


class PPO(Algorithm[PPOConfig]):
    """The algorithm: `training_step` is Algorithm 1 of the paper from the learner's side."""

    saved = ("net", "optimizer", "return_scale", "rng")
    loss = staticmethod(ppo_loss)

    def __init__(self, policy: Policy, cfg: PPOConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        self.net = ActorCritic(policy, cfg.model, generator)
        critic = [part for part in (self.net.critic_trunk, self.net.value_head) if part is not None]
        self.optimizer = Adam(flatten([policy.head, policy.trunk, *critic]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.return_scale = ReturnScale(cfg.gamma) if cfg.scale_rewards else None
        self.rng = streams.generator(Role.LEARNER, name)

    @property
    def demand(self) -> Demand:
        """Fragments of `fragment_length`, `batch_size` decisions an update."""
        return Demand(self.cfg.fragment_length, self.cfg.batch_size)

    def training_step(self, rollout: Rollout) -> Row:
        """One update: targets, then epochs of minibatches."""
        cfg, data = self.now(), self.targets(rollout)
        means, epochs = Means(), 0
        while epochs < cfg.epochs:
            epochs += 1
            kl = []
            for batch in data.shuffled(cfg.minibatch_size, self.rng):
                metrics = gradient_step(self.net, self.loss, batch, self.optimizer, cfg)
                means.add(metrics)
                kl.append(metrics["kl"])
            if cfg.target_kl is not None and float(torch.stack(kl).mean()) > 1.5 * cfg.target_kl:
                break
        self.updates += 1
        return {
            **means.result(),
            "explained_variance": explained_variance(data.value, data.value_target),
            "lr": cfg.lr,
            "clip": cfg.clip,
            "epochs": epochs,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> Minibatch:
        """Advantages (eq. 11) and value targets of every valid decision, ``[N]``."""
        reward = rollout.reward if self.return_scale is None else self.return_scale(rollout)
        obs = self.policy.normalize({path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()})
        value = self.net.value(obs).view_as(reward)
        next_value = self.next_value(rollout, value)
        ended = rollout.terminated | rollout.truncated | rollout.last
        advantage = gae(reward, value, next_value, ended, gamma=self.cfg.gamma, gae_lambda=self.cfg.gae_lambda)
        rows = rollout.valid_rows()
        return Minibatch(
            obs=obs if rows is None else {path: leaf.index_select(0, rows) for path, leaf in obs.items()},
            action=flat(rollout.action, rows),
            logp=flat(rollout.logp, rows),
            advantage=flat(advantage, rows),
            value_target=flat(advantage + value, rows),
            value=flat(value, rows),
        )

    def next_value(self, rollout: Rollout, value: Tensor) -> Tensor:
        """The value of what came after each decision, ``[T, F]``.

        That is nothing after a terminal one, the value of the final observation after a truncated one, that of the last
        observation at the end of a fragment, and else that of the next row.
        """
        last_value = self.net.value(self.policy.normalize(rollout.last_obs))
        next_value = following(value, last_value)
        next_value[rollout.length - 1, torch.arange(len(last_value))] = last_value
        if len(rollout.boot_index):
            final_value = self.net.value(self.policy.normalize(rollout.final_obs))
            next_value[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = final_value
        return next_value.masked_fill_(rollout.terminated, 0.0)
