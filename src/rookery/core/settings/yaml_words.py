"""Plain error messages for invalid YAML: `yaml_problem`."""

from __future__ import annotations

import re

TAB = "a tab stands where YAML wants spaces: indent with spaces alone"
"""Message for a tab in front of a key."""


def yaml_problem(error: Exception, text: str) -> tuple[int, int, str]:
    """Describes the problem of a text refused by a YAML reader.

    Args:
        error: Error of the reader.
        text: The text.

    Returns:
        Line and column, both counted from 1, and the problem there with the expected text.
    """
    mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        at = getattr(error, "position", None)  # of a character that no text has
        if not isinstance(at, int):
            return 1, 1, str(error).splitlines()[0]
        return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), f"{text[at]!r} is no character of a text"
    problem, lines = str(getattr(error, "problem", None) or error), [*text.splitlines(), ""]
    place = (mark.line + 1, mark.column + 1)
    here = lines[min(mark.line, len(lines) - 1)]
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return mark.line + 1, here.index("\t") + 1, TAB
    if "mapping values are not allowed" in problem:
        return _second_colon(mark.line, mark.column, lines)
    if "could not find expected ':'" in problem and begun is not None:
        return begun.line + 1, begun.column + 1, _no_colon(lines[begun.line])
    if "unexpected end of stream" in problem and begun is not None:
        return begun.line + 1, begun.column + 1, "a quote opens here and is never closed: expected another one"
    flow = re.match(r"expected ',' or '([}\]])'", problem)
    if flow and begun is not None:
        close = flow[1]
        opened = f"the {'{' if close == '}' else '['} of line {begun.line + 1}, column {begun.column + 1}"
        return *place, f"expected a comma or {close} before this: {opened} is not closed yet"
    if "expected <block end>" in problem:
        if "}" in problem or "]" in problem:
            return *place, f"{here[mark.column : mark.column + 1]} closes nothing: there is one too many"
        return *place, (
            f"{here.strip()!r} stands {mark.column} spaces from the left, where no section or list above it continues: "
            "give it as many as the lines that it belongs to, and in a list begin each entry with -"
        )
    if "cannot start any token" in problem:
        if here[mark.column : mark.column + 1] == "\t":
            return *place, TAB
        return *place, f"a value cannot begin with {here[mark.column : mark.column + 1]}: put it into quotes"
    if "undefined alias" in problem:
        return *place, "a value that begins with * repeats one marked with &, and none is: put a text into quotes"
    if "another document" in problem:
        return *place, "--- begins a second document: leave one in the file"
    if "escape" in problem:
        return *place, "a backslash in double quotes begins a code: use single quotes"
    return *place, problem


def _second_colon(number: int, column: int, lines: list[str]) -> tuple[int, int, str]:
    """Returns the reason why a line cannot have a key: the line has a value, or the line above has a value or no
    colon.
    """
    line = lines[number]
    if re.search(r"\S:\s+\S.*$", line[:column]):
        text = line[:column].partition(":")[2].strip()
        return number + 1, column + 1, f"a second colon after {text!r}: put a text with a colon and a space into quotes"
    above = next((at for at in range(number - 1, -1, -1) if _text(lines[at])), None)
    if above is None:
        return number + 1, column + 1, "expected a key, a colon, a space and a value"
    text = _text(lines[above])
    if re.search(r":(\s|$)", text):
        inset = len(line) - len(line.lstrip())
        return number + 1, inset + 1, (
            f"{_text(line)!r} stands further right than {text!r} above it, which has its value already: begin both in "
            "the same column"
        )  # fmt: skip
    return above + 1, len(lines[above]) - len(lines[above].lstrip()) + 1, _no_colon(lines[above])


def _no_colon(line: str) -> str:
    """Describes the missing part of a line without a key and value."""
    text = _text(line)
    if found := re.match(r"(?:- +)?([\w.-]+):(\S+)", text):
        return f"a space is missing after the colon: expected '{found[1]}: {found[2]}'"
    return f"a colon is missing in {text!r}: expected a key, a colon, a space and a value"


def _text(line: str) -> str:
    """Returns the content of a line without its comment."""
    return re.sub(r"(^|\s)#.*$", "", line).strip()
