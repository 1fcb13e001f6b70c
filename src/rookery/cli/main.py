"""The command line: `app`, whose verbs are listed in `cli/verbs.py`, and `main`, which prints errors."""

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

from rookery.cli.terminal.ending import ENDED_AFTER, NAMED_AFTER, end_in_time
from rookery.cli.verbs import VerbGroup, current_option
from rookery.core.errors import ConfigError, EnvError, RookeryError
from rookery.core.io.console_output import open_standard_streams, survive_lost_output, watched_output
from rookery.core.process.interrupt import Interrupt, SignalWatch
from rookery.core.process.tracebacks import own_traceback
from rookery.core.settings.starting_folder import started_in, starting_folder

MAX_PROBLEMS = 100
"""Maximum number of error lines."""

app = typer.Typer(
    name="rookery",
    cls=VerbGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its import takes as long as all else that the help needs
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": current_option},
)


def print_version(is_wanted: bool) -> None:
    """Prints the versions of Rookery, Python, PyTorch and the kernels, and exits, if requested."""
    if is_wanted:
        from rookery.cli.terminal.versions import versions

        typer.echo("\n".join(versions()))
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print versions and exit.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Reinforcement learning for one or many agents."""
    sys.path.insert(0, "")  # finds my.module:MyEnv in the working directory
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
