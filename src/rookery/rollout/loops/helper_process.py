"""The loop in environment processes, which step Gymnasium environments for many steps with a policy on kernels.

Each process decides for its own share of the lanes, step after step (`helper_side.py`), and all wait for each other
once per burst (`envs/vector/burst.py`). The driver chooses the number of steps, the random numbers and the weights.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rookery.core.process.activity import STEP, note_activity
from rookery.envs.base import VectorEnv
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.c_playing import can_play
from rookery.envs.vector.burst import Burst, BurstPlan
from rookery.envs.vector.shares import SharesEnv
from rookery.native.actor import NativeActor
from rookery.native.program_recorder import record_program
from rookery.rollout.loops.helper_side import HelperLoopServer
from rookery.rollout.loops.loop import Loop
from rookery.rollout.loops.native import NativeLoop, steps_available
from rookery.rollout.noise import BLOCK
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.storage import OF_ROWS
from rookery.rollout.worker_state import EndedEpisodes, WorkerState, episodes_of

LEAST = 4
"""Minimum number of steps of a burst; starting one takes about as long as this many decisions."""

SECONDS = 0.25
"""Approximate length of the longest burst; signals are handled after it."""


class HelperLoop:
    """Loop for one policy in an environment that is stepped by environment processes.

    Args:
        env: The environment.
    """

    def __init__(self, env: SharesEnv) -> None:
        self._env = env
        self._actor: NativeActor | None = None
        self._burst: Burst | None = None
        self._weights: list[tuple[np.ndarray, np.ndarray]] = []  # weights: in the burst's memory, and in the policy
        self._pace = SECONDS  # seconds of the last steps

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes vector steps for up to `SECONDS`; see `Loop.play`."""
        mine, env = state.sole_policy(), self._env
        if mine is None or state.now is None or not env.plays_bursts or True in state.now.rows[0].resting.tobytes():
            return False
        ahead = steps_available(mine, state.now.rows[0], state.vector_steps)
        if ahead < LEAST or self._burst_for(mine) is None:
            return False
        steps = int(min(max(1, min(ahead, int(SECONDS / self._pace))), most))
        if steps < 1:
            return False
        if state.is_watched:
            note_activity(STEP)
        with state.timers["fragments"] as timer:
            made, ended, seconds = self._play(mine, steps, state)
        state.count_steps(mine, made, ended, seconds, timer)
        return True

    def _burst_for(self, mine: WorkerPolicy) -> Burst | None:
        """Returns the shared memory for bursts of a policy; None if other processes cannot act for it."""
        actor, env = mine.actor, self._env
        assert actor is not None and mine.store is not None
        if actor is self._actor and (self._burst is None or self._burst is env.burst):
            return self._burst
        self._actor, self._burst, self._weights = actor, None, []
        found = record_program(mine.policy, actor) if mine.policy.obs_spec == env.kinds[0].obs else None
        if found is not None:
            recipe, numbers = found
            steps, noise = min(mine.store.demand.fragment_length, BLOCK), max(mine.noise.uniform + mine.noise.normal, 1)
            plan = BurstPlan(env.kinds[0], env.num_lanes, steps, noise, recipe, HelperLoopServer)
            self._burst = burst = Burst(plan)
            for start, tensor in numbers:
                here = tensor.numpy()
                there = burst.numbers[start : start + here.nbytes].view(here.dtype).reshape(here.shape)
                self._weights.append((there, here))
            self._copy_weights()
            env.lend(burst)
        return self._burst

    def _copy_weights(self) -> None:
        """Copies the policy's present weights to the shared memory."""
        for there, here in self._weights:
            np.copyto(there, here)

    def _play(self, mine: WorkerPolicy, steps: int, state: WorkerState) -> tuple[int, EndedEpisodes, dict[str, float]]:
        """Makes up to `steps` vector steps; returns their number, the ended episodes, and seconds by part."""
        began, env, burst, store = perf_counter(), self._env, self._burst, mine.store
        assert burst is not None and store is not None
        self._copy_weights()
        noise = mine.noise.ahead(env.num_lanes, state.vector_steps, steps).numpy()
        burst.noise[:steps, :, : noise.shape[2]] = noise
        burst.before[0] = state.tables[0].returns
        index, handed = env.episode.copy(), perf_counter()
        made, seconds = env.play_burst(steps)
        played = perf_counter()
        if made:
            self._pace = (played - handed) / made
        ended = self._take(mine, burst, made, state, index)
        return made, ended, seconds | {"record": seconds["record"] + perf_counter() - played + handed - began}

    def _take(
        self, mine: WorkerPolicy, burst: Burst, made: int, state: WorkerState, index: np.ndarray
    ) -> EndedEpisodes:
        """Stores the rows of a burst; returns its ended episodes. `index` has the episode of each lane before it."""
        store = mine.store
        assert store is not None
        lost = burst.lost[:made]
        step, lane = np.nonzero(burst.ended[:made] | lost)
        ended = episodes_of(step, lane, burst.earned[step, lane][:, None], made, state.lengths, index)
        if made:
            finals = np.argwhere(burst.final[:made])
            at = finals[:, 0], finals[:, 1]
            last = burst.terminated[made - 1] | burst.truncated[made - 1]
            store.write_rows(made, {name: getattr(burst, name) for name in OF_ROWS})
            final_obs = {path: leaf[at] for path, leaf in burst.final_obs.items()}
            store.rows_written(made, finals, final_obs, last if last.any() else None)
            state.tables[0].returns[:] = burst.after[0]
            mine.acted += made * self._env.num_lanes
        return ended.but(lost[step, lane]) if lost.any() else ended


def fast_loop_of(env: VectorEnv) -> Loop | None:
    """Creates the loop that makes many steps per call; None if the environment can only be stepped singly.

    There is one for compiled environments in C, and for those that environment processes step.
    """
    if isinstance(env, CEnv) and can_play(env):
        return NativeLoop(env)
    return HelperLoop(env) if isinstance(env, SharesEnv) and env.plays_bursts else None
