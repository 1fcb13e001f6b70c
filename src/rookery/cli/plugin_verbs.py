"""Verbs of installed plug-ins: a package is imported when its verb is called. Unknown words get a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rookery.core.plugins import VERBS
from rookery.core.settings.hints import OPTIONS, OTHER_VERBS

PLUGIN_PANEL = "Other systems"
"""Panel of the help for verbs of other packages."""


class VerbGroup(TyperGroup):
    """The verbs of ``rookery``, built-in ones first. Commands and contexts are those of Typer's own Click."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all verbs."""
        return [*super().list_commands(ctx), *VERBS.added]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a verb by its name; for a plug-in, a placeholder for the list of verbs."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in VERBS:
            text = f"Command of the package {VERBS.package_of(cmd_name)}."
            return TyperCommand(cmd_name, help=text, rich_help_panel=PLUGIN_PANEL)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Runs a verb; an unknown option of another program is refused with its remedy."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            unknown: Any = error
            if remedy := OPTIONS.get(getattr(error, "option_name", "")):
                unknown.message, unknown.possibilities = f"{unknown.message}; {remedy}", None
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name and the verb of a command line, and the arguments after it.

        Raises:
            ConfigError: If the verb is a plug-in that cannot be imported.
        """
        try:
            name, found, rest = super().resolve_command(ctx, args)
        except Exception as error:
            unknown: Any = error
            if args[0] in OTHER_VERBS:
                unknown.message = f"No such command {args[0]!r}; {OTHER_VERBS[args[0]]}"
            raise
        if name is not None and super().get_command(ctx, name) is None:
            return name, verb(name, VERBS.load(name)), rest
        return name, found, rest


def verb(name: str, made: typer.Typer | Callable[..., Any]) -> Any:
    """Returns a function or a Typer app as a verb."""
    holder = typer.Typer(pretty_exceptions_enable=False)
    holder.callback()(lambda: None)
    if isinstance(made, typer.Typer):
        holder.add_typer(made, name=name)
    else:
        holder.command(name)(made)
    group: Any = get_command(holder)
    return group.commands[name]
