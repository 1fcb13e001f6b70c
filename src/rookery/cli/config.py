"""``rookery config``: the settings there are, and the JSON Schema of configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rookery.cli import completion
from rookery.cli.explain import with_drawn_seed
from rookery.cli.runs import find_run, read_provenance, run_names
from rookery.core.errors import ConfigError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def config() -> None:
    """Show the settings there are; write the JSON Schema of settings files."""


@app.command()
def show(
    path: Annotated[
        str | None,
        typer.Argument(
            help="A setting, a section such as algorithm.model, or a part of a name.",
            show_default=False,
            autocompletion=completion.paths,
        ),
    ] = None,
    algo: Annotated[
        str | None,
        typer.Option(help="Settings of this algorithm.", show_default=False, autocompletion=completion.algorithms),
    ] = None,
    changed: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Settings of a run that differ from their defaults, with their sources.",
            show_default=False,
            autocompletion=run_names,
        ),
    ] = None,
) -> None:
    """Show the settings there are: path, default, possible values and help.

    rookery config show algorithm.model --algo sac

    rookery config show --changed runs/CartPole-v1-ppo-s3
    """
    from rookery.cli.settings import show

    lines = show.describe(path, algo)
    if changed is not None:
        if algo is not None:
            raise ConfigError("command line: --changed and --algo exclude each other")
        run = find_run(changed)
        lines = show.changed(with_drawn_seed(run, read_provenance(run)), path)
    for line in lines:
        typer.echo(line)


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
