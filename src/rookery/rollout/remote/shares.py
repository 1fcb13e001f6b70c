"""A share of a run's lanes, and the worker that plays it wherever it is.

Lanes and slots are numbered for the whole run, so a share plays what one worker of all lanes would have played there:
the same episodes, the same random numbers. `RemotePool` puts the shares' experience together again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import Demand, Rollout
from rookery.core.process.activity import STEP, is_noted, note_activity
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import own_torch
from rookery.core.timers import Timers
from rookery.envs.base import Kind
from rookery.envs.vector.closing import close_env
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.worker import RolloutWorker


@dataclass(frozen=True)
class LaneShare:
    """Some lanes of a run, one after the other.

    Attributes:
        number: Which share, from 0.
        first: Number of its first lane in the whole run.
        lanes: How many.
        skipped: ``[lanes]`` episodes of each lane that others have played before, or lost.
    """

    number: int
    first: int
    lanes: int
    skipped: tuple[int, ...]

    def place(self, lane: int, episode: int) -> tuple[int, int]:
        """Returns the lane and episode in the whole run of what is (lane, episode) here."""
        return self.first + lane, episode + self.skipped[lane]

    def placed(self, episode: EpisodeResult) -> EpisodeResult:
        """Returns an episode of the share with its lane and number in the whole run."""
        lane, index = self.place(episode.lane, episode.index)
        return replace(episode, lane=lane, index=index)


def shares_of(lanes: int, shares: int, group: int = 1) -> list[LaneShare]:
    """Divides lanes into shares of almost the same size.

    Args:
        lanes: Of the whole run.
        shares: How many; at most one for each group.
        group: Lanes that stay together; the last group may have fewer.
    """
    groups = -(-lanes // group)
    bounds = [min(groups * number // shares * group, lanes) for number in range(shares + 1)]
    return [
        LaneShare(number, low, high - low, (0,) * (high - low)) for number, (low, high) in enumerate(pairwise(bounds))
    ]


class ShareMapping(PolicyMapping):
    """Answers as the mapping of the whole run does, for the lanes of a share.

    Args:
        whole: That mapping.
        share: The share.
    """

    def __init__(self, whole: PolicyMapping, share: LaneShare) -> None:
        super().__init__(whole.rule, whole.policies)
        self._whole, self._share = whole, share
        self.is_static, self.moves, self.spaces = whole.is_static, whole.moves, whole.spaces

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """Says who plays an agent, see `PolicyMapping`."""
        lane, index = self._share.place(episode.lane, episode.index)
        return self._whole(agent, EpisodeInfo(lane, index, episode.streams, episode.parameters))


@dataclass(frozen=True)
class PlayReport:
    """What a share says after it has played.

    Attributes:
        vector_steps: Where it stands.
        env_steps: Environment steps since it said so last.
        lane_steps: These, and those in which lanes rested.
        complete: Complete decisions of each policy that have not been handed over.
        pending: Decisions, of all policies that learn, that are made and wait for what comes of them.
        slots: Slots of each policy that learns.
        kinds: Number of the kind of agents that each policy plays.
        rollouts: Experience that was asked for and is complete, by policy.
        finished: Episodes that ended, lanes and numbers those of the whole run.
        newcomers: Policies that are missing; nothing more is played until they are added.
        episode: ``[lanes]`` number of the running episode of each lane in the whole run.
        resting: Whether all its copies rest.
        running: Summed lengths of the episodes that are running, and how many these are.
        counters: What could not be learned from as it should, so far.
        reported: Numbers that the environment has reported since it was asked last.
        all_joined: Whether every agent has a slot by now, so that slots are numbered as in the whole run.
        acted: Decisions of all policies since they were added.
        seconds: How long playing took here.
        timers: What took how long, as `Timers` give it.
    """

    vector_steps: int
    env_steps: int
    lane_steps: int
    complete: dict[str, int]
    pending: int
    slots: dict[str, int]
    kinds: dict[str, int]
    rollouts: dict[str, Rollout]
    finished: list[EpisodeResult]
    newcomers: dict[str, Kind]
    episode: np.ndarray
    resting: bool
    running: tuple[int, int]
    counters: dict[str, int]
    reported: dict[str, Any]
    all_joined: bool
    acted: int
    seconds: float
    timers: dict[str, Any]


class ShareWorker:
    """Plays a share of the lanes of a run, with the engine of one machine inside.

    Args:
        share: Which lanes.
        make: Makes the worker of these lanes, without policies.
        vector_step: How many vector steps the run has made, if it is under way.

    Attributes:
        interrupt: Once its number is set, `play` returns after the vector step under way.
    """

    def __init__(self, share: LaneShare, make: Callable[[LaneShare], RolloutWorker], vector_step: int = 0) -> None:
        self.share = share
        self.interrupt = Interrupt()
        self.worker = make(share)
        self.worker.interrupt = self.interrupt
        self.worker.vector_steps = vector_step
        self.worker.env_steps = vector_step * share.lanes  # of whoever had the lanes before, and counted there
        self._make = make
        self._before = vector_step
        """Clock that slots begin with: no two decisions of a slot have one clock, whoever played the lanes before."""
        self._sources: dict[str, Policy] = {}
        self._counted = self.worker.env_steps, self.worker.lane_steps

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(self, name: str, policy: Policy, demand: Demand | None, lane_group: int | None) -> None:
        """Adds a policy; see `RolloutWorker.add_policy`."""
        if demand is not None:
            demand = replace(demand, decisions=None)
        self._sources[name] = policy
        self.worker.add_policy(name, policy, demand, self.share.first * self.worker.played_by(name), lane_group)
        store = self.worker.policies[name].store
        if store is not None:
            store.first_clock, store.by_request = self._before, True

    def retire(self, name: str) -> None:
        """Lets a policy play on without anything being kept of it."""
        self.worker.retire(name)

    def set_weights(self, version: int, weights: Mapping[str, list[np.ndarray]]) -> None:
        """Takes over weights and normalizers.

        Args:
            version: Their number in the whole run.
            weights: By policy, what `packed_weights` gave.
        """
        for name, arrays in weights.items():
            with torch.no_grad():
                for mine, array in zip(_tensors_of(self._sources[name]), arrays, strict=True):
                    mine.copy_(_as_tensor(array))
        self.worker.version = version - 1
        self.worker.set_weights({name: self._sources[name] for name in weights})

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Lets the next episodes have other lessons; see `RolloutWorker.change_lessons`."""
        self.worker.change_lessons(lessons, restart)

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(
        self,
        until: int,
        expected: Mapping[str, int] | None,
        threads: int,
        version: int,
        names: Sequence[str],
        *weights: list[np.ndarray],
    ) -> PlayReport:
        """Plays until so many vector steps are made, all lanes rest, a policy is missing, or `interrupt` is set.

        Args:
            until: Vector steps of the run, this share's own count.
            expected: Policies whose experience is handed over if, then, so many of its decisions are complete here;
                None = all that is complete.
            threads: Threads of torch to act with.
            version: Number of the weights to play with from here on.
            names: Policies that get weights now.
            weights: Of each of them, as of `set_weights`.
        """
        note_activity(STEP)  # from here on, so that a process that is frozen now is not waited for as for a reset
        start, worker = perf_counter(), self.worker
        worker.is_watched = is_noted()
        worker.timers = timers = Timers()
        newcomers: dict[str, Kind] = {}
        finished: list[EpisodeResult] = []
        with own_torch(threads):
            if names:
                self.set_weights(version, dict(zip(names, weights, strict=True)))
            while (left := until - worker.vector_steps) > 0 and not newcomers:
                sample = worker.sample(left * self.share.lanes)
                newcomers = sample.newcomers
                finished += sample.finished
                if sample.resting or self.interrupt.number is not None:
                    break
        stores = {name: policy.store for name, policy in worker.policies.items() if policy.store is not None}
        if expected is None:
            ready = [name for name, store in stores.items() if store.complete]
        else:
            ready = [name for name, count in expected.items() if name in stores and stores[name].complete == count > 0]
        rollouts = self.take(ready)
        reported = getattr(worker.env, "reported", None)
        played = worker.env_steps, worker.lane_steps
        before, self._counted = self._counted, played
        return PlayReport(
            vector_steps=worker.vector_steps,
            env_steps=played[0] - before[0],
            lane_steps=played[1] - before[1],
            complete={name: store.complete for name, store in stores.items()},
            pending=sum(store.pending for store in stores.values()),
            slots={name: store.num_slots for name, store in stores.items()},
            kinds={name: policy.kind for name, policy in worker.policies.items()},
            rollouts=rollouts,
            finished=list(map(self.share.placed, finished)),
            newcomers=newcomers,
            episode=worker.env.episode + np.array(self.share.skipped),
            resting=worker.resting,
            running=worker.running_lengths(),
            counters=worker.counters(),
            reported={} if reported is None else reported.take(),
            all_joined=bool(worker.tables) and all(bool((table.policy_of >= 0).all()) for table in worker.tables),
            acted=sum(policy.acted for policy in worker.policies.values()),
            seconds=perf_counter() - start,
            timers=timers.state_dict(),
        )

    def take(self, names: list[str]) -> dict[str, Rollout]:
        """Hands over all complete decisions of some policies, on memory of their own."""
        note_activity(STEP)
        worker, found = self.worker, {}
        for name in names:
            mine = worker.policies[name]
            assert worker.now is not None and mine.store is not None
            rollout = mine.store.take(worker.now.rows[mine.kind].obs, mine.row_of_slot)
            found[name] = rollout.map(lambda _, tensor: tensor.clone(memory_format=torch.contiguous_format))
        return found

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, the environments in the middle of their episodes included."""
        return {"share": asdict(self.share), "before": self._before, "worker": self.worker.state_dict()}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Takes up the environments of a state; see `RolloutWorker.load_env`."""
        saved = LaneShare(**{**state["share"], "skipped": tuple(state["share"]["skipped"])})
        if saved != self.share:  # these lanes had been lost and begun anew
            close_env(self.worker.env, self.worker.env.name)
            self.share, self.worker = saved, self._make(saved)
            self.worker.interrupt = self.interrupt
        self._before = state["before"]
        return self.worker.load_env(state["worker"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, after `load_env`, once all its policies are added."""
        self.worker.load_state_dict(state["worker"])
        for name, mine in self.worker.policies.items():
            if name in self._sources:
                with torch.no_grad():
                    torch._foreach_copy_(_tensors_of(self._sources[name]), _tensors_of(mine.policy))
        self._counted = self.worker.env_steps, self.worker.lane_steps

    def close(self) -> None:
        """Frees the environments."""
        close_env(self.worker.env, self.worker.env.name)


def packed_weights(policy: Policy) -> list[np.ndarray]:
    """Returns the weights and statistics of a policy as arrays that can be sent anywhere; bfloat16 as float32."""
    arrays = []
    for tensor in _tensors_of(policy):
        plain = tensor.detach().cpu()
        arrays.append((plain.float() if plain.dtype is torch.bfloat16 else plain).numpy())
    return arrays


def _tensors_of(policy: Policy) -> list[Tensor]:
    return [*policy.parameters(), *policy.buffers()]


def _as_tensor(array: np.ndarray) -> Tensor:
    """A tensor of an array that may be read-only; it is only read here."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
