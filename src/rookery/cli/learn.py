"""``rookery learn``: trains a run on its replay buffers, without its environment."""

from __future__ import annotations

from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.cli.train import exit_on_interrupt
from rookery.core.settings.starting_folder import shown


def learn(
    run: SavedRun,
    gradient_steps: Annotated[int, typer.Option(help="Gradient steps of each policy with a replay buffer.")] = 1000,
    policy: Annotated[list[str] | None, typer.Option(help="Train only this policy. Repeatable.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Train on the replay buffers of a run; its environment is not used and need not be installed.

    rookery learn runs/CartPole-v1-dqn-s3 --gradient-steps 10000
    """
    from rookery.run.trainer import Trainer

    console, saved = "quiet" if quiet else "auto", find_saved(run, "last")
    with Trainer.load(saved, resume=True, play=False, trust_code=trust_code, console=console) as trainer:
        assert trainer.run_dir is not None
        folder = shown(trainer.run_dir.path)
        hint = f"continue with: rookery learn {folder}, or rookery resume {folder}"
        with exit_on_interrupt(lambda kept: f"interrupted; {'the progress is saved; ' * kept}{hint}"):
            result = trainer.learn(gradient_steps, policy)
        for name, replay in trainer.replays.items():
            text = f"{replay.gradient_steps:,} gradient steps so far, {len(replay.buffer):,} decisions in replay"
            typer.echo(f"{name:<12}{text}")
    typer.echo(f"{'env steps':<12}{result.env_steps:,}, as before")
    typer.echo(f"{'written':<12}{folder}; continue training with: rookery resume {folder}")
