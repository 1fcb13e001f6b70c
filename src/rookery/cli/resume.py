"""``rookery resume``: continues a run that was stopped, killed or has reached its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli import completion
from rookery.cli.runs import Provenance, SavedRun, TrustedCode, find_run, find_saved, read_provenance
from rookery.cli.terminal.json_output import json_rows, report_rows
from rookery.cli.terminal.run_lines import show_loading
from rookery.cli.train import (
    LINE,
    SHOWN,
    SILENT,
    RayAddress,
    console_style,
    layers_of_arguments,
    stop_values,
    train_and_report,
    train_other_rank,
)
from rookery.core.errors import ConfigError
from rookery.core.io.files import FOLDER, list_checkpoints
from rookery.core.settings.layers import Layer, read_value

if TYPE_CHECKING:
    from rookery.core.config import Resolved
    from rookery.rollout.hooks import EpisodeListener
    from rookery.run.loggers import Logger
    from rookery.run.settings import RunConfig
    from rookery.run.trainer import Trainer

KeepSchedules = Annotated[
    bool, typer.Option("--keep-schedules", help="Keep the end of schedules, which a later stop would move.")
]

NULL = "null"
"""Text of a value that removes a criterion."""


def resume(
    run: SavedRun,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.yaml|PATH=VALUE",
            help="Settings to change from now on: files, or single ones, as in algorithm.lr=3e-4.",
            show_default=False,
            autocompletion=completion.overrides,
        ),
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="METRIC=NUMBER that ends training, in place of the old criteria.")
    ] = None,
    gradient_steps: Annotated[
        int | None, typer.Option(min=1, help="More gradient steps, for a run that learns from data alone.")
    ] = None,
    keep_schedules: KeepSchedules = False,
    evaluate: Annotated[int, typer.Option(min=0, help="Episodes of the final evaluation; 0 = none.")] = 20,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines, also at a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON row for each iteration only.")] = False,
    env: Annotated[
        str | None,
        typer.Option(help="Environment, for a run that has learned from data.", show_default=False),
    ] = None,
    trust_code: TrustedCode = False,
    ray: RayAddress = None,
) -> None:
    """Continue a run exactly from its last checkpoint; start it again if it has none yet.

    rookery resume runs/CartPole-v1-ppo-s3 --stop env_steps=200000
    """
    for word in changes or []:
        if "=" not in word and not word.endswith((".yaml", ".yml")):
            raise ConfigError(f"{LINE}: {word!r} is neither a .yaml file nor PATH=VALUE, as in algorithm.lr=3e-4")
    folder = run.parent.parent if run.parent.name == FOLDER else find_run(run)
    is_needed = stop or changes or env or gradient_steps or not list_checkpoints(folder / FOLDER)
    provenance = read_provenance(folder) if is_needed else {}
    criteria: dict[str, float | None] = {**stop_values(stop or [])}
    if stop:
        criteria = dict.fromkeys(criteria_in(provenance)) | criteria
    options = {"logging.console": console_style(quiet=quiet, plain=plain, json=as_json), "cluster.ray": ray}
    layers = [
        SHOWN,
        *layers_of_arguments(changes or [], env, options),
        Layer(f"{LINE}, --stop", criteria),
    ]
    if gradient_steps:
        planned = {
            "algorithm.gradient_steps": gradient_steps_made(run, folder, provenance, trust_code) + gradient_steps
        }
        layers.append(Layer(f"{LINE}, --gradient-steps {gradient_steps}", planned))
    show_loading(layers, folder)
    if changes or env or gradient_steps:
        check_resume(folder, provenance, layers, trust_code)
    if train_other_rank(lambda: other_rank_trainer(run, layers, trust_code, keep_schedules)):
        return
    with (
        json_rows(layers) as rows,
        resumed_trainer(run, folder, provenance, layers, trust_code, keep_schedules) as trainer,
    ):
        report_rows(trainer, rows)
        train_and_report(trainer, {}, evaluate)


def gradient_steps_made(run: Path, folder: Path, provenance: Provenance, trust_code: bool) -> int:
    """Returns the number of gradient steps of an offline run at its last checkpoint.

    Raises:
        ConfigError: If the run does not learn from data alone, or has played since; with the right command.
    """
    from rookery.run.checkpoint.checkpoint import read_checkpoint

    if not resolved_settings(folder, provenance, [], trust_code).config.algorithm.capabilities.offline:
        raise ConfigError(
            f"{LINE}: --gradient-steps is for runs that learn from data alone, but {folder} learns by playing; "
            f"continue with --stop env_steps=N; if it has a replay buffer, rookery learn {folder} --gradient-steps N "
            "trains on it"
        )
    if not list_checkpoints(folder / FOLDER):
        return 0
    saved = read_checkpoint(find_saved(run, "last"))
    if saved.facts["env_steps"]:
        raise ConfigError(
            f"{LINE}: --gradient-steps: {folder} has played since it learned from data alone; continue with --stop "
            f"env_steps=N, or rookery learn {folder} --gradient-steps N"
        )
    return max(int(learner["replay"]["gradient_steps"]) for learner in saved.state["learners"].values())


def resumed_trainer(
    run: Path, folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool, keep_schedules: bool
) -> Trainer:
    """Returns a trainer that continues a run from its last checkpoint or, without a checkpoint, from its beginning.

    Args:
        run: The run or one of its checkpoints.
        folder: Directory of the run.
        provenance: Values of its settings with their sources; not used for a run with a checkpoint.
        layers: Settings that change.
        trust_code: Whether foreign code that the run names may be run.
        keep_schedules: Whether to keep the end of schedules.
    """
    from rookery.core.plugins import LOGGERS
    from rookery.run.checkpoint.earlier_settings import kept_defaults, note_of
    from rookery.run.checks.trusted_code import restarted_run
    from rookery.run.trainer import Trainer

    logger: Logger | None = None
    beside: Sequence[EpisodeListener] = ()
    for name in LOGGERS.own:
        if found := LOGGERS.load(name).of_run(folder):
            logger, beside = LOGGERS.load(name), found
    if list_checkpoints(folder / FOLDER):
        return Trainer.load(
            find_saved(run, "last"),
            resume=True,
            trust_code=trust_code,
            config=list(layers),
            callbacks=beside,
            keep_schedules=keep_schedules,
        )
    before, notes = restarted_run(folder, trusted_settings(folder, provenance, trust_code), layers, trust_code)
    own = [before, *layers]
    trainer: Trainer
    if logger is not None and logger.begin_anew is not None:
        trainer = logger.begin_anew(folder, own, beside)
    else:
        trainer = Trainer(config=own, run_dir=folder, callbacks=beside, force=True)
    trainer._notes += [*notes, *note_of(kept_defaults(provenance), provenance)]
    trainer._notes.append(f"{folder} has no checkpoint yet: the run starts again, with its stored settings")
    if keep_schedules:
        env_steps = before.values.get("stop.env_steps")
        trainer._horizon = math.inf if env_steps is None else int(env_steps)
    return trainer


def other_rank_trainer(run: Path, layers: Sequence[Layer], trust_code: bool, keep_schedules: bool) -> Trainer:
    """Returns the trainer of a rank other than the first, with its part of the run's last checkpoint."""
    from rookery.run.trainer import Trainer

    last, layers = find_saved(run, "last"), [*layers, SILENT]
    return Trainer.load(last, trust_code=trust_code, config=layers, keep_schedules=keep_schedules)


def criteria_in(provenance: Provenance) -> list[str]:
    """Returns the paths of a run's stop criteria."""
    return [path for path, given in provenance.items() if path.startswith("stop.") and given[-1][1] != NULL]


def stored_settings(provenance: Provenance) -> Layer:
    """Returns the settings of a run that were set, and its seed, as a layer; each keeps its source."""
    from rookery.core.config import DEFAULT
    from rookery.run.checkpoint.earlier_settings import kept_defaults

    # Settings of policies taken from the section algorithm follow that one. A seed that was not given was drawn.
    kept = kept_defaults(provenance)
    own = {path: given[-1] for path, given in provenance.items()
           if (given[-1][0] != DEFAULT or path in kept or (path == "seed" and given[-1][1] != "null"))
           and " as algorithm." not in given[-1][0]}  # fmt: skip
    try:
        values = {path: read_value(text) for path, (_, text) in own.items()}
    except ValueError as error:
        raise ConfigError(f"provenance.json of the run: {error}") from None
    return Layer("settings of the run", values, {path: source for path, (source, _) in own.items()}, stored=True)


def trusted_settings(folder: Path, provenance: Provenance, trust_code: bool) -> Layer:
    """Returns the stored settings of a run, after checking that all code that they name is trusted."""
    from rookery.run.checkpoint.path_folders import folders_in
    from rookery.run.checks.trusted_code import check_stored

    layer = replace(stored_settings(provenance), stored_folders=folders_in(folder / "config.yaml"))
    check_stored(folder, layer.values, trust_code)
    return layer


def check_resume(folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool) -> None:
    """Refuses settings that are wrong or cannot change within a run; names all of them."""
    from rookery.run.checkpoint.changes import check_changes

    found = resolved_settings(folder, provenance, layers, trust_code)
    check_changes(found, {path: given[-1][1] for path, given in provenance.items()})


def resolved_settings(
    folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool
) -> Resolved[RunConfig]:
    """Returns the settings of a run with some more layers."""
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.config import resolve
    from rookery.run.settings import RunConfig

    return resolve(RunConfig, [trusted_settings(folder, provenance, trust_code), *layers], ALGORITHMS)
