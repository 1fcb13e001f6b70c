"""Selection of recorded episodes: by return, the newest, the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.settings.fields import Part, Settings, Structural
from rookery.core.settings.reach import Count


@dataclass(frozen=True)
class SelectionConfig(Settings):
    """Selection of recorded episodes: of those with a sufficient return the newest, and of these the best.

    Returns are sums of the recorded rewards. They need the first decision and the end of an episode in the data;
    selections by return leave out other episodes.
    """

    min_return: Structural[float | None] = None
    """Only episodes with at least this return; None = no limit."""

    last_episodes: Structural[Count | None] = None
    """Only this number of the newest episodes; None = all."""

    last_decisions: Structural[Count | None] = None
    """Only the newest episodes with this total number of decisions, the oldest of them whole; None = all."""

    best: Structural[Part] = 1.0
    """Only this share of the episodes, those with the largest returns: 0.1 or 10% = the best tenth, at least one."""

    @property
    def is_everything(self) -> bool:
        """Whether all episodes are selected."""
        return not self.describe()

    @property
    def by_return(self) -> bool:
        """Whether the selection depends on returns."""
        return self.min_return is not None or self.best < 1

    def describe(self) -> str:
        """Returns the selection as text; empty if all episodes are selected."""
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


def filter_episodes(lengths: np.ndarray, returns: np.ndarray, cfg: SelectionConfig, source: str) -> np.ndarray:
    """Returns the indices of the selected episodes, ascending.

    Args:
        lengths: ``[E]`` number of decisions of each, the oldest episode first.
        returns: ``[E]`` float64, NaN where unknown.
        cfg: The selection.
        source: Source of the episodes, for messages.

    Returns:
        The indices.

    Raises:
        ConfigError: If no episode is selected.
    """
    which = np.arange(len(lengths))
    if cfg.by_return:
        which = which[np.isfinite(returns)]
        if not len(which):
            raise ConfigError(
                f"{source}: none of its {len(lengths):,} episodes is complete, from its first decision to its end, "
                "with "
                "rewards, so that none can be selected by return; leave out best and min_return"
            )
    if cfg.min_return is not None:
        best = float(returns[which].max())
        which = which[returns[which] >= cfg.min_return]
        if not len(which):
            raise ConfigError(
                f"{source}: no episode has a return of {cfg.min_return:g} or more, the best one has {best:g}; use a "
                "smaller "
                "min_return, or best=0.1 for the best tenth"
            )
    if cfg.last_episodes is not None:
        which = which[-cfg.last_episodes :]
    if cfg.last_decisions is not None:
        later = lengths[which][::-1].cumsum()[::-1] - lengths[which]  # decisions in later episodes
        which = which[later < cfg.last_decisions]
    if cfg.best < 1:
        number = max(round(cfg.best * len(which)), 1)
        order = np.argsort(-returns[which], kind="stable")
        which = np.sort(which[order[:number]])
    return which
