"""What learning from replay has in common: a buffer of experience, and the pace at which gradient steps are due.

An off-policy algorithm holds one `Replay`: an update stores what was played, asks how many gradient steps are due
(`Algorithm.take`), and draws a batch for each (`Algorithm.learn`). How many belong to a decision says
`updates_per_step`; a part of a step that is left over stays owed, so that the ratio holds whatever the number of
environment copies.
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
    """What can be set of every algorithm that learns from replay; each gives defaults of its own where they differ."""

    lr: Scheduled[PositiveFloat] = 3e-4
    """Learning rate of Adam, for everything that learns."""
    gamma: Fraction = 0.99
    """Discount of the environment's reward."""
    n_step: Few = 1
    """Decisions whose rewards a target counts before it trusts a value; they are those of the policy that played."""
    batch_size: Rows = 256
    """Decisions in a gradient step; sequences, if the policy remembers."""
    learning_starts: CountFromZero = 1000
    """Decisions in the memory before learning begins; until then actions are random."""
    train_every: Structural[Count] = 1
    """Decisions, of all slots together, from one round of gradient steps to the next; a vector step is the least."""
    updates_per_step: NonNegative = 1.0
    """Gradient steps for each decision: 0.25 = one for four."""
    max_grad_norm: PositiveFloat | None = None
    """Longest gradient; longer ones are scaled down. None = any."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The replay buffer."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(256, 256), activation="relu"))
    """The networks."""


NEVER = 10
"""How many times the decisions that learning waits for one rank may store while another has none."""


class Replay(Stateful):
    """Holds the experience that an algorithm learns from, and counts the gradient steps that are due and made.

    Args:
        policy: The policy that learns; its normalizer and its device apply to the batches that are drawn.
        cfg: The algorithm's settings.
        streams: The run's random streams.
        name: The policy's name, for streams and messages.
        with_memory: Whether what the policy remembers is kept beside its decisions, if it remembers anything.

    Attributes:
        buffer: The experience.
        owed: The part of a gradient step that is left over.
        gradient_steps: Gradient steps made so far.

    Raises:
        ConfigError: If a batch is larger than the buffer, or the machine has not enough RAM for it.
    """

    saved = ("buffer", "owed", "gradient_steps", "means")
    fixed = ("policy", "cfg", "name", "device", "everywhere", "least")

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
        """Where the networks are."""
        self.everywhere: Callable[..., Sequence[Sequence[float]]] | None = None
        """Gives the numbers of all ranks, given this one's; None = there is one."""
        self.least: int | None = None
        """Decisions that the rank has stored that has stored fewest; None of one alone, or before they said so."""
        self.owed = 0.0
        self.gradient_steps = 0
        self.means = Means()
        """Metrics of the gradient steps since the last `summary`."""

    @property
    def own(self) -> ReplayBuffer:
        """The buffer that this run's play is added to, where batches are mixed from several."""
        return self.buffer.own if isinstance(self.buffer, Mixture) else self.buffer

    @property
    def demand(self) -> Demand:
        """Asks for `train_every` decisions, of however many slots, whoever chose them."""
        return Demand(self.cfg.train_every, self.cfg.train_every, any_actions=True)

    @property
    def is_warming_up(self) -> bool:
        """Whether play is still random: until `learning_starts` decisions were stored, even if they were lost since."""
        return (self.buffer.total if self.least is None else self.least) < self.cfg.learning_starts

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw from, at one of the ranks at least."""
        return not (len(self.buffer) if self.least is None else self.least)

    def store(self, rollout: Rollout) -> float:
        """Adds what was played to the buffer; returns the decisions to make gradient steps for."""
        if decisions := rollout.num_decisions:
            self.buffer.add(rollout)
        return decisions if self.everywhere is None else self._agreed(decisions)

    def _agreed(self, decisions: int) -> float:
        """Hears what the other ranks have stored; returns the mean of what each has played, so that all make as many
        gradient steps.

        Raises:
            TrainingError: If one of them never plays the policy.
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
        """Returns how many gradient steps to make for so many decisions more; what is left over stays owed."""
        if self.is_warming_up or self.is_empty:
            return 0
        whole, self.owed = divmod(self.owed + self.cfg.updates_per_step * decisions, 1.0)
        return int(whole)

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """Draws decisions, on the networks' device, with normalized observations; see `ReplayBuffer.sample`."""
        rows = self.buffer.sample(batch_size, n_step=n_step, gamma=gamma, beta=beta).to(self.device)
        if self.policy.normalizer is None:
            return rows
        return replace(rows, obs=self.policy.normalize(rows.obs), next_obs=self.policy.normalize(rows.next_obs))

    def steps(self, rows: Transitions) -> WindowSteps:
        """Returns the decisions that the windows of a batch consist of, raw, on the networks' device."""
        return self.buffer.steps(rows.row.cpu(), n_step=self.cfg.n_step, gamma=self.cfg.gamma).to(self.device)

    def sample_sequences(self, number: int, *, length: int, beta: float) -> SampledSequences:
        """Draws sequences, on the networks' device; see `ReplayBuffer.sample_sequences`."""
        drawn = self.buffer.sample_sequences(number, length=length, beta=beta)
        if self.device.type == "cpu":
            return drawn
        rollout = drawn.rollout.map(lambda _, tensor: tensor.to(self.device))
        return replace(drawn, rollout=rollout, weight=None if drawn.weight is None else drawn.weight.to(self.device))

    def update_priorities(self, row: Tensor, priority: Tensor | float, fragment: Tensor | None = None) -> None:
        """Tells a prioritized buffer how much there was to learn from what was drawn.

        Args:
            row: ``[F]`` serial numbers of rows or sequences, as they were drawn.
            priority: ``[N]`` at least 0: the size of each row's error, say; ``[K, N]``: the mean of K networks.
            fragment: ``[N]`` which of F sequences each row is of; None where rows were drawn by themselves.
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
        """Counts a gradient step and keeps its metrics for `summary`."""
        self.means.add(metrics)
        self.gradient_steps += 1

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes; what other ranks have stored too, if there are any."""
        return {**super().state_dict(), **({} if self.least is None else {"least": self.least})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self.least = state.get("least") if self.everywhere is not None else None
        super().load_state_dict({name: value for name, value in state.items() if name != "least"})

    def check_not_empty(self) -> None:
        """Refuses to learn from nothing.

        Raises:
            ConfigError: If the buffer is empty.
        """
        if self.is_empty:
            raise ConfigError(
                f"policy {self.name!r}: its replay buffer is empty, so there is nothing to learn from; play first "
                "(trainer.collect), or start from what another run has kept (--replay PATH)"
            )

    def summary(self) -> dict[str, float | int | None]:
        """Returns the means over the gradient steps since the last call, and how many decisions and steps there are."""
        row = self.means.result()
        self.means = Means()
        return {**row, "replay_size": len(self.buffer), "gradient_steps": self.gradient_steps}
