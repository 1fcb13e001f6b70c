"""What learning from a replay memory has in common: experience is stored, then gradient steps are made that are due.

A round is one call of `training_step`. How many gradient steps belong to it says `updates_per_step`; what is left over
of a step is owed to the next round, so that the ratio holds whatever the number of environment copies. `learn` makes
gradient steps on the memory alone: no environment is needed for it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.core.batch import Demand, Rollout, Transitions
from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.metrics import Means, Metrics
from rookery.core.optim import Optimizer
from rookery.core.seeding import Role, Streams
from rookery.policies.policy import Policy
from rookery.replay.memory import ReplayConfig, ReplayMemory
from rookery.replay.mixture import Mixture


class OffPolicySettings(Protocol):
    """What `OffPolicy` reads from an algorithm's settings; each settings class has its own defaults."""

    @property
    def batch_size(self) -> int:
        """Decisions (or sequences) in a gradient step."""
        ...

    @property
    def learning_starts(self) -> int:
        """Decisions in the memory before learning begins."""
        ...

    @property
    def train_every(self) -> int:
        """Decisions from one round to the next."""
        ...

    @property
    def updates_per_step(self) -> float:
        """Gradient steps for each decision."""
        ...

    @property
    def replay(self) -> ReplayConfig:
        """The memory."""
        ...


ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)


class OffPolicy(Algorithm[ConfigT], Generic[ConfigT]):
    """Improves one policy from a memory of what was played, by itself or by others.

    Attributes:
        memory: What was played.
        owed: Gradient steps that are due, with the part of one that is left over.
        gradient_steps: Made so far.
    """

    saved: ClassVar[tuple[str, ...]] = ("memory", "owed", "gradient_steps", "means")
    fixed: ClassVar[tuple[str, ...]] = ("pace", "device")
    corrects_staleness: ClassVar[bool] = True  # whose play it is does not matter

    def __init__(self, policy: Policy, cfg: ConfigT, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        settings: Any = cfg
        self.pace: OffPolicySettings = settings
        if settings.replay.capacity < settings.batch_size:
            raise ConfigError(
                f"policies.{name}.batch_size = {settings.batch_size:,} is more than the memory holds: policies.{name}."
                f"replay.capacity = {settings.replay.capacity:,}; make it at least as large"
            )
        self.memory: ReplayMemory | Mixture = ReplayMemory(
            policy.obs_spec,
            policy.action_spec,
            settings.replay,
            streams.generator(Role.REPLAY, name),
            memory_size=policy.memory_size,
            memory_every=policy.memory_every(self.demand.fragment_length) if policy.memory_size else 1,
        )
        self.device = device_of(policy)
        """Where the networks are."""
        self.owed = 0.0
        self.gradient_steps = 0
        self.means = Means()
        """Over the gradient steps since the last `summary`."""
        self.explore()

    @property
    def demand(self) -> Demand:
        """`train_every` decisions, of however many slots."""
        return Demand(self.pace.train_every, self.pace.train_every)

    def training_step(self, rollout: Rollout) -> Row:
        """A round: stores what was played, then makes the gradient steps that are due. `summary` tells of them."""
        self.store(rollout)
        self.updates += 1
        self.learn_round(rollout.num_decisions)
        return {}

    def learn_round(self, decisions: int) -> None:
        """The gradient steps that belong to so many decisions, whenever these were made."""
        if not self.is_warming_up and len(self.memory):
            self.owed += self.pace.updates_per_step * decisions
            due = int(self.owed)
            self.owed -= due
            self.learn(due)
        self.explore()

    def store(self, rollout: Rollout) -> None:
        """Keeps what was played."""
        self.memory.add(rollout)

    def learn(self, gradient_steps: int) -> None:
        """Gradient steps on the memory alone.

        Raises:
            ConfigError: If there is nothing in it.
        """
        if gradient_steps:
            self.check_memory()
        for _ in range(gradient_steps):
            self.means.add(self.update())
            self.gradient_steps += 1

    def check_memory(self) -> None:
        """Raises a ConfigError if there is nothing to learn from."""
        if not len(self.memory):
            raise ConfigError(
                f"policy {self.name!r}: its replay memory is empty, so there is nothing to learn from; play first "
                "(trainer.collect), or start from a memory that there is (--memory PATH)"
            )

    def sample(self, batch_size: int, *, n_step: int, gamma: float, beta: float) -> Transitions:
        """A batch of what was decided, where the networks are, observations as they take them."""
        rows = self.memory.sample(batch_size, n_step=n_step, gamma=gamma, beta=beta)
        if self.device.type != "cpu":
            rows = rows.to(self.device)
        if self.policy.normalizer is None:
            return rows
        return replace(rows, obs=self.policy.normalize(rows.obs), next_obs=self.policy.normalize(rows.next_obs))

    @abstractmethod
    def update(self) -> Metrics:
        """One gradient step of each network, on a batch from the memory; target networks follow."""

    @abstractmethod
    def explore(self) -> None:
        """Tells the policy's head how to try things out until the next round."""

    @property
    @abstractmethod
    def optimizers(self) -> tuple[Optimizer, ...]:
        """What moves its networks."""

    @property
    def is_warming_up(self) -> bool:
        """Whether play is still random: until so much was played, even if the memory was lost since."""
        return self.memory.total < self.pace.learning_starts

    def summary(self) -> Row:
        """Means over the gradient steps since the last call, and where the memory stands."""
        row = self.means.result()
        self.means = Means()
        return {
            **row,
            "memory": len(self.memory),
            "gradient_steps": self.gradient_steps,
            "skipped_steps": sum(self.check_finite(optimizer) for optimizer in self.optimizers),
            "updates": self.updates,
        }
