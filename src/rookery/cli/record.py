"""``rookery record``: a video of the policies of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.evaluate import MaxEpisodeSteps, evaluation_lines, step_limit
from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.settings.starting_folder import absolute, shown

SECONDS = 30.0
"""Longest duration of a video without an option for it: a longer one is slow to encode and seldom watched."""


def record(
    run: SavedRun,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to record.")] = 3,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File: .webp, .gif, .png or .mp4.", show_default="RUN/videos/CHECKPOINT.webp"
        ),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Show policies and returns below the image.")] = False,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of the most likely ones.")
    ] = False,
    fps: Annotated[
        float | None,
        typer.Option(min=1, max=100, help="Frames per second.", show_default="the environment's render_fps, or 12"),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Longest duration of the video.", show_default="30, without --max-frames"),
    ] = None,
    max_frames: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of frames.", show_default="no limit")
    ] = None,
    max_episode_steps: MaxEpisodeSteps = None,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Write a video of episodes with the policies of a run.

    rookery record runs/MultiAgentArena-ppo-s0 --labels -o arena.webp
    """
    from rookery.report.console import ProgressLineReporter
    from rookery.report.videos import check_suffix
    from rookery.run.trainer import Trainer

    saved = find_saved(run, checkpoint)
    target = absolute(output or saved.parent.parent / "videos" / f"{saved.name}.webp")
    check_suffix(target)
    with Trainer.load(saved, trust_code=trust_code, console="quiet", config=step_limit(max_episode_steps)) as trainer:
        trainer._reporter = ProgressLineReporter()
        result = trainer.record(
            target,
            episodes=episodes,
            deterministic=not stochastic,
            labels=labels,
            max_frames=sys.maxsize if max_frames is None else max_frames,
            seconds=SECONDS if seconds is None and max_frames is None else seconds,
            frames_per_second=fps,
            progress=show_progress if sys.stderr.isatty() else None,
        )
    for label, text in evaluation_lines(result).items():
        typer.echo(f"{label:<12}{text}")
    typer.echo(f"{'written':<12}{shown(target)}, {target.stat().st_size / 1000:,.0f} kB")


def show_progress(encoded: int, total: int) -> None:
    """Prints the number of encoded frames on standard error, over the last line."""
    typer.echo(f"\rencoding frame {encoded:,} of {total:,}", nl=encoded == total, err=True)
