"""The errors a user can cause.

Each message names the thing, its value, where it came from, what is allowed and the way out.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class RookeryError(Exception):
    """Any error Rookery raises on purpose; the command line prints it without a traceback.

    Attributes:
        exit_code: With what the command line ends: 2 where what was asked or given is refused (an option, a setting, a
            file, data, spaces), 1 where something has failed on the way.
    """

    exit_code = 1


class ConfigError(RookeryError):
    """One or more wrong settings; `problems` has one line for each."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class EnvError(RookeryError):
    """An environment broke its contract, or raised; says where: lane, seed, episode, step, agent, action."""


class UnknownEnvError(EnvError):
    """An environment was named that there is not."""

    exit_code = 2


class RemoteError(Exception):
    """What another process raised: the text is its traceback. It stands as the cause of an error raised here."""


class WorkerLostError(RookeryError):
    """The process or machine of a worker is gone, with all that it had not handed over."""


class HeadLostError(WorkerLostError):
    """The head of a cluster does not answer, without which nothing can be begun there."""


class SpaceError(RookeryError):
    """A space, or a value of it, that Rookery cannot use."""

    exit_code = 2


class TrainingError(RookeryError):
    """Training cannot go on: for example, ten non-finite gradient steps in a row."""


class LearnerLostError(TrainingError):
    """The process or machine of another learner is gone, or is frozen."""


def refuse(problems: Iterable[str]) -> None:
    """Raises ConfigError with a line for each problem, if there is one."""
    if wrong := tuple(problems):
        raise ConfigError(*wrong)


def nearest(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """A hint such as ``; did you mean 'gamma'?``, or an empty string when nothing known is close to `word`."""
    match = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {match[0]!r}?" if match else ""
