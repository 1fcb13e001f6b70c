"""``rookery learn``: let a run learn from what it has played, without its environment."""

from __future__ import annotations

from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.cli.train import exit_of_interrupts
from rookery.core.settings.starting_folder import shown


def learn(
    run: SavedRun,
    gradient_steps: Annotated[int, typer.Option(help="Gradient steps of each policy that has a replay buffer.")] = 1000,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy. Repeatable.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show the outcome only.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Make gradient steps on the replay buffers of a run; nothing is played, its environment need not be here.

    rookery learn runs/CartPole-v1-dqn-s3 --gradient-steps 10000
    """
    from rookery.run.trainer import Trainer

    console, saved = "quiet" if quiet else "auto", find_saved(run, "last")
    with Trainer.load(saved, resume=True, play=False, trust_code=trust_code, console=console) as trainer:
        assert trainer.run_dir is not None
        folder = shown(trainer.run_dir.path)
        go_on = f"go on with: rookery learn {folder}, or rookery resume {folder}"
        with exit_of_interrupts(lambda kept: f"interrupted; {'what was learned is kept; ' * kept}{go_on}"):
            result = trainer.learn(gradient_steps, policy)
        for name, replay in trainer.replays.items():
            told = f"{replay.gradient_steps:,} gradient steps so far, {len(replay.buffer):,} decisions in replay"
            typer.echo(f"{name:<12}{told}")
    typer.echo(f"{'env steps':<12}{result.env_steps:,}, as before")
    typer.echo(f"{'written':<12}{folder}; go on playing with: rookery resume {folder}")
