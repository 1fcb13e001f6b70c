"""Memories as files: what comes back is what was there, only what is new is written, and what is broken is refused."""

from __future__ import annotations

import errno
import os
import random
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from plays import SPACES, Play, drawn, memory_for

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io import files
from rookery.core.io.files import FileError, read_directory, write_directory
from rookery.replay import segments
from rookery.replay.segments import check_spaces, copy_rows, find_replay, spaces_of, stored_replays
from rookery.run.checkpoint.replays import SavedReplays
from selection import slow


class Saver:
    """Saves one memory as the checkpoints of a run do, and loads it."""

    def __init__(self, folder, memory, policy="main"):
        self.folder, self.memory, self.policy = folder, memory, policy
        self.memories = SavedReplays()
        self.number = 0
        folder.mkdir(exist_ok=True)

    @property
    def learners(self):
        return {self.policy: SimpleNamespace(own=self.memory)}

    def save(self, place=None):
        self.number += 1
        place = place or self.folder / f"{self.number:06d}"
        content, facts = self.memories.files(self.learners)
        self.state = self.memory.state_dict()
        write_directory(place, content, facts)
        self.memories.note_checkpoint(place)
        return place

    def load(self, place, memory):
        """Fills a new memory with what lies in a directory; gives what was said about it."""
        said = []
        _, facts = read_directory(place)
        saved = SimpleNamespace(path=place, facts=facts, memories=files.mapped_files(place, facts))
        self.memory, self.memories = memory, SavedReplays()
        memory.load_state_dict(self.state)
        self.memories.restore(saved, self.learners, said.append)
        return said


def held(memory):
    """All rows of a memory."""
    return memory.rows_between(memory.first, memory.total)


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def inodes(place):
    return {path.name: path.stat().st_ino for path in sorted(place.glob("memory-*"))}


KINDS = {
    "numbers": {},
    "frames": {},
    "frames, whole": {"frame_stacks": False},
    "dict": {},
    "prioritized": {"kind": "prioritized"},
    "sequences": {"memory_size": 6},
    "prioritized sequences": {"memory_size": 6, "kind": "prioritized"},
    "sequences of frames": {"memory_size": 6},
}


def empty(kind, **settings):
    space = next((name for name in SPACES if name in kind), "numbers")
    return memory_for(space, **{**KINDS[kind], **settings})


# --- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [slow(150), 700], ids=["before the ring is full", "after it went round"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_loaded_is_what_was_saved_and_draws_the_same(tmp_path, kind, rows):
    play = Play(empty(kind))
    saver = Saver(tmp_path, play.go_on(rows // 3))
    for part in (rows // 3, rows // 3):
        drawn(play.memory, 3)
        saver.save()
        play.go_on(part)
    place = saver.save()
    new = empty(kind, seed=99)
    assert saver.load(place, new) == []
    assert_equal(held(new), held(play.memory))
    assert drawn(new) == drawn(play.memory)
    twin = Play(new)
    twin.slots, twin.rng = play.slots, play.rng
    rollouts = [play.rollout() for _ in range(30)]
    for rollout in rollouts:  # and later rollouts continue the slots
        for memory in (new, play.memory):
            memory.add(rollout)
    assert_equal(held(new), held(play.memory))
    assert drawn(new) == drawn(play.memory)


def test_segments_are_cut_where_they_would_get_large(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3000)
    play = Play(empty("sequences"))
    saver = Saver(tmp_path, play.go_on(150))
    place = saver.save()
    sizes = [path.stat().st_size for path in place.glob("memory-*")]
    assert len(sizes) > 3
    assert max(sizes) < 3000 + 3000  # with the header
    new = empty("sequences")
    saver.load(place, new)
    assert_equal(held(new), held(play.memory))
    assert drawn(new) == drawn(play.memory)


def test_a_memory_that_shrank_or_grew_since_keeps_the_newest_rows_that_fit(tmp_path):
    play = Play(empty("numbers"))
    saver = Saver(tmp_path, play.go_on(150))
    place = saver.save()
    for capacity, expected in ((60, 60), (1000, len(play.memory))):
        new = empty("numbers", capacity=capacity)
        saver.load(place, new)
        assert (len(new), new.total) == (expected, play.memory.total)
        mine, theirs = held(new), play.memory.rows_between(new.first, play.memory.total)
        assert_equal({**mine, "before": 0 * mine["before"]}, {**theirs, "before": 0 * theirs["before"]})


# --- only what is new -----------------------------------------------------------------------------------------------


def test_only_new_rows_are_written_and_the_rest_is_shared(tmp_path):
    play = Play(empty("numbers"))
    saver = Saver(tmp_path, play.go_on(60))
    first = saver.save()
    before = {path.name: path.read_bytes() for path in first.glob("memory-*")}
    play.go_on(30)
    second = saver.save()
    assert list(inodes(first).items()) == list(inodes(second).items())[:1]
    (new,) = inodes(second).keys() - inodes(first).keys()
    assert int(new.rpartition("-")[2].removesuffix(".safetensors")) >= 60
    assert before == {name: (second / name).read_bytes() for name in before}
    assert (second / new).stat().st_size < 2 * next(iter(first.glob("memory-*"))).stat().st_size
    third = saver.save()
    assert inodes(third) == inodes(second)  # nothing is new: nothing is written


def test_segments_go_when_their_last_row_is_written_over(tmp_path):
    play = Play(empty("numbers", capacity=100))
    saver = Saver(tmp_path, play.memory)
    ends = []
    for _ in range(12):
        play.go_on(30)
        ends.append(play.memory.total)
        names = inodes(saver.save())
        starts = [0, *ends[:-1]]
        needed = [s for s, e in zip(starts, ends, strict=True) if e > play.memory.first]
        assert [int(name[12:24]) for name in sorted(names)] == needed
    assert len(names) < 6


def test_what_remains_is_whole_when_older_directories_are_removed(tmp_path):
    play = Play(empty("frames"))
    saver = Saver(tmp_path, play.memory)
    places = []
    for _ in range(9):
        play.go_on(40)
        places.append(saver.save())
        if len(places) > 2:
            files.remove_directory(places.pop(0))
    new = empty("frames")
    saver.load(places[-1], new)
    assert_equal(held(new), held(play.memory))
    assert drawn(new) == drawn(play.memory)
    assert all(path.stat().st_nlink <= 2 for path in places[-1].glob("memory-*"))


def test_segments_that_somebody_removed_are_written_again_from_memory(tmp_path):
    play = Play(empty("numbers"))
    saver = Saver(tmp_path, play.memory)
    for _ in range(4):
        play.go_on(30)
        place = saver.save()
    names = sorted(inodes(place))
    (place / names[1]).unlink()
    (place / names[2]).write_bytes(b"short")
    play.go_on(10)
    last = saver.save()
    new = empty("numbers")
    saver.load(last, new)
    assert_equal(held(new), held(play.memory))
    assert {name: ino for name, ino in inodes(last).items() if name in (names[0], names[3])} == {
        name: ino for name, ino in inodes(place).items() if name in (names[0], names[3])
    }


def test_where_there_are_no_links_segments_are_copied(tmp_path, monkeypatch):
    play = Play(empty("numbers"))
    saver = Saver(tmp_path, play.go_on(60))
    first = saver.save()

    def refuse(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(files.os, "link", refuse)
    play.go_on(30)
    second = saver.save()
    assert set(inodes(first)) < set(inodes(second))
    assert not set(inodes(first).values()) & set(inodes(second).values())
    new = empty("numbers")
    saver.load(second, new)
    assert_equal(held(new), held(play.memory))


def test_a_memory_that_is_not_to_be_saved_is_left_out_and_starts_empty(tmp_path):
    play = Play(empty("numbers", save=False))
    saver = Saver(tmp_path, play.go_on(60))
    place = saver.save()
    assert inodes(place) == {}
    new = empty("numbers")
    assert saver.load(place, new) == [
        "policy 'main': its replay is not in the checkpoint (replay.save = false) and starts empty"
    ]
    assert (len(new), new.total) == (0, play.memory.total)
    kept = Saver(tmp_path / "kept", Play(empty("numbers")).go_on(60))
    place = kept.save()
    assert kept.load(place, empty("numbers", save=False)) == [
        "policy 'main': its replay is left out (replay.save = false) and starts empty"
    ]


@pytest.mark.parametrize("policy", ["main", "pol-000000000001", "a/b", "über alles", "memory-x-000000000000"])
def test_policies_of_any_name_have_files_of_their_own(tmp_path, policy):
    plays = {name: Play(empty("numbers"), seed=number) for number, name in enumerate((policy, "other"))}
    memories = SavedReplays()
    learners = {name: SimpleNamespace(own=play.go_on(40)) for name, play in plays.items()}
    content, facts = memories.files(learners)
    write_directory(tmp_path / "a", content, facts)
    found = stored_replays(tmp_path / "a")
    assert set(found) == {policy, "other"}
    for name, stored in found.items():
        (piece,) = stored.open_segments()
        assert_equal(dict(piece.rows), held(plays[name].memory))


# --- broken and foreign ones ----------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """A memory, and how it was saved twice."""
    play = Play(empty("numbers"))
    saver = Saver(tmp_path / "checkpoints", play.go_on(40))
    saver.save()
    play.go_on(40)
    saver.save()
    return saver


def told(act, kind=FileError):
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def test_a_damaged_segment_is_named_with_the_last_good_checkpoint(two):
    good, broken = two.folder / "000001", two.folder / "000002"
    (only,) = inodes(broken).keys() - inodes(good).keys()
    file, rng = broken / only, random.Random(3)
    content = file.read_bytes()
    for number in range(200):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        file.write_bytes(content[: rng.randrange(len(content))] if number % 3 == 0 else bytes(changed))
        message = told(lambda: two.load(broken, empty("numbers")))
        assert message.startswith(f"{file}: ")
        assert "SHA-256 differs" in message or "bytes where" in message
        assert message.endswith(f"; the last good checkpoint is {good}")
    file.unlink()
    assert told(lambda: two.load(broken, empty("numbers"))) == (
        f"{file}: cannot be read: No such file or directory; the last good checkpoint is {good}"
    )


def test_damage_to_what_checkpoints_share_leaves_none_of_them_good(two):
    shared = min(inodes(two.folder / "000002"))
    os.truncate(two.folder / "000001" / shared, 100)
    message = told(lambda: two.load(two.folder / "000002", empty("numbers")))
    assert "; there is no other checkpoint beside it" in message


def rewritten(place, change):
    """The directory with other segments, whose hashes are right."""
    content = {path.name: path.read_bytes() for path in sorted(place.glob("memory-*"))}
    facts = {name: value for name, value in files.read_manifest(place).items() if name not in ("files", "sha256")}
    changed = change(content, facts) or content
    shutil.rmtree(place)
    streams = {
        name: files.Stream(len(data), lambda data=data: iter([data])) for name, data in changed.items()
    }  # fmt: skip
    write_directory(place, streams, facts)


def of_length(content, **texts):
    """A segment whose metadata say something else."""
    for old, new in texts.values():
        assert old in content
        content = content.replace(old, new)
    return content


FOREIGN = {
    "another's safetensors": (lambda data: data.replace(b"rookery replay buffer 1", b"somebody's other thing."),
                              "is not a segment of a replay buffer"),
    "a newer format": (lambda data: data.replace(b"rookery replay buffer 1", b"rookery replay buffer 9"),
                       "has format 9, which this version of Rookery cannot read"),
    "a pickle": (lambda data: b"\x80\x04\x95" + data, "is not a segment of a replay buffer"),
    "nothing": (lambda data: b"", "is not a segment of a replay buffer"),
    "other rows": (lambda data: data.replace(b'"first":"0"', b'"first":"7"'), "holds the rows 7 to "),
    "unknown spaces": (lambda data: data.replace(b'\\"kind\\": \\"Box\\"', b'\\"kind\\": \\"Bag\\"'), "unknown kind"),
    "a lost column": (lambda data: data.replace(b'"reward":', b'"payoff":'), "reward"),
    "another column": (lambda data: data.replace(b'"logp":', b'"logq":'), "the rows have no 'logp'"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_whole_files_that_are_no_segments_are_refused(two, name):
    change, words = FOREIGN[name]
    last = two.folder / "000002"
    shutil.copytree(two.folder / "000001", two.folder / "000000")  # whose files are not shared
    shutil.rmtree(two.folder / "000001")

    def first_one(content, facts):
        key = min(content)
        changed = change(content[key])
        assert changed != content[key]
        return {**content, key: changed}

    rewritten(last, first_one)
    message = told(lambda: two.load(last, empty("numbers")))
    assert words in message
    assert message.endswith(f"; the last good checkpoint is {two.folder / '000000'}")


def test_a_gap_between_segments_is_refused(two):
    play = Play(empty("numbers"))
    saver = Saver(two.folder.parent / "three", play.memory)
    for _ in range(3):
        place = saver.save() if play.go_on(40) else None

    def without_middle(content, facts):
        return {name: data for name, data in content.items() if name != sorted(content)[1]}

    rewritten(place, without_middle)
    assert "holds the rows 0 to " in told(lambda: saver.load(place, empty("numbers")))


# --- taken elsewhere ------------------------------------------------------------------------------------------------


def test_another_memory_starts_with_the_rows_of_a_saved_one(tmp_path):
    play = Play(empty("frames"))
    saver = Saver(tmp_path, play.go_on(450))
    place = saver.save()
    stored = find_replay(place)
    assert len(stored) == len(play.memory)
    heir = Play(empty("frames", capacity=400), seed=8)
    heir.go_on(30)
    own = heir.memory.total
    assert copy_rows(stored, heir.memory) == len(stored)
    assert heir.memory.total == own + len(stored)
    mine, theirs = heir.memory.rows_between(own, heir.memory.total), held(play.memory)
    for name in ("action", "reward", "terminated", "truncated", "begins", "clock", "next_row"):
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    within = theirs["before"] <= np.arange(len(stored))  # what came before the first row was not taken
    np.testing.assert_array_equal(mine["before"], theirs["before"] * within)
    heir.go_on(50)
    drawn(heir.memory)


def test_only_the_newest_rows_are_taken_that_fit(tmp_path):
    play = Play(empty("numbers"))
    stored = find_replay(Saver(tmp_path, play.go_on(180)).save())
    small = empty("numbers", capacity=50)
    assert copy_rows(stored, small) == 50
    np.testing.assert_array_equal(held(small)["reward"], held(play.memory)["reward"][-50:])


def test_rows_that_were_written_over_are_not_read(tmp_path):
    play = Play(empty("numbers"))
    saver = Saver(tmp_path, play.memory)
    for _ in range(7):
        play.go_on(60)
        stored = find_replay(saver.save())
    assert stored.segments[0].first < stored.first
    rewards = np.concatenate([piece.rows["reward"] for piece in stored.open_segments()])
    np.testing.assert_array_equal(rewards, held(play.memory)["reward"])


def test_a_memory_of_other_spaces_is_refused_with_both(tmp_path):
    stored = find_replay(Saver(tmp_path, Play(empty("numbers")).go_on(20)).save())
    here = str(stored)
    pictures = spaces_of(empty("frames"))
    assert told(lambda: check_spaces(stored, pictures, "policy 'main'"), SpaceError) == (
        f"{here}: this replay buffer does not fit: it holds observations {SPACES['numbers']}, policy 'main' has "
        f"{SPACES['frames']}"
    )
    four = spaces_of(memory_for("numbers", spaces.Discrete(4)))
    assert "it holds actions Discrete(3), policy 'main' has Discrete(4)" in told(
        lambda: check_spaces(stored, four, "policy 'main'"), SpaceError
    )
    remembering = spaces_of(empty("sequences"))
    assert "a memory of size 0, that of policy 'main' has size 6" in told(
        lambda: check_spaces(stored, remembering, "policy 'main'"), SpaceError
    )


def test_a_memory_of_a_policy_that_remembered_serves_one_that_does_not(tmp_path):
    play = Play(empty("sequences"))
    stored = find_replay(Saver(tmp_path, play.go_on(60)).save())
    plain = empty("numbers")
    check_spaces(stored, spaces_of(plain), "policy 'main'")
    copy_rows(stored, plain)
    np.testing.assert_array_equal(held(plain)["reward"], held(play.memory)["reward"])


def test_a_memory_is_found_by_directory_and_policy(tmp_path):
    saver = Saver(tmp_path, Play(empty("numbers")).go_on(20), "hunter")
    place = saver.save()
    assert str(find_replay(place)) == str(find_replay(f"{place}:hunter")) == f"{place}:hunter"
    assert told(lambda: find_replay(f"{place}:hunted"), ConfigError) == (
        f"{place}:hunted: policy 'hunted' is not one of hunter; did you mean 'hunter'?"
    )
    write_directory(tmp_path / "none", {"state.json": b"{}"}, {})
    assert told(lambda: find_replay(tmp_path / "none")) == (
        f"{tmp_path / 'none'}: holds no replay buffer: its algorithms use no replay, it was saved with "
        "replay.save = false, or nothing was sampled yet; rookery replay record --from "
        f"{tmp_path / 'none'} -o DIRECTORY records episodes of its policies"
    )
    assert "there is no such run or checkpoint" in told(lambda: find_replay(tmp_path / "nowhere"))
    (tmp_path / "log.csv").write_text("x")
    told_of_a_file = told(lambda: find_replay(tmp_path / "log.csv"))
    assert (
        f"is a file, and no run or checkpoint; recorded data become replay by rookery replay import {tmp_path}"
        in told_of_a_file
    )


def test_where_there_are_several_policies_the_one_of_the_same_name_is_meant(tmp_path):
    learners = {name: SimpleNamespace(own=Play(empty("numbers")).go_on(20)) for name in ("a", "b")}
    write_directory(tmp_path / "two", *SavedReplays().files(learners))
    assert find_replay(tmp_path / "two", "b").policy == "b"
    assert find_replay(f"{tmp_path / 'two'}:a", "b").policy == "a"
    assert told(lambda: find_replay(tmp_path / "two"), ConfigError) == (
        f"{tmp_path / 'two'}: policy None is not one of a, b; name one, as in {tmp_path / 'two'}:a"
    )
