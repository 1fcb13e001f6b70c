"""README and tutorial as a reader takes them: every block, of Python and of the shell, pasted one after the other."""

import os
import re
import subprocess
import sys

import pytest
from pages import ROOT, blocks, path_here, path_of, run

README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"

INSTEAD = [
    ("make demo ", "true ", "it makes the environment that this test runs in, from the network"),
    ("make test ", "true ", "this is one of its tests"),
    ("--stop env_steps=150000", "--stop env_steps=101000", "later steps are the same"),
    ("--episodes 100 ", "--episodes 5 ", "more are the same"),
    ("-n 8 --stop env_steps=50000", "-n 2 --stop env_steps=2000", "two short trials are a search as eight are"),
    ("tensorboard --logdir runs", "true", "it serves pages until it is stopped"),
]
"""What is run in the place of a text of the pages, and why."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty directory with Rookery installed in ``.venv``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    rookery = tmp_path / ".venv" / "bin" / "rookery"
    rookery.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from rookery.cli.main import main; main()" "$@"\n')
    rookery.chmod(0o755)
    yield tmp_path
    sys.modules.pop("corridor", None)


def shell(line, where):
    """Runs a line of the shell, and gives what it prints."""
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, f"{where}: {line}\n{done.stdout}{done.stderr}"
    shell.said.append((line, done.stdout))
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.stem)
def test_a_page_runs_literally_block_by_block_in_a_fresh_folder(page, folder, capsys):
    shell.said = []
    instead = [(text, other) for text, other, _ in INSTEAD]
    run(page, lambda: capsys.readouterr().out, shell, instead, exact=path_of(page) == path_here())
    if page == README:
        first = next(said for line, said in shell.said if "train CartPole-v1" in line)
        best, end = r"return_mean [\d.]+ reached 475", r"env_steps [\d,]+ reached 100,000"
        there = path_of(TUTORIAL) == path_here()  # other last bits make another training, which may take longer
        assert re.search(f"stopped: {best}" if there else f"stopped: ({best}|{end})", first)


def test_every_replacement_is_needed_once():
    code = "\n".join(block.code for page in (README, TUTORIAL) for block in blocks(page))
    assert {text: code.count(text) for text, *_ in INSTEAD} == {text: 1 for text, *_ in INSTEAD}


@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.stem)
def test_the_blocks_of_a_page_use_only_names_that_blocks_before_them_made(page):
    python = "\n".join(block.code for block in blocks(page) if block.language == "python" and not block.file)
    checked = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821",
        "--stdin-filename",
        "page.py",
        "-",
    ]
    done = subprocess.run(checked, input=python, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_no_two_blocks_of_the_readme_write_to_one_folder_of_trials():
    code = "\n".join(block.code for block in blocks(README))
    written = re.findall(r'folder="runs/(\w+)"', code) + re.findall(r"--name (\w+)", code)
    assert len(written) == len(set(written)) > 0
