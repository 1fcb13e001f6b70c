"""Learning metrics of a policy in an iteration, by their names of 2021: `learner_stats`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEARNER_KEYS = {
    "lr": "cur_lr",
    "policy_loss": "policy_loss",
    "bc_loss": "policy_loss",
    "value_loss": "vf_loss",
    "explained_variance": "vf_explained_var",
    "entropy": "entropy",
    "kl_coef": "cur_kl_coeff",
    "q_mean": "mean_q",
    "q_min": "min_q",
    "q_max": "max_q",
    "td_error": "mean_td_error",
    "actor_loss": "actor_loss",
    "critic_loss": "critic_loss",
    "alpha": "alpha_value",
    "alpha_loss": "alpha_loss",
    "target_entropy": "target_entropy",
    "grad_norm": "grad_gnorm",
}
"""Names in 2021 of the metrics of a learner."""


def learner_stats(row: Mapping[str, Any], cfg: Any, model_metrics: Mapping[str, Any]) -> dict[str, Any]:
    stats: dict[str, Any] = {LEARNER_KEYS[name]: value for name, value in row.items() if name in LEARNER_KEYS}
    if "kl" in row:
        stats["kl"] = row["full_kl"] if row.get("full_kl") is not None else row["kl"]
        stats.setdefault("cur_kl_coeff", 0.0)
    if hasattr(cfg, "entropy_coef"):
        stats["entropy_coeff"] = cfg.entropy_coef
    known = [stats.get(name) for name in ("policy_loss", "vf_loss", "entropy")]
    if all(value is not None for value in known) and hasattr(cfg, "value_coef"):
        policy_loss, value_loss, entropy = known
        penalty = stats.get("cur_kl_coeff", 0.0) * (stats.get("kl") or 0.0)
        stats["total_loss"] = policy_loss + cfg.value_coef * value_loss + penalty - cfg.entropy_coef * entropy
    stats["model"] = dict(model_metrics)
    return stats
