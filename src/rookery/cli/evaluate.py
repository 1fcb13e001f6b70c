"""``rookery evaluate``: measures the return of the policies of a run, or of one of its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.offline_evaluation import (
    Methods,
    MoreSettings,
    Output,
    PolicyName,
    ReplayData,
    check_options,
    evaluate_saved,
)
from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.settings.layers import Layer, override_layer

if TYPE_CHECKING:
    from rookery.report.results import EvaluationResult

MaxEpisodeSteps = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Env steps after which an episode counts as truncated; default: evaluation.max_episode_steps.",
        show_default=False,
    ),
]
"""Option of verbs that play whole episodes."""


def evaluate(
    run: SavedRun,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH=VALUE",
            help="Settings to change, as in algorithm.target_return=400.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes to play; default: evaluation.episodes of the run.")
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of the most likely ones.")
    ] = False,
    max_episode_steps: MaxEpisodeSteps = None,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint: last, best or a number.")] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON only.")] = False,
    env: Annotated[
        str | None,
        typer.Option(help="Environment, for a run that has learned from data.", show_default=False),
    ] = None,
    trust_code: TrustedCode = False,
    replay: ReplayData = None,
    policy: PolicyName = None,
    method: Methods = None,
    more: MoreSettings = None,
    output: Output = None,
) -> None:
    """Play episodes with the policies of a run and print their return; the run does not change. With --replay, estimate
    the return of a policy from data, without an environment.

    rookery evaluate runs/CartPole-v1-ppo-s3 --episodes 100 --checkpoint best

    rookery evaluate runs/data-iql-s3 --replay DATA --stochastic
    """
    playing = {"--episodes": episodes, "--max-episode-steps": max_episode_steps, "--env": env}
    playing |= {word: word for word in changes or []}
    judging = {"--policy": policy, "--method": method or None, "--set": more or None, "--output": output}
    check_options(replay, playing, judging)
    if replay is not None:
        evaluate_saved(
            run,
            checkpoint,
            replay,
            policy=policy,
            methods=method,
            given=more,
            stochastic=stochastic,
            output=output,
            as_json=as_json,
            trust_code=trust_code,
        )
        return
    from rookery.report.console import ProgressLineReporter
    from rookery.run.trainer import Trainer

    saved = find_saved(run, checkpoint)
    layers = [override_layer(changes or []), Layer("command line", step_limit(max_episode_steps))]
    with Trainer.load(saved, env=env, trust_code=trust_code, console="quiet", config=layers) as trainer:
        trainer._reporter = ProgressLineReporter()
        result = trainer.evaluate(episodes, deterministic=not stochastic)
    if as_json:
        typer.echo(json.dumps({"checkpoint": str(saved), **asdict(result)}))
        return
    for label, text in evaluation_lines(result).items():
        typer.echo(f"{label:<12}{text}")
    typer.echo(f"{'checkpoint':<12}{saved}, after {result.env_steps:,} env steps")


def step_limit(max_episode_steps: int | None) -> Mapping[str, int]:
    """Returns the setting of ``--max-episode-steps``."""
    return {} if max_episode_steps is None else {"evaluation.max_episode_steps": max_episode_steps}


def evaluation_lines(result: EvaluationResult) -> Mapping[str, str]:
    """Returns the lines of an evaluation: label and text."""
    low, high = result.return_interval
    how = "most likely actions" if result.deterministic else "sampled actions"
    count = f"{result.episodes} episode{'' if result.episodes == 1 else 's'}"
    lines = {
        "return": f"{result.return_mean:.2f}, 95 % interval [{low:.2f}, {high:.2f}], {count}, {how}",
        "range": f"{result.return_min:.2f} to {result.return_max:.2f}",
        "length": f"{result.length_mean:.1f} env steps",
    }
    if result.success_rate is not None:
        lines["success"] = f"{result.success_rate:.1%} of the episodes ended at their goal"
    if result.episodes_cut:
        lines["cut"] = f"{result.episodes_cut} of these had not ended and count as truncated (--max-episode-steps)"
    for name, values in (("agents", result.agents), ("policies", result.policies)):
        if len(values) > 1:
            lines[name] = ", ".join(f"{key} {value:.2f}" for key, value in values.items())
    return lines
