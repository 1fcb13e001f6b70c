"""Old files by their paths, and the words of a command, put through `rookery_mlagents.old.convert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rookery.face import ConfigError
from rookery_mlagents.old.convert import ALL, Converted, convert
from rookery_mlagents.old.old_files import read_trainer
from rookery_mlagents.old.old_flags import read_flags
from rookery_mlagents.old.old_parameters import read_curricula, read_samplers


def converted_files(
    old: Path,
    curriculum: Path | None,
    sampler: Path | None,
    *,
    lesson: int | None,
    version: str | None,
    agents: Sequence[str],
    demo: str | None,
    words: Sequence[str],
) -> tuple[Converted, list[str]]:
    """Converts files.

    Args:
        old: Path of the trainer configuration.
        curriculum: Path of its curriculum file, or of a directory of them; None = none, or as `words` say.
        sampler: Path of its sampler file; likewise.
        lesson: The lesson to begin with; likewise.
        version: The release; None = found out.
        agents: Numbers of agents, ``12`` or ``Behaviour=12`` each.
        demo: Demonstration for ``online_bc``.
        words: Flags of the old command.

    Returns:
        The file of today, and words for the command that runs it.

    Raises:
        ConfigError: If a file or a word is not right.
    """
    flags = read_flags(words)
    curriculum = curriculum or _path(flags.files.get("curriculum"))
    sampler = sampler or _path(flags.files.get("sampler"))
    lesson = lesson if lesson is not None else _lesson(flags.files.get("lesson"))
    file = read_trainer(old)
    curricula, each_in_a_file = read_curricula(curriculum) if curriculum else ([], False)
    found = convert(
        file,
        curricula,
        read_samplers(sampler) if sampler else None,
        each_in_a_file=each_in_a_file,
        version=version,
        agents=_agents(agents),
        lesson=lesson,
        demo=demo,
        flags=flags,
    )
    return found, flags.today


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _lesson(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isdecimal():
        raise ConfigError(f"--lesson {text}: must be a whole number, 0 or more")
    return int(text)


def _agents(texts: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not number.isdecimal() or not int(number) or (equals and not name):
            raise ConfigError(f"--agents {text}: must be a number of agents, such as 12 or 3DBall=12")
        found[name or ALL] = int(number)
    return found
