"""Batches of 2021 for policies that Rookery's own algorithms learn: advantages, and a gradient step by hand.

`LearnedPolicy` calls these functions for scripts that play and learn in loops of their own. The step is that of
``core/optim.py:gradient_step``, on the loss of the policy's algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.face import (
    A2C,
    PPO,
    Algorithm,
    ConfigError,
    Means,
    Minibatch,
    Reinforce,
    ReinforceBatch,
    apply_gradients,
    compute_gradients,
    gradient_step,
)
from rookery_rllib.batch.postprocessing import compute_advantages
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.preprocessors import RowPreprocessor


def learns_by_hand(learner: Algorithm[Any] | None, name: str) -> PPO | A2C | Reinforce:
    """Returns the algorithm of a policy; raises a ConfigError if it cannot step on the batch of a script."""
    if not isinstance(learner, PPO | A2C | Reinforce):
        told = "does not learn" if learner is None else f"is learned by {type(learner).__name__}, from replay"
        raise ConfigError(
            f"policy {name!r} {told}: learn_on_batch is for PPO, A2C and PG; use trainer.train(), or "
            "rookery.Trainer.learn(gradient_steps), which learns from replay alone"
        )
    if learner.policy.memory_size:
        raise ConfigError(
            f"policy {name!r} remembers: rows of a batch do not say what; use trainer.train(), or a policy of "
            "build_torch_policy, whose batches have state_in_0"
        )
    return learner


def with_advantages(learner: Algorithm[Any] | None, config: Mapping[str, Any], batch: SampleBatch, last: float) -> Any:
    """Adds advantages and value targets to trajectories of PPO, A2C and PG; `last` is the value of what follows."""
    if isinstance(learner, Reinforce):
        return compute_advantages(batch, 0.0, learner.cfg.gamma, use_gae=False, use_critic=False)
    if not isinstance(learner, PPO | A2C) or "vf_preds" not in batch:
        return batch
    cfg = learner.now()
    use_gae = bool(config.get("use_gae", True))
    return compute_advantages(batch, last, cfg.gamma, cfg.gae_lambda, use_gae=use_gae, use_critic=True)


def stored_rows(learner: PPO | A2C | Reinforce, rows: RowPreprocessor, obs: Any) -> dict[str, Tensor]:
    """Returns preprocessed observations ``[N, size]`` as the networks take them, by leaf path."""
    given = np.asarray(obs, np.float32)
    tree = learner.policy.obs_spec.allocate(len(given))
    for path, leaf in rows.restore(given).items():
        tree[path][...] = np.asarray(leaf).reshape(tree[path].shape)
    return learner.policy.normalize({path: torch.from_numpy(leaf) for path, leaf in tree.items()})


def minibatch_of(learner: PPO | A2C | Reinforce, rows: RowPreprocessor, samples: Mapping[str, Any]) -> Any:
    """Returns a batch of 2021 as the loss of an algorithm takes it.

    Args:
        learner: The algorithm.
        rows: How observations were preprocessed.
        samples: Columns ``obs, actions, advantages``; of PPO and A2C ``value_targets`` and ``action_logp`` as well.

    Raises:
        ConfigError: If a column is missing.
    """
    wanted = ["obs", "actions", "advantages"]
    wanted += [] if isinstance(learner, Reinforce) else ["value_targets", "action_logp"]
    missing = [name for name in wanted if name not in samples]
    if missing:
        raise ConfigError(
            f"learn_on_batch: the batch has no column {', '.join(missing)}; policy.postprocess_trajectory(batch) adds "
            "advantages and value targets"
        )

    def column(name: str) -> Tensor:
        return torch.from_numpy(np.asarray(samples[name], np.float32))

    spec = learner.policy.action_spec
    action = torch.from_numpy(np.asarray(samples["actions"]).astype(spec.dtype)).reshape(-1, *spec.shape)
    obs = stored_rows(learner, rows, samples["obs"])
    if isinstance(learner, Reinforce):
        return ReinforceBatch(obs=obs, action=action, returns=column("advantages"))
    unit = float(learner.value_scale.unit)
    target = column("value_targets").unsqueeze(1) / unit
    value = column("vf_preds").unsqueeze(1) / unit if "vf_preds" in samples else target
    data = Minibatch(obs, action, column("action_logp"), column("advantages") / unit, target, value)
    return learner.with_old(data) if isinstance(learner, PPO) and learner.cfg.kl_coef else data


def step_on(learner: PPO | A2C | Reinforce, data: Any) -> dict[str, float | None]:
    """Makes one gradient step; returns the means of what the loss measured."""
    learner.forward.refresh()
    cfg, means = learner.now(), Means()
    loss: Any = learner.loss
    means.add(gradient_step(learner.forward, loss, data, learner.optimizer, cfg, learner.closed_form))
    learner.updates += 1
    return {**means.result(), "lr": cfg.lr}


def gradient_of(learner: PPO | A2C | Reinforce, data: Any) -> tuple[Tensor, dict[str, float | None]]:
    """Computes the gradient of all weights in one vector ``[W]``, and what the loss measured; the weights stay."""
    learner.forward.refresh()
    loss: Any = learner.loss
    means = Means()
    means.add(compute_gradients(learner.forward, loss, data, learner.optimizer, learner.now(), learner.closed_form))
    return learner.optimizer.flat.read_gradient(), means.result()


def step_along(learner: PPO | A2C | Reinforce, gradient: Any) -> None:
    """Steps along a gradient ``[W]``, clipped as the settings say."""
    cfg = learner.now()
    learner.optimizer.flat.write_gradient(torch.from_numpy(np.asarray(gradient)))
    apply_gradients(learner.optimizer, lr=cfg.lr, max_grad_norm=cfg.max_grad_norm)
    learner.updates += 1
