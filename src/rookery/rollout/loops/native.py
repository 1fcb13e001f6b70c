"""The loop in C: many steps per call, for an environment in C and a policy on kernels.

Python chooses the number of steps, the random numbers, the weights and the next episodes.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rookery.core.native import ADDRESS
from rookery.core.process.activity import STEP, note_activity
from rookery.core.spaces.arrays import MASK
from rookery.envs.base import Rows
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.c_playing import Playing
from rookery.native.actor import NativeActor
from rookery.rollout.noise import BLOCK
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.worker_state import EndedEpisodes, WorkerState, episodes_of

LEAST = 2
"""Minimum number of steps of a call of this loop."""


def steps_available(mine: WorkerPolicy, rows: Rows, vector_step: int) -> int:
    """Returns the number of steps of a policy that can be written as whole rows, by kernels and with one block of
    random numbers; 0 if none.

    Args:
        mine: The policy of all rows, each in the slot of its number.
        rows: Their current observations.
        vector_step: Vector steps of the worker so far.
    """
    store, actor = mine.store, mine.actor
    if type(mine) is not WorkerPolicy or mine.memory is not None or actor is None or store is None:
        return 0
    if actor.remembers or len(mine.taken) != len(rows.reward):
        return 0
    most = min(store.free_rows(rows.obs), BLOCK - vector_step % BLOCK)
    missing = store.wanted - store.complete
    return min(most, -(-missing // store.num_slots)) if store.wanted > 0 else most


class NativeLoop:
    """Loop for one policy in an environment in C.

    Args:
        env: The environment.
    """

    def __init__(self, env: CEnv) -> None:
        self._env = env
        self._playing: Playing | None = None
        self._actor: NativeActor | None = None
        self._inputs = np.zeros(0, dtype=np.int64)
        self._order = np.zeros(0, dtype=np.int64)
        self._obs: tuple[np.ndarray, ...] = ()
        self._places: tuple[np.ndarray, np.ndarray] | None = None

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes up to a fragment of vector steps; see `Loop.play`."""
        mine = state.sole_policy()
        if mine is None or state.now is None or not self._env.steps_at_once:
            return False
        steps = int(min(steps_available(mine, state.now.rows[0], state.vector_steps), most))
        if steps < LEAST:
            return False
        if state.is_watched:
            note_activity(STEP)
        with state.timers["fragments"] as timer:
            made, ended, seconds = self._play(mine, steps, state)
        state.count_steps(mine, made, ended, seconds, timer)
        return True

    def _play(self, mine: WorkerPolicy, steps: int, state: WorkerState) -> tuple[int, EndedEpisodes, dict[str, float]]:
        """Makes up to `steps` vector steps; returns their number, the ended episodes, and seconds by part."""
        store, env, returns = mine.store, self._env, state.tables[0].returns
        assert store is not None
        if self._playing is None or self._playing.returns is not returns:
            self._playing, self._actor, self._places = Playing(env, returns), None, None
            stored = [leaf.path for leaf in env.kinds[0].obs.leaves]
            self._order = np.array([stored.index(path) for path in self._playing.paths], dtype=np.int64)
        playing, index = self._playing, env.episode.copy()
        self._decide_by(mine, playing)
        self._keep_in(store, playing)
        noise = mine.noise.at(None, len(mine.taken), state.vector_steps)
        playing.entry.noise, playing.entry.noise_step = noise.data_ptr(), noise.shape[1] * mine.noise.slots
        made = playing.play(steps)
        store.rows_written(made, playing.final_index, playing.final_obs, env.shown_ends())
        mine.acted += made * len(returns)
        lane, step = playing.ended.T
        ended = episodes_of(step, lane, playing.earned, made, state.lengths, index)
        return made, ended, {"act": playing.entry.acting, "env.step": playing.entry.stepping}

    def _decide_by(self, mine: WorkerPolicy, playing: Playing) -> None:
        """Passes the policy's weights to C; their addresses stay the same unless the policy is another."""
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
        """Passes the addresses of the next rows of the storage to C."""
        entry, leaves, places = playing.entry, len(self._order), store.next_rows()
        if places is self._places:
            return
        self._places = first, step = places
        self._obs = first[self._order], step[self._order]  # as the environment has them
        entry.obs, entry.obs_step = (array.ctypes.data for array in self._obs)
        entry.action, entry.logp, entry.reward, entry.terminated, entry.truncated = first[leaves:].tolist()
        entry.action_step, entry.columns = int(step[leaves]), int(step[-1])  # the last one of a byte each
