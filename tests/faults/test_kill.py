"""A run that is killed, interrupted or left without disk resumes from its last checkpoint with equal results."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killable import amount, make

from rookery import Trainer
from rookery.core.io.encoding import encode
from rookery.core.io.files import FileError, last_good, list_checkpoints
from rookery.run.checkpoint.run_dir import RunDir

SCRIPT = Path(__file__).with_name("killable.py")
ITERATIONS = 40
SEED = 20261


def digest(folder):
    """All that the last checkpoint of a run remembers but the time, as text to compare."""
    with Trainer.load(folder) as trainer:
        state = trainer.state_dict()
    for name in ("timers", "seconds"):
        del state[name]
    structure, arrays = encode(state)
    return json.dumps(structure), arrays


def rows(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Results of the run without a disturbance."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    with make(folder) as trainer:
        trainer.train({"iterations": ITERATIONS})
    return digest(folder), rows(folder)


class Process:
    """A run in a process and a session of its own."""

    def __init__(self, folder, iterations=ITERATIONS, **environment):
        command = [sys.executable, str(SCRIPT), str(folder), str(iterations)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {name: str(value) for name, value in environment.items()},
        )  # fmt: skip

    def wait_for(self, word):
        """Reads what it prints until a word comes."""
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split()
        pytest.fail(f"it never said {word!r}: {self.process.stderr.read()}")

    def send(self, number):
        os.kill(self.process.pid, number)

    def end(self, seconds=60):
        """Its exit code and the rest of what it printed, when it is over; no process of its session is left then."""
        out, error = self.process.communicate(timeout=seconds)
        limit = time.monotonic() + 2.0  # a child that was just ending itself gets the time to
        while in_session(self.process.pid) and time.monotonic() < limit:
            time.sleep(0.02)
        assert in_session(self.process.pid) == []
        return self.process.returncode, out, error


def in_session(leader):
    """Live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            found.append(entry.name)
    return found


def leftovers(folder):
    return list(folder.rglob(".tmp-*"))


@pytest.fixture
def no_shared_memory():
    """Nothing new is in /dev/shm afterwards."""
    place = Path("/dev/shm")
    before = set(os.listdir(place)) if place.is_dir() else set()
    yield
    after = set(os.listdir(place)) if place.is_dir() else set()
    # other tests may run at the same time: only names that outlive a moment count
    until = time.monotonic() + 1
    while after - before and time.monotonic() < until:
        time.sleep(0.02)
        after &= set(os.listdir(place))
    assert {name for name in after - before if not name.startswith("sem.")} == set()


pytestmark = pytest.mark.usefixtures("no_shared_memory")


@pytest.mark.slow
def test_killed_at_random_moments_a_run_comes_to_the_same_end(tmp_path, uninterrupted, measured):
    folder = tmp_path / "прогон с пробелами"
    rng = random.Random(SEED)
    kills, reached, lost = amount(4, 24), 0, 0
    span = 1.0 * ITERATIONS / kills / 20  # an iteration with its checkpoint takes about a twentieth of a second
    for number in range(kills):
        run = Process(folder)
        run.wait_for("running")
        with pytest.raises(FileError, match=f"another run is writing here \\(process {run.process.pid} on "):
            RunDir(folder)
        delay = rng.uniform(0, span)
        time.sleep(delay)
        run.send(signal.SIGKILL)
        code, _, error = run.end()
        print(f"kill {number}: seed {SEED}, after {delay:.3f} s, {len(rows_or_none(folder))} rows")
        assert code in (-signal.SIGKILL, 0), error
        good = last_good(folder / "checkpoints")
        found = list_checkpoints(folder / "checkpoints")
        assert good == (found[-1] if found else None)  # what can be seen is whole
        now = int(good.name[:6]) if good else 0
        assert now >= reached, "a checkpoint was lost"
        lost += max(len(rows_or_none(folder)) - now, 0)
        reached = now
    run = Process(folder)
    code, out, error = run.end()
    assert (code, out.split()) == (0, ["running", "finished"]), error
    assert leftovers(folder) == []
    assert digest(folder) == uninterrupted[0]
    assert rows(folder) == uninterrupted[1]
    measured("kill -9 at a random moment", kills, f"same weights, state and rows; {lost} rows written anew")


def rows_or_none(folder):
    path = folder / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_killed_while_a_checkpoint_is_written_a_run_comes_to_the_same_end(tmp_path, uninterrupted, measured):
    rng = random.Random(SEED)
    kills = amount(1, 6)
    # an operation of the third checkpoint, or of one of the next: each takes about thirty
    for number in range(kills):
        at = rng.randrange(90, 300)
        run = Process(tmp_path / "run", CRASH_AT=at)
        code, _, error = run.end()
        print(f"kill {number}: seed {SEED}, before file operation {at}")
        assert code == -signal.SIGKILL, error
        found = list_checkpoints(tmp_path / "run" / "checkpoints")
        assert found
        assert last_good(tmp_path / "run" / "checkpoints") == found[-1]
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
    assert leftovers(tmp_path / "run") == []
    assert digest(tmp_path / "run") == uninterrupted[0]
    assert rows(tmp_path / "run") == uninterrupted[1]
    measured("kill -9 between two file operations of a checkpoint", kills, "same weights, state and rows")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_asked_to_stop_a_run_writes_a_checkpoint_and_goes_on_from_there(tmp_path, uninterrupted, measured, number):
    run = Process(tmp_path / "run", SLEEP_AT="100:1")
    run.wait_for("asleep")  # in the middle of the seventh iteration
    run.send(number)
    assert run.wait_for("interrupted")[1:] == ["6", "101"]  # after the vector step under way
    code, _, error = run.end()
    assert code == 128 + number, error
    assert [path.name for path in list_checkpoints(tmp_path / "run" / "checkpoints")][-1] == "000006-1"
    assert leftovers(tmp_path / "run") == []
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert (trainer.iteration, trainer._pool.worker.vector_steps) == (6, 101)
        trainer.train({"iterations": ITERATIONS})
    assert digest(tmp_path / "run") == uninterrupted[0]
    assert rows(tmp_path / "run") == uninterrupted[1]
    measured(f"{number.name} once, in the middle of an iteration", 1, "stopped after the vector step; same weights")


@pytest.mark.slow
def test_asked_twice_a_run_stops_at_once(tmp_path, uninterrupted, measured):
    run = Process(tmp_path / "run", SLEEP_AT="100:10")
    run.wait_for("asleep")
    run.send(signal.SIGINT)
    time.sleep(0.3)
    began = time.monotonic()
    run.send(signal.SIGINT)
    code, out, error = run.end()
    seconds = time.monotonic() - began
    assert out == ""  # neither awake, after ten seconds, nor interrupted in good order
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert code == -signal.SIGINT
    found = list_checkpoints(tmp_path / "run" / "checkpoints")
    assert [path.name for path in found][-1] == "000006"
    assert last_good(tmp_path / "run" / "checkpoints") == found[-1]
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
    assert leftovers(tmp_path / "run") == []
    assert digest(tmp_path / "run") == uninterrupted[0]
    assert rows(tmp_path / "run") == uninterrupted[1]
    measured("SIGINT twice, while the environment hangs", 1, f"gone after {seconds:.1f} s; same weights after resume")


@pytest.mark.slow
def test_a_full_disk_and_a_read_only_one_keep_the_last_checkpoint_and_are_named(tmp_path, measured):
    disk = tmp_path / "диск полон"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=1500k tmpfs "{disk}"'
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("unshare -rm cannot mount a small disk here")
    script = f'{mount} && exec "{sys.executable}" "{SCRIPT.with_name("full.py")}" "{disk}"'
    out = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    last, run = found["iteration"], disk / "run"

    assert found["full"].startswith(f"FileError: {run}/checkpoints/{last + 1:06d}: ")
    assert "bytes cannot be written: No space left on device (" in found["full"]
    assert found["full"].endswith(
        f"are free there); what was there before is unchanged; the last good checkpoint is {run}/checkpoints/{last:06d}"
    )
    free = int(found["full"].split("device (")[1].split(" are")[0].replace(",", ""))
    assert 0 <= free < 200_000
    assert abs(free - found["free"]) < 30_000  # the summary of the run came after
    assert found["checkpoints"] == [f"{number:06d}" for number in range(1, last + 1)] + ["best.json"]
    assert found["finite"] == last + 1
    assert "No space left on device" in found["resume on a full disk"]
    assert "No space left on device; choose another run directory" in found["begin on a full disk"]
    assert found["after room was made"] == last + 2

    ending = "cannot be written: Read-only file system; choose another run directory, or none"
    assert found["resume read-only"] == f"FileError: {run}: {ending}"
    assert found["begin read-only"] == f"FileError: {disk / 'third'}: {ending}"
    for name, path in (("save read-only", disk / "saved"), ("save beside", run / "checkpoints" / "mine")):
        assert found[name].startswith(f"FileError: {path}: ")
        assert "bytes cannot be written: Read-only file system (" in found[name]
    assert found["loaded read-only"] == last + 2
    measured("disk full while a checkpoint is written", 1, "the last one kept and named, with the free bytes")
    measured("directory that became read-only", 4, "refused and named; loading continues")


def slope(points):
    """The median of the slopes between all pairs of points (Theil and Sen)."""
    slopes = sorted(
        (y - v) / (x - u) for at, (x, y) in enumerate(points) for u, v in points[:at] if x != u
    )  # fmt: skip
    return slopes[len(slopes) // 2]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_steps(tmp_path, measured):
    steps = amount(200_000, 1_000_000)
    command = [sys.executable, str(SCRIPT.with_name("growing.py")), str(tmp_path / "run"), str(steps)]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    points = json.loads(out.stdout)
    assert points[-1][0] * 1e6 >= steps
    late = points[len(points) // 4 :: max(len(points) // 120, 1)]  # the first quarter warms up
    grown, rate = late[-1][1] - late[0][1], slope(late)
    print(f"{grown:.2f} MB more, {rate:.2f} MB a million steps")
    assert grown < 5
    assert rate < 5
    assert len(list_checkpoints(tmp_path / "run" / "checkpoints")) <= 4  # three and the best
    measured(
        f"memory over {steps:,} env steps", 1,
        f"{late[-1][1]:.0f} MB at the end, {rate:+.2f} MB a million steps (Theil-Sen, after a quarter)",
    )  # fmt: skip
