"""Whole fragments of an environment in C in one call: prepares the input of ``sources/playing.c``, and reads the ended
episodes. The caller chooses the policy and the storage.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from rookery.core.spaces.arrays import ActionSpec
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.library import ADDRESS, INT64, REAL
from rookery.envs.native.variants import LIBRARY

AHEAD = 8
"""Episodes of each lane whose seeds and parameters are prepared in advance."""

ROOM = 1024
"""Episodes that may end in one call, and final observations that it may keep, in addition to those of one step."""


class PlayingEntry(ctypes.Structure):
    """``Playing`` of ``sources/playing.c``, where each field is explained."""

    _fields_ = [
        *((name, ADDRESS) for name in ("act", "network", "head", "log_std")),
        ("num_inputs", INT64), ("inputs", ADDRESS), ("mask", INT64), ("noise", ADDRESS), ("noise_step", INT64),
        *((name, ADDRESS) for name in ("env", "layout", "state", "rows", "fault", "actions")),
        ("elements", INT64), ("is_box", INT64), ("center", ADDRESS), ("half", ADDRESS),
        *((name, ADDRESS) for name in ("obs", "obs_step", "obs_row", "action")),
        ("action_step", INT64), ("action_row", INT64),
        *((name, ADDRESS) for name in ("logp", "reward", "terminated", "truncated")), ("columns", INT64),
        ("final_obs", ADDRESS), ("final_index", ADDRESS), ("most_finals", INT64), ("num_finals", INT64),
        ("seeds", ADDRESS), ("parameters", ADDRESS), ("ahead", INT64), ("begun", ADDRESS), ("listed", ADDRESS),
        ("next_seeds", ADDRESS), ("next_parameters", ADDRESS), ("returns", ADDRESS),
        ("most_ended", INT64), ("num_ended", INT64), ("ended", ADDRESS), ("earned", ADDRESS),
        ("acting", REAL), ("stepping", REAL),
    ]  # fmt: skip


@cache
def fragment_player() -> Any:
    """Returns the function that plays whole fragments, or None if the compiled library is missing or older."""
    function = getattr(ctypes.CDLL(str(LIBRARY)), "rookery_play_steps", None) if LIBRARY.is_file() else None
    if function is None:
        return None
    function.argtypes, function.restype = [ADDRESS, INT64], INT64
    return function


class Playing:
    """Steps an environment in C many times in one call.

    Args:
        env: The environment, whose agents all act in every step.
        returns: ``[rows]`` float64, return of each agent in the running episode; changes in place.

    Attributes:
        returns: As given.
        entry: Arguments of the call; the caller sets policy and storage there.
        paths: Leaves of observations, in the environment's order.
        ended: ``[ended, 2]`` lane and step of each episode that ended in the last call.
        earned: ``[ended, agents]`` returns of its agents.
        final_index: ``[finals, 2]`` step of the call and row of each truncated agent.
        final_obs: Last observation of each of these.
    """

    def __init__(self, env: CEnv, returns: np.ndarray) -> None:
        self._env, (kind,), lanes = env, env.kinds, env.num_lanes
        self.paths = tuple(env.leaf_paths)
        rows, width = lanes * len(kind.agents), len(env.parameters)
        finals, episodes = ROOM + rows, ROOM + lanes
        self._finals = kind.obs.allocate(finals)
        self._final_index = np.zeros((finals, 2), dtype=np.int64)
        self._ended = np.zeros((episodes, 2), dtype=np.int64)
        self._earned = np.zeros((episodes, len(kind.agents)))
        self._seeds = np.zeros((lanes, AHEAD), dtype=np.uint64)
        self._parameters = np.zeros((lanes, AHEAD, width))
        self._begun, self._listed = np.full(lanes, AHEAD), np.zeros(lanes, dtype=np.int64)
        self._next = np.zeros(lanes, dtype=np.uint64), np.zeros((lanes, width))
        self._plans, self._episode = -1, np.full(lanes, -1, dtype=np.int64)
        self.returns = returns
        self._scale: tuple[np.ndarray, ...] = ()
        self.entry = entry = PlayingEntry(ahead=AHEAD, most_finals=finals, most_ended=episodes)
        for name, place in env.places().items():
            setattr(entry, name, place)
        self._give_actions(kind.action)
        self._final_places = self.addresses([self._finals[path] for path in self.paths])
        self._row_bytes = np.array([self._finals[path].strides[0] for path in self.paths])
        for name, array in (
            ("final_index", self._final_index), ("seeds", self._seeds), ("parameters", self._parameters),
            ("begun", self._begun), ("listed", self._listed), ("next_seeds", self._next[0]),
            ("next_parameters", self._next[1]), ("returns", returns), ("ended", self._ended),
            ("earned", self._earned), ("final_obs", self._final_places), ("obs_row", self._row_bytes),
        ):  # fmt: skip
            setattr(entry, name, array.ctypes.data)
        self.ended, self.earned = self._ended[:0], self._earned[:0]
        self.final_index, self.final_obs = self._final_index[:0], {path: self._finals[path][:0] for path in self.paths}

    @staticmethod
    def addresses(arrays: list[np.ndarray]) -> np.ndarray:
        """Returns the addresses of arrays, as an array that C can read."""
        return np.array([array.ctypes.data for array in arrays], dtype=np.uintp)

    def _give_actions(self, spec: ActionSpec) -> None:
        """Sets how the environment takes stored actions."""
        entry = self.entry
        entry.elements = int(np.prod(spec.shape, dtype=np.int64))
        entry.is_box = spec.kind == "box"
        if spec.kind == "box" and (scale := spec.scale) is not None:
            center, half = (np.ascontiguousarray(part, dtype=np.float64) for part in scale)
            entry.center, entry.half = center.ctypes.data, half.ctypes.data
            self._scale = center, half

    def play(self, steps: int) -> int:
        """Makes up to this number of vector steps, and returns how many were made.

        Raises:
            EnvError: If the environment breaks its contract.
        """
        env, entry = self._env, self.entry
        if env.plans != self._plans:  # later episodes have changed
            self._begun[:], self._plans = AHEAD, env.plans
        self._look_ahead()
        entry.num_finals = entry.num_ended = 0
        entry.acting = entry.stepping = 0.0
        found: int = fragment_player()(ctypes.addressof(entry), steps)
        made, wrong = (found, "") if found >= 0 else (-1 - found >> 1, "reset" if -1 - found & 1 else "step")
        self._show()
        env.count_played(made, self.ended)
        self._episode[:] = env.episode
        if wrong:
            env.refuse(wrong)
        return made

    def _look_ahead(self) -> None:
        """Writes seeds and parameters of later episodes in place of those that have begun."""
        begun, env = self._begun, self._env
        begun[self._episode != env.episode] = AHEAD  # another loop has stepped
        for lane in begun.nonzero()[0].tolist():
            count = int(begun[lane])
            kept = AHEAD - count
            self._seeds[lane, :kept] = self._seeds[lane, count:]
            self._parameters[lane, :kept] = self._parameters[lane, count:]
            first = int(env.episode[lane]) + 1
            for place in range(kept, AHEAD):
                self._seeds[lane, place], self._parameters[lane, place] = env.plan_of(lane, first + place)
        begun[:] = 0

    def _show(self) -> None:
        count, finals = self.entry.num_ended, self.entry.num_finals
        self.ended, self.earned = self._ended[:count], self._earned[:count]
        self.final_index = self._final_index[:finals]
        self.final_obs = {path: self._finals[path][:finals] for path in self.paths}


def can_play(env: object) -> bool:
    """Returns whether whole fragments of an environment can be played in one call."""
    if not isinstance(env, CEnv) or fragment_player() is None:
        return False
    if any(getattr(type(env), name) is not getattr(CEnv, name) for name in ("step", "_begin", "_begin_after_end")):
        return False  # Python takes part in each step
    (kind,) = env.kinds
    spec = kind.action
    known = spec.kind in ("discrete", "multi_discrete") or (spec.kind == "box" and spec.is_bounded)
    return known and set(env.leaf_paths) == {leaf.path for leaf in kind.obs.leaves}
