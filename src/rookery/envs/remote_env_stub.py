"""`RemoteEnvStub`: a stub for environments that workers step in other processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.core.errors import EnvError
from rookery.envs.adapters.reported import ReportedNumbers
from rookery.envs.base import SeedPlan, Step, VectorBase, VectorEnv
from rookery.envs.groups import groups_of


class RemoteEnvStub(VectorBase):
    """A `VectorEnv` that represents environments in worker processes; it cannot be reset or stepped.

    Args:
        copy: One or more instances of the environment, which define its agents; they can be closed afterwards.
        lanes: Number of environments of all workers together.
    """

    reported: ReportedNumbers

    def __init__(self, copy: VectorEnv, lanes: int) -> None:
        super().__init__(copy.kinds, lanes, copy.name, copy.exact)
        self.reported = ReportedNumbers()
        self.notes, self.groups = tuple(copy.notes), groups_of(copy)
        if isinstance(copy, VectorBase):
            self.parameters, self.own_episodes, self.only_one = copy.parameters, copy.own_episodes, copy.only_one
            self.render_fps, self.render_modes = copy.render_fps, copy.render_modes
            self.throwaway = copy.throwaway

    def reset(self, seeds: SeedPlan) -> Step:
        """Raises an EnvError: the workers step the environments."""
        raise EnvError(f"{self.name}: the workers have its environments and step them (sampling.workers)")

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Raises the EnvError of `reset`."""
        return self.reset(lambda lane, episode: 0)

    def close(self) -> None:
        """Does nothing."""
