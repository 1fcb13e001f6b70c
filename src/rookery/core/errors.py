"""Errors that a user can cause. Each message names the setting or object, its value, its source, the allowed values and
a remedy.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class RookeryError(Exception):
    """Base of all errors that Rookery raises on purpose; the command line prints them without a traceback.

    Attributes:
        exit_code: Exit code of the command line: 2 if the input is refused (an option, a setting, a file, data,
            spaces), 1 if something fails later.
    """

    exit_code = 1


class ConfigError(RookeryError):
    """One or more wrong settings; `problems` has one line for each."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = by_line(problems)
        super().__init__("\n".join(self.problems))


LINE_OF_FILE = re.compile(r"(.+?):(\d+): ")
"""Beginning of a problem in a file: name and line."""


def by_line(problems: Sequence[str]) -> tuple[str, ...]:
    """Sorts problems of the same file by line; all others keep their positions."""
    found = list(problems)
    files: dict[str, list[tuple[int, int, str]]] = {}
    for place, problem in enumerate(found):
        if match := LINE_OF_FILE.match(problem):
            files.setdefault(match[1], []).append((int(match[2]), place, problem))
    for lines in files.values():
        places = sorted(place for _, place, _ in lines)
        for place, (_, _, problem) in zip(places, sorted(lines), strict=True):
            found[place] = problem
    return tuple(found)


class EnvError(RookeryError):
    """An environment broke its contract or raised; the message names lane, seed, episode, step, agent and action."""


class UnknownEnvError(EnvError):
    """The named environment does not exist."""

    exit_code = 2


class RemoteError(Exception):
    """Exception of another process; its text is the remote traceback. Used as the cause of an error raised here."""


class WorkerLostError(RookeryError):
    """The process or machine of a worker is lost, with all data that it had not sent."""


class HeadLostError(WorkerLostError):
    """The head of a cluster does not answer, so nothing can start there."""


class SpaceError(RookeryError):
    """Rookery does not support a space, or a value is not in its space."""

    exit_code = 2


class TrainingError(RookeryError):
    """Training cannot continue: for example, after ten non-finite gradient steps in a row."""


class LearnerLostError(TrainingError):
    """The process or machine of another learner is lost or frozen."""


def refuse(problems: Iterable[str]) -> None:
    """Raises a ConfigError with one line per problem; does nothing without problems."""
    if wrong := tuple(problems):
        raise ConfigError(*wrong)


def nearest(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """Returns a hint such as ``; did you mean 'gamma'?``, or an empty string if no known word is close to `word`."""
    match = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {match[0]!r}?" if match else ""
