"""Many steps in one call, where an environment in C meets a policy on kernels and nothing is to be done in between.

`RolloutWorker.sample` asks for it, and plays step by step where it cannot be, to the same bits. Decisions stay in
Python: how many steps, which random numbers, whose weights, which episodes come next.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rookery.core.native import ADDRESS
from rookery.core.spaces.arrays import MASK
from rookery.envs.base import Rows
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.c_playing import Playing
from rookery.native.actor import NativeActor
from rookery.rollout.noise import BLOCK
from rookery.rollout.slots import SlotStore, WorkerPolicy

LEAST = 2
"""Steps from which on a call of its own is worth it."""


@dataclass(frozen=True)
class EndedEpisodes:
    """Episodes that have ended in a call, E of them in the order in which they did.

    Attributes:
        lane: ``[E]`` lane that each was in.
        index: ``[E]`` its number there.
        step: ``[E]`` steps of the call until then, its last one included.
        length: ``[E]`` its steps.
        earned: ``[E, agents]`` what each agent got.
    """

    lane: np.ndarray
    index: np.ndarray
    step: np.ndarray
    length: np.ndarray
    earned: np.ndarray

    def but(self, these: np.ndarray) -> EndedEpisodes:
        """All but some of them; `these` is ``[E]`` bool."""
        return EndedEpisodes(*(each[~these] for each in (self.lane, self.index, self.step, self.length, self.earned)))


class ManySteps(Protocol):
    """Plays one policy in all copies of an environment, many vector steps in a call.

    Attributes:
        least: Steps from which on a call of its own is worth it.
    """

    least: int

    def steps(self, mine: WorkerPolicy, rows: Rows, vector_step: int) -> int:
        """Says how many steps a call can make now; 0 where it can make none.

        Args:
            mine: The policy, which plays all rows, each in the slot of its number.
            rows: What they show.
            vector_step: Vector steps of the worker so far.
        """
        ...

    def play(
        self, mine: WorkerPolicy, steps: int, vector_step: int, returns: np.ndarray, lengths: np.ndarray
    ) -> tuple[int, EndedEpisodes, dict[str, float]]:
        """Makes up to so many vector steps; returns how many, which episodes have ended in them, and seconds by part.

        Args:
            mine: The policy.
            steps: How many at most, as `steps` allows.
            vector_step: Vector steps of the worker so far.
            returns: ``[rows]`` what each agent has earned in the running episode; changes in place.
            lengths: ``[lanes]`` steps of the running episodes; changes in place.

        Raises:
            EnvError: If the environment breaks its contract.
        """
        ...


def times_before(lanes: np.ndarray) -> np.ndarray:
    """``[E]`` how often each of these numbers ``[E]`` stands before its place: which of a lane's episodes one is."""
    if not len(lanes):
        return lanes
    order = np.argsort(lanes, kind="stable")
    ranked = lanes[order]
    place = np.arange(len(lanes))
    begins = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])[: len(lanes)]
    counts = np.diff(np.r_[begins, len(lanes)])
    before = np.empty_like(place)
    before[order] = place - np.repeat(begins, counts)
    return before


def episodes_of(
    step: np.ndarray, lane: np.ndarray, earned: np.ndarray, made: int, lengths: np.ndarray, episode: np.ndarray
) -> EndedEpisodes:
    """Puts together which episodes have ended in a call.

    Args:
        step: ``[E]`` step of the call, from 0, that each ended in, ascending.
        lane: ``[E]`` its lane.
        earned: ``[E]`` what it came to.
        made: Steps of the call.
        lengths: ``[lanes]`` steps of the running episodes; changes in place.
        episode: ``[lanes]`` number of the episode that each was in before.
    """
    before, order = times_before(lane), np.argsort(lane, kind="stable")
    since = np.empty_like(step)
    since[order] = np.diff(step[order], prepend=0)
    length = np.where(before == 0, step + 1 + lengths[lane], since)
    lengths += made
    lengths[lane] = made - 1 - step  # of several episodes of a lane the last one counts
    return EndedEpisodes(lane, episode[lane] + before, step + 1, length, earned[:, None])


def steps_ahead(mine: WorkerPolicy, rows: Rows, vector_step: int) -> int:
    """Says how many steps of a policy can be written as whole rows, by kernels and one block of random numbers; 0 where
    none can. Arguments as of `ManySteps.steps`.
    """
    store, actor = mine.store, mine.actor
    if type(mine) is not WorkerPolicy or mine.memory is not None or actor is None or store is None:
        return 0
    if actor.remembers or len(mine.taken) != len(rows.reward):
        return 0
    most = min(store.rows_ahead(rows.obs), BLOCK - vector_step % BLOCK)
    missing = store.wanted - store.complete
    return min(most, -(-missing // store.num_slots)) if store.wanted > 0 else most


class FragmentPlayer:
    """Plays one policy in all copies of an environment in C: the `ManySteps` of these.

    Args:
        env: The environment.
    """

    least = LEAST

    def __init__(self, env: CEnv) -> None:
        self._env = env
        self._playing: Playing | None = None
        self._actor: NativeActor | None = None
        self._inputs = np.zeros(0, dtype=np.int64)
        self._order = np.zeros(0, dtype=np.int64)
        self._obs: tuple[np.ndarray, ...] = ()
        self._places: tuple[np.ndarray, np.ndarray] | None = None

    def steps(self, mine: WorkerPolicy, rows: Rows, vector_step: int) -> int:
        """Says how many steps a call can make now; see `ManySteps.steps`."""
        return steps_ahead(mine, rows, vector_step) if self._env.steps_at_once else 0

    def play(
        self, mine: WorkerPolicy, steps: int, vector_step: int, returns: np.ndarray, lengths: np.ndarray
    ) -> tuple[int, EndedEpisodes, dict[str, float]]:
        """Makes up to so many vector steps; see `ManySteps.play`."""
        store, env = mine.store, self._env
        assert store is not None
        if self._playing is None or self._playing.returns is not returns or self._playing.lengths is not lengths:
            self._playing, self._actor, self._places = Playing(env, returns, lengths), None, None
            stored = [leaf.path for leaf in env.kinds[0].obs.leaves]
            self._order = np.array([stored.index(path) for path in self._playing.paths], dtype=np.int64)
        playing, index = self._playing, env.episode.copy()
        self._decide_by(mine, playing)
        self._keep_in(store, playing)
        noise = mine.noise.at(None, len(mine.taken), vector_step)
        playing.entry.noise, playing.entry.noise_step = noise.data_ptr(), noise.shape[1] * mine.noise.slots
        made = playing.play(steps)
        last = env.shown_ends()
        store.rows_written(made, playing.final_index, playing.final_obs, last)
        mine.acted += made * len(returns)
        lane, step, length = playing.ended.T
        ended = EndedEpisodes(lane, index[lane] + times_before(lane), step + 1, length, playing.earned)
        return made, ended, {"act": playing.entry.acting, "env.step": playing.entry.stepping}

    def _decide_by(self, mine: WorkerPolicy, playing: Playing) -> None:
        """Says by which weights is decided; they lie where they lay unless the policy is another."""
        actor, entry = mine.actor, playing.entry
        assert actor is not None
        if actor is self._actor:
            return
        self._actor = actor
        step: Any = actor.build.call["policy_step"]
        entry.act = ctypes.cast(step, ADDRESS).value
        entry.network, entry.head, entry.log_std = actor.handles()
        self._inputs = np.array([playing.paths.index(path) for path in actor.paths], dtype=np.int64)
        entry.num_inputs, entry.inputs = len(self._inputs), self._inputs.ctypes.data
        entry.action_row = mine.policy.action_spec.dtype.itemsize * entry.elements
        entry.mask = playing.paths.index(MASK) if actor.masked else -1

    def _keep_in(self, store: SlotStore, playing: Playing) -> None:
        """Says where the next rows of the storage are."""
        entry, leaves, places = playing.entry, len(self._order), store.next_rows()
        if places is self._places:
            return
        self._places = first, step = places
        self._obs = first[self._order], step[self._order]  # as the environment has them
        entry.obs, entry.obs_step = (array.ctypes.data for array in self._obs)
        entry.action, entry.logp, entry.reward, entry.terminated, entry.truncated = first[leaves:].tolist()
        entry.action_step, entry.columns = int(step[leaves]), int(step[-1])  # the last one of a byte each
