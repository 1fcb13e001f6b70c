"""Tutorials as notebooks, by jupytext: text as Markdown, blocks of Python as cells, without output."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ("docs/tutorial.md",)

OUTPUT = re.compile(r"^```text\n.*?^```\n", re.M | re.S)
COMMENT = re.compile(r"^<!-- .* -->\n", re.M)
SHELL = re.compile(r"^```sh$", re.M)
FILE = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.M | re.S)


def notebook(page: str) -> str:
    """Returns a tutorial as the text of an ``.ipynb`` file.

    What a block prints is left out, since the cell prints it; files that the page shows are written by their cells.
    Commands of a shell stay text, because some of them, such as TensorBoard, run until they are stopped.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    text = FILE.sub(r"```python\n%%writefile \1\n\2```", text)
    text = SHELL.sub("```console", OUTPUT.sub("", COMMENT.sub("", text)))
    text = re.sub(r"</?details>|</?summary>", "", text)
    text = re.sub(r"\]\((?!https?:|#)([^)\s]+?)\.md(#[^)]*)?\)", r"](\1.html\2)", text)
    made = jupytext.reads(text, fmt="md")
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    return str(jupytext.writes(made, fmt="ipynb"))
