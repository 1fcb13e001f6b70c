"""The command line: `app`, whose verbs stand in a file each, and `main`, which says what went wrong in words.

Nothing heavy is imported before a verb runs, so that ``rookery --help`` answers at once.
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
from rookery.cli.plugged import AllVerbs
from rookery.cli.record import record
from rookery.cli.replay.replay import app as replay_app
from rookery.cli.resume import resume
from rookery.cli.serve import serve
from rookery.cli.terminal.ending import ENDED_AFTER, SAID_AFTER, end_in_time
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
"""Lines of errors that are printed."""

app = typer.Typer(
    name="rookery", cls=AllVerbs, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
for verb in (
    train,
    resume,
    learn,
    evaluate,
    record,
    plot,
    elo,
    match,
    play,
    timers,
    explain,
    export,
    serve,
    check_onnx,
    bench,
    algos,
):
    app.command()(verb)
app.add_typer(envs_app, name="envs")
app.add_typer(config_app, name="config")
app.add_typer(replay_app, name="replay")
app.add_typer(replay_app, name="memory", hidden=True)  # as it was called before
app.add_typer(tune_app, name="tune")
for name in VERBS.own:
    app.add_typer(VERBS.load(name), name=name)


def print_version(is_wanted: bool) -> None:
    """Prints the version and stops, if that is wanted."""
    if is_wanted:
        typer.echo(f"rookery {__version__}")
        raise typer.Exit


@app.callback()
def top(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Train one or many agents by reinforcement learning, and see exactly how."""
    sys.path.insert(0, "")  # so that my.module:MyEnv is found beside where the command is given


def program() -> None:
    """Runs the command line as a program of its own, which ends when its work is done."""
    code: object = 1
    Interrupt.ends_program = True
    open_standard_streams()
    watch = ExitStack()
    atexit.register(watch.close)  # the last that is called then: to end Ray takes seconds too
    watch.enter_context(SignalWatch([signal.SIGINT], of_program=True).watching())
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        raise
    finally:
        end_in_time(code if isinstance(code, int) else 1, SAID_AFTER, ENDED_AFTER)


@cache  # reading the options of every verb takes longer than most verbs do
def command_line() -> Callable[[], object]:
    """Gives the verbs of `app` with their options read."""
    return get_command(app)


def main() -> None:
    """Runs the command line.

    Exits with 0; 1 for what has failed on the way; 2 for what was asked or given and is refused, files and data too;
    128 and its number after a signal, so 130 after Ctrl-C and 143 after SIGTERM.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show ends no run
    with watched_output(), started_in(starting_folder(), enter=False):  # code of others may call os.chdir
        try:
            try:
                command_line()()
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has seen enough
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
            said = " ".join(str(error).split())[:200]
            sys.stderr.write(
                f"error: not enough memory to read or make this at once{said and f' ({said})'}; "
                "use a smaller file, or less of it\n"
            )
            sys.exit(1)
        except OSError as error:
            if error.filename is None:
                raise
            survive_lost_output(None)
            sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
            sys.exit(1)
