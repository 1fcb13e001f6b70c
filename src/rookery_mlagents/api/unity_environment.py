"""`UnityEnvironment`: a Unity player or the Editor, driven step by step by a script, over Rookery's link to players."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.face import Answer, EnvError
from rookery_mlagents.api.base_env import BaseEnv
from rookery_mlagents.api.exceptions import (
    UnityActionException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from rookery_mlagents.api.loggers import get_logger
from rookery_mlagents.api.player_steps import answer_of, decision_steps, spec_of, terminal_steps
from rookery_mlagents.api.side_channels import SideChannel, SideChannelManager
from rookery_mlagents.api.specs import ActionTuple, BehaviorMapping, BehaviorSpec
from rookery_mlagents.api.steps import DecisionSteps, TerminalSteps
from rookery_mlagents.link.grpc_server import Closed, Greeting, Hello, Mailbox, Output, PlayerLink, PlayerMessage
from rookery_mlagents.link.layouts import BehaviorLayout
from rookery_mlagents.link.player_program import PlayerProcess, find_player

LOOK = 0.25
"""Seconds between two checks that the player still runs."""

NO_DECISIONS = (
    "is connected, and no agent has asked for a decision: give each agent a Decision Requester, or call "
    "RequestDecision, and set its Behavior Type to Default"
)
"""Error message for a player that is connected but sends no message."""


class UnityEnvironment(BaseEnv):
    """A player of a Unity game, or the Editor; waits until it connects.

    The log of a player is ``Player-WORKER.log`` in `log_folder` (None: a temporary one).

    Raises:
        UnityEnvironmentException: If there is no such player, it ends, or its version cannot be used.
        UnityWorkerInUseException: If the port is taken.
        UnityTimeOutException: If it does not connect in `timeout_wait` seconds.
    """

    API_VERSION = "1.5.0"
    DEFAULT_EDITOR_PORT = 5004
    BASE_ENVIRONMENT_PORT = 5005

    def __init__(
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        no_graphics_monitor: bool = False,
        timeout_wait: int = 60,
        additional_args: list[str] | None = None,
        side_channels: list[SideChannel] | None = None,
        log_folder: str | None = None,
        num_areas: int = 1,
    ) -> None:
        if file_name is None and worker_id != 0:
            raise UnityEnvironmentException(
                f"worker_id = {worker_id} and no file_name: the Editor is one, with worker_id 0; name a player"
            )
        if base_port is None:
            base_port = self.BASE_ENVIRONMENT_PORT if file_name else self.DEFAULT_EDITOR_PORT
        self._port, self._timeout, self._file = base_port + worker_id, timeout_wait, file_name
        self._side_channel_manager = SideChannelManager(side_channels)
        self._layouts: dict[str, BehaviorLayout] = {}
        self._env_specs: dict[str, BehaviorSpec] = {}
        self._env_state: dict[str, tuple[DecisionSteps, TerminalSteps]] = {}
        self._env_actions: dict[str, ActionTuple] = {}
        self._is_first_message, self._loaded = True, False
        self._process: PlayerProcess | None = None
        self._temporary: str | None = None
        self.academy_capabilities: Any = None
        try:
            program = None if file_name is None else find_player(file_name)
        except EnvError as error:
            raise UnityEnvironmentException(str(error)) from None
        hello = Hello(communication_version=self.API_VERSION, seed=seed, num_areas=num_areas)
        self._mailbox = Mailbox()
        self._unread: deque[PlayerMessage] = deque()
        try:
            self._link = PlayerLink(0, self._mailbox, self._port, hello)
        except EnvError as error:
            raise UnityWorkerInUseException(worker_id) from error
        atexit.register(self._close)
        try:
            if program is None:
                get_logger(__name__).warning("waiting for the Unity Editor on port %d: press Play there", self._port)
            else:
                quiet = no_graphics or (no_graphics_monitor and worker_id != 0)
                self._start(program, quiet, list(additional_args or ()), log_folder, worker_id)
            self._wait_for_connection()
        except BaseException:
            self._close(0.0)
            raise
        self._loaded = True

    def _start(self, program: Path, quiet: bool, more: list[str], folder: str | None, worker: int) -> None:
        """Starts the player."""
        arguments = ["-nographics", "-batchmode"] if quiet else []
        arguments += ["--mlagents-port", str(self._port)]
        if folder is None:
            folder = self._temporary = tempfile.mkdtemp(prefix="rookery-player-")
        try:
            self._process = PlayerProcess(program, arguments, Path(folder) / f"Player-{worker}.log", more)
        except EnvError as error:
            raise UnityEnvironmentException(str(error)) from None

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait_for_connection(self) -> None:
        """Waits until the player has connected, and is ready to begin."""
        until = time.monotonic() + self._timeout
        greeting = self._wait(until, "has not connected: is it a game with ML-Agents and an agent in it, of this port?")
        if isinstance(greeting, Greeting):
            self.academy_capabilities = greeting.capabilities
            get_logger(__name__).info(
                "connected to %s: package %s, API %s",
                self._name(),
                greeting.package_version,
                greeting.communication_version,
            )
            self._wait(until, NO_DECISIONS)

    def _wait(self, until: float, otherwise: str) -> Greeting | Output:
        """Waits for the next message of the player.

        Args:
            until: When to give up, of the monotonic clock.
            otherwise: Description of the player's state if no message arrives.

        Raises:
            UnityTimeOutException: If nothing comes in time.
            UnityEnvironmentException: If the player has ended, or its version cannot be used.
            UnityCommunicatorStoppedException: If it has said goodbye.
        """
        while True:
            left = until - time.monotonic()
            if not self._unread:
                self._unread.extend(message for _, message in self._mailbox.take(max(min(left, LOOK), 0.0)))
            while self._unread:
                message = self._unread.popleft()
                if not isinstance(message, Closed):
                    return message
                if message.refused:
                    raise UnityEnvironmentException(f"{self._name()}: {message.reason}")
                if self._process is not None:
                    self._process.wait(1.0)
                if self._process is None or not self._process.failed():
                    raise UnityCommunicatorStoppedException(f"{self._name()}: {message.reason}")
            if self._process is not None and self._process.has_ended():
                raise UnityEnvironmentException(
                    f"{self._name()}: the player {self._process.end()}; {self._process.tail()}"
                )
            if left <= 0:
                problem = f"{self._name()} {otherwise} ({self._timeout:g} seconds: timeout_wait)"
                raise UnityTimeOutException(f"{problem}; {self._process.tail()}" if self._process else problem)

    def _name(self) -> str:
        return f"{self._file or 'the Unity Editor'} on port {self._port}"

    def _exchange(self, answers: Mapping[str, Answer], reset: bool) -> None:
        """Answers the player, and processes its next message."""
        if not self._loaded:
            raise UnityEnvironmentException(f"{self._name()}: is closed")
        side_channel = bytes(self._side_channel_manager.generate_side_channel_messages())
        self._link.answer(answers, side_channel, reset=reset)
        reply = self._wait(time.monotonic() + self._timeout, NO_DECISIONS if reset else "has not answered")
        self._env_actions.clear()
        if isinstance(reply, Greeting) or reply.first:
            raise UnityCommunicatorStoppedException(
                f"{self._name()}: another player has taken the place of the one that was there; open a new environment"
            )
        self._take_in(reply)

    def _take_in(self, output: Output) -> None:
        """Sets the steps from a message of the player."""
        for name, layout in output.new.items():
            self._layouts[name], self._env_specs[name] = layout, spec_of(layout)
        for name, layout in self._layouts.items():
            spec, asking, ended = self._env_specs[name], output.asking.get(name), output.ended.get(name)
            self._env_state[name] = (
                DecisionSteps.empty(spec) if asking is None else decision_steps(layout, asking),
                TerminalSteps.empty(spec) if ended is None else terminal_steps(layout, ended),
            )
        self._side_channel_manager.process_side_channel_message(output.side_channel)

    # -- as BaseEnv ----------------------------------------------------------------------------------------------------

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours that have had an agent so far, by name; none before the first `reset` or `step`."""
        return BehaviorMapping(self._env_specs)

    def reset(self) -> None:
        """Resets the game; raises a UnityException if the player ends, says goodbye or does not answer in time."""
        self._exchange({}, reset=True)
        self._is_first_message = False

    def step(self) -> None:
        """Sends the actions that were set (zeros for agents without one), and waits until an agent requests an action
        or ends; the first call does the same as `reset`.
        """
        if self._is_first_message:
            self.reset()
            return
        answers = {}
        for name, (decisions, _) in self._env_state.items():
            if len(decisions):
                actions = self._env_actions.get(name) or self._env_specs[name].action_spec.empty_action(len(decisions))
                answers[name] = answer_of(self._layouts[name], decisions.agent_id, actions)
        self._exchange(answers, reset=False)

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        spec, decisions = self._spec(behavior_name), self._env_state[behavior_name][0]
        self._env_actions[behavior_name] = spec._validate_action(action, len(decisions), behavior_name)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Sets the action of one agent; other agents of its behaviour without an action use zeros."""
        spec, decisions = self._spec(behavior_name), self._env_state[behavior_name][0]
        action = spec._validate_action(action, 1, behavior_name)
        rows = np.flatnonzero(decisions.agent_id == agent_id)
        if not len(rows):
            here = ", ".join(map(str, decisions.agent_id.tolist())) or "nobody"
            raise IndexError(f"agent {agent_id} of {behavior_name} asks for no action; there ask: {here}")
        given = self._env_actions.setdefault(behavior_name, spec.empty_action(len(decisions)))
        if spec.continuous_size:
            given.continuous[rows[0]] = action.continuous[0]
        if spec.discrete_size:
            given.discrete[rows[0]] = action.discrete[0]

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        self._spec(behavior_name)
        return self._env_state[behavior_name]

    def _spec(self, behavior: str) -> Any:
        if behavior not in self._env_specs:
            here: Sequence[str] = list(self._env_specs)
            known = f"there are: {', '.join(here)}" if here else "none is known before the first reset() or step()"
            raise UnityActionException(f"there is no behaviour {behavior!r}; {known}")
        return self._env_specs[behavior].action_spec

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Makes the player quit, and frees the port; a second call does nothing."""
        self._close()

    def _close(self, patience: float | None = None) -> None:
        self._loaded = False
        atexit.unregister(self._close)
        self._link.close()
        if self._process is not None:
            self._process.close(min(self._timeout, 10.0) if patience is None else patience)
            self._process = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
