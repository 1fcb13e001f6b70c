"""Output that cannot be written: a full disk, a closed pipe, a folder or file system that takes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from commands import TINY

from rookery.cli.main import main
from selection import slow_except

SURVIVED = pytest.mark.regression("data lost", "A training continues without its console and writes to log.txt")
ONE_LINE = pytest.mark.regression("unclear error", "Output that cannot be written is an error of one line")

TRAIN = ["train", "CartPole-v1", "--seed", "3", "--stop", "env_steps=64", *TINY, "--evaluate", "0"]

VERBS = {
    "help": ["--help"],
    "envs": ["envs"],
    "explain": ["explain", "cart", "algorithm"],
    "timers": ["timers", "cart"],
    "evaluate": ["evaluate", "cart", "--episodes", "1"],
    "config schema": ["config", "schema"],
    "record": ["record", "cart", "--episodes", "1", "-o", "film.webp"],
    "plot": ["plot", "cart", "-o", "plot.png"],
    "export": ["export", "cart", "--onnx", "--out", "cart.onnx"],
    "tune show": ["tune", "show", "lr"],
    "mlagents convert": ["mlagents", "convert", "old.yaml"],
    "replay show": ["replay", "show", "data"],
}
"""Commands that are no trainings; those that write a file show where."""


def full():
    return os.open("/dev/full", os.O_WRONLY)


def closed():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


OUTPUTS = {"a full disk": full, "a closed pipe": closed}


def run(folder, words, out, error=None):
    """Runs a command in a fork of this process whose standard output is a file; gives its exit code and the text on
    standard error. The code is 120, as Python's is, if something is left that cannot be written.
    """
    seen = Path(folder, "stderr.txt")
    child = os.fork()
    if not child:
        code = 99
        try:
            os.dup2(out, 1)
            os.dup2(os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if error is None else error, 2)
            sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
            os.chdir(folder)
            sys.argv = ["rookery", *map(str, words)]
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            sys.stdout.flush()
        except OSError:
            code = 120
        finally:
            try:
                sys.stderr.flush()
            finally:
                os._exit(code)
    os.close(out)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, seen.read_text() if seen.exists() else ""


@SURVIVED
@pytest.mark.parametrize("style", slow_except("--plain", of=["--plain", "--quiet"]))
@pytest.mark.parametrize("what", OUTPUTS)
def test_a_training_goes_on_without_its_console_and_writes_on_in_log_txt(tmp_path, what, style):
    code, error = run(tmp_path, [*TRAIN, "--run-id", "x", style], OUTPUTS[what](), OUTPUTS[what]())
    assert (code, error) == (0, "")
    folder = tmp_path / "runs" / "x"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4
    assert (folder / "result.json").exists() and (folder / "checkpoints" / "000004").is_dir()
    log = (folder / "log.txt").read_text()
    reason = "No space left on device" if what == "a full disk" else "Broken pipe"
    assert f"note: standard output cannot be written ({reason}); what it would show is here from now on\n" in log
    assert "written     runs/x/\n" in log
    assert ("CartPole-v1, in C: 2 environments" in log) == ("stopped: env_steps 64" in log) == (style == "--plain")


@SURVIVED
@pytest.mark.slow
@pytest.mark.parametrize("what", OUTPUTS)
@pytest.mark.parametrize("words", [
    ["resume", "cart", "--stop", "env_steps=700", "--evaluate", "0", "--plain"],
    ["tune", *TRAIN[1:-2], "algorithm.lr={grid_search: [1e-3, 1e-4]}", "--name", "x", "--plain"],
    ["mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--run-id", "y"],
    ["rllib", "run", "script.py"],
], ids=lambda words: words[0])  # fmt: skip
def test_every_kind_of_training_goes_on_without_its_console(runs, tmp_path, what, words):
    (tmp_path / "cart.yaml").write_text("behaviors: {Cart: {trainer_type: ppo, max_steps: 300, summary_freq: 100}}\n")
    (tmp_path / "script.py").write_text(
        "from ray import tune\n"
        "tune.run('PPO', config={'env': 'CartPole-v1', 'num_workers': 0, 'train_batch_size': 64,\n"
        "                        'sgd_minibatch_size': 32},\n"
        "         stop={'training_iteration': 2}, local_dir='results', name='z')\n"
        "print('the end')\n"
    )
    code, error = run(tmp_path, words, OUTPUTS[what](), OUTPUTS[what]())
    assert (code, error) == (0, "")
    folder = {"resume": "runs/cart", "tune": "runs/x", "mlagents": "results/y", "rllib": "results/z"}[words[0]]
    assert "cannot be written" in (tmp_path / folder / "log.txt").read_text()


@SURVIVED
@pytest.mark.parametrize("helpers", slow_except(0, of=[0, 1]))
def test_what_a_user_prints_into_a_lost_console_ends_no_training(tmp_path, helpers):
    (tmp_path / "loud.py").write_text(
        "import gymnasium\n"
        "class Loud(gymnasium.Wrapper):\n"
        "    def __init__(self):\n"
        "        super().__init__(gymnasium.make('CartPole-v1'))\n"
        "    def step(self, action):\n"
        "        print('a step', flush=True)\n"
        "        return super().step(action)\n"
    )
    where = f"env.implementation={'processes' if helpers else 'serial'}"
    words = ["train", "loud:Loud", *TRAIN[2:], "--run-id", "x", f"sampling.env_processes={helpers}", where]
    code, error = run(tmp_path, words, closed())
    assert code == 0, error
    prints = (tmp_path / "runs" / "x" / "log.txt").read_text().count("a step\n")
    assert helpers or prints >= 64  # a helper has no run directory


@ONE_LINE
@pytest.mark.parametrize("verb", slow_except("help", "envs", "timers", of=VERBS))
@pytest.mark.parametrize("what", OUTPUTS)
def test_a_command_whose_output_cannot_be_written_ends_with_a_line_or_in_silence(runs, tmp_path, what, verb, rookery):
    prepared(verb, tmp_path, rookery)
    code, error = run(tmp_path, VERBS[verb], OUTPUTS[what]())
    told = "error: standard output: cannot be written: No space left on device\n" if what == "a full disk" else ""
    assert (code, [line for line in error.splitlines(keepends=True) if not line.startswith("note: ")]) == (
        1, [told] * bool(told)
    )  # fmt: skip


def prepared(verb, folder, rookery):
    """Makes what a verb looks at."""
    if verb == "tune show":
        words = [*TRAIN[1:-2], "algorithm.lr={grid_search: [1e-3, 1e-4]}", "--name", "lr", "--quiet"]
        assert rookery("tune", *words)[0] == 0
    elif verb == "mlagents convert":
        (folder / "old.yaml").write_text("default: {trainer: ppo, max_steps: 5.0e4}\n")
    elif verb == "replay show":
        words = ["replay", "record", "CartPole-v1", "--from", "cart", "--episodes", "1", "-o", "data"]
        assert rookery(*words)[0] == 0


WRITES = {
    "train": [*TRAIN, "--run-dir", "OUT"],
    "train --run-id": [*TRAIN, "--run-dir", "OUT", "--run-id", "x"],
    "tune show": ["tune", "show", "lr", "-o", "OUT/report.html"],
    "mlagents learn": ["mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--results-dir", "OUT"],
    "mlagents convert": ["mlagents", "convert", "old.yaml", "-o", "OUT/new.yaml"],
    "record": ["record", "cart", "--episodes", "1", "-o", "OUT/film.webp"],
    "plot": ["plot", "cart", "-o", "OUT/plot.png"],
    "export onnx": ["export", "cart", "--onnx", "--out", "OUT/cart.onnx"],
    "export unity": ["export", "cart", "--unity", "--out", "OUT/cart.onnx"],
    "replay record": ["replay", "record", "CartPole-v1", "--from", "cart", "--episodes", "1", "-o", "OUT/data"],
    "replay import": ["replay", "import", "rows.csv", "--env", "CartPole-v1", "-o", "OUT/data"],
    "replay export": ["replay", "export", "data", "-o", "OUT/rows.npz"],
    "replay merge": ["replay", "merge", "data", "-o", "OUT/more"],
    "envs new": ["envs", "new", "--c", "OUT/pole"],
}
"""Commands that write a file or a folder."""


@ONE_LINE
@pytest.mark.slow
@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("place", ["below a file", "a name that is too long", "a read-only disk"])
def test_a_command_that_cannot_write_its_file_says_so_in_one_line(runs, tmp_path, verb, place, rookery):
    prepared(verb.replace("replay export", "replay show").replace("replay merge", "replay show"), tmp_path, rookery)
    (tmp_path / "cart.yaml").write_text("behaviors: {Cart: {trainer_type: ppo, max_steps: 300}}\n")
    (tmp_path / "rows.csv").write_text("obs_0,obs_1,obs_2,obs_3,action,reward,terminated\n" + "0,0,0,0,1,1,0\n" * 4)
    out = {"below a file": tmp_path / "cart.yaml", "a name that is too long": tmp_path / ("x" * 300)}.get(place)
    with read_only_disk(tmp_path / "disk") if out is None else suppress() as disk:
        words = [word.replace("OUT", str(out or disk)) for word in WRITES[verb]]
        code, error = run(tmp_path, words, os.open(os.devnull, os.O_WRONLY))
    lines = [line for line in error.splitlines() if line.startswith("error: ")]
    assert code in (1, 2) and len(lines) == 1 and "Traceback" not in error, error
    assert str(out or disk)[:40] in lines[0], error


@contextmanager
def read_only_disk(folder):
    """A file system that takes nothing, where this user may mount one."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@ONE_LINE
@pytest.mark.parametrize("words", [
    ["train", "CartPole-v1", "--run-id"], ["tune", "CartPole-v1", "--name"],
    ["mlagents", "learn", "--env", "CartPole-v1", "--run-id"],
], ids=lambda words: words[0])  # fmt: skip
def test_a_name_of_300_letters_is_refused_with_its_length(rookery, words):
    code, _, error = rookery(*words, "x" * 300)
    assert code == 2
    assert error.count("\n") == 1 and "the name has 300 bytes; a folder's name may have 255" in error


@SURVIVED
@pytest.mark.slow
def test_a_program_whose_reader_has_gone_ends_without_a_word_and_with_0(tmp_path):
    command = f"{sys.executable} -m rookery {' '.join(TRAIN)} --run-id x --plain; echo code $? >&2"
    found = subprocess.run(f"({command}) | true", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stderr == "code 0\n"
    assert "Broken pipe" in (tmp_path / "runs" / "x" / "log.txt").read_text()
