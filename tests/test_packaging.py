"""Builds of the package by pip: native kernels for every CPU, or none and no error."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

import rookery

pytest.importorskip("setuptools", minversion="77")

ROOT = Path(__file__).parents[1]
KERNELS = Path("src/rookery/core/kernels")
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
INTEL = platform.machine() == "x86_64"
NAMES = {"x86-64.so", "x86-64-v3.so", "x86-64-v4.so"} if INTEL else {f"{platform.machine()}.so"}
STUB = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'

needs_compiler = pytest.mark.skipif(
    COMPILER is None or sys.platform == "win32", reason="no C++ compiler with GCC's vector extensions"
)


@pytest.fixture
def tree(tmp_path):
    """The files of the package that its build needs, with kernels that compile at once."""
    root = tmp_path / "tree"
    package = ("py.typed", "__init__.py", "core/__init__.py")
    for name in ("setup.py", "pyproject.toml", "README.md", *(f"src/rookery/{name}" for name in package)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / KERNELS).mkdir()
    (root / KERNELS / "kernels.cpp").write_text(f'#include "stub.h"\n{STUB}')
    (root / KERNELS / "stub.h").touch()
    return root


def build(root, what="wheel", **environment):
    """Calls setuptools as pip does; gives the file it made and what it said."""
    result = subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_{what}('dist')"],
        cwd=root,
        env={**os.environ, "CXX": COMPILER or "", "CC": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    (made,) = (path for path in (root / "dist").iterdir() if path.name.endswith(".tar.gz") == (what == "sdist"))
    return made, result.stdout


def without_compiler(folder):
    """An environment in which no program is found."""
    return {"PATH": str(folder), "CC": "/nonexistent", "CXX": "/nonexistent"}


def kernels_in(wheel, folder):
    """The native libraries in a wheel, by name."""
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return {path.name: path for path in (folder / "rookery" / "core" / "kernels").glob("*")}


def test_one_distribution_holds_the_three_packages(tree):
    for package in ("rookery_rllib", "rookery_mlagents"):
        shutil.copytree(ROOT / "src" / package, tree / "src" / package, ignore=shutil.ignore_patterns("__pycache__"))
    wheel, _ = build(tree, CXX="")
    made, _ = build(tree, "sdist", CXX="")
    with ZipFile(wheel) as archive, tarfile.open(made) as sources:
        inside = set(archive.namelist())
        shipped = {name.partition("/src/")[2] for name in sources.getnames()}
    for package in ("rookery_rllib", "rookery_mlagents"):
        files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / package).rglob("*.py")}
        assert {*files, f"{package}/py.typed"} <= inside & shipped


def test_the_name_of_the_distribution_is_a_literal_in_one_file_and_pages_have_it_too():
    old = re.compile(r"(?<![\w-])rookery\[[a-z]|pip install ['\"]?rookery\b(?!-rl)")
    new = re.compile(r"rookery-rl")
    exempt = {"rookery/core/packages.py", "rookery_rllib/__init__.py", "rookery_mlagents/__init__.py"}
    for path in (ROOT / "src").rglob("*.py"):
        name, text = path.relative_to(ROOT / "src").as_posix(), path.read_text(encoding="utf-8")
        assert name in exempt or not (old.search(text) or new.search(text)), f"{name}: use rookery.core.packages"
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        assert not old.search(path.read_text(encoding="utf-8")), path


def test_the_version_is_that_of_the_module_and_nothing_is_imported_to_read_it(tree, tmp_path):
    # nothing could be: the tree has no module that rookery/__init__.py imports
    wheel, _ = build(tree, **without_compiler(tmp_path))
    assert wheel.name.split("-")[:2] == ["rookery_rl", rookery.__version__]


def warnings_of(said):
    return [line for line in said.splitlines() if "building extension" in line and "failed" in line]


@needs_compiler
def test_a_wheel_carries_the_environments_in_c_with_their_header_and_no_source_of_them(tree, tmp_path):
    room = tree / "src" / "rookery" / "envs" / "native"
    (room / "sources").mkdir(parents=True)
    for folder in (room.parent, room):
        (folder / "__init__.py").touch()
    (room / "rookery_env.h").write_text("#define ANSWER 42\n")
    (room / "template.c").touch()
    for name in ("one", "two"):
        only_c = f"int *{name} = (void *)0; int answer_{name}(void) {{ return ANSWER; }}"
        (room / "sources" / f"{name}.c").write_text(f'#include "rookery_env.h"\n{only_c}\n')
    wheel, said = build(tree)
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if "/envs/native/" in name}
    found = {name.rpartition("envs/native/")[2] for name in names}
    assert found == {"__init__.py", "rookery_env.h", "template.c", "sources/twins.so"}, said


@needs_compiler
def test_a_wheel_serves_every_python_and_carries_every_build_and_no_source(tree, tmp_path):
    wheel, _ = build(tree)
    assert wheel.name.split("-")[2:4] == ["py3", "none"]
    assert not wheel.name.endswith("-any.whl")
    found = kernels_in(wheel, tmp_path / "wheel")
    assert found.keys() == NAMES
    assert {ctypes.CDLL(str(path)).answer() for path in found.values()} == {42}


@pytest.mark.slow
@needs_compiler
def test_the_kernels_compile_without_a_warning_and_need_no_cpp_library(tree, tmp_path):
    shutil.copytree(ROOT / KERNELS, tree / KERNELS, dirs_exist_ok=True)
    wheel, said = build(tree)
    assert not re.findall(r"\.(?:h|cpp):\d+:.*", said)
    found = kernels_in(wheel, tmp_path / "wheel")
    assert found.keys() == NAMES
    for path in found.values():
        ctypes.CDLL(str(path))
        assert b"libstdc++" not in path.read_bytes()


def test_files_that_are_read_are_in_the_wheel_and_in_the_source_distribution(tree, tmp_path):
    files = ("rookery/report/experiment_page.html", "rookery_mlagents/unity_operators.json")
    for name in files:
        (tree / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "src" / name, tree / "src" / name)
        (tree / "src" / name).with_name("__init__.py").touch()
    wheel, _ = build(tree, **without_compiler(tmp_path))
    with ZipFile(wheel) as archive:
        assert {*files} <= {*archive.namelist()}
    wheel.unlink()
    archive, _ = build(tree, "sdist")
    with tarfile.open(archive) as packed:
        assert {*files} <= {name.partition("/src/")[2] for name in packed.getnames()}


def test_without_a_compiler_the_wheel_builds_carries_none_and_one_line_says_so(tree, tmp_path):
    wheel, said = build(tree, **without_compiler(tmp_path))
    assert kernels_in(wheel, tmp_path / "wheel") == {}
    assert said.count("no C++ compiler was found") == 1
    assert warnings_of(said) == []


OTHER = {
    "rookery/__init__.py": "",
    "rookery-9.dist-info/METADATA": "Metadata-Version: 2.1\nName: rookery\nVersion: 9\nSummary: Manages packages.\n",
    "rookery-9.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "rookery-9.dist-info/entry_points.txt": "[console_scripts]\nrookery = rookery:main\n",
}
"""Files of a distribution of another program that is called ``rookery``."""


def add_sources(tree):
    """Adds all sources of the package to a tree."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored, dirs_exist_ok=True)


def fresh_environment(folder):
    """An environment with the packages of this one."""
    room = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", room], check=True)
    (site,) = room.glob("lib/*/site-packages")
    (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return room


def ended(line, folder, environ):
    """Runs a command in a folder; gives its exit code, and the last line on standard error in a list."""
    done = subprocess.run(line, capture_output=True, text=True, cwd=folder, env=environ)
    return done.returncode, done.stderr.strip().splitlines()[-1:]


@pytest.fixture
def environment(tmp_path, tree):
    """Functions that install and remove distributions in an environment, and run Python or the command there."""
    add_sources(tree)
    ours, _ = build(tree, **without_compiler(tmp_path))
    other = tmp_path / "rookery-9-py3-none-any.whl"
    with ZipFile(other, "w") as archive:
        for name, text in OTHER.items():
            archive.writestr(name, text)
        archive.writestr(
            "rookery-9.dist-info/RECORD", "".join(f"{name},,\n" for name in (*OTHER, "rookery-9.dist-info/RECORD"))
        )
    room = fresh_environment(tmp_path)

    def pip(*words):
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", room / "bin" / "python", *words], check=True, capture_output=True
        )

    def end(*words):
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return ended([room / "bin" / words[0], *words[1:]], tmp_path, environ)

    wheels = {"ours": ours, "other": other}
    return lambda name: pip("install", "--no-deps", "--no-index", wheels[name]), pip, end


def check_refusals(end, is_ours_last):
    """Imports and the command are refused, with the repair.

    Args:
        end: Runs ``python`` or ``rookery`` with arguments; gives what `ended` gives.
        is_ours_last: Whether the files of our distribution were written over those of the other.
    """
    for package in ("rookery_rllib", "rookery_mlagents", *(["rookery"] if is_ours_last else [])):
        code, (line,) = end("python", "-c", f"import {package}")
        assert code == 1
        assert "another program" in line and line.endswith(
            "pip uninstall -y rookery rookery-rl, then pip install rookery-rl"
        )
    if is_ours_last:
        code, (line,) = end("rookery", "--version")
        assert code == 1
        assert line.startswith("error: another program, rookery-9, is installed over rookery-rl")


@pytest.mark.parametrize("is_ours_last", [True, False])
def test_packages_beside_those_of_another_distribution_called_rookery_are_refused(tmp_path, is_ours_last):
    """The files as pip leaves them; the next test has pip do it."""
    for package in ("rookery_rllib", "rookery_mlagents", *(["rookery"] if is_ours_last else [])):
        (tmp_path / package).symlink_to(ROOT / "src" / package)
    for name, text in OTHER.items():
        if not (tmp_path / name).exists():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rookery").write_text("from rookery.cli.main import program\nprogram()\n")

    def end(program, *words):
        script = [tmp_path / "bin" / program] if program == "rookery" else []
        return ended([sys.executable, *script, *words], tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path)})

    check_refusals(end, is_ours_last)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("other", "ours"), ("ours", "other")])
def test_another_distribution_called_rookery_is_refused_with_the_repair(environment, order):
    install, pip, end = environment
    for name in order:
        install(name)
    check_refusals(end, order[1] == "ours")
    pip("uninstall", "-y", "rookery", "rookery-rl")
    install("ours")
    assert end("python", "-c", "import rookery_rllib, rookery_mlagents, rookery.core.packages")[0] == 0
    assert end("rookery", "--version")[0] == 0


@needs_compiler
@pytest.mark.skipif(not INTEL, reason="this machine has one variant")
def test_a_compiler_that_does_not_know_one_variant_builds_the_others(tree, tmp_path):
    old = tmp_path / "old-compiler"
    old.write_text(f"""#!/bin/sh
case "$*" in *x86-64-v4*) echo "error: bad value 'x86-64-v4'" >&2; exit 1;; esac
exec {COMPILER} "$@"
""")
    old.chmod(0o755)
    wheel, said = build(tree, CXX=str(old))
    assert kernels_in(wheel, tmp_path / "wheel").keys() == {"x86-64.so", "x86-64-v3.so"}
    (line,) = warnings_of(said)
    assert "x86-64-v4" in line and "bad value" in line


@needs_compiler
def test_an_editable_installation_builds_beside_the_source_and_leaves_nothing_that_is_older(tree, tmp_path):
    def built():
        return {path.name for path in (tree / KERNELS).glob("*.so")}

    build(tree, "editable")
    assert built() == NAMES
    (tree / KERNELS / "stub.h").write_text("#error broken\n")
    _, said = build(tree, "editable")
    assert built() == set()
    assert len(warnings_of(said)) == len(NAMES) and "broken" in warnings_of(said)[0]


def test_a_source_distribution_has_the_sources_and_no_build(tree):
    (tree / KERNELS / "x86-64.so").touch()
    archive, _ = build(tree, "sdist")
    with tarfile.open(archive) as files:
        names = {Path(name).name for name in files.getnames()}
    assert {"setup.py", "kernels.cpp", "stub.h"} <= names
    assert "x86-64.so" not in names


def test_the_zoo_is_in_no_distribution(tree, tmp_path):
    shutil.copytree(ROOT / "benchmarks" / "zoo" / "cartpole-ppo", tree / "benchmarks" / "zoo" / "cartpole-ppo")
    wheel, _ = build(tree, **without_compiler(tmp_path))
    archive, _ = build(tree, "sdist")
    with ZipFile(wheel) as packed, tarfile.open(archive) as sources:
        names = [*packed.namelist(), *sources.getnames()]
    assert "rookery/__init__.py" in names
    assert not [name for name in names if "zoo/cartpole-ppo" in name]


@pytest.mark.slow
def test_a_source_distribution_installs_without_a_compiler_says_so_once_and_trains_in_torch(tree, tmp_path):
    add_sources(tree)
    archive, _ = build(tree, "sdist")
    room = fresh_environment(tmp_path)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ |= without_compiler(tmp_path)

    def run(*words):
        """Returns the output of a program without a compiler on the path, outside of the sources."""
        done = subprocess.run(
            words, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    pip = (sys.executable, "-m", "pip", "--python", room / "bin" / "python", "install", "-v", "--no-index")
    said = run(*pip, "--no-deps", "--no-build-isolation", archive)
    assert said.count("no C++ compiler was found, so there are no native kernels: networks will run in PyTorch") == 1
    assert warnings_of(said) == []
    assert not [*room.rglob("*.so")]
    lines = run(room / "bin" / "rookery", "train", "CartPole-v1", "--stop", "env_steps=500").splitlines()
    assert [line for line in lines if "torch: no kernels are built" in line] == [lines[1]]
    assert not [line for line in lines if "in C" in line]
