"""Every page of docs/ that shows code shows code that runs."""

import re
import sys

import pytest
from pages import ROOT, blocks, run
from typer.main import get_command

from rookery.cli.main import app

PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    run(page, lambda: capsys.readouterr().out)
    for name in {block.file.removesuffix(".py") for block in blocks(page)} & (set(sys.modules) - before):
        del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_shows_are_those_of_examples(page):
    for block in blocks(page):
        example = ROOT / "examples" / block.file
        if block.file and example.exists():
            assert block.code == example.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_a_page_shows_exist(page):
    known = get_command(app).commands
    for block in blocks(page):
        for verb in re.findall(r"^rookery ([a-z]+)", block.code, re.M) if block.language == "sh" else ():
            assert verb in known, f"{page}:{block.line}: rookery {verb}"


def test_few_blocks_of_python_are_not_run():
    skipped = [f"{page.name}:{b.line}" for page in PAGES for b in blocks(page) if b.mark == "no test"]
    assert len(skipped) <= 3, skipped
