"""Rewards of data made anew: scaled, shifted, cut off at bounds, or what a function of the decisions says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.process.tracebacks import described
from rookery.core.settings.fields import Settings, Structural
from rookery.core.settings.layers import import_object
from rookery.core.settings.reach import CODE
from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree


@dataclass(frozen=True)
class RelabelConfig(Settings):
    """How rewards of data are made anew: what the function says, times `scale`, plus `shift`, cut off at `bounds`."""

    function: Structural[Annotated[str, CODE] | None] = None
    """``module:function`` of arrays (obs, action, reward, next_obs, terminated) that gives the rewards; None = those
    that were recorded.
    """

    scale: Structural[float] = 1.0
    """What rewards are multiplied by."""

    shift: Structural[float] = 0.0
    """What is added to them then."""

    bounds: Structural[tuple[float, float] | None] = None
    """The least and the largest reward; None = any."""

    @property
    def is_nothing(self) -> bool:
        """Whether rewards stay as they are."""
        return not self.words

    @property
    def words(self) -> str:
        """What is done to rewards, for people; empty if nothing is."""
        parts = [] if self.function is None else [f"those of {self.function}"]
        if self.scale != 1:
            parts.append(f"times {self.scale:g}")
        if self.shift:
            parts.append(f"plus {self.shift:g}")
        if self.bounds is not None:
            parts.append(f"from {self.bounds[0]:g} to {self.bounds[1]:g}")
        return ", ".join(parts)


class Relabel:
    """Makes rewards of decisions anew.

    Args:
        cfg: How.
        obs: Layout of observations.
        action: Layout of actions.
        source: Where the decisions are, for messages.

    Raises:
        ConfigError: If the bounds are none, or there is no such function.
    """

    def __init__(self, cfg: RelabelConfig, obs: ObsSpec, action: ActionSpec, source: str) -> None:
        if cfg.bounds is not None and not cfg.bounds[0] < cfg.bounds[1]:
            raise ConfigError(
                f"relabel.bounds = {cfg.bounds[0]:g}, {cfg.bounds[1]:g}: the least reward comes first and must be "
                "smaller, as in [-1, 1]"
            )
        self.cfg = cfg
        self._obs, self._action, self._source = obs, action, source
        self._function: Callable[..., Any] | None = None
        if cfg.function is not None:
            found = import_object(cfg.function)
            if not callable(found):
                raise ConfigError(f"relabel.function = {cfg.function}: is no function")
            self._function = found

    def rewards(
        self, obs: Tree, action: np.ndarray, reward: np.ndarray, next_obs: Tree, terminated: np.ndarray, first: int
    ) -> np.ndarray:
        """Returns new rewards ``[n]``, float32.

        Args:
            obs: What was seen, as it is stored, ``[n, ...]`` by leaf path.
            action: What was decided, as it is stored.
            reward: What was recorded, 0 where nobody knows.
            next_obs: What was seen next, zeros where nobody knows, as after the end of an episode.
            terminated: Whether the episode ended with the decision.
            first: Number of the first of these decisions, counted from 0, for messages.

        Raises:
            ConfigError: If the function raises, or does not give a finite number for each decision; names the first.
        """
        if self._function is not None:
            reward = self._asked(obs, action, reward, next_obs, terminated, first)
        return self.plain(reward)

    def plain(self, reward: np.ndarray) -> np.ndarray:
        """Returns rewards ``[n]`` times the scale, plus the shift, cut off at the bounds; float32."""
        found = reward.astype(np.float64) * self.cfg.scale + self.cfg.shift
        return (found if self.cfg.bounds is None else found.clip(*self.cfg.bounds)).astype(np.float32)

    @property
    def needs_observations(self) -> bool:
        """Whether more is looked at than rewards."""
        return self._function is not None

    def _asked(
        self, obs: Tree, action: np.ndarray, reward: np.ndarray, next_obs: Tree, terminated: np.ndarray, first: int
    ) -> np.ndarray:
        assert self._function is not None
        where, number = f"{self._source}: relabel.function = {self.cfg.function}", len(reward)
        shown = self._obs.to_env(obs), self._action.to_env(action), reward, self._obs.to_env(next_obs), terminated
        try:
            given = self._function(*shown)
            found = np.asarray(given) if given is None else np.asarray(given, np.float64)
        except Exception as error:  # whatever the user's function raises
            raise ConfigError(
                f"{where}: raises {described(error)}; it is given arrays of {number:,} rows (obs, action, "
                "reward, next_obs, terminated) and gives as many rewards"
            ) from error
        if found.shape != (number,):
            what = f"shape {found.shape}" if found.dtype != object else "nothing"
            raise ConfigError(f"{where}: gives {what} for {number:,} rows; it must give shape ({number},)")
        finite = np.isfinite(found)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ConfigError(f"{where}: gives {found[row]} for row {first + row + 1}; it must be a finite number")
        return found
