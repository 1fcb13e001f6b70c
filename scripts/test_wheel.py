"""Installs a wheel, or an archive of the sources, as a user without a compiler: ``make test-wheel``.

For each Python there is a fresh environment, one at a time and removed afterwards, with the versions of
``constraints.txt``. In it the kernels load, CartPole runs in C, and the first Python block of the README runs. Prints
a row of a table for each Python; `benchmarks/results/wheels.md` has those of one machine.

    python scripts/test_wheel.py dist/*x86_64.whl python3.11 python3.12
    python scripts/test_wheel.py dist/*.tar.gz python3.11       # PyTorch and Python alone, and a note about it
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FREE_BYTES = 20 * 10**9
"""Free disk that an environment needs: a CUDA build of torch takes 7 GB, and as much again while pip unpacks it."""

CHECK = """
import platform, sys, time
import rookery, torch
from rookery.core.native import best_build
assert rookery.__file__.startswith(sys.prefix), rookery.__file__
begun, found = time.monotonic(), {"__name__": "__main__"}
exec(compile(sys.argv[2], "README.md", "exec"), found)
took = time.monotonic() - begun
build, env = best_build(), type(found["trainer"].env).__name__
compiled = sys.argv[1] == "compiled"
assert (build is not None, env == "CartPoleInC") == (compiled, compiled), (build, env)
names = [torch.__version__, build.name if build else "none", env, f"{took:.0f}"]
print("ROW", platform.python_version(), rookery.__version__, *names)
"""
"""Program that is run in the environment: with ``compiled`` or ``plain``, and the code of the README."""

HEAD = "| Python | rookery-rl | torch | kernels | CartPole | README, s | installed, s | installed, MB |"


def readme_block() -> str:
    """Returns the first Python block of the README."""
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert found, "README.md has no Python block"
    return found[1]


def version_of(python: str) -> str:
    """Returns the version of a Python, or an empty string if there is none that runs: a name may be an empty shim."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    if shutil.which(python) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def size_of(folder: Path) -> int:
    """Returns the size of the files in a folder, in bytes."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def row_of(python: str, package: Path, place: Path) -> str:
    """Installs a package in an environment and tries it; returns the row, or raises an error."""
    room = place / "environment"
    subprocess.run([python, "-m", "venv", room], check=True)
    inside = room / "bin" / "python"
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environ = {**plain, "PATH": str(room / "bin"), "CC": "/nonexistent", "CXX": "/nonexistent"}
    begun = time.monotonic()
    install = [inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    # no files are kept: those of a CUDA build take gigabytes
    subprocess.run([*install, "--no-cache-dir", package], check=True, env=environ)
    took = time.monotonic() - begun
    kind = "compiled" if package.suffix == ".whl" else "plain"
    check = [inside, "-c", CHECK, kind, readme_block()]
    done = subprocess.run(check, env=environ, cwd=place, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError("installed, but the check failed: its last lines are above")
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("ROW "))
    return f"| {' | '.join(row.split()[1:])} | {took:.0f} | {size_of(room) / 1e6:,.0f} |"


def main() -> int:
    """Tries a package in each Python of the command line; returns 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("pythons", nargs="+", help="commands of Python")
    given = parser.parse_args()
    print(HEAD, re.sub(r"[^|]+", "---", HEAD), sep="\n", flush=True)
    failed = False
    for python in given.pythons:
        version = version_of(python)
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if not version:
            print(f"{python}: skipped, there is no such Python", flush=True)
        elif free < FREE_BYTES:
            print(
                f"{python}: skipped, {free / 1e9:.0f} GB of the disk are free, {FREE_BYTES / 1e9:.0f} are needed",
                flush=True,
            )
        else:
            with tempfile.TemporaryDirectory() as place:
                try:
                    print(row_of(python, given.package.resolve(), Path(place)), flush=True)
                except (subprocess.CalledProcessError, RuntimeError) as error:
                    print(f"{python} ({version}): failed: {error}", flush=True)
                    failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
