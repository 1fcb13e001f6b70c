"""Search in environments of one agent, by saving and restoring their state (`snapshot.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, Tree
from rookery.envs.adapters.snapshot import capture, restore
from rookery.envs.game_rules import Moved, Symmetry


class GymRules:
    """Rules of a Gymnasium environment, see `GameRules`; a state is an object: what was saved, and the observation.

    One of the environments plays on from a state, and is put back into its own.

    Args:
        envs: The environments of the lanes.
        obs: Layout of the observations.
        action: Layout of the actions.
        seen: ``[lanes, ...]`` the present observations.
    """

    def __init__(self, envs: list[Any], obs: ObsSpec, action: ActionSpec, seen: Tree) -> None:
        self._envs, self._obs, self._action, self._seen = envs, obs, action, seen

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """None are known."""
        return ()

    def get_state(self, lanes: np.ndarray) -> np.ndarray:
        """Returns the states ``[N]`` of lanes."""
        saved = [capture(self._envs[lane]) for lane in lanes.tolist()]
        seen = [{path: leaf[lane].copy() for path, leaf in self._seen.items()} for lane in lanes.tolist()]
        return _objects(list(zip(saved, seen, strict=True)))

    def set_state(self, lanes: np.ndarray, state: np.ndarray) -> None:
        """Puts lanes into states ``[N]``; their observations follow with the next step."""
        for lane, (saved, _) in zip(lanes.tolist(), state, strict=True):
            restore(self._envs[lane], saved)

    def move(self, state: np.ndarray, action: np.ndarray) -> Moved:
        """Returns the results of actions ``[N]``. A game is over where an episode terminates; time limits do not
        count.
        """
        env = self._envs[0]
        before, found = capture(env), []
        rewards, over = np.zeros(len(state)), np.zeros(len(state), bool)
        assert before is not None
        for row, given in enumerate(self._action.to_env(action)):
            restore(env, state[row][0])
            obs, rewards[row], over[row], _, info = env.step(given)
            tree, _ = self._obs.read(obs, info.get(MASK))
            found.append((capture(env), {path: leaf[0] for path, leaf in tree.items()}))
        restore(env, before)
        return Moved(_objects(found), rewards, over)

    def player(self, state: np.ndarray) -> np.ndarray:
        """Returns 0 for each state ``[N]``."""
        return np.zeros(len(state), np.int64)

    def observe(self, state: np.ndarray) -> Tree:
        """Returns the observations of states ``[N]``."""
        return {leaf.path: np.stack([seen[leaf.path] for _, seen in state]) for leaf in self._obs.leaves}


def _objects(items: list[Any]) -> np.ndarray:
    """Returns an array of objects."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
