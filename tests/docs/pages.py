"""Pages of docs/ as programs: their blocks of code, and running them as a reader would, one after the other.

Python blocks run in order, in one namespace and an empty directory. A ``text`` block right after one is what it prints,
numbers apart unless the page says on which path they were computed, and this is it. A block under
``<!-- file: NAME -->`` is written to that file; one under ``<!-- no test -->`` is skipped. Blocks under
``<!-- run -->``, most of them of the shell, are run by test_run_lines.py.
"""

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>no test|run|file: (?P<file>\S+)) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")

GRID = re.compile(r"^[.+A-Z]( [.+A-Z])+$")
"""A row of a drawn grid."""


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
    """Returns the output that the page shows for a Python block, as a block, or None.

    That is the text block right after it, or behind the end of the fold that the Python block is in.
    """
    text = page.read_text(encoding="utf-8")
    for other in blocks(page):
        between = text[block.end : other.start].replace("</details>", "")
        if other.language == "text" and other.start > block.end and not between.strip():
            return other
    return None


def without_numbers(text):
    """The text with every number and every field of a drawn grid replaced, and blanks evened out: what is the same on
    every machine.
    """
    plain = [GRID.sub(lambda grid: ". " * len(grid[0].split()), line) for line in text.strip().splitlines()]
    return [" ".join(NUMBER.sub("0", line).split()) for line in plain]


def path_of(page):
    """On which path the numbers of a page were computed, as its line ``<!-- numbers: PATH -->`` says; else nothing.

    Other processors compute other last bits, from which other trainings follow.
    """
    found = re.search(r"^<!-- numbers: (.*) -->$", page.read_text(encoding="utf-8"), re.M)
    return found[1] if found else ""


def run(page, read_output, shell=None, instead=(), exact=False):
    """Runs a page; an error shows the page's own line. Returns what its blocks printed where the page shows it.

    Args:
        page: The file.
        read_output: Gives what was printed since it was last called.
        shell: Runs a line of a block of the shell; None leaves these blocks out.
        instead: Texts of blocks and what is run in their place.
        exact: Whether numbers must be those of the page.
    """
    namespace, said_there = {"__name__": "__main__"}, {}
    for block in blocks(page):
        code = block.code
        for text, other in instead:
            code = code.replace(text, other)
        if block.file:
            Path(block.file).write_text(block.code, encoding="utf-8")
        elif block.mark == "no test":
            continue
        elif block.language == "sh" and shell is not None:
            for line in filter(None, code.splitlines()):
                shell(line, f"{page}:{block.line}")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), namespace)
            said, expected = read_output(), printed(page, block)
            if expected is not None:
                said_there[expected] = said
                lines = [[line.rstrip() for line in text.strip().splitlines()] for text in (said, expected.code)]
                same = lines[0] == lines[1] if exact else without_numbers(said) == without_numbers(expected.code)
                assert same or exact == "rewrite", f"{page}:{block.line} prints\n{said}"
    return said_there


def rewrite(page):
    """Puts what the blocks of a page print here where the page shows it."""
    out = io.StringIO()

    def read_output():
        said = out.getvalue()
        out.seek(0)
        out.truncate()
        return said

    with contextlib.redirect_stdout(out):
        said_there = run(page, read_output, exact="rewrite")
    text = page.read_text(encoding="utf-8")
    for block, said in sorted(said_there.items(), key=lambda pair: -pair[0].start):
        text = text[: block.start] + text[block.start : block.end].replace(block.code, said, 1) + text[block.end :]
    page.write_text(re.sub(r"^<!-- numbers: .* -->$", f"<!-- numbers: {path_here()} -->", text, flags=re.M))


def path_here():
    """On which path small networks are computed here."""
    from rookery.core.native import path_name

    return path_name(True)


if __name__ == "__main__":  # in an empty directory: python tests/docs/pages.py docs/tutorial.md
    rewrite(Path(sys.argv[1]))
