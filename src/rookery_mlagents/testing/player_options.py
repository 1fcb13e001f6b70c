"""Options of a simulated player: the command line of ``python -m rookery_mlagents.testing``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

API_VERSIONS = ("0.15.0", "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0")
"""Supported versions of the communicator's API."""

PACKAGES = {
    "0.15.0": "0.15.1-preview", "1.0.0": "1.0.2", "1.1.0": "1.4.0-preview", "1.2.0": "1.6.0-preview",
    "1.3.0": "1.8.0-preview", "1.4.0": "1.8.1-preview", "1.5.0": "2.0.1",
}  # fmt: skip
"""A Unity package for each version of the API, the default of ``--package`` unless ``--layout`` is chw."""

Layout = Literal["hwc", "chw"]
Pictures = Literal["float", "png", "png_each"]
Ids = Literal["kept", "new"]


@dataclass(frozen=True)
class PlayerOptions:
    """Behaviour of a player.

    Attributes:
        env: The environment, as ``make_env`` takes it.
        env_args: Arguments of its constructor.
        port: Where the trainer listens.
        log: File of the player's log; None for standard error, ``-`` for standard output.
        areas: Environments in the player's scene; the trainer may request several scenes.
        behaviors: Names of behaviours, by patterns of agents' names.
        unity_names: Whether behaviours and sensors are announced as Unity's own are: ``Basic?team=0``,
            ``VectorSensor_size8``. Else behaviours have no team, and sensors the names of their leaves.
        api: Version of the communicator's API.
        package: Package version that the player reports; None for one that fits `api`.
        layout: Which axis of images is that of their channels.
        pictures: How images are sent: as numbers, as PNGs of three channels each, or as a PNG for each channel.
        goals: Leaves whose sensors are goals.
        ids: Whether an agent whose episode ends keeps its id for the next, as those of Unity do that are not disabled,
            or gets a new one.
        period: Environment steps from a decision to the next.
        is_staggered: Whether agents decide at different steps of a period.
        late: Environment steps until the agents of a behaviour appear, by its name.
        set_model: Behaviour to which agents switch, as by ``Agent.SetModel``, with the element of their first sensor
            that decides and its least value: agents with that much are of this behaviour, others of their own. All
            begin with their own, and switch in the first step and with each episode; empty = they never switch.
        statistics: Whether the player reports statistics.
        ballast: Bytes that each message carries on a side channel besides, so that it is large.
        step_seconds: Seconds that a step of the environment takes at least.
        crash_at: Environment step at which the process dies, without a word; -1 before the player connects.
        hang_at: Environment step at which nothing comes any more; -1 before the player connects.
        close_at: Environment step at which the player says goodbye and ends.
        garbage_at: Environment step at which the player sends bytes that are no message.
        garbage_channel_at: Environment step at which it sends invalid side channel messages.
        nan_at: Environment step at which there is a number in an observation that is none.
        nan_sensor: Leaf whose sensor gives it; empty for the first, ``reward`` for the reward.
        is_silent: Whether no agent ever requests a decision.
        patience: Seconds to wait for a trainer that does not listen yet; players of Unity have none.
        sessions: How often the player plays: it connects again after it has said goodbye, as an Editor does whose Play
            is pressed again.
        pause: Seconds between two of these.
        count_file: File in which the player counts its launches.
        only_run: The launch, from 1, to which crashes and the like are confined; 0 for each.
        next_env: The environment that it hosts from the second launch or session on; empty for the same.
        record: File to which all messages are written; empty for none.
    """

    env: str
    env_args: dict[str, Any]
    port: int
    log: str | None = None
    areas: int = 1
    behaviors: tuple[tuple[str, str], ...] = ()
    unity_names: bool = False
    api: str = "1.5.0"
    package: str | None = None
    layout: Layout = "hwc"
    pictures: Pictures = "float"
    goals: tuple[str, ...] = ()
    ids: Ids = "kept"
    period: int = 1
    is_staggered: bool = False
    late: tuple[tuple[str, int], ...] = ()
    set_model: tuple[str, int, float] = ("", 0, 0.0)
    statistics: bool = False
    ballast: int = 0
    step_seconds: float = 0.0
    crash_at: int = 0
    hang_at: int = 0
    close_at: int = 0
    garbage_at: int = 0
    garbage_channel_at: int = 0
    nan_at: int = 0
    nan_sensor: str = ""
    is_silent: bool = False
    patience: float = 0.0
    sessions: int = 1
    pause: float = 0.0
    count_file: str = ""
    only_run: int = 0
    next_env: str = ""
    record: str = ""

    @property
    def api_number(self) -> tuple[int, int]:
        """Major and minor number of the API."""
        major, minor, _ = self.api.split(".")
        return int(major), int(minor)

    @property
    def package_version(self) -> str:
        """The package version that the player reports."""
        return self.package or ("3.0.0" if self.layout == "chw" else PACKAGES[self.api])


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, without the port and the log, which are Unity's flags."""
    found = argparse.ArgumentParser("python -m rookery_mlagents.testing", description=__doc__, allow_abbrev=False)
    add = found.add_argument
    add("env", metavar="ENV", help="environment: a Gymnasium id, rookery.tasks:Basic, my.module:MyEnv")
    add("--env-args", nargs="*", default=[], metavar="K=V", help="arguments of its constructor")
    add("--num-areas", type=_at_least_one, default=1, help="copies in the scene; trainers may ask for several scenes")
    add("--behavior", action="append", default=[], metavar="AGENT=NAME", help="behaviour of agents, by a pattern")
    add("--unity-names", action="store_true", help="names as Unity's: Basic?team=0, VectorSensor_size8")
    add("--api", choices=API_VERSIONS, default="1.5.0", help="version of the communicator's API")
    add("--package", help="version of Unity's package that the player reports")
    add("--layout", choices=get_args(Layout), default="hwc", help="axes of images; chw as in package 3")
    add("--pictures", choices=get_args(Pictures), default="float", help="how images are sent")
    add("--goal", action="append", default=[], metavar="PART", help="part of observations whose sensor is a goal")
    add("--ids", choices=get_args(Ids), default="kept", help="of agents whose next episode begins")
    add("--decision-period", type=_at_least_one, default=1, help="environment steps from decision to decision")
    add("--stagger", action="store_true", help="agents decide at different steps of a period")
    add("--late", action="append", default=[], metavar="NAME:STEPS", help="agents of a behaviour appear late")
    add("--set-model", default="", metavar="NAME:INDEX:LEAST", help="behaviour to which agents switch, and when")
    add("--stats", action="store_true", help="report statistics")
    add("--ballast", type=int, default=0, metavar="BYTES", help="each message carries so much besides")
    add("--step-seconds", type=float, default=0.0, help="seconds that a step takes at least")
    for fault, description in (
        ("crash", "the process dies (-1: before it connects)"),
        ("hang", "nothing comes any more (-1: before it connects)"),
        ("close", "the player says goodbye"),
        ("garbage", "bytes are sent that are not a message"),
        ("garbage-channel", "bytes are sent on side channels that are none"),
        ("nan", "a number is NaN"),
    ):
        add(f"--{fault}-at", type=int, default=0, metavar="STEP", help=description)
    add("--nan-sensor", default="", metavar="PART", help="where that is; `reward` for the reward")
    add("--silent", action="store_true", help="no agent asks for a decision")
    add("--sessions", type=_at_least_one, default=1, help="connect so often, as an Editor does")
    add("--pause", type=float, default=0.0, metavar="SECONDS", help="between two sessions")
    add("--count-file", default="", metavar="FILE", help="counts how often the player was launched")
    add("--only-run", type=int, default=0, metavar="N", help="crashes and the like happen in launch N alone")
    add("--next-env", default="", metavar="ENV", help="environment from the second launch or session on")
    add("--record", default="", metavar="FILE", help="write all messages to a file")
    return found


def unity_flags(found: argparse.ArgumentParser) -> None:
    """Adds the flags with which trainers start a player, and its timeout for the connection."""
    found.add_argument("--mlagents-port", type=int, default=5004, metavar="P", help="where the trainer listens")
    found.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for a trainer that is not there yet")
    found.add_argument("-logFile", default=None, metavar="F", help="the player's log; - for standard output")
    found.add_argument("-batchmode", action="store_true", help="no window; there is none here")
    found.add_argument("-nographics", action="store_true", help="nothing is drawn; images are sent all the same")


def parse(arguments: Sequence[str]) -> PlayerOptions:
    """Reads a command line; unknown flags are ignored, as in Unity.

    Raises:
        SystemExit: If an option has no proper value.
    """
    reader = parser()
    unity_flags(reader)
    given, _ = reader.parse_known_args(arguments)
    try:
        late = tuple((name, int(steps)) for name, steps in (_pair(one, ":") for one in given.late))
    except ValueError:
        reader.error("--late: expected NAME:STEPS, as in Runner:1000")
    try:
        switched, index, least = given.set_model.rsplit(":", 2) if given.set_model else ("", 0, 0)
        set_model = (switched, int(index), float(least))
    except ValueError:
        reader.error("--set-model: expected NAME:INDEX:LEAST, as in BigWallJump:6:0.5")
    pairs = [_pair(one, "=") for one in (*given.env_args, *given.behavior)]
    if wrong := [one for one, pair in zip((*given.env_args, *given.behavior), pairs, strict=True) if not pair[0]]:
        reader.error(f"{wrong[0]!r}: expected NAME=VALUE")
    return PlayerOptions(
        env=given.env,
        env_args={name: _value(value) for name, value in pairs[: len(given.env_args)]},
        port=given.mlagents_port,
        log=given.logFile,
        areas=given.num_areas,
        behaviors=tuple(pairs[len(given.env_args) :]),
        unity_names=given.unity_names,
        api=given.api,
        package=given.package,
        layout=given.layout,
        pictures=given.pictures,
        goals=tuple(given.goal),
        ids=given.ids,
        period=given.decision_period,
        is_staggered=given.stagger,
        late=late,
        set_model=set_model,
        statistics=given.stats,
        ballast=given.ballast,
        step_seconds=given.step_seconds,
        crash_at=given.crash_at,
        hang_at=given.hang_at,
        close_at=given.close_at,
        garbage_at=given.garbage_at,
        garbage_channel_at=given.garbage_channel_at,
        nan_at=given.nan_at,
        nan_sensor=given.nan_sensor,
        is_silent=given.silent,
        patience=given.wait,
        sessions=given.sessions,
        pause=given.pause,
        count_file=given.count_file,
        only_run=given.only_run,
        next_env=given.next_env,
        record=given.record,
    )


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} (expected at least 1)")
    return number


def _pair(text: str, mark: str) -> tuple[str, str]:
    """Splits a text at the last separator; the first part is empty without one."""
    name, _, value = text.rpartition(mark) if mark == ":" else text.partition(mark)
    return (name, value) if mark in text else ("", value)


def _value(text: str) -> Any:
    """Parses a value as JSON; returns other texts unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)
