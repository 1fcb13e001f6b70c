"""``rookery replay``: shows, merges, exports, records and imports replay buffers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.replay.replay_import import import_files
from rookery.cli.replay.replay_places import check_free, sources, write
from rookery.cli.replay.replay_record import record
from rookery.cli.replay.replay_report import report
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.replay.segments import StoredReplay
    from rookery.replay.summary import Summary

app = typer.Typer(no_args_is_help=True)

SOURCE = "RUN|CHECKPOINT|DIR[:POLICY]"

app.command()(record)
app.command("import")(import_files)


@app.callback()
def replay() -> None:
    """Show, merge, export, record and import replay buffers."""


@app.command()
def show(
    source: Annotated[str, typer.Argument(metavar=SOURCE, help="The replay buffer.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Plot returns and rewards to a file: .png, .svg, .pdf.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Describe a replay buffer: decisions, episodes, returns, rewards, age.

    rookery replay show runs/CartPole-v1-dqn-s3 -o replay.png
    """
    from rookery.replay.summary import summarize

    found = sources([source])
    if output is not None and len(found) > 1:
        raise ConfigError(f"--output: {source} has several replay buffers; name one, as in {found[0]}")
    for stored in found:
        summary = summarize(stored)
        report(stored, summary)
        if output is not None:
            draw(stored, summary, output)
            typer.echo(f"{output}: {stored}")


@app.command()
def merge(
    source: Annotated[
        list[str], typer.Argument(metavar=f"{SOURCE}...", help="The replay buffers.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing directory.")] = False,
) -> None:
    """Merge several replay buffers with the same spaces into one directory.

    rookery replay merge runs/a runs/b:hunter -o replays/both
    """
    from rookery.replay.transfer import merged

    found = sources(source)
    check_free(output, force)
    with typer.progressbar(length=sum(map(len, found)), label="rows", file=sys.stderr) as bar:
        write(output, *merged(found, found[0].policy, bar.update))
    typer.echo(f"{output}: {sum(map(len, found)):,} decisions of {len(found)} replay buffers")


@app.command()
def export(
    source: Annotated[str, typer.Argument(metavar=SOURCE, help="The replay buffer.", show_default=False)],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="Directory; or a .npz, .csv, .parquet, .json (RLlib) or .demo (Unity) file, or minari:ID.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Behavior name in a .demo file; default: the policy's.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file or directory.")] = False,
) -> None:
    """Export a replay buffer as a directory that any run can start from, or as a file for other programs.

    rookery replay export runs/CartPole-v1-dqn-s3 -o replays/pole
    """
    from rookery.core.io.files import make_folder
    from rookery.replay.formats.names import MINARI, export_stored, format_by_suffix, format_of
    from rookery.replay.transfer import columns, linked

    found = sources([source])
    path = Path(output)
    if format_by_suffix(path.suffix) is None and not output.startswith(MINARI):
        check_free(path, force)
        write(path, *linked(found))
    elif len(found) > 1:
        raise ConfigError(f"{source} has several replay buffers, but {output} takes one; name one, as in {found[0]}")
    elif path.exists() and not (force and path.is_file()):
        raise ConfigError(f"--output {output}: the file exists; add --force to replace it, or give another name")
    else:
        make_folder(path.parent)
        with typer.progressbar(length=len(found[0]) * len(columns(found[0])), label="numbers", file=sys.stderr) as bar:
            export_stored(found[0], output, format_of(output, None), name=name, advance=bar.update)
    typer.echo(f"{output}: {sum(map(len, found)):,} decisions of {', '.join(map(str, found))}")


def draw(stored: StoredReplay, summary: Summary, target: Path) -> None:
    """Plots the return of every episode over the decisions, and a histogram of rewards.

    Raises:
        ConfigError: If matplotlib is not installed, or the file cannot be written.
    """
    from rookery.report.curves import label_x, new_figure, save_figure, style_axes

    figure = new_figure(9, 4, "--output")
    returns, rewards = figure.subplots(1, 2, width_ratios=(2, 1))
    episodes = summary.episodes
    order = sorted(range(len(episodes.ended)), key=episodes.ended.__getitem__)
    x, y = [episodes.ended[i] for i in order], [episodes.returns[i] for i in order]
    returns.plot(x, y, ".", color="#0072b2", markersize=3, alpha=0.4)
    window = max(len(y) // 50, 1)
    means = [sum(y[max(i - window, 0) : i + 1]) / len(y[max(i - window, 0) : i + 1]) for i in range(len(y))]
    returns.plot(x, means, color="#d55e00", linewidth=1.8)
    returns.set_title("returns", loc="left", fontsize=12, fontweight="bold")
    label_x(returns, "decisions, oldest first")
    rewards.hist(summary.rewards, bins=40, color="#0072b2", log=True)
    rewards.set_title("rewards", loc="left", fontsize=12, fontweight="bold")
    rewards.set_ylabel("decisions", color="#444444")
    style_axes(returns)
    style_axes(rewards)
    figure.suptitle(f"{len(stored):,} decisions of {stored}", x=0.01, ha="left", fontsize=10, color="#444444")
    save_figure(figure, target, "--output")
