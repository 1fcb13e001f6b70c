"""Advantages and value targets of a trajectory, in the columns of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rookery.face import ops
from rookery_rllib.batch.sample_batch import SampleBatch


class Postprocessing:
    ADVANTAGES = "advantages"
    VALUE_TARGETS = "value_targets"


def discount_cumsum(x: Any, gamma: float) -> np.ndarray:
    """Returns the discounted sums ``y[t] = x[t] + gamma * y[t + 1]``, ``[T, ...]`` float64."""
    terms = torch.from_numpy(np.array(x, dtype=np.float64))
    if not len(terms):
        return terms.numpy()
    return ops.decayed_sums(terms, torch.full_like(terms, float(gamma))).numpy()


def compute_advantages(
    rollout: SampleBatch,
    last_r: float,
    gamma: float = 0.9,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
) -> SampleBatch:
    """Adds the columns ``advantages`` and ``value_targets`` to a trajectory, float32."""
    if use_gae and not use_critic:
        raise ValueError("use_gae needs values: use_critic=False leaves none; set use_gae=False")
    if use_critic and SampleBatch.VF_PREDS not in rollout:
        raise ValueError("use_critic needs the column vf_preds, which the trajectory does not have")
    rewards = np.asarray(rollout[SampleBatch.REWARDS], np.float64)
    values = np.asarray(rollout[SampleBatch.VF_PREDS], np.float64) if use_critic else np.zeros_like(rewards)
    last = float(np.asarray(last_r).reshape(-1)[0])
    if use_gae:
        errors = rewards + gamma * np.append(values[1:], last) - values
        advantages = discount_cumsum(errors, gamma * lambda_)
        targets = advantages + values
    else:
        returns = discount_cumsum(np.append(rewards, last), gamma)[:-1]
        advantages = returns - values
        targets = returns if use_critic else np.zeros_like(returns)
    rollout[Postprocessing.ADVANTAGES] = advantages.astype(np.float32)
    rollout[Postprocessing.VALUE_TARGETS] = targets.astype(np.float32)
    return rollout


def compute_gae_for_sample_batch(
    policy: Any,
    sample_batch: SampleBatch,
    other_agent_batches: Mapping[Any, Any] | None = None,
    episode: Any = None,
) -> SampleBatch:
    last_r = 0.0
    if not sample_batch[SampleBatch.DONES][-1] and policy.config.get("use_critic", True):
        seen = sample_batch.get_single_step_input_dict(policy.model.view_requirements, index="last")
        last_r = policy._value(**seen)
    return compute_advantages(
        sample_batch,
        last_r,
        policy.config["gamma"],
        policy.config["lambda"],
        use_gae=policy.config.get("use_gae", True),
        use_critic=policy.config.get("use_critic", True),
    )


def adjust_nstep(n_step: int, gamma: float, batch: SampleBatch) -> None:
    """Replaces rewards by discounted n-step sums, and next observations by those n steps later, in place."""
    ends = np.asarray(batch[SampleBatch.DONES])
    if ends[:-1].any():
        raise ValueError("adjust_nstep: an episode ends in the middle of the batch, expected rows of one episode")
    rewards = torch.from_numpy(np.array(batch[SampleBatch.REWARDS], dtype=np.float64))
    total, _ = ops.n_step(
        rewards, torch.zeros(len(rewards), dtype=torch.bool, device="cpu"), n=n_step, gamma=float(gamma)
    )
    later = np.minimum(np.arange(batch.count) + n_step - 1, batch.count - 1)
    dtype = np.asarray(batch[SampleBatch.REWARDS]).dtype
    batch[SampleBatch.REWARDS] = total.numpy().astype(dtype if dtype.kind == "f" else np.float32)
    batch[SampleBatch.NEXT_OBS] = np.asarray(batch[SampleBatch.NEXT_OBS])[later]
    batch[SampleBatch.DONES] = ends[later]
