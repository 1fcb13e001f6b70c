"""``rookery resume``: go on with a run that was stopped, killed or has reached its end."""

from __future__ import annotations

from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.cli.train import finish, stop_values


def resume(
    run: SavedRun,
    stop: Annotated[
        list[str] | None, typer.Option(help="METRIC=NUMBER that ends training, instead of what ended it before.")
    ] = None,
    evaluate: Annotated[int, typer.Option(min=0, help="Episodes to evaluate over at the end; 0 = none.")] = 20,
    trust_code: TrustedCode = False,
) -> None:
    """Go on with a run exactly where its last checkpoint was written.

    rookery resume runs/CartPole-v1-ppo-s3 --stop env_steps=200000
    """
    from rookery.training.trainer import Trainer

    criteria = {path.removeprefix("stop."): value for path, value in stop_values(stop or []).items()}
    with Trainer.load(find_saved(run, "last"), resume=True, trust_code=trust_code, console="auto") as trainer:
        finish(trainer, criteria, evaluate)
