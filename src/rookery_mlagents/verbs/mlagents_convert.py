"""``rookery mlagents convert``: old files of ML-Agents as one file of today."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def convert(
    old: Annotated[Path, typer.Argument(metavar="OLD.yaml", help="A trainer configuration.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NEW.yaml] [-- OLD FLAGS]",
            help="File to write, as -o; after --, flags of the old command.",
            show_default=False,
        ),
    ] = None,
    curriculum: Annotated[
        Path | None, typer.Option("--curriculum", help="Its curriculum file, or the directory of them.")
    ] = None,
    sampler: Annotated[Path | None, typer.Option("--sampler", help="Its sampler file.")] = None,
    lesson: Annotated[int | None, typer.Option("--lesson", help="The lesson to begin with, counted from 0.")] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", help="0.13, 0.14, 0.15 or 0.16; found out or assumed, and said. 0.17 needs none."),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agents", help="Agents in a scene, 12 or Behaviour=12: 0.13 did not count them in steps."),
    ] = None,
    demo: Annotated[str | None, typer.Option("--demo", help="A .demo file, for behaviours of online_bc.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; standard output if none.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write files of ML-Agents 0.13 to 0.18 as one of today, and say what changed.

    rookery mlagents convert trainer_config.yaml --curriculum wall_jump.yaml -o wall_jump.new.yaml
    """
    from rookery.face import ConfigError, write_file
    from rookery_mlagents.old.convert import converted_files, first_line, text_of

    flags = list(words or [])
    if flags and output is None and not flags[0].startswith("-"):
        output = Path(flags.pop(0))
    if output is not None and output.exists() and not force:
        raise ConfigError(f"-o {output}: there is such a file already; --force writes over it, another name keeps both")
    found, rest = converted_files(
        old, curriculum, sampler, lesson=lesson, version=version, agents=agents or [], demo=demo, words=flags
    )
    text = text_of(found.current, first_line(found, old))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_file(output, text.encode())
        typer.echo(f"written: {output}")
    for line in found.changes:
        typer.echo(f"- {line}", err=output is None)
    command = shlex.join(["rookery", "mlagents", "learn", str(output or "NEW.yaml"), *rest])
    typer.echo(f"then: {command}", err=output is None)
