"""REINFORCE (Williams 1992, Machine Learning 8): the score of each decision times all rewards after it.

No value function and no bootstrapping, so only whole episodes count. A rollout is cut wherever its batch is full; the
decisions of running episodes are kept, slot by slot, until the update in which their episode has ended. So each
decision of a finished episode is used exactly once, and long episodes are not skipped in favour of short ones, as they
would be if the rest were thrown away.

The price: an episode that ran through an update was begun by older weights. Its decisions enter with their score
under the present weights, so for this share of the batch (metric `stale_fraction`) the gradient is an approximation.
The share shrinks with a larger `rollout_size` or fewer environments. Importance weights for these decisions were tried:
CartPole was learned less steadily.

A truncated episode counts as ended: its return is that until the cut. The details that decide are in
docs/algorithms/reinforce.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.rewarding import add_signals
from rookery.algorithms.settings import OnPolicySettings
from rookery.core.batch import Demand, Rollout, TensorTree, flat
from rookery.core.errors import TrainingError
from rookery.core.flat import flatten
from rookery.core.metrics import Means, Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step
from rookery.core.seeding import Streams
from rookery.core.settings.fields import NonNegative, PositiveFloat, Scheduled
from rookery.core.settings.reach import Rows
from rookery.core.spaces.arrays import MASK
from rookery.models.build import ModelConfig
from rookery.models.distributions import Distribution
from rookery.models.structure import Structure
from rookery.native.forward import attach
from rookery.policies.policy import Policy

FRAGMENT = 128
"""Decisions of a fragment in the rollout. It only affects memory: episodes are joined again."""

LONGEST = 100_000
"""Decisions after which an episode counts as endless."""


@dataclass(frozen=True)
class ReinforceConfig(AlgorithmConfig, OnPolicySettings):
    """Settings of REINFORCE. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.on_policy.reinforce:Reinforce"
    capabilities = Capabilities(uses_central_obs=False)
    field_order = "lr gamma rollout_size normalize_returns entropy_coef max_grad_norm adam_eps signals model"

    lr: Scheduled[PositiveFloat] = 3e-3
    rollout_size: Rows = 1000
    """Decisions between updates; decisions of unfinished episodes are used in a later update."""
    normalize_returns: bool = True
    """Normalizes returns of each batch to mean 0, which is a baseline, and standard deviation 1."""
    entropy_coef: Scheduled[NonNegative] = 0.0
    """Weight of the entropy bonus."""
    adam_eps: PositiveFloat = 1e-5
    """Added to Adam's denominator."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""


@dataclass(frozen=True)
class ReinforceBatch:
    """Decisions of whole episodes; all fields ``[N, ...]``.

    Attributes:
        obs: Observations, normalized if the policy does that.
        action: The actions.
        returns: Discounted returns from each decision to the end of its episode.
    """

    obs: TensorTree
    action: Tensor
    returns: Tensor


def reinforce_loss(distribution: Distribution, batch: ReinforceBatch, cfg: ReinforceConfig) -> tuple[Tensor, Metrics]:
    """Negated score times return, and the entropy bonus."""
    returns = batch.returns
    if cfg.normalize_returns and len(returns) > 1:
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    policy_loss = -(distribution.log_prob(batch.action) * returns).mean()
    entropy = distribution.entropy().mean()
    metrics: Metrics = {
        "policy_loss": policy_loss.detach(),
        "entropy": entropy.detach(),
        "return_to_go": batch.returns.mean(),
    }
    return policy_loss - cfg.entropy_coef * entropy, metrics


def reinforce_gradient(
    distribution: Distribution, batch: ReinforceBatch, cfg: ReinforceConfig
) -> OutputGradients | None:
    """Computes the gradient of `reinforce_loss` with respect to the outputs, in closed form, and the same metrics.

    None for a distribution without a closed-form gradient.

    Returns:
        Gradients with respect to the head's output ``[N, W]``, and to the ``log_std`` of distributions that have one.
    """
    returns = batch.returns
    if cfg.normalize_returns and len(returns) > 1:
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    logp_gradient = returns * (-1 / len(returns))
    gradients = distribution.gradient(batch.action, logp_gradient, -cfg.entropy_coef / len(returns))
    if gradients is None:
        return None
    return [part for part in gradients if part is not None], reinforce_loss(distribution, batch, cfg)[1]


def rewards_to_go(reward: Tensor, last: Tensor, *, gamma: float) -> Tensor:
    """Computes the discounted sum of rewards from each decision to the end of its episode, ``[N]``.

    Args:
        reward: ``[N]`` rewards of whole episodes, one after the other.
        last: ``[N]`` bool, whether the decision is the last of its episode.
        gamma: Discount.
    """
    returns = []
    later = 0.0
    for earned, end in zip(reversed(reward.tolist()), reversed(last.tolist()), strict=True):
        later = earned + (0.0 if end else gamma * later)
        returns.append(later)
    return torch.tensor(returns[::-1], device=reward.device, dtype=torch.float32)


class Scorer:
    """Computes the distribution of each row's action.

    Args:
        policy: The policy that learns.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __call__(self, batch: ReinforceBatch) -> Distribution:
        """Computes the distribution of each row's action."""
        distribution: Distribution = self.policy.head(self.policy.trunk(batch.obs), batch.obs.get(MASK))
        return distribution

    def structure(self) -> Structure:
        """Declares what a call computes: the policy's distribution."""
        return self.policy.structure()


class Reinforce(Algorithm[ReinforceConfig]):
    """The algorithm: `training_step` keeps running episodes, and makes one gradient step on finished ones."""

    saved = ("optimizer", "kept", "dropped", "signals")
    fixed = ("forward",)
    loss = staticmethod(reinforce_loss)
    closed_form = ClosedForm(reinforce_loss, reinforce_gradient)

    def __init__(self, policy: Policy, cfg: ReinforceConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        self.forward = attach(Scorer(policy))
        self.optimizer = Adam(flatten([policy.head, policy.trunk]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.kept: dict[str, Any] = {}
        """Decisions of running episodes, as of `_columns`, slot by slot."""
        self.dropped = 0
        """Decisions of episodes whose end is missing."""

    @property
    def demand(self) -> Demand:
        """`rollout_size` decisions per update."""
        return Demand(FRAGMENT, self.cfg.rollout_size)

    def summary(self) -> Row:
        """Reports rewards and learning of the signals."""
        return self.signals.summary() if self.signals.others else {}

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update from the episodes that have ended; none if no episode has."""
        cfg, means = self.now(), Means()
        ended, stale = self.ended_episodes(rollout)
        if ended:
            self.forward.refresh()
            data = ReinforceBatch(
                obs=self.policy.normalize(ended["obs"]),
                action=ended["action"],
                returns=rewards_to_go(ended["reward"], ended["last"], gamma=cfg.gamma),
            )
            data = self.before_update(data)
            means.add(gradient_step(self.forward, self.loss, data, self.optimizer, cfg, self.closed_form))
            self.updates += 1
        learned = means.result() or dict.fromkeys(("policy_loss", "entropy", "return_to_go", "grad_norm"))
        return {
            **learned,
            "finished_episodes": int(ended["last"].sum()) if ended else 0,
            "stale_fraction": stale,
            "kept_decisions": len(self.kept["slot"]),
            "dropped_decisions": self.dropped,
            "lr": cfg.lr,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }

    def ended_episodes(self, rollout: Rollout) -> tuple[dict[str, Any], float | None]:
        """Returns the decisions of all finished episodes, as of `_columns`, and the share of them that had been kept.

        Those of running episodes are kept. Both are in the order of slots, and of time within a slot.

        Raises:
            TrainingError: If an episode does not end.
        """
        fresh, num_kept = _columns(rollout), 0
        if self.kept:
            num_kept = len(self.kept["slot"])
            kept = _map(lambda column: column.to(rollout.slot.device), self.kept)  # a checkpoint's is on the host
            fresh = _map(torch.cat, kept, fresh)
        order = torch.argsort(fresh["slot"], stable=True)  # kept decisions come before new ones, slot by slot
        rows = _map(lambda column: column.index_select(0, order), fresh)
        slot, last, first = (rows[name].numpy(force=True) for name in ("slot", "last", "first"))
        leaves_slot = np.append(slot[1:] != slot[:-1], True)
        closes = last | leaves_slot | np.append(first[1:], False)  # the last known row of an episode
        closing = np.flatnonzero(closes)[np.cumsum(closes) - closes]  # the last known row of each row's episode
        running = torch.from_numpy(~last[closing] & leaves_slot[closing]).to(order.device)
        over = torch.from_numpy(last[closing]).to(order.device)
        self.dropped += int((~running & ~over).sum())  # the slot began another episode before this one ended
        self.kept = _map(lambda column: column[running], rows)
        self._check_length()
        stale = (order < num_kept)[over]
        if not len(stale):
            return {}, None
        return _map(lambda column: column[over], rows), int(stale.sum()) / len(stale)

    def _check_length(self) -> None:
        longest = int(torch.bincount(self.kept["slot"]).max()) if len(self.kept["slot"]) else 0
        if longest > LONGEST:
            raise TrainingError(
                f"policy {self.name!r}: an episode has {longest:,} decisions and no end, but REINFORCE learns from "
                "whole episodes; give the environment a time limit, or use another algorithm, such as a2c"
            )


def _columns(rollout: Rollout) -> dict[str, Any]:
    """Returns the valid rows of a rollout ``[N, ...]``: grouped by slot where the order matters, in the order of
    time.
    """
    num_fragments = len(rollout.length)
    fragment, t = rollout.valid.T.nonzero(as_tuple=True)
    rows = t * num_fragments + fragment
    return {
        "obs": {path: flat(leaf, rows) for path, leaf in rollout.obs.items()},
        "action": flat(rollout.action, rows),
        "reward": flat(rollout.reward, rows),
        "last": flat(rollout.terminated | rollout.truncated, rows),
        "first": rollout.first[fragment] & (t == 0),
        "slot": rollout.slot[fragment],
    }


def _map(function: Callable[..., Tensor], *trees: dict[str, Any]) -> dict[str, Any]:
    """Applies `function` to each tensor, or, for several trees, to the list of corresponding tensors."""
    made: dict[str, Any] = {}
    for name, value in trees[0].items():
        values = [tree[name] for tree in trees]
        if isinstance(value, dict):
            made[name] = _map(function, *values)
        else:
            made[name] = function(value) if len(trees) == 1 else function(values)
    return made
