"""How much RAM a run will take at least, by its settings: what cannot fit is refused before it is made.

The sums leave much out, so that nothing is refused that might fit. Replay memories have a sum of their own
(`replay/budget.py`), because it is known to the last byte what they take.
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
"""Copies of an environment from which on a few are made and measured first."""

SAMPLE = 16
"""So many."""

LEAST = 500
"""Bytes of a copy of an environment without its own: its seeds, episodes, slots."""

ROW = 24
"""Bytes of a decision's numbers besides observation and action: log-probability, reward, value, advantage, target."""

WEIGHT = 12
"""Bytes of a weight that is learned: itself, its gradient, a moment at least."""

USUAL_WEIGHT = 45
"""Bytes that a weight of a policy's network usually takes while it learns: two networks, their gradients and moments,
and copies while they are made. Measured with a million categories: 39 of DQN, 51 of PPO.
"""

OUTPUT = 16
"""Bytes of an output in a gradient step: itself, what a distribution is made of it, its gradient."""

LARGE = 1e9
"""Bytes from which on a user is told what a policy will take."""


SHORTAGES = ("can't allocate memory", "out of memory", "bad_alloc")
"""Texts of errors that are no MemoryError and mean one."""


def decision_bytes(obs: ObsSpec, action: ActionSpec) -> int:
    """Bytes of a decision, from its observation to its target."""
    numbers = sum(int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize for leaf in obs.leaves)
    return numbers + int(np.prod(action.shape, dtype=np.int64)) * action.dtype.itemsize + ROW


def check_copies(resolved: Resolved[RunConfig], make: Callable[[int], VectorEnv]) -> None:
    """Refuses more copies of the environment than there is room for; a few are made to see what they take.

    Args:
        resolved: Settings of the run.
        make: Makes so many copies.

    Raises:
        ConfigError: If there is no room; says how many copies there is room for.
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
        played = f", with the {gigabytes(decisions)} of what it plays between updates" if decisions > copy else ""
        raise ConfigError(
            f"{_source(resolved, 'sampling.num_envs')}: sampling.num_envs = {lanes:,}: so many copies take "
            f"{gigabytes(lanes * needed)} at least, {gigabytes(needed)} each{played}, and this process has "
            f"{gigabytes(free)} left; use at most sampling.num_envs = {int(0.9 * free / needed):,}"
        )


def check_policies(resolved: Resolved[RunConfig], kinds: Mapping[str, Kind], slots: Callable[[str], int]) -> None:
    """Refuses networks, and rollouts, that there is no room for.

    Args:
        resolved: Settings of the run.
        kinds: The kind of agents that each policy plays.
        slots: Gives how many agents of all copies a policy plays, at least.

    Raises:
        ConfigError: If there is no room; says what takes it, and what to set.
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
                f"{_source(resolved, path)}: {path} = {list(cfg.model.hidden)}: {sum(layers):,} weights take "
                f"{gigabytes(sum(layers) * WEIGHT)} at least, and this process has {gigabytes(free)} left; use "
                f"narrower layers{_smaller_space(layers, kind)}"
            )
    refuse(problems)


def weights_of(cfg: AlgorithmConfig, kind: Kind) -> list[int]:
    """Returns the weights of each layer of a policy's network, from its first to the one that puts out what actions are
    chosen by; nothing of a user's own network. Networks of pictures and sets do not count.
    """
    if not isinstance(cfg.model, ModelConfig) or cfg.model.module is not None:
        return []
    outputs = kind.action.num_parameters * getattr(cfg.head, "atoms", 1)
    widths = (_inputs(kind.obs.own), *cfg.model.hidden, outputs)
    return [before * after for before, after in pairwise(widths)]


def note_memory(name: str, entry: PolicyEntry, kind: Kind, note: Callable[[str], None]) -> None:
    """Notes what a policy will take of the RAM because of its spaces, if it is much; arguments as of `memory_line`."""
    if line := memory_line(name, entry, kind):
        note(line)


def memory_line(name: str, entry: PolicyEntry, kind: Kind) -> str:
    """Returns a line on the RAM that a policy will take because of its spaces, or an empty string if it is not much.

    Args:
        name: The policy's name.
        entry: Its settings.
        kind: The agents that it plays.
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
    way_out = _smaller_space(layers, kind) or ", or fewer decisions in a gradient step"
    return (
        f"policy {name} will take about {gigabytes(total)} of memory: its network has {sum(layers):,} weights, "
        f"from {first} of {_short(kind.obs.own.space)} to {last} of {_short(kind.action.space)}; less with narrower "
        f"layers (policies.{name}.model.hidden){way_out}"
    )


def _smaller_space(layers: Sequence[int], kind: Kind) -> str:
    """Returns how to make the space smaller that has most of the weights; empty where it is none that has many."""
    if max(layers[0], layers[-1]) < sum(layers) / 2:
        return ""
    if layers[0] >= layers[-1] and any(leaf.sizes for leaf in kind.obs.own.leaves):
        return ", or observations of numbers (Box) or several smaller categories (MultiDiscrete)"
    if layers[0] >= layers[-1]:
        return ", or smaller observations"
    return ", or several smaller choices (MultiDiscrete) in the place of one"


def _short(space: Any) -> str:
    """Returns a space as text, shortened."""
    text = str(space)
    return text if len(text) <= 60 else f"{text[:57]}..."


def explain_shortage(error: MemoryError | RuntimeError) -> None:
    """Explains an error that says that no memory is left; returns if it says something else.

    Raises:
        TrainingError: Instead of the error, with the settings that take most memory.
    """
    if not isinstance(error, MemoryError) and not any(text in str(error) for text in SHORTAGES):
        return
    raise TrainingError(
        f"there is not enough memory left ({' '.join(str(error).split())[:200] or 'MemoryError'}); what takes most "
        "is algorithm.model.hidden times algorithm.minibatch_size (or rollout_size), sampling.num_envs times "
        "algorithm.fragment_length, and algorithm.replay.capacity: use less of one of them"
    ) from error


def _rollout_problem(resolved: Resolved[RunConfig], name: str, rows: int, size: int, free: int) -> str:
    cfg = resolved.config.policies[name].algorithm
    setting = "fragment_length" if getattr(cfg, "rollout_size", None) is None else "rollout_size"
    path, value = f"policies.{name}.{setting}", getattr(cfg, setting)
    return (
        f"{_source(resolved, path)}: {path} = {value:,}: the {rows:,} decisions of an update take {gigabytes(size)} at "
        f"least, and this process has {gigabytes(free)} left; use at most {setting} = "
        f"{max(int(0.9 * value * free / size), 1):,}, or fewer sampling.num_envs"
    )


def _rows(cfg: AlgorithmConfig, slots: int) -> int:
    """Decisions that are kept for an update, at least; of an algorithm without fragments nobody knows."""
    length = _number(cfg, "fragment_length")
    return _number(cfg, "rollout_size") or length * slots if length else 0


def _number(cfg: Settings, name: str) -> int:
    """A setting that some algorithms have; 0 where there is none, or it is none."""
    return int(getattr(cfg, name, None) or 0)


def _fragment_length(config: RunConfig) -> int:
    """The shortest fragments of a run's policies."""
    own = [entry.algorithm for entry in config.policies.values() if not entry.frozen]
    return min(_number(cfg, "fragment_length") for cfg in own or [config.algorithm])


def _inputs(obs: ObsSpec) -> int:
    """Numbers of an observation as a network gets them, without those of pictures and sets, which it encodes first."""
    plain = [leaf for leaf in obs.leaves if not leaf.is_image and leaf.kind not in ("entities", "mask")]
    return sum(sum(leaf.sizes) or int(np.prod(leaf.shape, dtype=np.int64)) for leaf in plain)


def _source(resolved: Resolved[RunConfig], path: str) -> str:
    """Who set a setting."""
    return resolved.history[path][-1][0]
