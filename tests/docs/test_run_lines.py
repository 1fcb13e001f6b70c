"""Shell lines of the pages as a reader types them: each block under ``<!-- run -->``, in order, in a fresh folder.

A page's marked blocks and files are complete by themselves; a marked block of Python makes the run or the data that the
lines after it use. README and tutorial are run whole by test_as_read.py.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def marked(page):
    """The blocks of a page that are run."""
    return [block for block in blocks(page) if block.mark == "run"]


RUN = [page for page in PAGES if marked(page)]

INSTEAD = [
    (r"--gradient-steps \d+", "--gradient-steps 20", "more are the same"),
    (r"pretrain_steps=2000", "pretrain_steps=20", "more are the same"),
    (r"--run-id others --stop env_steps=\d+", "--run-id others --stop env_steps=2000", "any data"),
    (r"--env Pendulum-v1 --stop env_steps=10000", "--env Pendulum-v1 --stop env_steps=100", "more are the same"),
    (r"env_steps=(1000000|400000|50000)\b", "env_steps=2000", "more are the same"),
    (r"env_steps=20000 --quiet", "env_steps=2000 --quiet", "more are the same"),
    (r"env_steps=200000 sampling.num_envs=64", "env_steps=80000 sampling.num_envs=64", "four snapshots of ten"),
    (r"--games 200", "--games 10", "more are the same"),
    (r"rookery elo \S+", r"\g<0> --games 4", "more are the same"),
    (r"--episodes 3\b", "--episodes 1", "more are the same"),
]
"""Patterns in lines of the pages, what is run in their place, and why: the same command with less of the same."""

SMALL = {False: " --stop env_steps=2000", True: " --gradient-steps 20"}
"""The budget of a training whose line has none, by whether it learns from data alone."""

WRITES = ("-o", "--out", "--output", "--picture", "--plot")
"""Options that name a file or a folder to write."""


def lines(block):
    """The commands of a block of the shell, without comments."""
    code = block.code.replace("\\\n", " ")
    for pattern, other, _ in INSTEAD:
        code = re.sub(pattern, other, code)
    return [shortened(line) for line in code.splitlines() if shlex.split(line, comments=True)]


def shortened(line):
    """A line, with a small budget if it is a training without one, which would take minutes."""
    words = shlex.split(line, comments=True)
    if words[:2] != ["rookery", "train"] or re.search(r"--stop|--gradient-steps|stop\.", line):
        return line
    return shlex.join(words) + SMALL[words[2].startswith("-")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A fresh folder, with the commands ``rookery`` and ``python`` of this source tree."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "rookery").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from rookery.cli.main import main; main()" "$@"\n'
    )
    (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    before = set(sys.modules)
    yield tmp_path / "work"
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in sys.modules[name].__file__:
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_marked_lines_of_a_page_run_in_a_fresh_folder_and_write_what_they_name(page, folder):
    """The 38 pages with their 117 commands take about 15 minutes on two cores that other programs use as well."""
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:  # all before the first line, which may stand above the file it names
            Path(block.file).write_text(block.code, encoding="utf-8")
    for block in marked(page):
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
        else:
            for line in lines(block):
                done = subprocess.run(line, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
                assert done.returncode == 0, f"{page}:{block.line}: {line}\n{done.stdout}{done.stderr}"
                words = shlex.split(line, comments=True)
                for option, written in zip(words, words[1:], strict=False):
                    assert option not in WRITES or Path(written).exists(), f"{page}:{block.line}: {written}"


def test_the_blocks_that_are_run_do_not_become_fewer():
    assert sum(block.language == "sh" for page in PAGES for block in marked(page)) >= 61


def test_every_replacement_is_needed():
    code = "\n".join(block.code for page in PAGES for block in marked(page))
    assert not [pattern for pattern, *_ in INSTEAD if not re.search(pattern, code)]
