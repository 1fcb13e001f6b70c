"""``rookery export``: writes the policies of a run as ONNX files, for Unity or any program, or in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError, RookeryError, nearest
from rookery.core.io.files import FOLDER
from rookery.core.plugins import EXPORTERS

if TYPE_CHECKING:
    from rookery.core.spaces.arrays import Tree
    from rookery.onnx.exporter import Exporter
    from rookery.onnx.written import Written


def export(
    run: SavedRun,
    unity: Annotated[bool, typer.Option("--unity", help="Format of Unity's package com.unity.ml-agents.")] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Generic ONNX, for any program.")] = False,
    other: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Format of an installed plug-in.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy to export.", metavar="NAME", show_default="all, a file each")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write.",
            show_default="RUN/NAME.onnx, with --onnx RUN/NAME.generic.onnx",
        ),
    ] = None,
    opset: Annotated[
        int | None, typer.Option(help="Version of ONNX operators, 9 to 15.", show_default="9, with --onnx 15")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Version of ML-Agents' models, 2 (packages 1.x) or 3.", show_default="3")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Write the policies of a run as ONNX files, and compare each file with its policy.

    rookery export runs/BallPlate-ppo-s0 --unity
    """
    if unity + onnx + (other is not None) != 1:
        raise ConfigError("rookery export: choose the format: --unity, or --onnx for any other program")
    kind = other or ("unity" if unity else "onnx")
    if kind not in EXPORTERS:
        raise ConfigError(f"--format {kind}: there are {', '.join(EXPORTERS)}{nearest(kind, list(EXPORTERS))}")
    if version is not None and onnx:
        raise ConfigError("--version is an option of --unity: leave it out, or add --unity")
    saved = find_saved(run, checkpoint)
    from rookery.onnx.graph import require_onnx
    from rookery.policies.export import policy_names, read_policy

    exporter: Exporter = EXPORTERS.load(kind)
    options = given_options(opset=opset, version=version)
    for option in options.keys() - {*exporter.options}:
        raise ConfigError(f"--{option}: the format {kind} does not have this option; leave it out")
    if exporter.rules is not None:
        require_onnx()
    names = policy_names(saved)
    if policy is not None and policy not in names:
        raise ConfigError(f"--policy {policy}: there are {', '.join(names)} in {saved}{nearest(policy, names)}")
    chosen = [policy] if policy is not None else names
    if output is not None and len(chosen) > 1:
        raise ConfigError(
            f"--output {output}: one file cannot hold several policies ({', '.join(chosen)}): add --policy {chosen[0]}"
        )
    if output is not None and output.is_dir():
        raise ConfigError(f"--output {output}: this is a folder; name a file in it, as in {output / chosen[0]}.onnx")
    policies = {name: read_policy(saved, name, trust_code) for name in chosen}
    observed, missing = observations(saved, trust_code)
    folder = saved.parent.parent if saved.parent.name == FOLDER else saved
    for name, each in policies.items():
        file = output or folder / f"{name}{exporter.suffix}"
        result = exporter.write(each, file, observations=observed.get(name), **options)
        typer.echo(f"{file}: policy {name}" if result is None else file_line(name, result))
    if missing:
        typer.echo(f"observations of the run are not available, so random ones were compared: {missing}", err=True)


def given_options(**options: int | None) -> dict[str, int]:
    """Returns the given options."""
    return {name: value for name, value in options.items() if value is not None}


def observations(saved: Path, trust_code: bool) -> tuple[dict[str, Tree], str]:
    """Returns observations of the policies of a checkpoint, or nothing and the reason."""
    from rookery.onnx.written import ROWS
    from rookery.run.evaluate.observed import played_observations

    try:
        return played_observations(saved, ROWS, trust_code), ""
    except RookeryError as error:
        return {}, str(error).splitlines()[0]


def file_line(name: str, written: Written) -> str:
    """Returns the output line for a file."""
    kind = "observations of the run" if written.given else "random observations"
    return (
        f"{written.path}: policy {name}, opset {written.opset}, {written.path.stat().st_size:,} bytes; "
        f"equals the policy to {written.difference:.0e} on {written.rows} {kind}"
    )
