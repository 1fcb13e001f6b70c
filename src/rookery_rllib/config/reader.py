"""A configuration of 2021 during translation: `Reader`, the argument of functions of keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rookery.face import show
from rookery_rllib.config.algorithms import APEX_KIND, DEFAULT_POLICY_ID, DQN_KIND, EVOLUTION, IMPALA_KIND

Values = dict[str, Any]

MOST_IN_A_ROW = 16
"""Longest sequence that QMIX learns from, in decisions; RLlib uses whole episodes."""


@dataclass
class Reader:
    """A configuration under translation.

    Attributes:
        algorithm: Its name, ``PPO``.
        config: All keys, with defaults for those not set.
        given: The keys that were set, dotted.
        agents: Agents of this policy in an environment; 1 if unknown.
        env_agents: Agents of all policies in an environment; 1 if unknown.
        cluster: Address of the cluster that workers run on; empty = in this process.
        script_keys: Keys that a script's trainer adds, which only its own code reads.
        notes: Lines to print once.
        problems: Lines of the error to raise.
    """

    algorithm: str
    config: Mapping[str, Any]
    given: frozenset[str]
    agents: int = 1
    env_agents: int = 1
    cluster: str = ""
    script_keys: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """Returns the value of a dotted key; None if a section has no such key."""
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def refuse(self, key: str, why: str) -> None:
        self.problems.append(f"rllib config: {key} = {show(self.get(key))}: {why}")

    def whole(self, key: str, least: int = 0) -> int:
        """Returns a whole number of at least `least`; else adds a problem and returns `least`."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
            self.refuse(key, f"must be a whole number of at least {least}")
            return max(least, 1)
        return int(value)

    def number(self, key: str) -> float:
        """Returns a number; else adds a problem and returns 1."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.refuse(key, "must be a number")
            return 1.0
        return float(value)

    @cached_property
    def lanes(self) -> int:
        """Returns the number of environments."""
        return max(self.whole("num_workers"), 1) * self.whole("num_envs_per_worker", 1)

    @cached_property
    def workers(self) -> int:
        """Returns the number of workers on a cluster; 0 = this process steps the environments."""
        return self.whole("num_workers") if self.cluster else 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers on a cluster continue during learning."""
        is_async = self.algorithm in (*IMPALA_KIND, *APEX_KIND) or bool(self.get("sample_async"))
        return self.workers > 0 and is_async and self.algorithm not in ("A3C", "PG", *EVOLUTION)

    @cached_property
    def fragment(self) -> int:
        """Returns the env steps of an environment in a round."""
        length = self.whole("rollout_fragment_length", 1)
        if self.algorithm in DQN_KIND:  # as in RLlib: a window fits into a round
            length = max(length, self.whole("n_step", 1))
        return length

    @cached_property
    def round(self) -> int:
        """Returns the env steps of all environments in a round."""
        return self.fragment * self.lanes

    @cached_property
    def rounds(self) -> int:
        """Returns the rounds of a batch: the fewest that reach ``train_batch_size``."""
        if self.algorithm in ("DDPPO", "A3C"):
            return 1
        by_agents = self.get("multiagent.count_steps_by") == "agent_steps"
        steps = self.round * (self.env_agents if by_agents else self.rows_per_step)
        return self.pieces * math.ceil(self.piece_size / steps)

    @cached_property
    def piece_size(self) -> int:
        """Returns the steps whose gradient is computed at once: those of a microbatch of A2C, or of a batch."""
        micro = self.algorithm == "A2C" and self.get("microbatch_size") is not None
        return self.whole("microbatch_size" if micro else "train_batch_size", 1)

    @property
    def pieces(self) -> int:
        """Returns the microbatches of a batch, whose gradients A2C adds."""
        return math.ceil(self.whole("train_batch_size", 1) / self.piece_size)

    @cached_property
    def counts_rows(self) -> bool:
        """Returns whether steps are rows of agents: where the only policy is ``default_policy``, batches of RLlib are
        plain ones, whose length is their rows; with other names their length is in env steps.
        """
        names = self.get("multiagent.policies") or (DEFAULT_POLICY_ID,)
        return list(names) == [DEFAULT_POLICY_ID]

    @property
    def rows_per_step(self) -> int:
        """Returns by how much an env step counts."""
        return self.env_agents if self.counts_rows else 1

    @cached_property
    def in_a_row(self) -> int:
        """Returns the length of a sequence that QMIX learns from."""
        return min(self.whole("model.max_seq_len", 1), MOST_IN_A_ROW)


Function = Callable[[Reader], Values]
