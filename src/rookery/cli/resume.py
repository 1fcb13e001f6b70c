"""``rookery resume``: go on with a run that was stopped, killed or has reached its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.runs import Provenance, SavedRun, TrustedCode, find_run, find_saved, read_provenance
from rookery.cli.terminal.json_output import report_rows, rows_apart
from rookery.cli.train import (
    LINE,
    SHOWN,
    SILENT,
    RayAddress,
    console_style,
    finish,
    follows,
    layers_of_arguments,
    stop_values,
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
    bool, typer.Option("--keep-schedules", help="Leave the end of schedules, which a later stop moves, where it is.")
]

NULL = "null"
"""A value that takes a criterion away, as text."""


def resume(
    run: SavedRun,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.yaml|PATH=VALUE",
            help="Settings that change from here on: files of them; single ones, as in algorithm.lr=3e-4.",
            show_default=False,
        ),
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="METRIC=NUMBER that ends training, instead of what ended it before.")
    ] = None,
    gradient_steps: Annotated[
        int | None, typer.Option(min=1, help="So many more gradient steps, of a run that learns from data alone.")
    ] = None,
    keep_schedules: KeepSchedules = False,
    evaluate: Annotated[int, typer.Option(min=0, help="Episodes to evaluate over at the end; 0 = none.")] = 20,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show the outcome only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Show plain lines, also at a terminal.")] = False,
    json_rows: Annotated[bool, typer.Option("--json", help="Write a row of JSON an iteration, nothing else.")] = False,
    env: Annotated[
        str | None,
        typer.Option(help="Environment to play in, for a run that has learned from data.", show_default=False),
    ] = None,
    trust_code: TrustedCode = False,
    ray: RayAddress = None,
) -> None:
    """Go on with a run exactly where its last checkpoint was written; begin it anew if it has none yet.

    rookery resume runs/CartPole-v1-ppo-s3 --stop env_steps=200000
    """
    for word in changes or []:
        if "=" not in word and not word.endswith((".yaml", ".yml")):
            raise ConfigError(f"{LINE}: {word!r} is neither a file .yaml nor path=value, as in algorithm.lr=3e-4")
    folder = run.parent.parent if run.parent.name == FOLDER else find_run(run)
    is_needed = stop or changes or env or gradient_steps or not list_checkpoints(folder / FOLDER)
    provenance = read_provenance(folder) if is_needed else {}
    criteria: dict[str, float | None] = {**stop_values(stop or [])}
    if stop:
        criteria = dict.fromkeys(criteria_in(provenance)) | criteria
    options = {"logging.console": console_style(quiet=quiet, plain=plain, json=json_rows), "cluster.ray": ray}
    layers = [
        SHOWN,
        *layers_of_arguments(changes or [], env, options),
        Layer(f"{LINE}, --stop", criteria),
    ]
    if gradient_steps:
        planned = {"algorithm.gradient_steps": made(run, folder, provenance, trust_code) + gradient_steps}
        layers.append(Layer(f"{LINE}, --gradient-steps {gradient_steps}", planned))
    if changes or env or gradient_steps:
        check(folder, provenance, layers, trust_code)
    if follows(lambda: follower(run, layers, trust_code, keep_schedules)):
        return
    with rows_apart(layers) as rows, go_on(run, folder, provenance, layers, trust_code, keep_schedules) as trainer:
        report_rows(trainer, rows)
        finish(trainer, {}, evaluate)


def made(run: Path, folder: Path, provenance: Provenance, trust_code: bool) -> int:
    """The gradient steps that a run on data alone has made at its last checkpoint.

    Raises:
        ConfigError: If the run does not learn from data, or has played since; says what goes on with it then.
    """
    from rookery.run.checkpoint.checkpoint import read_checkpoint

    if not resolved(folder, provenance, [], trust_code).config.algorithm.capabilities.offline:
        raise ConfigError(
            f"{LINE}: --gradient-steps is for runs that learn from data alone, and {folder} learns by playing; go on "
            f"with --stop env_steps=N; where it has replay, rookery learn {folder} --gradient-steps N learns from that"
        )
    if not list_checkpoints(folder / FOLDER):
        return 0
    saved = read_checkpoint(find_saved(run, "last"))
    if saved.facts["env_steps"]:
        raise ConfigError(
            f"{LINE}: --gradient-steps: {folder} has played since it learned from data alone; go on with --stop "
            f"env_steps=N, or rookery learn {folder} --gradient-steps N"
        )
    return max(int(learner["replay"]["gradient_steps"]) for learner in saved.state["learners"].values())


def go_on(
    run: Path, folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool, keep_schedules: bool
) -> Trainer:
    """A trainer that goes on with a run, from its last checkpoint or, if it has none yet, from its beginning.

    Args:
        run: What the user named: the run or one of its checkpoints.
        folder: Directory of the run.
        provenance: Values that its settings were given; of a run with a checkpoint nobody looks at them.
        layers: Settings that change.
        trust_code: Whether code that the run names may be run, whoever wrote it.
        keep_schedules: Leave the end of schedules where it is.
    """
    from rookery.core.plugins import LOGGERS
    from rookery.run.checkpoint.earlier_settings import kept_defaults, note_of
    from rookery.run.checks.trusted_code import begun_anew
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
    before, notes = begun_anew(folder, trusted(folder, provenance, trust_code), layers, trust_code)
    own = [before, *layers]
    trainer: Trainer
    if logger is not None and logger.begin_anew is not None:
        trainer = logger.begin_anew(folder, own, beside)
    else:
        trainer = Trainer(config=own, run_dir=folder, callbacks=beside, force=True)
    trainer.notes += [*notes, *note_of(kept_defaults(provenance), provenance)]
    trainer.notes.append(f"{folder} holds no checkpoint yet: it begins anew, with the settings that are stored there")
    if keep_schedules:
        env_steps = before.values.get("stop.env_steps")
        trainer.horizon = math.inf if env_steps is None else int(env_steps)
    return trainer


def follower(run: Path, layers: Sequence[Layer], trust_code: bool, keep_schedules: bool) -> Trainer:
    """A trainer of another rank than the first, which takes up its share of the run's last checkpoint."""
    from rookery.run.trainer import Trainer

    last, layers = find_saved(run, "last"), [*layers, SILENT]
    return Trainer.load(last, trust_code=trust_code, config=layers, keep_schedules=keep_schedules)


def criteria_in(provenance: Provenance) -> list[str]:
    """The paths of the criteria that hold in a run."""
    return [path for path, given in provenance.items() if path.startswith("stop.") and given[-1][1] != NULL]


def stored(provenance: Provenance) -> Layer:
    """The settings of a run that somebody set, and its seed, as a layer; each keeps its source."""
    from rookery.core.config import DEFAULT
    from rookery.run.checkpoint.earlier_settings import kept_defaults

    # those that a policy has from the section algorithm follow this one; a seed that nobody gave was drawn
    kept = kept_defaults(provenance)
    own = {path: given[-1] for path, given in provenance.items()
           if (given[-1][0] != DEFAULT or path in kept or (path == "seed" and given[-1][1] != "null"))
           and " as algorithm." not in given[-1][0]}  # fmt: skip
    try:
        values = {path: read_value(text) for path, (_, text) in own.items()}
    except ValueError as error:
        raise ConfigError(f"provenance.json of the run: {error}") from None
    return Layer("settings of the run", values, {path: source for path, (source, _) in own.items()}, stored=True)


def trusted(folder: Path, provenance: Provenance, trust_code: bool) -> Layer:
    """The stored settings of a run, once it is clear that all code that they name may be run."""
    from rookery.run.checkpoint.path_folders import folders_in
    from rookery.run.checks.trusted_code import check_stored

    layer = replace(stored(provenance), stored_folders=folders_in(folder / "config.yaml"))
    check_stored(folder, layer.values, trust_code)
    return layer


def check(folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool) -> None:
    """Refuses settings that are wrong, or that keep their value in the middle of a run; names all of these."""
    from rookery.run.checkpoint.changes import check_changes

    found = resolved(folder, provenance, layers, trust_code)
    check_changes(found, {path: given[-1][1] for path, given in provenance.items()})


def resolved(folder: Path, provenance: Provenance, layers: Sequence[Layer], trust_code: bool) -> Resolved[RunConfig]:
    """The settings that a run has with some more layers."""
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.config import resolve
    from rookery.run.settings import RunConfig

    return resolve(RunConfig, [trusted(folder, provenance, trust_code), *layers], ALGORITHMS)
