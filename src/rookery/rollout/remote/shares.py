"""A share of a run's lanes, and its worker on any host.

Lanes and slots are numbered for the whole run, so a share plays the same episodes with the same random numbers as one
worker of all lanes would. `RemotePool` joins the shares' experience.
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
from rookery.core.flat import copy_all
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
    """Consecutive lanes of a run.

    Attributes:
        number: Number of the share, from 0.
        first: Number of its first lane in the whole run.
        lanes: Number of lanes.
        skipped: ``[lanes]`` episodes of each lane that other workers have played before, or lost.
    """

    number: int
    first: int
    lanes: int
    skipped: tuple[int, ...]

    def place(self, lane: int, episode: int) -> tuple[int, int]:
        """Returns lane and episode in the whole run for (lane, episode) of the share."""
        return self.first + lane, episode + self.skipped[lane]

    def placed(self, episode: EpisodeResult) -> EpisodeResult:
        """Returns an episode of the share with its lane and number in the whole run."""
        lane, index = self.place(episode.lane, episode.index)
        return replace(episode, lane=lane, index=index)


def shares_of(lanes: int, shares: int, group: int = 1) -> list[LaneShare]:
    """Divides lanes into shares of almost the same size.

    Args:
        lanes: Lanes of the whole run.
        shares: Number of shares; at most one per group.
        group: Lanes that stay together; the last group may have fewer.
    """
    groups = -(-lanes // group)
    bounds = [min(groups * number // shares * group, lanes) for number in range(shares + 1)]
    return [
        LaneShare(number, low, high - low, (0,) * (high - low)) for number, (low, high) in enumerate(pairwise(bounds))
    ]


class ShareMapping(PolicyMapping):
    """Applies the mapping of the whole run to the lanes of a share.

    Args:
        whole: The mapping of the whole run.
        share: The share.
    """

    def __init__(self, whole: PolicyMapping, share: LaneShare) -> None:
        super().__init__(whole.rule, whole.policies)
        self._whole, self._share = whole, share
        self.is_static, self.moves, self.spaces = whole.is_static, whole.moves, whole.spaces

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """Returns the policy of an agent, see `PolicyMapping`."""
        lane, index = self._share.place(episode.lane, episode.index)
        return self._whole(agent, EpisodeInfo(lane, index, episode.streams, episode.parameters))


@dataclass(frozen=True)
class PlayReport:
    """Report of a share after it has played.

    Attributes:
        vector_steps: Vector steps made.
        env_steps: Environment steps since the last report.
        lane_steps: These, and steps in which lanes rested.
        complete: Complete decisions of each policy that have not been handed over.
        pending: Decisions of all policies that learn that wait for their outcome.
        slots: Slots of each policy that learns.
        kinds: Number of the kind of each policy's agents.
        rollouts: Experience that was ordered and is complete, by policy, or this share's part of a generation.
        finished: Episodes that ended, with lanes and numbers of the whole run.
        newcomers: Missing policies; nothing more is played until they are added.
        episode: ``[lanes]`` number of the running episode of each lane in the whole run.
        resting: Whether all its environments rest.
        running: Summed lengths of the running episodes, and their number.
        counters: Counters of data that could not be learned from, so far.
        reported: Numbers reported by the environment since the last report.
        all_joined: Whether every agent has a slot by now, so that slots are numbered as in the whole run.
        acted: Decisions of all policies since they were added.
        seconds: Duration of playing on the host.
        timers: State of the timers.
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
    """Plays a share of the lanes of a run on one machine.

    Args:
        share: The lanes.
        make: Creates the worker of these lanes, without policies.
        vector_step: Vector steps of the run so far, if it is resumed.

    Attributes:
        interrupt: Once its number is set, `play` returns after the vector step under way.
    """

    def __init__(self, share: LaneShare, make: Callable[[LaneShare], RolloutWorker], vector_step: int = 0) -> None:
        self.share = share
        self.interrupt = Interrupt()
        self.worker = make(share)
        self.worker.interrupt = self.interrupt
        self.worker.vector_steps = vector_step
        self.worker.env_steps = vector_step * share.lanes  # of the previous worker of these lanes, and counted there
        self._make = make
        self._before = vector_step
        """First clock of slots: no two decisions of a slot have the same clock, whichever worker had the lanes before.
        """
        self._sources: dict[str, Policy] = {}
        self._counted = self.worker.env_steps, self.worker.lane_steps

    # --- policies -----------------------------------------------------------------------------------------------------

    def add_policy(self, name: str, policy: Policy, demand: Demand | None, inference_batch_envs: int | None) -> None:
        """Adds a policy; see `RolloutWorker.add_policy`."""
        if demand is not None:
            demand = replace(demand, decisions=None)
        self._sources[name] = policy
        self.worker.add_policy(
            name, policy, demand, self.share.first * self.worker.agents_of(name), inference_batch_envs
        )
        store = self.worker.policies[name].store
        if store is not None:
            store.first_clock, store.by_request = self._before, True

    def retire(self, name: str) -> None:
        """Stops recording a policy, which continues to play."""
        self.worker.retire(name)

    def set_weights(self, version: int, weights: Mapping[str, list[np.ndarray]]) -> None:
        """Takes over weights and normalizers.

        Args:
            version: Their number in the whole run.
            weights: By policy, the result of `packed_weights`.
        """
        for name, arrays in weights.items():
            with torch.no_grad():
                for mine, array in zip(_tensors_of(self._sources[name]), arrays, strict=True):
                    mine.copy_(_as_tensor(array))
        self.worker.version = version - 1
        self.worker.set_weights({name: self._sources[name] for name in weights})

    def change_lessons(self, lessons: Mapping[str, int], restart: bool) -> None:
        """Changes the lessons of the next episodes; see `RolloutWorker.change_lessons`."""
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
        """Plays until `until` vector steps are made, all lanes rest, a policy is missing, this share's part of a
        generation of candidates is complete, or `interrupt` is set.

        Args:
            until: Vector steps of the run, counted by this share.
            expected: Policies whose experience is returned if exactly so many of their decisions are complete then;
                None = all complete experience.
            threads: Torch threads to act with.
            version: Number of the weights from here on.
            names: Policies with new weights.
            weights: Weights of each of them, as of `set_weights`.
        """
        note_activity(STEP)  # from here on, so that a process frozen now does not count as one that resets environments
        start, worker = perf_counter(), self.worker
        worker.is_watched = is_noted()
        worker.timers = timers = Timers()
        newcomers: dict[str, Kind] = {}
        finished: list[EpisodeResult] = []
        parts: dict[str, Rollout] = {}
        with own_torch(threads):
            if names:
                self.set_weights(version, dict(zip(names, weights, strict=True)))
            while (left := until - worker.vector_steps) > 0 and not newcomers:
                sample = worker.sample(left * self.share.lanes)
                newcomers = sample.newcomers
                finished += sample.finished
                parts = {name: _copied(rollout) for name, rollout in sample.rollouts.items()}
                if parts or sample.resting or self.interrupt.number is not None:
                    break
        stores = {name: policy.store for name, policy in worker.policies.items() if policy.store is not None}
        if expected is None:
            ready = [name for name, store in stores.items() if store.complete]
        else:
            ready = [name for name, count in expected.items() if name in stores and stores[name].complete == count > 0]
        rollouts = {**parts, **self.take(ready)}
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
        """Returns all complete decisions of some policies, in separate memory."""
        note_activity(STEP)
        worker, found = self.worker, {}
        for name in names:
            mine = worker.policies[name]
            assert worker.now is not None and mine.store is not None
            found[name] = _copied(mine.store.drain(worker.now.rows[mine.kind].obs, mine.row_of_slot))
        return found

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that changes, the environments in the middle of their episodes included."""
        return {"share": asdict(self.share), "before": self._before, "worker": self.worker.state_dict()}

    def load_env(self, state: dict[str, Any]) -> dict[str, Kind]:
        """Restores the environments of a state; see `RolloutWorker.load_env`."""
        saved = LaneShare(**{**state["share"], "skipped": tuple(state["share"]["skipped"])})
        if saved != self.share:  # these lanes were lost and restarted
            close_env(self.worker.env, self.worker.env.name)
            self.share, self.worker = saved, self._make(saved)
            self.worker.interrupt = self.interrupt
        self._before = state["before"]
        return self.worker.load_env(state["worker"])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, after `load_env`, once all its policies are added."""
        self.worker.load_state_dict(state["worker"])
        for name, mine in self.worker.policies.items():
            if name in self._sources:
                with torch.no_grad():
                    copy_all(_tensors_of(self._sources[name]), _tensors_of(mine.policy))
        self._counted = self.worker.env_steps, self.worker.lane_steps

    def close(self) -> None:
        """Closes the environments."""
        close_env(self.worker.env, self.worker.env.name)


def _copied(rollout: Rollout) -> Rollout:
    """Returns a rollout in memory of its own."""
    return rollout.map(lambda _, tensor: tensor.clone(memory_format=torch.contiguous_format))


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
    """Returns a tensor of an array that may be read-only; the tensor is only read."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
