"""Where the workers are: one in this process.

The trainer speaks to the pool only, so that more workers elsewhere change nothing.
"""

from __future__ import annotations

from rookery.core.batch import Demand, Rollout
from rookery.core.state import Stateful
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.worker import RolloutWorker


class WorkerPool(Stateful):
    """One local worker."""

    saved = ("worker",)

    def __init__(self, worker: RolloutWorker) -> None:
        self.worker = worker

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Seats a policy at every worker; `demand` None = frozen."""
        self.worker.add_policy(name, policy, demand)

    def sample(self, max_env_steps: int) -> dict[str, Rollout]:
        """Plays until a learner's demand is met or `max_env_steps` have passed."""
        return self.worker.sample(max_env_steps)

    def set_weights(self, policies: dict[str, Policy]) -> None:
        """Hands out weights and normalizers."""
        self.worker.set_weights(policies)

    def drain_finished(self) -> list[EpisodeResult]:
        """Episodes finished since the last call, in the order they ended."""
        return self.worker.drain_finished()

    def counters(self) -> dict[str, int]:
        """What could not be learned from as it should, so far."""
        return self.worker.counters()

    def close(self) -> None:
        """Frees the environments."""
        self.worker.env.close()
