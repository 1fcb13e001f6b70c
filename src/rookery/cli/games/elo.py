"""``rookery elo``: Elo ratings of the snapshots of a run, from a round robin of games."""

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
"""Player that is always included: it samples allowed actions uniformly."""

FITTED = (
    "ratings are fitted to all games at once; a rating in training changes by up to K points a game "
    "(self_play.k_factor, 1 for files of ML-Agents), so that it lags behind, and the two differ"
)
"""Note why these ratings differ from those on the console."""

Games = Annotated[int, typer.Option(min=2, help="Games of each pair; sides alternate.")]
"""Option of verbs that play games."""

Likeliest = Annotated[
    bool, typer.Option("--deterministic", help="Take the most likely actions instead of sampled ones.")
]
"""Option of verbs whose policies sample actions by default."""

Seed = Annotated[int, typer.Option(min=0, help="Random seed of the games.")]
"""Option of verbs with reproducible games."""


def elo(
    run: SavedRun,
    games: Games = 20,
    players: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MODULE:FUNCTION", help="Other players: fn(obs, rng) returns actions. Repeatable.",
            show_default=False,
        ),
    ] = None,
    anchor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=RATING", help="Player with a fixed rating.", show_default="as in training"),
    ] = None,
    snapshots: Annotated[int, typer.Option(min=1, help="Number of snapshots of each policy, spread evenly.")] = 10,
    deterministic: Likeliest = False,
    seed: Seed = 0,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Plot to write: .png, .svg, .pdf.", show_default="RUN/elo.png"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON only.")] = False,
    trust_code: TrustedCode = False,
) -> None:  # fmt: skip
    """Rate the snapshots of a run by games against each other, with error bars, and plot ratings and win rates.

    rookery elo runs/TicTacToe-ppo-s0 --players perfect=rookery.tasks.games.players:tic_tac_toe_perfect
    """
    from rookery.run.opponents.matches import Matches, remarks, standings_of
    from rookery.run.trainer import Trainer

    saved = find_saved(run, checkpoint)
    given = named_texts("--players", players or [], "perfect=my.module:player")
    with Trainer.load(saved, trust_code=trust_code, console="quiet") as trainer:
        rated = rated_players(trainer, snapshots, str(saved.parent.parent))
        others = other_players(trainer, given)
        with trainer._copies(trainer.config.sampling.num_envs) as env:
            entrants = entrants_of(trainer, env, rated, others, seed)
            names = [entrant.name for entrant in entrants]
            start = trainer._self_play.ratings.initial
            fixed = anchors_of(anchor, names) if anchor else {next(iter(others)): start}
            matches = Matches(trainer, env, entrants, None, games, deterministic=deterministic, seed=seed)
            played = matches.play(show_games if sys.stderr.isatty() and not as_json else ignore)
            notes = remarks(played, matches.cut, rated if deterministic else ())
        standings = standings_of(played, names, fixed)
    if as_json:
        typer.echo(json.dumps({"checkpoint": str(saved), "standings": [asdict(one) for one in standings]}, indent=1))
        return
    print_standings(standings, list(fixed), notes)
    how = "most likely actions" if deterministic else "sampled actions"
    typer.echo(FITTED)
    typer.echo(f"{len(played):,} games, {matches.games} a pair, {how}, seed {seed}; {saved}")
    draw(standings, saved, output)


def named_texts(option: str, words: Sequence[str], example: str, allowed: str = r"[^\s/@]+") -> dict[str, str]:
    """Returns texts given as ``NAME=TEXT``, by name.

    Raises:
        ConfigError: If a word has another form, or a name is given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not re.fullmatch(allowed, name) or not text:
            raise ConfigError(
                f"{option} {word}: must be NAME=..., as in {option} {example}; new names have no @ and no /"
            )
        if name in found:
            raise ConfigError(f"{option} {word}: the name {name} is given twice")
        found[name] = text
    return found


def anchors_of(words: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Returns the fixed ratings by name.

    Raises:
        ConfigError: If one is not a number, or there is no player of a name.
    """
    found = {}
    for name, text in named_texts("--anchor", words, "random=0", allowed=r".+").items():
        if name not in names:
            raise ConfigError(f"--anchor {name}={text}: there is no player of that name; there are {', '.join(names)}")
        try:
            found[name] = float(text)
            if not math.isfinite(found[name]):
                raise ValueError
        except ValueError:
            raise ConfigError(f"--anchor {name}={text}: a rating is a number of points") from None
    return found


def rated_players(trainer: Trainer, most: int, run: str) -> list[str]:
    """Returns the snapshots and policies to rate: at most `most` of each policy, including the first and the last.

    Raises:
        ConfigError: If the run has no snapshots; with the setting that makes them.
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
            f"{run}: the run has no snapshots of its policies to rate; training makes them if self_play is set, as in "
            f"rookery train ... self_play.{policy}={{}} (docs/how-to/self-play.md); without them, rookery match {run} "
            "random measures the current policies"
        )
    found: list[str] = []
    for policy, names in snapshots.items():
        step = max(1.0, (len(names) - 1) / max(1, most - 1))
        places = sorted({round(number * step) for number in range(min(most, len(names)))})
        found += [*(names[place] for place in places), policy]
    return found


def other_players(trainer: Trainer, given: dict[str, str]) -> dict[str, str]:
    """Returns the players beside the run's policies: its anchors in order, the random player, and the given ones.

    The random player is left out if another anchor has its name.

    Raises:
        ConfigError: If a given player has the name of an anchor.
    """
    known = dict(trainer._self_play.anchors)
    if CHANCE not in known.values():
        known.setdefault(CHANCE, CHANCE)
    if twice := [name for name in given if name in known and given[name] != known[name]]:
        raise ConfigError(f"--players {twice[0]}=...: {twice[0]} is {known[twice[0]]} already; give it another name")
    return {**known, **given}


def entrants_of(trainer: Trainer, env: Any, rated: Sequence[str], others: dict[str, str], seed: int) -> list[Entrant]:
    """Returns all players: policies of a run, then functions.

    Raises:
        ConfigError: If a function has the name of a policy, or there is no such function.
    """
    from rookery.core.seeding import Role, Streams
    from rookery.run.opponents.matches import entrant_of_run, scripted_entrant

    if twice := [name for name in others if name in rated]:
        raise ConfigError(f"--players {twice[0]}=...: this is a policy of the run; give the function another name")
    streams = Streams(trainer._streams.integer(Role.MATCH, seed))
    found = [entrant_of_run(trainer, env, name, name) for name in rated]
    return [*found, *(scripted_entrant(env, player, name, streams) for name, player in others.items())]


def print_standings(standings: Sequence[Standing], anchors: Sequence[str], notes: Sequence[str]) -> None:
    """Prints the table, the matrix, and notes."""
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
    """Draws the plot; one that was not requested may fail with a message."""
    from rookery.report.standings import draw_standings

    run = saved.parent.parent
    target = absolute(output or run / "elo.png")
    try:
        draw_standings(standings, run.name, target)
    except ConfigError as error:
        if output is not None:
            raise
        typer.echo(f"no plot: {error}")
    else:
        typer.echo(str(shown(target)))


def show_games(played: int, total: int) -> None:
    """Prints the number of finished games on standard error, over the last line."""
    typer.echo(f"\r{played:,} of {total:,} games", nl=played == total, err=True)


def ignore(played: int, total: int) -> None:
    """Does nothing."""
