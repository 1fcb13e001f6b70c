"""``rookery record``: a film of the policies of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.evaluate import MaxEpisodeSteps, limit_layer, table
from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.settings.starting_folder import absolute, shown


def record(
    run: SavedRun,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to show, one after the other.")] = 3,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File: .webp, .gif, .png or .mp4.", show_default="RUN/videos/CHECKPOINT.webp"
        ),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Write below who plays, and what each has earned.")] = False,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Draw actions; else the likeliest are taken.")
    ] = False,
    fps: Annotated[
        float | None,
        typer.Option(min=1, max=100, help="Pictures a second.", show_default="the environment's render_fps, or 12"),
    ] = None,
    max_frames: Annotated[int, typer.Option(min=1, help="Pictures, at most.")] = 3000,
    max_episode_steps: MaxEpisodeSteps = None,
    checkpoint: Annotated[str, typer.Option(help="Which: last, best or a number.")] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Play episodes with the policies of a run and write them as an animation.

    rookery record runs/MultiAgentArena-ppo-s0 --labels -o arena.webp
    """
    from rookery.report.console import ProgressLineReporter
    from rookery.report.videos import check_suffix
    from rookery.run.trainer import Trainer

    saved = find_saved(run, checkpoint)
    target = absolute(output or saved.parent.parent / "videos" / f"{saved.name}.webp")
    check_suffix(target)
    with Trainer.load(saved, trust_code=trust_code, console="quiet", config=limit_layer(max_episode_steps)) as trainer:
        trainer.reporter = ProgressLineReporter()
        result = trainer.record(
            target,
            episodes=episodes,
            deterministic=not stochastic,
            labels=labels,
            max_frames=max_frames,
            frames_per_second=fps,
            progress=show_progress if sys.stderr.isatty() else None,
        )
    for label, text in table(result).items():
        typer.echo(f"{label:<12}{text}")
    typer.echo(f"{'written':<12}{shown(target)}, {target.stat().st_size / 1000:,.0f} kB")


def show_progress(encoded: int, total: int) -> None:
    """Writes how many pictures of a film have been encoded over what was written before, on standard error."""
    typer.echo(f"\rencoding picture {encoded:,} of {total:,}", nl=encoded == total, err=True)
