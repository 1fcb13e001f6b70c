"""The verbs of the command line. The help lists them from the tables here; a verb's module is imported when it runs.

Unknown words of other programs get a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rookery.core.plugins import VERBS
from rookery.core.settings.hints import OPTIONS, OTHER_VERBS

HELP = {
    "Train": {
        "init": "Write a project: environment, test, settings.",
        "train": "Train policies in an environment.",
        "resume": "Continue a run exactly from its last checkpoint.",
        "learn": "Train on replay buffers, without the environment.",
        "bench": "Measure the training speed and name the bottleneck.",
        "zoo": "List trained pairs; train one again, or verify it.",
    },
    "Inspect": {
        "evaluate": "Play episodes with the policies of a run.",
        "record": "Write a video of episodes.",
        "plot": "Plot learning curves of one or more runs.",
        "timers": "Show the time of each step of a run, with file:line.",
        "doctor": "Find out why a run does not learn.",
        "explain": "Show the source of a setting, or a place in the code.",
        "diff": "Compare two runs: settings, versions, last metrics.",
        "algos": "List the algorithms with their capabilities.",
        "envs": "List environments; check, create or compile your own.",
        "config": "Show the settings there are; write their JSON Schema.",
    },
    "Play": {
        "match": "Play games between two runs.",
        "elo": "Rate the snapshots of a run, and plot the ratings.",
        "play": "Play against the agents of a run at the terminal.",
    },
    "Deploy": {
        "serve": "Serve the policies of a run over HTTP.",
        "export": "Write the policies of a run as ONNX files.",
        "check-onnx": "Show what an ONNX file contains, and its problems.",
    },
    "Data": {"replay": "Show, merge, export, record and import replay buffers."},
    "Tune": {"tune": "Tune hyperparameters: run, resume and show experiments."},
    "Other systems": {
        "rllib": "Run scripts and commands of RLlib as of 2021.",
        "mlagents": "Train with the files and flags of ML-Agents.",
    },
}
"""Line of the help for each verb, by the panel that lists it. `VERBS` has further names for some verbs, not listed."""

PLUGIN_PANEL = "Other systems"
"""Panel of the help for verbs of other packages."""


FORMER_OPTIONS = {
    "out": "output",
    "picture": "output",
    "plot": "output",
    "memory": "replay",
    "copies": "envs-per-worker",
}
"""Former names of options, which still work and are not in the help: ``--out`` is ``--output``."""


def current_option(name: str) -> str:
    """Returns the current name of an option, without dashes."""
    return FORMER_OPTIONS.get(name, name)


class VerbGroup(TyperGroup):
    """The verbs of ``rookery``, built-in ones first. Commands and contexts are those of Typer's own Click."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = {
            name: TyperCommand(name, help=line, rich_help_panel=panel)
            for panel, lines in HELP.items()
            for name, line in lines.items()
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all verbs that the help lists."""
        return [*self.commands, *VERBS.added]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a placeholder with the line of the help for a verb; None if there is none of this name."""
        if (found := self.commands.get(cmd_name)) is not None or cmd_name not in VERBS:
            return found
        package = VERBS.package_of(cmd_name)
        text = f"Command of the package {package}."
        return TyperCommand(cmd_name, help=text, rich_help_panel=PLUGIN_PANEL, hidden=not package)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the lines of the help, a section for each panel."""
        added = {name: self.get_command(ctx, name).help for name in VERBS.added}
        width = max(map(len, self.list_commands(ctx)))
        for panel, lines in HELP.items():
            with formatter.section(panel):
                rows = {**lines, **(added if panel == PLUGIN_PANEL else {})}
                formatter.write_dl([(name.ljust(width), line) for name, line in rows.items()])

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
            name, _, rest = super().resolve_command(ctx, args)
        except Exception as error:
            unknown: Any = error
            if args[0] in OTHER_VERBS:
                unknown.message = f"No such command {args[0]!r}; {OTHER_VERBS[args[0]]}"
            raise
        return name, None if name is None else load_verb(name), rest


@cache
def load_verb(name: str) -> Any:
    """Imports a verb and returns it as a command of Typer.

    Raises:
        ConfigError: If it is a plug-in that cannot be imported.
    """
    return verb(name, VERBS.load(name))


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
