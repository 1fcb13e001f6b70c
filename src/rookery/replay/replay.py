"""Shared part of off-policy learning: a replay buffer, and the number of gradient steps per decision.

An off-policy algorithm holds one `Replay`: an update stores the rollout, computes the number of gradient steps
(`Algorithm.take`), and samples a batch for each (`Algorithm.learn`). `updates_per_step` is the number per decision;
fractions of a step are carried over, so that the ratio holds for any number of environments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from rookery.core.batch import Demand, Rollout, Transitions, WindowSteps
from rookery.core.device import device_of
from rookery.core.errors import ConfigError, TrainingError
from rookery.core.metrics import Means, Metrics
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import (
    Fraction,
    NonNegative,
    PositiveFloat,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.settings.reach import Count, CountFromZero, Few, Rows
from rookery.core.state import Stateful
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayBuffer, ReplayConfig, SampledSequences, sequence_priorities
from rookery.replay.mixture import Mixture


@dataclass(frozen=True)
class ReplaySettings(Settings):
    """Settings shared by all algorithms with replay; each may have its own defaults."""

    lr: Scheduled[PositiveFloat] = 3e-4
    """Learning rate of Adam, for all networks."""
    gamma: Fraction = 0.99
    """Discount of the environment's reward."""
    n_step: Few = 1
    """Number of rewards in an n-step target before it bootstraps."""
    batch_size: Rows = 256
    """Number of decisions in a gradient step; of sequences, if the policy has memory."""
    learning_starts: CountFromZero = 1000
    """Number of decisions in the buffer before learning begins; until then actions are random."""
    train_every: Structural[Count] = 1
    """Number of decisions, over all slots, between two rounds of gradient steps; at least one vector step."""
    updates_per_step: NonNegative = 1.0
    """Gradient steps per decision: 0.25 = one for every four decisions."""
    max_grad_norm: PositiveFloat | None = None
    """Largest norm of the gradient; longer ones are scaled down. None = no limit."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The replay buffer."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    """The networks."""


NEVER = 10
"""Factor on the decisions before learning that one rank may store while another has none."""


class Replay(Stateful):
    """Replay buffer of an algorithm with the count of its gradient steps.

    Args:
        policy: The learning policy; its normalizer and device apply to sampled batches.
        cfg: The algorithm's settings.
        streams: The run's random streams.
        name: The policy's name, for streams and messages.
        with_memory: Whether the policy's memory is stored with its decisions, if it has memory.

    Attributes:
        buffer: The experience.
        owed: Fraction of a gradient step that is carried over.
        gradient_steps: Gradient steps made so far.

    Raises:
        ConfigError: If a batch is larger than the buffer, or the machine has too little RAM for it.
    """

    saved = ("buffer", "owed", "gradient_steps", "means")
    fixed = ("policy", "cfg", "name", "device", "everywhere", "least", "taken")

    def __init__(
        self, policy: Policy, cfg: ReplaySettings, streams: Streams, name: str, *, with_memory: bool = True
    ) -> None:
        if cfg.replay.capacity < cfg.batch_size:
            raise ConfigError(
                f"policies.{name}.batch_size = {cfg.batch_size:,} is more than the replay buffer holds: policies.{name}"
                f".replay.capacity = {cfg.replay.capacity:,}; make it at least as large"
            )
        self.policy = policy
        self.cfg = cfg
        self.name = name
        size = policy.memory_size if with_memory else 0
        self.buffer: ReplayBuffer | Mixture = ReplayBuffer(
            policy.obs_spec,
            policy.action_spec,
            cfg.replay,
            streams.generator(Role.REPLAY, name),
            memory_size=size,
            memory_every=policy.memory_every(cfg.train_every) if size else 1,
        )
        self.device = device_of(policy)
        """Device of the networks."""
        self.everywhere: Callable[..., Sequence[Sequence[float]]] | None = None
        """Returns the numbers of all ranks, given this one's; None = a single rank."""
        self.least: int | None = None
        """Smallest number of stored decisions of any rank; None for a single rank, or before the first exchange."""
        self.taken = 0
        """Decisions that a script has sampled and may store elsewhere: they count as stored where learning begins."""
        self.owed = 0.0
        self.gradient_steps = 0
        self.means = Means()
        """Metrics of the gradient steps since the last `summary`."""

    @property
    def own(self) -> ReplayBuffer:
        """The buffer of this run's own experience, if batches are mixed from several."""
        return self.buffer.own if isinstance(self.buffer, Mixture) else self.buffer

    @property
    def demand(self) -> Demand:
        """Demand of `train_every` decisions, of any slots and any behaviour policy."""
        return Demand(self.cfg.train_every, self.cfg.train_every, any_actions=True)

    @property
    def is_warming_up(self) -> bool:
        """Whether actions are still random: until `learning_starts` decisions were stored, even if overwritten."""
        stored = self.buffer.total if self.least is None else self.least
        return max(stored, self.taken) < self.cfg.learning_starts

    @property
    def is_empty(self) -> bool:
        """Whether the buffer is empty on at least one rank."""
        return not (len(self.buffer) if self.least is None else self.least)

    def store(self, rollout: Rollout) -> float:
        """Adds a rollout to the buffer; returns the number of decisions to take gradient steps for."""
        if decisions := rollout.num_decisions:
            self.buffer.add(rollout)
        return decisions if self.everywhere is None else self._agreed(decisions)

    def _agreed(self, decisions: int) -> float:
        """Exchanges numbers of decisions with the other ranks; returns their mean, so that all take equally many
        gradient steps.

        Raises:
            TrainingError: If one of them never samples the policy.
        """
        assert self.everywhere is not None
        stored, played = zip(*self.everywhere(self.buffer.total, decisions), strict=True)
        self.least = int(min(stored))
        if not self.least and max(stored) > NEVER * max(self.cfg.learning_starts, self.cfg.batch_size):
            raise TrainingError(
                f"policy {self.name!r}: learner {stored.index(0)} of {len(stored)} has never played it, and so has "
                f"nothing to learn from, while another has stored {max(stored):,.0f} decisions: let it play in every "
                "copy, or set cluster.learners=1"
            )
        return float(sum(played)) / len(played)

    def due(self, decisions: float) -> int:
        """Returns the number of gradient steps for `decisions` more decisions; a fraction is carried over."""
        if self.is_warming_up or self.is_empty:
            return 0
        whole, self.owed = divmod(self.owed + self.cfg.updates_per_step * decisions, 1.0)
        return int(whole)

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Samples decisions, on the networks' device, with normalized observations; see `ReplayBuffer.sample`."""
        rows = self.buffer.sample(batch_size, n_step=n_step, gamma=gamma, beta=beta).to(self.device)
        if self.policy.normalizer is None:
            return rows
        return replace(rows, obs=self.policy.normalize(rows.obs), next_obs=self.policy.normalize(rows.next_obs))

    def steps(self, rows: Transitions) -> WindowSteps:
        """Returns the decisions in the windows of a batch, raw, on the networks' device."""
        return self.buffer.steps(rows.row.cpu(), n_step=self.cfg.n_step, gamma=self.cfg.gamma).to(self.device)

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Samples sequences, on the networks' device; see `ReplayBuffer.sample_sequences`."""
        drawn = self.buffer.sample_sequences(number, length=length, beta=beta)
        if self.device.type == "cpu":
            return drawn
        rollout = drawn.rollout.map(lambda _, tensor: tensor.to(self.device))
        return replace(drawn, rollout=rollout, weight=None if drawn.weight is None else drawn.weight.to(self.device))

    def update_priorities(self, row: Tensor, priority: Tensor | float, fragment: Tensor | None = None) -> None:
        """Updates the priorities of sampled rows in a prioritized buffer.

        Args:
            row: ``[F]`` serial numbers of sampled rows or sequences.
            priority: ``[N]`` at least 0, such as the absolute error of each row; ``[K, N]``: averaged over K networks.
            fragment: ``[N]`` index of each row's sequence; None if single rows were sampled.
        """
        if self.cfg.replay.kind == "uniform":
            return
        assert isinstance(priority, Tensor)
        priority = priority.mean(0) if priority.dim() == 2 else priority
        if fragment is not None:
            present, priority = sequence_priorities(priority, fragment, len(row))
            row = row[present.cpu()]
        self.buffer.update_priorities(row, priority)

    def record(self, metrics: Metrics) -> None:
        """Counts a gradient step and stores its metrics for `summary`."""
        self.means.add(metrics)
        self.gradient_steps += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns all mutable state; with the smallest count of all ranks, if there are several."""
        return {**super().state_dict(), **({} if self.least is None else {"least": self.least})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of `state_dict`."""
        self.least = state.get("least") if self.everywhere is not None else None
        super().load_state_dict({name: value for name, value in state.items() if name != "least"})

    def check_not_empty(self) -> None:
        """Checks that the buffer is not empty.

        Raises:
            ConfigError: If the buffer is empty.
        """
        if self.is_empty:
            raise ConfigError(
                f"policy {self.name!r}: its replay buffer is empty, so there is nothing to learn from; sample first "
                "(trainer.collect), or start from the replay of another run (--replay PATH)"
            )

    def summary(self) -> dict[str, float | int | None]:
        """Returns mean metrics of the gradient steps since the last call, and the numbers of decisions and steps."""
        row = self.means.result()
        self.means = Means()
        return {**row, "replay_size": len(self.buffer), "gradient_steps": self.gradient_steps}
