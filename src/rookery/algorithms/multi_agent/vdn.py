"""Value decomposition networks (Sunehag et al. 2018, arXiv:1706.05296): the value of a team is the sum of the values of
its members' actions, each on that member's observations.

All else is DQN (`dqn.py`): replay, target network, double Q-learning, sequences for members with a memory. The details
that decide are in docs/algorithms/vdn.md. QMIX (`qmix.py`) uses another mixer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.dqn import DQN, DQNConfig, TargetConfig
from rookery.algorithms.off_policy.q_values import DELTA, Estimate, QBatch, QNetwork
from rookery.core.batch import TensorTree, rows_of
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled, Structural
from rookery.core.settings.reach import Count, Few, Rows
from rookery.core.spaces.arrays import MASK
from rookery.core.spaces.team_spaces import ALIVE
from rookery.models.build import ModelConfig
from rookery.models.cells.base import Memory
from rookery.models.mixers import SumMixer
from rookery.models.q_head import QHead
from rookery.models.team_heads import TeamQHead, TeamQValues
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class VDNConfig(DQNConfig):
    """Settings of VDN."""

    algorithm: ClassVar[str] = "rookery.algorithms.multi_agent.vdn:VDN"
    capabilities = Capabilities(
        supports_staleness=True, supports_memory=True, uses_replay=True, needs_team=True, uses_central_obs=False
    )

    lr: Scheduled[PositiveFloat] = 5e-4
    n_step: Few = 1
    batch_size: Rows = 64
    train_every: Structural[Count] = 4
    updates_per_step: NonNegative = 0.25
    target: TargetConfig = field(default_factory=lambda: TargetConfig(every=250))
    model: ModelConfig = field(default_factory=ModelConfig)
    share: Structural[bool] = True
    """Whether members with the same observations and actions share one network, which receives the member's number."""

    @property
    def head(self) -> TeamQValues:
        """Head with values of each member's actions."""
        return TeamQValues(share=self.share, per_env_epsilon=self.exploration.per_env_epsilon)


class MixedNetwork(QNetwork):
    """Computes the value of a team's actions.

    Args:
        head: Values of the members' actions.
        trunk: Module from observations to features.
        memory: Memory on the trunk's features; None if there is none.
        model: Settings of the network.
        mixer: From the members' values ``[N, M]`` and observations to that of the team, ``[N]``.
    """

    head: TeamQHead

    def __init__(
        self, head: TeamQHead, trunk: nn.Module, memory: Memory | None, model: ModelConfig, mixer: nn.Module
    ) -> None:
        super().__init__(head, trunk, memory, model)
        self.mixer = mixer

    def forward(self, batch: QBatch) -> Tensor:
        """Computes values ``[N]`` of the stored actions."""
        values = self.value(batch.obs, batch.memory, batch.sequences, batch.noise)
        if batch.learned is None:
            return self.mixed(values, batch.action.long(), batch.obs)
        obs = rows_of(batch.obs, batch.learned)
        return self.mixed(values.index_select(0, batch.learned), batch.action.long(), obs)

    def mixed(self, values: Tensor, action: Tensor, obs: TensorTree) -> Tensor:
        """Mixes the values of some actions into the value of the team, ``[N]``.

        Args:
            values: ``[N, M, A]`` of all actions of M members.
            action: ``[N, M]`` their actions; those of absent members are ignored.
            obs: Observations, ``[N, ...]`` by leaf path.
        """
        played = values.gather(2, action.unsqueeze(2)).squeeze(2)
        mixed: Tensor = self.mixer(played * obs[ALIVE], obs)
        return mixed


def team_loss(value: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Huber loss of the team's value ``[N]`` (eq. 6 of QMIX's paper, with the error clipped in its gradient)."""
    rows = functional.huber_loss(value, batch.target, reduction="none", delta=DELTA)
    loss = (rows if batch.weight is None else batch.weight * rows).mean()
    error = (value.detach() - batch.target).abs_()
    metrics: Metrics = {"loss": loss.detach(), "q_mean": value.detach().mean(), "td_error": error.mean()}
    return loss, {**metrics, "priority": error}


class TeamValue(Estimate):
    """The expected return of a team."""

    loss = staticmethod(team_loss)
    closed_form = None

    def target(self, reward: Tensor, discount: Tensor, after: Tensor) -> Tensor:
        """``reward + discount * after``, ``[N]``."""
        return torch.addcmul(reward, discount, after)


class VDN(DQN):
    """Learns the values of the members' actions from the team's reward; see `DQN`.

    Attributes:
        mixer: Mixes the members' values; the rest of the network is the policy's own.
    """

    saved = ("mixer",)
    cfg: VDNConfig
    net: MixedNetwork
    target_net: MixedNetwork

    def __init__(self, policy: Policy, cfg: VDNConfig, streams: Streams, name: str) -> None:
        _check(cfg, name)
        super().__init__(policy, cfg, streams, name)
        self.estimate = TeamValue()

    def make_net(self, head: QHead) -> MixedNetwork:
        """Creates the network that learns: the policy's own, and a mixer."""
        assert isinstance(head, TeamQHead)
        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, self.name, 1))
        self.mixer = self.make_mixer(head, generator).to(head.epsilon.device)
        return MixedNetwork(head, self.policy.trunk, self.policy.memory, self.cfg.model, self.mixer)

    def make_mixer(self, head: TeamQHead, generator: torch.Generator) -> nn.Module:
        """Creates the mixer of the members' values, with first weights from `generator`."""
        return SumMixer()

    def value_weights(self) -> list[Tensor]:
        """Returns nothing: mixed values are not proportional to the members' last layers."""
        return []

    @torch.no_grad()
    def target(
        self,
        reward: Tensor,
        discount: Tensor,
        after: Tensor,
        judge: Tensor,
        obs: TensorTree,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Computes targets of the team's value: each member takes its best action; see `DQN.target`."""
        seen = obs if rows is None else rows_of(obs, rows)
        best = self.best(judge, seen.get(MASK))
        return self.estimate.target(reward, discount, self.target_net.mixed(after, best, seen))

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Returns each member's allowed action of the highest value, ``[N, M]``."""
        return self.net.head.best(values, mask)


def _check(cfg: VDNConfig, name: str) -> None:
    """Raises ConfigError for settings that a team's values do not support."""
    where = f"policies.{name}"
    if cfg.values.kind != "mean" or cfg.values.rescale:
        raise ConfigError(
            f"{where}.values: kind = {cfg.values.kind}, rescale = {cfg.values.rescale}: only expected returns can be "
            "mixed: leave them out"
        )
    if cfg.munchausen.weight:
        raise ConfigError(
            f"{where}.munchausen.weight = {cfg.munchausen.weight:g} is for values without a mixer; leave it out"
        )
    if cfg.dueling:
        raise ConfigError(f"{where}.dueling = True: members' values have one stream; leave it out")
    if cfg.exploration.kind != "epsilon":
        raise ConfigError(
            f"{where}.exploration.kind = {cfg.exploration.kind}: members of a team explore by exploration.epsilon; "
            "leave it out"
        )
