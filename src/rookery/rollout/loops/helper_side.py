"""The loop inside an environment process, and in the driver for its own share: decide, step, write rows.

`helper_process.py` passes it to all shares. This module imports no torch, because environment processes have none.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from rookery.core.actor_program import ProgramActor
from rookery.envs.vector.burst import Burst
from rookery.envs.vector.serial import SerialEnv


class HelperLoopServer:
    """Runs a burst for one share; see `ShareLoop`.

    Args:
        share: The share of the lanes, with Gymnasium environments.
        burst: The shared memory.
        lanes: The share's lanes in it.

    Attributes:
        seconds: Time of deciding and recording in the last burst, as ``act`` and ``write_outcomes``.
    """

    def __init__(self, share: SerialEnv, burst: Burst, lanes: range) -> None:
        self.seconds = {"act": 0.0, "record": 0.0}
        self._share, self._burst, self._mine = share, burst, slice(lanes.start, lanes.stop)
        self._decider = ProgramActor(burst.plan.recipe, burst.numbers)
        self._lines = [self._line(step) for step in range(burst.plan.steps)]
        self._flags = (burst.terminated, burst.truncated, burst.ended, burst.lost, burst.final)

    def _line(self, step: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, Callable[[], None]]:
        """Returns the memory of a step's observations, actions and rewards, and the call that decides."""
        burst, at = self._burst, (step, self._mine)
        obs, action = {path: leaf[at] for path, leaf in burst.obs.items()}, burst.action[at]
        call = self._decider.prepare(obs, burst.noise[at], action, burst.logp[at])
        return list(obs.values()), action, burst.reward[at], call

    def play(self, steps: int, beat: Callable[[], None] | None = None) -> int:
        """Makes `steps` steps; see `ShareLoop.play`."""
        share, to_env = self._share, self._burst.plan.kind.action.to_env
        rows, sums = share.slab.blocks[0].rows, self._burst.before[:, self._mine].copy()
        shown = list(rows.obs.values())
        for flag in self._flags:
            flag[:steps, self._mine] = False
        self._decider.refresh()
        act = record = 0.0
        now = perf_counter()
        for step, (obs, action, reward, decide) in enumerate(self._lines[:steps]):
            began = now
            for there, here in zip(obs, shown, strict=True):
                there[...] = here
            decide()
            given = [np.array(to_env(action))]  # an environment may keep the action that it receives
            acted = perf_counter()
            share.play(given, share.waiting())
            stepped = perf_counter()
            if share.any_rest:
                return step
            reward[...] = rows.reward
            sums += rows.reward
            if share.any_end:
                self._note_ends(step, sums)
            if beat is not None:
                beat()
            now = perf_counter()
            act, record = act + acted - began, record + now - stepped
        self._burst.after[:, self._mine] = sums
        self.seconds = {"act": act, "record": record}
        return steps

    def _note_ends(self, step: int, sums: np.ndarray) -> None:
        """Stores ends, returns and final observations of the episodes that ended in a step."""
        burst, slab, at = self._burst, self._share.slab, (step, self._mine)
        block = slab.blocks[0]
        burst.terminated[at], burst.truncated[at] = block.rows.terminated, block.rows.truncated
        burst.ended[at], burst.lost[at], burst.earned[at] = slab.ended, slab.lost, sums[0]
        sums[:, slab.ended | slab.lost] = 0.0
        burst.final[at] = block.finals != 0
        for path, array in block.final_obs.items():
            burst.final_obs[path][at] = array
