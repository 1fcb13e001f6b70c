"""Run directory: its files, a single writer, and no replacement without `force`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading

import pytest
from lives import make, rows

from rookery import ConfigError, Trainer
from rookery.core.io.files import FileError
from rookery.report.metrics_file import append_row, cut_rows
from rookery.run.checkpoint.run_dir import RunDir
from selection import slow


def told(kind, act):
    """Returns the message of the error that `act` raises."""
    with pytest.raises(kind) as caught:
        act()
    assert type(caught.value) is kind
    return str(caught.value)


def test_a_run_leaves_what_it_was_and_what_came_of_it(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path / "run", checkpoint_every=1) as trainer:
        trainer.train({"iterations": 2})
    names = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith("events.out.tfevents.")}
    assert names == {
        "checkpoints", "command.txt", "config.yaml", "metrics.jsonl", "provenance.json", "run.lock", "timers.json",
        "versions.json",
    }  # fmt: skip
    assert len(rows(tmp_path / "run")) == 2
    versions = json.loads((tmp_path / "run" / "versions.json").read_text())
    assert {"rookery", "python", "torch", "numpy", "gymnasium", "platform"} <= versions.keys()
    provenance = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert provenance["algorithm.fragment_length"] == [["default", "128"], ["code", "24"]]


def test_a_used_directory_is_refused_with_three_ways_out(tmp_path):
    make("CartPole-v1", run_dir=tmp_path).close()
    before = (tmp_path / "config.yaml").read_text()
    message = told(ConfigError, lambda: make("Pendulum-v1", run_dir=tmp_path))
    assert message == (
        f"run_dir = {str(tmp_path)!r}: the directory already has a run; continue it (rookery resume {tmp_path}, "
        "Trainer.load(..., resume=True)), replace it (force), or choose another directory"
    )
    assert (tmp_path / "config.yaml").read_text() == before
    RunDir(tmp_path).close()  # the refused one holds no lock


KEPT = pytest.mark.regression(
    "data lost", "Replacing a run removes what Rookery wrote and keeps what its user put there"
)


@KEPT
def test_force_replaces_all_of_the_old_run_and_keeps_what_its_user_put_there(tmp_path, capsys):
    folder = tmp_path / "run"
    with make("CartPole-v1", run_dir=folder) as trainer:
        trainer.train({"iterations": 1})
        trainer.save(folder / "checkpoints" / "mine")
    (tmp_path / "beside").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "beside")
    (folder / "videos").mkdir()
    (folder / "videos" / "000001.webp").write_text("old")
    (folder / "videos" / "talk.mp4").write_text("mine")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("mine")
    with make("CartPole-v1", run_dir=folder, force=True) as trainer:
        assert {path.name for path in folder.iterdir()} == {
            "checkpoints", "command.txt", "config.yaml", "provenance.json", "run.lock", "versions.json", "link",
            "videos", "notes",
        }  # fmt: skip
        assert [path.name for path in (folder / "checkpoints").iterdir()] == ["mine"]
        assert [path.name for path in (folder / "videos").iterdir()] == ["talk.mp4"]
        assert trainer.train({"iterations": 1}).iteration == 1
    kept = "checkpoints/mine, link, notes, videos/talk.mp4"
    assert f"note: {folder}: kept what Rookery did not write: {kept}\n" in capsys.readouterr().err
    assert (folder / "link").read_text() == (folder / "notes" / "a.md").read_text() == "mine"
    assert [row["iteration"] for row in rows(folder)] == [1]


AGAIN = pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)


def begun_and_killed(folder, **arguments):
    """Makes the directory of a run that was killed right after its start."""
    make("CartPole-v1", run_dir=folder, **arguments).close()


@AGAIN
def test_a_run_that_was_killed_at_its_start_is_moved_aside_by_the_same_start(tmp_path, capsys):
    folder = tmp_path / "run"
    for _ in range(3):
        begun_and_killed(folder)
    names = ["run", "run.killed-at-start", "run.killed-at-start-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all((tmp_path / name / "config.yaml").exists() for name in names)
    (folder / "token").write_text("t")
    with make("CartPole-v1", run_dir=folder) as trainer:
        assert trainer.train({"iterations": 1}).iteration == 1
        with pytest.raises(FileError, match="a trainer made before in this process is writing here"):
            RunDir(folder)
    told_so = (
        f"note: {folder}: an earlier start was killed before its first iteration was over; its files are in {folder}"
    )
    assert f"{told_so}.killed-at-start-3 now\n" in capsys.readouterr().err
    assert (folder / "token").read_text() == "t"  # this start may have written it
    RunDir(folder).close()


@AGAIN
@pytest.mark.parametrize("what", ["a row", "a checkpoint", "a file of somebody", "other settings", "a writer"])
def test_a_run_is_moved_aside_only_if_nothing_but_its_own_start_is_there(tmp_path, what):
    folder = tmp_path / "run"
    begun_and_killed(folder)
    if what == "a row":
        append_row(folder, {"iteration": 1})
    elif what == "a checkpoint":
        (folder / "checkpoints" / "000001").mkdir()
    elif what == "a file of somebody":
        (folder / "notes").write_text("mine")
    writer = RunDir(folder) if what == "a writer" else None
    with pytest.raises((ConfigError, FileError), match="already has a run|is writing here"):
        make("CartPole-v1", run_dir=folder, **({"num_envs": 5} if what == "other settings" else {}))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    if writer is not None:
        writer.close()


@AGAIN
def test_a_directory_whose_replacement_was_killed_half_way_is_replaced_by_force_and_not_otherwise(tmp_path):
    folder = tmp_path / "run"
    with make("CartPole-v1", run_dir=folder) as trainer:
        trainer.train({"iterations": 1})
    (folder / "config.yaml").unlink()  # goes first
    assert "already has a run" in told(ConfigError, lambda: make("CartPole-v1", run_dir=folder))
    with make("CartPole-v1", run_dir=folder, force=True) as trainer:
        assert trainer.train({"iterations": 1}).iteration == 1


GAPS = pytest.mark.regression(
    "data lost", "Rows are on disk before the checkpoint that counts them, and a gap is reported"
)


@GAPS
def test_rows_are_flushed_to_the_disk_before_the_checkpoint_that_counts_them(tmp_path, monkeypatch):
    done = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: (done.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(os, "rename", lambda old, new: (done.append(str(new)), rename(old, new)))
    with make("CartPole-v1", run_dir=tmp_path / "run", checkpoint_every=1) as trainer:
        trainer.train({"iterations": 2})
    for number in (1, 2):
        placed = done.index(str(tmp_path / "run" / "checkpoints" / f"00000{number}"))
        assert str(tmp_path / "run" / "metrics.jsonl") in done[:placed]
        assert str(tmp_path / "run") in done[:placed]
        del done[: placed + 1]


@GAPS
def test_a_gap_in_the_rows_is_told_with_its_numbers_once(tmp_path, capsys):
    folder = tmp_path / "run"
    with make("CartPole-v1", run_dir=folder) as trainer:
        trainer.train({"iterations": 6})
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join([lines[0], lines[3]]))
    with Trainer.load(folder, resume=True) as trainer:
        trainer.train({"iterations": 7})
        trainer.train({"iterations": 8})
    missing = "metrics.jsonl: 4 of 6 rows are missing, of iterations 2 to 3, 5 to 6; the checkpoint counts them"
    assert capsys.readouterr().err.count(f"note: {folder}/{missing}") == 1
    assert [row["iteration"] for row in rows(folder)] == [1, 4, 7, 8]
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.train({"iterations": 9})
    assert "4 of 8 rows are missing" in capsys.readouterr().err


@pytest.mark.regression("setting dropped", "A run resumed with other versions reports and records them")
def test_other_versions_are_told_once_and_noted_beside_the_first(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    with make("CartPole-v1", run_dir=folder) as trainer:
        trainer.train({"iterations": 1})
    first = json.loads((folder / "versions.json").read_text())
    newer = {**first, "torch": "9.0", "numpy": "8.0", "platform": "Linux-99"}
    monkeypatch.setattr("rookery.run.checkpoint.run_dir.versions", lambda: newer)
    for iterations in (2, 3):  # said by the first start with them alone
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train({"iterations": iterations})
    written = json.loads((folder / "versions.json").read_text())
    assert written == {**first, "later": [{"iteration": 1, **newer}]}
    torch, numpy = first["torch"], first["numpy"]
    told_once = (
        f"note: other versions: torch {torch} until here, 9.0 from here on, numpy {numpy} until here, 8.0 from here"
    )
    assert capsys.readouterr().err.count(told_once) == 1
    monkeypatch.setattr("rookery.run.checkpoint.run_dir.versions", lambda: {**newer, "platform": "Linux-100"})
    Trainer.load(folder, resume=True).close()
    assert json.loads((folder / "versions.json").read_text()) == written
    for content in ("", "[]", "{"):  # of a run that is older, or damaged
        (folder / "versions.json").write_text(content)
        Trainer.load(folder, resume=True).close()


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
        for act in (
            lambda: make("CartPole-v1", run_dir=tmp_path),
            lambda: make("CartPole-v1", run_dir=tmp_path, force=True),
            lambda: Trainer.load(tmp_path, resume=True),
        ):
            message = told(FileError, act)
            assert message.startswith(f"{tmp_path}: a trainer made before in this process is writing here (")
            assert f"(process {os.getpid()} on {socket.gethostname()} since " in message
            assert "call its train again to continue it, close it" in message
        assert trainer.train({"iterations": 2}).iteration == 2
        assert len(rows(tmp_path)) == 2
        Trainer.load(tmp_path).close()  # reading is free
    Trainer.load(tmp_path, resume=True).close()


def test_of_many_who_start_at_once_one_gets_the_directory(tmp_path):
    start, outcomes, held = threading.Barrier(20), [], []

    def claim():
        start.wait()
        try:
            held.append(RunDir(tmp_path / "run"))
            outcomes.append("")
        except FileError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=claim) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("") == len(held) == 1
    assert all("is writing here" in text for text in outcomes if text)
    held[0].close()


def test_a_failed_load_frees_the_directory(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
    for act in (
        lambda: Trainer.load(tmp_path, resume=True, num_envs=5),
        lambda: Trainer.load(tmp_path, resume=True, config={"algorithm.gama": 1}),
    ):
        with pytest.raises(Exception, match="gama|keeps its value in the middle of a run"):
            act()
        RunDir(tmp_path).close()
    assert len(rows(tmp_path)) == 1


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    message = told(FileError, lambda: make("CartPole-v1", run_dir=tmp_path / "file" / "run"))
    assert message == (
        f"{tmp_path / 'file' / 'run'}: cannot be written: Not a directory; choose another run directory, or none"
    )
    message = told(FileError, lambda: make("CartPole-v1", run_dir=tmp_path / "file"))
    assert "choose another run directory, or none" in message


def test_a_directory_without_a_checkpoint_cannot_be_resumed_and_says_why(tmp_path):
    make("CartPole-v1", run_dir=tmp_path / "run").close()
    message = told(FileError, lambda: Trainer.load(tmp_path / "run", resume=True))
    assert "holds no checkpoint (none was written yet" in message
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "nowhere", resume=True))
    assert "nowhere is neither the directory of a run nor one of its checkpoints" in message
    assert not (tmp_path / "nowhere").exists()


def test_rows_after_a_moment_are_cut_away_and_so_is_half_a_row(tmp_path):
    run = RunDir(tmp_path)
    for iteration in range(1, 6):
        append_row(run.path, {"iteration": iteration, "word": "с пробелом\u2028"})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"iteration": 3, "wo')
    cut_rows(run.path, 4)
    assert [row["iteration"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    for rubbish in (b"\n\n", b"null\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b'{"iteration": "x"}\n', b"\0" * 50):
        with (tmp_path / "metrics.jsonl").open("ab") as file:
            file.write(rubbish)
        cut_rows(run.path, 4)
        assert [row["iteration"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    cut_rows(run.path, 0)
    assert rows(tmp_path) == []
    run.close()


def test_leftovers_of_a_killed_run_are_gone_after_the_next_start(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
    for place in (tmp_path / ".tmp-99-ab", tmp_path / "checkpoints" / ".tmp-99-cd"):
        shutil.copytree(tmp_path / "checkpoints" / "000001", place)
    (tmp_path / ".tmp-99-ef").write_text("half")
    Trainer.load(tmp_path, resume=True).close()
    assert not list(tmp_path.rglob(".tmp-*"))


@pytest.mark.parametrize(
    "name",
    ["with some spaces", slow("прогон №1"), "日本", "a'b\"c", slow("-dash"), slow("%20"), slow("run:1"), "x" * 200],
)
def test_a_run_can_have_any_name(tmp_path, name):
    folder = tmp_path / name / "run"
    with make("CartPole-v1", run_dir=folder, checkpoint_every=1) as trainer:
        trainer.train({"iterations": 2})
    with Trainer.load(folder, resume=True) as trainer:
        assert trainer.train({"iterations": 3}).iteration == 3
    with Trainer.load(str(folder / "checkpoints" / "000003")) as trainer:
        assert trainer.iteration == 3
    assert str(folder) in told(ConfigError, lambda: make("CartPole-v1", run_dir=folder)) or "'" in name


LINKS = "A run of others writes to nothing that links in its folder lead to"


@pytest.mark.regression("foreign code", LINKS)
@pytest.mark.parametrize("name", ["run.lock", "metrics.jsonl", "log.txt", "token", "checkpoints"])
def test_links_in_the_place_of_what_a_run_writes_are_refused(name, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    if name == "checkpoints":
        other.mkdir()
    else:
        other.write_text("mine\n")
    (run / name).symlink_to(other)
    with pytest.raises(FileError, match=f"{name}: is a link to {other}"):
        RunDir(run)
    assert list(other.iterdir()) == [] if other.is_dir() else other.read_text() == "mine\n"


def test_an_own_run_may_have_its_checkpoints_elsewhere(tmp_path):
    run = tmp_path / "run"
    with make("CartPole-v1", run_dir=run, checkpoint_every=1) as trainer:
        trainer.train({"iterations": 1})
    shutil.move(run / "checkpoints", tmp_path / "large-disk")
    (run / "checkpoints").symlink_to(tmp_path / "large-disk")
    with Trainer.load(run, resume=True) as trainer:
        trainer.train({"iterations": 2})
    assert (tmp_path / "large-disk" / "000002").is_dir()
