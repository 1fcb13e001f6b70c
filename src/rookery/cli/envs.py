"""``rookery envs``: environments that Rookery knows settings or a batched twin of, and the check of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rookery.core.errors import ConfigError
from rookery.core.layers import override_layer

if TYPE_CHECKING:
    from rookery.envs.probe import Finding

app = typer.Typer(invoke_without_command=True)

COLORS = {"error": "red", "warning": "yellow", "note": "bright_black"}


@app.callback()
def envs(context: typer.Context) -> None:
    """Environments: those Rookery knows settings for, and a check of your own."""
    if context.invoked_subcommand is None:
        list_envs()


@app.command("list")
def list_envs() -> None:
    """List environments with a preset or a fast batched twin.

    Any other Gymnasium id works too, and so does your own environment, as my.module:MyEnv.
    """
    from rookery.core.layers import import_object
    from rookery.envs.classic import TWINS
    from rookery.envs.make import OURS
    from rookery.training.presets import ENV_PRESETS

    twins = {*TWINS, *(name for name, path in OURS.items() if getattr(import_object(path), "batched", None))}
    presets: dict[str, list[str]] = {}
    for algorithm, by_env in ENV_PRESETS.items():
        for name, values in by_env.items():
            size = f"{values['stop.env_steps']:,} steps in {values['sampling.num_envs']} copies"
            presets.setdefault(name, []).append(f"{algorithm}: {size}")
    names = [*presets, *sorted({*twins, *OURS} - presets.keys())]
    width = max(len(name) for name in names)
    typer.echo(f"{'environment':<{width}}  {'implementation':<14}  preset")
    for name in names:
        preset = "; ".join(presets.get(name, ["none"]))
        typer.echo(f"{name:<{width}}  {'batched' if name in twins else 'serial':<14}  {preset}")


@app.command()
def check(
    env: Annotated[str, typer.Argument(help="A Gymnasium id, or my.module:MyEnv.", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH=VALUE", help="Settings below env, as in config.size=8.", show_default=False),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes to play.")] = 5,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps after which an episode counts as endless.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Names the seeds and the actions.")] = 0,
) -> None:
    """Play an environment at random and say every breach of its contract at once.

    rookery envs check my.module:MyEnv config.size=8
    """
    from rookery.core.config import resolve
    from rookery.envs.check import check_env
    from rookery.training.settings import EnvConfig

    layer = override_layer(text.removeprefix("env.") for text in settings or ())
    if "name" in layer.values:
        raise ConfigError("command line: name: the environment is the first argument")
    cfg = resolve(EnvConfig, [layer]).config
    findings = check_env(
        env,
        cfg.config,
        cfg.wrappers,
        episodes=episodes,
        max_steps=max_steps,
        seed=seed,
        max_entities=cfg.max_entities,
    )
    typer.echo(env)
    for line in report(findings):
        typer.echo(line)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


def report(findings: list[Finding]) -> list[str]:
    """Findings as lines, and their number at the end."""
    lines = []
    for finding in findings:
        again = f" (and {finding.count - 1:,} more like it)" if finding.count > 1 else ""
        where = f"{finding.where}: " if finding.where else ""
        label = typer.style(f"{finding.severity:<8}", fg=COLORS[finding.severity], bold=finding.severity == "error")
        lines.append(f"  {label} {where}{finding.text}{again}")
    counts = {kind: sum(finding.severity == kind for finding in findings) for kind in ("error", "warning")}
    words = ", ".join(f"{count or 'no'} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())
    return [*lines, words]
