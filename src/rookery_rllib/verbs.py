"""``rookery rllib``: scripts and commands of RLlib as of 2021, run on Rookery."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rookery_rllib.train_verbs import add_to

app = typer.Typer(no_args_is_help=True)


@app.callback()
def rllib() -> None:
    """Run scripts and commands of RLlib as of 2021."""


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python file or a notebook.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="The script's own arguments.", show_default=False),
    ] = None,
) -> None:
    """Run a script that was written for RLlib, Tune and Gym of 2021, unedited.

    rookery rllib run custom_env.py -- --as-test --stop-iters 20
    """
    from rookery.face import Interrupt
    from rookery.script.runner import without_dashes
    from rookery_rllib.script.run_script import run

    Interrupt.ends_program = False  # the script may handle a second signal itself
    sys.exit(run(script, without_dashes(arguments or [])))


add_to(app)
