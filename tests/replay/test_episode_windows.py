"""Windows of the episodes of a data set: their order, places and how often each is drawn."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from recorded import buffer_of
from rookery.replay.demonstrations import DataSet
from rookery.replay.windows import EpisodeWindows, steps_to_end

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def windows_of(lengths):
    """Episodes of these lengths, whose observations are 100 times the episode plus the time."""
    episodes = [
        {"obs": 100.0 * number + np.arange(size + 1)[:, None], "action": [[0.0]] * size, "reward": [1.0] * size,
         "terminated": number % 2 == 0}
        for number, size in enumerate(lengths)
    ]  # fmt: skip
    data = DataSet(buffer_of(BOX, spaces.Box(-1, 1, (1,), np.float32), episodes), 0.0, np.random.default_rng(0))
    return data, EpisodeWindows(data)


def test_steps_are_counted_to_the_end():
    assert steps_to_end(np.array([3, 2, 2, 4, 5, 5, 6])).tolist() == [3, 1, 0, 2, 1, 0, 0]


def test_rows_stand_in_the_order_of_their_episodes():
    data, windows = windows_of([4, 1, 6])
    seen = data.obs(windows.order)["obs"].flatten().tolist()
    assert sorted(seen) == sorted([0, 1, 2, 3, 100, 200, 201, 202, 203, 204, 205])
    assert windows.timestep.tolist() == [int(value) % 100 for value in seen]
    lengths = {0: 4, 1: 1, 2: 6}
    assert windows.left.tolist() == [lengths[int(value) // 100] - int(value) % 100 for value in seen]
    assert sorted(data.obs(windows.first_rows)["obs"].flatten().tolist()) == [0, 100, 200]


def test_a_window_is_consecutive_stands_on_the_right_and_ends_with_its_episode():
    data, windows = windows_of([4, 1, 6])
    drawn = windows.draw(500, 3, np.random.default_rng(1))
    seen = data.obs(drawn.row)["obs"].flatten().numpy().astype(int)
    assert np.array_equal(seen % 100, drawn.timestep)
    grid = np.full(drawn.is_there.shape, -1)
    grid[drawn.is_there] = seen
    assert (np.diff(drawn.is_there.astype(int), axis=1) >= 0).all(), "what is left out stands on the left"
    for window in grid:
        there = window[window >= 0]
        first, length = there[0], {0: 4, 1: 1, 2: 6}[there[0] // 100]
        assert there.tolist() == list(range(first, first + min(3, length - first % 100)))


def test_every_start_is_as_likely_so_episodes_count_by_their_length():
    data, windows = windows_of([40, 10])
    drawn = windows.draw(20_000, 5, np.random.default_rng(2))
    starts = np.flatnonzero(np.diff(np.append(-1, np.repeat(np.arange(20_000), drawn.is_there.sum(1)))))
    first = data.obs(drawn.row[starts])["obs"].flatten().numpy()
    counts = np.unique(first, return_counts=True)[1]
    assert len(counts) == 50 and counts.min() > 300 and counts.max() < 500
