"""Relabelling of recorded rewards: scaled, shifted, clipped, or computed by a function of the decisions."""

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
    """Settings of relabelling: the function's rewards times `scale`, plus `shift`, clipped to `bounds`."""

    function: Structural[Annotated[str, CODE] | None] = None
    """``module:function`` of arrays (obs, action, reward, next_obs, terminated) that returns the rewards; None = the
    recorded ones.
    """

    scale: Structural[float] = 1.0
    """Factor on rewards."""

    shift: Structural[float] = 0.0
    """Constant added to the scaled rewards."""

    bounds: Structural[tuple[float, float] | None] = None
    """Smallest and largest reward; None = no limits."""

    @property
    def is_nothing(self) -> bool:
        """Whether rewards stay unchanged."""
        return not self.describe()

    def describe(self) -> str:
        """Returns the change of rewards as text; empty if there is none."""
        parts = [] if self.function is None else [f"those of {self.function}"]
        if self.scale != 1:
            parts.append(f"times {self.scale:g}")
        if self.shift:
            parts.append(f"plus {self.shift:g}")
        if self.bounds is not None:
            parts.append(f"from {self.bounds[0]:g} to {self.bounds[1]:g}")
        return ", ".join(parts)


class Relabel:
    """Computes new rewards of decisions.

    Args:
        cfg: Settings.
        obs: Layout of observations.
        action: Layout of actions.
        source: Source of the decisions, for messages.

    Raises:
        ConfigError: If the bounds are not ascending, or the function does not exist.
    """

    def __init__(self, cfg: RelabelConfig, obs: ObsSpec, action: ActionSpec, source: str) -> None:
        if cfg.bounds is not None and not cfg.bounds[0] < cfg.bounds[1]:
            raise ConfigError(
                f"relabel.bounds = {cfg.bounds[0]:g}, {cfg.bounds[1]:g}: the smallest reward comes first and must be "
                "smaller, as in [-1, 1]"
            )
        self.cfg = cfg
        self._obs, self._action, self._source = obs, action, source
        self._function: Callable[..., Any] | None = None
        if cfg.function is not None:
            found = import_object(cfg.function)
            if not callable(found):
                raise ConfigError(f"relabel.function = {cfg.function}: is not a function")
            self._function = found

    def rewards(
        self, obs: Tree, action: np.ndarray, reward: np.ndarray, next_obs: Tree, terminated: np.ndarray, first: int
    ) -> np.ndarray:
        """Returns new rewards ``[n]``, float32.

        Args:
            obs: Stored observations, ``[n, ...]`` by leaf path.
            action: Stored actions.
            reward: Recorded rewards, 0 where unknown.
            next_obs: Next observations, zeros where unknown, as after the end of an episode.
            terminated: Whether the episode ended with the decision.
            first: Index of the first of these decisions, from 0, for messages.

        Raises:
            ConfigError: If the function raises, or does not return a finite number for each decision; names the first.
        """
        if self._function is not None:
            reward = self._function_rewards(obs, action, reward, next_obs, terminated, first)
        return self.plain(reward)

    def plain(self, reward: np.ndarray) -> np.ndarray:
        """Returns rewards ``[n]`` times the scale, plus the shift, clipped to the bounds; float32."""
        found = reward.astype(np.float64) * self.cfg.scale + self.cfg.shift
        return (found if self.cfg.bounds is None else found.clip(*self.cfg.bounds)).astype(np.float32)

    @property
    def needs_observations(self) -> bool:
        """Whether more than the rewards is read."""
        return self._function is not None

    def _function_rewards(
        self, obs: Tree, action: np.ndarray, reward: np.ndarray, next_obs: Tree, terminated: np.ndarray, first: int
    ) -> np.ndarray:
        assert self._function is not None
        where, number = f"{self._source}: relabel.function = {self.cfg.function}", len(reward)
        shown = self._obs.to_env(obs), self._action.to_env(action), reward, self._obs.to_env(next_obs), terminated
        try:
            given = self._function(*shown)
            found = np.asarray(given) if given is None else np.asarray(given, np.float64)
        except Exception as error:  # any error of the user's function
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
