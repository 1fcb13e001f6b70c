"""``rookery elo``: what the snapshots of a run are worth, from games of everybody against everybody."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError
from rookery.core.settings.starting_folder import absolute, shown

if TYPE_CHECKING:
    from rookery.report.standings import Standing
    from rookery.run.opponents.matches import Entrant
    from rookery.run.trainer import Trainer

CHANCE = "random"
"""The player that is always there: it draws uniformly from what is allowed."""

FITTED = (
    "ratings are fitted to these games at once; a rating that training shows moves by K points a game "
    "(self_play.k_factor, 1 for files of ML-Agents), so that it lags behind, and the two differ"
)
"""Why these ratings are not those of the console."""

Games = Annotated[int, typer.Option(min=2, help="Games of each pair; sides are exchanged after each.")]
"""The option of verbs that play games."""

Likeliest = Annotated[
    bool, typer.Option("--deterministic", help="Policies take their likeliest actions; else they draw them.")
]
"""The option of verbs in which policies play as they learn unless something else is said."""

Seed = Annotated[int, typer.Option(min=0, help="Names the games: the same seed gives the same games.")]
"""The option of verbs that can be repeated."""


def elo(
    run: SavedRun,
    games: Games = 20,
    players: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODULE:FUNCTION", help="Others who play: fn(obs, rng) gives actions. Repeatable.",
            show_default=False,
        ),
    ] = None,
    anchor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=RATING", help="Whose rating is fixed, at what.", show_default="as in training"),
    ] = None,
    snapshots: Annotated[int, typer.Option(min=1, help="Snapshots of a policy that play, spread evenly.")] = 10,
    deterministic: Likeliest = False,
    seed: Seed = 0,
    checkpoint: Annotated[str, typer.Option(help="Which: last, best or a number.")] = "last",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Picture to write: .png, .svg, .pdf.", show_default="RUN/elo.png"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, nothing else.")] = False,
    trust_code: TrustedCode = False,
) -> None:  # fmt: skip
    """Let the snapshots of a run play each other, rate them with error bars, and draw ratings and win rates.

    rookery elo runs/TicTacToe-ppo-s0 --players perfect=rookery.tasks.games.players:tic_tac_toe_perfect
    """
    from rookery.run.opponents.matches import Matches, remarks, standings_of
    from rookery.run.trainer import Trainer

    saved = find_saved(run, checkpoint)
    given = named("--players", players or [], "perfect=my.module:player")
    with Trainer.load(saved, trust_code=trust_code, console="quiet") as trainer:
        rated = rated_players(trainer, snapshots, str(saved.parent.parent))
        others = others_of(trainer, given)
        with trainer.copies(trainer.config.sampling.num_envs) as env:
            entrants = entrants_of(trainer, env, rated, others, seed)
            names = [entrant.name for entrant in entrants]
            start = trainer.self_play.ratings.initial
            fixed = anchors_of(anchor, names) if anchor else {next(iter(others)): start}
            matches = Matches(trainer, env, entrants, None, games, deterministic=deterministic, seed=seed)
            played = matches.play(show_games if sys.stderr.isatty() and not as_json else ignore)
            notes = remarks(played, matches.cut, rated if deterministic else ())
        standings = standings_of(played, names, fixed)
    if as_json:
        typer.echo(json.dumps({"checkpoint": str(saved), "standings": [asdict(one) for one in standings]}, indent=1))
        return
    tell(standings, list(fixed), notes)
    how = "likeliest actions" if deterministic else "drawn actions"
    typer.echo(FITTED)
    typer.echo(f"{len(played):,} games, {matches.games} a pair, {how}, seed {seed}; {saved}")
    draw(standings, saved, output)


def named(option: str, words: Sequence[str], example: str, allowed: str = r"[^\s/@]+") -> dict[str, str]:
    """What was given as ``NAME=TEXT``, by name.

    Raises:
        ConfigError: If a word has no such form, or a name is given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not re.fullmatch(allowed, name) or not text:
            raise ConfigError(
                f"{option} {word}: must be NAME=..., as in {option} {example}; new names have no @ and no /"
            )
        if name in found:
            raise ConfigError(f"{option} {word}: there are two of the name {name}")
        found[name] = text
    return found


def anchors_of(words: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """The ratings that are fixed, by name.

    Raises:
        ConfigError: If one is no number, or of nobody.
    """
    found = {}
    for name, text in named("--anchor", words, "random=0", allowed=r".+").items():
        if name not in names:
            raise ConfigError(f"--anchor {name}={text}: nobody of that name plays; there are {', '.join(names)}")
        try:
            found[name] = float(text)
            if not math.isfinite(found[name]):
                raise ValueError
        except ValueError:
            raise ConfigError(f"--anchor {name}={text}: a rating is a number of points") from None
    return found


def rated_players(trainer: Trainer, most: int, run: str) -> list[str]:
    """The snapshots and policies that are rated: of each policy at most so many, the first and the last among them.

    Raises:
        ConfigError: If the run has no snapshots; says how a run gets them.
    """
    from rookery.rollout.mapping import SNAPSHOT
    from rookery.run.opponents.matches import players_of_run

    snapshots: dict[str, list[str]] = {}
    for name in players_of_run(trainer):
        if SNAPSHOT in name:
            snapshots.setdefault(name.partition(SNAPSHOT)[0], []).append(name)
    if not snapshots:
        policy = next(iter(trainer.policies))
        raise ConfigError(
            f"{run}: has no snapshots of its policies to be rated; a run takes them where self_play is set, as in "
            f"rookery train ... self_play.{policy}={{}} (docs/how-to/self-play.md); without, rookery match {run} "
            "random measures it as it is"
        )
    found: list[str] = []
    for policy, names in snapshots.items():
        step = max(1.0, (len(names) - 1) / max(1, most - 1))
        places = sorted({round(number * step) for number in range(min(most, len(names)))})
        found += [*(names[place] for place in places), policy]
    return found


def others_of(trainer: Trainer, given: dict[str, str]) -> dict[str, str]:
    """Who plays beside the run's policies: its anchors, the first of them first, chance, and whoever is given.

    Chance is left out where another anchor has its name.

    Raises:
        ConfigError: If somebody who is given has the name of an anchor.
    """
    known = dict(trainer.self_play.anchors)
    if CHANCE not in known.values():
        known.setdefault(CHANCE, CHANCE)
    if twice := [name for name in given if name in known and given[name] != known[name]]:
        raise ConfigError(f"--players {twice[0]}=...: {twice[0]} is {known[twice[0]]} already; give it another name")
    return {**known, **given}


def entrants_of(trainer: Trainer, env: Any, rated: Sequence[str], others: dict[str, str], seed: int) -> list[Entrant]:
    """Who plays: policies of a run, then functions.

    Raises:
        ConfigError: If a function is called like a policy, or there is none.
    """
    from rookery.core.seeding import Role, Streams
    from rookery.run.opponents.matches import entrant_of_run, scripted_entrant

    if twice := [name for name in others if name in rated]:
        raise ConfigError(f"--players {twice[0]}=...: is a policy of the run; give the function another name")
    streams = Streams(trainer.streams.integer(Role.MATCH, seed))
    found = [entrant_of_run(trainer, env, name, name) for name in rated]
    return [*found, *(scripted_entrant(env, player, name, streams) for name, player in others.items())]


def tell(standings: Sequence[Standing], anchors: Sequence[str], notes: Sequence[str]) -> None:
    """Writes the table, the matrix, and what is to be known of them."""
    from rookery.report.standings import matrix_table, standings_table

    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print(standings_table(standings, anchors))
    if len(standings) > 2:
        console.print()
        console.print(matrix_table(standings))
    console.print()
    for line in notes:
        console.print(line, soft_wrap=True)


def draw(standings: Sequence[Standing], saved: Path, output: Path | None) -> None:
    """Draws the picture; where nobody asked for one and it cannot be drawn, says so and goes on."""
    from rookery.report.standings import draw_standings

    run = saved.parent.parent
    target = absolute(output or run / "elo.png")
    try:
        draw_standings(standings, run.name, target)
    except ConfigError as error:
        if output is not None:
            raise
        typer.echo(f"no picture: {error}")
    else:
        typer.echo(str(shown(target)))


def show_games(played: int, total: int) -> None:
    """Writes how many games are over, over what was written before, on standard error."""
    typer.echo(f"\r{played:,} of {total:,} games", nl=played == total, err=True)


def ignore(played: int, total: int) -> None:
    """Does nothing."""
