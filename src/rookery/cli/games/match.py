"""``rookery match``: games between two players, runs or functions, in one environment."""

from __future__ import annotations

import json
import math
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.games.elo import CHANCE, Games, Likeliest, Seed, ignore, show_games
from rookery.cli.runs import TrustedCode, find_saved
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.report.standings import Standing
    from rookery.run.opponents.matches import Entrant, Game
    from rookery.run.trainer import Trainer

PLAYER = "RUN|random|MODULE:FUNCTION"


def match(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="A run or a checkpoint.", show_default=False)],
    second: Annotated[
        str, typer.Argument(metavar=PLAYER, help="The opponent.", show_default=False),
    ],
    games: Games = 100,
    policy_a: Annotated[
        str | None, typer.Option(help="Policy or snapshot of the first, as in main@3.", show_default="all, as mapped")
    ] = None,
    policy_b: Annotated[
        str | None, typer.Option(help="Policy or snapshot of the second.", show_default="all, as mapped")
    ] = None,
    deterministic: Likeliest = False,
    seed: Seed = 0,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON only.")] = False,
    trust_code: TrustedCode = False,
) -> None:  # fmt: skip
    """Play games between two runs of one environment, or a run and a function; sides alternate.

    rookery match runs/TicTacToe-ppo-s0 runs/TicTacToe-dqn-s0 --games 200
    """
    from rookery.run.opponents.matches import Matches, entrant_of_run, remarks, standings_of
    from rookery.run.trainer import Trainer

    saved = find_saved(first, checkpoint)
    function = second == CHANCE or (":" in second and not Path(second).exists())
    if function and policy_b is not None:
        raise ConfigError(f"--policy-b {policy_b}: {second} is a function, which has no policies")
    other = None if function else find_saved(Path(second), checkpoint)
    with ExitStack() as stack:
        a = stack.enter_context(Trainer.load(saved, trust_code=trust_code, console="quiet"))
        env = stack.enter_context(a._copies(a.config.sampling.num_envs))
        names = names_of(saved, other or second, policy_a, policy_b)
        mine = entrant_of_run(a, env, policy_a, names[0])
        if other is None:
            opponent = function_entrant(a, env, second, names[1], seed)
        else:
            b = stack.enter_context(Trainer.load(other, trust_code=trust_code, console="quiet"))
            check_alike(a, b, saved, other)
            opponent = entrant_of_run(b, env, policy_b, names[1])
        pair = (mine.name, opponent.name)
        matches = Matches(a, env, [mine, opponent], [pair], games, deterministic=deterministic, seed=seed)
        played = matches.play(show_games if sys.stderr.isatty() and not as_json else ignore)
        notes = remarks(played, matches.cut, pair if deterministic and other is not None else ())
    standing = standings_of(played, pair, {opponent.name: 0.0})[0]
    if as_json:
        length = sum(game.length for game in played) / max(1, len(played))
        typer.echo(json.dumps({"a": pair[0], "b": pair[1], "length_mean": length, **asdict(standing)}, indent=1))
        return
    lines = lines_of(standing, pair[1], played)
    width = max(12, *(len(label) + 2 for label in lines))
    for label, text in lines.items():
        typer.echo(f"{label:<{width}}{text}")
    for note in notes:
        typer.echo(note)


def names_of(saved: Path, other: Path | str, policy_a: str | None, policy_b: str | None) -> tuple[str, str]:
    """Returns the names of the two players: run, policy if given, and a number if both are the same."""

    def called(place: Path | str, policy: str | None) -> str:
        run = place if isinstance(place, str) else place.parent.parent.name
        return f"{run}:{policy}" if policy else run

    one, two = called(saved, policy_a), called(other, policy_b)
    return (one, two) if one != two else (f"{one} (1)", f"{two} (2)")


def function_entrant(run: Trainer, env: Any, player: str, name: str, seed: int) -> Entrant:
    """Returns a function as a player."""
    from rookery.core.seeding import Role, Streams
    from rookery.run.opponents.matches import scripted_entrant

    return scripted_entrant(env, player, name, Streams(run._streams.integer(Role.MATCH, seed)))


def check_alike(a: Trainer, b: Trainer, saved: Path, other: Path) -> None:
    """Checks that two runs have the same environment.

    Raises:
        ConfigError: If they do not, or its settings differ; names these.
    """
    from rookery.envs.make import env_name

    one, two = (env_name(run.config.env.name) for run in (a, b))
    if one != two:
        raise ConfigError(
            f"{saved} was trained in {one}, but {other} in {two}: both runs must have the same environment"
        )
    first, second = (dict(run.config.env.config) for run in (a, b))
    differing = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
    if differing:
        text = ", ".join(f"env.config.{key} is {first.get(key)!r} and {second.get(key)!r}" for key in differing)
        raise ConfigError(f"{saved} and {other} were trained in different environments: {text}")


def lines_of(standing: Standing, other: str, played: list[Game]) -> dict[str, str]:
    """Returns the lines of a match result: label and text."""
    from rookery.report.statistics import SURE

    record, score = standing.all, standing.all.score or 0.0
    # No bootstrap: one unit in four more games is added, as equal results of all games do not rule out others.
    varies = (sum((game.score - score) ** 2 for game in played) + 1.0) / (len(played) + 4)
    error = SURE * math.sqrt(varies / (len(played) + 4))
    lines = {
        "match": f"{standing.name} against {other}",
        "games": f"{record.games:,}: {record}",
        "score": f"{100 * score:.1f} % ± {100 * error:.1f} (95 %; a draw counts half)",
    }
    for side, mine in standing.by_side.items():
        lines[f"as {side}"] = f"{mine} ({100 * (mine.score or 0.0):.1f} %)"
    lines["rating"] = f"{standing.rating:+.0f} ± {SURE * standing.error:.0f} Elo points over {other} (95 %)"
    lines["draws"] = f"{100 * record.drawn / max(1, record.games):.1f} %"
    lines["length"] = f"{sum(game.length for game in played) / max(1, len(played)):.1f} env steps"
    return lines
