"""Pages of docs/ as programs: their blocks of code, and running them as a reader would, one after the other.

Python blocks run in order, in one namespace and an empty directory. A ``text`` block right after one is what it prints,
numbers apart. A block under ``<!-- file: NAME -->`` is written to that file; one under ``<!-- no test -->`` is skipped.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>no test|file: (?P<file>\S+)) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: where its code begins, what it is written in, and what it says."""

    page: Path
    line: int
    language: str
    code: str
    mark: str
    file: str
    end: int
    start: int


def blocks(page):
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"],
            found["code"],
            found["mark"] or "",
            found["file"] or "",
            found.end(),
            found.start(),
        )
        for found in BLOCK.finditer(text)
    ]


def printed(page, block):
    """What the page says that a Python block prints, or None if it does not say: the text block right after it."""
    text = page.read_text(encoding="utf-8")
    for other in blocks(page):
        if other.language == "text" and other.start > block.end and not text[block.end : other.start].strip():
            return other.code
    return None


def without_numbers(text):
    """The text with every number replaced, and blanks evened out: what is the same on every machine."""
    return [" ".join(NUMBER.sub("0", line).split()) for line in text.strip().splitlines()]


def run(page, read_output):
    """Runs a page; an error shows the page's own line.

    Args:
        page: The file.
        read_output: Gives what was printed since it was last called.
    """
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "python" and block.mark != "no test":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
            said, expected = read_output(), printed(page, block)
            if expected is not None:
                assert without_numbers(said) == without_numbers(expected), f"{page}:{block.line} prints\n{said}"
