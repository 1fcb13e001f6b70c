"""Losses of scripts on the action values of DQN and SimpleQ, with RLlib's functions for them.

``DQNTorchPolicy.with_updates(loss_fn=..., stats_fn=...)`` changes what Rookery's DQN learns by, and nothing else:
replay, target network, exploration and the gradient step stay. A loss may call `build_q_losses`, which is DQN's own, or
be built of `compute_q_values` and `QLoss`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rookery.face import Algorithm, ConfigError, Metrics, Transitions, gradient_step, ops
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.torch_functions import convert_to_non_torch_type
from rookery_rllib.model.default_model import TargetModel
from rookery_rllib.policy.batch_steps import DISCOUNT

PRIO_WEIGHTS = "weights"
"""Column of importance weights."""


class QLoss:
    """DQN's loss; arguments as of RLlib, N rows each.

    Args:
        q_t_selected: ``[N]`` values of the actions.
        q_logits_t_selected: ``[N, num_atoms]`` their logits, with atoms.
        q_tp1_best: ``[N]`` values of the best next actions.
        q_probs_tp1_best: ``[N, num_atoms]`` their probabilities, with atoms.
        importance_weights: ``[N]``.
        rewards: ``[N]`` sums of the rewards of `n_step` decisions.
        done_mask: ``[N]`` 1 where the episode ends in them.
        gamma: Discount of a step.
        n_step: Decisions.
        num_atoms: Number of atoms; 1 = values are means.
        v_min: Lowest atom.
        v_max: Highest atom.

    Attributes:
        td_error: ``[N]`` errors; with atoms cross-entropies.
        loss: The scalar loss.
        stats: Means for reports.
    """

    def __init__(
        self,
        q_t_selected: Tensor,
        q_logits_t_selected: Tensor,
        q_tp1_best: Tensor,
        q_probs_tp1_best: Tensor,
        importance_weights: Tensor,
        rewards: Tensor,
        done_mask: Tensor,
        gamma: float = 0.99,
        n_step: int = 1,
        num_atoms: int = 1,
        v_min: float = -10.0,
        v_max: float = 10.0,
    ) -> None:
        discount = gamma**n_step * (1.0 - done_mask.float())
        if num_atoms > 1:
            support = torch.linspace(v_min, v_max, num_atoms, device=rewards.device, dtype=torch.float32)
            target = ops.project(q_probs_tp1_best.detach(), rewards, discount, support)
            self.td_error = -(target * torch.log_softmax(q_logits_t_selected, 1)).sum(1)
            rows = self.td_error
            self.stats = {"mean_td_error": rows.mean()}
        else:
            target = (rewards + discount * q_tp1_best).detach()
            self.td_error = q_t_selected - target
            rows = functional.huber_loss(q_t_selected, target, reduction="none")
            self.stats = {"mean_q": q_t_selected.mean(), "min_q": q_t_selected.min(), "max_q": q_t_selected.max(),
                          "mean_td_error": self.td_error.mean()}  # fmt: skip
        self.loss = (importance_weights.float() * rows).mean()


def compute_q_values(
    policy: Any,
    model: Any,
    input_dict: Any,
    state_batches: Any = None,
    seq_lens: Any = None,
    explore: bool | None = None,
    is_training: bool = False,
) -> tuple[Tensor, Tensor, Tensor, list[Any]]:
    """Computes action values by the learning network, or the target network if `model` is ``policy.target_q_model``.

    Args:
        policy: A policy of DQN or SimpleQ.
        model: ``policy.model`` or ``policy.target_q_model``.
        input_dict: With N preprocessed observations ``obs``.
        state_batches: Has no effect, as all further arguments.
        seq_lens: Has no effect.
        explore: Has no effect.
        is_training: Has no effect.

    Returns:
        Values ``[N, A]``; logits and probabilities of the atoms ``[N, A, M]``, ones ``[N, A, 1]`` without atoms; and an
        empty list.
    """
    learner = policy.learner
    net = learner.target_net if isinstance(model, TargetModel) else learner.net
    tree = policy.target_q_model.tree_of(input_dict)
    values = net.value({path: leaf.to(learner.replay.device) for path, leaf in tree.items()}, noise=learner.noise())
    if values.dim() == 2:
        ones = torch.ones_like(values).unsqueeze(2)
        return values, ones, ones, []
    return net.head.q_from(values), values, torch.softmax(values, 2), []


def build_q_losses(policy: Any, model: Any, dist_class: Any, train_batch: SampleBatch) -> Tensor:
    """Computes DQN's loss, and stores it as ``policy.q_loss``.

    Args:
        policy: A policy of DQN or SimpleQ.
        model: Its model.
        dist_class: Has no effect.
        train_batch: N rows as tensors: columns ``obs, actions, rewards, new_obs, dones, weights``, and ``discount``, if
            windows differ in length.
    """
    config, action = policy.config, train_batch["actions"].long()
    q, logits, _, _ = compute_q_values(policy, model, {"obs": train_batch["obs"]})
    with torch.no_grad():
        after, _, probs, _ = compute_q_values(policy, policy.target_q_model, {"obs": train_batch["new_obs"]})
        judge = after
        if config.get("double_q", policy.algorithm != "SimpleQ"):
            judge, *_ = compute_q_values(policy, model, {"obs": train_batch["new_obs"]})
        best = judge.argmax(1)
    gamma, n_step = float(config["gamma"]), int(config.get("n_step", 1))
    done = train_batch["dones"].float()
    if DISCOUNT in train_batch:
        done = 1.0 - train_batch[DISCOUNT] / gamma**n_step
    rows = torch.arange(len(action), dtype=torch.int64, device=action.device)
    policy.q_loss = QLoss(
        q[rows, action], logits[rows, action], after[rows, best], probs[rows, best], train_batch[PRIO_WEIGHTS],
        train_batch["rewards"], done, gamma, n_step, int(config.get("num_atoms", 1)),
        float(config.get("v_min", -10.0)), float(config.get("v_max", 10.0)),
    )  # fmt: skip
    loss: Tensor = policy.q_loss.loss
    return loss


# --- in the learner ---------------------------------------------------------------------------------------------------


def learn_by_parts(learner: Any, policy: Any, parts: Mapping[str, Callable[..., Any]]) -> None:
    """Makes a learner of DQN learn by the functions of a script.

    Args:
        learner: The learner.
        policy: Its policy, in RLlib's form.
        parts: ``loss_fn`` and ``stats_fn``, or one of them; as of RLlib.

    Raises:
        ConfigError: If it learns from sequences.
    """
    if learner.policy.memory_size:
        raise ConfigError(
            f"{type(policy).__name__}: {', '.join(parts)}: a recurrent policy learns from sequences, by its own loss"
        )
    learner.learn_rows = ScriptedRows(learner, policy, parts)


class ScriptedRows:
    """Makes the gradient steps of a learner of DQN by functions of a script; arguments as of `learn_by_parts`."""

    def __init__(self, learner: Algorithm[Any], policy: Any, parts: Mapping[str, Callable[..., Any]]) -> None:
        self.learner: Any = learner
        self.policy, self.parts, self.own = policy, parts, learner.learn_rows

    def __call__(self, rows: Transitions, cfg: Any) -> Metrics:
        """Makes one gradient step; see `Algorithm.learn_rows`."""
        batch, loss_fn = self.train_batch(rows), self.parts.get("loss_fn")
        self.policy.cur_lr = cfg.lr
        metrics = self.own(rows, cfg) if loss_fn is None else self.step(loss_fn, batch, cfg)
        if loss_fn is None:
            self.policy.q_loss = OwnLoss(metrics)
        if (stats_fn := self.parts.get("stats_fn")) is not None:
            with torch.no_grad():
                self.policy.script_stats = convert_to_non_torch_type(dict(stats_fn(self.policy, batch)))
        return metrics

    def step(self, loss_fn: Callable[..., Any], batch: SampleBatch, cfg: Any) -> Metrics:
        """Makes one gradient step of a script's loss."""
        policy, learner = self.policy, self.learner
        policy.q_loss = None

        def loss(_: Any, rows: SampleBatch, cfg: Any) -> tuple[Tensor, Metrics]:
            value = loss_fn(policy, policy.model, policy.dist_class, rows)
            if not isinstance(value, Tensor) or value.dim() or not value.requires_grad:
                raise ConfigError(
                    f"{type(policy).__name__}: loss_fn must return a scalar tensor that depends on the weights"
                )
            return value, {"loss": value.detach()}

        metrics = gradient_step(_itself, loss, batch, learner.optimizer, cfg)
        if policy.q_loss is None:
            if learner.cfg.replay.kind == "prioritized":
                raise ConfigError(
                    f"{type(policy).__name__}: loss_fn must set policy.q_loss (QLoss, as build_q_losses does): its "
                    "td_error are the priorities of prioritized_replay; or set that to False"
                )
            none = torch.zeros(len(batch), dtype=torch.float32, device=learner.replay.device)
            return {**metrics, "priority": none}
        error = policy.q_loss.td_error.detach()
        told = {name: value.detach() for name, value in policy.q_loss.stats.items() if name in STATS}
        return {**metrics, **{STATS[name]: value for name, value in told.items()}, "priority": error.abs()}

    def train_batch(self, rows: Transitions) -> SampleBatch:
        """Returns rows as RLlib's losses take them, as tensors on the networks' device."""
        device = self.learner.replay.device

        def column(tree: Mapping[str, Tensor]) -> Tensor:
            seen = self.policy.preprocess({path: leaf.cpu().numpy() for path, leaf in tree.items()})
            return torch.from_numpy(np.asarray(seen)).to(device)

        return SampleBatch(
            {
                "obs": column(rows.obs),
                "new_obs": column(rows.next_obs),
                "actions": rows.action,
                "rewards": rows.reward,
                "dones": rows.discount == 0.0,
                DISCOUNT: rows.discount,
                PRIO_WEIGHTS: torch.ones_like(rows.reward) if rows.weight is None else rows.weight,
                "batch_indexes": rows.row,
            }
        )


STATS = {"mean_q": "q_mean", "mean_td_error": "td_error"}
"""Metrics of Rookery's DQN by name of 2021."""


class OwnLoss:
    """Results of Rookery's own loss for `stats_fn`: ``td_error``, ``loss`` and ``stats``.

    Args:
        metrics: Metrics of a gradient step.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.td_error, self.loss = metrics["priority"], metrics["loss"]
        self.stats = {name: metrics[own] for name, own in STATS.items() if own in metrics}


def _itself(batch: Any) -> Any:
    return batch
