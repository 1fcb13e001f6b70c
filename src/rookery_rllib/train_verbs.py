"""``rookery rllib train|rollout|evaluate``: RLlib's own commands of 2021, with their flags."""

from __future__ import annotations

import typer

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Context settings of a verb whose arguments another parser reads: Typer cannot parse RLlib's flags (``-vv``)."""


def train(context: typer.Context) -> None:
    """Train with RLlib's flags of 2021, or from a file of tuned examples.

    rookery rllib train --run PPO --env CartPole-v0 --stop '{"training_iteration": 5}'
    """
    from rookery_rllib.script.command_line import train

    train(context.args)


def rollout(context: typer.Context) -> None:
    """Run episodes with a checkpoint, with RLlib's flags of 2021.

    rookery rllib rollout .../checkpoint_000005/checkpoint-5 --run PPO --episodes 10
    """
    from rookery_rllib.script.rollouts import rollout

    rollout(context.args)


def evaluate(context: typer.Context) -> None:
    """Run episodes with a checkpoint: `rollout` under its later name."""
    from rookery_rllib.script.rollouts import evaluate

    evaluate(context.args)


def add_to(app: typer.Typer) -> None:
    """Adds the verbs to a group; ``--help`` of each is that of RLlib's flags."""
    for verb in (train, rollout, evaluate):
        app.command(context_settings=PASSED_ON, add_help_option=False)(verb)
