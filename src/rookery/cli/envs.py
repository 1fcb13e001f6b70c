"""``rookery envs``: lists the environments that are installed; checks, creates and builds your own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import override_layer

if TYPE_CHECKING:
    from rookery.envs.adapters.probe import EnvFinding
    from rookery.run.settings import EnvConfig

app = typer.Typer(invoke_without_command=True)

COLORS = {"error": "red", "warning": "yellow", "note": "bright_black"}


@app.callback()
def envs(context: typer.Context) -> None:
    """List the environments that are installed; check, create or compile your own."""
    if context.invoked_subcommand is None:
        list_envs("")


@app.command("list")
def list_envs(
    text: Annotated[
        str, typer.Argument(help="Part of a name or suite; all of them are listed.", show_default=False)
    ] = "",
) -> None:
    """List the environments that are installed, by suite, with agents, spaces and presets; and missing packages.

    Any other Gymnasium id works too, and so does your own environment, as my.module:MyEnv.

    rookery envs list MiniGrid
    """
    from rookery.cli.environments.listing import lines
    from rookery.core.plugins import ENV_SCHEMES
    from rookery.envs.catalog import OTHER_SUITES, missing_families
    from rookery.run.presets import NAMED_PRESETS

    for line in lines(text):
        typer.echo(line)
    if text:
        return
    typer.echo()
    echo_table(("preset by name", "for any environment, as in --preset rainbow"), list(sizes_of(NAMED_PRESETS).items()))
    if ENV_SCHEMES.added:
        typer.echo()
        plugged = [(f"{name}:...", plugin.package) for name, plugin in ENV_SCHEMES.added.items()]
        echo_table(("of a plug-in", "package"), plugged)
    if missing := missing_families():
        typer.echo()
        more = [(", ".join(one.names), f"pip install '{one.install}'", one.about) for one in missing]
        echo_table(("not installed", "install with", ""), more)
    typer.echo()
    others = [(suite.title, f"pip install '{suite.install}'", suite.example) for suite in OTHER_SUITES]
    echo_table(("other suites", "install with", "named, for example"), others)


def sizes_of(presets: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Returns training length and number of environments of each preset, by algorithm.

    Args:
        presets: Settings by algorithm and name.
    """
    sizes: dict[str, list[str]] = {}
    for algorithm, by_name in presets.items():
        for name, values in by_name.items():
            count = values["sampling.num_envs"]
            size = f"{values['stop.env_steps']:,} steps in {count} env{'' if count == 1 else 's'}"
            sizes.setdefault(name, []).append(f"{algorithm}: {size}")
    return {name: "; ".join(texts) for name, texts in sizes.items()}


def echo_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Prints rows of texts below their heads, in columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        typer.echo("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Path of the environment, without a suffix.", show_default=False)],
    in_c: Annotated[bool, typer.Option("--c", help="Write it in C.")] = False,
    agents: Annotated[int, typer.Option(min=1, help="Number of agents; in C, one.")] = 1,
) -> None:
    """Write a small working environment and its test, as a start for your own.

    rookery envs new my_env --agents 2

    rookery envs new --c my_env
    """
    from rookery.envs.native.template_files import write_template
    from rookery.envs.templates import class_name, write_environment

    if in_c and agents > 1:
        raise ConfigError("command line: --c and --agents exclude each other: the template in C has one agent")
    source, test = write_template(Path(name)) if in_c else write_environment(Path(name), agents)
    made = str(source) if in_c else f"{source.stem}:{class_name(source.stem)}"
    lines = [
        f"wrote {source} and {test}",
        f"check it:  rookery envs check {made}",
        f"test it:   python -m pytest {test}",
        f"train:     rookery train {made}",
    ]
    for line in [*lines, *[f"ship it:   rookery envs build {source}"] * in_c]:
        typer.echo(line)


@app.command()
def build(
    source: Annotated[Path, typer.Argument(help="An environment in C.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The library; default: beside the source.", show_default=False)
    ] = None,
) -> None:
    """Compile an environment in C to a library, which runs without a compiler.

    rookery envs build my_env.c
    """
    from rookery.envs.native import compiler
    from rookery.envs.native.library import CLibrary

    target = output or source.with_suffix(".so")
    typer.echo(shlex.join(compiler.build(source, target)))
    CLibrary(target, target)
    typer.echo(f"wrote {target}")


@app.command()
def check(
    env: Annotated[str, typer.Argument(help="A Gymnasium id, my.module:MyEnv or my_env.c.", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH=VALUE", help="Settings below env, as in config.size=8.", show_default=False),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Random episodes to play.")] = 5,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps after which an episode counts as endless.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of environment and actions.")] = 0,
) -> None:
    """Check an environment with random actions, and report all errors at once.

    rookery envs check my.module:MyEnv config.size=8
    """
    from rookery.envs.check import check_env

    cfg = env_settings(settings or ())
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


def env_settings(settings: Sequence[str]) -> EnvConfig:
    """Returns the settings of an environment that is the first argument.

    Args:
        settings: Settings below ``env`` as ``path=value``.

    Raises:
        ConfigError: If one is wrong, or names another environment.
    """
    from rookery.core.config import resolve
    from rookery.run.settings import EnvConfig

    layer = override_layer(text.removeprefix("env.") for text in settings)
    if "name" in layer.values:
        raise ConfigError("command line: name: the environment is the first argument")
    return resolve(EnvConfig, [layer]).config


def report(findings: list[EnvFinding]) -> list[str]:
    """Returns findings as lines, with their number at the end."""
    lines = []
    for finding in findings:
        again = f" (and {finding.count - 1:,} more like it)" if finding.count > 1 else ""
        where = f"{finding.where}: " if finding.where else ""
        label = typer.style(f"{finding.severity:<8}", fg=COLORS[finding.severity], bold=finding.severity == "error")
        lines.append(f"  {label} {where}{finding.text}{again}")
    counts = {kind: sum(finding.severity == kind for finding in findings) for kind in ("error", "warning")}
    words = ", ".join(f"{count or 'no'} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())
    return [*lines, words]
