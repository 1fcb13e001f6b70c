"""``rookery config``: what a configuration file may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def config() -> None:
    """What a configuration file may say."""


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; standard output if none.")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Of files for rookery tune: any value may be a domain.")] = False,
) -> None:
    """Write the JSON Schema of configuration files, by which editors complete and check them.

    rookery config schema -o rookery.schema.json
    """
    from rookery.core.errors import ConfigError
    from rookery.run.describe.schema import config_schema
    from rookery.tune.schema import experiment_schema

    text = json.dumps(experiment_schema() if tune else config_schema(), indent=1)
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"-o {output}: cannot be written: {error.strerror}") from None
    typer.echo(f"written: {output}; the first line of a file may name it: # yaml-language-server: $schema={output}")
