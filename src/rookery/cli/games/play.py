"""``rookery play``: a person plays against the agents of a run, with them, or in place of one."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from secrets import randbits
from typing import Annotated

import typer

from rookery.cli.games.elo import Likeliest
from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError


def play(
    run: SavedRun,
    side: Annotated[
        str | None, typer.Option(help="Side or agent that you play.", show_default="the sides in turn")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy or snapshot of the others, as in main@3.", show_default="all, as mapped")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Watch step by step instead of playing.")] = False,
    deterministic: Likeliest = False,
    lines: Annotated[bool, typer.Option("--lines", help="Type moves and Enter instead of single keys.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the games; default: random.", show_default=False)
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Play at the terminal against the agents of a run: moves by number, or keys in grids.

    rookery play runs/TicTacToe-ppo-s0 --side x
    """
    saved = find_saved(run, checkpoint)
    if not sys.stdin.isatty():
        raise ConfigError(
            "rookery play: standard input is not a terminal, which a person needs; use rookery match for other players"
        )
    from rookery.cli.games.person import PersonGames, env_to_show, terminal_input
    from rookery.run.trainer import Trainer

    stopped = False
    with ExitStack() as stack:
        trainer = stack.enter_context(Trainer.load(saved, trust_code=trust_code, console="quiet"))
        env = stack.enter_context(closing(env_to_show(trainer)))
        person = stack.enter_context(closing(terminal_input(env, lines or watch)))
        chosen = randbits(31) if seed is None else seed
        games = PersonGames(trainer, env, person, side, policy, deterministic, watch, chosen)
        try:
            games.play()
        except KeyboardInterrupt:
            stopped = True
    if stopped or games.tally():
        typer.echo(f"\n{games.tally()}")
    if stopped:
        raise typer.Exit(130)
