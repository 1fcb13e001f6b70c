"""Rows in files: the same batches as from RAM, and no more RAM than is allowed."""

from __future__ import annotations

import os
from collections import namedtuple

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stories import STACK, Film, Story

from rookery.core.errors import ConfigError, RookeryError
from rookery.replay import budget, memmap_arrays
from rookery.replay.memmap_arrays import MemmapArrays

WIDE = spaces.Box(-np.inf, np.inf, (2000,), np.float32)


def filled(story, **settings):
    memory = story.memory(capacity=300, **settings)
    rng = np.random.default_rng(1)
    for _ in range(12):
        memory.add(story.play(10, [(slot, rng.choice([0, 0, 0, 0, 1, 2], 10).tolist()) for slot in range(4)]))
    return memory


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
@pytest.mark.parametrize("space", [WIDE, STACK], ids=["numbers", "frames"])
def test_batches_and_files_are_those_of_rows_in_ram(space, kind):
    made = Film if space.dtype == np.uint8 else Story
    one, other = (filled(made(np.random.default_rng(0), space), kind=kind, memory_mb=mb) for mb in (None, 1))
    assert one.memmaps.in_files == 0 < 1_000_000 < other.memmaps.in_files
    for _ in range(3):
        a, b = (memory.sample(32, n_step=3, gamma=0.9, beta=0.5) for memory in (one, other))
        for name in ("action", "reward", "discount", "row"):
            assert torch.equal(getattr(a, name), getattr(b, name))
        assert torch.equal(a.obs["obs"], b.obs["obs"]) and torch.equal(a.next_obs["obs"], b.next_obs["obs"])
    pieces = [memory.rows_between(memory.first, memory.total) for memory in (one, other)]
    assert pieces[0].keys() == pieces[1].keys()
    for name, array in pieces[0].items():
        np.testing.assert_array_equal(array, pieces[1][name])


def test_a_buffer_in_files_is_restored_and_appended_to_like_any(tmp_path):
    memory = filled(Story(np.random.default_rng(0), WIDE), memory_mb=1)
    piece = memory.rows_between(memory.first, memory.total)
    again, new = (Story(np.random.default_rng(0), WIDE).memory(capacity=300, memory_mb=1) for _ in range(2))
    again.load_state_dict(memory.state_dict())
    again.restore([piece])
    new.append(piece, continues=False)  # in several parts
    for other in (again, new):
        np.testing.assert_array_equal(other.rows_between(other.first, other.total)["obs/obs"], piece["obs/obs"])
    drawn = [one.sample(8, n_step=1, gamma=1.0, beta=0).row for one in (again, memory)]
    assert torch.equal(*drawn)
    broken = piece | {"next_row": piece["next_row"][:0]}
    broken["next_obs/obs"] = piece["next_obs/obs"][:0]
    with pytest.raises(RookeryError, match="rows have no next observation"):
        new.append(broken, continues=False)


def test_what_fits_stays_in_ram():
    story = Story(np.random.default_rng(0))
    assert story.memory(capacity=300, memory_mb=10).memmaps.limit is None
    memory = story.memory(capacity=100_000, memory_mb=5)
    assert memory.memmaps.limit == 5_000_000
    assert memory.memmaps.in_files == 4_000_000  # the others are less than half of the limit
    assert 1_250_000 < memory.memmaps.page_budget < 2_500_000


def test_ram_is_reckoned_by_the_limit(monkeypatch):
    monkeypatch.setattr(budget, "bytes_free", lambda: 3_000_000 + budget.promised())
    story = Story(np.random.default_rng(0), WIDE)
    with pytest.raises(ConfigError, match="replay.capacity = 1,000 decisions take 8.06 MB"):
        story.memory(capacity=1000)
    assert len(story.memory(capacity=1000, memory_mb=2)) == 0


def test_a_disk_without_room_is_refused_with_its_folder(monkeypatch):
    def full(number, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(memmap_arrays.shutil, "disk_usage", lambda folder: namedtuple("usage", "free")(5_000_000))
    with pytest.raises(ConfigError, match=r"replay.memory_mb: 0.01 GB of rows need space in .*, where 0.005 GB"):
        MemmapArrays(1000).empty((1000, 2500), np.float32)


def test_pages_are_given_back_before_they_come_to_the_limit(monkeypatch):
    given = []
    monkeypatch.setattr(memmap_arrays, "release", given.append)
    memmaps = MemmapArrays(40 * memmap_arrays.AROUND)
    array = memmaps.empty((1000, 25_000), np.float32)
    assert memmaps.page_budget == 30 * memmap_arrays.AROUND and array.shape == (1000, 25_000)
    for _ in range(10):
        memmaps.note_reads(5)
    cost = 5 * (100_000 + memmap_arrays.AROUND)
    assert len(given) == 10 // (memmaps.page_budget // cost) - 1
    with memmaps.reading("another map"):
        memmaps.release_pages()
    assert given[-2:] == ["another map", "another map"]


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="there is no /proc")
def test_pages_that_are_given_back_take_no_ram():
    def shared():
        return int(open("/proc/self/statm").read().split()[2]) * os.sysconf("SC_PAGE_SIZE")

    memmaps = MemmapArrays(1 << 20)
    before = shared()
    array = memmaps.empty((50, 1 << 20), np.uint8)
    array[:] = 7
    assert shared() - before > 45 << 20
    memmaps.release_pages()
    assert shared() - before < 5 << 20
    assert array.min() == 7
