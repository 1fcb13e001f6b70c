"""`EnvElsewhere`: an environment whose copies are with workers in other processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.core.errors import EnvError
from rookery.envs.adapters.reported import ReportedNumbers
from rookery.envs.base import SeedPlan, Step, VectorBase, VectorEnv
from rookery.envs.groups import groups_of


class EnvElsewhere(VectorBase):
    """A `VectorEnv` that stands for copies which workers play in other processes; nothing is played in it.

    Args:
        copy: One copy or more of the environment, which tell its agents; they can be closed afterwards.
        lanes: How many copies the workers have together.
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
        """Raises an EnvError: nothing is played here."""
        raise EnvError(f"{self.name}: its copies are with the workers, which play them (sampling.workers)")

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Raises the EnvError of `reset`."""
        return self.reset(lambda lane, episode: 0)

    def close(self) -> None:
        """Holds nothing."""
