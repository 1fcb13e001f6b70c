"""Pool of one of several learners: each plays a share of the lanes, in rounds that all of them agree on.

The demand of a policy is met by all ranks together. So that this falls into the same round for all, whatever their
agents do, ranks exchange their counters, and then each plays as many vector steps as cannot overshoot any demand.
Agents may take turns, join late and die: a rank without data of a policy whose demand is met returns a rollout without
fragments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rookery.cluster.ranks import Ranks
from rookery.core.batch import Demand, Rollout
from rookery.core.spaces.arrays import Tree
from rookery.core.state import Stateful
from rookery.envs.base import Kind
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.pool import LocalPool
from rookery.rollout.remote.shares import LaneShare
from rookery.rollout.worker import RolloutWorker, Sample


class RankStanding(Stateful):
    """Counters of all ranks together.

    Attributes:
        until: Vector steps that every rank shall reach; a rank behind has met a missing policy, or rests.
        behind: Whether a rank has not reached them.
        env_steps: Environment steps of all ranks so far.
        lane_steps: These, and steps in which lanes rested.
        complete: Decisions of each policy that learns, of all ranks, that are not handed out yet.
        slots: Its slots at all ranks.
        taken: Decisions that were taken from stores last, by policy.
        handed: Decisions that were handed out last, by policy.
    """

    saved = ("until", "behind", "env_steps", "lane_steps", "complete", "slots", "taken", "handed")

    def __init__(self) -> None:
        self.until = self.env_steps = self.lane_steps = 0
        self.behind = False
        self.complete: dict[str, int] = {}
        self.slots: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        self.handed: dict[str, int] = {}


class RankedPool(LocalPool):
    """Pool of the worker of one of several learners.

    Args:
        worker: Worker of the lanes of this rank.
        share: These lanes.
        ranks: All learners.
        staleness: 1 if `play_ahead` will be called.
        inference_batch_envs: Lanes whose agents decide together where torch computes a policy; None = all of this rank.

    Attributes:
        demands: Demand of each policy that learns, for all ranks together.
        standing: Counters of all ranks together.
    """

    saved = ("standing",)
    fixed = ("share", "ranks", "demands")

    def __init__(
        self,
        worker: RolloutWorker,
        share: LaneShare,
        ranks: Ranks,
        staleness: int,
        inference_batch_envs: int | None = None,
    ) -> None:
        super().__init__(worker, staleness, inference_batch_envs)
        self.share, self.ranks = share, ranks.thread_group()
        self.demands: dict[str, Demand] = {}
        self.standing = RankStanding()

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to the worker; `demand` is for all ranks together, None = frozen."""
        self.policies[name] = policy
        own = None if demand is None else replace(demand, decisions=None)
        self.worker.add_policy(
            name, policy, own, self.share.first * self.worker.agents_of(name), self.inference_batch_envs
        )
        store = self.worker.policies[name].store
        if demand is not None and store is not None:
            store.by_request = True
            self.demands[name] = demand

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play."""
        super().retire(name)
        self.demands.pop(name, None)

    def delivered(self, name: str, rollout: Rollout) -> int:
        """Returns the number of decisions that all ranks received with a rollout."""
        return self.standing.handed[name]

    def undelivered(self, name: str) -> int:
        """Returns the number of complete decisions of a policy at all ranks not handed out yet."""
        return 0 if self.staleness else self.standing.complete.get(name, 0)

    @property
    def passed(self) -> int:
        """Lane steps of all ranks so far."""
        return self.standing.lane_steps

    def sample(self, max_env_steps: int) -> Sample:
        """Plays, see `WorkerPool.sample`: until a demand is met, or all ranks together have made this number of
        steps.
        """
        sample = super().sample(max_env_steps)
        self.standing.handed = {name: self.standing.taken[name] for name in sample.rollouts}
        return sample

    def play(self, max_env_steps: int) -> Sample:
        """Plays, regardless of a sample that was played ahead."""
        standing, limit = self.standing, self.passed + max_env_steps
        finished: list[EpisodeResult] = []
        while True:
            if not standing.behind:
                standing.until += self._most_steps(limit)
            newcomers = self._play(finished)
            lengths, count, resting, missing = self._exchange_counters(newcomers)
            if missing:
                newcomers = {name: kind for some in self.ranks.gather(newcomers) for name, kind in some.items()}
            rollouts = {} if missing else self._met_demands()
            if missing or rollouts or self.passed >= limit or resting:
                break
        at = standing.env_steps, standing.lane_steps, resting, lengths / max(1, count)
        return Sample(rollouts, newcomers, finished, *at, self.worker.counters())

    def _most_steps(self, limit: int) -> int:
        """Returns vector steps that overshoot no demand and no limit."""
        lanes = self.worker.env.num_lanes * self.ranks.size
        steps = -(-(limit - self.passed) // lanes)
        for name in self.demands:
            slots = self.standing.slots.get(name, 0)  # 0 of a policy without agents so far: some may join at any moment
            steps = min(steps, -(-(self._wanted(name) - self.standing.complete.get(name, 0)) // slots) if slots else 1)
        return max(steps, 1)

    def _wanted(self, name: str) -> int:
        """Returns decisions of all ranks per update; 0 before the first slot, when this is not known yet."""
        demand = self.demands[name]
        return demand.decisions or demand.fragment_length * self.standing.slots.get(name, 0)

    def _play(self, finished: list[EpisodeResult]) -> dict[str, Kind]:
        """Plays until `until`, a policy is missing, or all lanes here rest; adds ended episodes to `finished`."""
        worker = self.worker
        while (left := self.standing.until - worker.vector_steps) > 0:
            sample = worker.sample(left * worker.env.num_lanes)
            finished += map(self.share.placed, sample.finished)
            if sample.newcomers or sample.resting:
                return sample.newcomers
        return {}

    def _exchange_counters(self, newcomers: Mapping[str, Kind]) -> tuple[float, float, bool, bool]:
        """Exchanges counters with the other ranks.

        Returns:
            Summed lengths of the running episodes; their number; whether all environments rest; whether a policy is
            missing.
        """
        worker, own = self.worker, []
        for name in self.demands:
            store = worker.policies[name].store
            assert store is not None
            own += [store.complete, store.num_slots]
        at = worker.vector_steps, worker.env_steps, worker.lane_steps, *worker.running_lengths()
        reported = self.ranks.numbers(*at, worker.resting, bool(newcomers), *own)
        steps, env_steps, lane_steps, lengths, counts, resting, missing, *numbers = zip(*reported, strict=True)
        standing, totals = self.standing, [int(sum(each)) for each in numbers]
        standing.behind = min(steps) < standing.until
        standing.env_steps, standing.lane_steps = int(sum(env_steps)), int(sum(lane_steps))
        standing.complete = dict(zip(self.demands, totals[::2], strict=True))
        standing.slots = dict(zip(self.demands, totals[1::2], strict=True))
        return sum(lengths), sum(counts), all(resting), any(missing)

    def _met_demands(self) -> dict[str, Rollout]:
        """Returns this rank's data of the policies whose demand is met."""
        rollouts, standing = {}, self.standing
        for name in self.demands:
            if not 0 < self._wanted(name) <= standing.complete[name]:
                continue
            mine = self.worker.policies[name]
            assert mine.store is not None
            rollouts[name] = mine.store.drain(self._seen(mine.kind, mine.policy), mine.row_of_slot)
            standing.taken[name], standing.complete[name] = standing.complete[name], 0
        return rollouts

    def _seen(self, kind: int, policy: Policy) -> Tree:
        """Returns the current observations of a kind of agents; none for a policy without agents here."""
        assert self.worker.now is not None
        return self.worker.now.rows[kind].obs if kind >= 0 else policy.obs_spec.allocate(0)

    def close(self) -> None:
        """Closes the environments, and leaves the other ranks, which notice it at once."""
        super().close()
        self.ranks.close()
