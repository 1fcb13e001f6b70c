"""``rookery check-onnx``: shows and checks an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check_onnx(
    file: Annotated[Path, typer.Argument(help="The file, NAME.onnx.", show_default=False)],
) -> None:
    """Show inputs, outputs and operators of an ONNX file, and its problems; exit code 1 if there are any.

    A file for Unity is checked by the rules of Unity's importer, any other by running it.

    rookery check-onnx runs/BallPlate-ppo-s0/main.onnx
    """
    from rookery.onnx.check import inspect_file

    report = inspect_file(file)
    if not report.outputs:
        typer.echo(f"{'file':<20}{file}, {file.stat().st_size:,} bytes")
    else:
        lines = {"file": f"{file}, {file.stat().st_size:,} bytes, {report.purpose}", "opset": str(report.opset)}
        lines |= {key.replace("_", " "): value for key, value in report.metadata.items()}
        for label, text in lines.items():
            typer.echo(f"{label:<20}{text}")
        width = max((len(name) for name, _, _ in (*report.inputs, *report.outputs)), default=0)
        for side, ports in (("inputs", report.inputs), ("outputs", report.outputs)):
            for number, (name, dtype, shape) in enumerate(ports):
                axes = ", ".join(map(str, shape))
                typer.echo(f"{'' if number else side:<20}{name:<{width}}  {dtype:<8} [{axes}]")
        operators = sorted(report.operators.items(), key=lambda pair: (-pair[1], pair[0]))
        typer.echo(f"{'operators':<20}{', '.join(f'{name} {count}' for name, count in operators)}")
    for note in report.notes:
        typer.echo(f"note: {note}")
    for problem in report.problems:
        typer.echo(f"problem: {problem}")
    count = len(report.problems)
    typer.echo(f"{count or 'no'} problem{'' if count == 1 else 's'}")
    if report.problems:
        raise typer.Exit(1)
