"""Note on a `rollout_size` that is too small for a whole update, where `minibatch_size` was probably meant.

`rollout_size` counts the decisions of an update, as `train_batch_size` of RLlib does; `minibatch_size` those of a
gradient step, as `batch_size` of Stable-Baselines3 and ML-Agents.
"""

from __future__ import annotations

from rookery.core.config import Resolved
from rookery.run.checks.unused import is_given
from rookery.run.settings import RunConfig

MINIBATCH = "decisions in a gradient step are minibatch_size"
"""Part of a note that names the setting that was probably meant."""


def misread_settings(resolved: Resolved[RunConfig]) -> list[str]:
    """Returns a line for each `rollout_size` that a user gave and that is too small for a whole update."""
    lines: dict[str, None] = {}
    for name, entry in resolved.config.policies.items():
        cfg, path = entry.algorithm, f"policies.{name}.rollout_size"
        size, minibatch = getattr(cfg, "rollout_size", None), getattr(cfg, "minibatch_size", None)
        if size is None or minibatch is None or entry.frozen:
            continue
        source = resolved.history[path][-1][0].partition(" as ")[0]
        length, envs = getattr(cfg, "fragment_length", 1), resolved.config.sampling.num_envs
        fewer = [f"minibatch_size = {minibatch:,}"] if size < minibatch else []
        if size < length * envs:
            whole = f"fragment_length {length:,} x num_envs {envs:,} = {length * envs:,}"
            fewer.append(f"one fragment of every environment ({whole}), which cuts fragments short")
        if fewer and is_given(source):
            shown = "algorithm.rollout_size" if path in resolved.inherited else path
            line = f"{shown} = {size:,} ({source}): an update learns from {size:,} decisions, fewer than "
            lines[f"{line}{' and '.join(fewer)}; {MINIBATCH} ({minibatch:,} now)"] = None
    return list(lines)
