"""The protocol of the loops that step environments: four ways that store the same bytes.

- `python.py`: one vector step at a time, for any environment and any number of policies;
- `helper_process.py`: helper processes decide and step for many steps (`helper_side.py` runs in each of them);
- `native.py`: C, for environments in C and policies on kernels (`envs/native/sources/playing.c`);
- `device.py`: tensors on one device.

`RolloutWorker.sample` calls them: one that makes many steps in a call where it can, else the one in Python.
tests/rollout/test_loops.py plays the same steps by each and compares what they store.
"""

from __future__ import annotations

from typing import Protocol

from rookery.rollout.worker_state import WorkerState


class Loop(Protocol):
    """Makes vector steps: policies decide, environments are stepped, outcomes are stored, ended episodes are noted."""

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes vector steps in one call, once it is known which policy plays each row that waits.

        Where it returns True, the rows that environments show now are in `state.now`, and decisions, episodes and
        counters are those of as many single steps.

        Args:
            state: State of the worker, which is advanced.
            most: Makes at most so many; infinity = no limit but its own.

        Returns:
            Whether this loop could play; False where another one has to, which nothing is changed for.

        Raises:
            EnvError: If an environment raises or breaks its contract.
        """
        ...
