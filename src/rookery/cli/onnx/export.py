"""``rookery export``: the policies of a run as ONNX files, for Unity or for anybody, or in a plug-in's format."""

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
    unity: Annotated[bool, typer.Option("--unity", help="For Unity's package com.unity.ml-agents.")] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="For any program that runs ONNX files.")] = False,
    other: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="In a format that an installed package adds.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Which policy.", metavar="NAME", show_default="all, a file each")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write.", show_default="RUN/NAME.onnx, with --onnx RUN/NAME.generic.onnx"),
    ] = None,
    opset: Annotated[
        int | None, typer.Option(help="Version of ONNX operators, 9 to 15.", show_default="9, with --onnx 15")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Version of ML-Agents' models, 2 (packages 1.x) or 3.", show_default="3")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Which: last, best or a number.")] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Write the policies of a run as ONNX files, each compared with its policy on observations of the run.

    rookery export runs/BallPlate-ppo-s0 --unity
    """
    if unity + onnx + (other is not None) != 1:
        raise ConfigError("rookery export: say what for: --unity, or --onnx for any other program")
    kind = other or ("unity" if unity else "onnx")
    if kind not in EXPORTERS:
        raise ConfigError(f"--format {kind}: there are {', '.join(EXPORTERS)}{nearest(kind, list(EXPORTERS))}")
    if version is not None and onnx:
        raise ConfigError("--version is of models for Unity: leave it out, or say --unity")
    saved = find_saved(run, checkpoint)
    from rookery.onnx.graph import require_onnx
    from rookery.policies.export import policy_names, read_policy

    exporter: Exporter = EXPORTERS.load(kind)
    options = given(opset=opset, version=version)
    for option in options.keys() - {*exporter.options}:
        raise ConfigError(f"--{option}: files of the format {kind} have none; leave it out")
    if exporter.rules is not None:
        require_onnx()
    names = policy_names(saved)
    if policy is not None and policy not in names:
        raise ConfigError(f"--policy {policy}: there are {', '.join(names)} in {saved}{nearest(policy, names)}")
    chosen = [policy] if policy is not None else names
    if out is not None and len(chosen) > 1:
        raise ConfigError(f"--out {out}: is one file, and there are {', '.join(chosen)}: add --policy {chosen[0]}")
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {out}: is a folder; say which file in it, as in {out / chosen[0]}.onnx")
    policies = {name: read_policy(saved, name, trust_code) for name in chosen}
    observed, missing = observations(saved, trust_code)
    folder = saved.parent.parent if saved.parent.name == FOLDER else saved
    for name, each in policies.items():
        file = out or folder / f"{name}{exporter.suffix}"
        result = exporter.write(each, file, observations=observed.get(name), **options)
        typer.echo(f"{file}: policy {name}" if result is None else told(name, result))
    if missing:
        typer.echo(f"The run's own observations could not be had, so random ones were compared: {missing}", err=True)


def given(**options: int | None) -> dict[str, int]:
    """Gives the options that were said."""
    return {name: value for name, value in options.items() if value is not None}


def observations(saved: Path, trust_code: bool) -> tuple[dict[str, Tree], str]:
    """Gives what policies of a checkpoint observe, or nothing, and why."""
    from rookery.onnx.written import ROWS
    from rookery.run.evaluate.observed import played_observations

    try:
        return played_observations(saved, ROWS, trust_code), ""
    except RookeryError as error:
        return {}, str(error).splitlines()[0]


def told(name: str, written: Written) -> str:
    """Gives a line about a file."""
    kind = "observations of the run" if written.given else "random observations"
    return (
        f"{written.path}: policy {name}, opset {written.opset}, {written.path.stat().st_size:,} bytes; "
        f"equals the policy to {written.difference:.0e} on {written.rows} {kind}"
    )
