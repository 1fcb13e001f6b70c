"""Which episodes of data are taken: those that are good enough, the newest, the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.settings.fields import Part, Settings, Structural
from rookery.core.settings.reach import Count


@dataclass(frozen=True)
class SelectionConfig(Settings):
    """Which episodes of data are taken: of those that are good enough the newest, and of these the best.

    Returns are sums of the rewards as they were recorded. An episode has one if its first decision and its end are in
    the data; where returns are asked for, others are left out.
    """

    min_return: Structural[float | None] = None
    """Only episodes that returned at least this; None = whatever they returned."""

    last_episodes: Structural[Count | None] = None
    """Only so many of the newest episodes; None = all."""

    last_decisions: Structural[Count | None] = None
    """Only the newest episodes that have so many decisions together, the oldest of them whole; None = all."""

    best: Structural[Part] = 1.0
    """Only this part of the episodes, those with the largest returns: 0.1 or 10% = the best tenth, one at least."""

    @property
    def is_everything(self) -> bool:
        """Whether all episodes are taken."""
        return not self.words

    @property
    def by_return(self) -> bool:
        """Whether what episodes returned decides."""
        return self.min_return is not None or self.best < 1

    @property
    def words(self) -> str:
        """What is taken, for people; empty if all is."""
        parts = []
        if self.min_return is not None:
            parts.append(f"returns of at least {self.min_return:g}")
        if self.last_episodes is not None:
            parts.append(f"the last {self.last_episodes:,} episodes")
        if self.last_decisions is not None:
            parts.append(f"the last {self.last_decisions:,} decisions")
        if self.best < 1:
            parts.append(f"the best {100 * self.best:g} %")
        return ", ".join(parts)


def chosen_episodes(lengths: np.ndarray, returns: np.ndarray, cfg: SelectionConfig, source: str) -> np.ndarray:
    """Finds the episodes that are taken.

    Args:
        lengths: ``[E]`` decisions of each, the oldest episode first.
        returns: ``[E]`` float64, NaN where nobody knows.
        cfg: Which ones.
        source: Where they are, for messages.

    Returns:
        Their numbers, ascending.

    Raises:
        ConfigError: If there are none.
    """
    which = np.arange(len(lengths))
    if cfg.by_return:
        which = which[np.isfinite(returns)]
        if not len(which):
            raise ConfigError(
                f"{source}: not one of its {len(lengths):,} episodes is there from its first decision to its end with "
                "rewards, so that none can be chosen by what it returned; leave out best and min_return"
            )
    if cfg.min_return is not None:
        best = float(returns[which].max())
        which = which[returns[which] >= cfg.min_return]
        if not len(which):
            raise ConfigError(
                f"{source}: no episode returned {cfg.min_return:g} or more: the best one {best:g}; use a smaller "
                "min_return, or best=0.1 for the best tenth"
            )
    if cfg.last_episodes is not None:
        which = which[-cfg.last_episodes :]
    if cfg.last_decisions is not None:
        later = lengths[which][::-1].cumsum()[::-1] - lengths[which]  # decisions of the episodes after each
        which = which[later < cfg.last_decisions]
    if cfg.best < 1:
        number = max(round(cfg.best * len(which)), 1)
        order = np.argsort(-returns[which], kind="stable")
        which = np.sort(which[order[:number]])
    return which
