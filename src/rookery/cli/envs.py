"""``rookery envs``: environments that Rookery knows settings or a batched twin of. Any other can be trained too."""

from __future__ import annotations

import typer


def envs() -> None:
    """List environments with a preset or a fast batched twin.

    Any other Gymnasium id works too, and so does your own environment, as my.module:MyEnv.
    """
    from rookery.core.settings import object_name
    from rookery.envs.arena import MultiAgentArena
    from rookery.envs.classic import TWINS
    from rookery.training.presets import ENV_PRESETS

    twins = {*TWINS, object_name(MultiAgentArena)}
    names = [*ENV_PRESETS, *sorted(twins - ENV_PRESETS.keys())]
    width = max(len(name) for name in names)
    typer.echo(f"{'environment':<{width}}  {'implementation':<14}  preset")
    for name in names:
        values = ENV_PRESETS.get(name)
        preset = (
            "none" if values is None else f"{values['stop.env_steps']:,} steps in {values['sampling.num_envs']} copies"
        )
        typer.echo(f"{name:<{width}}  {'batched' if name in twins else 'serial':<14}  {preset}")
