"""Settings whose names mean something else in other libraries, where a value looks as if that was meant.

`batch_size` is the only one. Stable-Baselines3 and ML-Agents call the decisions in a gradient step so, also of PPO;
here those are `minibatch_size`, and `batch_size` is the decisions of a whole update, as RLlib's `train_batch_size`.
Algorithms without minibatches, and those that learn from replay, mean by it what other libraries mean.
"""

from __future__ import annotations

from rookery.core.config import Resolved
from rookery.training.settings import RunConfig
from rookery.training.unused import is_said

MINIBATCH = "decisions in a gradient step are minibatch_size"
"""How a note names the setting that was probably meant."""


def misread_settings(resolved: Resolved[RunConfig]) -> list[str]:
    """Returns a line for each `batch_size` that a user gave and that is too small for a whole update."""
    lines: dict[str, None] = {}
    for name, entry in resolved.config.policies.items():
        cfg, path = entry.algorithm, f"policies.{name}.batch_size"
        size, minibatch = getattr(cfg, "batch_size", None), getattr(cfg, "minibatch_size", None)
        if size is None or minibatch is None or entry.frozen:
            continue
        source = resolved.history[path][-1][0].partition(" as ")[0]
        length, envs = getattr(cfg, "fragment_length", 1), resolved.config.sampling.num_envs
        fewer = [f"minibatch_size = {minibatch:,}"] if size < minibatch else []
        if size < length * envs:
            whole = f"fragment_length {length:,} x num_envs {envs:,} = {length * envs:,}"
            fewer.append(f"one fragment of every environment ({whole}), which cuts fragments short")
        if fewer and is_said(source):
            told = "algorithm.batch_size" if path in resolved.inherited else path
            line = f"{told} = {size:,} ({source}): an update learns from {size:,} decisions, fewer than "
            lines[f"{line}{' and '.join(fewer)}; {MINIBATCH} ({minibatch:,} now)"] = None
    return list(lines)
