"""Leftovers of killed writers are put back or removed, and nothing else."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from fs_kills import kills
from rookery.core.io import files, leftovers
from rookery.core.io.files import (
    FileError,
    find_checkpoint,
    list_checkpoints,
    read_directory,
    write_directory,
    write_file,
)
from rookery.core.io.leftovers import aside_of, clean, locked, restore, sweep, temporary_in

OLD = {"state.json": b'{"a": 1}', "arrays": bytes(range(256)) * 5}
NEW = {"state.json": b'{"a": 2}', "arrays": bytes(reversed(range(256))) * 5, "more": b"x"}

WHOLE = pytest.mark.regression("data lost", "A replaced directory is whole at every moment, killed or failing")


def replace_it(folder):
    write_directory(folder / "x", NEW, {"life": 2}, replace=True)


@WHOLE
def test_killed_before_any_file_operation_a_replaced_directory_is_the_old_or_the_new_one(tmp_path):
    folder = tmp_path / "data"
    seen = []
    for number, killed in kills(folder, lambda: write_directory(folder / "x", OLD, {}), lambda: replace_it(folder)):
        found, _ = read_directory(find_checkpoint(folder / "x"))
        seen.append(found == NEW)
        assert found in (OLD, NEW), f"operation {number}"
        replace_it(folder)  # the next writer finds everything as it should be, and leaves nothing
        assert read_directory(folder / "x")[0] == NEW
        assert os.listdir(folder) == ["x"], f"operation {number}"
    assert not killed and number > 30
    assert seen == sorted(seen) and {False, True} == set(seen)


@WHOLE
@pytest.mark.parametrize("kind", [errno.EIO, errno.ENOSPC])
def test_failing_at_any_rename_a_replaced_directory_is_the_old_or_the_new_one_and_the_message_says_which(
    tmp_path, monkeypatch, kind
):
    real = os.rename
    for failing in range(4):
        place = tmp_path / str(failing) / "x"
        place.parent.mkdir()
        write_directory(place, OLD, {})
        count = iter(range(100))

        def rename(*paths, count=count, failing=failing):
            if next(count) == failing:
                raise OSError(kind, os.strerror(kind))
            real(*paths)

        told = ""
        with monkeypatch.context() as patched:
            patched.setattr(files.os, "rename", rename)
            try:
                write_directory(place, NEW, {}, replace=True)
            except FileError as error:
                told = str(error)
        assert read_directory(place)[0] == (OLD if told else NEW)
        assert told.endswith("what was there before is unchanged") == (failing < 2)
        write_directory(place, NEW, {}, replace=True)
        assert os.listdir(place.parent) == ["x"]


@WHOLE
def test_where_a_replaced_directory_cannot_be_put_back_at_once_the_message_says_where_it_is(tmp_path, monkeypatch):
    write_directory(tmp_path / "x", OLD, {})
    real, count = os.rename, iter(range(100))

    def rename(*paths):
        if next(count) in (1, 2):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(*paths)

    monkeypatch.setattr(files.os, "rename", rename)
    with pytest.raises(FileError) as caught:
        write_directory(tmp_path / "x", NEW, {}, replace=True)
    aside = aside_of(tmp_path / "x")
    assert f"what was there before is {aside} now, and is put back when {tmp_path / 'x'} is next read" in str(
        caught.value
    )
    assert read_directory(aside)[0] == OLD
    assert restore(tmp_path / "x") and read_directory(tmp_path / "x")[0] == OLD


@WHOLE
def test_a_numbered_checkpoint_that_was_being_replaced_is_listed_again(tmp_path):
    for name in ("000001", "000002"):
        write_directory(tmp_path / name, OLD, {})
    (tmp_path / "000002").rename(aside_of(tmp_path / "000002"))
    assert [path.name for path in list_checkpoints(tmp_path)] == ["000001", "000002"]


def test_a_directory_that_another_process_is_replacing_is_waited_for_and_not_taken_back(tmp_path):
    place = tmp_path / "x"
    write_directory(place, OLD, {})
    moved, go_on = threading.Event(), threading.Event()

    def writer():
        with files._moved_aside(place):
            moved.set()
            go_on.wait()
            place.mkdir()  # the new one

    thread = threading.Thread(target=writer)
    thread.start()
    moved.wait()
    threading.Timer(0.05, go_on.set).start()
    assert restore(place)
    assert os.listdir(place) == []
    thread.join()


def test_cleaning_puts_back_what_was_being_replaced_and_removes_what_has_been(tmp_path):
    for name in (".replaced-a", ".replaced-b", "b", ".tmp-1-00000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of").write_text(name)
    clean(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a" / "of").read_text() == ".replaced-a"


def dead_process():
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


@WHOLE
def test_sweeping_removes_what_ended_processes_have_left_and_nothing_else(tmp_path):
    dead = dead_process()
    for name in (f".tmp-{dead}-0123abcd", f".tmp-{dead}-0123abce", ".tmp-notes", f".tmp-{dead}-mine", "x"):
        (tmp_path / name).mkdir()
    (tmp_path / f".tmp-{dead}-0123abcf").write_bytes(b"half")
    mine = temporary_in(tmp_path)
    mine.mkdir()
    with locked(tmp_path / f".tmp-{dead}-0123abce") as held:  # as by a process of another machine
        assert held
        sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(
        [mine.name, f".tmp-{dead}-0123abce", ".tmp-notes", f".tmp-{dead}-mine", "x"]
    )


def test_a_file_that_is_being_written_is_locked_against_sweeping(tmp_path, monkeypatch):
    seen = []
    real = os.fsync

    def fsync(descriptor):
        for path in tmp_path.glob(".tmp-*"):
            with locked(path, patience=0.0) as held:
                seen.append(held)
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", fsync)
    write_file(tmp_path / "a", b"content")
    assert seen == [False]


def test_where_there_are_no_locks_a_directory_is_put_back_and_nothing_is_swept(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".replaced-x").mkdir()
    left = tmp_path / f".tmp-{dead_process()}-0123abcd"
    left.mkdir()
    sweep(tmp_path)
    assert restore(tmp_path / "x") and left.is_dir()


def test_waiting_for_another_process_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE", 0.05)
    (tmp_path / ".replaced-x").mkdir()
    with locked(tmp_path / ".replaced-x"):
        began = time.monotonic()
        with locked(tmp_path / ".replaced-x", leftovers.PATIENCE) as held:
            assert held is False
        assert 0.05 <= time.monotonic() - began < 1.0
