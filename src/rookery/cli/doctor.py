"""``rookery doctor``: why a run does not learn, what is wrong with an environment, what this machine has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.envs import env_settings
from rookery.cli.runs import ROOT, TrustedCode, find_run, run_names
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.doctor.examine_run import Diagnosis
    from rookery.report.finding import Finding

SECONDS_OF_RUN, SECONDS_OF_ENV = 60.0, 10.0
"""Longest time of play by default."""


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|ENV]",
            help="Directory of a run or an experiment, its name in runs/, a checkpoint, or an environment; without it, "
            "the machine is described.",
            show_default=False,
            autocompletion=run_names,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH=VALUE", help="Settings below env, for an environment.", show_default=False),
    ] = None,
    is_env: Annotated[bool, typer.Option("--env", help="Take the name for an environment.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0, help="Longest time of play; 0 plays nothing; default: 60, for an environment 10.", show_default=False
        ),
    ] = None,
    play: Annotated[bool, typer.Option("--play", help="Step players, external clients and robots, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Find out why a run does not learn, or if an environment has faults; without either, describe the machine.

    rookery doctor runs/CartPole-v1-ppo-s3

    rookery doctor my.module:MyEnv
    """
    if target is None:
        describe_machine(as_json)
        return
    place = None if is_env else run_at(Path(target))
    if place is None:
        examine_environment(target, settings or (), SECONDS_OF_ENV if seconds is None else seconds, play, as_json)
        return
    if settings:
        raise ConfigError(f"command line: {settings[0]}: settings are for an environment, and {place} is a run (--env)")
    from rookery.doctor.examine_run import examine
    from rookery.doctor.text import diagnosis_lines

    limit = SECONDS_OF_RUN if seconds is None else seconds
    found = examine(place, time_limit=limit, play=play, trust_code=trust_code)
    if as_json:
        typer.echo(json.dumps([diagnosis_object(one) for one in found], indent=1))
    else:
        typer.echo("\n\n".join("\n".join(diagnosis_lines(one)) for one in found))
    leave([finding for one in found for finding in one.findings])


def run_at(target: Path) -> Path | None:
    """Returns the directory of a run or an experiment, or a checkpoint; None if the target is none of these."""
    from rookery.doctor.stored_run import is_run

    for place in (target, ROOT / target):
        if is_run(place):
            return place
    try:
        return find_run(target)  # a trial of an experiment
    except ConfigError:
        if target.is_dir():
            raise
        return None


def diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """Returns a diagnosis for JSON."""
    return {
        "run": str(diagnosis.run.folder),
        "findings": [asdict(one) for one in diagnosis.findings],
        "facts": diagnosis.facts,
        "notes": diagnosis.notes,
    }


def examine_environment(env: str, settings: Sequence[str], seconds: float, play: bool, as_json: bool) -> None:
    """Prints the findings of an environment, and measurements."""
    from rookery.doctor.examine_env import examine_env
    from rookery.doctor.text import examination_lines

    cfg = env_settings(settings)
    found = examine_env(env, cfg.config, cfg.wrappers, seconds=seconds, play=play, max_entities=cfg.max_entities)
    typer.echo(json.dumps(asdict(found), indent=1) if as_json else "\n".join(examination_lines(found)))
    leave(found.findings)


def describe_machine(as_json: bool) -> None:
    """Prints facts about the machine."""
    from rookery.doctor.machine import machine_report

    report = machine_report()
    typer.echo(report.to_json() if as_json else "\n".join(report.lines()))


def leave(findings: Sequence[Finding]) -> None:
    """Ends with exit code 1 if a finding is an error."""
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(1)
