"""Unity players, or the Editor, as asynchronous environments: start, monitoring and restart.

A player connects and requests actions; a `link.PlayerLink` is the server side of one connection. `UnityPlayers`
has one per lane, sends players what they need (engine settings, parameters), passes on their messages, and replaces a
player that fails. In a player episodes are those of agents; it never ends by itself.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from rookery.face import (
    Answer,
    CopyBehavior,
    EnvError,
    EpisodePlan,
    ReportedNumbers,
    Sampler,
    SeedPlan,
    StepMessage,
    Value,
    absolute,
    first_plan,
    is_number,
    log_folder,
    parameters_of,
    slots_of,
)
from rookery_mlagents.link.any_parameters import ANY_NUMBER
from rookery_mlagents.link.grpc_server import Closed, Greeting, Hello, Mailbox, Output, PlayerLink, PlayerMessage
from rookery_mlagents.link.layouts import BehaviorLayout
from rookery_mlagents.link.player_channel import PlayerChannel
from rookery_mlagents.link.player_program import PlayerProcess, find_player, short_name
from rookery_mlagents.link.side_channel_codec import Inbox, Message, engine, pack, parameter

EDITOR_PORT = 5004
PLAYER_PORT = 5005
"""Ports to which the Editor and the first player connect; other players use the following ones."""

PORTS = 1000
"""Number of ports tried for a player, from its own on."""

LOOK = 0.25
"""Seconds between two checks that players still run and respond in time."""

FAREWELL = 3.0
"""Timeout in seconds for a player to quit by itself."""

SEEDS = 2**31
"""Upper bound of the seeds of samplers."""

CAUSES = {
    "exited": "players_exited",
    "closed": "players_closed",
    "hung": "players_hung",
}
"""Counters of lost players, by cause."""


BROKEN = "side_channel_broken"
"""Counter of side channel messages that could not be read."""


@dataclass(frozen=True)
class PlayerSettings:
    """Settings of players: how they start, and what they receive.

    Attributes:
        file_name: The program, as `program.find_player` takes it; None = the Editor.
        args: More arguments of the program.
        no_graphics: Whether it draws nothing.
        no_graphics_monitor: Whether all but the first draw nothing.
        seed: Seed of the first player; others count on from it.
        base_port: Port of the first player; None = 5005, of the Editor 5004.
        timeout_wait: Seconds that a player may take to connect, and for a step.
        width: Width of its window.
        height: Height of its window.
        quality_level: One of the quality settings of the Unity project, by its number.
        time_scale: Speed of the game relative to real time.
        target_frame_rate: Frames a second that it aims at; -1 = as many as it can.
        capture_frame_rate: Frames of a second of the game, which then take as long as they take; 0 = real time.
        max_lifetime_restarts: Maximum number of replacements of a player; -1 = any number.
        restarts_rate_limit_n: Maximum number within `restarts_rate_limit_period_s` seconds; -1 = any number.
        restarts_rate_limit_period_s: These seconds.
        num_areas: Training areas that a scene with a replicator makes.
        package_version: Version of ML-Agents' Python package that players receive; empty = one that each accepts.
        communication_version: Version of the protocol that players receive.
    """

    file_name: str | None = None
    args: tuple[str, ...] = ()
    no_graphics: bool = False
    no_graphics_monitor: bool = False
    seed: int = 0
    base_port: int | None = None
    timeout_wait: float = 60.0
    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60
    max_lifetime_restarts: int = 10
    restarts_rate_limit_n: int = 1
    restarts_rate_limit_period_s: float = 60.0
    num_areas: int = 1
    package_version: str = ""
    communication_version: str = "1.5.0"

    def __post_init__(self) -> None:
        """Raises an error for invalid settings."""
        for name, least in (("timeout_wait", 0), ("time_scale", 0), ("width", 1), ("height", 1), ("num_areas", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < least or not value:
                raise EnvError(f"env.config.{name} = {value!r}: must be a number above 0")
        port = self.base_port
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
            raise EnvError(f"env.config.base_port = {port!r}: must be a port from 1 to 65535")


class _Post(Mailbox):
    """Mailbox of one connection; it marks messages, to distinguish them from those of an earlier player."""

    def __init__(self, all_mail: Mailbox, number: int) -> None:
        self._all, self.number = all_mail, number

    def put(self, lane: int, message: PlayerMessage) -> None:
        """Adds a message of the player."""
        self._all.put(self.number, message)


class _Life:
    """One player of a lane, from its start or connection to its end.

    Attributes:
        link: Our end of the connection.
        number: Mark of its messages.
        process: The program; None of the Editor.
        stage: ``connecting``; ``beginning``: asked to begin; ``asking``: its message waits for us; ``shown``: that
            has been handed out; ``playing``: it has an answer.
        since: When it began to owe us something.
        output: Its message that was not taken yet.
        is_fresh: Whether it has done nothing but begin.
        is_first: Whether `output` is the first after a reset, so that ends in it belong to no agent.
        must_begin: Whether it is to begin anew with its next message.
    """

    def __init__(self, link: PlayerLink, number: int, process: PlayerProcess | None) -> None:
        self.link, self.number, self.process = link, number, process
        self.stage = "connecting"
        self.since = time.monotonic()
        self.sent_parameters: dict[str, object] = {}
        """Parameters that were sent to the player, with their values."""

        self.output: Output | None = None
        self.is_fresh = True
        self.is_first = True
        self.must_begin = False


@dataclass
class _Lane:
    """State of a lane, kept when its player is replaced."""

    life: _Life
    restarts: list[float] = field(default_factory=list)
    is_lost: bool = False
    episode: int = 0
    is_due: bool = True
    """Whether parameters may have changed since the last answer to the player."""
    inbox: Inbox = field(default_factory=Inbox)


class UnityPlayers:
    """All players of an environment; see `clocked.arrival.Copies`.

    Players are started at once, and behaviours are known when this returns.

    Args:
        num_lanes: Number of players; 1 for the Editor.
        settings: How they are started.
        channels: Side channels of the user's own.
        folder: Folder for their logs; None = the run's, or a temporary one.
        say: Receives lines that a user should read at once.

    Raises:
        EnvError: If there is no such program, a port is taken, or a player does not come to ask for a decision; names
            the cause.
    """

    own_episodes = True
    parameters: Mapping[str, Any] = ANY_NUMBER

    def __init__(
        self,
        num_lanes: int,
        settings: PlayerSettings,
        channels: tuple[PlayerChannel, ...] = (),
        folder: str | Path | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.settings, self._channels, self._say = settings, channels, say or _to_stderr
        self.is_editor = settings.file_name is None
        if self.is_editor and num_lanes != 1:
            raise EnvError(f"the Unity Editor is one copy, and sampling.num_envs = {num_lanes}: set it to 1")
        self.program = None if settings.file_name is None else find_player(settings.file_name)
        self.name = "Unity Editor" if settings.file_name is None else short_name(settings.file_name)
        self.notes: tuple[str, ...] = (
            f"{self.name}: a player runs at its own speed, so runs do not repeat bit for bit (exact: false)",
        )
        self.counters: dict[str, int] = {}
        self.behaviors: Mapping[str, CopyBehavior] = {}
        self.layouts: dict[str, BehaviorLayout] = {}
        self.reported = ReportedNumbers()
        self._plan = first_plan(self.parameters)
        self._mailbox = Mailbox()
        self._lives = 0
        self._lanes: list[_Lane] = []
        self._temporary: Path | None = None
        self._play_requested = False
        self._looked = 0.0
        self._is_ready = False
        self._is_closed = False
        for own in channels:
            own.open(num_lanes)
        self._folder = absolute(folder) if folder is not None else log_folder() or self._temporary_folder()
        try:
            for lane in range(num_lanes):
                self._lanes.append(_Lane(self._start(lane)))
            self._wait_for_all()
        except BaseException:
            self.close()
            raise
        self._is_ready = True

    def _temporary_folder(self) -> Path:
        self._temporary = Path(tempfile.mkdtemp(prefix="rookery-players-"))
        return self._temporary

    # -- starting ------------------------------------------------------------------------------------------------------

    def _start(self, lane: int, port: int | None = None) -> _Life:
        """Opens a port and starts a player that connects to it."""
        settings = self.settings
        again = len(self._lanes[lane].restarts) if lane < len(self._lanes) else 0
        hello = Hello(
            package_version=settings.package_version,
            communication_version=settings.communication_version,
            seed=settings.seed + lane + again * max(len(self._lanes), 1),
            num_areas=settings.num_areas,
        )
        self._lives += 1
        post = _Post(self._mailbox, self._lives)
        if self.program is None:
            link = PlayerLink(lane, post, settings.base_port or EDITOR_PORT, hello)
            self._ask_to_play()
            return _Life(link, post.number, None)
        base = settings.base_port or PLAYER_PORT
        link = self._free_link(lane, port or base + lane, hello, post)
        draws = settings.no_graphics or (settings.no_graphics_monitor and lane > 0)
        arguments = ["-nographics", "-batchmode"] if draws else []
        arguments += ["--mlagents-port", str(link.port)]
        log = self._folder / f"Player-{link.port - base}.log"
        try:
            process = PlayerProcess(self.program, arguments, log, settings.args)
            return _Life(link, post.number, process)
        except BaseException:
            link.close()
            raise

    def _free_link(self, lane: int, first: int, hello: Hello, post: _Post) -> PlayerLink:
        """Opens the first free port from a given one on."""
        held = {one.life.link.port for one in self._lanes if one.life.stage != "gone"}
        for port in range(first, min(first + PORTS, 65536)):
            if port not in held:
                try:
                    return PlayerLink(lane, post, port, hello)
                except EnvError:
                    continue
        raise EnvError(f"{self.name}, player {lane}: no port from {first} on is free; give another base_port")

    def _ask_to_play(self) -> None:
        """Asks the user once to press Play in the Editor."""
        if not self._play_requested:
            port = self.settings.base_port or EDITOR_PORT
            self._say(f"waiting for the Unity Editor on port {port}: press Play there")
            self._play_requested = True

    def _wait_for_all(self) -> None:
        """Waits until every player has sent observations; then the behaviours are known."""
        while any(one.life.output is None for one in self._lanes):
            self._receive(LOOK)
        first: dict[str, tuple[int, ...]] = {}
        for lane, one in enumerate(self._lanes):
            assert one.life.output is not None
            arrival = StepMessage(lane, one.life.output.asking)
            for name, seats in slots_of(arrival).items():
                first[name] = max(first.get(name, ()), seats, key=len)
        for layout in self.layouts.values():
            self.notes += layout.notes
        self.behaviors = {
            name: CopyBehavior(layout.obs, layout.action, first.get(name, (-1,)), sensors=layout.sensor_names)
            for name, layout in self.layouts.items()
        }

    # -- what players say ----------------------------------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        """Waits for messages, `seconds` at most and not beyond the next check of the players; handles them."""
        for number, message in self._mailbox.take(min(seconds, LOOK)):
            lane = next((lane for lane, one in enumerate(self._lanes) if one.life.number == number), None)
            if lane is None:
                continue  # of one that is gone
            if isinstance(message, Closed):
                self._closed(lane, message)
            elif isinstance(message, Greeting):
                self._greeted(lane)
            elif isinstance(message, Output):
                self._take_output(lane, message)
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked = now
            for lane in range(len(self._lanes)):
                self._look_after(lane, now)

    def _greeted(self, lane: int) -> None:
        """Handles the greeting of a player."""
        life = self._lanes[lane].life
        life.stage, life.since = "greeted", time.monotonic()
        if self.is_editor and self._lanes[lane].is_lost:
            self._say("the Unity Editor is back")

    def _take_output(self, lane: int, output: Output) -> None:
        """Handles a message of a player."""
        life = self._lanes[lane].life
        if output.side_channel:
            self._read(lane, output.side_channel)
        self._learn_of(lane, output)
        if output.first or life.must_begin:
            self._let_begin(lane)
            return
        life.is_first = life.stage == "beginning"
        if life.is_first and not output.asking:
            life.link.answer({})  # it continues, and so does its time for a first request
            return
        life.output, life.stage = output, "asking"

    def _let_begin(self, lane: int) -> None:
        """Sends a player the command to begin, with its settings."""
        one, life = self._lanes[lane], self._lanes[lane].life
        mail: list[Message] = []
        if life.stage in ("connecting", "greeted"):
            life.sent_parameters.clear()
            settings = self.settings
            mail += engine(
                width=settings.width,
                height=settings.height,
                quality_level=settings.quality_level,
                time_scale=settings.time_scale,
                target_frame_rate=settings.target_frame_rate,
                capture_frame_rate=settings.capture_frame_rate,
            )
        mail += self._parameters(lane, one.episode)
        one.is_due = True
        life.output, life.must_begin = None, False
        life.stage, life.since = "beginning", time.monotonic()
        life.link.answer({}, pack([*mail, *self._mail(lane)]), reset=True)

    def _learn_of(self, lane: int, output: Output) -> None:
        """Records behaviours; the observations and actions of a known one must not change."""
        for name, layout in output.new.items():
            known = self.layouts.get(name)
            if known is None:
                self.layouts[name] = layout
                if self._is_ready:
                    seats = slots_of(StepMessage(lane, output.asking)).get(name, (-1,))
                    behavior = CopyBehavior(layout.obs, layout.action, seats, sensors=layout.sensor_names)
                    self.behaviors = {**self.behaviors, name: behavior}
            elif known.obs != layout.obs or known.action != layout.action:
                raise EnvError(
                    f"{self._player(lane)}: behaviour {name} now sees {layout.obs.space} and does "
                    f"{layout.action.space}; when training began it saw {known.obs.space} and did "
                    f"{known.action.space}: a policy cannot continue with other spaces; undo the change in the scene, "
                    "or begin a new run"
                )

    def _read(self, lane: int, blob: bytes) -> None:
        """Handles side channel messages; unreadable ones are counted, and reported once."""
        inbox = self._lanes[lane].inbox
        broken = inbox.num_broken
        if problem := inbox.receive(blob):
            self._say(f"{self._player(lane)}: a message of a side channel cannot be read and is passed over: {problem}")
        if more := inbox.num_broken - broken:
            self.counters[BROKEN] = self.counters.get(BROKEN, 0) + more
        for statistic in inbox.statistics:
            self.reported.add(statistic.name, statistic.value, statistic.how)
        for channel, message in inbox.raw:
            for own in self._channels:
                if own.id == channel:
                    own.receive(lane, message)
        inbox.statistics, inbox.raw = [], []

    # -- players that fail ---------------------------------------------------------------------------------------------

    def _player(self, lane: int) -> str:
        """Names a player for a message."""
        port = self._lanes[lane].life.link.port
        return f"{self.name}, port {port}" if self.is_editor else f"{self.name}, player {lane}, port {port}"

    def _closed(self, lane: int, message: Closed) -> None:
        """Handles a player that has disconnected, or cannot be used."""
        life = self._lanes[lane].life
        if message.refused:
            self._refuse(lane, message.reason)
        if life.process is not None:
            life.process.wait(1.0)
        if life.process is not None and life.process.failed():
            self._lose(lane, "exited", life.process.end())
        else:
            self._lose(lane, "closed", message.reason)

    def _refuse(self, lane: int, reason: str) -> NoReturn:
        """Stops the run because of a player that would fail again."""
        life = self._lanes[lane].life
        what = f"{self._player(lane)} {reason}"
        if life.process is not None:
            life.process.close(1.0)
            what += f"\n{life.process.tail()}"
        raise EnvError(what)

    def _look_after(self, lane: int, now: float) -> None:
        """Checks that a player still runs and responds in time."""
        life = self._lanes[lane].life
        if life.stage in ("asking", "shown"):
            return  # it waits for this answer; if it is gone, nothing reads the answer, and the next check detects it
        if life.process is not None and life.process.has_ended():
            self._lose(lane, "exited", life.process.end())
        elif now - life.since > self.settings.timeout_wait and not self._may_wait(life):
            self._lose(lane, "hung", self._why_late(lane))

    def _may_wait(self, life: _Life) -> bool:
        """Returns whether there is no time limit: in the Editor, until Play is pressed again."""
        return self.is_editor and self._is_ready and life.stage == "connecting"

    def _why_late(self, lane: int) -> str:
        """Describes the action for which a player is late."""
        life, seconds = self._lanes[lane].life, f"{self.settings.timeout_wait:g} seconds"
        if life.stage == "connecting" and self.is_editor:
            return (
                f"waited {seconds} and no player connected: open the project in Unity and press Play, or name a player"
            )
        if life.stage == "connecting":
            return (
                f"was started and has not connected within {seconds}: is it a game with ML-Agents in it, and does its "
                "first scene have an agent? One that needs longer to start needs a larger timeout_wait"
            )
        if life.stage in ("greeted", "beginning"):
            return (
                f"is connected, and no agent has asked for a decision within {seconds}: give each agent a "
                "Decision Requester, or call RequestDecision, and set its Behavior Type to Default, not to Heuristic "
                "Only or Inference Only"
            )
        return f"has sent no message for {seconds}"

    def _lose(self, lane: int, how: str, why: str) -> None:
        """Replaces a failed player, up to the allowed number of times.

        Raises:
            EnvError: If it has failed before training began, or too often.
        """
        one, life = self._lanes[lane], self._lanes[lane].life
        player, port, tail = self._player(lane), life.link.port, ""
        if self.is_editor and self._is_ready:
            self._leave_editor(lane, why)
            return
        life.stage = "gone"
        life.link.close()
        if life.process is not None:
            life.process.close(0.0)
            tail = f"\n{life.process.tail()}"
        if not self._is_ready:
            raise EnvError(f"{player} {why}{tail}")
        self.counters[CAUSES[how]] = self.counters.get(CAUSES[how], 0) + 1
        one.is_lost = True
        self._count_restart(one, f"{player} {why}", tail)
        self._say(f"{player} {why}; another takes its place")
        one.life = self._start(lane, port)

    def _leave_editor(self, lane: int, why: str) -> None:
        """Waits for Play in the Editor, on the port that is still open."""
        one, life = self._lanes[lane], self._lanes[lane].life
        if life.stage == "connecting":
            return
        self.counters[CAUSES["closed"]] = self.counters.get(CAUSES["closed"], 0) + 1
        one.is_lost = True
        one.life, one.is_due = _Life(life.link, life.number, None), True
        self._say(f"{self._player(lane)} {why}; press Play to continue")

    def _count_restart(self, one: _Lane, what: str, tail: str) -> None:
        """Counts the replacement of a lane's player; raises an error if no more are allowed."""
        settings, now = self.settings, time.monotonic()
        one.restarts.append(now)
        recent = [then for then in one.restarts if now - then < settings.restarts_rate_limit_period_s]
        if 0 <= settings.max_lifetime_restarts < len(one.restarts):
            raise EnvError(
                f"{what}; it was replaced {len(one.restarts) - 1} times already, and max_lifetime_restarts = "
                f"{settings.max_lifetime_restarts}{tail}"
            )
        if 0 <= settings.restarts_rate_limit_n < len(recent):
            raise EnvError(
                f"{what}; that is {len(recent)} times within {settings.restarts_rate_limit_period_s:g} seconds, and "
                f"restarts_rate_limit_n = {settings.restarts_rate_limit_n} (-1 = any number){tail}"
            )

    # -- messages to players -------------------------------------------------------------------------------------------

    def _mail(self, lane: int) -> list[Message]:
        """Takes the messages of custom side channels to a player."""
        return [(own.id, message) for own in self._channels for message in own.take(lane)]

    def _parameters(self, lane: int, episode: int) -> list[Message]:
        """Returns the messages about parameters that have changed since they were last sent to a player.

        Args:
            lane: The player.
            episode: Episode that begins next.
        """
        plan, sent = self._plan, self._lanes[lane].life.sent_parameters
        mail: list[Message] = []
        wanted: dict[str, Value | Sampler] = dict(parameters_of(plan, lane, episode))
        if isinstance(plan, EpisodePlan):
            wanted |= plan.samplers(lane, episode)
        for name, value in wanted.items():
            if not isinstance(value, Sampler) and not is_number(value):
                raise EnvError(f"env.parameters.{name} = {value!r}: is not a number; Unity players take only numbers")
            if name not in sent or sent[name] != value:
                sent[name] = value
                mail.append(self._parameter_message(name, value, lane, episode))
        return mail

    def _parameter_message(self, name: str, value: Value | Sampler, lane: int, episode: int) -> Message:
        """Returns the message of a parameter."""
        if not isinstance(value, Sampler):
            return parameter(name, float(value))
        assert isinstance(self._plan, EpisodePlan)
        return parameter(name, replace(value, seed=self._plan.sampler_seed(lane, episode, name) % SEEDS))

    # -- as copies -----------------------------------------------------------------------------------------------------

    def begin(self, lane: int, episode: int, plan: SeedPlan) -> None:
        """Restarts a player's episode; see `Copies.begin`. A player that has just begun is left unchanged if it has all
        parameters.
        """
        one, life = self._lanes[lane], self._lanes[lane].life
        self._plan, one.episode, one.is_lost, one.is_due = plan, episode, False, True
        if life.stage == "asking" and life.is_fresh:
            sent = dict(life.sent_parameters)
            if not self._parameters(lane, episode):
                return
            life.sent_parameters = sent
        if life.stage in ("asking", "shown"):
            self._let_begin(lane)
        elif life.stage in ("playing", "beginning"):
            life.must_begin = True

    def replan(self, plan: SeedPlan) -> None:
        """Sends players changed parameters with their next answers; see `Copies.replan`."""
        self._plan = plan
        for one in self._lanes:
            one.is_due = True

    def step_messages(self, seconds: float) -> list[StepMessage]:
        """Returns the messages of players; see `Copies.step_messages`."""
        deadline = time.monotonic() + seconds
        while True:
            self._receive(max(0.0, deadline - time.monotonic()))
            found = [self._arrival(lane) for lane, one in enumerate(self._lanes) if one.life.stage == "asking"]
            if found or time.monotonic() >= deadline:
                return found

    def _arrival(self, lane: int) -> StepMessage:
        one, life = self._lanes[lane], self._lanes[lane].life
        assert life.output is not None
        output, life.output, life.stage = life.output, None, "shown"
        life.is_fresh = False
        arrival = StepMessage(lane, output.asking, {} if life.is_first else output.ended, lost=one.is_lost)
        one.is_lost = False
        return arrival

    def answer(self, lane: int, episode: int, answers: Mapping[str, Answer]) -> None:
        """Answers a player; see `Copies.answer`. Does nothing if the player is gone."""
        one, life = self._lanes[lane], self._lanes[lane].life
        if life.stage != "shown":
            return
        mail: list[Message] = []
        if one.is_due or one.episode != episode:
            mail = self._parameters(lane, episode + 1)  # an episode begins in the player before we hear of it
        one.episode, one.is_due = episode, False
        if self._channels:
            mail += self._mail(lane)
        life.stage, life.since = "playing", time.monotonic()
        life.link.answer(answers, pack(mail) if mail else b"")

    def close(self) -> None:
        """Ends the players."""
        if self._is_closed:
            return
        self._is_closed = True
        living = [one.life for one in self._lanes if one.life.stage != "gone"]
        for life in living:
            life.link.quit()
        until = time.monotonic() + FAREWELL
        for life in living:
            if life.process is not None:
                life.process.close(max(0.0, until - time.monotonic()))
        for life in living:
            life.link.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def settings_from(given: Mapping[str, Any]) -> PlayerSettings:
    """Returns the settings of players from arguments."""
    args = given.get("args", ())
    if isinstance(args, str) or not all(isinstance(word, str) for word in args):
        raise EnvError(f"env.config.args = {args!r}: must be a list of words, as in [--level, '3']")
    return PlayerSettings(**{**given, "args": tuple(args)})
