"""The ``--help`` of every verb, without colours and without line breaks inside a text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any
from unittest import mock

from typer.main import get_command

from rookery.cli.main import app
from rookery.cli.verbs import VerbGroup, verb
from rookery.core.plugins import VERBS

WIDTH = 10_000


def verbs(command: Any, above: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields each verb with its full name and what it is asked in, groups first."""
    command.rich_markup_mode = None  # so that help is plain text, as where Rich is not installed
    context = command.context_class(
        command, info_name=name, parent=above, terminal_width=WIDTH, **command.context_settings
    )
    yield context.command_path, command, context
    for below, inner in getattr(command, "commands", {}).items():
        # made anew: a command that another test has used keeps the names of its option for help
        yield from verbs(verb(below, VERBS.load(below)) if isinstance(command, VerbGroup) else inner, context, below)


def parser_lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the flags of a verb whose arguments `argparse` reads."""
    yield parser.description or ""
    for action in parser._actions:
        names = ", ".join(action.option_strings) or action.dest
        values = action.metavar or (action.dest.upper() if action.nargs != 0 and action.option_strings else "")
        choices = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
        yield f"  {names} {values}".rstrip() + f"{choices}  {action.help or ''}".rstrip()


def own_help(command: Any, context: Any) -> list[str]:
    """Returns the help that a verb prints itself."""
    found: list[str] = []

    def format_help(parser: argparse.ArgumentParser) -> str:
        found.extend(parser_lines(parser))
        return ""

    context.args = ["--help"]
    with mock.patch.object(argparse.ArgumentParser, "format_help", format_help):
        try:
            command.invoke(context)
        except SystemExit:
            return found
    raise AssertionError(f"{context.command_path} --help does not end")


def help_texts() -> list[str]:
    """Returns the help of all verbs, groups first."""
    lines: list[str] = []
    written: dict[tuple[str, ...], str] = {}
    for name, command, context in verbs(get_command(app), None, "rookery"):
        hidden = " (hidden)" if context.parent and context.parent.command.hidden or command.hidden else ""
        own = own_help(command, context) if not command.add_help_option else command.get_help(context).splitlines()
        usage, *below = [line.rstrip() for line in own if line.strip()]
        first = written.setdefault(tuple(below), name)
        lines += [f"=== {name}{hidden}", usage, *(below if first == name else [f"  as {first}"]), ""]
    return lines[:-1]
