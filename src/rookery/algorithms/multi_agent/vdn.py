"""Value decomposition networks (Sunehag et al. 2018, arXiv:1706.05296): the value of what a team does is a sum of what
its members' actions are worth, each by what that member sees.

All else is DQN (`dqn.py`): replay, target network, double Q-learning, sequences for members that remember. The details
that decide are in docs/algorithms/vdn.md. QMIX (`qmix.py`) is this with another mixer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.dqn import DQN, DQNConfig
from rookery.algorithms.off_policy.q_values import DELTA, Estimate, QBatch, QNetwork
from rookery.core.batch import TensorTree, rows_of
from rookery.core.errors import ConfigError
from rookery.core.metrics import Metrics
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Structural
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

    share: Structural[bool] = True
    """Whether members that see and act alike have one network, which is told which of them it stands for."""

    @property
    def head(self) -> TeamQValues:
        """Values of the actions of each member."""
        return TeamQValues(share=self.share, ladder=self.exploration.per_env_epsilon)


class MixedNetwork(QNetwork):
    """Computes the value of what a team did.

    Args:
        head: Values of the members' actions.
        trunk: Module from observations to features.
        memory: Makes these depend on what came before; None if they do not.
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
        """Values ``[N]`` of the actions that were played."""
        values = self.value(batch.obs, batch.memory, batch.sequences, batch.noise)
        if batch.learned is None:
            return self.mixed(values, batch.action.long(), batch.obs)
        obs = rows_of(batch.obs, batch.learned)
        return self.mixed(values.index_select(0, batch.learned), batch.action.long(), obs)

    def mixed(self, values: Tensor, action: Tensor, obs: TensorTree) -> Tensor:
        """Mixes the values of some actions to that of the team, ``[N]``.

        Args:
            values: ``[N, M, A]`` of all actions of M members.
            action: ``[N, M]`` which of them; what a member that does not act is said to do counts for nothing.
            obs: What was observed, ``[N, ...]`` by leaf path.
        """
        played = values.gather(2, action.unsqueeze(2)).squeeze(2)
        mixed: Tensor = self.mixer(played * obs[ALIVE], obs)
        return mixed


def team_loss(value: Tensor, batch: QBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """The Huber loss of the team's value ``[N]`` (eq. 6 of QMIX's paper, with the error clipped in its gradient)."""
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
    """Learns the values of what the members of a team do from what the team earns; see `DQN`.

    Attributes:
        mixer: What makes the team's value of the members' values; the rest of the network is the policy's own.
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
        """Makes the network that learns: the policy's own, and a mixer."""
        assert isinstance(head, TeamQHead)
        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, self.name, 1))
        self.mixer = self.make_mixer(head, generator).to(head.epsilon.device)
        return MixedNetwork(head, self.policy.trunk, self.policy.memory, self.cfg.model, self.mixer)

    def make_mixer(self, head: TeamQHead, generator: torch.Generator) -> nn.Module:
        """Makes what mixes the members' values, with first weights from `generator`."""
        return SumMixer()

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
        """What the team's value learns towards: each member does what is best for it; see `DQN.target`."""
        seen = obs if rows is None else rows_of(obs, rows)
        best = self.best(judge, seen.get(MASK))
        return self.estimate.target(reward, discount, self.target_net.mixed(after, best, seen))

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The action of the highest value of each member among those that are allowed, ``[N, M]``."""
        return self.net.head.best(values, mask)


def _check(cfg: VDNConfig, name: str) -> None:
    """Refuses what there is for values of one choice, and not for those of a team."""
    where = f"policies.{name}"
    if cfg.values.kind != "mean" or cfg.values.rescale:
        raise ConfigError(
            f"{where}.values: kind = {cfg.values.kind}, rescale = {cfg.values.rescale}: what is mixed are expected "
            "returns: leave them out"
        )
    if cfg.dueling:
        raise ConfigError(f"{where}.dueling = True: members' values have one stream; leave it out")
    if cfg.exploration.kind != "epsilon":
        raise ConfigError(
            f"{where}.exploration.kind = {cfg.exploration.kind}: members of a team explore by exploration.epsilon; "
            "leave it out"
        )
