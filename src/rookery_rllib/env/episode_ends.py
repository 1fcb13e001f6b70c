"""Wrappers for the keys of 2021 that decide how an episode ends: `Horizon` and `EndlessTask`.

Both wrap a Gymnasium environment or a multi-agent one with dicts, and can be sent to other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL = "__all__"


@dataclass(frozen=True)
class Horizon:
    """Truncates episodes after a number of steps (``horizon``).

    Attributes:
        steps: Steps of an episode.
        soft: Whether the next episode continues from the state of the environment (``soft_horizon``).
    """

    steps: int
    soft: bool = False

    def __call__(self, env: Any) -> Any:
        return _Ending(env, self.steps, False, self.soft)


@dataclass(frozen=True)
class EndlessTask:
    """Treats every end as a truncation, with a bootstrapped value (``no_done_at_end``)."""

    def __call__(self, env: Any) -> Any:
        return _Ending(env, None, True)


class _Ending:
    """Base of wrappers that change the ends of episodes only."""

    def __init__(self, env: Any, steps: int | None, cuts_only: bool, soft: bool = False) -> None:
        self.env = env
        self._most = steps
        self._cuts_only = cuts_only
        self._soft = soft
        self._steps = 0
        self._kept: Any = None  # observation from which the next episode continues

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # during unpickling
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        return getattr(self.env, "unwrapped", self.env)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        kept, self._kept, self._steps = self._kept, None, 0
        if kept is not None:
            return kept, {}
        return self.env.reset(*args, **kwargs)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        late = self._most is not None and self._steps >= self._most
        if self._soft and late and not _is_over(terminated) and not _is_over(truncated):
            self._kept = obs
        if not isinstance(terminated, Mapping):
            truncated = truncated or late
            if self._cuts_only:
                terminated, truncated = False, truncated or terminated
            return obs, reward, terminated, truncated, info
        if self._cuts_only:
            truncated = dict(truncated) | {key: True for key, ended in terminated.items() if ended}
            terminated = dict.fromkeys(terminated, False)
        if late:
            truncated = {**truncated, **dict.fromkeys((key for key in obs if not terminated.get(key)), True)}
            if ALL in terminated or ALL in truncated:
                truncated[ALL] = True
        return obs, reward, terminated, truncated, info


def _is_over(ends: Any) -> bool:
    """Returns whether an end of an episode was reported, of any agent."""
    return any(ends.values()) if isinstance(ends, Mapping) else bool(ends)
