"""The word list of the project, and the places in its texts that break it: ``python scripts/prose.py [PATH ...]``.

`findings` reads one file: of Python the docstrings, comments and texts (in ``tests/`` no texts), of C and C++ the
comments and texts, of Markdown all but code. Words between backticks are code, and are not read. docs/glossary.md
says which word to use instead. `soft_findings` reads what a user sees first (headings, first paragraphs, reference
pages, help) for words of everyday English that have a term in the field. ``tests/test_prose.py`` wants no finding.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

HARD = {
    "told": "given, named, stated; or name the function that passes it",
    "tells": "states, names, reports",
    "hears": "receives, is called with",
    "nobody": "no process, no policy, no setting",
    "somebody": "a player, another process",
    "anybody": "any user, any process",
    "whoever": "the caller, the policy, the process that",
    "everybody": "all policies, every user",
    "theirs": "name the library, or: the other's",
    "goes on": "continues, resumes",
    "go on": "continue, resume",
    "going on": "continuing, resuming",
    "went on": "continued, resumed",
    "what is there": "the existing files, the current values",
    "comes to": "is, reaches, amounts to",
    "is due": "follows, must run now",
    "of whom": "rebuild the sentence",
    "says why": "returns the reason",
}
"""Words that stand in no text, each with what to write instead. `is due to` is allowed."""

OPENINGS = {"What", "Where", "How", "Says", "Lets", "Who"}
"""First words that no docstring has: it begins with a verb in the third person, or a noun of the field."""

SOFT = {
    "film": "video",
    "films": "videos",
    "picture": "image, plot",
    "pictures": "images, plots",
    "copies": "environments, clones",
    "processor": "CPU",
    "processors": "CPUs",
    "numbers": "continuous actions, values, counts",
    "choices": "discrete actions, options",
}
"""Words that do not stand in headings, first paragraphs, README, pages about settings and help, each with the term."""

ALLOWED = {
    "random numbers": "the field's own term",
    "whole numbers": "a kind of values of a setting",
    "copies of the weights": "a target network is one",
    "between copies": "of weights to a target network",
    "serial numbers": "counts in stored files",
    "slot numbers": "counts in stored files",
}
"""Phrases with a word of `SOFT` in another sense, each with the reason."""

WHOLE = ("README.md", *(f"docs/reference/{page}.md" for page in ("settings", "presets", "mlagents-keys", "rllib-keys")))
"""Pages in which no line has a word of `SOFT`."""

GAP = r"[ \n#]+"
"""Between two words: a line may end there, in a comment too."""

PATTERN = re.compile(
    rf"\b(?:{'|'.join(word.replace(' ', GAP) for word in HARD if word != 'is due')})\b|\bis{GAP}due\b(?!{GAP}to\b)",
    re.IGNORECASE,
)
ANY_PATTERN = re.compile(rf"\b(?:{'|'.join(word.replace(' ', GAP) for word in HARD)})\b", re.IGNORECASE)
"""Matches wherever a text of a Python file has a word of `HARD`: files without a match need not be split into texts."""

OPENING = re.compile(rf"['\"]{{3}}[\s\\]*(?:{'|'.join(sorted(OPENINGS))}|Whether)\b")
"""Matches wherever a docstring begins with one of `OPENINGS`: other files need not be parsed."""

SOFT_PATTERN = re.compile(rf"(?<![-/])\b(?:{'|'.join(SOFT)})\b", re.IGNORECASE)
ALLOWED_PATTERN = re.compile("|".join(phrase.replace(" ", GAP) for phrase in ALLOWED), re.IGNORECASE)
CODE = re.compile(r"``.*?``|`[^`\n]*`|https?://\S+|\"[\w.]+:[\w.]+\"", re.DOTALL)
FIELD = re.compile(r"\{[^{}]*\}")
"""A value in a formatted text of Python."""

FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
KEY = re.compile(r"(['\"])\w+\1")
"""A text of one word is a key, such as the kind of a stored record, and is not read."""
C_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


class Finding(NamedTuple):
    """A word that does not belong in a text."""

    path: str
    line: int
    word: str
    text: str


def hidden(code: re.Match[str]) -> str:
    """Returns code as a line of dashes, which no word is found in."""
    return re.sub(r"\S", "-", code[0])


def findings(path: Path) -> list[Finding]:
    """Returns the findings in one file, in the order of its lines."""
    content = path.read_text(encoding="utf-8")
    name = path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else path.as_posix()
    found = []
    is_python = path.suffix == ".py"
    has_texts = not is_python or ANY_PATTERN.search(content)
    for start, text in texts_of(path, content, with_texts=not name.startswith("tests/")) if has_texts else ():
        plain = CODE.sub(hidden, text)
        for match in PATTERN.finditer(plain):
            line = start + text[: match.start()].count("\n")
            around = " ".join(plain[max(match.start() - 60, 0) : match.end() + 60].split())
            found.append(Finding(name, line, " ".join(re.split(GAP, match[0].lower())), around))
    if is_python and OPENING.search(content):
        found += [Finding(name, line, f"{word} ...", text) for line, word, text in openings(content)]
    return sorted(found, key=lambda one: one.line)


def soft_findings(path: Path) -> list[Finding]:
    """Returns the words of `SOFT` in what a file shows first.

    This is all of README, of the pages about settings and of the texts of help; of other pages the headings and the
    first paragraph.
    """
    content = path.read_text(encoding="utf-8")
    name = path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else path.as_posix()
    plain = FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), content) if path.suffix == ".md" else content
    plain = ALLOWED_PATTERN.sub(hidden, CODE.sub(hidden, plain))
    whole = path.suffix != ".md" or name in WHOLE
    blocks = re.split(r"\n\s*\n", plain)
    first = next((number for number, block in enumerate(blocks) if not block.startswith(("#", "!", "<", "["))), 0)
    found, line = [], 1
    for number, block in enumerate(blocks):
        for offset, text in enumerate(block.split("\n")):
            if whole or number == first or text.startswith("#"):
                found += [Finding(name, line + offset, word.lower(), text) for word in SOFT_PATTERN.findall(text)]
        line += block.count("\n") + 2
    return found


def texts_of(path: Path, content: str, with_texts: bool) -> Iterator[tuple[int, str]]:
    """Yields the line where a text begins, and the text; neighbouring lines of comments are one text."""
    if path.suffix == ".md":
        yield 1, FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), content)
    elif path.suffix in (".c", ".h", ".cpp"):
        for match in C_TEXT.finditer(content):
            yield content[: match.start()].count("\n") + 1, match[0]
    else:
        yield from python_texts(content, with_texts)


def python_texts(content: str, with_texts: bool) -> Iterator[tuple[int, str]]:
    """Yields comments, docstrings and, if asked for, all other texts of a Python file."""
    docstrings = {node.lineno for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Expr)}
    comment: tuple[int, str] = (0, "")
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            continues = comment[1] and line == comment[0] + comment[1].count("\n") + 1
            if comment[1] and not continues:
                yield comment
            comment = (comment[0], f"{comment[1]}\n{token.string}") if continues else (line, token.string)
        elif KEY.fullmatch(token.string):
            continue
        elif tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and (with_texts or line in docstrings):
            is_formatted = "f" in token.string[: token.string.find(token.string[-1])].lower()
            yield line, FIELD.sub(hidden, token.string) if is_formatted else token.string
    if comment[1]:
        yield comment


def openings(content: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, first word and first line of docstrings that begin with one of `OPENINGS`, and of those that begin
    with ``Whether`` where the value is no boolean.
    """
    for node in ast.walk(ast.parse(content)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node) or ""
        first = re.match(r"\w*", docstring)[0]  # type: ignore[index]
        boolean = isinstance(node, ast.FunctionDef) and node.returns is not None and "bool" in ast.unparse(node.returns)
        if first in OPENINGS or (first == "Whether" and isinstance(node, ast.FunctionDef) and not boolean):
            yield node.body[0].lineno, first, docstring.splitlines()[0]


def files_of(paths: list[Path]) -> Iterator[Path]:
    """Yields the files with texts at or below some paths, without those in hidden folders, such as ``.venv``."""
    for path in paths:
        inside = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (
            file
            for file in inside
            if file.suffix in (".py", ".md", ".c", ".h", ".cpp")
            and file.resolve() != Path(__file__).resolve()
            and not any(part.startswith(".") for part in file.relative_to(path).parts[:-1])
        )


if __name__ == "__main__":
    places = [Path(name) for name in sys.argv[1:]] or [ROOT / "src", ROOT / "docs", ROOT / "README.md"]
    listed = [one for file in files_of(places) for one in findings(file)]
    sys.stdout.writelines(f"{one.path}:{one.line}: {one.word}: {one.text}\n" for one in listed)
    sys.stderr.write(f"{len(listed)} findings\n")
