"""The protocol of the loops that step environments: four ways that store the same bytes.

- `python.py`: one vector step at a time, for any environment and any number of policies;
- `helper_process.py`: environment processes decide and step for many steps (`helper_side.py` runs in each of them);
- `native.py`: C, for environments in C and policies on kernels (`envs/native/sources/playing.c`);
- `device.py`: tensors on one device.

`RolloutWorker.sample` calls them: one that makes many steps in a call where it can, else the one in Python.
tests/rollout/test_loops.py plays the same steps by each and compares what they store.
"""

from __future__ import annotations

from typing import Protocol

from rookery.rollout.worker_state import WorkerState


class Loop(Protocol):
    """Makes vector steps: policies act, environments are stepped, outcomes and ended episodes are recorded."""

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes vector steps in one call, once the policy of each waiting row is known.

        If it returns True, `state.now` has the present rows of the environment, and decisions, episodes and counters
        are those of as many single steps.

        Args:
            state: State of the worker, which is advanced.
            most: Limit of vector steps; infinity = only the loop's own limit.

        Returns:
            Whether this loop made steps; False if another loop has to, and then nothing has changed.

        Raises:
            EnvError: If an environment raises or breaks its contract.
        """
        ...
