"""Memories made into others: merged, exported as they are, and as plain arrays; and what is said of them."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from plays import SPACES, Play, memory_for
from recordings import recording

from rookery.core.errors import SpaceError
from rookery.core.io.files import FileError, write_directory
from rookery.replay import budget, segments
from rookery.replay.recording import recording_of, write_recordings
from rookery.replay.segments import copy_rows, facts_of, find_replay, new_segments
from rookery.replay.summary import Episodes, summarize
from rookery.replay.transfer import linked, merged, write_arrays


def stored(folder, name, space="numbers", rows=120, seed=0, **settings):
    """A memory in a directory, and the one it was written from."""
    play = Play(memory_for(space, **settings), seed=seed)
    memory = play.go_on(rows)
    files = new_segments(memory, "main", memory.first, memory.total)
    write_directory(folder / name, files, {segments.FACTS: {"main": facts_of(memory)}})
    return find_replay(folder / name), memory


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 4000)


def nothing(_):
    """No progress is shown."""


def held(memory):
    return memory.rows_between(memory.first, memory.total)


@pytest.mark.parametrize("space", SPACES)
def test_memories_that_are_merged_follow_each_other(tmp_path, space):
    (a, first), (b, second) = stored(tmp_path, "a", space), stored(tmp_path, "b", space, rows=300, seed=1)
    write_directory(tmp_path / "both", *merged([a, b, a], "main", nothing))
    both = find_replay(tmp_path / "both")
    assert len(both) == len(a) + len(b) + len(a)
    memory = memory_for(space, capacity=1000)
    copy_rows(both, memory)
    expected = [held(one) for one in (first, second, first)]
    for name in ("action", "reward", "terminated", "truncated", "begins", "clock"):
        np.testing.assert_array_equal(held(memory)[name], np.concatenate([one[name] for one in expected]))
    twin = memory_for(space, capacity=1000)  # one after the other gives the same
    for one in (a, b, a):
        copy_rows(one, twin)
    for name, array in held(twin).items():
        np.testing.assert_array_equal(array, held(memory)[name], err_msg=name)
    for one in (memory, twin):
        one.rng = np.random.default_rng(3)
    draws = [one.sample(500, n_step=4, gamma=0.9, beta=0.5) for one in (memory, twin)]
    for name in draws[0].obs:
        assert (draws[0].next_obs[name] == draws[1].next_obs[name]).all()


def test_slots_of_one_memory_do_not_go_on_in_the_next(tmp_path):
    (a, _), (b, _) = stored(tmp_path, "a"), stored(tmp_path, "b", seed=1)
    write_directory(tmp_path / "both", *merged([a, b], "main", nothing))
    apart = [summarize(one).episodes for one in (a, b)]
    both = summarize(find_replay(tmp_path / "both")).episodes
    assert both.returns == apart[0].returns + apart[1].returns
    assert both.running == apart[0].running + apart[1].running
    assert (both.terminated, both.truncated) == (
        apart[0].terminated + apart[1].terminated, apart[0].truncated + apart[1].truncated
    )  # fmt: skip


def test_merging_counts_what_is_written(tmp_path):
    (a, _), (b, _) = stored(tmp_path, "a"), stored(tmp_path, "b", rows=300)
    counted = []
    write_directory(tmp_path / "both", *merged([a, b], "main", counted.append))
    assert sum(counted) == len(a) + len(b)
    assert len(counted) > 4


def test_memories_of_other_spaces_are_not_merged(tmp_path):
    (a, _), (b, _) = stored(tmp_path, "a"), stored(tmp_path, "b", "frames")
    with pytest.raises(SpaceError) as caught:
        merged([a, b], "main", nothing)
    assert str(caught.value) == (
        f"{b}: this replay buffer does not fit: it holds observations {SPACES['frames']}, {a} has {SPACES['numbers']}"
    )


def test_what_is_exported_is_shared_with_where_it_came_from(tmp_path):
    a, memory = stored(tmp_path, "a", rows=300)
    write_directory(tmp_path / "out", *linked([a]))
    out = find_replay(tmp_path / "out")
    assert [one.file.path.stat().st_ino for one in out.segments] == [
        one.file.path.stat().st_ino for one in a.segments
    ]  # fmt: skip
    rewards = np.concatenate([piece.rows["reward"] for piece in out.open_segments()])
    np.testing.assert_array_equal(rewards, held(memory)["reward"])


@pytest.mark.parametrize("space", SPACES)
def test_plain_arrays_hold_every_decision_and_what_was_seen_after_it(tmp_path, space):
    a, memory = stored(tmp_path, "a", space, rows=300)
    write_arrays(a, tmp_path / "a.npz", nothing)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        found = dict(file)
    rows = held(memory)
    for name in ("action", "reward", "terminated", "truncated", "begins", "slot", "clock"):
        np.testing.assert_array_equal(found[name], rows[name])
    draw = memory.sample(2000, n_step=1, gamma=1.0, beta=0.5)
    at = draw.row.numpy() - memory.first
    for path in draw.obs:
        own = "" if path == "obs" else f"/{path}"
        np.testing.assert_array_equal(found[f"obs{own}"][at], draw.obs[path])
        continues = draw.discount.numpy() > 0
        np.testing.assert_array_equal(found[f"next_obs{own}"][at][continues], draw.next_obs[path][continues])
        assert not found[f"next_obs{own}"][found["terminated"]].any()
    assert 200 < len(set(at.tolist())) + 30


def test_plain_arrays_that_cannot_be_written_leave_nothing(tmp_path, monkeypatch):
    a, _ = stored(tmp_path, "a")
    (tmp_path / "a.npz").write_bytes(b"old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "open", full)
    with pytest.raises(FileError, match="a.npz: cannot be written: No space left on device"):
        write_arrays(a, tmp_path / "a.npz", nothing)
    assert (tmp_path / "a.npz").read_bytes() == b"old"
    assert not list(tmp_path.glob(".tmp-*"))


# --- what is said ---------------------------------------------------------------------------------------------------


def episodes_by_hand(rows):
    """Finished episodes by their slots, decision by decision."""
    running, found, ends, broken = {}, [], [0, 0], 0
    columns = zip(
        *(rows[name].tolist() for name in ("slot", "begins", "reward", "terminated", "truncated")), strict=True
    )
    for number, (slot, begins, reward, terminated, truncated) in enumerate(columns):
        if begins:
            broken += slot in running
            running[slot] = [0.0, 0, True]
        total = running.setdefault(slot, [0.0, 0, False])
        total[0] += reward
        total[1] += 1
        if terminated or truncated:
            ends[truncated and not terminated] += 1
            if total[2]:
                found.append((number, total[0], total[1]))
            del running[slot]
    return sorted(found), ends, broken, len(running)


@pytest.mark.parametrize("capacity", [100, 5000])
def test_episodes_are_those_that_a_slow_loop_finds(tmp_path, capacity):
    a, memory = stored(tmp_path, "a", rows=1500, capacity=capacity)
    assert len(a.segments) > 1
    found = summarize(a)
    episodes = found.episodes
    expected, ends, broken, running = episodes_by_hand(held(memory))
    mine = sorted(zip(episodes.ended, episodes.returns, episodes.lengths, strict=True))
    assert [(one[0], one[2]) for one in mine] == [(one[0], one[2]) for one in expected]
    np.testing.assert_allclose([one[1] for one in mine], [one[1] for one in expected], atol=1e-4)
    assert [episodes.terminated, episodes.truncated] == ends
    assert (episodes.broken, episodes.running) == (broken, running)
    np.testing.assert_array_equal(found.rewards, held(memory)["reward"])


def test_rows_of_other_memories_end_no_episode_of_a_slot_of_the_same_number():
    episodes = Episodes()
    rows = {"slot": [-1] * 4, "begins": [1, 0, 0, 0], "terminated": [0, 0, 0, 1], "truncated": [0] * 4}
    rows = {name: np.array(values, bool if name != "slot" else int) for name, values in rows.items()}
    episodes.add({**rows, "reward": np.ones(4, np.float32), "before": np.array([0, 1, 0, 1])}, 0, True)
    assert (episodes.returns, episodes.terminated, episodes.running) == ([], 1, 1)


def test_an_empty_piece_says_nothing():
    episodes = Episodes()
    rows = {name: np.zeros(0, bool) for name in ("slot", "begins", "reward", "terminated", "truncated", "before")}
    episodes.add(rows, 0, True)
    assert (episodes.running, episodes.returns) == (0, [])


@pytest.mark.regression("unclear error", "A replay that is too large for the memory ends in one line")
def test_a_replay_that_is_too_large_to_be_read_at_once_is_named(tmp_path, monkeypatch):
    write_recordings(tmp_path / "large", {"main": recording()})
    monkeypatch.setattr(budget, "bytes_free", lambda: 10)
    with pytest.raises(FileError, match=r"large.*: its 8 decisions are read at once for this format and do not fit"):
        recording_of(find_replay(tmp_path / "large"))
