"""Windows of consecutive decisions of episodes, for sequence models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.replay.demonstrations import DataSet, chain_ends


@dataclass(frozen=True)
class DrawnWindows:
    """Windows of up to K consecutive decisions; shorter ones are right-aligned in their K places.

    Attributes:
        row: ``[n]`` rows of the data set, window by window, in the order of time.
        timestep: ``[n]`` number of earlier decisions in the episode.
        is_there: ``[B, K]`` bool, mask of the n places that hold a decision.
    """

    row: np.ndarray
    timestep: np.ndarray
    is_there: np.ndarray


class EpisodeWindows:
    """Sampler of windows from the episodes of a data set.

    Args:
        data: The data set.

    Attributes:
        order: ``[N]`` its rows, episode after episode, in the order of time.
        timestep: ``[N]`` number of earlier decisions in the episode of each of these.
        left: ``[N]`` number of decisions from each of these to the end of its episode, inclusive.
    """

    def __init__(self, data: DataSet) -> None:
        to_come = steps_to_end(data.following)
        end = chain_ends(data.following)
        self.order = np.lexsort((-to_come, end))
        self.left = to_come[self.order] + 1
        every = np.arange(len(self.order))
        begins = np.append(True, np.diff(end[self.order]) != 0)
        self.timestep = every - np.maximum.accumulate(np.where(begins, every, 0))

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of each episode."""
        found: np.ndarray = self.order[self.timestep == 0]
        return found

    @property
    def last_rows(self) -> np.ndarray:
        """The last row of each episode."""
        found: np.ndarray = self.order[self.left == 1]
        return found

    def draw(self, number: int, length: int, rng: np.random.Generator) -> DrawnWindows:
        """Samples windows: an episode in proportion to its length, and a uniform start in it; windows near the end are
        shorter (Chen et al. 2021, appendix A.2).

        Args:
            number: Number of windows.
            length: K, largest number of decisions in a window.
            rng: Source of the samples.
        """
        start = rng.integers(0, len(self.order), number)
        size = np.minimum(self.left[start], length)
        place = np.arange(length)
        is_there = place >= length - size[:, None]
        at = (start - length + size)[:, None] + place
        found = at[is_there]
        return DrawnWindows(self.order[found], self.timestep[found], is_there)


def steps_to_end(pointer: np.ndarray) -> np.ndarray:
    """Returns the number of steps ``[N]`` from each place along pointers ``[N]`` to the end of its chain, a place that
    points to itself; each round doubles the distance.
    """
    count: np.ndarray = (pointer != np.arange(len(pointer))).astype(np.int64)
    while not np.array_equal(further := pointer[pointer], pointer):
        count, pointer = count + count[pointer], further
    return count
