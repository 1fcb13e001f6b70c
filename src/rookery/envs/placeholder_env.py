"""`PlaceholderEnv`: placeholder for an environment that is not available. It cannot be stepped, and keeps the saved
state.

A trainer that only learns (`Trainer.load(..., play=False)`) has one: the packages of the environment need not be
installed, and the checkpoint that is written afterwards resumes exactly where the one before it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.core.spaces.space_files import space_from_json, space_to_json
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase, VectorEnv
from rookery.envs.groups import groups_of

DATA = "data"
"""Name of the placeholder if spaces come from data and the run has no environment."""


class PlaceholderEnv(VectorBase):
    """A `VectorEnv` with the agents of another environment, which cannot be reset or stepped.

    Args:
        described: Result of `describe` for the other environment; or of `description`, where there is none.
    """

    throwaway = False

    def __init__(self, described: Mapping[str, Any]) -> None:
        kinds = tuple(_kind(kind) for kind in described["kinds"])
        super().__init__(kinds, described["num_lanes"], described["name"], described["exact"])
        self.groups = {group: tuple(agents) for group, agents in described.get("groups", {}).items()}
        self._state: dict[str, Any] = {}

    def reset(self, seeds: SeedPlan) -> Step:
        """Raises an EnvError: a placeholder cannot be reset."""
        if self.name == DATA:
            raise EnvError(
                "this run learns from data and has no environment to play in: name one, as in Trainer('CartPole-v1', "
                "...) or Trainer.load(..., env='CartPole-v1')"
            )
        why = "this trainer was loaded to learn only (play=False) and has no environment"
        raise EnvError(f"{self.name}: {why}; load it again without that to play")

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Raises the EnvError of `reset`."""
        return self.reset(lambda lane, episode: 0)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that was loaded."""
        return deepcopy(self._state)

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Stores a state. The returned step is empty, because observations are not known here; no episode counts as
        lost.
        """
        self._state = state
        rows = tuple(Rows.allocate(kind, self.num_lanes) for kind in self.kinds)
        return Step(rows, np.zeros(self.num_lanes, dtype=bool)), np.zeros(self.num_lanes, dtype=bool)

    def render(self, lane: int) -> np.ndarray | None:
        """Returns None: there is no image."""
        return None

    def close(self) -> None:
        """Does nothing."""


def describe(env: VectorEnv) -> dict[str, Any]:
    """Returns the facts about an environment that an `PlaceholderEnv` needs, for JSON."""
    groups = {group: list(agents) for group, agents in groups_of(env).items()}
    return {**description(env.name, env.num_lanes, env.exact, env.kinds), **({"groups": groups} if groups else {})}


def description(name: str, num_lanes: int, exact: bool, agents: Sequence[Kind]) -> dict[str, Any]:
    """Returns the facts of `describe` about `num_lanes` environments with these kinds of agents, for JSON."""
    kinds = []
    for kind in agents:
        obs, action = space_to_json(kind.obs.space), space_to_json(kind.action.space)
        lifted = isinstance(kind.obs.space, spaces.Dict) and MASK in kind.obs.space.spaces
        info_mask = kind.obs.has_mask and not lifted
        kinds.append({"agents": list(kind.agents), "obs_space": obs, "action_space": action, "info_mask": info_mask})
    return {"name": name, "num_lanes": num_lanes, "exact": exact, "kinds": kinds}


def _kind(described: Mapping[str, Any]) -> Kind:
    action = space_from_json(described["action_space"])
    obs = obs_spec(space_from_json(described["obs_space"]), action, info_mask=described["info_mask"])
    return Kind(tuple(described["agents"]), obs, action_spec(action))
