"""``rookery train``: turns arguments into layers of settings, trains, writes and prints the results."""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli import completion
from rookery.cli.external import space_values, token_layer
from rookery.cli.runs import in_runs_folder
from rookery.cli.terminal.json_output import json_rows, report_rows
from rookery.cli.terminal.run_lines import SILENT_STYLES, next_commands, show_loading
from rookery.core.errors import ConfigError, LearnerLostError, WorkerLostError
from rookery.core.io.file_names import name_refusal
from rookery.core.io.files import LONGEST_NAME
from rookery.core.process.interrupt import Interrupted
from rookery.core.settings.layers import Layer, override_layer, yaml_layer
from rookery.core.settings.short_paths import with_full_paths
from rookery.core.settings.starting_folder import absolute, shown

if TYPE_CHECKING:
    from rookery.report.results import EvaluationResult, IterationResult
    from rookery.run.trainer import Trainer

LINE = "command line"
"""Source of values given on the command line."""

SILENT = Layer("another rank", {"logging.console": "quiet"})
"""Settings of ranks other than the first: no output."""

SHOWN = Layer("default of the command line", {"logging.console": "auto"})
"""Defaults of the command line that differ from those in code."""

BUDGET = 1_000_000
"""Environment steps of a training without a stop criterion."""


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENV|FILE.yaml|PATH=VALUE",
        help="A Gymnasium id, my.module:MyEnv, a Unity player or unity:editor; settings files; single settings, as in "
        "algorithm.lr=3e-4, or lr=3e-4.",
        show_default=False,
        autocompletion=completion.words,
    ),
]
ReplayPlaces = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH[:POLICY][*PART]", help="Start from the replay buffer of a run; *0.5 = half of each batch."
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        help="Algorithm: a name such as ppo, or my.module:MyConfig; default: chosen for the environment.",
        autocompletion=completion.algorithms,
    ),
]
GradientSteps = Annotated[int | None, typer.Option(min=1, help="Gradient steps on --replay, for offline algorithms.")]
SpacesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Spaces of clients of external:PORT, in YAML or JSON.")
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="ADDRESS|local", help="Ray cluster of the workers; local = this machine.")
]
"""Arguments and options that do not fit in a line."""


def train(
    what: Words = None,
    algo: Algorithm = None,
    env: Annotated[str | None, typer.Option(help="Environment, if not given as an argument.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the run.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="METRIC=NUMBER", help="Stop criterion: return_mean=475. Repeatable.")
    ] = None,
    preset: Annotated[str, typer.Option(help="Settings for a known environment: auto, none or a name.")] = "auto",
    gradient_steps: GradientSteps = None,
    num_envs: Annotated[int | None, typer.Option(help="Number of environments.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of rollout workers on Ray.")] = None,
    ray: RayAddress = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run's folder.")] = None,
    run_dir: Annotated[Path, typer.Option(help="Parent of the run's folder.")] = Path("runs"),
    evaluate: Annotated[int, typer.Option(min=0, help="Episodes of the final evaluation; 0 = none.")] = 20,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final result only.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines, also at a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON row for each iteration only.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run of that name.")] = False,
    replay: ReplayPlaces = None,
    spaces: SpacesFile = None,
) -> None:
    """Train policies in an environment.

    rookery train CartPole-v1 --seed 3 algorithm.lr=3e-4 --stop return_mean=475
    """
    options = {
        "algorithm.name": algo,
        "seed": seed,
        "sampling.num_envs": num_envs,
        "sampling.workers": workers,
        "cluster.ray": ray,
        "logging.console": console_style(quiet=quiet, plain=plain, json=as_json),
        **stop_values(stop or []),
        **data_values(gradient_steps, replay or []),
        **space_values(spaces),
    }
    layers = [SHOWN, *layers_of_arguments(what or [], env, options)]
    show_loading(layers)
    from rookery.run.trainer import Trainer

    layers, run_name, seeded = checked_layers(layers, preset, options)
    if train_other_rank(lambda: Trainer(config=[*layers, SILENT], preset=preset)):
        return
    with json_rows(layers) as rows:
        with run_folder(run_dir, run_id, run_name, force) as folder:
            layers = [*layers, *seeded, *token_layer(layers, folder)]
            trainer = Trainer(config=layers, preset=preset, run_dir=folder, force=force)
        with trainer:
            report_rows(trainer, rows)
            train_and_report(trainer, {}, evaluate)


def train_other_rank(make: Callable[[], Trainer]) -> bool:
    """Trains and returns True if torchrun has started this process as a rank other than the first; rank 0 writes.

    Args:
        make: Makes the trainer of the rank.
    """
    from rookery.cluster.torchrun import started

    if started()[0] == 0:
        return False
    with make() as trainer:
        trainer.train()
    return True


def checked_layers(
    layers: list[Layer], preset: str, options: Mapping[str, Any]
) -> tuple[list[Layer], str, list[Layer]]:
    """Returns the layers with the algorithm chosen if none is named, and the result of `name_and_seed`.

    Raises:
        ConfigError: If a setting is wrong, the environment is missing, or the algorithm cannot use the given data.
    """
    from rookery.run.choose_algorithm import explain_choice, with_algorithm

    layers = with_algorithm(layers, preset)
    with explain_domains(layers), explain_choice(layers):
        check_takes_data(layers, options)
        return layers, *name_and_seed(layers)


@contextmanager
def explain_domains(layers: Sequence[Layer]) -> Iterator[None]:
    """Replaces errors of settings that belong to an experiment by a message that names rookery tune."""
    try:
        yield
    except ConfigError:
        from rookery.tune.settings import SECTION
        from rookery.tune.spec import domains_in, read_layer

        for layer in layers:
            found = list(domains_in(read_layer(layer).values)) or [SECTION] * (SECTION in layer.values)
            if found:
                raise ConfigError(
                    f"{layer.where(found[0])}: {found[0]} is for many trainings: use rookery tune instead of rookery "
                    "train, or give it a value"
                ) from None
        raise


def console_style(**on: bool) -> str | None:
    """Returns the flag that is on, or None; raises a ConfigError if two are."""
    styles = [style for style, wanted in on.items() if wanted]
    if len(styles) > 1:
        raise ConfigError(f"{LINE}: --{styles[0]} and --{styles[1]} exclude each other")
    return styles[0] if styles else None


@contextmanager
def exit_on_interrupt(message: Callable[[bool], str]) -> Iterator[None]:
    """After Ctrl-C, SIGTERM or SIGHUP, prints a message and exits with 128 plus the number of the signal. Adds the
    message to the error of a lost process.

    Args:
        message: Makes the text, which may be empty, from whether the run stopped in good order; a second signal stops
            it at once.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if text := message(isinstance(error, Interrupted)):
            with suppress(OSError):  # the terminal may have closed
                typer.echo(text, err=True)
        gc.freeze()  # else Python visits all objects once more at exit, which can take seconds
        raise typer.Exit(128 + (error.signal if isinstance(error, Interrupted) else SIGINT)) from None
    except (WorkerLostError, LearnerLostError) as error:
        if "resume" in str(error):
            raise
        raise type(error)(f"{error}; {message(False)}") from error


def unsaved_progress(folder: Path) -> str:
    """Returns a message about the unsaved progress of a run that was stopped at once.

    Args:
        folder: Directory of the run.
    """
    from rookery.core.io.files import FOLDER, list_checkpoints

    if saved := list_checkpoints(folder / FOLDER):
        return f"nothing was saved since checkpoint {saved[-1].name}"
    return "there is no checkpoint, so a resumed run starts again"


def layers_of_arguments(what: Sequence[str], env: str | None, options: Mapping[str, Any]) -> list[Layer]:
    """Returns the files, options and overrides of a command as layers, lowest first.

    Args:
        what: Files, overrides and the name of the environment, in any order.
        env: The environment, if it was named by an option.
        options: Values of options by path; None for one that was not given.

    Raises:
        ConfigError: If two of them name an environment, or one cannot be read.
    """
    files = [w for w in what if w.endswith((".yaml", ".yml")) and ("=" not in w or Path(w).is_file())]
    overrides = [word for word in what if "=" in word and word not in files]
    names = [word for word in [*what, *([env] if env else [])] if word not in files and word not in overrides]
    if len(names) > 1:
        raise ConfigError(
            f"{LINE}: {names[0]!r} is the environment, and {names[1]!r} is neither a .yaml file nor PATH=VALUE, as in "
            f"algorithm.lr=3e-4"
        )
    given = {path: value for path, value in options.items() if value is not None}
    if names:
        given["env.name"] = names[0]
    return [*map(yaml_layer, files), Layer(LINE, given), full_layer(override_layer(overrides, LINE))]


def full_layer(layer: Layer) -> Layer:
    """Returns a layer of overrides with full paths, and prints those that were short: ``lr = algorithm.lr``."""
    layer, written = with_full_paths(layer)
    for short, full in written.items():
        typer.echo(f"{short} = {full}", err=True)
    return layer


def data_values(gradient_steps: int | None, sources: Sequence[str]) -> dict[str, Any]:
    """Returns the options about offline data, as settings by path."""
    from rookery.run.checkpoint.replay_sources import replay_values

    return {"algorithm.gradient_steps": gradient_steps, **replay_values([in_runs_folder(source) for source in sources])}


def check_takes_data(layers: Sequence[Layer], options: Mapping[str, Any]) -> None:
    """Refuses data that the algorithm cannot use.

    Args:
        layers: All settings.
        options: Settings from options, by path; None for one that was not given.

    Raises:
        ConfigError: If there are data for an algorithm that takes none, or offline gradient steps for an online one.
    """
    from rookery.algorithms.capabilities import algorithms_with, one_of
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.config import resolve
    from rookery.core.settings.fields import fields_of
    from rookery.run.settings import RunConfig, algorithm_name

    paths = ("algorithm.replay.start_from", "algorithm.replay.mix", "algorithm.gradient_steps")
    given = [path for path in paths if options.get(path) is not None]
    if not given:
        return
    others = [
        Layer(one.source, {path: value for path, value in one.values.items() if path not in given}) for one in layers
    ]
    cfg = resolve(RunConfig, others, ALGORITHMS).config.algorithm
    known, name = fields_of(type(cfg)), algorithm_name(cfg)
    first = algorithms_with(supports_online_finetune=True)[0]
    alone = f"{one_of(algorithms_with(offline=True), 'and')} learn from data alone (--algo {first})"
    if "replay" not in known and len(given) - (paths[2] in given):
        beside = f"; {name} can imitate demonstrations while it plays, with algorithm.imitation.replay=PATH"
        with_replay = one_of(algorithms_with(uses_replay=True, offline=False, needs_team=False), "and")
        raise ConfigError(
            f"{LINE}: --replay: {name} is on-policy and takes no data; {alone}, and {with_replay} start from data and "
            f"continue by playing{beside * ('imitation' in known)}"
        )
    if "gradient_steps" not in known and paths[2] in given:
        raise ConfigError(f"{LINE}: --gradient-steps: {name} learns while it plays; {alone}; else leave it out")


def stop_values(stop: Sequence[str]) -> dict[str, float]:
    """Returns the criteria of ``--stop`` by path.

    Raises:
        ConfigError: If some are not ``METRIC=NUMBER``; names all of them.
    """
    values: dict[str, float] = {}
    problems = []
    for criterion in stop:
        metric, _, number = criterion.rpartition("=")  # names of behaviours such as Name?team=0 have a = too
        try:
            # metrics have slashes, paths of settings have dots
            values[f"stop.{metric.strip().replace('.', '/')}"] = float(number)
        except ValueError:
            problems.append(f"{LINE}: --stop {criterion!r} must be METRIC=NUMBER, for example --stop return_mean=475")
    if problems:
        raise ConfigError(*problems)
    return values


def name_and_seed(layers: list[Layer]) -> tuple[str, list[Layer]]:
    """Returns the default name of the run, and a layer with its seed if that was drawn.

    Raises:
        ConfigError: If a setting is wrong or the environment is missing.
    """
    from rookery.algorithms.names import ALGORITHMS
    from rookery.core.config import resolve
    from rookery.envs.make import env_name
    from rookery.envs.placeholder_env import DATA
    from rookery.run.settings import RunConfig, algorithm_name

    config: RunConfig = resolve(RunConfig, layers, ALGORITHMS).config
    if config.env.name is None and not config.algorithm.capabilities.offline:
        raise ConfigError(
            f"{LINE}: the environment is missing: rookery train CartPole-v1, or env: {{name: CartPole-v1}} in a file; "
            f"rookery envs lists some"
        )
    played = DATA if config.env.name is None else env_name(config.env.name)
    seed = randbits(31) if config.seed is None else config.seed
    algorithm = algorithm_name(config.algorithm).rpartition(":")[2]
    name = re.sub(r"[^\w.+-]+", "-", f"{played}-{algorithm}-s{seed}")
    return name, [Layer("drawn", {"seed": seed})] if config.seed is None else []


def checked_name(option: str, name: str) -> str:
    """Returns the name of a folder given by an option; raises a ConfigError if it is not valid."""
    if (size := len(os.fsencode(name))) > LONGEST_NAME:
        raise ConfigError(f"{LINE}: {option}: the name has {size:,} bytes; a folder's name may have {LONGEST_NAME}")
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise ConfigError(f"{LINE}: {option} {name!r} must be made of letters, digits and . _ + -")
    if reason := name_refusal(name):
        raise ConfigError(f"{LINE}: {option}: {reason}; choose another name")
    return name


@contextmanager
def run_folder(root: Path, run_id: str | None, usual: str, force: bool) -> Iterator[Path]:
    """Yields the folder of a run: `run_id` in `root`, or `usual`, with the first free number after it if it exists.

    If the body raises, the folders that were made are removed again, as long as they are empty.

    Raises:
        ConfigError: If `run_id` is not a valid name, or is taken and `force` is not set, or the folder cannot be made.
    """
    absent = [place for place in (root, *root.parents) if not place.exists()]
    try:
        folder, is_new = make_run_folder(root, run_id, usual, force)
    except OSError as error:
        raise ConfigError(
            f"{LINE}: --run-dir {root}: the folder of a run cannot be made there: {error.strerror}"
        ) from None
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # a folder that is no longer empty stays
            for place in [folder] * is_new + absent:
                absolute(place).rmdir()
        raise


def make_run_folder(root: Path, run_id: str | None, usual: str, force: bool) -> tuple[Path, bool]:
    """Returns the folder for `run_folder`, and whether it was made, as it did not exist."""
    if run_id is None:
        number, name = 1, usual
        while not force:
            try:
                (root / name).mkdir(parents=True)
                return root / name, True
            except FileExistsError:
                number += 1
                name = f"{usual}-{number}"
        run_id = usual
    from rookery.run.checkpoint.own_files import holds_run, was_killed_at_start

    folder = root / checked_name("--run-id", run_id)
    other = "give another --run-id"
    is_new = not folder.exists()
    if is_new:
        folder.mkdir(parents=True)
    elif was_killed_at_start(folder):
        pass  # the old folder is moved aside when the run begins
    elif not holds_run(folder):
        option = "--force" if force else f"--run-id {run_id}"
        raise ConfigError(f"{LINE}: {option}: {folder} is not a run; {other}")
    elif not force:
        raise ConfigError(
            f"{LINE}: --run-id {run_id}: {folder} exists; rookery resume {folder} continues it, --force replaces it; "
            f"else {other}"
        )
    return folder, is_new


def train_and_report(trainer: Trainer, stop: Mapping[str, float], episodes: int) -> None:
    """Trains to the end, or to a criterion of `stop`, evaluates `episodes` if any, writes and prints the result. A run
    that learns from data alone is evaluated only if it has an environment.

    After a signal it exits as `exit_on_interrupt` does.
    """
    from rookery.algorithms.capabilities import algorithms_with, one_of
    from rookery.run.pace import steps_left
    from rookery.run.stopping import time_limits

    assert trainer.run_dir is not None
    place, steps = trainer.run_dir.path, steps_left(trainer)
    folder = shown(place)
    if steps is None and not (trainer._current_criteria or stop):
        stop = {"env_steps": BUDGET}
        trainer._reporter.note(
            f"no stop criterion is given: training stops after {BUDGET:,} environment steps (--stop env_steps=N)"
        )
    if steps is not None and steps < 1:
        if all(learner.cfg.capabilities.supports_online_finetune for learner in trainer.learners.values()):
            plays = f", or continue by playing with rookery resume {folder} --env ENV"
        else:
            others = one_of(algorithms_with(supports_online_finetune=True), "and")
            plays = f"; its algorithm cannot continue by playing: {others} can"
        raise ConfigError(
            f"{folder}: all gradient steps of the run are made; make N more with rookery resume {folder} "
            f"--gradient-steps N{plays}"
        )

    def so_far(kept: bool) -> str:
        made = f"{trainer.env_steps:,} environment steps"
        if steps is not None:
            left = steps_left(trainer) or 0
            made = f"{steps - left:,} of {steps:,} gradient steps on data"
        unsaved = "" if kept else f"{unsaved_progress(place)}; "
        return f"interrupted after {made}; {unsaved}continue with: rookery resume {folder}"

    with exit_on_interrupt(so_far):
        within = time_limits(trainer._current_criteria)
        result = trainer.train(stop) if steps is None else trainer.learn(steps, stop=within)
        evaluation = trainer.evaluate(episodes) if episodes and trainer.config.env.name is not None else None
    outcome = {
        "stop_reason": result.stop_reason,
        "final": result.row(),
        "evaluation": None if evaluation is None else asdict(evaluation),
    }
    trainer.run_dir.write("result.json", json.dumps(outcome, indent=1) + "\n")
    print_outcome(trainer, result, evaluation, place)


def print_outcome(trainer: Trainer, result: IterationResult, evaluation: EvaluationResult | None, folder: Path) -> None:
    """Prints the final result, what to try if the return never moved, and the next commands, as far as the style of
    the output has them.
    """
    from rookery.run.checks.unmoved import unmoved_lines

    style = trainer.config.logging.console
    lines = [] if style == "json" else list(result_lines(result, evaluation, folder).items())
    if style not in SILENT_STYLES:
        unmoved = unmoved_lines(trainer, result, evaluation, folder, shown(folder))
        lines += [("" if number else "note", line) for number, line in enumerate(unmoved)]
        commands = next_commands(shown(folder), trainer.config.env.name is not None)
        lines += [("" if number else "next", command) for number, command in enumerate(commands)]
    for label, text in lines:
        typer.echo(f"{label:<12}{text}")


def result_lines(result: IterationResult, evaluation: EvaluationResult | None, folder: Path) -> Mapping[str, str]:
    """Returns the lines of the final result: label and text."""
    mean = "no episode finished" if result.return_mean is None else f"{result.return_mean:.2f} in training"
    lines = {"return": mean} if result.env_steps else offline_lines(result)
    if evaluation is not None:
        (low, high), count = evaluation.return_interval, evaluation.episodes
        lines["evaluation"] = f"{evaluation.return_mean:.2f}, 95 % interval [{low:.2f}, {high:.2f}], {count} episodes"
    if result.env_steps:
        lines["env steps"] = f"{result.env_steps:,}"
    lines["seconds"] = f"{result.seconds:.1f}"
    if result.env_steps:
        lines["steps/s"] = f"{result.env_steps / max(result.seconds, 1e-9):,.0f}"
    else:
        lines["steps/s"] = f"{result.gradient_steps / max(result.seconds, 1e-9):,.0f} gradient steps"
    return lines | {"written": f"{shown(folder)}/"}


def offline_lines(result: IterationResult) -> dict[str, str]:
    """Returns the lines of the final result of offline training: label and text."""
    from rookery.report.console import losses

    lines = {}
    for name, policy in result.policies.items():
        steps, loss = policy.learning.get("gradient_steps"), policy.learning.get("best_validation_loss")
        held = "" if loss is None else f", loss {loss:.4f} on {policy.learning['held_out']:,} decisions held out"
        lines[name] = f"{steps or 0:,} gradient steps on {policy.learning.get('replay_size') or 0:,} decisions{held}"
        if loss is None and (last := losses(policy.learning)):
            lines[name] += f"; at the end {last}"
    return lines
