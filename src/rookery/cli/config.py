"""``rookery config``: JSON Schema of configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def config() -> None:
    """Describe configuration files."""


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; default: standard output.")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Schema of files for rookery tune, with domains.")] = False,
) -> None:
    """Write the JSON Schema of configuration files, for completion and checks in editors.

    rookery config schema -o rookery.schema.json
    """
    from rookery.core.errors import ConfigError
    from rookery.run.describe.schema import config_schema
    from rookery.run.describe.schema_definitions import schema_text
    from rookery.tune.schema import experiment_schema

    text = schema_text(experiment_schema() if tune else config_schema())
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"-o {output}: the file cannot be written: {error.strerror}") from None
    typer.echo(f"written: {output}; name it in the first line of a file: # yaml-language-server: $schema={output}")
