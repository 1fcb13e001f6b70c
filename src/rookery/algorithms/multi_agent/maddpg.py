"""MADDPG (Lowe et al. 2017, arXiv:1706.02275): an actor for each member of a team, on that member's observations, and a
critic on the observations and actions of all of them.

The details that decide are in docs/algorithms/maddpg.md. The file reads from the settings down to the update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import (
    CriticBatch,
    CriticConfig,
    CriticSettings,
    StateAction,
    at_rate,
    backup,
    behavior_of,
    critic_loss,
    detached_view,
    rename_grad_norm,
    target_copy,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core.batch import TensorTree, Transitions
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, gradient_step, track
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count
from rookery.core.spaces.arrays import ActionSpec, action_spec
from rookery.core.spaces.team_spaces import ALIVE
from rookery.models.build import ModelConfig, build_critic_trunk
from rookery.models.distributions import MASKED_LOGIT
from rookery.models.heads import VALUE_GAIN
from rookery.models.layers import linear
from rookery.models.team_heads import TeamActions, TeamActors, member_columns, relaxed_action
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay


@dataclass(frozen=True)
class MADDPGConfig(AlgorithmConfig, CriticSettings):
    """Settings of MADDPG."""

    algorithm: ClassVar[str] = "rookery.algorithms.multi_agent.maddpg:MADDPG"
    capabilities = Capabilities(supports_staleness=True, uses_replay=True, needs_team=True)

    lr: Scheduled[PositiveFloat] = 1e-3
    actor_lr: Scheduled[PositiveFloat] | None = None
    """Learning rate of the actors; none = `lr`."""
    gamma: Fraction = 0.95
    train_every: Structural[Count] = 4
    updates_per_step: NonNegative = 0.25
    max_grad_norm: PositiveFloat | None = 0.5
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(64, 64), activation="relu"))
    share: Structural[bool] = False
    """Whether members with the same observations and actions share one actor, which receives the member's number."""
    tau: Fraction = 0.01
    """Polyak factor of target networks per gradient step."""
    noise_std: Scheduled[NonNegative] = 0.1
    """Standard deviation of the exploration noise on continuous actions, for actions in [-1, 1]. Discrete actions are
    drawn by their probabilities.
    """
    logit_coef: NonNegative = 1e-3
    """Weight of the mean square of the logits of discrete actions, which keeps them from becoming certain too early."""
    critic: Structural[CriticConfig] = field(default_factory=lambda: CriticConfig(number=1))

    @property
    def head(self) -> TeamActors:
        """Head with an actor for each member."""
        return TeamActors(share=self.share)


@dataclass(frozen=True)
class ActorRows:
    """Rows of the actors' loss.

    Attributes:
        obs: Observations as networks take them, ``[N, ...]``.
        action: Stored actions as critics take them, ``[N, W]``.
        even: ``[N, sum(sizes)]`` uniform numbers to draw new discrete actions with.
    """

    obs: TensorTree
    action: Tensor
    even: Tensor


@dataclass(frozen=True)
class MemberOutputs:
    """Inputs of the actors' loss.

    Attributes:
        q: ``[M, N]`` value of the stored actions with one member's action replaced by a new one.
        alive: ``[M, N]`` 1 where that member acts.
        logits: ``[N, sum(sizes)]`` logits of all discrete actions.
    """

    q: Tensor
    alive: Tensor
    logits: Tensor


class TeamCritics(nn.Module):
    """Critics of a team: value the observations and actions of all members, with independent networks.

    Args:
        policy: The policy whose actions are valued.
        cfg: Settings of critics.
        model: Settings of networks.
        generator: Draws the weights.
    """

    def __init__(self, policy: Policy, cfg: CriticConfig, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        action = policy.action_spec
        width = sum(action.sizes) + action.num_numbers
        relaxed, inside = (
            action_spec(spaces.Box(-1.0, 1.0, (width,))),
            cfg.network(model).replace(layer_norm=cfg.norm == "layer"),
        )
        self.outputs = cfg.quantiles or 1
        trunks = [
            build_critic_trunk(policy.critic_spec, relaxed, inside, generator=generator) for _ in range(cfg.number)
        ]
        self.trunks = nn.ModuleList(trunks)
        widths = [int(trunk.num_features) for trunk in trunks]  # type: ignore[arg-type]
        self.linear = nn.ModuleList(linear(w, self.outputs, gain=VALUE_GAIN, generator=generator) for w in widths)
        self.to(device_of(policy))

    def forward(self, batch: StateAction) -> Tensor:
        """Computes values ``[K, N]`` of K networks, or their quantiles ``[K, N, M]``."""
        seen = batch.seen(True)
        found = [last(trunk(seen)) for trunk, last in zip(self.trunks, self.linear, strict=True)]
        values = torch.stack(found)
        return values.squeeze(2) if self.outputs == 1 else values


class TeamActor:
    """Computes the critic's values for a new action of one member and the stored actions of the others.

    Args:
        policy: The policy that acts.
        critics: The critics, whose weights take no gradients here.
    """

    def __init__(self, policy: Policy, critics: TeamCritics) -> None:
        self.policy = policy
        self.critics = critics
        self._own = member_columns(policy.action_spec)

    def __call__(self, rows: ActorRows) -> MemberOutputs:
        """Replaces the action of each member in turn; gradients flow through it into that member's actor (eq. 6)."""
        acts = behavior_of(self.policy, rows.obs)
        assert isinstance(acts, TeamActions)
        fresh = acts.relaxed(rows.even)
        alive = rows.obs[ALIVE].T.to(fresh.dtype)
        replaced = []
        for number, columns in enumerate(self._own):
            mine = rows.action.clone()
            mine[:, columns] = fresh[:, columns] * alive[number].unsqueeze(1)
            replaced.append(mine)
        members = len(replaced)
        obs = {path: leaf.repeat(members, *[1] * (leaf.dim() - 1)) for path, leaf in rows.obs.items()}
        values = self.critics(StateAction(obs, torch.cat(replaced)))
        q = values[0] if values.dim() == 2 else values.mean((0, 2))
        return MemberOutputs(q.view(members, -1), alive, acts.logits)


def actor_loss(outputs: MemberOutputs, rows: ActorRows, cfg: MADDPGConfig) -> tuple[Tensor, Metrics]:
    """Computes the negated value of each member's own action, averaged over acting members, and the logits' size."""
    loss = -(outputs.q * outputs.alive).sum() / outputs.alive.sum().clamp(min=1.0)
    metrics: Metrics = {"actor_loss": loss.detach()}
    if outputs.logits.shape[1]:
        allowed = outputs.logits > MASKED_LOGIT
        size = torch.where(allowed, outputs.logits, 0.0).square().sum() / allowed.sum().clamp(min=1)
        loss = loss + cfg.logit_coef * size
        metrics["logit_size"] = size.detach()
    return loss, metrics


class MADDPG(Algorithm[MADDPGConfig]):
    """Learns a critic of a team and the actors of its members from replay: `learn` is the inner loop of Algorithm 1."""

    saved = (
        "critics",
        "critic_target",
        "critic_optimizer",
        "actor_target",
        "actor_optimizer",
        "rng",
        "replay",
        "signals",
    )
    fixed = ("actor", "_actor_target_data", "_critic_target_data")
    replay: Replay

    def __init__(self, policy: Policy, cfg: MADDPGConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 1))
        if cfg.critic.norm == "batch" or (cfg.critic.quantiles is not None and cfg.critic.drop >= cfg.critic.quantiles):
            raise ConfigError(
                f"policies.{name}.critic: norm = {cfg.critic.norm}, quantiles = {cfg.critic.quantiles}, drop = "
                f"{cfg.critic.drop}: MADDPG has target critics, so norm is none or layer, and drops fewer quantiles "
                "than there are"
            )
        self.critics = TeamCritics(policy, cfg.critic, cfg.model, generator)
        self.critic_target, self._critic_target_data = target_copy(self.critics)
        self.critic_optimizer = Adam(flatten([self.critics]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.actor_target, self._actor_target_data = target_copy(policy)
        self.actor_optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.actor = TeamActor(policy, detached_view(self.critics))
        self.rng = streams.generator(Role.LEARNER, name)
        self.explore()

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps: one each of the critic and the actors; target networks follow."""
        cfg = self.now()
        for _ in range(gradient_steps):
            rows = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
            rows = self.before_update(rows)
            self.replay.record(self.learn_critic(rows, cfg) | self.learn_actors(rows, cfg))
            track(self._critic_target_data, self.critic_optimizer.flat.data, cfg.tau)
            track(self._actor_target_data, self.actor_optimizer.flat.data, cfg.tau)

    def explore(self) -> None:
        """Makes actions random while replay fills, then draws discrete actions and adds noise to continuous ones."""
        self.policy.head.random.fill_(float(self.replay.is_warming_up))
        self.policy.head.std.fill_(self.now().noise_std)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call."""
        skipped = self.check_finite(self.actor_optimizer) + self.check_finite(self.critic_optimizer)
        return {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates, **self.signals.summary()}

    def learn_critic(self, rows: Transitions, cfg: MADDPGConfig) -> Metrics:
        """Makes a gradient step towards the value of the target actors' next actions."""
        batch = CriticBatch(rows.obs, self.critic_actions(rows.action, rows.obs), self.target(rows), rows.weight)
        metrics = gradient_step(self.critics, critic_loss, batch, self.critic_optimizer, cfg)
        self.replay.update_priorities(rows.row, metrics.pop("priority"))
        return rename_grad_norm("critic", metrics)

    @torch.no_grad()
    def target(self, rows: Transitions) -> Tensor:
        """Computes value targets ``[N]``: reward, and the target critic's value of the target actors' actions."""
        acts = behavior_of(self.actor_target, rows.next_obs)
        assert isinstance(acts, TeamActions)
        following = acts.relaxed(None) * acting_mask(self.policy.action_spec, rows.next_obs)
        q = self.critic_target(StateAction(rows.next_obs, following))
        return backup(q, rows.reward, rows.discount, None, self.cfg.critic)

    def critic_actions(self, action: Tensor, obs: TensorTree) -> Tensor:
        """Returns stored actions as the critic takes them: discrete ones as one-hots, zeros for absent members."""
        return relaxed_action(self.policy.action_spec, action) * acting_mask(self.policy.action_spec, obs)

    def learn_actors(self, rows: Transitions, cfg: MADDPGConfig) -> Metrics:
        """Makes a gradient step of each actor towards higher values of its own actions."""
        choices = sum(self.policy.action_spec.sizes)
        even = torch.from_numpy(self.rng.random((len(rows), choices), dtype=np.float32)).to(self.replay.device)
        batch = ActorRows(rows.obs, self.critic_actions(rows.action, rows.obs), even)
        step = at_rate(cfg, cfg.actor_lr)
        return rename_grad_norm("actor", gradient_step(self.actor, actor_loss, batch, self.actor_optimizer, step))


def acting_mask(action: ActionSpec, obs: TensorTree) -> Tensor:
    """Returns a mask of the action columns of members that act: 1 or 0, ``[N, W]``."""
    own = member_columns(action)
    alive = obs[ALIVE].float()
    columns = alive.new_zeros(len(alive), max(part.stop for part in own))
    for number, part in enumerate(own):
        columns[:, part] = alive[:, number : number + 1]
    return columns
