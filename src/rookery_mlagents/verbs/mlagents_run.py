"""``rookery mlagents run``: a script of ML-Agents' low-level API, run on Rookery."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def run_script(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python file or a notebook.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="The script's own arguments.", show_default=False),
    ] = None,
) -> None:
    """Run a script that imports mlagents_envs, unedited, on Rookery's own link to players.

    rookery mlagents run random_agent.py -- --env Build/Game
    """
    from rookery.face import Interrupt
    from rookery.script.runner import without_dashes
    from rookery_mlagents.api.running import run

    Interrupt.ends_program = False  # the script may act on a second signal in its own way
    sys.exit(run(script, without_dashes(arguments or [])))
