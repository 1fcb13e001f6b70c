"""Files are whole or not there: at every file operation, for every kind of failure, and for every byte of damage."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from rookery.core.errors import RookeryError
from rookery.core.io import files, leftovers, open_files
from rookery.core.io.files import (
    FileError,
    Stream,
    find_checkpoint,
    last_good,
    list_checkpoints,
    make_folder,
    map_file,
    mapped_files,
    read_checkpoint_files,
    read_directory,
    read_manifest,
    remove_directory,
    split_name,
    write_directory,
    write_file,
)
from rookery.core.io.leftovers import clean

OLD = {"state.json": b'{"a": 1}', "arrays": bytes(range(256)) * 5, "empty": b""}
NEW = {"state.json": b'{"a": 2}', "arrays": bytes(reversed(range(256))) * 5, "empty": b""}
OPERATIONS = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "link")


class Crash(BaseException):
    """The process is dead from here on."""


class Faulty:
    """Stands in for the module `os`: counts file operations, and fails at one of them.

    Args:
        at: Number of the operation that fails; None = none does.
        kind: ``EIO`` or ``ENOSPC``: that error. ``short``: a write takes half of the bytes, which is allowed. ``full``:
            a write takes half, and the disk is full from then on. ``crash``: nothing is done from then on.
    """

    def __init__(self, at=None, kind=""):
        self.at, self.kind = at, kind
        self.trace = []
        self.dead = False

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def operation(*arguments):
            number = len(self.trace)
            self.trace.append((name, arguments[0]))
            if self.dead or (number == self.at and self.kind == "crash"):
                self.dead = True
                raise Crash
            full = self.kind == "full" and self.at is not None and number > self.at
            if full and name in ("open", "mkdir", "write", "fsync"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if number == self.at:
                if name == "write" and self.kind in ("short", "full"):
                    return real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                if self.kind in ("EIO", "ENOSPC"):
                    if name == "close":
                        real(*arguments)  # an error of close() leaves the file closed
                    code = getattr(errno, self.kind)
                    raise OSError(code, os.strerror(code))
            return real(*arguments)

        return operation


def attempt(monkeypatch, write, at, kind):
    """Runs `write` with a failure; gives the stand-in and what came of it: "", an error's text, or "crash"."""
    faulty = Faulty(at, kind)
    with monkeypatch.context() as patched:
        patched.setattr(files, "os", faulty)
        patched.setattr(leftovers, "os", faulty)
        patched.setattr(open_files, "os", faulty)
        try:
            write()
        except FileError as error:
            return faulty, str(error)
        except Crash:
            return faulty, "crash"
    return faulty, ""


def unfinished(folder):
    return [path.name for pattern in (".tmp-*", ".replaced-*") for path in folder.rglob(pattern)]


# --- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short", "full", "crash"])
def test_a_failure_at_any_operation_leaves_the_previous_checkpoint_or_the_new_one(tmp_path, monkeypatch, kind):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    first, second = folder / "000001", folder / "000002"
    write_directory(first, OLD, {"iteration": 1})
    whole, outcome = attempt(monkeypatch, lambda: write_directory(second, NEW, {"iteration": 2}), None, "")
    assert outcome == ""
    assert len(whole.trace) > 20
    seen = set()
    for at in range(len(whole.trace)):
        if second.exists():
            shutil.rmtree(second)
        _, outcome = attempt(monkeypatch, lambda: write_directory(second, NEW, {"iteration": 2}), at, kind)
        if kind != "crash":
            assert unfinished(folder) == [], f"operation {at}: {whole.trace[at]}"
        place, content, facts = read_checkpoint_files(tmp_path)
        assert (place, content, facts["iteration"]) in [(first, OLD, 1), (second, NEW, 2)], f"operation {at}"
        if outcome == "":
            assert place == second
        elif kind != "crash":
            # the message says which of the two it is
            assert ("what was there before is unchanged" in outcome) == (place == first)
            assert ("is written, but the disk did not confirm it" in outcome) == (place == second)
        seen.add(place.name)
        clean(folder)
        assert unfinished(folder) == []
        assert last_good(folder) == place
    assert seen == ({"000002"} if kind == "short" else {"000001", "000002"})


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short", "full", "crash"])
def test_a_failure_at_any_operation_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, kind):
    path = tmp_path / "best.json"
    whole, _ = attempt(monkeypatch, lambda: write_file(path, b"new content"), None, "")
    seen = set()
    for at in range(len(whole.trace)):
        path.write_bytes(b"old")
        _, outcome = attempt(monkeypatch, lambda: write_file(path, b"new content"), at, kind)
        content = path.read_bytes()
        assert content in (b"old", b"new content")
        if outcome not in ("", "crash"):
            assert ("what was there before is unchanged" in outcome) == (content == b"old")
            assert unfinished(tmp_path) == []
        seen.add(content)
        clean(tmp_path)
        assert list(tmp_path.iterdir()) == [path]
    assert seen == ({b"new content"} if kind == "short" else {b"old", b"new content"})


def test_everything_is_on_the_disk_before_the_rename_and_the_rename_before_the_end(tmp_path, monkeypatch):
    # what a power cut takes is what was not flushed: so nothing that the rename shows may be unflushed, and the rename
    # itself is flushed by its directory
    trace, _ = attempt(monkeypatch, lambda: write_directory(tmp_path / "000001", OLD, {}), None, "")
    names = [name for name, _ in trace.trace]
    opened = [str(about) for name, about in trace.trace if name == "open"]
    renamed = names.index("rename")
    assert names[:renamed].count("write") == 3  # two files with content, and the manifest
    assert names[:renamed].count("fsync") == 5  # four files and their directory
    assert opened[-2] == opened[0]  # the directory, which was opened to be locked, comes after its files
    assert names[renamed:] == ["rename", "open", "fsync", "close", "close"]
    assert opened[-1] == str(tmp_path)


def pieces(*parts):
    """A stream of these parts."""
    return Stream(sum(map(len, parts)), lambda: iter(parts))


def content_of(path):
    """All files of a directory by name, the mapped ones too."""
    files, manifest = read_directory(path)
    return files | {name: bytes(map_file(file)) for name, file in mapped_files(path, manifest).items()}


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short", "full", "crash"])
def test_streams_and_links_fail_like_any_other_file(tmp_path, monkeypatch, kind):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    first, second = folder / "000001", folder / "000002"
    write_directory(first, {"state.json": b"{}", "one": pieces(b"abc", b"", b"defg")}, {})
    _, manifest = read_directory(first)
    one = mapped_files(first, manifest)["one"]

    def write():
        write_directory(second, {"state.json": b"[]", "one": one, "two": pieces(b"hij", b"kl")}, {})

    old, new = {"state.json": b"{}", "one": b"abcdefg"}, {"state.json": b"[]", "one": b"abcdefg", "two": b"hijkl"}
    whole, outcome = attempt(monkeypatch, write, None, "")
    assert outcome == ""
    assert [name for name, _ in whole.trace].count("link") == 1
    assert one.path.stat().st_ino == (second / "one").stat().st_ino
    seen = set()
    for at in range(len(whole.trace)):
        shutil.rmtree(second, ignore_errors=True)
        _, outcome = attempt(monkeypatch, write, at, kind)
        if kind != "crash":
            assert unfinished(folder) == [], f"operation {at}: {whole.trace[at]}"
        place = list_checkpoints(folder)[-1]
        assert content_of(place) == (old if place == first else new), f"operation {at}"
        assert content_of(first) == old
        seen.add(place.name)
        clean(folder)
    assert seen == ({"000002"} if kind == "short" else {"000001", "000002"})


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_a_file_that_cannot_get_a_second_name_is_copied_and_compared(tmp_path, monkeypatch, code):
    write_directory(tmp_path / "a", {"one": pieces(b"abc" * 1000)}, {})
    one = mapped_files(tmp_path / "a", read_manifest(tmp_path / "a"))["one"]

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "link", refuse)
    write_directory(tmp_path / "b", {"one": one}, {})
    assert content_of(tmp_path / "b") == {"one": b"abc" * 1000}
    assert one.path.stat().st_ino != (tmp_path / "b" / "one").stat().st_ino
    one.path.write_bytes(b"abd" * 1000)
    with pytest.raises(FileError) as caught:
        write_directory(tmp_path / "c", {"one": one}, {})
    assert str(caught.value) == f"{one.path}: its content is not what was written (SHA-256 differs)"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_file_to_be_linked_that_was_cut_or_lost_is_named_and_nothing_is_left(tmp_path):
    write_directory(tmp_path / "a", {"one": pieces(b"abcd")}, {})
    one = mapped_files(tmp_path / "a", read_manifest(tmp_path / "a"))["one"]
    one.path.write_bytes(b"ab")
    with pytest.raises(FileError, match="one: has 2 bytes where 4 were written$"):
        write_directory(tmp_path / "b", {"one": one}, {})
    one.path.unlink()
    with pytest.raises(FileError, match="b: cannot be written: No such file or directory; what was"):
        write_directory(tmp_path / "b", {"one": one}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_mapped_is_compared_with_its_hash_and_read_by_nobody_else(tmp_path):
    write_directory(tmp_path / "a", {"small": b"x", "one": pieces(b"abcd"), "none": pieces()}, {})
    content, manifest = read_directory(tmp_path / "a")
    assert content == {"small": b"x"}
    mapped = mapped_files(tmp_path / "a", manifest)
    assert {name: bytes(map_file(file)) for name, file in mapped.items()} == {"one": b"abcd", "none": b""}
    for changed, told in ((b"abce", "SHA-256 differs"), (b"abc", "has 3 bytes where 4"), (None, "cannot be read")):
        mapped["one"].path.unlink()
        if changed is not None:
            mapped["one"].path.write_bytes(changed)
        with pytest.raises(FileError, match=f"a/one: .*{told}"):
            map_file(mapped["one"])
        assert read_directory(tmp_path / "a")[0] == {"small": b"x"}


def test_a_checkpoint_whose_large_file_is_broken_is_not_a_good_one(tmp_path):
    for name in ("000001", "000002"):
        write_directory(tmp_path / name, {"one": pieces(name.encode())}, {})
    assert last_good(tmp_path) == tmp_path / "000002"
    (tmp_path / "000002" / "one").write_bytes(b"000003")
    assert last_good(tmp_path) == tmp_path / "000001"


def test_a_stream_that_does_not_fit_says_how_much_it_was(tmp_path, monkeypatch):
    def write():
        write_directory(tmp_path / "a", {"small": b"xyz", "one": pieces(b"abcd", b"e")}, {})

    _, outcome = attempt(monkeypatch, write, 6, "full")
    assert outcome.startswith(f"{tmp_path / 'a'}: 8 bytes cannot be written: No space left on device (")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RookeryError, ValueError])
def test_a_write_that_is_given_up_half_way_leaves_nothing(tmp_path, error):
    def pieces():
        yield b"half"
        raise error

    write_directory(tmp_path / "x", OLD, {})
    for replace in (False, True):
        with pytest.raises(error):
            write_directory(tmp_path / ("x" if replace else "y"), {"big": Stream(9, pieces)}, {}, replace=replace)
    assert read_directory(tmp_path / "x")[0] == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_directory_is_replaced_by_a_whole_one_even_if_that_shares_its_files(tmp_path):
    place = tmp_path / "x"
    write_directory(place, {"big": Stream(3, lambda: [b"one"])}, {})
    shared = mapped_files(place, read_manifest(place))["big"]
    write_directory(place, {"other": shared, **OLD}, {}, replace=True)
    manifest = read_manifest(place)
    assert bytes(map_file(mapped_files(place, manifest)["other"])) == b"one"
    assert set(manifest["files"]) == {"other", *OLD}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match="file/x: this folder cannot be made: Not a directory"):
        make_folder(tmp_path / "file" / "x")


def test_a_failed_write_says_where_how_much_and_how_much_is_free(tmp_path, monkeypatch):
    _, outcome = attempt(monkeypatch, lambda: write_file(tmp_path / "best.json", b"12345"), 1, "ENOSPC")
    free = shutil.disk_usage(tmp_path).free
    start, _, rest = outcome.partition(" (")
    assert start == f"{tmp_path / 'best.json'}: 5 bytes cannot be written: No space left on device"
    said = int(rest.split(" are free there)")[0].replace(",", ""))
    assert abs(said - free) < 100_000_000  # others write to this disk too


def test_removing_a_checkpoint_never_leaves_half_of_it(tmp_path, monkeypatch):
    path = tmp_path / "000001"
    write_directory(path, OLD, {})
    _, outcome = attempt(monkeypatch, lambda: remove_directory(path), 0, "EIO")
    assert outcome == f"{path}: cannot be removed: Input/output error"
    assert read_directory(path)[0] == OLD
    monkeypatch.setattr(files.shutil, "rmtree", lambda *a, **b: None)  # killed before anything was deleted
    remove_directory(path)
    assert list_checkpoints(tmp_path) == []
    monkeypatch.undo()
    clean(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cleaning_removes_nothing_but_our_own_leftovers(tmp_path):
    for name in ("notes", "000001", "tmp-1", ".tmp", ".temporary", ".orbax-checkpoint-tmp-3"):
        (tmp_path / name).mkdir()
    (tmp_path / ".tmp-12-ab").mkdir()
    (tmp_path / ".tmp-12-ab" / "state.json").write_bytes(b"half")
    (tmp_path / ".tmp-13-cd").write_bytes(b"half")
    (tmp_path / ".tmp-14-ef").symlink_to(tmp_path / "notes")
    clean(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "notes", "000001", "tmp-1", ".tmp", ".temporary", ".orbax-checkpoint-tmp-3"
    }  # fmt: skip


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """The directory of a run with two checkpoints."""
    for number, content in ((1, OLD), (2, NEW)):
        path = tmp_path / "run" / "checkpoints" / f"{number:06d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_directory(path, content, {"iteration": number, "score": None, "versions": {"torch": "2"}})
    return tmp_path / "run"


def test_what_was_written_is_read_back(run):
    place, content, facts = read_checkpoint_files(run)
    assert place == run / "checkpoints" / "000002"
    assert content == NEW
    assert (facts["iteration"], facts["versions"]) == (2, {"torch": "2"})
    assert read_checkpoint_files(run / "checkpoints" / "000001")[1] == OLD


def damaged(content, rng):
    """Content with a random truncation or a random flipped bit, and what it is."""
    if rng.random() < 0.4:
        size = rng.randrange(len(content))
        return content[:size], f"truncated to {size}"
    bit = rng.randrange(8 * len(content))
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed), f"bit {bit} flipped"


def test_six_hundred_random_damages_are_all_found_and_named(run):
    rng = random.Random(7)
    good, broken = run / "checkpoints" / "000001", run / "checkpoints" / "000002"
    for number in range(600):
        file = broken / ("state.json", "arrays", "manifest.json")[number % 3]
        content = file.read_bytes()
        changed, what = damaged(content, rng)
        file.write_bytes(changed)
        with pytest.raises(FileError) as caught:
            read_checkpoint_files(run)
        message = str(caught.value)
        assert message.startswith(f"{file}: "), what
        reasons = ("bytes where", "SHA-256 differs", "cannot be understood", "is not the manifest")
        assert any(reason in message for reason in reasons), (what, message)
        assert message.endswith(f"; the last good checkpoint is {good}")
        file.write_bytes(content)
    assert read_checkpoint_files(run)[0] == broken


def test_every_byte_of_a_manifest_counts(run):
    file = run / "checkpoints" / "000002" / "manifest.json"
    content = file.read_bytes()
    rng = random.Random(3)
    for bit in (8 * place + rng.randrange(8) for place in range(len(content))):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bytes(changed))
        with pytest.raises(FileError):
            read_manifest(file.parent)


@pytest.mark.regression("foreign code", "A checkpoint of others with links to devices, and pipes, is refused at once")
@pytest.mark.parametrize("name", ["state.json", "manifest.json"])
def test_devices_and_pipes_are_no_files_of_a_checkpoint(run, name):
    file = run / "checkpoints" / "000002" / name
    for place in (lambda: file.symlink_to("/dev/zero"), lambda: os.mkfifo(file)):
        file.unlink()
        place()
        with pytest.raises(FileError, match=f"{name}: cannot be read: it is a device or a pipe"):
            read_checkpoint_files(run)


@pytest.mark.parametrize("name", ["state.json", "arrays", "empty"])
def test_a_missing_or_emptied_or_longer_file_is_named(run, name):
    file = run / "checkpoints" / "000002" / name
    content = file.read_bytes()
    ending = f"; the last good checkpoint is {run / 'checkpoints' / '000001'}"

    def told():
        with pytest.raises(FileError) as caught:
            read_checkpoint_files(run)
        return str(caught.value)

    file.unlink()
    assert told() == f"{file}: cannot be read: No such file or directory{ending}"
    file.mkdir()
    assert told() == f"{file}: cannot be read: Is a directory{ending}"
    file.rmdir()
    file.write_bytes(content + b"x")
    assert told() == f"{file}: has {len(content) + 1} bytes where {len(content)} were written{ending}"
    if content:
        file.write_bytes(b"")
        assert told() == f"{file}: has 0 bytes where {len(content)} were written{ending}"


def test_a_lost_manifest_is_named_by_run_and_by_checkpoint(run):
    broken = run / "checkpoints" / "000002"
    (broken / "manifest.json").unlink()
    for path in (run, broken):
        with pytest.raises(FileError) as caught:
            read_checkpoint_files(path)
        assert str(caught.value) == (
            f"{broken}: there is no manifest.json: this is no checkpoint, or not all of one; "
            f"the last good checkpoint is {run / 'checkpoints' / '000001'}"
        )


@pytest.mark.parametrize(
    "content",
    [
        b"", b"null", b"[]", b"3", b"{}", b'{"files": 3}', b'{"files": {"state.json": 3}}', b"\xff\xfe", b"[" * 100_000,
        b'{"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}}',
        b'{"files": {"state.json": {"bytes": 8}}}',
        b"\x80\x04\x95\x00", b"PK\x03\x04" + b"\0" * 30,
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_a_foreign_manifest_is_refused(run, content):
    file = run / "checkpoints" / "000002" / "manifest.json"
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_checkpoint_files(run)
    assert str(caught.value).startswith(f"{file}: ")
    assert str(caught.value).endswith(f"; the last good checkpoint is {run / 'checkpoints' / '000001'}")


def test_a_manifest_that_was_edited_by_hand_is_refused(run):
    file = run / "checkpoints" / "000002" / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({**manifest, "iteration": 200}, indent=1, sort_keys=True))
    with pytest.raises(FileError, match="its content is not what was written"):
        read_manifest(file.parent)


def test_no_good_checkpoint_at_all_is_said(run):
    for path in list_checkpoints(run / "checkpoints"):
        (path / "state.json").unlink()
    with pytest.raises(FileError, match="there is no other checkpoint beside it$"):
        read_checkpoint_files(run)
    assert last_good(run / "checkpoints") is None


def test_a_path_without_a_checkpoint_says_why(tmp_path):
    with pytest.raises(FileError, match="nowhere: there is no such run or checkpoint"):
        find_checkpoint(tmp_path / "nowhere")
    with pytest.raises(FileError, match=r"holds no checkpoint \(none was written yet, or this is not the directory"):
        find_checkpoint(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="file: is a file, and no run or checkpoint; .* replay import"):
        find_checkpoint(tmp_path / "file")


def test_checkpoints_are_ordered_by_their_numbers_and_others_are_no_checkpoints(tmp_path):
    names = ["999999", "1000000", "000010", "000010-2", "000010-10", "000009", "000010-1"]
    for name in (*names, "notes", ".tmp-1-ab", "12", "000010-", "000010-x", "-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "000011").write_text("a file")
    ordered = ["000009", "000010", "000010-1", "000010-2", "000010-10", "999999", "1000000"]
    assert [path.name for path in list_checkpoints(tmp_path)] == ordered
    assert list_checkpoints(tmp_path / "nowhere") == []


@pytest.mark.regression("unclear error", "A policy whose name has colons or slashes is found behind RUN:NAME")
def test_a_policy_behind_a_path_may_have_colons_and_slashes_in_its_name(tmp_path):
    (tmp_path / "run:1").mkdir()
    for name in ("main", "a:b", "a/b", "Name?team=0"):
        assert split_name(f"{tmp_path}/run:1:{name}") == (tmp_path / "run:1", name)
    assert split_name(tmp_path / "run:1") == (tmp_path / "run:1", None)
    assert split_name("absent:main") == (Path("absent"), "main")
    assert split_name("absent:/x") == (Path("absent:/x"), None)
