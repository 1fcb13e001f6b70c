"""``rookery init``: writes a project to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    name: Annotated[Path, typer.Argument(help="Folder to make; its name is that of the project.", show_default=False)],
    agents: Annotated[int, typer.Option(min=1, help="Number of agents of the environment.")] = 1,
) -> None:
    """Write a project to start from: an environment, its test, settings and a README.

    rookery init my_game --agents 2
    """
    from rookery.cli.new.project import write_project

    for file in write_project(name, agents):
        typer.echo(f"wrote {file}")
    typer.echo(f"next: cd {name}; rookery train settings.yaml")
