"""Windows of consecutive decisions of episodes, for learners that read data as sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.replay.demonstrations import DataSet, followed


@dataclass(frozen=True)
class DrawnWindows:
    """Windows of up to K decisions in a row; shorter ones stand at the right end of their K places.

    Attributes:
        row: ``[n]`` rows of the data set, window after window, in the order of time.
        timestep: ``[n]`` decisions before each in its episode.
        is_there: ``[B, K]`` bool, which places of the windows hold a decision: n of them.
    """

    row: np.ndarray
    timestep: np.ndarray
    is_there: np.ndarray


class EpisodeWindows:
    """Draws windows from the episodes of a data set.

    Args:
        data: The data set.

    Attributes:
        order: ``[N]`` its rows, episode after episode, in the order of time.
        timestep: ``[N]`` decisions before each of these in its episode.
        left: ``[N]`` decisions from each of these to the end of its episode, itself included.
    """

    def __init__(self, data: DataSet) -> None:
        to_come = steps_to_end(data.following)
        end = followed(data.following)
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

    def draw(self, number: int, length: int, rng: np.random.Generator) -> DrawnWindows:
        """Draws windows: an episode in proportion to its length, and where in it the window begins, evenly; one that
        begins near the end is shorter (Chen et al. 2021, appendix A.2).

        Args:
            number: How many.
            length: K, decisions of a window at most.
            rng: Decides which.
        """
        start = rng.integers(0, len(self.order), number)
        size = np.minimum(self.left[start], length)
        place = np.arange(length)
        is_there = place >= length - size[:, None]
        at = (start - length + size)[:, None] + place
        found = at[is_there]
        return DrawnWindows(self.order[found], self.timestep[found], is_there)


def steps_to_end(pointer: np.ndarray) -> np.ndarray:
    """Counts the steps ``[N]`` from each place to where pointers ``[N]`` lead in the end, a place that points to
    itself; each round doubles how far is counted.
    """
    count: np.ndarray = (pointer != np.arange(len(pointer))).astype(np.int64)
    while not np.array_equal(further := pointer[pointer], pointer):
        count, pointer = count + count[pointer], further
    return count
