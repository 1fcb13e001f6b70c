"""Memory check: estimates the minimum RAM of a run from its settings, and refuses runs that cannot fit.

The estimates are too low on purpose, so that a run that might fit is never refused. Replay buffers are checked
separately (`replay/budget.py`), because their size is known exactly.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.core.config import Resolved
from rookery.core.errors import ConfigError, TrainingError, refuse
from rookery.core.settings.fields import Settings
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.envs.base import Kind, VectorEnv
from rookery.models.build import ModelConfig
from rookery.replay.budget import bytes_free, gigabytes
from rookery.run.settings import PolicyEntry, RunConfig

MANY = 1000
"""Number of environments above which a few are made and measured first."""

SAMPLE = 16
"""Number of environments that are measured."""

LEAST = 500
"""Bytes of an environment in Rookery's own tables: its seeds, episodes, slots."""

ROW = 24
"""Bytes of a decision besides observation and action: log-probability, reward, value, advantage, target."""

WEIGHT = 12
"""Minimum bytes of a trained weight: itself, its gradient, one moment."""

USUAL_WEIGHT = 45
"""Typical bytes of a trained weight: two networks, their gradients and moments, and temporary copies. Measured with a
million categories: 39 for DQN, 51 for PPO.
"""

OUTPUT = 16
"""Bytes of an output in a gradient step: itself, its distribution, its gradient."""

LARGE = 1e9
"""Bytes of a policy above which a note is shown."""


SHORTAGES = ("can't allocate memory", "out of memory", "bad_alloc")
"""Texts of errors other than MemoryError that mean a lack of memory."""


def decision_bytes(obs: ObsSpec, action: ActionSpec) -> int:
    """Returns the bytes of a decision, from its observation to its target."""
    numbers = sum(int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize for leaf in obs.leaves)
    return numbers + int(np.prod(action.shape, dtype=np.int64)) * action.dtype.itemsize + ROW


def check_copies(resolved: Resolved[RunConfig], make: Callable[[int], VectorEnv]) -> None:
    """Refuses more environments than fit into memory; a few are made to measure their size.

    Args:
        resolved: Settings of the run.
        make: Makes a number of environments.

    Raises:
        ConfigError: If they do not fit; names a number that does.
    """
    lanes, free = resolved.config.sampling.num_envs, bytes_free()
    if free is None or lanes <= MANY:
        return
    copy, decisions = LEAST, 0
    if lanes * LEAST <= free:
        traced = tracemalloc.is_tracing()
        if not traced:
            tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        try:
            with closing(make(SAMPLE)) as few:
                copy += (tracemalloc.get_traced_memory()[0] - before) // SAMPLE
                rows = [len(kind.agents) * decision_bytes(kind.obs, kind.action) for kind in few.kinds]
        finally:
            if not traced:
                tracemalloc.stop()
        decisions = sum(rows) * _fragment_length(resolved.config)
    needed = copy + decisions
    if lanes * needed > free:
        played = f", of which {gigabytes(decisions)} for its decisions between updates" if decisions > copy else ""
        raise ConfigError(
            f"{_source(resolved, 'sampling.num_envs')}: sampling.num_envs = {lanes:,}: these environments take at "
            f"least {gigabytes(lanes * needed)}, {gigabytes(needed)} each{played}, and this process has "
            f"{gigabytes(free)} left; use at most sampling.num_envs = {int(0.9 * free / needed):,}"
        )


def check_policies(resolved: Resolved[RunConfig], kinds: Mapping[str, Kind], slots: Callable[[str], int]) -> None:
    """Refuses networks and rollouts that do not fit into memory.

    Args:
        resolved: Settings of the run.
        kinds: The kind of agents of each policy.
        slots: Returns the least number of agents of a policy in all environments.

    Raises:
        ConfigError: If they do not fit; names the setting and a value that fits.
    """
    free = bytes_free()
    if free is None:
        return
    problems: list[str] = []
    for name, kind in kinds.items():
        entry = resolved.config.policies[name]
        cfg = entry.algorithm
        rows = 0 if entry.frozen else _rows(cfg, slots(name))
        size = rows * decision_bytes(kind.obs, kind.action)
        if size > free:
            problems.append(_rollout_problem(resolved, name, rows, size, free))
        path, layers = f"policies.{name}.model.hidden", weights_of(cfg, kind)
        if sum(layers) * WEIGHT > free:
            problems.append(
                f"{_source(resolved, path)}: {path} = {list(cfg.model.hidden)}: {sum(layers):,} weights take at least "
                f"{gigabytes(sum(layers) * WEIGHT)}, and this process has {gigabytes(free)} left; use "
                f"narrower layers{_smaller_space(layers, kind)}"
            )
    refuse(problems)


def weights_of(cfg: AlgorithmConfig, kind: Kind) -> list[int]:
    """Returns the number of weights of each layer of a policy's network, from the first to the output layer; empty for
    custom networks. Encoders of images and sets do not count.
    """
    if not isinstance(cfg.model, ModelConfig) or cfg.model.module is not None:
        return []
    outputs = kind.action.num_parameters * getattr(cfg.head, "atoms", 1)
    widths = (_inputs(kind.obs.own), *cfg.model.hidden, outputs)
    return [before * after for before, after in pairwise(widths)]


def note_memory(name: str, entry: PolicyEntry, kind: Kind, note: Callable[[str], None]) -> None:
    """Shows a note if a policy will take much RAM because of its spaces; arguments as in `memory_line`."""
    if line := memory_line(name, entry, kind):
        note(line)


def memory_line(name: str, entry: PolicyEntry, kind: Kind) -> str:
    """Returns a line on the RAM that a policy will take because of its spaces, or an empty string if it is not much.

    Args:
        name: The policy's name.
        entry: Its settings.
        kind: Its kind of agents.
    """
    cfg, layers = entry.algorithm, weights_of(entry.algorithm, kind)
    if not layers:
        return ""
    rows = _number(cfg, "minibatch_size") or _number(cfg, "rollout_size") or _number(cfg, "batch_size")
    learning = sum(layers) * USUAL_WEIGHT + rows * kind.action.num_parameters * OUTPUT
    total = sum(layers) * WEIGHT if entry.frozen else learning
    if total < LARGE:
        return ""
    first, last = f"{_inputs(kind.obs.own):,} inputs", f"{kind.action.num_parameters:,} outputs"
    remedy = _smaller_space(layers, kind) or ", or fewer decisions in a gradient step"
    return (
        f"policy {name} will take about {gigabytes(total)} of memory: its network has {sum(layers):,} weights, "
        f"from {first} of {_short(kind.obs.own.space)} to {last} of {_short(kind.action.space)}; less with narrower "
        f"layers (policies.{name}.model.hidden){remedy}"
    )


def _smaller_space(layers: Sequence[int], kind: Kind) -> str:
    """Returns advice to reduce the space that causes most of the weights; empty if no space does."""
    if max(layers[0], layers[-1]) < sum(layers) / 2:
        return ""
    if layers[0] >= layers[-1] and any(leaf.sizes for leaf in kind.obs.own.leaves):
        return ", or continuous observations (Box) or several smaller categories (MultiDiscrete)"
    if layers[0] >= layers[-1]:
        return ", or smaller observations"
    return ", or several smaller discrete actions (MultiDiscrete) instead of one"


def _short(space: Any) -> str:
    """Returns a space as text, shortened."""
    text = str(space)
    return text if len(text) <= 60 else f"{text[:57]}..."


def explain_memory_error(error: MemoryError | RuntimeError) -> None:
    """Explains an error if it is due to a lack of memory; returns otherwise.

    Raises:
        TrainingError: Instead of the error, with the settings that take most memory.
    """
    if not isinstance(error, MemoryError) and not any(text in str(error) for text in SHORTAGES):
        return
    raise TrainingError(
        f"there is not enough memory left ({' '.join(str(error).split())[:200] or 'MemoryError'}); most is taken by "
        "algorithm.model.hidden times algorithm.minibatch_size (or rollout_size), sampling.num_envs times "
        "algorithm.fragment_length, and algorithm.replay.capacity: use less of one of them"
    ) from error


def _rollout_problem(resolved: Resolved[RunConfig], name: str, rows: int, size: int, free: int) -> str:
    cfg = resolved.config.policies[name].algorithm
    setting = "fragment_length" if getattr(cfg, "rollout_size", None) is None else "rollout_size"
    path, value = f"policies.{name}.{setting}", getattr(cfg, setting)
    return (
        f"{_source(resolved, path)}: {path} = {value:,}: the {rows:,} decisions of an update take at least "
        f"{gigabytes(size)}, and this process has {gigabytes(free)} left; use at most {setting} = "
        f"{max(int(0.9 * value * free / size), 1):,}, or fewer sampling.num_envs"
    )


def _rows(cfg: AlgorithmConfig, slots: int) -> int:
    """Returns the minimum number of decisions that are kept for an update; 0 (unknown) for algorithms without
    fragments.
    """
    length = _number(cfg, "fragment_length")
    return _number(cfg, "rollout_size") or length * slots if length else 0


def _number(cfg: Settings, name: str) -> int:
    """Returns a setting that some algorithms have; 0 if it is missing or none."""
    return int(getattr(cfg, name, None) or 0)


def _fragment_length(config: RunConfig) -> int:
    """Returns the shortest fragment length of a run's policies."""
    own = [entry.algorithm for entry in config.policies.values() if not entry.frozen]
    return min(_number(cfg, "fragment_length") for cfg in own or [config.algorithm])


def _inputs(obs: ObsSpec) -> int:
    """Returns the input size of a network, without images and sets, which are encoded first."""
    plain = [leaf for leaf in obs.leaves if not leaf.is_image and leaf.kind not in ("entities", "mask")]
    return sum(sum(leaf.sizes) or int(np.prod(leaf.shape, dtype=np.int64)) for leaf in plain)


def _source(resolved: Resolved[RunConfig], path: str) -> str:
    """Returns the source of a setting."""
    return resolved.history[path][-1][0]
