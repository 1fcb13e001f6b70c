"""The command line: `app`, with one file for each verb, and `main`, which prints errors.

Heavy modules are imported when a verb runs, so that ``rookery --help`` is fast.
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.main import get_command

from rookery import __version__
from rookery.cli.algos import algos
from rookery.cli.bench.bench import bench
from rookery.cli.config import app as config_app
from rookery.cli.envs import app as envs_app
from rookery.cli.evaluate import evaluate
from rookery.cli.explain import explain
from rookery.cli.games.elo import elo
from rookery.cli.games.match import match
from rookery.cli.games.play import play
from rookery.cli.learn import learn
from rookery.cli.onnx.check_onnx import check_onnx
from rookery.cli.onnx.export import export
from rookery.cli.plot import plot
from rookery.cli.plugin_verbs import PLUGIN_PANEL, VerbGroup
from rookery.cli.record import record
from rookery.cli.replay.replay import app as replay_app
from rookery.cli.resume import resume
from rookery.cli.serve import serve
from rookery.cli.terminal.ending import ENDED_AFTER, NAMED_AFTER, end_in_time
from rookery.cli.timers import timers
from rookery.cli.train import train
from rookery.cli.tune import app as tune_app
from rookery.core.errors import ConfigError, EnvError, RookeryError
from rookery.core.io.console_output import open_standard_streams, survive_lost_output, watched_output
from rookery.core.plugins import VERBS
from rookery.core.process.interrupt import Interrupt, SignalWatch
from rookery.core.process.tracebacks import own_traceback
from rookery.core.settings.starting_folder import started_in, starting_folder

MAX_PROBLEMS = 100
"""Maximum number of error lines."""

app = typer.Typer(
    name="rookery", cls=VerbGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Train": (train, resume, learn, bench),
    "Inspect": (evaluate, record, plot, timers, explain, algos),
    "Play": (match, elo, play),
    "Deploy": (serve, export, check_onnx),
}
"""Verbs by the panel of the help that lists them."""

for panel, verbs in COMMANDS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(verb)
app.add_typer(envs_app, name="envs", rich_help_panel="Inspect")
app.add_typer(config_app, name="config", rich_help_panel="Inspect")
app.add_typer(replay_app, name="replay", rich_help_panel="Data")
app.add_typer(replay_app, name="memory", hidden=True)  # the old name of replay
app.add_typer(tune_app, name="tune", rich_help_panel="Tune")
for name in VERBS.own:
    app.add_typer(VERBS.load(name), name=name, rich_help_panel=PLUGIN_PANEL)


def print_version(is_wanted: bool) -> None:
    """Prints the version and exits, if requested."""
    if is_wanted:
        typer.echo(f"rookery {__version__}")
        raise typer.Exit


@app.callback()
def top(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Reinforcement learning for one or many agents."""
    sys.path.insert(0, "")  # finds my.module:MyEnv in the working directory


def program() -> None:
    """Runs the command line as a program, and ends the process afterwards."""
    code: object = 1
    Interrupt.ends_program = True
    open_standard_streams()
    watch = ExitStack()
    atexit.register(watch.close)  # called last at exit: shutting down Ray takes seconds too
    watch.enter_context(SignalWatch([signal.SIGINT], of_program=True).watching())
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        raise
    finally:
        end_in_time(code if isinstance(code, int) else 1, NAMED_AFTER, ENDED_AFTER)


@cache  # building the commands takes longer than running most of them
def command_line() -> Callable[[], object]:
    """Returns the commands of `app`."""
    return get_command(app)


def main() -> None:
    """Runs the command line.

    Exit codes: 0; 1 for failures at run time; 2 for wrong arguments, settings, files or data; 128 plus the number of a
    signal, so 130 after Ctrl-C and 143 after SIGTERM.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show are no error
    with watched_output(), started_in(starting_folder(), enter=False):  # user code may call os.chdir
        try:
            try:
                command_line()()
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has closed it
            sys.exit(1)
        except RookeryError as error:
            survive_lost_output(None)
            if isinstance(error, EnvError) and error.__cause__ is not None:
                sys.stderr.write(own_traceback(error.__cause__))
            problems = error.problems if isinstance(error, ConfigError) else (error,)
            sys.stderr.write("".join(f"error: {problem}\n" for problem in problems[:MAX_PROBLEMS]))
            if len(problems) > MAX_PROBLEMS:
                sys.stderr.write(f"error: and {len(problems) - MAX_PROBLEMS:,} more\n")
            sys.exit(error.exit_code)
        except MemoryError as error:
            survive_lost_output(None)
            reason = " ".join(str(error).split())[:200]
            sys.stderr.write(
                f"error: there is not enough memory for this{reason and f' ({reason})'}; use a smaller file, or less "
                "of it\n"
            )
            sys.exit(1)
        except OSError as error:
            if error.filename is None:
                raise
            survive_lost_output(None)
            sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
            sys.exit(1)
