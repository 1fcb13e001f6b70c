"""The same runs in an older commit and in this tree: do they come to the same weights and rows, to the last bit?

    make golden OLD=1d339147                          # exit 1 if a run differs
    python benchmarks/golden.py 1d339147 --only dqn    # runs whose names contain this

About a hundred short runs (`golden_runs.py`), each on compiled kernels and in torch. The older commit stands in a
temporary git worktree meanwhile. Both trees play on this machine, in the same minutes, by this script, which uses
nothing but `Trainer`: bits depend on the CPU and on the versions of torch and NumPy, so nothing is stored. These
are compared:

- policies: weights and statistics of all policies, as sha256
- learners: critics, targets, and other tensors of the algorithms
- optimizers: their moments and counters
- rows: every column of ``metrics.jsonl`` but the times

A run that fails in either tree counts as one that differs. A commit that changes the path of a setting is compared by
``--renamed NEW=OLD``, once for each path.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden_runs import COMMON, RUNS, Run

ROOT = Path(__file__).parent.parent

SOURCES = ("setup.py", "src/*.c", "src/*.cpp", "src/*.h")
"""What compiled files are made of."""

PATHS = {"kernels": "", "torch": "0"}
"""What computes networks, and what ``ROOKERY_NATIVE`` has to be for that."""

OPTIMIZER = "skipped_in_a_row"
"""What the state of every optimizer has."""

GRADIENT_STEPS = 20
"""In an iteration of a run that learns from data."""


def digest(tensors: Iterable[Any]) -> str:
    """Returns a hash of arrays whatever their order and names, so that these may change."""
    every = []
    for tensor in tensors:
        array = np.ascontiguousarray(torch.as_tensor(tensor).detach().cpu())
        every.append(hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(every)).encode()).hexdigest()[:16]


def tensors_of(state: Any, optimizers: bool) -> Iterator[Any]:
    """Returns the tensors in a state: those of optimizers, or all others."""
    if isinstance(state, Mapping):
        is_optimizer = OPTIMIZER in state
        if is_optimizer and optimizers:
            yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        elif not is_optimizer:
            for value in state.values():
                yield from tensors_of(value, optimizers)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from tensors_of(value, optimizers)
    elif isinstance(state, torch.Tensor) and not optimizers:
        yield state


def rows_of(folder: Path) -> dict[str, str]:
    """Returns a hash of each column of the rows of a run, those of times left out."""
    columns: dict[str, list[Any]] = {}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if not is_time(name):
                columns.setdefault(name, []).append([row["iteration"], value])
    return {name: hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16] for name, values in columns.items()}


def is_time(column: str) -> bool:
    """Whether a column measures the clock or the machine."""
    return column.startswith("time/") or column.rpartition("/")[2].endswith(("seconds", "per_second"))


def outcome(trainer: Any, folder: Path) -> dict[str, Any]:
    """Returns what is compared of a trainer, whose run directory is `folder`."""
    policies = {name: dict(policy.state_dict()) for name, policy in trainer.policies.items()}
    learners = {name: learner.state_dict() for name, learner in trainer.learners.items()}
    return {
        "policies": digest(tensors_of(policies, optimizers=False)),
        "learners": digest(tensors_of(learners, optimizers=False)),
        "optimizers": digest(tensors_of(learners, optimizers=True)),
        "rows": rows_of(folder),
    }


def train(trainer: Any, run: Run, iterations: int) -> None:
    """Trains until a run has made so many iterations."""
    if "env.name" in run.settings:
        trainer.train({"iterations": iterations})
        return
    for _ in range(iterations - trainer.iteration):
        trainer.learn(GRADIENT_STEPS)


def play(name: str, folder: Path, renamed: Mapping[str, str]) -> dict[str, Any]:
    """Makes a run, and before it the one whose data it learns from, unless that is there.

    Args:
        name: Name of the run.
        folder: Folder of all runs.
        renamed: Other paths of settings, by those that stand in `golden_runs.py`.
    """
    from rookery import Trainer

    run, place = RUNS[name], folder / name
    data = folder / "data" / run.data
    if run.data and not data.exists():
        play(run.data, data.parent, renamed)
    ends = {new.rpartition(".")[2]: old.rpartition(".")[2] for new, old in renamed.items()}
    text = json.dumps(called({**COMMON, **run.settings}, renamed, ends))
    arguments: dict[str, Any] = {"config": json.loads(text.replace("{data}", str(data))), "run_dir": place}
    if "env.name" not in run.settings:
        arguments["replay"] = str(data)
    with Trainer(**arguments) as trainer:
        train(trainer, run, run.iterations // 2 if run.resumed else run.iterations)
        if not run.resumed:
            return outcome(trainer, place)
    with Trainer.load(place, resume=True) as trainer:
        train(trainer, run, run.iterations)
        return outcome(trainer, place)


def called(settings: Mapping[str, Any], renamed: Mapping[str, str], ends: Mapping[str, str]) -> dict[str, Any]:
    """Returns settings under other paths; in sections, such as those of policies, by their last names."""
    found = {}
    for path, value in settings.items():
        inner = called(value, {}, ends) if isinstance(value, Mapping) else value
        found[renamed.get(path, path if "." in path else ends.get(path, path))] = inner
    return found


def play_all(names: Sequence[str], renamed: Mapping[str, str]) -> None:
    """Makes runs one after the other; prints a line of JSON for each."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = str(Path(folder, "config"))  # runs are signed by a key of their own
        for name in names:
            began = time.perf_counter()
            try:
                found = play(name, Path(folder), renamed)
            except Exception as error:  # is what this run came to
                found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
            print(json.dumps({"name": name, "seconds": time.perf_counter() - began, **found}), flush=True)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns in which parts two outcomes of a run differ, errors included."""
    wrong = [f"{tree} fails: {one['error']}" for tree, one in (("old", old), ("new", new)) if "error" in one]
    if wrong:
        return wrong
    found = [part for part in ("policies", "learners", "optimizers") if old[part] != new[part]]
    columns = sorted({**old["rows"], **new["rows"]})
    changed = [name for name in columns if old["rows"].get(name) != new["rows"].get(name)]
    return found + ([f"rows: {', '.join(changed[:4])}{' ...' if len(changed) > 4 else ''}"] if changed else [])


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Returns a commit as a folder of files, with its kernels: those of this tree where the sources are equal."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "old")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), commit], check=True)
        try:
            same = subprocess.run(["git", "-C", str(ROOT), "diff", "--quiet", commit, "--", *SOURCES]).returncode == 0
            if same:
                for built in (ROOT / "src").rglob("*.so"):
                    shutil.copy(built, place / built.relative_to(ROOT))
            else:
                subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=place, check=True)
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def started(tree: Path, native: str, names: Sequence[str], renamed: Mapping[str, str]) -> subprocess.Popen[str]:
    """Starts the runs of a tree in a process."""
    given = [word for new, old in renamed.items() for word in ("--renamed", f"{new}={old}")]
    words = [sys.executable, __file__, "--play", *names, *given]
    own = {"PYTHONPATH": str(tree / "src"), "ROOKERY_NATIVE": native, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)


def next_outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Waits for the next run of a process; returns its outcome."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a process that plays ended with status {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def compare(commit: str, names: Sequence[str], renamed: Mapping[str, str]) -> int:
    """Makes the runs in both trees; prints a line for each, and returns how many differ."""
    different, began = 0, time.perf_counter()
    with worktree(commit) as tree:
        for path, native in PATHS.items():
            both = [started(tree, native, names, renamed), started(ROOT, native, names, {})]
            for name in names:
                old, new = (next_outcome(process) for process in both)
                found = differences(old, new)
                different += bool(found)
                weights = new.get("policies", "")
                print(f"{name:26} {path:8} {weights:17} {'; '.join(found) or 'equal'}", flush=True)
    minutes = (time.perf_counter() - began) / 60
    print(f"{different} of {len(PATHS) * len(names)} runs differ ({minutes:.1f} min)")
    return different


def main() -> int:
    """Compares, or plays where another process compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", help="a commit")
    parser.add_argument("--only", default="", help="runs whose names contain this")
    parser.add_argument("--renamed", action="append", default=[], metavar="NEW=OLD", help="another path of a setting")
    parser.add_argument("--play", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    renamed = dict(one.split("=") for one in options.renamed)
    if options.play:
        play_all(options.play, renamed)
        return 0
    if not options.old:
        parser.error("name the commit to compare with: make golden OLD=1d339147")
    names = []
    for name in (name for name in RUNS if options.only in name):
        needs = RUNS[name].needs
        if needs and importlib.util.find_spec(needs) is None:
            print(f"{name:26} left out: {needs} is not installed")
        else:
            names.append(name)
    return 1 if compare(options.old, names, renamed) else 0


if __name__ == "__main__":
    sys.exit(main())
