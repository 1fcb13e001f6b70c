"""`OLD_FLAGS`, `read_flags`: flags of ``mlagents-learn`` 0.13 to 0.16 and their conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rookery.face import ConfigError, nearest


@dataclass(frozen=True)
class OldFlag:
    """Flag of those releases.

    Attributes:
        becomes: What becomes of it, for people.
        takes: Whether it takes a value.
        today: Words of the new command in its place; ``{}`` = its value. Empty = nothing.
        key: Key of a behaviour that gets its value; empty = none.
        versions: Releases that had it, first and last.
    """

    becomes: str
    takes: bool = False
    today: tuple[str, ...] = ()
    key: str = ""
    versions: tuple[str, str] = ("0.13", "0.16")


def _same(flags: str, *, takes: bool = True, first: str = "0.13") -> dict[str, OldFlag]:
    """Returns rows of flags whose names are unchanged."""
    value = ("{}",) if takes else ()
    return {
        flag: OldFlag(f"`{flag}` of `rookery mlagents learn`", takes, (flag, *value), versions=(first, "0.16"))
        for flag in flags.split()
    }


OLD_FLAGS = {
    "--train": OldFlag("nothing: learning is what happens unless `--inference` is given"),
    "--load": OldFlag("`--resume`", today=("--resume",)),
    "--curriculum": OldFlag("`--curriculum` of `rookery mlagents convert`; then part of the file", takes=True),
    "--sampler": OldFlag("`--sampler` of `rookery mlagents convert`; then part of the file", takes=True),
    "--lesson": OldFlag("`--lesson` of `rookery mlagents convert`; then part of the file", takes=True),
    "--save-freq": OldFlag("`checkpoint_interval` of each behaviour", takes=True, key="checkpoint_interval"),
    "--keep-checkpoints": OldFlag("`keep_checkpoints` of each behaviour", takes=True, key="keep_checkpoints"),
    "--cpu": OldFlag("`--torch-device cpu`", today=("--torch-device", "cpu")),
    "--multi-gpu": OldFlag(
        "left out: one learner trains a behaviour; several learners are a matter of a cluster, not of this flag",
        versions=("0.13", "0.14"),
    ),
    "--num-runs": OldFlag(
        "left out: start the command once for each run, with a `--run-id` and a `--seed` of its own",
        takes=True,
        versions=("0.13", "0.13"),
    ),
    "--docker-target-name": OldFlag(
        "left out: paths are taken as they are given; in a container, mount a folder and give `--results-dir`",
        takes=True,
        versions=("0.13", "0.15"),
    ),
    "--slow": OldFlag("`--time-scale 1`", today=("--time-scale", "1"), versions=("0.13", "0.13")),
    **_same("--env --run-id --seed --base-port --num-envs"),
    **_same("--no-graphics --debug", takes=False),
    **_same("--width --height --quality-level --time-scale --target-frame-rate"),
    **_same("--capture-frame-rate", first="0.16"),
    **_same("--resume --force --inference", takes=False, first="0.16"),
    **_same("--initialize-from", first="0.16"),
    "--env-args": OldFlag("`--env-args` of `rookery mlagents learn`, last as before", takes=True),
}
"""Conversion of each flag; ``--slow`` is from 0.12."""

GONE = [
    name for name, flag in OLD_FLAGS.items()
    if flag.today[:1] != (name,) and name not in ("--train", "--load", "--env-args")
]  # fmt: skip
"""Flags that the present command does not have."""


@dataclass
class FlagsRead:
    """Contents of an old command.

    Attributes:
        today: Words of the new command, without the file.
        keys: Keys that each behaviour gets.
        files: Values of ``--curriculum``, ``--sampler`` and ``--lesson``, by name without dashes.
        given: Flags that were given.
        changes: What became of those that have no counterpart of the same name.
    """

    today: list[str] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)


def read_flags(words: Sequence[str]) -> FlagsRead:
    """Reads the arguments of an old command after the file.

    Raises:
        ConfigError: If a flag is unknown, or its value is missing or not a number where it has to be.
    """
    found, rest, last = FlagsRead(), list(words), []
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in OLD_FLAGS:
            near = nearest(name, list(OLD_FLAGS))
            raise ConfigError(
                f"{name}: mlagents-learn 0.13 to 0.16 had no such flag{near}; flags of the old command stand behind "
                "--, before it those of rookery mlagents convert"
            )
        flag = OLD_FLAGS[name]
        if name == "--env-args":
            last, rest = [name, *([value] if equals else []), *rest], []
        elif flag.takes and not equals:
            if not rest:
                raise ConfigError(f"{name}: its value is missing")
            value = rest.pop(0)
        elif equals and not flag.takes:
            raise ConfigError(f"{name}={value}: this flag takes no value")
        found.given.append(name)
        if flag.key:
            if not value.isdecimal() or not int(value):
                raise ConfigError(f"{name} {value}: must be a whole number, 1 or more")
            found.keys[flag.key] = int(value)
        if name in ("--curriculum", "--sampler", "--lesson"):
            found.files[name.removeprefix("--")] = value
        found.today += [word.replace("{}", value) if word == "{}" else word for word in flag.today]
        elsewhere = flag.key or name.removeprefix("--") in found.files or name in ("--env-args", "--train")
        if not elsewhere and flag.today[:1] != (name,):
            found.changes.append(f"{name}: {flag.becomes.replace('`', '')}")
    found.today += last
    return found
