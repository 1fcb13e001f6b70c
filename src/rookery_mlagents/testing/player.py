"""Simulated Unity player: it hosts an environment of Rookery and connects to a trainer, like a Unity game."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

import numpy as np

from rookery.face import RookeryError, Sampler
from rookery_mlagents.link import side_channel_codec as side_channels
from rookery_mlagents.link.messages import (
    GOODBYE,
    OK,
    QUIT,
    RESET,
    AgentInfoProto,
    FloatData,
    HeaderProto,
    UnityMessageProto,
    UnityOutputProto,
    UnityRLCapabilitiesProto,
    UnityRLInitializationInputProto,
    UnityRLInitializationOutputProto,
)
from rookery_mlagents.link.protobuf_classes import proto
from rookery_mlagents.link.protobuf_wire import from_bytes, to_bytes
from rookery_mlagents.testing.player_line import Line, LineLost
from rookery_mlagents.testing.player_options import PlayerOptions, parse
from rookery_mlagents.testing.scene import Scene, SceneAgents, SceneMoment
from rookery_mlagents.testing.sensors import observations
from rookery_mlagents.testing.session_file import SessionWriter

RAW = frozenset({(AgentInfoProto, "observations"), (AgentInfoProto, "action_mask"), (FloatData, "data")})
"""Fields that are written as bytes."""

BALLAST = UUID("1f3d7a52-6f0e-4c86-9d0b-6f1d3f9b2c11")
"""Side channel on which a player sends meaningless bytes, and returns the bytes that it receives."""

CRASHED = 134
"""Exit status of a simulated native crash."""

FOREVER = 3600.0


class PlayerLog:
    """Log of a player.

    Args:
        file: Its path; None for standard error, ``-`` for standard output.
    """

    def __init__(self, file: str | None) -> None:
        self._file: TextIO = sys.stderr if file is None else sys.stdout
        if file not in (None, "-"):
            path = Path(str(file))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", buffering=1)

    def say(self, text: str) -> None:
        """Writes a line."""
        print(text, file=self._file, flush=True)


class PlayerEnded(Exception):
    """Raised to end the player.

    Args:
        status: Its exit status.
        again: Whether it may connect again.
    """

    def __init__(self, status: int, again: bool = False) -> None:
        super().__init__(f"exit status {status}")
        self.status, self.again = status, again


class FakePlayer:
    """Player that ends with its process.

    Args:
        options: How it behaves.
    """

    def __init__(self, options: PlayerOptions) -> None:
        self.options, self.log = options, PlayerLog(options.log)
        self._launch = 1
        if options.count_file:
            path = Path(options.count_file)
            self._launch = 1 + (len(path.read_text().splitlines()) if path.is_file() else 0)
            with path.open("a") as file:
                file.write(f"{os.getpid()}\n")

    def run(self) -> int:
        """Plays until the trainer or the player itself ends the session; returns the exit status."""
        options = self.options
        self.log.say(f"Rookery's pretended Unity player, package {options.package_version}, API {options.api}")
        self.log.say(f"hosts {options.env} with {options.env_args}, launch {self._launch}, port {options.port}")
        options = faultless(options) if options.only_run not in (0, self._launch) else options
        record = SessionWriter(options.record) if options.record else None
        status = 0
        for session in range(options.sessions):
            if session:
                time.sleep(options.pause)
            later = options.next_env and self._launch + session > 1
            try:
                now = replace(options, env=options.next_env) if later else options
                PlayerSession(now, self.log, record).play()
            except PlayerEnded as end:
                status = end.status
                if not end.again:
                    break
            except RookeryError as error:
                self.log.say(f"Exception: {error}")
                return 1
        return status


def faultless(options: PlayerOptions) -> PlayerOptions:
    """The same player without simulated faults."""
    return replace(options, crash_at=0, hang_at=0, close_at=0, garbage_at=0, garbage_channel_at=0, nan_at=0)


class PlayerSession:
    """Session of a player, from its connection to its end.

    Args:
        options: How it behaves.
        log: Its log.
        record: What all messages are written to, if anything.
    """

    def __init__(self, options: PlayerOptions, log: PlayerLog, record: SessionWriter | None) -> None:
        self._options, self._say, self._record = options, log.say, record
        self._message = proto(UnityMessageProto, RAW)
        self._announced: set[str] = set()
        self._parameters: dict[str, float | Sampler] = {}
        self._outbox: list[side_channels.Message] = []
        self._trainer = UnityRLCapabilitiesProto()
        self._scene: Scene | None = None
        self._due: list[SceneMoment] = []
        self._reset = False

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Connects, plays, and disconnects.

        Raises:
            PlayerEnded: Always.
        """
        if -1 in (self._options.crash_at, self._options.hang_at):
            self._fault(-1)
        with Line(self._options.port, self._record, self._options.patience) as line:
            try:
                areas, seed = self._greet(line)
                self._begin(line, areas, seed)
                while True:
                    self._turn(line)
            except LineLost as error:
                self._say(f"the trainer is gone: {error}")
                raise PlayerEnded(1 if self._scene is None else 0) from None
            finally:
                if self._scene is not None:
                    self._scene.close()

    def _greet(self, line: Line) -> tuple[int, int]:
        """Connects to the trainer; returns the requested number of areas and the seed."""
        options = self._options
        major, minor = options.api_number
        can = UnityRLCapabilitiesProto(
            True, *((major, minor) >= since for since in ((1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 5)))
        )
        introduction = UnityRLInitializationOutputProto(
            name="Rookery",
            communication_version=options.api,
            log_path=options.log or "",
            package_version=options.package_version,
            capabilities=can if major else None,
        )
        output = UnityMessageProto(HeaderProto(OK), UnityOutputProto(rl_initialization_output=introduction))
        answer = from_bytes(UnityMessageProto, line.exchange(to_bytes(output)))
        greeting = None if answer.unity_input is None else answer.unity_input.rl_initialization_input
        if answer.header is None or answer.header.status != OK or greeting is None:
            self._say("the trainer has refused the connection")
            raise PlayerEnded(1)
        self._check_versions(greeting)
        self._trainer = greeting.capabilities or UnityRLCapabilitiesProto()
        areas = options.areas * max(greeting.num_areas, 1)
        self._say(f"connected; seed {greeting.seed}, {areas} areas, trainer {greeting.package_version}")
        return areas, greeting.seed

    def _check_versions(self, greeting: UnityRLInitializationInputProto) -> None:
        """Ends the player if a Unity player would refuse the version of the trainer."""
        own_version, trainer_version = self._options.api, greeting.communication_version
        exact = own_version.startswith("0.")
        if (
            (trainer_version != own_version)
            if exact
            else (trainer_version.partition(".")[0] != own_version.partition(".")[0])
        ):
            self._say(
                f"the trainer speaks API {trainer_version}, the player {own_version}: they do not understand each other"
            )
            raise PlayerEnded(1)
        package = tuple(int(part) for part in greeting.package_version.split(".")[:3] if part.isdecimal())
        if not exact and self._options.package_version.startswith("1.") and package > LAST_FOR_PACKAGE_1:
            self._say(f"Incompatible trainer version {greeting.package_version}")
            raise PlayerEnded(1)

    def _begin(self, line: Line, areas: int, seed: int) -> None:
        """Sends the empty message, and handles the answer."""
        self._received(line.exchange(to_bytes(UnityMessageProto(HeaderProto(OK)))))
        self._scene = Scene(self._options, areas, seed, self._parameters)
        for name in self._scene.unknown:
            self._say(f"parameter {name}: the environment has none of that name")
        self._due, self._reset = self._scene.reset(), False

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _turn(self, line: Line) -> None:
        """Requests decisions if an agent needs one, and steps the environment."""
        scene = self._scene
        assert scene is not None
        self._fault(scene.steps, line)
        if any(len(one.asking.rows) or len(one.ended.rows) for one in self._due):
            answer = self._received(line.exchange(self._written()))
            if self._reset:
                self._due, self._reset = scene.reset(), False
                return
            self._obey(answer)
        began = time.perf_counter()
        self._due = scene.step()
        if self._options.step_seconds:
            time.sleep(max(0.0, self._options.step_seconds - (time.perf_counter() - began)))

    def _written(self) -> bytes:
        """Returns the message of the current step."""
        assert self._scene is not None
        options, message = self._options, self._message()
        message.header.status = OK
        rl_output = message.unity_output.rl_output
        new = message.unity_output.rl_initialization_output.brain_parameters
        for moment in self._due:
            name, asking, ended = moment.behavior.name, moment.asking, moment.ended
            infos = rl_output.agent_infos[name].value
            if 0 < options.nan_at <= self._scene.steps:
                self._spoil(moment)
            self._add(infos, moment, ended, is_over=True)
            self._add(infos, moment, asking, is_over=False)
            if len(infos) and name not in self._announced:
                self._announced.add(name)
                new.add().MergeFromString(to_bytes(moment.behavior.actions.brain(self._trainer.hybrid_actions)))
                self._say(f"behaviour {name} has {len(moment.behavior.rows)} agents")
        if not len(new):
            message.unity_output.ClearField("rl_initialization_output")
        rl_output.side_channel = self._side_channel()
        return bytes(message.SerializeToString())

    def _add(self, infos: Any, moment: SceneMoment, agents: SceneAgents, *, is_over: bool) -> None:
        """Writes the agents of a behaviour."""
        if not len(agents.rows):
            return
        behavior = moment.behavior
        grouped = self._options.api_number >= (1, 5) and self._trainer.multi_agent_groups
        seen = observations(behavior.sensors, agents.obs)
        masks = None
        if "action_mask" in agents.obs and not is_over:
            masks = behavior.actions.flags(agents.obs["action_mask"])
        groups = behavior.groups[np.searchsorted(behavior.rows, agents.rows)].tolist()
        for at, (one, reward) in enumerate(zip(agents.ids.tolist(), agents.reward.tolist(), strict=True)):
            info = infos.add(id=one, reward=reward, observations=seen[at])
            if is_over:
                info.ended, info.max_step_reached = True, bool(agents.truncated[at])
            if masks is not None:
                info.action_mask = masks[at].tobytes()
            if grouped and groups[at]:
                info.group_id, info.group_reward = groups[at], float(agents.group_reward[at])

    def _obey(self, answer: Any) -> None:
        """Passes the actions of an answer to the agents."""
        assert self._scene is not None
        for moment in self._due:
            name, rows = moment.behavior.name, moment.asking.rows
            if not len(rows) or name not in answer.agent_actions:
                continue
            given = answer.agent_actions[name].value
            if not len(given):
                continue
            if len(given) < len(rows):
                self._say(f"behaviour {name}: {len(given)} actions for {len(rows)} agents that asked")
                raise PlayerEnded(1)
            self._scene.act(moment.behavior, rows, moment.behavior.actions.read(given[: len(rows)]))

    # -- messages of the trainer ---------------------------------------------------------------------------------------

    def _received(self, content: bytes) -> Any:
        """Reads an answer, and executes its commands, except for actions."""
        answer = self._message.FromString(content)
        if answer.header.status != OK:
            self._say("the trainer has said goodbye")
            raise PlayerEnded(0)
        rl_input = answer.unity_input.rl_input
        if rl_input.side_channel:
            self._listen(rl_input.side_channel)
        if rl_input.command == QUIT:
            self._say("the trainer has asked the player to quit")
            raise PlayerEnded(0)
        self._reset = rl_input.command == RESET
        return rl_input

    def _listen(self, content: bytes) -> None:
        """Reads messages of side channels, and writes them to the log."""
        for channel, payload in side_channels.unpack(content):
            if channel == side_channels.ENGINE:
                for name, value in side_channels.read_engine(payload).items():
                    self._say(f"engine {name} {value:g}")
            elif channel == side_channels.PARAMETERS:
                name, wanted = side_channels.read_parameter(payload)
                self._parameters[name] = wanted
                self._say(f"parameter {name} {wanted if isinstance(wanted, Sampler) else f'{wanted:g}'}")
                if self._scene is not None and not self._scene.set_parameter(name, wanted):
                    self._say(f"parameter {name}: the environment has none of that name")
            elif channel == side_channels.PROPERTIES:
                name, number = side_channels.read_float_property(payload)
                self._say(f"property {name} {number:g}")
            elif channel == BALLAST:
                self._outbox.append((channel, payload))
            else:
                self._say(f"channel {channel}: {len(payload)} bytes")

    def _side_channel(self) -> bytes:
        """Returns the side channel messages to send now."""
        assert self._scene is not None
        options, messages = self._options, self._outbox
        self._outbox = []
        if options.ballast:
            messages.append((BALLAST, bytes(options.ballast)))
        if options.statistics:
            ended = sum(len(one.ended.rows) for one in self._due)
            messages.append(side_channels.statistic("Player/Steps", self._scene.steps, "most_recent"))
            if ended:
                messages.append(side_channels.statistic("Player/Episodes", ended, "sum"))
                for one in self._due:
                    for reward in one.ended.reward.tolist():
                        messages.append(side_channels.statistic("Player/Last Reward", reward, "average"))
                        messages.append(side_channels.statistic("Player/Last Rewards", reward, "histogram"))
        if self._is_at(options.garbage_channel_at):
            return b"\x07" * 33
        return side_channels.pack(messages)

    # -- simulated faults ----------------------------------------------------------------------------------------------

    def _is_at(self, step: int) -> bool:
        return self._scene is not None and step > 0 and self._scene.steps == step

    def _fault(self, step: int, line: Line | None = None) -> None:
        """Causes the simulated fault that is set for a step."""
        options = self._options
        if step in (options.crash_at, options.hang_at, options.close_at, options.garbage_at) and step:
            if step == options.crash_at:
                self._say(f"NullReferenceException: the options make the player crash at step {step}")
                self._say("  at Rookery.Pretended.Agent.OnActionReceived () [0x00000] in Agent.cs:1")
                os._exit(CRASHED)
            if step == options.hang_at:
                self._say(f"the player hangs from step {step} on")
                while True:
                    time.sleep(FOREVER)
            if line is not None and step == options.garbage_at:
                self._say(f"the player sends garbage at step {step}")
                line.exchange(b"\xff" * 64)
            if line is not None and step == options.close_at:
                self._say(f"the player ends at step {step}")
                self._close(line)
                raise PlayerEnded(0, again=True)

    def _close(self, line: Line) -> None:
        with suppress(LineLost):  # the trainer need not answer a goodbye
            line.exchange(to_bytes(UnityMessageProto(HeaderProto(GOODBYE))))

    def _spoil(self, moment: SceneMoment) -> None:
        """Inserts a value that is not a number."""
        wanted = self._options.nan_sensor
        if wanted == "reward":
            moment.asking.reward[:1] = np.nan
            return
        for sensor in moment.behavior.sensors:
            array = moment.asking.obs[sensor.path]
            if wanted in ("", sensor.path) and len(array):
                moment.asking.obs[sensor.path] = spoiled = array.astype(np.float32)
                spoiled.reshape(len(array), -1)[0, -1] = np.nan
                return


LAST_FOR_PACKAGE_1 = 0, 25, 999
"""Latest version of a trainer that players of packages 1.x accept."""


def play(arguments: Sequence[str]) -> int:
    """Plays with the options of a command line; returns the exit status."""
    return FakePlayer(parse(arguments)).run()
