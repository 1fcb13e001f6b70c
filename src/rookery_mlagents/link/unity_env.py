"""`UnityEnv`: Unity players as an environment, for ``--env Build/Game`` and ``--env unity:editor``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rookery.face import AsyncCopiesEnv, CountFromZero, Few, FewFromZero, Label, Reaches, Width, Within
from rookery_mlagents.link.player_channel import PlayerChannel
from rookery_mlagents.link.players import UnityPlayers, settings_from


class UnityEnv(AsyncCopiesEnv):
    """A Unity player in each lane, or the Unity Editor as the only one.

    Every argument but `num_lanes` is in `env.config`. A class derived from this one gives a game channels of its
    own, and is named as an environment in Python is, ``my.module:MyGame``:

        class MyGame(UnityEnv):
            def __init__(self, num_lanes, **config):
                super().__init__(num_lanes, "Build/MyGame", channels=[Levels(...)], **config)

    Args:
        num_lanes: Players.
        file_name: The program that Unity has built, with or without .x86_64, .exe or .app, or its folder; None = the
            Editor, where the user presses Play.
        args: More arguments of the program.
        no_graphics: Whether players draw nothing: no images are observed then.
        no_graphics_monitor: Whether all players but the first draw nothing.
        seed: Seed of the first player, None = 0; others count on from it.
        base_port: Port that the first player dials; others dial those that follow, and taken ones are passed over;
            None = 5005, of the Editor 5004.
        timeout_wait: Seconds that a player may take to connect, to ask for a first decision, and for a step.
        log_folder: Folder for the files ``Player-N.log``; None = ``run_logs`` in the folder of the run, or a temporary
            folder where there is none.
        width: Width of the window.
        height: Height of the window.
        quality_level: One of the quality settings of the Unity project, by its number.
        time_scale: Speed of the game relative to real time.
        target_frame_rate: Frames a second that it aims at; -1 = as many as it can.
        capture_frame_rate: Frames of a second of the game, however long they take; 0 = as they come.
        max_lifetime_restarts: Maximum number of replacements of a lane's player; -1 = any number.
        restarts_rate_limit_n: Maximum number within `restarts_rate_limit_period_s` seconds; -1 = any number.
        restarts_rate_limit_period_s: These seconds.
        num_areas: Training areas that a scene with a TrainingAreaReplicator makes.
        package_version: Version of ML-Agents' Python package that players receive; empty = one that each accepts,
            as old players refuse newer versions.
        communication_version: Version of the protocol that players receive.
        channels: Side channels of one's own.

    Raises:
        EnvError: If there is no such program, it is for another system, a port is taken, or players do not come to ask
            for decisions: it never connected, no agent asks, it has ended (with the end of its log), or its version
            cannot be spoken to.
    """

    run_arguments = frozenset(
        ("no_graphics", "no_graphics_monitor", "base_port", "timeout_wait", "log_folder", "width", "height",
         "quality_level", "time_scale", "target_frame_rate", "capture_frame_rate", "max_lifetime_restarts",
         "restarts_rate_limit_n", "restarts_rate_limit_period_s", "package_version", "communication_version")
    )  # fmt: skip
    """Arguments of how players run, which may change when a run resumes (`make.run_arguments`)."""

    def __init__(
        self,
        num_lanes: int,
        file_name: Annotated[str | Path, Reaches("a program", is_file=True)] | None = None,
        *,
        args: Annotated[Sequence[str], Reaches("a program")] = (),
        no_graphics: bool = False,
        no_graphics_monitor: bool = False,
        seed: CountFromZero | None = None,
        base_port: Annotated[int, Within(65_535)] | None = None,
        timeout_wait: float = 60.0,
        log_folder: Annotated[str | Path, Reaches("a path", default_will_do=True)] | None = None,
        width: Width = 84,
        height: Width = 84,
        quality_level: FewFromZero = 5,
        time_scale: float = 20.0,
        target_frame_rate: CountFromZero = -1,
        capture_frame_rate: CountFromZero = 60,
        max_lifetime_restarts: CountFromZero = 10,
        restarts_rate_limit_n: CountFromZero = 1,
        restarts_rate_limit_period_s: float = 60.0,
        num_areas: Few = 1,
        package_version: Label = "",
        communication_version: Label = "1.5.0",
        channels: Annotated[Sequence[PlayerChannel], Reaches("code")] = (),
    ) -> None:
        settings = settings_from(
            {
                "file_name": None if file_name is None else str(file_name),
                "args": args,
                "no_graphics": no_graphics,
                "no_graphics_monitor": no_graphics_monitor,
                "seed": seed or 0,
                "base_port": base_port,
                "timeout_wait": timeout_wait,
                "width": width,
                "height": height,
                "quality_level": quality_level,
                "time_scale": time_scale,
                "target_frame_rate": target_frame_rate,
                "capture_frame_rate": capture_frame_rate,
                "max_lifetime_restarts": max_lifetime_restarts,
                "restarts_rate_limit_n": restarts_rate_limit_n,
                "restarts_rate_limit_period_s": restarts_rate_limit_period_s,
                "num_areas": num_areas,
                "package_version": package_version,
                "communication_version": communication_version,
            }
        )
        self.players = UnityPlayers(num_lanes, settings, tuple(channels), log_folder)
        super().__init__(self.players, num_lanes)
        self.only_one = True  # others would be games started beside, for every evaluation
        self.reported = self.players.reported
