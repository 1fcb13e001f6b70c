"""``rookery mlagents``: ML-Agents' own command, with its flags and files, on Rookery."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from rookery.face import (
    ConfigError,
    KeepSchedules,
    Layer,
    Provenance,
    TrustedCode,
    exit_on_interrupt,
    flow,
    is_of_env,
    nearest,
    read_provenance,
    unsaved_progress,
)
from rookery.face import check_resume as check
from rookery_mlagents.old.old_flags import GONE, OLD_FLAGS
from rookery_mlagents.verbs.hub import load_from_hf, push_to_hf
from rookery_mlagents.verbs.mlagents_convert import convert
from rookery_mlagents.verbs.mlagents_run import run_script

if TYPE_CHECKING:
    from rookery_mlagents.learn.learn import Request, Session

app = typer.Typer(no_args_is_help=True)

ENV_ARGS = "--env-args"
"""Flag that takes all following arguments."""

RESUMED = "rookery mlagents learn --resume"
"""Source of settings that change in a resumed run."""

STYLES = ("mlagents", "auto", "live", "plain", "quiet", "json")
"""Values of ``--console``."""


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.yaml|PATH=VALUE",
        help="ML-Agents' configuration file; settings of Rookery, as for rookery train.",
        show_default=False,
    ),
]
"""Words of ``rookery mlagents learn`` that are no flags."""


class LearnCommand(TyperCommand):
    """Command whose last flag takes all following arguments, like ML-Agents' ``--env-args``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Removes these arguments before parsing the others; errors about former flags name the replacement."""
        if ENV_ARGS in args:
            at = args.index(ENV_ARGS)
            ctx.meta[ENV_ARGS], args = args[at + 1 :], args[:at]
        for word in args:
            if (flag := word.partition("=")[0]) in GONE:
                raise ConfigError(
                    f"{flag} is a flag of ML-Agents 0.16 or older. Today: {OLD_FLAGS[flag].becomes.replace('`', '')}; "
                    "rookery mlagents convert FILE -o NEW.yaml -- FLAGS makes a file and a command of today of old ones"
                )
        left: list[str] = super().parse_args(ctx, args)
        return left


@app.callback()
def mlagents() -> None:
    """Train with ML-Agents' configuration files and flags, into its folders; run scripts of its low-level API."""


@app.command(cls=LearnCommand)
def learn(
    context: typer.Context,
    words: Words = None,
    env: Annotated[
        str | None, typer.Option(help="A Unity player, or an environment as rookery train takes it; none = the Editor.")
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run, a folder in results/; default: ppo.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run of that name.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run of that name.")] = False,
    initialize_from: Annotated[
        str | None, typer.Option(metavar="RUN_ID", help="Start from the weights of that run, at step 0.")
    ] = None,
    inference: Annotated[bool, typer.Option("--inference", help="Run without learning, until Ctrl-C.")] = False,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic", help="Most likely actions with --inference.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the run; default -1: a new one.")] = None,
    results_dir: Annotated[str | None, typer.Option(help="Folder of all runs; default: results.")] = None,
    num_envs: Annotated[int | None, typer.Option(help="Number of players, or of Python environments.")] = None,
    num_areas: Annotated[int | None, typer.Option(help="Areas of each player; Python: multiplies --num-envs.")] = None,
    torch_device: Annotated[str | None, typer.Option(help="cpu (default) or cuda.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="More notes.")] = False,
    base_port: Annotated[int | None, typer.Option(help="Port of the first player; default: 5005.")] = None,
    timeout_wait: Annotated[int | None, typer.Option(help="Seconds to wait for a player; default: 60.")] = None,
    max_lifetime_restarts: Annotated[int | None, typer.Option(help="Replacements of each player; default: 10.")] = None,
    restarts_rate_limit_n: Annotated[int | None, typer.Option(help="The same in a period; default: 1.")] = None,
    restarts_rate_limit_period_s: Annotated[int | None, typer.Option(help="That period; default: 60 s.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of a player's window; default: 84.")] = None,
    height: Annotated[int | None, typer.Option(help="Height of a player's window; default: 84.")] = None,
    quality_level: Annotated[int | None, typer.Option(help="Graphics quality of players; default: 5.")] = None,
    time_scale: Annotated[float | None, typer.Option(help="Speed of game time of players; default: 20.")] = None,
    target_frame_rate: Annotated[int | None, typer.Option(help="Frames a second; default -1: no limit.")] = None,
    capture_frame_rate: Annotated[int | None, typer.Option(help="Frames a second of game time; default: 60.")] = None,
    no_graphics: Annotated[
        bool, typer.Option("--no-graphics", help="Start players without graphics; cameras return no image.")
    ] = False,
    no_graphics_monitor: Annotated[
        bool, typer.Option("--no-graphics-monitor", help="The same for all players but the first.")
    ] = False,
    load: Annotated[bool, typer.Option("--load", help="Old flag without effect: use --resume.")] = False,
    train: Annotated[bool, typer.Option("--train", help="Old flag without effect: training is the default.")] = False,
    torch: Annotated[bool, typer.Option("--torch", help="Old flag without effect.")] = False,
    tensorflow: Annotated[bool, typer.Option("--tensorflow", help="Old flag without effect.")] = False,
    env_args: Annotated[
        str | None,
        typer.Option(
            metavar="...", help="Arguments of the player, or name=value of a Python environment; must be last."
        ),
    ] = None,
    console: Annotated[
        str | None, typer.Option(help="Progress: mlagents (ML-Agents' lines), auto, live, plain, quiet or json.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="With --inference: number of episodes.", show_default=False)
    ] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Read weights of a checkpoint.pt that ML-Agents wrote.")
    ] = False,
    trust_code: TrustedCode = False,
    keep_schedules: KeepSchedules = False,
) -> None:
    """Train as mlagents-learn does, with its configuration file and its flags, which override the file.

    rookery mlagents learn Basic.yaml --env rookery.tasks:Basic --run-id basic

    rookery mlagents learn Basic.yaml --env rookery.tasks:Basic stop.return_mean=0.9 evaluation.every=10
    """
    run(request_of(context))


def run(request: Request) -> None:
    """Runs the request: flags and the file select training or inference.

    Raises:
        ConfigError: If it cannot be done.
    """
    from rookery_mlagents.learn.learn import options_of

    if options_of(request).checkpoint_settings.inference:
        infer(request)
        return
    if request.episodes is not None:
        raise ConfigError("--episodes goes with --inference; max_steps of a behaviour ends a training")
    train_or_resume(request)


def request_of(context: typer.Context) -> Request:
    """Returns the request of a command line.

    Raises:
        ConfigError: If flags of ours are wrong; those of ML-Agents are looked at with the file.
    """
    from rookery_mlagents.learn.learn import Request

    values = dict(context.params)
    own = {name: values.pop(name) for name in ("console", "episodes", "trust_pickle", "trust_code", "keep_schedules")}
    words = values.pop("words") or []
    files = [word for word in words if "=" not in word or Path(word).is_file()]
    if len(files) > 1:
        raise ConfigError(f"{files[1]!r}: is neither a flag nor PATH=VALUE; {files[0]!r} is the configuration file")
    own |= {"file": next(iter(files), None), "overrides": [word for word in words if word not in files]}
    dead = [name for name in ("torch", "tensorflow") if values.pop(name)]
    flags = {name: value for name, value in values.items() if value is not None and value is not False}
    if ENV_ARGS in context.meta:
        flags["env_args"] = list(context.meta[ENV_ARGS])
    for name in dead:
        typer.echo(f"note: --{name} does nothing: everything runs on PyTorch", err=True)
    style = own["console"] = own["console"] or STYLES[0]
    if style not in STYLES:
        raise ConfigError(f"--console {style!r}: is none of {', '.join(STYLES)}{nearest(style, STYLES)}")
    return Request(flags=flags, **own)


def train_or_resume(request: Request) -> None:
    """Trains to the end, or until an interrupt, and prints the paths of the written files."""
    from rookery.face import json_rows, report_rows
    from rookery_mlagents.learn.learn import learning

    style = Layer("--console", {"logging.console": "quiet" if request.console == "mlagents" else request.console})
    with json_rows([style]) as rows, learning(request, changes) as session:
        report_rows(session.trainer, rows)
        folder = session.folder
        go_on = f"continue with: rookery mlagents learn --resume --run-id {folder.name}"
        if folder.parent != Path("results"):
            go_on += f" --results-dir {folder.parent}"

        def so_far(kept: bool) -> str:
            return f"interrupted; {f'all is written in {folder}' if kept else unsaved_progress(folder)}; {go_on}"

        with exit_on_interrupt(so_far):
            session.trainer.train()
    if request.console != "json":
        tell(session)


def tell(session: Session) -> None:
    """Prints the final state of each behaviour."""
    for name, ledger in session.files.ledgers.items():
        if ledger.final is not None:
            reward = "no episode has ended" if ledger.final.reward is None else f"reward {ledger.final.reward:.3f}"
            where = ledger.final.file_path or f"{session.folder}/ (no ONNX file)"
            typer.echo(f"{name}: {ledger.steps:,} steps, {reward}, {where}")


def infer(request: Request) -> None:
    """Runs policies, and prints their returns."""
    from rookery_mlagents.learn.inference import play

    for name, earned in play(request, time.monotonic).items():
        typer.echo(f"{name}: {earned.text() if earned.count else 'no episode has ended'}")


def changes(folder: Path, layers: Sequence[Layer], request: Request) -> Layer:
    """Returns the settings that differ from those of a run, as a layer with their sources. A setting that is not given
    now keeps its previous value.

    Args:
        folder: The run.
        layers: Settings with which the run would begin now.
        request: What is asked for; without a file only flags say anything, as all else is what the run has written
            down itself.

    Raises:
        ConfigError: If one of them keeps its value in the middle of a run.
    """
    from rookery.face import ALGORITHMS, DEFAULT, RunConfig, current_history, resolve
    from rookery_mlagents.learn.learn import COMMAND_LINE, OUR_DEFAULT
    from rookery_mlagents.learn.schedule_ends import StoredEnds
    from rookery_mlagents.learn.translate import AS_IS
    from rookery_mlagents.learn.translate import DEFAULT as THEIR_DEFAULT

    resolved = resolve(RunConfig, list(layers), ALGORITHMS)
    provenance = current_history(resolved.config, read_provenance(folder))
    requested = resolved.history
    values, lines, kept = {}, {}, []
    for path, given in requested.items():
        source, value = given[-1]
        before, was = provenance.get(path, [(DEFAULT, flow(None))])[-1]
        was_given = before != DEFAULT and not before.startswith((THEIR_DEFAULT, AS_IS))
        if source.startswith(OUR_DEFAULT) or (source.startswith(THEIR_DEFAULT) and was_given):
            kept.append(path)
            continue
        is_given = request.file is not None or source.startswith(("--", COMMAND_LINE))
        if source == DEFAULT or " as algorithm." in source or not is_given:
            continue
        if flow(value) != was and not (path.startswith("policies.") and path.endswith(".init_from")):
            values[path], lines[path] = value, source
    ends = StoredEnds(folder)
    for path, limit in ends.settle(values, kept, request.keep_schedules).items():
        lines[path] = lines[limit]
    changed = Layer(RESUMED, values, lines)
    if values:
        if other := other_kinds(folder, provenance, requested):
            raise ConfigError(*other)
        free = ends.rescaled(values)
        checked = {path: value for path, value in values.items() if path not in free and not is_of_env(path)}
        check(folder, provenance, [Layer(RESUMED, checked, lines)], bool(request.trust_code))
    return changed


def other_kinds(folder: Path, before: Provenance, requested: Mapping[str, Sequence[tuple[str, Any]]]) -> list[str]:
    """Returns messages on the behaviours of a run that would resume under other names or with other trainers, and lose
    all of their settings, each with a remedy; empty if all are unchanged.

    Args:
        folder: The run.
        before: Every value that its settings were given.
        requested: Those that they would be given now.
    """
    was, now = ({path.split(".")[1]: given[-1] for path, given in history.items()
                 if re.fullmatch(r"policies\.[^.]+\.name", path)} for history in (before, requested))  # fmt: skip
    anew = "for a new run give another --run-id instead of --resume"
    lines = []
    for name, (source, kind) in now.items():
        if name not in was:
            lines.append(
                f"{source}: {folder} has no behaviour {name!r}{nearest(name, list(was))}; it has {', '.join(was)}, "
                f"and a run keeps its behaviours: call it as there to resume; {anew}, and init_path to begin "
                "with old weights"
            )
        elif flow(kind) != was[name][1]:
            lines.append(
                f"{source}: behaviour {name!r} is learned by {was[name][1]} in {folder}, and now it is to be "
                f"{flow(kind)}: a run keeps its trainer_type: put {was[name][1]} back to resume; {anew}"
            )
    return lines


app.command()(convert)
app.command(name="run", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})(run_script)


app.command(name="push-to-hf")(push_to_hf)
app.command(name="load-from-hf")(load_from_hf)

ALIASES = {
    "mlagents-learn": "learn",
    "mlagents-run-experiment": "learn",
    "mlagents-push-to-hf": "push-to-hf",
    "mlagents-load-from-hf": "load-from-hf",
}
"""Commands of ML-Agents, with the verbs that stand for them. ``mlagents-run-experiment FILE`` takes all options from a
file, in YAML or JSON, which `learn` does too.
"""


@app.command()
def alias(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the commands.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace files of these names.")] = False,
) -> None:
    """Write mlagents-learn and ML-Agents' other commands, so that scripts that call them need no change.

    rookery mlagents alias ~/bin
    """
    paths = {folder / name: verb for name, verb in ALIASES.items()}
    for path in paths:
        if path.exists() and not force:
            raise ConfigError(f"{path}: there is one already; add --force to replace it")
    for path, verb in paths.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rookery mlagents {verb} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
        typer.echo(f"written: {path}")
    if str(folder.resolve()) not in os.environ.get("PATH", "").split(os.pathsep):
        typer.echo(f'put it before others: export PATH="{folder.resolve()}:$PATH"')
