"""The page about old files of ML-Agents shows what the command writes and says, and every old flag."""

import re
import shlex

import typer
from pages import ROOT, blocks
from typer.testing import CliRunner

from rookery_mlagents.old.old_flags import OLD_FLAGS
from rookery_mlagents.verbs.mlagents_convert import convert

PAGE = ROOT / "docs" / "how-to" / "old-mlagents-files.md"


def test_the_page_shows_what_the_first_command_writes_and_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *others, new, said = blocks(PAGE)
    for block in others:
        if block.file:
            (tmp_path / block.file).write_text(block.code)
    app = typer.Typer()
    app.command()(convert)
    done = CliRunner().invoke(app, shlex.split(command.code.splitlines()[0])[3:])
    assert done.stdout == said.code
    assert (tmp_path / "wall_jump.new.yaml").read_text() == new.code


def test_the_page_has_a_row_for_every_old_flag():
    rows = re.findall(r"^\| (`--.*?) \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert {flag for row in rows for flag in re.findall(r"`(--[a-z-]+)`", row)} == OLD_FLAGS.keys()
