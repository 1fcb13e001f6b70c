"""``rookery zoo``: pairs of an environment and an algorithm with settings, results and trained policies."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli import completion
from rookery.cli.envs import echo_table
from rookery.cli.zoo.entries import (
    CURVE,
    HEAD,
    SETTINGS,
    WEIGHTS,
    completed_names,
    entry_names,
    evaluate_weights,
    find_entry,
    find_zoo,
    read_entry,
)
from rookery.core.errors import ConfigError

app = typer.Typer(no_args_is_help=True)

Pair = Annotated[
    str,
    typer.Argument(
        metavar="PAIR", help="Name of a pair, as in cartpole-ppo.", show_default=False, autocompletion=completed_names
    ),
]
ZooFolder = Annotated[
    Path | None,
    typer.Option("--zoo", metavar="DIR", help="Folder of the zoo.", show_default="benchmarks/zoo of the source"),
]


@app.callback()
def zoo() -> None:
    """List trained pairs of an environment and an algorithm; train one again, or verify it."""


@app.command("list")
def list_pairs(
    folder: ZooFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON only.")] = False,
) -> None:
    """List the pairs with their scores, environment steps and durations.

    rookery zoo list
    """
    place = find_zoo(folder)
    entries = {name: read_entry(place / name) for name in entry_names(place)}
    if as_json:
        typer.echo(json.dumps({name: entry.as_json() for name, entry in entries.items()}))
        return
    echo_table(HEAD, [entry.cells(name) for name, entry in entries.items()])


@app.command()
def show(pair: Pair, folder: ZooFolder = None) -> None:
    """Show the settings and results of a pair, and its commands.

    rookery zoo show cartpole-ppo
    """
    place = find_entry(find_zoo(folder), pair)
    entry = read_entry(place)
    lines = dict(zip(HEAD[1:-1], entry.cells(pair)[1:-1], strict=True))
    lines["seeds"] = ", ".join(f"{run['seed']}: {run['score']:.2f} in {run['seconds']:.1f} s" for run in entry.runs)
    lines["each seed"] = entry.played
    if entry.published is not None:
        lines["elsewhere"] = "{score:g} after as many steps: {by}, {source}".format_map(entry.published)
    lines["made with"] = ", ".join(f"{name} {value}" for name, value in entry.machine.items())
    lines |= {"settings": str(place / SETTINGS), "curve": str(place / CURVE)}
    where = "" if folder is None else f" --zoo {folder}"
    commands = [f"rookery zoo train {pair} --seed 0{where}"]
    if entry.weights is not None:
        low, high = entry.weights["interval"]
        lines["policies"] = str(place / WEIGHTS)
        lines["stored score"] = f"{entry.weights['score']:.2f}, 95 % interval [{low:.2f}, {high:.2f}] over episodes"
        commands.append(f"rookery zoo verify {pair}{where}")
    for label, text in [*lines.items(), *zip(("commands", ""), commands, strict=False)]:
        typer.echo(f"{label:<15}{text}")
    typer.echo(f"\n{(place / SETTINGS).read_text(encoding='utf-8').rstrip()}")


@app.command()
def train(
    pair: Pair,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH=VALUE",
            help="Settings to change, as in algorithm.lr=3e-4.",
            show_default=False,
            autocompletion=completion.overrides,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the run.", show_default="drawn")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    folder: ZooFolder = None,
) -> None:
    """Train with the settings of a pair into runs/, as rookery train does.

    rookery zoo train cartpole-ppo --seed 3
    """
    from rookery.cli.train import train as train_settings

    place = find_entry(find_zoo(folder), pair)
    words = [str(place / SETTINGS), *(changes or [])]
    train_settings(words, seed=seed, preset="none", evaluate=read_entry(place).episodes, quiet=quiet)


@app.command()
def verify(
    pair: Pair,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON only.")] = False,
    folder: ZooFolder = None,
) -> None:
    """Evaluate the stored policies of a pair; exit 1 if their score lies outside of the stored interval.

    rookery zoo verify cartpole-ppo
    """
    place = find_entry(find_zoo(folder), pair)
    entry = read_entry(place)
    if entry.weights is None:
        raise ConfigError(f"zoo: {pair} has no stored policies; rookery zoo train {pair} trains some")
    low, high = entry.weights["interval"]
    result = evaluate_weights(place, entry.weights["seed"], entry.episodes)
    holds = low <= result.return_mean <= high
    if as_json:
        typer.echo(json.dumps({"pair": pair, "holds": holds, "stored": entry.weights, **asdict(result)}))
    else:
        typer.echo(f"{'score':<10}{result.return_mean:.2f}, {entry.played}")
        typer.echo(f"{'stored':<10}{entry.weights['score']:.2f}, 95 % interval [{low:.2f}, {high:.2f}]")
        typer.echo(f"{'result':<10}{'within' if holds else 'outside of'} the stored interval")
    if not holds:
        raise typer.Exit(1)
