"""Gradient steps on batches of a script: `learn_on_batch`, `compute_gradients` and `apply_gradients` of 2021.

Each algorithm has its own form of a batch: PPO, A2C and PG learn from advantages, algorithms with replay from decisions
with their next observations. The steps are those of ``core/optim.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rookery.face import (
    A2C,
    PPO,
    ActionSpec,
    Algorithm,
    ConfigError,
    Means,
    Metrics,
    Minibatch,
    ObsSpec,
    Optimizer,
    Reinforce,
    ReinforceBatch,
    Transitions,
    apply_gradients,
    compute_gradients,
    gradient_step,
)
from rookery.face import Policy as Actor
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.postprocessing import compute_advantages
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.preprocessors import RowPreprocessor
from rookery_rllib.policy.learner_stats import learner_stats
from rookery_rllib.policy.policies import LEARNER_STATS_KEY

DISCOUNT = "discount"
"""Column with the discount of each row's next observation, 0 where its episode has ended. Rows without it are windows
of ``n_step`` decisions, and end where ``dones`` is True."""


class BatchSteps(Protocol):
    """Steps of one policy on batches of a script."""

    def learn(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step; returns its statistics."""

    def compute(self, samples: Any) -> tuple[list[Any], dict[str, Any]]:
        """Computes gradients, vectors of all weights of each optimizer, and statistics; the weights are unchanged."""

    def apply(self, gradients: Any) -> None:
        """Makes the steps of gradients of `compute`."""


def steps_of(learner: Algorithm[Any] | None, name: str, rows: RowPreprocessor) -> BatchSteps:
    """Returns the steps of a policy.

    Raises:
        ConfigError: If it does not learn, is recurrent, or its algorithm learns from sequences or teams alone.
    """
    if learner is not None and learner.policy.memory_size:
        raise ConfigError(
            f"policy {name!r} is recurrent: rows of a batch have no state; use trainer.train(), or a policy of "
            "build_torch_policy, whose batches have state_in_0"
        )
    if isinstance(learner, PPO | A2C | Reinforce):
        return AdvantageSteps(learner, rows)
    if learner is not None and learner.step_optimizers(learner.now()):
        return ReplaySteps(learner, rows)
    how = "does not learn" if learner is None else f"learns by {type(learner).__name__}"
    raise ConfigError(
        f"policy {name!r} {how}: learn_on_batch is for PPO, A2C, PG, DQN, SAC, DDPG and TD3; use trainer.train()"
    )


# --- PPO, A2C, PG -----------------------------------------------------------------------------------------------------


class AdvantageSteps:
    """Steps on rows with advantages; arguments as of `steps_of`."""

    def __init__(self, learner: PPO | A2C | Reinforce, rows: RowPreprocessor) -> None:
        self.learner: Any = learner
        self.rows = rows

    def learn(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step; raises a ConfigError if a column is missing."""
        data, cfg = self._prepared(samples)
        learner, means = self.learner, Means()
        means.add(gradient_step(learner.forward, learner.loss, data, learner.optimizer, cfg, learner.closed_form))
        learner.updates += 1
        return {LEARNER_STATS_KEY: learner_stats({**means.result(), "lr": cfg.lr}, learner.now(), {})}

    def compute(self, samples: Any) -> tuple[list[Any], dict[str, Any]]:
        """Computes the gradient; raises a ConfigError if a column is missing."""
        data, cfg = self._prepared(samples)
        learner, means = self.learner, Means()
        means.add(compute_gradients(learner.forward, learner.loss, data, learner.optimizer, cfg, learner.closed_form))
        gradient = as_arrays(learner.optimizer.flat.read_gradient())
        return [gradient], {LEARNER_STATS_KEY: learner_stats(means.result(), cfg, {})}

    def apply(self, gradients: Any) -> None:
        """Makes the step of a gradient ``[W]``, clipped by the settings."""
        cfg = self.learner.now()
        _apply([(self.learner.optimizer, cfg.lr)], gradients, cfg.max_grad_norm)
        self.learner.updates += 1

    def _prepared(self, samples: Any) -> tuple[Any, Any]:
        """Returns a batch in the form of the algorithm's loss, and the settings."""
        data = minibatch_of(self.learner, self.rows, samples)
        self.learner.forward.refresh()
        return data, self.learner.now()


def with_advantages(learner: Algorithm[Any] | None, config: Mapping[str, Any], batch: SampleBatch, last: float) -> Any:
    """Adds advantages and value targets to trajectories of PPO, A2C and PG; `last` is the bootstrap value."""
    if isinstance(learner, Reinforce):
        return compute_advantages(batch, 0.0, learner.cfg.gamma, use_gae=False, use_critic=False)
    if not isinstance(learner, PPO | A2C) or "vf_preds" not in batch:
        return batch
    cfg = learner.now()
    use_gae = bool(config.get("use_gae", True))
    return compute_advantages(batch, last, cfg.gamma, cfg.gae_lambda, use_gae=use_gae, use_critic=True)


def minibatch_of(learner: PPO | A2C | Reinforce, rows: RowPreprocessor, samples: Mapping[str, Any]) -> Any:
    """Converts a batch of 2021 to the form of an algorithm's loss.

    Args:
        learner: The algorithm.
        rows: Preprocessor of the observations.
        samples: Columns ``obs, actions, advantages``; of PPO and A2C ``value_targets`` and ``action_logp`` as well.

    Raises:
        ConfigError: If a column is missing.
    """
    more = () if isinstance(learner, Reinforce) else ("value_targets", "action_logp")
    why = "policy.postprocess_trajectory(batch) adds advantages and value targets"
    _check_columns(samples, ("obs", "actions", "advantages", *more), why)

    def column(name: str) -> Tensor:
        return torch.from_numpy(np.asarray(samples[name], np.float32))

    obs, action = _observed(learner.policy, rows, samples["obs"]), _acted(learner.policy, samples["actions"])
    if isinstance(learner, Reinforce):
        return ReinforceBatch(obs=obs, action=action, returns=column("advantages"))
    unit = float(learner.value_scale.unit)
    target = column("value_targets").unsqueeze(1) / unit
    value = column("vf_preds").unsqueeze(1) / unit if "vf_preds" in samples else target
    data = Minibatch(obs, action, column("action_logp"), column("advantages") / unit, target, value)
    return learner.with_old(data) if isinstance(learner, PPO) and learner.cfg.kl_coef else data


# --- algorithms with replay -------------------------------------------------------------------------------------------


class ReplaySteps:
    """Steps on decisions with their next observations; target networks do not change. Arguments as of `steps_of`."""

    def __init__(self, learner: Algorithm[Any], rows: RowPreprocessor) -> None:
        self.learner, self.rows = learner, rows

    def learn(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step of each network; raises a ConfigError if a column is missing.

        Returns:
            The statistics, and the sizes of the rows' errors, ``td_error`` ``[N]``.
        """
        metrics, error = self._stepped(samples)
        self._count(metrics)
        return self._reported(metrics, error)

    def compute(self, samples: Any) -> tuple[list[Any], dict[str, Any]]:
        """Computes the gradients of one step of each network, and reverts it.

        In that step each network learns from the others as they are after their own steps, so that `compute` and
        `apply` are one `learn`. A network that does not move in this step has None. Raises a ConfigError if a column
        is missing.
        """
        optimizers = [optimizer for optimizer, _ in self._optimizers()]
        before = [(optimizer.flat.data.clone(), optimizer.state_dict()) for optimizer in optimizers]
        found: dict[int, Any] = {}
        for number, optimizer in enumerate(optimizers):
            optimizer.agree = _keeping(found, number)
        try:
            metrics, error = self._stepped(samples)
        finally:
            for optimizer, (weights, state) in zip(optimizers, before, strict=True):
                optimizer.agree = None
                optimizer.flat.data.copy_(weights)
                optimizer.load_state_dict(state)
        return [found.get(number) for number in range(len(optimizers))], self._reported(metrics, error)

    def apply(self, gradients: Any) -> None:
        """Makes the steps of gradients, clipped by the settings."""
        _apply(self._optimizers(), gradients, self.learner.now().max_grad_norm)
        self._count({})

    def _optimizers(self) -> list[tuple[Optimizer, float]]:
        return self.learner.step_optimizers(self.learner.now())

    def _stepped(self, samples: Any) -> tuple[Metrics, np.ndarray]:
        """Makes a step; returns its metrics, and the sizes of the rows' errors ``[N]``."""
        learner, cfg = self.learner, self.learner.now()
        drawn = learner.before_update(transitions_of(learner, self.rows, samples))
        metrics = learner.learn_rows(drawn, cfg)
        priority = metrics.pop("priority")
        assert isinstance(priority, Tensor)
        error = priority.mean(0) if priority.dim() == 2 else priority
        return metrics, error.detach().cpu().numpy()

    def _count(self, metrics: Metrics) -> None:
        assert self.learner.replay is not None
        self.learner.replay.record(metrics)
        self.learner.updates += 1

    def _reported(self, metrics: Metrics, error: np.ndarray) -> dict[str, Any]:
        means, cfg = Means(), self.learner.now()
        means.add(metrics)
        stats = learner_stats({**means.result(), "lr": cfg.lr}, cfg, {})
        return {LEARNER_STATS_KEY: stats, "td_error": error}


def transitions_of(learner: Algorithm[Any], rows: RowPreprocessor, samples: Mapping[str, Any]) -> Transitions:
    """Converts a batch of 2021 to decisions to learn from.

    Args:
        learner: The algorithm.
        rows: Preprocessor of the observations.
        samples: Columns ``obs, actions, rewards, new_obs``, and ``dones`` or ``discount`` (`DISCOUNT`); importance
            weights ``weights`` and ``batch_indexes``, if there are any.

    Raises:
        ConfigError: If a column is missing.
    """
    ends = DISCOUNT if DISCOUNT in samples else "dones"
    why = "worker.sample() and local_replay_buffer.replay() return whole batches"
    _check_columns(samples, ("obs", "actions", "rewards", "new_obs", ends), why)
    cfg, policy, count = learner.now(), learner.policy, len(samples["rewards"])

    def column(name: str) -> Tensor:
        return torch.from_numpy(np.asarray(as_arrays(samples[name]), np.float32))

    discount = column(DISCOUNT) if ends == DISCOUNT else (1.0 - column("dones")) * cfg.gamma**cfg.n_step
    numbers = as_arrays(samples["batch_indexes"]) if "batch_indexes" in samples else np.zeros(count)
    assert learner.replay is not None
    return Transitions(
        obs=_observed(policy, rows, samples["obs"]),
        action=_acted(policy, samples["actions"]),
        reward=column("rewards"),
        next_obs=_observed(policy, rows, samples["new_obs"]),
        discount=discount,
        weight=column("weights") if "weights" in samples else None,
        row=torch.from_numpy(np.asarray(numbers).astype(np.int64)),
    ).to(learner.replay.device)


def with_windows(learner: Algorithm[Any], batch: SampleBatch) -> SampleBatch:
    """Replaces the decisions of a trajectory by windows of ``n_step`` decisions, as RLlib stores them.

    A row has the sum of the discounted rewards of its window, the observation after it, whether the episode ends in it,
    and the column `DISCOUNT`. Windows are shorter at the end of the trajectory.
    """
    cfg = learner.now()
    count = len(batch["rewards"])
    if cfg.n_step == 1 or not count:
        return batch
    rewards, dones = np.asarray(batch["rewards"], np.float64), np.asarray(batch["dones"], bool)
    last = np.minimum(np.arange(count) + cfg.n_step, count) - 1
    total = np.zeros(count)
    for ahead in range(cfg.n_step):
        total[: count - ahead] += cfg.gamma**ahead * rewards[ahead:]
    batch["rewards"], batch["dones"] = total.astype(np.float32), dones[last]
    batch["new_obs"] = np.asarray(batch["new_obs"])[last]
    batch[DISCOUNT] = (cfg.gamma ** (last - np.arange(count) + 1) * ~dones[last]).astype(np.float32)
    return batch


# --- for both ---------------------------------------------------------------------------------------------------------


def stored_rows(spec: ObsSpec, rows: RowPreprocessor, obs: Any) -> dict[str, np.ndarray]:
    """Converts preprocessed observations ``[N, size]`` to the stored form of a layout, by leaf path."""
    given = np.asarray(as_arrays(obs), np.float32)
    tree = spec.allocate(len(given))
    for path, leaf in rows.restore(given).items():
        tree[path][...] = np.asarray(leaf).reshape(tree[path].shape)
    return tree


def action_rows(spec: ActionSpec, actions: Any) -> np.ndarray:
    """Converts the column ``actions`` to the stored form of a layout, ``[N, ...]``."""
    return np.asarray(as_arrays(actions)).astype(spec.dtype).reshape(-1, *spec.shape)


def _observed(actor: Actor, rows: RowPreprocessor, obs: Any) -> dict[str, Tensor]:
    stored = stored_rows(actor.obs_spec, rows, obs)
    return actor.normalize({path: torch.from_numpy(leaf) for path, leaf in stored.items()})


def _acted(actor: Actor, actions: Any) -> Tensor:
    return torch.from_numpy(action_rows(actor.action_spec, actions))


def _check_columns(samples: Mapping[str, Any], wanted: tuple[str, ...], why: str) -> None:
    missing = [name for name in wanted if name not in samples]
    if missing:
        raise ConfigError(f"learn_on_batch: the batch has no column {', '.join(missing)}; {why}")


def _keeping(found: dict[int, Any], number: int) -> Callable[[Tensor, Any, Metrics], Metrics]:
    """Returns a function that keeps a copy of each gradient before its step, under a number."""

    def keep(gradient: Tensor, batch: Any, metrics: Metrics) -> Metrics:
        found[number] = as_arrays(gradient.clone())
        return metrics

    return keep


def _apply(optimizers: list[tuple[Optimizer, float]], gradients: Any, max_grad_norm: float | None) -> None:
    """Makes the steps of gradients ``[W]``, one for each optimizer or None."""
    for (optimizer, lr), gradient in zip(optimizers, gradients, strict=True):
        if gradient is not None:
            optimizer.flat.write_gradient(torch.from_numpy(np.asarray(as_arrays(gradient))))
            apply_gradients(optimizer, lr=lr, max_grad_norm=max_grad_norm)
