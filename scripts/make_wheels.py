"""Makes wheels for Linux on x86-64 and aarch64, and checks them: ``make wheels``.

On x86-64 the compiler of this machine compiles, so a wheel computes what an installation from the source does; zig
links, against the C library of manylinux_2_28, which is older than that of most machines. For aarch64 zig does both.
The tools are those of ``scripts/wheels-requirements.txt``, in an environment that ``make`` creates.

    python scripts/make_wheels.py dist
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]

POLICY, GLIBC = "manylinux_2_28", "2.28"
"""The tag of torch's wheels, and the C library that it stands for."""

MACHINES = ("x86_64", "aarch64")

PROBE = ROOT / "scripts" / "probe_wheel.c"
"""Program that calls the libraries of a wheel."""

EMULATOR = "apt install qemu-user-static libc6-arm64-cross"

TOLERANCE = 1e-5
"""Largest difference of float32 numbers from those of another machine, relative to numbers above 1."""


def zig(machine: str) -> list[str]:
    """Returns the command of zig's C compiler and linker for a machine."""
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"]


def link(compiler: str, options: list[str]) -> None:
    """Compiles with one compiler, and links with zig; takes the place of a compiler in ``setup.py``."""
    target = options[options.index("-o") + 1]
    with tempfile.TemporaryDirectory() as folder:
        whole = str(Path(folder) / "whole.o")
        compile_only = [one for one in options if one not in ("-shared", "-s", "-lm", "-o", target)]
        subprocess.run([*shlex.split(compiler), *compile_only, "-r", "-nostdlib", "-o", whole], check=True)
        libraries = [one for one in options if one.startswith(("-l", "-Wl,"))]
        subprocess.run([*zig("x86_64"), whole, "-shared", "-s", "-pthread", *libraries, "-o", target], check=True)


def compilers(machine: str) -> dict[str, str]:
    """Returns the variables of ``setup.py`` that name compilers."""
    if machine == platform.machine() == "x86_64":
        linking = shlex.join([sys.executable, str(Path(__file__).resolve()), "link"])
        found = {"CXX": os.environ.get("CXX", "g++"), "CC": os.environ.get("CC", "gcc")}
        return {name: f"{linking} {shlex.quote(compiler)}" for name, compiler in found.items()}
    return {"CXX": shlex.join([*zig(machine), "-x", "c++"]), "CC": shlex.join(zig(machine))}


def make(machine: str, folder: Path) -> Path:
    """Makes the wheel of a machine from a copy of the sources, and returns it."""
    # what sysconfig takes for this machine: setup.py names the kernels by it, and setuptools the wheel
    host = {"_PYTHON_HOST_PLATFORM": f"{POLICY}-{machine}"}
    with tempfile.TemporaryDirectory() as place:
        tree, made = Path(place) / "tree", Path(place) / "made"
        tree.mkdir()
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, tree)
        shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", made, tree]
        subprocess.run(command, check=True, env={**os.environ, **compilers(machine), **host})
        (wheel,) = made.iterdir()
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))


def libraries_of(machine: str) -> set[str]:
    """Returns the names of the libraries in a wheel."""
    kernels = ("x86-64", "x86-64-v3", "x86-64-v4") if machine == "x86_64" else (machine,)
    return {*(f"rookery/core/kernels/{name}.so" for name in kernels), "rookery/envs/native/sources/twins.so"}


def check(machine: str, wheel: Path) -> str:
    """Returns what auditwheel says of a wheel; raises SystemExit if a library is missing or needs a newer C library."""
    with ZipFile(wheel) as archive:
        missing = libraries_of(machine) - {*archive.namelist()}
    if missing:
        sys.exit(f"{wheel.name}: {', '.join(sorted(missing))} could not be built")
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r'"manylinux_2_(\d+)_\w+"', shown)
    if found is None or int(found[1]) > int(POLICY.rpartition("_")[2]):
        sys.exit(f"{wheel.name} is not {POLICY}:\n{shown}")
    return found[0].strip('"')


def probed(machine: str, wheel: Path, emulator: tuple[str, ...] = ()) -> list[float]:
    """Returns the numbers that the libraries of a wheel compute (`probe_wheel.c`)."""
    with tempfile.TemporaryDirectory() as place:
        with ZipFile(wheel) as archive:
            archive.extractall(place)
        probe, native = Path(place) / "probe", Path(place) / "rookery" / "envs" / "native"
        include = f"-I{native}"
        subprocess.run([*zig(machine), "-O1", include, str(PROBE), "-o", str(probe), "-lm", "-ldl"], check=True)
        kernels = next(iter(sorted((Path(place) / "rookery" / "core" / "kernels").glob("*.so"))))
        command = [*emulator, str(probe), str(kernels), str(native / "sources" / "twins.so")]
        return [*map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())]


def compare(machine: str, wheel: Path, own: Path) -> str:
    """Runs the libraries of a wheel of another machine in an emulator, beside those of this one.

    Returns:
        What was found, or why the emulator did not run.
    """
    emulator = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    root = Path(f"/usr/{machine}-linux-gnu")
    if emulator is None or not root.exists():
        return f"not run: there is no {'folder ' + str(root) if emulator else 'qemu-' + machine} ({EMULATOR})"
    here, there = probed(platform.machine(), own), probed(machine, wheel, (emulator, "-L", str(root)))
    largest = max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(here, there, strict=True))
    if largest > TOLERANCE:
        sys.exit(f"{wheel.name}: numbers differ from those of {own.name} by {largest:.1e}")
    return f"run by {Path(emulator).name}: {len(there):,} numbers, within {largest:.1e} of those of this machine"


def main() -> None:
    """Makes and checks the wheels."""
    if sys.argv[1:2] == ["link"]:
        link(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    made = {}
    for machine in sorted(MACHINES, key=lambda one: one != platform.machine()):  # this one first
        wheel = made[machine] = make(machine, folder)
        print(
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, auditwheel finds {check(machine, wheel)}", flush=True
        )
        if machine != platform.machine():
            print(f"{machine}: {compare(machine, wheel, made[platform.machine()])}", flush=True)


if __name__ == "__main__":
    main()
