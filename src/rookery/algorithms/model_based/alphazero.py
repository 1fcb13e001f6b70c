"""AlphaZero (Silver et al. 2018, "A general reinforcement learning algorithm that masters chess, shogi and Go through
self-play") with the search of Gumbel AlphaZero (Danihelka et al. 2022).

Search runs while acting (`rollout/searching.py`). An update sees data only: observations, the improved policies that
searches found, and rewards. The details that decide are in docs/algorithms/alphazero.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.on_policy.actor_critic import next_values
from rookery.core.batch import Rollout, TensorTree, flat, rows_of
from rookery.core.flat import flatten
from rookery.core.metrics import Means, Metrics
from rookery.core.ops import lambda_returns
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Fraction, NonNegative, PositiveFloat, Scheduled, Settings, Structural
from rookery.core.settings.reach import Count, Few, Length, Rows
from rookery.core.state import Stateful
from rookery.envs.game_rules import Symmetry
from rookery.models.build import ModelConfig
from rookery.models.search_head import POLICY, VALUE, ObservationRows, Prior, PriorHead, PriorNetwork, SearchHead
from rookery.native.forward import attach
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class TreeSearchConfig(Settings):
    """Settings of the search; its numbers have the names of the paper (Danihelka et al. 2022)."""

    simulations: Few = 32
    """Simulations of each search (n)."""
    considered_actions: Few = 16
    """Largest number of actions that are considered at the root (m)."""
    c_visit: NonNegative = 50.0
    """Visits added to the largest number of visits in the scale of values."""
    c_scale: PositiveFloat = 1.0
    """Scale of values, as fractions of the range of returns, for each visit."""
    low: float = -1.0
    """Smallest return of an episode."""
    high: float = 1.0
    """Largest return of an episode."""


@dataclass(frozen=True)
class AlphaZeroConfig(AlgorithmConfig):
    """Settings of AlphaZero. Environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.model_based.alphazero:AlphaZero"
    capabilities = Capabilities(supports_staleness=True, uses_central_obs=False)

    lr: Scheduled[PositiveFloat] = 1e-3
    """Learning rate of Adam."""
    gamma: Fraction = 1.0
    """Discount from a player's decision to its next one."""
    trace_lambda: Fraction = 1.0
    """Weight of later rewards in the targets of values: 1 = the outcome of the game, 0 = the next value of a search."""
    rollout_size: Rows | None = None
    """Decisions per update; none = fragment_length x the slots of the policy."""
    fragment_length: Structural[Length] = 32
    """Consecutive decisions of one slot before its target is bootstrapped from a value."""
    window: Rows = 100_000
    """Newest decisions from which minibatches are drawn."""
    passes: PositiveFloat = 4.0
    """Average number of times that a decision is learned from."""
    minibatch_size: Count = 256
    """Decisions of a gradient step."""
    symmetries: bool = True
    """Whether each decision of a minibatch is shown under a random symmetry of its game, where it has some."""
    value_coef: NonNegative = 1.0
    """Weight of the value loss."""
    max_grad_norm: PositiveFloat | None = 10.0
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""
    search: TreeSearchConfig = field(default_factory=TreeSearchConfig)
    """The search before each action."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    """The network; policy and value share its trunk."""

    @property
    def head(self) -> SearchHead:
        """Head with a value, and the settings of the search."""
        search = self.search
        return SearchHead(
            search.simulations,
            search.considered_actions,
            search.c_visit,
            search.c_scale,
            search.low,
            search.high,
            self.gamma,
        )


@dataclass(frozen=True)
class Targets:
    """Decisions to learn from; all fields ``[N, ...]``.

    Attributes:
        obs: Observations, as the trunk takes them.
        policy: ``[N, A]`` improved policies of the searches.
        value: ``[N]`` returns of the player that observes.
    """

    obs: TensorTree
    policy: Tensor
    value: Tensor

    def __len__(self) -> int:
        return len(self.value)

    def at(self, rows: Tensor) -> Self:
        """Returns the decisions with these indices, int64 ``[n]``."""
        return type(self)(rows_of(self.obs, rows), self.policy[rows], self.value[rows])

    def under(self, symmetries: Sequence[Symmetry], drawn: np.ndarray) -> Self:
        """Returns the decisions as seen under symmetries, of which each row has a number, ``[N]``."""
        device = self.value.device

        def permuted(leaf: Tensor, indices: list[np.ndarray]) -> Tensor:
            index = torch.from_numpy(np.stack(indices)[drawn]).to(device)
            return leaf.flatten(1).gather(1, index).view_as(leaf)

        paths = [path for path in self.obs if path in symmetries[0].obs]
        obs = {path: permuted(self.obs[path], [one.obs[path] for one in symmetries]) for path in paths}
        return type(self)({**self.obs, **obs}, permuted(self.policy, [one.action for one in symmetries]), self.value)


class NewestDecisions(Stateful):
    """The newest decisions, in the order of their arrival.

    Args:
        capacity: Number of decisions.

    Attributes:
        held: Observations by leaf path, followed by the other fields of `Targets`; empty before the first decision.
    """

    saved = ("held",)
    fixed = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held: dict[str, Any] = {}

    def add(self, new: Targets) -> Targets:
        """Adds decisions; returns all that are kept."""
        held = [Targets(**self.held), new] if self.held else [new]

        def newest(parts: list[Tensor]) -> Tensor:
            return torch.cat(parts)[-self.capacity :]

        obs = {path: newest([part.obs[path] for part in held]) for path in new.obs}
        kept = Targets(obs, newest([part.policy for part in held]), newest([part.value for part in held]))
        self.held = dict(vars(kept))
        return kept


def alphazero_loss(outputs: Prior, batch: Targets, cfg: AlphaZeroConfig) -> tuple[Tensor, Metrics]:
    """Cross-entropy of the improved policy plus the squared error of the value (Silver et al. 2018, eq. 1)."""
    logp = torch.log_softmax(outputs.logits, 1)
    policy_loss = -(batch.policy * logp).sum(1).mean()
    value_loss = (outputs.value - batch.value).square().mean()
    loss = policy_loss + cfg.value_coef * value_loss
    own = -(batch.policy * batch.policy.clamp(min=1e-30).log()).sum(1).mean()
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "policy_kl": policy_loss - own}
    return loss, {name: metric.detach() for name, metric in metrics.items()}


def alphazero_gradient(outputs: Prior, batch: Targets, cfg: AlphaZeroConfig) -> OutputGradients:
    """Computes the gradient of `alphazero_loss` with respect to logits ``[N, A]`` and values ``[N, 1]``; and its
    metrics.
    """
    logits = (torch.softmax(outputs.logits, 1) - batch.policy) / len(batch)
    value = (outputs.value - batch.value) * (2.0 * cfg.value_coef / len(batch))
    return [logits, value.unsqueeze(1)], alphazero_loss(outputs, batch, cfg)[1]


class AlphaZero(Algorithm[AlphaZeroConfig]):
    """The algorithm, from the learner's side.

    Attributes:
        symmetry: Symmetries of the game; the run sets them.
        window: The newest decisions.
    """

    saved = ("optimizer", "rng", "window")
    fixed = ("net", "forward", "symmetry")
    loss = staticmethod(alphazero_loss)
    closed_form = ClosedForm(alphazero_loss, alphazero_gradient)

    def __init__(self, policy: Policy, cfg: AlphaZeroConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        assert isinstance(policy.head, PriorHead)
        self.net = PriorNetwork(policy.trunk, policy.head, cfg.model)
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.forward = attach(self.net)
        self.rng = streams.generator(Role.LEARNER, name)
        self.window = NewestDecisions(cfg.window)
        self.symmetry: tuple[Symmetry, ...] = ()

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update: targets of the new decisions, then gradient steps on minibatches of the newest ones."""
        cfg, means = self.now(), Means()
        new = self.targets(rollout)
        kept = self.window.add(new)
        size = min(cfg.minibatch_size, len(kept))
        for _ in range(max(1, round(cfg.passes * len(new) / size))):
            batch = self.before_update(self.draw(kept, size, cfg))
            means.add(gradient_step(self.forward, self.loss, batch, self.optimizer, cfg, self.closed_form))
        self.updates += 1
        entropy = -(new.policy * new.policy.clamp(min=1e-30).log()).sum(1).mean()
        return {
            **means.result(),
            "improved_entropy": float(entropy),
            "window": len(kept),
            "lr": cfg.lr,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    def draw(self, kept: Targets, size: int, cfg: AlphaZeroConfig) -> Targets:
        """Draws a minibatch of `size` decisions, each under a random symmetry."""
        rows = torch.from_numpy(self.rng.integers(len(kept), size=size)).to(kept.value.device)
        batch = kept.at(rows)
        if not (cfg.symmetries and self.symmetry):
            return batch
        return batch.under(self.symmetry, self.rng.integers(len(self.symmetry), size=size))

    @torch.no_grad()
    def targets(self, rollout: Rollout) -> Targets:
        """Computes targets of every valid decision: returns, bootstrapped where a fragment ends before its game."""
        cfg, rows, (obs, last, final) = self.cfg, rollout.valid_rows(), self.policy.sights(rollout)
        final_value = self.value(final).unsqueeze(1) if len(rollout.boot_index) else None
        after = next_values(rollout, rollout.extras[VALUE], self.value(last).unsqueeze(1), final_value)[..., 0]
        ended = rollout.terminated | rollout.truncated | rollout.last
        target = lambda_returns(rollout.reward, after, ended, gamma=cfg.gamma, trace_lambda=cfg.trace_lambda)
        # the memory of a rollout will be overwritten, and `rows` None would keep views of it
        every = torch.arange(rollout.reward.numel(), device=target.device, dtype=torch.int64) if rows is None else rows
        return Targets(rows_of(obs, every), flat(rollout.extras[POLICY], every), flat(target, every))

    def value(self, obs: TensorTree) -> Tensor:
        """Returns the network's values of observations, within the range of returns, ``[N]``."""
        value: Tensor = self.forward.outputs(ObservationRows(obs)).value
        return value.clamp(self.cfg.search.low, self.cfg.search.high)
